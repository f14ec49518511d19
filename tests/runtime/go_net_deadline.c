/* SPDX-License-Identifier: MIT */
/*
 * Do deadlines do what Go's public tests ask of them?  Programs of the same intent as those of
 * src/net/timeout_test.go; each section names its own.
 */
#include "go_net_util.h"

static const char word[] = "a word that may be late";

/* --- TestDialTimeout, TestDialTimeoutMaxDuration --- */

RT(a_dial_ends_at_its_deadline_wherever_that_is)
{
	const int64_t past[] = { INT64_MIN, -1, 0, LONG_AGO, gmp_now() - 5 * SEC };
	struct deaf d;
	int64_t due;

	make_deaf(&d);
	for (unsigned i = 0; i < sizeof(past) / sizeof(past[0]); i++)
		CHECK_EQ(gmp_dial_until("tcp", d.addr, past[i]), -ETIMEDOUT);
	due = gmp_deadline(50 * MS);
	CHECK_EQ(gmp_dial_until("tcp", d.addr, due), -ETIMEDOUT);
	CHECK(gmp_now() >= due);
	end_deaf(&d);
	CHECK_EQ(stats().descriptors, 0);
}

RT(a_deadline_at_the_end_of_time_is_none)
{
	const int64_t far[] = { GMP_FOREVER, GMP_FOREVER - 1, gmp_deadline(GMP_FOREVER) };

	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr);

		for (unsigned i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
			int c = gmp_dial_until(net, addr, far[i]), s;

			CHECK(c >= 0);
			CHECK_EQ(gmp_fd_set_deadline(l, BOTH, far[i]), 0);
			s = gmp_accept(l);
			CHECK(s >= 0);
			CHECK_EQ(gmp_fd_set_deadline(s, BOTH, far[i]), 0);
			say(c, word);
			hear(s, word);
			close_pair(c, s);
		}
		CHECK_EQ(gmp_close(l), 0);
	}
}

/* --- TestAcceptTimeout, ...MustReturn, ...MustNotReturn --- */

RT(a_deadline_of_the_past_beats_a_connection_that_is_there)
{
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr), c = gmp_dial(net, addr), s;

		CHECK(c >= 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, gmp_now() - 5 * SEC), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_accept(l), -ETIMEDOUT);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, gmp_deadline(PATIENCE)), 0);
		s = gmp_accept(l); /* which is still there */
		CHECK(s >= 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, GMP_FOREVER), 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, gmp_deadline(10 * MS)), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_accept(l), -ETIMEDOUT);
		close_pair(c, s);
		CHECK_EQ(gmp_close(l), 0);
	}
}

static void accept_till_closed(void *arg)
{
	CHECK_EQ(gmp_accept(*(int *)arg), -ECANCELED);
}

RT(an_accept_whose_deadline_was_cleared_does_not_return)
{
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr);
		gmp_g *g;

		CHECK_EQ(gmp_fd_set_deadline(l, BOTH, gmp_now() - 5 * SEC), 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, GMP_FOREVER), 0);
		g = spawn(accept_till_closed, &l);
		wait_parked(1);
		CHECK_EQ(gmp_join_until(g, gmp_deadline(30 * MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_close(l), 0);
		join(g);
	}
}

/* --- TestReadTimeout, ...MustNotReturn --- */

RT(a_deadline_of_the_past_beats_what_can_be_read)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		size_t got = 0;
		ssize_t n;
		char c;

		connect_ends(kind, &a, &b);
		say(b.w, word);
		set_deadlines(&a, GMP_READ, gmp_now() - 5 * SEC);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
		set_deadlines(&a, GMP_READ, gmp_deadline(50 * MS));
		while ((n = gmp_read(a.r, &c, 1)) == 1)
			CHECK_EQ(c, word[got++]);
		CHECK_EQ(n, -ETIMEDOUT); /* as the next, and the one after it */
		CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
		set_deadlines(&a, GMP_READ, GMP_FOREVER);
		hear(a.r, word + got); /* on a slow machine not all of it has come */
		close_end(&a);
		close_end(&b);
	}
}

struct till_closed {
	struct conn c;
	int which;
};

