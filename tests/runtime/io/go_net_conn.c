/* SPDX-License-Identifier: MIT */
/*
 * Tests connections over tcp, unix sockets and pairs of pipes with programs of the same intent as
 * Go's test suite for implementations of net.Conn (golang.org/x/net/nettest).
 */
#include "go_net_util.h"

/* --- delivery --- */

enum { TOTAL = 1 << 20, CHUNK = 1024 };

static unsigned char noise[TOTAL];

static void make_noise(void)
{
	uint32_t x = 12345;

	for (int i = 0; i < TOTAL; i++) {
		x = x * 1664525 + 1013904223;
		noise[i] = (unsigned char)(x >> 24);
	}
}

static void send_noise(void *arg)
{
	const struct conn *c = arg;

	for (int at = 0; at < TOTAL; at += CHUNK)
		CHECK_EQ(gmp_write_all(c->w, noise + at, CHUNK), CHUNK);
	close_end(c);
}

RT(conn_delivers_written_bytes_unchanged)
{
	static unsigned char got[TOTAL + 1];

	make_noise();
	FOR_KINDS(kind)
	{
		struct conn a, b;
		size_t at = 0;
		ssize_t n;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		memset(got, 0, sizeof(got));
		g = spawn(send_noise, &a);
		while ((n = gmp_read(b.r, got + at, CHUNK)) > 0) {
			at += (size_t)n;
			CHECK(at <= TOTAL);
		}
		CHECK_EQ(n, 0);
		CHECK_EQ(at, TOTAL);
		CHECK(memcmp(got, noise, TOTAL) == 0);
		join(g);
		close_end(&b);
	}
}

/* --- ping pong --- */

enum { PINGS = 1000 };

static void count_up(void *arg)
{
	const struct conn *c = arg;
	uint64_t v, before = 0;

	while (gmp_read_full(c->r, &v, sizeof(v)) == (ssize_t)sizeof(v)) {
		CHECK(before == 0 || v == before + 2);
		before = v++;
		if (v > PINGS)
			break;
		CHECK_EQ(gmp_write(c->w, &v, sizeof(v)), sizeof(v));
	}
	CHECK(before >= PINGS - 1);
	close_end(c);
}

RT(conn_ping_pong_loses_no_message)
{
	FOR_KINDS(kind)
	{
		struct conn c[2];
		uint64_t first = 1;
		gmp_g *g[2];

		connect_ends(kind, &c[0], &c[1]);
		CHECK_EQ(gmp_write(c[0].w, &first, sizeof(first)), sizeof(first));
		for (int i = 0; i < 2; i++)
			g[i] = spawn(count_up, &c[i]);
		for (int i = 0; i < 2; i++)
			join(g[i]);
	}
}

/* --- the caller may reuse a buffer as soon as the call has returned --- */

static atomic_int timeouts, done;

static void reuse_buffer(char *buf, size_t n)
{
	memset(buf, 'm', n);
	gmp_yield();
	for (size_t i = 0; i < n; i++)
		CHECK(buf[i] == 'm');
}

static void read_racily(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK];

	for (int i = 0; i < 100; i++) {
		ssize_t n = gmp_read(c->r, buf, sizeof(buf));

		reuse_buffer(buf, sizeof(buf));
		CHECK(n > 0 || n == -ETIMEDOUT);
		if (n < 0) {
			atomic_fetch_add(&timeouts, 1);
			set_deadlines(c, GMP_READ, gmp_deadline(MS));
		}
	}
	atomic_fetch_add(&done, 1);
}

static void write_racily(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK];

	for (int i = 0; i < 100; i++) {
		memset(buf, 's', sizeof(buf));
		ssize_t n = gmp_write(c->w, buf, sizeof(buf));

		reuse_buffer(buf, sizeof(buf));
		CHECK(n > 0 || n == -ETIMEDOUT);
		if (n < 0) {
			atomic_fetch_add(&timeouts, 1);
			set_deadlines(c, GMP_WRITE, gmp_deadline(MS));
		}
	}
	atomic_fetch_add(&done, 1);
}

