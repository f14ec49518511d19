/* SPDX-License-Identifier: MIT */
/*
 * Tests select with programs of the same intent as Go's public tests test/chan/
 * {doubleselect,select,select2,select3,select4,select5,select6,select7}.go, and
 * TestNonblockSelectRace, TestNonblockSelectRace2, TestSelfSelect, TestSelectStress,
 * TestSelectFairness, TestChanSendInterface, TestPseudoRandomSend, TestSelectDuplicateChannel and
 * TestChanSendSelectBarrier of src/runtime/chan_test.go. Each section names its counterpart.
 */
#include "go_util.h"

/* --- doubleselect.go --- */

static gmp_chan *branch[4], *joined;
static atomic_int open_branches;
static int to_send;

static void send_to_any(UNUSED void *arg)
{
	for (int i = 0; i < to_send; i++) {
		gmp_case cs[4];

		for (int k = 0; k < 4; k++)
			cs[k] = GMP_SEND_CASE(branch[k], &i);
		int ran = gmp_select(cs, 4);

		CHECK(ran >= 0 && cs[ran].status == 0);
	}
	for (int k = 0; k < 4; k++)
		CHECK_EQ(gmp_chan_close(branch[k]), 0);
}

static void forward(void *arg)
{
	int v;

	while (gmp_chan_recv(arg, &v) == 0)
		put_int(joined, v);
	if (atomic_fetch_sub(&open_branches, 1) == 1)
		CHECK_EQ(gmp_chan_close(joined), 0);
}

GO_MAIN(select_runs_at_most_one_case)
{
	to_send = (int)check_scaled(100000);
	char *seen = make_memory((size_t)to_send);
	int v, n = 0;

	joined = make_ints(0);
	atomic_store(&open_branches, 4);
	for (int k = 0; k < 4; k++) {
		branch[k] = make_ints(0);
		go(forward, branch[k]);
	}
	go(send_to_any, NULL);
	for (; gmp_chan_recv(joined, &v) == 0; n++) {
		CHECK(v >= 0 && v < to_send && !seen[v]);
		seen[v] = 1;
	}
	CHECK_EQ(n, to_send);
}

/* --- select.go --- */

struct numbers {
	gmp_chan *done;
	unsigned next, shift, bad;
};

static unsigned next_number(struct numbers *n)
{
	n->next++;
	return n->next << n->shift;
}

struct out {
	gmp_chan *a, *b;
	struct numbers n;
	int sent[2], rounds;
};

/* Sends each number on one of the two channels. A channel that has had its share is set to NULL. */
static void send_numbers(void *arg)
{
	struct out *o = arg;

	while (o->sent[0] + o->sent[1] < 2 * o->rounds) {
		unsigned v = next_number(&o->n);
		gmp_case cs[] = {
			GMP_SEND_CASE(o->sent[0] < o->rounds ? o->a : NULL, &v),
			GMP_SEND_CASE(o->sent[1] < o->rounds ? o->b : NULL, &v),
		};
		int ran = gmp_select(cs, 2);

		CHECK(ran == 0 || ran == 1);
		o->sent[ran]++;
	}
	CHECK_EQ(gmp_chan_close(o->a), 0);
	CHECK_EQ(gmp_chan_close(o->b), 0);
}

GO_MAIN(select_skips_case_with_null_channel)
{
	struct out *o = make_memory(sizeof(*o));
	unsigned v, last[2] = { 0, 0 };
	int got[2] = { 0, 0 };

	*o = (struct out){ .a = make_chan(sizeof(unsigned), 0),
			   .b = make_chan(sizeof(unsigned), 0) };
	o->rounds = 1000;
	go(send_numbers, o);
	for (gmp_chan *in[] = { o->a, o->b }; in[0] || in[1];) {
		gmp_case cs[] = { GMP_RECV_CASE(in[0], &v), GMP_RECV_CASE(in[1], &v) };
		int ran = gmp_select(cs, 2);

		if (cs[ran].status) {
			in[ran] = NULL;
			continue;
		}
		CHECK(v > last[ran]); /* each channel in order, no number on both */
		CHECK(v != last[1 - ran]);
		last[ran] = v;
		got[ran]++;
	}
	CHECK(got[0] == 1000 && got[1] == 1000);
	CHECK_EQ(o->n.next, 2000);
}

/* --- select2.go --- */

static gmp_chan *stream, *dummy;

static void send_many(void *arg)
{
	for (int i = 0; i < *(int *)arg; i++)
		put_int(stream, 1);
}

