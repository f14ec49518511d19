/* SPDX-License-Identifier: MIT */
/*
 * Tests that a signal handler can begin a system call again that the signal has ended.
 *
 * floors 0..0
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context.h"

static int fds[2];
static char byte;
static struct os_sleep expected; /* except pc and sp, which the handler adds */
static bool wrong_pc, wrong_sp;
static atomic_int handled;

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	expected.pc = context_pc_sig(context) + (wrong_pc ? 2 : 0);
	expected.sp = context_sp_sig(context) + (wrong_sp ? 16 : 0);
	context_restart_sig(context, &expected);
	atomic_fetch_add(&handled, 1);
}

/* Sends one signal to the thread when it sleeps, and writes a byte after its handler. */
static void *interrupt(void *tid)
{
	while (os_thread_state((int)(intptr_t)tid) != 'S')
		sched_yield();
	CHECK_EQ(syscall(SYS_tgkill, getpid(), (int)(intptr_t)tid, SIGUSR1), 0);
	while (!atomic_load(&handled))
		sched_yield();
	CHECK_EQ(write(fds[1], "x", 1), 1);
	return NULL;
}

/* Returns what read(2) of a byte returns, during which the signal arrives; -errno. */
static long interrupted_read(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	pthread_t t;

#ifdef SAN_THREAD
	check_skip("ThreadSanitizer runs the handler after the call has returned");
#endif
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	expected.nr = SYS_read;
	expected.arg[0] = (uintptr_t)fds[0];
	expected.arg[1] = (uintptr_t)&byte;
	expected.arg[2] = 1;
	CHECK_EQ(pthread_create(&t, NULL, interrupt, (void *)syscall(SYS_gettid)), 0);
	long got = syscall(SYS_read, fds[0], &byte, 1L, 0L, 0L, 0L);
	int err = errno;

	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(atomic_load(&handled), 1);
	return got < 0 ? -err : got;
}

TEST(restart_of_expected_call_hides_the_signal)
{
	CHECK_EQ(interrupted_read(), 1);
	CHECK_EQ(byte, 'x');
}

TEST(restart_at_other_pc_keeps_eintr)
{
	wrong_pc = true;
	CHECK_EQ(interrupted_read(), -EINTR);
}

TEST(restart_at_other_stack_pointer_keeps_eintr)
{
	wrong_sp = true;
	CHECK_EQ(interrupted_read(), -EINTR);
}

TEST(restart_of_call_with_other_arguments_keeps_eintr)
{
	expected.arg[5] = 7;
	CHECK_EQ(interrupted_read(), -EINTR);
}

TEST(restart_after_another_sleep_keeps_eintr)
{
	expected.once = true;
	expected.sleeps = UINT64_MAX;
	CHECK_EQ(interrupted_read(), -EINTR);
}
