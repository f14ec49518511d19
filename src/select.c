/* SPDX-License-Identifier: MIT */
/*
 * Select: waits on several channels at once, and performs exactly one of the operations.
 *
 *  the selecting thread                             a peer, on any of the channels
 *   1 lock all channels, each once, in the order     1 lock its channel
 *     of their addresses                             2 claim the waiter of the first sudog in the
 *   2 list the ready cases; if there are any,          queue; if the claim is lost, dequeue the
 *     run one at random, unlock all, ready the         sudog and try the next
 *     peer and return                                3 dequeue the sudog, mark it `chosen`, and
 *   3 enqueue a sudog for each case                    move the element
 *   4 wait_on: on g0, arm and unlock all             4 unlock, ready the waiter
 *   5 resumed: dequeue the sudogs that are still
 *     in a queue, under that channel's lock
 *   6 return the case of the chosen sudog, with
 *     status 0 or -EPIPE; without one, the error
 *
 * Invariants
 *  SELECT-1  All sudogs have one waiter, so exactly one claim wins (park.h): a peer or the close of
 *            one channel, the timeout, a cancellation or shutdown.  Only a peer or a close sets
 *            `chosen`.
 *  SELECT-2  The sudogs are on the stack of the waiting thread, or allocated (CASES_ON_STACK).  The
 *            call returns only after step 5 for each of them; then no peer uses one, since peers
 *            claim before they dequeue.
 *  SELECT-3  Step 4 reads the list of locks, which lives as long, while the first channels are
 *            already unlocked and the waiter may run.  The waiter cannot complete step 5 before
 *            the last lock is dropped, since each lock protects one of its sudogs.  A select
 *            without a channel has no lock, and step 4 does not read the list.
 *  SELECT-4  From step 1 to step 4 all channels are locked: the check of the cases and the
 *            enqueueing are one critical section.  If two selects match on several channels, the
 *            second finds the first enqueued: they exchange at most once, and do not deadlock.  A
 *            select never exchanges with itself, since it checks before it enqueues.
 *
 * Fairness between cases: one of the ready cases is drawn with all locks held; if only one is
 * ready, no number is drawn.  If the peer of a ready case turns out to be claimed elsewhere, the
 * case is removed from the list.  Cases that wait on one channel become ready together: the peer
 * draws among their sudogs (chan.c:pick_duplicate).
 */
#include <errno.h>
#include <stdlib.h>

#include "chan.h"
#include "park.h"
#include "variant/variant.h"

enum { CASES_ON_STACK = 64 }; /* with more cases the arrays are allocated */

struct selection {
	struct sudog *sudogs; /* one for each case */
	gmp_chan **locks;     /* the channels, by address, each once */
	uint32_t *ready;      /* indices of ready cases */
	unsigned n, nlocks;   /* cases; entries of locks */
	int duplicates;       /* HAS_DUPLICATES if a channel is in several cases, otherwise 0 */
	void *memory;         /* allocated for the arrays; NULL: they are on the stack */
};

static size_t bytes_for(unsigned n)
{
	return n * (sizeof(struct sudog) + sizeof(gmp_chan *) + sizeof(uint32_t));
}

static void selection_init(struct selection *sel, void *memory, unsigned n)
{
	sel->n = n;
	sel->sudogs = memory;
	sel->locks = (gmp_chan **)(sel->sudogs + n);
	sel->ready = (uint32_t *)(sel->locks + n);
}

/* --- all locks --- */

static int compare_addresses(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	if (x == y)
		return 0;
	return x < y ? -1 : 1;
}

/* Insertion sort: the fastest for few cases. */
static void list_locks_insertion(struct selection *sel, const gmp_case *cases)
{
	unsigned n = 0, at;

	for (unsigned i = 0; i < sel->n; i++) {
		gmp_chan *c = cases[i].c;

		if (!c)
			continue;
		for (at = n; at > 0 && (uintptr_t)sel->locks[at - 1] > (uintptr_t)c; at--)
			;
		if (at > 0 && sel->locks[at - 1] == c) {
			sel->duplicates = HAS_DUPLICATES;
			continue;
		}
		for (unsigned k = n++; k > at; k--)
			sel->locks[k] = sel->locks[k - 1];
		sel->locks[at] = c;
	}
	sel->nlocks = n;
}

