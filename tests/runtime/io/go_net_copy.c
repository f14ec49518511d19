/* SPDX-License-Identifier: MIT */
/*
 * Tests writev, sendfile, proxies, fd passing and datagrams with programs of the same intent as
 * Go's src/net/{writev,sendfile,splice,unixsock,udpsock}_test.go; each section names its
 * counterpart.
 */
#define _GNU_SOURCE
#include <limits.h>

#include "go_net_util.h"

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 31 + (i >> 8) * 7);
}

static unsigned char *bytes(size_t n)
{
	unsigned char *p = malloc(n);

	CHECK(p != NULL);
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(i);
	return p;
}

struct receiving {
	int fd;
	size_t got;
};

/* Reads up to EOF; the data must be that of bytes(). */
static void receive_bytes(void *arg)
{
	struct receiving *t = arg;
	unsigned char buf[30000];
	ssize_t n;

	while ((n = gmp_read(t->fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (buf[i] != byte_at(t->got + (size_t)i))
				CHECK_EQ(buf[i], byte_at(t->got + (size_t)i));
		t->got += (size_t)n;
	}
	CHECK_EQ(n, 0);
}

/* --- writev_test.go: TestBuffers_WriteTo and similar --- */

/* Writes all vectors, also if single calls are short. */
static void write_vectors(int fd, struct iovec *v, int n)
{
	while (n > 0) {
		ssize_t done = gmp_writev(fd, v, n < IOV_MAX ? n : IOV_MAX);

		CHECK(done > 0);
		while (n > 0 && (size_t)done >= v->iov_len) {
			done -= (ssize_t)v->iov_len;
			v++;
			n--;
		}
		if (n > 0) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= (size_t)done;
		}
	}
}

RT(writev_of_many_buffers_arrives_whole_and_in_order)
{
	static const int counts[] = { 1, 2, 100, 1000, 3000 };
	static struct iovec v[3000];

	FOR_KINDS(kind)
	{
		for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			struct conn a, b;
			struct receiving t;
			size_t total = 0;
			unsigned char *all;
			gmp_g *g;

			for (int k = 0; k < counts[i]; k++)
				total += v[k].iov_len = 1 + (size_t)k * 37 % 4000;
			all = bytes(total);
			for (size_t k = 0, at = 0; k < (size_t)counts[i]; at += v[k++].iov_len)
				v[k].iov_base = all + at;
			connect_ends(kind, &a, &b);
			t = (struct receiving){ b.r, 0 };
			g = spawn(receive_bytes, &t);
			write_vectors(a.w, v, counts[i]);
			close_end(&a);
			join(g);
			CHECK_EQ(t.got, total);
			close_end(&b);
			free(all);
		}
	}
}

RT(writev_of_empty_buffers_writes_nothing)
{
	FOR_KINDS(kind)
	{
		struct iovec v[3] = { { NULL, 0 }, { (void *)(uintptr_t) "x", 1 }, { NULL, 0 } };
		struct conn a, b;

		connect_ends(kind, &a, &b);
		CHECK_EQ(gmp_writev(a.w, v, 0), 0);
		CHECK_EQ(gmp_writev(a.w, v, 1), 0);
		CHECK_EQ(gmp_writev(a.w, v, 3), 1);
		hear(b.r, "x");
		close_end(&a);
		close_end(&b);
	}
}

/* --- sendfile_test.go --- */

enum { FILE_SIZE = 600000 };

/* Makes an unlinked file with the data of bytes(). */
static int make_file(void)
{
	char path[] = "/tmp/gmp-go-net-XXXXXX";
	unsigned char *all = bytes(FILE_SIZE);
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(write(fd, all, FILE_SIZE), FILE_SIZE);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	free(all);
	return fd;
}

