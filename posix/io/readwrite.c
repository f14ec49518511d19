/* SPDX-License-Identifier: MIT */
/*
 * Replaces read, write and their relatives.
 *
 * A call attempts without blocking, and waits if that returns EAGAIN (wait.c).  How it attempts
 * depends on the file:
 *
 *   socket                      recv, send with MSG_DONTWAIT; of several buffers preadv2, pwritev2
 *                               with RWF_NOWAIT
 *   pipe, timerfd ...           preadv2, pwritev2 with RWF_NOWAIT, at no offset
 *   file without RWF_NOWAIT     libc's function as blocking code: FIFOs, writes to an eventfd;
 *                               pipes before 6.4
 *   regular file, terminal ...  libc's function as blocking code
 *
 * Invariants
 *   IO-1  What a number is, is the kernel's answer to the same call: ENOTSOCK to an attempt as a
 *         socket, then fstat.  Only PD_PLAIN is remembered, a hint: an earlier call got ENOTSOCK,
 *         so this one begins with fstat, which also finds out if the number has a socket by now.
 *   IO-2  A regular file is not read or written with RWF_NOWAIT: a read could return a part, that
 *         which is in memory, and a write could be split.  A check after the attempt would not do:
 *         the rest is then a second call, and another reader or an O_APPEND writer may come
 *         between.  Only a file that gets the number during the call, between fstat and attempt,
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
#include "posix/io/wait.h"

/* Most buffers per call. */
enum { IOV_MOST = 1024 };

/* FILE_STREAM: no socket; RWF_NOWAIT may work.  FILE_OTHER: it must not be used, or fd is bad. */
enum file { FILE_SOCKET, FILE_STREAM, FILE_OTHER };

/* IO-1.  Of a file on a server fstat may wait for that, mostly for the first call: no section of
 * blocking code, which would delay the others.  Changes errno. */
static enum file find_file(int fd)
{
	struct stat st;
	struct polldesc *pd = io_record(fd);

	if (fstat(fd, &st) < 0)
		return FILE_OTHER;
	mode_t type = st.st_mode & S_IFMT;

	if (pd && ld_rlx(&pd->plain) != PD_SHORT)
		st_rlx(&pd->plain, (uint8_t)(type == S_IFSOCK ? 0 : PD_PLAIN));
	return type == S_IFSOCK ? FILE_SOCKET : type == S_IFIFO || !type ? FILE_STREAM : FILE_OTHER;
}

static inline bool is_plain(struct polldesc *pd)
{
	return pd && ld_rlx(&pd->plain) == PD_PLAIN;
}

/* --- read --- */

/* The file has no RWF_NOWAIT (the kernel's error), or IO_WAITING ends with IO_BLOCK: the rest is
 * blocking code. */
enum { REFUSED = -EOPNOTSUPP };

static bool is_refused(ssize_t result)
{
	return result == REFUSED || result == -ENOSYS;
}

/* Read a socket or stream; the result, or -errno. */
static ssize_t readv_waiting(struct io_wait *w, const struct iovec *v, int count)
{
	ssize_t n = IO_WAITING(w, IO_SYS(LIBC(preadv2)(w->fd, v, count, -1, RWF_NOWAIT)), REFUSED);

	return is_refused(n) ? IO_REPEATING(LIBC(readv)(w->fd, v, count)) : n;
}

/* The attempt of the caller has found nothing. */
static ssize_t read_socket(struct io_wait *w, void *buf, size_t n)
{
	return IO_WAITING_AFTER(io_not_ready(w), w, message_recv(w->fd, buf, n, MSG_DONTWAIT),
				IO_REPEATING(LIBC(read)(w->fd, buf, n)));
}

/* got: the result of the attempt after seen, or -ENOTSOCK. */
static noinline ssize_t read_slow(int fd, void *buf, size_t n, struct multi_seen seen, ssize_t got)
{
	struct io_wait w = { .fd = fd, .events = POLLIN, .seen = seen };
	int saved = errno;

	if (got == -EAGAIN)
		got = read_socket(&w, buf, n);
	if (got == -ENOTSOCK) {
		w.waits = 0;                               /* another file: its O_NONBLOCK counts */
		if (n == 0 || find_file(fd) == FILE_OTHER) /* IO-2, IO-5 */
			got = IO_REPEATING(LIBC(read)(fd, buf, n));
		else
			got = readv_waiting(&w, &(struct iovec){ buf, n }, 1);
	}
	return io_end(got, saved);
}

