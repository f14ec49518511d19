/* SPDX-License-Identifier: MIT */
/*
 * Calls on a file descriptor: attempt the system call, park until the fd is ready if it must wait.
 *
 * This file is the waiters' half of the protocol in netpoll.h (NETPOLL-1 to NETPOLL-6).
 *
 *   call_loop                                      netpoll, on an event
 *    1 read side.events = e; deadline expired?      1 lock pd; side.events + 1
 *      return -ETIMEDOUT                            2 no token is out?  give it to the first
 *    2 no waiter is queued and no token is out,       waiter; otherwise only the count changes
 *      or the caller has the token?  attempt the    3 unlock pd, ready the waiter
 *      call inside a use of the record (NETPOLL-4)
 *    3 not -EAGAIN?  pass the token on, return
 *    4 lock pd; 2 applies, and events != e or no attempt was made?  unlock, from 1
 *    5 enqueue, at the front if the caller has
 *      the token, which it gives up; park
 *    6 woken with the token; from 1
 *
 * A token (read token, write token) is the right to attempt the call before queued waiters.
 * Fairness: one event serves waiters in FIFO order, since each passes the token to the next.
 *
 * An fd that cannot be polled (a regular file) is called in a blocking section; so is a call that
 * may block in the kernel anyway (FD_SLEEPS: sendfile).  Other calls on fds: io/waitfd.c, io/poll.c
 * and, for pread and pwrite, sys/file.c.
 *
 * An expired deadline (NETPOLL-6) is checked before each attempt, so it beats available data.
 *
 * Close: a call that began before it neither parks nor attempts again.  It returns -ECANCELED,
 * even if the number has another file by then (fd_use, fd_same).  A call that begins later gets
 * -EBADF until the number is opened or adopted again.  A close waits for the end of all uses, not
 * for the waiters that it has woken to run.
 *
 * One attempt saved: on a TCP socket that gmp has opened, a read that returned less than it asked
 * for has drained the socket.  The next read parks without an attempt, unless an event has come
 * since (the count differs), the peer has hung up, or there is urgent data.  Not for other streams:
 * a read of a pipe may end with a packet, and that of a unix socket before data with attached file
 * descriptors.  Nor for sockets opened elsewhere, which may have a protocol with records on top of
 * TCP.
 */
#include "io/fd.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "base/os_msg.h"
#include "enter.h"
#include "io/late.h"
#include "netpoll/multi.h"
#include "netpoll/owner.h"
#include "park.h"
#include "variant/variant.h"

/* Backoff of fd_backoff: a change without an event is noticed this late at most.  Not measured. */
enum { BACKOFF_MIN_NS = MS, BACKOFF_MAX_NS = 16 * MS };

/* Interval at which an external thread in gmp_write_all checks whether the runtime still runs. */
enum { RECHECK_NS = 10 * MS };

/* --- waiting --- */

/* Dequeue a waiter that was cancelled, has timed out or is killed at shutdown.  In the first two
 * cases it has no token: an event that fails to claim it claims the next waiter. */
static void fd_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	struct polldesc *pd = (struct polldesc *)(uintptr_t)sg->key;

	lock(&pd->lock, LR_POLLDESC);
	if (sg->queued)
		netpoll_dequeue(&pd->side[sg->kind], sg);
	unlock(&pd->lock, LR_POLLDESC);
}

/* Commit step of a wait: drop pd->lock, under which the timer was armed (NETPOLL-7). */
void fd_commit_unlock(void *pd)
{
	unlock(&((struct polldesc *)pd)->lock, LR_POLLDESC);
}

enum { TRY_AGAIN = 1, ENDED = 2 };

/*
 * Park until the caller has the token of the side (NETPOLL-2).  seen: the count of events before
 * the attempt.  tried: the caller has made one, or is_drained.  token: the caller has the token; it
 * gives that up only if it parks.  Returns 0 with the token, or an error; without parking
 * TRY_AGAIN, if the deadline of the side has expired, or if no waiter is ahead and an event came
 * meanwhile or tried is false; or ENDED, if no data will come any more.
 */
