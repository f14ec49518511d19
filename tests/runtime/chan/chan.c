/* SPDX-License-Identifier: MIT */
/*
 * Tests channel send and receive: each element arrives once, whole and in order, through the buffer
 * or directly. Close is tested by chan_close.c, deadlines and lifetime by chan_wait.c,
 * happens-before by chan_order.c, channels that outlive a run by chan_runs.c.
 */
#include "chan_util.h"

/* --- gmp_chan_new --- */

TEST(chan_new_overflowing_size_returns_null)
{
	CHECK(gmp_chan_new(SIZE_MAX, 2) == NULL);
	CHECK(gmp_chan_new(2, SIZE_MAX) == NULL);
	CHECK(gmp_chan_new(SIZE_MAX, SIZE_MAX) == NULL);
	CHECK(gmp_chan_new(SIZE_MAX / 2 + 1, 2) == NULL);
	CHECK(gmp_chan_new((size_t)1 << 32, (size_t)1 << 32) == NULL);
	/* the product fits, but its sum with the channel's header overflows */
	CHECK(gmp_chan_new(SIZE_MAX, 1) == NULL);
	CHECK(gmp_chan_new(1, SIZE_MAX - 8) == NULL);
}

TEST(chan_new_without_memory_returns_null)
{
	if (SANITIZED)
		check_skip("a sanitizer aborts if malloc fails");
	CHECK(gmp_chan_new(SIZE_MAX / 4, 1) == NULL);
	CHECK(gmp_chan_new(1, SIZE_MAX / 4) == NULL);
	CHECK(gmp_chan_new((size_t)1 << 40, (size_t)1 << 20) == NULL);
}

TEST(chan_unbuffered_of_huge_elements_needs_no_memory)
{
	gmp_chan *c = chan(SIZE_MAX, 0);

	CHECK_EQ(gmp_chan_try_recv(c, NULL), -EAGAIN);
	CHECK_EQ(gmp_chan_try_send(c, c), -EAGAIN);
	CHECK_EQ(gmp_chan_close(c), 0);
	CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
	gmp_chan_free(c);
}

TEST(chan_of_empty_elements_holds_any_number)
{
	gmp_chan *c = chan(0, SIZE_MAX);

	for (int i = 0; i < 5000; i++)
		CHECK_EQ(gmp_chan_send(c, NULL), 0);
	CHECK_EQ(gmp_chan_len(c), 5000);
	for (int i = 0; i < 5000; i++)
		CHECK_EQ(gmp_chan_recv(c, NULL), 0);
	CHECK_EQ(gmp_chan_len(c), 0);
	CHECK_EQ(gmp_chan_try_recv(c, NULL), -EAGAIN);
	gmp_chan_free(c);
}

TEST(chan_free_of_null_does_nothing)
{
	gmp_chan_free(NULL);
}

/* --- direct and buffered exchange --- */

EVERYWHERE(chan_unbuffered_send_matches_recv)
{
	gmp_chan *c = int_chan(0);
	struct peer p;
	int v = 5, got = 0;

	start_send(&p, c, &v, GMP_FOREVER);
	until_waiting(&p, 1);
	CHECK_EQ(gmp_chan_len(c), 0);
	CHECK_EQ(try_send_int(c, 6), -EAGAIN);
	CHECK_EQ(recv_int(c), 5);
	CHECK_EQ(finish(&p), 0);
	CHECK_EQ(v, 5);
	check_idle(c);

	start_recv(&p, c, &got, GMP_FOREVER);
	until_waiting(&p, 1);
	CHECK_EQ(gmp_chan_len(c), 0);
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
	send_int(c, 7);
	CHECK_EQ(finish(&p), 0);
	CHECK_EQ(got, 7);
	check_idle(c);

	/* try and timed calls match a waiter, too */
	start_send(&p, c, &v, gmp_deadline(3600 * SEC));
	until_waiting(&p, 1);
	CHECK_EQ(gmp_chan_try_recv(c, &got), 0);
	CHECK_EQ(got, 5);
	CHECK_EQ(finish(&p), 0);
	start_recv(&p, c, &got, gmp_deadline(3600 * SEC));
	until_waiting(&p, 1);
	CHECK_EQ(try_send_int(c, 8), 0);
	CHECK_EQ(finish(&p), 0);
	CHECK_EQ(got, 8);
	start_recv(&p, c, &got, GMP_FOREVER);
	until_waiting(&p, 1);
	CHECK_EQ(gmp_chan_send_until(c, &v, 0), 0);
	CHECK_EQ(finish(&p), 0);
	CHECK_EQ(got, 5);
	start_send(&p, c, &v, GMP_FOREVER);
	until_waiting(&p, 1);
	CHECK_EQ(gmp_chan_recv_until(c, &got, INT64_MIN), 0);
	CHECK_EQ(finish(&p), 0);
	check_idle(c);
	gmp_chan_free(c);
}