static void list_locks_qsort(struct selection *sel, const gmp_case *cases)
{
	unsigned n = 0, unique = 0;

	for (unsigned i = 0; i < sel->n; i++)
		if (cases[i].c)
			sel->locks[n++] = cases[i].c;
	qsort(sel->locks, n, sizeof(*sel->locks), compare_addresses);
	for (unsigned i = 0; i < n; i++)
		if (unique == 0 || sel->locks[unique - 1] != sel->locks[i])
			sel->locks[unique++] = sel->locks[i];
	sel->nlocks = unique;
	sel->duplicates = unique < n ? HAS_DUPLICATES : 0;
}

static void lock_all(struct selection *sel)
{
	for (unsigned i = 0; i < sel->nlocks; i++)
		lock(&sel->locks[i]->lock, LR_CHAN);
}

/* SELECT-3: does not read *sel after the last unlock. */
static void unlock_all(void *arg)
{
	struct selection *sel = arg;
	gmp_chan **locks = sel->locks;

	for (unsigned i = sel->nlocks; i-- > 0;)
		unlock(&locks[i]->lock, LR_CHAN);
}

/* --- ready cases --- */

static unsigned list_ready(struct selection *sel, const gmp_case *cases)
{
	unsigned k = 0;

	for (unsigned i = 0; i < sel->n; i++) {
		const gmp_chan *c = cases[i].c;

		if (c && (cases[i].dir == GMP_SEND ? chan_may_send(c) : chan_may_recv(c)))
			sel->ready[k++] = i;
	}
	return k;
}

/* Step 2.  Returns the index of the case that ran, or -1. */
static int run_ready_case(struct selection *sel, gmp_case *cases, struct sudog **peer)
{
	unsigned k = list_ready(sel, cases);

	while (k > 0) {
		unsigned at = k == 1 ? 0 : chan_draw(k), i = sel->ready[at];
		gmp_case *cs = &cases[i];
		int result = cs->dir == GMP_SEND ? chan_send_locked(cs->c, cs->elem, peer)
						 : chan_recv_locked(cs->c, cs->elem, peer);

		if (likely(result != MUST_WAIT)) {
			cs->status = result;
			return (int)i;
		}
		sel->ready[at] = sel->ready[--k];
	}
	return -1;
}

/* --- the wait --- */

/* Step 5. */
static void select_unlink_all(struct selection *sel)
{
	for (unsigned i = 0; i < sel->n; i++)
		chan_unlink(&sel->sudogs[i]);
}

/* Step 5 if the result is not 0, before the waiter resumes; or at shutdown, when w is killed. */
static void select_unwait(struct waiter *w)
{
	struct selection *sel = waiter_sudog(w)->elem;

	select_unlink_all(sel);
	if (waiter_killed(w)) /* select_many will not run again */
		free(sel->memory);
}

static int select_wait(struct selection *sel, gmp_case *cases, int64_t deadline)
{
	struct external f;
	struct sudog *self = self_sudog(&f); /* in no queue; `elem` leads to the others */

	self->elem = sel;
	self->key = NULL;
	for (unsigned i = 0; i < sel->n; i++) {
		struct sudog *sg = &sel->sudogs[i];

		sg->w = self->w;
		sg->chosen = sg->queued = false;
		sg->elem = cases[i].elem;
		sg->kind = (uint16_t)(sel->duplicates |
				      (cases[i].dir == GMP_SEND ? IN_SENDQ : IN_RECVQ));
		if (cases[i].c)
			chan_enqueue(cases[i].c, sg);
	}
	int result = sel->nlocks ? wait_on(self->w, WAIT_SELECT, select_unwait, unlock_all, sel,
					   deadline)
				 : wait_on(self->w, WAIT_SELECT_NONE, select_unwait, commit_none,
					   NULL, deadline); /* SELECT-3: *sel may be gone */

	if (result == 0) /* otherwise select_unwait has dequeued them */
		select_unlink_all(sel);
	for (unsigned i = 0; i < sel->n; i++) {
		if (sel->sudogs[i].chosen) {
			cases[i].status = result;
			return (int)i;
		}
	}
	return result;
}

