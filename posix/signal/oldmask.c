/* SPDX-License-Identifier: MIT */
/*
 * Replaces the older functions that change the signal mask: by sigprocmask, which knows the mask of
 * a green thread (mask.c).
 *
 * Shells use sigsetmask.  libc's would change the mask of the OS thread alone.
 */
#include <signal.h>

#include "posix/call/hook.h"
#include "posix/signal/mask.h"

/* Signals 1 to 32; returns those of the mask from before. */
static int change_old(int how, int bits)
{
	sigset_t set = mask_set((uint32_t)bits), old;

	return sigprocmask(how, &set, &old) ? -1 : (int)(uint32_t)mask_of(&old);
}

HOOK int sigblock(int bits)
{
	return change_old(SIG_BLOCK, bits);
}

HOOK int sigsetmask(int bits)
{
	return change_old(SIG_SETMASK, bits);
}

HOOK int siggetmask(void)
{
	return change_old(SIG_BLOCK, 0);
}

/* Block or unblock one signal. */
static int change_one(int how, int signo)
{
	sigset_t set;

	sigemptyset(&set);
	return sigaddset(&set, signo) ? -1 : sigprocmask(how, &set, NULL); /* EINVAL */
}

HOOK int sighold(int signo)
{
	return change_one(SIG_BLOCK, signo);
}

HOOK int sigrelse(int signo)
{
	return change_one(SIG_UNBLOCK, signo);
}
