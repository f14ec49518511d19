/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_dump shows where running green threads are: of a green thread that computes its
 * function and calls, asked for by a signal; of a green thread that sleeps in the kernel its system
 * call, without a signal.
 */
#include "dump_util.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#ifdef __SANITIZE_THREAD__
#define NEED_ANSWERS()                                                                             \
	check_skip("ThreadSanitizer delays the handler of a thread that calls no function")
#else
#define NEED_ANSWERS()                                                                             \
	do {                                                                                       \
		if (check_on_valgrind())                                                           \
			check_skip("valgrind runs one thread at a time");                          \
	} while (0)
#endif

static atomic_int computing, go_on;

CALL static void compute_inner(void)
{
	atomic_fetch_add(&computing, 1);
	while (!atomic_load(&go_on))
		;
	no_more();
}

CALL static void compute_outer(void)
{
	compute_inner();
	no_more();
}

static void compute_entry(UNUSED void *arg)
{
	compute_outer();
	no_more();
}

/* Starts n Gs that compute, named "computes", and returns when all do. */
static void begin_computing(gmp_g **g, int n)
{
	atomic_store(&computing, 0);
	atomic_store(&go_on, 0);
	for (int i = 0; i < n; i++)
		g[i] = spawn_named("computes", compute_entry, NULL);
	WAIT_FOR(atomic_load(&computing) == n);
}

static void end_computing(gmp_g **g, int n)
{
	atomic_store(&go_on, 1);
	for (int i = 0; i < n; i++)
		join(g[i]);
}

/* The block of the G, from the first dump whose block has `what`: on a busy machine the thread of
 * the G may get no CPU until the timeout of the dump. */
static const char *block_with(const char *name, const char *what)
{
	int64_t limit = gmp_deadline(PATIENCE);
	const char *b = block_of(name);

	for (; !strstr(b, what); b = block_of(name))
		if (gmp_now() > limit)
			check_has(b, what);
	return b;
}

static void check_calls(const char *b)
{
	check_has(b, "\n    #0 0x");
	check_has(b, " compute_inner+0x");
	check_has(strstr(b, "\n    #0 0x"), " compute_inner+0x");
	check_has(strstr(strstr(b, "\n    #0 0x"), " compute_inner+0x"), " compute_outer+0x");
	check_has(strstr(b, " compute_outer+0x"), " compute_entry+0x");
	/* no frame of the handler, none of the runtime below the entry function */
	check_has_not(b, "longrun_");
	CHECK(strchr(strstr(b, " compute_entry+0x"), '\n')[1] == '\0');
}

/* --- computing --- */

static void dump_computing_with_p(UNUSED void *arg)
{
	gmp_g *g;

	begin_computing(&g, 1);
	check_calls(block_with("computes", "(entry compute_entry), running, in compute_inner+0x"));
	end_computing(&g, 1);
}

TEST(dump_computing_g_shows_function_and_calls)
{
	NEED_ANSWERS();
	run_cooperative(2, dump_computing_with_p, NULL);
}

static void dump_computing_without_p(UNUSED void *arg)
{
	const char *b;
	gmp_g *g;

	begin_computing(&g, 1);
	WAIT_FOR(stats().preempted == 1);
	b = block_with("computes", " s, in compute_inner+0x");
	check_has(b, "(entry compute_entry), running without a P for ");
	check_calls(b);
	end_computing(&g, 1);
}

TEST(dump_preempted_computing_g_shows_function_and_calls)
{
	NEED_ANSWERS();
	run_procs(1, dump_computing_without_p, NULL);
}

static void dump_several_computing(UNUSED void *arg)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g[4];
	char *text;

	begin_computing(g, 4);
	while (count(text = dump(), ", in compute_inner+0x") < 4) {
		CHECK(gmp_now() < limit);
		free(text);
	}
	free(text);
	end_computing(g, 4);
}

TEST(dump_several_computing_gs_shows_each_place)
{
	NEED_ANSWERS();
	run_procs(2, dump_several_computing, NULL);
}

static void dump_outside(UNUSED void *arg)
{
	check_calls(block_with("computes", ", in compute_inner+0x"));
}

