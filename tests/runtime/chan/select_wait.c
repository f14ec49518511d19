/* SPDX-License-Identifier: MIT */
/*
 * Tests a select that waits: one case runs, in FIFO order, also under races; all other cases are
 * dequeued.
 */
#include <stdbool.h>

#include "select_util.h"

enum { MOST = 130 };

static const int sizes[] = { 2, 3, 5, 63, 64, 65, MOST };

static gmp_case cs[MOST];
static gmp_chan *chans[MOST];
static int elems[MOST];

/* cases [0, n), each with a channel of its own; the odd ones send their number */
static void make_cases(int n)
{
	for (int i = 0; i < n; i++) {
		chans[i] = chan(0);
		elems[i] = i % 2 ? i : UNTOUCHED;
		cs[i] = i % 2 ? GMP_SEND_CASE(chans[i], &elems[i])
			      : GMP_RECV_CASE(chans[i], &elems[i]);
	}
}

static void check_elems(int n, int but)
{
	for (int i = 0; i < n; i++)
		CHECK(i == but || elems[i] == (i % 2 ? i : UNTOUCHED));
}

static void free_cases(int n, int closed)
{
	for (int i = 0; i < n; i++) {
		if (i != closed)
			check_idle(chans[i]);
		gmp_chan_free(chans[i]);
	}
}

/* --- the first partner --- */

enum match { OPERATION, TRY, SELECT, SELECT_MANY, CLOSE, MATCHES };

/* Match case i of a waiting select: send 1000 to it, or receive what it sends. */
static void match(int how, int i)
{
	int v = i % 2 ? UNTOUCHED : 1000, sends = i % 2 == 0;
	gmp_case by[3] = { sends ? GMP_SEND_CASE(chans[i], &v) : GMP_RECV_CASE(chans[i], &v),
			   GMP_RECV_CASE(NULL, NULL), GMP_SEND_CASE(NULL, NULL) };

	switch (how) {
	case OPERATION:
		CHECK_EQ(sends ? gmp_chan_send(chans[i], &v) : gmp_chan_recv(chans[i], &v), 0);
		break;
	case TRY:
		CHECK_EQ(sends ? gmp_chan_try_send(chans[i], &v) : gmp_chan_try_recv(chans[i], &v),
			 0);
		break;
	case SELECT:
		CHECK_EQ(gmp_select(by, 3), 0);
		CHECK_EQ(by[0].status, 0);
		break;
	case SELECT_MANY: {
		gmp_case wide[MOST];

		for (int k = 0; k < MOST; k++)
			wide[k] = by[k == 77 ? 0 : 1];
		CHECK_EQ(gmp_select_try(wide, MOST), 77);
		break;
	}
	default: CHECK_EQ(gmp_chan_close(chans[i]), 0); return;
	}
	CHECK_EQ(v, sends ? 1000 : i);
}

EVERYWHERE(select_first_partner_matches_and_rest_is_unchanged)
{
	struct partner p = { 0 };
	struct selector s = { .cs = cs, .deadline = GMP_FOREVER };

	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		int n = s.n = sizes[k];

		for (int how = 0; how < MATCHES; how++) {
			for (int i = 0; i < n; i = i * 2 + 1) {
				make_cases(n);
				selector_start(&p, &s);
				partners_wait(&p, 1);
				match(how, i);
				partner_join(&p);
				CHECK_EQ(s.result, i);
				check_statuses(cs, n, i, how == CLOSE ? -EPIPE : 0);
				check_elems(n, i);
				CHECK_EQ(elems[i], i % 2 ? i : how == CLOSE ? 0 : 1000);
				free_cases(n, how == CLOSE ? i : -1);
			}
		}
	}
}

/* External and green threads match each other's selects. */
static void match_first(void *arg)
{
	match(OPERATION, (int)(intptr_t)arg);
}

