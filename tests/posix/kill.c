/* SPDX-License-Identifier: MIT */
/*
 * Tests pthread_kill to a thread other than main that waits: which waits end with EINTR, which
 * continue, and that the handler runs on that thread.  The signal is sent again and again, so its
 * arrival before the wait does no harm.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fds.h"
#include "threads.h"
#include "waits_continued.h"

static int ran, elsewhere, done;
static pthread_t target;
static sem_t begun;

static void note(int signo)
{
	(void)signo;
	if (!pthread_equal(pthread_self(), target))
		thread_count(&elsewhere);
	thread_count(&ran);
}

static void begin(int flags)
{
	struct sigaction sa = { .sa_handler = note, .sa_flags = flags };

	ran = elsewhere = done = 0;
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	unix_pair(pair);
}

/* T has set target when this returns. */
static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, fn, arg), 0);
	CHECK_EQ(sem_wait(&begun), 0);
	return t;
}

static void begin_target(void)
{
	target = pthread_self();
	CHECK_EQ(sem_post(&begun), 0);
}

static void kill_target(void)
{
	CHECK_EQ(pthread_kill(target, SIGUSR1), 0);
}

static void kill_until(const int *n, int least)
{
	while (__atomic_load_n(n, __ATOMIC_ACQUIRE) < least) {
		kill_target();
		thread_pass();
	}
}

static void end(pthread_t t)
{
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(elsewhere, 0);
	CHECK(ran > 0);
	close_pair(pair);
}

/* --- EINTR --- */

static int do_recv(void)
{
	char c;

	return (int)recv(pair[0], &c, 1, 0);
}

static int do_pipe(void)
{
	char c;
	int p[2];

	CHECK_EQ(pipe(p), 0);
	int result = (int)read(p[0], &c, 1), err = errno;

	close_pair(p);
	errno = err;
	return result;
}

static int do_nanosleep(void)
{
	struct timespec t = { 100, 0 };

	return nanosleep(&t, NULL);
}

static int do_pause(void)
{
	return pause();
}

static int do_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigsuspend(&none);
}

static void *call_it(void *call)
{
	begin_target();
	CHECK_ERRNO((*(int (**)(void))call)(), EINTR);
	thread_count(&done);
	return NULL;
}

/* flags: of the handler. */
static void expect_eintr(int (*call)(void), int flags)
{
	begin(flags);
	pthread_t t = start(call_it, &call);

	kill_until(&done, 1);
	end(t);
}

POSIX_TEST(kill_ends_a_read)
{
	expect_eintr(do_read, 0);
	expect_eintr(do_recv, 0);
	expect_eintr(do_pipe, 0);
}

POSIX_TEST(kill_ends_an_accept)
{
	expect_eintr(do_accept, 0);
	expect_eintr(do_connect, 0);
}

POSIX_TEST(kill_ends_a_poll)
{
	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		expect_eintr(do_poll, flags);
		expect_eintr(do_select, flags);
		expect_eintr(do_epoll, flags);
	}
}

POSIX_TEST(kill_ends_a_semaphores_wait)
{
	expect_eintr(do_sem_wait, 0);
	expect_eintr(do_sem_timedwait, 0);
	expect_eintr(do_sem_timedwait, SA_RESTART);
}

POSIX_TEST(kill_ends_a_sleep)
{
	expect_eintr(do_nanosleep, 0);
	expect_eintr(do_nanosleep, SA_RESTART);
}

POSIX_TEST(kill_ends_pause)
{
	expect_eintr(do_pause, SA_RESTART);
	expect_eintr(do_sigsuspend, SA_RESTART);
}

/* --- waits that continue: the handler runs three times, then they are satisfied --- */

static void satisfy_mutex(void)
{
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void satisfy_rwlock(void)
{
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
}

static void satisfy_read(void)
{
	CHECK_EQ(write(pair[1], "x", 1), 1);
}

static void satisfy_sem(void)
{
	CHECK_EQ(sem_post(&sem), 0);
}

static void *wait_it(void *wait)
{
	begin_target();
	errno = 5;
	(*(void (**)(void))wait)();
	CHECK_EQ(errno, 5);
	thread_count(&done);
	return NULL;
}

static void expect_continues(void (*wait)(void), void (*satisfy)(void), int flags)
{
	begin(flags);
	waits_begin();
	if (satisfy == satisfy_mutex)
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_rwlock_wrlock(&rwlock), 0);
	pthread_t t = start(wait_it, &wait);

	for (int n = 1; n <= 3; n++)
		kill_until(&ran, n);
	CHECK_EQ(done, 0);
	satisfy();
	end(t);
}

POSIX_TEST(kill_does_not_end_a_lock)
{
	expect_continues(wait_mutex, satisfy_mutex, 0);
	expect_continues(wait_reader, satisfy_rwlock, 0);
	expect_continues(wait_barrier, wait_barrier, 0);
}

