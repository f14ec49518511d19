/* SPDX-License-Identifier: MIT */
/* Tests signals delivered to channels: subscription, full channels, dispositions, shutdown. */
#define _GNU_SOURCE 1
#include "io/io_util.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/time.h>

static gmp_chan *ints(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), capacity);

	CHECK(c != NULL);
	return c;
}

static int next(gmp_chan *c)
{
	int v = -1;

	CHECK_EQ(gmp_chan_recv_until(c, &v, gmp_deadline(PATIENCE)), 0);
	return v;
}

static bool empty(gmp_chan *c)
{
	return gmp_chan_len(c) == 0;
}

static void send_signal(int signo)
{
	CHECK_EQ(kill(getpid(), signo), 0);
}

static atomic_int handled;

static void count_handled(UNUSED int signo)
{
	atomic_fetch_add(&handled, 1);
}

static void (*disposition(int signo))(int)
{
	struct sigaction sa;

	CHECK_EQ(sigaction(signo, NULL, &sa), 0);
	return sa.sa_handler;
}

RT(signal_is_delivered_to_subscribed_channel)
{
	gmp_chan *c = ints(1), *d = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_notify(d, SIGUSR2), 0);
	for (int i = 0; i < 20; i++) {
		send_signal(SIGUSR1);
		CHECK_EQ(next(c), SIGUSR1);
		CHECK(empty(d));
		send_signal(SIGUSR2);
		CHECK_EQ(next(d), SIGUSR2);
		CHECK(empty(c));
	}
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_stop(d, SIGUSR2), 0);
	gmp_chan_free(c);
	gmp_chan_free(d);
}

static void receive_one(UNUSED void *arg)
{
	gmp_chan *c = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	send_signal(SIGUSR1);
	CHECK_EQ(next(c), SIGUSR1);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

TEST_PROCS(signal_is_delivered_under_gmp_debug_sched)
{
	CHECK_EQ(setenv("GMP_DEBUG", "sched", 1), 0);
	run_procs(procs, receive_one, NULL);
}

RT(signal_raised_by_green_thread_is_delivered)
{
	gmp_chan *c = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(next(c), SIGUSR1);
	}
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

static _Atomic(pthread_t) g_thread;
static atomic_bool sent;

/* Calls nothing between the signal and its end: ThreadSanitizer runs handlers only at libc calls,
 * which this green thread never makes. */
static void compute_until_sent(UNUSED void *arg)
{
	atomic_store(&g_thread, pthread_self());
	while (!atomic_load(&sent))
		;
}

static void send_to_g_thread(UNUSED void *arg)
{
	while (!atomic_load(&g_thread))
		;
	CHECK_EQ(pthread_kill(atomic_load(&g_thread), SIGUSR1), 0);
	atomic_store(&sent, true);
}

RT(signal_to_thread_of_exiting_g_is_delivered)
{
	gmp_chan *c = ints(1);
	struct ext_thread f;
	gmp_g *g;

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	for (int i = 0; i < 20; i++) {
		atomic_store(&g_thread, 0);
		atomic_store(&sent, false);
		ext_thread_start(&f, send_to_g_thread, NULL);
		g = spawn(compute_until_sent, NULL);
		join(g);
		CHECK_EQ(next(c), SIGUSR1);
		ext_thread_join(&f);
	}
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

static atomic_int phase;

static void raise_some(UNUSED void *arg)
{
	while (!atomic_load(&phase))
		gmp_yield();
	CHECK_EQ(raise(SIGUSR1), 0);
	while (atomic_load(&phase) == 1)
		gmp_yield();
}

static void raise_locked(void *arg)
{
	CHECK_EQ(gmp_lock_thread(), 0);
	raise_some(arg);
	CHECK_EQ(gmp_unlock_thread(), 0);
}

/* Threads that existed before the subscription and stay busy. */
RT(signal_raised_on_busy_threads_is_delivered)
{
	gmp_chan *c = ints(16);
	gmp_g *g[6];

	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR); /* for signals still pending at the end */
	atomic_store(&phase, 0);
	for (int i = 0; i < 6; i++)
		g[i] = spawn(i < 4 ? raise_some : raise_locked, NULL);
	for (int i = 0; i < 100; i++)
		gmp_yield();
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	for (int i = 0; i < 100; i++)
		gmp_yield();
	atomic_store(&phase, 1);
	/* a signal that is pending on a thread is not queued twice */
	CHECK_EQ(next(c), SIGUSR1);
	atomic_store(&phase, 2);
	for (int i = 0; i < 6; i++)
		join(g[i]);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

RT(signal_is_delivered_to_several_channels)
{
	gmp_chan *c[5];

	for (int i = 0; i < 5; i++) {
		c[i] = ints(2);
		CHECK_EQ(gmp_signal_notify(c[i], SIGUSR1), 0);
		CHECK_EQ(gmp_signal_notify(c[i], SIGUSR1), 0); /* subscribed already */
	}
	send_signal(SIGUSR1);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(next(c[i]), SIGUSR1);
		CHECK(empty(c[i]));
	}
	CHECK_EQ(gmp_signal_stop(c[2], SIGUSR1), 0);
	send_signal(SIGUSR1);
	for (int i = 0; i < 5; i++)
		if (i != 2)
			CHECK_EQ(next(c[i]), SIGUSR1);
	CHECK(empty(c[2]));
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(gmp_signal_stop(c[i], SIGUSR1), i == 2 ? -ENOENT : 0);
		gmp_chan_free(c[i]);
	}
}

