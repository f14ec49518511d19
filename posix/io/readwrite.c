/* SPDX-License-Identifier: MIT */
/*
 * Replaces read, write and their relatives.
 *
 * A call attempts without blocking, and waits if that returns EAGAIN (wait.c).  How it attempts
 * depends on the file:
 *
 *   socket                      recv, send with MSG_DONTWAIT; preadv2, pwritev2 with RWF_NOWAIT
 *   pipe, eventfd, timerfd ...  preadv2, pwritev2 with RWF_NOWAIT, at no offset
 *   file without RWF_NOWAIT     libc's function as blocking code: FIFOs; pipes before 6.4
 *   regular file, terminal ...  libc's function as blocking code
 *
 * Invariants
 *   IO-1  A hint about the kind of an fd (kind.h) may be stale, since code that is not replaced
 *         may close and reopen the number.  A stale hint costs system calls or an OS thread that
 *         blocks, never a wrong result: a socket works with RWF_NOWAIT, a file that is tried as a
 *         socket is ENOTSOCK, every other hint is checked by lseek or fstat before it is used
 *         (sure_kind), and the rest of a write is written by what the file is (write_rest).
 *   -     HINT_DRAINED saves an attempt: the read parks first, for a short time (IOWAIT-8), and
 *         the wait ends at once if poll(2) reports data; by a persistent registration, MULTI-8
 *         holds.  Measured: a round trip over a socketpair is 10 % shorter.
 *   IO-2  A regular file is not read or written with RWF_NOWAIT: a read could return a part, that
 *         which is in memory, and a write could be split.  A check after the attempt would not do:
 *         the rest is then a second call, and another reader or an O_APPEND writer may come
 *         between.  Only a file that gets the number during the call, between check and attempt,
 *         or during a wait, is not noticed.
 *   IO-3  A blocking write of n bytes returns n, or less only after an error, a signal, the timeout
 *         of the socket or a cancellation.  Of a pipe at most PIPE_BUF bytes are written as one,
 *         since the kernel writes all or nothing of them, also with RWF_NOWAIT.
 *   IO-4  After a part was written to a socket, the rest raises no SIGPIPE, and an error that is
 *         pending stays for the next call (io_poll_now).  A pipe raises SIGPIPE as natively.
 *   IO-5  A call of 0 bytes is libc's own: on a socket read returns 0 at once and recv does not,
 *         and a writev sends no datagram.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "posix/call/point.h"
#include "posix/io/message.h"
#include "posix/io/wait.h"

/* Most buffers per call. */
enum { IOV_MOST = 1024 };

uint8_t gmp__posix_hints[KINDS];
uint8_t gmp__posix_closes[KINDS];

static enum kind find_kind(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return KIND_FILE;
	if (S_ISSOCK(st.st_mode))
		return io_socket_kind(fd);
	if (S_ISFIFO(st.st_mode))
		return KIND_PIPE;
	return st.st_mode & S_IFMT ? KIND_FILE : KIND_STREAM;
}

/*
 * IO-1: the kind, never KIND_UNKNOWN.  KIND_FILE is sure to be returned for a regular file; pipes,
 * sockets and terminals may still be taken for each other.  A hint is checked by lseek, which fails
 * for files without an offset.  It succeeds for most of KIND_STREAM, so these cost an fstat.
 * Changes errno.
 */
static enum kind sure_kind(int fd)
{
	enum kind kind = kind_of(fd);

	if (kind != KIND_UNKNOWN && kind != KIND_STREAM &&
	    (lseek(fd, 0, SEEK_CUR) >= 0) == (kind == KIND_FILE))
		return kind;
	kind = find_kind(fd);
	kind_set(fd, kind);
	return kind;
}

/* The same of a file that is no socket, if its hint made the caller try it as one. */
static enum kind sure_other_kind(int fd)
{
	if (kind_of(fd) < KIND_PIPE)
		kind_forget(fd);
	return sure_kind(fd);
}

/* --- read --- */

/* An attempt with RWF_NOWAIT does not work, or must wait in the kernel: blocking code. */
enum { REFUSED = -EOPNOTSUPP };

static bool is_refused(ssize_t result)
{
	return result == REFUSED || result == -ENOSYS;
}

