/* SPDX-License-Identifier: MIT */
/*
 * Tests Gs that sleep in the kernel without gmp_block_enter, and Gs that never give up a lock or a
 * P of their own accord: others run in bounded time.
 */
#define _GNU_SOURCE 1
#include "preempt_util.h"

/* --- sleeping in the kernel --- */

enum { SLEEPERS = 100 };
#define SLEEP_NS (100 * MS)

static atomic_int slept;

/* errno and the OS thread stay, and no signal interrupts the sleep. */
static void sleep_undeclared(void *arg)
{
	struct timespec t = { 0, SLEEP_NS };
	struct place here = place_mark((unsigned)(uintptr_t)arg);
	int64_t began = clock_ns();

	CHECK_EQ(nanosleep(&t, NULL), 0);
	place_check(&here);
	CHECK(clock_ns() - began >= SLEEP_NS);
	atomic_fetch_add(&slept, 1);
}

static int64_t time_of_sleepers(int n)
{
	gmp_g *g[SLEEPERS];
	int64_t began = clock_ns();

	for (int i = 0; i < n; i++)
		g[i] = spawn(sleep_undeclared, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(g[i]);
	return clock_ns() - began;
}

/*
 * On one P in turn they would take ten seconds, and on four two and a half. Repeated only if this
 * machine was slow.
 */
RT(hundred_gs_sleep_in_kernel_at_once)
{
	int64_t took = INT64_MAX, most = (SLOW ? 2000 : 1500) * MS;
	int parts = 0;

	need_preemption();
	for (; parts < PARTS && took >= most; parts++) {
		took = time_of_sleepers(SLEEPERS);
		fprintf(stderr, "%d sleepers: %lld ms\n", SLEEPERS, (long long)(took / MS));
	}
	CHECK(took < most);
	CHECK_EQ(atomic_load(&slept), parts * SLEEPERS);
	WAIT_FOR(stats().preempted == 0);
}

static void sleep_three_times(int procs, UNUSED void *arg)
{
	for (int i = 0; i < 3; i++)
		time_of_sleepers(4 * procs);
}

RT(sleepers_in_kernel_do_not_delay_ticker)
{
	run_beside_ticker(procs, clock_ns, sleep_three_times, NULL);
	CHECK_EQ(atomic_load(&slept) % (12 * procs), 0);
	CHECK(stats().preemptions > 0);
	CHECK(stats().unannounced > 0);
}

static int ends[2];
static atomic_int reading;

static void read_undeclared(UNUSED void *arg)
{
	char c = 0;

	atomic_fetch_add(&reading, 1);
	CHECK_EQ(read(ends[0], &c, 1), 1); /* never EINTR */
	CHECK_EQ(c, 'x');
}

/* Each sleeps until another G writes: these need Ps in any case. */
RT(gs_that_sleep_in_kernel_indefinitely_let_others_run)
{
	enum { N = 40 };
	gmp_g *g[N];

	need_preemption();
	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(read_undeclared, NULL);
	WAIT_FOR(atomic_load(&reading) == N);
	for (int i = 0; i < N; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < N; i++)
		join(g[i]);
	WAIT_FOR(stats().preempted == 0);
	close(ends[0]);
	close(ends[1]);
}

static void read_all(UNUSED void *arg)
{
	gmp_g *g[6];

	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < 6; i++)
		g[i] = spawn(read_undeclared, NULL);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	for (int i = 0; i < 6; i++)
		join(g[i]);
	CHECK(stats().threads <= 4);
}

/* With max_threads 1 no M can take the P, and the elements must be in the pipe. */
TEST(max_threads_bounds_gs_that_sleep_in_kernel)
{
	run_bounded(2, 4, read_all, NULL);
	run_bounded(1, 4, read_all, NULL);
	run_bounded(1, 1, read_all, NULL);
}

/* Gs alternate between sleep in the kernel, computing and waits. */
static void alternate(void *arg)
{
	gmp_chan *c = arg;

	for (int i = 0, v; i < 10; i++) {
		CHECK_EQ(usleep(2000), 0);
		compute_for(MS);
		CHECK_EQ(gmp_chan_send(c, &i), 0);
		CHECK_EQ(gmp_chan_recv(c, &v), 0);
		CHECK_EQ(gmp_sleep(100 * US), 0);
		atomic_fetch_add(&slept, 1);
	}
}

RT(gs_alternate_between_sleep_in_kernel_and_waits)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 20);
	gmp_g *g[20];

	for (int i = 0; i < 20; i++)
		g[i] = spawn(alternate, c);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&slept), 200);
	CHECK_EQ(gmp_chan_len(c), 0);
	gmp_chan_free(c);
}

/* --- a holder that computes --- */

static gmp_mutex mutex;
static gmp_rwmutex rw;
static atomic_int holding, wanting, got;
static int guarded; /* not atomic: under the lock */

static void want_mutex(UNUSED void *arg)
{
	atomic_fetch_add(&wanting, 1);
	CHECK_EQ(gmp_mutex_lock(&mutex), 0);
	CHECK_EQ(atomic_load(&holding), 0);
	guarded++;
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	atomic_fetch_add(&got, 1);
}

static void hold_mutex(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mutex), 0);
	atomic_store(&holding, 1);
	compute_until_taken();
	COMPUTE_UNTIL(atomic_load(&wanting) == 10);
	compute_for(5 * MS); /* the waiters are starving */
	guarded++;
	atomic_store(&holding, 0);
	CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	COMPUTE_UNTIL(atomic_load(&got) == 10); /* it does not need a P for the handover */
}

