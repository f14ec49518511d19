/* SPDX-License-Identifier: MIT */
/*
 * Does one who has left the try to another go to sleep when that one has gone, and left something?  The
 * test steps in between its look at the turn and its section under the lock.
 *
 * floors 0..6, wrap: gmp__lock_slow
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "netpoll.h"
#include "rt.h"

void __real_gmp__lock_slow(struct lock *l, unsigned most_pauses);
void __wrap_gmp__lock_slow(struct lock *l, unsigned most_pauses);

static struct polldesc *pd;
static int looked;

/* The caller has seen the turn out, and is about to queue up: the one who had it is done, and finds nobody
 * to pass it to. */
void __wrap_gmp__lock_slow(struct lock *l, unsigned most_pauses)
{
	if (pd && l == &pd->lock) {
		looked++;
		pd->side[SIDE_READ].turn = false;
		st_rel(&l->word, 0);
		pd = NULL;
	}
	__real_gmp__lock_slow(l, most_pauses);
}

static void read_a(void *arg)
{
	char c;

	CHECK_EQ(gmp_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(c, 'a');
}

static void read_beside_another(void *arg)
{
	gmp_g *g;
	int p[2];
	char c;

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_spawn(&g, read_a, &p[0], NULL), 0);
	gmp_yield(); /* it waits */
	CHECK_EQ(write(p[1], "ab", 2), 2);
	CHECK_EQ(gmp_join(g), 0); /* the event has come, and comes no more */
	pd = netpoll_find(p[0]);
	CHECK(pd != NULL);
	pd->side[SIDE_READ].turn = true; /* somebody has it, and the lock */
	st_seq(&pd->lock.word, 1);
	CHECK_EQ(gmp_read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'b');
	CHECK_EQ(looked, 1);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(what_the_one_with_the_turn_leaves_is_found_by_who_waited_for_it)
{
	run_procs(1, read_beside_another, NULL);
}
