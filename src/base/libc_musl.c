/* SPDX-License-Identifier: MIT */
/*
 * System calls that musl has no functions for before 1.2.5.
 *
 * The names are hidden: a program that defines them, or a later musl, keeps its own.
 */
#include "base/libc.h"

#include <sys/syscall.h>
#include <unistd.h>

/* The kernel takes an offset in two halves, of which 64-bit machines use the first. */
ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	return syscall(SYS_preadv2, fd, v, (long)n, (long)at, 0L, (long)flags);
}

ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	return syscall(SYS_pwritev2, fd, v, (long)n, (long)at, 0L, (long)flags);
}
