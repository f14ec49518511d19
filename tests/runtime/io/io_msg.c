/* SPDX-License-Identifier: MIT */
/*
 * Tests vectored, datagram, message and sendfile calls: they wait as gmp_read and gmp_write do, and
 * otherwise do what the system calls of the same name do.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/uio.h>

#include "io_util.h"

struct got {
	int fd;
	struct iovec *v;
	struct msghdr *m;
	ssize_t n;
};

static void readv_it(void *arg)
{
	struct got *g = arg;

	g->n = gmp_readv(g->fd, g->v, 2);
}

static void recvmsg_it(void *arg)
{
	struct got *g = arg;

	g->n = gmp_recvmsg(g->fd, g->m, 0);
}

RT(readv_waits_and_fills_buffers_in_order)
{
	FOR_NETS(net)
	{
		char x[3], y[10] = "";
		struct iovec v[] = { { x, 3 }, { y, sizeof(y) } };
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 3; i++) {
			struct got got = { .fd = a, .v = v };
			gmp_g *g = spawn(readv_it, &got);

			wait_parked(1);
			say(b, "abcdefg");
			join(g);
			CHECK_EQ(got.n, 7);
			CHECK(memcmp(x, "abc", 3) == 0 && memcmp(y, "defg", 4) == 0);
		}
		CHECK_EQ(gmp_shutdown(b, SHUT_WR), 0);
		CHECK_EQ(gmp_readv(a, v, 2), 0);
		close_pair(a, b);
	}
}

enum { BIG = 8 << 20 };

static void read_big(void *arg)
{
	int fd = *(int *)arg;
	char *buf = malloc(BIG);

	CHECK(buf != NULL);
	CHECK_EQ(gmp_read_full(fd, buf, BIG), BIG);
	for (size_t i = 0; i < BIG; i++)
		if (buf[i] != (char)(i * 2654435761u >> 20))
			CHECK(!"byte differs from what was written");
	free(buf);
}

static char *big(void)
{
	char *buf = malloc(BIG);

	CHECK(buf != NULL);
	for (size_t i = 0; i < BIG; i++)
		buf[i] = (char)(i * 2654435761u >> 20);
	return buf;
}

RT(writev_waits_for_room)
{
	FOR_NETS(net)
	{
		char *buf = big();
		gmp_g *g;
		int a, b;

		make_pair(net, &a, &b);
		g = spawn(read_big, &b);
		for (size_t done = 0; done < BIG;) {
			size_t n = BIG - done, half = n / 2;
			struct iovec v[] = { { buf + done, half },
					     { buf + done + half, n - half } };
			ssize_t put = gmp_writev(a, v, 2);

			CHECK(put > 0);
			done += (size_t)put;
		}
		join(g);
		free(buf);
		close_pair(a, b);
	}
}

RT(readv_and_writev_work_on_pipes)
{
	char x[2], y[2];
	struct iovec out[] = { { "ab", 2 }, { "c", 1 } }, in[] = { { x, 2 }, { y, 2 } };
	int p[2];

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
	CHECK_EQ(gmp_writev(p[1], out, 2), 3);
	CHECK_EQ(gmp_readv(p[0], in, 2), 3);
	CHECK(memcmp(x, "ab", 2) == 0 && y[0] == 'c');
	CHECK_EQ(gmp_recvfrom(p[0], x, 1, 0, NULL, NULL), -ENOTSOCK);
	CHECK_EQ(gmp_sendto(p[1], x, 1, 0, NULL, 0), -ENOTSOCK);
	close_pair(p[0], p[1]);
}

RT(readv_and_writev_bad_arguments_are_rejected)
{
	struct iovec v = { "x", 1 };
	int a, b;

	make_pair("tcp", &a, &b);
	CHECK_EQ(gmp_readv(a, &v, -1), -EINVAL);
	CHECK_EQ(gmp_writev(a, &v, -1), -EINVAL);
	CHECK_EQ(gmp_writev(a, &v, IOV_MAX + 1), -EINVAL);
	CHECK_EQ(gmp_writev(a, NULL, 1), -EINVAL);
	CHECK_EQ(gmp_writev(a, NULL, 0), 0);
	CHECK_EQ(gmp_recvmsg(a, NULL, 0), -EINVAL);
	CHECK_EQ(gmp_sendmsg(a, NULL, 0), -EINVAL);
	CHECK_EQ(gmp_readv(-1, &v, 1), -EBADF);
	CHECK_EQ(gmp_writev(9999, &v, 1), -EBADF);
	CHECK_EQ(gmp_sendfile(-1, 0, NULL, 1), -EBADF);
	close_pair(a, b);
}

RT(msg_dontwait_makes_one_attempt)
{
	FOR_NETS(net)
	{
		static char room[64 << 10];
		ssize_t put;
		char c;
		int a, b;

		make_pair(net, &a, &b);
		CHECK_EQ(gmp_recvfrom(a, &c, 1, MSG_DONTWAIT, NULL, NULL), -EAGAIN);
		say(b, "x");
		CHECK_EQ(gmp_recvfrom(a, &c, 1, MSG_PEEK, NULL, NULL), 1);
		CHECK_EQ(gmp_recvfrom(a, &c, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL), 1);
		hear(a, "x");
		/* the buffer is full for an instant only: a late ACK makes room */
		while ((put = gmp_sendto(a, room, sizeof(room), MSG_DONTWAIT, NULL, 0)) > 0)
			;
		CHECK_EQ(put, -EAGAIN);
		CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, 0), 0);
		CHECK_EQ(gmp_recvfrom(a, &c, 1, MSG_DONTWAIT, NULL, NULL), -ETIMEDOUT);
		close_pair(a, b);
	}
}