/* Read a socket or stream; the result, or -errno. */
static ssize_t readv_waiting(int fd, const struct iovec *v, int count)
{
	struct io_wait w = {
		.fd = fd, .events = POLLIN, .timeout = SO_RCVTIMEO, .seen = io_seen(fd)
	};

	w.untried = io_untried(fd, w.seen);
	ssize_t n = IO_WAITING(
		&w, w.untried ? -EAGAIN : IO_SYS(LIBC(preadv2)(fd, v, count, -1, RWF_NOWAIT)),
		REFUSED);

	if (is_refused(n))
		return IO_REPEATING(LIBC(readv)(fd, v, count));
	if (likely(n >= 0)) /* otherwise v may be a bad address */
		io_note_length(fd, w.seen, n, v[count - 1].iov_len);
	return n;
}

/* A result of park_read: it has left out the attempt.  No errno is as low. */
enum { UNTRIED = -4095 };

/* The attempt of the caller, after seen, has found nothing, or was left out. */
static ssize_t read_socket(int fd, void *buf, size_t n, uint64_t seen, bool untried)
{
	struct io_wait w = {
		.fd = fd, .events = POLLIN, .timeout = SO_RCVTIMEO, .untried = untried, .seen = seen
	};
	ssize_t got = -EAGAIN;

	while (got == -EAGAIN) {
		int err = io_not_ready(&w);

		if (err == IO_BLOCK)
			return IO_REPEATING(LIBC(read)(fd, buf, n));
		if (err)
			return err;
		got = message_recv(fd, buf, n, MSG_DONTWAIT);
	}
	io_note_length(fd, w.seen, got, n);
	return got;
}

/* got: the result of the attempt after seen, UNTRIED, or -ENOTSOCK without an attempt. */
static noinline ssize_t read_slow(int fd, void *buf, size_t n, uint64_t seen, ssize_t got)
{
	int saved = errno;
	struct iovec v = { buf, n };

	if (got == -EAGAIN || got == UNTRIED)
		got = read_socket(fd, buf, n, seen, got == UNTRIED);
	if (got == -ENOTSOCK) {
		if (n == 0 || sure_other_kind(fd) == KIND_FILE) /* IO-2, IO-5 */
			got = IO_REPEATING(LIBC(read)(fd, buf, n));
		else
			got = readv_waiting(fd, &v, 1);
	}
	return io_end(got, saved);
}

static inline ssize_t park_read(int fd, void *buf, size_t n)
{
	cancel_point();
	hook_checkpoint();
	if (unlikely(kind_of(fd) >= KIND_PIPE || n == 0))
		return read_slow(fd, buf, n, 0, -ENOTSOCK);
	uint64_t seen = io_seen(fd);
	ssize_t got = io_untried(fd, seen) ? UNTRIED : message_recv(fd, buf, n, MSG_DONTWAIT);

	if (unlikely(got < 0))
		return read_slow(fd, buf, n, seen, got);
	io_note_length(fd, seen, got, n);
	return got;
}

HOOK ssize_t read(int fd, void *buf, size_t n)
{
	return hook_parks() ? park_read(fd, buf, n) : HOOK_REPEATING(LIBC(read)(fd, buf, n));
}

HOOK ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	if (n > room)
		return LIBC(__read_chk)(fd, buf, n, room); /* ends the process */
	return read(fd, buf, n);
}

static bool is_odd(int count)
{
	return count <= 0 || count > IOV_MOST;
}

static ssize_t park_readv(int fd, const struct iovec *v, int count)
{
	int saved = io_begin();

	if (is_odd(count) || sure_kind(fd) == KIND_FILE)
		return io_end(IO_REPEATING(LIBC(readv)(fd, v, count)), saved);
	return io_end(readv_waiting(fd, v, count), saved);
}

HOOK ssize_t readv(int fd, const struct iovec *v, int count)
{
	return hook_parks() ? park_readv(fd, v, count) : HOOK_REPEATING(LIBC(readv)(fd, v, count));
}

/* --- write --- */

/* Attempt to write to a file of any kind but KIND_FILE, once; as blocking code if it must be.
 * Returns what was written, or -errno. */
static ssize_t write_some(struct io_wait *w, const char *buf, size_t n)
{
	struct iovec v = { (void *)(uintptr_t)buf, n };
	ssize_t some = IO_WAITING(w, IO_SYS(LIBC(pwritev2)(w->fd, &v, 1, -1, RWF_NOWAIT)), REFUSED);

	return is_refused(some) ? IO_REPEATING(LIBC(write)(w->fd, buf, n)) : some;
}

