/* SPDX-License-Identifier: MIT */
/* Tests that g structs, Ms and Ps are made, reused and counted, and refused above their maximum. */
#define _GNU_SOURCE 1
#include "check.h"

#include "g.h"
#include "proc.h"

#include <errno.h>
#include <stdlib.h>

#include "base/os.h"
#include "base/rand.h"
#include "poller.h"
#include "runq.h"
#include "timer/timerheap.h"

enum { MAX_GREEN = 100 };

static void begin(int procs)
{
	sched.options.c = (gmp_config){ .procs = procs,
					.sched = GMP_SCHED_RUNNEXT,
					.max_green = MAX_GREEN,
					.stack_size = 65536,
					.seed = 1,
					.max_stack_memory = UINT64_MAX };
	CHECK_EQ(proc_init(), 0);
	CHECK_EQ(sched.stack_class, 16);
	CHECK_EQ(sched.procs, procs);
	CHECK_EQ(sched.nallp, procs);
	CHECK_EQ(sched.npidle, procs);
}

static struct p *acquirep(void)
{
	lock(&sched.lock, LR_SCHED);
	struct p *pp = pidle_get();
	unlock(&sched.lock, LR_SCHED);
	return pp;
}

static void put_p(struct p *pp)
{
	lock(&sched.lock, LR_SCHED);
	pidle_put(pp);
	unlock(&sched.lock, LR_SCHED);
}

static struct g *new_g(struct p *pp)
{
	int err = 0;
	struct g *gp = g_alloc(pp, &err);

	CHECK(gp != NULL);
	CHECK_EQ(gp->status, G_FREE);
	gp->stack_class = (uint8_t)sched.stack_class;
	g_set_status(gp, G_RUNNABLE);
	return gp;
}

static void end_g(struct p *pp, struct g *gp)
{
	g_set_status(gp, G_RUNNING);
	g_set_status(gp, G_DEAD);
	g_free(pp, gp);
}

/* --- G --- */

TEST(g_ids_start_at_1_and_are_unique)
{
	static bool seen[2000];
	struct p *a, *b;

	begin(2);
	a = acquirep();
	b = acquirep();
	CHECK_EQ(g_new_id(a), 1);
	seen[1] = true;
	for (int i = 0; i < 600; i++) {
		uint64_t id = g_new_id(i % 3 == 0 ? a : i % 3 == 1 ? b : NULL);

		CHECK(id > 0 && id < countof(seen));
		CHECK(!seen[id]);
		seen[id] = true;
	}
	proc_fini();
}

static void check_limit(bool cached)
{
	struct g *gp[MAX_GREEN];
	struct p *pp;
	int err = 0;

	begin(1);
	pp = cached ? acquirep() : NULL;
	for (int round = 0; round < 3; round++) {
		bool seen[MAX_GREEN] = { false };

		for (int i = 0; i < MAX_GREEN; i++) {
			gp[i] = new_g(pp);
			CHECK(!seen[g_index(gp[i])]);
			seen[g_index(gp[i])] = true;
			CHECK_EQ(gp[i]->generation, round);
			CHECK_EQ(gp[i]->token, g_index(gp[i]) + 1);
			CHECK(g_at(g_index(gp[i])) == gp[i]);
		}
		CHECK_EQ(g_made(), MAX_GREEN);
		CHECK(g_at(MAX_GREEN) == NULL);
		CHECK(g_alloc(pp, &err) == NULL);
		CHECK_EQ(err, -EAGAIN);
		for (int i = 0; i < MAX_GREEN; i++)
			end_g(pp, gp[i]);
	}
	proc_fini();
}

TEST(g_alloc_above_max_green_returns_eagain)
{
	check_limit(false);
}

TEST(g_alloc_from_p_cache_above_max_green_returns_eagain)
{
	check_limit(true);
}

TEST(g_alloc_reuses_last_freed_first)
{
	struct p *pp;

	begin(1);
	pp = acquirep();
	struct g *a = new_g(pp), *b = new_g(pp);

	CHECK_EQ(g_index(a), 0); /* in address order */
	CHECK_EQ(g_index(b), 1);
	g_set_name(a, "a");
	CHECK_STR(g_name(a), "a");
	CHECK_STR(g_name(b), "");
	end_g(pp, a);
	CHECK_STR(g_name(a), "");
	end_g(pp, b);
	CHECK(new_g(pp) == b);
	CHECK(new_g(pp) == a);
	proc_fini();
}

