/* SPDX-License-Identifier: MIT */
/* A failed call on an fd reports its error and leaks no fd, and the next call succeeds. */
#define _GNU_SOURCE 1
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { MS = 1000000 };

/* The fd is closed also if gmp_close reports an error. */
static void close_fd(int fd)
{
	if (fd >= 0)
		ASK_ONCE(gmp_close(fd));
}

static bool transfer_all(int from, int to)
{
	struct iovec v[2] = { { (void *)(uintptr_t) "abc", 3 }, { (void *)(uintptr_t) "de", 2 } };
	struct iovec w[2];
	char a[4], b[4], c[8];

	if (ASK_ONCE(gmp_write(from, "x", 1)) < 0 || ASK_ONCE(gmp_read(to, a, 4)) < 0)
		return false;
	CHECK_EQ(a[0], 'x');
	w[0] = (struct iovec){ a, 2 };
	w[1] = (struct iovec){ b, 3 };
	if (ASK_ONCE(gmp_writev(from, v, 2)) < 0 || ASK_ONCE(gmp_readv(to, w, 2)) < 0)
		return false;
	CHECK(memcmp(a, "ab", 2) == 0 && memcmp(b, "cde", 3) == 0);
	if (ASK_ONCE(gmp_sendto(from, "hello", 5, 0, NULL, 0)) < 0 ||
	    ASK_ONCE(gmp_recvfrom(to, c, 8, 0, NULL, NULL)) < 0)
		return false;
	CHECK(memcmp(c, "hello", 5) == 0);
	return true;
}

static bool use_pair(int c, int s)
{
	char peer[128], byte;

	if (ASK_ONCE(gmp_peer_addr(c, peer, sizeof(peer))) < 0 || !transfer_all(c, s) ||
	    !transfer_all(s, c) || ASK_ONCE(gmp_shutdown(c, SHUT_WR)) < 0)
		return false;
	return ASK_ONCE(gmp_read(s, &byte, 1)) == 0;
}

static bool converse_with(int l, const char *net)
{
	char addr[128];
	bool done = false;

	if (ASK_ONCE(gmp_local_addr(l, addr, sizeof(addr))) < 0)
		return false;
	int c = (int)ASK_ONCE(gmp_dial(net, addr)), s = -1;

	if (c >= 0 &&
	    ASK_ONCE(gmp_fd_set_deadline(l, GMP_READ, gmp_deadline(10000 * (int64_t)MS))) == 0)
		s = (int)ASK_ONCE(gmp_accept(l));
	if (s >= 0)
		done = use_pair(c, s);
	close_fd(c);
	close_fd(s);
	return done;
}

/* Makes a listener and a connection to it, and uses all calls on both. */
static bool converse(const char *net, const char *addr)
{
	int l = (int)ASK_ONCE(gmp_listen(net, addr));
	bool done = l >= 0 && converse_with(l, net);

	close_fd(l);
	return done;
}

/* Unless all calls fail, the second attempt must succeed. */
static void converse_twice(const char *net, const char *addr)
{
	if (!converse(net, addr) && plan_now() != PLAN_ALL)
		CHECK(converse(net, addr));
}

static void tcp(void *arg)
{
	(void)arg;
	converse_twice("tcp", "127.0.0.1:0");
}

SWEEP(tcp_connection_works_or_reports_error)
{
	in_run(procs, tcp, NULL);
}

static void local(void *arg)
{
	char name[64];

	(void)arg;
	snprintf(name, sizeof(name), "@gmp-faults-%d", (int)getpid());
	converse_twice("unix", name);
}

SWEEP(unix_connection_works_or_reports_error)
{
	in_run(procs, local, NULL);
}

static void echo(void *arg)
{
	int s = *(int *)arg;
	char buf[8];

	if (gmp_read_full(s, buf, 4) == 4)
		ASK(gmp_write_all(s, buf, 4));
}

