/* SPDX-License-Identifier: MIT */
/*
 * Tests what flows through a descriptor: echo, large transfers, ends and errors of a stream, and
 * that two gmp_write_all do not interleave; over tcp and unix sockets and pipes.
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

RT(many_clients_get_their_own_words_back)
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

RT(a_foreign_thread_serves_a_green_client)
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

/* A read that gets less than it asked for does not always leave nothing behind. */
RT(packets_of_a_pipe_are_read_one_after_the_other)
{
	char buf[100];
	int fd[2];

	CHECK_EQ(pipe2(fd, O_DIRECT), 0);
	CHECK(gmp_fd_adopt(fd[0]) >= 0);
	CHECK_EQ(write(fd[1], "one", 3), 3);
	CHECK_EQ(write(fd[1], "three", 5), 5);
	gmp_sleep(5 * MS); /* the poller has told of both */
	CHECK_EQ(gmp_read(fd[0], buf, sizeof(buf)), 3);
	CHECK_EQ(gmp_read(fd[0], buf, sizeof(buf)), 5);
	CHECK_EQ(gmp_close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

RT(what_stands_behind_a_passed_descriptor_is_read)
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

RT(what_stands_behind_urgent_data_is_read)
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

RT(the_end_of_the_stream_is_0_and_a_short_count)
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
		/* The other direction lives on. */
		say(b, "bye");
		hear(a, "bye");
		CHECK_EQ(gmp_close(b), 0);
		CHECK_EQ(gmp_read(a, buf, 1), 0);
		CHECK_EQ(gmp_close(a), 0);
	}
}

static void expect_end(void *arg)
{
	char buf[10];

	CHECK_EQ(gmp_read((int)(intptr_t)arg, buf, sizeof(buf)), 0);
	atomic_fetch_add(&count, 1);
}

RT(closing_one_end_wakes_a_reader_at_the_other_with_the_end)
{
	FOR_NETS(net)
	{
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(expect_end, (void *)(intptr_t)a);
		wait_parked(1);
		CHECK_EQ(gmp_close(b), 0);
		join(g);
		CHECK_EQ(gmp_close(a), 0);
	}
}

RT(shutdown_wakes_a_reader_of_the_same_descriptor)
{
	FOR_NETS(net)
	{
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(expect_end, (void *)(intptr_t)a);
		wait_parked(1);
		CHECK_EQ(gmp_shutdown(a, SHUT_RDWR), 0);
		join(g);
		close_pair(a, b);
	}
}

RT(nothing_to_read_or_write_is_0_at_once)
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
		/* Also after a read that got less than it asked for. */
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

RT(nothing_to_read_is_0_at_once_beside_a_reader)
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

RT(writing_to_a_closed_peer_is_epipe_without_sigpipe)
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
		/* One's own direction that was shut down. */
		make_pair(net, &a, &b);
		CHECK_EQ(gmp_shutdown(a, SHUT_WR), 0);
		CHECK_EQ(gmp_write_all(a, "x", 1), -EPIPE);
		close_pair(a, b);
	}
}

RT(an_error_partway_is_returned_by_read_full)
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

static void expect_broken(void *arg)
{
	size_t n = 64 << 20;
	char *buf = calloc(1, n);
	ssize_t err;

	CHECK(buf != NULL);
	err = gmp_write_all((int)(intptr_t)arg, buf, n);
	CHECK(err == -EPIPE || err == -ECONNRESET);
	free(buf);
}

RT(an_error_partway_is_returned_by_write_all)
{
	FOR_NETS(net)
	{
		char buf[1000];
		int a, b;
		gmp_g *g;

		make_pair(net, &a, &b);
		g = spawn(expect_broken, (void *)(intptr_t)a);
		CHECK_EQ(gmp_read_full(b, buf, sizeof(buf)), (ssize_t)sizeof(buf));
		wait_parked(1);
		CHECK_EQ(gmp_close(b), 0);
		join(g);
		CHECK_EQ(gmp_close(a), 0);
	}
}

static void pass_on(void *arg)
{
	int *fd = arg;

	for (int i = 0; i < 200; i++) {
		int v;

		CHECK_EQ(gmp_read_full(fd[0], &v, sizeof(v)), (ssize_t)sizeof(v));
		v++;
		CHECK_EQ(gmp_write_all(fd[1], &v, sizeof(v)), (ssize_t)sizeof(v));
	}
}

RT(adopted_pipes_pass_a_token_round)
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
		g[i] = spawn(pass_on, ends[i]);
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

RT(a_pipe_blocks_its_writer_when_full_and_ends_when_closed)
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

static void yield_for_ever(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_yield();
}

static void write_plainly(void *arg)
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
		g[i] = spawn(yield_for_ever, NULL);
	fds[1] = to[1];
	fds[2] = back[0];
	ext_thread_start(&f, write_plainly, fds);
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

RT(several_readers_of_one_descriptor_are_served_in_order)
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

RT(one_byte_at_a_time_wakes_every_reader_in_the_end)
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
		/* All at once: one edge for the poller, thirty readers to serve. */
		for (int i = 0; i < 30; i++)
			all[i] = (char)i;
		CHECK_EQ(gmp_write_all(a, all, 30), 30);
		for (int i = 0; i < 30; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&count), 30);
		close_pair(a, b);
	}
}

/* --- many who read one descriptor --- */

enum { READERS = 3 };

struct crowd {
	int fd;
	atomic_int got;
};

static void read_and_go(void *arg)
{
	struct crowd *c = arg;
	char byte;

	CHECK_EQ(gmp_read(c->fd, &byte, 1), 1);
	atomic_fetch_add(&c->got, 1);
}

/* For less than a microsecond: for those that come and go beside it. */
static void wait_a_little(unsigned *seed)
{
	*seed = *seed * 1103515245 + 12345;
	for (volatile unsigned i = *seed >> 16 & 1023; i; i--)
		;
}

/* Each reads one byte and goes: nobody comes back to find what was left. */
RT(a_byte_that_is_left_over_finds_a_reader)
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
			g[k] = spawn(read_and_go, &c);
			wait_a_little(&seed);
			CHECK_EQ(write(p[1], "", 1), 1);
		}
		WAIT_FOR(atomic_load(&c.got) == READERS);
		for (int k = 0; k < READERS; k++)
			join(g[k]);
	}
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}
