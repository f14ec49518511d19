/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_fd_wait and gmp_fd_release: level-triggered readiness for callers that read by other
 * means, and an fd that is restored when it is released.
 */
#define _GNU_SOURCE
#include "io_util.h"

struct wait {
	int fd, events;
	int64_t deadline;
	atomic_int result, begun;
};

static void wait_it(void *arg)
{
	struct wait *w = arg;

	atomic_store(&w->begun, 1);
	atomic_store(&w->result, gmp_fd_wait(w->fd, w->events, w->deadline));
}

static void read_it(void *arg)
{
	struct wait *w = arg;
	char buf[16];

	atomic_store(&w->begun, 1);
	atomic_store(&w->result, (int)gmp_read(w->fd, buf, sizeof(buf)));
}

static gmp_g *start_wait(struct wait *w, int fd, int events)
{
	*w = (struct wait){ .fd = fd, .events = events, .deadline = GMP_FOREVER };
	return spawn(wait_it, w);
}

static int try_wait(int fd, int events)
{
	return gmp_fd_wait(fd, events, 0);
}

/* Writes until the socket buffer is full. */
static void fill_buffer(int fd)
{
	static char buf[64 << 10];

	while (send(fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	CHECK(errno == EAGAIN);
}

static void drain_buffer(int fd)
{
	static char buf[64 << 10];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

/* --- level-triggered readiness --- */

RT(fd_wait_is_level_triggered)
{
	FOR_NETS(net)
	{
		char c;
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(gmp_fd_wait(a, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
			CHECK_EQ(gmp_fd_wait(a, GMP_READ | GMP_WRITE, GMP_FOREVER), GMP_WRITE);
			CHECK_EQ(try_wait(a, GMP_WRITE), GMP_WRITE);
			CHECK_EQ(try_wait(a, GMP_READ), -ETIMEDOUT);
		}
		say(b, "xy");
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
			CHECK_EQ(try_wait(a, GMP_READ | GMP_WRITE), GMP_READ | GMP_WRITE);
		}
		/* recv takes one byte; the other one is still reported */
		CHECK_EQ(recv(a, &c, 1, 0), 1);
		CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
		CHECK_EQ(recv(a, &c, 1, 0), 1);
		CHECK_EQ(try_wait(a, GMP_READ), -ETIMEDOUT);
		close_pair(a, b);
	}
}

RT(fd_wait_reports_end_of_stream_as_readable)
{
	FOR_NETS(net)
	{
		int a, b;

		make_pair(net, &a, &b);
		CHECK_EQ(gmp_shutdown(b, SHUT_WR), 0);
		CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
		CHECK_EQ(gmp_close(b), 0);
		CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
		CHECK_EQ(gmp_fd_wait(a, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
		CHECK_EQ(gmp_close(a), 0);
	}
}

RT(fd_wait_wakes_when_fd_becomes_ready)
{
	FOR_NETS(net)
	{
		struct wait w;
		char buf[8];
		gmp_g *g;
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 20; i++) {
			g = start_wait(&w, a, GMP_READ);
			if (i % 2)
				wait_parked(1);
			say(b, "data");
			join(g);
			CHECK_EQ(w.result, GMP_READ);
			CHECK_EQ(recv(a, buf, sizeof(buf), 0), 4);
		}
		fill_buffer(a);
		g = start_wait(&w, a, GMP_WRITE);
		wait_parked(1);
		drain_buffer(b);
		join(g);
		CHECK_EQ(w.result, GMP_WRITE);
		close_pair(a, b);
	}
}

RT(fd_wait_for_both_directions_reports_the_ready_one)
{
	FOR_NETS(net)
	{
		struct wait w;
		gmp_g *g;
		int a, b;

		for (int i = 0; i < 6; i++) {
			make_pair(net, &a, &b);
			fill_buffer(a);
			g = start_wait(&w, a, GMP_READ | GMP_WRITE);
			wait_parked(1);
			if (i & 1)
				say(b, "data");
			else
				drain_buffer(b);
			join(g);
			CHECK_EQ(w.result, i & 1 ? GMP_READ : GMP_WRITE);
			/* no sudog is left in the queue of the other direction */
			drain_buffer(b);
			g = start_wait(&w, a, GMP_WRITE);
			join(g);
			CHECK_EQ(w.result, GMP_WRITE);
			say(b, "more");
			if (i & 1)
				hear(a, "data");
			hear(a, "more");
			close_pair(a, b);
		}
	}
}

RT(fd_wait_does_not_hold_up_queued_readers)
{
	FOR_NETS(net)
	{
		struct wait w[6];
		gmp_g *g[6];
		char buf[8];
		int a, b, left;

		make_pair(net, &a, &b);
		for (int i = 0; i < 6; i++) {
			if (i & 1) {
				w[i] = (struct wait){ .fd = a };
				g[i] = spawn(read_it, &w[i]);
			} else {
				g[i] = start_wait(&w[i], a, GMP_READ);
			}
			wait_parked((uint64_t)i + 1);
		}
		say(b, "x"); /* wakes waiters, and one reader */
		for (int i = 0; i < 2; i++)
			join(g[i]);
		CHECK_EQ(w[0].result, GMP_READ);
		CHECK_EQ(w[1].result, 1);
		do {                                          /* one reader may take several */
			(void)!send(b, "y", 1, MSG_DONTWAIT); /* there may be no room */
			gmp_yield();
			left = 0;
			for (int i = 2; i < 6; i++)
				left += atomic_load(&w[i].result) == 0;
		} while (left);
		for (int i = 2; i < 6; i++) {
			join(g[i]);
			CHECK(w[i].result >= 1);
		}
		gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(MS));
		while (gmp_read(a, buf, sizeof(buf)) > 0)
			;
		close_pair(a, b);
	}
}

/* --- other ends of a wait --- */

RT(fd_wait_reports_pipe_without_reader_as_writable)
{
	static char buf[4096];
	int p[2];

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
	while (write(p[1], buf, sizeof(buf)) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(gmp_fd_wait(p[1], GMP_WRITE, gmp_deadline(2 * MS)), -ETIMEDOUT);
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(gmp_fd_wait(p[1], GMP_WRITE, gmp_deadline(PATIENCE)), GMP_WRITE);
	CHECK_EQ(gmp_write(p[1], buf, 1), -EPIPE);
	CHECK_EQ(gmp_close(p[1]), 0);
}

RT(fd_wait_ends_at_its_deadline)
{
	int a, b;

	make_pair("tcp", &a, &b);
	for (int i = 0; i < 3; i++) {
		int64_t deadline = gmp_deadline(2 * MS);

		CHECK_EQ(gmp_fd_wait(a, GMP_READ, deadline), -ETIMEDOUT);
		CHECK(gmp_now() >= deadline);
	}
	fill_buffer(a);
	int64_t deadline = gmp_deadline(2 * MS);

	CHECK_EQ(gmp_fd_wait(a, GMP_READ | GMP_WRITE, deadline), -ETIMEDOUT);
	CHECK(gmp_now() >= deadline);
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, INT64_MIN), -ETIMEDOUT);
	say(b, "data");
	hear(a, "data");
	close_pair(a, b);
}

RT(fd_wait_ends_at_fd_deadline)
{
	struct wait w;
	gmp_g *g;
	int a, b;

	make_pair("tcp", &a, &b);
	fill_buffer(a);
	g = start_wait(&w, a, GMP_READ | GMP_WRITE);
	wait_parked(1);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_WRITE, gmp_deadline(2 * MS)), 0);
	join(g);
	CHECK_EQ(w.result, -ETIMEDOUT);
	say(b, "data");
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), GMP_READ);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, 0), 0);
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), -ETIMEDOUT);
	close_pair(a, b);
}