RT(msg_peek_short_count_drains_nothing)
{
	char buf[64];
	int a, b;

	make_pair("tcp", &a, &b);
	say(b, "12345678");
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_recvfrom(a, buf, sizeof(buf), MSG_PEEK, NULL, NULL), 8);
	hear(a, "12345678");
	close_pair(a, b);
}

/* --- receives that do not queue behind readers --- */

static void read_one(void *arg)
{
	hear((int)(intptr_t)arg, "x");
}

/* The kernel never blocks for these, so gmp does not either, even if a reader waits. */
RT(msg_oob_and_errqueue_do_not_wait_behind_reader)
{
	char c, control[256];
	struct iovec byte = { &c, 1 }; /* qemu-user returns 0 without one */
	struct msghdr m = { .msg_iov = &byte,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int a, b;

	make_pair("tcp", &a, &b);
	gmp_g *reader = spawn(read_one, (void *)(intptr_t)a);

	wait_parked(1);
	CHECK_EQ(gmp_recvmsg(a, &m, MSG_ERRQUEUE), -EAGAIN);
	CHECK_EQ(gmp_recvfrom(a, &c, 1, MSG_OOB, NULL, NULL), -EINVAL);
	say(b, "x");
	join(reader);
	close_pair(a, b);
}

static void read_a_byte(void *arg)
{
	char c;

	CHECK_EQ(gmp_read((int)(intptr_t)arg, &c, 1), 1);
}

/* A read stops at the urgent byte, and the poller has no event for the data after it. */
RT(read_after_msg_oob_gets_data_behind_urgent_byte)
{
	char buf[64];
	int a, b, p[2];

	make_pair("tcp", &a, &b);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	/* This waiter makes the runtime poll. */
	gmp_g *other = spawn(read_a_byte, (void *)(intptr_t)p[0]);

	wait_parked(1);
	CHECK_EQ(send(b, "abc", 3, 0), 3);
	CHECK_EQ(send(b, "!", 1, MSG_OOB), 1);
	CHECK_EQ(send(b, "def", 3, 0), 3);
	while (gmp_recvfrom(a, buf, 1, MSG_OOB, NULL, NULL) == -EAGAIN)
		usleep(1000); /* keep the P from polling before that */
	CHECK_EQ(buf[0], '!');
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(PATIENCE)), 0);
	for (int n = 0; n < 6;) {
		ssize_t got = gmp_read(a, buf + n, sizeof(buf) - (size_t)n);

		CHECK(got > 0);
		n += (int)got;
	}
	CHECK_EQ(memcmp(buf, "abcdef", 6), 0);
	CHECK_EQ(write(p[1], "x", 1), 1);
	join(other);
	close(p[1]);
	CHECK_EQ(gmp_close(p[0]), 0);
	close_pair(a, b);
}

RT(writev_of_no_bytes_sends_no_datagram)
{
	struct iovec v = { "", 0 };
	char c;
	int s[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, s), 0);
	CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
	CHECK_EQ(gmp_fd_adopt(s[1]), s[1]);
	CHECK_EQ(gmp_writev(s[0], &v, 1), 0);
	CHECK_EQ(gmp_writev(s[0], NULL, 0), 0);
	CHECK_EQ(gmp_recvfrom(s[1], &c, 1, MSG_DONTWAIT, NULL, NULL), -EAGAIN);
	CHECK_EQ(gmp_writev(s[0], &(struct iovec){ "x", 1 }, 1), 1); /* the socket still works */
	CHECK_EQ(gmp_recvfrom(s[1], &c, 1, 0, NULL, NULL), 1);
	close_pair(s[0], s[1]);
}

