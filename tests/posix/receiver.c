/* SPDX-License-Identifier: MIT */
/*
 * Tests the invariants of the green threads that handle signals of the process
 * (posix/signal/receiver.c): signals that meet an OS thread with the mask of another green thread,
 * a thread that blocks them again, a handler that was removed, main as it begins to wait, or main
 * after a wait for a child.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "signal_util.h"
#include "start.h"
#include "threads.h"

/* As pthread_sigqueue of the caller natively: to its OS thread. */
static void queue_to_self(int signo, int n)
{
	siginfo_t info = { .si_signo = signo, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_value.sival_int = n;
	CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signo, &info), 0);
}

/* --- RECEIVER-4, RECEIVER-6: an OS thread with the mask of another green thread --- */

static int sent;

/* On one P, the OS thread that runs this thread and main blocks SIGUSR1 afterwards. */
static void *block_and_send(void *arg)
{
	mask(SIG_UNBLOCK, SIGUSR2); /* main blocks it: the thread handles signals */
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	thread_count(&sent);
	return arg;
}

POSIX_TEST(signal_is_handled_while_main_runs_with_the_mask_of_another_thread)
{
	sent = 0;
	mask(SIG_BLOCK,
	     SIGUSR1); /* on one P, the first OS thread keeps this mask when it is idle */
	mask(SIG_BLOCK, SIGUSR2);
	handle(SIGUSR1, count, 0);
	mask(SIG_UNBLOCK, SIGUSR1);
	pthread_t t = start(block_and_send, NULL);

	thread_await(&sent, 1); /* without a wait, which would set the mask of main */
	wait_ran(1);
	join(t);
	mask(SIG_UNBLOCK, SIGUSR2);
}

/* --- a program that is executed --- */

/* Signal 32, by which libgmprt_posix forwards signals: the default action, which sigaction of libc
 * refuses to set, whatever this program has inherited. */
static void reset_forward(void)
{
	uint64_t action[5] = { 0 };

	CHECK_EQ(syscall(SYS_rt_sigaction, 32, action, NULL, 8), 0);
}