RT(signal_channel_receives_several_signals)
{
	gmp_chan *c = ints(4);
	int seen = 0, last = SIGRTMAX - check_on_valgrind(); /* it reserves one */

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_notify(c, SIGHUP), 0);
	CHECK_EQ(gmp_signal_notify(c, last), 0);
	send_signal(last);
	send_signal(SIGUSR1);
	send_signal(SIGHUP);
	for (int i = 0; i < 3; i++) {
		int signo = next(c);

		seen |= signo == last ? 1 : signo == SIGUSR1 ? 2 : signo == SIGHUP ? 4 : 8;
	}
	CHECK_EQ(seen, 7);
	CHECK_EQ(gmp_signal_stop(c, SIGHUP), 0);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_stop(c, last), 0);
	gmp_chan_free(c);
}

RT(signal_to_full_channel_is_dropped)
{
	gmp_chan *full = ints(2), *none = ints(0), *wide = ints(100);

	CHECK_EQ(gmp_signal_notify(full, SIGRTMIN), 0);
	CHECK_EQ(gmp_signal_notify(none, SIGRTMIN), 0);
	CHECK_EQ(gmp_signal_notify(wide, SIGRTMIN), 0);
	for (int i = 0; i < 30; i++)
		send_signal(SIGRTMIN); /* real-time signals are queued, not merged */
	for (int i = 0; i < 30; i++)
		CHECK_EQ(next(wide), SIGRTMIN);
	WAIT_FOR(gmp_chan_len(full) == 2); /* `wide` may be served first */
	CHECK_EQ(next(full), SIGRTMIN);
	send_signal(SIGRTMIN);
	CHECK_EQ(next(wide), SIGRTMIN);
	WAIT_FOR(gmp_chan_len(full) == 2); /* `wide` may be served first */
	CHECK_EQ(gmp_chan_try_recv(none, NULL), -EAGAIN);
	CHECK_EQ(gmp_signal_stop(full, SIGRTMIN), 0);
	CHECK_EQ(gmp_signal_stop(none, SIGRTMIN), 0);
	CHECK_EQ(gmp_signal_stop(wide, SIGRTMIN), 0);
	gmp_chan_free(full);
	gmp_chan_free(none);
	gmp_chan_free(wide);
}

