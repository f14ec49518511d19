/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that wait for child processes.
 *
 *   call                                       a green thread that would wait
 *   WNOHANG                                    does not wait: libc's function
 *   waitpid of one child, without flags        parks until its pidfd is readable (sys/waitpid.c)
 *   any other wait; system, pclose             libc's function as blocking code
 *
 * There is nothing to poll for the end of any child, of a process group, or for a stop: SIGCHLD is
 * one signal for several children, and may be ignored.  The kernel's own wait is right there, and
 * does not take the children of other waiters.
 *
 * A signal that a child of main has sent to the process before its end is handled before the call
 * returns (RECEIVER-11).
 *
 * system blocks SIGCHLD for the caller, so that a handler does not wait for its child; the green
 * thread's mask (mask.h) does the same for the handlers that other OS threads would run.  The OS
 * thread has the mask of before, which libc gives to the child.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "posix/cancel.h"
#include "posix/hook.h"
#include "posix/mask.h"
#include "posix/receiver.h"
#include "posix/user.h"

/* The value of call, which may wait, in each kind of caller; by: how blocking code evaluates it. */
#define MAY_WAIT(waits, by, call)                                                                  \
	({                                                                                         \
		enum hook_how how_ = hook_how();                                                   \
		if (how_ == HOOK_LIBC)                                                             \
			return call;                                                               \
		if (how_ == HOOK_PARK)                                                             \
			cancel_point();                                                            \
		!(waits) ? (call) : by(call);                                                      \
	})

/* result > 0: a child has changed its state. */
static pid_t waited(pid_t result)
{
	if (result > 0 && signals_used())
		receiver_settle();
	return result;
}

/* The same child, and no flag: parks. */
static pid_t wait_for(pid_t pid, int *status)
{
	pid_t result;
	int got;

	cancel_point();
	do {
		handler_wait_begin();
		result = gmp_waitpid(pid, &got, 0);
		handler_wait_end();
	} while (result == -EINTR && handler_restarts());
	if (result == -ECANCELED)
		cancel_waited();
	if (result > 0 && status && !user_write(status, &got, sizeof(got)))
		result = -EFAULT;
	return (pid_t)hook_return(waited(result));
}

HOOK pid_t waitpid(pid_t pid, int *status, int flags)
{
	if (pid > 0 && !flags && hook_how() == HOOK_PARK)
		return wait_for(pid, status);
	return waited(
		MAY_WAIT(!(flags & WNOHANG), HOOK_REPEATING, LIBC(waitpid)(pid, status, flags)));
}

HOOK pid_t wait(int *status)
{
	return waited(MAY_WAIT(true, HOOK_REPEATING, LIBC(wait)(status)));
}

HOOK int waitid(idtype_t type, id_t id, siginfo_t *info, int flags)
{
	int result =
		MAY_WAIT(!(flags & WNOHANG), HOOK_REPEATING, LIBC(waitid)(type, id, info, flags));

	waited(result == 0 && (!(flags & WNOHANG) || !info || info->si_pid));
	return result;
}

HOOK pid_t wait3(int *status, int flags, struct rusage *usage)
{
	return waited(
		MAY_WAIT(!(flags & WNOHANG), HOOK_REPEATING, LIBC(wait3)(status, flags, usage)));
}

HOOK pid_t wait4(pid_t pid, int *status, int flags, struct rusage *usage)
{
	return waited(MAY_WAIT(!(flags & WNOHANG), HOOK_REPEATING,
			       LIBC(wait4)(pid, status, flags, usage)));
}

/* system by an OS thread with this mask, a result of mask_block. */
static int system_as(const char *command, uint64_t mask)
{
	uint64_t before = mask_for_child_as(mask);
	int status = LIBC(system)(command), saved = errno;

	mask_after_child(before);
	errno = saved;
	return status;
}

/* popen by an OS thread with the mask of the caller. */
static FILE *popen_as(const char *command, const char *mode)
{
	uint64_t before = mask_for_child();
	FILE *f = LIBC(popen)(command, mode);
	int saved = errno;

	mask_after_child(before);
	errno = saved;
	return f;
}

HOOK int system(const char *command)
{
	enum hook_how how = hook_how();

	if (how == HOOK_LIBC || !command)
		return LIBC(system)(command);
	if (how == HOOK_BLOCK)
		return HOOK_BLOCKING(LIBC(system)(command));
	cancel_point();
	uint64_t old = mask_block(mask_bit(SIGCHLD));
	int status = HOOK_BLOCKING(system_as(command, old)), saved = errno;

	mask_restore(old);
	waited(status != -1);
	errno = saved;
	return status;
}

HOOK FILE *popen(const char *command, const char *mode)
{
	if (hook_how() == HOOK_LIBC)
		return LIBC(popen)(command, mode);
	if (hook_how() == HOOK_PARK)
		cancel_point();
	return HOOK_BLOCKING(popen_as(command, mode));
}

HOOK int pclose(FILE *f)
{
	int status = MAY_WAIT(true, HOOK_BLOCKING, LIBC(pclose)(f));

	waited(status != -1);
	return status;
}
