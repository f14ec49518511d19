/* SPDX-License-Identifier: MIT */
/* Tests name lookup with a resolver that answers, fails or stays silent as each case asks. */
#define _GNU_SOURCE 1
#include "io/io_util.h"

#include <dlfcn.h>
#include <netdb.h>

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static atomic_int silent;               /* while set, names that begin with "silent" block */
static atomic_int asked, inside;        /* lookups of ".test" names: begun, running */
static atomic_int most_inside, leaving; /* leaving: the run is about to end */

/* Replaces libc's getaddrinfo, and answers names that end in ".test" itself. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **res)
{
	resolver real = (resolver)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
	size_t n = host ? strlen(host) : 0;

	if (n < 5 || strcmp(host + n - 5, ".test") != 0)
		return real(host, service, hints, res);
	CHECK(gmp_self() == NULL); /* in blocking code */
	int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);

	while (most < now && !atomic_compare_exchange_weak(&most_inside, &most, now))
		;
	atomic_fetch_add(&asked, 1);
	while (strncmp(host, "silent", 6) == 0 && atomic_load(&silent))
		usleep(200);
	atomic_fetch_sub(&inside, 1);
	if (strncmp(host, "none", 4) == 0)
		return EAI_NONAME;
	return real("127.0.0.1", service, hints, res);
}

static void reset(void)
{
	atomic_store(&silent, 0);
	atomic_store(&asked, 0);
	atomic_store(&most_inside, 0);
	atomic_store(&leaving, 0);
}

static struct addrinfo stream = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };

static void check_answer(struct addrinfo *a, unsigned port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)a->ai_addr;

	CHECK_EQ(a->ai_family, AF_INET);
	CHECK_EQ(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	CHECK_EQ(ntohs(in->sin_port), port);
	freeaddrinfo(a);
}

static void look_up_some(UNUSED void *arg)
{
	struct addrinfo *a = NULL;

	CHECK_EQ(gmp_getaddrinfo("a.test", "80", &stream, &a), 0);
	check_answer(a, 80);
	CHECK_EQ(gmp_getaddrinfo_until("b.test", NULL, &stream, &a, gmp_deadline(PATIENCE)), 0);
	check_answer(a, 0);
	CHECK_EQ(gmp_getaddrinfo("localhost", "80", &stream, &a), 0);
	check_answer(a, 80);
	a = NULL;
	CHECK_EQ(gmp_getaddrinfo("none.test", "80", &stream, &a), EAI_NONAME);
	CHECK_EQ(gmp_getaddrinfo("none.test", "80", NULL, &a), EAI_NONAME);
	CHECK(a == NULL);
}

RT(lookup_returns_0_or_error_of_getaddrinfo)
{
	struct addrinfo bad = { .ai_family = 9999 }, *a;
	struct ext_thread f;
	gmp_g *g = spawn(look_up_some, NULL);

	look_up_some(NULL);
	ext_thread_start(&f, look_up_some, NULL);
	ext_thread_join(&f);
	join(g);
	CHECK_EQ(gmp_getaddrinfo("c.test", NULL, &bad, &a), EAI_FAMILY);
	CHECK_EQ(gmp_getaddrinfo(NULL, NULL, NULL, &a), EAI_NONAME);
	CHECK_EQ(gmp_getaddrinfo(NULL, "no-such-service", &stream, &a), EAI_SERVICE);
	CHECK_EQ(gmp_getaddrinfo("c.test", NULL, NULL, NULL), EAI_NONAME);
}

