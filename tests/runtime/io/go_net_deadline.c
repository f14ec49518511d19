/* SPDX-License-Identifier: MIT */
/*
 * Tests I/O deadlines with programs of the same intent as Go's src/net/timeout_test.go; each
 * section names its counterpart.
 */
#include "go_net_util.h"

static const char message[] = "a message that may be late";

/* --- TestDialTimeout, TestDialTimeoutMaxDuration --- */

RT(dial_times_out_at_past_or_future_deadline)
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

RT(io_deadline_forever_does_not_expire)
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
			say(c, message);
			hear(s, message);
			close_pair(c, s);
		}
		CHECK_EQ(gmp_close(l), 0);
	}
}

/* --- TestAcceptTimeout, ...MustReturn, ...MustNotReturn --- */

RT(accept_past_deadline_beats_pending_connection)
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
		s = gmp_accept(l); /* the connection is still pending */
		CHECK(s >= 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, GMP_FOREVER), 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, gmp_deadline(10 * MS)), 0);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_accept(l), -ETIMEDOUT);
		close_pair(c, s);
		CHECK_EQ(gmp_close(l), 0);
	}
}

static void accept_until_closed(void *arg)
{
	CHECK_EQ(gmp_accept(*(int *)arg), -ECANCELED);
}

RT(accept_cleared_deadline_does_not_end_wait)
{
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr);
		gmp_g *g;

		CHECK_EQ(gmp_fd_set_deadline(l, BOTH, gmp_now() - 5 * SEC), 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, GMP_FOREVER), 0);
		g = spawn(accept_until_closed, &l);
		wait_parked(1);
		CHECK_EQ(gmp_join_until(g, gmp_deadline(30 * MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_close(l), 0);
		join(g);
	}
}

/* --- TestReadTimeout, ...MustNotReturn --- */

RT(read_past_deadline_beats_readable_data)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		size_t got = 0;
		ssize_t n;
		char c;

		connect_ends(kind, &a, &b);
		say(b.w, message);
		set_deadlines(&a, GMP_READ, gmp_now() - 5 * SEC);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
		set_deadlines(&a, GMP_READ, gmp_deadline(50 * MS));
		while ((n = gmp_read(a.r, &c, 1)) == 1)
			CHECK_EQ(c, message[got++]);
		CHECK_EQ(n, -ETIMEDOUT); /* and later calls, too */
		CHECK_EQ(gmp_read(a.r, &c, 1), -ETIMEDOUT);
		set_deadlines(&a, GMP_READ, GMP_FOREVER);
		/* the rest, if the deadline expired early on a slow machine */
		hear(a.r, message + got);
		close_end(&a);
		close_end(&b);
	}
}

struct waiter_until_closed {
	struct conn c;
	int which;
};

static void wait_until_closed(void *arg)
{
	struct waiter_until_closed *t = arg;
	char buf[1024] = "";
	ssize_t n;

	do
		n = t->which == GMP_READ ? gmp_read(t->c.r, buf, 1)
					 : gmp_write(t->c.w, buf, sizeof(buf));
	while (n > 0);
	CHECK_EQ(n, -ECANCELED);
}

/* Includes TestWriteTimeoutMustNotReturn. */
RT(io_cleared_deadline_does_not_end_wait)
{
	FOR_KINDS(kind)
	{
		for (int which = GMP_READ; which <= GMP_WRITE; which++) {
			struct waiter_until_closed t = { .which = which };
			struct conn b;
			gmp_g *g;

			connect_ends(kind, &t.c, &b);
			set_deadlines(&t.c, BOTH, gmp_now() - 5 * SEC);
			set_deadlines(&t.c, BOTH & ~which, gmp_now() - 5 * SEC);
			set_deadlines(&t.c, which, GMP_FOREVER);
			g = spawn(wait_until_closed, &t);
			wait_parked(1);
			CHECK_EQ(gmp_join_until(g, gmp_deadline(20 * MS)), -ETIMEDOUT);
			close_end(&t.c);
			join(g);
			close_end(&b);
		}
	}
}

/* --- TestReadFromTimeout, TestWriteToTimeout --- */