RT(select_matches_green_with_external_thread)
{
	struct selector s = { .cs = cs, .n = 4, .deadline = GMP_FOREVER };
	struct partner p = { 0 };
	struct ext_thread f;

	for (int k = 0; k < 40; k++) {
		partners_are_green = k % 2;
		make_cases(4);
		selector_start(&p, &s);
		partners_wait(&p, 1);
		if (partners_are_green) {
			ext_thread_start(&f, match_first, (void *)(intptr_t)(k / 2 % 4));
			ext_thread_join(&f);
		} else {
			join(spawn(match_first, (void *)(intptr_t)(k / 2 % 4)));
		}
		partner_join(&p);
		CHECK_EQ(s.result, k / 2 % 4);
		check_elems(4, s.result);
		free_cases(4, -1);
	}
}

/* --- the same channel in several cases --- */

EVERYWHERE(select_several_cases_on_one_channel_run_one)
{
	struct partner p = { 0 };
	struct selector s = { .cs = cs, .deadline = GMP_FOREVER };

	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		int n = s.n = sizes[k];

		for (int how = 0; how < 3; how++) {
			gmp_chan *c = chan(0), *d = chan(0);
			int v = 1000;

			for (int i = 0; i < n; i++) {
				elems[i] = i % 2 ? i : UNTOUCHED;
				cs[i] = i % 2 ? GMP_SEND_CASE(i % 4 < 2 ? c : d, &elems[i])
					      : GMP_RECV_CASE(i % 4 < 2 ? c : d, &elems[i]);
			}
			selector_start(&p, &s);
			partners_wait(&p, 1);
			if (how == 0)
				CHECK_EQ(gmp_chan_send(c, &v), 0);
			else if (how == 1)
				CHECK_EQ(gmp_chan_recv(c, &v), 0);
			else
				CHECK_EQ(gmp_chan_close(c), 0);
			/* c may be freed at once, d after the select has returned */
			gmp_chan_free(c);
			partner_join(&p);
			CHECK(s.result >= 0 && s.result < n && s.result % 4 < 2);
			CHECK_EQ(cs[s.result].c == c, 1);
			check_statuses(cs, n, s.result, how == 2 ? -EPIPE : 0);
			check_elems(n, s.result);
			if (how == 0)
				CHECK(s.result % 2 == 0 && elems[s.result] == 1000);
			else if (how == 1)
				CHECK(s.result % 2 == 1 && v == s.result);
			else
				CHECK_EQ(elems[s.result], s.result % 2 ? s.result : 0);
			check_idle(d);
			gmp_chan_free(d);
		}
	}
}

EVERYWHERE(select_two_on_both_sides_of_channel_match)
{
	struct partner p = { 0 };
	int x[4], mine = 1, theirs = 2;

	for (int k = 0; k < 200; k++) {
		gmp_chan *c = chan(0);
		gmp_case a[] = { GMP_SEND_CASE(c, &mine), GMP_RECV_CASE(c, &x[0]),
				 GMP_RECV_CASE(c, &x[1]) };
		gmp_case b[] = { GMP_RECV_CASE(c, &x[2]), GMP_SEND_CASE(c, &theirs),
				 GMP_SEND_CASE(c, &theirs), GMP_RECV_CASE(c, &x[3]) };
		struct selector s = { .cs = b, .n = 4, .deadline = GMP_FOREVER };

		for (int i = 0; i < 4; i++)
			x[i] = UNTOUCHED;
		selector_start(&p, &s);
		if (k % 2)
			partners_wait(&p, 1);
		int ran = gmp_select(a, 3);

		if (ran) {
			CHECK_EQ(x[ran - 1], 2);
			x[ran - 1] = UNTOUCHED;
		}
		partner_join(&p);
		if (ran) {
			CHECK(s.result == 1 || s.result == 2);
		} else {
			CHECK(s.result == 0 || s.result == 3);
			CHECK_EQ(x[s.result ? 3 : 2], 1);
			x[s.result ? 3 : 2] = UNTOUCHED;
		}
		for (int i = 0; i < 4; i++)
			CHECK_EQ(x[i], UNTOUCHED);
		check_idle(c);
		gmp_chan_free(c);
	}
}

