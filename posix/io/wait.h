/* SPDX-License-Identifier: MIT */
/* Waits for one fd whose O_NONBLOCK stays as it is: see wait.c. */
#ifndef GMP_POSIX_WAIT_H
#define GMP_POSIX_WAIT_H

#include "netpoll/multi.h"
#include "posix/call/hook.h"
#include "posix/call/point.h"
#include "posix/io/kind.h"

/*
 * One call on an fd, from its first attempt to its result.
 *
 * events   poll(2)'s: what an attempt that got -EAGAIN waits for
 * timeout  SO_RCVTIMEO or SO_SNDTIMEO, if fd may be a socket; 0: none
 * flags    with MSG_DONTWAIT the call does not wait
 * partial  a part is done: a handler ends the call also with SA_RESTART
 * untried  the first attempt was left out, by io_untried
 * seen     of a read: io_seen before the attempt
 */
struct io_wait {
	int fd;
	short events;
	int timeout;
	int flags;
	bool partial;
	bool untried;  /* until io_not_ready has been called */
	uint64_t seen; /* io_not_ready reads it again for the next attempt; 0: not read */
	/* set by io_not_ready */
	int waits;        /* how many times the call has waited */
	int64_t since;    /* when it began to wait first; 0: it has not */
	int end;          /* the result if the next attempt finds nothing; 0: none */
	bool checked;     /* O_NONBLOCK and the timeout are known */
	bool has_timeout; /* the socket has one */
	int64_t deadline; /* valid if checked */
	bool blocked;     /* set by IO_WAITING: its value is that of `blocking` */
};

/* Most bytes per call, as in the kernel. */
#define RW_MOST ((size_t)0x7ffff000)

/* Result of io_not_ready: the fd is ready for poll(2), but not for the attempt.  Run libc's
 * function as blocking code.  No errno is as low. */
enum { IO_BLOCK = -4096 };

/*
 * An attempt has returned -EAGAIN, or was left out (untried).  Returns 0 to attempt again;
 * IO_BLOCK; or the end of the call, a negative errno: -EAGAIN if the fd is non-blocking or the
 * timeout has expired; -ECANCELED; -EINTR; -EBADF if close has ended the wait.
 */
int io_not_ready(struct io_wait *w);

/*
 * Park until fd has one of the events, has been closed by a replaced close, or the deadline.
 * Returns 0: fd may be ready; -ETIMEDOUT; -ECANCELED; -EINTR; -EBADF: closed; otherwise an error of
 * the poller: fd cannot be waited for.
 */
int io_park(int fd, short events, int64_t deadline);

/* poll(2) of one fd without timeout: its revents. */
int io_poll_now(int fd, short events);

/* True if O_NONBLOCK is set; false also if fd is bad. */
bool io_nonblocking(int fd);

/* An option of SOL_SOCKET that is an int; -1, with errno set: fd is no socket. */
int io_option(int fd, int name);

/* gmp knows the file of the record, which may be NULL: a hint. */
static inline bool io_is_known(struct polldesc *pd)
{
	return pd && ld_rlx(&pd->use) & PD_OPEN;
}

/* The kind of an open socket; KIND_FILE: it is none. */
enum kind io_socket_kind(int fd);

/* The deadline of a call on fd that begins now, by SO_RCVTIMEO or SO_SNDTIMEO; GMP_FOREVER if it
 * has none, or is no socket. */
int64_t io_deadline(int fd, int timeout);

/* The events of an fd with a persistent registration (IOWAIT-9); 0: it has none. */
static inline uint64_t io_seen(int fd)
{
	return hint_of(fd) & HINT_PERSISTENT ? multi_seen(fd) : 0;
}

/* A read of a pipe that could leave out its attempt makes it after each 16th event, until it finds
 * nothing: a pipe with packets keeps data after a short read (MULTI-8), and the reader cannot ask
 * whether it has a pipe with packets, since O_DIRECT is a flag of the writer. */
static inline bool io_probes(int fd, uint64_t seen)
{
	return seen && seen % 16 == 15 && kind_of(fd) == KIND_PIPE && hint_empty(hint_of(fd)) &&
	       multi_is_drained(fd, seen);
}

/* Is a read likely to find nothing, so that it leaves out its first attempt?  seen: io_seen */
static inline bool io_untried(int fd, uint64_t seen)
{
	return hint_empty(hint_of(fd)) && (!seen || multi_is_drained(fd, seen)) &&
	       !io_probes(fd, seen);
}

/* A read has returned got of n bytes, by an attempt after seen. */
static inline void io_note_length(int fd, uint64_t seen, ssize_t got, size_t n)
{
	enum kind kind = kind_of(fd);
	bool drained = got > 0 && (size_t)got < n && kind != KIND_SOCKET && kind != KIND_STREAM;

	if (drained && seen)
		multi_set_drained(fd, seen);
	hint_set(fd, HINT_DRAINED, drained);
}

/* End of a call: -1 with errno, or result >= 0 with errno as it was at the start. */
static inline ssize_t io_return(ssize_t result, int saved)
{
	errno = unlikely(result < 0) ? (int)-result : saved;
	return result < 0 ? -1 : result;
}

/* The start of a call that parks and is a cancellation point.  Returns errno, for io_end. */
static inline int io_begin(void)
{
	int saved = errno;

	cancel_point();
	hook_checkpoint();
	return saved;
}

/* The end of such a call, also if gmp_cancel has ended it. */
static inline ssize_t io_end(ssize_t result, int saved)
{
	if (unlikely(result == -ECANCELED))
		cancel_waited();
	return io_return(result, saved);
}

/* The value of libc's call, or -errno. */
#define IO_SYS(call)                                                                               \
	({                                                                                         \
		__auto_type io_result_ = (call);                                                   \
		io_result_ < 0 ? -(__typeof__(io_result_))errno : io_result_;                      \
	})

/* The same, evaluated as blocking code; and repeated without a handler, see HOOK_REPEATING. */
#define IO_BLOCKING(call) IO_SYS(HOOK_BLOCKING(call))
#define IO_REPEATING(call) IO_SYS(HOOK_REPEATING(call))

/* The value of attempt, evaluated again after each wait while it is -EAGAIN; of `blocking` after
 * IO_BLOCK; or the end of the call by io_not_ready. */
#define IO_WAITING(w, attempt, blocking)                                                           \
	({                                                                                         \
		ssize_t io_got_ = -EAGAIN;                                                         \
		int io_err_ = 0;                                                                   \
		while (!io_err_ && (io_got_ = (attempt)) == -EAGAIN)                               \
			io_err_ = io_not_ready(w);                                                 \
		(w)->blocked = io_err_ == IO_BLOCK;                                                \
		(w)->blocked ? (ssize_t)(blocking) : io_err_ ? io_err_ : io_got_;                  \
	})

#endif