RT(sendto_too_long_address_returns_einval)
{
	char addr[200] = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), at = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr *a = (struct sockaddr *)(void *)addr;
	socklen_t n = sizeof(struct sockaddr_in);

	CHECK_EQ(gmp_fd_adopt(fd), fd);
	a->sa_family = AF_INET;
	CHECK_EQ(bind(at, a, n), 0);
	CHECK_EQ(getsockname(at, a, &n), 0);
	CHECK_EQ(gmp_sendto(fd, "x", 1, 0, a, sizeof(addr)), -EINVAL);
	CHECK_EQ(gmp_sendto(fd, "x", 1, 0, a, n), 1);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(at), 0);
}

/* --- datagrams --- */

RT(udp_datagrams_carry_sender_and_keep_boundaries)
{
	static const char *const kinds[] = { "udp", "udp4" };

	for (int k = 0; k < 2; k++) {
		struct sockaddr_storage from;
		socklen_t n;
		char addr[128], other[128], name[128], buf[16];
		int s = gmp_listen(kinds[k], "127.0.0.1:0"), c, d;

		CHECK(s >= 0);
		CHECK(gmp_local_addr(s, addr, sizeof(addr)) > 0);
		c = gmp_dial(kinds[k], addr);
		d = gmp_dial(kinds[k], addr);
		CHECK(c >= 0 && d >= 0);
		CHECK_EQ(gmp_peer_addr(c, name, sizeof(name)), strlen(addr));
		CHECK_STR(name, addr);
		for (int i = 0; i < 4; i++) {
			int sender = i & 1 ? c : d;

			say(sender, "ping");
			n = sizeof(from);
			CHECK_EQ(gmp_recvfrom(s, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n),
				 4);
			CHECK_EQ(n, sizeof(struct sockaddr_in));
			CHECK(gmp_local_addr(sender, other, sizeof(other)) > 0);
			CHECK_EQ(ntohs(((struct sockaddr_in *)&from)->sin_port),
				 atoi(strrchr(other, ':') + 1));
			CHECK_EQ(gmp_sendto(s, "pong!", 5, 0, (struct sockaddr *)&from, n), 5);
			CHECK_EQ(gmp_read(sender, buf, sizeof(buf)), 5);
		}
		/* boundaries are kept, and an empty datagram counts */
		say(c, "one");
		CHECK_EQ(gmp_write(c, "", 0), 0);
		say(c, "three");
		CHECK_EQ(gmp_read(s, buf, sizeof(buf)), 3);
		CHECK_EQ(gmp_read(s, buf, sizeof(buf)), 0);
		CHECK_EQ(gmp_read(s, buf, sizeof(buf)), 5);
		CHECK_EQ(gmp_fd_set_deadline(s, GMP_READ, gmp_deadline(MS)), 0);
		CHECK_EQ(gmp_read(s, buf, sizeof(buf)), -ETIMEDOUT);
		CHECK(gmp_accept(c) < 0);
		CHECK_EQ(gmp_listen(kinds[k], addr), -EADDRINUSE);
		CHECK_EQ(gmp_close(s), 0);
		close_pair(c, d);
	}
}

/* --- messages --- */

RT(sendmsg_passes_file_descriptors)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec v = { "two", 3 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct cmsghdr *c;
	char text[8], byte;
	int a, b, p[2], passed[2];

	make_pair("unix", &a, &b);
	CHECK_EQ(pipe(p), 0);
	for (int i = 0; i < 3; i++) {
		struct got got = { .fd = b };
		struct msghdr in = { .msg_iov = &(struct iovec){ text, sizeof(text) },
				     .msg_iovlen = 1 };
		gmp_g *g;

		char room[sizeof(control)] __attribute__((aligned(16)));

		in.msg_control = room;
		in.msg_controllen = sizeof(control.buf);
		got.m = &in;
		g = spawn(recvmsg_it, &got);
		if (i)
			wait_parked(1);
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(p));
		memcpy(CMSG_DATA(c), p, sizeof(p));
		CHECK_EQ(gmp_sendmsg(a, &m, 0), 3);
		join(g);
		CHECK_EQ(got.n, 3);
		c = CMSG_FIRSTHDR(&in);
		CHECK(c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(p)));
		memcpy(passed, CMSG_DATA(c), sizeof(passed));
		CHECK_EQ(gmp_fd_adopt(passed[0]), passed[0]);
		CHECK_EQ(write(p[1], "x", 1), 1);
		CHECK_EQ(gmp_read(passed[0], &byte, 1), 1);
		CHECK_EQ(gmp_close(passed[0]), 0);
		CHECK_EQ(close(passed[1]), 0);
	}
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
	close_pair(a, b);
}

/* --- files --- */

static int temporary(const char *buf, size_t n)
{
	char name[] = "/tmp/gmp-sendfile-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	unlink(name);
	CHECK_EQ(write(fd, buf, n), (ssize_t)n);
	return fd;
}

