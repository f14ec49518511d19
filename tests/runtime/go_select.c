/* SPDX-License-Identifier: MIT */
/*
 * Does select do what Go's public tests ask of it?  Programs of the same intent as test/chan/
 * {doubleselect,select,select2,select3,select4,select5,select6,select7}.go and, of
 * src/runtime/chan_test.go, TestNonblockSelectRace, TestNonblockSelectRace2, TestSelfSelect,
 * TestSelectStress, TestSelectFairness, TestChanSendInterface, TestPseudoRandomSend,
 * TestSelectDuplicateChannel and TestChanSendSelectBarrier; each names its own.
 */
#include "go_util.h"

/* --- doubleselect.go --- */

static gmp_chan *quarter[4], *joined;
static atomic_int open_quarters;
static int doubles;

static void send_to_any(UNUSED void *arg)
{
	for (int i = 0; i < doubles; i++) {
		gmp_case cs[4];

		for (int k = 0; k < 4; k++)
			cs[k] = GMP_SEND_CASE(quarter[k], &i);
		int ran = gmp_select(cs, 4);

		CHECK(ran >= 0 && cs[ran].status == 0);
	}
	for (int k = 0; k < 4; k++)
		CHECK_EQ(gmp_chan_close(quarter[k]), 0);
}

static void forward(void *arg)
{
	int v;

	while (gmp_chan_recv(arg, &v) == 0)
		put_int(joined, v);
	if (atomic_fetch_sub(&open_quarters, 1) == 1)
		CHECK_EQ(gmp_chan_close(joined), 0);
}

GO_MAIN(never_two_cases_of_one_select_run)
{
	doubles = (int)check_scaled(100000);
	char *seen = make_memory((size_t)doubles);
	int v, n = 0;

	joined = make_ints(0);
	atomic_store(&open_quarters, 4);
	for (int k = 0; k < 4; k++) {
		quarter[k] = make_ints(0);
		go(forward, quarter[k]);
	}
	go(send_to_any, NULL);
	for (; gmp_chan_recv(joined, &v) == 0; n++) {
		CHECK(v >= 0 && v < doubles && !seen[v]);
		seen[v] = 1;
	}
	CHECK_EQ(n, doubles);
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

/* Whichever takes it: each number goes to one of the two.  One of them is left out when it has had
 * its share. */
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

GO_MAIN(a_case_is_left_out_by_a_null_channel)
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

static atomic_int met;

/* On all threads at once: what a thread takes when it begins, and at its first wide select, it keeps. */
static void meet(void *all)
{
	gmp_case wide[200] = { GMP_RECV_CASE(NULL, NULL) };

	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < *(int *)all)
		;
	CHECK_EQ(gmp_select_try(wide, 200), -EAGAIN);
	CHECK_EQ(gmp_select_until(wide, 200, gmp_deadline(US)), -ETIMEDOUT);
}

GO_MAIN(selects_leave_no_memory_behind)
{
	int n = (int)check_scaled(100000), x;
	gmp_case wide[200];

	for (int i = 0; i < procs; i++)
		go(meet, &procs);
	WAIT_FOR(stats().greens == 1);
	stream = make_ints(0);
	dummy = make_ints(0);
	select_many(n);
	size_t before = allocated();

	select_many(n);
	for (int i = 0; i < 200; i++)
		wide[i] = GMP_RECV_CASE(dummy, &x);
	for (int i = 0; i < n / 1000; i++)
		CHECK_EQ(gmp_select_until(wide, 200, gmp_deadline(10 * US)), -ETIMEDOUT);
	CHECK(allocated() <= before + 4096);
}

/* --- select3.go: what waits, and what does not --- */

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

static uint64_t never_to_return;

static void waits(int n, gmp_case a, gmp_case b)
{
	gmp_case both[] = { a, b };

	CHECK_EQ(gmp_select_try(both, n),
		 -EAGAIN); /* Go: with a default; and alone, or the two meet */
	struct trial *t = trial(n, a, b);

	wait_parked(++never_to_return);
	CHECK(!atomic_load(&t->over));
}

