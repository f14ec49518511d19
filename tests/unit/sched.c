/* SPDX-License-Identifier: MIT */
/*
 * Tests that a P chooses the next G as src/sched.c and src/policy/pin.c describe. These are runs of
 * the whole runtime without sysmon, which would hide most faults after a millisecond. Hooks record
 * where thieves probe.
 *
 * floors 0..6, wrap: sysmon_start sysmon_stop runq_steal gq_get
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "ready.h"

#include <pthread.h>

#include "base/os.h"
#include "monitor/sysmon.h"
#include "park.h"
#include "proc.h"
#include "rt.h"
#include "runq.h"
#include "waiter.h"

int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);
struct g *__real_runq_steal(struct p *pp, struct p *victim, bool next);
struct g *__wrap_runq_steal(struct p *pp, struct p *victim, bool next);
struct g *__real_gq_get(struct p *pp, unsigned most);
struct g *__wrap_gq_get(struct p *pp, unsigned most);

int __wrap_sysmon_start(void)
{
	return 0;
}

void __wrap_sysmon_stop(void)
{
}

/* --- a spinning M, and an owner that makes progress: PICK-2 --- */

enum {
	PAUSES = 128,  /* between two probes in the end */
	SEARCHES = 50, /* number of searches of each kind */
};

static struct p *owner; /* (a) owner of a ring that the spinning M finds; its thread only waits */
static int ahead, pace; /* the number of Gs in the ring, and how many run between two probes */
/* (a) the G that each search finds at its end, so that the next search begins alike */
static struct g *found;
static bool begun;      /* (a) */
static uint64_t pauses; /* cpu_ticks for PAUSES */

/* State of the only spinning M: probes of the ring in this search; spins and time at its start. */
static int touched;
static uint64_t spins_before, began;

static int searches, untouched; /* (a) */
/* (a) searches that were not interrupted; of these, searches with few probes */
static int uninterrupted, backed_off;

/* The last probe of a search. Three of its probes came sooner than PAUSES. */
static void note_search(struct p *pp)
{
	uint64_t probes = pp->count.spins - spins_before, now = cpu_ticks();
	uint32_t spin_ticks = getm()->spin_ticks;

	if (began && now - began < 2 * spin_ticks) {
		add_seq(&backed_off, probes <= 8 + 2 * (spin_ticks / max_of(pauses, (uint64_t)1)));
		add_seq(&uninterrupted, 1);
	}
	if (began) {
		add_seq(&untouched, touched == 0);
		add_seq(&searches, 1);
	}
	spins_before = pp->count.spins;
	began = now;
	touched = 0;
}

/* Only the last probe asks for runnext, which must not change during the search. */
struct g *__wrap_runq_steal(struct p *pp, struct p *victim, bool next)
{
	struct g *gp = ld_seq(&found);

	if (victim != ld_seq(&owner))
		return __real_runq_steal(pp, victim, next);
	if (!next) {
		touched++;
		return NULL;
	}
	if (ld_seq(&begun))
		note_search(pp);
	if (!gp || !waiter_claim(&gp->w, 0))
		return NULL;
	g_set_status(gp, G_RUNNABLE);
	return gp;
}

/* Each probe begins here, since gqn is not 0: the owner has run some more Gs by then. */
struct g *__wrap_gq_get(struct p *pp, unsigned most)
{
	if (!ld_seq(&begun))
		return __real_gq_get(pp, most);
	for (int i = 0; i < pace; i++)
		runq_put(ld_seq(&owner), runq_get(ld_seq(&owner)));
	return NULL;
}

