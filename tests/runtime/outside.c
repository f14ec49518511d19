/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the process does to the runtime: too little address space, handlers of its own
 * before and after ours, a fork in the middle of a wait.
 */
#include <signal.h>
#include <sys/resource.h>

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

TEST(a_runtime_starts_in_whatever_address_space_there_is)
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

TEST(a_fault_signal_that_is_sent_and_ignored_stays_ignored)
{
	struct sigaction sa = { .sa_handler = SIG_IGN }, now;

	CHECK_EQ(sigaction(SIGBUS, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	CHECK_EQ(gmp_run(send_ignored, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_handler == SIG_IGN);
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

TEST(a_handler_of_one_argument_gets_the_signal_on_all_threads)
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

/* As a crash reporter does that is loaded while green threads run. */
static void load_library(UNUSED void *arg)
{
	struct sigaction sa = { .sa_sigaction = library_handler,
				.sa_flags = SA_SIGINFO | SA_ONSTACK };

	CHECK_EQ(sigaction(SIGSEGV, &sa, &before_library), 0);
}

TEST(a_handler_put_before_ours_and_ours_never_call_each_other_for_ever)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	CHECK_EQ(sigaction(SIGSEGV, &ignore, NULL), 0);
	CHECK_EQ(gmp_run(load_library, NULL, NULL), 0);
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(gmp_run(send_segv, NULL, NULL), 0);
		CHECK_EQ(atomic_load(&library_calls), i);
	}
	/* the library goes: ours stands alone again, and is taken away at the end of a run */
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

static void go_on_in_child(void)
{
	/* the one who waits is the parent's thread: this must not wake what is not there */
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
	CHECK_EQ(gmp_mutex_lock(&held), 0);
	CHECK_EQ(gmp_mutex_lock_until(&held, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
	CHECK_EQ(held.state, 0);
}

TEST(threads_that_wait_without_a_runtime_are_not_there_in_a_forked_child)
{
	struct ext_thread f;

	CHECK_EQ(gmp_mutex_lock(&held), 0);
	ext_thread_start(&f, wait_for_held, NULL);
	WAIT_FOR(atomic_load(&waiting));
	gmp_sleep(20 * MS); /* until it is most likely asleep; the property holds at any time */
	CHECK_EQ(in_child(go_on_in_child), 0);
	CHECK_EQ(gmp_mutex_unlock(&held), 0);
	ext_thread_join(&f);
}

static gmp_timer *of_parent;

static void touch_parents_timer(UNUSED void *arg)
{
	CHECK_EQ(gmp_timer_set(of_parent, gmp_now(), 0), -ESRCH);
	gmp_timer_free(of_parent);
}

static void run_with_parents_timer(void)
{
	run_procs(2, touch_parents_timer, NULL);
	CHECK_EQ(atomic_load(&ran), 0);
}

static void fork_with_timer(UNUSED void *arg)
{
	of_parent = gmp_timer_new(count, NULL);
	CHECK(of_parent != NULL);
	CHECK_EQ(gmp_timer_set(of_parent, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(in_child(run_with_parents_timer), 0);
	CHECK_EQ(gmp_timer_stop(of_parent), 1);
	gmp_timer_free(of_parent);
}

TEST(a_forked_childs_runtime_does_not_take_the_parents_timers_for_its_own)
{
	if (SANITIZED)
		check_skip("sanitizers refuse threads in a forked child");
	CHECK_EQ(gmp_run(fork_with_timer, NULL, NULL), 0);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), 0);
}