/* TestSendfile */
RT(sendfile_at_offset_sends_file_whole)
{
	int in = make_file();

	FOR_KINDS(kind)
	{
		struct conn a, b;
		struct receiving t;
		off_t at = 0;
		ssize_t n;
		gmp_g *g;

		connect_ends(kind, &a, &b);
		t = (struct receiving){ b.r, 0 };
		g = spawn(receive_bytes, &t);
		while ((n = gmp_sendfile(a.w, in, &at, 10 * FILE_SIZE)) > 0)
			;
		CHECK_EQ(n, 0); /* the end of the file */
		CHECK_EQ(at, FILE_SIZE);
		close_end(&a);
		join(g);
		CHECK_EQ(t.got, FILE_SIZE);
		close_end(&b);
	}
	CHECK_EQ(lseek(in, 0, SEEK_CUR), 0); /* unchanged, since an offset was given */
	CHECK_EQ(close(in), 0);
}

/* TestSendfileParts, TestSendfileSeeked */
RT(sendfile_in_parts_continues_at_file_position)
{
	FOR_KINDS(kind)
	{
		int in = make_file();
		unsigned char got[10000];
		struct conn a, b;

		connect_ends(kind, &a, &b);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(gmp_sendfile(a.w, in, NULL, 3), 3);
		CHECK_EQ(lseek(in, 0, SEEK_CUR), 9);
		CHECK_EQ(gmp_read_full(b.r, got, 9), 9);
		for (size_t i = 0; i < 9; i++)
			CHECK_EQ(got[i], byte_at(i));
		CHECK_EQ(lseek(in, 65000, SEEK_SET), 65000);
		for (size_t done = 0; done < sizeof(got);) {
			ssize_t n = gmp_sendfile(a.w, in, NULL, sizeof(got) - done);

			CHECK(n > 0);
			done += (size_t)n;
		}
		CHECK_EQ(gmp_read_full(b.r, got, sizeof(got)), sizeof(got));
		for (size_t i = 0; i < sizeof(got); i++)
			CHECK_EQ(got[i], byte_at(65000 + i));
		close_end(&a);
		close_end(&b);
		CHECK_EQ(close(in), 0);
	}
}

/* TestSendfilePipe: the error must not change the pipe. */
RT(sendfile_from_pipe_returns_einval_and_keeps_data)
{
	struct conn a, b, p, q;
	char c;

	connect_ends("tcp", &a, &b);
	connect_ends("pipe", &p, &q);
	say(q.w, "a");
	CHECK_EQ(gmp_sendfile(a.w, p.r, NULL, 1), -EINVAL);
	CHECK(fcntl(p.r, F_GETFL) & O_NONBLOCK);
	hear(p.r, "a");
	CHECK_EQ(gmp_fd_set_deadline(p.r, GMP_READ, gmp_deadline(US)), 0);
	CHECK_EQ(gmp_read(p.r, &c, 1), -ETIMEDOUT);
	close_end(&a);
	close_end(&b);
	close_end(&p);
	close_end(&q);
}

/* TestSendfileOnWriteTimeoutExceeded */
RT(sendfile_after_deadline_returns_etimedout)
{
	int in = make_file();

	FOR_KINDS(kind)
	{
		struct conn a, b;
		off_t at = 0;
		ssize_t n;
		char c;

		connect_ends(kind, &a, &b);
		set_deadlines(&a, GMP_WRITE, gmp_now() - 3600 * SEC);
		CHECK_EQ(gmp_sendfile(a.w, in, &at, FILE_SIZE), -ETIMEDOUT);
		CHECK_EQ(at, 0);
		close_end(&a);
		CHECK_EQ(gmp_read(b.r, &c, 1), 0);
		close_end(&b);
		/* a transfer that lasts until the deadline */
		connect_ends(kind, &a, &b);
		set_deadlines(&a, GMP_WRITE, gmp_deadline(20 * MS));
		do
			at = 0;
		while ((n = gmp_sendfile(a.w, in, &at, FILE_SIZE)) > 0);
		CHECK_EQ(n, -ETIMEDOUT);
		close_end(&a);
		close_end(&b);
	}
	CHECK_EQ(close(in), 0);
}

