/* SPDX-License-Identifier: MIT */
/*
 * Tests happens-before of channels: plain memory that is written before a send, a close, or a
 * receive that frees a slot is read after the call that waited for it. ThreadSanitizer checks the
 * same.
 */
#include "chan_util.h"

enum { N = 2000, FREED = -9 };

static gmp_chan *c;
static int cap, rounds;
static int before_send[N], before_recv[N];

static void begin(int capacity)
{
	cap = capacity;
	rounds = SLOW ? N / 10 : N;
	c = int_chan((size_t)capacity);
	memset(before_send, 0, sizeof(before_send));
	memset(before_recv, 0, sizeof(before_recv));
}

static void dwell(int i)
{
	if (i % 7 == 3)
		gmp_yield();
}

/* In an unbuffered channel two try calls never match, so at most one side tries in a round. */
static int send_somehow(int i)
{
	int err;

	switch (cap == 0 && i / 4 % 8 == 2 ? 0 : i / 3 % 8) {
	case 1: return gmp_chan_send_until(c, &i, gmp_deadline(3600 * SEC));
	case 2:
		while ((err = gmp_chan_try_send(c, &i)) == -EAGAIN)
			gmp_yield();
		return err;
	default: return gmp_chan_send(c, &i);
	}
}

static int recv_somehow(int i, int *v)
{
	int err;

	switch (i / 4 % 8) {
	case 1: return gmp_chan_recv_until(c, v, gmp_deadline(3600 * SEC));
	case 2:
		while ((err = gmp_chan_try_recv(c, v)) == -EAGAIN)
			gmp_yield();
		return err;
	default: return gmp_chan_recv(c, v);
	}
}

/* The k-th send returns only after the (k - capacity)-th receive has begun. */
static void send_all(UNUSED void *arg)
{
	for (int i = 0; i < rounds; i++) {
		dwell(i);
		before_send[i] = i + 1;
		CHECK_EQ(send_somehow(i), 0);
		if (i >= cap)
			CHECK_EQ(before_recv[i - cap], i - cap + 1);
	}
}

static void recv_all(void)
{
	for (int i = 0; i < rounds; i++) {
		int v = -1;

		dwell(i + i / 100);
		before_recv[i] = i + 1;
		CHECK_EQ(recv_somehow(i, &v), 0);
		CHECK_EQ(v, i);
		CHECK_EQ(before_send[i], i + 1);
	}
}

EVERYWHERE(chan_send_and_recv_establish_happens_before)
{
	static const int caps[] = { 0, 1, 2, 5 };

	for (int k = 0; k < 4; k++) {
		struct peer p;

		begin(caps[k]);
		start(&p, send_all, NULL);
		recv_all();
		finish(&p);
		gmp_chan_free(c);
	}
}

/* --- close --- */

enum { CROWD = 8 };

static int before_close;

static void wait_for_epipe(void *arg)
{
	int i = (int)(intptr_t)arg, v = 5, err;

	dwell(i);
	if (i % 4 == 3)
		while ((err = gmp_chan_try_recv(c, &v)) == -EAGAIN)
			gmp_yield();
	else if (i % 4 == 2)
		err = gmp_chan_send(c, &v);
	else
		err = i % 4 ? gmp_chan_recv(c, &v)
			    : gmp_chan_recv_until(c, NULL, gmp_deadline(3600 * SEC));
	CHECK_EQ(err, -EPIPE);
	CHECK_EQ(before_close, 42);
}

EVERYWHERE(chan_close_happens_before_epipe)
{
	for (int round = 0; round < (SLOW ? 20 : 60); round++) {
		struct peer p[CROWD];
		int n = 0;

		begin(0);
		before_close = 0;
		/* senders and receivers would match: only one side per round */
		for (int i = 0; i < CROWD; i++)
			if ((i % 4 == 2) == (round % 3 == 0))
				start(&p[n++], wait_for_epipe, (void *)(intptr_t)i);
		for (int i = round % 4; i > 0; i--)
			gmp_yield();
		before_close = 42;
		CHECK_EQ(gmp_chan_close(c), 0);
		for (int i = 0; i < n; i++)
			finish(&p[i]);
		gmp_chan_free(c);
	}
}

/* --- as a semaphore --- */

static long counter;
static int slot_user[3]; /* round of the user of each of `cap` slots, or FREED */

static void count(UNUSED void *arg)
{
	for (int i = 0; i < rounds; i++) {
		CHECK_EQ(send_somehow(i), 0);
		counter++;
		dwell(i);
		CHECK_EQ(gmp_chan_recv(c, NULL), 0);
	}
}

EVERYWHERE(chan_buffer_of_one_acts_as_mutex)
{
	struct peer p[5];

	begin(1);
	rounds /= 5;
	counter = 0;
	for (int i = 0; i < 5; i++)
		start(&p[i], count, NULL);
	for (int i = 0; i < 5; i++)
		finish(&p[i]);
	CHECK_EQ(counter, 5 * rounds);
	check_idle(c);
	gmp_chan_free(c);
}

/* The elements are the free slots of a pool. A slot has one user at a time. */
static void use_pool(UNUSED void *arg)
{
	for (int i = 0; i < rounds; i++) {
		int slot = -1;

		CHECK_EQ(recv_somehow(i, &slot), 0);
		CHECK_EQ(slot_user[slot], FREED);
		slot_user[slot] = i;
		dwell(i);
		CHECK_EQ(slot_user[slot], i);
		slot_user[slot] = FREED;
		CHECK_EQ(gmp_chan_send(c, &slot), 0);
	}
}

EVERYWHERE(chan_of_slots_acts_as_pool)
{
	struct peer p[6];

	begin(3);
	rounds /= 6;
	for (int i = 0; i < 3; i++) {
		slot_user[i] = FREED;
		send_int(c, i);
	}
	for (int i = 0; i < 6; i++)
		start(&p[i], use_pool, NULL);
	for (int i = 0; i < 6; i++)
		finish(&p[i]);
	CHECK_EQ(gmp_chan_len(c), 3);
	gmp_chan_free(c);
}

/* --- ownership --- */

struct box {
	int v[20];
};

/* The receiver may free the box before the sender's call has returned. */
static void send_boxes(UNUSED void *arg)
{
	for (int i = 0; i < rounds; i++) {
		struct box *b = malloc(sizeof(*b));

		CHECK(b != NULL);
		for (int k = 0; k < 20; k++)
			b->v[k] = i + k;
		CHECK_EQ(gmp_chan_send(c, &b), 0);
		dwell(i);
	}
	CHECK_EQ(gmp_chan_close(c), 0);
}

EVERYWHERE(chan_send_passes_ownership_of_memory)
{
	for (size_t k = 0; k < 4; k += 3) {
		struct peer p;
		struct box *b;
		int i = 0;

		begin(0);
		gmp_chan_free(c);
		c = chan(sizeof(struct box *), k);
		start(&p, send_boxes, NULL);
		for (; gmp_chan_recv(c, &b) == 0; i++) {
			for (int n = 0; n < 20; n++)
				CHECK_EQ(b->v[n], i + n);
			memset(b, 0xff, sizeof(*b));
			free(b);
		}
		CHECK(b == NULL);
		CHECK_EQ(i, rounds);
		finish(&p);
		gmp_chan_free(c);
	}
}