RT(signal_to_closed_channel_reaches_other_channels)
{
	gmp_chan *c = ints(1), *d = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_notify(d, SIGUSR1), 0);
	CHECK_EQ(gmp_chan_close(c), 0);
	send_signal(SIGUSR1);
	CHECK_EQ(next(d), SIGUSR1);
	CHECK(empty(c));
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_stop(d, SIGUSR1), 0);
	gmp_chan_free(c);
	gmp_chan_free(d);
}

RT(signal_last_stop_restores_disposition)
{
	gmp_chan *c = ints(1), *d = ints(1);

	CHECK(signal(SIGUSR1, count_handled) != SIG_ERR);
	CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
		CHECK_EQ(gmp_signal_notify(d, SIGUSR1), 0);
		CHECK_EQ(gmp_signal_notify(c, SIGUSR2), 0);
		send_signal(SIGUSR1);
		CHECK_EQ(next(c), SIGUSR1);
		CHECK_EQ(next(d), SIGUSR1);
		CHECK_EQ(atomic_load(&handled), i);
		CHECK_EQ(gmp_signal_stop(c, SIGUSR2), 0);
		CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
		CHECK(disposition(SIGUSR1) != count_handled);
		CHECK(disposition(SIGUSR2) == SIG_IGN);
		CHECK_EQ(gmp_signal_stop(d, SIGUSR1), 0);
		CHECK(disposition(SIGUSR1) == count_handled);
		send_signal(SIGUSR1);
		WAIT_FOR(atomic_load(&handled) == i + 1);
		CHECK(empty(c));
	}
	gmp_chan_free(c);
	gmp_chan_free(d);
}

static _Atomic uintptr_t handled_at; /* where the handler's frame was */

static void note_stack(UNUSED int signo)
{
	char here;

	atomic_store(&handled_at, (uintptr_t)&here);
}

static gmp_chan *stopped;

static void unsubscribe(void *arg)
{
	CHECK_EQ(gmp_signal_stop(stopped, SIGUSR1), 0);
	atomic_store((atomic_int *)arg, 1);
}

static void raise_after_stop(UNUSED void *arg)
{
	atomic_int done = 0;
	uintptr_t here = (uintptr_t)&done, there;

	CHECK_EQ(gmp_signal_notify(stopped, SIGUSR1), 0);
	CHECK_EQ(gmp_go(unsubscribe, &done), 0);
	while (!atomic_load(&done))
		;
	CHECK(disposition(SIGUSR1) == note_stack);
	CHECK_EQ(raise(SIGUSR1), 0);
	there = atomic_load(&handled_at);
	CHECK(there != 0);
	CHECK(there > here ? there - here > 1 << 18 : here - there > 1 << 18);
}

TEST(signal_handler_restored_runs_on_no_green_stack)
{
	struct sigaction sa;

	CHECK(signal(SIGUSR1, note_stack) != SIG_ERR);
	stopped = ints(1);
	for (int i = 0; i < 3; i++)
		run_procs(2, raise_after_stop, NULL);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &sa), 0);
	CHECK(sa.sa_handler == note_stack);
	CHECK_EQ(sa.sa_flags & SA_ONSTACK, 0);
	gmp_chan_free(stopped);
}

enum { MUCH = 200 << 10 };

static void use_much_stack(int signo)
{
	volatile char much[MUCH];

	for (int i = 0; i < MUCH; i += 1024)
		much[i] = (char)signo;
	atomic_fetch_add(&handled_at, much[MUCH - 1024] == (char)signo);
}

static void raise_signal(UNUSED void *arg)
{
	CHECK_EQ(raise(SIGUSR1), 0);
}