EVERYWHERE(chan_buffer_holds_capacity_elements)
{
	for (int cap = 1; cap <= 100; cap += cap < 5 ? 1 : 19) {
		gmp_chan *c = int_chan((size_t)cap);

		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < cap; i++) {
				CHECK_EQ(gmp_chan_len(c), i);
				if (i % 3 == 0)
					send_int(c, i);
				else if (i % 3 == 1)
					CHECK_EQ(try_send_int(c, i), 0);
				else
					CHECK_EQ(gmp_chan_send_until(c, &i, 0), 0);
			}
			CHECK_EQ(gmp_chan_len(c), cap);
			CHECK_EQ(gmp_chan_cap(c), cap);
			CHECK_EQ(try_send_int(c, -1), -EAGAIN);
			for (int i = 0, v = -1; i < cap; i++) {
				CHECK_EQ(gmp_chan_len(c), cap - i);
				if (i % 3 == 0)
					v = recv_int(c);
				else if (i % 3 == 1)
					CHECK_EQ(gmp_chan_try_recv(c, &v), 0);
				else
					CHECK_EQ(gmp_chan_recv_until(c, &v, 0), 0);
				CHECK_EQ(v, i);
			}
			CHECK_EQ(gmp_chan_len(c), 0);
		}
		gmp_chan_free(c);
	}
}

TEST(chan_len_and_cap_of_null_are_0)
{
	CHECK_EQ(gmp_chan_len(NULL), 0);
	CHECK_EQ(gmp_chan_cap(NULL), 0);
}

/* --- elements --- */

enum { PAD = 16, BIGGEST = 1000 };

struct bytes {
	unsigned char b[PAD + BIGGEST + PAD];
};

/* Sizes that 3 divides get an aligned address, all others an odd one. */
static unsigned char *at(struct bytes *m, size_t size)
{
	return m->b + PAD + (size % 3 != 0);
}

static void fill(struct bytes *m, size_t size, int seed)
{
	memset(m, 0xa5, sizeof(*m));
	for (size_t i = 0; i < size; i++)
		at(m, size)[i] = (unsigned char)(seed * 31 + (int)i * 7 + (int)(i >> 8) + 1);
}

/* m must be as fill() left it, including the padding. */
static void check_filled(struct bytes *m, size_t size, int seed)
{
	struct bytes want;

	fill(&want, size, seed);
	CHECK_EQ(memcmp(m, &want, sizeof(want)), 0);
}

static void recv_filled(gmp_chan *c, size_t size, int seed)
{
	struct bytes m;

	fill(&m, size, seed + 100);
	CHECK_EQ(gmp_chan_recv(c, at(&m, size)), 0);
	check_filled(&m, size, seed);
}

static void send_filled(gmp_chan *c, size_t size, int seed)
{
	struct bytes m;

	fill(&m, size, seed);
	CHECK_EQ(gmp_chan_send(c, at(&m, size)), 0);
	check_filled(&m, size, seed);
}

static void exchange_elements(size_t size, int cap)
{
	gmp_chan *c = chan(size, (size_t)cap);
	struct bytes m;
	struct peer p;

	/* through the buffer, from each slot */
	for (int round = 0; round < 3 && cap > 0; round++) {
		for (int i = 0; i < cap; i++)
			send_filled(c, size, 10 * round + i);
		for (int i = 0; i < cap; i++)
			recv_filled(c, size, 10 * round + i);
		send_filled(c, size, 1);
		recv_filled(c, size, 1);
	}
	/* to a waiting receiver */
	fill(&m, size, 200);
	start_recv(&p, c, at(&m, size), GMP_FOREVER);
	until_waiting(&p, 1);
	send_filled(c, size, 50);
	CHECK_EQ(finish(&p), 0);
	check_filled(&m, size, 50);
	/* to a waiting receiver that discards it */
	start_recv(&p, c, NULL, GMP_FOREVER);
	until_waiting(&p, 1);
	send_filled(c, size, 51);
	CHECK_EQ(finish(&p), 0);
	CHECK_EQ(gmp_chan_len(c), 0);
	/* from a waiting sender */
	for (int drop = 0; drop <= 1; drop++) {
		for (int i = 0; i < cap; i++)
			send_filled(c, size, i);
		fill(&m, size, 60);
		start_send(&p, c, at(&m, size), GMP_FOREVER);
		until_waiting(&p, 1);
		if (drop)
			CHECK_EQ(gmp_chan_recv(c, NULL), 0);
		for (int i = drop; i < cap; i++)
			recv_filled(c, size, i);
		if (!drop || cap > 0)
			recv_filled(c, size, 60);
		CHECK_EQ(finish(&p), 0);
		check_filled(&m, size, 60);
		CHECK_EQ(gmp_chan_len(c), 0);
	}
	gmp_chan_free(c);
}