/* Three cases receive, two send; matched by a sender, a receiver, a close. */
EVERYWHERE(select_waiting_cases_on_one_channel_are_equally_likely)
{
	static const int alike[] = { 3, 2, 5 };
	struct partner p = { 0 };
	struct selector s = { .cs = cs, .n = 6, .deadline = GMP_FOREVER };
	int trials = SLOW ? 100 : 400, v = 1;

	for (int how = 0; how < 3; how++) {
		int hits[6] = { 0 };

		for (int k = 0; k < trials; k++) {
			gmp_chan *c = chan(0), *d = chan(0);

			for (int i = 0; i < 6; i++)
				cs[i] = i == 1       ? GMP_RECV_CASE(d, NULL)
					: i % 2 == 0 ? GMP_RECV_CASE(c, NULL)
						     : GMP_SEND_CASE(c, &v);
			selector_start(&p, &s);
			partners_wait(&p, 1);
			switch (how) {
			case 0: CHECK_EQ(gmp_chan_try_send(c, &v), 0); break;
			case 1: CHECK_EQ(gmp_chan_try_recv(c, &v), 0); break;
			default: CHECK_EQ(gmp_chan_close(c), 0);
			}
			partner_join(&p);
			hits[s.result]++;
			gmp_chan_free(c);
			gmp_chan_free(d);
		}
		for (int i = 0; i < 6; i++) {
			int ready = i != 1 && (how == 2 || i % 2 == how);

			if (ready)
				check_one_in(alike[how], hits[i], trials);
			else
				CHECK_EQ(hits[i], 0);
		}
	}
}

/* --- FIFO order --- */

struct waiting {
	gmp_chan *c, *other;
	int kind, sends, got, ran;
	int64_t deadline;
	atomic_int done;
};

/* Wait by an operation, by a select of two channels, or by one with three equal cases. */
static void wait_on_channel(void *arg)
{
	struct waiting *w = arg;
	gmp_case on = w->sends ? GMP_SEND_CASE(w->c, &w->got) : GMP_RECV_CASE(w->c, &w->got);
	gmp_case all[] = { GMP_RECV_CASE(w->other, NULL), on, on, on };

	if (w->kind == 0)
		w->ran = w->sends ? gmp_chan_send_until(w->c, &w->got, w->deadline)
				  : gmp_chan_recv_until(w->c, &w->got, w->deadline);
	else
		w->ran = gmp_select_until(all, w->kind == 1 ? 2 : 4, w->deadline);
	atomic_store(&w->done, 1);
}

static uint64_t count_waiting(struct waiting *w, int n)
{
	uint64_t some = 0;

	for (int i = 0; i < n; i++)
		some += !atomic_load(&w[i].done);
	return some;
}

/* All remaining waiters are parked: none of them returned during the count. */
static bool all_wait(struct waiting *w, int n)
{
	uint64_t some = count_waiting(w, n);

	return stats().greens_waiting == some && count_waiting(w, n) == some;
}

/* Six waiters: those in `leave` time out, the rest are served in FIFO order. */
static void check_fifo(int sends, unsigned leave)
{
	enum { N = 6 };
	static struct waiting w[N];
	static struct partner p[N];
	gmp_chan *c = chan(0), *other = chan(0);

	for (int i = 0; i < N; i++) {
		w[i] = (struct waiting){ .c = c, .other = other, .kind = i % 3, .sends = sends };
		w[i].got = sends ? i : UNTOUCHED;
		w[i].deadline = leave >> i & 1 ? gmp_deadline(20 * MS) : GMP_FOREVER;
		partner_start(&p[i], wait_on_channel, &w[i]);
		/* it waits, or has timed out already */
		if (partners_are_green)
			WAIT_FOR(all_wait(w, i + 1));
		else
			WAIT_FOR(atomic_load(&w[i].done) || sleeps(&p[i]));
	}
	for (int i = 0; i < N; i++)
		if (leave >> i & 1)
			WAIT_FOR(atomic_load(&w[i].done));
	for (int i = 0; i < N; i++) {
		int v = 100 + i;

		if (leave >> i & 1)
			continue;
		CHECK_EQ(sends ? gmp_chan_recv(c, &v) : gmp_chan_send(c, &v), 0);
		WAIT_FOR(atomic_load(&w[i].done));
		if (w[i].kind == 2)
			CHECK(w[i].ran >= 1 && w[i].ran <= 3);
		else
			CHECK_EQ(w[i].ran, w[i].kind);
		if (sends)
			CHECK_EQ(v, i);
		else
			CHECK_EQ(w[i].got, 100 + i);
		for (int k = i + 1; k < N; k++)
			CHECK((leave >> k & 1) || !atomic_load(&w[k].done));
	}
	for (int i = 0; i < N; i++) {
		partner_join(&p[i]);
		if (leave >> i & 1) {
			CHECK_EQ(w[i].ran, -ETIMEDOUT);
			CHECK_EQ(w[i].got, sends ? i : UNTOUCHED);
		}
	}
	check_idle(c);
	check_idle(other);
	gmp_chan_free(c);
	gmp_chan_free(other);
}