static void wait_in_found(void *arg)
{
	struct g *gp = getm()->curg;

	(void)arg;
	st_seq(&found, gp);
	for (;;)
		CHECK_EQ(wait_on(&gp->w, WAIT_SLEEP, NULL, commit_none, NULL, NEVER), 0);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* The M reads gqn without the lock: as long as `begun` is true gqn is not 0, so each probe has a
 * pace. */
static void set_gq_nonempty(bool yes)
{
	lock(&sched.lock, LR_SCHED);
	if (!yes)
		st_seq(&begun, false);
	st_seq(&sched.gqn, yes);
	st_seq(&sched.gqlen[LANE_EVENT], yes);
	if (yes)
		st_seq(&begun, true);
	unlock(&sched.lock, LR_SCHED);
}

static void own_a_ring(void *arg)
{
	(void)arg;
	if (sched.cpus == 1)
		check_skip("no M spins on one CPU");
	CHECK_EQ(gmp_go(wait_in_found, NULL), 0);
	while (!ld_seq(&found) || ld_seq(&found->w.state) != WAITER_ARMED)
		gmp_yield();
	st_seq(&owner, getp());
	while ((int)runq_len(owner) < ahead)
		CHECK_EQ(gmp_go(nothing, NULL), 0);
	set_gq_nonempty(true);
	while (ld_seq(&uninterrupted) < SEARCHES)
		os_yield();
	set_gq_nonempty(false);
	st_seq(&owner, (struct p *)NULL);
}

static void search(int n, int runs)
{
	ahead = n;
	pace = runs;
	touched = searches = untouched = uninterrupted = backed_off = 0;
	spins_before = began = 0;
	found = NULL;
	run_procs(2, own_a_ring, NULL);
}

TEST(steal_of_short_queue_waits_for_last_probe)
{
	for (int runs = 1; runs <= 50; runs *= 7) {
		search(4 * runs, runs);
		CHECK_EQ(untouched, searches);
	}
}

TEST(steal_of_long_queue_happens_at_first_probe)
{
	for (int runs = 0; runs <= 50; runs = 7 * runs + 1) {
		search(4 * runs + 1, runs);
		CHECK_EQ(untouched, 0);
	}
}

static uint64_t time_of_pauses(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t start = cpu_ticks();

		for (int k = 0; k < PAUSES; k++)
			cpu_relax();
		least = min_of(least, cpu_ticks() - start);
	}
	return max_of(least, (uint64_t)1);
}

TEST(steal_probes_back_off)
{
	check_skip_on_valgrind("Valgrind does not execute pause");
	pauses = time_of_pauses();
	search(4, 1);
	CHECK(backed_off > SEARCHES / 2);
}

/* --- pinned and unpinned Gs: PIN-2 --- */

enum { PINNED = 4 };

static struct g *parked[PINNED];
static int yields_before[PINNED]; /* yields of the unpinned Gs when each pinned G ran */
static int yields, ran;

static void wait_pinned(void *arg)
{
	struct g *gp = getm()->curg;

	CHECK_EQ(gmp_pin(), 0);
	parked[(intptr_t)arg] = gp;
	CHECK_EQ(wait_on(&gp->w, WAIT_SLEEP, NULL, commit_none, NULL, NEVER), 0);
	yields_before[ran++] = yields;
}

static void yield_until_pinned_ran(void *arg)
{
	(void)arg;
	while (ran < PINNED) {
		yields++;
		gmp_yield();
	}
}

/* As another P would that found the Gs in its ring. */
static void wake_pinned(void)
{
	struct m *m = getm();

	lock(&sched.lock, LR_SCHED);
	for (int i = 0; i < PINNED; i++) {
		CHECK(waiter_claim(&parked[i]->w, 0));
		g_set_status(parked[i], G_RUNNABLE);
		glist_push(&m->pinned, parked[i]);
	}
	or_rlx(&m->p->attention, ATTENTION_PINNED);
	unlock(&sched.lock, LR_SCHED);
}

static void wake_pinned_together(void *arg)
{
	(void)arg;
	for (intptr_t i = 0; i < PINNED; i++)
		CHECK_EQ(gmp_go(wait_pinned, (void *)i), 0);
	for (int i = 0; i < PINNED; i++)
		while (!parked[i] || ld_seq(&parked[i]->w.state) != WAITER_ARMED)
			gmp_yield();
	CHECK_EQ(gmp_go(yield_until_pinned_ran, NULL), 0);
	wake_pinned();
	yield_until_pinned_ran(NULL);
}

TEST(pinned_gs_woken_together_alternate_with_unpinned)
{
	run_procs(1, wake_pinned_together, NULL);
	for (int i = 1; i < PINNED; i++)
		CHECK(yields_before[i] > yields_before[i - 1]);
}

/* --- a P that is never empty --- */

enum { LONG = 1000 }; /* more switches than between two checks of the global queue */

