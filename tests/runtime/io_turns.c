/* SPDX-License-Identifier: MIT */
/*
 * Are many connections that are ready all the time served in turns?
 *
 * Each green thread writes to the other end of its own connection and then reads: it is ready again as
 * soon as it has had its turn, as with clients that answer at once.
 */
#include "io_util.h"

enum { MANY = 700, EACH = 30 };

static struct ring {
	int in, out;
	int turns;
} rings[MANY];

static atomic_long total;

static void go_round(void *arg)
{
	struct ring *r = arg;
	char c[2]; /* more room than there is to read, so that the next read waits */

	while (atomic_fetch_add(&total, 1) < MANY * EACH) {
		CHECK_EQ(gmp_write(r->out, "x", 1), 1);
		CHECK_EQ(gmp_read(r->in, c, sizeof(c)), 1);
		r->turns++;
	}
}

RT(connections_that_are_always_ready_are_served_in_turns)
{
	char addr[128];
	int l = listen_any("tcp", addr), fewest = EACH;
	gmp_g *g[MANY];

	need_descriptors(2 * MANY + 50);
	for (int i = 0; i < MANY; i++) {
		rings[i].out = gmp_dial("tcp", addr);
		CHECK(rings[i].out >= 0);
		rings[i].in = gmp_accept(l);
		CHECK(rings[i].in >= 0);
	}
	for (int i = 0; i < MANY; i++)
		g[i] = spawn(go_round, &rings[i]);
	for (int i = 0; i < MANY; i++)
		join(g[i]);
	for (int i = 0; i < MANY; i++) {
		if (rings[i].turns < fewest)
			fewest = rings[i].turns;
		reset_on_close(rings[i].out);
		close_pair(rings[i].out, rings[i].in);
	}
	CHECK(fewest >= EACH / 4);
	CHECK_EQ(gmp_close(l), 0);
}
