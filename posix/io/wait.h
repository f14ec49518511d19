/* SPDX-License-Identifier: MIT */
/* A call on one fd whose O_NONBLOCK stays as it is: see wait.c; sends: send.c; receives: recv.c. */
#ifndef GMP_POSIX_WAIT_H
#define GMP_POSIX_WAIT_H

#include <poll.h>
#include <sys/syscall.h>

#include "io/fd.h"
#include "io/poll.h"
#include "posix/call/hook.h"
#include "posix/call/point.h"

/*
 * One call on an fd, from its first attempt to its result.
 *
 * events   POLLIN or POLLOUT: what an attempt that got -EAGAIN waits for
 * flags    with MSG_DONTWAIT the call does not wait
 * partial  a part is done: a handler ends the call also with SA_RESTART, and the rest raises no
 *          SIGPIPE (IO-4); epoll_wait sets it too, which no handler restarts
 * uncut    no cancellation point: gmp_cancel does not end its waits
 * seen     of the number's record: the events before the next attempt, the closes before the first
 */
struct io_wait {
	int fd;
	short events;
	int flags;
	bool partial, uncut;
	bool blocked; /* set by IO_WAITING: its value is that of `blocking` */
	struct multi_seen seen;
	int64_t since;    /* when it began to wait first; set by io_park */
	int waits;        /* how many times the call has waited; set by io_not_ready */
	int64_t deadline; /* of io_park; io_not_ready: by SO_RCVTIMEO or SO_SNDTIMEO */
};

/* io_record of a number that has none yet. */
struct polldesc *io_record_new(int fd);

/* The number's record; NULL: no memory, or no such number. */
static inline struct polldesc *io_record(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	return likely(pd != NULL) ? pd : io_record_new(fd);
}

/* A caller that parks (close.c) has closed the number since the start of the call, which must not
 * attempt again: MULTI-7 without a wait. */
static inline bool io_is_closed(const struct io_wait *w)
{
	struct polldesc *pd = netpoll_find(w->fd);

	return unlikely(pd && ld_rlx(&pd->closes) != w->seen.closes);
}

/* The start of a call, before its first attempt. */
static inline struct io_wait io_start(int fd, short events, int flags)
{
	return (struct io_wait){
		.fd = fd, .events = events, .flags = flags, .seen = multi_look(io_record(fd))
	};
}

/* Most bytes per call, as in the kernel. */
#define RW_MOST ((size_t)0x7ffff000)

/* Result of io_not_ready: the fd is ready for poll(2), but not for the attempt.  Run libc's
 * function as blocking code.  No errno is as low. */
enum { IO_BLOCK = -4096 };

/*
 * An attempt has returned -EAGAIN.  Returns 0 to attempt again; IO_BLOCK; or the end of the call, a
 * negative errno: -EAGAIN if the fd is non-blocking or the timeout has expired; -ECANCELED; -EINTR;
 * -EBADF if io_is_closed.
 */
int io_not_ready(struct io_wait *w);

/* The wait itself, until w->deadline.  Returns the same, and -ETIMEDOUT in place of -EAGAIN;
 * IO_BLOCK: the poller cannot watch fd, or has no room. */
int io_park(struct io_wait *w);

/* A part is done, and the rest must not be attempted: an error is pending that the next call must
 * get (IO-4), or the number is closed. */
bool io_ends(const struct io_wait *w);

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

/* The deadline of a call on fd that begins now, by SO_RCVTIMEO (POLLIN) or SO_SNDTIMEO; GMP_FOREVER
 * if it has none, or is no socket. */
int64_t io_deadline(int fd, short events);

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

/* The value of a replacement that is a cancellation point: of `waiting`, a result or -errno, in a
 * caller that parks; of `other` in another one. */
#define IO_POINT(waiting, other)                                                                   \
	(hook_parks() ? ({                                                                         \
		int io_saved_ = io_begin();                                                        \
		io_end((waiting), io_saved_);                                                      \
	})                                                                                         \
		      : (other))

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
 * IO_BLOCK; or the end of the call by io_not_ready.  err: of an io_not_ready before; 0: none. */
#define IO_WAITING_AFTER(err, w, attempt, blocking)                                                \
	({                                                                                         \
		ssize_t io_got_ = -EAGAIN;                                                         \
		int io_err_ = (err);                                                               \
		while (!io_err_ && (io_got_ = (attempt)) == -EAGAIN)                               \
			io_err_ = io_not_ready(w);                                                 \
		(w)->blocked = io_err_ == IO_BLOCK;                                                \
		(w)->blocked ? (ssize_t)(blocking) : io_err_ ? io_err_ : io_got_;                  \
	})
#define IO_WAITING(w, attempt, blocking) IO_WAITING_AFTER(0, w, attempt, blocking)

/* --- sockets --- */

/*
 * recv and send without a change of errno; -errno.  libc's functions read and write words of the
 * green thread's own block for pthread_cancel, and errno; with 10,000 connections these miss the
 * caches, 0.3 us for a request.
 */
static inline ssize_t message_recv(int fd, void *buf, size_t n, int flags)
{
	return arch_msg_call(SYS_recvfrom, fd, buf, n, flags);
}

static inline ssize_t message_send(int fd, const void *buf, size_t n, int flags)
{
	return arch_msg_call(SYS_sendto, fd, buf, n, flags);
}

/*
 * Send what is left of a message, and wait where that is necessary.  sent: the result of an
 * attempt: -EAGAIN, or a count; 0: none was made.  w->partial: a part of the message was sent
 * before.  Returns the bytes sent of buf, or -errno if there are none.
 */
ssize_t message_send_rest(struct io_wait *w, const void *buf, size_t n, ssize_t sent);

/* Send n bytes of a message. */
ssize_t message_send_later(struct io_wait *w, const void *buf, size_t n);

/* The same by a function like it, for the buffers of v, of which `done` bytes are sent: a part of
 * the message.  Returns how many are sent then. */
typedef ssize_t (*rest_fn)(struct io_wait *w, const void *buf, size_t n);
ssize_t iov_rest(rest_fn rest, struct io_wait *w, const struct iovec *v, size_t count, size_t done);

#endif
