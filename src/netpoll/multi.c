/* SPDX-License-Identifier: MIT */
/*
 * Waits of gmp_poll: one waiter, linked with the records of several fds.
 *
 * An fd that gmp knows has its registration, edge-triggered for both directions.  Any other gets
 * one for polls (pd->polled): one-shot, for the events that the linked entries ask for.  It stays
 * in epoll until the fd is closed, and costs nothing while no call is armed.  Arming is a system
 * call for each wait.  So a read of a stream socket or a pipe (multi_link_read) makes it a
 * persistent one, edge-triggered for reads; any other wait for the fd makes it one-shot again.
 *
 *   the call (io/poll.c)                             an event, an adoption, a close
 *    1 multi_look: seen = events of the sides         1 lock pd
 *    2 poll(2) without waiting: ready? return         2 events + 1 (NETPOLL-1)
 *    3 for each fd, multi_link:                       3 for each entry that asks for it:
 *       lock pd                                          lock multi; fired = true; claim the waiter
 *       registered and known: events == seen?            (only the first does); unlock multi
 *         no: MULTI_AGAIN                             4 unlock pd; make the claimed runnable
 *       else arm: EPOLL_CTL_MOD, or ADD
 *       link; unlock pd
 *    4 lock multi; fired? go to 6
 *    5 park; the commit step unlocks multi
 *    6 unlink all entries; from 1
 *
 * Verified by model/multi.pml and persistent.pml.
 *
 * Invariants
 *   MULTI-1  No lost wakeup.  Of a known fd, an event after 1 changes the count, so that 3 sees it,
 *            or finds the entry linked.  Of another one, arming reports what is ready by then; if
 *            its registration is persistent, the count is compared, too.
 *   MULTI-2  `fired` changes from false to true once, under multi.lock, before the claim.  A claim
 *            before step 5 fails, since the waiter is not armed, and step 4 sees `fired`.
 *   MULTI-3  The call returns only after step 6: it took pd->lock of each entry after it was
 *            claimed, so no waker still uses multi or an entry.
 *   -        An entry takes no token (NETPOLL-3) and is in no queue of a side: the order of readers
 *            and writers is theirs alone.  All entries are fired, as readiness is not used up by a
 *            poll.
 *   MULTI-5  pd->polled is POLLED_NOT unless the registration that pd->seq names is for polls.
 *            No side's waiter may park on such a one: netpoll_renew makes it an edge-triggered one
 *            for both directions first.
 *   MULTI-6  e->all includes the events of e and of all entries behind it that are not fired.  So
 *            arming takes the same time for any number of entries.  It may include events of
 *            entries that were unlinked.  These cost one event that nothing waits for: an event of
 *            a one-shot registration fires all entries, and clears `all` of each.
 *   MULTI-9  Fairness: the entries of a record are in the order of `since`, the newest first.
 *            They are fired from the oldest on, so the read that has waited for longest is made
 *            runnable first.  A read that gets nothing is linked again with its former time.  A
 *            read that begins meanwhile may attempt before them.
 *
 * Rejected: an epoll instance per call (n registrations to make and to take away each time, 1 us
 * each); a thread in poll(2) as blocking code (one per call, which cannot be cancelled);
 * persistent registrations for gmp_poll (events for an fd without a waiter, while its library works
 * by itself); one flag for "an event came" in place of the counts, which a waiter clears before its
 * attempt (a second waiter that has attempted before the event then parks beside data that the
 * first leaves).
 */
#include "netpoll/multi.h"

#include <errno.h>
#include <poll.h>

#include "netpoll/netpoll.h"

/* --- linking --- */

/* MULTI-6: at least the events that this entry and those of the record ask for. */
static short all_events(const struct polldesc *pd, const struct multi_entry *e)
{
	return (short)(e->events | (pd->entries ? pd->entries->all : 0));
}

