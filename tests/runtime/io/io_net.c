/* SPDX-License-Identifier: MIT */
/*
 * Tests listening, dialling and accepting: addresses and their errors, deadlines, many connections,
 * and recovery from fd exhaustion.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sys/stat.h>

#include "io_util.h"

static atomic_int count;

static int has_ipv6(void)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int s = socket(AF_INET6, SOCK_STREAM, 0), ok;

	ok = s >= 0 && bind(s, (struct sockaddr *)&a, sizeof(a)) == 0;
	if (s >= 0)
		close(s);
	return ok;
}

static void check_prefix(const char *s, const char *prefix)
{
	if (strncmp(s, prefix, strlen(prefix)) != 0)
		CHECK_STR(s, prefix);
}

/* Listens at the address, checks how it is formatted, and transfers data. */
static void listen_and_talk(const char *net, const char *at, const char *prefix)
{
	char addr[128], peer[128], local[128];
	int l = gmp_listen(net, at), c, s, n;

	CHECK(l >= 0);
	n = gmp_local_addr(l, addr, sizeof(addr));
	CHECK_EQ(n, strlen(addr));
	check_prefix(addr, prefix);
	CHECK(atoi(strrchr(addr, ':') + 1) > 0);
	c = gmp_dial(net, addr);
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	say(c, "over it");
	hear(s, "over it");
	CHECK(gmp_peer_addr(s, peer, sizeof(peer)) > 0);
	CHECK(gmp_local_addr(c, local, sizeof(local)) > 0);
	CHECK_STR(strrchr(peer, ':'), strrchr(local, ':'));
	CHECK(gmp_peer_addr(c, peer, sizeof(peer)) > 0);
	CHECK_STR(strrchr(peer, ':'), strrchr(addr, ':'));
	reset_on_close(c);
	close_pair(c, s);
	CHECK_EQ(gmp_close(l), 0);
}

RT(tcp_address_is_parsed_and_formatted)
{
	listen_and_talk("tcp", "127.0.0.1:0", "127.0.0.1:");
	listen_and_talk("tcp4", "127.0.0.1:0", "127.0.0.1:");
	listen_and_talk("tcp4", ":0", "0.0.0.0:");
	listen_and_talk("tcp4", "localhost:0", "127.0.0.1:");
	listen_and_talk("tcp", ":0", has_ipv6() ? "[::]:" : "0.0.0.0:");
	listen_and_talk("tcp", "localhost:0", "");
	if (has_ipv6()) {
		listen_and_talk("tcp", "[::1]:0", "[::1]:");
		listen_and_talk("tcp6", "[::1]:0", "[::1]:");
		listen_and_talk("tcp6", ":0", "[::]:");
		listen_and_talk("tcp6", "localhost:0", "[::1]:");
	}
}

RT(listen_on_all_addresses_accepts_ipv4)
{
	char addr[128], dial[128];
	int l = gmp_listen("tcp", ":0"), c, s;

	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	snprintf(dial, sizeof(dial), "127.0.0.1%s", strrchr(addr, ':'));
	c = gmp_dial("tcp", dial);
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	/* the peer's address has the IPv4 form, which can be dialled */
	CHECK(gmp_peer_addr(s, addr, sizeof(addr)) > 0);
	CHECK_EQ(strncmp(addr, "127.0.0.1:", 10), 0);
	CHECK(gmp_local_addr(s, addr, sizeof(addr)) > 0);
	CHECK_STR(addr, dial);
	close_pair(c, s);
	CHECK_EQ(gmp_close(l), 0);
}

static void dial_without_host(const char *net, const char *at)
{
	char addr[128];
	int l = gmp_listen(net, at), c, s;

	CHECK(l >= 0);
	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	c = gmp_dial(net, strrchr(addr, ':'));
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	close_pair(c, s);
	CHECK_EQ(gmp_close(l), 0);
}

RT(dial_without_host_reaches_loopback)
{
	dial_without_host("tcp", "127.0.0.1:0");
	dial_without_host("tcp4", "127.0.0.1:0");
	if (has_ipv6())
		dial_without_host("tcp6", "[::1]:0");
}

