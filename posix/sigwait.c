/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that wait for a signal: libc's function runs as blocking code.
 *
 * sigwait and the like take a signal that all threads block; the kernel gives it to an OS thread in
 * that call, or keeps it pending.  pause and sigsuspend end when a handler has run on the calling
 * thread: receiver.c sends the signal to the OS thread that is in blocking code for its receiver.
 * The kernel exchanges the mask and sleeps in one step, so no signal is missed in between.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "posix/cancel.h"
#include "posix/hook.h"
#include "posix/receiver.h"

HOOK int sigwait(const sigset_t *set, int *signo)
{
	enum hook_how how = hook_how();

	if (how == HOOK_LIBC)
		return LIBC(sigwait)(set, signo);
	if (how == HOOK_PARK)
		cancel_point();
	return HOOK_BLOCKING(LIBC(sigwait)(set, signo));
}

static int wait_for_info(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	siginfo_t got;
	enum hook_how how = hook_how();

	if (how == HOOK_PARK)
		cancel_point();
	int signo = how == HOOK_LIBC ? LIBC(sigtimedwait)(set, &got, timeout)
				     : HOOK_BLOCKING(LIBC(sigtimedwait)(set, &got, timeout));

	if (signo > 0) {
		receiver_unpack_sig(&got);
		got.si_errno = 0;
		if (info)
			*info = got;
	}
	return signo;
}

HOOK int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return wait_for_info(set, info, NULL);
}

HOOK int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	return wait_for_info(set, info, timeout);
}

HOOK int pause(void)
{
	enum hook_how how = hook_how();

	if (how == HOOK_LIBC)
		return LIBC(pause)();
	if (how == HOOK_PARK)
		cancel_point();
	return HOOK_BLOCKING(LIBC(pause)());
}

HOOK int sigsuspend(const sigset_t *set)
{
	enum hook_how how = hook_how();

	if (how == HOOK_LIBC)
		return LIBC(sigsuspend)(set);
	if (how == HOOK_PARK)
		cancel_point();
	return HOOK_BLOCKING(({
		uint64_t before = mask_swap(set);
		int result = LIBC(sigsuspend)(set), err = errno;

		mask_swap_back(set, before);
		errno = err;
		result;
	}));
}
