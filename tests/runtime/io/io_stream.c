/* SPDX-License-Identifier: MIT */
/*
 * Tests data transfer over tcp and unix sockets and pipes: echo, large transfers, ends and errors
 * of a stream, and that concurrent gmp_write_all calls do not interleave.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/uio.h>

#include "io_util.h"

static atomic_int count, stop;

static void echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[4096];
	ssize_t n;

	while ((n = gmp_read(fd, buf, sizeof(buf))) > 0)
		CHECK_EQ(gmp_write_all(fd, buf, (size_t)n), n);
	CHECK_EQ(n, 0);
	CHECK_EQ(gmp_close(fd), 0);
	atomic_fetch_add(&count, 1);
}

static void echo_server(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	while ((c = gmp_accept(l)) >= 0)
		CHECK_EQ(gmp_go(echo, (void *)(intptr_t)c), 0);
	CHECK_EQ(c, -ECANCELED);
}

struct client {
	const char *net, *addr;
	int rounds, id;
};

static void talk(void *arg)
{
	struct client *c = arg;
	int fd = gmp_dial(c->net, c->addr);
	char text[64];

	CHECK(fd >= 0);
	for (int i = 0; i < c->rounds; i++) {
		snprintf(text, sizeof(text), "%d says %d;", c->id, i);
		say(fd, text);
		hear(fd, text);
	}
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
	CHECK_EQ(gmp_read(fd, text, sizeof(text)), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

RT(echo_50_clients_each_get_own_data_back)
{
	FOR_NETS(net)
	{
		struct client cl[50];
		struct ext_thread f[3];
		char addr[128];
		int l = listen_any(net, addr), fds = count_fds();
		gmp_g *s = spawn(echo_server, (void *)(intptr_t)l), *g[47];

		atomic_store(&count, 0);
		for (int i = 0; i < 50; i++) {
			cl[i] = (struct client){ net, addr, SLOW ? 20 : 100, i };
			if (i < 47)
				g[i] = spawn(talk, &cl[i]);
			else
				ext_thread_start(&f[i - 47], talk, &cl[i]);
		}
		for (int i = 0; i < 47; i++)
			join(g[i]);
		for (int i = 0; i < 3; i++)
			ext_thread_join(&f[i]);
		WAIT_FOR(atomic_load(&count) == 50);
		CHECK_EQ(count_fds(), fds);
		CHECK_EQ(gmp_close(l), 0);
		join(s);
	}
}

static void echo_server_here(void *arg)
{
	int c = gmp_accept((int)(intptr_t)arg);

	CHECK(c >= 0);
	echo((void *)(intptr_t)c);
}

RT(echo_by_external_thread_serves_green_client)
{
	FOR_NETS(net)
	{
		struct ext_thread f;
		char addr[128];
		int l = listen_any(net, addr);
		struct client c = { net, addr, 100, 1 };

		ext_thread_start(&f, echo_server_here, (void *)(intptr_t)l);
		join(spawn(talk, &c));
		ext_thread_join(&f);
		CHECK_EQ(gmp_close(l), 0);
	}
}

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

struct bulk {
	int fd;
	size_t n;
};

static void send_bulk(void *arg)
{
	struct bulk *b = arg;
	unsigned char *buf = malloc(b->n);

	CHECK(buf != NULL);
	for (size_t i = 0; i < b->n; i++)
		buf[i] = byte_at(i);
	CHECK_EQ(gmp_write_all(b->fd, buf, b->n), (ssize_t)b->n);
	free(buf);
}

static void recv_bulk(void *arg)
{
	struct bulk *b = arg;
	unsigned char *buf = malloc(b->n);

	CHECK(buf != NULL);
	CHECK_EQ(gmp_read_full(b->fd, buf, b->n), (ssize_t)b->n);
	for (size_t i = 0; i < b->n; i++) {
		if (buf[i] != byte_at(i))
			CHECK_EQ(buf[i], byte_at(i));
	}
	free(buf);
}

RT(large_transfers_arrive_whole_in_both_directions)
{
	FOR_NETS(net)
	{
		size_t n = SLOW ? 4 << 20 : 32 << 20;
		struct bulk a, b;
		struct ext_thread f;
		gmp_g *g[3];

		a.n = b.n = n;
		make_pair(net, &a.fd, &b.fd);
		g[0] = spawn(send_bulk, &a);
		g[1] = spawn(send_bulk, &b);
		g[2] = spawn(recv_bulk, &a);
		ext_thread_start(&f, recv_bulk, &b);
		for (int i = 0; i < 3; i++)
			join(g[i]);
		ext_thread_join(&f);
		close_pair(a.fd, b.fd);
	}
}

enum { BLOCK = 100000, BLOCKS = 20 };

struct writer {
	int fd;
	unsigned char mark;
};

static void write_blocks(void *arg)
{
	struct writer *w = arg;
	unsigned char *buf = malloc(BLOCK);

	CHECK(buf != NULL);
	memset(buf, w->mark, BLOCK);
	for (int i = 0; i < BLOCKS; i++)
		CHECK_EQ(gmp_write_all(w->fd, buf, BLOCK), BLOCK);
	free(buf);
}

RT(concurrent_write_alls_do_not_interleave)
{
	FOR_NETS(net)
	{
		unsigned char *buf = malloc(BLOCK);
		struct writer w[6];
		struct ext_thread f;
		gmp_g *g[5];
		int a, b, seen[6] = { 0 };

		CHECK(buf != NULL);
		make_pair(net, &a, &b);
		for (int i = 0; i < 6; i++) {
			w[i] = (struct writer){ a, (unsigned char)i };
			if (i < 5)
				g[i] = spawn(write_blocks, &w[i]);
			else
				ext_thread_start(&f, write_blocks, &w[i]);
		}
		for (int i = 0; i < 6 * BLOCKS; i++) {
			CHECK_EQ(gmp_read_full(b, buf, BLOCK), BLOCK);
			CHECK(buf[0] < 6);
			seen[buf[0]]++;
			CHECK_EQ(memcmp(buf, buf + 1, BLOCK - 1), 0);
		}
		for (int i = 0; i < 6; i++)
			CHECK_EQ(seen[i], BLOCKS);
		for (int i = 0; i < 5; i++)
			join(g[i]);
		ext_thread_join(&f);
		close_pair(a, b);
		free(buf);
	}
}

/* A short read does not always mean that no data is left. */
RT(packet_pipe_read_returns_one_packet_per_call)
{
	char buf[100];
	int fd[2];

	CHECK_EQ(pipe2(fd, O_DIRECT), 0);
	CHECK(gmp_fd_adopt(fd[0]) >= 0);
	CHECK_EQ(write(fd[1], "one", 3), 3);
	CHECK_EQ(write(fd[1], "three", 5), 5);
	gmp_sleep(5 * MS); /* the poller has reported both */
	CHECK_EQ(gmp_read(fd[0], buf, sizeof(buf)), 3);
	CHECK_EQ(gmp_read(fd[0], buf, sizeof(buf)), 5);
	CHECK_EQ(gmp_close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

RT(read_full_gets_data_behind_passed_fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, buf[100];
	struct iovec iov = { "a", 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd[2], pass = 1;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	CHECK(gmp_fd_adopt(fd[0]) >= 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &pass, sizeof(int));
	CHECK_EQ(sendmsg(fd[1], &m, 0), 1);
	CHECK_EQ(write(fd[1], "b", 1), 1);
	gmp_sleep(5 * MS);
	CHECK_EQ(gmp_read_full(fd[0], buf, 2), 2);
	CHECK_EQ(memcmp(buf, "ab", 2), 0);
	CHECK_EQ(gmp_close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

RT(read_full_gets_data_behind_urgent_byte)
{
	char buf[100];
	int a, b;

	make_pair("tcp", &a, &b);
	say(a, "ab");
	CHECK_EQ(send(a, "!", 1, MSG_OOB), 1);
	say(a, "cd");
	gmp_sleep(5 * MS);
	CHECK_EQ(gmp_read_full(b, buf, 4), 4);
	CHECK_EQ(memcmp(buf, "abcd", 4), 0);
	close_pair(a, b);
}

RT(end_of_stream_returns_0_or_short_count)
{
	FOR_NETS(net)
	{
		char buf[100];
		int a, b;

		make_pair(net, &a, &b);
		say(a, "hello");
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		CHECK_EQ(gmp_read_full(b, buf, 100), 5);
		CHECK_EQ(memcmp(buf, "hello", 5), 0);
		CHECK_EQ(gmp_read(b, buf, 100), 0);
		CHECK_EQ(gmp_read_full(b, buf, 100), 0);
		/* The other direction still works. */
		say(b, "bye");
		hear(a, "bye");
		CHECK_EQ(gmp_close(b), 0);
		CHECK_EQ(gmp_read(a, buf, 1), 0);
		CHECK_EQ(gmp_close(a), 0);
	}
}

static void expect_eof(void *arg)
{
	char buf[10];

	CHECK_EQ(gmp_read((int)(intptr_t)arg, buf, sizeof(buf)), 0);
	atomic_fetch_add(&count, 1);
}

RT(close_wakes_reader_of_peer_with_end_of_stream)
{
	FOR_NETS(net)
	{
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(expect_eof, (void *)(intptr_t)a);
		wait_parked(1);
		CHECK_EQ(gmp_close(b), 0);
		join(g);
		CHECK_EQ(gmp_close(a), 0);
	}
}

RT(shutdown_wakes_reader_of_same_fd)
{
	FOR_NETS(net)
	{
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(expect_eof, (void *)(intptr_t)a);
		wait_parked(1);
		CHECK_EQ(gmp_shutdown(a, SHUT_RDWR), 0);
		join(g);
		close_pair(a, b);
	}
}

RT(zero_length_read_and_write_return_0_at_once)
{
	FOR_NETS(net)
	{
		char c = 'x', buf[16];
		int a, b;

		make_pair(net, &a, &b);
		CHECK_EQ(gmp_read(a, &c, 0), 0);
		CHECK_EQ(gmp_read_full(a, &c, 0), 0);
		CHECK_EQ(gmp_write(a, &c, 0), 0);
		CHECK_EQ(gmp_write_all(a, &c, 0), 0);
		/* Also after a short read. */
		say(a, "xy");
		while (gmp_read(b, buf, sizeof(buf)) == 1)
			;
		CHECK_EQ(gmp_read(b, buf, 0), 0);
		close_pair(a, b);
	}
}

static void read_a_byte(void *arg)
{
	hear(*(int *)arg, "x");
}

static void write_much(void *arg)
{
	static char room[16 << 20];

	CHECK_EQ(gmp_write_all(*(int *)arg, room, sizeof(room)), -ECANCELED);
}

RT(zero_length_read_beside_waiting_reader_returns_0)
{
	FOR_NETS(net)
	{
		struct iovec v = { "", 0 };
		gmp_g *reader, *writer;
		char c;
		int a, b;

		make_pair(net, &a, &b);
		reader = spawn(read_a_byte, &a);
		writer = spawn(write_much, &a);
		wait_parked(2);
		CHECK_EQ(gmp_read(a, &c, 0), 0);
		CHECK_EQ(gmp_read_full(a, &c, 0), 0);
		CHECK_EQ(gmp_readv(a, &v, 1), 0);
		CHECK_EQ(gmp_readv(a, NULL, 0), 0);
		CHECK_EQ(gmp_writev(a, &v, 1), 0);
		say(b, "x");
		join(reader);
		CHECK_EQ(gmp_close(a), 0);
		CHECK_EQ(gmp_read(a, &c, 0), -EBADF);
		join(writer);
		CHECK_EQ(gmp_close(b), 0);
	}
}

RT(write_to_closed_peer_returns_epipe_without_sigpipe)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };

	CHECK_EQ(sigaction(SIGPIPE, &sa, NULL), 0);
	FOR_NETS(net)
	{
		ssize_t n;
		int a, b;

		make_pair(net, &a, &b);
		CHECK_EQ(gmp_close(b), 0);
		while ((n = gmp_write(a, "x", 1)) > 0)
			gmp_yield();
		CHECK(n == -EPIPE || n == -ECONNRESET);
		CHECK_EQ(gmp_write(a, "x", 1), -EPIPE);
		CHECK_EQ(gmp_write_all(a, "x", 1), -EPIPE);
		CHECK_EQ(gmp_close(a), 0);
		/* A write after a shutdown of the own direction. */
		make_pair(net, &a, &b);
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		CHECK_EQ(gmp_write_all(a, "x", 1), -EPIPE);
		close_pair(a, b);
	}
}

RT(read_full_error_partway_is_returned)
{
	char buf[100];
	int a, b;

	make_pair("tcp", &a, &b);
	say(a, "half");
	reset_on_close(a);
	hear(b, "half");
	say(b, "unread");
	CHECK_EQ(gmp_close(a), 0);
	CHECK_EQ(gmp_read_full(b, buf, 100), -ECONNRESET);
	CHECK_EQ(gmp_close(b), 0);
}

static void write_until_peer_closes(void *arg)
{
	size_t n = 64 << 20;
	char *buf = calloc(1, n);
	ssize_t err;

	CHECK(buf != NULL);
	err = gmp_write_all((int)(intptr_t)arg, buf, n);
	CHECK(err == -EPIPE || err == -ECONNRESET);
	free(buf);
}

RT(write_all_error_partway_is_returned)
{
	FOR_NETS(net)
	{
		char buf[1000];
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(write_until_peer_closes, (void *)(intptr_t)a);
		CHECK_EQ(gmp_read_full(b, buf, sizeof(buf)), (ssize_t)sizeof(buf));
		wait_parked(1);
		CHECK_EQ(gmp_close(b), 0);
		join(g);
		CHECK_EQ(gmp_close(a), 0);
	}
}

static void increment_and_forward(void *arg)
{
	int *fd = arg;

	for (int i = 0; i < 200; i++) {
		int v;

		CHECK_EQ(gmp_read_full(fd[0], &v, sizeof(v)), (ssize_t)sizeof(v));
		v++;
		CHECK_EQ(gmp_write_all(fd[1], &v, sizeof(v)), (ssize_t)sizeof(v));
	}
}

RT(adopted_pipes_in_chain_pass_value_on)
{
	enum { N = 20 };
	int fd[N + 1][2], ends[N][2];
	gmp_g *g[N];

	for (int i = 0; i <= N; i++) {
		CHECK_EQ(pipe(fd[i]), 0);
		CHECK(gmp_fd_adopt(fd[i][0]) >= 0);
		CHECK(gmp_fd_adopt(fd[i][1]) >= 0);
	}
	for (int i = 0; i < N; i++) {
		ends[i][0] = fd[i][0];
		ends[i][1] = fd[i + 1][1];
		g[i] = spawn(increment_and_forward, ends[i]);
	}
	for (int i = 0; i < 200; i++) {
		int v = i;

		CHECK_EQ(gmp_write_all(fd[0][1], &v, sizeof(v)), (ssize_t)sizeof(v));
		CHECK_EQ(gmp_read_full(fd[N][0], &v, sizeof(v)), (ssize_t)sizeof(v));
		CHECK_EQ(v, i + N);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	for (int i = 0; i <= N; i++)
		close_pair(fd[i][0], fd[i][1]);
}

RT(pipe_full_parks_writer_and_close_ends_stream)
{
	struct bulk w = { -1, 1 << 20 }, r = { -1, 1 << 20 };
	int fd[2];
	gmp_g *g;
	char c;

	CHECK_EQ(pipe(fd), 0);
	CHECK(gmp_fd_adopt(fd[0]) >= 0);
	CHECK(gmp_fd_adopt(fd[1]) >= 0);
	w.fd = fd[1];
	r.fd = fd[0];
	g = spawn(send_bulk, &w);
	wait_parked(1);
	recv_bulk(&r);
	join(g);
	CHECK_EQ(gmp_close(fd[1]), 0);
	CHECK_EQ(gmp_read(fd[0], &c, 1), 0);
	CHECK_EQ(gmp_close(fd[0]), 0);
}

static void yield_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_yield();
}

static void ping_by_system_calls(void *arg)
{
	for (int i = 0; i < 20; i++) {
		char c;

		CHECK_EQ(write(((int *)arg)[1], "x", 1), 1);
		CHECK_EQ(read(((int *)arg)[2], &c, 1), 1);
	}
}

RT(descriptors_are_served_while_all_ps_are_busy)
{
	int to[2], back[2], fds[3];
	struct ext_thread f;
	gmp_g *g[8];
	char c;

	CHECK_EQ(pipe(to), 0);
	CHECK_EQ(pipe(back), 0);
	CHECK(gmp_fd_adopt(to[0]) >= 0);
	CHECK(gmp_fd_adopt(back[1]) >= 0);
	for (int i = 0; i < 8; i++)
		g[i] = spawn(yield_until_stop, NULL);
	fds[1] = to[1];
	fds[2] = back[0];
	ext_thread_start(&f, ping_by_system_calls, fds);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_read(to[0], &c, 1), 1);
		CHECK_EQ(gmp_write_all(back[1], "y", 1), 1);
	}
	ext_thread_join(&f);
	atomic_store(&stop, 1);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

struct reader {
	int fd, id;
};

static int got[32];

static void read_one(void *arg)
{
	struct reader *r = arg;
	char c;

	CHECK_EQ(gmp_read(r->fd, &c, 1), 1);
	got[(int)c] = r->id;
	atomic_fetch_add(&count, 1);
}

RT(readers_of_one_fd_are_served_in_fifo_order)
{
	FOR_NETS(net)
	{
		struct reader r[10];
		gmp_g *g[10];
		int a, b;

		make_pair(net, &a, &b);
		atomic_store(&count, 0);
		for (int i = 0; i < 10; i++) {
			r[i] = (struct reader){ b, i };
			g[i] = spawn(read_one, &r[i]);
			wait_parked((uint64_t)i + 1);
		}
		for (int i = 0; i < 10; i++) {
			char c = (char)i;

			CHECK_EQ(gmp_write_all(a, &c, 1), 1);
			WAIT_FOR(atomic_load(&count) == i + 1);
			CHECK_EQ(got[i], i);
			join(g[i]);
		}
		close_pair(a, b);
	}
}

RT(readers_of_one_fd_all_wake_after_one_write)
{
	FOR_NETS(net)
	{
		struct reader r[30];
		gmp_g *g[30];
		int a, b;
		char all[30];

		make_pair(net, &a, &b);
		atomic_store(&count, 0);
		for (int i = 0; i < 30; i++) {
			r[i] = (struct reader){ b, i };
			g[i] = spawn(read_one, &r[i]);
		}
		wait_parked(30);
		/* One write: a single edge of the poller must wake thirty readers. */
		for (int i = 0; i < 30; i++)
			all[i] = (char)i;
		CHECK_EQ(gmp_write_all(a, all, 30), 30);
		for (int i = 0; i < 30; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&count), 30);
		close_pair(a, b);
	}
}

/* --- many readers of one fd --- */

enum { READERS = 3 };

struct crowd {
	int fd;
	atomic_int got;
};

static void read_one_byte(void *arg)
{
	struct crowd *c = arg;
	char byte;

	CHECK_EQ(gmp_read(c->fd, &byte, 1), 1);
	atomic_fetch_add(&c->got, 1);
}

/* Delays by less than a microsecond, to vary the race with the readers. */
static void delay(unsigned *seed)
{
	*seed = *seed * 1103515245 + 12345;
	for (volatile unsigned i = *seed >> 16 & 1023; i; i--)
		;
}

/* Each reader ends after one byte, so none comes back for a byte that is left over. */
RT(byte_left_over_wakes_queued_reader)
{
	struct crowd c = { 0 };
	gmp_g *g[READERS];
	unsigned seed = 1;
	int p[2];

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	c.fd = p[0];
	for (int i = 0; i < check_scaled(20000); i++) {
		atomic_store(&c.got, 0);
		for (int k = 0; k < READERS; k++) {
			g[k] = spawn(read_one_byte, &c);
			delay(&seed);
			CHECK_EQ(write(p[1], "", 1), 1);
		}
		WAIT_FOR(atomic_load(&c.got) == READERS);
		for (int k = 0; k < READERS; k++)
			join(g[k]);
	}
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}
