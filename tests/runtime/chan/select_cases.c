/* SPDX-License-Identifier: MIT */
/*
 * Tests a select that does not wait: which cases are ready, which of them runs, what is rejected,
 * and what stays unchanged.
 */
#include "select_util.h"

/* --- the three calls --- */

enum form { PLAIN, UNTIL_PAST, UNTIL_FAR, TRY, FORMS };

static int select_by(int form, gmp_case *cs, int n)
{
	switch (form) {
	case PLAIN: return gmp_select(cs, n);
	case UNTIL_PAST: return gmp_select_until(cs, n, 0);
	case UNTIL_FAR: return gmp_select_until(cs, n, gmp_deadline(PATIENCE));
	default: return gmp_select_try(cs, n);
	}
}

/* The forms that do not wait, and their result if no case is ready. */
static const struct {
	int form, result;
} at_once[] = { { UNTIL_PAST, -ETIMEDOUT }, { TRY, -EAGAIN } };

enum { MOST = 130 };

static gmp_case cs[MOST];
static int elems[MOST];
static const int sizes[] = { 1, 2, 3, 5, 63, 64, 65, 66, MOST };

#define FOR_SIZES(n) for (size_t n##_i = 0; n##_i < 9 && (n = sizes[n##_i]); n##_i++)

static void reset(int n)
{
	for (int i = 0; i < n; i++) {
		elems[i] = UNTOUCHED;
		cs[i].status = UNTOUCHED;
	}
}

static void check_elems(int n, int but)
{
	for (int i = 0; i < n; i++)
		CHECK(i == but || elems[i] == UNTOUCHED);
}

/* --- rejected calls --- */

EVERYWHERE(select_any_bad_case_returns_einval)
{
	gmp_chan *ready = chan(1000), *open = chan(0), *closed = chan(0);
	int n;

	CHECK_EQ(gmp_chan_close(closed), 0);
	FOR_SIZES(n)
	{
		for (int bad = 0; bad < n; bad = bad * 2 + 1) {
			for (int how = 0; how < 5; how++) {
				for (int i = 0; i < n; i++)
					cs[i] = i % 2 ? GMP_RECV_CASE(closed, &elems[i])
						      : GMP_SEND_CASE(ready, &elems[i]);
				reset(n);
				if (how < 3)
					cs[bad].dir = how == 0   ? (gmp_dir)2
						      : how == 1 ? (gmp_dir)-1
								 : (gmp_dir)INT_MAX;
				else
					cs[bad] = GMP_SEND_CASE(how == 3 ? open : closed, NULL);
				cs[bad].status = UNTOUCHED;
				for (int form = 0; form < FORMS; form++)
					CHECK_EQ(select_by(form, cs, n), -EINVAL);
				check_statuses(cs, n, -1, 0);
				check_elems(n, -1);
			}
		}
	}
	CHECK_EQ(gmp_chan_len(ready), 0);
	/* a bad direction is rejected also with a NULL channel */
	cs[0] = GMP_RECV_CASE(NULL, NULL);
	cs[0].dir = (gmp_dir)2;
	CHECK_EQ(gmp_select_try(cs, 1), -EINVAL);
	for (int form = 0; form < FORMS; form++) {
		CHECK_EQ(select_by(form, cs, -1), -EINVAL);
		CHECK_EQ(select_by(form, cs, INT_MIN), -EINVAL);
		CHECK_EQ(select_by(form, NULL, 1), -EINVAL);
	}
	gmp_chan_free(ready);
	gmp_chan_free(open);
	gmp_chan_free(closed);
}

EVERYWHERE(select_null_elem_is_einval_only_for_send_of_bytes)
{
	gmp_chan *empty = gmp_chan_new(0, 2), *full = chan(1);

	CHECK(empty != NULL);
	send_int(full, 3);
	cs[0] = GMP_SEND_CASE(empty, NULL);
	CHECK_EQ(gmp_select(cs, 1), 0);
	cs[1] = GMP_SEND_CASE(NULL, NULL);
	CHECK_EQ(gmp_select(cs, 2), 0);
	CHECK_EQ(gmp_chan_len(empty), 2);
	cs[2] = GMP_RECV_CASE(full, NULL);
	CHECK_EQ(gmp_select(cs, 3), 2);
	CHECK_EQ(cs[2].status, 0);
	CHECK_EQ(gmp_select_try(cs, 3), -EAGAIN);
	gmp_chan_free(empty);
	gmp_chan_free(full);
}

/* --- which are ready --- */

