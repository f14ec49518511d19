/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_stats shows scheduling latency: what is sampled, and that a stall is seen. Its
 * cases compare times: each needs a CPU.
 */
#include <stdbool.h>

#include "io/io_util.h"

enum { STALL_MS = 200, SEEN_MS = 100, STALL_MOST_MS = 10000, NAP_MS = 20 };

static atomic_int stop;

/* Keeps its P without a gmp call. */
static void compute(int64_t ns)
{
	int64_t until = gmp_now() + ns;

	while (gmp_now() < until)
		;
}

static void nothing(UNUSED void *arg)
{
}

/* Yield so often that a later event falls anywhere between two samples. */
static void settle(void)
{
	int n = 1000 + (int)(gmp_now() / 64 % 100);

	for (int i = 0; i < n; i++)
		gmp_yield();
}

static uint64_t samples_of(gmp_latency_cause cause)
{
	return stats().latency[cause].samples;
}

/* There are samples of this cause, and it is part of the whole. */
static void check_quantiles(gmp_latency_cause cause)
{
	gmp_stats s = stats();
	const gmp_latency *l = &s.latency[cause];
	uint64_t all = 0;

	CHECK(l->samples > 0 && l->max > 0); /* the counter may have a step of 1 us: p50 may be 0 */
	CHECK(l->p50 <= l->p90 && l->p90 <= l->p99 && l->p99 <= l->max);
	CHECK(l->max <= s.latency_max);
	for (int i = 0; i < GMP_LATENCY_CAUSES; i++)
		all += s.latency[i].samples;
	CHECK_EQ(all, s.latency_samples);
}

/* --- what is sampled --- */

RT(stats_yields_are_sampled)
{
	int n = (int)check_scaled(640000);
	uint64_t before = samples_of(GMP_LATENCY_YIELD);

	for (int i = 0; i < n; i++)
		gmp_yield();
	CHECK(samples_of(GMP_LATENCY_YIELD) - before >= (uint64_t)n / 128);
	CHECK(samples_of(GMP_LATENCY_YIELD) - before <= (uint64_t)n / 32 + 100);
	check_quantiles(GMP_LATENCY_YIELD);
}

RT(stats_spawns_are_sampled)
{
	int n = (int)check_scaled(12800);
	uint64_t before = samples_of(GMP_LATENCY_SPAWN);
	uint64_t yields = samples_of(GMP_LATENCY_YIELD);

	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(nothing, NULL), 0);
	while (stats().greens > 1)
		gmp_yield();
	yields = samples_of(GMP_LATENCY_YIELD) - yields;
	CHECK(samples_of(GMP_LATENCY_SPAWN) - before + yields >= (uint64_t)n / 128);
	check_quantiles(GMP_LATENCY_SPAWN);
}

RT(stats_sleeps_are_sampled)
{
	int n = (int)check_scaled(1280);
	uint64_t before = samples_of(GMP_LATENCY_TIMER);

	for (int i = 0; i < n; i++)
		gmp_sleep(10 * US);
	CHECK(samples_of(GMP_LATENCY_TIMER) - before >= (uint64_t)n / 128);
	check_quantiles(GMP_LATENCY_TIMER);
}

static void echo(void *arg)
{
	int fd = *(int *)arg;
	char b;

	while (gmp_read(fd, &b, 1) == 1)
		CHECK_EQ(gmp_write(fd, &b, 1), 1);
	CHECK_EQ(gmp_close(fd), 0);
}

RT(stats_descriptors_are_sampled)
{
	int n = (int)check_scaled(2560), a, b;
	uint64_t before;
	char c = 'x';
	gmp_g *g;

	make_pair("unix", &a, &b);
	g = spawn(echo, &b);
	before = samples_of(GMP_LATENCY_DESCRIPTOR);
	for (int i = 0; i < n; i++) {
		CHECK_EQ(gmp_write(a, &c, 1), 1);
		CHECK_EQ(gmp_read(a, &c, 1), 1);
	}
	CHECK(samples_of(GMP_LATENCY_DESCRIPTOR) - before >= (uint64_t)n / 128);
	check_quantiles(GMP_LATENCY_DESCRIPTOR);
	CHECK_EQ(gmp_close(a), 0);
	join(g);
}

static void kick(void *arg)
{
	WAIT_FOR(stats().greens_waiting == 1);
	CHECK_EQ(gmp_sem_release(arg, 1), 0);
}

RT(stats_wakeup_by_external_thread_is_measured)
{
	uint64_t before = samples_of(GMP_LATENCY_WAKE);
	gmp_sem s = GMP_SEM_INIT(0);
	struct ext_thread f;

	ext_thread_start(&f, kick, &s);
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	CHECK(samples_of(GMP_LATENCY_WAKE) - before >= 1);
	check_quantiles(GMP_LATENCY_WAKE);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
}

