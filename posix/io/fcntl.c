/* SPDX-License-Identifier: MIT */
/* Replaces fcntl, and the calls that lock or write back a file: they run as blocking code. */
#include <stdarg.h>

#include "posix/call/point.h"
#include "posix/io/wait.h"

HOOK int fsync(int fd)
{
	return POINT_REPEATING(LIBC(fsync)(fd));
}

HOOK int fdatasync(int fd)
{
	return POINT_REPEATING(LIBC(fdatasync)(fd));
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

/* All commands take no argument, an int or a pointer; the C ABIs pass each as a word. */
static int do_fcntl(int fd, int command, void *arg)
{
	/* the command that does not wait */
	int attempt = command == F_SETLKW ? F_SETLK : command == F_OFD_SETLKW ? F_OFD_SETLK : -1;
	int saved = errno;

	if (attempt < 0 || hook_how() == HOOK_LIBC)
		return LIBC(fcntl)(fd, command, arg);
	hook_point();
	int result = IO_REPEATING(LIBC(fcntl)(fd, attempt, arg));

	if (result == -EAGAIN || result == -EACCES)
		result = IO_REPEATING(LIBC(fcntl)(fd, command, arg));
	return (int)io_return(result, saved);
}

HOOK int fcntl(int fd, int command, ...)
{
	va_list ap;

	va_start(ap, command);
	void *arg = va_arg(ap, void *);

	va_end(ap);
	return do_fcntl(fd, command, arg);
}

HOOK_ALIAS(fcntl64, fcntl);

HOOK int lockf(int fd, int how, off_t n)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = n };

	if (how == F_LOCK) /* as libc does it */
		return do_fcntl(fd, F_SETLKW, &lock);
	return POINT_REPEATING(LIBC(lockf)(fd, how, n));
}

HOOK_ALIAS(lockf64, lockf);
