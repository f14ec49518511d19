/* SPDX-License-Identifier: MIT */
/*
 * Groups under load: nested groups with random limits, deadlines, failures and cancellations.
 *
 * Children fail, exit, are cancelled, start more children, and have local values whose destructors
 * wait.  Green threads and external threads start them, by go and try_go, while others wait,
 * cancel, or change the number of Ps.  Some runs end early.  Checks that no child is lost, that no
 * child outlives the wait, that the limit holds, and that nothing leaks.
 */
#include "stress.h"

#include <stdbool.h>

enum { FAMILIES = 3000, KIDS = 40, DEEP = 2, STARTERS = 4, EXTERNAL = 2, WAITERS = 2 };

struct family;

struct kid {
	struct family *of;
	uint64_t id;
	int depth;
	bool cancelled; /* must be cancelled at its start */
};

/* A group and its children.  The table outlives a run, so that clear_up finds leftover groups. */
static struct family {
	gmp_group *group;
	int limit;
	int64_t deadline;
	atomic_int taken, started, ended, running, failed;
	atomic_bool over; /* a wait has returned an error */
	struct kid kid[KIDS];
} families[FAMILIES];

static atomic_int used, going, waiting;
static atomic_bool cut; /* the run will end early */
static atomic_llong children, failures, late, dropped;
static gmp_key passing, slow; /* set by each kid; has a destructor that waits */

static struct family *family_new(struct rng *r)
{
	int i = atomic_fetch_add(&used, 1);
	struct family *f = i < FAMILIES ? &families[i] : NULL;

	if (!f)
		return NULL;
	f->limit = draw(r, 2) ? 1 + (int)draw(r, 6) : 0;
	f->deadline = draw(r, 3) ? GMP_FOREVER : gmp_deadline(((int)draw(r, 3000) - 100) * US);
	atomic_store(&f->taken, 0);
	atomic_store(&f->started, 0);
	atomic_store(&f->ended, 0);
	atomic_store(&f->running, 0);
	atomic_store(&f->failed, 0);
	atomic_store(&f->over, false);
	f->group = gmp_group_new(f->limit, f->deadline);
	return f->group ? f : NULL;
}

static int child(void *arg);

/* Starts at most n children.  A child of the same limited group must not wait for a free place. */
static void have_children(struct family *f, struct rng *r, unsigned n, int depth, bool may_wait)
{
	for (unsigned i = 0; i < n; i++) {
		int at = atomic_fetch_add(&f->taken, 1);

		if (at >= KIDS)
			return;
		f->kid[at] = (struct kid){ f, draw(r, 1 << 30), depth, atomic_load(&f->over) };
		int err = may_wait && draw(r, 3) ? gmp_group_go(f->group, child, &f->kid[at])
						 : gmp_group_try_go(f->group, child, &f->kid[at]);

		CHECK(!err || (err == -EAGAIN && f->limit) || (err == -ECANCELED && f->limit) ||
		      (err == -ESRCH && atomic_load(&cut)));
		if (!err)
			atomic_fetch_add(&f->started, 1);
	}
}

static int wait_for(struct family *f)
{
	int failed = atomic_load(&f->failed), result = gmp_group_wait(f->group);

	if (result == -ESRCH) {
		CHECK(atomic_load(&cut));
		return result;
	}
	CHECK(result || !failed);
	if (result == -ETIMEDOUT)
		CHECK(gmp_now() >= f->deadline);
	else if (result)
		CHECK(atomic_load(&f->failed) > 0);
	if (result)
		atomic_store(&f->over, true);
	return result;
}

/* Waits for f and frees it.  Precondition: no caller starts children in f any more. */
static void family_end(struct family *f)
{
	int result = wait_for(f);

	if (result != -ESRCH) {
		CHECK_EQ(atomic_load(&f->started), atomic_load(&f->ended));
		CHECK_EQ(atomic_load(&f->running), 0);
		CHECK_EQ(wait_for(f), result);
	}
	gmp_group *g = f->group;

	f->group = NULL;
	gmp_group_free(g);
	if (result)
		atomic_fetch_add(result == -ETIMEDOUT ? &late : &failures, 1);
}

static void inner_family(struct rng *r, int depth)
{
	struct family *f = family_new(r);

	if (!f)
		return;
	have_children(f, r, draw(r, 8), depth - 1, true);
	if (draw(r, 8) == 0)
		gmp_group_cancel(f->group);
	family_end(f);
}

static void kid_passes(void *arg)
{
	struct kid *k = arg;

	if (k->id % 5 == 0)
		gmp_yield();
	atomic_fetch_sub(&k->of->running, 1);
	atomic_fetch_add(&k->of->ended, 1);
}

static void pass_slowly(UNUSED void *v)
{
	gmp_sleep(20 * US); /* returns at once in a cancelled green thread */
}

static int fail(struct kid *k)
{
	atomic_fetch_add(&k->of->failed, 1);
	return k->id % 2 ? (int)(k->id % 1000) + 1 : -EIO;
}

