/* SPDX-License-Identifier: MIT */
/* File descriptors on FreeBSD: the mark of a file, and reads of own memory.  OS-1 and OS-2 of
 * os_linux.c hold. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* There is no F_SETSIG.  The mark is O_ASYNC, which the kernel stores for regular files and
 * directories, and which sends no signal there.  Other files stay unmarked. */
bool os_mark(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	bool marked = flags >= 0 && flags & O_ASYNC;

	if (flags >= 0 && !marked)
		fcntl(fd, F_SETFL, flags | O_ASYNC);
	return marked;
}

/* There are no ids. */
uint64_t os_socket_id(int fd)
{
	(void)fd;
	return 0;
}

/* The kernel copies from the address, and refuses (EFAULT) what is not mapped.  A page at a time: a
 * larger write would map the pages instead of copying them. */
bool os_peek(uintptr_t at, void *buf, size_t n)
{
	int fds[2];
	size_t done = 0;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	while (done < n) {
		size_t most = min_of(n - done, (size_t)PAGE);
		ssize_t in = write(fds[1], (const void *)(at + done), most);
		ssize_t out = in > 0 ? read(fds[0], (char *)buf + done, (size_t)in) : -1;

		if (in <= 0 || out != in)
			break;
		done += (size_t)out;
	}
	close(fds[0]);
	close(fds[1]);
	return done == n;
}

int os_pipe_write(int fd, const void *buf, size_t n)
{
	(void)fd;
	(void)buf;
	(void)n;
	return -ENOSYS;
}