/* --- a stall is seen --- */

static bool run_seen(const gmp_stats *s)
{
	return s->longest_run >= SEEN_MS * (uint64_t)MS;
}

static bool stall_seen(const gmp_stats *s)
{
	return run_seen(s) && s->latency_max >= SEEN_MS * (uint64_t)MS;
}

/* sysmon measures a stall from its first poll of the P. A busy machine may run sysmon late, so the
 * stall lasts until the statistics show it, or STALL_MOST_MS. */
static void stall_until(bool (*seen)(const gmp_stats *s))
{
	int64_t most = gmp_now() + STALL_MOST_MS * MS;
	gmp_stats s;

	do {
		compute(STALL_MS * MS);
		s = stats();
	} while (!seen(&s) && gmp_now() < most);
	CHECK(seen(&s));
}

static void runnable_during_stall(UNUSED void *arg)
{
	gmp_g *g;

	settle();
	g = spawn(nothing, NULL);
	stall_until(stall_seen);
	join(g);
}

TEST(stats_stall_of_runnable_g_is_in_latency_max)
{
	run_cooperative(1, runnable_during_stall, NULL);
}

/* Without the stall these Gs run at once, one after the other. */
static void yield_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_yield();
}

static void yielders_during_stall(UNUSED void *arg)
{
	gmp_g *g[3];

	for (int i = 0; i < 3; i++)
		g[i] = spawn(yield_until_stop, NULL);
	settle();
	stall_until(stall_seen);
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static void read_often(void *arg)
{
	uint64_t longest = 0, of_yields = 0;

	yielders_during_stall(arg);
	for (int i = 0; i < 20000; i++) {
		gmp_stats s = stats();

		CHECK(s.latency_max >= longest);
		CHECK(s.latency[GMP_LATENCY_YIELD].max >= of_yields);
		longest = s.latency_max;
		of_yields = s.latency[GMP_LATENCY_YIELD].max;
	}
}

TEST(stats_latency_max_never_falls)
{
	run_cooperative(1, read_often, NULL);
}

TEST(stats_stall_of_yielders_is_in_latency_max)
{
	run_cooperative(1, yielders_during_stall, NULL);
}

static void sleep_a_little(UNUSED void *arg)
{
	gmp_sleep(NAP_MS * MS); /* still asleep when the stall begins */
}

static void sleeper_during_stall(UNUSED void *arg)
{
	gmp_g *g;

	settle();
	g = spawn(sleep_a_little, NULL);
	gmp_yield();
	stall_until(run_seen);
	join(g);
	/* from the deadline on: exact */
	CHECK(stats().latency_max >= (STALL_MS - NAP_MS - 2) * (uint64_t)MS);
	CHECK(stats().latency[GMP_LATENCY_TIMER].max >= (STALL_MS - NAP_MS - 2) * (uint64_t)MS);
}

TEST(stats_stall_of_sleeper_counts_from_deadline)
{
	run_cooperative(1, sleeper_during_stall, NULL);
}

static bool run_seen_reader_runnable(const gmp_stats *s)
{
	return run_seen(s) && s->greens_runnable == 1;
}

/* g is parked in `echo` at the other end of a: make it runnable during a stall, and end it. */
static void stall_reader(int a, gmp_g *g)
{
	char c = 'x';

	CHECK_EQ(write(a, &c, 1), 1);
	stall_until(run_seen_reader_runnable);
	compute(SEEN_MS * MS);
	CHECK_EQ(gmp_read(a, &c, 1), 1);
	CHECK(stats().latency_max >= SEEN_MS * (uint64_t)MS);
	CHECK_EQ(gmp_close(a), 0);
	join(g);
}

/* sysmon asks the poller; the reader's latency is measured from then on. */
static void reader_during_stall(UNUSED void *arg)
{
	int a, b;
	gmp_g *g;

	make_pair("unix", &a, &b);
	settle();
	g = spawn(echo, &b);
	gmp_yield();
	stall_reader(a, g);
}

TEST(stats_stall_of_reader_is_in_latency_max)
{
	run_cooperative(1, reader_during_stall, NULL);
}

/* An M without a P sleeps in the poller, so that M finds the event. */
static void reader_found_without_p(UNUSED void *arg)
{
	int a, b;
	gmp_g *g;

	make_pair("unix", &a, &b);
	settle();
	g = spawn(echo, &b);
	gmp_yield();
	gmp_block_enter();
	WAIT_FOR(stats().handoffs > 0 && stats().threads_idle > 0);
	gmp_block_leave();
	stall_reader(a, g);
}

TEST(stats_stall_of_reader_found_without_p_is_in_latency_max)
{
	run_cooperative(1, reader_found_without_p, NULL);
}

static void compute_long(UNUSED void *arg)
{
	compute(STALL_MS * MS);
}

/* More computing Gs than Ps, so that some wait for a busy P. With several Ps sysmon takes them from
 * a ring, and their latency is known only once they run: hence one stall after the other. */
RT_COOPERATIVE(stats_stall_of_all_ps_is_in_latency_max)
{
	int64_t most = gmp_now() + STALL_MOST_MS * MS;
	gmp_g *g[8];
	gmp_stats s;

	settle();
	do {
		for (int i = 0; i < 2 * procs; i++)
			g[i] = spawn(compute_long, NULL);
		for (int i = 0; i < 2 * procs; i++)
			join(g[i]);
		s = stats();
	} while (!stall_seen(&s) && gmp_now() < most);
	CHECK(stall_seen(&s));
}

/* --- a G without a P --- */

static void compute_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		;
	gmp_yield();
}

