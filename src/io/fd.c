/* SPDX-License-Identifier: MIT */
/*
 * How does a call on a descriptor wait until the descriptor is ready?
 *
 * It tries first: most calls need not wait.  Only when the kernel says EAGAIN does it queue up at
 * its side of the record and park; netpoll.h has the protocol (N1 to N5), this file is its waiters'
 * half.
 *
 * What cannot be polled (a regular file) is called in blocking code, and so is what may sleep in the
 * kernel all the same (FD_SLEEPS: sendfile).
 *
 * A deadline that has passed (N6) is met before each try, so it beats data that is there.
 *
 * One try saved: on a TCP socket that we have opened, a read that got less than it asked for has
 * drained it.  The next read waits without asking, unless an event has come since the try (the count
 * differs), the peer has hung up, or there is urgent data.  Not on other streams: a read of a pipe
 * may end with a packet, that of a unix socket before one that carries descriptors; nor on what was
 * opened elsewhere, which may have a protocol with records on top of TCP.
 */
#include "io/fd.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "base/os_msg.h"
#include "io/late.h"
#include "mode/chaos.h"
#include "netpoll/multi.h"
#include "netpoll/owner.h"
#include "park.h"

/* --- waiting --- */

static void fd_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	struct polldesc *pd = (struct polldesc *)(uintptr_t)sg->key;

	lock(&pd->lock, LR_POLLDESC);
	if (sg->queued)
		netpoll_dequeue(&pd->side[sg->kind], sg);
	unlock(&pd->lock, LR_POLLDESC);
}

static void commit_unlock(void *pd)
{
	unlock(&((struct polldesc *)pd)->lock, LR_POLLDESC);
}

enum { TRY_AGAIN = 1, ENDED };

/* Wait for the side's turn (N2): 0 it has come, TRY_AGAIN an event came between, or who stood before us
 * has gone, ENDED there is nothing to wait for, or an error. */
static noinline int fd_wait(struct polldesc *pd, uint32_t seq, int side, uint32_t seen, bool tried,
			    bool turn, int64_t deadline)
{
	struct pollside *s = &pd->side[side];
	struct external f;
	int result;

	lock(&pd->lock, LR_POLLDESC);
	if (!fd_same(pd, seq))
		result = -ECANCELED;
	else if (netpoll_late(s) ||
		 ((s->events != seen || !tried) && (turn || (!s->head && !s->turn))))
		result = TRY_AGAIN;
	else if (side == SIDE_READ && tried && s->events == seen && unlikely(pd->ended))
		result = ENDED; /* and the try came after the shutdown, which counts as an event */
	else
		result = 0;
	if (result) {
		unlock(&pd->lock, LR_POLLDESC);
		return result;
	}
	struct sudog *sg = self_sudog(&f);

	sg->key = pd;
	sg->kind = (uint16_t)side;
	if (turn)
		st_rlx(&s->turn, false);
	netpoll_enqueue(s, sg, turn);
	return wait_on(sg->w, side == SIDE_READ ? WAIT_READ : WAIT_WRITE, fd_unwait, commit_unlock,
		       pd, deadline);
}

noinline void fd_pass_turn(struct polldesc *pd, int side)
{
	struct glist out = { 0 };

	netpoll_pass(pd, side, &out);
	ready_list(&out);
}

/* Nothing is there, and nothing will be: what a call that may wait says then. */
static noinline int fd_ended(struct polldesc *pd, bool turn)
{
	if (turn)
		fd_pass_turn(pd, SIDE_READ); /* N3 */
	return ld_rlx(&pd->ended) == PD_ENDS_WITH_EINVAL ? -EINVAL : 0;
}

/* What a shutdown of the receiving side makes of later tries that find nothing. */
static enum pd_end end_of(int fd)
{
	bool datagrams, unix_listener;

	os_socket_kind(fd, &datagrams, &unix_listener);
	return unix_listener ? PD_ENDS_WITH_EINVAL : datagrams ? PD_ENDS : PD_GOES_ON;
}

noinline int fd_late(struct polldesc *pd, int side, bool turn)
{
	if (turn)
		fd_pass_turn(pd, side);
	return self_cancelled() ? -ECANCELED : -ETIMEDOUT;
}

