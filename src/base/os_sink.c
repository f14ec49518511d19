/* SPDX-License-Identifier: MIT */
/*
 * Sinks: write messages to a file descriptor of any kind without sleeping.
 *
 * O_NONBLOCK belongs to the open file, which the program may share with other processes, so it is
 * not set.  A flag of the call keeps a write from sleeping where the system has one.  Elsewhere
 * poll tells whether there is room.
 *
 * Invariants
 *   SINK-1  One sink at a time polls and writes to pipes for which there is no flag: two sinks that
 *           find room for one page would both write, and one write would sleep.  Only another
 *           process, or a write of the program, can still take the room in between.
 *   SINK-2  No sink waits for another: if the lock is taken, the write returns 0, and the caller
 *           decides whether to try again later.  The holder may sleep (SINK-1).
 *   -       The child of a fork has a free lock: its holder may be a thread that the child does not
 *           have.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/os.h"

static struct lock pipes; /* SINK-1 */

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

static int result_of(ssize_t done)
{
	return done < 0 ? -errno : (int)done;
}

static int write_if_ready(const struct os_sink *s, const void *buf, size_t n)
{
	return os_sink_ready(s, 0) ? result_of(write(s->fd, buf, n)) : -EAGAIN;
}

static int write_locked(const struct os_sink *s, const void *buf, size_t n)
{
	if (!try_lock_against(&pipes, LR_SINK))
		return 0; /* SINK-2 */
	int done = write_if_ready(s, buf, n);

	unlock(&pipes, LR_SINK);
	return done;
}

static int write_once(struct os_sink *s, const void *buf, size_t n)
{
	if (s->how == SINK_SOCKET)
		return result_of(send(s->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT));
	if (s->how == SINK_PIPE) {
		int done = os_pipe_write(s->fd, buf, n);

		if (done != -ENOSYS)
			return done;
		s->how = SINK_LOCKED;
	}
	if (s->how == SINK_LOCKED)
		return write_locked(s, buf, n);
	if (s->how == SINK_ASKED)
		return write_if_ready(s, buf, n);
	return result_of(write(s->fd, buf, n));
}

int os_sink_write(struct os_sink *s, const void *buf, size_t n)
{
	struct os_sigpipe sigpipe;
	int done;

	os_sigpipe_hold(&sigpipe);
	do
		done = write_once(s, buf, n);
	while (done == -EINTR);
	os_sigpipe_drop(&sigpipe, s->how != SINK_SOCKET && os_sigpipe_due(done, n));
	return done;
}

bool os_sink_ready(const struct os_sink *s, int64_t ns)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	struct timespec t = { ns / S, ns % S };

	int n = ppoll(&p, 1, &t, NULL);

	/* if a seccomp filter refuses the call, the write itself reports what is wrong */
	return n > 0 || (n < 0 && errno != EINTR);
}

void os_sinks_forget(void)
{
	memset(&pipes, 0, sizeof(pipes));
}