static noinline int fd_wait(struct polldesc *pd, uint32_t seq, int side, uint32_t seen, bool tried,
			    bool token, int64_t deadline)
{
	struct pollside *s = &pd->side[side];
	struct external f;
	int result;

	lock(&pd->lock, LR_POLLDESC);
	if (!fd_same(pd, seq))
		result = -ECANCELED;
	else if (netpoll_late(s) ||
		 ((s->events != seen || !tried) && (token || (!s->head && !s->token_out))))
		result = TRY_AGAIN;
	else if (side == SIDE_READ && tried && s->events == seen && unlikely(pd->ended))
		result = ENDED; /* the attempt came after the shutdown, which counts as an event */
	else
		result = 0;
	if (result) {
		unlock(&pd->lock, LR_POLLDESC);
		return result;
	}
	struct sudog *sg = self_sudog(&f);

	sg->key = pd;
	sg->kind = (uint16_t)side;
	if (token)
		st_rlx(&s->token_out, false);
	netpoll_enqueue(s, sg, token);
	return wait_on(sg->w, side == SIDE_READ ? WAIT_READ : WAIT_WRITE, fd_unwait,
		       fd_commit_unlock, pd, deadline);
}

noinline void fd_pass_token(struct polldesc *pd, uint32_t seq, int side)
{
	struct glist out = { 0 };

	netpoll_pass(pd, seq, side, &out);
	ready_list(&out);
}

/* End a read of an fd that was shut down: 0 (end of stream) or -EINVAL. */
static noinline int fd_ended(struct polldesc *pd, uint32_t seq, bool token)
{
	if (token)
		fd_pass_token(pd, seq, SIDE_READ); /* NETPOLL-3 */
	return ld_rlx(&pd->ended) == PD_ENDS_WITH_EINVAL ? -EINVAL : 0;
}

/* How later reads that find no data end after a shutdown of the receiving side. */
static enum pd_end shutdown_end_of(int fd)
{
	bool datagrams, unix_listener;

	os_socket_kind(fd, &datagrams, &unix_listener);
	return unix_listener ? PD_ENDS_WITH_EINVAL : datagrams ? PD_ENDS : PD_GOES_ON;
}

noinline struct polldesc *fd_find_slow(struct polldesc *pd)
{
	if ((ld_acq(&pd->use) & (PD_OPEN | PD_CLOSING)) != PD_OPEN) /* ORD(pd.use) */
		return NULL;
	owner_join(pd);
	return pd;
}

/* The caller has no token to pass on: a cancelled wait has given it up, and that of a registration
 * that is gone is void. */
noinline int fd_lost(struct polldesc *pd, uint32_t seq)
{
	if (!fd_same(pd, seq) || !self_cancelled())
		owner_leave(pd, seq);
	return -ECANCELED;
}

noinline int fd_expired(struct polldesc *pd, uint32_t seq, int side, bool token)
{
	if (!fd_same(pd, seq)) /* the deadline may be that of the next file */
		return fd_lost(pd, seq);
	if (token)
		fd_pass_token(pd, seq, side);
	return self_cancelled() ? -ECANCELED : -ETIMEDOUT;
}

/* True if a read would find no data: see the head. */
static bool is_drained(struct polldesc *pd, struct pollside *s, uint32_t seen, size_t n)
{
	return n > 0 && ld_rlx(&pd->tcp) && ld_rlx(&s->drained) == seen && !ld_rlx(&pd->hup);
}

/*
 * Make the call in a blocking section.  The caller has begun a use of pd; it ends inside the
 * section, since shutdown may kill the G in gmp_block_leave.
 */
static noinline ssize_t fd_call_blocking(struct polldesc *pd, io_call call, const struct io_args *a)
{
	gmp_block_enter();
	ssize_t n = call(pd->fd, a);

	netpoll_unuse(pd);
	gmp_block_leave();
	return n;
}