EVERYWHERE(select_waiters_are_served_in_fifo_order)
{
	check_fifo(0, 0);
	check_fifo(1, 0);
}

EVERYWHERE(select_timeout_keeps_fifo_order_of_other_waiters)
{
	static const unsigned leave[] = { 1,     2,         4,      8,          16, 32,
					  1 + 2, 2 + 4 + 8, 4 + 32, 2 + 8 + 32, 63 };

	for (size_t i = 0; i < sizeof(leave) / sizeof(leave[0]); i++)
		check_fifo((int)i % 2, leave[i]);
}

/* --- deadlines --- */

EVERYWHERE(select_timeout_is_not_before_deadline)
{
	gmp_chan *c = chan(0), *full = chan(1);
	int v = 1;

	send_int(full, 1);
	for (int k = 0; k < 20; k++) {
		gmp_case both[] = { GMP_RECV_CASE(c, &v), GMP_SEND_CASE(full, &v) };
		int64_t until = gmp_deadline(k * 100 * US);

		CHECK_EQ(gmp_select_until(both, k % 3, until), -ETIMEDOUT);
		CHECK(gmp_now() >= until);
	}
	gmp_chan_free(c);
	gmp_chan_free(full);
}

EVERYWHERE(select_timeout_dequeues_all_cases)
{
	long rounds = check_scaled(300);

	for (long k = 0; k < rounds; k++) {
		int n = k % 50 == 0 ? MOST : 1 + (int)k % 7;

		make_cases(n);
		CHECK_EQ(gmp_select_until(cs, n, gmp_deadline(k % 5 * 20 * US)), -ETIMEDOUT);
		check_elems(n, -1);
		free_cases(n, -1);
	}
}

/*
 * Races.  The number of the round arrives through `go`; the partner answers through `back` with its
 * result.  The delay of the partner changes from round to round.
 */
static void linger(int k)
{
	int64_t until = gmp_now() + k % 40 * 500;

	while (gmp_now() < until)
		;
}

enum act { TRY_SEND, SEND, CLOSE_IT };

struct rival {
	struct partner p;
	gmp_chan *go, *back, *c;
	int act, pace;
};

static void do_rounds(void *arg)
{
	struct rival *r = arg;
	int k, result;

	while (gmp_chan_recv(r->go, &k) == 0) {
		linger(k * r->pace);
		switch (r->act) {
		case TRY_SEND: result = gmp_chan_try_send(r->c, &k); break;
		case SEND: result = gmp_chan_send(r->c, &k); break;
		default: result = gmp_chan_close(r->c);
		}
		send_int(r->back, result);
	}
}

static void rival_start(struct rival *r, int act, int pace)
{
	*r = (struct rival){ .go = chan(1), .back = chan(1), .act = act, .pace = pace };
	partner_start(&r->p, do_rounds, r);
}

static void rival_end(struct rival *r)
{
	CHECK_EQ(gmp_chan_close(r->go), 0);
	partner_join(&r->p);
	gmp_chan_free(r->go);
	gmp_chan_free(r->back);
}

