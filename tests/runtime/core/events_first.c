/* SPDX-License-Identifier: MIT */
/*
 * Tests PICK-4 and RUNQ-5: Gs that an event makes runnable run before new Gs and before Gs that
 * have yielded, and none starve the others.
 *
 * In virtual time on one P the clock of the scheduler is the number of switches, 10 us each, so the
 * bounds are exact: a check of PICK-3 is due after 61 switches, a quantum is due at a credit of 25,
 * and takes 200 at most.
 */
#include <stdbool.h>

#include "fairness_util.h"

enum {
	CHECK_SWITCHES = 100 + 61, /* CHECK_TICKS, and an interval of PICK-3 */
	SLICE_SWITCHES = 200,      /* QUANTUM_TICKS */
	SHARE = 4,                 /* the yield lane has at least a quarter of the time */
};

static atomic_int stop;
static gmp_wg all;

static void spawn_into(gmp_fn fn, void *arg)
{
	gmp_wg_add(&all, 1);
	CHECK_EQ(gmp_go(fn, arg), 0);
}

/* --- the Gs of a mix --- */

static int64_t longest, runs_of_yielders;

/* Yields until the test ends; records the longest time that it was runnable, in switches. */
static void yield_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		uint64_t began = switches();
		int64_t waited;

		gmp_yield();
		waited = (int64_t)(switches() - began);
		if (waited > longest)
			longest = waited;
		runs_of_yielders++;
	}
	gmp_wg_done(&all);
}

/* The last arrival makes all others runnable, so with two barriers the other lanes are never empty.
 * Killed at the end of the run. */
static void cross_repeatedly(void *barrier)
{
	while (gmp_barrier_wait(barrier) >= 0)
		;
}

static gmp_sem flood = GMP_SEM_INIT(0);

static void end_of_flood(UNUSED void *arg)
{
	CHECK_EQ(gmp_sem_release(&flood, 1), 0);
}

/* Spawns two Gs for each G that has ended, so new Gs fill their lane. */
static void spawn_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_go(end_of_flood, NULL), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_sem_acquire(&flood), 0);
	}
	gmp_wg_done(&all);
}

static void count_until(uint64_t end)
{
	while (switches() < end)
		gmp_yield();
	atomic_store(&stop, 1);
}

/* --- bounds --- */

enum { YIELDERS = 10, GROUPS = 2, PER_GROUP = 4, RUN = 40000 };

static gmp_barrier barriers[GROUPS] = { GMP_BARRIER_INIT(PER_GROUP), GMP_BARRIER_INIT(PER_GROUP) };

static void yield_beside_events(UNUSED void *arg)
{
	uint64_t began = switches();

	for (int i = 0; i < GROUPS * PER_GROUP; i++)
		CHECK_EQ(gmp_go(cross_repeatedly, &barriers[i % GROUPS]), 0);
	for (int i = 0; i < YIELDERS; i++)
		spawn_into(yield_until_stop, NULL);
	count_until(began + RUN);
	fprintf(stderr, "runs of yielders: %lld of %d; longest wait: %lld\n",
		(long long)runs_of_yielders, RUN, (long long)longest);
	CHECK(longest <= SHARE * (YIELDERS + 1) + CHECK_SWITCHES);
	/* with the G of this function */
	CHECK(runs_of_yielders / YIELDERS * (YIELDERS + 1) >= RUN * 24 / 100);
	CHECK(runs_of_yielders / YIELDERS * (YIELDERS + 1) <= RUN * 26 / 100);
	gmp_wg_wait(&all);
}

TEST(yielded_gs_get_a_quarter_of_time_beside_events)
{
	run_virtual(1, yield_beside_events, NULL);
}

enum { YIELDING = 300, WAITERS = 3, BROADCASTS = 200 };

static gmp_mutex m = GMP_MUTEX_INIT;
static gmp_cond cond = GMP_COND_INIT;
static uint64_t sent;
static int64_t waits[BROADCASTS * WAITERS], nwaits;