static void link_locked(struct multi_entry *e, struct polldesc *pd)
{
	struct multi_entry *newer = NULL, *next = pd->entries;

	for (; unlikely(next && next->since > e->since); next = next->next) {
		next->all |= e->events; /* MULTI-6 */
		newer = next;
	}
	e->all = (short)(e->events | (next ? next->all : 0));
	e->pd = pd;
	e->prev = newer;
	e->next = next;
	if (next)
		next->prev = e;
	if (unlikely(newer != NULL))
		newer->next = e;
	else
		st_rlx(&pd->entries, e);
	st_rlx(&pd->multi, true);
}

void multi_unlink(struct multi_entry *e)
{
	struct polldesc *pd = e->pd;

	if (!pd)
		return;
	lock(&pd->lock, LR_POLLDESC);
	if (e->prev)
		e->prev->next = e->next;
	else
		st_rlx(&pd->entries, e->next);
	if (e->next)
		e->next->prev = e->prev;
	st_rlx(&pd->multi, pd->entries != NULL);
	unlock(&pd->lock, LR_POLLDESC);
	e->pd = NULL;
}

void multi_look(struct multi_entry *e, int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	for (int i = 0; i < 2; i++)
		e->seen[i] = pd ? ld_acq(&pd->side[i].events) : 0; /* ORD(pd.events) */
}

static bool has_changed(const struct multi_entry *e, const struct polldesc *pd)
{
	return pd->side[SIDE_READ].events != e->seen[SIDE_READ] ||
	       pd->side[SIDE_WRITE].events != e->seen[SIDE_WRITE];
}

/* Is the record's file opened or adopted, pollable, and was it still the number's at the last
 * check? */
static bool is_known(struct polldesc *pd)
{
	return ld_rlx(&pd->use) & PD_OPEN && !ld_rlx(&pd->file) && !pd->polled;
}

/* A file that cannot be polled, of which no event is asked for that poll(2) always reports: only a
 * close ends the wait. */
static bool is_never_ready(const struct multi_entry *e, int err)
{
	return err == -EPERM && !(e->events & (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM));
}

/* Race: the number was closed or opened since the poll(2). */
static bool is_race(int err)
{
	return err == -EBADF || err == -EPERM || err == -ENOENT || err == -EEXIST;
}

static int link_in_record(struct multi_entry *e, struct polldesc *pd, struct glist *out)
{
	int err = -EEXIST;

	if (ld_rlx(&pd->use) & PD_CLOSING) {
		link_locked(e, pd); /* multi_forgotten fires it */
		return MULTI_LINKED;
	}
	if (is_known(pd) && netpoll_ask(pd) == -EEXIST) {
		if (has_changed(e, pd))
			return MULTI_AGAIN;
	} else {
		err = netpoll_arm(pd, all_events(pd, e), out);
		if (err && !is_never_ready(e, err))
			return is_race(err) ? MULTI_AGAIN : err;
	}
	link_locked(e, pd);
	return MULTI_LINKED;
}

int multi_link(struct multi_entry *e, int fd, struct glist *out)
{
	struct polldesc *pd = netpoll_record(fd);

	if (!pd)
		return -ENOMEM;
	lock(&pd->lock, LR_POLLDESC);
	int result = link_in_record(e, pd, out);

	unlock(&pd->lock, LR_POLLDESC);
	return result;
}

int multi_link_unknown(struct multi_entry *e, int fd, struct glist *out)
{
	struct polldesc *pd = netpoll_record(fd);

	if (unlikely(!pd))
		return -ENOMEM;
	lock(&pd->lock, LR_POLLDESC);
	int result = MULTI_AGAIN;

	if (likely(!(ld_rlx(&pd->use) & PD_OPEN)))
		result = netpoll_arm(pd, all_events(pd, e), out);
	if (likely(!result))
		link_locked(e, pd);
	unlock(&pd->lock, LR_POLLDESC);
	return result;
}

