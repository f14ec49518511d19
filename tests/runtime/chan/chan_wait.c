/* SPDX-License-Identifier: MIT */
/*
 * Tests timed waits on a channel and the lifetime of a channel: a timeout leaves no trace, a race
 * between a timeout and a peer has one winner, and a channel may be freed as soon as the call
 * returns.
 */
#include "chan_util.h"

/* --- deadlines --- */

static const int64_t past[] = { 0, -1, 1, INT64_MIN, INT64_MIN + 1 };

EVERYWHERE(chan_past_deadline_makes_one_attempt)
{
	for (size_t cap = 0; cap <= 2; cap++) {
		gmp_chan *c = int_chan(cap);

		for (int i = 0; i < 7; i++) {
			int64_t deadline = i < 5 ? past[i] : i == 5 ? gmp_now() : gmp_now() - 1;
			int v = 7;

			CHECK_EQ(gmp_chan_recv_until(c, &v, deadline), -ETIMEDOUT);
			CHECK_EQ(gmp_chan_recv_until(c, NULL, deadline), -ETIMEDOUT);
			CHECK_EQ(v, 7);
			for (size_t k = 0; k < cap; k++)
				CHECK_EQ(gmp_chan_send_until(c, &v, deadline), 0);
			CHECK_EQ(gmp_chan_send_until(c, &v, deadline), -ETIMEDOUT);
			CHECK_EQ(gmp_chan_len(c), cap);
			for (size_t k = 0; k < cap; k++) {
				v = 0;
				CHECK_EQ(gmp_chan_recv_until(c, &v, deadline), 0);
				CHECK_EQ(v, 7);
			}
			CHECK_EQ(gmp_chan_recv_until(c, &v, deadline), -ETIMEDOUT);
		}
		check_idle(c);
		gmp_chan_free(c);
	}
}

static void count_run(void *arg)
{
	++*(int *)arg;
}

static void try_beside_another(UNUSED void *arg)
{
	gmp_chan *c[] = { int_chan(0), int_chan(1) };
	int runs = 0, v = 7;
	gmp_g *g = spawn(count_run, &runs);

	send_int(c[1], 1);
	uint64_t switches = stats().switches;

	for (int i = 0; i < 5; i++) {
		CHECK_EQ(gmp_chan_recv_until(c[0], &v, past[i]), -ETIMEDOUT);
		CHECK_EQ(gmp_chan_send_until(c[0], &v, past[i]), -ETIMEDOUT);
		CHECK_EQ(gmp_chan_send_until(c[1], &v, past[i]), -ETIMEDOUT);
	}
	CHECK_EQ(runs, 0);
	CHECK_EQ(stats().switches, switches); /* a wait may end without a run of another G */
	join(g);
	for (int i = 0; i < 2; i++)
		gmp_chan_free(c[i]);
}

TEST(chan_past_deadline_does_not_yield)
{
	run_procs(1, try_beside_another, NULL);
}

EVERYWHERE(chan_wait_times_out_not_before_deadline)
{
	gmp_chan *c = int_chan(1), *full = int_chan(1);
	int v = 7;

	send_int(full, 1);
	for (int64_t ns = 1; ns <= 16 * MS; ns *= 20) {
		int64_t deadline = gmp_deadline(ns);

		CHECK_EQ(gmp_chan_recv_until(c, &v, deadline), -ETIMEDOUT);
		CHECK(gmp_now() >= deadline);
		deadline = gmp_deadline(ns);
		CHECK_EQ(gmp_chan_send_until(full, &v, deadline), -ETIMEDOUT);
		CHECK(gmp_now() >= deadline);
	}
	CHECK_EQ(v, 7);
	CHECK_EQ(recv_int(full), 1);
	check_idle(c);
	check_idle(full);
	gmp_chan_free(c);
	gmp_chan_free(full);
}

enum { CROWD = 12 };

