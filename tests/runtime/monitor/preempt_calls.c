/* SPDX-License-Identifier: MIT */
/*
 * Tests preemption of Gs that call gmp millions of times a second and never wait, so that sysmon
 * takes their Ps between any two instructions of the calls: nothing is lost or counted twice.
 */
#define _GNU_SOURCE 1
#include "preempt_util.h"

/* A G that repeats a step, with objects of its own. */
struct caller {
	uint64_t done; /* what the G counted */
	gmp_g *self;
	gmp_mutex mutex;
	gmp_rwmutex rw;
	gmp_cond cond;
	gmp_sem sem;
	gmp_wg wg;
	gmp_chan *a, *b;
	gmp_timer *timer;
	gmp_key key;
	uint64_t value;
	long number;
};

static struct caller callers[PROCS_MOST];
static void (*step)(struct caller *c);

static void never_expires(UNUSED void *arg)
{
	CHECK(!"a timer expired");
}

static void repeat_step(void *arg)
{
	struct caller *c = arg;

	c->self = gmp_self();
	c->a = gmp_chan_new(sizeof(uint64_t), 8);
	c->b = gmp_chan_new(sizeof(uint64_t), 8);
	c->timer = gmp_timer_new(never_expires, NULL);
	c->number = -1;
	CHECK_EQ(gmp_key_create(&c->key, NULL), 0);
	for (int64_t end = compute_end(); cpu_ns() < end;)
		for (int i = 0; i < 100; i++)
			step(c);
	CHECK_EQ(gmp_key_delete(c->key), 0);
	gmp_timer_free(c->timer);
	gmp_chan_free(c->a);
	gmp_chan_free(c->b);
}

static uint64_t run_callers(int procs, void (*fn)(struct caller *c))
{
	uint64_t sum = 0;

	step = fn;
	run_hogs(procs, repeat_step, callers, sizeof(callers[0]));
	for (int i = 0; i < procs; i++)
		sum += callers[i].done;
	fprintf(stderr, "%llu calls\n", (unsigned long long)sum);
	CHECK(sum > 0);
	return sum;
}

/* The same with steps that never wait. */
static uint64_t run_busy_callers(int procs, void (*fn)(struct caller *c))
{
	uint64_t sum = run_callers(procs, fn);

	CHECK(stats().preemptions > 0);
	return sum;
}

/* --- calls without contention --- */

static void lock_own_mutex(struct caller *c)
{
	CHECK_EQ(gmp_mutex_lock(&c->mutex), 0);
	CHECK_EQ(gmp_mutex_try_lock(&c->mutex), -EAGAIN);
	CHECK_EQ(gmp_mutex_unlock(&c->mutex), 0);
	CHECK_EQ(gmp_rwmutex_rlock(&c->rw), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&c->rw), 0);
	CHECK_EQ(gmp_rwmutex_lock(&c->rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&c->rw), 0);
	c->done++;
}

RT(lock_and_unlock_race_with_preemption)
{
	run_busy_callers(procs, lock_own_mutex);
}

static void use_own_channel(struct caller *c)
{
	uint64_t v;

	for (int i = 0; i < 8; i++, c->done++)
		CHECK_EQ(gmp_chan_try_send(c->a, &c->done), 0);
	CHECK_EQ(gmp_chan_try_send(c->a, &c->done), -EAGAIN);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(gmp_chan_try_recv(c->a, &v), 0);
		CHECK_EQ(v, c->value++);
	}
	CHECK_EQ(gmp_chan_try_recv(c->a, &v), -EAGAIN);
}

RT(try_send_and_try_recv_race_with_preemption)
{
	run_busy_callers(procs, use_own_channel);
}

static void count_on_own_objects(struct caller *c)
{
	CHECK_EQ(gmp_wg_add(&c->wg, 2), 0);
	CHECK_EQ(gmp_wg_done(&c->wg), 0);
	CHECK_EQ(gmp_wg_done(&c->wg), 0);
	CHECK_EQ(gmp_wg_wait(&c->wg), 0);
	CHECK_EQ(gmp_sem_release(&c->sem, 1), 0);
	CHECK_EQ(gmp_sem_acquire(&c->sem), 0);
	CHECK_EQ(gmp_sem_try_acquire(&c->sem), -EAGAIN);
	CHECK_EQ(gmp_cond_signal(&c->cond), 0);
	c->done++;
}