static void look_up_numbers(UNUSED void *arg)
{
	struct addrinfo *a, six = { .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM };
	struct addrinfo passive = stream;
#ifdef __GLIBC__
	const int other_family = EAI_ADDRFAMILY;
#else
	const int other_family = EAI_NONAME; /* musl 1.2.3 */
#endif

	for (int64_t deadline = 0; deadline == 0 || deadline == GMP_FOREVER;
	     deadline += GMP_FOREVER / 2 + 1) {
		CHECK_EQ(gmp_getaddrinfo_until("127.0.0.1", "443", &stream, &a, deadline), 0);
		check_answer(a, 443);
		CHECK_EQ(gmp_getaddrinfo_until(NULL, "7", &stream, &a, deadline), 0);
		check_answer(a, 7);
		CHECK_EQ(gmp_getaddrinfo_until("::1", NULL, &six, &a, deadline), 0);
		CHECK_EQ(a->ai_family, AF_INET6);
		freeaddrinfo(a);
		CHECK_EQ(gmp_getaddrinfo_until("::1", NULL, &stream, &a, deadline), other_family);
	}
	passive.ai_flags = AI_PASSIVE;
	CHECK_EQ(gmp_getaddrinfo(NULL, "7", &passive, &a), 0);
	CHECK_EQ(((struct sockaddr_in *)(void *)a->ai_addr)->sin_addr.s_addr, INADDR_ANY);
	freeaddrinfo(a);
}

RT(lookup_of_numeric_host_spawns_nothing_on_small_stack)
{
	gmp_attr attr = GMP_ATTR_INIT;
	uint64_t spawns = stats().spawns;
	struct ext_thread f;
	gmp_g *g;

	look_up_numbers(NULL);
	ext_thread_start(&f, look_up_numbers, NULL);
	ext_thread_join(&f);
	CHECK_EQ(stats().spawns, spawns);
	attr.stack_size = SLOW ? 65536 : 16384;
	CHECK_EQ(gmp_spawn(&g, look_up_numbers, NULL, &attr), 0);
	join(g);
}

RT(lookup_of_name_works_on_16_kib_stack)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	attr.stack_size = 16384;
	CHECK_EQ(gmp_spawn(&g, look_up_some, NULL, &attr), 0);
	join(g);
}

static void look_up_silent(void *arg)
{
	struct addrinfo *a = NULL;
	int err = gmp_getaddrinfo_until("silent.test", "80", &stream, &a, *(int64_t *)arg);

	CHECK_EQ(err, EAI_AGAIN);
	CHECK(a == NULL);
}

static void wait_for_no_lookup(void)
{
	atomic_store(&silent, 0);
	WAIT_FOR(atomic_load(&inside) == 0 && stats().greens == 1);
}

RT(lookup_with_silent_resolver_ends_at_deadline)
{
	int64_t past = 0, began = gmp_now(), soon = gmp_deadline(20 * MS);
	struct ext_thread f;
	gmp_g *g[5];

	reset();
	atomic_store(&silent, 1);
	look_up_silent(&past);
	CHECK_EQ(atomic_load(&asked), 0);
	for (int i = 0; i < 5; i++)
		g[i] = spawn(look_up_silent, &soon);
	ext_thread_start(&f, look_up_silent, &soon);
	look_up_silent(&soon);
	for (int i = 0; i < 5; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK(gmp_now() >= soon);
	CHECK(gmp_now() - began < 5 * SEC);
	/* The lookups continue and free their results; one may not have begun yet. */
	WAIT_FOR(atomic_load(&inside) == atomic_load(&asked));
	wait_for_no_lookup();
}

static atomic_int code;

static void look_up_till_cancelled(UNUSED void *arg)
{
	struct addrinfo *a = NULL;

	atomic_store(&code, gmp_getaddrinfo("silent.test", "80", &stream, &a));
	CHECK(a == NULL);
	/* Later lookups fail at once; numeric hosts need no wait. */
	CHECK_EQ(gmp_getaddrinfo("silent.test", "80", &stream, &a), EAI_CANCELED);
	CHECK_EQ(gmp_getaddrinfo("127.0.0.1", "80", &stream, &a), 0);
	check_answer(a, 80);
}

RT(lookup_cancelled_returns_while_resolver_continues)
{
	gmp_g *g;

	reset();
	atomic_store(&silent, 1);
	g = spawn(look_up_till_cancelled, NULL);
	WAIT_FOR(atomic_load(&asked) == 1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(atomic_load(&code), EAI_CANCELED);
	CHECK_EQ(atomic_load(&inside), 1);
	CHECK_EQ(atomic_load(&asked), 1);
	wait_for_no_lookup();
}

static void dial_by_name(UNUSED void *arg)
{
	char addr[64], name[80];
	int l = gmp_listen("tcp4", "here.test:0"), c, s;

	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	CHECK(strncmp(addr, "127.0.0.1:", 10) == 0);
	snprintf(name, sizeof(name), "some-host.test:%s", addr + 10);
	c = gmp_dial("tcp", name);
	CHECK(c >= 0);
	s = gmp_accept(l);
	say(c, "by name");
	hear(s, "by name");
	close_pair(c, s);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(gmp_dial("tcp", name), -ECONNREFUSED);
	CHECK_EQ(gmp_dial("tcp", "none.test:80"), -ENOENT);
	CHECK_EQ(gmp_listen("tcp", "none.test:80"), -ENOENT);
	CHECK_EQ(gmp_dial_until("tcp", name, 0), -ETIMEDOUT);
}

RT(dial_and_listen_accept_host_names)
{
	struct ext_thread f;

	reset();
	dial_by_name(NULL);
	ext_thread_start(&f, dial_by_name, NULL);
	ext_thread_join(&f);
	CHECK_EQ(stats().descriptors, 0);
	atomic_store(&silent, 1);
	CHECK_EQ(gmp_dial_until("tcp", "silent.test:80", gmp_deadline(5 * MS)), -ETIMEDOUT);
	wait_for_no_lookup();
}

static void dial_till_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_dial("tcp", "silent.test:80"), -ECANCELED);
}

