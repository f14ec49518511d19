/* SPDX-License-Identifier: MIT */
/* Ps, and what a run allocates; see proc.h. */
#include "proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "base/rand.h"
#include "g.h"
#include "netpoll/record.h"
#include "runq.h"
#include "timer/timerheap.h"
#include "variant/variant.h"

struct sched sched;

/* --- P --- */

/* TIMER-4: a timer of each G, and those of fds. */
static uint32_t timer_limit(void)
{
	return sched.options.c.max_green + DEADLINES_MAX;
}

static void p_delete(struct p *pp)
{
	timers_fini(&pp->timers);
	free(pp->victims);
	free(pp);
}

static struct p *p_new(int id)
{
	struct p *pp = aligned_alloc(CACHE_LINE, round_up(sizeof(*pp), CACHE_LINE));

	if (!pp)
		return NULL;
	memset(pp, 0, sizeof(*pp));
	pp->victims = malloc(PROCS_MAX * sizeof(*pp->victims));
	if (!pp->victims || timers_init(&pp->timers, timer_limit()) ||
	    stackcache_init(&pp->stacks)) {
		p_delete(pp);
		return NULL;
	}
	pp->id = id;
	pp->sample_in = 1;
	pp->watched.since = NEVER;
	st_rlx(&pp->status, P_RETIRED);
	variant_p_init(pp);
	pp->rand = rand_start(sched.options.c.seed, (uint64_t)id);
	return pp;
}

/* The list of idle Ps, under sched.lock.  pidle_del leaves the status to its caller. */

struct p *pidle_get(void)
{
	struct p *pp = sched.pidle;

	if (!pp)
		return NULL;
	sched.pidle = pp->link;
	pp->link = NULL;
	st_rlx(&pp->status, P_RUNNING);
	st_rlx(&sched.npidle, sched.npidle - 1);
	return pp;
}

void pidle_put(struct p *pp)
{
	st_rlx(&pp->m, (struct m *)NULL);
	st_rlx(&pp->status, P_IDLE);
	pp->link = sched.pidle;
	sched.pidle = pp;
	st_seq(&sched.npidle, sched.npidle + 1); /* ORD(idle): before the queues are re-checked */
}

void pidle_del(struct p *pp)
{
	for (struct p **at = &sched.pidle; *at; at = &(*at)->link) {
		if (*at != pp)
			continue;
		*at = pp->link;
		pp->link = NULL;
		st_rlx(&sched.npidle, sched.npidle - 1);
		return;
	}
}

void p_flush(struct p *pp)
{
	stackcache_flush(&pp->stacks);
	gfree_spill(pp, 0);
	owntls_flush(pp);
}

void p_empty_locked(struct p *pp)
{
	struct g *gp = runnext_swap(pp, NULL);

	if (gp)
		gq_put(gp);
	while ((gp = runq_get(pp)))
		gq_put(gp);
	runq_flush_yielded_locked(pp);
}

void p_idle_locked(struct p *pp)
{
	p_empty_locked(pp);
	if (ld_rlx(&pp->attention) & ATTENTION_RETIRE) {
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_RETIRE);
		st_rlx(&pp->m, (struct m *)NULL);
		st_rlx(&pp->status, P_RETIRED); /* its caches stay; other Ps run its timers */
	} else {
		pidle_put(pp);
	}
}

/*
 * Runs on g0 of pp's M, with no locks held.  The Gs of pp go to the global queue and its timers to
 * P 0 even if it returns false.  If it returns true, the M has no P: it wakes an M for the Gs, and
 * the poller for the timers.
 */
bool p_retire(struct p *pp)
{
	lock(&sched.lock, LR_SCHED);
	p_empty_locked(pp);
	unlock(&sched.lock, LR_SCHED);
	p_flush(pp);
	timers_move(pp, sched.allp[0]);
	lock(&sched.lock, LR_SCHED);
	/* PROC-2: p_revive may have cleared the bit.  Once RETIRED, pp may get another M */
	bool still = ld_rlx(&pp->attention) & ATTENTION_RETIRE;

	if (still) {
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_RETIRE);
		st_rlx(&pp->m, (struct m *)NULL);
		st_rlx(&pp->status, P_RETIRED);
	}
	unlock(&sched.lock, LR_SCHED);
	return still;
}

/* Under sched.lock: pp is one of procs again. */
static void p_revive(struct p *pp)
{
	if (ld_rlx(&pp->status) == P_RETIRED)
		pidle_put(pp);
	else
		and_rlx(&pp->attention, ~(uint32_t)ATTENTION_RETIRE);
}

/* Under sched.lock: pp is beyond procs.  Returns true if it was idle, so that the caller moves its
 * timers.  Otherwise the M that has pp, or gets it from blocking code, retires it at its next step
 * of the scheduler or checkpoint; a G that computes keeps pp until then. */
static bool p_dismiss(struct p *pp)
{
	uint32_t status = ld_rlx(&pp->status);

	if (status == P_IDLE) {
		pidle_del(pp);
		st_rlx(&pp->status, P_RETIRED);
		return true;
	}
	if (status != P_RETIRED)
		or_rlx(&pp->attention, ATTENTION_RETIRE);
	return false;
}

/* Under sched.lock: thieves may come from now on.  The owner of a P in use has moved head by plain
 * stores, so it opens the P itself. */
static void p_share(struct p *pp)
{
	if (ld_rlx(&pp->open)) /* never reset */
		return;
	uint32_t status = ld_rlx(&pp->status);

	if (status != P_IDLE && status != P_RETIRED)
		or_rlx(&pp->attention, ATTENTION_SHARE);
	else
		p_open(pp); /* its queue is empty */
}

