/* SPDX-License-Identifier: MIT */
/* Tests gmp_chan_close: receivers drain the buffer, then all callers and waiters get -EPIPE. */
#include "chan_util.h"

static const size_t sizes[] = { 0, 1, 3, 4, 8, 16, 24, 1000 };

#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static bool all_equal(const unsigned char *b, size_t n, int value)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != value)
			return false;
	return true;
}

static bool zeroed(const unsigned char *b, size_t size)
{
	return all_equal(b, size, 0) && all_equal(b + size, 16, 0xee);
}

EVERYWHERE(chan_recv_closed_drains_buffer_then_returns_epipe)
{
	for (int i = 0; i < NSIZES; i++) {
		for (size_t cap = 0; cap <= 4; cap += 2) {
			gmp_chan *c = chan(sizes[i], cap);
			unsigned char in[1000], out[1016];

			/* the buffer is full, and wraps around unless cap is below 2 */
			for (size_t k = 0; k + 1 < cap; k++) {
				memset(in, 99, sizeof(in));
				CHECK_EQ(gmp_chan_send(c, in), 0);
				CHECK_EQ(gmp_chan_recv(c, NULL), 0);
			}
			for (size_t k = 0; k < cap; k++) {
				memset(in, (int)k + 1, sizeof(in));
				CHECK_EQ(gmp_chan_send(c, in), 0);
			}
			CHECK_EQ(gmp_chan_close(c), 0);
			for (size_t k = 0; k < cap; k++) {
				CHECK_EQ(gmp_chan_len(c), cap - k);
				memset(out, 0xee, sizeof(out));
				CHECK_EQ(k % 2 ? gmp_chan_try_recv(c, out) : gmp_chan_recv(c, out),
					 0);
				CHECK(all_equal(out, sizes[i], (int)k + 1));
				CHECK(all_equal(out + sizes[i], 16, 0xee));
			}
			for (int again = 0; again < 2; again++) {
				CHECK_EQ(gmp_chan_len(c), 0);
				CHECK_EQ(gmp_chan_cap(c), cap);
				memset(out, 0xee, sizeof(out));
				CHECK_EQ(gmp_chan_recv(c, out), -EPIPE);
				CHECK(zeroed(out, sizes[i]));
				memset(out, 0xee, sizeof(out));
				CHECK_EQ(gmp_chan_try_recv(c, out), -EPIPE);
				CHECK(zeroed(out, sizes[i]));
				memset(out, 0xee, sizeof(out));
				CHECK_EQ(gmp_chan_recv_until(c, out, 0), -EPIPE);
				CHECK(zeroed(out, sizes[i]));
				memset(out, 0xee, sizeof(out));
				CHECK_EQ(gmp_chan_recv_until(c, out, gmp_deadline(SEC)), -EPIPE);
				CHECK(zeroed(out, sizes[i]));
				CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
				CHECK_EQ(gmp_chan_try_recv(c, NULL), -EPIPE);
				CHECK_EQ(gmp_chan_recv_until(c, NULL, 0), -EPIPE);
			}
			gmp_chan_free(c);
		}
	}
}

EVERYWHERE(chan_send_closed_returns_epipe)
{
	for (size_t cap = 0; cap <= 2; cap++) {
		for (size_t full = 0; full <= cap; full++) {
			gmp_chan *c = int_chan(cap);
			int v = 9;

			for (size_t i = 0; i < full; i++)
				send_int(c, (int)i);
			CHECK_EQ(gmp_chan_close(c), 0);
			/* also if the buffer is full: no call waits */
			CHECK_EQ(gmp_chan_send(c, &v), -EPIPE);
			CHECK_EQ(gmp_chan_try_send(c, &v), -EPIPE);
			CHECK_EQ(gmp_chan_send_until(c, &v, 0), -EPIPE);
			CHECK_EQ(gmp_chan_send_until(c, &v, gmp_deadline(SEC)), -EPIPE);
			CHECK_EQ(gmp_chan_send_until(c, &v, GMP_FOREVER), -EPIPE);
			CHECK_EQ(v, 9);
			CHECK_EQ(gmp_chan_len(c), full);
			for (size_t i = 0; i < full; i++)
				CHECK_EQ(recv_int(c), i);
			CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
			CHECK_EQ(gmp_chan_send(c, &v), -EPIPE);
			gmp_chan_free(c);
		}
	}
}

EVERYWHERE(chan_close_closed_returns_epipe)
{
	gmp_chan *c = int_chan(2);

	send_int(c, 5);
	CHECK_EQ(gmp_chan_close(c), 0);
	CHECK_EQ(gmp_chan_close(c), -EPIPE);
	CHECK_EQ(gmp_chan_close(c), -EPIPE);
	CHECK_EQ(gmp_chan_len(c), 1);
	CHECK_EQ(recv_int(c), 5);
	CHECK_EQ(gmp_chan_close(c), -EPIPE);
	CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
	gmp_chan_free(c);
}

enum { CROWD = 9 };

