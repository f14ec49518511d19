/* SPDX-License-Identifier: MIT */
/*
 * Tests preemption of Gs that compute in libc, and in every callback that gmp runs on a G: others
 * run meanwhile, and the results are right.
 */
#define _GNU_SOURCE 1
#include "preempt_util.h"

#include <netdb.h>
#include <regex.h>

/* A G that repeats a step for COMPUTE_NS. */
struct hog {
	unsigned number;
	uint64_t random, steps;
	void (*step)(struct hog *h);
};

static unsigned draw(struct hog *h, unsigned n)
{
	h->random = crunch(h->random, 1);
	return (unsigned)(h->random >> 33) % n;
}

/* The steps may change errno, and nothing else of the OS thread. */
static void repeat_step(void *arg)
{
	struct hog *h = arg;
	struct place here = place_mark(h->number);

	for (int64_t end = compute_end(); cpu_ns() < end; h->steps++)
		h->step(h);
	*errno_here() = here.error;
	place_check(&here);
}

static struct hog hogs[PROCS_MOST];

static void hogs_init(void (*step)(struct hog *h))
{
	for (unsigned i = 0; i < PROCS_MOST; i++)
		hogs[i] = (struct hog){ i + 1, i + 1, 0, step };
}

static uint64_t run_steps(int procs, void (*step)(struct hog *h))
{
	uint64_t sum = 0;

	hogs_init(step);
	run_hogs(procs, repeat_step, hogs, sizeof(hogs[0]));
	CHECK(stats().preemptions > 0);
	for (int i = 0; i < procs; i++) {
		CHECK(hogs[i].steps > 0);
		sum += hogs[i].steps;
	}
	return sum;
}

/* --- libc --- */

static void allocate_and_free(struct hog *h)
{
	unsigned char *block[16];
	size_t size[16];

	for (int i = 0; i < 16; i++) {
		size[i] = 1 + draw(h, draw(h, 8) ? 400 : 200000);
		CHECK((block[i] = malloc(size[i])) != NULL);
		memset(block[i], (int)h->number + i, size[i]);
	}
	for (int i = 0; i < 16; i++) {
		for (size_t k = 0; k < size[i]; k += 97)
			CHECK_EQ(block[i][k], h->number + (unsigned)i);
		free(block[i]);
	}
}

RT(malloc_hogs_are_preempted)
{
	run_steps(procs, allocate_and_free);
}

static FILE *out;

/* All hogs share the lock of the stream. */
static void print_line(struct hog *h)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%u %.3f", h->number, (double)h->number / 8);

	CHECK(n > 0 && atoi(text) == (int)h->number);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(fprintf(out, "%s\n", text), n + 1);
}

RT(printf_hogs_are_preempted)
{
	CHECK((out = fopen("/dev/null", "we")) != NULL);
	run_steps(procs, print_line);
	fclose(out);
}

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static void sort_numbers(struct hog *h)
{
	int numbers[1000];
	long sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += numbers[i] = (int)draw(h, 100000);
	qsort(numbers, 1000, sizeof(numbers[0]), compare_ints);
	for (int i = 0; i < 1000; i++) {
		CHECK(i == 0 || numbers[i - 1] <= numbers[i]);
		sum -= numbers[i];
	}
	CHECK_EQ(sum, 0);
}

RT(qsort_hogs_are_preempted)
{
	run_steps(procs, sort_numbers);
}

static void read_number(struct hog *h)
{
	unsigned n = draw(h, 1000000);
	char text[40], *end;

	snprintf(text, sizeof(text), "%u.25e2x", n);
	for (int i = 0; i < 20; i++) {
		CHECK(strtod(text, &end) == 100.0 * n + 25);
		CHECK_EQ(*end, 'x');
	}
}

RT(strtod_hogs_are_preempted)
{
	run_steps(procs, read_number);
}

static void match_pattern(struct hog *h)
{
	regmatch_t at[2];
	regex_t re;
	char text[64];

	CHECK_EQ(regcomp(&re, "^[a-z]+=(([0-9]+)\\.)*([0-9]{1,4})$", REG_EXTENDED), 0);
	snprintf(text, sizeof(text), "key=%u.%u.%u", h->number, draw(h, 1000), draw(h, 1000));
	CHECK_EQ(regexec(&re, text, 2, at, 0), 0);
	CHECK_EQ(at[0].rm_eo, strlen(text));
	CHECK_EQ(regexec(&re, "key=", 2, at, 0), REG_NOMATCH);
	regfree(&re);
}

RT(regcomp_hogs_are_preempted)
{
	run_steps(procs, match_pattern);
}

static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t counter; /* not atomic: under counter_lock */

static void count_locked(struct hog *h)
{
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&counter_lock);
		counter++;
		h->random = crunch(h->random, 100);
		pthread_mutex_unlock(&counter_lock);
	}
}

/* It holds no wait of gmp: a holder whose P was taken continues on its own OS thread. */
RT(pthread_mutex_hogs_are_preempted)
{
	uint64_t steps = run_steps(procs, count_locked);

	CHECK_EQ(counter, 10 * steps);
}