RT(sendfile_to_closed_peer_fails_without_sigpipe)
{
	int in = make_file();

	FOR_KINDS(kind)
	{
		struct conn a, b;
		off_t at;
		ssize_t n;

		connect_ends(kind, &a, &b);
		close_end(&b);
		do
			at = 0;
		while ((n = gmp_sendfile(a.w, in, &at, FILE_SIZE)) > 0);
		CHECK(n == -EPIPE || n == -ECONNRESET);
		close_end(&a);
	}
	CHECK_EQ(close(in), 0);
}

/* --- splice_test.go: a proxy from one connection to another --- */

struct copying {
	int from, to;
	size_t most, done;
};

static void copy(void *arg)
{
	struct copying *c = arg;
	char buf[16 << 10];
	ssize_t n = 1;

	while (c->done < c->most && n > 0) {
		size_t left = c->most - c->done;

		n = gmp_read(c->from, buf, left < sizeof(buf) ? left : sizeof(buf));
		if (n > 0) {
			CHECK_EQ(gmp_write_all(c->to, buf, (size_t)n), n);
			c->done += (size_t)n;
		}
	}
	CHECK(n >= 0);
	CHECK_EQ(gmp_shutdown(c->to, SHUT_WR), 0);
}

struct sending {
	int fd;
	size_t n;
};

static void send_bytes(void *arg)
{
	struct sending *s = arg;
	unsigned char *all = bytes(s->n);

	CHECK_EQ(gmp_write_all(s->fd, all, s->n), s->n);
	CHECK_EQ(gmp_shutdown(s->fd, SHUT_WR), 0);
	free(all);
}

/* testSpliceBig, both ways at the same time */
RT(proxy_forwards_data_and_eof_both_ways)
{
	enum { BIG = 5 << 20, SMALL = 12345 };

	for (int i = 0; i < 4; i++) {
		int up[2], down[2];
		struct copying there, back;
		struct sending s1, s2;
		struct receiving t1, t2;
		gmp_g *g[6];

		make_pair(nets[i & 1], &up[0], &up[1]);
		make_pair(nets[i >> 1], &down[0], &down[1]);
		there = (struct copying){ up[1], down[0], SIZE_MAX, 0 };
		back = (struct copying){ down[0], up[1], SIZE_MAX, 0 };
		s1 = (struct sending){ up[0], BIG };
		s2 = (struct sending){ down[1], SMALL };
		t1 = (struct receiving){ up[0], 0 };
		t2 = (struct receiving){ down[1], 0 };
		g[0] = spawn(copy, &there);
		g[1] = spawn(copy, &back);
		g[2] = spawn(send_bytes, &s1);
		g[3] = spawn(send_bytes, &s2);
		g[4] = spawn(receive_bytes, &t1);
		g[5] = spawn(receive_bytes, &t2);
		for (int k = 0; k < 6; k++)
			join(g[k]);
		CHECK_EQ(there.done, BIG);
		CHECK_EQ(back.done, SMALL);
		CHECK_EQ(t2.got, BIG);
		CHECK_EQ(t1.got, SMALL);
		close_pair(up[0], up[1]);
		close_pair(down[0], down[1]);
	}
}

/* testSpliceStopsAfterN, testSpliceUpdatesN, testSpliceReaderAtEOF */
RT(proxy_stops_at_limit_or_eof)
{
	FOR_NETS(net)
	{
		static const size_t most[] = { 128, 300, 0 }, passed[] = { 128, 256, 0 };

		for (int i = 0; i < 3; i++) {
			int up[2], down[2];
			struct copying c;
			struct sending s;
			struct receiving t;
			gmp_g *g;

			make_pair(net, &up[0], &up[1]);
			make_pair(net, &down[0], &down[1]);
			c = (struct copying){ up[1], down[0], most[i], 0 };
			s = (struct sending){ up[0], 256 };
			t = (struct receiving){ down[1], 0 };
			g = spawn(copy, &c);
			send_bytes(&s);
			receive_bytes(&t);
			join(g);
			CHECK_EQ(c.done, passed[i]);
			CHECK_EQ(t.got, passed[i]);
			close_pair(up[0], up[1]);
			close_pair(down[0], down[1]);
		}
	}
}

