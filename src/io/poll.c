/* SPDX-License-Identifier: MIT */
/*
 * gmp_poll: poll(2) for green threads and external threads.
 *
 * The call polls the kernel first, with poll(2) and no timeout, so it is level-triggered and
 * reports what poll(2) reports.  If no fd is ready, it links itself with the records of all its fds
 * and parks; netpoll/multi.c has the protocol.  Whatever wakes it, it unlinks itself and polls the
 * kernel again.
 *
 * An external thread does the same, since a gmp_close must wake it.  Without a runtime, or if the
 * runtime stops meanwhile, it blocks in ppoll(2).
 *
 * Invariants
 *   -       The entries and the call lie on the caller's stack, or in memory that the call frees.
 *           It returns, or is killed at shutdown, only with all entries unlinked (MULTI-3).
 *   POLL-2  An entry whose fd gmp_close has closed is POLLNVAL, and is not polled again: the number
 *           may belong to another connection.
 *   POLL-3  While entries are linked, the call counts once as a waiter for fds (sched.npollwait).
 *   POLL-4  fds is read only after the kernel has read it: if it cannot be read, poll(2) returns
 *           -EFAULT.
 *
 * Cost, n fds: if one is ready at once, poll(2).  Otherwise three poll(2) (at once, before the call
 * links itself, after the wait), and an epoll_ctl(2) and two locks per fd.
 */
#include "io/poll.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/os.h"
#include "enter.h"
#include "io/fd.h"
#include "park.h"
#include "timer/timerheap.h"
#include "variant/variant.h"

/* Most fds whose entries lie on the stack; more are allocated. */
enum { ON_STACK = 16 };

/* A wait, on the caller's stack.  Before it links the first entry, it sets multi.sg to its sudog,
 * and calls netpoll_add_waiter (POLL-3). */
struct multi_wait {
	struct multi multi;
	struct multi_entry *entries; /* n, on the caller's stack or in `memory` */
	nfds_t n;
	void *memory; /* freed if the caller is killed at shutdown; NULL: there is none */
};

struct poll_call {
	struct multi_wait wait; /* an entry per fd */
	struct external f;
	struct pollfd *fds; /* as many */
};

/* --- the wait --- */

/* Step 6: unlink the entries that are linked, end POLL-3. */
static void multi_unlink_all(struct multi_wait *w)
{
	for (nfds_t i = 0; i < w->n; i++)
		multi_unlink(&w->entries[i]);
	add_rlx(&sched.npollwait, -1u);
}

/* Undo a wait that was cancelled, interrupted, has timed out or is killed at shutdown. */
static void multi_unwait(struct waiter *waiter)
{
	struct multi_wait *w = waiter_sudog(waiter)->elem;

	lock_end(&w->multi.lock, LR_MULTI); /* the commit step has unlocked it */
	multi_unlink_all(w);
	if (waiter_killed(waiter)) /* the call does not return */
		free(w->memory);
}

/* Commit step of the wait. */
static void multi_commit_unlock(void *multi)
{
	unlock(&((struct multi *)multi)->lock, LR_MULTI);
}

/* Steps 4 to 6, with all entries linked.  Returns 0 if one has fired, or an error. */
static int multi_wait(struct multi_wait *w, int64_t deadline)
{
	struct multi *m = &w->multi;

	lock(&m->lock, LR_MULTI);
	int result = m->result;

	if (m->fired) {
		unlock(&m->lock, LR_MULTI);
	} else {
		m->sg->elem = w;
		m->sg->key = NULL;
		result = wait_on(m->sg->w, WAIT_POLL, multi_unwait, multi_commit_unlock, m,
				 deadline);
		if (result)
			return result; /* multi_unwait has unlinked them */
	}
	multi_unlink_all(w);
	return result;
}

/* --- an external thread without a runtime --- */

/* Block in ppoll(2) until the deadline. */
static int sleep_in_poll(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	int64_t until = vtime_real(deadline);

	for (;;) {
		int64_t ns = (int64_t)time_between(os_now(), until);
		struct timespec ts = { .tv_sec = ns / S, .tv_nsec = ns % S };
		int ready = ppoll(fds, n, until == NEVER ? NULL : &ts, NULL);

		if (ready > 0)
			return ready;
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (until != NEVER && os_now() >= until)
			return -ETIMEDOUT;
	}
}

/* --- polling the kernel --- */

/* poll(2) without timeout.  Returns the number of ready fds, or -errno. */
static int poll_kernel(struct pollfd *fds, nfds_t n)
{
	return os_retry(poll(fds, n, 0));
}