TEST(signal_handler_has_room_for_200_kib)
{
#ifdef __SANITIZE_ADDRESS__
	check_skip("an M keeps the alternate stack that the sanitizer gives to its OS thread");
#endif
#ifdef __SANITIZE_THREAD__
	check_skip("ThreadSanitizer may call a handler later, on the stack of the caller of raise");
#endif
	CHECK(signal(SIGUSR1, use_much_stack) != SIG_ERR);
	atomic_store(&handled_at, 0);
	run_procs(2, raise_signal, NULL);
	CHECK_EQ(atomic_load(&handled_at), 1);
}

static atomic_bool computing;

static void compute_and_yield(UNUSED void *arg)
{
	while (atomic_load(&computing)) {
		for (volatile int i = 0; i < 100000; i++)
			;
		gmp_yield();
	}
}

/* The default action of SIGUSR2 ends the process. */
RT(signal_sent_before_last_stop_does_not_end_process)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);
	gmp_g *g[3];

	atomic_store(&computing, true);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(compute_and_yield, NULL);
	for (int i = 0; i < check_scaled(2000); i++) {
		int signo;

		CHECK_EQ(gmp_signal_notify(c, SIGUSR2), 0);
		CHECK_EQ(kill(getpid(), SIGUSR2), 0);
		/* moves the caller off the OS thread that has the signal */
		gmp_chan_recv_until(c, &signo, gmp_deadline(GMP_US));
		CHECK_EQ(gmp_signal_stop(c, SIGUSR2), 0);
		gmp_chan_try_recv(c, &signo);
	}
	atomic_store(&computing, false);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	gmp_chan_free(c);
}

/* golang/go#14571: a signal that came shortly before the stop was lost. */
RT(signal_before_stop_is_in_channel)
{
	gmp_chan *c = ints(2), *d = ints(2);

	CHECK(signal(SIGUSR1, count_handled) != SIG_ERR);
	for (int i = 0; i < check_scaled(300); i++) {
		CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
		CHECK_EQ(gmp_signal_notify(d, SIGUSR1), 0);
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
		CHECK_EQ(gmp_chan_len(c), 1);
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(gmp_signal_stop(d, SIGUSR1), 0);
		CHECK_EQ(gmp_chan_len(d), 2);
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(atomic_load(&handled), i + 1);
		CHECK_EQ(gmp_chan_try_recv(c, NULL), 0);
		CHECK_EQ(gmp_chan_try_recv(d, NULL), 0);
		CHECK_EQ(gmp_chan_try_recv(d, NULL), 0);
	}
	CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
	gmp_chan_free(c);
	gmp_chan_free(d);
}

RT(signal_stop_keeps_handler_installed_by_program)
{
	gmp_chan *c = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK(signal(SIGUSR1, count_handled) != SIG_ERR);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	CHECK(disposition(SIGUSR1) == count_handled);
	gmp_chan_free(c);
}

static gmp_chan *kept;

static void leave_subscribed(UNUSED void *arg)
{
	CHECK_EQ(gmp_signal_notify(kept, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_notify(kept, SIGTERM), 0);
	send_signal(SIGUSR1);
	CHECK_EQ(next(kept), SIGUSR1);
}

TEST_PROCS(signal_dispositions_are_restored_at_shutdown)
{
	int fds = count_fds();

	kept = ints(1);
	CHECK(signal(SIGUSR1, count_handled) != SIG_ERR);
	for (int i = 0; i < 5; i++) {
		run_procs(procs, leave_subscribed, NULL);
		CHECK(disposition(SIGUSR1) == count_handled);
		CHECK(disposition(SIGTERM) == SIG_DFL);
		CHECK_EQ(count_fds(), fds);
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(atomic_load(&handled), i + 1);
		CHECK(empty(kept));
		CHECK_EQ(gmp_signal_stop(kept, SIGUSR1), -ESRCH);
	}
	gmp_chan_free(kept);
}

static void subscribe_and_wait(UNUSED void *arg)
{
	gmp_chan *c = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGALRM), 0);
	ualarm(60000, 0);
	CHECK_EQ(gmp_chan_recv(c, NULL), 0); /* no other G exists */
	CHECK_EQ(gmp_signal_stop(c, SIGALRM), 0);
	gmp_chan_free(c);
}