static inline ssize_t park_read(int fd, void *buf, size_t n)
{
	cancel_point();
	hook_checkpoint();
	struct polldesc *pd = io_record(fd);
	struct multi_seen seen = multi_look(pd);
	ssize_t got = unlikely(n == 0 || is_plain(pd)) ? -ENOTSOCK
						       : message_recv(fd, buf, n, MSG_DONTWAIT);

	return likely(got >= 0) ? got : read_slow(fd, buf, n, seen, got);
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

static ssize_t readv_call(int fd, const struct iovec *v, int count)
{
	struct io_wait w = io_start(fd, POLLIN, 0);

	if (is_odd(count) || find_file(fd) == FILE_OTHER)
		return IO_REPEATING(LIBC(readv)(fd, v, count));
	return readv_waiting(&w, v, count);
}

HOOK ssize_t readv(int fd, const struct iovec *v, int count)
{
	return IO_POINT(readv_call(fd, v, count), HOOK_REPEATING(LIBC(readv)(fd, v, count)));
}

/* --- write --- */

/* libc's write waits for all n bytes, or returns less if a signal interrupts it.  Only a handler of
 * the caller ends the call: the signal may be for another green thread.  After a part poll(2) waits
 * for room, since the kernel would restart a write of none for a handler with SA_RESTART.  All in
 * one section, so that each handler since the start counts. */
static ssize_t write_all_blocking(int fd, const char *buf, size_t n)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	size_t done = 0;

	return IO_BLOCKING(({
		ssize_t some;

		handler_call_begin();
		do {
			some = done ? LIBC(poll)(&room, 1, -1) : 1;
			if (some > 0) {
				some = LIBC(write)(fd, buf + done, n - done);
				done += some > 0 ? (size_t)some : 0;
			}
		} while (!(signals_used() && handler_has_run()) &&
			 ((some > 0 && done < n) ||
			  (some < 0 && errno == EINTR && (done || signals_used()))));
		done ? (ssize_t)done : some;
	}));
}

/* Write n bytes to a stream; w->partial: a part is written. */
static ssize_t write_stream(struct io_wait *w, const void *buf, size_t n)
{
	bool refused = false;
	size_t done = 0;
	ssize_t some;

	do {
		struct iovec v = { (char *)(uintptr_t)buf + done, n - done };

		some = IO_WAITING(w, IO_SYS(LIBC(pwritev2)(w->fd, &v, 1, -1, RWF_NOWAIT)), REFUSED);
		refused = is_refused(some);
		if (refused)
			some = write_all_blocking(w->fd, v.iov_base, v.iov_len);
		done += some > 0 ? (size_t)some : 0;
		w->partial |= done > 0;
	} while (done < n && some > 0 && !refused && !io_is_closed(w));
	return done ? (ssize_t)done : some;
}

/* sent: the result of the attempt after seen, or -ENOTSOCK. */
static noinline ssize_t write_slow(int fd, const void *buf, size_t n, struct multi_seen seen,
				   ssize_t sent)
{
	struct io_wait w = { .fd = fd, .events = POLLOUT, .seen = seen };
	size_t most = min_of(n, RW_MOST);
	int saved = errno;

	if (sent != -ENOTSOCK)
		sent = message_send_rest(&w, buf, most, sent);
	if (sent == -ENOTSOCK) {
		w.waits = 0; /* another file: its O_NONBLOCK counts */
		enum file file = n == 0 ? FILE_OTHER : find_file(fd); /* IO-2, IO-5 */

		if (file == FILE_OTHER)
			sent = IO_REPEATING(LIBC(write)(fd, buf, n));
		else if (file == FILE_STREAM)
			sent = write_stream(&w, buf, most);
		else
			sent = message_send_rest(&w, buf, most, 0);
	}
	return io_end(sent, saved);
}

static inline ssize_t park_write(int fd, const void *buf, size_t n)
{
	cancel_point();
	hook_checkpoint();
	struct polldesc *pd = io_record(fd);
	struct multi_seen seen = multi_look(pd);
	ssize_t sent = unlikely(n == 0 || is_plain(pd)) ? -ENOTSOCK
							: message_send(fd, buf, n, MSG_DONTWAIT);

	return likely(sent == (ssize_t)n) ? sent : write_slow(fd, buf, n, seen, sent);
}

HOOK ssize_t write(int fd, const void *buf, size_t n)
{
	return hook_parks() ? park_write(fd, buf, n) : HOOK_REPEATING(LIBC(write)(fd, buf, n));
}

static ssize_t writev_call(int fd, const struct iovec *v, int count)
{
	struct io_wait w = io_start(fd, POLLOUT, 0);
	enum file file = is_odd(count) ? FILE_OTHER : find_file(fd);
	ssize_t n = REFUSED;

	if (file != FILE_OTHER)
		n = IO_WAITING(&w, IO_SYS(LIBC(pwritev2)(fd, v, count, -1, RWF_NOWAIT)), REFUSED);
	if (is_refused(n))
		return IO_REPEATING(LIBC(writev)(fd, v, count));
	/* the rest, one buffer after the other: more than PIPE_BUF bytes are not one (IO-3) */
	if (n > 0 && (size_t)n < min_of(iov_bytes(v, (size_t)count), RW_MOST) &&
	    !io_nonblocking(fd))
		return iov_rest(file == FILE_SOCKET ? message_send_later : write_stream, &w, v,
				(size_t)count, (size_t)n);
	return n;
}

HOOK ssize_t writev(int fd, const struct iovec *v, int count)
{
	return IO_POINT(writev_call(fd, v, count), HOOK_REPEATING(LIBC(writev)(fd, v, count)));
}
