/* SPDX-License-Identifier: MIT */
/*
 * Replaces syscall: futexes, filters, and calls that change rights or make a child go to the files
 * that replace them, all others to libc's function.
 */
#include <stdarg.h>
#include <sys/syscall.h>

#include "posix/call/real.h"
#include "posix/program/clone.h"
#include "posix/program/rights.h"
#include "posix/program/seccomp.h"
#include "posix/sync/futex.h"

/* Arguments that the caller has not given are read, too, as libc's own function does. */
HOOK long syscall(long number, ...)
{
	va_list list;
	unsigned long a[6];
	long result;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	if (unlikely(number == SYS_seccomp))
		return seccomp_call((unsigned)a[0], (unsigned)a[1], (void *)a[2]);
	if (unlikely(number == SYS_prctl))
		return prctl_call((int)a[0], a + 1);
	if (unlikely(rights_call(number, a, &result)))
		return result;
	if (unlikely(makes_child(number)))
		return clone_call(number, a);
	if (likely(number != SYS_futex))
		return LIBC(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return futex_call(a);
}