RT(fd_wait_ended_by_cancel_or_close_returns_ecanceled)
{
	for (int i = 0; i < 3; i++) {
		struct wait w;
		gmp_g *g;
		int a, b;

		make_pair("tcp", &a, &b);
		fill_buffer(a);
		g = start_wait(&w, a, GMP_READ | GMP_WRITE);
		wait_parked(1);
		if (i == 0)
			CHECK_EQ(gmp_cancel(g), 0);
		else if (i == 1)
			CHECK_EQ(gmp_close(a), 0);
		else
			CHECK_EQ(gmp_fd_release(a), 0);
		join(g);
		CHECK_EQ(w.result, -ECANCELED);
		if (i == 0)
			CHECK_EQ(gmp_close(a), 0);
		if (i == 2)
			CHECK_EQ(close(a), 0);
		CHECK_EQ(gmp_close(b), 0);
	}
}

RT(fd_wait_and_release_bad_arguments_are_rejected)
{
	int a, b;

	make_pair("tcp", &a, &b);
	CHECK_EQ(gmp_fd_wait(a, 0, 0), -EINVAL);
	CHECK_EQ(gmp_fd_wait(a, 4, 0), -EINVAL);
	CHECK_EQ(gmp_fd_wait(a, GMP_READ | 8, 0), -EINVAL);
	CHECK_EQ(gmp_fd_wait(-1, GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_wait(0, GMP_READ, 0), -EBADF);
	close_pair(a, b);
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_release(a), -EBADF);
	CHECK_EQ(gmp_fd_release(-1), -EBADF);
	CHECK_EQ(gmp_fd_release(0), -EBADF);
}