static void wait_till_closed(void *arg)
{
	struct till_closed *t = arg;
	char buf[1024] = "";
	ssize_t n;

	do
		n = t->which == GMP_READ ? gmp_read(t->c.r, buf, 1)
					 : gmp_write(t->c.w, buf, sizeof(buf));
	while (n > 0);
	CHECK_EQ(n, -ECANCELED);
}

/* TestWriteTimeoutMustNotReturn as well. */
RT(a_call_whose_own_deadline_was_cleared_does_not_return)
{
	FOR_KINDS(kind)
	{
		for (int which = GMP_READ; which <= GMP_WRITE; which++) {
			struct till_closed t = { .which = which };
			struct conn b;
			gmp_g *g;

			connect_ends(kind, &t.c, &b);
			set_deadlines(&t.c, BOTH, gmp_now() - 5 * SEC);
			set_deadlines(&t.c, BOTH & ~which, gmp_now() - 5 * SEC);
			set_deadlines(&t.c, which, GMP_FOREVER);
			g = spawn(wait_till_closed, &t);
			wait_parked(1);
			CHECK_EQ(gmp_join_until(g, gmp_deadline(20 * MS)), -ETIMEDOUT);
			close_end(&t.c);
			join(g);
			close_end(&b);
		}
	}
}

/* --- TestReadFromTimeout, TestWriteToTimeout --- */

RT(datagrams_have_deadlines_too)
{
	int a = gmp_listen("udp", "127.0.0.1:0"), b = gmp_listen("udp", "127.0.0.1:0");
	struct sockaddr_in to, from;
	socklen_t n = sizeof(to);
	char buf[64];

	CHECK(a >= 0);
	CHECK(b >= 0);
	CHECK_EQ(getsockname(a, (struct sockaddr *)&to, &n), 0);
	CHECK_EQ(gmp_fd_set_deadline(b, GMP_WRITE, gmp_now() - 5 * SEC), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_sendto(b, word, sizeof(word), 0, (struct sockaddr *)&to, sizeof(to)),
			 -ETIMEDOUT);
	CHECK_EQ(gmp_fd_set_deadline(b, GMP_WRITE, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(gmp_sendto(b, word, sizeof(word), 0, (struct sockaddr *)&to, sizeof(to)),
		 sizeof(word));
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_now() - 5 * SEC), 0);
	n = 1; /* neither data nor an address */
	memset(buf, 'u', sizeof(buf));
	CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n), -ETIMEDOUT);
	CHECK_EQ(n, 1);
	CHECK_EQ(buf[0], 'u');
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), -ETIMEDOUT);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, GMP_FOREVER), 0);
	n = sizeof(from);
	CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n), sizeof(word));
	CHECK_STR(buf, word);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(10 * MS)), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), 0, NULL, NULL), -ETIMEDOUT);
	close_pair(a, b);
}

/* --- TestWriteTimeout --- */

RT(a_deadline_of_the_past_beats_room_to_write)
{
	FOR_KINDS(kind)
	{
		int64_t due;
		struct conn a, b;
		ssize_t n;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		g = spawn(drain_all, &b);
		set_deadlines(&a, GMP_WRITE, gmp_now() - 5 * SEC);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_write(a.w, word, sizeof(word)), -ETIMEDOUT);
		due = gmp_deadline(10 * MS);
		set_deadlines(&a, GMP_WRITE, due);
		while ((n = gmp_write(a.w, word, sizeof(word))) > 0)
			gmp_sleep(MS);
		CHECK_EQ(n, -ETIMEDOUT);
		CHECK(gmp_now() >= due);
		CHECK_EQ(gmp_write(a.w, word, sizeof(word)), -ETIMEDOUT);
		close_end(&a);
		join(g);
		close_end(&b);
	}
}

/* --- Test{Read,ReadFrom,Write}TimeoutFluctuation --- */

static void drip(void *arg)
{
	const struct conn *c = arg;

	while (gmp_write(c->w, "d", 1) == 1)
		gmp_sleep(2 * MS);
}

static atomic_int sipping;

static void sip(void *arg)
{
	const struct conn *c = arg;
	char buf[512];

	while (atomic_load(&sipping) && gmp_read(c->r, buf, sizeof(buf)) > 0)
		gmp_sleep(2 * MS);
}