EVERYWHERE(chan_timeout_leaves_element_and_queue_unchanged)
{
	for (int cap = 0; cap <= 2; cap++) {
		gmp_chan *c = int_chan((size_t)cap);
		struct peer p[CROWD];
		int v[CROWD];

		for (int i = 0; i < CROWD; i++) {
			v[i] = 100 + i;
			start_recv(&p[i], c, &v[i], gmp_deadline((CROWD - i) % 4 * MS));
		}
		for (int i = 0; i < CROWD; i++)
			CHECK_EQ(finish(&p[i]), -ETIMEDOUT);
		check_idle(c);
		for (int i = 0; i < cap; i++)
			send_int(c, i);
		for (int i = 0; i < CROWD; i++)
			start_send(&p[i], c, &v[i], gmp_deadline((CROWD - i) % 4 * MS));
		for (int i = 0; i < CROWD; i++)
			CHECK_EQ(finish(&p[i]), -ETIMEDOUT);
		for (int i = 0; i < CROWD; i++)
			CHECK_EQ(v[i], 100 + i);
		CHECK_EQ(gmp_chan_len(c), cap);
		for (int i = 0; i < cap; i++)
			CHECK_EQ(recv_int(c), i);
		check_idle(c);
		gmp_chan_free(c);
		if (gmp_procs() > 0)
			CHECK_EQ(stats().timers, 0);
	}
}

static struct peer crowd[CROWD];
static int value[CROWD];

static void finish_crowd(void)
{
	for (int i = 0; i < CROWD; i++)
		finish(&crowd[i]);
}

/* All wait, those of the set `leave` with a deadline. Returns false if it expired too early. */
static bool queue_up(gmp_chan *c, int side, unsigned leave, int64_t soon)
{
	for (int i = 0; i < CROWD; i++) {
		int64_t deadline = leave >> i & 1 ? soon : GMP_FOREVER;

		value[i] = 100 + i;
		if (side)
			start_send(&crowd[i], c, &value[i], deadline);
		else
			start_recv(&crowd[i], c, &value[i], deadline);
		while (!waiting(crowd, i + 1)) {
			if (gmp_now() >= soon) {
				CHECK_EQ(gmp_chan_close(c), 0);
				while (i >= 0)
					finish(&crowd[i--]);
				return false;
			}
			gmp_yield();
		}
	}
	return true;
}

static void time_out_and_serve(int side, unsigned leave)
{
	int64_t ns = MS;
	gmp_chan *c;
	int next = 0;

	for (c = int_chan(0); !queue_up(c, side, leave, gmp_deadline(ns)); c = int_chan(0)) {
		gmp_chan_free(c);
		ns *= 2;
	}
	for (int i = 0; i < CROWD; i++)
		if (leave >> i & 1)
			CHECK_EQ(finish(&crowd[i]), -ETIMEDOUT);
	for (int i = 0; i < CROWD; i++) {
		if (leave >> i & 1) {
			CHECK_EQ(value[i], 100 + i);
			continue;
		}
		if (side)
			CHECK_EQ(recv_int(c), 100 + i);
		else
			send_int(c, next);
		CHECK_EQ(finish(&crowd[i]), 0);
		CHECK_EQ(value[i], side ? 100 + i : next);
		next++;
	}
	check_idle(c);
	gmp_chan_free(c);
}

/* Timeouts at the head, at the tail, and in the middle of the queue, also of neighbours. */
EVERYWHERE(chan_timeout_keeps_fifo_order_of_other_waiters)
{
	static const unsigned leave[] = { 0x001, 0x800, 0x018, 0x555, 0xaaa, 0xe07, 0x7fe };

	for (int k = 0; k < 7; k++) {
		time_out_and_serve(0, leave[k]);
		time_out_and_serve(1, leave[k]);
	}
}