static void dial_localhost(int l, int64_t deadline)
{
	char addr[128], name[128];
	int c, s;

	CHECK(gmp_local_addr(l, addr, sizeof(addr)) > 0);
	snprintf(name, sizeof(name), "localhost%s", strrchr(addr, ':'));
	c = gmp_dial_until("tcp", name, deadline);
	CHECK(c >= 0);
	CHECK(gmp_peer_addr(c, name, sizeof(name)) > 0);
	CHECK_STR(name, addr);
	s = gmp_accept(l);
	CHECK(s >= 0);
	close_pair(c, s);
}

/* Binds a port of 127.0.0.1 without listening: a dial is refused. six: that port of ::1. */
static int take_port(char six[64])
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(s >= 0);
	CHECK_EQ(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(getsockname(s, (struct sockaddr *)&a, &n), 0);
	snprintf(six, 64, "[::1]:%d", ntohs(a.sin_port));
	return s;
}

RT(dial_localhost_tries_both_loopback_addresses)
{
	char addr[128], name[160];
	int l = listen_any("tcp", addr), fds = count_fds(), s;

	dial_localhost(l, GMP_FOREVER);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(count_fds(), fds - 1);
	s = take_port(addr);
	if (has_ipv6()) {
		while ((l = gmp_listen("tcp", addr)) == -EADDRINUSE) { /* another process has it */
			close(s);
			s = take_port(addr);
		}
		CHECK(l >= 0);
		dial_localhost(l, GMP_FOREVER);
		dial_localhost(l, gmp_deadline(PATIENCE));
		CHECK_EQ(gmp_close(l), 0);
	}
	snprintf(name, sizeof(name), "localhost%s", strrchr(addr, ':'));
	CHECK_EQ(gmp_dial("tcp", name), -ECONNREFUSED);
	CHECK_EQ(gmp_dial("tcp4", name), -ECONNREFUSED);
	close(s);
	CHECK_EQ(count_fds(), fds - 1);
}

RT(dial_localhost_leaves_time_for_second_address)
{
	char at[128];
	struct deaf d;
	int l, c;

	make_deaf(&d);
	snprintf(at, sizeof(at), "localhost%s", strrchr(d.addr, ':'));
	CHECK_EQ(gmp_dial_until("tcp", at, gmp_deadline(20 * MS)), -ETIMEDOUT);
	snprintf(at, sizeof(at), "[::1]%s", strrchr(d.addr, ':'));
	l = gmp_listen("tcp", at);
	if (l >= 0) {
		snprintf(at, sizeof(at), "localhost%s", strrchr(d.addr, ':'));
		for (int64_t ns = 20 * MS; (c = gmp_dial_until("tcp", at, gmp_deadline(ns))) < 0;
		     ns *= 2) {
			CHECK_EQ(c, -ETIMEDOUT);
			CHECK(ns < PATIENCE);
		}
		CHECK_EQ(gmp_close(c), 0);
		CHECK_EQ(gmp_close(l), 0);
	}
	end_deaf(&d);
}

RT(local_addr_small_buffer_returns_enospc)
{
	char addr[128], small[128];
	int l = listen_any("tcp", addr), n = (int)strlen(addr);

	CHECK_EQ(gmp_local_addr(l, small, (size_t)n + 1), n);
	CHECK_STR(small, addr);
	CHECK_EQ(gmp_local_addr(l, small, (size_t)n), -ENOSPC);
	CHECK_EQ(gmp_local_addr(l, small, 1), -ENOSPC);
	CHECK_EQ(gmp_local_addr(l, small, 0), -ENOSPC);
	CHECK_EQ(gmp_close(l), 0);
}

static void check_bad(const char *net, const char *addr)
{
	CHECK_EQ(gmp_listen(net, addr), -EINVAL);
	CHECK_EQ(gmp_dial(net, addr), -EINVAL);
	CHECK_EQ(gmp_dial_until(net, addr, gmp_deadline(SEC)), -EINVAL);
	CHECK_EQ(gmp_dial_until(net, addr, 0), -EINVAL);
}