static void wake_each_other(void *c)
{
	while (gmp_chan_recv(c, NULL) == 0)
		;
}

static void set_flag(void *flag)
{
	st_seq((int *)flag, 1);
}

static void *spawn_external(void *flag)
{
	CHECK_EQ(gmp_go(set_flag, flag), 0);
	return NULL;
}

static void keep_busy(void *arg)
{
	gmp_chan *c = gmp_chan_new(0, 0);
	int ran_global = 0;
	pthread_t t;
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, wake_each_other, c, NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, spawn_external, &ran_global), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(sched.gqn, 1);
	for (int i = 0; i < LONG && !ran_global; i++)
		CHECK_EQ(gmp_chan_send(c, ""), 0);
	CHECK_EQ(ran_global, 1);
	CHECK_EQ(gmp_chan_close(c), 0);
	CHECK_EQ(gmp_join(g), 0);
	gmp_chan_free(c);
}

TEST(global_queue_g_runs_on_p_that_is_never_empty)
{
	run_procs(1, keep_busy, NULL);
}

/* PICK-3: the thread that enqueues the G asks the P, which does not wait for its next check. */
static void keep_busy_a_little(void *arg)
{
	gmp_chan *c = gmp_chan_new(0, 0);
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, wake_each_other, c, NULL), 0);
	for (int round = 0; round < 50; round++) {
		int ran_global = 0;
		pthread_t t;

		CHECK_EQ(pthread_create(&t, NULL, spawn_external, &ran_global), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
		for (int i = 0; i < 4; i++)
			CHECK_EQ(gmp_chan_send(c, ""), 0);
		CHECK_EQ(ran_global, 1);
	}
	CHECK_EQ(gmp_chan_close(c), 0);
	CHECK_EQ(gmp_join(g), 0);
	gmp_chan_free(c);
}

TEST(global_queue_g_of_external_thread_runs_at_next_switch)
{
	run_procs(1, keep_busy_a_little, NULL);
}

/* --- Gs that yield, beside Gs of events: PICK-4 --- */

enum { EVENT_GS = 8, ROUNDS = 10000 };

static uint64_t yielding, working; /* cpu_ticks of each kind of Gs */
static bool stop;

static void compute(uint64_t *sum)
{
	uint64_t from = cpu_ticks(), now;

	do
		now = cpu_ticks();
	while (now - from < TICKS_10US / 4);
	*sum += now - from;
}

static void yield_all_the_time(void *arg)
{
	(void)arg;
	while (!stop) {
		compute(&yielding);
		gmp_yield();
	}
}

static gmp_chan *work, *done;

static void work_on_events(void *arg)
{
	(void)arg;
	while (gmp_chan_recv(work, NULL) == 0) {
		compute(&working);
		CHECK_EQ(gmp_chan_send(done, ""), 0);
	}
}

/* Between two rounds this G is runnext: a lane or runnext always has a G. */
static void make_events(void *arg)
{
	gmp_g *g[EVENT_GS + 1];

	(void)arg;
	work = gmp_chan_new(0, 0);
	done = gmp_chan_new(0, EVENT_GS);
	for (int i = 0; i < EVENT_GS; i++)
		CHECK_EQ(gmp_spawn(&g[i], work_on_events, NULL, NULL), 0);
	CHECK_EQ(gmp_spawn(&g[EVENT_GS], yield_all_the_time, NULL, NULL), 0);
	while (working < ROUNDS * EVENT_GS * (uint64_t)TICKS_10US / 4) {
		for (int i = 0; i < EVENT_GS; i++)
			CHECK_EQ(gmp_chan_send(work, ""), 0);
		for (int i = 0; i < EVENT_GS; i++)
			CHECK_EQ(gmp_chan_recv(done, NULL), 0);
	}
	stop = true;
	CHECK_EQ(gmp_chan_close(work), 0);
	for (int i = 0; i <= EVENT_GS; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	gmp_chan_free(work);
	gmp_chan_free(done);
}

TEST(yielding_g_gets_its_share_beside_events)
{
	run_procs(1, make_events, NULL);
	/* A fifth, or less if the kernel preempts the M.  Without PICK-4: 5 us in all. */
	CHECK(yielding > working / 2000);
}