static void check_bytes_sent(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK];
	ssize_t n;

	while ((n = gmp_read(c->r, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++)
			CHECK(buf[i] == 's');
	CHECK(is_end(n));
}

static void race(const char *kind, gmp_fn racer, gmp_fn other, int which)
{
	struct conn a, b;
	gmp_g *g[10], *o;

	connect_ends(kind, &a, &b);
	o = spawn(other, &b);
	set_deadlines(&a, which, gmp_deadline(MS));
	for (int i = 0; i < 10; i++)
		g[i] = spawn(racer, &a);
	for (int i = 0; i < 10; i++)
		join(g[i]);
	close_end(&a);
	join(o);
	close_end(&b);
}

RT(conn_read_buffer_is_not_used_after_return)
{
	FOR_KINDS(kind)
	race(kind, read_racily, stream_all, GMP_READ);
}

RT(conn_write_buffer_is_not_used_after_return)
{
	FOR_KINDS(kind)
	race(kind, write_racily, check_bytes_sent, GMP_WRITE);
}

/* --- deadlines --- */

RT(conn_read_and_write_deadlines_are_independent)
{
	FOR_KINDS(kind)
	{
		char buf[CHUNK] = "";
		struct conn a, b;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		g = spawn(drain_all, &b);
		set_deadlines(&a, GMP_READ, LONG_AGO);
		CHECK_EQ(gmp_read(a.r, buf, sizeof(buf)), -ETIMEDOUT);
		CHECK_EQ(gmp_write(a.w, buf, sizeof(buf)), sizeof(buf));
		close_end(&a);
		join(g);
		close_end(&b);

		connect_ends(kind, &a, &b);
		g = spawn(stream_all, &b);
		set_deadlines(&a, GMP_WRITE, LONG_AGO);
		CHECK_EQ(gmp_write(a.w, buf, sizeof(buf)), -ETIMEDOUT);
		CHECK(gmp_read(a.r, buf, sizeof(buf)) > 0);
		close_end(&a);
		join(g);
		close_end(&b);
	}
}

RT(conn_past_deadline_fails_calls_until_moved)
{
	FOR_KINDS(kind)
	{
		char buf[CHUNK] = "";
		struct conn a, b;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		g = spawn(echo_all, &b);
		round_trip(&a);
		for (int i = 0; i < 3; i++) {
			set_deadlines(&a, BOTH, i == 0 ? LONG_AGO : gmp_now() - i);
			CHECK_EQ(gmp_write(a.w, buf, sizeof(buf)), -ETIMEDOUT);
			CHECK_EQ(gmp_read(a.r, buf, sizeof(buf)), -ETIMEDOUT);
			CHECK_EQ(gmp_write_all(a.w, buf, sizeof(buf)), -ETIMEDOUT);
			CHECK_EQ(gmp_read_full(a.r, buf, sizeof(buf)), -ETIMEDOUT);
			round_trip(&a); /* the failed calls sent nothing */
		}
		close_end(&a);
		join(g);
		close_end(&b);
	}
}

static atomic_int deadline_set;

static void read_until_set(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK];

	CHECK_EQ(gmp_read(c->r, buf, sizeof(buf)), -ETIMEDOUT);
	CHECK(atomic_load(&deadline_set));
}

static void write_until_set(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK] = "";
	ssize_t n;

	while ((n = gmp_write(c->w, buf, sizeof(buf))) > 0)
		;
	CHECK_EQ(n, -ETIMEDOUT);
	CHECK(atomic_load(&deadline_set));
}

RT(conn_past_deadline_ends_waiting_calls)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		gmp_g *g[2];

		connect_ends(kind, &a, &b);
		atomic_store(&deadline_set, 0);
		g[0] = spawn(read_until_set, &a);
		g[1] = spawn(write_until_set, &a);
		wait_parked(2);
		atomic_store(&deadline_set, 1);
		set_deadlines(&a, GMP_READ, LONG_AGO);
		set_deadlines(&a, GMP_WRITE, LONG_AGO);
		for (int i = 0; i < 2; i++)
			join(g[i]);
		close_end(&a);
		close_end(&b);
	}
}

static int64_t due;

static void read_until_due(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK];

	CHECK_EQ(gmp_read(c->r, buf, sizeof(buf)), -ETIMEDOUT);
	CHECK(gmp_now() >= due);
}

static void write_until_due(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK] = "";
	ssize_t n;

	while ((n = gmp_write(c->w, buf, sizeof(buf))) > 0)
		;
	CHECK_EQ(n, -ETIMEDOUT);
	CHECK(gmp_now() >= due);
}