static void select_many(int n)
{
	int v;

	go(send_many, &n);
	for (int i = 0; i < n; i++) {
		gmp_case cs[] = { GMP_RECV_CASE(stream, &v), GMP_RECV_CASE(dummy, &v) };

		CHECK_EQ(gmp_select(cs, 2), 0);
	}
	WAIT_FOR(stats().greens == 1);
}

static atomic_int began;

/*
 * On all Ms at once: an M keeps the memory that it allocates at its start and at its first wide
 * select.
 */
static void begin_together(void *all)
{
	gmp_case wide[200] = { GMP_RECV_CASE(NULL, NULL) };

	atomic_fetch_add(&began, 1);
	while (atomic_load(&began) < *(int *)all)
		;
	CHECK_EQ(gmp_select_try(wide, 200), -EAGAIN);
	CHECK_EQ(gmp_select_until(wide, 200, gmp_deadline(US)), -ETIMEDOUT);
}

/* Returns how much more memory is allocated after n selects, and wide selects that time out. */
static int64_t growth_of_selects(int n)
{
	int64_t before = (int64_t)allocated();
	gmp_case wide[200];
	int x;

	select_many(n);
	for (int i = 0; i < 200; i++)
		wide[i] = GMP_RECV_CASE(dummy, &x);
	for (int i = 0; i < n / 1000; i++)
		CHECK_EQ(gmp_select_until(wide, 200, gmp_deadline(10 * US)), -ETIMEDOUT);
	return (int64_t)allocated() - before;
}

/* A leak shows each time. An M that sysmon starts meanwhile, on a busy machine, allocates once. */
GO_MAIN(select_leaks_no_memory)
{
	int n = (int)check_scaled(100000), tries = 1;

	for (int i = 0; i < procs; i++)
		go(begin_together, &procs);
	WAIT_FOR(stats().greens == 1);
	stream = make_ints(0);
	dummy = make_ints(0);
	select_many(n);
	while (growth_of_selects(n) > 4096)
		CHECK(tries++ < 5);
}

/* --- select3.go: which cases wait --- */

struct trial {
	gmp_case cs[2];
	int n, result;
	atomic_int over;
};

static void try_it(void *arg)
{
	struct trial *t = arg;

	t->result = gmp_select(t->cs, t->n);
	atomic_store(&t->over, 1);
}

static struct trial *trial(int n, gmp_case a, gmp_case b)
{
	struct trial *t = make_memory(sizeof(*t));

	t->n = n;
	t->cs[0] = a;
	t->cs[1] = b;
	go(try_it, t);
	return t;
}

static uint64_t parked_until_shutdown;

static void check_waits(int n, gmp_case a, gmp_case b)
{
	gmp_case both[] = { a, b };

	CHECK_EQ(gmp_select_try(both, n),
		 -EAGAIN); /* first, because it would match the waiting select */
	struct trial *t = trial(n, a, b);

	wait_parked(++parked_until_shutdown);
	CHECK(!atomic_load(&t->over));
}

static void check_returns(int n, gmp_case a, gmp_case b, int ran, int status)
{
	struct trial *t = trial(n, a, b);

	WAIT_FOR(atomic_load(&t->over));
	CHECK_EQ(t->result, ran);
	CHECK_EQ(t->cs[ran].status, status);
}

GO_MAIN(select_waits_iff_no_case_is_ready)
{
	gmp_chan *closed = make_ints(0), *room = make_ints(1), *some = make_ints(2);
	gmp_case none = GMP_RECV_CASE(NULL, NULL);
	static int v = 7, x;

	parked_until_shutdown = 0;
	CHECK_EQ(gmp_chan_close(closed), 0);
	check_waits(0, none, none);
	check_waits(1, GMP_SEND_CASE(NULL, &v), none);
	check_waits(1, GMP_RECV_CASE(NULL, &x), none);
	check_waits(2, GMP_SEND_CASE(NULL, &v), GMP_RECV_CASE(NULL, &x));
	for (size_t capacity = 0; capacity < 2; capacity++) {
		check_waits(1, GMP_RECV_CASE(make_ints(capacity), &x), none);
		check_waits(2, GMP_RECV_CASE(make_ints(capacity), &x), none);
		check_waits(2, none, GMP_RECV_CASE(make_ints(capacity), NULL));
	}
	check_waits(1, GMP_SEND_CASE(make_ints(0), &v), none);
	check_waits(2, none, GMP_SEND_CASE(make_ints(0), &v));
	check_returns(1, GMP_SEND_CASE(room, &v), none, 0, 0);
	check_waits(1, GMP_SEND_CASE(room, &v), none);
	put_int(some, 7);
	check_returns(2, none, GMP_RECV_CASE(some, &x), 1, 0);
	CHECK_EQ(x, 7);
	check_returns(1, GMP_RECV_CASE(closed, &x), none, 0, -EPIPE);
	CHECK_EQ(x, 0);
	check_returns(2, none, GMP_RECV_CASE(closed, NULL), 1, -EPIPE);
	check_returns(2, GMP_SEND_CASE(closed, &v), none, 0, -EPIPE);
	/* a select does not match itself */
	gmp_chan *own = make_ints(0);

	check_waits(2, GMP_SEND_CASE(own, &v), GMP_RECV_CASE(own, &x));
}