EVERYWHERE(chan_wait_served_before_deadline_leaves_no_timer)
{
	gmp_chan *c = int_chan(0);

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < CROWD; i++) {
			value[i] = i;
			if (round % 2)
				start_send(&crowd[i], c, &value[i], gmp_deadline(3600 * SEC));
			else
				start_recv(&crowd[i], c, &value[i], GMP_FOREVER - 1);
		}
		until_waiting(crowd, CROWD);
		for (int i = 0; i < CROWD; i++) {
			if (round % 2)
				recv_int(c);
			else
				send_int(c, i);
		}
		finish_crowd();
		if (gmp_procs() > 0)
			CHECK_EQ(stats().timers, 0);
	}
	gmp_chan_free(c);
}

/* --- race between a timeout and a peer --- */

enum { SIDES = 3 };

static struct race {
	gmp_chan *c;
	int each;
	atomic_int producer, received, timeouts;
	atomic_int seen[SIDES * 3000];
} race;

static unsigned draw(unsigned *seed)
{
	return (*seed = *seed * 1103515245 + 12345) >> 16;
}

static int64_t near(unsigned *seed)
{
	return gmp_deadline((int64_t)(draw(seed) % 40) * US);
}

static void send_in_a_race(UNUSED void *arg)
{
	unsigned seed = (unsigned)atomic_fetch_add(&race.producer, 1);
	int first = (int)seed * race.each;

	for (int i = 0; i < race.each;) {
		int v = first + i, err = gmp_chan_send_until(race.c, &v, near(&seed));

		CHECK_EQ(v, first + i);
		CHECK(err == 0 || err == -ETIMEDOUT);
		i += err == 0;
		atomic_fetch_add(&race.timeouts, err != 0);
		if (draw(&seed) % 8 == 0)
			gmp_yield();
	}
}

static void recv_in_a_race(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	int last[SIDES];

	memset(last, 0xff, sizeof(last));
	while (atomic_load(&race.received) < SIDES * race.each) {
		int v = -1, err = gmp_chan_recv_until(race.c, &v, near(&seed));

		if (draw(&seed) % 8 == 0)
			gmp_yield();
		if (err != 0) {
			CHECK_EQ(err, -ETIMEDOUT);
			CHECK_EQ(v, -1);
			continue;
		}
		CHECK(v >= 0 && v < SIDES * race.each);
		CHECK(v > last[v / race.each]);
		last[v / race.each] = v;
		CHECK_EQ(atomic_fetch_add(&race.seen[v], 1), 0);
		atomic_fetch_add(&race.received, 1);
	}
}

EVERYWHERE(chan_timeout_racing_peer_has_one_winner)
{
	for (size_t cap = 0; cap <= 2; cap++) {
		struct peer p[2 * SIDES];

		memset((void *)&race, 0, sizeof(race));
		race.c = int_chan(cap);
		race.each = SLOW ? 200 : 1500;
		for (int i = 0; i < SIDES; i++) {
			start(&p[2 * i], send_in_a_race, NULL);
			start(&p[2 * i + 1], recv_in_a_race, (void *)(intptr_t)(i + 77));
		}
		for (int i = 0; i < 2 * SIDES; i++)
			finish(&p[i]);
		CHECK_EQ(atomic_load(&race.received), SIDES * race.each);
		check_idle(race.c);
		gmp_chan_free(race.c);
		if (gmp_procs() > 0)
			CHECK_EQ(stats().timers, 0);
	}
}

/* --- lifetime: free as soon as the call has returned --- */

static gmp_chan *slots; /* of channels: the peer makes one call on each */
static enum { PEER_SENDS, PEER_RECEIVES, PEER_CLOSES } peer_does;

static void serve(UNUSED void *arg)
{
	gmp_chan *c;

	while (gmp_chan_recv(slots, &c) == 0) {
		int v = 5;

		if (peer_does == PEER_SENDS) {
			CHECK_EQ(gmp_chan_send(c, &v), 0);
		} else if (peer_does == PEER_RECEIVES) {
			CHECK_EQ(gmp_chan_recv_until(c, &v, gmp_deadline(3600 * SEC)), 0);
			CHECK_EQ(v, 6);
		} else {
			CHECK_EQ(gmp_chan_close(c), 0);
		}
	}
}