TEST(fd_wait_without_runtime_returns_esrch)
{
	CHECK_EQ(gmp_fd_wait(0, GMP_READ, 0), -ESRCH);
	CHECK_EQ(gmp_fd_release(0), -ESRCH);
}

/* --- a library with a socket of its own --- */

enum { WORDS = 2000 };

/* Like a library that was written for poll(): it waits if send returns EAGAIN. */
static void send_by_hand(void *arg)
{
	int fd = *(int *)arg;
	uint32_t n = (uint32_t)check_scaled(WORDS);

	for (uint32_t i = 0; i < n;) {
		if (send(fd, &i, sizeof(i), MSG_NOSIGNAL) == (ssize_t)sizeof(i)) {
			i++;
			continue;
		}
		CHECK(errno == EAGAIN);
		CHECK_EQ(gmp_fd_wait(fd, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
	}
}

static void receive_by_hand(void *arg)
{
	int fd = *(int *)arg;
	uint32_t n = (uint32_t)check_scaled(WORDS), word, next = 0;

	while (next < n) {
		if (recv(fd, &word, sizeof(word), MSG_PEEK) < (ssize_t)sizeof(word)) {
			CHECK_EQ(gmp_fd_wait(fd, GMP_READ, gmp_deadline(PATIENCE)), GMP_READ);
			gmp_yield();
			continue;
		}
		CHECK_EQ(recv(fd, &word, sizeof(word), 0), sizeof(word));
		CHECK_EQ(word, next);
		next++;
	}
}

RT(fd_wait_by_mixed_threads_works_in_both_directions)
{
	FOR_NETS(net)
	{
		struct ext_thread f[2];
		gmp_g *g[2];
		int a, b;

		make_pair(net, &a, &b);
		g[0] = spawn(send_by_hand, &a);
		g[1] = spawn(receive_by_hand, &a);
		ext_thread_start(&f[0], send_by_hand, &b);
		ext_thread_start(&f[1], receive_by_hand, &b);
		for (int i = 0; i < 2; i++)
			join(g[i]);
		for (int i = 0; i < 2; i++)
			ext_thread_join(&f[i]);
		close_pair(a, b);
	}
}

/* --- release --- */

RT(fd_release_restores_o_nonblock)
{
	for (int nonblock = 0; nonblock < 2; nonblock++) {
		int p[2];

		CHECK_EQ(pipe2(p, nonblock ? O_NONBLOCK : 0), 0);
		for (int i = 0; i < 3; i++) {
			for (int k = 0; k < 2; k++) {
				CHECK_EQ(gmp_fd_adopt(p[k]), p[k]);
				CHECK(fcntl(p[k], F_GETFL) & O_NONBLOCK);
			}
			say(p[1], "through");
			hear(p[0], "through");
			for (int k = 0; k < 2; k++) {
				CHECK_EQ(gmp_fd_release(p[k]), 0);
				CHECK_EQ(gmp_fd_release(p[k]), -EBADF);
				CHECK_EQ(gmp_read(p[k], p, 1), -EBADF);
				CHECK_EQ(!!(fcntl(p[k], F_GETFL) & O_NONBLOCK), nonblock);
			}
			CHECK_EQ(stats().descriptors, 0);
		}
		CHECK_EQ(write(p[1], "x", 1), 1); /* both are still open */
		CHECK_EQ(close(p[0]), 0);
		CHECK_EQ(close(p[1]), 0);
	}
}

RT(fd_release_of_gmp_socket_allows_new_adopt)
{
	FOR_NETS(net)
	{
		int a, b;

		make_pair(net, &a, &b);
		CHECK_EQ(gmp_fd_release(a), 0);
		CHECK(fcntl(a, F_GETFL) & O_NONBLOCK);
		CHECK_EQ(gmp_fd_adopt(a), a);
		say(a, "again");
		hear(b, "again");
		CHECK_EQ(gmp_fd_release(a), 0);
		CHECK_EQ(close(a), 0);
		CHECK_EQ(gmp_close(b), 0);
	}
}

RT(fd_release_wakes_all_waiters_with_ecanceled)
{
	FOR_NETS(net)
	{
		struct wait w[5], f;
		struct ext_thread t;
		gmp_g *g[5];
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 5; i++) {
			w[i] = (struct wait){ .fd = a };
			g[i] = i & 1 ? start_wait(&w[i], a, GMP_READ) : spawn(read_it, &w[i]);
		}
		wait_parked(5);
		f = (struct wait){ .fd = a };
		ext_thread_start(&t, read_it, &f);
		WAIT_FOR(atomic_load(&f.begun));
		gmp_sleep(2 * MS);
		CHECK_EQ(gmp_fd_release(a), 0);
		for (int i = 0; i < 5; i++) {
			join(g[i]);
			CHECK_EQ(w[i].result, -ECANCELED);
		}
		ext_thread_join(&t);
		CHECK(f.result == -ECANCELED || f.result == -EBADF);
		CHECK_EQ(close(a), 0);
		CHECK_EQ(gmp_close(b), 0);
	}
}

static void release_it(void *arg)
{
	CHECK_EQ(gmp_fd_release((int)(intptr_t)arg), 0);
}

RT(fd_release_from_external_thread_wakes_reader)
{
	struct ext_thread t;
	struct wait w;
	gmp_g *g;
	int p[2];

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	w = (struct wait){ .fd = p[0] };
	g = spawn(read_it, &w);
	wait_parked(1);
	ext_thread_start(&t, release_it, (void *)(intptr_t)p[0]);
	join(g);
	CHECK_EQ(w.result, -ECANCELED);
	ext_thread_join(&t);
	CHECK(!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

/* --- reports of loops that never sleep --- */

/* Sleeps; fails if Gs or the poller are busy meanwhile. */
static void check_idle(int64_t ns)
{
	uint64_t switches = stats().switches, polls = stats().polls;

	CHECK_EQ(gmp_sleep(ns), 0);
	CHECK(stats().switches - switches < 1000);
	CHECK(stats().polls - polls < 1000);
}

enum { MUCH = 8 << 20 };
static char much[MUCH], got[MUCH];
static atomic_int written;

static void read_end(void *fd)
{
	CHECK_EQ(gmp_read(*(int *)fd, got, 1), 0);
}

static void write_much(void *fd)
{
	CHECK_EQ(gmp_write_all(*(int *)fd, much, MUCH), MUCH);
	atomic_store(&written, 1);
}

/* tokio-rs/mio#933: a peer that had ended its direction made a full socket writable for good. */
RT(write_to_full_half_closed_socket_waits)
{
	FOR_NETS(net)
	{
		int a, b;

		make_pair(net, &a, &b);
		atomic_store(&written, 0);
		gmp_g *writer = spawn(write_much, &a), *reader = spawn(read_end, &a);

		wait_parked(2);
		CHECK_EQ(gmp_shutdown(b, SHUT_WR), 0);
		join(reader);
		check_idle(20 * MS);
		CHECK(!atomic_load(&written));
		CHECK_EQ(gmp_fd_wait(a, GMP_READ | GMP_WRITE, 0), GMP_READ);
		CHECK_EQ(gmp_read_full(b, got, MUCH), MUCH);
		join(writer);
		close_pair(a, b);
	}
}

static int early, accepted;

static void accept_early(UNUSED void *arg)
{
	accepted = gmp_accept(early);
	CHECK(accepted >= 0);
}

static void read_byte(void *fd)
{
	char byte;

	CHECK_EQ(gmp_read(*(int *)fd, &byte, 1), 1);
}

/* tokio-rs/tokio#4549: the kernel reports a hangup of a socket that has no state yet. */
RT(socket_adopted_before_listen_or_connect_waits)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	int c = socket(AF_INET, SOCK_STREAM, 0);

	early = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(gmp_fd_adopt(early), early);
	CHECK_EQ(gmp_fd_adopt(c), c);
	CHECK_EQ(gmp_fd_wait(early, GMP_READ, GMP_FOREVER), GMP_READ);
	CHECK_EQ(gmp_fd_wait(c, GMP_READ, GMP_FOREVER), GMP_READ);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(early, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(listen(early, 8), 0);
	CHECK_EQ(getsockname(early, (struct sockaddr *)&a, &n), 0);
	gmp_g *g = spawn(accept_early, NULL);

	check_idle(10 * MS);
	CHECK(connect(c, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
	CHECK_EQ(gmp_fd_wait(c, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
	join(g);
	g = spawn(read_byte, &c);
	check_idle(10 * MS);
	say(accepted, "x");
	join(g);
	close_pair(c, accepted);
	CHECK_EQ(gmp_close(early), 0);
}

/*
 * joyent/libuv#1099: events of a closed fd whose file another fd keeps open, which no call can
 * remove any more, kept the loop busy.
 */
RT(closed_fd_whose_file_stays_open_is_silent)
{
	int a, b, c, d;

	make_pair("unix", &a, &b);
	gmp_g *g = spawn(read_byte, &a);

	wait_parked(1);
	say(b, "1");
	join(g);
	int copy = fcntl(a, F_DUPFD_CLOEXEC, 200), closed = a;

	CHECK(copy >= 0);
	CHECK_EQ(gmp_close(a), 0);
	make_pair("unix", &c, &d);
	CHECK(c == closed || d == closed);
	uint64_t events = stats().poll_events;

	for (int i = 0; i < 20; i++) {
		say(b, "2");
		CHECK_EQ(gmp_fd_wait(closed, GMP_READ, gmp_deadline(100 * US)), -ETIMEDOUT);
	}
	check_idle(10 * MS);
	CHECK(stats().poll_events - events < 20);
	close_pair(c, d);
	CHECK_EQ(gmp_close(b), 0);
	CHECK_EQ(close(copy), 0);
}
