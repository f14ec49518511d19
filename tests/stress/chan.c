/* SPDX-License-Identifier: MIT */
/*
 * Random games of producers and consumers on channels of random element sizes and capacities.
 *
 * The members are green threads and external threads.  They use all forms of all calls, with short
 * deadlines; the channel is closed at the end or at a random moment; the number of Ps changes.
 * Checks that each accepted element arrives once, intact and in the order of its producer.  A
 * channel is freed as soon as the last call on it has returned.
 */
#include "stress.h"

enum { MOST = 6, QUOTA = 300, BIGGEST = 1000, NGAMES = 3 };

static atomic_long elements, games, timeouts, refusals;
static atomic_uint next_id = 1;

struct game {
	gmp_chan *c;
	size_t size;
	int producers, consumers;
	gmp_chan *through; /* each member sends its side as its last call */
	atomic_int entered, accepted[MOST], received[MOST], dropped;
	atomic_uchar seen[MOST][QUOTA];
};

static void dwell(struct rng *r)
{
	switch (draw(r, 24)) {
	case 0: gmp_sleep((int64_t)draw(r, 50) * US); break;
	case 1: gmp_checkpoint(); break;
	case 2:
	case 3: gmp_yield(); break;
	default: break;
	}
}

static int64_t soon(struct rng *r)
{
	return gmp_deadline((int64_t)draw(r, 150) * US);
}

/* --- elements: as much of (producer, number) as fits, then a pattern --- */

static void write_element(unsigned char *e, size_t size, int producer, int n)
{
	uint32_t head = (uint32_t)producer << 24 | (uint32_t)n;

	if (size == 1)
		e[0] = (unsigned char)producer;
	if (size < 4)
		return;
	memcpy(e, &head, 4);
	for (size_t i = 4; i < size; i++)
		e[i] = (unsigned char)(head + i * 7);
}

static void check_element(struct game *g, const unsigned char *e, int last[MOST])
{
	uint32_t head;
	int producer, n;

	if (g->size == 1)
		atomic_fetch_add(&g->received[e[0]], 1);
	else if (g->size < 4)
		atomic_fetch_add(&g->received[0], 1);
	if (g->size < 4)
		return;
	memcpy(&head, e, 4);
	producer = (int)(head >> 24);
	n = (int)(head & 0xffffff);
	CHECK(producer < g->producers && n < QUOTA);
	for (size_t i = 4; i < g->size; i++)
		CHECK_EQ(e[i], (unsigned char)(head + i * 7));
	CHECK(n > last[producer]);
	last[producer] = n;
	CHECK_EQ(atomic_fetch_add(&g->seen[producer][n], 1), 0);
	atomic_fetch_add(&g->received[producer], 1);
}

/* --- members --- */

static int send_somehow(struct game *g, const void *e, struct rng *r)
{
	switch (draw(r, 5)) {
	case 0: return gmp_chan_try_send(g->c, e);
	case 1: return gmp_chan_send_until(g->c, e, soon(r));
	case 2: return gmp_chan_send_until(g->c, e, (int64_t)draw(r, 2));
	default: return gmp_chan_send(g->c, e);
	}
}

static int recv_somehow(struct game *g, void *e, struct rng *r)
{
	switch (draw(r, 5)) {
	case 0: return gmp_chan_try_recv(g->c, e);
	case 1: return gmp_chan_recv_until(g->c, e, soon(r));
	case 2: return gmp_chan_recv_until(g->c, e, (int64_t)draw(r, 2));
	default: return gmp_chan_recv(g->c, e);
	}
}

/* Returns true if the call must be repeated. */
static int refused(int err)
{
	CHECK(err == 0 || err == -EPIPE || err == -ETIMEDOUT || err == -EAGAIN);
	atomic_fetch_add(&timeouts, err == -ETIMEDOUT);
	atomic_fetch_add(&refusals, err == -EAGAIN);
	return err == -ETIMEDOUT || err == -EAGAIN;
}