/* testSpliceIssue25985: the client has closed before the proxy has dialled the server. */
static char back_addr[128];
static const char *back_net;

static void proxy_one(void *arg)
{
	int front = *(int *)arg, src = gmp_accept(front), dst = gmp_dial(back_net, back_addr);
	struct copying there = { src, dst, SIZE_MAX, 0 }, back = { dst, src, SIZE_MAX, 0 };
	gmp_g *g;

	CHECK(src >= 0);
	CHECK(dst >= 0);
	g = spawn(copy, &there);
	char c;
	ssize_t n = gmp_read(back.from, &c, 1);

	CHECK(n == 0 || n == -ECONNRESET);
	join(g);
	close_pair(src, dst);
}

RT(proxy_forwards_eof_of_closed_client)
{
	FOR_NETS(net)
	{
		char front_addr[128];
		int front = listen_any(net, front_addr), back, to, from;
		gmp_g *g;

		back_net = net;
		back = listen_any(net, back_addr);
		g = spawn(proxy_one, &front);
		to = gmp_dial(net, front_addr);
		CHECK(to >= 0);
		say(to, "foo");
		CHECK_EQ(gmp_close(to), 0);
		from = gmp_accept(back);
		CHECK(from >= 0);
		hear(from, "foo");
		CHECK_EQ(gmp_read(from, front_addr, 1), 0);
		CHECK_EQ(gmp_close(from), 0);
		join(g);
		close_pair(front, back);
	}
}

/* --- unixsock_test.go: fd passing --- */

union control {
	struct cmsghdr h;
	char space[CMSG_SPACE(3 * sizeof(int))];
};

static void send_fds(int through, const int *fds, size_t n)
{
	struct iovec v = { (void *)(uintptr_t) "f", 1 };
	union control c;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &c };

	memset(&c, 0, sizeof(c));
	m.msg_controllen = CMSG_SPACE(n * sizeof(int));
	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	c.h.cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&c.h), fds, n * sizeof(int));
	CHECK_EQ(gmp_sendmsg(through, &m, 0), 1);
}

static void receive_fds(int through, int *fds, size_t n)
{
	char byte;
	struct iovec v = { &byte, 1 };
	union control c;
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};

	CHECK_EQ(gmp_recvmsg(through, &m, MSG_CMSG_CLOEXEC), 1);
	CHECK_EQ(byte, 'f');
	CHECK_EQ(c.h.cmsg_len, CMSG_LEN(n * sizeof(int)));
	memcpy(fds, CMSG_DATA(&c.h), n * sizeof(int));
}

static int fds_through;

static void send_three_fds(void *arg)
{
	send_fds(fds_through, arg, 3);
}

RT(fds_passed_over_unix_socket_can_be_used)
{
	char addr[128];
	int u[2], t[2], p[2], fds[3], got[3], c, s;
	gmp_g *g;

	make_pair("unix", &u[0], &u[1]);
	make_pair("tcp", &t[0], &t[1]);
	CHECK_EQ(pipe(p), 0);
	fds[0] = listen_any("tcp", addr);
	fds[1] = t[1];
	fds[2] = p[0];
	fds_through = u[0];
	g = spawn(send_three_fds, fds);
	receive_fds(u[1], got, 3); /* may wait for the message */
	join(g);
	CHECK_EQ(gmp_close(fds[0]), 0);
	CHECK_EQ(gmp_close(fds[1]), 0);
	CHECK_EQ(close(fds[2]), 0);
	for (int i = 0; i < 3; i++)
		adopted(got[i]);
	c = gmp_dial("tcp", addr);
	s = gmp_accept(got[0]);
	CHECK(c >= 0);
	CHECK(s >= 0);
	say(c, "to a listener that was passed");
	hear(s, "to a listener that was passed");
	say(t[0], "over a connection that was passed");
	hear(got[1], "over a connection that was passed");
	CHECK_EQ(write(p[1], "pipe", 4), 4);
	hear(got[2], "pipe");
	CHECK_EQ(close(p[1]), 0);
	CHECK_EQ(gmp_read(got[2], addr, 1), 0);
	close_pair(c, s);
	close_pair(u[0], u[1]);
	CHECK_EQ(gmp_close(t[0]), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_close(got[i]), 0);
	CHECK_EQ(stats().descriptors, 0);
}