RT(wg_and_sem_race_with_preemption)
{
	run_busy_callers(procs, count_on_own_objects);
}

static void use_locals(struct caller *c)
{
	void *v = (void *)(uintptr_t)(c->done + 1);

	CHECK_EQ(gmp_key_set(c->key, v), 0);
	CHECK(gmp_key_get(c->key) == v);
	CHECK(gmp_self() == c->self);
	CHECK_EQ(gmp_cancelled(), 0);
	c->done++;
}

RT(keys_and_identity_race_with_preemption)
{
	run_busy_callers(procs, use_locals);
}

static void set_and_stop_timer(struct caller *c)
{
	CHECK_EQ(gmp_timer_set(c->timer, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(gmp_timer_set(c->timer, gmp_deadline(1800 * SEC), 0), 1);
	CHECK_EQ(gmp_timer_stop(c->timer), 1);
	CHECK_EQ(gmp_timer_stop(c->timer), 0);
	c->done++;
}

RT(timer_calls_race_with_preemption)
{
	run_busy_callers(procs, set_and_stop_timer);
	CHECK_EQ(stats().timers, 0);
}

static void select_without_wait(struct caller *c)
{
	uint64_t got = 0;
	gmp_case send[] = { GMP_SEND_CASE(c->a, &c->done), GMP_SEND_CASE(c->b, &c->done) };
	gmp_case recv[] = { GMP_RECV_CASE(c->a, &got), GMP_RECV_CASE(c->b, &got) };
	int i = gmp_select(send, 2);

	CHECK(i == 0 || i == 1);
	CHECK_EQ(gmp_select(recv, 2), i);
	CHECK_EQ(got, c->done);
	CHECK_EQ(gmp_select_try(recv, 2), -EAGAIN);
	c->done++;
}

RT(select_races_with_preemption)
{
	run_busy_callers(procs, select_without_wait);
}

/* Short blocking code: the P may be taken before it and after it. To leave it is a checkpoint. */
static void block_briefly(struct caller *c)
{
	gmp_block_enter();
	CHECK(gmp_self() == NULL);
	gmp_block_leave();
	CHECK(gmp_self() == c->self);
	c->done++;
}

RT(blocking_sections_race_with_preemption)
{
	run_callers(procs, block_briefly);
}

/* --- work for other Gs --- */

static atomic_long spawned, ran;
enum { BACKLOG = 100 };

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
}

/* If the new Gs do not run, it only computes until they do. */
static void spawn_one(struct caller *c)
{
	if (atomic_load(&spawned) - atomic_load(&ran) >= BACKLOG)
		return;
	atomic_fetch_add(&spawned, 1);
	CHECK_EQ(gmp_go(count_run, NULL), 0);
	c->done++;
}

RT(spawns_race_with_preemption)
{
	uint64_t n = run_busy_callers(procs, spawn_one);

	CHECK(n > BACKLOG * 2);
	WAIT_FOR(atomic_load(&ran) == (long)n);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(atomic_load(&ran), n);
}

/* Senders of numbers that never wait, and receivers that do. */
static gmp_chan *numbers;
static unsigned *arrivals; /* how often each number arrived */
enum { NUMBERS_MOST = 1 << 24, RECEIVERS = 4 };
static atomic_long next_number;

static void receive_numbers(UNUSED void *arg)
{
	long v;

	while (gmp_chan_recv(numbers, &v) == 0) {
		CHECK(v >= 0 && v < NUMBERS_MOST);
		CHECK_EQ(__atomic_add_fetch(&arrivals[v], 1, __ATOMIC_RELAXED), 1);
	}
}

static void send_number(struct caller *c)
{
	int err;

	if (c->number < 0)
		c->number = atomic_fetch_add(&next_number, 1);
	if (c->number >= NUMBERS_MOST)
		return;
	err = gmp_chan_try_send(numbers, &c->number);
	CHECK(err == 0 || err == -EAGAIN);
	if (err == 0) {
		c->done++;
		c->number = -1;
	}
}

static void check_numbers(int procs, size_t capacity)
{
	gmp_g *g[RECEIVERS];
	uint64_t sent, arrived = 0;

	CHECK((numbers = gmp_chan_new(sizeof(long), capacity)) != NULL);
	CHECK((arrivals = calloc(NUMBERS_MOST, sizeof(*arrivals))) != NULL);
	for (int i = 0; i < RECEIVERS; i++)
		g[i] = spawn(receive_numbers, NULL);
	sent = run_busy_callers(procs, send_number);
	CHECK_EQ(gmp_chan_close(numbers), 0);
	for (int i = 0; i < RECEIVERS; i++)
		join(g[i]);
	for (int i = 0; i < NUMBERS_MOST; i++)
		arrived += arrivals[i];
	CHECK_EQ(arrived, sent);
	CHECK(sent > 100);
	free(arrivals);
	gmp_chan_free(numbers);
}

RT(elements_of_preempted_senders_arrive_once)
{
	check_numbers(procs, 16);
}

RT(elements_for_waiting_receivers_arrive_once)
{
	check_numbers(procs, 0);
}

/* --- a lock that other Gs want: without preemption they never run on one P --- */

enum { WANTERS = 8 };

static gmp_mutex shared_mutex;
static gmp_rwmutex shared_rw;
static uint64_t total; /* not atomic: under the lock */
static atomic_int stop;

static void want_mutex(void *arg)
{
	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_mutex_lock(&shared_mutex), 0);
		total++;
		++*(uint64_t *)arg;
		CHECK_EQ(gmp_mutex_unlock(&shared_mutex), 0);
		CHECK_EQ(gmp_sleep(50 * US), 0);
	}
}

