/* SPDX-License-Identifier: MIT */
/*
 * Are many connections that are ready all the time served in turns?
 *
 * Each green thread writes to the other end of its own connection and then reads: it is ready again as
 * soon as it has had its turn, as with clients that answer at once.
 */
#include "io_util.h"

#include <limits.h>

enum { MANY = 3000, EACH = 20, FOR_MS = 1500 }; /* MANY: more than a ring has room for */

/* Those whom one thread can have in hand: what a look at the poller gives, and the one that runs. */
enum { IN_HAND = 128 + 1 };

static int many; /* of them, here */

static struct ring {
	int in, out;
	long turns;
} rings[MANY];

static gmp_wg all_there;
static atomic_long total;
static int64_t end;

static void go_round(void *arg)
{
	struct ring *r = arg;
	char c[2]; /* more room than there is to read, so that the next read waits */

	CHECK_EQ(gmp_wg_wait(&all_there), 0);
	while (atomic_fetch_add(&total, 1) < many * EACH || gmp_now() < end) {
		CHECK_EQ(gmp_write(r->out, "x", 1), 1);
		CHECK_EQ(gmp_read(r->in, c, sizeof(c)), 1);
		r->turns++;
	}
}

/* So often, and for so long, that it does not matter who began first, nor that the kernel takes a CPU away
 * for a moment, and with it the turns of those whom its thread has in hand.  Where it does so for seconds,
 * those fall behind, who are few; where the turns are not kept, many do. */
RT(connections_that_are_always_ready_are_served_in_turns)
{
	char addr[128];
	int l = listen_any("tcp", addr);
	gmp_g *g[MANY];
	long least = LONG_MAX, most = 0;
	int behind = 0;

	many = SLOW ? MANY / 4 : MANY;
	need_descriptors(2 * many + 50);
	for (int i = 0; i < many; i++) {
		rings[i].out = gmp_dial("tcp", addr);
		CHECK(rings[i].out >= 0);
		rings[i].in = gmp_accept(l);
		CHECK(rings[i].in >= 0);
	}
	CHECK_EQ(gmp_wg_add(&all_there, 1), 0);
	for (int i = 0; i < many; i++)
		g[i] = spawn(go_round, &rings[i]);
	end = gmp_deadline(FOR_MS * MS);
	CHECK_EQ(gmp_wg_done(&all_there), 0);
	for (int i = 0; i < many; i++)
		join(g[i]);
	for (int i = 0; i < many; i++) {
		behind += rings[i].turns < atomic_load(&total) / many / 4;
		if (rings[i].turns < least)
			least = rings[i].turns;
		if (rings[i].turns > most)
			most = rings[i].turns;
		reset_on_close(rings[i].out);
		close_pair(rings[i].out, rings[i].in);
	}
	if (behind > IN_HAND)
		fprintf(stderr, "%d of %d are behind: %ld to %ld turns, %ld on average\n", behind,
			many, least, most, atomic_load(&total) / many);
	CHECK(behind <= IN_HAND);
	CHECK_EQ(gmp_close(l), 0);
}
