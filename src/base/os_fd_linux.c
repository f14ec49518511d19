/* SPDX-License-Identifier: MIT */
/* File descriptors on Linux: flags and kinds, SIGPIPE, sinks that do not sleep.  OS-1 and OS-2 of
 * os_linux.c hold. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/tls.h"

int os_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	return 0;
}

int os_create_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	return fd < 0 ? -errno : fd;
}

ssize_t os_write(int fd, const void *buf, size_t n)
{
	ssize_t some;

	do
		some = write(fd, buf, n);
	while (some < 0 && errno == EINTR);
	return some < 0 ? -errno : some;
}
int os_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK) == !on)
		return 0;
	return fcntl(fd, F_SETFL, flags ^ O_NONBLOCK) < 0 ? -errno : 1;
}

bool os_is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

enum { FD_RAISED = 960 }; /* below 1,024, beyond which the kernel enlarges the process's table */

int os_fd_raised(void)
{
	struct rlimit r;
	uint64_t most = getrlimit(RLIMIT_NOFILE, &r) == 0 ? r.rlim_cur : 0;

	return (int)min_of(most - most / 16, (uint64_t)FD_RAISED);
}

int os_fd_raise(int fd)
{
	int least = os_fd_raised(), raised = fd < least ? fcntl(fd, F_DUPFD_CLOEXEC, least) : -1;

	if (raised < 0)
		return fd;
	close(fd);
	return raised;
}

static int socket_option(int fd, int which)
{
	int value = 0;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, which, &value, &n) == 0 ? value : 0;
}

void os_socket_kind(int fd, bool *datagrams, bool *unix_listener)
{
	*datagrams = socket_option(fd, SO_TYPE) == SOCK_DGRAM;
	*unix_listener =
		socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_ACCEPTCONN) != 0;
}

bool os_mark(int fd)
{
	int signo = fcntl(fd, F_GETSIG);

	if (signo == 0)
		fcntl(fd, F_SETSIG, SIGIO); /* what 0 stands for */
	return signo > 0;
}

static uint64_t file_id(const struct stat *st)
{
	return ((uint64_t)st->st_ino * 0x9e3779b97f4a7c15u ^ (uint64_t)st->st_dev) << 1 | 1;
}

uint64_t os_file_id(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 1 : file_id(&st);
}

uint64_t os_stored_file_id(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_blocks == 0)
		return 0;
	return file_id(&st);
}

unsigned os_flags_to_disk(int flags)
{
	return (flags & O_DIRECT ? 1 | 2 : 0) | (flags & (O_SYNC | O_DSYNC) ? 2 : 0);
}

unsigned os_to_disk(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? 0 : os_flags_to_disk(flags);
}

/* --- SIGPIPE --- */

static bool sigpipe_trusted; /* (a) */

void os_sigpipe_trust(bool harmless)
{
	st_rlx(&sigpipe_trusted, harmless);
}

void os_sigpipe_hold(struct os_sigpipe *s)
{
	sigset_t set, old;

	s->pending = s->unblock = false;
	if (ld_rlx(&sigpipe_trusted) && (getm() || gmp__blockedm()))
		return;
	s->pending = sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 1;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	s->unblock = !sigismember(&old, SIGPIPE);
}

void os_sigpipe_drop(const struct os_sigpipe *s, bool raised)
{
	static const struct timespec at_once;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	if (raised && !s->pending) {
		while (sigtimedwait(&set, NULL, &at_once) < 0 && errno == EINTR)
			;
	}
	if (s->unblock)
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
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

static ssize_t sink_try(struct os_sink *s, const void *buf, size_t n)
{
	struct iovec v = { .iov_base = (void *)(uintptr_t)buf, .iov_len = n };

	if (s->how == SINK_SOCKET)
		return send(s->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (s->how == SINK_PIPE) {
		ssize_t done = pwritev2(s->fd, &v, 1, -1, RWF_NOWAIT);

		if (done >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM))
			return done;
		s->how = SINK_ASKED;
	}
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