/* One attempt.  The caller has begun a use of pd; this ends it. */
static inline ssize_t call_once(struct polldesc *pd, int how, io_call call, const struct io_args *a)
{
	if (unlikely(how & FD_SLEEPS))
		return fd_call_blocking(pd, call, a);
	ssize_t n = call(pd->fd, a);

	netpoll_unuse(pd);
	return n;
}

/* One attempt without the token, also if waiters are queued: of an fd that cannot be polled, or of
 * 0 bytes. */
static noinline ssize_t call_at_once(struct polldesc *pd, uint32_t seq, int how, io_call call,
				     const struct io_args *a)
{
	return fd_use(pd, seq) ? call_once(pd, how, call, a) : fd_lost(pd, seq);
}

/* fd_call on registration seq of pd.  Always inlined, so that gmp_read and gmp_write are one
 * function each (os_msg.h). */
static always_inline ssize_t call_loop(struct polldesc *pd, uint32_t seq, int how, io_call call,
				       const struct io_args *a, int64_t deadline)
{
	int side = how & SIDE_WRITE;
	struct pollside *s = &pd->side[side];
	bool token = false; /* woken: the caller goes before queued waiters */

	self_checkpoint(); /* an fd that is always ready must not starve other Gs of the P */
	if (unlikely(ld_rlx(&pd->file)))
		return call_at_once(pd, seq, FD_SLEEPS, call, a);
	for (;;) {
		uint32_t seen = ld_acq(&s->events); /* ORD(pd.events): before the attempt */

		if (unlikely(netpoll_late(s)))
			return fd_expired(pd, seq, side, token);
		bool first = token || (!ld_rlx(&s->head) && !ld_rlx(&s->token_out));

		if (first && (token || !is_drained(pd, s, seen, a->n))) {
			if (!fd_use(pd, seq))
				return fd_lost(pd, seq);
			ssize_t n = call_once(pd, how, call, a);

			if (n != -EAGAIN) {
				if (side == SIDE_READ && n > 0 &&
				    (size_t)n < min_of(a->n, (size_t)IO_MOST))
					st_rlx(&s->drained, seen);
				if (token)
					fd_pass_token(pd, seq, side); /* NETPOLL-3 */
				return n;
			}
		} else if (!first && how & FD_COUNTED && a->n == 0) {
			ssize_t n = call_at_once(pd, seq, 0, call, a);

			if (n != -EAGAIN)
				return n;
		}
		int result = fd_wait(pd, seq, side, seen, first, token, deadline);

		if (result < 0)
			return result == -ECANCELED ? fd_lost(pd, seq) : result;
		if (unlikely(result == ENDED))
			return fd_ended(pd, seq, token);
		if (result == 0)
			token = true;
	}
}

int fd_backoff(int64_t *last, int64_t deadline)
{
	if (!getm() && ld_seq(&sched.state) != RUN_ON) /* ORD(external) */
		return -ESRCH;
	int late = too_late(deadline);

	if (late)
		return late;
	*last = *last ? min_of(*last * 2, (int64_t)BACKOFF_MAX_NS) : BACKOFF_MIN_NS;
	return gmp_sleep_until(min_of(gmp_deadline(*last), deadline));
}

/*
 * Attempts with backoff, for a call that no event reports as ready.  The caller has no token
 * between two attempts: the token is for waiters that an event helps.
 */
static noinline ssize_t call_with_backoff(struct polldesc *pd, uint32_t seq, int how, io_call call,
					  const struct io_args *a, int64_t deadline)
{
	struct pollside *s = &pd->side[how & SIDE_WRITE];
	int64_t last = 0;
	ssize_t n;

	do {
		int err = fd_backoff(&last, min_of(ld_rlx(&s->deadline), deadline));

		if (err) /* the same as in fd_expired */
			return fd_same(pd, seq) ? err : fd_lost(pd, seq);
		n = call_loop(pd, seq, how, call, a, deadline);
	} while (n == FD_NO_EVENT);
	return n;
}