/* Wait, poll, or call after the peer. */
static void recv_and_free(gmp_chan *c, int i, int want)
{
	int v = -1, err;

	switch (i % 4) {
	case 0: err = gmp_chan_recv(c, &v); break;
	case 1: err = gmp_chan_recv_until(c, &v, gmp_deadline(3600 * SEC)); break;
	case 2:
		while ((err = gmp_chan_try_recv(c, &v)) == -EAGAIN)
			gmp_yield();
		break;
	default:
		for (int k = i / 4 % 4; k > 0; k--)
			gmp_yield();
		err = gmp_chan_recv(c, &v);
	}
	gmp_chan_free(c);
	CHECK_EQ(err, want);
	CHECK_EQ(v, err ? 0 : 5);
}

static void send_and_free(gmp_chan *c, int i)
{
	int v = 6, err;

	switch (i % 3) {
	case 0: err = gmp_chan_send(c, &v); break;
	case 1: err = gmp_chan_send_until(c, &v, gmp_deadline(3600 * SEC)); break;
	default:
		while ((err = gmp_chan_try_send(c, &v)) == -EAGAIN)
			gmp_yield();
	}
	gmp_chan_free(c);
	CHECK_EQ(err, 0);
}

EVERYWHERE(chan_freed_after_call_returns_is_not_used_again)
{
	for (peer_does = PEER_SENDS; peer_does <= PEER_CLOSES; peer_does++) {
		struct peer p;

		slots = chan(sizeof(gmp_chan *), 1);
		start(&p, serve, NULL);
		for (int i = 0; i < (SLOW ? 300 : 2000); i++) {
			gmp_chan *c = int_chan(peer_does == PEER_RECEIVES ? 0 : (size_t)i / 8 % 2);

			CHECK_EQ(gmp_chan_send(slots, &c), 0);
			if (peer_does == PEER_RECEIVES)
				send_and_free(c, i);
			else
				recv_and_free(c, i, peer_does == PEER_CLOSES ? -EPIPE : 0);
		}
		CHECK_EQ(gmp_chan_close(slots), 0);
		finish(&p);
		gmp_chan_free(slots);
	}
}

/* The waiters have been woken, but have not returned when the channel is freed. */
EVERYWHERE(chan_freed_after_close_is_not_used_by_woken_waiters)
{
	for (int round = 0; round < (SLOW ? 20 : 60); round++) {
		gmp_chan *c = int_chan(0);

		for (int i = 0; i < CROWD; i++) {
			int64_t deadline = i % 2 ? GMP_FOREVER : gmp_deadline(3600 * SEC);

			value[i] = 7;
			if (round % 2)
				start_send(&crowd[i], c, &value[i], deadline);
			else
				start_recv(&crowd[i], c, &value[i], deadline);
		}
		until_waiting(crowd, CROWD);
		CHECK_EQ(gmp_chan_close(c), 0);
		gmp_chan_free(c);
		for (int i = 0; i < CROWD; i++) {
			CHECK_EQ(finish(&crowd[i]), -EPIPE);
			CHECK_EQ(value[i], round % 2 ? 7 : 0);
		}
	}
}

EVERYWHERE(chan_freed_after_timeout_is_not_used_again)
{
	for (int i = 0; i < 200; i++) {
		gmp_chan *c = int_chan((size_t)i % 2);
		int v = 7;

		if (i % 2 && i % 4 == 1)
			send_int(c, 1);
		if (i % 4 < 2)
			CHECK_EQ(gmp_chan_send_until(c, &v, gmp_deadline(i % 50 * US)), -ETIMEDOUT);
		else
			CHECK_EQ(gmp_chan_recv_until(c, &v, gmp_deadline(i % 50 * US)), -ETIMEDOUT);
		gmp_chan_free(c);
		CHECK_EQ(v, 7);
	}
}

TEST(chan_free_discards_buffered_elements)
{
	gmp_chan *c = int_chan(4);

	send_int(c, 1);
	send_int(c, 2);
	gmp_chan_free(c);
}
