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

bool os_peek(uintptr_t at, void *buf, size_t n)
{
	return os_peek_by_pipe(at, buf, n);
}

int os_pipe_write(int fd, const void *buf, size_t n)
{
	(void)fd;
	(void)buf;
	(void)n;
	return -ENOSYS;
}
