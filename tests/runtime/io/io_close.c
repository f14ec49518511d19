/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_fd_adopt, gmp_close and gmp_shutdown: which fds gmp knows, that closing wakes all
 * waiters, and that an fd may be reused at once.
 */
#define _GNU_SOURCE
#include "io_calls.h"

static void check_closed(int fd)
{
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

RT(close_wakes_all_readers_and_writers_with_ecanceled)
{
	FOR_NETS(net)
	{
		struct call r[6], f;
		struct ext_thread t;
		gmp_g *g[6];
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 6; i++) {
			r[i] = (struct call){ .fd = a };
			g[i] = spawn(i < 2 ? read_it : i < 4 ? read_it_fully : fill_it, &r[i]);
		}
		wait_parked(6);
		f = (struct call){ .fd = a };
		ext_thread_start(&t, read_it, &f);
		WAIT_FOR(atomic_load(&f.begun));
		/* A close before the external thread waits gives it EBADF, later ECANCELED. */
		gmp_sleep(5 * MS);
		CHECK_EQ(gmp_close(a), 0);
		check_closed(a);
		for (int i = 0; i < 6; i++) {
			join(g[i]);
			CHECK_EQ(r[i].result, -ECANCELED);
		}
		ext_thread_join(&t);
		CHECK(f.result == -ECANCELED || f.result == -EBADF);
		CHECK_EQ(gmp_close(a), -EBADF);
		CHECK_EQ(gmp_close(b), 0);
	}
}

RT(close_with_queued_writer_writes_nothing_to_reused_fd)
{
	FOR_NETS(net)
	{
		struct call r[2];
		gmp_g *g[2];
		int a, b, c, d, pair[2];
		char buf[16];

		make_pair(net, &a, &b);
		for (int i = 0; i < 2; i++) {
			r[i] = (struct call){ .fd = a };
			g[i] = spawn(fill_it, &r[i]);
		}
		wait_parked(2);
		CHECK_EQ(gmp_close(a), 0);
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		c = gmp_fd_adopt(pair[0]);
		d = gmp_fd_adopt(pair[1]);
		CHECK(c == a || d == a);
		for (int i = 0; i < 2; i++) {
			join(g[i]);
			CHECK_EQ(r[i].result, -ECANCELED);
		}
		say(c, "mine");
		say(d, "mine");
		CHECK_EQ(gmp_read(d, buf, sizeof(buf)), 4);
		CHECK_EQ(gmp_read(c, buf, sizeof(buf)), 4);
		close_pair(c, d);
		CHECK_EQ(gmp_close(b), 0);
	}
}

static void write_until_epipe(void *arg)
{
	static const char page[4096];
	ssize_t n;

	do
		n = gmp_write((int)(intptr_t)arg, page, sizeof(page));
	while (n > 0);
	CHECK_EQ(n, -EPIPE);
}

static void read_eof(void *arg)
{
	char c;

	CHECK_EQ(gmp_read((int)(intptr_t)arg, &c, 1), 0);
}

RT(shutdown_wakes_waiters_of_its_direction_only)
{
	FOR_NETS(net)
	{
		gmp_g *writers[3], *readers[3];
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 3; i++) {
			writers[i] = spawn(write_until_epipe, (void *)(intptr_t)a);
			readers[i] = spawn(read_eof, (void *)(intptr_t)a);
		}
		wait_parked(6);
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		for (int i = 0; i < 3; i++)
			join(writers[i]);
		wait_parked(3);
		CHECK_EQ(gmp_shutdown(a, SHUT_RD), 0);
		for (int i = 0; i < 3; i++)
			join(readers[i]);
		close_pair(a, b);
	}
}

static void receive_eof(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct iovec v = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	char c;

	CHECK_EQ(gmp_read(fd, &c, 1), 0);
	CHECK_EQ(gmp_recvfrom(fd, &c, 1, 0, NULL, NULL), 0);
	CHECK_EQ(gmp_recvmsg(fd, &m, 0), 0);
}

