/* SPDX-License-Identifier: MIT */
/*
 * Seccomp: a filter that a green thread of a whole program (gmp-run) installs holds on all OS
 * threads.
 *
 * The kernel keeps a filter for each OS thread.  A green thread runs on several, so a filter on its
 * present OS thread would guard it until its next wait only, and threads that it makes not at all.
 * SECCOMP_FILTER_FLAG_TSYNC gives the filter to all OS threads of the process in one step; OS
 * threads that start later inherit it.  no_new_privs, which it needs, is set on all of them, too
 * (rights.c).
 *
 * The runtime's own calls are not exempt: a call that the filter refuses fails, or the process
 * ends, as the filter says (docs/limits.md, Sandboxes).
 *
 * The runtime's system calls are more than those of the program, so a filter that kills is named on
 * stderr: natively nothing was killed.
 *
 * Strict mode would stop the runtime, so it is EINVAL.  An OS thread of the program, and the child
 * of a fork before it has a runtime, get the native call.
 */
#include "posix/program/seccomp.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/throw.h"
#include "posix/call/hook.h"
#include "posix/program/filter.h"
#include "posix/program/rights.h"

static long install(unsigned long flags, void *args)
{
	return LIBC(syscall)(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, args);
}

/* Once in a process, before the filter holds: it may forbid the write. */
static void warn_of_kills(const void *args)
{
	static bool warned; /* (a) */
	struct line l = { .n = 0 };
	enum filter_kill kills = ld_rlx(&warned) ? FILTER_KILLS_NOTHING : filter_kills(args);

	if (kills == FILTER_KILLS_NOTHING)
		return;
	st_rlx(&warned, true);
	line_str_sig(&l, "gmp: the program installs a seccomp filter that kills ");
	if (kills == FILTER_KILLS_THREAD)
		line_str_sig(&l, "a thread: if it forbids a system call of gmp, green threads "
				 "hang");
	else
		line_str_sig(&l, "the process: it must allow the system calls of gmp");
	line_str_sig(&l, " (docs/limits.md, Sandboxes)\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* Fails with ESRCH if another thread has a filter that the caller does not have.  For a listener,
 * whose result is a descriptor, the kernel does that by a flag of Linux 5.7; otherwise it returns
 * the id of that thread. */
static long install_on_all(unsigned long flags, void *args)
{
	bool listens = flags & SECCOMP_FILTER_FLAG_NEW_LISTENER;
	long result = install(flags | SECCOMP_FILTER_FLAG_TSYNC |
				      (listens ? SECCOMP_FILTER_FLAG_TSYNC_ESRCH : 0),
			      args);

	return result > 0 && !listens ? hook_return(-ESRCH) : result;
}

/* Of a green thread: a filter goes to all OS threads, the strict mode is refused. */
static long set_mode(unsigned op, unsigned long flags, void *args)
{
	if (op == SECCOMP_SET_MODE_FILTER) {
		warn_of_kills(args);
		return flags & SECCOMP_FILTER_FLAG_TSYNC ? install(flags, args)
							 : install_on_all(flags, args);
	}
	return hook_return(-EINVAL);
}

long seccomp_call(unsigned op, unsigned flags, void *args)
{
	if (op > SECCOMP_SET_MODE_FILTER || !rights_are_of_program())
		return LIBC(syscall)(SYS_seccomp, op, flags, args);
	return set_mode(op, flags, args);
}

int prctl_call(int option, const unsigned long *a)
{
	if (option == PR_SET_SECCOMP && rights_are_of_program()) {
		unsigned op = a[0] == SECCOMP_MODE_FILTER ? SECCOMP_SET_MODE_FILTER
							  : SECCOMP_SET_MODE_STRICT;

		return (int)set_mode(op, 0, (void *)a[1]);
	}
	const unsigned long all[RIGHTS_ARGS] = { (unsigned long)option, a[0], a[1], a[2], a[3] };
	long result;

	return rights_call(SYS_prctl, all, &result) ? (int)result
						    : LIBC(prctl)(option, a[0], a[1], a[2], a[3]);
}

HOOK int prctl(int option, ...)
{
	va_list list;
	unsigned long a[4];

	va_start(list, option);
	for (int i = 0; i < 4; i++) /* not given: read too, as libc does */
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	return prctl_call(option, a);
}
