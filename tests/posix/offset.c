/* SPDX-License-Identifier: MIT */
/* Tests the calls that read and write at an offset. */
#define _GNU_SOURCE
#include <limits.h>
#include <sys/uio.h>

#include "fds.h"

ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);

/* --- the calls --- */

typedef ssize_t (*reader)(int fd, void *buf, size_t n, off_t at);
typedef ssize_t (*writer)(int fd, const void *buf, size_t n, off_t at);

static ssize_t by_pread_chk(int fd, void *buf, size_t n, off_t at)
{
	return __pread_chk(fd, buf, n, at, n);
}

static ssize_t by_pread64_chk(int fd, void *buf, size_t n, off_t at)
{
	return __pread64_chk(fd, buf, n, at, n);
}

/* Two buffers. */
static void halves(struct iovec v[2], const void *buf, size_t n)
{
	v[0] = (struct iovec){ (void *)(uintptr_t)buf, n / 2 };
	v[1] = (struct iovec){ (char *)(uintptr_t)buf + n / 2, n - n / 2 };
}

#define WITH_BUFFERS(name, type, call)                                                             \
	static ssize_t by_##name(int fd, type *buf, size_t n, off_t at)                            \
	{                                                                                          \
		struct iovec v[2];                                                                 \
                                                                                                   \
		halves(v, buf, n);                                                                 \
		return call;                                                                       \
	}

WITH_BUFFERS(preadv, void, preadv(fd, v, 2, at))
WITH_BUFFERS(preadv64, void, preadv64(fd, v, 2, at))
WITH_BUFFERS(preadv2, void, preadv2(fd, v, 2, at, 0))
WITH_BUFFERS(pwritev, const void, pwritev(fd, v, 2, at))
WITH_BUFFERS(pwritev64, const void, pwritev64(fd, v, 2, at))
WITH_BUFFERS(pwritev2, const void, pwritev2(fd, v, 2, at, 0))

static const reader readers[] = { pread,     pread64,     by_pread_chk, by_pread64_chk,
				  by_preadv, by_preadv64, by_preadv2 };
static const writer writers[] = { pwrite, pwrite64, by_pwritev, by_pwritev64, by_pwritev2 };
enum {
	READERS = sizeof(readers) / sizeof(readers[0]),
	WRITERS = sizeof(writers) / sizeof(writers[0])
};

/* --- tests --- */

POSIX_TEST(pread_reads_at_the_offset)
{
	for (int i = 0; i < READERS; i++) {
		char buf[8] = "";
		int fd = text_file("hello, world");

		errno = 1234;
		CHECK_EQ(readers[i](fd, buf, 5, 7), 5);
		CHECK_EQ(errno, 1234);
		CHECK_STR(buf, "world");
		CHECK_EQ(readers[i](fd, buf, 5, 10), 2);
		CHECK_EQ(readers[i](fd, buf, 5, 12), 0);
		CHECK_EQ(lseek(fd, 0, SEEK_CUR), 0); /* the file offset stays */
		close(fd);
	}
}

POSIX_TEST(pwrite_writes_at_the_offset)
{
	for (int i = 0; i < WRITERS; i++) {
		char buf[16] = "";
		int fd = text_file("hello, world");

		errno = 1234;
		CHECK_EQ(writers[i](fd, "there", 5, 7), 5);
		CHECK_EQ(errno, 1234);
		CHECK_EQ(lseek(fd, 0, SEEK_CUR), 0);
		CHECK_EQ(read(fd, buf, 15), 12);
		CHECK_STR(buf, "hello, there");
		close(fd);
	}
}

POSIX_TEST(pread_of_a_pipe_is_espipe)
{
	for (int i = 0; i < READERS; i++) {
		char c;
		int s[2];

		CHECK_EQ(pipe(s), 0);
		CHECK_ERRNO(readers[i](s[0], &c, 1, 0), ESPIPE);
		close_pair(s);
	}
}

POSIX_TEST(pwrite_to_a_socket_is_espipe)
{
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_ERRNO(writers[i](s[0], "x", 1, 0), ESPIPE);
		close_pair(s);
	}
}

POSIX_TEST(pread_bad_argument_is_an_error)
{
	for (int i = 0; i < READERS; i++) {
		char c;
		int fd = text_file("x");

		CHECK_ERRNO(readers[i](-1, &c, 1, 0), EBADF);
		CHECK_ERRNO(readers[i](fd, &c, 1, -2), EINVAL);
		close(fd);
	}
}

POSIX_TEST(pwrite_bad_argument_is_an_error)
{
	for (int i = 0; i < WRITERS; i++) {
		int fd = text_file("x"), in = open("/", O_RDONLY);

		CHECK_ERRNO(writers[i](-1, "x", 1, 0), EBADF);
		CHECK_ERRNO(writers[i](in, "x", 1, 0), EBADF);
		CHECK_ERRNO(writers[i](fd, "x", 1, -2), EINVAL);
		close(fd);
		close(in);
	}
}