/* After the shutdown a non-blocking receive of the kernel still returns EAGAIN. */
RT(shutdown_wakes_datagram_receivers)
{
	char addr[128];
	gmp_g *g[3];
	int fd[2], l;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	l = listen_any("udp", addr);
	int udp = gmp_dial("udp", addr);

	CHECK(udp >= 0);
	for (int k = 0; k < 2; k++) {
		int receiver = k ? udp : fd[0];

		for (int i = 0; i < 3; i++)
			g[i] = spawn(receive_eof, (void *)(intptr_t)receiver);
		wait_parked(3);
		CHECK_EQ(gmp_shutdown(receiver, SHUT_WR), 0);
		wait_parked(3); /* SHUT_WR does not end receives */
		CHECK_EQ(gmp_shutdown(receiver, SHUT_RD), 0);
		for (int i = 0; i < 3; i++)
			join(g[i]);
		receive_eof((void *)(intptr_t)receiver);
		CHECK_EQ(gmp_close(receiver), 0);
	}
	CHECK_EQ(close(fd[1]), 0);
	int was = fd[0];
	char c;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd), 0);
	CHECK_EQ(fd[0], was); /* the reused fd is not treated as shut down */
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	CHECK_EQ(gmp_fd_set_deadline(fd[0], GMP_READ, gmp_deadline(MS)), 0);
	CHECK_EQ(gmp_read(fd[0], &c, 1), -ETIMEDOUT);
	CHECK_EQ(gmp_close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
	CHECK_EQ(gmp_close(l), 0);
}

RT(shutdown_of_listener_wakes_accepters_with_einval)
{
	FOR_NETS(net)
	{
		struct call r[3];
		char addr[128];
		gmp_g *g[3];
		int l = listen_any(net, addr);

		for (int i = 0; i < 3; i++) {
			r[i] = (struct call){ .fd = l };
			g[i] = spawn(accept_it, &r[i]);
		}
		wait_parked(3);
		CHECK_EQ(gmp_shutdown(l, SHUT_RDWR), 0);
		for (int i = 0; i < 3; i++) {
			join(g[i]);
			CHECK_EQ(r[i].result, -EINVAL);
		}
		CHECK_EQ(gmp_accept(l), -EINVAL);
		CHECK_EQ(gmp_close(l), 0);
	}
}

RT(listen_after_shutdown_of_listener_accepts_again)
{
	char addr[128];
	int l = listen_any("tcp", addr);

	CHECK_EQ(gmp_shutdown(l, SHUT_RD), 0);
	CHECK_EQ(gmp_accept(l), -EINVAL);
	CHECK_EQ(listen(l, 8), 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0); /* the port may be another */
	int a = gmp_dial("tcp", addr);

	CHECK(a >= 0);
	int b = gmp_accept(l);

	CHECK(b >= 0);
	close_pair(a, b);
	CHECK_EQ(gmp_close(l), 0);
}

RT(close_wakes_all_accepters_with_ecanceled)
{
	FOR_NETS(net)
	{
		struct call r[5], f;
		struct ext_thread t;
		char addr[128];
		gmp_g *g[5];
		int l = listen_any(net, addr);

		for (int i = 0; i < 5; i++) {
			r[i] = (struct call){ .fd = l };
			g[i] = spawn(accept_it, &r[i]);
		}
		wait_parked(5);
		f = (struct call){ .fd = l };
		ext_thread_start(&t, accept_it, &f);
		WAIT_FOR(atomic_load(&f.begun));
		gmp_sleep(5 * MS);
		CHECK_EQ(gmp_close(l), 0);
		check_closed(l);
		for (int i = 0; i < 5; i++) {
			join(g[i]);
			CHECK_EQ(r[i].result, -ECANCELED);
		}
		ext_thread_join(&t);
		CHECK(f.result == -ECANCELED || f.result == -EBADF);
	}
}

static void close_it(void *arg)
{
	CHECK_EQ(gmp_close((int)(intptr_t)arg), 0);
}

