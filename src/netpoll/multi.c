/* SPDX-License-Identifier: MIT */
/*
 * Waits of gmp_poll: one waiter, linked with the records of several fds.
 *
 * An fd that gmp knows has its registration, edge-triggered for both directions.  Any other gets
 * one for polls (pd->polled): one-shot, for the events that the linked entries ask for.  It stays
 * in epoll until the fd is closed, and costs nothing while no call is armed.  Arming is a system
 * call for each wait.
 *
 *   the call (io/poll.c)                             an event, an adoption, a close
 *    1 multi_look: seen = events of the sides,        1 lock pd
 *       closes of the number                          2 events + 1 (NETPOLL-1), or closes + 1
 *    2 poll(2) without waiting, or the attempt of     3 for each entry that asks for it:
 *       a replaced call: ready? return                   lock multi; fired = true; claim the waiter
 *    3 for each fd, multi_link:                          (only the first does); unlock multi
 *       lock pd; seen has changed? MULTI_AGAIN        4 unlock pd; make the claimed runnable
 *       unless registered and known:
 *         arm: EPOLL_CTL_MOD, or ADD
 *       link; unlock pd
 *    4 lock multi; fired? go to 6
 *    5 park; the commit step unlocks multi
 *    6 unlink all entries; from 1
 *
 * Verified by model/multi.pml.
 *
 * Invariants
 *   MULTI-1  No lost wakeup.  An event after 1, or a shutdown for which the kernel reports none
 *            (netpoll_shut_down), changes the count, so that 3 sees it, or finds the entry linked.
 *            Of a file that gmp does not know, arming also reports what is ready by then.
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
 *   MULTI-7  If the number was closed, or got another file, by a replaced call
 *            (netpoll_close_number) after the first 1, the wait ends as if it had been linked by
 *            then, although the number may have another file by 3.
 *   MULTI-9  Fairness: the entries of a record are in the order of `since`, the newest first.
 *            They are fired from the oldest on, so the read that has waited for longest is made
 *            runnable first.  A read that gets nothing is linked again with its former time.  A
 *            read that begins meanwhile may attempt before them.
 *
 * Rejected: an epoll instance per call (n registrations to make and to take away each time, 1 us
 * each); a thread in poll(2) as blocking code (one per call, which cannot be cancelled);
 * persistent registrations (events for an fd without a waiter, while its library works by itself;
 * of replaced reads: posix/io/wait.c); one flag for "an event came" in place of the counts, which a
 * waiter clears before its attempt (a second waiter that has attempted before the event then parks
 * beside data that the first leaves).
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

static bool has_changed(const struct multi_entry *e, const struct polldesc *pd)
{
	return pd->side[SIDE_READ].events != e->seen.events[SIDE_READ] ||
	       pd->side[SIDE_WRITE].events != e->seen.events[SIDE_WRITE];
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
	if (unlikely(pd->closes != e->seen.closes))
		e->closed = true; /* MULTI-7 */
	if (unlikely(e->closed || has_changed(e, pd)))
		return MULTI_AGAIN;
	/* if a close is under way, multi_forgotten fires the entry */
	if (!(ld_rlx(&pd->use) & PD_CLOSING) && !(is_known(pd) && netpoll_ask(pd) == -EEXIST)) {
		int err = netpoll_arm(pd, all_events(pd, e), out);

		if (unlikely(err) && !is_never_ready(e, err))
			return is_race(err) ? MULTI_AGAIN : err;
	}
	link_locked(e, pd);
	return MULTI_LINKED;
}

int multi_link(struct multi_entry *e, int fd, struct glist *out)
{
	struct polldesc *pd = netpoll_record(fd);

	if (unlikely(!pd))
		return -ENOMEM;
	lock(&pd->lock, LR_POLLDESC);
	int result = link_in_record(e, pd, out);

	unlock(&pd->lock, LR_POLLDESC);
	return result;
}