RT(dial_cancelled_during_lookup_returns_ecanceled)
{
	gmp_g *g;

	reset();
	atomic_store(&silent, 1);
	g = spawn(dial_till_cancelled, NULL);
	WAIT_FOR(atomic_load(&inside) == 1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	wait_for_no_lookup();
}

static atomic_int answered;

static void look_up_in_crowd(UNUSED void *arg)
{
	struct addrinfo *a = NULL;

	CHECK_EQ(gmp_getaddrinfo("silent.test", "80", &stream, &a), 0);
	check_answer(a, 80);
	atomic_fetch_add(&answered, 1);
}

static void crowd(UNUSED void *arg)
{
	enum { N = 30 };
	int64_t soon = gmp_deadline(30 * MS);
	struct ext_thread f;
	gmp_g *g[N];

	reset();
	atomic_store(&answered, 0);
	atomic_store(&silent, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(look_up_in_crowd, NULL);
	WAIT_FOR(atomic_load(&asked) == 4);
	look_up_silent(&soon); /* times out also while it is queued */
	ext_thread_start(&f, look_up_in_crowd, NULL);
	CHECK_EQ(atomic_load(&inside), 4);
	CHECK_EQ(atomic_load(&asked), 4);
	for (int i = 0; i < 4; i++) /* threads are left for blocking code */
		CHECK_EQ(gmp_blocking(usleep(12000)), 0);
	atomic_store(&silent, 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&answered), N + 1);
	CHECK_EQ(atomic_load(&most_inside), 4);
}

TEST_PROCS(lookups_use_at_most_half_of_max_threads)
{
	for (int i = 0; i < 3; i++)
		run_bounded(procs, 8, crowd, NULL);
}

static void alone(UNUSED void *arg)
{
	look_up_some(NULL);
}

TEST(lookup_with_max_threads_1_works)
{
	run_bounded(1, 1, alone, NULL);
}

static void look_up_until_timeout(UNUSED void *arg)
{
	struct addrinfo *a = NULL;

	if (gmp_getaddrinfo_until("silent.test", "80", &stream, &a, gmp_deadline(5 * MS)) == 0)
		check_answer(a, 80);
}

static void leave_lookups(UNUSED void *arg)
{
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(gmp_go(look_up_in_crowd, NULL), 0);
		CHECK_EQ(gmp_go(look_up_until_timeout, NULL), 0);
	}
	WAIT_FOR(atomic_load(&inside) >= 3);
	gmp_sleep(6 * MS);
	atomic_store(&leaving, 1);
}