EVERYWHERE(chan_close_gives_waiting_receivers_epipe_and_zeroes)
{
	for (int i = 0; i < NSIZES; i++) {
		gmp_chan *c = chan(sizes[i], (size_t)i % 3);
		unsigned char out[CROWD][1016];
		struct peer p[CROWD];

		memset(out, 0xee, sizeof(out));
		for (int k = 0; k < CROWD; k++)
			start_recv(&p[k], c, k == 4 ? NULL : out[k],
				   k % 3 ? GMP_FOREVER : gmp_deadline(3600 * SEC));
		until_waiting(p, CROWD);
		CHECK_EQ(gmp_chan_close(c), 0);
		for (int k = 0; k < CROWD; k++) {
			CHECK_EQ(finish(&p[k]), -EPIPE);
			CHECK(k == 4 ? all_equal(out[k], 1016, 0xee) : zeroed(out[k], sizes[i]));
		}
		CHECK_EQ(gmp_chan_close(c), -EPIPE);
		gmp_chan_free(c);
	}
}

EVERYWHERE(chan_close_gives_waiting_senders_epipe)
{
	for (int cap = 0; cap <= 3; cap++) {
		gmp_chan *c = int_chan((size_t)cap);
		struct peer p[CROWD];
		int v[CROWD], got;

		for (int i = 0; i < cap; i++)
			send_int(c, i);
		for (int k = 0; k < CROWD; k++) {
			v[k] = 100 + k;
			start_send(&p[k], c, &v[k], k % 3 ? GMP_FOREVER : gmp_deadline(3600 * SEC));
		}
		until_waiting(p, CROWD);
		CHECK_EQ(gmp_chan_close(c), 0);
		CHECK_EQ(gmp_chan_len(c), cap);
		for (int i = 0; i < cap; i++)
			CHECK_EQ(recv_int(c), i);
		got = 77;
		CHECK_EQ(gmp_chan_recv(c, &got), -EPIPE);
		CHECK_EQ(got, 0);
		for (int k = 0; k < CROWD; k++) {
			CHECK_EQ(finish(&p[k]), -EPIPE);
			CHECK_EQ(v[k], 100 + k);
		}
		CHECK_EQ(gmp_chan_len(c), 0);
		gmp_chan_free(c);
	}
}

/* --- thousands of waiters --- */

static gmp_chan *shared_chan;
static atomic_int woken;

static void wait_for_close(void *arg)
{
	int v = 0x5eed;

	if (arg == NULL) {
		CHECK_EQ(gmp_chan_recv(shared_chan, &v), -EPIPE);
		CHECK_EQ(v, 0);
	} else {
		CHECK_EQ(gmp_chan_send(shared_chan, &v), -EPIPE);
		CHECK_EQ(v, 0x5eed);
	}
	atomic_fetch_add(&woken, 1);
}

RT(chan_close_wakes_10000_waiters)
{
	int n = SLOW ? 2000 : 10000;
	struct ext_thread f[4];

	for (int side = 0; side < 2; side++) {
		shared_chan = int_chan(0);
		atomic_store(&woken, 0);
		for (int i = 0; i < 4; i++)
			ext_thread_start(&f[i], wait_for_close, side ? &woken : NULL);
		for (int i = 0; i < n; i++)
			CHECK_EQ(gmp_go(wait_for_close, side ? &woken : NULL), 0);
		WAIT_FOR(all_wait((uint64_t)n));
		CHECK_EQ(gmp_chan_close(shared_chan), 0);
		WAIT_FOR(atomic_load(&woken) == n + 4);
		for (int i = 0; i < 4; i++)
			ext_thread_join(&f[i]);
		WAIT_FOR(stats().greens == 1);
		gmp_chan_free(shared_chan);
	}
}

static void close_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_chan_close(shared_chan), 0);
}

RT(chan_close_by_external_thread_wakes_all_green_threads)
{
	int n = SLOW ? 200 : 1000;
	struct ext_thread f;

	for (int round = 0; round < 5; round++) {
		shared_chan = int_chan(0);
		atomic_store(&woken, 0);
		for (int i = 0; i < n; i++)
			CHECK_EQ(gmp_go(wait_for_close, NULL), 0);
		WAIT_FOR(all_wait((uint64_t)n));
		ext_thread_start(&f, close_it, NULL);
		WAIT_FOR(atomic_load(&woken) == n);
		ext_thread_join(&f);
		WAIT_FOR(stats().greens == 1);
		gmp_chan_free(shared_chan);
	}
}

/* --- races --- */

static atomic_int closed_by, ready_set;
static int sent_ok[4], received;

static void close_in_a_race(UNUSED void *arg)
{
	int err = gmp_chan_close(shared_chan);

	CHECK(err == 0 || err == -EPIPE);
	atomic_fetch_add(&closed_by, err == 0);
}

