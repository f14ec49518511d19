/* SPDX-License-Identifier: MIT */
/* File descriptors as POSIX and most systems have them: files, flags, kinds, and SIGPIPE.  OS-1 and
 * OS-2 of os_linux.c hold. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/tls.h"

int os_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	return 0;
}

/* The kernel copies from the address, and refuses (EFAULT) what is not mapped.  A page at a time: a
 * larger write would map the pages instead of copying them. */
bool os_peek_by_pipe(uintptr_t at, void *buf, size_t n)
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

/* Lock a regular file, and empty it.  A file system without locks is no error. */
static int take_file(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EBUSY;
	return ftruncate(fd, 0) < 0 ? -errno : 0;
}

int os_create_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666), err = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if (S_ISREG(st.st_mode))
		err = take_file(fd);
	if (err)
		os_close_file(fd);
	return err ? err : fd;
}

void os_close_file(int fd)
{
	flock(fd, LOCK_UN);
	close(fd);
}

enum os_peer os_peer(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	if (poll(&p, 1, 0) <= 0)
		return OS_PEER_THERE;
	return p.revents & ~POLLRDHUP ? OS_PEER_GONE : OS_PEER_SILENT;
}

bool os_is_stream(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

bool os_read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);

	if (fd >= 0)
		close(fd);
	text[max_of(n, (ssize_t)0)] = '\0';
	return n > 0;
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
	uint64_t most = getrlimit(RLIMIT_NOFILE, &r) == 0 ? (uint64_t)r.rlim_cur : 0;

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

enum { OWN_MOST = 1024 };

static uint64_t own_fds[OWN_MOST / 64]; /* (a) a bit for each */

void os_fd_set_own(int fd, bool own)
{
	uint64_t bit = UINT64_C(1) << ((unsigned)fd % 64);

	if ((unsigned)fd >= OWN_MOST)
		return;
	if (own)
		or_rlx(&own_fds[fd / 64], bit);
	else
		and_rlx(&own_fds[fd / 64], ~bit);
}

bool os_fd_is_own(int fd)
{
	return (unsigned)fd < OWN_MOST && ld_rlx(&own_fds[fd / 64]) >> (fd % 64) & 1;
}

int os_fd_next_own(unsigned from)
{
	for (; from < OWN_MOST; from = (from | 63) + 1) {
		uint64_t bits = ld_rlx(&own_fds[from / 64]) >> (from % 64);

		if (bits)
			return (int)from + __builtin_ctzll(bits);
	}
	return -1;
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
