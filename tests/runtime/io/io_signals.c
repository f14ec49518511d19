/* SPDX-License-Identifier: MIT */
/*
 * Tests signals while the runtime runs: writes raise no SIGPIPE, handlers of the program run on the
 * alternate stack, forked children have the signal mask from before the run, and calls survive
 * interruptions.
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

/* --- SIGPIPE: its default action would end the process --- */

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

static void write_to_broken_everywhere(UNUSED void *arg)
{
	struct ext_thread f;

	write_to_broken(NULL);
	for (int i = 0; i < 4; i++)
		join(spawn(write_to_broken, NULL));
	ext_thread_start(&f, write_to_broken, NULL);
	ext_thread_join(&f);
}

static atomic_int sigpipes;

static void count_sigpipe(UNUSED int signo)
{
	atomic_fetch_add(&sigpipes, 1);
}

TEST_PROCS(writes_to_broken_pipe_raise_no_sigpipe)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	run_procs(procs, write_to_broken_everywhere, NULL);
	sa.sa_handler = count_sigpipe;
	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	run_procs(procs, write_to_broken_everywhere, NULL);
	CHECK_EQ(atomic_load(&sigpipes), 0);
}

static void write_with_signal_channel(UNUSED void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);
	int v = 0;

	CHECK_EQ(gmp_signal_notify(c, SIGPIPE), 0);
	write_to_broken(NULL);
	CHECK_EQ(raise(SIGPIPE), 0);
	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	CHECK_EQ(v, SIGPIPE);
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
	CHECK_EQ(gmp_signal_stop(c, SIGPIPE), 0);
	write_to_broken(NULL);
	gmp_chan_free(c);
}

TEST_PROCS(writes_to_broken_pipe_send_no_sigpipe_to_a_channel)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	run_procs(procs, write_with_signal_channel, NULL);
}

static void write_with_blocked_sigpipe_pending(UNUSED void *arg)
{
	sigset_t set;

	write_to_broken_everywhere(NULL);
	CHECK_EQ(gmp_lock_thread(), 0);
	CHECK_EQ(raise(SIGPIPE), 0);
	int p = broken_pipe();

	CHECK_EQ(gmp_write(p, "x", 1), -EPIPE);
	CHECK_EQ(gmp_close(p), 0);
	CHECK(pending(SIGPIPE)); /* raised by the program */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK_EQ(sigtimedwait(&set, NULL, &(struct timespec){ 0 }), SIGPIPE);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

TEST_PROCS(writes_to_broken_pipe_keep_pending_sigpipe_of_program)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	run_procs(procs, write_with_blocked_sigpipe_pending, NULL);
	CHECK(!pending(SIGPIPE));
}

/*
 * The peer answers the first pages with a reset, so the next pages of the same call raise SIGPIPE.
 * The call returns the count of the first pages; a second call would return EPIPE.
 */
static void send_to_closed_peer(UNUSED void *arg)
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
	send_to_closed_peer(NULL);
	CHECK(!blocked(SIGPIPE));
}

static void send_to_closed_peer_everywhere(UNUSED void *arg)
{
	struct ext_thread f;

	send_to_closed_peer(NULL);
	join(spawn(send_to_closed_peer, NULL));
	ext_thread_start(&f, send_with_sigpipe_unblocked, NULL);
	ext_thread_join(&f);
}

TEST_PROCS(sendfile_sent_in_part_raises_no_sigpipe)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	run_procs(procs, send_to_closed_peer_everywhere, NULL);
}

static void write_with_sigpipe_pending(UNUSED void *arg)
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
	CHECK(pending(SIGPIPE)); /* raised by the program */
	CHECK(blocked(SIGPIPE));
	CHECK_EQ(gmp_close(p), 0);
	CHECK_EQ(sigtimedwait(&set, NULL, &(struct timespec){ 0 }), SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	p = broken_pipe();
	CHECK_EQ(gmp_write(p, "x", 1), -EPIPE);
	CHECK(!blocked(SIGPIPE));
	CHECK_EQ(gmp_close(p), 0);
}

RT(writes_on_external_thread_keep_its_sigpipe_and_mask)
{
	struct ext_thread f;

	ext_thread_start(&f, write_with_sigpipe_pending, NULL);
	ext_thread_join(&f);
}

/* Like a library that calls write(2), on the thread that called gmp_run. */
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

TEST_PROCS(plain_write_to_broken_pipe_raises_no_sigpipe)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	for (int i = 0; i < 3; i++)
		run_procs(procs, write_plainly_to_broken, NULL);
	CHECK(!pending(SIGPIPE));
	CHECK(!blocked(SIGPIPE));
}

static void raise_sigpipe(UNUSED void *arg)
{
	CHECK_EQ(raise(SIGPIPE), 0);
	CHECK_EQ(atomic_load(&sigpipes), 1);
}

TEST(sigpipe_raised_by_program_is_delivered_at_once)
{
	struct sigaction sa = { .sa_handler = count_sigpipe };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	run_procs(1, raise_sigpipe, NULL);
	CHECK_EQ(atomic_load(&sigpipes), 1);
}

static void raise_sigpipe_at_default(UNUSED void *arg)
{
	raise(SIGPIPE);
	gmp_sleep(PATIENCE);
}