/* fd_call, inlined like call_loop. */
static always_inline ssize_t fd_call_inline(int fd, int how, io_call call, const struct io_args *a,
					    int64_t deadline)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (likely(pd != NULL)) {
		uint32_t seq = ld_rlx(&pd->seq);

		n = call_loop(pd, seq, how, call, a, deadline);
		if (how & FD_BACKOFF && unlikely(n == FD_NO_EVENT))
			n = call_with_backoff(pd, seq, how, call, a, deadline);
	}
	rt_leave();
	return n;
}

ssize_t fd_call(int fd, int how, io_call call, const struct io_args *a, int64_t deadline)
{
	return fd_call_inline(fd, how | FD_BACKOFF, call, a, deadline);
}

ssize_t fd_try(int fd, int side, io_call call, const struct io_args *a)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (pd && netpoll_late(&pd->side[side])) {
		n = fd_expired(pd, ld_rlx(&pd->seq), side, false);
	} else if (pd && netpoll_use(pd)) {
		n = call(fd, a);
		netpoll_unuse(pd);
	}
	rt_leave();
	return n;
}

/* --- registering --- */

/* Waits of fd_open and fd_shut: yields, then sleeps that double. */
enum { YIELDS = 16, NAP_MIN_NS = 50 * US, NAP_MAX_NS = 10 * MS, NAPS = 8 };

/*
 * The i-th wait for a use to end; also for a cancelled caller.  Most uses are as short as a system
 * call that does not block.  One in a blocking section lasts as long as its call: a read of a file
 * server that does not answer may never return, and must not cost a CPU.
 */
static void use_wait(int i)
{
	if (i < YIELDS) {
		gmp_yield();
		return;
	}
	int masked = gmp_cancel_mask(1);
	int64_t nap = (int64_t)NAP_MIN_NS << min_of(i - YIELDS, (int)NAPS);

	gmp_sleep(min_of(nap, (int64_t)NAP_MAX_NS));
	if (!masked)
		gmp_cancel_mask(0);
}

/* -EAGAIN: a close or release of the record is under way; repeat until its uses have ended. */
int fd_open(int fd, unsigned how)
{
	struct glist out = { 0 };
	int err;

	for (int i = 0; (err = netpoll_open(fd, how, &out)) == -EAGAIN; i++)
		use_wait(i);
	ready_list(&out);
	return err;
}

int fd_register(int fd, bool tcp)
{
	int err = fd_open(fd, tcp ? OPEN_TCP : 0);

	if (!err)
		return fd;
	close(fd);
	return err;
}

int gmp_fd_adopt(int fd)
{
	if (!rt_enter())
		return -ESRCH;
	int err = fd_open(fd, OPEN_ELSEWHERE);

	rt_leave();
	return err ? err : fd;
}

/* Wait until no thread uses pd, which is closing. */
static void wait_until_unused(struct polldesc *pd)
{
	for (int i = 0; netpoll_used(pd); i++)
		use_wait(i);
}

/*
 * Begin a close or release: end all waits and uses.  Returns 0, and pd belongs to the caller until
 * netpoll_forget; or -EBADF or FD_STALE.
 */
static int fd_shut(struct polldesc *pd, enum late_kind kind)
{
	struct glist out = { 0 };
	int err = pd ? netpoll_shut(pd, &out) : -EBADF;

	if (err == -ESTALE) {
		late_report(pd->fd, kind);
		return FD_STALE;
	}
	if (err)
		return err;
	ready_list(&out);
	wait_until_unused(pd);
	return 0;
}

/* End a close or release: free pd for another file. */
static void fd_forget(struct polldesc *pd, bool closed)
{
	struct glist out = { 0 };

	netpoll_forget(pd);
	if (unlikely(ld_rlx(&pd->multi))) {
		multi_forgotten(pd, closed, &out);
		ready_list(&out);
	}
}