/* --- reads: persistent registrations --- */

/*
 *   a read (posix/io/wait.c)                         an event of a persistent registration
 *    1 seen = events of the read side                 1 lock pd
 *    2 attempt: EAGAIN                                2 events + 1
 *    3 lock pd; persistent, for this file?            3 fire all entries; if there was none for
 *       yes, and events != seen: unlock pd, from 1       UNWANTED_MOST events: make it one-shot,
 *       no: make it persistent (one-shot if entries      not armed
 *         ask for more): reports what is ready        4 unlock pd; make the claimed runnable
 *    4 link; unlock pd; wait; unlink; from 1
 *
 *   MULTI-7  While pd->polled is POLLED_PERSISTENT, the linked entries that are not fired ask for
 *            POLLIN alone, or wait for the close of a file that cannot be polled.  The registration
 *            is of the socket with the id pd->socket, which no other has.  So a caller that finds
 *            the same id under the number has the registered socket; a caller that does not compare
 *            it waits for a short time.
 *   -        The id is read before the registration is made, and again after it: if the number has
 *            another socket then, pd->socket becomes NO_SOCKET.  (Not noticed: between the two, raw
 *            calls give the number another socket, and dup2 gives it the first one back.)  A file
 *            without an id, such as a pipe, never counts as the registered one: a caller that
 *            compares arms the registration again, which reports what is ready.
 *   MULTI-8  side[SIDE_READ].drained is the count that a reader read before a short read.  While
 *            it is equal to the count, and the peer has not hung up (pd->hup), one of these holds:
 *            the file is empty; the kernel has an event that is not counted yet; the registration
 *            is not persistent, and linking makes it so.  So a reader may link without an attempt.
 *   -        This does not hold for reads that end at a message (descriptors, another sender of a
 *            unix socket, a packet of a pipe) or for data below SO_RCVLOWAT.  So such a wait is
 *            short, and if it expires although there is data, hup is set: reads attempt first
 *            until the next registration.
 */

/* Is the persistent registration that of the caller's file? */
static bool is_of_file(const struct polldesc *pd, uint64_t socket)
{
	return !socket || (socket == pd->socket && socket != NO_SOCKET);
}

/* Make the registration; entries that ask for more than POLLIN need a one-shot one (MULTI-7). */
static int begin_read(struct multi_entry *e, struct polldesc *pd, uint64_t socket,
		      struct glist *out)
{
	short all = all_events(pd, e);

	return all == POLLIN ? netpoll_arm_persistent(pd, socket, out) : netpoll_arm(pd, all, out);
}

static int link_read_in_record(struct multi_entry *e, struct polldesc *pd,
			       const struct multi_read *r, struct glist *out)
{
	int err = 0;

	if (unlikely(ld_rlx(&pd->use) & PD_OPEN))
		return MULTI_AGAIN;
	if (likely(pd->polled == POLLED_PERSISTENT && is_of_file(pd, r->socket))) {
		if (unlikely(r->seen != multi_seen(pd->fd)))
			return MULTI_CHANGED;
		pd->unwanted = 0;
	} else {
		err = r->begin ? begin_read(e, pd, r->socket, out) : MULTI_ABSENT;
	}
	if (likely(!err))
		link_locked(e, pd);
	return err;
}

int multi_link_read(struct multi_entry *e, int fd, const struct multi_read *r, struct glist *out)
{
	struct polldesc *pd = netpoll_record(fd);

	if (unlikely(!pd))
		return -ENOMEM;
	lock(&pd->lock, LR_POLLDESC);
	int result = link_read_in_record(e, pd, r, out);

	unlock(&pd->lock, LR_POLLDESC);
	return result;
}

void multi_forget_socket(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	lock(&pd->lock, LR_POLLDESC);
	pd->socket = NO_SOCKET;
	unlock(&pd->lock, LR_POLLDESC);
}