/* The answer arrives late, so that the reader parks. */
static void call_and_wait(int a, int b)
{
	gmp_g *g = NULL;
	char buf[8];

	ASK(gmp_spawn(&g, echo, &b, NULL));
	gmp_sleep(100000);
	ASK(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(2000 * (int64_t)MS)));
	if (ASK(gmp_write_all(a, "1234", 4)) == 4 && g && !plan_fired())
		CHECK(gmp_read_full(a, buf, 4) == 4 || plan_fired());
	long r = gmp_fd_wait(a, GMP_READ, gmp_deadline(MS));

	CHECK(r == GMP_READ || r == -ETIMEDOUT || plan_excuses(r, 0));
	if (!g)
		return;
	gmp_cancel(g);
	CHECK_EQ(gmp_join(g), 0);
}

static void wait_both_ways(void *arg)
{
	int p[2], a, b;

	(void)arg;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	a = (int)ASK(gmp_fd_adopt(p[0]));
	b = (int)ASK(gmp_fd_adopt(p[1]));
	if (a >= 0 && b >= 0)
		call_and_wait(a, b);
	a < 0 ? (void)close(p[0]) : close_fd(a);
	b < 0 ? (void)close(p[1]) : close_fd(b);
}

SWEEP(fd_waiters_wake_or_get_error)
{
	in_run(procs, wait_both_ways, NULL);
}

static void datagrams(void *arg)
{
	int a = (int)ASK(gmp_listen("udp", "127.0.0.1:0")), b = -1;
	char addr[64], buf[8];

	(void)arg;
	if (a < 0)
		return;
	if (ASK(gmp_local_addr(a, addr, sizeof(addr))) > 0)
		b = (int)ASK(gmp_dial("udp", addr));
	if (b >= 0 && ASK(gmp_write(b, "one", 3)) == 3 && ASK(gmp_read(a, buf, 8)) == 3)
		CHECK(memcmp(buf, "one", 3) == 0);
	close_fd(a);
	close_fd(b);
}

SWEEP(datagrams_arrive_or_report_error)
{
	in_run(procs, datagrams, NULL);
}

/* gmp resolves "localhost" itself; the name in capitals needs getaddrinfo. */
static void by_name(void *arg)
{
	gmp_listen_opts o = GMP_LISTEN_OPTS_INIT;
	char addr[64], name[64];

	(void)arg;
	o.reuse_port = 1;
	int l = (int)ASK(gmp_listen_with("tcp", "127.0.0.1:0", &o));

	if (l >= 0 && ASK(gmp_local_addr(l, addr, sizeof(addr))) > 0) {
		snprintf(name, sizeof(name), "LOCALHOST%s", strrchr(addr, ':'));
		int c = gmp_dial("tcp", name);

		CHECK(c >= 0 || plan_fired()); /* the error depends on the failed call */
		close_fd(c);
	}
	close_fd(l);
}

SWEEP(dial_by_name_resolves_or_reports_error)
{
	in_run(procs, by_name, NULL);
}

static void never_answered(void *arg)
{
	char byte;

	gmp_read(*(int *)arg, &byte, 1);
}

static void leave_waiting(void *arg)
{
	int *p = arg;

	for (int i = 0; i < 2; i++)
		if (ASK(gmp_fd_adopt(p[i])) >= 0)
			ASK(gmp_go(never_answered, &p[i]));
	gmp_timer *t = ASK_PTR(gmp_timer_new(never_answered, NULL));

	if (t)
		gmp_timer_set(t, gmp_deadline(3600000 * (int64_t)MS), 0);
	gmp_yield();
	gmp_timer_free(t);
	if (gmp_fd_release(p[1]) < 0)
		CHECK(plan_fired());
}

/* One fd is released before the run ends; the other still has a waiting reader. */
SWEEP(run_end_with_waiting_fd_users_leaks_nothing)
{
	int p[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	in_run(procs, leave_waiting, p);
	close(p[0]);
	close(p[1]);
}
