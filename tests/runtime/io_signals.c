/* SPDX-License-Identifier: MIT */
/*
 * Tests what becomes of signals while the runtime runs: SIGPIPE of our writes reaches nobody, handlers
 * of the program never run on a green thread's stack, children of a fork have the mask of before, and
 * calls survive interruptions.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>

#include "io_util.h"

static int broken_pipe(void)
{
	int p[2];

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
	return p[1];
}

static bool pending(int signo)
{
	sigset_t set;

	CHECK_EQ(sigpending(&set), 0);
	return sigismember(&set, signo);
}

static bool blocked(int signo)
{
	sigset_t set;

	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, signo);
}

/* --- SIGPIPE; its disposition is the default, which would end the process --- */

static void write_to_broken(UNUSED void *arg)
{
	static char page[4096];
	char name[] = "/tmp/gmp-signals-XXXXXX";
	int file = mkstemp(name), p = broken_pipe(), a, b;
	struct iovec v[] = { { "x", 1 }, { "y", 1 } };
	off_t at = 0;
	ssize_t n;

	CHECK(file >= 0);
	unlink(name);
	CHECK_EQ(write(file, page, sizeof(page)), sizeof(page));
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_write(p, "x", 1), -EPIPE);
		CHECK_EQ(gmp_write_all(p, "x", 1), -EPIPE);
		CHECK_EQ(gmp_writev(p, v, 2), -EPIPE);
		CHECK_EQ(gmp_sendfile(p, file, &at, 100), -EPIPE);
		CHECK_EQ(gmp_dump(p), -EPIPE);
	}
	CHECK_EQ(gmp_close(p), 0);
	FOR_NETS(net)
	{
		make_pair(net, &a, &b);
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		CHECK_EQ(gmp_write(a, "x", 1), -EPIPE);
		CHECK_EQ(gmp_writev(a, v, 2), -EPIPE);
		CHECK_EQ(gmp_sendto(a, "x", 1, 0, NULL, 0), -EPIPE);
		n = gmp_sendfile(a, file, &at, 100);
		CHECK_EQ(n, -EPIPE);
		close_pair(a, b);
	}
	CHECK_EQ(close(file), 0);
	CHECK(!pending(SIGPIPE));
}

RT(no_write_of_ours_lets_sigpipe_reach_the_program)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	struct foreign f;

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	write_to_broken(NULL);
	for (int i = 0; i < 4; i++)
		join(spawn(write_to_broken, NULL));
	foreign_start(&f, write_to_broken, NULL);
	foreign_join(&f);
}

/* The first pages go out, and are answered with a reset: the next raise it, and the count is that of the first.
 * It is one call: another would find EPIPE. */
static void send_to_one_who_has_gone(UNUSED void *arg)
{
	enum { MUCH = 1 << 20 };
	char name[] = "/tmp/gmp-signals-XXXXXX";
	int file = mkstemp(name), a, b;
	off_t at = 0;
	ssize_t n;

	CHECK(file >= 0);
	unlink(name);
	CHECK_EQ(ftruncate(file, MUCH), 0);
	make_pair("tcp", &a, &b);
	CHECK_EQ(gmp_close(b), 0);
	n = gmp_sendfile(a, file, &at, MUCH);
	CHECK(n > 0 || n == -EPIPE || n == -ECONNRESET);
	CHECK(!pending(SIGPIPE));
	CHECK_EQ(gmp_close(a), 0);
	CHECK_EQ(close(file), 0);
}

static void send_with_sigpipe_unblocked(UNUSED void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	send_to_one_who_has_gone(NULL);
	CHECK(!blocked(SIGPIPE));
}

RT(a_file_that_is_sent_in_part_lets_no_sigpipe_reach_the_program)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	struct foreign f;

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	send_to_one_who_has_gone(NULL);
	join(spawn(send_to_one_who_has_gone, NULL));
	foreign_start(&f, send_with_sigpipe_unblocked, NULL);
	foreign_join(&f);
}