EVERYWHERE(select_null_channel_is_never_ready)
{
	gmp_chan *c = chan(1);
	int n;

	FOR_SIZES(n)
	{
		for (int i = 0; i < n; i++)
			cs[i] = i % 2 ? GMP_RECV_CASE(NULL, &elems[i])
				      : GMP_SEND_CASE(NULL, &elems[i]);
		reset(n);
		for (int k = 0; k < 2; k++)
			CHECK_EQ(select_by(at_once[k].form, cs, n), at_once[k].result);
		CHECK_EQ(gmp_select_until(cs, n, gmp_deadline(MS)), -ETIMEDOUT);
		check_statuses(cs, n, -1, 0);
		for (int form = 0; form < FORMS; form++) {
			int at = (form * 17 + 1) % n;

			send_int(c, form);
			gmp_case was = cs[at];

			cs[at] = GMP_RECV_CASE(c, &elems[at]);
			reset(n);
			CHECK_EQ(select_by(form, cs, n), at);
			CHECK_EQ(elems[at], form);
			check_statuses(cs, n, at, 0);
			check_elems(n, at);
			cs[at] = was;
		}
	}
	gmp_chan_free(c);
}

EVERYWHERE(select_single_ready_case_of_many_runs)
{
	gmp_chan *empty = chan(0), *some = chan(2);
	int n;

	FOR_SIZES(n)
	{
		for (int i = 0; i < n; i++)
			cs[i] = i % 2 ? GMP_RECV_CASE(empty, &elems[i])
				      : GMP_SEND_CASE(empty, &elems[i]);
		reset(n);
		for (int k = 0; k < 2; k++)
			CHECK_EQ(select_by(at_once[k].form, cs, n), at_once[k].result);
		check_statuses(cs, n, -1, 0);
		check_elems(n, -1);
		for (int at = 0; at < n; at = at * 2 + 1) {
			for (int form = 0; form < FORMS; form++) {
				gmp_case was = cs[at];

				cs[at] = GMP_SEND_CASE(some, &elems[at]);
				reset(n);
				CHECK_EQ(select_by(form, cs, n), at);
				CHECK_EQ(gmp_chan_len(some), 1);
				cs[at] = GMP_RECV_CASE(some, &elems[at]);
				elems[at] = 0;
				cs[at].status = UNTOUCHED;
				CHECK_EQ(select_by(form, cs, n), at);
				CHECK_EQ(elems[at], UNTOUCHED);
				check_statuses(cs, n, at, 0);
				check_elems(n, at);
				cs[at] = was;
			}
		}
	}
	gmp_chan_free(empty);
	gmp_chan_free(some);
}

static gmp_case many[10000];
static gmp_chan *own[10000];

EVERYWHERE(select_10000_cases_work)
{
	enum { N = sizeof(many) / sizeof(many[0]) };
	int v = 4, x = UNTOUCHED;

	for (int i = 0; i < N; i++)
		own[i] = chan(1);
	for (int i = 0; i < N; i++)
		many[i] = GMP_RECV_CASE(own[(i * 7) % N], &x);
	CHECK_EQ(gmp_select_try(many, N), -EAGAIN);
	CHECK_EQ(gmp_select_until(many, N, gmp_deadline(MS)), -ETIMEDOUT);
	for (int i = 0; i < N; i += 999) {
		x = UNTOUCHED;
		CHECK_EQ(gmp_chan_send(many[i].c, &v), 0);
		CHECK_EQ(gmp_select(many, N), i);
		CHECK_EQ(x, 4);
	}
	for (int i = 0; i < N; i++)
		gmp_chan_free(own[i]);
}

/* Some channels are in the heap, some in separate mappings far away. */
EVERYWHERE(select_channels_in_heap_and_mappings_work)
{
	gmp_chan *c[70];

	for (int i = 0; i < 70; i++) {
		c[i] = chan(i % 5 == 0 ? 1 << 20 : 1);
		elems[i] = i;
	}
	for (int n = 7; n <= 70; n += 63) {
		for (int k = 0; k < 2 * n; k++) { /* all are sent to, then all are received from */
			for (int i = 0; i < n; i++) {
				int at = (i * 3 + k) % n;

				if (k >= n)
					cs[i] = GMP_RECV_CASE(c[at], NULL);
				else
					cs[i] = GMP_SEND_CASE(gmp_chan_len(c[at]) ? NULL : c[at],
							      &elems[i]);
			}
			int ran = gmp_select_until(cs, n, gmp_deadline(PATIENCE));

			CHECK(ran >= 0);
			CHECK_EQ(gmp_chan_len(cs[ran].c), k < n);
		}
		CHECK_EQ(gmp_select_until(cs, n, gmp_deadline(MS)), -ETIMEDOUT);
	}
	for (int i = 0; i < 70; i++)
		gmp_chan_free(c[i]);
}