TEST_PROCS(signal_waiter_is_no_deadlock)
{
	run_procs(procs, subscribe_and_wait, NULL);
}

static void subscribe_blocked(UNUSED void *arg)
{
	gmp_chan *c = ints(1);

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
		send_signal(SIGUSR1);
		CHECK_EQ(next(c), SIGUSR1);
		CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	}
	gmp_chan_free(c);
}

TEST_PROCS(signal_blocked_by_program_is_delivered)
{
	sigset_t set, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	for (int i = 0; i < 2; i++)
		run_procs(procs, subscribe_blocked, NULL);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK(!sigismember(&pending, SIGUSR1));
}

static void subscribe_external(void *arg)
{
	gmp_chan *c = ints(1);
	int signo = (int)(intptr_t)arg;
	sigset_t set;

	sigemptyset(&set);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	CHECK_EQ(gmp_signal_notify(c, signo), 0);
	send_signal(signo);
	CHECK_EQ(next(c), signo);
	CHECK_EQ(pthread_kill(pthread_self(), signo), 0);
	CHECK_EQ(next(c), signo);
	CHECK_EQ(gmp_signal_stop(c, signo), 0);
	gmp_chan_free(c);
}

RT(signal_notify_by_external_threads_works)
{
	struct ext_thread f[3];

	for (int i = 0; i < 3; i++)
		ext_thread_start(&f[i], subscribe_external, (void *)(intptr_t)(SIGRTMIN + i));
	for (int i = 0; i < 3; i++)
		ext_thread_join(&f[i]);
}

static atomic_int subscribing_over;

static void subscribe_repeatedly(UNUSED void *arg)
{
	gmp_chan *c = ints(1);

	while (!atomic_load(&subscribing_over))
		if (gmp_signal_notify(c, SIGUSR1) == 0)
			gmp_signal_stop(c, SIGUSR1);
	gmp_chan_free(c);
}

static void sleep_a_little(UNUSED void *arg)
{
	gmp_sleep(200 * US);
}

TEST(signal_notify_racing_runs_leaks_no_fd)
{
	struct ext_thread f[4];
	int before = count_fds();

	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], subscribe_repeatedly, NULL);
	for (int i = 0; i < 100; i++)
		run_procs(2, sleep_a_little, NULL);
	atomic_store(&subscribing_over, 1);
	for (int i = 0; i < 4; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(count_fds(), before);
}

static bool all_sleep(void)
{
	gmp_stats s = stats();

	return s.threads > 0 && s.threads_idle == s.threads;
}

enum { THREADS = 4 };

static int tids[THREADS];
static atomic_int recorded;

/* The Gs run at the same time, so each has its own thread. */
static void record_thread(UNUSED void *arg)
{
	tids[atomic_fetch_add(&recorded, 1)] = (int)syscall(SYS_gettid);
	while (atomic_load(&recorded) < THREADS)
		;
}

TEST(signal_to_sleeping_thread_is_delivered)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	gmp_chan *c = ints(THREADS);
	gmp_g *g[THREADS];

	if (SANITIZED)
		check_skip("a sanitizer delays handlers while a thread sleeps");
	cfg.procs = THREADS;
	CHECK_EQ(gmp_start(&cfg), 0);
	for (int i = 0; i < THREADS; i++)
		g[i] = spawn(record_thread, NULL);
	for (int i = 0; i < THREADS; i++)
		join(g[i]);
	WAIT_FOR(all_sleep());
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(syscall(SYS_tgkill, getpid(), tids[i], SIGUSR1), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(next(c), SIGUSR1);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	CHECK_EQ(gmp_stop(), 0);
	gmp_chan_free(c);
}