static void produce(struct game *g, int self, struct rng *r)
{
	unsigned char e[BIGGEST], copy[BIGGEST];
	int err = 0;

	for (int n = 0; n < QUOTA && err == 0; n++) {
		write_element(e, g->size, self, n);
		memcpy(copy, e, g->size);
		do {
			dwell(r);
			err = send_somehow(g, e, r);
			CHECK_EQ(memcmp(copy, e, g->size), 0);
		} while (refused(err));
		CHECK(gmp_chan_len(g->c) <= gmp_chan_cap(g->c));
		atomic_fetch_add(&g->accepted[self], err == 0);
	}
}

static void consume(struct game *g, struct rng *r)
{
	int last[MOST], drops = (int)draw(r, 4) == 0, err;
	unsigned char e[BIGGEST];

	memset(last, 0xff, sizeof(last));
	do {
		int drop = drops && draw(r, 4) == 0;

		dwell(r);
		memset(e, 0xdb, sizeof(e));
		err = recv_somehow(g, drop ? NULL : e, r);
		if (refused(err)) {
			for (size_t i = 0; i < g->size; i++)
				CHECK_EQ(e[i], 0xdb);
		} else if (err == 0 && drop) {
			atomic_fetch_add(&g->dropped, 1);
		} else if (err == 0) {
			check_element(g, e, last);
		} else if (!drop) {
			for (size_t i = 0; i < g->size; i++)
				CHECK_EQ(e[i], 0);
		}
		for (size_t i = g->size; i < sizeof(e); i++)
			CHECK(drop || e[i] == 0xdb);
	} while (err != -EPIPE);
}

static void member(void *arg)
{
	struct game *g = arg;
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));
	int self = atomic_fetch_add(&g->entered, 1), produces = self < g->producers;

	if (produces)
		produce(g, self, &r);
	else
		consume(g, &r);
	CHECK_EQ(gmp_chan_send(g->through, &produces), 0);
}

/* --- a game --- */

static void deal(struct game *g, struct rng *r)
{
	static const size_t sizes[] = { 0, 1, 4, 4, 8, 8, 12, 16, 24, 64, 333, BIGGEST };
	static const size_t caps[] = { 0, 0, 0, 1, 1, 2, 3, 7, 64, 1000 };

	memset((void *)g, 0, sizeof(*g));
	g->size = sizes[draw(r, 12)];
	g->producers = 1 + (int)draw(r, MOST);
	g->consumers = 1 + (int)draw(r, MOST);
	g->c = gmp_chan_new(g->size, caps[draw(r, 10)]);
	g->through = gmp_chan_new(sizeof(int), draw(r, 3));
	CHECK(g->c != NULL && g->through != NULL);
}

/* Waits until n members of the side have ended; also counts members of the other side. */
static void wait_for_side(struct game *g, int through[2], int side, int n)
{
	while (through[side] < n) {
		int which = -1;

		CHECK_EQ(gmp_chan_recv(g->through, &which), 0);
		CHECK(which == 0 || which == 1);
		through[which]++;
	}
}

static void settle(struct game *g)
{
	long accepted = 0, received = 0, unseen = 0;

	for (int p = 0; p < g->producers; p++) {
		int n = atomic_load(&g->accepted[p]);

		accepted += n;
		received += atomic_load(&g->received[p]);
		for (int i = 0; i < QUOTA && g->size >= 4; i++) {
			CHECK(i < n || !atomic_load(&g->seen[p][i]));
			unseen += i < n && !atomic_load(&g->seen[p][i]);
		}
		if (g->size == 1)
			CHECK(atomic_load(&g->received[p]) <= n);
	}
	CHECK_EQ(received + atomic_load(&g->dropped), accepted);
	if (g->size >= 4)
		CHECK_EQ(unseen, atomic_load(&g->dropped));
	atomic_fetch_add(&elements, accepted);
	atomic_fetch_add(&games, 1);
}