static gmp_chan *small[64], *for_small;

static void on_small_stack(void *arg)
{
	int n = *(int *)arg, x;

	for (int i = 0; i < n; i++)
		many[i] = GMP_RECV_CASE(small[i % 64], &x);
	CHECK_EQ(gmp_select_try(many, n), -EAGAIN);
	CHECK_EQ(gmp_select_until(many, n, gmp_deadline(MS)), -ETIMEDOUT);
	many[n - 1].c = for_small;
	CHECK_EQ(gmp_select(many, n), n - 1);
	CHECK_EQ(x, 8);
}

RT(select_10000_cases_fit_smallest_stack)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	for (int i = 0; i < 64; i++)
		small[i] = chan(0);
	for_small = chan(0);
	a.stack_size = SLOW ? 64 << 10 : 1;
	for (int n = 64; n <= 10000; n *= 5) {
		CHECK_EQ(gmp_spawn(&g, on_small_stack, &n, &a), 0);
		send_int(for_small, 8);
		join(g);
	}
	for (int i = 0; i < 64; i++)
		gmp_chan_free(small[i]);
	gmp_chan_free(for_small);
}

EVERYWHERE(select_zero_cases_is_never_ready)
{
	CHECK_EQ(gmp_select_try(NULL, 0), -EAGAIN);
	CHECK_EQ(gmp_select_try(cs, 0), -EAGAIN);
	CHECK_EQ(gmp_select_until(NULL, 0, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_select_until(NULL, 0, INT64_MIN), -ETIMEDOUT);
	int64_t until = gmp_deadline(2 * MS);

	CHECK_EQ(gmp_select_until(NULL, 0, until), -ETIMEDOUT);
	CHECK(gmp_now() >= until);
}

EVERYWHERE(select_past_deadline_makes_one_attempt)
{
	static const int64_t past[] = { 0, 1, -1, INT64_MIN, INT64_MIN + 1 };
	gmp_chan *c = chan(1), *never = chan(0);

	for (int k = 0; k < 7; k++) {
		int64_t deadline = k < 5 ? past[k] : k == 5 ? gmp_now() : gmp_deadline(-MS);

		for (int n = 1; n <= 2; n++) {
			cs[0] = GMP_SEND_CASE(c, &elems[0]);
			cs[1] = GMP_RECV_CASE(never, NULL);
			reset(n);
			CHECK_EQ(gmp_select_until(cs, n, deadline), 0);
			check_statuses(cs, n, 0, 0);
			reset(n);
			CHECK_EQ(gmp_select_until(cs, n, deadline), -ETIMEDOUT);
			check_statuses(cs, n, -1, 0);
			CHECK_EQ(recv_int(c), UNTOUCHED);
		}
	}
	gmp_chan_free(c);
	gmp_chan_free(never);
}

static void count_run(void *arg)
{
	++*(int *)arg;
}

static void try_beside_another(UNUSED void *arg)
{
	gmp_chan *never = chan(0);
	int runs = 0;

	gmp_g *g = spawn(count_run, &runs);

	for (int n = 0; n <= 70; n = 2 * n + 1) {
		for (int i = 0; i < n; i++)
			cs[i] = GMP_RECV_CASE(never, NULL);
		for (int k = 0; k < 2; k++)
			CHECK_EQ(select_by(at_once[k].form, cs, n), at_once[k].result);
	}
	CHECK_EQ(runs, 0);
	join(g);
	gmp_chan_free(never);
}

TEST(select_try_does_not_switch)
{
	run_procs(1, try_beside_another, NULL);
}

/* --- closed channels --- */

EVERYWHERE(select_closed_channel_gives_buffered_elements_first)
{
	gmp_chan *c = chan(3), *never = chan(0);
	int n;

	for (int i = 0; i < 3; i++)
		send_int(c, i);
	CHECK_EQ(gmp_chan_close(c), 0);
	for (int i = 0; i < 9; i++) {
		n = 1 + i % 2;
		cs[0] = GMP_RECV_CASE(c, &elems[0]);
		cs[1] = GMP_RECV_CASE(never, &elems[1]);
		reset(n);
		CHECK_EQ(select_by(i % FORMS, cs, n), 0);
		CHECK_EQ(elems[0], i < 3 ? i : 0);
		check_statuses(cs, n, 0, i < 3 ? 0 : -EPIPE);
		check_elems(n, 0);
	}
	gmp_chan_free(c);
	gmp_chan_free(never);
}

EVERYWHERE(select_send_on_closed_channel_returns_epipe)
{
	gmp_chan *c = chan(3), *never = chan(0);

	send_int(c, 1);
	CHECK_EQ(gmp_chan_close(c), 0);
	for (int i = 0; i < 8; i++) {
		int n = 1 + i % 2;

		cs[0] = GMP_SEND_CASE(c, &elems[0]);
		cs[1] = GMP_RECV_CASE(never, &elems[1]);
		reset(n);
		CHECK_EQ(select_by(i % FORMS, cs, n), 0);
		check_statuses(cs, n, 0, -EPIPE);
		check_elems(n, -1);
		CHECK_EQ(gmp_chan_len(c), 1);
	}
	CHECK_EQ(recv_int(c), 1);
	CHECK_EQ(gmp_chan_recv(c, NULL), -EPIPE);
	gmp_chan_free(c);
	gmp_chan_free(never);
}

/* --- elements --- */

EVERYWHERE(select_elements_of_any_size_are_intact)
{
	static const size_t bytes[] = { 0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 100, 4096, 70001 };
	static unsigned char from[70001 + 1], to[70001 + 1];
	gmp_chan *never = chan(0);

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 131 >> 3);
	for (size_t k = 0; k < sizeof(bytes) / sizeof(bytes[0]); k++) {
		gmp_chan *c = gmp_chan_new(bytes[k], 1);

		CHECK(c != NULL);
		memset(to, 0xee, sizeof(to));
		cs[0] = GMP_RECV_CASE(never, NULL);
		cs[1] = GMP_SEND_CASE(c, from);
		CHECK_EQ(gmp_select(cs, 2), 1);
		cs[1] = GMP_RECV_CASE(c, to);
		CHECK_EQ(gmp_select(cs, 2), 1);
		CHECK(memcmp(from, to, bytes[k]) == 0);
		CHECK_EQ(to[bytes[k]], 0xee);
		CHECK_EQ(gmp_chan_close(c), 0);
		CHECK_EQ(gmp_select(cs, 2), 1);
		CHECK_EQ(cs[1].status, -EPIPE);
		for (size_t i = 0; i < bytes[k]; i++)
			CHECK_EQ(to[i], 0);
		CHECK_EQ(to[bytes[k]], 0xee);
		gmp_chan_free(c);
	}
	gmp_chan_free(never);
}

