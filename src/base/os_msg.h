/* SPDX-License-Identifier: MIT */
/*
 * os_recv and os_send: recv and send as inline system calls.
 *
 * The kernel's call chain is so deep that it evicts the callers' return addresses from the CPU's
 * return stack: each return afterwards is mispredicted. libc adds two returns, and four locked
 * instructions for pthread_cancel. Together they cost 1/40 of the time to answer a small request.
 *
 * Builds with checks call libc: the sanitizers intercept it, and tests replace it.
 *
 * Both return bytes or -errno.
 */
#ifndef GMP_OS_MSG_H
#define GMP_OS_MSG_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "base/san.h"

#if defined(ARCH_HAS_SYSCALL) && !defined(GMP_DEBUG_CHECKS) && !defined(SAN_ADDRESS) &&            \
	!defined(SAN_THREAD)

static inline ssize_t os_recv(int fd, void *buf, size_t n, int flags)
{
	return arch_msg_call(SYS_recvfrom, fd, buf, n, flags);
}

static inline ssize_t os_send(int fd, const void *buf, size_t n, int flags)
{
	return arch_msg_call(SYS_sendto, fd, buf, n, flags);
}

#else

static inline ssize_t os_recv(int fd, void *buf, size_t n, int flags)
{
	ssize_t got = recv(fd, buf, n, flags);

	return got >= 0 ? got : -errno;
}

static inline ssize_t os_send(int fd, const void *buf, size_t n, int flags)
{
	ssize_t done = send(fd, buf, n, flags);

	return done >= 0 ? done : -errno;
}

#endif

#endif