static const size_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 32, 64, 100, 1000 };

#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

EVERYWHERE(chan_elements_of_any_size_and_alignment_arrive_whole)
{
	for (int i = 0; i < NSIZES; i++)
		for (int cap = 0; cap <= 3; cap += cap ? 2 : 1)
			exchange_elements(sizes[i], cap);
}

/* The model is a queue of two counters. */
TEST(chan_random_steps_agree_with_model)
{
	unsigned rnd = 12345;

	for (int i = 0; i < NSIZES; i++) {
		for (int cap = 1; cap <= 9; cap++) {
			gmp_chan *c = chan(sizes[i], (size_t)cap);
			int head = 0, tail = 0;

			for (int step = 0; step < 1000; step++) {
				struct bytes m;
				unsigned r = (rnd = rnd * 1103515245 + 12345) >> 16;

				if (r % 2) {
					fill(&m, sizes[i], tail % 100);
					CHECK_EQ(gmp_chan_try_send(c, at(&m, sizes[i])),
						 tail - head == cap ? -EAGAIN : 0);
					check_filled(&m, sizes[i], tail % 100);
					tail += tail - head < cap;
				} else if (head == tail) {
					fill(&m, sizes[i], 7);
					CHECK_EQ(gmp_chan_try_recv(c, at(&m, sizes[i])), -EAGAIN);
					check_filled(&m, sizes[i], 7);
				} else if (r / 2 % 8 == 0) {
					CHECK_EQ(gmp_chan_try_recv(c, NULL), 0);
					head++;
				} else {
					recv_filled(c, sizes[i], head++ % 100);
				}
				CHECK_EQ(gmp_chan_len(c), tail - head);
			}
			CHECK_EQ(gmp_chan_close(c), 0);
			while (head < tail)
				recv_filled(c, sizes[i], head++ % 100);
			CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
			gmp_chan_free(c);
		}
	}
}

EVERYWHERE(chan_null_element_send_is_einval_recv_discards)
{
	for (size_t cap = 0; cap <= 1; cap++) {
		gmp_chan *c = int_chan(cap), *empty = chan(0, cap);
		struct peer p;
		int v = 3;

		/* with room, without room, with a waiting receiver, closed */
		for (int round = 0; round < 2; round++) {
			CHECK_EQ(gmp_chan_send(c, NULL), -EINVAL);
			CHECK_EQ(gmp_chan_try_send(c, NULL), -EINVAL);
			CHECK_EQ(gmp_chan_send_until(c, NULL, 0), -EINVAL);
			CHECK_EQ(gmp_chan_send_until(c, NULL, GMP_FOREVER), -EINVAL);
			CHECK_EQ(gmp_chan_len(c), round ? cap : 0);
			if (cap > 0 && round == 0)
				send_int(c, 1);
		}
		if (cap > 0) {
			CHECK_EQ(gmp_chan_recv(c, NULL), 0);
			send_int(c, 2);
			CHECK_EQ(gmp_chan_try_recv(c, NULL), 0);
			send_int(c, 2);
			CHECK_EQ(gmp_chan_recv_until(c, NULL, 0), 0);
		}
		start_recv(&p, c, &v, GMP_FOREVER);
		until_waiting(&p, 1);
		CHECK_EQ(gmp_chan_send(c, NULL), -EINVAL);
		CHECK_EQ(gmp_chan_try_send(c, NULL), -EINVAL);
		send_int(c, 4);
		CHECK_EQ(finish(&p), 0);
		CHECK_EQ(v, 4);
		CHECK_EQ(gmp_chan_close(c), 0);
		CHECK_EQ(gmp_chan_send(c, NULL), -EINVAL);
		CHECK_EQ(gmp_chan_try_send(c, NULL), -EINVAL);
		CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
		CHECK_EQ(gmp_chan_try_recv(c, NULL), -EPIPE);
		gmp_chan_free(c);

		/* an empty element needs no address, on either side */
		start_send(&p, empty, NULL, GMP_FOREVER);
		if (cap == 0)
			until_waiting(&p, 1);
		CHECK_EQ(gmp_chan_recv(empty, NULL), 0);
		CHECK_EQ(finish(&p), 0);
		start_recv(&p, empty, NULL, GMP_FOREVER);
		until_waiting(&p, 1);
		CHECK_EQ(gmp_chan_try_send(empty, NULL), 0);
		CHECK_EQ(finish(&p), 0);
		gmp_chan_free(empty);
	}
}

