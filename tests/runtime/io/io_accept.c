/* SPDX-License-Identifier: MIT */
/*
 * Tests listeners under stress: fd exhaustion, a close with 100 accepters, listen options, and fds
 * that are closed by close(2) and reused while threads wait on them.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "io_calls.h"

struct accepting {
	int l;
	atomic_int accepted, ended, result;
};

static void accept_all(void *arg)
{
	struct accepting *a = arg;
	int c;

	while ((c = gmp_accept(a->l)) >= 0) {
		atomic_fetch_add(&a->accepted, 1);
		CHECK_EQ(gmp_close(c), 0);
	}
	atomic_store(&a->result, c);
	if (c != -ECANCELED && c != -EBADF)
		CHECK_EQ(c, -ECANCELED);
	atomic_fetch_add(&a->ended, 1);
}

RT(listener_close_during_dials_ends_100_accepters)
{
	enum { ACCEPTERS = 100, DIALS = 50 };

	FOR_NETS(net)
	{
		struct accepting a = { 0 };
		struct ext_thread f[2];
		char addr[128];
		int fds = count_fds();

		a.l = listen_any(net, addr);
		for (int i = 0; i < ACCEPTERS; i++)
			CHECK_EQ(gmp_go(accept_all, &a), 0);
		for (int i = 0; i < 2; i++)
			ext_thread_start(&f[i], accept_all, &a);
		for (int i = 0; i < DIALS; i++) {
			int c = gmp_dial(net, addr);

			CHECK(c >= 0);
			reset_on_close(c);
			CHECK_EQ(gmp_close(c), 0);
		}
		/* connections that were reset before the accept may be gone */
		WAIT_FOR(atomic_load(&a.accepted) > 0);
		CHECK_EQ(gmp_close(a.l), 0);
		for (int i = 0; i < 2; i++)
			ext_thread_join(&f[i]);
		WAIT_FOR(atomic_load(&a.ended) == ACCEPTERS + 2);
		CHECK(atomic_load(&a.accepted) <= DIALS);
		CHECK_EQ(stats().descriptors, 0);
		CHECK_EQ(count_fds(), fds);
	}
}

/* --- fd exhaustion --- */

static void limit_descriptors(int n)
{
	struct rlimit r;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = (rlim_t)n;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
}

static int lowest_free(void)
{
	int fd = dup(0);

	CHECK(fd >= 0);
	CHECK_EQ(close(fd), 0);
	return fd;
}

static void accept_with_retries(void *arg)
{
	struct accepting *a = arg;
	int c;

	while ((c = gmp_accept(a->l)) == -EMFILE) {
		atomic_fetch_add(&a->result, 1);
		gmp_sleep(100 * US);
	}
	CHECK(c >= 0);
	hear(c, "patience");
	CHECK_EQ(gmp_close(c), 0);
	atomic_fetch_add(&a->accepted, 1);
}

RT(accept_at_fd_limit_returns_emfile_then_recovers)
{
	check_skip_on_valgrind("Valgrind accepts, sees that the limit is passed, and closes");
	enum { CLIENTS = 5 };

	FOR_NETS(net)
	{
		struct accepting a = { 0 };
		int c[CLIENTS], fds = count_fds();
		char addr[128];
		gmp_g *g[CLIENTS];

		a.l = listen_any(net, addr);
		for (int i = 0; i < CLIENTS; i++) {
			c[i] = gmp_dial(net, addr);
			CHECK(c[i] >= 0);
			say(c[i], "patience");
		}
		limit_descriptors(lowest_free());
		CHECK_EQ(gmp_accept(a.l), -EMFILE);
		CHECK_EQ(gmp_accept(a.l), -EMFILE);
		CHECK_EQ(gmp_dial(net, addr), -EMFILE);
		CHECK_EQ(gmp_listen("tcp", "127.0.0.1:0"), -EMFILE);
		for (int i = 0; i < CLIENTS; i++)
			g[i] = spawn(accept_with_retries, &a);
		WAIT_FOR(atomic_load(&a.result) >= 2 * CLIENTS);
		CHECK_EQ(atomic_load(&a.accepted), 0);
		limit_descriptors(256);
		for (int i = 0; i < CLIENTS; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&a.accepted), CLIENTS);
		for (int i = 0; i < CLIENTS; i++)
			CHECK_EQ(gmp_close(c[i]), 0);
		CHECK_EQ(gmp_close(a.l), 0);
		CHECK_EQ(count_fds(), fds);
	}
}

/* --- options --- */