noinline struct polldesc *fd_find_slow(struct polldesc *pd)
{
	if ((ld_acq(&pd->use) & (PD_OPEN | PD_CLOSING)) != PD_OPEN) /* ORD(pd.use) */
		return NULL;
	owner_join(pd);
	return pd;
}

noinline int fd_lost(struct polldesc *pd, uint32_t seq)
{
	if (!fd_same(pd, seq) || !self_cancelled())
		owner_leave(pd, seq);
	return -ECANCELED;
}

static bool drained(struct polldesc *pd, struct pollside *s, uint32_t seen, size_t n)
{
	return n > 0 && ld_rlx(&pd->tcp) && ld_rlx(&s->drained) == seen && !ld_rlx(&pd->hup);
}

/* The call may sleep in the kernel, and the P goes on without it.  The use ends inside: a green thread
 * may be dropped at the end of the section. */
static noinline ssize_t call_blocking(struct polldesc *pd, io_call call, const struct io_args *a)
{
	gmp_block_enter();
	ssize_t n = call(pd->fd, a);

	netpoll_unuse(pd);
	gmp_block_leave();
	return n;
}

static noinline ssize_t call_file(struct polldesc *pd, uint32_t seq, io_call call,
				  const struct io_args *a)
{
	return fd_use(pd, seq) ? call_blocking(pd, call, a) : fd_lost(pd, seq);
}

/* One try of one who uses the record, and does so no more. */
static inline ssize_t call_once(struct polldesc *pd, int how, io_call call, const struct io_args *a)
{
	if (unlikely(how & FD_SLEEPS))
		return call_blocking(pd, call, a);
	ssize_t n = call(pd->fd, a);

	netpoll_unuse(pd);
	return n;
}

/* Beside those who wait. */
static noinline ssize_t call_for_nothing(struct polldesc *pd, uint32_t seq, io_call call,
					 const struct io_args *a)
{
	return fd_use(pd, seq) ? call_once(pd, 0, call, a) : fd_lost(pd, seq);
}

/* counted: of nothing, n being 0, there is nothing to wait for */
static always_inline ssize_t call_loop(struct polldesc *pd, uint32_t seq, int how, bool counted,
				       io_call call, const struct io_args *a, int64_t deadline)
{
	int side = how & SIDE_WRITE;
	struct pollside *s = &pd->side[side];
	bool turn = false; /* woken: it stands before those who wait */

	self_checkpoint(); /* a peer that is never behind must not keep the P from the others */
	if (unlikely(ld_rlx(&pd->file)))
		return call_file(pd, seq, call, a);
	for (;;) {
		uint32_t seen = ld_acq(&s->events); /* ORD(pd.events): before the try */

		if (unlikely(netpoll_late(s)))
			return fd_late(pd, side, turn);
		bool first = turn || (!ld_rlx(&s->head) && !ld_rlx(&s->turn));

		if (first && (turn || !drained(pd, s, seen, a->n))) {
			if (!fd_use(pd, seq))
				return fd_lost(pd, seq);
			ssize_t n = call_once(pd, how, call, a);

			if (n != -EAGAIN) {
				if (side == SIDE_READ && n > 0 &&
				    (size_t)n < min_of(a->n, (size_t)IO_MOST))
					st_rlx(&s->drained, seen);
				if (turn)
					fd_pass_turn(pd, side); /* N3 */
				return n;
			}
		} else if (!first && counted && a->n == 0) {
			ssize_t n = call_for_nothing(pd, seq, call, a);

			if (n != -EAGAIN)
				return n;
		}
		int result = fd_wait(pd, seq, side, seen, first, turn, deadline);

		if (result < 0)
			return result == -ECANCELED ? fd_lost(pd, seq) : result;
		if (unlikely(result == ENDED))
			return fd_ended(pd, turn);
		if (result == 0)
			turn = true;
	}
}

/* Inline, as call_loop, so that reading and writing are one function each: see os_msg.h.  They are never
 * FD_DEAF. */
static always_inline ssize_t fd_call_here(int fd, int how, bool counted, io_call call,
					  const struct io_args *a, int64_t deadline)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (likely(pd != NULL))
		n = call_loop(pd, ld_rlx(&pd->seq), how, counted, call, a, deadline);
	rt_leave();
	return n;
}