TEST(p_flush_makes_free_g_structs_available_to_other_p)
{
	struct g *gp[MAX_GREEN];
	struct p *a, *b;

	begin(2);
	a = acquirep();
	b = acquirep();
	for (int i = 0; i < MAX_GREEN; i++)
		gp[i] = new_g(a);
	for (int i = 0; i < MAX_GREEN; i++)
		end_g(a, gp[i]);
	CHECK(a->gcache.n <= GFREE_CACHE);
	p_flush(a);
	CHECK_EQ(a->gcache.n, 0);
	for (int i = 0; i < MAX_GREEN; i++)
		new_g(b);
	proc_fini();
}

TEST(g_bind_stack_and_unbind_reuse_stack)
{
	struct g *gp[MAX_GREEN];
	struct p *pp;

	begin(1);
	pp = acquirep();
	for (int i = 0; i < MAX_GREEN; i++) {
		gp[i] = new_g(pp);
		g_bind_stack(pp, gp[i]);
		CHECK(gp[i]->stack != NULL);
		gp[i]->stack[65535] = 1;
	}
	char *last = gp[MAX_GREEN - 1]->stack;

	for (int i = 0; i < MAX_GREEN; i++) {
		g_unbind_stack(pp, gp[i]);
		CHECK(gp[i]->stack == NULL);
	}
	g_bind_stack(pp, gp[0]);
	CHECK(gp[0]->stack == last);
	g_unbind_stack(pp, gp[0]);
	CHECK_EQ(pp->count.binds, MAX_GREEN + 1);
	CHECK_EQ(pp->count.unbinds, MAX_GREEN + 1);
	p_flush(pp);
	CHECK_EQ(pp->stacks.n, 0);
	proc_fini();
}

/* --- P --- */

static int cmp_draws(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

TEST(p_random_sequences_are_disjoint)
{
	enum { PROCS = 8, DRAWS = 1000 };
	static uint64_t drawn[PROCS * DRAWS];

	begin(PROCS);
	for (int i = 0; i < PROCS; i++)
		for (int k = 0; k < DRAWS; k++)
			drawn[i * DRAWS + k] = rand_next(&sched.allp[i]->rand);
	qsort(drawn, PROCS * DRAWS, sizeof(drawn[0]), cmp_draws);
	for (int i = 1; i < PROCS * DRAWS; i++)
		CHECK(drawn[i] != drawn[i - 1]);
	proc_fini();
}

TEST(pidle_get_returns_each_idle_p_once)
{
	struct p *pp[3];

	begin(3);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(sched.npidle, 3 - i);
		pp[i] = acquirep();
		CHECK(pp[i] != NULL);
		CHECK_EQ(pp[i]->status, P_RUNNING);
	}
	CHECK(pp[0] != pp[1] && pp[1] != pp[2] && pp[0] != pp[2]);
	CHECK(acquirep() == NULL);
	put_p(pp[1]);
	CHECK_EQ(pp[1]->status, P_IDLE);
	CHECK_EQ(sched.npidle, 1);
	CHECK(acquirep() == pp[1]);
	proc_fini();
}

static void resize(int n, int old, bool grows)
{
	bool fresh = !grows;

	CHECK_EQ(procs_resize(n, &fresh), old);
	CHECK_EQ(fresh, grows);
	CHECK_EQ(sched.procs, n);
}

TEST(procs_resize_adds_and_retires_idle_ps)
{
	begin(1);
	CHECK(!sched.allp[0]->shared);
	resize(4, 1, true);
	CHECK_EQ(sched.nallp, 4);
	CHECK_EQ(sched.npidle, 4);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(sched.allp[i]->id, i);
		CHECK(sched.allp[i]->shared);
	}
	resize(2, 4, false);
	CHECK_EQ(sched.nallp, 4);
	CHECK_EQ(sched.npidle, 2);
	CHECK_EQ(sched.allp[1]->status, P_IDLE);
	CHECK_EQ(sched.allp[2]->status, P_RETIRED);
	CHECK_EQ(sched.allp[3]->status, P_RETIRED);
	resize(2, 2, false);
	resize(3, 2, true);
	CHECK_EQ(sched.nallp, 4);
	CHECK_EQ(sched.npidle, 3);
	CHECK_EQ(sched.allp[2]->status, P_IDLE);
	proc_fini();
}