EVERYWHERE(chan_concurrent_closes_have_one_winner)
{
	for (int round = 0; round < (SLOW ? 30 : 200); round++) {
		struct peer p[4];

		shared_chan = int_chan(0);
		atomic_store(&closed_by, 0);
		for (int i = 0; i < 4; i++)
			start(&p[i], close_in_a_race, NULL);
		for (int i = 0; i < 4; i++)
			finish(&p[i]);
		CHECK_EQ(atomic_load(&closed_by), 1);
		gmp_chan_free(shared_chan);
	}
}

static void send_until_closed(void *arg)
{
	int *sent = arg, err;

	*sent = 0;
	atomic_fetch_add(&ready_set, 1);
	do {
		int v = 1;

		if (*sent % 3 == 2)
			err = gmp_chan_try_send(shared_chan, &v);
		else if (*sent % 3 == 1)
			err = gmp_chan_send_until(shared_chan, &v, gmp_deadline(20 * US));
		else
			err = gmp_chan_send(shared_chan, &v);
		CHECK(err == 0 || err == -EPIPE || err == -EAGAIN || err == -ETIMEDOUT);
		*sent += err == 0;
		if (err == -EAGAIN)
			gmp_yield();
	} while (err != -EPIPE);
}

static void recv_until_closed(UNUSED void *arg)
{
	int v;

	for (received = 0; gmp_chan_recv(shared_chan, &v) == 0; received++)
		CHECK_EQ(v, 1);
	CHECK_EQ(v, 0);
}

EVERYWHERE(chan_send_racing_close_arrives_iff_it_succeeds)
{
	for (int round = 0; round < (SLOW ? 20 : 100); round++) {
		struct peer p[5];
		int sent = 0;

		shared_chan = int_chan((size_t)round % 4);
		atomic_store(&ready_set, 0);
		for (int i = 0; i < 4; i++)
			start(&p[i], send_until_closed, &sent_ok[i]);
		start(&p[4], recv_until_closed, NULL);
		WAIT_FOR(atomic_load(&ready_set) == 4);
		for (int i = 0; i < round % 7; i++)
			gmp_yield();
		CHECK_EQ(gmp_chan_close(shared_chan), 0);
		for (int i = 0; i < 5; i++)
			finish(&p[i]);
		for (int i = 0; i < 4; i++)
			sent += sent_ok[i];
		CHECK_EQ(received, sent);
		gmp_chan_free(shared_chan);
	}
}

/*
 * The fast path of a try call reads the state unlocked. It may return -EAGAIN only if the channel
 * was open and empty, or open and full, at one instant. An external thread makes one try call per
 * round, at about the time of the close.
 */
static atomic_int round_begun, answered;
static int answer;
static gmp_dir try_dir;

static void try_each_round(UNUSED void *arg)
{
	for (int round = 1;; round++) {
		int v = 3, now;

		while ((now = atomic_load(&round_begun)) < round)
			if (now < 0)
				return;
		answer = try_dir == GMP_SEND ? gmp_chan_try_send(shared_chan, &v)
					     : gmp_chan_try_recv(shared_chan, &v);
		atomic_store(&answered, round);
	}
}

static void spin(int n)
{
	for (volatile int i = 0; i < n; i++)
		;
}

RT(chan_try_recv_racing_close_and_drain_never_eagain)
{
	int n = (int)check_scaled(100000);
	int64_t limit = gmp_deadline(SEC); /* the rounds take longer on a busy machine */
	struct ext_thread f;

	try_dir = GMP_RECV;
	ext_thread_start(&f, try_each_round, NULL);
	for (int round = 1; round <= n && gmp_now() < limit; round++) {
		int v = 0;

		shared_chan = int_chan(1);
		send_int(shared_chan, 1);
		atomic_store(&round_begun, round);
		spin(round % 64);
		CHECK_EQ(gmp_chan_close(shared_chan), 0);
		int err = gmp_chan_recv(shared_chan, &v);

		while (atomic_load(&answered) != round)
			;
		CHECK_EQ(answer, err == 0 ? -EPIPE : 0);
		gmp_chan_free(shared_chan);
	}
	atomic_store(&round_begun, -1);
	ext_thread_join(&f);
}

RT(chan_try_send_to_waiter_racing_close_never_eagain)
{
	int n = (int)check_scaled(50000);
	int64_t limit = gmp_deadline(SEC); /* the rounds take longer on a busy machine */
	struct ext_thread f;

	try_dir = GMP_SEND;
	ext_thread_start(&f, try_each_round, NULL);
	for (int round = 1; round <= n && gmp_now() < limit; round++) {
		struct peer p;
		int v;

		shared_chan = int_chan(0);
		start_recv(&p, shared_chan, &v, GMP_FOREVER);
		until_waiting(&p, 1);
		atomic_store(&round_begun, round);
		spin(round % 64);
		CHECK_EQ(gmp_chan_close(shared_chan), 0);
		while (atomic_load(&answered) != round)
			;
		CHECK_EQ(finish(&p), answer);
		CHECK_EQ(v, answer ? 0 : 3);
		CHECK(answer == 0 || answer == -EPIPE);
		gmp_chan_free(shared_chan);
	}
	atomic_store(&round_begun, -1);
	ext_thread_join(&f);
}