static void resolve_number(UNUSED struct hog *h)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *res = NULL;

	CHECK_EQ(getaddrinfo("127.0.0.1", "80", &hints, &res), 0);
	CHECK(res != NULL && res->ai_family == AF_INET && res->ai_next == NULL);
	freeaddrinfo(res);
}

RT(getaddrinfo_hogs_are_preempted)
{
	run_steps(procs, resolve_number);
}

static void open_and_read(UNUSED struct hog *h)
{
	char text[64];
	FILE *f = fopen("/proc/self/stat", "re");

	CHECK(f != NULL && fgets(text, sizeof(text), f) != NULL);
	CHECK_EQ(atoi(text), getpid());
	fclose(f);
}

RT(system_call_hogs_are_preempted)
{
	run_steps(procs, open_and_read);
}

/* --- callbacks --- */

static void crunch_step(struct hog *h)
{
	h->random = crunch(h->random, 100000);
}

/* body starts a callback that computes on each P, and waits for all of them. */
static void run_callbacks(int procs, void (*body)(int procs, void *arg))
{
	hogs_init(crunch_step);
	run_beside_ticker(procs, cpu_ns, body, NULL);
	for (int i = 0; i < procs; i++)
		CHECK(hogs[i].steps > 0);
	CHECK(stats().preemptions > 0);
}

static gmp_once onces[PROCS_MOST];

static void call_once(void *arg)
{
	CHECK_EQ(gmp_once_do(&onces[(struct hog *)arg - hogs], repeat_step, arg), 0);
}

static void call_onces(int procs, UNUSED void *arg)
{
	memset(onces, 0, sizeof(onces));
	run_gs(call_once, hogs, sizeof(hogs[0]), procs);
}

RT(once_function_that_computes_is_preempted)
{
	run_callbacks(procs, call_onces);
}

static void run_tasks(int procs, UNUSED void *arg)
{
	gmp_pool *pool = gmp_pool_new(0, NULL);

	CHECK(pool != NULL);
	for (int i = 0; i < procs; i++)
		CHECK_EQ(gmp_pool_submit(pool, repeat_step, &hogs[i]), 0);
	CHECK_EQ(gmp_pool_release(pool, gmp_deadline(PATIENCE)), 0);
	gmp_pool_free(pool);
}

RT(pool_task_that_computes_is_preempted)
{
	run_callbacks(procs, run_tasks);
}

static atomic_int expired;

static void expire(void *arg)
{
	repeat_step(arg);
	atomic_fetch_add(&expired, 1);
}

static void run_timers(int procs, UNUSED void *arg)
{
	gmp_timer *timers[PROCS_MOST];

	atomic_store(&expired, 0);
	for (int i = 0; i < procs; i++) {
		CHECK((timers[i] = gmp_timer_new(expire, &hogs[i])) != NULL);
		CHECK_EQ(gmp_timer_set(timers[i], gmp_deadline(MS), 0), 0);
	}
	while (atomic_load(&expired) < procs)
		CHECK_EQ(gmp_sleep(5 * MS), 0);
	for (int i = 0; i < procs; i++)
		gmp_timer_free(timers[i]);
}

RT(timer_function_that_computes_is_preempted)
{
	run_callbacks(procs, run_timers);
}

static gmp_key key;

static void set_value(void *arg)
{
	CHECK_EQ(gmp_key_set(key, arg), 0);
}

static void run_destructors(int procs, UNUSED void *arg)
{
	run_gs(set_value, hogs, sizeof(hogs[0]), procs);
}

RT(key_destructor_that_computes_is_preempted)
{
	CHECK_EQ(gmp_key_create(&key, repeat_step), 0);
	run_callbacks(procs, run_destructors);
	CHECK_EQ(gmp_key_delete(key), 0);
}

static int child(void *arg)
{
	repeat_step(arg);
	return 0;
}

static void run_group(int procs, UNUSED void *arg)
{
	gmp_group *group = gmp_group_new(0, GMP_FOREVER);

	CHECK(group != NULL);
	for (int i = 0; i < procs; i++)
		CHECK_EQ(gmp_group_go(group, child, &hogs[i]), 0);
	CHECK_EQ(gmp_group_wait(group), 0);
	gmp_group_free(group);
}

RT(group_child_that_computes_is_preempted)
{
	run_callbacks(procs, run_group);
}

static gmp_singleflight *flights;

static int compute_value(void *arg, void *value)
{
	struct hog *h = arg;

	repeat_step(h);
	*(unsigned *)value = h->number;
	return 0;
}

static void fly(void *arg)
{
	struct hog *h = arg;
	unsigned value = 0;

	CHECK_EQ(gmp_singleflight_do(flights, &h->number, sizeof(h->number), compute_value, h,
				     &value, NULL),
		 0);
	CHECK_EQ(value, h->number);
}

static void run_flights(int procs, UNUSED void *arg)
{
	run_gs(fly, hogs, sizeof(hogs[0]), procs);
}

RT(singleflight_function_that_computes_is_preempted)
{
	CHECK((flights = gmp_singleflight_new(sizeof(unsigned))) != NULL);
	run_callbacks(procs, run_flights);
	gmp_singleflight_free(flights);
}
