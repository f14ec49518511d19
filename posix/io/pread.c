/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls that read and write at an offset.
 *
 * Files with offsets cannot be waited for, so these calls are blocking code.  A call of preadv2 or
 * pwritev2 at no offset is a readv or writev.
 */
#include "posix/call/hook.h"
#include "posix/call/point.h"

HOOK ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	return POINT_REPEATING(LIBC(pread)(fd, buf, n, at));
}

HOOK_ALIAS(pread64, pread);

HOOK ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
	return POINT_REPEATING(LIBC(__pread_chk)(fd, buf, n, at, room));
}

HOOK_ALIAS(__pread64_chk, __pread_chk);

HOOK ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	return POINT_REPEATING(LIBC(pwrite)(fd, buf, n, at));
}

HOOK_ALIAS(pwrite64, pwrite);

HOOK ssize_t preadv(int fd, const struct iovec *v, int count, off_t at)
{
	return POINT_REPEATING(LIBC(preadv)(fd, v, count, at));
}

HOOK_ALIAS(preadv64, preadv);

HOOK ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	return POINT_REPEATING(LIBC(pwritev)(fd, v, count, at));
}

HOOK_ALIAS(pwritev64, pwritev);

HOOK ssize_t preadv2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	if (at == -1 && flags == 0 && count > 0)
		return readv(fd, v, count);
	return POINT_REPEATING(LIBC(preadv2)(fd, v, count, at, flags));
}

HOOK ssize_t pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	if (at == -1 && flags == 0 && count > 0)
		return writev(fd, v, count);
	return POINT_REPEATING(LIBC(pwritev2)(fd, v, count, at, flags));
}