/* POLL-2.  Returns the number of fds that are ready because of it. */
static int mark_closed(struct poll_call *c)
{
	int more = 0;

	for (nfds_t i = 0; i < c->wait.n; i++) {
		if (!c->wait.entries[i].closed)
			continue;
		more += !c->fds[i].revents;
		c->fds[i].revents = POLLNVAL;
	}
	return more;
}

/* Poll the kernel, but not for entries whose fd was closed. */
static int poll_kernel_again(struct poll_call *c)
{
	for (nfds_t i = 0; i < c->wait.n; i++)
		if (c->fds[i].fd >= 0)
			multi_look_again(&c->wait.entries[i].seen, netpoll_find(c->fds[i].fd));
	int ready = poll_kernel(c->fds, c->wait.n);

	return ready < 0 ? ready : ready + mark_closed(c);
}

/* --- waiting --- */

/*
 * Link all entries.  Returns MULTI_LINKED; otherwise not all are linked, or one has changed:
 * MULTI_AGAIN or an error.
 */
static int link_all(struct poll_call *c)
{
	struct glist out = { 0 };
	int result = MULTI_LINKED;

	for (nfds_t i = 0; i < c->wait.n && result == MULTI_LINKED; i++)
		if (c->fds[i].fd >= 0)
			result = multi_link(&c->wait.entries[i], c->fds[i].fd, &out);
	ready_list(&out);
	return result;
}

/* Link all entries and wait.  Returns 0 to poll the kernel again, or an error. */
static int wait_once(struct poll_call *c, int64_t deadline)
{
	c->wait.multi = (struct multi){ .sg = self_sudog(&c->f) };
	netpoll_add_waiter(); /* POLL-3 */
	int result = link_all(c);

	if (result == MULTI_LINKED)
		return multi_wait(&c->wait, deadline);
	multi_unlink_all(&c->wait);
	return min_of(result, 0);
}

int poll_park(int fd, short events, const struct multi_seen *seen, int64_t since, int64_t deadline)
{
	struct multi_entry e = { .seen = *seen, .since = since, .events = events };
	struct pollfd p = { .fd = fd };
	struct poll_call c = { .wait = { .entries = &e, .n = 1 }, .fds = &p };
	int result = too_late(deadline);

	e.of = &c.wait.multi;
	if (!result)
		result = wait_once(&c, deadline);
	return !result && e.closed ? -EBADF : result;
}

/* Returns the number of ready fds, or an error. */
static int poll_wait_any(struct poll_call *c, int64_t deadline)
{
	for (nfds_t i = 0; i < c->wait.n; i++)
		c->wait.entries[i] =
			(struct multi_entry){ .of = &c->wait.multi,
					      .seen = multi_look(netpoll_find(c->fds[i].fd)),
					      .events = c->fds[i].events,
					      .since = NEVER };
	for (;;) {
		int result = poll_kernel_again(c);

		if (!result)
			result = too_late(deadline);
		if (!result)
			result = wait_once(c, deadline);
		if (result)
			return result;
	}
}

static noinline int wait_few(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	struct multi_entry entries[ON_STACK];
	struct poll_call c = { .wait = { .entries = entries, .n = n }, .fds = fds };

	return poll_wait_any(&c, deadline);
}

static noinline int wait_many(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	struct multi_entry *entries = malloc(n * sizeof(*entries));
	struct poll_call c = { .wait = { .entries = entries, .n = n, .memory = entries },
			       .fds = fds };
	int result = entries ? poll_wait_any(&c, deadline) : -ENOMEM;

	free(entries);
	return result;
}

/* --- the call --- */

static bool has_fd(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			return true;
	return false;
}

static int wait_inside(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	int result = too_late(deadline);

	if (result)
		return result;
	if (!has_fd(fds, n)) { /* sleep until the deadline */
		result = gmp_sleep_until(deadline);
		return result ? result : -ETIMEDOUT;
	}
	return n <= ON_STACK ? wait_few(fds, n, deadline) : wait_many(fds, n, deadline);
}

int gmp_poll(struct pollfd *fds, nfds_t n, int64_t deadline)
{
	bool external = !self_green();

	if ((uint64_t)n > UINT32_MAX) /* poll(2) would see the low 32 bits alone */
		return -EINVAL;
	if (n && !fds)
		return -EFAULT;
	cancel_hold();
	self_checkpoint(); /* fds that are always ready must not starve other Gs of the P */
	int result = poll_kernel(fds, n);

	if (result == 0 && !(external && !has_fd(fds, n)) && rt_enter()) {
		result = wait_inside(fds, n, deadline);
		rt_leave();
		if (external && result == -ESRCH)
			result = sleep_in_poll(fds, n, deadline);
	} else if (result == 0) {
		result = sleep_in_poll(fds, n, deadline);
	} /* otherwise POLL-4 */
	cancel_release();
	return result;
}
