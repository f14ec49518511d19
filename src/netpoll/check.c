/* SPDX-License-Identifier: MIT */
/*
 * Check of waits that have lasted: ends waits of fds that were closed by a plain close().
 *
 * The kernel drops the registration of such an fd without an event, so its waiters would wait
 * indefinitely.  If gmp opens or adopts the number again, they are woken then (netpoll_open,
 * netpoll_renew).  For the rest sysmon calls netpoll_check, which compares the registration with
 * the number's file.
 *
 *   sysmon                                          a waiter
 *    1 unlocked read: has a side a waiter?           1 lock pd, check seq, enqueue
 *    2 lock pd                                       2 unlock pd, park
 *    3 open, and the wait is old: EPOLL_CTL_ADD      woken with -ECANCELED
 *      EEXIST: registered, nothing to do
 *      0: another file has the number: undo it
 *      EBADF: the number is closed
 *    4 not registered: wake all with -ECANCELED
 *    5 unlock pd, make them runnable
 *
 * Invariants
 *  PCHECK-1  Steps 2 to 5 hold pd->lock: the waiters that are woken are those of the registration
 *            that was checked.  Adopting the number, gmp_close and gmp_fd_release take the lock
 *            before they change it.
 *  -         The record stays open: gmp_fd_wait finds a file that is opened later under the number.
 *  -         A waiter that step 1 overlooks is found by the next call: the caller comes again.
 *
 * Cost: a system call of about 0.3 us for each fd with a wait older than CHECK_YOUNG_NS.
 */
#include "netpoll/netpoll.h"

static bool has_waiter(struct polldesc *pd)
{
	return ld_rlx(&pd->side[SIDE_READ].head) || ld_rlx(&pd->side[SIDE_WRITE].head) ||
	       ld_rlx(&pd->multi);
}

/* Under pd->lock.  The age of an external thread's wait is not known: it is checked each time. */
static bool is_old(const struct pollside *s, int64_t now)
{
	const struct g *gp = s->head ? s->head->w->gp : NULL;

	return s->head && (!gp || now - ld_rlx(&gp->since) >= CHECK_YOUNG_NS);
}

/* Under pd->lock.  Has the record a registration that must belong to the number's file? */
static bool is_in_poller(struct polldesc *pd)
{
	return pd->polled ||
	       ((ld_rlx(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN && !ld_rlx(&pd->file));
}

static void check_record(struct polldesc *pd, int64_t now, struct glist *out)
{
	lock(&pd->lock, LR_POLLDESC);
	if (pd->polled) /* waiters of sides wait for a file that was closed before: MULTI-5 */
		netpoll_wake_all(pd, -ECANCELED, out);
	if (is_in_poller(pd) &&
	    (pd->multi || is_old(&pd->side[SIDE_READ], now) ||
	     is_old(&pd->side[SIDE_WRITE], now)) &&
	    !netpoll_is_registered(pd)) {
		netpoll_wake_all(pd, -ECANCELED, out);
		multi_event(pd, POLL_HUNG, 0, out);
	}
	unlock(&pd->lock, LR_POLLDESC);
}

uint32_t netpoll_check(uint32_t from, unsigned most, int64_t now, struct glist *out)
{
	uint32_t end = netpoll_end();

	for (uint32_t i = from; i < end; i++) {
		struct polldesc *pd = netpoll_find((int)i);

		if (!pd) {
			i |= POLL_CHUNK - 1; /* skip its chunk */
			continue;
		}
		if (!has_waiter(pd))
			continue;
		check_record(pd, now, out);
		if (--most == 0)
			return i + 1;
	}
	return 0;
}