RT(listen_reuse_port_serves_both_listeners)
{
	gmp_listen_opts o = GMP_LISTEN_OPTS_INIT;
	int got[2] = { 0, 0 }, l[2], on = 0;
	socklen_t size = sizeof(on);
	char addr[128];

	o.reuse_port = 1;
	l[0] = gmp_listen_with("tcp", "127.0.0.1:0", &o);
	CHECK(l[0] >= 0);
	CHECK_EQ(getsockopt(l[0], SOL_SOCKET, SO_REUSEPORT, &on, &size), 0);
	CHECK(on);
	CHECK(gmp_local_addr(l[0], addr, sizeof(addr)) > 0);
	CHECK_EQ(gmp_listen("tcp", addr), -EADDRINUSE);
	l[1] = gmp_listen_with("tcp", addr, &o);
	CHECK(l[1] >= 0);
	for (int i = 0; i < 200 && !(got[0] && got[1]); i++) {
		int c = gmp_dial("tcp", addr), s = -1;

		CHECK(c >= 0);
		for (int k = 0; s < 0; k ^= 1) {
			CHECK_EQ(gmp_fd_set_deadline(l[k], GMP_READ, gmp_deadline(100 * US)), 0);
			s = gmp_accept(l[k]);
			CHECK(s >= 0 || s == -ETIMEDOUT);
			got[k] += s >= 0;
		}
		reset_on_close(c);
		close_pair(c, s);
	}
	CHECK(got[0] && got[1]);
	close_pair(l[0], l[1]);
	o.reuse_port = 0;
	l[0] = gmp_listen_with("tcp", "127.0.0.1:0", &o);
	CHECK(l[0] >= 0);
	CHECK_EQ(gmp_close(l[0]), 0);
}

RT(listen_bad_options_are_rejected)
{
	struct {
		gmp_listen_opts o;
		char later[16];
	} big = { .o = { .size = sizeof(big) } };
	gmp_listen_opts o = { 0 };
	char name[64];
	int l;

	CHECK_EQ(gmp_listen_with("tcp", "127.0.0.1:0", &o), -EINVAL);
	o = (gmp_listen_opts)GMP_LISTEN_OPTS_INIT;
	o.backlog = -1;
	CHECK_EQ(gmp_listen_with("tcp", "127.0.0.1:0", &o), -EINVAL);
	o.backlog = 1;
	snprintf(name, sizeof(name), "@gmp-test-backlog-%d", (int)getpid());
	l = gmp_listen_with("unix", name, &o);
	CHECK(l >= 0);
	CHECK_EQ(gmp_close(l), 0);
	l = gmp_listen_with("tcp", "127.0.0.1:0", NULL);
	CHECK(l >= 0);
	CHECK_EQ(gmp_close(l), 0);
	l = gmp_listen_with("tcp", "127.0.0.1:0", &big.o); /* larger struct, new fields zero */
	CHECK(l >= 0);
	CHECK_EQ(gmp_close(l), 0);
	big.later[3] = 1;
	CHECK_EQ(gmp_listen_with("tcp", "127.0.0.1:0", &big.o), -E2BIG);
}

/* --- close(2) of an fd that gmp knows --- */

static void write_until_error(void *arg)
{
	struct call *c = arg;
	static char buf[1 << 20];

	while ((atomic_store(&c->result, (int)gmp_write_all(c->fd, buf, sizeof(buf))),
		atomic_load(&c->result)) > 0)
		;
}

static void wait_it(void *arg)
{
	struct call *c = arg;

	atomic_store(&c->result, gmp_fd_wait(c->fd, GMP_READ, GMP_FOREVER));
}

/* By syscall: this race is intended, and a sanitizer would report it for close(2). */
static void plain_close(int fd)
{
	CHECK_EQ(syscall(SYS_close, fd), 0);
}

enum reuse { BY_ADOPT, BY_LISTEN, BY_DIAL, BY_ACCEPT, WAYS };

static int hole[16], holes;

static void open_holes(void)
{
	while (holes)
		CHECK_EQ(close(hole[--holes]), 0);
}