int fd_nap(int64_t *nap, int64_t deadline)
{
	if (!getm() && ld_seq(&sched.state) != RUN_ON) /* ORD(external) */
		return -ESRCH;
	int late = too_late(deadline);

	if (late)
		return late;
	*nap = *nap ? min_of(*nap * 2, (int64_t)16000000) : 1000000;
	return gmp_sleep_until(min_of(gmp_deadline(*nap), deadline));
}

/* Without the turn between two tries: that is for those whom an event helps. */
static noinline ssize_t call_deaf(struct polldesc *pd, uint32_t seq, int how, io_call call,
				  const struct io_args *a, int64_t deadline)
{
	struct pollside *s = &pd->side[how & SIDE_WRITE];
	int64_t nap = 0;
	ssize_t n;

	do {
		int err = fd_nap(&nap, min_of(ld_rlx(&s->deadline), deadline));

		if (!fd_same(pd, seq))
			return fd_lost(pd, seq);
		if (err)
			return err;
		n = call_loop(pd, seq, how, false, call, a, deadline);
	} while (n == FD_DEAF);
	return n;
}

ssize_t fd_call(int fd, int how, io_call call, const struct io_args *a, int64_t deadline)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (likely(pd != NULL)) {
		uint32_t seq = ld_rlx(&pd->seq);

		n = call_loop(pd, seq, how, false, call, a, deadline);
		if (unlikely(n == FD_DEAF))
			n = call_deaf(pd, seq, how, call, a, deadline);
	}
	rt_leave();
	return n;
}

ssize_t fd_try(int fd, int side, io_call call, const struct io_args *a)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (pd && netpoll_late(&pd->side[side])) {
		n = fd_late(pd, side, false);
	} else if (pd && netpoll_use(pd)) {
		n = call(fd, a);
		netpoll_unuse(pd);
	}
	rt_leave();
	return n;
}

/* --- registering --- */

enum { YIELDS = 16, NAP_NS = 50000 };

static void short_wait(int i)
{
	if (i < YIELDS)
		gmp_yield();
	else
		gmp_sleep(NAP_NS);
}