static int fd_close_inside(int fd)
{
	struct polldesc *pd = netpoll_find(fd);
	int err = fd_shut(pd, LATE_CLOSE);

	if (err)
		return err;
	bool file = ld_rlx(&pd->file) != 0;

	if (unlikely(pd->taken)) { /* gmp_poll waits for another file, not adopted */
		fd_forget(pd, false);
		late_report(fd, LATE_CLOSE);
		return FD_STALE;
	}
	if (unlikely(pd->gone))
		late_report(fd, LATE_UNKNOWN);
	fd_forget(pd, true); /* first: the number may be reused as soon as it is closed */
	if (file)            /* close may write back dirty data */
		gmp_block_enter();
	/* Linux frees the number whatever close returns; EINTR is no failure */
	err = close(fd) == 0 || errno == EINTR ? 0 : -errno;
	if (file)
		gmp_block_leave();
	return err;
}

int fd_close(int fd)
{
	if (!rt_enter())
		return -ESRCH;
	int result = fd_close_inside(fd);

	rt_leave();
	return result;
}

/* The public form of a result: FD_STALE is -EBADF. */
static int hide_stale(int result)
{
	return result == FD_STALE ? -EBADF : result;
}

int gmp_close(int fd)
{
	return hide_stale(fd_close(fd));
}

void fd_close_always(int fd)
{
	if (gmp_close(fd) == -ESRCH)
		close(fd);
}

int fd_close_with(int fd, int err)
{
	close(fd);
	return err;
}

static int fd_release(int fd)
{
	struct polldesc *pd = netpoll_find(fd);
	int err = fd_shut(pd, LATE_RELEASE);

	if (err)
		return err;
	err = pd->blocking ? os_nonblock(fd, false) : 0;
	fd_forget(pd, false); /* last: another thread may adopt it from here on */
	return min_of(err, 0);
}

int gmp_fd_release(int fd)
{
	if (!rt_enter())
		return -ESRCH;
	int result = hide_stale(fd_release(fd));

	rt_leave();
	return result;
}

int gmp_shutdown(int fd, int how)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = netpoll_find(fd);
	struct glist out = { 0 };
	int result = -EBADF;

	if (pd && netpoll_use(pd)) {
		enum pd_end end = how == SHUT_WR ? PD_GOES_ON : shutdown_end_of(fd);

		result = shutdown(fd, how) == 0 ? 0 : -errno;
		/* the kernel reports no event to writers of a unix socket that wait for room, nor
		 * to waiters for a datagram or for a connection to a unix socket */
		if (result == 0)
			netpoll_shut_down(pd, end, &out);
		netpoll_unuse(pd);
	}
	ready_list(&out);
	rt_leave();
	return result;
}

int gmp_fd_set_deadline(int fd, int which, int64_t deadline)
{
	struct glist out = { 0 };

	if (!which || which & ~(GMP_READ | GMP_WRITE))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = netpoll_find(fd);
	int result = pd ? netpoll_deadline(pd, (unsigned)which, deadline, &out) : -EBADF;

	ready_list(&out);
	rt_leave();
	return result;
}

_Static_assert(GMP_READ == 1 << SIDE_READ && GMP_WRITE == 1 << SIDE_WRITE, "a mask of sides");

/* --- buffers --- */

noinline bool off_stack_blocked(const void *at, size_t n)
{
	const struct m *m = gmp__blockedm();

	return m && m->curg && stack_guard_overlaps(m->curg->stack, at, n);
}

/* --- reading and writing --- */

static noinline ssize_t read_plain(int fd, void *buf, size_t n)
{
	if (fd_plain(fd) == PD_SHORT)
		n = chaos_shorten(n);
	return os_retry(read(fd, buf, n));
}

/* recv costs less than read.  Not for 0 bytes: recv would consume a datagram anyway. */
static inline ssize_t call_read(int fd, const struct io_args *a)
{
	size_t most = min_of(a->n, (size_t)IO_MOST);
	ssize_t n;

	if (unlikely(fd_plain(fd) || most == 0))
		return read_plain(fd, a->buf, most);
	do
		n = os_recv(fd, a->buf, most, 0);
	while (unlikely(n == -EINTR));
	if (likely(n != -ENOTSOCK))
		return n;
	fd_set_plain(fd);
	return read_plain(fd, a->buf, most);
}