EVERYWHERE(select_timeout_racing_send_has_one_winner)
{
	int rounds = (int)check_scaled(2000);
	gmp_chan *full = chan(1), *a = chan(0);
	struct rival r;

	send_int(full, 1);
	rival_start(&r, TRY_SEND, 1);
	r.c = a;
	for (int k = 0; k < rounds; k++) {
		int x = UNTOUCHED, y = 7, z = UNTOUCHED;
		gmp_case all[] = { GMP_SEND_CASE(full, &y), GMP_RECV_CASE(a, &x),
				   GMP_RECV_CASE(a, &z) };

		for (int i = 0; i < 3; i++)
			all[i].status = UNTOUCHED;
		send_int(r.go, k);
		int ran = gmp_select_until(all, 3, gmp_deadline((k * 7 % 80) * 500));

		if (recv_int(r.back) == 0) {
			CHECK(ran == 1 || ran == 2);
			CHECK_EQ(ran == 1 ? x : z, k);
			CHECK_EQ(ran == 1 ? z : x, UNTOUCHED);
		} else {
			CHECK_EQ(ran, -ETIMEDOUT);
			CHECK(x == UNTOUCHED && z == UNTOUCHED);
		}
		CHECK_EQ(y, 7);
		check_statuses(all, 3, ran, 0);
		CHECK_EQ(gmp_chan_len(full), 1);
	}
	rival_end(&r);
	check_idle(a);
	gmp_chan_free(a);
	gmp_chan_free(full);
}

/* A close, a buffered send and sometimes a timeout race. */
EVERYWHERE(select_racing_close_and_send_runs_one_case)
{
	int rounds = (int)check_scaled(2000);
	gmp_chan *b = chan(1), *c = chan(0);
	struct rival closer, sender;

	rival_start(&closer, CLOSE_IT, 3);
	rival_start(&sender, SEND, 11);
	sender.c = b;
	for (int k = 0; k < rounds; k++) {
		gmp_chan *a = closer.c = chan(0);
		int from_a = UNTOUCHED, from_b = UNTOUCHED, to_a = 5, to_c = 6;
		gmp_case all[] = { GMP_SEND_CASE(a, &to_a), GMP_RECV_CASE(b, &from_b),
				   GMP_SEND_CASE(c, &to_c), GMP_RECV_CASE(a, &from_a) };
		int64_t deadline = k % 3 ? GMP_FOREVER : gmp_deadline((k * 5 % 80) * 500);

		for (int i = 0; i < 4; i++)
			all[i].status = UNTOUCHED;
		send_int(k % 2 ? closer.go : sender.go, k);
		send_int(k % 2 ? sender.go : closer.go, k);
		int ran = gmp_select_until(all, 4, deadline);

		CHECK_EQ(recv_int(closer.back), 0);
		CHECK_EQ(recv_int(sender.back), 0);
		check_statuses(all, 4, ran, ran == 1 ? 0 : -EPIPE);
		CHECK(ran == 0 || ran == 1 || ran == 3 || (ran == -ETIMEDOUT && k % 3 == 0));
		CHECK_EQ(from_a, ran == 3 ? 0 : UNTOUCHED);
		CHECK_EQ(from_b, ran == 1 ? k : UNTOUCHED);
		CHECK(to_a == 5 && to_c == 6);
		if (ran != 1)
			CHECK_EQ(recv_int(b), k);
		CHECK_EQ(gmp_chan_len(b), 0);
		gmp_chan_free(a);
	}
	rival_end(&closer);
	rival_end(&sender);
	check_idle(c);
	gmp_chan_free(b);
	gmp_chan_free(c);
}

EVERYWHERE(select_racing_partners_match_one)
{
	int rounds = (int)check_scaled(2000);
	gmp_chan *a = chan(0), *b = chan(0);
	struct rival one, two;

	rival_start(&one, TRY_SEND, 1);
	rival_start(&two, TRY_SEND, 11);
	one.c = a;
	two.c = b;
	for (int k = 0; k < rounds; k++) {
		int x = UNTOUCHED, y = UNTOUCHED;
		gmp_case both[] = { GMP_RECV_CASE(a, &x), GMP_RECV_CASE(b, &y) };

		send_int(one.go, k);
		send_int(two.go, k);
		int ran = gmp_select_until(both, 2, gmp_deadline(100 * US));

		CHECK_EQ(recv_int(one.back), ran == 0 ? 0 : -EAGAIN);
		CHECK_EQ(recv_int(two.back), ran == 1 ? 0 : -EAGAIN);
		CHECK_EQ(x, ran == 0 ? k : UNTOUCHED);
		CHECK_EQ(y, ran == 1 ? k : UNTOUCHED);
	}
	rival_end(&one);
	rival_end(&two);
	check_idle(a);
	check_idle(b);
	gmp_chan_free(a);
	gmp_chan_free(b);
}