RT(close_from_external_thread_wakes_green_reader)
{
	FOR_NETS(net)
	{
		struct call r;
		struct ext_thread t;
		gmp_g *g;
		int a, b;

		make_pair(net, &a, &b);
		r = (struct call){ .fd = a };
		g = spawn(read_it, &r);
		wait_parked(1);
		ext_thread_start(&t, close_it, (void *)(intptr_t)a);
		join(g);
		CHECK_EQ(r.result, -ECANCELED);
		ext_thread_join(&t);
		CHECK_EQ(gmp_close(b), 0);
	}
}

RT(fd_reused_at_once_has_no_old_state)
{
	int first = -1;

	for (int i = 0; i < (SLOW ? 100 : 1000); i++) {
		const char *net = nets[i & 1];
		struct call r;
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		if (first < 0)
			first = a > b ? a : b;
		CHECK(a <= first + 1);
		CHECK(b <= first + 1);
		say(a, "fresh");
		hear(b, "fresh");
		/* The reused fd has no state of the former socket: a read waits. */
		r = (struct call){ .fd = b };
		g = spawn(read_it, &r);
		if (i % 4 < 2) {
			wait_parked(1);
			CHECK_EQ(atomic_load(&r.result), 0);
		}
		if (i % 3 == 0)
			say(a, "stale");
		reset_on_close(a);
		if (i & 1) {
			CHECK_EQ(gmp_close(b), 0);
			CHECK_EQ(gmp_close(a), 0);
		} else {
			CHECK_EQ(gmp_close(a), 0);
			CHECK_EQ(gmp_close(b), 0);
		}
		join(g);
	}
	CHECK_EQ(stats().descriptors, 0);
}

RT(unknown_fd_returns_ebadf)
{
	static const int unknown[] = { -1, INT_MIN, INT_MAX, 1 << 20, 9999 };
	int fd[2], n = 5;
	char buf[128];

	CHECK_EQ(pipe(fd), 0);
	for (int i = 0; i <= n; i++) {
		int u = i < n ? unknown[i] : fd[0];

		CHECK_EQ(gmp_read(u, buf, 1), -EBADF);
		CHECK_EQ(gmp_write(u, buf, 1), -EBADF);
		CHECK_EQ(gmp_read_full(u, buf, 1), -EBADF);
		CHECK_EQ(gmp_write_all(u, buf, 1), -EBADF);
		CHECK_EQ(gmp_accept(u), -EBADF);
		CHECK_EQ(gmp_shutdown(u, SHUT_RD), -EBADF);
		CHECK_EQ(gmp_local_addr(u, buf, sizeof(buf)), -EBADF);
		CHECK_EQ(gmp_peer_addr(u, buf, sizeof(buf)), -EBADF);
		CHECK_EQ(gmp_close(u), -EBADF);
	}
	/* The calls did not touch an fd that gmp does not know. */
	CHECK(fcntl(fd[0], F_GETFD) >= 0);
	CHECK_EQ(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), -EBADF);
	CHECK_EQ(gmp_fd_adopt(-1), -EBADF);
	CHECK_EQ(gmp_fd_adopt(INT_MAX), -EBADF);
	CHECK_EQ(close(fd[1]), 0);
}

RT(adopt_sets_o_nonblock_and_second_adopt_is_eexist)
{
	int fd[2], a, b;

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	CHECK(fcntl(fd[0], F_GETFL) & O_NONBLOCK);
	CHECK_EQ(gmp_fd_adopt(fd[0]), -EEXIST);
	make_pair("tcp", &a, &b);
	CHECK_EQ(gmp_fd_adopt(a), -EEXIST);
	CHECK_EQ(gmp_fd_adopt(b), -EEXIST);
	close_pair(a, b);
	CHECK_EQ(stats().descriptors, 1);
	CHECK_EQ(gmp_close(fd[0]), 0);
	CHECK_EQ(stats().descriptors, 0);
	CHECK_EQ(close(fd[1]), 0);
}

static int owned; /* guarded by the adoption */

