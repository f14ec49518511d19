/* SPDX-License-Identifier: MIT */
/*
 * Waits of gmp_poll: one waiter, linked with the records of several fds.
 *
 * An fd that gmp knows has its registration, edge-triggered for both directions.  Any other gets
 * one for polls (pd->polled): one-shot, for the events that the linked entries ask for.  It stays
 * in epoll until the fd is closed, and costs nothing while no call is armed.
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
 * Verified by model/multi.pml.
 *
 * Invariants
 *   MULTI-1  No lost wakeup.  Of a known fd, an event after 1 changes the count, so that 3 sees it,
 *            or finds the entry linked.  Of another one, arming reports what is ready by then.
 *   MULTI-2  `fired` changes from false to true once, under multi.lock, before the claim.  A claim
 *            before step 5 fails, since the waiter is not armed, and step 4 sees `fired`.
 *   MULTI-3  The call returns only after step 6: it took pd->lock of each entry after it was
 *            claimed, so no waker still uses multi or an entry.
 *   MULTI-4  An entry takes no token (NETPOLL-3) and is in no queue of a side: the order of readers
 *            and writers is theirs alone.  All entries are fired, as readiness is not used up by a
 *            poll.
 *   MULTI-5  pd->polled is set if and only if the registration that pd->seq names is one-shot.
 *            Then no side's waiter may park on it: netpoll_renew makes it an edge-triggered one
 *            first.
 *   MULTI-6  e->all includes the events of e and of all entries behind it that are not fired.  So
 *            arming takes the same time for any number of entries.  It may include events of
 *            entries that were unlinked.  These cost one event that nothing waits for: an event of
 *            a one-shot registration fires all entries, and clears `all` of each.
 *
 * Rejected: an epoll instance per call (n registrations to make and to take away each time, 1 us
 * each); a thread in poll(2) as blocking code (one per call, which cannot be cancelled);
 * edge-triggered registrations for polled fds (events for an fd without a waiter, while its library
 * works by itself).
 */
#include "netpoll/multi.h"

#include <errno.h>
#include <poll.h>

#include "netpoll.h"

/* --- linking --- */

/* MULTI-6: at least the events that this entry and those of the record ask for. */
static short all_events(const struct polldesc *pd, const struct multi_entry *e)
{
	return (short)(e->events | (pd->entries ? pd->entries->all : 0));
}

static void link_locked(struct multi_entry *e, struct polldesc *pd)
{
	e->all = all_events(pd, e);
	e->pd = pd;
	e->prev = NULL;
	e->next = pd->entries;
	if (e->next)
		e->next->prev = e;
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
