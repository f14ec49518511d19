/* SPDX-License-Identifier: MIT */
/*
 * Tests the runtime beside what the rest of the process does: little address space, signal handlers
 * installed before and after those of gmp, and a fork during a wait.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "util.h"

static atomic_int ran;

static void count(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
}

static void nothing(UNUSED void *arg)
{
}

/* --- address space --- */

static void spawn_some(UNUSED void *arg)
{
	gmp_g *g[50];

	for (int i = 0; i < 50; i++)
		g[i] = spawn(count, NULL);
	for (int i = 0; i < 50; i++)
		join(g[i]);
}

static rlim_t space;

static void run_in_space(void)
{
	struct rlimit low = { space, space };

	CHECK_EQ(setrlimit(RLIMIT_AS, &low), 0);
	for (int i = 0; i < 3; i++) {
		atomic_store(&ran, 0);
		run_procs(4, spawn_some, NULL);
		CHECK_EQ(atomic_load(&ran), 50);
	}
}

TEST(run_with_200_mib_or_more_address_space_works)
{
	static const rlim_t mib[] = { 200,  260,  333,  512,  777,  1024,
				      1500, 2048, 3000, 4096, 6000, 12000 };

	if (SLOW)
		check_skip("a sanitizer or Valgrind has its own memory");
	for (unsigned i = 0; i < sizeof(mib) / sizeof(mib[0]); i++) {
		space = mib[i] << 20;
		CHECK_EQ(in_child(run_in_space), 0);
	}
}

/* --- signals --- */

static void send_ignored(UNUSED void *arg)
{
	CHECK_EQ(raise(SIGBUS), 0);
	CHECK_EQ(raise(SIGSEGV), 0);
	atomic_fetch_add(&ran, 1);
}

TEST(fault_signal_sent_and_ignored_stays_ignored)
{
	struct sigaction sa = { .sa_handler = SIG_IGN }, now;

	CHECK_EQ(sigaction(SIGBUS, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_EQ(gmp_run(send_ignored, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_handler == SIG_IGN);
}

struct sleeper {
	pid_t tid;
	int fd[2];
};

static void disturb_sleeper(void *arg)
{
	struct sleeper *s = arg;

	for (int i = 0; i < 20; i++) {
		usleep(1000);
		CHECK_EQ(syscall(SYS_tgkill, getpid(), s->tid, SIGSEGV), 0);
	}
	CHECK_EQ(write(s->fd[1], "x", 1), 1);
}

/* *arg: what the read returns. */
static void read_disturbed(void *arg)
{
	struct sleeper s;
	struct ext_thread f;
	char byte;

	CHECK_EQ(gmp_lock_thread(), 0);
	s.tid = (pid_t)syscall(SYS_gettid);
	CHECK_EQ(pipe(s.fd), 0);
	ext_thread_start(&f, disturb_sleeper, &s);
	*(ssize_t *)arg = read(s.fd[0], &byte, 1);
	ext_thread_join(&f);
	close(s.fd[0]);
	close(s.fd[1]);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

TEST(fault_signal_sent_and_ignored_does_not_end_a_read)
{
	struct sigaction sa = { .sa_handler = SIG_IGN };
	ssize_t got = 0;

	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_EQ(gmp_run(read_disturbed, &got, NULL), 0);
	CHECK_EQ(got, 1);
}

static void nothing_handler(UNUSED int signo)
{
}

TEST(fault_signal_sent_ends_a_read_as_its_handler_says)
{
	struct sigaction sa = { .sa_handler = nothing_handler, .sa_flags = SA_RESTART };
	ssize_t got = 0;

	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_EQ(gmp_run(read_disturbed, &got, NULL), 0);
	CHECK_EQ(got, 1);
	/* The first signal ends the read, and others come later.  For ThreadSanitizer a handler
	 * that runs within a switch is a race with one of the two green threads. */
#if !defined(__SANITIZE_THREAD__)
	sa.sa_flags = 0;
	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_EQ(gmp_run(read_disturbed, &got, NULL), 0);
	CHECK_EQ(got, -1);
#endif
}

static void send_segv(UNUSED void *arg)
{
	CHECK_EQ(raise(SIGSEGV), 0);
}

static atomic_int handled;

static void plain_handler(int signo)
{
	CHECK_EQ(signo, SIGSEGV);
	atomic_fetch_add(&handled, 1);
}

static void raise_everywhere(UNUSED void *arg)
{
	struct ext_thread f;

	CHECK_EQ(raise(SIGSEGV), 0);
	gmp_block_enter();
	CHECK_EQ(raise(SIGSEGV), 0);
	gmp_block_leave();
	ext_thread_start(&f, send_segv, NULL);
	ext_thread_join(&f);
}

TEST(sigsegv_handler_without_siginfo_runs_on_all_threads)
{
	struct sigaction sa = { .sa_handler = plain_handler };

	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_EQ(gmp_run(raise_everywhere, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&handled), 3);
}

static struct sigaction before_library;
static atomic_int library_calls;

static void library_handler(int signo, siginfo_t *info, void *context)
{
	CHECK(atomic_fetch_add(&library_calls, 1) < 10);
	if (before_library.sa_flags & SA_SIGINFO)
		before_library.sa_sigaction(signo, info, context);
}

/* Like a crash reporter that is loaded while green threads run. */
static void load_library(UNUSED void *arg)
{
	struct sigaction sa = { .sa_sigaction = library_handler,
				.sa_flags = SA_SIGINFO | SA_ONSTACK };

	CHECK_EQ(sigaction(SIGSEGV, &sa, &before_library), 0);
}

TEST(sigsegv_handlers_chained_both_ways_do_not_recurse)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	CHECK_EQ(sigaction(SIGSEGV, &ignore, NULL), 0);
	CHECK_EQ(gmp_run(load_library, NULL, NULL), 0);
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(gmp_run(send_segv, NULL, NULL), 0);
		CHECK_EQ(atomic_load(&library_calls), i);
	}
	/* the library restores gmp's handler, which gmp then removes at the end of the run */
	CHECK_EQ(sigaction(SIGSEGV, &before_library, NULL), 0);
	CHECK_EQ(gmp_run(send_segv, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&library_calls), 3);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &before_library), 0);
	CHECK(before_library.sa_handler == SIG_IGN);
}

