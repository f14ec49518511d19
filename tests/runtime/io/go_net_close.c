/* SPDX-License-Identifier: MIT */
/*
 * Tests close and half-close of connections with programs of the same intent as Go's
 * src/net/{net,protoconn}_test.go and src/internal/poll/fd_mutex_test.go; each section names its
 * counterpart.
 */
#include "go_net_util.h"

/* --- TestCloseRead, TestCloseWrite --- */

RT(net_shutdown_of_one_direction_keeps_the_other)
{
	FOR_NETS(net)
	{
		char c;
		int a, b;

		make_pair(net, &a, &b);
		CHECK_EQ(gmp_shutdown(a, SHUT_RD), 0);
		CHECK_EQ(gmp_read(a, &c, 1), 0);
		say(a, "still written");
		hear(b, "still written");
		CHECK_EQ(gmp_shutdown(b, SHUT_WR), 0);
		CHECK_EQ(gmp_write(b, "x", 1), -EPIPE);
		CHECK_EQ(gmp_write_all(b, "x", 1), -EPIPE);
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		CHECK_EQ(gmp_write(a, "x", 1), -EPIPE);
		CHECK_EQ(gmp_read(b, &c, 1), 0);
		CHECK_EQ(gmp_read_full(b, &c, 1), 0);
		close_pair(a, b);
	}
}

static void answer_at_eof(void *arg)
{
	char got[64];
	int fd = *(int *)arg;
	ssize_t n = gmp_read_full(fd, got, sizeof(got));

	CHECK_EQ(n, 7);
	CHECK_EQ(gmp_write_all(fd, got, (size_t)n), n);
	CHECK_EQ(gmp_close(fd), 0);
}

RT(net_half_closed_connection_delivers_answer)
{
	FOR_NETS(net)
	{
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(answer_at_eof, &b);
		say(a, "request");
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		hear(a, "request");
		CHECK_EQ(gmp_read(a, &b, 1), 0);
		join(g);
		CHECK_EQ(gmp_close(a), 0);
	}
}

/* --- TestConnClose, TestListenerClose, TestPacketConnClose --- */

static void check_ebadf(int fd)
{
	char buf[64] = "";
	struct iovec v = { buf, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);

	CHECK_EQ(gmp_read(fd, buf, 1), -EBADF);
	CHECK_EQ(gmp_write(fd, buf, 1), -EBADF);
	CHECK_EQ(gmp_read(fd, buf, 0), -EBADF);
	CHECK_EQ(gmp_read_full(fd, buf, 1), -EBADF);
	CHECK_EQ(gmp_write_all(fd, buf, 1), -EBADF);
	CHECK_EQ(gmp_readv(fd, &v, 1), -EBADF);
	CHECK_EQ(gmp_writev(fd, &v, 1), -EBADF);
	CHECK_EQ(gmp_recvfrom(fd, buf, 1, 0, (struct sockaddr *)&a, &n), -EBADF);
	CHECK_EQ(gmp_sendto(fd, buf, 1, 0, NULL, 0), -EBADF);
	CHECK_EQ(gmp_recvmsg(fd, &m, 0), -EBADF);
	CHECK_EQ(gmp_sendmsg(fd, &m, 0), -EBADF);
	CHECK_EQ(gmp_recvmsg(fd, &m, MSG_DONTWAIT), -EBADF);
	CHECK_EQ(gmp_sendfile(fd, 0, NULL, 1), -EBADF);
	CHECK_EQ(gmp_accept(fd), -EBADF);
	CHECK_EQ(gmp_shutdown(fd, SHUT_RDWR), -EBADF);
	CHECK_EQ(gmp_fd_set_deadline(fd, BOTH, GMP_FOREVER), -EBADF);
	CHECK_EQ(gmp_fd_wait(fd, BOTH, GMP_FOREVER), -EBADF);
	CHECK_EQ(gmp_local_addr(fd, buf, sizeof(buf)), -EBADF);
	CHECK_EQ(gmp_peer_addr(fd, buf, sizeof(buf)), -EBADF);
	CHECK_EQ(gmp_fd_release(fd), -EBADF);
	CHECK_EQ(gmp_close(fd), -EBADF);
}

