/* SPDX-License-Identifier: MIT */
/* File descriptors on FreeBSD: the mark of a file, sinks that do not sleep, reads of own memory.
 * OS-1 and OS-2 of os_linux.c hold. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
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

/* --- sinks --- */

/* No flag keeps a write to a pipe from sleeping: poll first (SINK_ASKED). */
int os_sink(struct os_sink *s, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	s->fd = fd;
	if (S_ISSOCK(st.st_mode))
		s->how = SINK_SOCKET;
	else
		s->how = S_ISREG(st.st_mode) || flags & O_NONBLOCK ? SINK_PLAIN : SINK_ASKED;
	return 0;
}

static ssize_t sink_try(const struct os_sink *s, const void *buf, size_t n)
{
	if (s->how == SINK_SOCKET)
		return send(s->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (s->how == SINK_ASKED && !os_sink_ready(s, 0)) {
		errno = EAGAIN;
		return -1;
	}
	return write(s->fd, buf, n);
}

int os_sink_write(struct os_sink *s, const void *buf, size_t n)
{
	struct os_sigpipe sigpipe;
	ssize_t done;

	os_sigpipe_hold(&sigpipe);
	do
		done = sink_try(s, buf, n);
	while (done < 0 && errno == EINTR);
	int result = done < 0 ? -errno : (int)done;

	os_sigpipe_drop(&sigpipe, s->how != SINK_SOCKET && os_sigpipe_due(result, n));
	return result;
}

bool os_sink_ready(const struct os_sink *s, int64_t ns)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	int n = ppoll(&p, 1, &t, NULL);

	return n > 0 || (n < 0 && errno != EINTR);
}
