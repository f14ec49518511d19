/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_dump_on: a signal writes a dump to stderr, even if no green thread gets a P, and the
 * program continues.
 */
#include "stderr_util.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

static bool is_caught(const char *what)
{
	return strstr(caught(), what) != NULL;
}

#define WAIT_CAUGHT(what)                                                                          \
	do {                                                                                       \
		int64_t limit_ = gmp_deadline(PATIENCE);                                           \
		while (!is_caught(what)) {                                                         \
			if (gmp_now() > limit_)                                                    \
				check_failed("\"%s\" is not in:\n%s", what, caught());             \
			gmp_sleep(MS);                                                             \
		}                                                                                  \
	} while (0)

RT(dump_on_signal_writes_to_stderr)
{
	gmp_g *g;

	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	catch_stderr();
	CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	CHECK_EQ(kill(getpid(), SIGQUIT), 0);
	WAIT_CAUGHT(" entry_of_all+0x");
	CHECK(is_caught("2 green threads: "));
	CHECK_EQ(gmp_dump_on(0), 0);
	restore_stderr();
	end_chan(g);
}

RT(dump_on_signal_repeats)
{
	catch_stderr();
	CHECK_EQ(gmp_dump_on(SIGUSR1), 0);
	for (unsigned i = 1; i <= 3; i++) {
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		int64_t limit = gmp_deadline(PATIENCE);

		while (count(caught(), " green threads: ") < i) {
			CHECK(gmp_now() < limit);
			gmp_sleep(MS);
		}
	}
	CHECK_EQ(gmp_dump_on(0), 0);
	restore_stderr();
}

/* No green thread gets a P. */
static void compute_until_dumped(UNUSED void *arg)
{
	int64_t limit = gmp_deadline(PATIENCE);

	catch_stderr();
	CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	CHECK_EQ(kill(getpid(), SIGQUIT), 0);
	while (!is_caught("(entry compute_until_dumped), running"))
		CHECK(gmp_now() < limit);
	restore_stderr();
}

TEST(dump_on_signal_needs_no_green_thread_to_yield)
{
	run_procs(1, compute_until_dumped, NULL);
}

static atomic_int told;

CALL static void compute_inner(void)
{
	while (!atomic_load(&told))
		;
	no_more();
}

static void compute_until_told(UNUSED void *arg)
{
	compute_inner();
	no_more();
}

static void signal_until_shown(UNUSED void *arg)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g = spawn_named("computes", compute_until_told, NULL);

	catch_stderr();
	CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	/* again and again: a busy machine may give the G no CPU before the timeout of a dump */
	while (!is_caught(", in compute_inner+0x")) {
		CHECK(gmp_now() < limit);
		CHECK_EQ(kill(getpid(), SIGQUIT), 0);
		gmp_sleep(50 * MS);
	}
	check_has(strstr(caught(), ", in compute_inner+0x"), " compute_until_told+0x");
	CHECK_EQ(gmp_dump_on(0), 0);
	restore_stderr();
	atomic_store(&told, 1);
	join(g);
}

TEST_PROCS(dump_on_signal_shows_calls_of_computing_g)
{
#ifdef __SANITIZE_THREAD__
	check_skip("ThreadSanitizer delays the handler of a thread that calls no function");
#endif
	if (procs == 1)
		need_preemption();
	run_procs(procs, signal_until_shown, NULL);
}

/* sysmon sleeps after a second in which no G ran. */
TEST(dump_on_signal_wakes_idle_runtime)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g;

	CHECK_EQ(gmp_start(NULL), 0);
	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	catch_stderr();
	CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	gmp_sleep(3500 * MS);
	CHECK_EQ(kill(getpid(), SIGQUIT), 0);
	while (!is_caught(" entry_of_all+0x")) {
		CHECK(gmp_now() < limit);
		gmp_sleep(MS);
	}
	restore_stderr();
	end_chan(g);
	CHECK_EQ(gmp_stop(), 0);
}