static void use_and_free(struct p *pp, int n)
{
	struct g *gp[MAX_GREEN];

	for (int i = 0; i < n; i++)
		gp[i] = new_g(pp);
	for (int i = 0; i < n; i++)
		end_g(pp, gp[i]);
}

/* The number of free g structs that the Ps cache: at most a sixteenth of all. */
static int cached(void)
{
	int n = 0;

	for (int i = 0; i < sched.nallp; i++)
		n += (int)sched.allp[i]->gcache.n;
	return n;
}

TEST_PROCS(procs_resize_up_shrinks_free_g_caches)
{
	struct p *pp[16];

	begin(procs);
	for (int i = 0; i < procs; i++) {
		pp[i] = acquirep();
		use_and_free(pp[i], 10);
		CHECK(pp[i]->gcache.n > 0);
	}
	if (procs > 1)
		put_p(pp[0]);
	resize(16, procs, true);
	if (procs > 1)
		CHECK_EQ(pp[0]->gcache.n, 0); /* it was idle and may stay idle */
	for (int i = procs > 1; i < procs; i++)
		use_and_free(pp[i], 1); /* from its cache */
	CHECK_EQ(cached(), 0);          /* 100 g structs are too few for caches of 16 Ps */
	for (struct p *fresh; (fresh = acquirep()) != NULL;)
		use_and_free(fresh, 10);
	CHECK(cached() <= MAX_GREEN / 16);
	use_and_free(NULL, MAX_GREEN - MAX_GREEN / 16);
	proc_fini();
}

TEST(procs_resize_down_grows_free_g_caches)
{
	begin(16);
	struct p *pp = acquirep();

	use_and_free(pp, 10);
	CHECK_EQ(pp->gcache.n, 0);
	for (int i = 0; i < 15; i++)
		acquirep();
	put_p(pp);
	resize(1, 16, false);
	pp = sched.allp[0];
	use_and_free(pp, 10);
	CHECK(pp->gcache.n > 0);
	CHECK(pp->gcache.n <= MAX_GREEN / 16);
	proc_fini();
}

TEST(procs_resize_asks_running_p_to_share_and_retire)
{
	struct p *pp;

	begin(2);
	while ((pp = acquirep()))
		;
	pp = sched.allp[1];
	resize(1, 2, false);
	CHECK_EQ(pp->status, P_RUNNING);
	CHECK(pp->attention & ATTENTION_RETIRE);
	resize(2, 1, true); /* the retirement is revoked */
	CHECK(!(pp->attention & ATTENTION_RETIRE));
	CHECK(!p_retire(pp));
	resize(1, 2, false);
	CHECK(p_retire(pp));
	CHECK_EQ(pp->status, P_RETIRED);
	CHECK_EQ(sched.npidle, 0);
	proc_fini();
	sched_reset();

	begin(1);
	pp = acquirep();
	resize(2, 1, true);
	CHECK(!pp->shared);
	CHECK(pp->attention & ATTENTION_SHARE);
	proc_fini();
}

static bool never(struct timer *t, int64_t now, struct glist *out)
{
	(void)t, (void)now, (void)out;
	return false;
}

TEST(p_retire_moves_timers_and_gs_to_others)
{
	struct timer t[2] = { { .fire = never }, { .fire = never } };
	struct p *pp;
	struct g *gp[4];

	begin(3);
	timer_add(sched.allp[2], &t[0], 10); /* an idle P */
	resize(2, 3, false);
	CHECK(t[0].pp == sched.allp[0]);
	proc_fini();
	sched_reset();

	begin(2);
	while (acquirep())
		;
	pp = sched.allp[1];
	timer_add(pp, &t[1], 10);
	for (int i = 0; i < 4; i++)
		gp[i] = new_g(pp);
	runnext_swap(pp, gp[0]);
	runq_put(pp, gp[1]);
	runq_put(pp, gp[2]);
	runq_yield(pp, gp[3]);
	CHECK_EQ(ring_len(pp, LANE_YIELD), 1);
	resize(1, 2, false);
	CHECK(p_retire(pp));
	CHECK(t[1].pp == sched.allp[0]);
	CHECK_EQ(sched.gqn, 4);
	CHECK_EQ(gq_len(LANE_YIELD), 1);
	CHECK_EQ(pp->gcache.n, 0);
	lock(&sched.lock, LR_SCHED);
	for (int i = 0; i < 3; i++)
		CHECK(gq_get(sched.allp[0], 1) == gp[i]);
	CHECK(gq_get(sched.allp[0], 1) == NULL);
	CHECK(gq_get_from(sched.allp[0], LANE_YIELD) == gp[3]);
	unlock(&sched.lock, LR_SCHED);
	proc_fini();
}

