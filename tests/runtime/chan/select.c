/* SPDX-License-Identifier: MIT */
/* Tests gmp_select: one ready case runs, once, and all other cases are dequeued. */
#include "util.h"

enum { MANY = 200 };

static gmp_chan *chan(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), capacity);

	CHECK(c != NULL);
	return c;
}

RT(select_ready_case_runs)
{
	gmp_chan *a = chan(1), *b = chan(1);
	int v = 7, x = 0;
	gmp_case cs[] = { GMP_RECV_CASE(a, &x), GMP_SEND_CASE(b, &v) };

	CHECK_EQ(gmp_select(cs, 2), 1);
	CHECK_EQ(cs[1].status, 0);
	CHECK_EQ(gmp_chan_len(b), 1);
	CHECK_EQ(gmp_select_try(cs, 2), -EAGAIN);
	CHECK_EQ(gmp_select_until(cs, 2, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_select_until(cs, 2, 0), -ETIMEDOUT);
	v = 9;
	CHECK_EQ(gmp_chan_send(a, &v), 0);
	CHECK_EQ(gmp_select(cs, 2), 0);
	CHECK_EQ(x, 9);
	gmp_chan_free(a);
	gmp_chan_free(b);
}

RT(select_closed_channel_is_ready_with_epipe)
{
	gmp_chan *a = chan(0), *b = chan(0);
	int v = 7, x = 5;
	gmp_case rs[] = { GMP_RECV_CASE(a, &x), GMP_RECV_CASE(b, NULL) };
	gmp_case ss[] = { GMP_SEND_CASE(a, &v), GMP_RECV_CASE(b, NULL) };

	CHECK_EQ(gmp_chan_close(a), 0);
	CHECK_EQ(gmp_select(rs, 2), 0);
	CHECK_EQ(rs[0].status, -EPIPE);
	CHECK_EQ(x, 0);
	CHECK_EQ(gmp_select_try(ss, 2), 0);
	CHECK_EQ(ss[0].status, -EPIPE);
	CHECK_EQ(v, 7);
	gmp_chan_free(a);
	gmp_chan_free(b);
}

struct waiting {
	gmp_case *cs;
	int n, result;
	int64_t deadline;
	atomic_int done;
};

static void do_select(void *arg)
{
	struct waiting *w = arg;

	w->result = gmp_select_until(w->cs, w->n, w->deadline);
	atomic_store(&w->done, 1);
}

RT(select_waiting_takes_first_partner_and_dequeues_rest)
{
	gmp_chan *c[4];
	int x[4] = { 0 }, v = 3, got;
	gmp_case cs[4];
	struct waiting w = { .cs = cs, .n = 4, .deadline = GMP_FOREVER };

	for (int i = 0; i < 4; i++)
		c[i] = chan(0);
	for (int k = 0; k < 8; k++) {
		for (int i = 0; i < 4; i++)
			cs[i] = k < 4 ? GMP_RECV_CASE(c[i], &x[i]) : GMP_SEND_CASE(c[i], &v);
		gmp_g *g = spawn(do_select, &w);

		wait_parked(1);
		if (k < 4)
			CHECK_EQ(gmp_chan_send(c[k % 4], &v), 0);
		else
			CHECK_EQ(gmp_chan_recv(c[k % 4], &got), 0);
		join(g);
		CHECK_EQ(w.result, k % 4);
		CHECK_EQ(cs[k % 4].status, 0);
		for (int i = 0; i < 4; i++) {
			CHECK_EQ(gmp_chan_try_send(c[i], &v), -EAGAIN);
			CHECK_EQ(gmp_chan_try_recv(c[i], &got), -EAGAIN);
		}
	}
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(x[i], 3);
		gmp_chan_free(c[i]);
	}
}

RT(select_waiting_is_woken_by_close)
{
	gmp_chan *a = chan(0), *b = chan(0);
	int v = 1, x = 4;
	gmp_case cs[] = { GMP_SEND_CASE(b, &v), GMP_RECV_CASE(a, &x), GMP_SEND_CASE(a, &v) };
	struct waiting w = { .cs = cs, .n = 3, .deadline = GMP_FOREVER };
	gmp_g *g = spawn(do_select, &w);

	wait_parked(1);
	CHECK_EQ(gmp_chan_close(a), 0);
	join(g);
	CHECK(w.result == 1 || w.result == 2);
	CHECK_EQ(cs[w.result].status, -EPIPE);
	CHECK_EQ(x, w.result == 1 ? 0 : 4);
	gmp_chan_free(a);
	CHECK_EQ(gmp_chan_try_recv(b, &x), -EAGAIN);
	gmp_chan_free(b);
}

RT(select_on_both_sides_matches_other_select_not_itself)
{
	gmp_chan *c = chan(0);
	int v = 1, x = 0, v2 = 2, x2 = 0;
	gmp_case cs[] = { GMP_SEND_CASE(c, &v), GMP_RECV_CASE(c, &x) };
	gmp_case ds[] = { GMP_RECV_CASE(c, &x2), GMP_SEND_CASE(c, &v2) };
	struct waiting w = { .cs = cs, .n = 2, .deadline = GMP_FOREVER };

	CHECK_EQ(gmp_select_try(cs, 2), -EAGAIN);
	CHECK_EQ(gmp_select_until(cs, 2, gmp_deadline(MS)), -ETIMEDOUT);
	gmp_g *g = spawn(do_select, &w);

	wait_parked(1);
	int i = gmp_select(ds, 2);

	join(g);
	CHECK_EQ(w.result, i);
	CHECK(i == 0 ? x2 == 1 && x == 0 : x == 2 && x2 == 0);
	gmp_chan_free(c);
}