static void write_to_broken_or_sleep(UNUSED void *arg)
{
	int p = broken_pipe();

	if (write(p, "x", 1) < 0)
		gmp_sleep(PATIENCE);
}

static void write_to_broken_in_external_thread(UNUSED void *arg)
{
	struct ext_thread f;

	ext_thread_start(&f, write_to_broken_or_sleep, NULL);
	ext_thread_join(&f);
}

static void (*fatal_sigpipe)(void *arg);

static void run_to_fatal_sigpipe(void)
{
	signal(SIGPIPE, SIG_DFL);
	run_procs(2, fatal_sigpipe, NULL);
}

TEST(sigpipe_at_default_not_from_green_write_ends_process)
{
	static void (*const fns[])(void *arg) = { raise_sigpipe_at_default,
						  write_to_broken_in_external_thread };

	for (int i = 0; i < 2; i++) {
		fatal_sigpipe = fns[i];
		int status = in_child(run_to_fatal_sigpipe);

		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
	}
}

/* --- handlers --- */

static atomic_uintptr_t ran_at;
static atomic_int ran;

static void on_signal(UNUSED int signo)
{
	int here;

	atomic_store(&ran_at, (uintptr_t)&here);
	atomic_fetch_add(&ran, 1);
}

static void install(int signo)
{
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
}

static atomic_int stop;

static void compute(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_checkpoint();
}

static const int asynchronous[] = { SIGUSR1, SIGTERM, SIGINT, SIGALRM, SIGCHLD, SIGWINCH, SIGPROF };

/* Whether the handler ran within 256 KiB, the size of a stack, of this frame. */
static bool ran_on_this_stack(void)
{
	char here;
	uintptr_t a = (uintptr_t)&here, b = atomic_load(&ran_at);

	return (a > b ? a - b : b - a) < 256 * 1024;
}

static void take_signals(void *arg)
{
	int procs = *(int *)arg;
	gmp_g *g[4];

	atomic_store(&stop, 0);
	for (int i = 0; i < procs - 1; i++)
		g[i] = spawn(compute, NULL);
	for (unsigned i = 0; i < sizeof(asynchronous) / sizeof(asynchronous[0]); i++) {
		int signo = asynchronous[i];

		CHECK(!blocked(signo));
		atomic_store(&ran, 0);
		CHECK_EQ(kill(getpid(), signo), 0);
		WAIT_FOR(atomic_load(&ran) == 1);
		CHECK(!ran_on_this_stack());
		CHECK_EQ(raise(signo), 0);
		CHECK_EQ(atomic_load(&ran), 2); /* at once */
		CHECK(!ran_on_this_stack());
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < procs - 1; i++)
		join(g[i]);
}

TEST_PROCS(handler_from_before_the_run_runs_on_the_alternate_stack)
{
	struct sigaction sa;

	for (unsigned i = 0; i < sizeof(asynchronous) / sizeof(asynchronous[0]); i++)
		install(asynchronous[i]);
	run_procs(procs, take_signals, &procs);
	for (unsigned i = 0; i < sizeof(asynchronous) / sizeof(asynchronous[0]); i++) {
		CHECK_EQ(sigaction(asynchronous[i], NULL, &sa), 0);
		CHECK(sa.sa_handler == on_signal);
		CHECK_EQ(sa.sa_flags & SA_ONSTACK, 0);
	}
}

static void change_handlers(UNUSED void *arg)
{
	install(SIGUSR1); /* as it was, without SA_ONSTACK */
	CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
}

TEST(end_of_run_leaves_handlers_that_the_run_has_set)
{
	struct sigaction sa;

	install(SIGUSR1);
	install(SIGUSR2);
	run_procs(2, change_handlers, NULL);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &sa), 0);
	CHECK(sa.sa_handler == on_signal);
	CHECK_EQ(sigaction(SIGUSR2, NULL, &sa), 0);
	CHECK(sa.sa_handler == SIG_IGN);
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

TEST(fatal_signal_during_run_ends_process)
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

TEST_PROCS(fork_child_has_signal_mask_from_before_run)
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

static void send_signals_until_stop(UNUSED void *arg)
{
	struct timespec t = { .tv_nsec = 100 * 1000 };

	/* any thread that does not block the signal may get it, also an M */
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

RT(signals_every_100_us_disturb_no_transfer)
{
	struct ext_thread storm, f[2];
	int fd[4][2];
	gmp_g *g[6];

	install(SIGUSR1);
	install(SIGPROF);
	atomic_store(&stop, 0);
	ext_thread_start(&storm, send_signals_until_stop, NULL);
	for (int i = 0; i < 4; i++)
		make_pair(nets[i & 1], &fd[i][0], &fd[i][1]);
	for (int i = 0; i < 3; i++) {
		g[2 * i] = spawn(echo_whole, &fd[i][0]);
		g[2 * i + 1] = spawn(converse, &fd[i][1]);
	}
	ext_thread_start(&f[0], echo_whole, &fd[3][0]);
	ext_thread_start(&f[1], converse, &fd[3][1]);
	for (int i = 0; i < 6; i++)
		join(g[i]);
	ext_thread_join(&f[0]);
	ext_thread_join(&f[1]);
	atomic_store(&stop, 1);
	ext_thread_join(&storm);
	CHECK(atomic_load(&ran) > 0);
	for (int i = 0; i < 4; i++)
		close_pair(fd[i][0], fd[i][1]);
}
