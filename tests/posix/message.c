/* SPDX-License-Identifier: MIT */
/* Tests what recv, send and their relatives do that read and write do not: flags, addresses,
 * control data, many messages. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "fds.h"

/* --- flags --- */

POSIX_TEST(recv_dontwait_is_eagain)
{
	struct mmsghdr m = { 0 };
	char c;
	int s[2];

	unix_pair(s);
	CHECK_ERRNO(recv(s[0], &c, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_ERRNO(recvfrom(s[0], &c, 1, MSG_DONTWAIT, NULL, NULL), EAGAIN);
	CHECK_ERRNO(recvmsg(s[0], &m.msg_hdr, MSG_DONTWAIT), EAGAIN);
	CHECK_ERRNO(recvmmsg(s[0], &m, 1, MSG_DONTWAIT, NULL), EAGAIN);
	close_pair(s);
	udp_pair(s);
	CHECK_ERRNO(recv(s[0], &c, 1, MSG_ERRQUEUE), EAGAIN);
	close_pair(s);
}

POSIX_TEST(send_dontwait_is_eagain)
{
	struct iovec v = { "x", 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	int s[2];

	unix_pair(s);
	fill(s[1]);
	CHECK_ERRNO(send(s[1], "x", 1, MSG_DONTWAIT), EAGAIN);
	CHECK_ERRNO(sendto(s[1], "x", 1, MSG_DONTWAIT, NULL, 0), EAGAIN);
	CHECK_ERRNO(sendmsg(s[1], &m.msg_hdr, MSG_DONTWAIT), EAGAIN);
	CHECK_ERRNO(sendmmsg(s[1], &m, 1, MSG_DONTWAIT), EAGAIN);
	close_pair(s);
}

static void send_later(void *fd)
{
	for (int i = 0; i < 5; i++)
		CHECK_EQ(write(*(int *)fd, &"hello"[i], 1), 1);
}

POSIX_TEST(recv_waitall_fills_the_buffer)
{
	skip_under_chaos(); /* recvmsg */
	for (int kind = 0; kind < 3; kind++) {
		struct peer p;
		char buf[8] = "";
		struct iovec v = { buf, 5 };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
		int s[2];

		unix_pair(s);
		peer_start(&p, send_later, &s[1]);
		CHECK_EQ(kind == 0   ? recv(s[0], buf, 5, MSG_WAITALL)
			 : kind == 1 ? recvfrom(s[0], buf, 5, MSG_WAITALL, NULL, NULL)
				     : recvmsg(s[0], &m, MSG_WAITALL),
			 5);
		CHECK_STR(buf, "hello");
		peer_join(&p);
		CHECK_EQ(write(s[1], "end", 3), 3);
		close(s[1]);
		CHECK_EQ(recv(s[0], buf, 5, MSG_WAITALL), 3);
		CHECK_EQ(recv(s[0], buf, 5, MSG_WAITALL), 0);
		close(s[0]);
	}
}

POSIX_TEST(recv_waitall_returns_a_datagram)
{
	char buf[8];
	int s[2];

	udp_pair(s);
	CHECK_EQ(send(s[1], "abc", 3, 0), 3);
	CHECK_EQ(send(s[1], "de", 2, 0), 2);
	CHECK_EQ(recv(s[0], buf, 8, MSG_WAITALL), 3);
	CHECK_EQ(recv(s[0], buf, 8, MSG_WAITALL), 2);
	close_pair(s);
}

POSIX_TEST(recv_waitall_timeout_returns_a_part)
{
	char buf[8] = "";
	int s[2];

	unix_pair(s);
	CHECK_EQ(write(s[1], "abc", 3), 3);
	set_timeout(s[0], SO_RCVTIMEO, 20);
	CHECK_EQ(recv(s[0], buf, 8, MSG_WAITALL), 3);
	close_pair(s);
}

POSIX_TEST(recv_peek_leaves_the_data)
{
	char buf[8] = "";
	struct iovec v = { buf, 8 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct peer p;
	int s[2];

	skip_under_chaos();
	unix_pair(s);
	CHECK_EQ(write(s[1], "abc", 3), 3);
	CHECK_EQ(recv(s[0], buf, 8, MSG_PEEK), 3);
	CHECK_EQ(recvfrom(s[0], buf, 8, MSG_PEEK, NULL, NULL), 3);
	CHECK_EQ(recvmsg(s[0], &m, MSG_PEEK), 3);
	CHECK_EQ(recv(s[0], buf, 8, 0), 3);
	close_pair(s);
	tcp_pair(s);
	peer_start(&p, send_later, &s[1]);
	CHECK_EQ(recv(s[0], buf, 5, MSG_PEEK | MSG_WAITALL), 5);
	CHECK_EQ(recv(s[0], buf, 5, 0), 5);
	peer_join(&p);
	close_pair(s);
}

static volatile sig_atomic_t sigpipes;

static void count_sigpipe(int signo)
{
	(void)signo;
	sigpipes++;
}

POSIX_TEST(send_nosignal_raises_no_sigpipe)
{
	struct iovec v = { "x", 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	int s[2];

	signal(SIGPIPE, count_sigpipe);
	unix_pair(s);
	close(s[0]);
	CHECK_ERRNO(send(s[1], "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK_ERRNO(sendto(s[1], "x", 1, MSG_NOSIGNAL, NULL, 0), EPIPE);
	CHECK_ERRNO(sendmsg(s[1], &m.msg_hdr, MSG_NOSIGNAL), EPIPE);
	CHECK_ERRNO(sendmmsg(s[1], &m, 1, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(sigpipes, 0);
	close(s[1]);
}

POSIX_TEST(recv_of_a_file_is_enotsock)
{
	struct mmsghdr m = { 0 };
	char c;
	int s[2];

	CHECK_EQ(pipe(s), 0);
	CHECK_ERRNO(recv(s[0], &c, 1, 0), ENOTSOCK);
	CHECK_ERRNO(recvfrom(s[0], &c, 1, 0, NULL, NULL), ENOTSOCK);
	CHECK_ERRNO(recvmsg(s[0], &m.msg_hdr, 0), ENOTSOCK);
	CHECK_ERRNO(recvmmsg(s[0], &m, 1, 0, NULL), ENOTSOCK);
	CHECK_ERRNO(send(s[1], &c, 1, 0), ENOTSOCK);
	CHECK_ERRNO(sendto(s[1], &c, 1, 0, NULL, 0), ENOTSOCK);
	CHECK_ERRNO(sendmsg(s[1], &m.msg_hdr, 0), ENOTSOCK);
	CHECK_ERRNO(sendmmsg(s[1], &m, 1, 0), ENOTSOCK);
	close_pair(s);
}

/* --- addresses and control data --- */

POSIX_TEST(recvfrom_returns_the_address)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in from = { 0 }, mine = { 0 };
	socklen_t n = sizeof(a);
	char buf[8] = "";
	int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK_EQ(bind(in, (struct sockaddr *)&a, n), 0);
	CHECK_EQ(getsockname(in, (struct sockaddr *)&a, &n), 0);
	CHECK_EQ(sendto(out, "abc", 3, 0, (struct sockaddr *)&a, n), 3);
	CHECK_EQ(getsockname(out, (struct sockaddr *)&mine, &n), 0);
	CHECK_EQ(recvfrom(in, buf, 8, 0, (struct sockaddr *)&from, &n), 3);
	CHECK_EQ(n, sizeof(from));
	CHECK_EQ(from.sin_port, mine.sin_port);
	CHECK_ERRNO(sendto(out, "abc", 3, 0, (struct sockaddr *)&a, 3), EINVAL);
	close(in);
	close(out);
}

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

POSIX_TEST(sendmsg_passes_a_descriptor)
{
	union control sent = { 0 }, got = { 0 };
	char c = 'x';
	struct iovec v = { &c, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = &sent, .msg_controllen = sizeof(sent)
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int s[2], p[2], fd;

	unix_pair(s);
	CHECK_EQ(pipe(p), 0);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &p[1], sizeof(int));
	CHECK_EQ(sendmsg(s[1], &m, 0), 1);
	m.msg_control = &got;
	CHECK_EQ(recvmsg(s[0], &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	CHECK_EQ(write(fd, "y", 1), 1);
	CHECK_EQ(read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'y');
	CHECK_EQ(m.msg_flags & MSG_DONTWAIT, 0);
	close(fd);
	close_pair(p);
	close_pair(s);
}

/* A receiver that is full, of a socket that is not connected: poll(2) reports the sender as
 * writable, and sendto waits. */
static void receive_one(void *fd)
{
	char c;

	CHECK_EQ(recv(*(int *)fd, &c, 1, 0), 1);
}

POSIX_TEST(sendto_waits_for_a_full_unix_peer)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t n = sizeof(sa_family_t); /* the kernel chooses a name */
	int in = socket(AF_UNIX, SOCK_DGRAM, 0), out = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct peer p;
	int sent = 0;

	skip_under_chaos();
	CHECK_EQ(bind(in, (struct sockaddr *)&a, n), 0);
	n = sizeof(a);
	CHECK_EQ(getsockname(in, (struct sockaddr *)&a, &n), 0);
	while (sendto(out, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&a, n) == 1)
		sent++;
	CHECK_EQ(errno, EAGAIN);
	peer_start(&p, receive_one, &in);
	CHECK_EQ(sendto(out, "x", 1, 0, (struct sockaddr *)&a, n), 1);
	peer_join(&p);
	set_timeout(out, SO_SNDTIMEO, 20);
	CHECK_ERRNO(sendto(out, "x", 1, 0, (struct sockaddr *)&a, n), EAGAIN);
	close(in);
	close(out);
}

/* --- many messages --- */

enum { MANY = 5 };

struct many {
	char buf[MANY][4];
	struct iovec v[MANY];
	struct mmsghdr m[MANY];
};

static void many_init(struct many *a)
{
	memset(a, 0, sizeof(*a));
	for (int i = 0; i < MANY; i++) {
		a->buf[i][0] = (char)('a' + i);
		a->v[i] = (struct iovec){ a->buf[i], 1 };
		a->m[i].msg_hdr.msg_iov = &a->v[i];
		a->m[i].msg_hdr.msg_iovlen = 1;
	}
}

static void send_many(void *fd)
{
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(send(*(int *)fd, &"abcde"[i], 1, 0), 1);
}

POSIX_TEST(recvmmsg_waits_for_all_messages)
{
	struct many a;
	struct peer p;
	int s[2];

	udp_pair(s);
	many_init(&a);
	peer_start(&p, send_many, &s[1]);
	CHECK_EQ(recvmmsg(s[0], a.m, MANY, 0, NULL), MANY);
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(a.m[i].msg_len, 1);
		CHECK_EQ(a.buf[i][0], 'a' + i);
	}
	peer_join(&p);
	close_pair(s);
}

POSIX_TEST(recvmmsg_waitforone_returns_what_is_there)
{
	struct timespec t = { 0, 1 }, bad = { 0, -1 };
	struct many a;
	int s[2];

	udp_pair(s);
	many_init(&a);
	CHECK_EQ(send(s[1], "x", 1, 0), 1);
	CHECK_EQ(send(s[1], "y", 1, 0), 1);
	CHECK_EQ(recvmmsg(s[0], a.m, MANY, MSG_WAITFORONE, NULL), 2);
	/* the timeout is read after a message */
	CHECK_EQ(send(s[1], "x", 1, 0), 1);
	int n = recvmmsg(s[0], a.m, MANY, 0, &t);

	CHECK_EQ(n, 1);
	CHECK_EQ(t.tv_sec, 0);
	CHECK_EQ(t.tv_nsec, 0);
	CHECK_ERRNO(recvmmsg(s[0], a.m, MANY, 0, &bad), EINVAL);
	CHECK_EQ(recvmmsg(s[0], a.m, 0, 0, NULL), 0);
	close_pair(s);
}

static void send_slowly(void *fd)
{
	for (int i = 0; i < 2; i++) {
		usleep(250000);
		CHECK_EQ(send(*(int *)fd, "x", 1, 0), 1);
	}
}

POSIX_TEST(recvmmsg_waits_for_each_message_as_long_as_the_timeout)
{
	struct many a;
	struct peer p;
	int s[2];

	udp_pair(s);
	many_init(&a);
	set_timeout(s[0], SO_RCVTIMEO, 400);
	peer_start(&p, send_slowly, &s[1]);
	CHECK_EQ(recvmmsg(s[0], a.m, 2, 0, NULL), 2);
	peer_join(&p);
	close_pair(s);
}

static ssize_t receive_two(int fd)
{
	struct many a;

	many_init(&a);
	return recvmmsg(fd, a.m, 2, 0, NULL);
}

POSIX_TEST(recvmmsg_that_a_handler_interrupts_returns_a_part)
{
	int s[2];

	udp_pair(s);
	CHECK_EQ(send(s[1], "x", 1, 0), 1);
	CHECK_EQ(result_of_interrupted(receive_two, s[0]), 1);
	close_pair(s);
}

POSIX_TEST(sendmmsg_sends_all_messages)
{
	struct many a;
	char c;
	int s[2];

	udp_pair(s);
	many_init(&a);
	CHECK_EQ(sendmmsg(s[1], a.m, MANY, 0), MANY);
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(recv(s[0], &c, 1, 0), 1);
		CHECK_EQ(c, 'a' + i);
	}
	CHECK_EQ(sendmmsg(s[1], a.m, 0, 0), 0);
	close_pair(s);
}

enum { LARGE = 300000 };

static void read_many(void *fd)
{
	static char buf[65536];
	size_t n = 0;

	while (n < (size_t)MANY * LARGE) {
		ssize_t some = read(*(int *)fd, buf, sizeof(buf));

		CHECK(some > 0);
		n += (size_t)some;
	}
}

/* Until the end. */
static void read_slowly(void *fd)
{
	static char buf[65536];

	do
		usleep(1500);
	while (read(*(int *)fd, buf, sizeof(buf)) > 0);
}

POSIX_TEST(sendmmsg_sends_none_after_a_part)
{
	char *large = calloc(1, LARGE);

	for (int i = 0; i < 2 * MANY; i++) {
		struct many a;
		struct peer p;
		int s[2];

		unix_pair(s);
		many_init(&a);
		for (int k = 0; k < MANY; k++)
			a.v[k] = (struct iovec){ large, LARGE };
		set_timeout(s[1], SO_SNDTIMEO, 1);
		fill(s[1]);
		peer_start(&p, read_slowly, &s[0]);
		int n = sendmmsg(s[1], a.m, MANY, i % 2 ? MSG_DONTWAIT : 0);

		if (n < 0)
			CHECK_EQ(errno, EAGAIN);
		for (int k = 0; k < n - 1; k++)
			CHECK_EQ(a.m[k].msg_len, LARGE);
		CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
		peer_join(&p);
		close_pair(s);
	}
	free(large);
}

POSIX_TEST(sendmmsg_waits_for_room)
{
	char *large = calloc(1, LARGE);
	struct many a;
	struct peer p;
	int s[2];

	unix_pair(s);
	many_init(&a);
	for (int i = 0; i < MANY; i++)
		a.v[i] = (struct iovec){ large, LARGE };
	peer_start(&p, read_many, &s[0]);
	CHECK_EQ(sendmmsg(s[1], a.m, MANY, 0), MANY);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(a.m[i].msg_len, LARGE);
	peer_join(&p);
	close_pair(s);
	free(large);
}

/* --- pending errors --- */

/* After a part was sent, an error stays for the next call. */
static void reset(void *fd)
{
	struct linger l = { 1, 0 };
	char c;

	CHECK_EQ(recv(*(int *)fd, &c, 1, 0), 1);
	setsockopt(*(int *)fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(*(int *)fd);
}

static void send_large(void *fd)
{
	static char large[32 << 20];
	ssize_t n = send(*(int *)fd, large, sizeof(large), 0);

	CHECK(n > 0 && (size_t)n < sizeof(large));
}

static bool has_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 1;
}

/* The buffer is full, and a green thread that writes to it has parked. */
static void await_blocked_writer(int fd)
{
	gmp_stats stats = GMP_STATS_INIT;

	while (has_room(fd))
		sched_yield();
	while (on_green() && stats.greens_waiting < 1) {
		gmp_yield();
		CHECK_EQ(gmp_stats_get(&stats), 0);
	}
}

POSIX_TEST(send_after_a_part_raises_no_sigpipe)
{
	struct peer p;
	int s[2];

	signal(SIGPIPE, count_sigpipe);
	sigpipes = 0;
	unix_pair(s);
	peer_start(&p, send_large, &s[0]);
	await_blocked_writer(s[0]);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	peer_join(&p);
	CHECK_EQ(sigpipes, 0);
	close_pair(s);
}

POSIX_TEST(send_after_a_part_leaves_the_error)
{
	static char large[32 << 20];
	struct peer p;
	int s[2];

	signal(SIGPIPE, count_sigpipe);
	sigpipes = 0;
	tcp_pair(s);
	peer_start(&p, reset, &s[1]);
	ssize_t n = send(s[0], large, sizeof(large), 0);

	CHECK(n > 0 && (size_t)n < sizeof(large));
	CHECK_EQ(sigpipes, 0);
	CHECK_ERRNO(send(s[0], large, 1, 0), ECONNRESET);
	peer_join(&p);
	close(s[0]);
}
