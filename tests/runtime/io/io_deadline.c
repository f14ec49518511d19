/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_fd_set_deadline: a deadline holds for present and future calls of its direction.
 *
 * An expired deadline wins over ready data. If it is moved, calls work again. A reused fd does not
 * inherit it.
 */
#define _GNU_SOURCE
#include <stdbool.h>

#include "io_calls.h"

static int64_t set(int fd, int which, int64_t ns)
{
	int64_t deadline = gmp_deadline(ns);

	CHECK_EQ(gmp_fd_set_deadline(fd, which, deadline), 0);
	return deadline;
}

static void clear(int fd, int which)
{
	CHECK_EQ(gmp_fd_set_deadline(fd, which, GMP_FOREVER), 0);
}

static int read_now(int fd)
{
	char buf[16];

	return (int)gmp_read(fd, buf, sizeof(buf));
}

/* Fills the socket, whose buffer the kernel may enlarge, until a write fails. */
static int write_until_error(int fd)
{
	static char buf[64 << 10];
	ssize_t n;

	while ((n = gmp_write(fd, buf, sizeof(buf))) > 0)
		;
	return (int)n;
}

/* --- one call --- */

RT(fd_deadline_ends_read_and_write)
{
	FOR_NETS(net)
	{
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 3; i++) {
			int64_t deadline = set(a, GMP_READ, 3 * MS);

			CHECK_EQ(read_now(a), -ETIMEDOUT);
			CHECK(gmp_now() >= deadline);
		}
		for (int i = 0; i < 3; i++) {
			int64_t deadline = set(a, GMP_READ | GMP_WRITE, 3 * MS);

			CHECK_EQ(write_until_error(a), -ETIMEDOUT);
			CHECK(gmp_now() >= deadline);
			CHECK_EQ(read_now(a), -ETIMEDOUT);
		}
		close_pair(a, b);
	}
}

RT(fd_deadline_ends_accept)
{
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr), c, d;
		int64_t deadline = set(l, GMP_READ, 3 * MS);

		CHECK_EQ(gmp_accept(l), -ETIMEDOUT);
		CHECK(gmp_now() >= deadline);
		c = gmp_dial(net, addr);
		CHECK(c >= 0);
		CHECK_EQ(gmp_accept(l), -ETIMEDOUT);
		clear(l, GMP_READ);
		d = gmp_accept(l);
		CHECK(d >= 0);
		/* the accepted connection has no deadline */
		say(c, "hello");
		hear(d, "hello");
		close_pair(c, d);
		CHECK_EQ(gmp_close(l), 0);
	}
}

RT(fd_deadline_in_past_times_out_at_once)
{
	static const int64_t past[] = { 0, 1, -1, INT64_MIN };

	FOR_NETS(net)
	{
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 4; i++) {
			CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, past[i]), 0);
			CHECK_EQ(read_now(a), -ETIMEDOUT);
			clear(a, GMP_READ);
		}
		set(a, GMP_READ, -MS);
		CHECK_EQ(read_now(a), -ETIMEDOUT);
		close_pair(a, b);
	}
}

RT(fd_deadline_expired_wins_over_ready_data)
{
	FOR_NETS(net)
	{
		int a, b;
		char buf[4];

		make_pair(net, &a, &b);
		say(b, "data");
		set(a, GMP_READ, 0);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(read_now(a), -ETIMEDOUT);
		CHECK_EQ(gmp_read_full(a, buf, 4), -ETIMEDOUT);
		set(a, GMP_WRITE, 0);
		CHECK_EQ(gmp_write(a, "x", 1), -ETIMEDOUT);
		CHECK_EQ(gmp_write_all(a, "x", 1), -ETIMEDOUT);
		clear(a, GMP_READ | GMP_WRITE);
		hear(a, "data");
		say(a, "back");
		hear(b, "back");
		close_pair(a, b);
	}
}

RT(fd_deadline_expired_without_switch_wins_over_data)
{
	int a, b;
	int64_t deadline;

	make_pair("tcp", &a, &b);
	say(b, "data");
	deadline = set(a, GMP_READ, 2 * MS);
	while (gmp_now() < deadline)
		;
	CHECK_EQ(read_now(a), -ETIMEDOUT);
	clear(a, GMP_READ);
	hear(a, "data");
	close_pair(a, b);
}