POSIX_TEST(kill_does_not_end_a_condition_wait)
{
	expect_continues(wait_cond, satisfy_cond, 0);
}

POSIX_TEST(kill_with_sa_restart_restarts)
{
	expect_continues(wait_read, satisfy_read, SA_RESTART);
	expect_continues(wait_sem, satisfy_sem, SA_RESTART);
}

static void *recv_a_part(void *unused)
{
	char buf[8];

	begin_target();
	CHECK_EQ(recv(pair[0], buf, sizeof(buf), MSG_WAITALL), 3);
	thread_count(&done);
	return unused;
}

static void *send_a_part(void *unused)
{
	static char buf[8 << 20];

	begin_target();
	ssize_t n = send(pair[0], buf, sizeof(buf), 0);

	CHECK(n > 0 && n < (ssize_t)sizeof(buf));
	thread_count(&done);
	return unused;
}

/* Also with SA_RESTART. */
POSIX_TEST(kill_of_a_call_that_has_a_part_returns_the_part)
{
	static void *(*const calls[])(void *) = { recv_a_part, send_a_part };

	skip_under_chaos();
	for (int i = 0; i < 2; i++) {
		begin(SA_RESTART);
		CHECK_EQ(write(pair[1], "abc", 3), 3);
		pthread_t t = start(calls[i], NULL);

		kill_until(&done, 1);
		end(t);
	}
}

/* --- signals of a write --- */

static sigjmp_buf back;

static void note_and_jump(int signo)
{
	note(signo);
	siglongjmp(back, 1);
}

static void *write_to_nobody(void *jumps)
{
	begin_target();
	close(pair[1]);
	for (int i = 0; i < 100; i++) {
		volatile int returned = 0;

		if (!jumps || !sigsetjmp(back, 1)) {
			CHECK_EQ(write(pair[0], "x", 1), -1);
			CHECK_EQ(errno, EPIPE);
			returned = 1;
		}
		CHECK_EQ(returned, !jumps);
		CHECK_EQ(ran, i + 1);
		sched_yield();
	}
	return NULL;
}

POSIX_TEST(write_runs_the_handler_of_sigpipe_on_the_writer)
{
	for (int jumps = 0; jumps < 2; jumps++) {
		begin(0);
		CHECK(signal(SIGPIPE, jumps ? note_and_jump : note) != SIG_ERR);
		pthread_t t = start(write_to_nobody, jumps ? &back : NULL);

		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(elsewhere, 0);
		CHECK_EQ(ran, 100);
		close(pair[0]);
	}
	signal(SIGPIPE, SIG_DFL);
}

/* --- blocking code --- */

static void *leave_blocking(void *unused)
{
	(void)unused;
	if (!sigsetjmp(back, 1)) {
		begin_target();
		for (;;) {
			struct timeval t = { 0, 20 };

			select(FD_SETSIZE + 1, NULL, NULL, NULL, &t); /* blocking code */
		}
	}
	return NULL;
}

/* Its end takes the lock of the scheduler if another thread has the P meanwhile. */
POSIX_TEST(handler_that_leaves_blocking_code_leaves_no_lock)
{
	begin(0);
	CHECK(signal(SIGUSR1, note_and_jump) != SIG_ERR);
	for (int i = 0; i < 300; i++) {
		pthread_t t = start(leave_blocking, NULL);
		int64_t until = gmp_now() + i % 10 * 30000;

		while (gmp_now() < until)
			sched_yield();
		kill_target();
		CHECK_EQ(pthread_join(t, NULL), 0);
	}
	CHECK_EQ(ran, 300);
	close_pair(pair);
	signal(SIGUSR1, SIG_DFL);
}

/* --- signal masks --- */

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(how, &set, NULL), 0);
}

/* The signal was sent when this returns. */
static void *begin_blocked(void)
{
	block(SIG_BLOCK);
	begin_target();
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(ran, 0);
	return NULL;
}

static void *unblock(void *arg)
{
	begin_blocked();
	block(SIG_UNBLOCK);
	CHECK_EQ(ran, 1);
	return arg;
}

static void expect_pending(void *(*fn)(void *))
{
	begin(0);
	pthread_t t = start(fn, NULL);

	kill_target();
	CHECK_EQ(sem_post(&sem), 0);
	end(t);
}

POSIX_TEST(kill_of_blocked_signal_waits_until_it_is_unblocked)
{
	expect_pending(unblock);
}

static void *suspend_blocked(void *arg)
{
	begin_blocked();
	CHECK_ERRNO(do_sigsuspend(), EINTR);
	CHECK_EQ(ran, 1);
	return arg;
}

static void *suspend_soon(void *arg)
{
	block(SIG_BLOCK);
	begin_target();
	CHECK_ERRNO(do_sigsuspend(), EINTR);
	CHECK_EQ(ran, 1);
	return arg;
}

