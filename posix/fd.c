/* SPDX-License-Identifier: MIT */
/* Replaces the calls that lock or write back a file: they run as blocking code. */
#include <stdarg.h>

#include "posix/cancel.h"
#include "posix/wait.h"

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
	if (command == F_SETFL)
		hint_set(fd, HINT_SHORT_WAIT, false); /* IOWAIT-5: it may be O_NONBLOCK */
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