/* Write the rest of a message to a stream. */
static ssize_t write_stream(int fd, const char *buf, size_t n)
{
	struct io_wait w = { .fd = fd, .events = POLLOUT, .timeout = SO_SNDTIMEO, .partial = true };
	size_t done = 0;

	while (done < n) {
		ssize_t some = write_some(&w, buf + done, n - done);

		if (some <= 0)
			return done ? (ssize_t)done : some;
		done += (size_t)some;
	}
	return (ssize_t)done;
}

/* After a part was written.  The hint may be stale, and IO-4 is about sockets. */
static ssize_t write_rest(int fd, const void *buf, size_t n, int flags)
{
	return io_socket_kind(fd) == KIND_FILE ? write_stream(fd, buf, n)
					       : message_send_later(fd, buf, n, flags);
}

/* Write to a file of any kind but KIND_FILE. */
static ssize_t write_other(int fd, const char *buf, size_t n)
{
	struct io_wait w = { .fd = fd, .events = POLLOUT, .timeout = SO_SNDTIMEO };
	ssize_t done = write_some(&w, buf, n);

	if (done <= 0 || (size_t)done == n)
		return done;
	ssize_t rest = write_rest(fd, buf + done, n - (size_t)done, 0);

	return done + max_of(rest, (ssize_t)0);
}

/* sent: the result of the attempt, or -ENOTSOCK without an attempt. */
static noinline ssize_t write_slow(int fd, const void *buf, size_t n, ssize_t sent)
{
	int saved = errno;

	if (sent == -EAGAIN || sent >= 0) {
		struct message m = { .fd = fd, .buf = buf, .n = n };

		sent = message_send_rest(&m, sent);
	}
	if (sent == -ENOTSOCK) {
		if (n == 0 || sure_other_kind(fd) == KIND_FILE)
			sent = IO_REPEATING(LIBC(write)(fd, buf, n));
		else
			sent = write_other(fd, buf, min_of(n, RW_MOST));
	}
	return io_end(sent, saved);
}

static inline ssize_t park_write(int fd, const void *buf, size_t n)
{
	cancel_point();
	hook_checkpoint();
	if (unlikely(kind_of(fd) >= KIND_PIPE || n == 0))
		return write_slow(fd, buf, n, -ENOTSOCK);
	ssize_t sent = message_send(fd, buf, n, MSG_DONTWAIT);

	return likely(sent == (ssize_t)n) ? sent : write_slow(fd, buf, min_of(n, RW_MOST), sent);
}

HOOK ssize_t write(int fd, const void *buf, size_t n)
{
	return hook_parks() ? park_write(fd, buf, n) : HOOK_REPEATING(LIBC(write)(fd, buf, n));
}

static ssize_t writev_waiting(int fd, const struct iovec *v, int count)
{
	struct io_wait w = { .fd = fd, .events = POLLOUT, .timeout = SO_SNDTIMEO };
	ssize_t n = IO_WAITING(&w, IO_SYS(LIBC(pwritev2)(fd, v, count, -1, RWF_NOWAIT)), REFUSED);

	if (is_refused(n))
		return IO_REPEATING(LIBC(writev)(fd, v, count));
	/* the rest, one buffer after the other: more than PIPE_BUF bytes are not one (IO-3) */
	if (n > 0 && (size_t)n < min_of(iov_bytes(v, (size_t)count), RW_MOST) &&
	    !io_nonblocking(fd))
		return iov_rest(write_rest, fd, v, (size_t)count, 0, (size_t)n);
	return n;
}

static ssize_t park_writev(int fd, const struct iovec *v, int count)
{
	int saved = io_begin();

	if (is_odd(count) || sure_kind(fd) == KIND_FILE)
		return io_end(IO_REPEATING(LIBC(writev)(fd, v, count)), saved);
	return io_end(writev_waiting(fd, v, count), saved);
}

HOOK ssize_t writev(int fd, const struct iovec *v, int count)
{
	return hook_parks() ? park_writev(fd, v, count)
			    : HOOK_REPEATING(LIBC(writev)(fd, v, count));
}