/* Write to an fd that is no socket: without MSG_NOSIGNAL, so SIGPIPE is held back. */
static noinline ssize_t write_plain(int fd, const void *buf, size_t n)
{
	struct os_sigpipe sigpipe;

	if (fd_plain(fd) == PD_SHORT)
		n = chaos_shorten(n);
	os_sigpipe_hold(&sigpipe);
	ssize_t done = os_retry(write(fd, buf, n));

	os_sigpipe_drop(&sigpipe, os_sigpipe_due(done, n));
	return done;
}

static inline ssize_t call_write(int fd, const struct io_args *a)
{
	size_t most = min_of(a->n, (size_t)IO_MOST);
	ssize_t n;

	if (unlikely(fd_plain(fd)))
		return write_plain(fd, a->buf, most);
	do
		n = os_send(fd, a->buf, most, MSG_NOSIGNAL);
	while (unlikely(n == -EINTR));
	if (likely(n != -ENOTSOCK))
		return n;
	fd_set_plain(fd);
	return write_plain(fd, a->buf, most);
}

ssize_t gmp_read(int fd, void *buf, size_t n)
{
	if (off_stack(buf, n))
		return -EFAULT;
	return fd_call_inline(fd, SIDE_READ | FD_COUNTED, call_read, &(struct io_args){ buf, n },
			      NEVER);
}

ssize_t gmp_write(int fd, const void *buf, size_t n)
{
	if (off_stack(buf, n))
		return -EFAULT;
	return fd_call_inline(fd, SIDE_WRITE, call_write,
			      &(struct io_args){ (void *)(uintptr_t)buf, n }, NEVER);
}

/* Repeat the call on registration seq until all n bytes are done, or a read gets none; at least
 * once. */
static always_inline ssize_t call_until_done(struct polldesc *pd, uint32_t seq, int side,
					     io_call call, char *buf, size_t n)
{
	size_t done = 0;
	ssize_t some;

	do {
		struct io_args a = { buf + done, n - done };

		some = call_loop(pd, seq, side, call, &a, NEVER);
		if (some < 0)
			return some;
		done += (size_t)some;
	} while (done < n && (some > 0 || side == SIDE_WRITE));
	return (ssize_t)done;
}

ssize_t gmp_read_full(int fd, void *buf, size_t n)
{
	if (off_stack(buf, n))
		return -EFAULT;
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t result = pd ? 0 : -EBADF;

	if (pd && n > 0) /* one seq: if fd is closed between two calls, not from its next file */
		result = call_until_done(pd, ld_rlx(&pd->seq), SIDE_READ, call_read, buf, n);
	rt_leave();
	return result;
}

/*
 * Lock the fd against other calls of gmp_write_all, so that two do not interleave.  The owner may
 * be a G that shutdown kills: an external thread re-checks every 10 ms whether the runtime still
 * runs.
 */
static int lock_write_all(struct polldesc *pd)
{
	int err;

	if (getm())
		return gmp_mutex_lock_until(&pd->write_all_lock, NEVER); /* can be cancelled */
	do
		err = gmp_mutex_lock_until(&pd->write_all_lock, gmp_deadline(RECHECK_NS));
	while (err == -ETIMEDOUT && ld_seq(&sched.state) == RUN_ON); /* ORD(external) */
	return err == -ETIMEDOUT ? -ESRCH : err;
}

ssize_t gmp_write_all(int fd, const void *buf, size_t n)
{
	if (off_stack(buf, n))
		return -EFAULT;
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t result = -EBADF;

	if (pd) {
		uint32_t seq = ld_rlx(&pd->seq); /* before the wait: not the next file */

		result = lock_write_all(pd);
		if (!result) {
			result = call_until_done(pd, seq, SIDE_WRITE, call_write,
						 (char *)(uintptr_t)buf, n);
			gmp_mutex_unlock(&pd->write_all_lock);
		}
	}
	rt_leave();
	return result;
}