RT(udp_calls_time_out_at_deadline)
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
		CHECK_EQ(gmp_sendto(b, message, sizeof(message), 0, (struct sockaddr *)&to,
				    sizeof(to)),
			 -ETIMEDOUT);
	CHECK_EQ(gmp_fd_set_deadline(b, GMP_WRITE, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(gmp_sendto(b, message, sizeof(message), 0, (struct sockaddr *)&to, sizeof(to)),
		 sizeof(message));
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_now() - 5 * SEC), 0);
	n = 1; /* the call must store neither data nor an address */
	memset(buf, 'u', sizeof(buf));
	CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n), -ETIMEDOUT);
	CHECK_EQ(n, 1);
	CHECK_EQ(buf[0], 'u');
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), -ETIMEDOUT);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, GMP_FOREVER), 0);
	n = sizeof(from);
	CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n),
		 sizeof(message));
	CHECK_STR(buf, message);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(10 * MS)), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), 0, NULL, NULL), -ETIMEDOUT);
	close_pair(a, b);
}

/* --- TestWriteTimeout --- */

RT(write_past_deadline_beats_room_in_buffer)
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
			CHECK_EQ(gmp_write(a.w, message, sizeof(message)), -ETIMEDOUT);
		due = gmp_deadline(10 * MS);
		set_deadlines(&a, GMP_WRITE, due);
		while ((n = gmp_write(a.w, message, sizeof(message))) > 0)
			gmp_sleep(MS);
		CHECK_EQ(n, -ETIMEDOUT);
		CHECK(gmp_now() >= due);
		CHECK_EQ(gmp_write(a.w, message, sizeof(message)), -ETIMEDOUT);
		close_end(&a);
		join(g);
		close_end(&b);
	}
}

/* --- Test{Read,ReadFrom,Write}TimeoutFluctuation --- */

static void write_slowly(void *arg)
{
	const struct conn *c = arg;

	while (gmp_write(c->w, "d", 1) == 1)
		gmp_sleep(2 * MS);
}

static atomic_int reading;

static void read_slowly(void *arg)
{
	const struct conn *c = arg;
	char buf[512];

	while (atomic_load(&reading) && gmp_read(c->r, buf, sizeof(buf)) > 0)
		gmp_sleep(2 * MS);
}

RT(io_progress_does_not_extend_deadline)
{
	FOR_KINDS(kind)
	{
		int64_t due;
		char buf[512] = "";
		struct conn a, b;
		ssize_t n;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		g = spawn(write_slowly, &b);
		CHECK_EQ(gmp_read(a.r, buf, 1), 1); /* the writer has begun */
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
		atomic_store(&reading, 1);
		g = spawn(read_slowly, &b);
		due = gmp_deadline(50 * MS);
		set_deadlines(&a, GMP_WRITE, due);
		while ((n = gmp_write_all(a.w, buf, sizeof(buf))) > 0)
			;
		CHECK_EQ(n, -ETIMEDOUT);
		CHECK(gmp_now() >= due);
		atomic_store(&reading, 0);
		close_end(&a);
		join(g);
		close_end(&b);
	}
}

/* --- TestVariousDeadlines --- */

RT(io_deadlines_of_1_ns_to_20_ms_end_calls)
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

RT(io_deadline_renewed_before_each_call_never_expires)
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

static void set_repeatedly(void *arg)
{
	for (long i = 0; i < check_scaled(TIMES); i++) {
		set_deadlines(arg, GMP_READ, gmp_deadline(2 * US));
		set_deadlines(arg, GMP_WRITE, gmp_deadline(2 * US));
		gmp_sleep(2 * US);
	}
}

static void read_repeatedly(void *arg)
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

static void write_repeatedly(void *arg)
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

RT(io_calls_racing_deadlines_lose_no_byte)
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
		g[0] = spawn(set_repeatedly, &a);
		g[1] = spawn(read_repeatedly, &a);
		g[2] = spawn(write_repeatedly, &a);
		join(g[0]);
		join(g[1]); /* ends, since the last deadline has expired */
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
		for (int64_t k = 0; k < CONNS; k++) { /* ever earlier deadlines */
			set_deadlines(&conns[k][0], GMP_READ, now + 7200 * SEC + (i * j * k) * SEC);
			set_deadlines(&conns[k][0], GMP_WRITE,
				      now + 3600 * SEC + (i * j * k) * SEC);
		}
	}
}

RT(io_concurrent_deadline_sets_keep_one_timer_each)
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
		say(conns[k][0].w, message);
		hear(conns[k][1].r, message);
		say(conns[k][1].w, message);
		hear(conns[k][0].r, message);
		close_end(&conns[k][0]);
		close_end(&conns[k][1]);
	}
	CHECK_EQ(stats().timers, 0);
}

/* --- a deadline that is set again and again, before and after it has passed --- */

RT(io_last_deadline_set_is_effective)
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