static void answer_later(UNUSED void *arg)
{
	while (!atomic_load(&leaving) || gmp_procs() > 0) /* until the run ends */
		usleep(1000);
	usleep(20000);
	atomic_store(&silent, 0);
}

/* A sanitizer reports a leak of the lookups' memory. */
TEST_PROCS(lookup_running_at_shutdown_is_awaited_and_freed)
{
	for (int i = 0; i < 3; i++) {
		struct ext_thread f;

		reset();
		atomic_store(&silent, 1);
		ext_thread_start(&f, answer_later, NULL);
		run_procs(procs, leave_lookups, NULL);
		CHECK_EQ(atomic_load(&inside), 0);
		CHECK_EQ(pthread_join(f.thread, NULL), 0);
	}
}

static void leave_crowd(UNUSED void *arg)
{
	for (int i = 0; i < 12; i++)
		CHECK_EQ(gmp_go(look_up_in_crowd, NULL), 0);
	WAIT_FOR(atomic_load(&inside) == 4);
	wait_parked(12);
	atomic_store(&leaving, 1);
}

/* A sanitizer reports a leak of the queued lookups. */
TEST_PROCS(lookup_queued_at_shutdown_is_freed)
{
	struct ext_thread f;

	reset();
	atomic_store(&silent, 1);
	ext_thread_start(&f, answer_later, NULL);
	run_bounded(procs, 8, leave_crowd, NULL);
	CHECK_EQ(atomic_load(&asked), 4);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
}

static struct deaf silence;
static char silence_name[160];

static void dial_silence(UNUSED void *arg)
{
	gmp_dial("tcp", silence_name);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void leave_diallers(UNUSED void *arg)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(dial_silence, NULL), 0);
	WAIT_FOR(atomic_load(&asked) == 3 && stats().descriptors == 3);
	wait_parked(3);
}

/* The addresses that the lookup found are freed, too. */
TEST_PROCS(dial_by_name_killed_at_shutdown_leaks_nothing)
{
	make_deaf(&silence);
	snprintf(silence_name, sizeof(silence_name), "deaf.test%s", strchr(silence.addr, ':'));
	reset();
	int fds = count_fds();

	run_procs(procs, leave_diallers, NULL);
	CHECK_EQ(count_fds(), fds);
	end_deaf(&silence);
}

static void look_up_until_shutdown(UNUSED void *arg)
{
	struct addrinfo *a = NULL;
	int err;

	while ((err = gmp_getaddrinfo("silent.test", "80", &stream, &a)) == 0)
		check_answer(a, 80);
	CHECK_EQ(err, EAI_AGAIN);
}

TEST(lookup_by_external_thread_at_shutdown_gets_eai_again)
{
	for (int i = 0; i < 10; i++) {
		struct ext_thread f[4], late;

		reset();
		CHECK_EQ(gmp_start(NULL), 0);
		for (int k = 0; k < 4; k++)
			ext_thread_start(&f[k], look_up_until_shutdown, NULL);
		usleep(3000);
		atomic_store(&silent, i & 1);
		usleep(1000);
		if (i & 1)
			ext_thread_start(&late, answer_later, NULL);
		atomic_store(&leaving, 1);
		CHECK_EQ(gmp_stop(), 0);
		for (int k = 0; k < 4; k++)
			CHECK_EQ(pthread_join(f[k].thread, NULL), 0);
		if (i & 1)
			CHECK_EQ(pthread_join(late.thread, NULL), 0);
	}
}

TEST(lookup_without_runtime_returns_eai_again)
{
	struct addrinfo *a;

	CHECK_EQ(gmp_getaddrinfo("127.0.0.1", NULL, NULL, &a), EAI_AGAIN);
	CHECK_EQ(gmp_getaddrinfo("a.test", NULL, NULL, &a), EAI_AGAIN);
}