RT(net_calls_on_closed_fd_return_ebadf)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;

		connect_ends(kind, &a, &b);
		close_end(&a);
		check_ebadf(a.r);
		check_ebadf(a.w);
		close_end(&b);
	}
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr);

		CHECK_EQ(gmp_close(l), 0);
		check_ebadf(l);
		CHECK_EQ(gmp_dial(net, addr), -ECONNREFUSED);
	}
	int u = gmp_listen("udp", "127.0.0.1:0");

	CHECK_EQ(gmp_close(u), 0);
	check_ebadf(u);
}

/* --- TestCloseUnblocksRead, ...UDP, and every other call that may wait --- */

struct waiting {
	int fd;
	int (*call)(int fd);
};

static char large[16 << 20];

static int call_read(int fd)
{
	char c;

	return (int)gmp_read(fd, &c, 1);
}

static int call_read_full(int fd)
{
	char buf[2];

	return (int)gmp_read_full(fd, buf, sizeof(buf));
}

static int call_readv(int fd)
{
	char c;
	struct iovec v = { &c, 1 };

	return (int)gmp_readv(fd, &v, 1);
}

static int call_recvfrom(int fd)
{
	char c;

	return (int)gmp_recvfrom(fd, &c, 1, 0, NULL, NULL);
}

static int call_recvmsg(int fd)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return (int)gmp_recvmsg(fd, &m, 0);
}

static int call_wait_read(int fd)
{
	return gmp_fd_wait(fd, GMP_READ, GMP_FOREVER);
}

static int call_write_all(int fd)
{
	return (int)gmp_write_all(fd, large, sizeof(large));
}

static int call_write(int fd)
{
	ssize_t n;

	while ((n = gmp_write(fd, large, 4096)) > 0)
		;
	return (int)n;
}

static int call_writev(int fd)
{
	struct iovec v[2] = { { large, 4096 }, { large, 1 } };
	ssize_t n;

	while ((n = gmp_writev(fd, v, 2)) > 0)
		;
	return (int)n;
}

static void call_until_closed(void *arg)
{
	struct waiting *w = arg;

	CHECK_EQ(w->call(w->fd), -ECANCELED);
}

static void close_under(int fd, int (*const *calls)(int fd), int n)
{
	struct waiting w[16];
	gmp_g *g[16];

	CHECK(n <= 16);
	for (int i = 0; i < n; i++) {
		w[i] = (struct waiting){ fd, calls[i] };
		g[i] = spawn(call_until_closed, &w[i]);
	}
	wait_parked((uint64_t)n);
	CHECK_EQ(gmp_close(fd), 0);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(gmp_read(fd, large, 1), -EBADF);
}

RT(net_close_ends_waiting_calls_with_ecanceled)
{
	static int (*const of_sockets[])(int) = { call_read,      call_read_full, call_readv,
						  call_recvfrom,  call_recvmsg,   call_wait_read,
						  call_write_all, call_write,     call_writev };
	static int (*const of_pipes[2][3])(int) = { { call_read, call_readv, call_wait_read },
						    { call_write_all, call_write, call_writev } };
	static int (*const of_listeners[])(int) = { gmp_accept, call_wait_read, gmp_accept };
	static int (*const of_datagrams[])(int) = { call_read, call_recvfrom, call_recvmsg };

	FOR_NETS(net)
	{
		char addr[128];
		int a, b;

		make_pair(net, &a, &b);
		close_under(a, of_sockets, 9);
		CHECK_EQ(gmp_close(b), 0);
		close_under(listen_any(net, addr), of_listeners, 3);
	}
	close_under(gmp_listen("udp", "127.0.0.1:0"), of_datagrams, 3);
	struct conn a, b;

	connect_ends("pipe", &a, &b);
	close_under(a.r, of_pipes[0], 3);
	close_under(a.w, of_pipes[1], 3);
	close_end(&b);
}

/* --- closing twice --- */

static int contested_fd;
static atomic_int closed, refused;

static void close_contested(UNUSED void *arg)
{
	int err = gmp_close(contested_fd);

	CHECK(err == 0 || err == -EBADF);
	atomic_fetch_add(err ? &refused : &closed, 1);
}

