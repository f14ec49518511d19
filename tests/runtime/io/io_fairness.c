/* SPDX-License-Identifier: MIT */
/*
 * Tests fairness among many connections that are always ready: all make about as many rounds.
 *
 * Each green thread writes to the other end of its own connection and then reads: it is runnable
 * again as soon as it has run, as with clients that answer at once.
 */
#include "io_util.h"

#include <limits.h>

enum { MANY = 3000, EACH = 20, FOR_MS = 1500 }; /* MANY: more than a ring holds */

/* Gs that one M holds at most: the result of one poll, and the running G. */
enum { HELD_BY_M = 128 + 1 };

static int many; /* MANY, or fewer in a slow build */

static struct ring {
	int in, out;
	long rounds;
} rings[MANY];

static gmp_wg not_started, turns_begin;
static atomic_long total;
static int64_t end;

static void run_rounds(void *arg)
{
	struct ring *r = arg;
	char c[2]; /* more room than there is to read, so that the next read waits */

	CHECK_EQ(gmp_wg_done(&not_started), 0);
	CHECK_EQ(gmp_wg_wait(&turns_begin), 0);
	while (atomic_fetch_add(&total, 1) < many * EACH || gmp_now() < end) {
		CHECK_EQ(gmp_write(r->out, "x", 1), 1);
		CHECK_EQ(gmp_read(r->in, c, sizeof(c)), 1);
		r->rounds++;
	}
}

/*
 * Counts rounds only after each G has run: under ThreadSanitizer a first run costs as much as 30
 * rounds, and the Gs of a P that is busy with first runs would fall behind the others.
 *
 * Runs so many rounds for so long that it does not matter which G began first, or that the kernel
 * preempts an M, with the Gs it holds, for a moment. If it preempts an M for seconds, these few Gs
 * fall behind. Without fairness many do.
 */
RT(connections_always_ready_are_served_fairly)
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
	CHECK_EQ(gmp_wg_add(&turns_begin, 1), 0);
	CHECK_EQ(gmp_wg_add(&not_started, many), 0);
	for (int i = 0; i < many; i++)
		g[i] = spawn(run_rounds, &rings[i]);
	CHECK_EQ(gmp_wg_wait(&not_started), 0);
	end = gmp_deadline(FOR_MS * MS);
	CHECK_EQ(gmp_wg_done(&turns_begin), 0);
	for (int i = 0; i < many; i++)
		join(g[i]);
	for (int i = 0; i < many; i++) {
		behind += rings[i].rounds < atomic_load(&total) / many / 4;
		if (rings[i].rounds < least)
			least = rings[i].rounds;
		if (rings[i].rounds > most)
			most = rings[i].rounds;
		reset_on_close(rings[i].out);
		close_pair(rings[i].out, rings[i].in);
	}
	if (behind > HELD_BY_M)
		fprintf(stderr,
			"%d of %d connections are behind: %ld to %ld rounds, %ld on average\n",
			behind, many, least, most, atomic_load(&total) / many);
	CHECK(behind <= HELD_BY_M);
	CHECK_EQ(gmp_close(l), 0);
}