RT(listen_and_dial_bad_address_return_einval)
{
	int fds = count_fds();

	check_bad("carrier-pigeon", "127.0.0.1:80");
	check_bad("", "127.0.0.1:80");
	check_bad("tcp5", "127.0.0.1:80");
	check_bad(NULL, "127.0.0.1:80");
	check_bad("tcp", NULL);
	check_bad("tcp", "");
	check_bad("tcp", "127.0.0.1");
	check_bad("tcp", "127.0.0.1:99999");
	check_bad("tcp", "127.0.0.1:65536");
	check_bad("tcp", "127.0.0.1:-1");
	check_bad("tcp", "127.0.0.1:8x");
	check_bad("tcp", "127.0.0.1:99999999999999999999");
	check_bad("tcp", "1.2.3.4.5:80");
	check_bad("tcp", "256.0.0.1:80");
	check_bad("tcp", "no such host:80");
	check_bad("tcp", "name:port");
	check_bad("tcp", "[::1:80");
	check_bad("tcp", "[::1]80");
	check_bad("tcp", "[127.0.0.1:80");
	check_bad("tcp", "[zz]:80");
	check_bad("tcp4", "[::1]:80");
	check_bad("tcp6", "127.0.0.1:80");
	check_bad("unix", "");
	CHECK_EQ(count_fds(), fds);
}

RT(listen_and_dial_too_long_address_fail)
{
	char addr[300];

	memset(addr, 'a', sizeof(addr) - 1);
	addr[0] = '/';
	addr[sizeof(addr) - 1] = '\0';
	CHECK(gmp_listen("unix", addr) < 0);
	CHECK(gmp_dial("unix", addr) < 0);
	memset(addr, '9', sizeof(addr) - 1);
	CHECK_EQ(gmp_listen("tcp", addr), -EINVAL);
}

RT(unix_path_and_abstract_name_work)
{
	char dir[] = "/tmp/gmp-test-XXXXXX", path[128], addr[128];
	int l, c, s;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/socket", dir);
	l = gmp_listen("unix", path);
	CHECK(l >= 0);
	CHECK_EQ(gmp_local_addr(l, addr, sizeof(addr)), strlen(path));
	CHECK_STR(addr, path);
	c = gmp_dial("unix", path);
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	CHECK_EQ(gmp_peer_addr(c, addr, sizeof(addr)), strlen(path));
	CHECK_STR(addr, path);
	/* The dialler's end has no name. */
	CHECK_EQ(gmp_peer_addr(s, addr, sizeof(addr)), 0);
	CHECK_STR(addr, "");
	say(c, "path");
	hear(s, "path");
	close_pair(c, s);
	CHECK_EQ(gmp_listen("unix", path), -EADDRINUSE);
	CHECK_EQ(gmp_close(l), 0);
	unlink(path);
	CHECK_EQ(gmp_dial("unix", path), -ENOENT);
	CHECK_EQ(rmdir(dir), 0);

	l = listen_any("unix", addr);
	CHECK_EQ(addr[0], '@');
	CHECK_EQ(gmp_listen("unix", addr), -EADDRINUSE);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(gmp_dial("unix", addr), -ECONNREFUSED);
}

static void listen_at_a_name(const char *name)
{
	char addr[128];
	int l = gmp_listen("unix", name), c, s;

	CHECK(l >= 0);
	CHECK_EQ(gmp_local_addr(l, addr, sizeof(addr)), strlen(name));
	CHECK_STR(addr, name);
	c = gmp_dial("unix", addr);
	CHECK(c >= 0);
	s = gmp_accept(l);
	CHECK(s >= 0);
	close_pair(c, s);
	CHECK_EQ(gmp_close(l), 0);
}

/* An abstract name may fill sun_path; a path needs its terminating zero, too. */
RT(unix_longest_name_works_and_longer_is_enametoolong)
{
	enum { MOST = sizeof(((struct sockaddr_un *)NULL)->sun_path) };
	char name[MOST + 2];

	snprintf(name, sizeof(name), "@gmp-%0*d", MOST - 5, (int)getpid());
	CHECK_EQ(strlen(name), MOST);
	listen_at_a_name(name);
	snprintf(name, sizeof(name), "/tmp/gmp-%0*d", MOST - 1 - 9, (int)getpid());
	CHECK_EQ(strlen(name), MOST - 1);
	listen_at_a_name(name);
	unlink(name);
	snprintf(name, sizeof(name), "@gmp-%0*d", MOST - 4, (int)getpid());
	CHECK_EQ(gmp_listen("unix", name), -ENAMETOOLONG);
	snprintf(name, sizeof(name), "/tmp/gmp-%0*d", MOST - 9, (int)getpid());
	CHECK_EQ(gmp_listen("unix", name), -ENAMETOOLONG);
}

