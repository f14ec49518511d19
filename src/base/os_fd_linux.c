/* SPDX-License-Identifier: MIT */
/* File descriptors on Linux: the mark of a file, and writes to a pipe that do not sleep.  OS-1 and
 * OS-2 of os_linux.c hold. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/libc.h"

bool os_mark(int fd)
{
	int signo = fcntl(fd, F_GETSIG);

	if (signo == 0)
		fcntl(fd, F_SETSIG, SIGIO); /* what 0 stands for */
	return signo > 0;
}

uint64_t os_socket_id(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

int os_pipe_write(int fd, const void *buf, size_t n)
{
	struct iovec v = { .iov_base = (void *)(uintptr_t)buf, .iov_len = n };
	ssize_t done = pwritev2(fd, &v, 1, -1, RWF_NOWAIT);

	if (done >= 0)
		return (int)done;
	return errno == EOPNOTSUPP || errno == EPERM ? -ENOSYS : -errno;
}