static void dump_by_external(UNUSED void *arg)
{
	struct ext_thread f;
	gmp_g *g;

	begin_computing(&g, 1);
	ext_thread_start(&f, dump_outside, NULL);
	ext_thread_join(&f);
	end_computing(&g, 1);
}

TEST_PROCS(dump_by_external_thread_shows_computing_g)
{
	NEED_ANSWERS();
	run_procs(procs, dump_by_external, NULL);
}

static void run_under(const char *words)
{
	setenv("GMP_DEBUG", words, 1);
	run_procs(1, dump_computing_without_p, NULL);
	unsetenv("GMP_DEBUG");
}

/* Their handlers stay installed for the whole run. */
TEST(dump_under_debug_sched_shows_computing_g)
{
	NEED_ANSWERS();
	run_under("sched");
}

TEST(dump_under_debug_chaos_shows_computing_g)
{
	NEED_ANSWERS();
	run_under("chaos");
}

/* --- sleeping --- */

static atomic_int asleep, interrupted;
static int never[2];

static void sleep_in_poll(UNUSED void *arg)
{
	struct pollfd p = { .fd = never[0], .events = POLLIN };

	atomic_fetch_add(&asleep, 1);
	if (poll(&p, 1, 1000) < 0)
		atomic_fetch_add(&interrupted, 1);
}

static void sleep_in_nanosleep(UNUSED void *arg)
{
	struct timespec t = { .tv_sec = 1 };

	atomic_fetch_add(&asleep, 1);
	if (nanosleep(&t, NULL) < 0)
		atomic_fetch_add(&interrupted, 1);
}

/* Beside a G that computes, so that each dump asks. */
static void dump_sleepers(UNUSED void *arg)
{
	int64_t end;
	gmp_g *g[3];

	CHECK_EQ(pipe(never), 0);
	atomic_store(&asleep, 0);
	begin_computing(&g[2], 1);
	end = gmp_deadline(700 * MS); /* a signal at its timeout ends a poll with EINTR, too */
	g[0] = spawn_named("polls", sleep_in_poll, NULL);
	g[1] = spawn_named("sleeps", sleep_in_nanosleep, NULL);
	while (atomic_load(&asleep) < 2)
		gmp_sleep(MS);
	gmp_sleep(50 * MS); /* until they sleep, also on a busy machine */
	check_has(block_of("polls"), ", in poll()");
	check_has(block_of("sleeps"), "nanosleep()");
	check_has_not(block_of("sleeps"), "#0");
	for (int i = 0; i < 20 && gmp_now() < end; i++)
		free(dump());
	end_computing(g, 3);
	CHECK_EQ(atomic_load(&interrupted), 0);
	close(never[0]);
	close(never[1]);
}

TEST_PROCS(dump_sleeping_g_is_not_interrupted)
{
	run_procs(procs, dump_sleepers, NULL);
}

/* Without preemption, they have their Ps. */
TEST(dump_sleeping_g_with_p_shows_system_call)
{
	run_cooperative(4, dump_sleepers, NULL);
}

/* --- the signal --- */

static atomic_int urgent;

static void count_urgent(UNUSED int signo)
{
	atomic_fetch_add(&urgent, 1);
}

static void check_disposition(void (*want)(int))
{
	struct sigaction sa;

	CHECK_EQ(sigaction(SIGURG, NULL, &sa), 0);
	CHECK(sa.sa_handler == want);
}

static void dump_and_check(void *arg)
{
	void (*want)(int) = *(void (**)(int))arg;
	gmp_g *g;

	begin_computing(&g, 1);
	for (int i = 0; i < 5; i++) {
		check_has(block_of("computes"), ", running");
		check_disposition(want);
	}
	end_computing(&g, 1);
}

TEST(dump_restores_disposition_of_sigurg)
{
	void (*before[])(int) = { SIG_DFL, SIG_IGN };

	for (int i = 0; i < 2; i++) {
		CHECK(signal(SIGURG, before[i]) != SIG_ERR);
		run_procs(2, dump_and_check, &before[i]);
		check_disposition(before[i]);
	}
}