RT(fd_deadline_is_separate_per_direction)
{
	FOR_NETS(net)
	{
		int a, b;

		make_pair(net, &a, &b);
		set(a, GMP_READ, 0);
		say(a, "one");
		hear(b, "one");
		clear(a, GMP_READ);
		set(a, GMP_WRITE, 0);
		say(b, "two");
		hear(a, "two");
		CHECK_EQ(gmp_write(a, "x", 1), -ETIMEDOUT);
		set(a, GMP_READ | GMP_WRITE, 0);
		CHECK_EQ(gmp_write(a, "x", 1), -ETIMEDOUT);
		CHECK_EQ(read_now(a), -ETIMEDOUT);
		close_pair(a, b);
	}
}

RT(fd_deadline_moved_after_expiry_revives_calls)
{
	FOR_NETS(net)
	{
		struct call c;
		gmp_g *g;
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 4; i++) {
			set(a, GMP_READ, i & 1 ? 0 : 2 * MS);
			CHECK_EQ(read_now(a), -ETIMEDOUT);
			if (i & 2)
				clear(a, GMP_READ);
			else
				set(a, GMP_READ, PATIENCE);
			c = (struct call){ .fd = a };
			g = spawn(read_it, &c);
			wait_parked(1);
			say(b, "alive");
			join(g);
			CHECK_EQ(c.result, 5);
		}
		close_pair(a, b);
	}
}