/* Adoption fails with -EEXIST until the other thread has released the fd. */
static void adopt_and_release(void *arg)
{
	struct call *r = arg;

	for (int i = 0; i < 2000; i++) {
		int err;

		while ((err = gmp_fd_adopt(r->fd)) == -EEXIST)
			gmp_yield();
		CHECK_EQ(err, r->fd);
		owned++;
		CHECK_EQ(gmp_fd_release(r->fd), 0);
	}
}

RT(adopt_is_exclusive_until_release)
{
	int fd[2];
	struct call r;
	struct ext_thread f;
	gmp_g *g;

	CHECK_EQ(pipe(fd), 0);
	r.fd = fd[0];
	owned = 0;
	g = spawn(adopt_and_release, &r);
	ext_thread_start(&f, adopt_and_release, &r);
	adopt_and_release(&r);
	join(g);
	ext_thread_join(&f);
	CHECK_EQ(owned, 6000);
	CHECK_EQ(stats().descriptors, 0);
	CHECK_EQ(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

RT(adopt_regular_file_leaves_flags_unchanged)
{
	char path[] = "/tmp/gmp-test-XXXXXX";
	int fd = mkstemp(path);
	char c;

	CHECK(fd >= 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(gmp_read(fd, &c, 1), -EBADF);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	CHECK_EQ(gmp_fd_adopt(fd), -EEXIST);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	CHECK_EQ(gmp_read(fd, &c, 1), 0);
	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ, gmp_now()), -EPERM);
	CHECK_EQ(gmp_fd_wait(fd, GMP_READ, 0), GMP_READ);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(gmp_close(fd), -EBADF);
}

/* These files are not registered with the poller. */
RT(adopt_file_reopened_at_same_fd_works)
{
	static const char *const names[] = { "/dev/null", "/tmp", "/bin/sh" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int fd = open(names[i], O_RDONLY | O_CLOEXEC);

		CHECK_EQ(gmp_fd_adopt(fd), fd);
		CHECK_EQ(gmp_fd_adopt(fd), -EEXIST);
		CHECK_EQ(close(fd), 0);
		CHECK_EQ(open(names[i], O_RDONLY | O_CLOEXEC), fd);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		CHECK_EQ(gmp_fd_adopt(fd), -EEXIST);
		CHECK_EQ(gmp_fd_release(fd), 0);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		CHECK_EQ(gmp_close(fd), 0);
		CHECK_EQ(gmp_open(names[i], O_RDONLY, 0), fd);
		CHECK_EQ(gmp_fd_adopt(fd), -EEXIST);
		CHECK_EQ(close(fd), 0);
		CHECK_EQ(open(names[i], O_RDONLY | O_CLOEXEC), fd);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		CHECK_EQ(gmp_close(fd), 0);
	}
}

RT(adopted_socket_reads_writes_and_waits)
{
	struct call r;
	int fd[2];
	gmp_g *g;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	CHECK_EQ(gmp_fd_adopt(fd[1]), fd[1]);
	say(fd[0], "there");
	hear(fd[1], "there");
	r = (struct call){ .fd = fd[0] };
	g = spawn(read_it, &r);
	wait_parked(1);
	say(fd[1], "back");
	join(g);
	CHECK_EQ(r.result, 4);
	close_pair(fd[0], fd[1]);
}

/* Data from before the adoption is found without a new event of the poller. */
RT(read_after_adopt_finds_earlier_data)
{
	int fd[2];

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(write(fd[1], "early", 5), 5);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	hear(fd[0], "early");
	CHECK_EQ(gmp_close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

RT(wrong_kind_of_fd_returns_system_error)
{
	char addr[128], buf[128];
	int fd[2], a, b, l;

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	CHECK_EQ(gmp_fd_adopt(fd[1]), fd[1]);
	CHECK_EQ(gmp_accept(fd[0]), -ENOTSOCK);
	CHECK_EQ(gmp_shutdown(fd[0], SHUT_RD), -ENOTSOCK);
	CHECK_EQ(gmp_local_addr(fd[0], buf, sizeof(buf)), -ENOTSOCK);
	CHECK_EQ(gmp_write(fd[0], "x", 1), -EBADF);
	CHECK_EQ(gmp_read(fd[1], buf, 1), -EBADF);
	close_pair(fd[0], fd[1]);
	make_pair("tcp", &a, &b);
	CHECK_EQ(gmp_accept(a), -EINVAL);
	CHECK_EQ(gmp_shutdown(a, 99), -EINVAL);
	close_pair(a, b);
	l = listen_any("tcp", addr);
	CHECK_EQ(gmp_read(l, buf, 1), -ENOTCONN);
	CHECK_EQ(gmp_peer_addr(l, buf, sizeof(buf)), -ENOTCONN);
	CHECK_EQ(gmp_close(l), 0);
}

RT(adopt_of_reused_fd_cancels_old_waiters)
{
	struct call r[2];
	gmp_g *g[2];
	int fd[2], next[2];

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	for (int i = 0; i < 2; i++) {
		r[i] = (struct call){ .fd = fd[0] };
		g[i] = spawn(read_it, &r[i]);
	}
	wait_parked(2);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(pipe(next), 0);
	CHECK_EQ(next[0], fd[0]);
	CHECK_EQ(gmp_fd_adopt(next[0]), next[0]);
	for (int i = 0; i < 2; i++) {
		join(g[i]);
		CHECK_EQ(r[i].result, -ECANCELED);
	}
	CHECK_EQ(write(next[1], "new", 3), 3);
	hear(next[0], "new");
	CHECK_EQ(gmp_close(next[0]), 0);
	CHECK_EQ(close(next[1]), 0);
	CHECK_EQ(close(fd[1]), 0);
	/* The same if gmp opens the socket that reuses the fd. */
	for (int i = 0; i < 10; i++) {
		int a, b, c, d;

		make_pair("tcp", &a, &b);
		CHECK_EQ(close(a), 0);
		CHECK_EQ(close(b), 0);
		make_pair("unix", &c, &d);
		say(c, "next");
		hear(d, "next");
		say(d, "back");
		hear(c, "back");
		close_pair(c, d);
	}
}

static void churn(void *arg)
{
	int id = (int)(intptr_t)arg;

	for (int i = 0; i < (SLOW ? 50 : 300); i++) {
		struct call r;
		int a, b;
		gmp_g *g;

		make_pair(nets[(id + i) & 1], &a, &b);
		reset_on_close(a);
		r = (struct call){ .fd = b };
		g = spawn(read_it, &r);
		if ((id + i) % 3 == 0)
			gmp_yield();
		if ((id + i) % 5 == 0)
			say(a, "something");
		/*
		 * Races with the start of the read, which must neither hang nor get data of another
		 * pair. The reader's end stays open until the read returns, so it is not reused.
		 */
		CHECK_EQ(gmp_close(a), 0);
		join(g);
		CHECK_EQ(gmp_close(b), 0);
		CHECK(r.result == 9 || r.result == 0 || r.result == -ECONNRESET);
	}
}

RT(open_close_race_leaks_no_fd_and_mixes_no_data)
{
	int fds = count_fds();
	struct ext_thread f;
	gmp_g *g[8];

	ext_thread_start(&f, churn, (void *)100);
	for (int i = 0; i < 8; i++)
		g[i] = spawn(churn, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(stats().descriptors, 0);
	CHECK_EQ(count_fds(), fds);
}

static int left_fd[2];

static void leave_open(UNUSED void *arg)
{
	int a, b;

	make_pair("tcp", &a, &b);
	left_fd[0] = a;
	left_fd[1] = b;
	say(a, "in flight");
}

static void adopt_left(UNUSED void *arg)
{
	CHECK_EQ(gmp_fd_adopt(left_fd[1]), left_fd[1]);
	hear(left_fd[1], "in flight");
	CHECK_EQ(gmp_close(left_fd[1]), 0);
}

TEST_PROCS(fd_outlives_run_and_is_adopted_by_next_run)
{
	char c;

	run_procs(procs, leave_open, NULL);
	CHECK_EQ(gmp_read(left_fd[0], &c, 1), -ESRCH);
	run_procs(procs, adopt_left, NULL);
	CHECK_EQ(close(left_fd[0]), 0);
}