EVERYWHERE(chan_null_returns_einval)
{
	int v = 3;

	CHECK_EQ(gmp_chan_send(NULL, &v), -EINVAL);
	CHECK_EQ(gmp_chan_send(NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_chan_try_send(NULL, &v), -EINVAL);
	CHECK_EQ(gmp_chan_send_until(NULL, &v, 0), -EINVAL);
	CHECK_EQ(gmp_chan_send_until(NULL, &v, GMP_FOREVER), -EINVAL);
	CHECK_EQ(gmp_chan_recv(NULL, &v), -EINVAL);
	CHECK_EQ(gmp_chan_recv(NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_chan_try_recv(NULL, &v), -EINVAL);
	CHECK_EQ(gmp_chan_recv_until(NULL, &v, 0), -EINVAL);
	CHECK_EQ(gmp_chan_recv_until(NULL, &v, GMP_FOREVER), -EINVAL);
	CHECK_EQ(gmp_chan_close(NULL), -EINVAL);
	CHECK_EQ(v, 3);
}

/* --- order --- */

enum { CROWD = 10 };

EVERYWHERE(chan_receivers_are_served_in_fifo_order)
{
	for (size_t cap = 0; cap <= 3; cap += 3) {
		gmp_chan *c = int_chan(cap);
		struct peer p[CROWD];
		int got[CROWD];

		for (int i = 0; i < CROWD; i++) {
			start_recv(&p[i], c, &got[i],
				   i % 3 ? GMP_FOREVER : gmp_deadline(3600 * SEC));
			until_waiting(p, i + 1);
		}
		for (int i = 0; i < CROWD; i++)
			CHECK_EQ(i % 2 ? try_send_int(c, i) : gmp_chan_send(c, &i), 0);
		for (int i = 0; i < CROWD; i++) {
			CHECK_EQ(finish(&p[i]), 0);
			CHECK_EQ(got[i], i);
		}
		check_idle(c);
		gmp_chan_free(c);
	}
}

EVERYWHERE(chan_senders_are_served_in_fifo_order_after_buffer)
{
	for (int cap = 0; cap <= 3; cap++) {
		gmp_chan *c = int_chan((size_t)cap);
		struct peer p[CROWD];
		int v[CROWD];

		for (int i = 0; i < cap; i++)
			send_int(c, i);
		for (int i = 0; i < CROWD; i++) {
			v[i] = cap + i;
			start_send(&p[i], c, &v[i], i % 3 ? GMP_FOREVER : gmp_deadline(3600 * SEC));
			until_waiting(p, i + 1);
			CHECK_EQ(gmp_chan_len(c), cap);
		}
		for (int i = 0, got = -1; i < cap + CROWD; i++) {
			CHECK_EQ(i % 2 ? gmp_chan_try_recv(c, &got) : gmp_chan_recv(c, &got), 0);
			CHECK_EQ(got, i);
			/* while a sender waits, it takes the free slot at once */
			CHECK_EQ(gmp_chan_len(c), i < CROWD ? cap : cap + CROWD - 1 - i);
			/* the next sender in FIFO order has returned */
			if (i < CROWD)
				CHECK_EQ(finish(&p[i]), 0);
		}
		check_idle(c);
		gmp_chan_free(c);
	}
}

EVERYWHERE(chan_send_hands_element_to_waiting_receiver)
{
	for (size_t cap = 0; cap <= 2; cap++) {
		gmp_chan *c = int_chan(cap);
		struct peer p;
		int got = -1, mine = 77;

		start_recv(&p, c, &got, GMP_FOREVER);
		until_waiting(&p, 1);
		send_int(c, 1);
		/* the element is the waiter's, even if that has not run yet */
		CHECK_EQ(gmp_chan_len(c), 0);
		CHECK_EQ(gmp_chan_try_recv(c, &mine), -EAGAIN);
		CHECK_EQ(gmp_chan_recv_until(c, &mine, 0), -ETIMEDOUT);
		CHECK_EQ(mine, 77);
		CHECK_EQ(finish(&p), 0);
		CHECK_EQ(got, 1);
		gmp_chan_free(c);
	}
}

EVERYWHERE(chan_recv_hands_slot_to_waiting_sender)
{
	gmp_chan *c = int_chan(2);
	struct peer p;
	int v = 3;

	send_int(c, 1);
	send_int(c, 2);
	start_send(&p, c, &v, GMP_FOREVER);
	until_waiting(&p, 1);
	CHECK_EQ(recv_int(c), 1);
	CHECK_EQ(gmp_chan_len(c), 2);
	CHECK_EQ(try_send_int(c, 4), -EAGAIN);
	CHECK_EQ(gmp_chan_send_until(c, &v, 0), -ETIMEDOUT);
	CHECK_EQ(recv_int(c), 2);
	CHECK_EQ(recv_int(c), 3);
	CHECK_EQ(finish(&p), 0);
	check_idle(c);
	gmp_chan_free(c);
}

EVERYWHERE(chan_receiver_is_woken_with_element_in_place)
{
	gmp_chan *to = int_chan(0), *from = int_chan(0);
	struct peer p[2];

	for (int i = 0; i < 20; i++) {
		int got = -1, back = -1, v = i;

		start_recv(&p[0], to, &got, GMP_FOREVER);
		start_recv(&p[1], from, &back, GMP_FOREVER);
		until_waiting(p, 2);
		CHECK_EQ(gmp_chan_send(from, &v), 0);
		CHECK_EQ(finish(&p[1]), 0);
		CHECK_EQ(back, i);
		CHECK_EQ(got, -1);
		CHECK_EQ(gmp_chan_send(to, &v), 0);
		CHECK_EQ(finish(&p[0]), 0);
		CHECK_EQ(got, i);
	}
	gmp_chan_free(to);
	gmp_chan_free(from);
}

/* --- crowds of producers and consumers --- */

enum { PRODUCERS = 5, CONSUMERS = 4 };

static struct crowd {
	gmp_chan *c;
	int each;
	atomic_int producer, consumed;
	atomic_int seen[PRODUCERS * 2000];
} crowd;

static void produce(UNUSED void *arg)
{
	int first = atomic_fetch_add(&crowd.producer, 1) * crowd.each;

	for (int i = 0; i < crowd.each; i++)
		send_int(crowd.c, first + i);
}

static void consume(UNUSED void *arg)
{
	int last[PRODUCERS], v;

	memset(last, 0xff, sizeof(last));
	while (gmp_chan_recv(crowd.c, &v) == 0) {
		CHECK(v >= 0 && v < PRODUCERS * crowd.each);
		CHECK(v > last[v / crowd.each]);
		last[v / crowd.each] = v;
		CHECK_EQ(atomic_fetch_add(&crowd.seen[v], 1), 0);
		atomic_fetch_add(&crowd.consumed, 1);
	}
}

EVERYWHERE(chan_crowd_receives_each_element_once_in_sender_order)
{
	static const size_t caps[] = { 0, 1, 2, 7, 1000 };

	for (int k = 0; k < 5; k++) {
		struct peer p[PRODUCERS + CONSUMERS];

		memset((void *)&crowd, 0, sizeof(crowd));
		crowd.c = int_chan(caps[k]);
		crowd.each = SLOW ? 200 : 2000;
		for (int i = 0; i < PRODUCERS; i++)
			start(&p[i], produce, NULL);
		for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
			start(&p[i], consume, NULL);
		for (int i = 0; i < PRODUCERS; i++)
			finish(&p[i]);
		CHECK_EQ(gmp_chan_close(crowd.c), 0);
		for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
			finish(&p[i]);
		CHECK_EQ(atomic_load(&crowd.consumed), PRODUCERS * crowd.each);
		gmp_chan_free(crowd.c);
	}
}
