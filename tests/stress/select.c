/* SPDX-License-Identifier: MIT */
/*
 * Random selects, sends and receives on a few channels, which are closed one by one.
 *
 * Green threads and external threads take part; some are cancelled.  Each element is unique.
 * Checks that it arrives once if its send succeeded and never otherwise, that the elements of a
 * sender arrive in order on each channel, that a select does not touch the memory of cases that did
 * not run, and that a send happens-before its receive (also for ThreadSanitizer).
 */
#include "stress.h"

enum {
	CHANNELS = 10,
	GREEN = 20,
	EXTERNAL = 3,
	WORKERS = GREEN + EXTERNAL + 2, /* with FEEDER and PUMP: see keep_going */
	FEEDER = GREEN + EXTERNAL,
	PUMP,
	DRAIN = WORKERS,
	CASES = 6,
	SENDS = 20000, /* most elements of a worker in a round */
	WORDS_MOST = 9,
	NO_CHANNEL = -1,
};

struct elem {
	uint64_t word[WORDS_MOST]; /* [0]: worker and number; the others are computed from it */
};

static struct {
	gmp_chan *c[CHANNELS];
	size_t words[CHANNELS]; /* of an element */
	int n;
	atomic_int closed[CHANNELS];
	atomic_int closing, over;
} at;

/* For each element of a worker: whether it was sent, how often it arrived, and a plain note. */
static struct worker {
	char sent[SENDS];
	atomic_char arrived[SENDS];
	uint32_t note[SENDS];
	uint32_t made;
	struct rng rng;
	uint32_t last[WORKERS][CHANNELS];
} workers[WORKERS + 1];

static atomic_long ops, selects;
static uint64_t next_stream;

/* --- elements --- */

static uint64_t word_of(uint64_t first, size_t i)
{
	return first * UINT64_C(0x9e3779b97f4a7c15) + i;
}

/* Makes a new element of w and sets *number.  Returns 0 if w has no more. */
static int make(struct worker *w, struct elem *e, uint32_t *number)
{
	uint64_t sender = (uint64_t)(w - workers);

	if (w->made == SENDS)
		return 0;
	*number = w->made++;
	w->note[*number] = *number ^ 0x5a5a5a5a; /* plain: the send publishes it */
	e->word[0] = sender << 32 | *number;
	for (size_t i = 1; i < WORDS_MOST; i++)
		e->word[i] = word_of(e->word[0], i);
	return 1;
}

static void blank(struct elem *e)
{
	memset(e, 0xe7, sizeof(*e));
}

static int is_blank_from(const struct elem *e, size_t from)
{
	for (size_t i = from; i < WORDS_MOST; i++)
		if (e->word[i] != UINT64_C(0xe7e7e7e7e7e7e7e7))
			return 0;
	return 1;
}

static int is_as_made(const struct elem *e)
{
	for (size_t i = 1; i < WORDS_MOST; i++)
		if (e->word[i] != word_of(e->word[0], i))
			return 0;
	return 1;
}

/* Checks an element e that w received from channel k. */
static void arrived(struct worker *w, int k, const struct elem *e)
{
	uint32_t sender = (uint32_t)(e->word[0] >> 32), number = (uint32_t)e->word[0];

	CHECK(sender < WORKERS && number < SENDS);
	for (size_t i = 1; i < at.words[k]; i++)
		CHECK(e->word[i] == word_of(e->word[0], i));
	CHECK(is_blank_from(e, at.words[k]));
	CHECK_EQ(atomic_fetch_add(&workers[sender].arrived[number], 1), 0);
	CHECK_EQ(workers[sender].note[number], number ^ 0x5a5a5a5a);
	CHECK(number >= w->last[sender][k]);
	w->last[sender][k] = number + 1;
}

static void check_close(int k, const struct elem *e)
{
	CHECK(atomic_load(&at.closing));
	for (size_t i = 0; i < at.words[k]; i++)
		CHECK(e->word[i] == 0);
	CHECK(is_blank_from(e, at.words[k]));
}

static void sent(struct worker *w, uint32_t number, int result)
{
	CHECK(result == 0 || (result == -EPIPE && atomic_load(&at.closing)) || result == -EAGAIN ||
	      result == -ETIMEDOUT || (result == -ECANCELED && gmp_cancelled()));
	w->sent[number] = result == 0;
}

/* --- single operations --- */

static int64_t some_deadline(struct rng *r)
{
	switch (draw(r, 8)) {
	case 0: return 0;
	case 1: return gmp_now();
	case 2: return gmp_deadline(draw(r, 5) * US);
	case 3: return GMP_FOREVER;
	default: return gmp_deadline(draw(r, 300) * US);
	}
}

