/* SPDX-License-Identifier: MIT */
/*
 * Replaces sigaltstack: stores the alternate signal stack of a green thread with own thread-locals.
 *
 * The kernel's setting is the OS thread's.  A green thread that changed it would change it for all
 * others, and it would stay after the green thread has ended and freed that memory.  So the setting
 * is in the signal_state of the green thread, and handlers run on the alternate stack of the OS
 * thread (trampoline.c).  They cannot run on the stored one: the kernel would then begin a second
 * signal at the top of the OS thread's stack, where the trampoline of the first one still runs.
 */
#include <signal.h>

#include "posix/call/hook.h"
#include "posix/call/user.h"

/* The kernel's least size, which differs from sysconf(_SC_MINSIGSTKSZ). */
#ifdef __aarch64__
enum { LEAST = 5120 };
#else
enum { LEAST = 2048 };
#endif

/* Not in each version of signal.h. */
#define AUTODISARM (INT32_MIN)

/* Returns 0 or an errno. */
static int store(struct signal_state *s, const stack_t *set)
{
	int mode = set->ss_flags & ~AUTODISARM;

	if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
		return EINVAL;
	if (mode != SS_DISABLE && set->ss_size < LEAST)
		return ENOMEM;
	s->alternate = mode == SS_DISABLE ? NULL : set->ss_sp;
	s->alternate_size = mode == SS_DISABLE ? 0 : set->ss_size;
	s->alternate_flags = set->ss_flags & AUTODISARM;
	return 0;
}

HOOK int sigaltstack(const stack_t *set, stack_t *old)
{
	struct signal_state *s = gmp__signal_state();

	if (!hook_has_own_tls())
		return LIBC(sigaltstack)(set, old);
	stack_t new,
		before = { .ss_sp = s->alternate,
			   .ss_size = s->alternate_size,
			   .ss_flags = s->alternate_flags | (s->alternate_size ? 0 : SS_DISABLE) };
	int err = !set ? 0 : !user_read(&new, set, sizeof(new)) ? EFAULT : store(s, &new);

	if (!err && old && !user_write(old, &before, sizeof(before)))
		err = EFAULT;
	return (int)hook_return(-err);
}