/* --- the choice --- */

static int hits[MOST], pairs[3][3];

EVERYWHERE(select_ready_cases_are_equally_likely)
{
	static const int ns[] = { 2, 3, 7, 64, 65, MOST };
	gmp_chan *open = chan(0), *closed = chan(0), *buffer = chan(1000);

	CHECK_EQ(gmp_chan_close(closed), 0);
	for (size_t k = 0; k < sizeof(ns) / sizeof(ns[0]); k++) {
		for (int some = 0; some < 2; some++) {
			/* all cases are ready, or every second one */
			int n = ns[k], nready = some ? (n + 1) / 2 : n;
			int trials = (int)check_scaled(1000L * nready);

			for (int i = 0; i < n; i++)
				cs[i] = some && i % 2 ? GMP_SEND_CASE(open, &elems[i])
					: i % 3 == 0  ? GMP_SEND_CASE(closed, &elems[i])
					: i % 3 == 1  ? GMP_RECV_CASE(closed, NULL)
						      : GMP_RECV_CASE(closed, &elems[i]);
			memset(hits, 0, sizeof(hits));
			for (int i = 0; i < trials; i++) {
				int ran = select_by(i % FORMS, cs, n);

				CHECK(ran >= 0 && ran < n);
				hits[ran]++;
			}
			for (int i = 0; i < n; i++) {
				if (some && i % 2)
					CHECK_EQ(hits[i], 0);
				else if (nready > 1)
					check_one_in(nready, hits[i], trials);
			}
		}
	}
	gmp_chan_free(open);
	gmp_chan_free(closed);
	gmp_chan_free(buffer);
}

EVERYWHERE(select_successive_choices_are_independent)
{
	gmp_chan *c = chan(0);
	int trials = (int)check_scaled(90000), before = 0;

	CHECK_EQ(gmp_chan_close(c), 0);
	memset(pairs, 0, sizeof(pairs));
	for (int i = 0; i < 3; i++)
		cs[i] = GMP_RECV_CASE(c, NULL);
	for (int i = 0; i < trials; i++) {
		int ran = gmp_select(cs, 3);

		pairs[before][ran]++;
		before = ran;
	}
	for (int i = 0; i < 9; i++)
		check_one_in(9, pairs[i / 3][i % 3], trials);
	gmp_chan_free(c);
}