/* externals: how many of ten members are external threads, about */
static void play(struct rng *r, unsigned externals)
{
	struct ext_thread f[2 * MOST];
	struct game *g = malloc(sizeof(*g));
	int through[2] = { 0, 0 }, nexternal = 0;

	CHECK(g != NULL);
	deal(g, r);
	for (int i = 0; i < g->producers + g->consumers; i++) {
		if (draw(r, 10) < externals)
			ext_thread_start(&f[nexternal++], member, g);
		else
			CHECK_EQ(gmp_go(member, g), 0);
		dwell(r);
	}
	if (draw(r, 2)) {
		gmp_sleep((int64_t)draw(r, 2000) * US);
		for (unsigned i = draw(r, 20); i > 0; i--)
			gmp_yield();
	} else {
		wait_for_side(g, through, 1, g->producers);
	}
	CHECK_EQ(gmp_chan_close(g->c), 0);
	wait_for_side(g, through, 1, g->producers);
	wait_for_side(g, through, 0, g->consumers);
	gmp_chan_free(g->through);
	CHECK_EQ(gmp_chan_len(g->c), 0);
	gmp_chan_free(g->c);
	settle(g);
	for (int i = 0; i < nexternal; i++)
		ext_thread_join(&f[i]);
	free(g);
}

static void play_on(void *arg)
{
	struct rng r = rng_for(100000 + (uint64_t)(uintptr_t)arg);

	while (!stress_over())
		play(&r, draw(&r, 3) ? 0 : draw(&r, 8));
}

static void report(void)
{
	fprintf(stderr, "%ld games, %ld elements, %ld timeouts, %ld refusals\n",
		atomic_load(&games), atomic_load(&elements), atomic_load(&timeouts),
		atomic_load(&refusals));
}

static void mix(int procs, int resize)
{
	struct rng r = rng_for(0);
	struct ext_thread f;
	gmp_g *g[NGAMES];

	for (int i = 0; i < NGAMES; i++)
		g[i] = spawn(play_on, (void *)(intptr_t)i);
	ext_thread_start(&f, play_on, (void *)(intptr_t)NGAMES);
	while (!stress_over()) {
		if (resize)
			CHECK(gmp_set_procs(1 + (int)draw(&r, 6)) > 0);
		gmp_sleep(MS);
	}
	CHECK(gmp_set_procs(procs) > 0);
	for (int i = 0; i < NGAMES; i++)
		join(g[i]);
	ext_thread_join(&f);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().timers, 0);
	report();
}

RT(chan_elements_from_producers_arrive_once_in_order)
{
	stress_begin();
	mix(procs, 0);
}

RT(chan_elements_under_changing_procs_arrive_once_in_order)
{
	stress_begin();
	mix(procs, 1);
}

TEST(chan_elements_of_external_threads_arrive_once_in_order)
{
	struct rng r;

	stress_begin();
	r = rng_for(0);
	while (!stress_over())
		play(&r, 10);
	report();
}

/* --- one channel that is never closed; each worker sends and receives --- */

static gmp_chan *hot;
static atomic_long balance;

static void both_sides(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over()) {
		int v = 1, sends = (int)draw(&r, 2), err;

		switch (draw(&r, 3)) {
		case 0:
			err = sends ? gmp_chan_try_send(hot, &v) : gmp_chan_try_recv(hot, &v);
			break;
		case 1:
			err = sends ? gmp_chan_send_until(hot, &v, 0)
				    : gmp_chan_recv_until(hot, &v, 0);
			break;
		default:
			err = sends ? gmp_chan_send_until(hot, &v, soon(&r))
				    : gmp_chan_recv_until(hot, &v, soon(&r));
		}
		if (!refused(err)) {
			CHECK_EQ(err, 0);
			CHECK_EQ(v, 1);
			atomic_fetch_add(&balance, sends ? 1 : -1);
			atomic_fetch_add(&elements, 1);
		}
		dwell(&r);
	}
}

RT(chan_length_after_cancellations_equals_sent_minus_received)
{
	struct ext_thread f[2];
	gmp_g *g[20];

	stress_begin();
	hot = gmp_chan_new(sizeof(int), (size_t)procs - 1);
	CHECK(hot != NULL);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], both_sides, (void *)(intptr_t)(900 + i));
	for (int i = 0; i < 20; i++)
		g[i] = spawn(both_sides, (void *)(intptr_t)i);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(gmp_chan_len(hot), atomic_load(&balance));
	gmp_chan_free(hot);
	CHECK_EQ(stats().timers, 0);
	report();
}
