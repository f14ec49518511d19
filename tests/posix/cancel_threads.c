/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_cancel with GMP_SCHED_THREAD, where replaced functions are libc's: it ends waits in
 * them with ECANCELED, and interrupts no other call.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fds.h"

static int pair[2], pipe_ends[2], full[2], listener, ep;
static sem_t sem;
static pid_t child;
static sigset_t awaited;
static char byte;

static void run_threads(int procs, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	sigemptyset(&awaited);
	sigaddset(&awaited, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &awaited, NULL), 0); /* also in green threads */
	cfg.procs = procs;
	cfg.sched = GMP_SCHED_THREAD;
	int err = gmp_run(fn, arg, &cfg);

	if (err == -ENOTSUP)
		check_skip("not with GMP_DEBUG=chaos");
	CHECK_EQ(err, 0);
}

/* Each case has no runtime before and after it. */
#define THREADS(name)                                                                              \
	static void name##_body(void *arg);                                                        \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		run_threads(procs, name##_body, NULL);                                             \
	}                                                                                          \
	static void name##_body(UNUSED void *arg)

/* --- the waits: -1 with errno, or an error number --- */

static int wait_read_pipe(void)
{
	return (int)read(pipe_ends[0], &byte, 1);
}

static int wait_read_socket(void)
{
	return (int)read(pair[0], &byte, 1);
}

static int wait_recv(void)
{
	return (int)recv(pair[0], &byte, 1, 0);
}

static int wait_recvmmsg(void)
{
	struct iovec v = { &byte, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };

	return recvmmsg(pair[0], &m, 1, 0, NULL);
}

static int wait_write(void)
{
	return (int)write(full[0], &byte, 1);
}

static int wait_sendto(void)
{
	return (int)sendto(full[0], &byte, 1, 0, NULL, 0);
}

static int wait_accept(void)
{
	return accept(listener, NULL, NULL);
}

static int wait_poll(void)
{
	struct pollfd p = { .fd = pair[0], .events = POLLIN };

	return poll(&p, 1, -1);
}

static int wait_ppoll(void)
{
	struct pollfd p = { .fd = pair[0], .events = POLLIN };
	struct timespec t = { 1000, 0 };

	return ppoll(&p, 1, &t, &awaited);
}

static int wait_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(pair[0], &in);
	return select(pair[0] + 1, &in, NULL, NULL, NULL);
}

static int wait_epoll(void)
{
	struct epoll_event e;

	return epoll_wait(ep, &e, 1, -1);
}

static int wait_nanosleep(void)
{
	struct timespec t = { 1000, 0 };

	return nanosleep(&t, NULL);
}

static int wait_clock_nanosleep(void)
{
	struct timespec t = { 1000, 0 };

	return clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int wait_sem(void)
{
	return sem_wait(&sem);
}

static int wait_sem_timed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 1000;
	return sem_timedwait(&sem, &t);
}

static int wait_child(void)
{
	return waitpid(child, NULL, 0);
}

static int wait_sigwaitinfo(void)
{
	return sigwaitinfo(&awaited, NULL);
}

static int wait_sigwait(void)
{
	int signo;

	return sigwait(&awaited, &signo);
}

static int wait_pause(void)
{
	return pause();
}

static int wait_sigsuspend(void)
{
	return sigsuspend(&awaited);
}

/* --- a case --- */

static void open_all(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct sockaddr_in in;

	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	CHECK_EQ(pipe(pipe_ends), 0);
	unix_pair(pair);
	unix_pair(full);
	while (send(full[0], &byte, 1, MSG_DONTWAIT) == 1)
		;
	listener = tcp_listener(&in, 1);
	ep = epoll_create1(0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, pair[0], &e), 0);
}

static void close_all(void)
{
	close_pair(pipe_ends);
	close_pair(pair);
	close_pair(full);
	close(listener);
	close(ep);
}

struct waiter {
	int (*wait)(void);
	gmp_sem begun;
	int result;
};

static int result_of(int (*wait)(void))
{
	errno = 0;
	int result = wait();

	return result < 0 ? errno : result;
}

static void waiter_main(void *arg)
{
	struct waiter *w = arg;

	CHECK_EQ(gmp_sem_release(&w->begun, 1), 0);
	w->result = result_of(w->wait);
}

static gmp_g *start(struct waiter *w, int (*wait)(void))
{
	gmp_g *g;

	*w = (struct waiter){ wait, GMP_SEM_INIT(0), -1 };
	CHECK_EQ(gmp_spawn(&g, waiter_main, w, NULL), 0);
	return g;
}

/* The canceller comes before the wait, at its start, or while it lasts. */
static void expect_ecanceled(int (*wait)(void))
{
	struct waiter w;

	for (int i = 0; i < 6; i++) {
		gmp_g *g = start(&w, wait);

		if (i)
			CHECK_EQ(gmp_sem_acquire(&w.begun), 0);
		if (i > 1)
			gmp_sleep(i * 100 * GMP_US);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
	}
}