/* Closes fd by close(2) and makes the kernel reuse it as `how` says. */
static void close_and_reuse(int fd, enum reuse how, int *peer, int *listener)
{
	char addr[128];
	int pair[2], l, c, s;

	*listener = *peer = -1;
	while (holes < 16 && (hole[holes] = dup(0)) < fd) /* leave no lower fd free */
		holes++;
	CHECK_EQ(close(hole[holes]), 0);
	switch (how) {
	case BY_ADOPT:
		plain_close(fd);
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		CHECK_EQ(pair[0], fd);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		CHECK_EQ(gmp_fd_adopt(pair[1]), pair[1]);
		*peer = pair[1];
		return;
	case BY_LISTEN:
		plain_close(fd);
		CHECK_EQ(listen_any("tcp", addr), fd);
		*peer = gmp_dial("tcp", addr);
		CHECK(*peer >= 0);
		return;
	case BY_DIAL:
		l = listen_any("tcp", addr);
		plain_close(fd);
		CHECK_EQ(gmp_dial("tcp", addr), fd);
		*peer = gmp_accept(l);
		CHECK(*peer >= 0);
		*listener = l;
		return;
	default:
		l = listen_any("tcp", addr);
		c = gmp_dial("tcp", addr);
		CHECK(c >= 0);
		CHECK_EQ(gmp_fd_set_deadline(l, GMP_READ, gmp_deadline(PATIENCE)), 0);
		plain_close(fd);
		s = gmp_accept(l);
		CHECK_EQ(s, fd);
		*peer = c;
		*listener = l;
	}
}

RT(plain_close_ends_waits_and_reused_fd_works)
{
	for (int how = 0; how < WAYS; how++) {
		struct call c[6];
		gmp_g *g[6];
		int a, b, peer, l, got;

		make_pair("tcp", &a, &b);
		for (int i = 0; i < 6; i++) {
			c[i] = (struct call){ .fd = a };
			g[i] = spawn(i < 2 ? read_it : i < 4 ? write_until_error : wait_it, &c[i]);
		}
		wait_parked(6);
		CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ | GMP_WRITE, gmp_deadline(PATIENCE)), 0);
		close_and_reuse(a, (enum reuse)how, &peer, &l);
		for (int i = 0; i < 6; i++) {
			join(g[i]);
			CHECK_EQ(c[i].result, -ECANCELED);
		}
		if (how == BY_LISTEN) {
			got = gmp_accept(a);
			CHECK(got >= 0);
			say(peer, "next");
			hear(got, "next");
			CHECK_EQ(gmp_close(got), 0);
		} else {
			say(peer, "next");
			hear(a, "next");
			say(a, "back");
			hear(peer, "back");
			CHECK_EQ(gmp_write_all(a, "whole", 5), 5);
			hear(peer, "whole");
		}
		CHECK_EQ(gmp_close(a), 0);
		CHECK_EQ(gmp_close(peer), 0);
		if (l >= 0)
			CHECK_EQ(gmp_close(l), 0);
		CHECK_EQ(gmp_close(b), 0);
		open_holes();
		CHECK_EQ(stats().timers, 0);
		CHECK_EQ(stats().descriptors, 0);
	}
}

RT(plain_close_ends_wait_of_external_thread)
{
	for (int i = 0; i < 5; i++) {
		struct ext_thread t;
		struct call f;
		int a, b, peer, l;

		make_pair("tcp", &a, &b);
		f = (struct call){ .fd = a };
		ext_thread_start(&t, read_it, &f);
		WAIT_FOR(atomic_load(&f.begun));
		/* By then it waits, most likely. Otherwise it reads from the reused fd. */
		gmp_sleep(2 * MS);
		close_and_reuse(a, BY_ADOPT, &peer, &l);
		say(peer, "next");
		ext_thread_join(&t);
		CHECK(f.result == -ECANCELED || f.result == -EBADF || f.result == 4);
		if (f.result != 4)
			hear(a, "next");
		close_pair(a, peer);
		open_holes();
		CHECK_EQ(gmp_close(b), 0);
	}
}

RT(plain_close_wait_ends_at_fd_deadline)
{
	struct call c;
	gmp_g *g;
	int a, b;

	make_pair("tcp", &a, &b);
	c = (struct call){ .fd = a };
	g = spawn(read_it, &c);
	wait_parked(1);
	plain_close(a);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(2 * MS)), 0);
	join(g);
	CHECK_EQ(c.result, -ETIMEDOUT);
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), -ETIMEDOUT);
	CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, GMP_FOREVER), 0);
	CHECK_EQ(gmp_fd_wait(a, GMP_READ, GMP_FOREVER), -EBADF);
	CHECK_EQ(gmp_close(a), -EBADF); /* this drops gmp's record of it */
	CHECK_EQ(gmp_read(a, &c, 1), -EBADF);
	CHECK_EQ(gmp_close(b), 0);
	CHECK_EQ(stats().descriptors, 0);
}