static int send_one(struct worker *w, int k)
{
	int over = atomic_load(&at.closed[k]), result;
	struct elem e;
	uint32_t number;

	if (!make(w, &e, &number))
		return 0;
	switch (draw(&w->rng, 4)) {
	case 0: result = gmp_chan_try_send(at.c[k], &e); break;
	case 1: result = gmp_chan_send(at.c[k], &e); break;
	default: result = gmp_chan_send_until(at.c[k], &e, some_deadline(&w->rng));
	}
	CHECK(is_as_made(&e));
	CHECK(!over || result == -EPIPE);
	sent(w, number, result);
	return 1;
}

static void recv_one(struct worker *w, int k)
{
	int over = atomic_load(&at.closed[k]), result;
	struct elem e;

	blank(&e);
	switch (draw(&w->rng, 4)) {
	case 0: result = gmp_chan_try_recv(at.c[k], &e); break;
	case 1: result = gmp_chan_recv(at.c[k], &e); break;
	default: result = gmp_chan_recv_until(at.c[k], &e, some_deadline(&w->rng));
	}
	CHECK(!over || result == 0 || result == -EPIPE);
	if (result == 0)
		arrived(w, k, &e);
	else if (result == -EPIPE)
		check_close(k, &e);
	else
		CHECK((result == -EAGAIN || result == -ETIMEDOUT ||
		       (result == -ECANCELED && gmp_cancelled())) &&
		      is_blank_from(&e, 0));
}

/* --- selects --- */

enum direction { SENDING, RECEIVING, BOTH };

static int select_some(struct worker *w, int n, const int *which, int direction, int64_t deadline)
{
	struct elem e[CHANNELS + CASES];
	uint32_t number[CHANNELS + CASES];
	gmp_case cs[CHANNELS + CASES];
	int ran, ready = 0;

	for (int i = 0; i < n; i++) {
		gmp_chan *c = which[i] == NO_CHANNEL ? NULL : at.c[which[i]];
		int sends = direction == BOTH ? (int)draw(&w->rng, 2) : direction == SENDING;

		if (sends) {
			if (!make(w, &e[i], &number[i]))
				return 0;
			cs[i] = GMP_SEND_CASE(c, &e[i]);
		} else {
			blank(&e[i]);
			cs[i] = GMP_RECV_CASE(c, &e[i]);
		}
		cs[i].status = 1234;
		ready |= c && atomic_load(&at.closed[which[i]]);
	}
	if (deadline == GMP_FOREVER)
		ran = gmp_select(cs, n);
	else if (deadline < 0)
		ran = gmp_select_try(cs, n);
	else
		ran = gmp_select_until(cs, n, deadline);
	CHECK(ran < n);
	CHECK(ran >= 0 || !ready);
	CHECK(ran >= 0 || ran == (deadline < 0 ? -EAGAIN : -ETIMEDOUT) ||
	      (ran == -ECANCELED && deadline >= 0 && gmp_cancelled()));
	for (int i = 0; i < n; i++) {
		int status = cs[i].status;

		CHECK(i == ran ? which[i] != NO_CHANNEL : status == 1234);
		if (cs[i].dir == GMP_SEND) {
			CHECK(is_as_made(&e[i]));
			sent(w, number[i], i == ran ? status : -EAGAIN);
		} else if (i != ran) {
			CHECK(is_blank_from(&e[i], 0));
		} else if (status == 0) {
			arrived(w, which[i], &e[i]);
		} else {
			CHECK_EQ(status, -EPIPE);
			check_close(which[i], &e[i]);
		}
	}
	atomic_fetch_add_explicit(&selects, 1, memory_order_relaxed);
	return 1;
}

/* Selects among one to six cases; a channel may occur twice, a case may have no channel. */
static int select_one(struct worker *w)
{
	struct rng *r = &w->rng;
	int which[CASES], n = 1 + (int)draw(r, CASES), wide = 1 + (int)draw(r, (unsigned)at.n);
	int64_t deadline = draw(r, 4) ? some_deadline(r) : -1;
	int some = 0;

	for (int i = 0; i < n; i++) {
		which[i] = draw(r, 16) ? (int)draw(r, (unsigned)wide) : NO_CHANNEL;
		some |= which[i] != NO_CHANNEL;
	}
	if (!some && deadline == GMP_FOREVER)
		which[0] = 0;
	return select_some(w, n, which, (int)draw(r, 3), deadline);
}