#define ENDS(name, ...)                                                                            \
	THREADS(name)                                                                              \
	{                                                                                          \
		int (*const waits[])(void) = { __VA_ARGS__ };                                      \
		open_all();                                                                        \
		for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)                        \
			expect_ecanceled(waits[i]);                                                \
		close_all();                                                                       \
	}

ENDS(thread_cancel_ends_read_of_a_pipe, wait_read_pipe)
ENDS(thread_cancel_ends_read_of_a_socket, wait_read_socket, wait_recv, wait_recvmmsg)
ENDS(thread_cancel_ends_write_without_room, wait_write, wait_sendto)
ENDS(thread_cancel_ends_accept, wait_accept)
ENDS(thread_cancel_ends_poll, wait_poll, wait_ppoll)
ENDS(thread_cancel_ends_select_and_epoll_wait, wait_select, wait_epoll)
ENDS(thread_cancel_ends_nanosleep, wait_nanosleep, wait_clock_nanosleep)
ENDS(thread_cancel_ends_sem_wait, wait_sem, wait_sem_timed)
ENDS(thread_cancel_ends_sigwaitinfo, wait_sigwaitinfo, wait_sigwait)
ENDS(thread_cancel_ends_pause, wait_pause, wait_sigsuspend)

THREADS(thread_cancel_ends_waitpid)
{
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	expect_ecanceled(wait_child);
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(waitpid(child, NULL, 0), child);
}

/* --- calls that are not ended --- */

static int read_what_is_there(void)
{
	while (!gmp_cancelled())
		sched_yield();
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
	return wait_read_pipe();
}

THREADS(thread_cancelled_read_of_data_succeeds)
{
	struct waiter w;

	open_all();
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
		gmp_g *g = start(&w, read_what_is_there);

		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
	}
	close_all();
}

/* Calls of the kernel that are not replaced: a signal that came late would end them with EINTR. */
static int sleep_in_kernel(void)
{
	struct timespec t = { 0, 3 * GMP_MS };

	CHECK_EQ(result_of(wait_read_pipe), ECANCELED);
	CHECK_EQ(syscall(SYS_nanosleep, &t, NULL), 0);
	CHECK_EQ(result_of(wait_poll), ECANCELED);
	return (int)syscall(SYS_nanosleep, &t, NULL);
}

THREADS(thread_cancel_ends_no_later_call_of_the_kernel)
{
	struct waiter w;

	open_all();
	for (int i = 0; i < 20; i++) {
		gmp_g *g = start(&w, sleep_in_kernel);

		CHECK_EQ(gmp_sem_acquire(&w.begun), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, 0);
	}
	close_all();
}

static int read_masked(void)
{
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	return wait_read_pipe();
}

static int read_in_blocking_code(void)
{
	gmp_block_enter();
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
	gmp_block_leave();
	return wait_read_pipe();
}

/* The first read continues, and the second one ends. */
static void expect_continues(int (*wait)(void))
{
	struct waiter w;

	open_all();
	for (int i = 0; i < 5; i++) {
		gmp_g *g = start(&w, wait);

		CHECK_EQ(gmp_sem_acquire(&w.begun), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		gmp_sleep(i * GMP_MS);
		CHECK_EQ(w.result, -1);
		CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
	}
	close_all();
}

THREADS(thread_cancel_masked_keeps_the_wait)
{
	expect_continues(read_masked);
}

THREADS(thread_cancel_keeps_a_wait_in_blocking_code)
{
	expect_continues(read_in_blocking_code);
}

/* --- beside other signals --- */

static sigjmp_buf before_call;
static bool saves_mask, awaits_cancel;
static gmp_sem jumped;
static sem_t handler_waits, handler_goes;

static void jump(UNUSED int signo)
{
	siglongjmp(before_call, 1);
}

/* A system call that is not replaced, in frames below those of the call that was left. */
static int jump_out_of_read(void)
{
	if (!sigsetjmp(before_call, saves_mask)) {
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &awaited, NULL), 0);
		wait_read_pipe();
	}
	CHECK_EQ(gmp_sem_release(&jumped, 1), 0);
	for (int64_t since = gmp_now(); awaits_cancel && gmp_now() - since < GMP_MS;)
		if (!gmp_cancelled())
			since = gmp_now();
	CHECK_EQ(gmp_sleep(1000 * GMP_S), -ECANCELED);
	struct timespec t = { 0, 3 * GMP_MS };

	CHECK_EQ(syscall(SYS_nanosleep, &t, NULL), 0);
	return wait_read_pipe();
}

static void set_handler(void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
}