static int live(struct kid *k, struct rng *r)
{
	switch (draw(r, 24)) {
	case 0: gmp_exit();
	case 1: return fail(k);
	case 2: gmp_cancel(gmp_self()); break;
	case 3: in_blocking_code(draw(r, 50)); break;
	case 4: have_children(k->of, r, 1 + draw(r, 4), k->depth, !k->of->limit); break;
	case 5:
		if (k->depth > 0)
			inner_family(r, k->depth);
		break;
	case 6:
		if (gmp_sleep(draw(r, 4000) * US))
			return fail(k);
		break;
	case 7: CHECK_EQ(gmp_key_set(slow, k), 0); break;
	case 8: gmp_group_cancel(k->of->group); break;
	case 9:
	case 10:
	case 11: gmp_sleep(draw(r, 100) * US); break;
	case 12:
	case 13: gmp_yield(); break;
	default: break;
	}
	return 0;
}

static int child(void *arg)
{
	struct kid *k = arg;
	struct rng r = rng_for(k->id);
	int n = atomic_fetch_add(&k->of->running, 1) + 1;

	CHECK(!k->of->limit || n <= k->of->limit);
	CHECK(!k->cancelled || gmp_cancelled());
	CHECK_EQ(gmp_key_set(passing, k), 0);
	atomic_fetch_add(&children, 1);
	return live(k, &r);
}

/* --- the members of a round: green threads and external threads --- */

static struct family *outermost;

static void starter(void *arg)
{
	struct rng r = rng_for((uintptr_t)arg);

	for (int i = 0; i < 4; i++) {
		have_children(outermost, &r, 1 + draw(&r, 5), DEEP, true);
		if (draw(&r, 2))
			gmp_sleep(draw(&r, 200) * US);
	}
	atomic_fetch_sub(&going, 1);
}

static void waiter(UNUSED void *arg)
{
	while (atomic_load(&going) > 0 && wait_for(outermost) != -ESRCH)
		gmp_yield();
	atomic_fetch_sub(&waiting, 1);
}

static struct ext_thread external[EXTERNAL + 1];

static void one_round(struct rng *r)
{
	gmp_g *g[STARTERS + WAITERS];

	CHECK((outermost = family_new(r)) != NULL);
	atomic_store(&going, STARTERS + EXTERNAL);
	atomic_store(&waiting, WAITERS + 1);
	for (int i = 0; i < STARTERS; i++)
		g[i] = spawn(starter, (void *)(uintptr_t)draw(r, 1 << 30));
	for (int i = 0; i < WAITERS; i++)
		g[STARTERS + i] = spawn(waiter, NULL);
	for (int i = 0; i < EXTERNAL; i++)
		ext_thread_start(&external[i], starter, (void *)(uintptr_t)draw(r, 1 << 30));
	ext_thread_start(&external[EXTERNAL], waiter, NULL);
	gmp_sleep(draw(r, 2000) * US);
	if (atomic_load(&cut))
		return;
	switch (draw(r, 4)) {
	case 0: gmp_group_cancel(outermost->group); break;
	case 1: gmp_cancel(g[draw(r, STARTERS + WAITERS)]); break;
	case 2: gmp_set_procs(1 + (int)draw(r, 4)); break;
	default: break;
	}
	for (int i = 0; i < STARTERS + WAITERS; i++)
		join(g[i]);
	for (int i = 0; i <= EXTERNAL; i++)
		ext_thread_join(&external[i]);
	CHECK_EQ(atomic_load(&going) + atomic_load(&waiting), 0);
	family_end(outermost);
	WAIT_FOR(stats().greens == 1);
	WAIT_FOR(stats().timers == 0);
	WAIT_FOR(stats().stacks_used == 1);
}

static void rounds(void *arg)
{
	do {
		atomic_store(&used, 0);
		atomic_store(&cut, draw(arg, 16) == 0);
		one_round(arg);
	} while (!atomic_load(&cut) && !stress_over());
}

/* Frees the groups of green threads killed at shutdown. */
static void clear_up(void)
{
	for (int i = 0; i < FAMILIES; i++) {
		if (!families[i].group)
			continue;
		CHECK_EQ(gmp_group_wait(families[i].group), -ESRCH);
		gmp_group_cancel(families[i].group);
		gmp_group_free(families[i].group);
		families[i].group = NULL;
		atomic_fetch_add(&dropped, 1);
	}
}

TEST_PROCS(group_children_under_load_end_before_wait_returns)
{
	CHECK_EQ(gmp_key_create(&passing, kid_passes), 0);
	CHECK_EQ(gmp_key_create(&slow, pass_slowly), 0);
	stress_begin();
	struct rng r = rng_for((uint64_t)procs);

	while (!stress_over()) {
		run_procs(procs, rounds, &r);
		if (atomic_load(&cut)) {
			for (int i = 0; i <= EXTERNAL; i++)
				CHECK_EQ(pthread_join(external[i].thread, NULL), 0);
			clear_up();
		}
	}
	fprintf(stderr, "children %lld failures %lld late %lld leftover groups %lld\n",
		atomic_load(&children), atomic_load(&failures), atomic_load(&late),
		atomic_load(&dropped));
}