/* --- select4.go: elements of cases that do not run are not accessed --- */

GO_MAIN(select_does_not_access_elements_of_other_cases)
{
	gmp_chan *ready = make_ints(1), *other = make_ints(0), *closed = make_ints(0);
	void *nowhere = (void *)(uintptr_t)64;
	int x = 0;

	put_int(ready, 42);
	gmp_case cs[] = { GMP_RECV_CASE(other, nowhere), GMP_SEND_CASE(other, nowhere),
			  GMP_RECV_CASE(NULL, nowhere), GMP_RECV_CASE(ready, &x) };

	CHECK_EQ(gmp_select(cs, 4), 3);
	CHECK_EQ(x, 42);
	CHECK_EQ(gmp_select_until(cs, 4, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_chan_close(closed), 0);
	cs[3] = GMP_SEND_CASE(closed, nowhere); /* nothing is sent */
	CHECK_EQ(gmp_select(cs, 4), 3);
	CHECK_EQ(cs[3].status, -EPIPE);
}

/* --- select5.go, as far as it applies to C: the index of a case does not matter --- */

GO_MAIN(select_runs_ready_case_at_any_index)
{
	gmp_chan *c[4];
	int x[4], order[4];

	for (int i = 0; i < 4; i++)
		c[i] = make_ints(1);
	for (int p = 0; p < 256; p++) {
		int used = 0;

		for (int i = 0; i < 4; i++)
			used |= 1 << (order[i] = p >> 2 * i & 3);
		if (used != 15)
			continue;
		for (int ready = 0; ready < 4; ready++) {
			gmp_case cs[4];

			for (int i = 0; i < 4; i++)
				cs[i] = GMP_RECV_CASE(c[order[i]], &x[order[i]]);
			x[ready] = -1;
			put_int(c[ready], p);
			CHECK_EQ(order[gmp_select(cs, 4)], ready);
			CHECK_EQ(x[ready], p);
		}
	}
}

/* --- select6.go: a queue from whose middle a select is dequeued --- */

static gmp_chan *queue, *other_case, *dequeued;

static void receive_once(UNUSED void *arg)
{
	get_int(queue);
}

static void leave_then_receive(UNUSED void *arg)
{
	int v;
	gmp_case cs[] = { GMP_RECV_CASE(queue, &v), GMP_RECV_CASE(other_case, &v) };

	CHECK_EQ(gmp_select(cs, 2), 1);
	put_int(dequeued, 1);
	get_int(queue);
}

GO_MAIN(select_dequeued_from_any_position_keeps_queue_whole)
{
	/* number of receivers ahead of the select and behind it */
	for (int before = 0; before < 3; before++) {
		for (int after = 0; after < 3; after++) {
			uint64_t parked = 0;

			queue = make_ints(0);
			other_case = make_ints(0);
			dequeued = make_ints(0);
			for (int i = 0; i < before + 1 + after; i++) {
				go(i == before ? leave_then_receive : receive_once, NULL);
				wait_parked(++parked);
			}
			put_int(other_case, 1);
			get_int(dequeued);
			for (int i = 0; i < before + after + 1; i++)
				put_int(queue, i);
			WAIT_FOR(stats().greens == 1);
		}
	}
}

/* --- select7.go: the element is discarded in every combination of sender and receiver --- */

static void drop_by_receive(void *arg)
{
	CHECK_EQ(gmp_chan_recv(arg, NULL), 0);
}

static void drop_by_one_case(void *arg)
{
	gmp_case one = GMP_RECV_CASE((gmp_chan *)arg, NULL);

	CHECK_EQ(gmp_select(&one, 1), 0);
}

static void drop_by_two_cases(void *arg)
{
	gmp_case two[] = { GMP_RECV_CASE((gmp_chan *)arg, NULL),
			   GMP_RECV_CASE(make_ints(0), NULL) };

	CHECK_EQ(gmp_select(two, 2), 0);
}

GO_MAIN(select_null_element_discards_received_value)
{
	static const gmp_fn drops[] = { drop_by_receive, drop_by_one_case, drop_by_two_cases };
	int v = 1;

	for (int d = 0; d < 3; d++) {
		for (int s = 0; s < 3; s++) {
			for (int wait = 0; wait < 2; wait++) {
				gmp_chan *c = make_ints(0);
				gmp_case cs[] = { GMP_SEND_CASE(c, &v),
						  GMP_SEND_CASE(make_ints(0), &v) };

				go(drops[d], c);
				if (wait)
					wait_parked(1);
				if (s == 0)
					put_int(c, v);
				else
					CHECK_EQ(gmp_select(cs, s), 0);
				WAIT_FOR(stats().greens == 1);
			}
		}
	}
}

/* --- TestNonblockSelectRace, TestNonblockSelectRace2 --- */

struct try_args {
	gmp_chan *first, *second, *done;
};

static void try_select_once(void *arg)
{
	struct try_args *l = arg;
	gmp_case cs[] = { GMP_RECV_CASE(l->first, NULL), GMP_RECV_CASE(l->second, NULL) };

	put_int(l->done, gmp_select_try(cs, 2));
}

/* Readiness moves from the first channel to the second: at least one is ready at every instant. */
static void move_readiness(int closing)
{
	struct try_args l = { .done = make_ints(1) };
	int n = (int)check_scaled(50000);

	for (int i = 0; i < n; i++) {
		l.first = gmp_chan_new(sizeof(int), 1);
		l.second = gmp_chan_new(sizeof(int), 1);
		put_int(l.first, 1);
		go(try_select_once, &l);
		if (i % 8 == 0)
			gmp_yield();
		if (closing)
			CHECK_EQ(gmp_chan_close(l.second), 0);
		else
			put_int(l.second, 1);
		gmp_chan_try_recv(l.first, NULL);
		CHECK(get_int(l.done) >= 0);
		gmp_chan_free(l.first);
		gmp_chan_free(l.second);
	}
}

GO_MAIN(select_try_polls_channels_at_one_instant)
{
	move_readiness(0);
}

GO_MAIN(select_try_polls_element_and_close_at_one_instant)
{
	move_readiness(1);
}

/* --- TestSelfSelect --- */

static gmp_chan *shared;
static atomic_int selecting;
static size_t shared_cap;

static void send_or_receive(void *arg)
{
	int me = (int)(intptr_t)arg, n = (int)check_scaled(5000);

	for (int i = 0; i < n; i++) {
		int v = -1, sends = me == 0 || i % 2 == 0;
		gmp_case cs[] = { GMP_SEND_CASE(shared, &me), GMP_RECV_CASE(shared, &v) };
		gmp_case sc[] = { GMP_RECV_CASE(shared, &v), GMP_SEND_CASE(shared, &me) };
		int ran = sends ? gmp_select(cs, 2) : 1 - gmp_select(sc, 2);

		CHECK(ran == 0 || ran == 1);
		CHECK(ran == 0 ? v == -1 : v == 0 || v == 1);
		CHECK(shared_cap > 0 || v != me);
	}
	atomic_fetch_sub(&selecting, 1);
}

GO_MAIN(select_never_matches_its_own_case)
{
	for (shared_cap = 0; shared_cap <= 10; shared_cap += 10) {
		shared = make_ints(shared_cap);
		atomic_store(&selecting, 2);
		for (intptr_t i = 0; i < 2; i++)
			go(send_or_receive, (void *)i);
		WAIT_FOR(atomic_load(&selecting) == 0);
	}
}

/* --- TestSelectStress --- */

static gmp_chan *four[4];
static gmp_wg workers;
static int each;

static void send_each(void *arg)
{
	for (int i = 0; i < each; i++)
		put_int(arg, i);
	CHECK_EQ(gmp_wg_done(&workers), 0);
}

static void receive_each(void *arg)
{
	for (int i = 0; i < each; i++)
		get_int(arg);
	CHECK_EQ(gmp_wg_done(&workers), 0);
}

/* Sends (arg != NULL) or receives `each` elements on each of the four channels by selects. */
static void select_each(void *arg)
{
	int n[4] = { 0 }, v = 0, first = arg ? 3 : 0;
	gmp_chan *c[4];

	memcpy(c, four, sizeof(c));
	for (int i = 0; i < 4 * each; i++) {
		gmp_case cs[4];

		for (int k = 0; k < 4; k++) {
			gmp_chan *ck = c[(k + first) % 4];

			cs[k] = arg ? GMP_SEND_CASE(ck, &v) : GMP_RECV_CASE(ck, &v);
		}
		int ran = gmp_select(cs, 4);

		CHECK(ran >= 0 && cs[ran].status == 0);
		ran = (ran + first) % 4;
		if (++n[ran] == each)
			c[ran] = NULL;
	}
	CHECK_EQ(gmp_wg_done(&workers), 0);
}

GO_MAIN(select_beside_plain_calls_loses_no_element)
{
	static const size_t caps[] = { 0, 0, 2, 3 };

	each = (int)check_scaled(20000);
	CHECK_EQ(gmp_wg_add(&workers, 10), 0);
	for (int i = 0; i < 4; i++) {
		four[i] = make_ints(caps[i]);
		go(send_each, four[i]);
		go(receive_each, four[i]);
	}
	go(select_each, NULL);
	go(select_each, &workers);
	CHECK_EQ(gmp_wg_wait(&workers), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_chan_len(four[i]), 0);
}

/* --- TestSelectFairness --- */

static gmp_chan *full[2], *idle[2], *outs[2], *enough;

static void route(UNUSED void *arg)
{
	int b = 0, ran;

	for (;;) {
		gmp_case in[] = { GMP_RECV_CASE(idle[0], &b), GMP_RECV_CASE(full[0], &b),
				  GMP_RECV_CASE(full[1], &b), GMP_RECV_CASE(idle[1], &b) };

		ran = gmp_select(in, 4);
		CHECK(ran == 1 || ran == 2);
		gmp_case out[] = { GMP_SEND_CASE(outs[0], &b), GMP_SEND_CASE(outs[1], &b),
				   GMP_RECV_CASE(enough, NULL) };

		if (gmp_select(out, 3) == 2)
			return;
	}
}

GO_MAIN(select_fairness_gives_two_ready_cases_half_each)
{
	int n = (int)check_scaled(20000), b, hits[4] = { 0 };

	enough = make_ints(0);
	for (int i = 0; i < 2; i++) {
		idle[i] = make_ints(0);
		outs[i] = make_ints(0);
		full[i] = make_ints((size_t)n + 1);
		for (int k = 0; k <= n; k++)
			put_int(full[i], i + 1);
	}
	go(route, NULL);
	for (int i = 0; i < n; i++) {
		gmp_case in[] = { GMP_RECV_CASE(outs[0], &b), GMP_RECV_CASE(outs[1], &b) };
		int ran = gmp_select(in, 2);

		hits[b - 1]++;
		hits[2 + ran]++;
	}
	CHECK_EQ(gmp_chan_close(enough), 0);
	/* at most seven standard deviations */
	for (int i = 0; i < 2; i++) {
		double off = hits[i] - n / 2.0;

		CHECK(off * off < 49 * n / 4.0);
	}
	CHECK(hits[2] > 0 && hits[3] > 0);
}

/* --- TestChanSendInterface: elements of two words --- */

struct value {
	const void *type, *data;
};

GO_MAIN(select_elements_of_two_words_arrive_whole)
{
	gmp_chan *c = make_chan(sizeof(struct value), 1);
	static const int type, a, b;
	struct value va = { &type, &a }, vb = { &type, &b }, got;
	gmp_case cs[] = { GMP_SEND_CASE(c, &va), GMP_SEND_CASE(c, &vb) };

	CHECK_EQ(gmp_chan_send(c, &va), 0);
	CHECK_EQ(gmp_select_try(cs, 1), -EAGAIN);
	CHECK_EQ(gmp_select_try(cs, 2), -EAGAIN);
	CHECK_EQ(gmp_chan_recv(c, &got), 0);
	CHECK(got.type == &type && got.data == &a);
	int ran = gmp_select_try(cs, 2);

	CHECK_EQ(gmp_chan_recv(c, &got), 0);
	CHECK(got.type == &type && got.data == (ran ? &b : &a));
}

/* --- TestPseudoRandomSend --- */

struct draws {
	gmp_chan *c, *done;
	int n, *v;
};

static void receive_draws(void *arg)
{
	struct draws *d = arg;

	for (int i = 0; i < d->n; i++) {
		gmp_yield();
		d->v[i] = get_int(d->c);
	}
	put_int(d->done, 1);
}

GO_MAIN(select_choice_between_two_sends_is_random)
{
	static const int zero = 0, one = 1;

	for (size_t capacity = 0; capacity <= 1000; capacity += 500) {
		struct draws *d = make_memory(sizeof(*d));
		int ones = 0, changes = 0;

		*d = (struct draws){ make_ints(capacity), make_ints(0), 1000, NULL };
		d->v = make_memory(sizeof(int) * 1000);
		go(receive_draws, d);
		for (int i = 0; i < d->n; i++) {
			gmp_case cs[] = { GMP_SEND_CASE(d->c, &zero), GMP_SEND_CASE(d->c, &one) };
			int ran = gmp_select(cs, 2);

			CHECK(ran == 0 || ran == 1);
		}
		get_int(d->done);
		for (int i = 0; i < d->n; i++) {
			ones += d->v[i];
			changes += i && d->v[i] != d->v[i - 1];
		}
		CHECK(ones > 350 && ones < 650);
		CHECK(changes > 350 && changes < 650);
	}
}

/* --- TestSelectDuplicateChannel --- */

static gmp_chan *twice, *once, *gone;

static void wait_twice(UNUSED void *arg)
{
	int v;
	gmp_case cs[] = { GMP_RECV_CASE(twice, &v), GMP_RECV_CASE(twice, &v),
			  GMP_RECV_CASE(once, &v) };

	CHECK_EQ(gmp_select(cs, 3), 2);
	CHECK_EQ(v, 7);
	put_int(gone, 9);
}

static void wait_behind(UNUSED void *arg)
{
	CHECK_EQ(get_int(twice), 8);
	put_int(gone, 10);
}

GO_MAIN(select_with_channel_twice_is_dequeued_twice)
{
	twice = make_ints(0);
	once = make_ints(0);
	gone = make_ints(0);
	go(wait_twice, NULL);
	wait_parked(1);
	go(wait_behind, NULL);
	wait_parked(2);
	put_int(once, 7);
	CHECK_EQ(get_int(gone), 9);
	put_int(twice, 8);
	CHECK_EQ(get_int(gone), 10);
}

/* --- TestChanSendSelectBarrier: the receiver gets a whole element and may free the channel --- */

struct response {
	int number, squared;
};

struct request {
	gmp_chan *answer, *cancelled;
	int number, by_select;
};

static void respond(void *arg)
{
	struct request *q = arg;
	struct response *r = malloc(sizeof(*r));

	CHECK(r != NULL);
	*r = (struct response){ q->number, q->number * q->number };
	gmp_case cs[] = { GMP_SEND_CASE(q->answer, &r), GMP_RECV_CASE(q->cancelled, NULL),
			  GMP_SEND_CASE(q->answer, &r) };
	int ran = q->by_select ? gmp_select(cs, 3) : gmp_chan_send(q->answer, &r);

	CHECK(ran == 0 || ran == 2);
}

static gmp_wg askers;
static gmp_chan *never_cancelled;

static void ask(void *arg)
{
	int n = (int)check_scaled(200);

	for (int i = 0; i < n; i++) {
		/* freed after the run, since respond() may still read it */
		struct request *q = make_memory(sizeof(*q));
		struct response *r = NULL;

		q->answer = gmp_chan_new(sizeof(r), 0);
		q->cancelled = never_cancelled;
		q->number = i;
		q->by_select = arg != NULL;
		go(respond, q);
		CHECK_EQ(gmp_chan_recv(q->answer, &r), 0);
		gmp_chan_free(q->answer);
		gmp_yield();
		CHECK(r->number == i && r->squared == i * i);
		free(r);
	}
	CHECK_EQ(gmp_wg_done(&askers), 0);
}

static void ask_all(void *by_select)
{
	never_cancelled = make_ints(0);
	CHECK_EQ(gmp_wg_add(&askers, 100), 0);
	for (int i = 0; i < 100; i++)
		go(ask, by_select);
	CHECK_EQ(gmp_wg_wait(&askers), 0);
	WAIT_FOR(stats().greens == 1);
}

GO_MAIN(chan_freed_after_recv_is_not_used_by_sender)
{
	ask_all(NULL);
}

GO_MAIN(chan_freed_after_recv_is_not_used_by_select_sender)
{
	ask_all(&askers);
}