/* Bit 31 of SigIgn is signal 32. */
POSIX_TEST(signal_of_the_runtime_is_not_ignored_by_a_program_that_is_executed)
{
	int status;

	reset_forward();
	handle(SIGUSR1, count, 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	wait_ran(1);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) { /* not posix_spawn, by which glibc has its signals ignored */
		execl("/bin/sh", "sh", "-c", "! grep '^SigIgn:.*[89a-f].......$' /proc/self/status",
		      (char *)NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* --- the start of the signal thread --- */

enum { STARTERS = 4 };

static int arrived, handled;

static void count_handled(int signo)
{
	(void)signo;
	thread_count(&handled);
}

/* The first handlers of the process: each sigaction returns when the signal thread has begun. */
static void *begin_and_raise(void *arg)
{
	thread_count(&arrived);
	while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < STARTERS)
		sched_yield();
	struct sigaction sa = { .sa_handler = count_handled };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(raise(SIGUSR1), 0);
	return arg;
}

static void *raise_of_first_handler(void *arg)
{
	pthread_t t[STARTERS];

	arrived = handled = 0;
	for (int i = 0; i < STARTERS; i++)
		t[i] = start(begin_and_raise, NULL);
	for (int i = 0; i < STARTERS; i++)
		join(t[i]);
	CHECK_EQ(handled, 0);
	return arg;
}

POSIX_TEST(raise_of_a_blocked_signal_after_the_first_sigaction_stays_pending)
{
	raise_of_first_handler(NULL);
}

/* --- MASK-1: a signal that is pending for the OS thread of a caller that blocks it --- */

static sigjmp_buf back;

static void send_and_jump(int signo)
{
	(void)signo;
	queue_to_self(SIGUSR1, 42);
	CHECK_EQ(ran, 0);
	siglongjmp(back, 1);
}

/* The handler leaves SIGUSR1 blocked in the kernel, and pending. */
POSIX_TEST(signal_pending_at_a_block_is_handled_after_the_unblock)
{
	struct sigaction sa = { .sa_handler = send_and_jump };

	set_of(&sa.sa_mask, SIGUSR1);
	CHECK_EQ(sigaction(SIGUSR2, &sa, NULL), 0);
	sa = (struct sigaction){ .sa_sigaction = count_info, .sa_flags = SA_SIGINFO };
	handle(SIGUSR1, count, 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	if (sigsetjmp(back, 0) == 0) {
		CHECK_EQ(raise(SIGUSR2), 0);
		CHECK(false);
	}
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(ran, 0);
	mask(SIG_UNBLOCK, SIGUSR1);
	wait_ran(1);
	CHECK_EQ(code, SI_QUEUE);
	CHECK_EQ(value, 42);
	mask(SIG_UNBLOCK, SIGUSR2);
}

/* --- SIGTAB-6: a signal that is under way when its handler is removed --- */

static gmp_sem inner;
static int held, go;

/* On the OS thread of the library, which brings no other signal to its handler meanwhile. */
static void hold_signal_thread(int signo)
{
	(void)signo;
	thread_count(&held);
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		;
}

static void *hold_and_send(void *arg)
{
	CHECK_EQ(kill(getpid(), SIGUSR2), 0);
	thread_await(&held, 1);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	gmp_sem_release(&inner, 1);
	return arg;
}

/* The signal thread handles signals in the order in which they came. */
static void *send_last(void *arg)
{
	CHECK_EQ(kill(getpid(), SIGTERM), 0);
	thread_await((const int *)arg, 1);
	gmp_sem_release(&inner, 1);
	return NULL;
}

static int terminated;

static void count_last(int signo)
{
	(void)signo;
	thread_count(&terminated);
}

/* Main waits in gmp_sem_acquire, so that handlers run on the signal thread.  With SIGUSR1 queued
 * for that thread, main removes the handler, and blocks the signal: the default action, which would
 * end the process, is not for this one. */
static void remove_handler_of_queued_signal(void *unused)
{
	(void)unused;
	held = go = terminated = 0;
	inner = (gmp_sem)GMP_SEM_INIT(0);
	handle(SIGTERM, count_last, 0);
	handle(SIGUSR2, hold_signal_thread, 0);
	handle(SIGUSR1, count, 0);
	pthread_t t = start(hold_and_send, NULL);

	gmp_sem_acquire(&inner);
	CHECK(signal(SIGUSR1, SIG_DFL) == count);
	mask(SIG_BLOCK, SIGUSR1);
	thread_count(&go);
	join(t);
	t = start(send_last, &terminated);
	gmp_sem_acquire(&inner);
	join(t);
	mask(SIG_UNBLOCK, SIGUSR1);
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(ran, 0);
}

TEST_PROCS(signal_queued_before_its_handler_is_removed_is_dropped)
{
	skip_under_chaos(); /* main may yield before it waits, and then runs the handler */
	run_own(procs, 0, remove_handler_of_queued_signal, NULL);
}

/* --- RECEIVER-3: main is about to wait --- */

struct waiting {
	pthread_mutex_t m; /* the first object of a page */
};

static struct waiting *page;
static long page_size;
static volatile sig_atomic_t in_fault;

/* pthread_cond_wait has begun to wait, and unlocks the mutex. */
static void send_in_fault(int signo)
{
	(void)signo;
	in_fault = 1;
	CHECK_EQ(mprotect(page, (size_t)page_size, PROT_READ | PROT_WRITE), 0);
	queue_to_self(SIGUSR1, 1);
	in_fault = 0;
}

static void count_outside_of_fault(int signo)
{
	count(signo);
	CHECK_EQ(in_fault, 0);
}

/* In the handler of a fault the wait cannot be ended.  SIGUSR1 comes there, and ends it later. */
static void send_while_main_begins_to_wait(void *unused)
{
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;

	(void)unused;
	page_size = sysconf(_SC_PAGESIZE);
	page = mmap(NULL, (size_t)page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	CHECK(page != MAP_FAILED);
	CHECK_EQ(pthread_mutex_init(&page->m, NULL), 0);
	handle(SIGSEGV, send_in_fault, 0);
	handle(SIGUSR1, count_outside_of_fault, 0);
	CHECK_EQ(pthread_mutex_lock(&page->m), 0);
	CHECK_EQ(mprotect(page, (size_t)page_size, PROT_NONE), 0);
	CHECK_EQ(pthread_cond_wait(&c, &page->m), 0);
	CHECK(ran == 1 && in_main);
	CHECK_EQ(pthread_mutex_unlock(&page->m), 0);
	CHECK_EQ(munmap(page, (size_t)page_size), 0);
	signal(SIGSEGV, SIG_DFL);
}

TEST_PROCS(signal_while_main_begins_to_wait_ends_the_wait)
{
	run_own(procs, 0, send_while_main_begins_to_wait, NULL);
}

/* --- SETTLE-1: a signal that a child sends before its end --- */

enum { CHILDREN = 100 };

static pid_t wait_for_any(pid_t pid)
{
	(void)pid;
	return wait(NULL);
}

static pid_t wait_for_one(pid_t pid)
{
	return waitpid(pid, NULL, 0);
}

static pid_t wait_by_id(pid_t pid)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)pid, &info, WEXITED) ? -1 : pid;
}

static pid_t wait_polling(pid_t pid)
{
	pid_t got;

	while (!(got = waitpid(pid, NULL, WNOHANG)))
		;
	return got;
}

static pid_t wait_by_wait4(pid_t pid)
{
	return wait4(pid, NULL, WUNTRACED, NULL);
}

/* The children end at once, so each round is a race of the signal with the end.  Chaos interrupts
 * OS threads: one of them, not the first, may accept the signal. */
static void handle_before_wait_returns(int signo, pid_t (*wait_for)(pid_t))
{
	pid_t parent = getpid(), pid, got;

	skip_under_chaos();
	handle(signo, count, SA_RESTART);
	for (int i = 0; i < CHILDREN; i++) {
		ran = 0;
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			if (signo != SIGCHLD)
				kill(parent, signo);
			_exit(0);
		}
		do
			got = wait_for(pid);
		while (got < 0 && errno == EINTR);
		CHECK_EQ(got, pid);
		CHECK_EQ(ran, 1);
	}
	signal(signo, SIG_DFL);
}

