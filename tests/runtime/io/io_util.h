/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of sockets: listening at a free address, and connected pairs. */
#ifndef TESTS_RUNTIME_IO_UTIL_H
#define TESTS_RUNTIME_IO_UTIL_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "util.h"

static const char *const nets[] = { "tcp", "unix" };

/* For each kind of stream socket: FOR_NETS(net) { ... } */
#define FOR_NETS(net)                                                                              \
	for (const char *net = nets[0], *const *net##_p_ = nets; net##_p_ < nets + 2;              \
	     net##_p_++, net = net##_p_ < nets + 2 ? *net##_p_ : NULL)

/* Listens at a free address and writes the address to dial to addr. */
static inline int listen_any(const char *net, char addr[128])
{
	static atomic_int serial;
	int l;

	if (strcmp(net, "unix") == 0)
		snprintf(addr, 128, "@gmp-test-%d-%d", (int)getpid(), atomic_fetch_add(&serial, 1));
	else
		snprintf(addr, 128, "127.0.0.1:0");
	l = gmp_listen(net, addr);
	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, 128) > 0);
	return l;
}

static inline void make_pair(const char *net, int *a, int *b)
{
	char addr[128];
	int l = listen_any(net, addr);

	*a = gmp_dial(net, addr);
	CHECK(*a >= 0);
	*b = gmp_accept(l);
	CHECK(*b >= 0);
	CHECK_EQ(gmp_close(l), 0);
}

static inline void close_pair(int a, int b)
{
	CHECK_EQ(gmp_close(a), 0);
	CHECK_EQ(gmp_close(b), 0);
}

/* Makes a close reset the connection, so that no port stays in TIME_WAIT. */
static inline void reset_on_close(int fd)
{
	struct linger l = { 1, 0 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
}

static inline void need_descriptors(rlim_t n)
{
	struct rlimit r;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	if (r.rlim_cur < n) {
		r.rlim_cur = r.rlim_max < n ? r.rlim_max : n;
		if (setrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur < n)
			check_skip("RLIMIT_NOFILE is too low");
	}
}

static inline void say(int fd, const char *text)
{
	CHECK_EQ(gmp_write_all(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static inline void hear(int fd, const char *text)
{
	char buf[256];
	size_t n = strlen(text);

	CHECK(n < sizeof(buf));
	CHECK_EQ(gmp_read_full(fd, buf, n), (ssize_t)n);
	buf[n] = '\0';
	CHECK_STR(buf, text);
}

/* A listener without accepters and with a full backlog: a further dial waits. */
struct deaf {
	int l, fill[8];
	char addr[128];
};

static inline void make_deaf(struct deaf *d)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	d->l = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(d->l >= 0);
	CHECK_EQ(bind(d->l, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(listen(d->l, 0), 0);
	CHECK_EQ(getsockname(d->l, (struct sockaddr *)&a, &n), 0);
	snprintf(d->addr, sizeof(d->addr), "127.0.0.1:%d", ntohs(a.sin_port));
	for (int i = 0; i < 8; i++) {
		d->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		CHECK(d->fill[i] >= 0);
		(void)!connect(d->fill[i], (struct sockaddr *)&a, sizeof(a));
	}
}

static inline void end_deaf(struct deaf *d)
{
	close(d->l);
	for (int i = 0; i < 8; i++)
		close(d->fill[i]);
}

/* Echoes until the end of the stream. arg points to the fd. */
static inline void echo_whole(void *arg)
{
	int fd = *(int *)arg;
	char buf[256];
	ssize_t n;

	while ((n = gmp_read(fd, buf, sizeof(buf))) > 0)
		CHECK_EQ(gmp_write_all(fd, buf, (size_t)n), n);
	CHECK_EQ(n, 0);
}

#endif