static void dump_beside_handler(UNUSED void *arg)
{
	gmp_g *g;

	CHECK(signal(SIGURG, count_urgent) != SIG_ERR);
	begin_computing(&g, 1);
	for (int i = 0; i < 5; i++)
		check_has_not(block_of("computes"), "#0");
	check_disposition(count_urgent);
	end_computing(&g, 1);
	CHECK_EQ(atomic_load(&urgent), 0);
}

/* Also if the program sets it in a run with GMP_DEBUG=sched, which has installed a handler. */
TEST(dump_sends_no_signal_to_handler_of_program)
{
	run_procs(2, dump_beside_handler, NULL);
	check_disposition(count_urgent);
	signal(SIGURG, SIG_DFL);
	setenv("GMP_DEBUG", "sched", 1);
	run_procs(2, dump_beside_handler, NULL);
	unsetenv("GMP_DEBUG");
}

static void compute_blocked(UNUSED void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	compute_inner();
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
}

static void dump_blocked(UNUSED void *arg)
{
	gmp_g *g;

	atomic_store(&computing, 0);
	atomic_store(&go_on, 0);
	g = spawn_named("blocks", compute_blocked, NULL);
	WAIT_FOR(atomic_load(&computing) == 1);
	for (int i = 0; i < 3; i++)
		check_has_not(block_of("blocks"), "#0");
	end_computing(&g, 1);
	check_disposition(SIG_DFL);
}

TEST(dump_of_thread_that_blocks_sigurg_ends)
{
	run_procs(2, dump_blocked, NULL);
}

static void dump_often(UNUSED void *arg)
{
	for (int i = 0; i < 20; i++)
		free(dump());
}

static void dump_at_once(UNUSED void *arg)
{
	struct ext_thread f[3];
	gmp_g *g[3];

	begin_computing(g, 2);
	g[2] = spawn_named("dumps", dump_often, NULL);
	for (int i = 0; i < 3; i++)
		ext_thread_start(&f[i], dump_often, NULL);
	for (int i = 0; i < 3; i++)
		ext_thread_join(&f[i]);
	end_computing(g, 3);
	check_disposition(SIG_DFL);
}

TEST_PROCS(dump_by_several_threads_at_once_works)
{
	run_procs(procs, dump_at_once, NULL);
}

/* --- Gs that switch --- */

CALL static void compute_one(void)
{
	for (volatile int i = 0; i < 10000; i++)
		;
	no_more();
}

CALL static void compute_two(void)
{
	for (volatile int i = 0; i < 10000; i++)
		;
	no_more();
}

static void run_one(UNUSED void *arg)
{
	while (!atomic_load(&go_on)) {
		compute_one();
		gmp_yield();
	}
}

static void run_two(UNUSED void *arg)
{
	while (!atomic_load(&go_on)) {
		compute_two();
		gmp_yield();
	}
}

static void only_yield(UNUSED void *arg)
{
	while (!atomic_load(&go_on))
		gmp_yield();
}

static void end_soon(UNUSED void *arg)
{
	compute_one();
}

static gmp_fn switching[] = { run_one, run_two, only_yield, only_yield };
static const char *const switching_names[] = { "one", "two", "yields", "yields" };

/* The asked G may have switched, or ended, when the signal arrives. */
static void dump_switching(UNUSED void *arg)
{
	char *text;
	gmp_g *g[4];

	atomic_store(&go_on, 0);
	for (int i = 0; i < 4; i++)
		g[i] = spawn_named(switching_names[i], switching[i], NULL);
	for (int i = 0; i < check_scaled(100); i++) {
		CHECK_EQ(gmp_go(end_soon, NULL), 0);
		check_has_not(block_of("one"), "compute_two");
		check_has_not(block_of("two"), "compute_one");
		text = dump();
		check_has_not(text, "_g0+0x");
		free(text);
	}
	end_computing(g, 4);
}

TEST_PROCS(dump_of_switching_gs_shows_no_other_calls)
{
	run_procs(procs, dump_switching, NULL);
}