RT(signal_notify_bad_arguments_return_einval)
{
	static const int bad[] = { -1,      0,      65,     1000,   SIGKILL, SIGSTOP,
				   SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	gmp_chan *c = ints(1), *wide = gmp_chan_new(8, 1);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(gmp_signal_notify(c, bad[i]), -EINVAL);
		CHECK(gmp_signal_stop(c, bad[i]) < 0);
	}
	CHECK_EQ(gmp_signal_notify(NULL, SIGUSR1), -EINVAL);
	CHECK_EQ(gmp_signal_stop(NULL, SIGUSR1), -EINVAL);
	CHECK_EQ(gmp_signal_notify(wide, SIGUSR1), -EINVAL);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), -ENOENT);
	gmp_chan_free(c);
	gmp_chan_free(wide);
	WAIT_FOR(stats().greens == 1);
}

TEST(signal_notify_without_runtime_returns_esrch)
{
	gmp_chan *c = ints(1);

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), -ESRCH);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), -ESRCH);
	gmp_chan_free(c);
}

RT(signal_notify_without_spare_fd_returns_emfile)
{
	struct rlimit r, none;
	gmp_chan *c = ints(1);

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	none = (struct rlimit){ 3, r.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	CHECK(disposition(SIGUSR1) == SIG_DFL);
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	send_signal(SIGUSR1);
	CHECK_EQ(next(c), SIGUSR1);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

RT(signal_subscription_is_not_inherited_by_fork_child)
{
	gmp_chan *c = ints(4);
	int status;
	pid_t pid;

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(disposition(SIGUSR1) == SIG_DFL);
		CHECK_EQ(raise(SIGUSR1), 0); /* ends the child */
		_exit(0);
	}
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGUSR1);
	gmp_sleep(5 * MS);
	CHECK(empty(c));
	send_signal(SIGUSR1);
	CHECK_EQ(next(c), SIGUSR1);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
}

static atomic_int over;

static void subscribe_and_stop(void *arg)
{
	gmp_chan *c = *(int *)arg & 1 ? ints(1) : ints(0);
	int signo = SIGRTMIN + *(int *)arg % 3;

	while (!atomic_load(&over)) {
		CHECK_EQ(gmp_signal_notify(c, signo), 0);
		if (*(int *)arg % 2)
			gmp_chan_recv_until(c, NULL, gmp_deadline(200 * US));
		else
			gmp_yield();
		CHECK_EQ(gmp_signal_stop(c, signo), 0);
	}
	gmp_chan_free(c); /* a sanitizer reports a late send as use-after-free */
}

/* Signals every 100 us race with notify and stop. */
RT(signal_storm_racing_notify_and_stop_works)
{
	struct itimerval t = { { 0, 100 }, { 0, 100 } };
	struct ext_thread f;
	int arg[8];
	gmp_g *g[8];

	for (int i = 0; i < 3; i++)
		CHECK(signal(SIGRTMIN + i, SIG_IGN) != SIG_ERR);
	CHECK(signal(SIGALRM, count_handled) != SIG_ERR);
	atomic_store(&over, 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
	for (int i = 0; i < 8; i++) {
		arg[i] = i;
		if (i)
			g[i] = spawn(subscribe_and_stop, &arg[i]);
		else
			ext_thread_start(&f, subscribe_and_stop, &arg[i]);
	}
	for (int i = 0; i < check_scaled(2000); i++) {
		send_signal(SIGRTMIN + i % 3);
		gmp_sleep(100 * US);
	}
	atomic_store(&over, 1);
	for (int i = 1; i < 8; i++)
		join(g[i]);
	ext_thread_join(&f);
	t = (struct itimerval){ { 0, 0 }, { 0, 0 } };
	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
	for (int i = 0; i < 3; i++)
		CHECK(disposition(SIGRTMIN + i) == SIG_IGN);
	WAIT_FOR(stats().greens == 1); /* the distributor G has ended, too */
}