static void want_rwmutex(void *arg)
{
	int write = (int)(intptr_t)arg % 2;

	atomic_fetch_add(&wanting, 1);
	CHECK_EQ(write ? gmp_rwmutex_lock(&rw) : gmp_rwmutex_rlock(&rw), 0);
	CHECK_EQ(atomic_load(&holding), 0);
	if (write)
		guarded++;
	CHECK_EQ(write ? gmp_rwmutex_unlock(&rw) : gmp_rwmutex_runlock(&rw), 0);
	atomic_fetch_add(&got, 1);
}

static void hold_rwmutex(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	atomic_store(&holding, 1);
	compute_until_taken();
	COMPUTE_UNTIL(atomic_load(&wanting) == 10);
	compute_for(5 * MS);
	guarded++;
	atomic_store(&holding, 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	COMPUTE_UNTIL(atomic_load(&got) == 10);
}

static void only_compute(UNUSED void *arg)
{
	compute_until_taken();
}

/* The holder and procs - 1 other Gs compute. */
static void check_holder(int procs, gmp_fn hold, gmp_fn want)
{
	gmp_g *g[PROCS_MOST + 10];
	int n = 0;

	rivals_start(procs, procs);
	g[n++] = spawn(hold, NULL);
	for (int i = 1; i < procs; i++)
		g[n++] = spawn(only_compute, NULL);
	WAIT_FOR(atomic_load(&holding));
	for (int i = 0; i < 10; i++)
		g[n++] = spawn(want, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		join(g[i]);
	rivals_stop();
}

RT(mutex_of_g_without_p_goes_to_waiters)
{
	check_holder(procs, hold_mutex, want_mutex);
	CHECK_EQ(guarded, 11);
}

RT(rwmutex_of_g_without_p_goes_to_waiters)
{
	check_holder(procs, hold_rwmutex, want_rwmutex);
	CHECK_EQ(guarded, 6);
}

/* --- greedy holders: they lock and unlock in a loop, and never wait --- */

static atomic_int enough;
static long greedy_rounds;

static void be_greedy_with_mutex(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_mutex_lock(&mutex), 0);
		guarded++;
		greedy_rounds++;
		CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
	}
}

static void be_greedy_writer(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		guarded++;
		greedy_rounds++;
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

static void be_greedy_reader(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		CHECK(guarded >= 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	}
}

enum { ACQUISITIONS = 20 };

static int64_t latency[ACQUISITIONS]; /* CPU time */

static void acquire_often(void *reader)
{
	for (int i = 0; i < ACQUISITIONS; i++) {
		int64_t began = cpu_ns();
		int read = reader != NULL && *(int *)reader;

		if (!reader)
			CHECK_EQ(gmp_mutex_lock(&mutex), 0);
		else
			CHECK_EQ(read ? gmp_rwmutex_rlock(&rw) : gmp_rwmutex_lock(&rw), 0);
		latency[i] = cpu_ns() - began;
		if (!read)
			guarded++;
		if (!reader)
			CHECK_EQ(gmp_mutex_unlock(&mutex), 0);
		else
			CHECK_EQ(read ? gmp_rwmutex_runlock(&rw) : gmp_rwmutex_unlock(&rw), 0);
		CHECK_EQ(gmp_sleep(200 * US), 0);
	}
	atomic_store(&enough, 1);
}

/*
 * reader: NULL for the mutex, otherwise whether the other G locks for reading. Returns how often it
 * did; repeated only if this machine was slow.
 */
static int check_greedy(int procs, gmp_fn greedy, int *reader)
{
	int64_t most = (SLOW ? 300 : 50) * MS, median = most;
	int parts = 0;

	need_preemption();
	for (; parts < PARTS && median >= most; parts++) {
		gmp_g *g[PROCS_MOST], *other;

		atomic_store(&enough, 0);
		for (int i = 0; i < procs; i++)
			g[i] = spawn(greedy, NULL);
		other = spawn(acquire_often, reader);
		join(other);
		for (int i = 0; i < procs; i++)
			join(g[i]);
		qsort(latency, ACQUISITIONS, sizeof(latency[0]), cmp_i64);
		median = latency[ACQUISITIONS / 2];
		fprintf(stderr, "%d acquisitions: median %lld us, max %lld us\n", ACQUISITIONS,
			(long long)(median / US), (long long)(latency[ACQUISITIONS - 1] / US));
	}
	CHECK(median < most);
	return parts * ACQUISITIONS;
}

RT(greedy_locker_does_not_starve_other_g)
{
	int n = check_greedy(procs, be_greedy_with_mutex, NULL);

	CHECK_EQ(guarded, greedy_rounds + n);
}

RT(greedy_writer_does_not_starve_reader)
{
	int reader = 1;

	check_greedy(procs, be_greedy_writer, &reader);
	CHECK_EQ(guarded, greedy_rounds);
}

RT(greedy_writer_does_not_starve_writer)
{
	int reader = 0, n = check_greedy(procs, be_greedy_writer, &reader);

	CHECK_EQ(guarded, greedy_rounds + n);
}

RT(greedy_reader_does_not_starve_writer)
{
	int reader = 0, n = check_greedy(procs, be_greedy_reader, &reader);

	CHECK_EQ(guarded, n);
}
