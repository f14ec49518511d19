/* SPDX-License-Identifier: MIT */
/* How does a call on a descriptor wait until the descriptor is ready?  See fd.c. */
#ifndef GMP_FD_H
#define GMP_FD_H

#include <sys/types.h>

#include "netpoll.h"

/* What a system call needs beside the descriptor. */
struct io_args {
	void *buf;
	size_t n;
};

/* One try: a count, or a negative errno, -EAGAIN when it is not ready. */
typedef ssize_t (*io_call)(int fd, const struct io_args *a);

/* Call until it says something else than -EAGAIN, waiting in between; -EBADF for a descriptor that
 * is not ours, -ECANCELED if it was closed while we waited, -ESRCH, -ETIMEDOUT. */
ssize_t fd_call(int fd, int side, io_call call, const struct io_args *a, int64_t deadline);

/* Make a fresh, non-blocking descriptor the poller's; closes it on failure.  fd or -errno. */
int fd_register(int fd, bool tcp);

#endif