THREADS(thread_cancel_ends_calls_after_a_siglongjmp_out_of_one)
{
	struct waiter w;

	open_all();
	set_handler(jump);
	jumped = (gmp_sem)GMP_SEM_INIT(0);
	for (int i = 0; i < 20; i++) {
		saves_mask = i % 2;
		awaits_cancel = i / 2 % 2;
		gmp_g *g = start(&w, jump_out_of_read);

		CHECK_EQ(gmp_sem_acquire(&w.begun), 0);
		gmp_sleep(i % 4 * 100 * GMP_US);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(gmp_sem_acquire(&jumped), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
	}
	close_all();
}

static void wait_in_handler(UNUSED int signo)
{
	int saved = errno;

	CHECK_EQ(sem_post(&handler_waits), 0);
	CHECK_EQ(sem_wait(&handler_goes), 0);
	errno = saved;
}

static int read_under_a_handler(void)
{
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &awaited, NULL), 0);
	return wait_read_pipe();
}

/* The read is restarted after a handler, which has called a replaced function. */
THREADS(thread_cancel_ends_a_read_that_a_handler_has_interrupted)
{
	struct waiter w;

	open_all();
	set_handler(wait_in_handler);
	CHECK_EQ(sem_init(&handler_waits, 0, 0), 0);
	CHECK_EQ(sem_init(&handler_goes, 0, 0), 0);
	for (int i = 0; i < 20; i++) {
		gmp_g *g = start(&w, read_under_a_handler);

		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(sem_wait(&handler_waits), 0);
		if (i % 2)
			CHECK_EQ(gmp_cancel(g), 0);
		gmp_sleep(i % 4 * GMP_MS);
		CHECK_EQ(sem_post(&handler_goes), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
	}
	close_all();
}

static void *wait_as_os_thread(void *arg)
{
	CHECK_EQ(sem_post(arg), 0);
	pause();
	return NULL;
}

static void cancel_os_thread(void)
{
	pthread_t t;
	sem_t begun;
	void *value;

	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	CHECK_EQ(pthread_create(&t, NULL, wait_as_os_thread, &begun), 0);
	CHECK_EQ(sem_wait(&begun), 0);
	CHECK_EQ(pthread_cancel(t), 0);
	CHECK_EQ(pthread_join(t, &value), 0);
	CHECK(value == PTHREAD_CANCELED);
}

/* libc's first pthread_cancel installs a handler, here between gmp_cancel and the end of the read:
 * the handler of SIGUSR1 keeps that from ending. */
THREADS(thread_cancel_works_beside_pthread_cancel)
{
	struct waiter w;

	open_all();
	set_handler(wait_in_handler);
	CHECK_EQ(sem_init(&handler_waits, 0, 0), 0);
	CHECK_EQ(sem_init(&handler_goes, 0, 0), 0);
	for (int i = 0; i < 10; i++) {
		gmp_g *g = start(&w, read_under_a_handler);

		CHECK_EQ(gmp_sem_acquire(&w.begun), 0);
		gmp_sleep(200 * GMP_US);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(sem_wait(&handler_waits), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		cancel_os_thread();
		CHECK_EQ(sem_post(&handler_goes), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
	}
	close_all();
}

/* --- the end of the run --- */

static void wait_and_be_killed(void *wait)
{
	struct waiter *w = wait;

	CHECK_EQ(gmp_sem_release(&w->begun, 1), 0);
	(void)w->wait();
	CHECK(0 && "a killed green thread ran on");
}

THREADS(thread_shutdown_kills_green_threads_in_replaced_calls)
{
	static struct waiter w[] = {
		{ wait_read_pipe, GMP_SEM_INIT(0), 0 }, { wait_accept, GMP_SEM_INIT(0), 0 },
		{ wait_poll, GMP_SEM_INIT(0), 0 },      { wait_nanosleep, GMP_SEM_INIT(0), 0 },
		{ wait_sem, GMP_SEM_INIT(0), 0 },       { wait_sigwaitinfo, GMP_SEM_INIT(0), 0 },
	};

	open_all();
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(gmp_go(wait_and_be_killed, &w[i]), 0);
		if (i % 2)
			CHECK_EQ(gmp_sem_acquire(&w[i].begun), 0);
	}
}

/* --- races --- */

static int sleep_shortly(void)
{
	struct timespec t = { 0, 1000 };
	int err;

	do
		err = result_of(wait_sem);
	while (!err && !(err = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL)));
	return err;
}

/* Many calls begin and end around each gmp_cancel: none of these is lost. */
THREADS(thread_cancel_is_not_lost_beside_short_calls)
{
	struct waiter w;

	open_all();
	for (int i = 0; i < 100; i++) {
		gmp_g *g = start(&w, sleep_shortly);

		CHECK_EQ(gmp_sem_acquire(&w.begun), 0);
		for (int k = 0; k < i; k++)
			CHECK_EQ(sem_post(&sem), 0);
		CHECK_EQ(gmp_cancel(g), 0);
		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(w.result, ECANCELED);
		while (sem_trywait(&sem) == 0)
			;
	}
	close_all();
}
