/* SPDX-License-Identifier: MIT */
/* File descriptors on Linux: the mark of a file, and sinks that do not sleep.  OS-1 and OS-2 of
 * os_linux.c hold. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/lock.h"

bool os_mark(int fd)
{
	int signo = fcntl(fd, F_GETSIG);

	if (signo == 0)
		fcntl(fd, F_SETSIG, SIGIO); /* what 0 stands for */
	return signo > 0;
}

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
	else if (S_ISREG(st.st_mode) || flags & O_NONBLOCK)
		s->how = SINK_PLAIN;
	else
		s->how = S_ISFIFO(st.st_mode) ? SINK_PIPE : SINK_ASKED;
	return 0;
}

/*
 * Write to a pipe without RWF_NOWAIT: two sinks that find room for one page must not both write.
 * Never waits for the lock: its holder may be the thread that a signal has interrupted.
 */
static ssize_t sink_in_turn(const struct os_sink *s, const void *buf, size_t n)
{
	static struct lock turn;
	ssize_t done = -1;
	int err = EAGAIN;

	if (try_lock_against(&turn, LR_SINK)) {
		if (os_sink_ready(s, 0)) {
			done = write(s->fd, buf, n);
			err = errno;
		}
		unlock(&turn, LR_SINK);
	}
	errno = err;
	return done;
}

static ssize_t sink_try(struct os_sink *s, const void *buf, size_t n)
{
	struct iovec v = { .iov_base = (void *)(uintptr_t)buf, .iov_len = n };

	if (s->how == SINK_SOCKET)
		return send(s->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (s->how == SINK_PIPE) {
		ssize_t done = pwritev2(s->fd, &v, 1, -1, RWF_NOWAIT);

		if (done >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM))
			return done;
		s->how = SINK_TURNS;
	}
	if (s->how == SINK_TURNS)
		return sink_in_turn(s, buf, n);
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

	/* if a seccomp filter refuses the call, the write itself reports what is wrong */
	return n > 0 || (n < 0 && errno != EINTR);
}