static void wait_for_broadcast(UNUSED void *arg)
{
	for (int i = 0; i < BROADCASTS; i++) {
		uint64_t before = sent;

		CHECK_EQ(gmp_mutex_lock(&m), 0);
		while (sent == before)
			CHECK_EQ(gmp_cond_wait(&cond, &m), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
		waits[nwaits++] = (int64_t)(switches() - sent);
	}
	gmp_wg_done(&all);
}

static void events_beside_yielders(UNUSED void *arg)
{
	for (int i = 0; i < YIELDING; i++)
		spawn_into(yield_until_stop, NULL);
	for (int i = 0; i < WAITERS; i++)
		spawn_into(wait_for_broadcast, NULL);
	WAIT_FOR(stats().greens_waiting == WAITERS);
	for (int i = 0; i < BROADCASTS; i++) {
		gmp_yield(); /* behind all others */
		sent = switches();
		CHECK_EQ(gmp_cond_broadcast(&cond), 0);
	}
	gmp_yield();
	CHECK_EQ(nwaits, BROADCASTS * WAITERS);
	atomic_store(&stop, 1);
	qsort(waits, (size_t)nwaits, sizeof(waits[0]), cmp_i64);
	fprintf(stderr, "switches: median %lld, max %lld\n", (long long)waits[nwaits / 2],
		(long long)waits[nwaits - 1]);
	/* the other waiters; the mutex is uncontended, since a waiter does not yield with it */
	CHECK(waits[nwaits - 1] <= WAITERS + 1);
	gmp_wg_wait(&all);
}

TEST(events_run_before_yielded_gs)
{
	run_virtual(1, events_beside_yielders, NULL);
}

/* --- new Gs --- */

enum { BURST = 200, BURSTS = 20, NEW_PART = 4 };

static void begin_and_end(UNUSED void *arg)
{
}

/* As events_beside_yielders, and new Gs. */
static void events_beside_new(UNUSED void *arg)
{
	for (int i = 0; i < WAITERS; i++)
		spawn_into(wait_for_broadcast, NULL);
	WAIT_FOR(stats().greens_waiting == WAITERS);
	for (int i = 0; i < BROADCASTS; i++) {
		for (int k = 0; k < BURST; k++)
			CHECK_EQ(gmp_go(begin_and_end, NULL), 0);
		sent = switches();
		CHECK_EQ(gmp_cond_broadcast(&cond), 0);
		while (nwaits < (i + 1) * WAITERS)
			gmp_yield();
	}
	qsort(waits, (size_t)nwaits, sizeof(waits[0]), cmp_i64);
	fprintf(stderr, "switches: median %lld, max %lld\n", (long long)waits[nwaits / 2],
		(long long)waits[nwaits - 1]);
	/* runnext is a new G; then every fourth is one; this G, if a quantum of PICK-4 is due */
	CHECK(waits[nwaits - 1] <= WAITERS + 1 + WAITERS / (NEW_PART - 1) + 1);
	gmp_wg_wait(&all);
}

TEST(events_run_before_new_gs)
{
	run_virtual(1, events_beside_new, NULL);
}

static uint64_t made, began_last;

static void note_begin(UNUSED void *arg)
{
	began_last = switches();
	gmp_wg_done(&all);
}

static void new_beside_events(UNUSED void *arg)
{
	for (int i = 0; i < GROUPS * PER_GROUP; i++)
		CHECK_EQ(gmp_go(cross_repeatedly, &barriers[i % GROUPS]), 0);
	for (int i = 0; i < BURSTS; i++) {
		made = switches();
		for (int k = 0; k < BURST; k++)
			spawn_into(note_begin, NULL);
		gmp_wg_wait(&all);
		CHECK(began_last - made <= NEW_PART * BURST + SLICE_SWITCHES);
	}
}

TEST(new_gs_begin_beside_events)
{
	run_virtual(1, new_beside_events, NULL);
}

/* --- random mixes --- */

enum { MIXES = SANITIZED ? 8 : 40, MIX_RUN = 20000 };

static gmp_chan *there, *back;

/* A pair that shares one time slice (PICK-1): then it is one G of the yield lane. */
static void ping_until_stop(void *first)
{
	char c = 0;

	while (!atomic_load(&stop))
		if (first ? gmp_chan_send(there, &c) || gmp_chan_recv(back, &c)
			  : gmp_chan_recv(there, &c) || gmp_chan_send(back, &c))
			break;
	gmp_chan_close(there);
	gmp_chan_close(back);
	gmp_wg_done(&all);
}

static unsigned draw(unsigned *seed, unsigned n)
{
	return (unsigned)rand_r(seed) % n;
}

static void mix(void *arg)
{
	unsigned seed = *(unsigned *)arg;
	int groups = (int)draw(&seed, GROUPS + 1), yielders = 1 + (int)draw(&seed, 100);
	bool pair = draw(&seed, 2), spawner = draw(&seed, 2);
	uint64_t began = switches();
	int64_t most;

	atomic_store(&stop, 0);
	longest = 0;
	there = gmp_chan_new(1, 0);
	back = gmp_chan_new(1, 0);
	CHECK(there && back);
	for (int i = 0; i < groups; i++)
		barriers[i] = (gmp_barrier)GMP_BARRIER_INIT(PER_GROUP);
	for (int i = 0; i < groups * PER_GROUP; i++)
		CHECK_EQ(gmp_go(cross_repeatedly, &barriers[i % groups]), 0);
	for (int i = 0; i < yielders; i++)
		spawn_into(yield_until_stop, NULL);
	for (int i = 0; i < 2 && pair; i++)
		spawn_into(ping_until_stop, i ? &seed : NULL);
	if (spawner)
		spawn_into(spawn_until_stop, NULL);
	count_until(began + MIX_RUN);
	/* The pair's slice is one run of the yield lane, and may end in another one too. */
	most = SHARE * (yielders + 1 + (pair ? 2 * SLICE_SWITCHES : 0)) + CHECK_SWITCHES;
	if (longest > most)
		check_failed("seed %u: a G waits for %lld switches, not %lld at most: "
			     "%d groups, %d yielders, pair %d, spawner %d",
			     *(unsigned *)arg, (long long)longest, (long long)most, groups,
			     yielders, pair, spawner);
	gmp_wg_wait(&all);
	gmp_chan_free(there);
	gmp_chan_free(back);
}

TEST(yielded_gs_wait_bounded_time_in_any_mix)
{
	for (unsigned seed = 1; seed <= MIXES; seed++)
		run_virtual(1, mix, &seed);
}

/* --- in real time --- */

/*
 * CROWD Gs compute 1 ms each and yield.  Waits are counted in their runs: a busy machine makes each
 * run longer, and does not add any.  In one ring a wait takes CROWD runs.
 */
enum { CROWD = 100, RUN_NS = 1000000, WAITS = 9, MOST_RUNS = CROWD / 4 };

static atomic_int crowd_runs, crowd_stop;
static atomic_int event_at;
static int64_t event_waits[WAITS];
static gmp_sem next_event = GMP_SEM_INIT(0);
static gmp_chan *events;
static int ends[2];

static void compute_and_yield(UNUSED void *arg)
{
	while (!atomic_load(&crowd_stop)) {
		int64_t end = gmp_deadline(RUN_NS);

		while (gmp_now() < end)
			;
		atomic_fetch_add(&crowd_runs, 1);
		gmp_yield();
	}
	gmp_wg_done(&all);
}

static void note_wait(int i)
{
	event_waits[i] = atomic_load(&crowd_runs) - atomic_load(&event_at);
}

/* event makes the waiter runnable, on an external thread; wait waits for it. */
static void check_event_waits(gmp_fn event, void (*wait)(int i))
{
	struct ext_thread f;

	check_skip_on_valgrind("Valgrind runs one thread at a time");
	for (int i = 0; i < CROWD; i++)
		spawn_into(compute_and_yield, NULL);
	ext_thread_start(&f, event, NULL);
	for (int i = 0; i < WAITS; i++) {
		CHECK_EQ(gmp_sem_release(&next_event, 1), 0);
		wait(i);
		note_wait(i);
	}
	atomic_store(&crowd_stop, 1);
	gmp_wg_wait(&all);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	qsort(event_waits, WAITS, sizeof(event_waits[0]), cmp_i64);
	fprintf(stderr, "runs: median %lld, max %lld\n", (long long)event_waits[WAITS / 2],
		(long long)event_waits[WAITS - 1]);
	CHECK(event_waits[WAITS / 2] <= MOST_RUNS);
}

/* On the external thread, after next_event: the waiter waits by then. */
static void begin_event(void)
{
	usleep(3000);
	atomic_store(&event_at, atomic_load(&crowd_runs));
}

static void send_repeatedly(UNUSED void *arg)
{
	for (int i = 0; i < WAITS; i++) {
		CHECK_EQ(gmp_sem_acquire(&next_event), 0);
		begin_event();
		CHECK_EQ(gmp_chan_send(events, &i), 0);
	}
}

static void receive(int i)
{
	int got;

	CHECK_EQ(gmp_chan_recv(events, &got), 0);
	CHECK_EQ(got, i);
}

RT_COOPERATIVE(send_by_external_thread_runs_receiver_before_yielded_gs)
{
	events = gmp_chan_new(sizeof(int), 0);
	check_event_waits(send_repeatedly, receive);
	gmp_chan_free(events);
}

static void write_repeatedly(UNUSED void *arg)
{
	for (int i = 0; i < WAITS; i++) {
		CHECK_EQ(gmp_sem_acquire(&next_event), 0);
		begin_event();
		CHECK_EQ(write(ends[1], "x", 1), 1);
	}
}

static void read_one(UNUSED int i)
{
	char c;

	CHECK_EQ(gmp_read(ends[0], &c, 1), 1);
}

RT_COOPERATIVE(readable_fd_runs_reader_before_yielded_gs)
{
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(gmp_fd_adopt(ends[0]), ends[0]);
	check_event_waits(write_repeatedly, read_one);
	CHECK_EQ(gmp_close(ends[0]), 0);
	close(ends[1]);
}

static gmp_mutex handed = GMP_MUTEX_INIT;
static gmp_sem is_held = GMP_SEM_INIT(0);

static void hold_repeatedly(UNUSED void *arg)
{
	for (int i = 0; i < WAITS; i++) {
		CHECK_EQ(gmp_sem_acquire(&next_event), 0);
		CHECK_EQ(gmp_mutex_lock(&handed), 0);
		CHECK_EQ(gmp_sem_release(&is_held, 1), 0);
		begin_event();
		CHECK_EQ(gmp_mutex_unlock(&handed), 0);
	}
}

static void lock_once(UNUSED int i)
{
	CHECK_EQ(gmp_sem_acquire(&is_held), 0);
	CHECK_EQ(gmp_mutex_lock(&handed), 0);
	CHECK_EQ(gmp_mutex_unlock(&handed), 0);
}

RT_COOPERATIVE(unlock_by_external_thread_runs_waiter_before_yielded_gs)
{
	check_event_waits(hold_repeatedly, lock_once);
}