TEST(dump_on_arguments_are_checked)
{
	CHECK_EQ(gmp_dump_on(SIGQUIT), -ESRCH);
	CHECK_EQ(gmp_start(NULL), 0);
	CHECK_EQ(gmp_dump_on(-1), -EINVAL);
	CHECK_EQ(gmp_dump_on(65), -EINVAL);
	CHECK_EQ(gmp_dump_on(SIGKILL), -EINVAL);
	CHECK_EQ(gmp_dump_on(SIGSTOP), -EINVAL);
	CHECK_EQ(gmp_dump_on(SIGSEGV), -EINVAL);
	CHECK_EQ(gmp_dump_on(SIGBUS), -EINVAL);
	CHECK_EQ(gmp_dump_on(0), 0);
	CHECK_EQ(gmp_stop(), 0);
}

static void handler(UNUSED int signo)
{
}

static void check_disposition(int signo, void (*want)(int))
{
	struct sigaction sa;

	CHECK_EQ(sigaction(signo, NULL, &sa), 0);
	CHECK(sa.sa_handler == want);
}

TEST(dump_on_restores_disposition)
{
	signal(SIGUSR1, handler);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_start(NULL), 0);
		CHECK_EQ(gmp_dump_on(SIGUSR1), 0);
		CHECK_EQ(gmp_dump_on(SIGUSR2), 0);
		check_disposition(SIGUSR1, handler);
		CHECK_EQ(gmp_dump_on(0), 0);
		check_disposition(SIGUSR2, SIG_DFL);
		CHECK_EQ(gmp_dump_on(SIGUSR1), 0);
		CHECK_EQ(gmp_stop(), 0);
		check_disposition(SIGUSR1, handler);
	}
}

static void child_quits(void)
{
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	raise(SIGQUIT);
}

/* A forked child has no runtime, so the signal has its default action there. */
TEST(dump_on_signal_is_off_in_forked_child)
{
	int status;

	signal(SIGQUIT, SIG_DFL); /* a shell ignores it in background jobs */
	CHECK_EQ(gmp_start(NULL), 0);
	CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	status = in_child(child_quits);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGQUIT);
	CHECK_EQ(gmp_stop(), 0);
}

static void quit_word(UNUSED void *arg)
{
	catch_stderr();
	CHECK_EQ(kill(getpid(), SIGQUIT), 0);
	WAIT_CAUGHT("(entry quit_word), ");
	restore_stderr();
}

static void block_sigquit(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGQUIT);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
}

TEST_PROCS(dump_on_debug_word_quit_dumps_at_sigquit)
{
	signal(SIGQUIT, SIG_DFL); /* a shell ignores it in background jobs */
	/* also if the program blocks the signal */
	if (procs == 2)
		block_sigquit();
	setenv("GMP_DEBUG", "quit", 1);
	run_procs(procs, quit_word, NULL);
	unsetenv("GMP_DEBUG");
	check_disposition(SIGQUIT, SIG_DFL);
}

/* sysmon unblocks the signal for itself, and is a new OS thread in each run. */
TEST(dump_on_blocked_signal_dumps_in_each_run)
{
	block_sigquit();
	setenv("GMP_DEBUG", "quit", 1);
	for (int i = 0; i < 3; i++)
		run_procs(1, quit_word, NULL);
	unsetenv("GMP_DEBUG");
}

/* A full pipe as stderr blocks neither the program nor the shutdown. */
static void dump_to_full_pipe(UNUSED void *arg)
{
	static char much[4096];
	int p[2];

	saved_stderr = dup(2);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(fcntl(p[1], F_SETFL, O_NONBLOCK), 0);
	while (write(p[1], much, sizeof(much)) > 0)
		;
	CHECK_EQ(fcntl(p[1], F_SETFL, 0), 0);
	CHECK_EQ(dup2(p[1], 2), 2);
	CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	CHECK_EQ(kill(getpid(), SIGQUIT), 0);
	gmp_sleep(100 * MS);
	CHECK_EQ(dup2(saved_stderr, 2), 2);
}

TEST(dump_on_signal_to_full_pipe_does_not_delay_shutdown)
{
	run_procs(2, dump_to_full_pipe, NULL);
}
