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
 * returns (SETTLE-1).
 *
 * system blocks SIGCHLD for the caller, so that a handler does not wait for its child; the green
 * thread's mask (mask.h) does the same for the handlers that other OS threads would run.  The OS
 * thread has the mask of before, which libc gives to the child.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "posix/call/hook.h"
#include "posix/call/point.h"
#include "posix/call/user.h"
#include "posix/program/vfork.h"
#include "posix/signal/mask.h"
#include "posix/signal/settle.h"

/* result > 0: a child has changed its state. */
static pid_t waited(pid_t result)
{
	if (result > 0 && signals_used() && hook_how() != HOOK_LIBC)
		settle_after_child();
	return result;
}

/* The same child, and no flag: parks. */
static pid_t wait_for(pid_t pid, int *status)
{
	pid_t result;
	int got;

	cancel_point();
	do
		result = HANDLER_WAIT(gmp_waitpid(pid, &got, 0));
	while (result == -EINTR && handler_restarts());
	if (result == -ECANCELED)
		cancel_waited();
	if (result > 0 && status && !user_write(status, &got, sizeof(got)))
		result = -EFAULT;
	return (pid_t)hook_return(waited(result));
}

HOOK pid_t wait4(pid_t pid, int *status, int flags, struct rusage *usage)
{
	if (pid > 0 && !flags && !usage && hook_parks())
		return wait_for(pid, status);
	hook_point();
	return waited(flags & WNOHANG ? LIBC(wait4)(pid, status, flags, usage)
				      : HOOK_REPEATING(LIBC(wait4)(pid, status, flags, usage)));
}

/* By wait4, as in libc. */
HOOK pid_t waitpid(pid_t pid, int *status, int flags)
{
	return wait4(pid, status, flags, NULL);
}

HOOK pid_t wait3(int *status, int flags, struct rusage *usage)
{
	return wait4(-1, status, flags, usage);
}

HOOK pid_t wait(int *status)
{
	return wait4(-1, status, 0, NULL);
}

HOOK int waitid(idtype_t type, id_t id, siginfo_t *info, int flags)
{
	bool waits = !(flags & WNOHANG);

	hook_point();
	int result = waits ? HOOK_REPEATING(LIBC(waitid)(type, id, info, flags))
			   : LIBC(waitid)(type, id, info, flags);

	waited(result == 0 && (waits || !info || info->si_pid));
	return result;
}

HOOK int system(const char *command)
{
	if (!command)
		return LIBC(system)(command);
	if (!hook_parks())
		return HOOK_CHILD(LIBC(system)(command));
	cancel_point();
	uint64_t old = mask_block(mask_bit(SIGCHLD));
	int status = HOOK_CHILD_AS(mask_for_child_as(old), LIBC(system)(command)), saved = errno;

	mask_set_own(old);
	waited(status != -1);
	errno = saved;
	return status;
}

HOOK FILE *popen(const char *command, const char *mode)
{
	hook_point();
	return HOOK_CHILD(LIBC(popen)(command, mode));
}

HOOK int pclose(FILE *f)
{
	hook_point();
	int status = HOOK_BLOCKING(LIBC(pclose)(f));

	waited(status != -1);
	return status;
}