RT(listen_address_in_use_returns_eaddrinuse)
{
	char addr[128];
	int l = listen_any("tcp", addr), fds = count_fds();

	CHECK_EQ(gmp_listen("tcp", addr), -EADDRINUSE);
	CHECK_EQ(count_fds(), fds);
	CHECK_EQ(gmp_close(l), 0);
	/* The address is free again at once. */
	l = gmp_listen("tcp", addr);
	CHECK(l >= 0);
	CHECK_EQ(gmp_close(l), 0);
}

RT(dial_without_listener_returns_econnrefused)
{
	char addr[128];
	int l = listen_any("tcp", addr), fds;

	CHECK_EQ(gmp_close(l), 0);
	fds = count_fds();
	CHECK_EQ(gmp_dial("tcp", addr), -ECONNREFUSED);
	CHECK_EQ(gmp_dial_until("tcp", addr, gmp_deadline(10 * SEC)), -ECONNREFUSED);
	CHECK_EQ(count_fds(), fds);
	CHECK_EQ(stats().descriptors, 0);
}

static void dial_until_timeout(void *arg)
{
	struct deaf *d = arg;
	int64_t t = gmp_now();

	CHECK_EQ(gmp_dial_until("tcp", d->addr, t + 30 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 30 * MS);
	CHECK(gmp_now() < t + 10 * SEC);
	CHECK_EQ(gmp_dial_until("tcp", d->addr, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_dial_until("tcp", d->addr, INT64_MIN), -ETIMEDOUT);
	CHECK_EQ(gmp_dial_until("tcp", d->addr, gmp_now() - 1), -ETIMEDOUT);
}

RT(dial_until_timeout_leaks_no_fd)
{
	struct ext_thread f;
	struct deaf d;
	gmp_g *g[5];
	int fds;

	make_deaf(&d);
	fds = count_fds();
	for (int i = 0; i < 5; i++)
		g[i] = spawn(dial_until_timeout, &d);
	ext_thread_start(&f, dial_until_timeout, &d);
	for (int i = 0; i < 5; i++)
		join(g[i]);
	ext_thread_join(&f);
	CHECK_EQ(count_fds(), fds);
	CHECK_EQ(stats().descriptors, 0);
	end_deaf(&d);
}

RT(dial_until_before_deadline_connects)
{
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr), c, s;

		c = gmp_dial_until(net, addr, gmp_deadline(10 * SEC));
		CHECK(c >= 0);
		s = gmp_accept(l);
		CHECK(s >= 0);
		/* The deadline applied to the dial only. */
		say(c, "later");
		hear(s, "later");
		close_pair(c, s);
		c = gmp_dial_until(net, addr, GMP_FOREVER);
		CHECK(c >= 0);
		CHECK_EQ(gmp_close(c), 0);
		/* A past deadline makes one attempt. */
		c = gmp_dial_until(net, addr, 0);
		CHECK(c >= 0 || (c == -ETIMEDOUT && strcmp(net, "tcp") == 0));
		if (c >= 0)
			CHECK_EQ(gmp_close(c), 0);
		CHECK_EQ(gmp_close(l), 0);
	}
}

static void dial_and_keep(void *arg)
{
	int c = gmp_dial("unix", arg);

	CHECK(c >= 0);
	atomic_fetch_add(&count, 1);
	say(c, "served");
	CHECK_EQ(gmp_close(c), 0);
}

/* Listens at an abstract address whose backlog holds two connections. */
static int listen_narrow(char name[64])
{
	static atomic_int serial;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int l = socket(AF_UNIX, SOCK_STREAM, 0);
	int n = snprintf(name, 64, "@gmp-full-%d-%d", (int)getpid(), atomic_fetch_add(&serial, 1));

	CHECK(l >= 0);
	memcpy(a.sun_path + 1, name + 1, (size_t)n - 1);
	CHECK_EQ(bind(l, (struct sockaddr *)&a,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
		 0);
	CHECK_EQ(listen(l, 1), 0);
	return l;
}

RT(dial_unix_with_full_backlog_waits)
{
	char name[64];
	int l = listen_narrow(name), c;
	gmp_g *g[10];
	int64_t t;

	CHECK_EQ(gmp_fd_adopt(l), l);
	for (int i = 0; i < 10; i++)
		g[i] = spawn(dial_and_keep, name);
	WAIT_FOR(atomic_load(&count) >= 2);
	t = gmp_now();
	while ((c = gmp_dial_until("unix", name, t + 20 * MS)) >= 0)
		CHECK_EQ(gmp_close(c), 0);
	CHECK_EQ(c, -ETIMEDOUT);
	CHECK(gmp_now() >= t + 20 * MS);
	for (int served = 0; served < 10;) {
		char buf[16];

		c = gmp_accept(l);
		CHECK(c >= 0);
		if (gmp_read_full(c, buf, 6) == 6)
			served++;
		CHECK_EQ(gmp_close(c), 0);
	}
	for (int i = 0; i < 10; i++)
		join(g[i]);
	CHECK_EQ(gmp_close(l), 0);
}

static char full_unix[64];
static struct deaf full_tcp;

static void dial_full_unix(UNUSED void *arg)
{
	gmp_dial("unix", full_unix);
	CHECK(!"dial returned, although shutdown kills it");
}

static void dial_full_tcp(UNUSED void *arg)
{
	gmp_dial("tcp", full_tcp.addr);
	CHECK(!"dial returned, although shutdown kills it");
}

static void leave_diallers(UNUSED void *arg)
{
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_go(dial_full_tcp, NULL), 0);
		CHECK_EQ(gmp_go(dial_full_unix, NULL), 0);
	}
	wait_parked(6);
}