/* A late release of the number's former file may be under way: it waits for system calls that do not sleep. */
int fd_open(int fd, unsigned how)
{
	struct glist out = { 0 };
	int err;

	for (int i = 0; (err = netpoll_open(fd, how, &out)) == -EAGAIN; i++)
		short_wait(i);
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

/* No system call is under way on it, or will be.  A moment, if it does not sleep. */
static void wait_until_unused(struct polldesc *pd)
{
	for (int i = 0; netpoll_used(pd); i++)
		short_wait(i);
}

/* 0: the number is the caller's alone from here on, until netpoll_forget.  Else -EBADF or FD_STALE. */
static int shut(struct polldesc *pd, enum late_kind kind)
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

static void forget(struct polldesc *pd, bool closed)
{
	struct glist out = { 0 };

	netpoll_forget(pd);
	if (unlikely(ld_rlx(&pd->multi))) {
		multi_forgotten(pd, closed, &out);
		ready_list(&out);
	}
}

static int close_fd(int fd)
{
	struct polldesc *pd = netpoll_find(fd);
	int err = shut(pd, LATE_CLOSE);

	if (err)
		return err;
	bool file = ld_rlx(&pd->file) != 0;

	if (unlikely(pd->taken)) { /* by another connection, which is not adopted */
		forget(pd, false);
		late_report(fd, LATE_CLOSE);
		return FD_STALE;
	}
	if (unlikely(pd->gone))
		late_report(fd, LATE_UNKNOWN);
	forget(pd, true); /* first: the number is another's as soon as it is closed */
	if (file)         /* may write back what is left */
		gmp_block_enter();
	/* Linux frees the number whatever close says; EINTR is no failure */
	err = close(fd) == 0 || errno == EINTR ? 0 : -errno;
	if (file)
		gmp_block_leave();
	return err;
}

int fd_close(int fd)
{
	if (!rt_enter())
		return -ESRCH;
	int result = close_fd(fd);

	rt_leave();
	return result;
}

static int errno_of(int result)
{
	return result == FD_STALE ? -EBADF : result;
}

int gmp_close(int fd)
{
	return errno_of(fd_close(fd));
}

static int release(int fd)
{
	struct polldesc *pd = netpoll_find(fd);
	int err = shut(pd, LATE_RELEASE);

	if (err)
		return err;
	err = pd->blocking ? os_nonblock(fd, false) : 0;
	forget(pd, false); /* last: another may adopt it from here on */
	return min_of(err, 0);
}

int gmp_fd_release(int fd)
{
	if (!rt_enter())
		return -ESRCH;
	int result = errno_of(release(fd));

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
		enum pd_end end = how == SHUT_WR ? PD_GOES_ON : end_of(fd);

		result = shutdown(fd, how) == 0 ? 0 : -errno;
		/* those of a unix socket that wait for room hear nothing from the kernel, nor who waits
		 * for a datagram or for a connection to a unix socket */
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

/* In blocking code, or on an external thread. */
noinline bool off_stack_blocked(const void *at, size_t n)
{
	const struct m *m = gmp__blockedm();

	return m && m->curg && stack_guard_overlaps(m->curg->stack, at, n);
}

/* --- reading and writing --- */

static noinline ssize_t read_plain(int fd, void *buf, size_t n)
{
	ssize_t got;

	if (fd_plain(fd) == PD_SHORT)
		n = chaos_shorten(n);
	do
		got = read(fd, buf, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* recv costs less than read.  Not for nothing: it would take a datagram out all the same. */
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

/* What is no socket cannot be told to send no SIGPIPE. */
static noinline ssize_t write_plain(int fd, const void *buf, size_t n)
{
	struct os_sigpipe sigpipe;
	ssize_t done;

	if (fd_plain(fd) == PD_SHORT)
		n = chaos_shorten(n);
	os_sigpipe_hold(&sigpipe);
	do
		done = write(fd, buf, n);
	while (done < 0 && errno == EINTR);
	done = done < 0 ? -errno : done;
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
	return fd_call_here(fd, SIDE_READ, true, call_read, &(struct io_args){ buf, n }, NEVER);
}

ssize_t gmp_write(int fd, const void *buf, size_t n)
{
	if (off_stack(buf, n))
		return -EFAULT;
	return fd_call_here(fd, SIDE_WRITE, false, call_write,
			    &(struct io_args){ (void *)(uintptr_t)buf, n }, NEVER);
}

static ssize_t read_full(struct polldesc *pd, uint32_t seq, char *buf, size_t n)
{
	size_t done = 0;

	while (done < n) {
		struct io_args a = { buf + done, n - done };
		ssize_t got = call_loop(pd, seq, SIDE_READ, false, call_read, &a, NEVER);

		if (got < 0)
			return got;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

ssize_t gmp_read_full(int fd, void *buf, size_t n)
{
	if (off_stack(buf, n))
		return -EFAULT;
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t result = -EBADF;

	if (pd) /* not from the number's next owner, should it be closed between two calls */
		result = read_full(pd, ld_rlx(&pd->seq), buf, n);
	rt_leave();
	return result;
}

static ssize_t write_all(struct polldesc *pd, uint32_t seq, const char *buf, size_t n)
{
	size_t done = 0;

	do {
		struct io_args a = { (void *)(uintptr_t)(buf + done), n - done };
		ssize_t put = call_loop(pd, seq, SIDE_WRITE, false, call_write, &a, NEVER);

		if (put < 0)
			return put;
		done += (size_t)put;
	} while (done < n);
	return (ssize_t)n;
}

/* Two do not interleave, so one may have to wait.  The holder may be a green thread that is dropped
 * at the end of the run: a external thread looks up now and then. */
static int whole_lock(struct polldesc *pd)
{
	int err;

	if (getm())
		return gmp_mutex_lock_until(&pd->whole, NEVER); /* may be cut short */
	do
		err = gmp_mutex_lock_until(&pd->whole, gmp_deadline(10000000));
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
		uint32_t seq = ld_rlx(&pd->seq); /* not the number's next owner, after the wait */

		result = whole_lock(pd);
		if (!result) {
			result = write_all(pd, seq, buf, n);
			gmp_mutex_unlock(&pd->whole);
		}
	}
	rt_leave();
	return result;
}