EVERYWHERE(select_channel_in_two_cases_is_twice_as_likely)
{
	gmp_chan *twice = chan(1), *once = chan(1);
	int trials = (int)check_scaled(30000);

	memset(hits, 0, sizeof(hits));
	for (int i = 0; i < trials; i++) {
		cs[0] = GMP_SEND_CASE(twice, &elems[0]);
		cs[1] = GMP_SEND_CASE(once, &elems[1]);
		cs[2] = GMP_SEND_CASE(twice, &elems[2]);
		int ran = gmp_select(cs, 3);

		hits[ran]++;
		CHECK_EQ(gmp_chan_len(twice) + gmp_chan_len(once), 1);
		CHECK_EQ(gmp_chan_recv(ran == 1 ? once : twice, NULL), 0);
	}
	for (int i = 0; i < 3; i++)
		check_one_in(3, hits[i], trials);
	gmp_chan_free(twice);
	gmp_chan_free(once);
}

EVERYWHERE(select_half_full_channel_is_ready_on_both_sides)
{
	gmp_chan *c = chan(2);
	int trials = (int)check_scaled(20000), v = 1, x = 0;

	memset(hits, 0, sizeof(hits));
	send_int(c, 1);
	for (int i = 0; i < trials; i++) {
		gmp_case both[] = { GMP_SEND_CASE(c, &v), GMP_RECV_CASE(c, &x) };
		int ran = gmp_select(both, 2);

		hits[ran]++;
		CHECK_EQ(gmp_chan_len(c), ran ? 0 : 2);
		/* now full or empty: only the other case is ready */
		CHECK_EQ(gmp_select(both, 2), 1 - ran);
		CHECK_EQ(gmp_chan_len(c), 1);
	}
	check_one_in(2, hits[0], trials);
	gmp_chan_free(c);
}

/* Partners that wait make their channels as ready as a buffer does. */
static gmp_chan *from_partner[4], *enough;

static void keep_sending(void *arg)
{
	int i = (int)(intptr_t)arg;
	gmp_case out[] = { GMP_SEND_CASE(from_partner[i], &i), GMP_RECV_CASE(enough, NULL) };

	while (gmp_select(out, 2) == 0)
		;
}

EVERYWHERE(select_waiting_partner_makes_case_ready)
{
	struct partner p[4] = { 0 };
	int x[4];

	enough = chan(0);
	for (int i = 0; i < 4; i++) {
		from_partner[i] = chan(0);
		cs[i] = GMP_RECV_CASE(from_partner[i], &x[i]);
		partner_start(&p[i], keep_sending, (void *)(intptr_t)i);
	}
	partners_wait(p, 4);
	memset(hits, 0, sizeof(hits));
	for (int k = 0; k < 400; k++) {
		partners_wait(p, 4);
		for (int i = 0; i < 4; i++)
			x[i] = UNTOUCHED;
		int ran = select_by(k % FORMS, cs, 4);

		CHECK(ran >= 0);
		hits[ran]++;
		for (int i = 0; i < 4; i++)
			CHECK_EQ(x[i], i == ran ? i : UNTOUCHED);
	}
	for (int i = 0; i < 4; i++)
		check_one_in(4, hits[i], 400);
	CHECK_EQ(gmp_chan_close(enough), 0);
	for (int i = 0; i < 4; i++) {
		partner_join(&p[i]);
		gmp_chan_free(from_partner[i]);
	}
	gmp_chan_free(enough);
}

/* --- own cases --- */

EVERYWHERE(select_never_matches_itself)
{
	gmp_chan *c = chan(0), *d = chan(0);
	int n;

	FOR_SIZES(n)
	{
		for (int i = 0; i < n; i++)
			cs[i] = i % 2 ? GMP_RECV_CASE(i % 3 ? c : d, &elems[i])
				      : GMP_SEND_CASE(i % 3 ? c : d, &elems[i]);
		reset(n);
		for (int k = 0; k < 2; k++)
			CHECK_EQ(select_by(at_once[k].form, cs, n), at_once[k].result);
		CHECK_EQ(gmp_select_until(cs, n, gmp_deadline(MS)), -ETIMEDOUT);
		check_statuses(cs, n, -1, 0);
		check_elems(n, -1);
	}
	gmp_chan_free(c);
	gmp_chan_free(d);
}