RT(select_without_cases_times_out)
{
	gmp_case none = GMP_RECV_CASE(NULL, NULL);

	CHECK_EQ(gmp_select_until(NULL, 0, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_select_until(&none, 1, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_select_try(NULL, 0), -EAGAIN);
	CHECK_EQ(gmp_select_try(&none, 1), -EAGAIN);
}

RT(select_bad_cases_return_einval)
{
	gmp_chan *c = chan(1);
	int v = 1;
	gmp_case cs[] = { GMP_SEND_CASE(c, &v), GMP_SEND_CASE(c, NULL) };

	CHECK_EQ(gmp_select(cs, 2), -EINVAL);
	CHECK_EQ(gmp_select(cs, -1), -EINVAL);
	CHECK_EQ(gmp_select(NULL, 1), -EINVAL);
	cs[1].elem = &v;
	cs[1].dir = (gmp_dir)7;
	CHECK_EQ(gmp_select_try(cs, 2), -EINVAL);
	CHECK_EQ(gmp_chan_len(c), 0);
	gmp_chan_free(c);
}

RT(select_1_to_200_cases_work)
{
	static gmp_chan *c[MANY];
	static gmp_case cs[MANY];
	static int x[MANY];
	struct waiting w = { .cs = cs, .deadline = GMP_FOREVER };
	int v = 5;

	for (int i = 0; i < MANY; i++)
		c[i] = chan(0);
	for (int n = 1; n <= MANY; n = n * 3 / 2 + 1) {
		for (int i = 0; i < n; i++)
			cs[i] = GMP_RECV_CASE(c[(i * 7) % MANY], &x[i]);
		w.n = n;
		gmp_g *g = spawn(do_select, &w);

		wait_parked(1);
		CHECK_EQ(gmp_chan_send(c[(n / 2 * 7) % MANY], &v), 0);
		join(g);
		CHECK_EQ(cs[w.result].c == c[(n / 2 * 7) % MANY], 1);
		CHECK_EQ(x[w.result], 5);
	}
	for (int i = 0; i < MANY; i++)
		gmp_chan_free(c[i]);
}

RT(select_choice_among_ready_cases_is_uniform)
{
	enum { N = 5, ROUNDS = 20000 };
	gmp_chan *c[N + 1];
	gmp_case cs[N + 1];
	int hits[N + 1] = { 0 };

	for (int i = 0; i <= N; i++) {
		c[i] = chan(0);
		cs[i] = GMP_RECV_CASE(c[i], NULL);
		if (i != 2) /* which is never ready */
			CHECK_EQ(gmp_chan_close(c[i]), 0);
	}
	for (int i = 0; i < ROUNDS; i++)
		hits[gmp_select(cs, N + 1)]++;
	for (int i = 0; i <= N; i++) {
		if (i == 2)
			CHECK_EQ(hits[i], 0);
		else
			CHECK(hits[i] > ROUNDS / N * 9 / 10 && hits[i] < ROUNDS / N * 11 / 10);
		gmp_chan_free(c[i]);
	}
}

/* Gs that select over the same channels in opposite order, and one external thread. */
enum { EXCHANGES = 20000 };

static gmp_chan *xa, *xb, *xend;
static atomic_int sum_in, sum_out, active;

static void exchange(void *arg)
{
	int order = (int)(intptr_t)arg, v = 0, x = 0;

	for (int i = 0; i < EXCHANGES; i++) {
		gmp_case cs[] = { GMP_SEND_CASE(order ? xa : xb, &v),
				  GMP_RECV_CASE(order ? xb : xa, &x), GMP_RECV_CASE(xend, NULL),
				  GMP_RECV_CASE(order ? xa : xb, &x) };

		v = i;
		int r = gmp_select(cs, 4);

		CHECK(r >= 0);
		if (r == 2)
			break;
		CHECK_EQ(cs[r].status, 0);
		if (r == 0)
			atomic_fetch_add(&sum_in, v);
		else
			atomic_fetch_add(&sum_out, x);
	}
	if (atomic_fetch_sub(&active, 1) == 2) /* the last selector has no partner */
		CHECK_EQ(gmp_chan_close(xend), 0);
}

RT(select_against_select_loses_no_element)
{
	struct ext_thread f;
	gmp_g *g[4];

	xa = chan(0), xb = chan(0), xend = chan(0);
	atomic_store(&active, 5);
	atomic_store(&sum_in, 0);
	atomic_store(&sum_out, 0);
	ext_thread_start(&f, exchange, NULL);
	for (int i = 0; i < 4; i++)
		g[i] = spawn(exchange, (void *)(intptr_t)(i % 2));
	for (int i = 0; i < 4; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&sum_in), atomic_load(&sum_out));
	gmp_chan_free(xa);
	gmp_chan_free(xb);
	gmp_chan_free(xend);
}

static gmp_chan *kept[70];

static void wait_in_70(UNUSED void *arg)
{
	gmp_case cs[70];

	for (int i = 0; i < 70; i++)
		cs[i] = GMP_RECV_CASE(kept[i], NULL);
	gmp_select(cs, 70);
	CHECK(0 && "a killed green thread ran on");
}

static void leave_selects(UNUSED void *arg)
{
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(wait_in_70, NULL), 0);
	wait_parked(10);
}

TEST_PROCS(select_of_70_cases_killed_at_shutdown_is_dequeued)
{
	int v = 1;

	for (int i = 0; i < 70; i++)
		kept[i] = chan(0);
	for (int k = 0; k < 3; k++)
		run_procs(procs, leave_selects, NULL);
	for (int i = 0; i < 70; i++) {
		CHECK_EQ(gmp_chan_try_send(kept[i], &v), -EAGAIN);
		gmp_chan_free(kept[i]);
	}
}