static void waits_not(int n, gmp_case a, gmp_case b, int ran, int status)
{
	struct trial *t = trial(n, a, b);

	WAIT_FOR(atomic_load(&t->over));
	CHECK_EQ(t->result, ran);
	CHECK_EQ(t->cs[ran].status, status);
}

GO_MAIN(only_what_is_not_ready_waits)
{
	gmp_chan *closed = make_ints(0), *room = make_ints(1), *some = make_ints(2);
	gmp_case none = GMP_RECV_CASE(NULL, NULL);
	static int v = 7, x;

	never_to_return = 0;
	CHECK_EQ(gmp_chan_close(closed), 0);
	waits(0, none, none);
	waits(1, GMP_SEND_CASE(NULL, &v), none);
	waits(1, GMP_RECV_CASE(NULL, &x), none);
	waits(2, GMP_SEND_CASE(NULL, &v), GMP_RECV_CASE(NULL, &x));
	for (size_t capacity = 0; capacity < 2; capacity++) {
		waits(1, GMP_RECV_CASE(make_ints(capacity), &x), none);
		waits(2, GMP_RECV_CASE(make_ints(capacity), &x), none);
		waits(2, none, GMP_RECV_CASE(make_ints(capacity), NULL));
	}
	waits(1, GMP_SEND_CASE(make_ints(0), &v), none);
	waits(2, none, GMP_SEND_CASE(make_ints(0), &v));
	waits_not(1, GMP_SEND_CASE(room, &v), none, 0, 0);
	waits(1, GMP_SEND_CASE(room, &v), none);
	put_int(some, 7);
	waits_not(2, none, GMP_RECV_CASE(some, &x), 1, 0);
	CHECK_EQ(x, 7);
	waits_not(1, GMP_RECV_CASE(closed, &x), none, 0, -EPIPE);
	CHECK_EQ(x, 0);
	waits_not(2, none, GMP_RECV_CASE(closed, NULL), 1, -EPIPE);
	waits_not(2, GMP_SEND_CASE(closed, &v), none, 0, -EPIPE);
	/* nor is it confused by seeing itself */
	gmp_chan *own = make_ints(0);

	waits(2, GMP_SEND_CASE(own, &v), GMP_RECV_CASE(own, &x));
}

/* --- select4.go: the others' pointers are not followed --- */

GO_MAIN(pointers_of_cases_that_do_not_run_are_not_followed)
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

/* --- select5.go, as far as C has a like: the place in the list is of no importance --- */

GO_MAIN(cases_may_stand_in_any_order)
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

/* --- select6.go: what a select leaves of a queue in whose midst it stood --- */

static gmp_chan *queue, *way_out, *told;

static void receive_once(UNUSED void *arg)
{
	get_int(queue);
}

static void leave_then_receive(UNUSED void *arg)
{
	int v;
	gmp_case cs[] = { GMP_RECV_CASE(queue, &v), GMP_RECV_CASE(way_out, &v) };

	CHECK_EQ(gmp_select(cs, 2), 1);
	put_int(told, 1);
	get_int(queue);
}

GO_MAIN(a_select_that_goes_leaves_the_queue_whole)
{
	/* before it, and after it, so many */
	for (int before = 0; before < 3; before++) {
		for (int after = 0; after < 3; after++) {
			uint64_t parked = 0;

			queue = make_ints(0);
			way_out = make_ints(0);
			told = make_ints(0);
			for (int i = 0; i < before + 1 + after; i++) {
				go(i == before ? leave_then_receive : receive_once, NULL);
				wait_parked(++parked);
			}
			put_int(way_out, 1);
			get_int(told);
			for (int i = 0; i < before + after + 1; i++)
				put_int(queue, i);
			WAIT_FOR(stats().greens == 1);
		}
	}
}

/* --- select7.go: the element is dropped, whoever meets whom --- */

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

GO_MAIN(an_element_can_be_dropped)
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

struct look {
	gmp_chan *first, *second, *done;
};

static void look_once(void *arg)
{
	struct look *l = arg;
	gmp_case cs[] = { GMP_RECV_CASE(l->first, NULL), GMP_RECV_CASE(l->second, NULL) };

	put_int(l->done, gmp_select_try(cs, 2));
}

