/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_done_chan returns a closed channel if the object is set while the channel is made
 * (DONE-1), and that gmp_done_free does not wait for a gmp_done_set (DONE-2). The wrapped functions
 * set the object, and free it.
 *
 * floors 0..6, wrap: gmp_chan_new gmp_chan_close
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>

#include "base/atomic.h"
#include "rt.h"
#include "types.h"

gmp_chan *__real_gmp_chan_new(size_t elem, size_t cap);
gmp_chan *__wrap_gmp_chan_new(size_t elem, size_t cap);

static gmp_done *to_set; /* (a) set when the next channel is made */
static gmp_done *done;
static int checked; /* (a) */

gmp_chan *__wrap_gmp_chan_new(size_t elem, size_t cap)
{
	gmp_chan *c = __real_gmp_chan_new(elem, cap);
	gmp_done *d = ld_seq(&to_set);

	if (d) {
		st_seq(&to_set, NULL);
		CHECK_EQ(gmp_done_set(d), 0);
	}
	return c;
}

static void check_done_chan(void *arg)
{
	(void)arg;
	while (getp()->id == 0) /* P 0 has a channel from the beginning */
		gmp_yield();
	st_seq(&to_set, done);
	gmp_chan *c = gmp_done_chan(done);

	CHECK(ld_seq(&to_set) == NULL);
	CHECK_EQ(gmp_chan_try_recv(c, NULL), -EPIPE);
	st_seq(&checked, 1);
}

static void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	done = gmp_done_new();
	CHECK(done != NULL);
	CHECK_EQ(gmp_spawn(&g, check_done_chan, NULL, NULL), 0);
	while (!ld_seq(&checked))
		if (getp()->id != 0)
			gmp_yield(); /* otherwise keep this P busy: the other P is for ask */
	CHECK_EQ(gmp_join(g), 0);
	gmp_done_free(done);
}

TEST(done_set_while_channel_is_made_returns_closed_channel)
{
	run_procs(2, app, NULL);
}

/* --- DONE-2: gmp_done_free during gmp_done_set --- */

static int closing; /* (a) */

void __real_gmp_chan_close(gmp_chan *c);
void __wrap_gmp_chan_close(gmp_chan *c);

/* The waiter frees the object before gmp_done_set has returned. */
void __wrap_gmp_chan_close(gmp_chan *c)
{
	__real_gmp_chan_close(c);
	if (ld_seq(&closing)) {
		st_seq(&closing, 0);
		gmp_done_free(done);
	}
}

static void set_while_freed(void *arg)
{
	(void)arg;
	done = gmp_done_new();
	CHECK(done != NULL);
	st_seq(&closing, 1);
	CHECK_EQ(gmp_done_set(done), 0);
	CHECK_EQ(ld_seq(&closing), 0);
}

TEST(done_free_during_set_returns_and_the_setter_releases)
{
	run_procs(1, set_while_freed, NULL);
}