RT(fd_deadline_covers_successive_calls)
{
	int a, b;
	int64_t deadline;
	char buf[7];

	make_pair("tcp", &a, &b);
	deadline = set(a, GMP_READ, 300 * MS);
	for (int i = 0; i < 3; i++) {
		say(b, "in time");
		ssize_t n = gmp_read_full(a, buf, sizeof(buf));

		/* on a slow machine the deadline may expire here already */
		CHECK(n == sizeof(buf) || (n == -ETIMEDOUT && gmp_now() >= deadline));
	}
	CHECK_EQ(read_now(a), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	say(b, "late");
	for (int i = 0; i < 3; i++)
		CHECK_EQ(read_now(a), -ETIMEDOUT);
	close_pair(a, b);
}

/* --- calls in progress --- */

RT(fd_deadline_ends_all_calls_in_progress)
{
	FOR_NETS(net)
	{
		for (int soon = 0; soon < 2; soon++) {
			struct call c[7];
			struct ext_thread t;
			gmp_g *g[6];
			int a, b;

			make_pair(net, &a, &b);
			for (int i = 0; i < 7; i++)
				c[i] = (struct call){ .fd = a };
			for (int i = 0; i < 6; i++)
				g[i] = spawn(i < 2   ? read_it
					     : i < 4 ? read_it_fully
						     : fill_it,
					     &c[i]);
			wait_parked(6);
			ext_thread_start(&t, read_it, &c[6]);
			WAIT_FOR(atomic_load(&c[6].begun));
			set(a, GMP_READ | GMP_WRITE, soon * 3 * MS);
			for (int i = 0; i < 6; i++)
				join(g[i]);
			ext_thread_join(&t);
			for (int i = 0; i < 7; i++)
				CHECK_EQ(c[i].result, -ETIMEDOUT);
			close_pair(a, b);
		}
	}
}

RT(fd_deadline_ends_accepts_in_progress)
{
	FOR_NETS(net)
	{
		struct call c[3];
		char addr[128];
		gmp_g *g[3];
		int l = listen_any(net, addr);

		for (int i = 0; i < 3; i++) {
			c[i] = (struct call){ .fd = l };
			g[i] = spawn(accept_it, &c[i]);
		}
		wait_parked(3);
		set(l, GMP_READ, 2 * MS);
		for (int i = 0; i < 3; i++) {
			join(g[i]);
			CHECK_EQ(c[i].result, -ETIMEDOUT);
		}
		CHECK_EQ(gmp_close(l), 0);
	}
}

RT(fd_deadline_moved_applies_to_call_in_progress)
{
	static const int64_t steps[][2] = { { 4 * MS, 12 * MS }, { PATIENCE, 3 * MS } };

	for (int i = 0; i < 2; i++) {
		struct call c;
		gmp_g *g;
		int a, b;
		int64_t deadline;

		make_pair("tcp", &a, &b);
		int64_t first = set(a, GMP_READ, steps[i][0]);

		c = (struct call){ .fd = a };
		g = spawn(read_it, &c);
		/* on a slow machine the first deadline may expire before it is moved */
		WAIT_FOR(stats().greens_waiting == 1 || atomic_load(&c.result));
		deadline = set(a, GMP_READ, steps[i][1]);
		bool moved = gmp_now() < first;

		join(g);
		CHECK_EQ(c.result, -ETIMEDOUT);
		CHECK(c.ended >= (moved ? deadline : first));
		close_pair(a, b);
	}
}

RT(fd_deadline_cleared_lets_call_in_progress_continue)
{
	struct call c;
	gmp_g *g;
	int a, b;

	make_pair("tcp", &a, &b);
	set(a, GMP_READ, PATIENCE);
	c = (struct call){ .fd = a };
	g = spawn(read_it, &c);
	wait_parked(1);
	clear(a, GMP_READ);
	CHECK_EQ(stats().timers, 0);
	say(b, "there");
	join(g);
	CHECK_EQ(c.result, 5);
	close_pair(a, b);
}

RT(fd_deadline_ends_queued_writers)
{
	struct call c[3];
	gmp_g *g[3];
	int a, b;

	make_pair("unix", &a, &b);
	for (int i = 0; i < 3; i++) {
		c[i] = (struct call){ .fd = a };
		g[i] = spawn(fill_it, &c[i]);
	}
	wait_parked(3);
	set(a, GMP_WRITE, 2 * MS);
	for (int i = 0; i < 3; i++) {
		join(g[i]);
		CHECK_EQ(c[i].result, -ETIMEDOUT);
	}
	close_pair(a, b);
}

static void set_and_read(void *arg)
{
	int *fd = arg;
	int64_t deadline = set(fd[0], GMP_READ, 3 * MS);

	CHECK_EQ(read_now(fd[0]), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	say(fd[1], "data");
	CHECK_EQ(read_now(fd[0]), -ETIMEDOUT);
	clear(fd[0], GMP_READ);
	hear(fd[0], "data");
}

RT(fd_deadline_works_on_external_thread)
{
	FOR_NETS(net)
	{
		struct ext_thread t;
		struct call c;
		gmp_g *g;
		int fd[2];

		make_pair(net, &fd[0], &fd[1]);
		ext_thread_start(&t, set_and_read, fd);
		ext_thread_join(&t);
		/* set by an external thread for a green thread that waits */
		c = (struct call){ .fd = fd[1] };
		g = spawn(read_it, &c);
		wait_parked(1);
		ext_thread_start(&t, set_and_read, (int[]){ fd[1], fd[0] });
		join(g);
		CHECK_EQ(c.result, -ETIMEDOUT);
		ext_thread_join(&t);
		close_pair(fd[0], fd[1]);
	}
}

static void set_while_runtime_is_idle(void *arg)
{
	int fd = *(int *)arg;

	gmp_sleep(20 * MS); /* by then all Ms have stopped, most likely */
	set(fd, GMP_READ, 3 * MS);
}

RT(fd_deadline_set_externally_wakes_idle_runtime)
{
	struct ext_thread t;
	int a, b;

	make_pair("tcp", &a, &b);
	for (int i = 0; i < 3; i++) {
		clear(a, GMP_READ);
		ext_thread_start(&t, set_while_runtime_is_idle, &a);
		CHECK_EQ(read_now(a), -ETIMEDOUT);
		ext_thread_join(&t);
	}
	close_pair(a, b);
}

static void cancelled_read(void *arg)
{
	struct call *c = arg;

	WAIT_FOR(gmp_cancelled());
	read_it(c);
}

RT(fd_deadline_expired_loses_to_cancellation)
{
	struct call c;
	gmp_g *g;
	int a, b;

	make_pair("tcp", &a, &b);
	set(a, GMP_READ, 0);
	c = (struct call){ .fd = a };
	g = spawn(cancelled_read, &c);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(c.result, -ECANCELED);
	close_pair(a, b);
}

/* --- lifetime --- */

RT(fd_deadline_is_not_inherited_by_reused_fd)
{
	for (int i = 0; i < 6; i++) {
		struct call c;
		gmp_g *g;
		int a, b, pair[2], old;

		make_pair("tcp", &a, &b);
		old = a;
		set(a, GMP_READ | GMP_WRITE, i & 1 ? 2 * MS : 0);
		if (i % 3 == 0) {
			CHECK_EQ(gmp_close(a), 0);
			CHECK_EQ(stats().timers, 0);
		} else {
			CHECK_EQ(close(a), 0); /* without gmp's knowledge */
		}
		CHECK_EQ(gmp_close(b), 0);
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		a = gmp_fd_adopt(pair[0]);
		b = gmp_fd_adopt(pair[1]);
		CHECK(a == old || b == old);
		c = (struct call){ .fd = old };
		g = spawn(read_it, &c);
		wait_parked(1);
		gmp_sleep(4 * MS);
		say(old == a ? b : a, "mine");
		join(g);
		CHECK_EQ(c.result, 4);
		close_pair(a, b);
		CHECK_EQ(stats().timers, 0);
	}
}

RT(fd_deadline_pending_loses_to_close)
{
	struct call c;
	gmp_g *g;
	int a, b;

	make_pair("tcp", &a, &b);
	set(a, GMP_READ, PATIENCE);
	c = (struct call){ .fd = a };
	g = spawn(read_it, &c);
	wait_parked(1);
	CHECK_EQ(gmp_close(a), 0);
	join(g);
	CHECK_EQ(c.result, -ECANCELED);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_close(b), 0);
}

RT(fd_deadline_bad_arguments_are_rejected)
{
	int a, b;

	make_pair("tcp", &a, &b);
	CHECK_EQ(gmp_fd_set_deadline(a, 0, 0), -EINVAL);
	CHECK_EQ(gmp_fd_set_deadline(a, 4, 0), -EINVAL);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ | 8, 0), -EINVAL);
	CHECK_EQ(gmp_fd_set_deadline(a, -1, 0), -EINVAL);
	CHECK_EQ(gmp_fd_set_deadline(-1, GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_set_deadline(INT_MAX, GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_set_deadline(9999, GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_set_deadline(0, GMP_READ, 0), -EBADF);
	say(b, "x");
	hear(a, "x");
	close_pair(a, b);
}

static int left[2];

static void leave_armed(UNUSED void *arg)
{
	make_pair("tcp", &left[0], &left[1]);
	set(left[0], GMP_READ | GMP_WRITE, PATIENCE);
	set(left[1], GMP_READ, MS);
}

static void adopt_without_deadline(UNUSED void *arg)
{
	struct call c = { .fd = left[1] };
	gmp_g *g;

	CHECK_EQ(stats().timers, 0);
	CHECK_EQ(gmp_fd_set_deadline(left[0], GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_adopt(left[1]), left[1]);
	g = spawn(read_it, &c);
	gmp_sleep(3 * MS);
	CHECK_EQ(write(left[0], "x", 1), 1);
	join(g);
	CHECK_EQ(c.result, 1);
	CHECK_EQ(gmp_close(left[1]), 0);
	CHECK_EQ(close(left[0]), 0);
}

TEST_PROCS(fd_deadline_does_not_outlive_run)
{
	CHECK_EQ(gmp_fd_set_deadline(0, GMP_READ, 0), -ESRCH);
	run_procs(procs, leave_armed, NULL);
	run_procs(procs, adopt_without_deadline, NULL);
}

/* --- races --- */

enum { MOVES = 2000 };

static atomic_int stop;

static void move_deadlines(void *arg)
{
	int fd = *(int *)arg;

	for (unsigned i = 0; !atomic_load(&stop); i++) {
		set(fd, GMP_READ, (int64_t)(i * 7919 % 200) * US - 20 * US);
		if (i % 16 == 0)
			clear(fd, GMP_READ);
		gmp_yield();
	}
	clear(fd, GMP_READ);
}

static void feed(void *arg)
{
	int fd = *(int *)arg;
	uint32_t n = (uint32_t)check_scaled(MOVES);

	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(gmp_write_all(fd, &i, sizeof(i)), sizeof(i));
		if (i % 8 == 0)
			gmp_sleep(50 * US);
	}
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
}

/* Deadlines change while data arrives: each byte is read in order, then the end of the stream. */
RT(fd_deadline_moved_constantly_loses_no_data)
{
	struct ext_thread t;
	gmp_g *g[3];
	int a, b;
	char got[4];
	uint32_t next = 0, word;
	size_t have = 0;

	make_pair("tcp", &a, &b);
	atomic_store(&stop, 0);
	g[0] = spawn(move_deadlines, &a);
	g[1] = spawn(move_deadlines, &a);
	ext_thread_start(&t, move_deadlines, &a);
	g[2] = spawn(feed, &b);
	for (;;) {
		ssize_t n = gmp_read(a, got + have, sizeof(got) - have);

		if (n == -ETIMEDOUT) {
			gmp_yield();
			continue;
		}
		CHECK(n >= 0);
		if (n == 0)
			break;
		have += (size_t)n;
		if (have < sizeof(got))
			continue;
		memcpy(&word, got, sizeof(word));
		CHECK_EQ(word, next);
		next++;
		have = 0;
	}
	CHECK_EQ(next, check_scaled(MOVES));
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	ext_thread_join(&t);
	close_pair(a, b);
	CHECK_EQ(stats().timers, 0);
}

static void read_until_closed(void *arg)
{
	struct call *c = arg;
	char buf[16];
	ssize_t n;

	do {
		n = gmp_read(c->fd, buf, sizeof(buf));
		if (n == -ETIMEDOUT)
			gmp_yield();
	} while (n == -ETIMEDOUT || n > 0);
	atomic_store(&c->result, (int)n);
}

static void move_until_closed(void *arg)
{
	struct call *c = arg;

	for (unsigned i = 0;; i++) {
		int err = gmp_fd_set_deadline(c->fd, GMP_READ | GMP_WRITE,
					      gmp_deadline((int64_t)(i % 5) * 10 * US));

		if (err == -EBADF)
			return;
		CHECK_EQ(err, 0);
		gmp_yield();
	}
}

RT(fd_deadline_racing_close_leaves_no_timer)
{
	for (int i = 0; i < (SLOW ? 30 : 200); i++) {
		struct call c[3];
		gmp_g *g[4];
		int a, b;

		make_pair(nets[i & 1], &a, &b);
		for (int k = 0; k < 3; k++)
			c[k] = (struct call){ .fd = a };
		g[0] = spawn(read_until_closed, &c[0]);
		g[1] = spawn(read_until_closed, &c[1]);
		g[2] = spawn(move_until_closed, &c[2]);
		g[3] = spawn(move_until_closed, &c[2]);
		for (int k = 0; k < i % 7; k++)
			gmp_yield();
		if (i % 3 == 0)
			say(b, "words");
		CHECK_EQ(gmp_close(a), 0);
		for (int k = 0; k < 4; k++)
			join(g[k]);
		for (int k = 0; k < 2; k++)
			CHECK(c[k].result == -ECANCELED || c[k].result == -EBADF);
		CHECK_EQ(gmp_close(b), 0);
	}
	CHECK_EQ(stats().timers, 0);
	CHECK_EQ(stats().descriptors, 0);
}

/* --- golang/go#35532: a deadline that was moved when it expired stopped the program --- */

static int expiring[2];
static atomic_int moves_over;

static void read_past_deadlines(UNUSED void *arg)
{
	while (!atomic_load(&moves_over)) {
		int n = read_now(expiring[0]);

		CHECK(n > 0 || n == -ETIMEDOUT);
		gmp_yield();
	}
}

static void move_deadline(UNUSED void *arg)
{
	unsigned x = (unsigned)gmp_now();

	while (!atomic_load(&moves_over)) {
		x = x * 1103515245 + 12345;
		set(expiring[0], GMP_READ, (x >> 16) % 20000);
		if (x & 0x100000)
			gmp_yield();
	}
}

RT(fd_deadline_moved_at_its_expiry_works)
{
	gmp_g *reader[2], *mover[3];
	struct ext_thread f;

	make_pair("unix", &expiring[0], &expiring[1]);
	for (int i = 0; i < 2; i++)
		reader[i] = spawn(read_past_deadlines, NULL);
	for (int i = 0; i < 3; i++)
		mover[i] = spawn(move_deadline, NULL);
	ext_thread_start(&f, move_deadline, NULL);
	for (int i = 0; i < 20; i++) {
		say(expiring[1], "x");
		CHECK_EQ(gmp_sleep(MS), 0);
	}
	atomic_store(&moves_over, 1);
	ext_thread_join(&f);
	for (int i = 0; i < 3; i++)
		join(mover[i]);
	set(expiring[0], GMP_READ, 0);
	for (int i = 0; i < 2; i++)
		join(reader[i]);
	close_pair(expiring[0], expiring[1]);
}