RT(sendfile_waits_for_room_and_advances_offset)
{
	char *buf = big();
	int in = temporary(buf, BIG);

	FOR_NETS(net)
	{
		off_t at = 0;
		gmp_g *g;
		int a, b;

		make_pair(net, &a, &b);
		g = spawn(read_big, &b);
		while (at < BIG) {
			off_t before = at;
			ssize_t n = gmp_sendfile(a, in, &at, (size_t)(BIG - at));

			CHECK(n > 0);
			CHECK_EQ(at, before + n);
		}
		join(g);
		CHECK_EQ(gmp_sendfile(a, in, &at, 10), 0); /* the end of the file */
		/* without an offset argument it moves the file's offset */
		CHECK_EQ(lseek(in, BIG - 4, SEEK_SET), BIG - 4);
		CHECK_EQ(gmp_sendfile(a, in, NULL, 100), 4);
		CHECK_EQ(lseek(in, 0, SEEK_CUR), BIG);
		CHECK_EQ(gmp_sendfile(a, b, NULL, 1), -EINVAL);
		CHECK_EQ(gmp_sendfile(a, 9999, NULL, 1), -EBADF);
		close_pair(a, b);
	}
	free(buf);
	CHECK_EQ(close(in), 0);
}

static void call_each(void *arg)
{
	int *fd = arg;
	struct iovec v[] = { { "vec", 3 }, { "tor", 3 } };
	char buf[8], more[8];
	struct iovec w[] = { { buf, 2 }, { more, 8 } };

	CHECK_EQ(gmp_writev(fd[0], v, 2), 6);
	CHECK_EQ(gmp_readv(fd[1], w, 2), 6);
	CHECK_EQ(gmp_sendto(fd[0], "to", 2, 0, NULL, 0), 2);
	CHECK_EQ(gmp_recvfrom(fd[1], buf, sizeof(buf), 0, NULL, NULL), 2);
}

RT(message_calls_work_on_external_thread)
{
	FOR_NETS(net)
	{
		struct ext_thread f;
		int fd[2];

		make_pair(net, &fd[0], &fd[1]);
		ext_thread_start(&f, call_each, fd);
		ext_thread_join(&f);
		close_pair(fd[0], fd[1]);
	}
}

/* --- write_all --- */

enum { PARCEL = 300000, WRITERS = 4 };

static void send_parcels(void *arg)
{
	int fd = ((int *)arg)[0], mark = ((int *)arg)[1];
	char *buf = malloc(PARCEL);

	CHECK(buf != NULL);
	memset(buf, 'a' + mark, PARCEL);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_write_all(fd, buf, PARCEL), PARCEL);
	free(buf);
}

RT(write_all_by_mixed_threads_does_not_interleave)
{
	FOR_NETS(net)
	{
		char *buf = malloc(PARCEL);
		int arg[WRITERS + 1][2], a, b;
		gmp_g *g[WRITERS];
		struct ext_thread f;

		CHECK(buf != NULL);
		make_pair(net, &a, &b);
		for (int i = 0; i <= WRITERS; i++) {
			arg[i][0] = a;
			arg[i][1] = i;
		}
		for (int i = 0; i < WRITERS; i++)
			g[i] = spawn(send_parcels, arg[i]);
		ext_thread_start(&f, send_parcels, arg[WRITERS]);
		for (int i = 0; i < 3 * (WRITERS + 1); i++) {
			CHECK_EQ(gmp_read_full(b, buf, PARCEL), PARCEL);
			for (int k = 1; k < PARCEL; k++)
				if (buf[k] != buf[0])
					CHECK(!"bytes of two writers are interleaved");
		}
		for (int i = 0; i < WRITERS; i++)
			join(g[i]);
		ext_thread_join(&f);
		free(buf);
		close_pair(a, b);
	}
}

/* --- bad pointers --- */

RT(address_length_unreadable_returns_efault)
{
	if (SANITIZED)
		check_skip("a sanitizer reads the length before the call");
	void *bad = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sockaddr_storage from;
	struct sockaddr *addr = (struct sockaddr *)&from;
	char name[128], c;
	int a, b, listener = listen_any("tcp", name), client = gmp_dial("tcp", name);
	socklen_t len = sizeof(from);

	CHECK(bad != MAP_FAILED && client >= 0);
	make_pair("unix", &a, &b);
	CHECK_EQ(gmp_write(a, "xy", 2), 2);
	CHECK_EQ(gmp_recvfrom(b, &c, 1, MSG_PEEK, addr, bad), -EFAULT);
	CHECK_EQ(gmp_recvfrom(b, bad, 1, MSG_PEEK, addr, &len), -EFAULT);
	CHECK_EQ(gmp_recvfrom(b, &c, 1, 0, addr, &len), 1);
	CHECK_EQ(gmp_accept_from(listener, addr, bad), -EFAULT);
	close_pair(a, b);
	close_pair(client, listener);
	CHECK_EQ(munmap(bad, 1), 0);
}
