/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls that close, duplicate, lock or write back a file.
 *
 * close and dup2: POSIX leaves open what a thread gets that waits on the fd meanwhile.  Here the
 * replaced calls of green threads that wait on the number return EBADF, before the number is free.
 * They do not read another file that gets the number.  On Linux the OS threads continue to wait on
 * the closed file.
 *
 * An fd that gmp knows (gmp_fd_adopt) is closed by gmp_close, so calls of gmp on it end with
 * -ECANCELED.  dup2 to such a number releases it first.
 */
#include <stdarg.h>

#include "io/fd.h"
#include "netpoll.h"
#include "netpoll/multi.h"
#include "park.h"
#include "posix/cancel.h"
#include "posix/wait.h"

/* --- close, dup --- */

/* End the waits of replaced calls on the number, which is about to be closed. */
static void end_waits(struct polldesc *pd)
{
	struct glist out = { 0 };

	if (!pd)
		return;
	netpoll_close_polled(pd, &out);
	if (out.head || out.external)
		ready_list(&out);
}

static bool is_known(struct polldesc *pd)
{
	return pd && ld_rlx(&pd->use) & PD_OPEN; /* a hint */
}

static int park_close(int fd)
{
	int saved = errno;
	struct polldesc *pd = netpoll_find(fd);

	cancel_point();
	kind_set(fd, KIND_UNKNOWN);
	int result = is_known(pd) ? fd_close(fd) : -EBADF;

	if (result == -EBADF || result == FD_STALE) {
		end_waits(pd);
		result = IO_BLOCKING(LIBC(close)(fd));
	}
	return (int)io_return(result, saved);
}

HOOK int close(int fd)
{
	enum hook_how how = hook_how();

	if (how == HOOK_PARK)
		return park_close(fd);
	kind_forget(fd); /* a green thread may have used the number */
	return how == HOOK_LIBC ? LIBC(close)(fd) : HOOK_BLOCKING(LIBC(close)(fd));
}

HOOK int dup(int fd)
{
	return LIBC(dup)(fd); /* it does not block */
}

/* Before dup2 or dup3: if the call can succeed, it closes `to`. */
static void leave_number(int fd, int to)
{
	struct polldesc *pd = netpoll_find(to);
	int saved = errno;

	if (fd != to && LIBC(fcntl)(fd, F_GETFD) >= 0) {
		kind_set(to, KIND_UNKNOWN);
		if (is_known(pd))
			gmp_fd_release(to);
		end_waits(pd);
	}
	errno = saved;
}

HOOK int dup2(int fd, int to)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(dup2)(fd, to);
	case HOOK_PARK: leave_number(fd, to); /* and as the next: it closes a file */
	case HOOK_BLOCK: break;
	}
	return HOOK_BLOCKING(LIBC(dup2)(fd, to));
}

HOOK int dup3(int fd, int to, int flags)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(dup3)(fd, to, flags);
	case HOOK_PARK:
		if (!(flags & ~O_CLOEXEC))
			leave_number(fd, to);
	case HOOK_BLOCK: break;
	}
	return HOOK_BLOCKING(LIBC(dup3)(fd, to, flags));
}

/* --- write back, lock --- */

HOOK int fsync(int fd)
{
	IN_BLOCKING_CODE(LIBC(fsync)(fd));
}

HOOK int fdatasync(int fd)
{
	IN_BLOCKING_CODE(LIBC(fdatasync)(fd));
}

/*
 * A lock is tried first, and waited for in a section of its own: BLOCK-5 then learns the length of
 * such a wait apart from that of an attempt, and an unlock of the same call hands no P off.
 */

HOOK int flock(int fd, int how)
{
	if (hook_how() == HOOK_LIBC)
		return LIBC(flock)(fd, how); /* no cancellation point */
	int saved = errno;
	int result = IO_REPEATING(LIBC(flock)(fd, how | LOCK_NB));

	if (result == -EWOULDBLOCK && !(how & LOCK_NB))
		result = IO_REPEATING(LIBC(flock)(fd, how));
	return (int)io_return(result, saved);
}

#define TRY_THEN_WAIT(waits, attempt, call)                                                        \
	switch (hook_how()) {                                                                      \
	case HOOK_LIBC: return call;                                                               \
	case HOOK_PARK: cancel_point(); /* and as the next */                                      \
	case HOOK_BLOCK: break;                                                                    \
	}                                                                                          \
	int saved_ = errno;                                                                        \
	int result_ = IO_REPEATING(attempt);                                                       \
	if ((result_ == -EAGAIN || result_ == -EACCES) && (waits))                                 \
		result_ = IO_REPEATING(call);                                                      \
	return (int)io_return(result_, saved_)

HOOK int lockf(int fd, int how, off_t n)
{
	TRY_THEN_WAIT(how == F_LOCK, LIBC(lockf)(fd, how == F_LOCK ? F_TLOCK : how, n),
		      LIBC(lockf)(fd, how, n));
}

HOOK int lockf64(int fd, int how, off64_t n)
{
	TRY_THEN_WAIT(how == F_LOCK, LIBC(lockf64)(fd, how == F_LOCK ? F_TLOCK : how, n),
		      LIBC(lockf64)(fd, how, n));
}

/* --- fcntl --- */

/* The commands that wait. */
static bool fcntl_waits(int command)
{
	return command == F_SETLKW || command == F_OFD_SETLKW;
}

/* All commands take no argument, an int or a pointer; the C ABIs pass each as a word. */
static int do_fcntl(int fd, int command, void *arg)
{
	if (!fcntl_waits(command))
		return LIBC(fcntl)(fd, command, arg);
	TRY_THEN_WAIT(true, LIBC(fcntl)(fd, command == F_SETLKW ? F_SETLK : F_OFD_SETLK, arg),
		      LIBC(fcntl)(fd, command, arg));
}

HOOK int fcntl(int fd, int command, ...)
{
	va_list ap;

	va_start(ap, command);
	void *arg = va_arg(ap, void *);

	va_end(ap);
	return do_fcntl(fd, command, arg);
}

HOOK int fcntl64(int fd, int command, ...)
{
	va_list ap;

	va_start(ap, command);
	void *arg = va_arg(ap, void *);

	va_end(ap);
	return do_fcntl(fd, command, arg);
}