/* From one to the other: one of them is ready at every instant. */
static void ready_moves(int closing)
{
	struct look l = { .done = make_ints(1) };
	int n = (int)check_scaled(50000);

	for (int i = 0; i < n; i++) {
		l.first = gmp_chan_new(sizeof(int), 1);
		l.second = gmp_chan_new(sizeof(int), 1);
		put_int(l.first, 1);
		go(look_once, &l);
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

GO_MAIN(a_try_sees_all_channels_at_one_moment)
{
	ready_moves(0);
}

GO_MAIN(a_try_sees_a_close_at_the_same_moment)
{
	ready_moves(1);
}

/* --- TestSelfSelect --- */

static gmp_chan *shared;
static atomic_int selfs;
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
	atomic_fetch_sub(&selfs, 1);
}

GO_MAIN(nobody_receives_its_own)
{
	for (shared_cap = 0; shared_cap <= 10; shared_cap += 10) {
		shared = make_ints(shared_cap);
		atomic_store(&selfs, 2);
		for (intptr_t i = 0; i < 2; i++)
			go(send_or_receive, (void *)i);
		WAIT_FOR(atomic_load(&selfs) == 0);
	}
}

/* --- TestSelectStress --- */

static gmp_chan *four[4];
static gmp_wg ten;
static int each;

static void send_each(void *arg)
{
	for (int i = 0; i < each; i++)
		put_int(arg, i);
	CHECK_EQ(gmp_wg_done(&ten), 0);
}

static void receive_each(void *arg)
{
	for (int i = 0; i < each; i++)
		get_int(arg);
	CHECK_EQ(gmp_wg_done(&ten), 0);
}

/* As many on each of the four, in one select; arg tells the direction. */
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
	CHECK_EQ(gmp_wg_done(&ten), 0);
}

GO_MAIN(selects_and_operations_add_up)
{
	static const size_t caps[] = { 0, 0, 2, 3 };

	each = (int)check_scaled(20000);
	CHECK_EQ(gmp_wg_add(&ten, 10), 0);
	for (int i = 0; i < 4; i++) {
		four[i] = make_ints(caps[i]);
		go(send_each, four[i]);
		go(receive_each, four[i]);
	}
	go(select_each, NULL);
	go(select_each, &ten);
	CHECK_EQ(gmp_wg_wait(&ten), 0);
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

GO_MAIN(two_that_are_always_ready_get_half_each)
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
	/* seven deviations off, at most */
	for (int i = 0; i < 2; i++) {
		double off = hits[i] - n / 2.0;

		CHECK(off * off < 49 * n / 4.0);
	}
	CHECK(hits[2] > 0 && hits[3] > 0);
}

/* --- TestChanSendInterface: elements of more than a word, from more than one place --- */

struct value {
	const void *type, *data;
};

GO_MAIN(elements_may_be_pairs_of_pointers)
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

GO_MAIN(zeros_and_ones_are_sent_by_chance)
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

GO_MAIN(who_stands_twice_in_a_queue_leaves_it_twice)
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

/* --- TestChanSendSelectBarrier: what is sent is whole when it is received, and the channel is the
 * receiver's then --- */

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
static gmp_chan *nobody_cancels;

static void ask(void *arg)
{
	int n = (int)check_scaled(200);

	for (int i = 0; i < n; i++) {
		/* the request lives as long as anybody may read it: until the end */
		struct request *q = make_memory(sizeof(*q));
		struct response *r = NULL;

		q->answer = gmp_chan_new(sizeof(r), 0);
		q->cancelled = nobody_cancels;
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
	nobody_cancels = make_ints(0);
	CHECK_EQ(gmp_wg_add(&askers, 100), 0);
	for (int i = 0; i < 100; i++)
		go(ask, by_select);
	CHECK_EQ(gmp_wg_wait(&askers), 0);
	WAIT_FOR(stats().greens == 1);
}

GO_MAIN(an_answer_is_whole_and_its_channel_may_be_freed)
{
	ask_all(NULL);
}

GO_MAIN(an_answer_by_select_is_whole_and_its_channel_may_be_freed)
{
	ask_all(&askers);
}
