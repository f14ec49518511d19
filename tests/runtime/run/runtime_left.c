/* SPDX-License-Identifier: MIT */
/* Tests that a run leaves no thread, fd or mapping behind and restores the signal state. */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>

#include "runtime_util.h"

static atomic_int arrived;

static void arrive_and_wait(void *arg)
{
	int n = *(int *)arg;

	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < n)
		gmp_checkpoint();
}

static void busy_cycle(void *arg)
{
	int procs = *(int *)arg;
	int fds[2];
	gmp_g *g[8];
	int l, c, s;
	char addr[64];

	/* Run all Ps and their threads at once. */
	atomic_store(&arrived, 0);
	for (int i = 0; i < procs; i++)
		g[i] = spawn(arrive_and_wait, arg);
	for (int i = 0; i < procs; i++)
		join(g[i]);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(i % 2 ? step_and_yield : step_after_sleep, NULL), 0);
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(wait_never, NULL), 0);
	l = gmp_listen("tcp", "127.0.0.1:0");
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	c = gmp_dial("tcp", addr);
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(gmp_close(c), 0);
	CHECK_EQ(gmp_close(s), 0);
	CHECK_EQ(pipe(fds), 0);
	CHECK(gmp_fd_adopt(fds[0]) >= 0);
	CHECK_EQ(gmp_close(fds[0]), 0);
	CHECK_EQ(close(fds[1]), 0);
	gmp_sleep(100 * US);
}

static void cycles(int procs, int n, int start)
{
	int threads = count_threads();
	int fds = 0, maps = 0, late = 0;

#ifdef M_ARENA_MAX /* glibc: threads would get heaps of their own */
	mallopt(M_ARENA_MAX, 1);
#endif
	for (int i = 0; i < n; i++) {
		memset(&never, 0, sizeof(never));
		if (start) {
			gmp_config c = GMP_CONFIG_INIT;

			c.procs = procs;
			CHECK_EQ(gmp_start(&c), 0);
			CHECK_EQ(gmp_join(spawn(busy_cycle, &procs)), 0);
			CHECK_EQ(gmp_stop(), 0);
		} else {
			run_procs(procs, busy_cycle, &procs);
		}
		CHECK_EQ(gmp_procs(), 0);
		/* A thread that was joined may stay in /proc for a moment. */
		WAIT_FOR(count_threads() == threads);
		if (i == 1)
			fds = count_fds();
		if (i >= 1)
			CHECK_EQ(count_fds(), fds);
		if (i >= 1 && i < n / 4 && count_maps() > maps)
			maps = count_maps();
		if (i >= n - n / 4 && count_maps() > late)
			late = count_maps();
	}
	/* The C library keeps the stacks of ended threads: how many depends on how many threads
	 * met. A leak of one mapping in each cycle adds 3/4 n. */
	if (!SANITIZED)
		CHECK(late <= maps + n / 2);
}

TEST_PROCS(run_100_times_leaves_no_thread_fd_or_mapping)
{
	cycles(procs, SLOW ? 20 : 100, 0);
}

TEST_PROCS(start_stop_100_times_leaves_no_thread_fd_or_mapping)
{
	cycles(procs, SLOW ? 20 : 100, 1);
}

static void own_handler(UNUSED int sig, UNUSED siginfo_t *si, UNUSED void *uc)
{
	_exit(77);
}

static int same_handlers(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_sigaction == b->sa_sigaction;
}

TEST(run_restores_signal_dispositions)
{
	struct sigaction before[65], after;

	for (int i = 1; i <= 64; i++)
		sigaction(i, NULL, &before[i]);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), 0);
	for (int i = 1; i <= 64; i++) {
		if (sigaction(i, NULL, &after) == 0)
			CHECK(same_handlers(&before[i], &after));
	}
}

static void take_segv(UNUSED void *arg)
{
	struct sigaction sa = { .sa_sigaction = own_handler, .sa_flags = SA_SIGINFO };

	CHECK_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
}

TEST(run_keeps_disposition_changed_by_program)
{
	struct sigaction after;

	CHECK_EQ(gmp_run(take_segv, NULL, NULL), 0);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &after), 0);
	CHECK(after.sa_sigaction == own_handler);
}

static void (*sigpipe_handler(void))(int)
{
	struct sigaction sa;

	CHECK_EQ(sigaction(SIGPIPE, NULL, &sa), 0);
	return sa.sa_handler;
}

static void check_sigpipe(void *arg)
{
	CHECK_EQ(sigpipe_handler() == SIG_IGN, arg != NULL);
}

TEST(run_restores_sigpipe_disposition_of_program)
{
	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	CHECK_EQ(gmp_run(check_sigpipe, NULL, NULL), 0);
	CHECK(sigpipe_handler() == SIG_DFL);
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	CHECK_EQ(gmp_run(check_sigpipe, "ignored", NULL), 0);
	CHECK(sigpipe_handler() == SIG_IGN);
}

TEST_PROCS(run_restores_signal_stack_and_mask_of_caller)
{
	static char own[65536];
	stack_t ss = { .ss_sp = own, .ss_size = sizeof(own) }, before, after;
	sigset_t mask, mask_after;

	CHECK_EQ(sigaltstack(NULL, &before), 0);
	run_procs(procs, nothing, NULL);
	CHECK_EQ(sigaltstack(NULL, &after), 0);
	CHECK_EQ(before.ss_flags & SS_DISABLE, after.ss_flags & SS_DISABLE);
	CHECK_EQ(sigaltstack(&ss, NULL), 0);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
	run_procs(procs, nothing, NULL);
	CHECK_EQ(sigaltstack(NULL, &after), 0);
	CHECK(after.ss_sp == own);
	CHECK_EQ(after.ss_size, sizeof(own));
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask_after), 0);
	CHECK_EQ(sigismember(&mask_after, SIGUSR2), 1);
	CHECK_EQ(sigismember(&mask_after, SIGUSR1), 0);
}
