/* SPDX-License-Identifier: MIT */
/*
 * Seccomp: a filter that a green thread of a whole program (gmp-run) installs holds on all OS
 * threads.
 *
 * The kernel keeps a filter for each OS thread.  A green thread runs on several, so a filter on its
 * present OS thread would guard it until its next wait only, and threads that it makes not at all.
 * SECCOMP_FILTER_FLAG_TSYNC gives the filter to all OS threads of the process in one step,
 * and with it no_new_privs; OS threads that start later inherit both.
 *
 * A filter must admit the calls of the runtime (docs/api/gmp-run.md).  The runtime's calls are not
 * exempt: what the filter does not admit fails, or ends the process, as the filter says.
 *
 * Strict mode admits read, write and the end of the thread only, so it is EINVAL.  An external
 * thread, and the child of a fork before it has a runtime, install filters as natively.
 */
#include "posix/seccomp.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "posix/hook.h"
#include "posix/thread.h"

#ifndef SECCOMP_FILTER_FLAG_TSYNC_ESRCH
#define SECCOMP_FILTER_FLAG_TSYNC_ESRCH (1UL << 4) /* Linux 5.7 */
#endif

static bool is_for_all_threads(void)
{
	return program_is_whole() && hook_how() != HOOK_LIBC;
}

long seccomp_call(unsigned op, unsigned flags, void *args)
{
	if (op > SECCOMP_SET_MODE_FILTER || !is_for_all_threads())
		return LIBC(syscall)(SYS_seccomp, op, flags, args);
	/* the strict mode admits no flag: EINVAL.  ESRCH, and no filter: another thread has a
	 * filter that the caller does not have */
	if (!(flags & SECCOMP_FILTER_FLAG_TSYNC))
		flags |= SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
	return LIBC(syscall)(SYS_seccomp, op, flags, args);
}

HOOK int prctl(int option, ...)
{
	va_list list;
	unsigned long a[4];

	va_start(list, option);
	for (int i = 0; i < 4; i++) /* not given: read too, as libc does */
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option != PR_SET_SECCOMP || a[0] == 0 || a[0] > SECCOMP_MODE_FILTER)
		return LIBC(prctl)(option, a[0], a[1], a[2], a[3]);
	unsigned op =
		a[0] == SECCOMP_MODE_STRICT ? SECCOMP_SET_MODE_STRICT : SECCOMP_SET_MODE_FILTER;

	return (int)seccomp_call(op, 0, (void *)a[1]);
}