RT(net_concurrent_closes_have_one_winner)
{
	for (int i = 0; i < 50; i++) {
		struct ext_thread f;
		gmp_g *g[8];
		int other;

		make_pair(nets[i % 2], &contested_fd, &other);
		atomic_store(&closed, 0);
		atomic_store(&refused, 0);
		ext_thread_start(&f, close_contested, NULL);
		for (int k = 0; k < 8; k++)
			g[k] = spawn(close_contested, NULL);
		for (int k = 0; k < 8; k++)
			join(g[k]);
		ext_thread_join(&f);
		CHECK_EQ(atomic_load(&closed), 1);
		CHECK_EQ(atomic_load(&refused), 8);
		CHECK_EQ(gmp_close(other), 0);
	}
}

/* --- TestNotTemporaryRead: a reset is an error of its own --- */

RT(net_read_after_reset_returns_econnreset_then_eof)
{
	char buf[16];
	int a, b;

	make_pair("tcp", &a, &b);
	say(a, "unread");
	reset_on_close(a);
	CHECK_EQ(gmp_close(a), 0);
	CHECK_EQ(gmp_fd_wait(b, GMP_READ, GMP_FOREVER), GMP_READ);
	hear(b, "unread"); /* Linux still delivers the data that has arrived */
	CHECK_EQ(gmp_read(b, buf, sizeof(buf)), -ECONNRESET);
	CHECK_EQ(gmp_read(b, buf, sizeof(buf)), 0);
	CHECK_EQ(gmp_write(b, "x", 1), -EPIPE);
	CHECK_EQ(gmp_close(b), 0);
}

static void read_until_reset(void *arg)
{
	char buf[16];

	CHECK_EQ(gmp_read(*(int *)arg, buf, sizeof(buf)), -ECONNRESET);
}

RT(net_reset_wakes_waiting_reader)
{
	for (int i = 0; i < 20; i++) {
		gmp_g *g;
		int a, b;

		make_pair("tcp", &a, &b);
		g = spawn(read_until_reset, &b);
		if (i % 2)
			wait_parked(1);
		reset_on_close(a);
		CHECK_EQ(gmp_close(a), 0);
		join(g);
		CHECK_EQ(gmp_close(b), 0);
	}
}

/* --- TestZeroByteRead --- */

RT(net_read_of_zero_bytes_returns_0_without_wait)
{
	FOR_KINDS(kind)
	{
		struct conn a, b;
		char c;

		connect_ends(kind, &a, &b);
		CHECK_EQ(gmp_read(a.r, &c, 0), 0); /* without data */
		say(b.w, "x");
		CHECK_EQ(gmp_read(a.r, NULL, 0), 0); /* with data */
		CHECK_EQ(gmp_write(a.w, NULL, 0), 0);
		CHECK_EQ(gmp_read(a.r, &c, 1), 1);
		CHECK_EQ(c, 'x');
		close_end(&b);
		CHECK_EQ(gmp_read(a.r, &c, 0), 0); /* at the end of the stream */
		CHECK_EQ(gmp_read(a.r, &c, 1), 0);
		close_end(&a);
	}
}

/* --- fd_mutex_test.go: TestMutexCloseUnblock, TestMutexStress --- */

enum { USERS = 8 };

static atomic_long read_in_all, written_in_all;

struct user {
	struct conn c;
	uint64_t rand;
};

/* Makes random calls of three kinds until the connection is closed. */
static void use_at_random(void *arg)
{
	struct user *u = arg;
	char buf[64] = "";
	ssize_t n = 0;

	while (n >= 0) {
		u->rand = u->rand * UINT64_C(6364136223846793005) + 1442695040888963407;
		switch (u->rand >> 33 & 3) {
		case 0: n = gmp_local_addr(u->c.r, buf, sizeof(buf)); break;
		case 1:
			n = gmp_read(u->c.r, buf, 1 + (u->rand >> 40) % sizeof(buf));
			if (n > 0)
				atomic_fetch_add(&read_in_all, n);
			break;
		default:
			n = gmp_write(u->c.w, buf, 1 + (u->rand >> 40) % sizeof(buf));
			if (n > 0)
				atomic_fetch_add(&written_in_all, n);
		}
		if (n == -ENOTSOCK)
			n = 0;
	}
	CHECK(n == -ECANCELED || n == -EBADF || n == -EPIPE || n == -ECONNRESET);
}