RT(what_comes_now_and_then_does_not_prolong_a_deadline)
{
	FOR_KINDS(kind)
	{
		int64_t due;
		char buf[512] = "";
		struct conn a, b;
		ssize_t n;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		g = spawn(drip, &b);
		CHECK_EQ(gmp_read(a.r, buf, 1), 1); /* it has begun */
		due = gmp_deadline(50 * MS);
		set_deadlines(&a, GMP_READ, due);
		while ((n = gmp_read(a.r, buf, sizeof(buf))) > 0)
			;
		CHECK_EQ(n, -ETIMEDOUT);
		CHECK(gmp_now() >= due);
		close_end(&a);
		join(g);
		close_end(&b);

		connect_ends(kind, &a, &b);
		atomic_store(&sipping, 1);
		g = spawn(sip, &b);
		due = gmp_deadline(50 * MS);
		set_deadlines(&a, GMP_WRITE, due);
		while ((n = gmp_write_all(a.w, buf, sizeof(buf))) > 0)
			;
		CHECK_EQ(n, -ETIMEDOUT);
		CHECK(gmp_now() >= due);
		atomic_store(&sipping, 0);
		close_end(&a);
		join(g);
		close_end(&b);
	}
}

/* --- TestVariousDeadlines --- */

RT(deadlines_of_any_length_end_calls)
{
	static const int64_t lengths[] = { 1,        2,      5,      50,     100,     200,
					   500,      750,    1 * US, 5 * US, 25 * US, 250 * US,
					   500 * US, 1 * MS, 5 * MS, 20 * MS };

	FOR_KINDS(kind)
	{
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			for (int run = 0; run < 3; run++) {
				struct conn a, b;
				int64_t due;
				char c;

				connect_ends(kind, &a, &b);
				due = gmp_deadline(lengths[i]);
				set_deadlines(&a, BOTH, due);
				CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
				CHECK(gmp_now() >= due);
				CHECK_EQ(gmp_write(a.w, "x", 1), -ETIMEDOUT);
				close_end(&a);
				close_end(&b);
			}
		}
	}
	CHECK_EQ(stats().timers, 0);
}

/* --- TestReadWriteProlongedTimeout --- */

enum { TIMES = 1000 };

static void read_prolonged(void *arg)
{
	const struct conn *c = arg;
	ssize_t n = 1;
	char byte;

	while (n == 1) {
		set_deadlines(c, GMP_READ, gmp_deadline(3600 * SEC));
		n = gmp_read(c->r, &byte, 1);
	}
	CHECK(is_end(n));
}

static void write_prolonged(void *arg)
{
	const struct conn *c = arg;

	for (int i = 0; i < TIMES; i++) {
		set_deadlines(c, GMP_WRITE, gmp_deadline(3600 * SEC));
		CHECK_EQ(gmp_write(c->w, "x", 1), 1);
	}
}

RT(a_deadline_that_is_put_off_before_each_call_is_never_met)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		gmp_g *g[2];
		char c;

		connect_ends(kind, &a, &b);
		g[0] = spawn(read_prolonged, &b);
		g[1] = spawn(write_prolonged, &b);
		for (int i = 0; i < TIMES; i++) {
			CHECK_EQ(gmp_write(a.w, "y", 1), 1);
			CHECK_EQ(gmp_read(a.r, &c, 1), 1);
		}
		close_end(&a);
		for (int i = 0; i < 2; i++)
			join(g[i]);
		close_end(&b);
	}
	CHECK_EQ(stats().timers, 0);
}

/* --- TestReadWriteDeadlineRace --- */

static atomic_long bytes_read, bytes_written;

static void set_all_the_time(void *arg)
{
	for (long i = 0; i < check_scaled(TIMES); i++) {
		set_deadlines(arg, GMP_READ, gmp_deadline(2 * US));
		set_deadlines(arg, GMP_WRITE, gmp_deadline(2 * US));
		gmp_sleep(2 * US);
	}
}

static void read_all_the_time(void *arg)
{
	const struct conn *c = arg;
	char byte;

	for (long i = 0; i < check_scaled(TIMES); i++) {
		ssize_t n = gmp_read(c->r, &byte, 1);

		CHECK(n == 1 || n == -ETIMEDOUT);
		if (n == 1)
			atomic_fetch_add(&bytes_read, 1);
		else if (i % 8 == 0)
			gmp_yield();
	}
}