/* --- fork --- */

static gmp_mutex held;
static atomic_int waiting;

static void wait_for_held(UNUSED void *arg)
{
	atomic_store(&waiting, 1);
	CHECK_EQ(gmp_mutex_lock(&held), 0);
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
}

static void lock_in_child(void)
{
	/* the waiter is a thread of the parent: the unlock must not wake it */
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
	CHECK_EQ(gmp_mutex_lock(&held), 0);
	CHECK_EQ(gmp_mutex_lock_until(&held, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
	CHECK_EQ(held.state, 0);
}

TEST(fork_child_does_not_wake_external_waiter_of_parent)
{
	struct ext_thread f;

	CHECK_EQ(gmp_mutex_lock(&held), 0);
	ext_thread_start(&f, wait_for_held, NULL);
	WAIT_FOR(atomic_load(&waiting));
	gmp_sleep(20 * MS); /* until the waiter probably sleeps; the test holds at any time */
	CHECK_EQ(in_child(lock_in_child), 0);
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
	ext_thread_join(&f);
}

static gmp_timer *parent_timer;

static void use_parent_timer(UNUSED void *arg)
{
	CHECK_EQ(gmp_timer_set(parent_timer, gmp_now(), 0), -ESRCH);
	gmp_timer_free(parent_timer);
}

static void run_with_parent_timer(void)
{
	run_procs(2, use_parent_timer, NULL);
	CHECK_EQ(atomic_load(&ran), 0);
}

static void fork_with_timer(UNUSED void *arg)
{
	parent_timer = gmp_timer_new(count, NULL);
	CHECK(parent_timer != NULL);
	CHECK_EQ(gmp_timer_set(parent_timer, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(in_child(run_with_parent_timer), 0);
	CHECK_EQ(gmp_timer_stop(parent_timer), 1);
	gmp_timer_free(parent_timer);
}

TEST(fork_child_run_rejects_timer_of_parent_with_esrch)
{
	if (SANITIZED)
		check_skip("sanitizers refuse threads in a forked child");
	CHECK_EQ(gmp_run(fork_with_timer, NULL, NULL), 0);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), 0);
}