static void yield_without_p(UNUSED void *arg)
{
	gmp_g *g = spawn(compute_until_stop, NULL);
	gmp_stats before, after;

	WAIT_FOR(stats().preempted == 1);
	before = stats();
	atomic_store(&stop, 1);
	/* this G keeps the only P until the other has queued itself, or loses the P to it */
	do
		after = stats();
	while (after.greens_runnable == 0 && after.exits == before.exits);
	join(g);
	after = stats();
	CHECK_EQ(after.latency[GMP_LATENCY_BLOCKING].samples,
		 before.latency[GMP_LATENCY_BLOCKING].samples);
	CHECK(after.latency[GMP_LATENCY_YIELD].samples > before.latency[GMP_LATENCY_YIELD].samples);
}

TEST(stats_yield_of_preempted_g_is_a_yield)
{
	need_preemption();
	run_procs(1, yield_without_p, NULL);
}

static void block_until_stop(UNUSED void *arg)
{
	gmp_block_enter();
	while (!atomic_load(&stop))
		sched_yield();
	gmp_block_leave();
}

static void end_blocking_code_without_p(UNUSED void *arg)
{
	uint64_t before = samples_of(GMP_LATENCY_BLOCKING);
	gmp_g *g = spawn(block_until_stop, NULL);

	WAIT_FOR(stats().greens_blocked == 1);
	atomic_store(&stop, 1);
	/* this G keeps the only P until the other has queued itself */
	for (int64_t most = gmp_now() + STALL_MOST_MS * MS; stats().greens_runnable == 0;)
		CHECK(gmp_now() < most);
	join(g);
	CHECK(samples_of(GMP_LATENCY_BLOCKING) > before);
	check_quantiles(GMP_LATENCY_BLOCKING);
}

TEST(stats_end_of_blocking_code_without_p_is_measured)
{
	run_cooperative(1, end_blocking_code_without_p, NULL);
}

/* --- the longest run --- */

RT(stats_longest_run_includes_current_run)
{
	int64_t began = gmp_now(); /* before the present run of this G */

	settle();
	CHECK(stats().longest_run < SEEN_MS * (uint64_t)MS);
	stall_until(run_seen);
	CHECK(stats().longest_run <= (uint64_t)(gmp_now() - began) + 10 * (uint64_t)MS);
}

/* Of a run that has ended, the part up to sysmon's last poll is known. */
RT(stats_longest_run_includes_ended_runs)
{
	int64_t most = gmp_now() + STALL_MOST_MS * MS;
	gmp_stats s;

	settle();
	do {
		compute(STALL_MS * MS);
		gmp_yield();
		s = stats();
	} while (!run_seen(&s) && gmp_now() < most);
	CHECK(run_seen(&s));
}

/* Runs of growing length, each read until it ends. */
RT(stats_longest_run_never_falls)
{
	uint64_t before = 0;

	for (int ms = 2; ms < 20; ms++) {
		for (int64_t until = gmp_deadline(ms * MS); gmp_now() < until;) {
			uint64_t now = stats().longest_run;

			CHECK(now >= before);
			before = now;
		}
		gmp_yield();
	}
}

RT(stats_idle_time_is_no_run)
{
	int64_t idle = SLOW ? 3 * SEC : 500 * MS;

	gmp_sleep(idle);
	CHECK(stats().longest_run < (uint64_t)idle * 3 / 5);
}

RT(stats_blocking_code_is_no_run)
{
	settle();
	(void)gmp_blocking(usleep(400000));
	CHECK(stats().longest_run < 200 * (uint64_t)MS);
	gmp_yield();
	CHECK(stats().longest_run < 200 * (uint64_t)MS);
}
