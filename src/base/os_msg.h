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

#if defined(__linux__) && defined(__x86_64__) && !defined(GMP_DEBUG_CHECKS) &&                     \
	!defined(SAN_ADDRESS) && !defined(SAN_THREAD)

static inline ssize_t os_msg_call(long call, int fd, const void *buf, size_t n, int flags)
{
	register long r10 __asm__("r10") = flags;
	register long r8 __asm__("r8") = 0; /* no address */
	register long r9 __asm__("r9") = 0;
	ssize_t result = call;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"((long)fd), "S"(buf), "d"(n), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline ssize_t os_recv(int fd, void *buf, size_t n, int flags)
{
	return os_msg_call(SYS_recvfrom, fd, buf, n, flags);
}

static inline ssize_t os_send(int fd, const void *buf, size_t n, int flags)
{
	return os_msg_call(SYS_sendto, fd, buf, n, flags);
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