static void lock_shared_mutex(struct caller *c)
{
	CHECK_EQ(gmp_mutex_lock(&shared_mutex), 0);
	total++;
	c->done++;
	CHECK_EQ(gmp_mutex_unlock(&shared_mutex), 0);
}

static void want_rwmutex(void *arg)
{
	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_rwmutex_lock(&shared_rw), 0);
		total++;
		++*(uint64_t *)arg;
		CHECK_EQ(gmp_rwmutex_unlock(&shared_rw), 0);
		CHECK_EQ(gmp_rwmutex_rlock(&shared_rw), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&shared_rw), 0);
		CHECK_EQ(gmp_sleep(50 * US), 0);
	}
}

static void lock_shared_rwmutex(struct caller *c)
{
	CHECK_EQ(gmp_rwmutex_rlock(&shared_rw), 0);
	c->value = total;
	CHECK_EQ(gmp_rwmutex_runlock(&shared_rw), 0);
	CHECK_EQ(gmp_rwmutex_lock(&shared_rw), 0);
	CHECK(total >= c->value);
	total++;
	c->done++;
	CHECK_EQ(gmp_rwmutex_unlock(&shared_rw), 0);
}

static void check_shared(int procs, gmp_fn want, void (*fn)(struct caller *c))
{
	static uint64_t times[WANTERS];
	uint64_t sum;
	gmp_g *g[WANTERS];

	for (int i = 0; i < WANTERS; i++)
		g[i] = spawn(want, &times[i]);
	sum = run_callers(procs, fn);
	atomic_store(&stop, 1);
	for (int i = 0; i < WANTERS; i++) {
		join(g[i]);
		CHECK(times[i] > 0);
		sum += times[i];
	}
	CHECK_EQ(total, sum);
}

RT(shared_mutex_excludes_beside_preemption)
{
	check_shared(procs, want_mutex, lock_shared_mutex);
}

RT(shared_rwmutex_excludes_beside_preemption)
{
	check_shared(procs, want_rwmutex, lock_shared_rwmutex);
}