/* --- M --- */

static struct m *reserved_m(void)
{
	lock(&sched.lock, LR_SCHED);
	bool reserved = m_reserve_locked();

	unlock(&sched.lock, LR_SCHED);
	CHECK(reserved);
	return m_new();
}

TEST(m_reserve_numbers_and_counts_ms)
{
	begin(1);
	sched.nmlimit = 2;
	struct m *a = reserved_m(), *b = reserved_m();

	CHECK(a && b);
	CHECK_EQ(a->id, 0);
	CHECK_EQ(b->id, 1);
	CHECK_EQ(sched.nm, 2);
	CHECK(!m_reserve_locked());
	CHECK(!m_join_one(false)); /* no M has a thread */
	sched.nbound = 1;
	b->bound = true;
	m_dead(b); /* uncounts it, once */
	CHECK_EQ(sched.nm, 1);
	CHECK_EQ(sched.nbound, 0);
	CHECK(!m_join_one(true));
	m_free(b);
	CHECK_EQ(sched.nm, 1);
	CHECK(sched.allm == a);
	m_free(a);
	CHECK_EQ(sched.nm, 0);
	CHECK(!sched.allm);
	proc_fini();
}

TEST(midle_first_m_polls_and_others_are_listed)
{
	struct m m[4];

	memset(m, 0, sizeof(m));
	begin(1);
	lock(&sched.lock, LR_SCHED);
	CHECK(midle_get() == NULL);
	for (int i = 0; i < 4; i++)
		midle_put(&m[i]);
	CHECK_EQ(sched.nmidle, 4);
	CHECK(m[0].in_poller && sched.pollm == &m[0] && sched.polling);
	CHECK(!m[1].in_poller && !m[2].in_poller && !m[3].in_poller);
	CHECK(midle_del(&m[2]));  /* from the middle of the list */
	CHECK(!midle_del(&m[2])); /* a waker has it already */
	CHECK(midle_get() == &m[3]);
	CHECK(midle_get() == &m[1]);
	CHECK(midle_get() == &m[0]); /* the polling M comes last */
	CHECK(midle_get() == NULL);
	CHECK(!midle_del(&m[0]));
	CHECK_EQ(sched.nmidle, 0);
	sched.polling = false;
	midle_put(&m[1]);
	CHECK(m[1].in_poller);
	CHECK(midle_del(&m[1]));
	CHECK(sched.pollm == NULL);
	CHECK_EQ(sched.nmidle, 0);
	unlock(&sched.lock, LR_SCHED);
	proc_fini();
}

static uint32_t wakeups; /* (a) */

static void *sleep_twice(void *arg)
{
	m_sleep(arg);
	st_seq(&wakeups, 1);
	m_sleep(arg);
	st_seq(&wakeups, 2);
	return NULL;
}

TEST(m_sleep_returns_once_per_wake)
{
	begin(1);
	ms_begin(sleep_twice);
	sched.nmlimit = 1;
	struct m *m = reserved_m();

	CHECK_EQ(m_start(m), 0);
	CHECK(!m_join_one(true)); /* it is not dead yet */
	os_nap(3000000);
	CHECK_EQ(ld_seq(&wakeups), 0);
	m_wake(m, false);
	while (ld_seq(&wakeups) != 1)
		os_yield();
	os_nap(3000000);
	CHECK_EQ(ld_seq(&wakeups), 1);
	m_wake(m, false);
	CHECK(m_join_one(false));
	CHECK_EQ(ld_seq(&wakeups), 2);
	CHECK(!m_join_one(false));
	CHECK_EQ(sched.nm, 0);
	proc_fini();
}