RT(net_close_racing_reads_and_writes_ends_all_users)
{
	FOR_KINDS(kind)
	{
		for (int round = 0; round < 5; round++) {
			struct user u[USERS];
			struct ext_thread f[2];
			gmp_g *g[USERS], *e;
			struct conn a, b;

			connect_ends(kind, &a, &b);
			atomic_store(&read_in_all, 0);
			atomic_store(&written_in_all, 0);
			e = spawn(echo_all, &b);
			for (int i = 0; i < USERS; i++) {
				u[i] = (struct user){ a, (uint64_t)(round * USERS + i) };
				if (i < 2)
					ext_thread_start(&f[i], use_at_random, &u[i]);
				else
					g[i] = spawn(use_at_random, &u[i]);
			}
			gmp_sleep(3 * MS);
			close_end(&a); /* races with the calls of the users */
			for (int i = 0; i < USERS; i++) {
				if (i < 2)
					ext_thread_join(&f[i]);
				else
					join(g[i]);
			}
			join(e);
			close_end(&b);
			/* only bytes that were written are echoed, and each is read once */
			CHECK(atomic_load(&read_in_all) <= atomic_load(&written_in_all));
		}
	}
}

/* --- accept, dial and close at the same time --- */

static char race_addr[128];

static void accept_until_closed(void *arg)
{
	int l = *(int *)arg, c;

	while ((c = gmp_accept(l)) >= 0)
		CHECK_EQ(gmp_close(c), 0);
	CHECK(c == -ECANCELED || c == -EBADF);
}

static void dial_until_closed(void *arg)
{
	const char *net = arg;
	int c;

	while ((c = gmp_dial(net, race_addr)) >= 0) {
		char byte;

		/* if the close interrupts the handshake, the kernel tells the client nothing */
		CHECK_EQ(gmp_fd_set_deadline(c, GMP_READ, gmp_deadline(100 * MS)), 0);
		ssize_t n = gmp_read(c, &byte, 1);

		CHECK(n == 0 || n == -ECONNRESET || n == -ETIMEDOUT); /* accepted or not */
		reset_on_close(c);
		CHECK_EQ(gmp_close(c), 0);
	}
	CHECK(c == -ECONNREFUSED || c == -ECONNRESET);
}

/*
 * Returns a listener whose fd is not reused after its close, since lower fds are free: otherwise a
 * late accept could get the socket of a dial.
 */
static int listen_above_others(const char *net)
{
	enum { LOW = 32 };
	int low[LOW], l;

	for (int i = 0; i < LOW; i++) {
		low[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		CHECK(low[i] >= 0);
	}
	l = listen_any(net, race_addr);
	for (int i = 0; i < LOW; i++)
		CHECK_EQ(close(low[i]), 0);
	return l;
}

RT(net_listener_close_racing_dials_leaks_no_fd)
{
	int fds = count_fds();

	for (long i = 0; i < check_scaled(30); i++) {
		FOR_NETS(net)
		{
			int l = listen_above_others(net);
			gmp_g *a[4], *d[4];

			for (int k = 0; k < 4; k++) {
				a[k] = spawn(accept_until_closed, &l);
				d[k] = spawn(dial_until_closed, (void *)(uintptr_t)net);
			}
			gmp_sleep((i % 4) * 300 * US);
			CHECK_EQ(gmp_close(l), 0);
			for (int k = 0; k < 4; k++) {
				join(a[k]);
				join(d[k]);
			}
		}
	}
	CHECK_EQ(stats().descriptors, 0);
	CHECK_EQ(count_fds(), fds);
}

/* --- a cancelled dial --- */

static struct deaf silence;

static void dial_until_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_dial("tcp", silence.addr), -ECANCELED);
}

RT(net_dial_cancelled_leaks_no_fd)
{
	int fds;

	make_deaf(&silence);
	fds = count_fds();
	for (int i = 0; i < 10; i++) {
		gmp_g *g = spawn(dial_until_cancelled, NULL);

		if (i % 2)
			wait_parked(1);
		CHECK_EQ(gmp_cancel(g), 0);
		join(g);
		CHECK_EQ(stats().descriptors, 0);
	}
	CHECK_EQ(count_fds(), fds);
	end_deaf(&silence);
}