static void send_mark(void *arg)
{
	const struct conn *c = arg;

	CHECK_EQ(gmp_write(c->w, "\377", 1), 1);
}

/* Writes a mark, and reads everything up to it. All other bytes are zeros. */
static void resynchronize(const struct conn *c)
{
	char buf[CHUNK];
	gmp_g *g;

	set_deadlines(c, BOTH, GMP_FOREVER);
	g = spawn(send_mark, (void *)(uintptr_t)c);
	for (;;) {
		ssize_t n = gmp_read(c->r, buf, sizeof(buf));

		CHECK(n > 0);
		if (buf[n - 1] == '\377')
			break;
		CHECK(memchr(buf, '\377', (size_t)n) == NULL);
	}
	join(g);
}

RT(conn_future_deadline_ends_calls_and_can_be_cleared)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		gmp_g *g[2];

		connect_ends(kind, &a, &b);
		due = gmp_deadline(50 * MS);
		set_deadlines(&a, BOTH, due);
		g[0] = spawn(read_until_due, &a);
		g[1] = spawn(write_until_due, &a);
		for (int i = 0; i < 2; i++)
			join(g[i]);
		g[0] = spawn(echo_all, &b);
		resynchronize(&a);
		round_trip(&a);
		close_end(&a);
		join(g[0]);
		close_end(&b);
	}
}

/* --- closing --- */

static void read_until_closed(void *arg)
{
	drain_all(arg);
}

static void write_until_closed(void *arg)
{
	stream_all(arg);
}

RT(conn_close_ends_calls_in_progress)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		gmp_g *g[3];

		connect_ends(kind, &a, &b);
		g[0] = spawn(read_until_closed, &a);
		g[1] = spawn(write_until_closed, &a);
		g[2] = spawn(echo_all, &b);
		gmp_sleep(2 * MS); /* until the calls are in progress */
		close_end(&a);
		for (int i = 0; i < 2; i++)
			join(g[i]);
		join(g[2]);
		close_end(&b);
	}
}

/* --- all calls at once --- */

static void read_some(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK];
	ssize_t n = gmp_read(c->r, buf, sizeof(buf));

	CHECK(n > 0 || n == -ETIMEDOUT);
}

static void write_some(void *arg)
{
	const struct conn *c = arg;
	char buf[CHUNK] = "";
	ssize_t n = gmp_write(c->w, buf, sizeof(buf));

	CHECK(n > 0 || n == -ETIMEDOUT);
}

static void set_both(void *arg)
{
	set_deadlines(arg, BOTH, gmp_deadline(10 * MS));
}

static void set_past_read(void *arg)
{
	set_deadlines(arg, GMP_READ, LONG_AGO);
}

static void set_past_write(void *arg)
{
	set_deadlines(arg, GMP_WRITE, LONG_AGO);
}

static void ask_names(void *arg)
{
	const struct conn *c = arg;
	char buf[128];
	int n = gmp_local_addr(c->r, buf, sizeof(buf));

	CHECK(n >= 0 || n == -ENOTSOCK);
	n = gmp_peer_addr(c->w, buf, sizeof(buf));
	CHECK(n >= 0 || n == -ENOTSOCK);
}

RT(conn_concurrent_calls_of_all_kinds_succeed)
{
	static const gmp_fn calls[] = { read_some,     write_some,     set_both,
					set_past_read, set_past_write, ask_names };
	enum { CALLS = sizeof(calls) / sizeof(calls[0]), TIMES = 100 };

	FOR_KINDS(kind)
	{
		static gmp_g *g[CALLS * TIMES];
		struct conn a, b;
		gmp_g *e;

		connect_ends(kind, &a, &b);
		e = spawn(echo_all, &b);
		for (int i = 0; i < CALLS * TIMES; i++)
			g[i] = spawn(calls[i % CALLS], &a);
		for (int i = 0; i < CALLS * TIMES; i++) {
			/* the last deadline that was set may be too late to end the call */
			while (gmp_join_until(g[i], gmp_deadline(20 * MS)) == -ETIMEDOUT)
				set_deadlines(&a, BOTH, LONG_AGO);
		}
		resynchronize(&a);
		round_trip(&a);
		close_end(&a);
		join(e);
		close_end(&b);
	}
}