TEST_PROCS(shutdown_during_dials_leaks_no_fd)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int l = listen_narrow(full_unix), fill[2], fds;
	socklen_t n = sizeof(a);

	make_deaf(&full_tcp);
	CHECK_EQ(getsockname(l, (struct sockaddr *)&a, &n), 0);
	for (int i = 0; i < 2; i++) {
		fill[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK_EQ(connect(fill[i], (struct sockaddr *)&a, n), 0);
	}
	fds = count_fds();
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_diallers, NULL);
		CHECK_EQ(count_fds(), fds);
	}
	end_deaf(&full_tcp);
	close(l);
	close(fill[0]);
	close(fill[1]);
}

struct accepter {
	int l, id, fd;
};

static int accepted_by[16];

static void accept_one(void *arg)
{
	struct accepter *a = arg;

	a->fd = gmp_accept(a->l);
	CHECK(a->fd >= 0);
	accepted_by[atomic_load(&count)] = a->id;
	atomic_fetch_add(&count, 1);
}

RT(accept_waiters_are_served_in_fifo_order)
{
	FOR_NETS(net)
	{
		struct accepter a[10];
		char addr[128];
		gmp_g *g[10];
		int l = listen_any(net, addr), c[10];

		atomic_store(&count, 0);
		for (int i = 0; i < 10; i++) {
			a[i] = (struct accepter){ l, i, -1 };
			g[i] = spawn(accept_one, &a[i]);
			wait_parked((uint64_t)i + 1);
		}
		for (int i = 0; i < 10; i++) {
			c[i] = gmp_dial(net, addr);
			CHECK(c[i] >= 0);
			WAIT_FOR(atomic_load(&count) == i + 1);
			CHECK_EQ(accepted_by[i], i);
			join(g[i]);
		}
		for (int i = 0; i < 10; i++)
			close_pair(c[i], a[i].fd);
		CHECK_EQ(gmp_close(l), 0);
	}
}

static int crowd_fds[1000];

static void serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[64];
	ssize_t n;

	while ((n = gmp_read(fd, buf, sizeof(buf))) > 0)
		CHECK_EQ(gmp_write_all(fd, buf, (size_t)n), n);
	CHECK_EQ(gmp_close(fd), 0);
	atomic_fetch_add(&count, 1);
}

static void serve_all(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	while ((c = gmp_accept(l)) >= 0)
		CHECK_EQ(gmp_go(serve_one, (void *)(intptr_t)c), 0);
	CHECK_EQ(c, -ECANCELED);
}

RT(connections_1000_at_once_are_all_served)
{
	int n = SLOW ? 200 : 1000;

	need_descriptors(2200);
	FOR_NETS(net)
	{
		char addr[128], text[32];
		int l = listen_any(net, addr), fds = count_fds();
		gmp_g *s = spawn(serve_all, (void *)(intptr_t)l);

		atomic_store(&count, 0);
		for (int i = 0; i < n; i++) {
			crowd_fds[i] = gmp_dial(net, addr);
			CHECK(crowd_fds[i] >= 0);
		}
		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < n; i++) {
				snprintf(text, sizeof(text), "%d:%d", round, i);
				say(crowd_fds[i], text);
			}
			for (int i = n - 1; i >= 0; i--) {
				snprintf(text, sizeof(text), "%d:%d", round, i);
				hear(crowd_fds[i], text);
			}
		}
		for (int i = 0; i < n; i++)
			CHECK_EQ(gmp_close(crowd_fds[i]), 0);
		WAIT_FOR(atomic_load(&count) == n);
		CHECK_EQ(count_fds(), fds);
		CHECK_EQ(gmp_close(l), 0);
		join(s);
		CHECK_EQ(stats().descriptors, 0);
	}
}