/* --- workers --- */

static void dwell(struct rng *r)
{
	switch (draw(r, 32)) {
	case 0: gmp_yield(); break;
	case 1: gmp_sleep(draw(r, 50) * US); break;
	default: break;
	}
}

static int all_closed(void)
{
	for (int k = 0; k < at.n; k++)
		if (!atomic_load(&at.closed[k]))
			return 0;
	return 1;
}

static void work(void *arg)
{
	struct worker *w = arg;
	int room = 1, cancelled = 0;

	/* a cancelled worker continues for a while: calls that need not wait still work */
	while (room && !all_closed() && cancelled < 20) {
		cancelled += gmp_cancelled();
		int k = (int)draw(&w->rng, (unsigned)at.n);

		switch (draw(&w->rng, 8)) {
		case 0:
		case 1: room = send_one(w, k); break;
		case 2:
		case 3: recv_one(w, k); break;
		default: room = select_one(w);
		}
		atomic_fetch_add_explicit(&ops, 1, memory_order_relaxed);
		dwell(&w->rng);
	}
}

/* FEEDER sends and PUMP receives on all channels, so that each waiter is matched eventually. */
static void keep_going(void *arg)
{
	struct worker *w = arg;
	int direction = w == &workers[FEEDER] ? SENDING : RECEIVING, which[CHANNELS];

	while (!atomic_load(&at.closing)) {
		for (int k = 0; k < at.n; k++)
			which[k] = k;
		/* leaves most matches to the workers */
		gmp_sleep(20 * US);
		if (w->made + CHANNELS > SENDS)
			break;
		select_some(w, at.n, which, direction, gmp_deadline(MS));
	}
	/* without elements the round ends: the close wakes waiting receivers */
	atomic_store(&at.over, 1);
}

static void begin_round(struct rng *r)
{
	static const size_t caps[] = { 0, 0, 0, 1, 1, 2, 5, 40 };

	at.n = 1 + (int)draw(r, CHANNELS);
	for (int k = 0; k < at.n; k++) {
		at.words[k] = 1 + draw(r, 3) * draw(r, WORDS_MOST / 2);
		at.c[k] = gmp_chan_new(at.words[k] * 8, caps[draw(r, 8)]);
		CHECK(at.c[k] != NULL);
		atomic_store(&at.closed[k], 0);
	}
	atomic_store(&at.closing, 0);
	atomic_store(&at.over, 0);
	for (int i = 0; i <= WORKERS; i++) {
		struct worker *w = &workers[i];

		memset((void *)w, 0, sizeof(*w));
		w->rng = rng_for(++next_stream);
	}
}

static void close_all(struct rng *r)
{
	int order[CHANNELS];

	for (int k = 0; k < at.n; k++) {
		int i = (int)draw(r, (unsigned)k + 1);

		order[k] = order[i];
		order[i] = k;
	}
	atomic_store(&at.closing, 1);
	for (int k = 0; k < at.n; k++) {
		CHECK_EQ(gmp_chan_close(at.c[order[k]]), 0);
		atomic_store(&at.closed[order[k]], 1);
		gmp_sleep(draw(r, 100) * US);
		CHECK_EQ(gmp_chan_close(at.c[order[k]]), -EPIPE);
	}
}

/* Drains the buffers and compares arrivals with sends. */
static void settle(void)
{
	struct worker *drain = &workers[DRAIN];
	struct elem e;

	for (int k = 0; k < at.n; k++) {
		/* the drain is last and has its own record of the order */
		for (size_t left = gmp_chan_len(at.c[k]); left > 0; left--) {
			blank(&e);
			CHECK_EQ(gmp_chan_recv(at.c[k], &e), 0);
			arrived(drain, k, &e);
		}
		blank(&e);
		CHECK_EQ(gmp_chan_recv(at.c[k], &e), -EPIPE);
		check_close(k, &e);
		gmp_chan_free(at.c[k]);
	}
	for (int i = 0; i < WORKERS; i++)
		for (uint32_t n = 0; n < workers[i].made; n++)
			CHECK_EQ(atomic_load(&workers[i].arrived[n]), workers[i].sent[n]);
}

