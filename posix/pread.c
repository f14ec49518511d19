/* SPDX-License-Identifier: MIT */
/*
 * Replaces the calls that read and write at an offset.
 *
 * Files with offsets cannot be waited for, so these calls are blocking code.  A call of preadv2 or
 * pwritev2 at no offset is a readv or writev.
 */
#include "posix/cancel.h"
#include "posix/hook.h"

HOOK ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	IN_BLOCKING_CODE(LIBC(pread)(fd, buf, n, at));
}

HOOK ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
	IN_BLOCKING_CODE(LIBC(pread64)(fd, buf, n, at));
}

HOOK ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
	IN_BLOCKING_CODE(LIBC(__pread_chk)(fd, buf, n, at, room));
}

HOOK ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room)
{
	IN_BLOCKING_CODE(LIBC(__pread64_chk)(fd, buf, n, at, room));
}

HOOK ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	IN_BLOCKING_CODE(LIBC(pwrite)(fd, buf, n, at));
}

HOOK ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
	IN_BLOCKING_CODE(LIBC(pwrite64)(fd, buf, n, at));
}

HOOK ssize_t preadv(int fd, const struct iovec *v, int count, off_t at)
{
	IN_BLOCKING_CODE(LIBC(preadv)(fd, v, count, at));
}

HOOK ssize_t preadv64(int fd, const struct iovec *v, int count, off64_t at)
{
	IN_BLOCKING_CODE(LIBC(preadv64)(fd, v, count, at));
}

HOOK ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	IN_BLOCKING_CODE(LIBC(pwritev)(fd, v, count, at));
}

HOOK ssize_t pwritev64(int fd, const struct iovec *v, int count, off64_t at)
{
	IN_BLOCKING_CODE(LIBC(pwritev64)(fd, v, count, at));
}

HOOK ssize_t preadv2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	if (at == -1 && flags == 0 && count > 0)
		return readv(fd, v, count);
	IN_BLOCKING_CODE(LIBC(preadv2)(fd, v, count, at, flags));
}

HOOK ssize_t pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
	if (at == -1 && flags == 0 && count > 0)
		return writev(fd, v, count);
	IN_BLOCKING_CODE(LIBC(pwritev2)(fd, v, count, at, flags));
}