static void drop_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char c;

	while (gmp_read(fd, &c, 1) > 0)
		;
	CHECK_EQ(gmp_close(fd), 0);
	atomic_fetch_add(&count, 1);
}

static void drop_all(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	/* the listener is closed during a call, or between two calls */
	while ((c = gmp_accept(l)) != -ECANCELED && c != -EBADF) {
		if (c >= 0)
			CHECK_EQ(gmp_go(drop_one, (void *)(intptr_t)c), 0);
		else
			CHECK_EQ(c, -ECONNABORTED);
	}
}

RT(connections_10000_reset_by_client_leak_nothing)
{
	int n = SLOW ? 500 : 10000;

	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr), fds = count_fds();
		gmp_g *s = spawn(drop_all, (void *)(intptr_t)l);

		atomic_store(&count, 0);
		for (int i = 0; i < n; i++) {
			int c = gmp_dial(net, addr);

			CHECK(c >= 0);
			reset_on_close(c);
			if (i % 3 == 0)
				say(c, "x");
			CHECK_EQ(gmp_close(c), 0);
			if (i % 100 == 99)
				WAIT_FOR(atomic_load(&count) >= i - 50);
		}
		WAIT_FOR(count_fds() == fds);
		CHECK_EQ(gmp_close(l), 0);
		join(s);
		WAIT_FOR(stats().greens == 1);
		CHECK_EQ(stats().descriptors, 0);
	}
}

RT(fd_limit_returns_emfile_and_disturbs_no_connection)
{
	check_skip_on_valgrind("Valgrind accepts, sees that the limit is passed, and closes");
	FOR_NETS(net)
	{
		struct rlimit old, low;
		char addr[128];
		int l = listen_any(net, addr), a, b, c, s, hog[1024], nhog = 0, h;

		make_pair(net, &a, &b);
		c = gmp_dial(net, addr);
		CHECK(c >= 0);
		CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
		low = old;
		low.rlim_cur = (rlim_t)c + 64; /* the harness may hold some fds */
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
		while (nhog < 1024 && (h = dup(l)) >= 0)
			hog[nhog++] = h;
		CHECK(nhog > 0 && nhog < 1024);
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(gmp_accept(l), -EMFILE);
			CHECK_EQ(gmp_dial(net, addr), -EMFILE);
			CHECK_EQ(gmp_listen(net, net[0] == 't' ? "127.0.0.1:0" : "@gmp-none"),
				 -EMFILE);
		}
		/* Other connections are not disturbed. */
		say(a, "still here");
		hear(b, "still here");
		/* The connection that was not accepted is still there when an fd is free. */
		CHECK_EQ(close(hog[--nhog]), 0);
		s = gmp_accept(l);
		CHECK(s >= 0);
		say(c, "at last");
		hear(s, "at last");
		while (nhog > 0)
			CHECK_EQ(close(hog[--nhog]), 0);
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
		close_pair(c, s);
		close_pair(a, b);
		CHECK_EQ(gmp_close(l), 0);
	}
}

static void dial_here(void *arg)
{
	FOR_NETS(net)
	{
		char addr[128];
		int l = listen_any(net, addr), c, s;

		c = gmp_dial(net, addr);
		CHECK(c >= 0);
		s = gmp_accept(l);
		CHECK(s >= 0);
		say(c, "external");
		hear(s, "external");
		close_pair(c, s);
		CHECK_EQ(gmp_close(l), 0);
	}
	atomic_fetch_add((atomic_int *)arg, 1);
}

TEST_PROCS(dial_and_accept_on_external_threads_work)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	struct ext_thread f[4];
	atomic_int done = 0;

	cfg.procs = procs;
	CHECK_EQ(gmp_start(&cfg), 0);
	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], dial_here, &done);
	for (int i = 0; i < 4; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(atomic_load(&done), 4);
	CHECK_EQ(gmp_stop(), 0);
}