/* --- udpsock_test.go --- */

static int udp_at(struct sockaddr_in *a)
{
	socklen_t n = sizeof(*a);
	int fd = gmp_listen("udp", "127.0.0.1:0");

	CHECK(fd >= 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)a, &n), 0);
	return fd;
}

static ssize_t send_to(int fd, const struct sockaddr_in *to, const void *buf, size_t n)
{
	return gmp_sendto(fd, buf, n, 0, (const struct sockaddr *)to, sizeof(*to));
}

/* TestUDPZeroBytePayload */
RT(udp_empty_datagram_returns_0_and_is_no_eof)
{
	struct sockaddr_in at, from;
	int fd = udp_at(&at);
	socklen_t n = sizeof(from);
	char buf[8];

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(send_to(fd, &at, NULL, 0), 0);
		CHECK_EQ(send_to(fd, &at, "x", 1), 1);
		if (i == 0)
			CHECK_EQ(gmp_recvfrom(fd, buf, 8, 0, (struct sockaddr *)&from, &n), 0);
		else
			CHECK_EQ(gmp_read(fd, buf, sizeof(buf)), 0);
		CHECK_EQ(gmp_read(fd, buf, sizeof(buf)), 1);
	}
	CHECK_EQ(from.sin_port, at.sin_port);
	CHECK_EQ(gmp_close(fd), 0);
}

/* TestUDPReadSizeError */
RT(udp_read_into_short_buffer_truncates_datagram)
{
	struct sockaddr_in at;
	int fd = udp_at(&at);
	char buf[8] = "";
	struct iovec v = { buf, 3 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(send_to(fd, &at, "abcdef", 6), 6);
		CHECK_EQ(send_to(fd, &at, "z", 1), 1);
		if (i == 0)
			CHECK_EQ(gmp_read(fd, buf, 3), 3);
		else if (i == 1)
			CHECK_EQ(gmp_recvfrom(fd, buf, 3, 0, NULL, NULL), 3);
		else
			CHECK_EQ(gmp_recvmsg(fd, &m, 0), 3);
		CHECK_STR(buf, "abc");
		CHECK_EQ(gmp_read(fd, buf + 4, 3), 1);
		CHECK_EQ(buf[4], 'z');
	}
	CHECK(m.msg_flags & MSG_TRUNC);
	CHECK_EQ(gmp_close(fd), 0);
}