static void write_all_the_time(void *arg)
{
	const struct conn *c = arg;

	for (long i = 0; i < check_scaled(TIMES); i++) {
		ssize_t n = gmp_write(c->w, "x", 1);

		CHECK(n == 1 || n == -ETIMEDOUT);
		if (n == 1)
			atomic_fetch_add(&bytes_written, 1);
		else if (i % 8 == 0)
			gmp_yield();
	}
}

RT(calls_race_with_their_deadlines_and_lose_no_byte)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		char buf[1024];
		gmp_g *g[3], *e;
		ssize_t n;

		connect_ends(kind, &a, &b);
		atomic_store(&bytes_read, 0);
		atomic_store(&bytes_written, 0);
		e = spawn(echo_all, &b);
		g[0] = spawn(set_all_the_time, &a);
		g[1] = spawn(read_all_the_time, &a);
		g[2] = spawn(write_all_the_time, &a);
		join(g[0]);
		join(g[1]); /* the last deadline has passed, and stays */
		join(g[2]);
		set_deadlines(&a, BOTH, GMP_FOREVER);
		while (atomic_load(&bytes_read) < atomic_load(&bytes_written)) {
			n = gmp_read(a.r, buf, sizeof(buf));
			CHECK(n > 0);
			atomic_fetch_add(&bytes_read, n);
		}
		CHECK_EQ(atomic_load(&bytes_read), atomic_load(&bytes_written));
		round_trip(&a);
		close_end(&a);
		join(e);
		close_end(&b);
	}
}

/* --- TestConcurrentSetDeadline --- */

enum { SETTERS = 8, CONNS = 10, TRIES = 100 };

static struct conn conns[CONNS][2];

static void set_many(void *arg)
{
	int64_t i = (intptr_t)arg, now = gmp_now();

	for (int64_t j = TRIES; j > 0; j--) {
		for (int64_t k = 0; k < CONNS; k++) { /* earlier and earlier ones */
			set_deadlines(&conns[k][0], GMP_READ, now + 7200 * SEC + (i * j * k) * SEC);
			set_deadlines(&conns[k][0], GMP_WRITE,
				      now + 3600 * SEC + (i * j * k) * SEC);
		}
	}
}

RT(many_set_the_deadlines_of_many)
{
	struct ext_thread f[2];
	gmp_g *g[SETTERS];

	for (int k = 0; k < CONNS; k++)
		connect_ends(kinds[k % 3], &conns[k][0], &conns[k][1]);
	for (int i = 0; i < SETTERS; i++)
		g[i] = spawn(set_many, (void *)(intptr_t)i);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], set_many, (void *)(intptr_t)(SETTERS + i));
	for (int i = 0; i < SETTERS; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(stats().timers, 2 * CONNS);
	for (int k = 0; k < CONNS; k++) {
		say(conns[k][0].w, word);
		hear(conns[k][1].r, word);
		say(conns[k][1].w, word);
		hear(conns[k][0].r, word);
		close_end(&conns[k][0]);
		close_end(&conns[k][1]);
	}
	CHECK_EQ(stats().timers, 0);
}

/* --- a deadline that is set again and again, before and after it has passed --- */

RT(the_last_deadline_is_the_one_that_counts)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		char c;

		connect_ends(kind, &a, &b);
		for (int i = 0; i < 20; i++) {
			int64_t due;

			set_deadlines(&a, BOTH, gmp_deadline(3600 * SEC));
			set_deadlines(&a, BOTH, LONG_AGO);
			CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
			set_deadlines(&a, BOTH, gmp_deadline((i % 3) * MS));
			due = gmp_deadline(2 * MS);
			set_deadlines(&a, BOTH, due);
			CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
			CHECK(gmp_now() >= due);
			set_deadlines(&a, BOTH, i % 2 ? GMP_FOREVER : gmp_deadline(PATIENCE));
			CHECK_EQ(gmp_write(b.w, "x", 1), 1);
			CHECK_EQ(gmp_read(a.r, &c, 1), 1);
		}
		close_end(&a);
		close_end(&b);
	}
}