/* --- cancellation, of green threads only --- */

RT(select_cancelled_dequeues_all_cases)
{
	struct partner p = { 0 };
	struct selector s = { .cs = cs };

	partners_are_green = 1;
	for (size_t k = 0; k < 2 * sizeof(sizes) / sizeof(sizes[0]); k++) {
		s.n = sizes[k / 2];
		s.deadline = k % 2 ? GMP_FOREVER : gmp_deadline(PATIENCE);
		make_cases(s.n);
		selector_start(&p, &s);
		if (k % 3)
			partners_wait(&p, 1);
		CHECK_EQ(gmp_cancel(p.g), 0);
		partner_join(&p);
		CHECK_EQ(s.result, -ECANCELED);
		check_statuses(cs, s.n, -1, 0);
		check_elems(s.n, -1);
		free_cases(s.n, -1);
	}
}

RT(select_cancel_racing_send_has_one_winner)
{
	int rounds = (int)check_scaled(2000);
	gmp_chan *a = chan(0), *b = chan(0);
	struct partner p = { 0 };
	struct rival r;

	partners_are_green = 1;
	rival_start(&r, TRY_SEND, 1);
	r.c = a;
	for (int k = 0; k < rounds; k++) {
		int x = UNTOUCHED, y = UNTOUCHED;
		gmp_case both[] = { GMP_RECV_CASE(b, &y), GMP_RECV_CASE(a, &x) };
		struct selector s = { .cs = both, .n = 2, .deadline = GMP_FOREVER };

		if (k % 3 == 0)
			s.deadline = gmp_deadline(PATIENCE);
		selector_start(&p, &s);
		send_int(r.go, k);
		linger(k * 7);
		if (k % 2)
			gmp_yield();
		CHECK_EQ(gmp_cancel(p.g), 0);
		int sent = recv_int(r.back);

		partner_join(&p);
		CHECK_EQ(s.result, sent ? -ECANCELED : 1);
		check_statuses(both, 2, s.result, 0);
		CHECK_EQ(x, sent ? UNTOUCHED : k);
		CHECK_EQ(y, UNTOUCHED);
	}
	rival_end(&r);
	check_idle(a);
	check_idle(b);
	gmp_chan_free(a);
	gmp_chan_free(b);
}

/* --- atomic check of all cases --- */

static gmp_chan *token_a, *token_b;
static atomic_int over;

/* a or b always holds a token: it is sent to one before it is received from the other. */
static void shuffle(UNUSED void *arg)
{
	int v = 1;

	for (long k = 0; k < check_scaled(50000); k++) {
		gmp_chan *to = k % 2 ? token_a : token_b, *from = k % 2 ? token_b : token_a;

		CHECK_EQ(gmp_chan_send(to, &v), 0);
		CHECK_EQ(gmp_chan_recv(from, &v), 0);
		if (k % 64 == 0)
			gmp_yield();
	}
	atomic_store(&over, 1);
}

EVERYWHERE(select_checks_all_cases_atomically)
{
	struct partner p = { 0 };
	unsigned tries = 0;
	int v = 1;

	token_a = chan(2);
	token_b = chan(2);
	atomic_store(&over, 0);
	send_int(token_a, 1);
	partner_start(&p, shuffle, NULL);
	while (!atomic_load(&over)) {
		gmp_case both[] = { GMP_RECV_CASE(token_a, &v), GMP_RECV_CASE(token_b, &v) };
		int ran = gmp_select_try(both, 2);

		CHECK(ran == 0 || ran == 1);
		CHECK_EQ(gmp_chan_send(both[ran].c, &v), 0); /* back to its channel */
		if (tries++ % 64 == 0)
			gmp_yield();
	}
	partner_join(&p);
	gmp_chan_free(token_a);
	gmp_chan_free(token_b);
}