POSIX_TEST(kill_before_sigsuspend_ends_it)
{
	expect_pending(suspend_blocked);
	for (int i = 0; i < 100; i++)
		expect_pending(suspend_soon);
}

static void *take(void *arg)
{
	sigset_t set;
	int signo;

	begin_blocked();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(sigwait(&set, &signo), 0);
	CHECK_EQ(signo, SIGUSR1);
	CHECK_EQ(ran, 0);
	ran = 1;
	return arg;
}

static void *take_soon(void *arg)
{
	sigset_t set;
	siginfo_t info;

	block(SIG_BLOCK);
	begin_target();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_EQ(sigwaitinfo(&set, &info), SIGUSR1);
	CHECK_EQ(info.si_code, SI_USER); /* libc hides SI_TKILL */
	CHECK_EQ(info.si_pid, getpid());
	CHECK_EQ(ran, 0);
	ran = 1;
	return arg;
}

POSIX_TEST(kill_of_a_thread_in_sigwait_is_taken)
{
	skip_under_chaos();
	expect_pending(take);
	for (int i = 0; i < 100; i++)
		expect_pending(take_soon);
}

/* --- kill --- */

static volatile int code, sender;

static void note_info(int signo, siginfo_t *info, void *context)
{
	(void)context;
	note(signo);
	code = info->si_code;
	sender = info->si_pid;
}

static void begin_own(void)
{
	struct sigaction sa = { .sa_sigaction = note_info, .sa_flags = SA_SIGINFO };

	ran = elsewhere = 0;
	target = pthread_self();
	CHECK_EQ(sigaction(SIGUSR2, &sa, NULL), 0);
}

POSIX_TEST(kill_of_own_process_runs_the_handler_before_it_returns)
{
	begin_own();
	errno = 5;
	for (int i = 1; i <= 100; i++) {
		CHECK_EQ(kill(getpid(), SIGUSR2), 0);
		CHECK_EQ(ran, i);
	}
	CHECK_EQ(errno, 5);
	CHECK_EQ(elsewhere, 0);
	CHECK_EQ(code, SI_USER);
	CHECK_EQ(sender, getpid());
}

POSIX_TEST(kill_of_own_process_leaves_a_blocked_signal_pending)
{
	sigset_t set, pending;

	begin_own();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(kill(getpid(), SIGUSR2), 0);
	CHECK_EQ(ran, 0);
	do /* another OS thread may have it first, and makes it pending */
		CHECK_EQ(sigpending(&pending), 0);
	while (!sigismember(&pending, SIGUSR2));
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	while (!__atomic_load_n(&ran, __ATOMIC_ACQUIRE))
		thread_pass();
	CHECK_EQ(elsewhere, 0);
}

POSIX_TEST(kill_bad_signal_is_einval)
{
	CHECK_ERRNO(kill(getpid(), 1000), EINVAL);
	CHECK_ERRNO(kill(getpid(), -1), EINVAL);
	CHECK_EQ(kill(getpid(), 0), 0);
}

/* --- other threads --- */

enum { KILLS = 10000, READERS = 4 };

static int fifo[2]; /* which is read as blocking code */

static void *yield_until_done(void *unused)
{
	begin_target();
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		sched_yield();
	return unused;
}

static void *read_fifo(void *unused)
{
	char c;

	do
		CHECK_EQ(read(fifo[0], &c, 1), 1);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE));
	return unused;
}

static void *write_fifo(void *unused)
{
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		CHECK_EQ(write(fifo[1], "x", 1), 1);
		usleep(20);
	}
	return unused;
}

static void open_fifo(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/gmp-kill-%d", getpid());
	CHECK_EQ(mkfifo(path, 0600), 0);
	for (int i = 0; i < 2; i++) {
		fifo[i] = open(path, O_RDWR | O_CLOEXEC);
		CHECK(fifo[i] >= 0);
	}
	CHECK_EQ(unlink(path), 0);
}

/* The signals are for a thread that runs on the OS threads of the readers in between. */
POSIX_TEST(kill_ends_no_call_of_another_thread)
{
	pthread_t readers[READERS], writer;

	skip_under_chaos();
	begin(0);
	open_fifo();
	pthread_t t = start(yield_until_done, NULL);

	for (int i = 0; i < READERS; i++)
		CHECK_EQ(pthread_create(&readers[i], NULL, read_fifo, NULL), 0);
	CHECK_EQ(pthread_create(&writer, NULL, write_fifo, NULL), 0);
	for (int i = 0; i < KILLS; i++) {
		kill_target();
		if (i % 4 == 0)
			usleep(50);
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	CHECK_EQ(write(fifo[1], "....", READERS), READERS);
	for (int i = 0; i < READERS; i++)
		CHECK_EQ(pthread_join(readers[i], NULL), 0);
	CHECK_EQ(pthread_join(writer, NULL), 0);
	close_pair(fifo);
	end(t);
}