/* TestWriteToUDP, TestUDPConnLocalAndRemoteNames */
RT(udp_send_without_address_needs_dialled_fd)
{
	char addr[64], mine[64], theirs[64], buf[8];
	struct sockaddr_in at;
	int fd = udp_at(&at), c;

	CHECK_EQ(gmp_write(fd, "x", 1), -EDESTADDRREQ);
	CHECK_EQ(gmp_sendto(fd, "x", 1, 0, NULL, 0), -EDESTADDRREQ);
	CHECK(gmp_local_addr(fd, addr, sizeof(addr)) > 0);
	CHECK_EQ(gmp_peer_addr(fd, theirs, sizeof(theirs)), -ENOTCONN);
	c = gmp_dial("udp", addr);
	CHECK(c >= 0);
	CHECK(gmp_peer_addr(c, theirs, sizeof(theirs)) > 0);
	CHECK_STR(theirs, addr);
	CHECK(gmp_local_addr(c, mine, sizeof(mine)) > 0);
	CHECK(strcmp(mine, "127.0.0.1:0") != 0);
	CHECK_EQ(gmp_write(c, "x", 1), 1);
	CHECK_EQ(gmp_read(fd, buf, sizeof(buf)), 1);
	/* a dialled fd receives only the datagrams of its peer */
	struct sockaddr_in other_at, c_at;
	socklen_t n = sizeof(c_at);
	int other = udp_at(&other_at);

	CHECK_EQ(getsockname(c, (struct sockaddr *)&c_at, &n), 0);
	CHECK_EQ(send_to(other, &c_at, "intruder", 8), 8);
	CHECK_EQ(send_to(fd, &c_at, "peer", 4), 4);
	CHECK_EQ(gmp_read(c, buf, sizeof(buf)), 4);
	CHECK(memcmp(buf, "peer", 4) == 0);
	CHECK_EQ(gmp_close(other), 0);
	close_pair(fd, c);
}

RT(udp_read_after_send_to_closed_port_is_econnrefused)
{
	char addr[64], byte;
	struct sockaddr_in at;
	int fd = udp_at(&at), c;

	CHECK(gmp_local_addr(fd, addr, sizeof(addr)) > 0);
	c = gmp_dial("udp", addr);
	CHECK(c >= 0);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(gmp_write(c, "x", 1), 1);
	CHECK_EQ(gmp_read(c, &byte, 1), -ECONNREFUSED);
	CHECK_EQ(gmp_close(c), 0);
}

enum { SENDERS = 8, DATAGRAMS = 50 };

static struct sockaddr_in hub_at;

static void send_numbered(void *arg)
{
	struct sockaddr_in at, from;
	int id = *(int *)arg, fd = udp_at(&at);

	for (int i = 0; i < DATAGRAMS; i++) {
		int msg[2] = { id, i }, back[2];
		socklen_t n = sizeof(from);

		CHECK_EQ(send_to(fd, &hub_at, msg, sizeof(msg)), sizeof(msg));
		CHECK_EQ(gmp_recvfrom(fd, back, sizeof(back), 0, (struct sockaddr *)&from, &n),
			 sizeof(back));
		CHECK_EQ(back[0], id);
		CHECK_EQ(back[1], i);
		CHECK_EQ(from.sin_port, hub_at.sin_port);
	}
	CHECK_EQ(gmp_close(fd), 0);
}

static void send_back(void *arg)
{
	int fd = *(int *)arg, msg[2];

	for (;;) {
		struct sockaddr_in from;
		socklen_t n = sizeof(from);
		ssize_t got = gmp_recvfrom(fd, msg, sizeof(msg), 0, (struct sockaddr *)&from, &n);

		if (got == -ECANCELED || got == -EBADF)
			break;
		CHECK_EQ(got, sizeof(msg));
		CHECK_EQ(send_to(fd, &from, msg, sizeof(msg)), sizeof(msg));
	}
}

RT(udp_servers_sharing_fd_answer_all_clients)
{
	int hub = udp_at(&hub_at), ids[SENDERS];
	gmp_g *g[SENDERS], *servers[3];
	struct ext_thread f;

	for (int i = 0; i < 3; i++)
		servers[i] = spawn(send_back, &hub);
	for (int i = 0; i < SENDERS; i++) {
		ids[i] = i;
		if (i == 0)
			ext_thread_start(&f, send_numbered, &ids[i]);
		else
			g[i] = spawn(send_numbered, &ids[i]);
	}
	for (int i = 1; i < SENDERS; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(gmp_close(hub), 0);
	for (int i = 0; i < 3; i++)
		join(servers[i]);
	CHECK_EQ(stats().descriptors, 0);
}