POSIX_TEST(waitpid_handles_a_signal_of_the_child_first)
{
	handle_before_wait_returns(SIGUSR1, wait_for_one);
}

POSIX_TEST(waitpid_with_wnohang_handles_a_signal_of_the_child_first)
{
	handle_before_wait_returns(SIGUSR1, wait_polling);
}

POSIX_TEST(waitpid_handles_sigchld_first)
{
	handle_before_wait_returns(SIGCHLD, wait_for_one);
}

POSIX_TEST(wait_handles_a_signal_of_the_child_first)
{
	handle_before_wait_returns(SIGUSR1, wait_for_any);
}

POSIX_TEST(waitid_handles_a_signal_of_the_child_first)
{
	handle_before_wait_returns(SIGUSR1, wait_by_id);
}

POSIX_TEST(wait4_handles_a_signal_of_the_child_first)
{
	handle_before_wait_returns(SIGRTMIN, wait_by_wait4);
}

/* With the siginfo that the child has sent. */
POSIX_TEST(waitpid_keeps_the_value_of_a_signal_of_the_child)
{
	struct sigaction sa = { .sa_sigaction = count_info, .sa_flags = SA_SIGINFO | SA_RESTART };
	pid_t parent = getpid(), pid;

	skip_under_chaos();
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	for (int i = 0; i < CHILDREN; i++) {
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			sigqueue(parent, SIGUSR1, (union sigval){ .sival_int = i });
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		CHECK(value == i && code == SI_QUEUE);
	}
	signal(SIGUSR1, SIG_DFL);
}

static void end_by_signal(int (*run)(void))
{
	skip_under_chaos();
	handle(SIGUSR1, count, SA_RESTART);
	for (int i = 0; i < CHILDREN / 5; i++) {
		ran = 0;
		CHECK_EQ(run(), 0);
		CHECK_EQ(ran, 1);
	}
	signal(SIGUSR1, SIG_DFL);
}

static int run_by_system(void)
{
	return system("kill -USR1 $PPID");
}

static int run_by_popen(void)
{
	FILE *f = popen("kill -USR1 $PPID", "w");

	CHECK(f != NULL);
	return pclose(f);
}

POSIX_TEST(system_handles_a_signal_of_the_child_first)
{
	end_by_signal(run_by_system);
}

POSIX_TEST(pclose_handles_a_signal_of_the_child_first)
{
	end_by_signal(run_by_popen);
}