static void mix(int procs, int resize)
{
	struct rng r = rng_for(++next_stream);
	struct ext_thread f[EXTERNAL];
	gmp_g *g[WORKERS];

	while (!stress_over()) {
		int64_t until = gmp_deadline((int64_t)draw(&r, 100) * MS);

		begin_round(&r);
		for (int i = 0; i < EXTERNAL; i++)
			ext_thread_start(&f[i], work, &workers[GREEN + i]);
		for (int i = 0; i < GREEN; i++)
			g[i] = spawn(work, &workers[i]);
		g[FEEDER] = spawn(keep_going, &workers[FEEDER]);
		g[PUMP] = spawn(keep_going, &workers[PUMP]);
		while (gmp_now() < until && !atomic_load(&at.over)) {
			if (resize)
				CHECK(gmp_set_procs(1 + (int)draw(&r, 6)) > 0);
			gmp_sleep(MS);
			if (draw(&r, 4) == 0)
				CHECK_EQ(gmp_cancel(g[draw(&r, GREEN)]), 0);
		}
		close_all(&r);
		for (int i = 0; i < GREEN; i++)
			join(g[i]);
		join(g[FEEDER]);
		join(g[PUMP]);
		for (int i = 0; i < EXTERNAL; i++)
			ext_thread_join(&f[i]);
		settle();
	}
	CHECK(gmp_set_procs(procs) > 0);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().timers, 0);
	fprintf(stderr, "%ld operations, %ld selects\n", atomic_load(&ops), atomic_load(&selects));
}

RT(select_elements_arrive_once_or_not_at_all)
{
	stress_begin();
	mix(procs, 0);
}

RT(select_elements_under_changing_procs_arrive_at_most_once)
{
	stress_begin();
	mix(procs, 1);
}

TEST(select_elements_of_external_threads_arrive_at_most_once)
{
	enum { THREADS = 8 };
	static struct ext_thread f[THREADS + 2];
	struct rng r;

	stress_begin();
	r = rng_for(0);
	while (!stress_over()) {
		begin_round(&r);
		for (int i = 0; i < THREADS; i++)
			ext_thread_start(&f[i], work, &workers[i]);
		ext_thread_start(&f[THREADS], keep_going, &workers[FEEDER]);
		ext_thread_start(&f[THREADS + 1], keep_going, &workers[PUMP]);
		for (int i = (int)draw(&r, 100); i > 0 && !atomic_load(&at.over); i--)
			gmp_sleep(MS);
		close_all(&r);
		for (int i = 0; i < THREADS + 2; i++)
			ext_thread_join(&f[i]);
		settle();
	}
	fprintf(stderr, "%ld operations, %ld selects\n", atomic_load(&ops), atomic_load(&selects));
}

/* --- runs that end early --- */

static void begin_and_end(void *arg)
{
	struct rng *r = arg;

	for (int i = 0; i < GREEN; i++)
		CHECK_EQ(gmp_go(work, &workers[i]), 0);
	gmp_sleep((int64_t)draw(r, 3000) * US);
}

/*
 * Green threads killed at shutdown lose the elements that they received.  External threads and
 * channels live on through all runs.
 */
TEST_PROCS(select_elements_across_run_ends_arrive_at_most_once)
{
	struct ext_thread f[EXTERNAL + 2];
	struct rng r;

	stress_begin();
	r = rng_for(0);
	while (!stress_over()) {
		begin_round(&r);
		for (int i = 0; i < EXTERNAL; i++)
			ext_thread_start(&f[i], work, &workers[GREEN + i]);
		ext_thread_start(&f[EXTERNAL], keep_going, &workers[FEEDER]);
		ext_thread_start(&f[EXTERNAL + 1], keep_going, &workers[PUMP]);
		for (int run = 0; run < 5; run++)
			run_procs(procs, begin_and_end, &r);
		close_all(&r);
		for (int i = 0; i < EXTERNAL + 2; i++)
			ext_thread_join(&f[i]);
		for (int k = 0; k < at.n; k++) {
			struct elem e;

			for (size_t left = gmp_chan_len(at.c[k]); left > 0; left--) {
				blank(&e);
				CHECK_EQ(gmp_chan_recv(at.c[k], &e), 0);
				arrived(&workers[DRAIN], k, &e);
			}
			CHECK_EQ(gmp_chan_recv(at.c[k], NULL), -EPIPE);
			gmp_chan_free(at.c[k]);
		}
		for (int i = 0; i < WORKERS; i++) {
			for (uint32_t n = 0; n < workers[i].made; n++) {
				int times = atomic_load(&workers[i].arrived[n]);

				CHECK(times <= 1);
				if (i >= GREEN) /* a killed green thread may have received it */
					CHECK(times <= workers[i].sent[n]);
			}
		}
	}
	fprintf(stderr, "%ld operations, %ld selects\n", atomic_load(&ops), atomic_load(&selects));
}