static void write_with_one_pending(UNUSED void *arg)
{
	int p = broken_pipe();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(gmp_write(p, "x", 1), -EPIPE);
	CHECK(!pending(SIGPIPE));
	CHECK_EQ(raise(SIGPIPE), 0);
	CHECK_EQ(gmp_write(p, "x", 1), -EPIPE);
	CHECK(pending(SIGPIPE)); /* the program's own */
	CHECK(blocked(SIGPIPE));
	CHECK_EQ(gmp_close(p), 0);
	CHECK_EQ(sigtimedwait(&set, NULL, &(struct timespec){ 0 }), SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	p = broken_pipe();
	CHECK_EQ(gmp_write(p, "x", 1), -EPIPE);
	CHECK(!blocked(SIGPIPE));
	CHECK_EQ(gmp_close(p), 0);
}

RT(a_foreign_threads_own_sigpipe_and_mask_are_left_to_it)
{
	struct foreign f;

	foreign_start(&f, write_with_one_pending, NULL);
	foreign_join(&f);
}

/* On the thread that calls gmp_run, as a library that writes to a closed peer by itself. */
static void write_plainly_to_broken(UNUSED void *arg)
{
	int p[2];

	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(write(p[1], "x", 1), -1);
	CHECK_EQ(errno, EPIPE);
	CHECK_EQ(close(p[1]), 0);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

TEST_PROCS(sigpipe_of_plain_write_is_dropped_at_end_of_run)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	for (int i = 0; i < 3; i++)
		run_procs(procs, write_plainly_to_broken, NULL);
	CHECK(!pending(SIGPIPE));
	CHECK(!blocked(SIGPIPE));
}

static atomic_int sigpipes;

static void count_sigpipe(UNUSED int signo)
{
	atomic_fetch_add(&sigpipes, 1);
}

static void raise_sigpipe(UNUSED void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK_EQ(raise(SIGPIPE), 0);
	CHECK_EQ(gmp_unlock_thread(), 0);
	CHECK_EQ(atomic_load(&sigpipes), 0);
}

TEST(sigpipe_raised_by_program_is_delivered_at_end_of_run)
{
	struct sigaction sa = { .sa_handler = count_sigpipe };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	run_procs(1, raise_sigpipe, NULL);
	CHECK_EQ(atomic_load(&sigpipes), 1);
}

/* --- handlers --- */

static atomic_uintptr_t ran_at;
static atomic_int ran, in_green;

static void on_signal(UNUSED int signo)
{
	int here;

	atomic_store(&ran_at, (uintptr_t)&here);
	if (gmp_self() != NULL)
		atomic_store(&in_green, 1);
	atomic_fetch_add(&ran, 1);
}

static void install(int signo)
{
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
	atomic_store(&ran, 0);
	atomic_store(&in_green, 0);
}

static atomic_int stop;

static void compute(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_checkpoint();
}

RT(a_handler_runs_though_all_threads_are_the_runtimes_and_not_on_a_green_stack)
{
	static const int signals[] = { SIGUSR1, SIGTERM, SIGINT, SIGALRM, SIGCHLD, SIGWINCH };
	gmp_g *g[4];

	atomic_store(&stop, 0);
	for (int i = 0; i < procs - 1; i++)
		g[i] = spawn(compute, NULL);
	for (int i = 0; i < 6; i++) {
		install(signals[i]);
		CHECK(blocked(signals[i]));
		CHECK_EQ(kill(getpid(), signals[i]), 0);
		WAIT_FOR(atomic_load(&ran) == 1);
		CHECK_EQ(atomic_load(&in_green), 0);
	}
	CHECK(!blocked(SIGSEGV));
	CHECK(!blocked(SIGABRT));
	CHECK(!blocked(SIGPROF));
	atomic_store(&stop, 1);
	for (int i = 0; i < procs - 1; i++)
		join(g[i]);
}

static void wait_to_be_killed(UNUSED void *arg)
{
	CHECK_EQ(kill(getpid(), SIGTERM), 0);
	gmp_sleep(PATIENCE);
}

static void run_and_be_killed(void)
{
	run_procs(2, wait_to_be_killed, NULL);
}

TEST(a_signal_that_ends_the_process_still_does)
{
	int status = in_child(run_and_be_killed);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void check_child_mask(UNUSED void *arg)
{
	for (int blocking = 0; blocking < 2; blocking++) {
		pid_t pid;
		int status = 0;

		if (blocking)
			gmp_block_enter();
		pid = fork();
		if (pid == 0)
			_exit(blocked(SIGPIPE) || blocked(SIGTERM) || !blocked(SIGUSR2));
		CHECK(pid > 0);
		while (waitpid(pid, &status, 0) < 0)
			CHECK(errno == EINTR);
		if (blocking)
			gmp_block_leave();
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

static void check_child_masks(void *arg)
{
	check_child_mask(NULL);
	for (int i = 0; i < *(int *)arg; i++)
		join(spawn(check_child_mask, NULL));
}

TEST_PROCS(the_child_of_a_fork_has_the_mask_of_before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	run_procs(procs, check_child_masks, &procs);
	CHECK(blocked(SIGUSR2));
	CHECK(!blocked(SIGTERM));
	CHECK(!blocked(SIGPIPE));
}

/* --- interruptions --- */

static void interrupt_all_the_time(UNUSED void *arg)
{
	struct timespec t = { .tv_nsec = 100 * 1000 };

	/* each thread of the process in turn, also the Ms, where they let a signal through */
	while (!atomic_load(&stop)) {
		kill(getpid(), SIGUSR1);
		kill(getpid(), SIGPROF);
		nanosleep(&t, NULL);
	}
}

static void converse(void *arg)
{
	int fd = *(int *)arg;
	char out[100], in[100];

	for (long i = 0; i < check_scaled(300); i++) {
		memset(out, (int)i, sizeof(out));
		CHECK_EQ(gmp_write_all(fd, out, sizeof(out)), sizeof(out));
		CHECK_EQ(gmp_read_full(fd, in, sizeof(in)), sizeof(in));
		CHECK(memcmp(in, out, sizeof(in)) == 0);
		if (i % 50 == 0)
			gmp_sleep(MS);
	}
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
}

RT(a_signal_every_100_us_disturbs_nobody)
{
	struct foreign storm, f[2];
	int fd[4][2];
	gmp_g *g[6];

	install(SIGUSR1);
	install(SIGPROF);
	atomic_store(&stop, 0);
	foreign_start(&storm, interrupt_all_the_time, NULL);
	for (int i = 0; i < 4; i++)
		make_pair(nets[i & 1], &fd[i][0], &fd[i][1]);
	for (int i = 0; i < 3; i++) {
		g[2 * i] = spawn(echo_whole, &fd[i][0]);
		g[2 * i + 1] = spawn(converse, &fd[i][1]);
	}
	foreign_start(&f[0], echo_whole, &fd[3][0]);
	foreign_start(&f[1], converse, &fd[3][1]);
	for (int i = 0; i < 6; i++)
		join(g[i]);
	foreign_join(&f[0]);
	foreign_join(&f[1]);
	atomic_store(&stop, 1);
	foreign_join(&storm);
	CHECK(atomic_load(&ran) > 0);
	for (int i = 0; i < 4; i++)
		close_pair(fd[i][0], fd[i][1]);
}