/* Serializes changes of the number of Ps.  It comes before sched.lock, and so do the locks of the
 * timer heaps: no thread moves timers under sched.lock. */
static struct lock resizing;

/* Under sched.lock, after gfree_set_keep.  Running Ps trim their caches when they free a G. */
static void gfree_spill_idle(void)
{
	for (struct p *pp = sched.pidle; pp; pp = pp->link)
		gfree_trim(pp);
}

/* Under `resizing`: make RETIRED Ps until there are n Ps.  Returns 0 or -ENOMEM. */
static int p_make_up_to(int n)
{
	for (int i = sched.nallp; i < n; i++) {
		struct p *pp = p_new(i);

		if (!pp)
			return -ENOMEM;
		sched.allp[i] = pp;
		st_rel(&sched.nallp, i + 1); /* ORD(allp): the P before its number */
	}
	return 0;
}

/* Under `resizing`: dismiss the Ps from first to end - 1.  first > 0: P 0 gets the timers. */
static void p_dismiss_from(int first, int end)
{
	static struct p *leaving[PROCS_MAX]; /* too large for the stack of a G */
	int nleaving = 0;

	lock(&sched.lock, LR_SCHED);
	for (int i = first; i < end; i++)
		if (p_dismiss(sched.allp[i]))
			leaving[nleaving++] = sched.allp[i];
	unlock(&sched.lock, LR_SCHED);
	for (int i = 0; i < nleaving; i++) {
		p_flush(leaving[i]);
		timers_move(leaving[i], sched.allp[0]);
	}
}

int procs_resize(int n, bool *fresh)
{
	int old;

	lock(&resizing, LR_START);
	if (p_make_up_to(n)) {
		unlock(&resizing, LR_START);
		return -ENOMEM;
	}
	gfree_set_keep(n);
	lock(&sched.lock, LR_SCHED);
	gfree_spill_idle();
	old = sched.procs;
	st_rlx(&sched.procs, n);
	for (int i = 0; i < sched.nallp && n > 1; i++)
		p_share(sched.allp[i]);
	for (int i = old; i < n; i++)
		p_revive(sched.allp[i]);
	unlock(&sched.lock, LR_SCHED);
	p_dismiss_from(n, old);
	unlock(&resizing, LR_START);
	emit(EVENT_PROCS, 0, (uint64_t)n, 0, 0);
	*fresh = n > old;
	return old;
}

/* --- blocking code --- */

static bool is_long(uint32_t status)
{
	return (status & (P_STATUS_MASK | P_LONG)) == (P_BLOCKED | P_LONG);
}

bool p_any_is_long(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++)
		if (is_long(ld_rlx(&sched.allp[i]->status)))
			return true;
	return false;
}

struct p *p_take_blocked_locked(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t status = ld_rlx(&pp->status);

		if (is_long(status) &&
		    cas_acq(&pp->status, &status, (uint32_t)P_RUNNING)) { /* ORD(p.blocked) */
			add_rlx(&sched.total.handoffs, 1);
			emit(EVENT_HANDOFF, 0, (uint64_t)pp->id, 0, 0);
			st_rlx(&sched.nblocked, sched.nblocked + 1);
			return pp;
		}
	}
	return NULL;
}

/* --- begin and end --- */

void sched_reset(void)
{
	size_t kept = offsetof(struct sched, run); /* external threads read the part before it */

	memset((char *)&sched + kept, 0, sizeof(sched) - kept);
	sched.poll_until = INT64_MIN;
}

void proc_forget(void)
{
	allgs_forget();
	timers_forget();
	resizing = (struct lock){ 0 };
	stack_forget();
}

/* Reserve address space for max_green Gs, and make the Ps.  Returns 0 or -errno. */
static int proc_try(uint32_t max_green)
{
	gmp_config *c = &sched.options.c;
	bool fresh;
	int err;

	c->max_green = max_green;
	timers_set_places(max_green);
	err = allgs_init(max_green);
	if (err)
		return err;
	err = gq_init(max_green);
	sched.stack_class = log2_ceil(c->stack_size);
	if (!err)
		err = stack_init(max_green + PROCS_MAX * STACK_CACHE + 1024, sched.stack_class);
	stack_limit(c->max_stack_memory);
	if (!err)
		err = procs_resize(c->procs, &fresh);
	return err < 0 ? err : 0;
}

/* Use the max_green of the options, or less if address space is short: then a quarter of what fits,
 * since stacks need most of the space, and the program some too. */
int proc_init(void)
{
	uint32_t want = sched.options.c.max_green, least = min_of(want, 1024u);
	bool shrunk = false;
	int err;

#ifdef SAN_THREAD
	/* the sanitizer clears its shadow of every mapping, at each start and end */
	want = min_of(want, 1u << 17);
#endif
	while ((err = proc_try(want)) == -ENOMEM && !stack_lock_refused() && want / 2 >= least) {
		proc_fini();
		want /= 2;
		shrunk = true;
	}
	if (!err && shrunk) {
		proc_fini();
		err = proc_try(max_of(want / 4, least));
	}
	return err;
}

void proc_fini(void)
{
	for (int i = 0; i < sched.nallp; i++)
		p_delete(sched.allp[i]);
	sched.nallp = sched.procs = sched.npidle = 0;
	sched.pidle = NULL;
	stack_fini();
	gq_fini();
	allgs_fini();
}