unsigned select_ops(const struct g *gp, struct select_op *out, unsigned most)
{
	const struct selection *sel = gp->sudog.elem;
	unsigned n = 0;

	for (unsigned i = 0; i < sel->n; i++) {
		const struct sudog *sg = &sel->sudogs[i];

		if (!ld_rlx(&sg->queued))
			continue; /* a case without a channel: no peer dequeues while gp is held */
		if (n < most)
			out[n] = (struct select_op){ sg->key, sg->kind & IN_SENDQ };
		n++;
	}
	return n;
}

/* --- the calls --- */

/* What a call does if no case is ready. */
enum select_mode { WAIT, TRY };

static int select_run(struct selection *sel, gmp_case *cases, enum select_mode mode,
		      int64_t deadline)
{
	struct sudog *peer = NULL;

	if (sel->n <= CASES_ON_STACK)
		list_locks_insertion(sel, cases);
	else
		list_locks_qsort(sel, cases);
	lock_all(sel);
	int ran = run_ready_case(sel, cases, &peer);

	if (ran < 0) {
		ran = mode == TRY ? -EAGAIN : too_late(deadline);
		if (!ran)
			return select_wait(sel, cases, deadline);
	}
	unlock_all(sel);
	if (peer)
		ready(peer->w);
	return ran;
}

static noinline int select_few(gmp_case *cases, unsigned n, enum select_mode mode, int64_t deadline)
{
	struct selection sel = { .memory = NULL };

	selection_init(&sel, __builtin_alloca(bytes_for(n)), n);
	return select_run(&sel, cases, mode, deadline);
}

static noinline int select_many(gmp_case *cases, unsigned n, enum select_mode mode,
				int64_t deadline)
{
	struct selection sel = { .memory = malloc(bytes_for(n)) };

	if (!sel.memory)
		return -ENOMEM;
	selection_init(&sel, sel.memory, n);
	int result = select_run(&sel, cases, mode, deadline);

	free(sel.memory);
	return result;
}

/* A select of one case is a call of that channel. */
static int select_one(gmp_case *cs, enum select_mode mode, int64_t deadline)
{
	int result;

	if (cs->dir == GMP_SEND)
		result = mode == TRY ? gmp_chan_try_send(cs->c, cs->elem)
				     : gmp_chan_send_until(cs->c, cs->elem, deadline);
	else
		result = mode == TRY ? gmp_chan_try_recv(cs->c, cs->elem)
				     : gmp_chan_recv_until(cs->c, cs->elem, deadline);
	if (result && result != -EPIPE)
		return result;
	cs->status = result;
	return 0;
}

static int check_cases(const gmp_case *cases, int n)
{
	if (n < 0 || (n > 0 && !cases))
		return -EINVAL;
	for (int i = 0; i < n; i++) {
		const gmp_case *cs = &cases[i];

		if (cs->dir != GMP_SEND && cs->dir != GMP_RECV)
			return -EINVAL;
		if (cs->dir == GMP_SEND && !cs->elem && cs->c && cs->c->size)
			return -EINVAL;
	}
	return 0;
}

static int do_select(gmp_case *cases, int n, enum select_mode mode, int64_t deadline)
{
	if (unlikely(check_cases(cases, n)))
		return -EINVAL;
	if (n == 1 && cases[0].c)
		return select_one(cases, mode, deadline);
	if (likely(n <= CASES_ON_STACK))
		return select_few(cases, (unsigned)n, mode, deadline);
	return select_many(cases, (unsigned)n, mode, deadline);
}

int gmp_select(gmp_case *cases, int n)
{
	chaos_point();
	return do_select(cases, n, WAIT, NEVER);
}

int gmp_select_until(gmp_case *cases, int n, int64_t deadline)
{
	chaos_point();
	return do_select(cases, n, WAIT, deadline);
}

int gmp_select_try(gmp_case *cases, int n)
{
	return do_select(cases, n, TRY, 0);
}
