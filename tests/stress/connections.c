/* SPDX-License-Identifier: MIT */
/*
 * Leak test: opens, uses and closes a hundred thousand connections in all ways.
 *
 * The number of file descriptors, green threads and OS threads, and the memory of the process, must
 * not grow with the number of connections.
 */
#include "stress.h"

enum { CLIENTS = 64 };

static char addrs[2][128];
static atomic_long begun, served;
static long wanted;

static void serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char c;
	ssize_t n;

	while ((n = gmp_read(fd, &c, 1)) == 1 && c != 'q')
		if (gmp_write(fd, &c, 1) != 1)
			break;
	CHECK(n >= 0 || n == -ECONNRESET);
	CHECK_EQ(gmp_close(fd), 0);
	atomic_fetch_add(&served, 1);
}

static void accept_all(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	while ((c = gmp_accept(l)) != -ECANCELED && c != -EBADF) {
		CHECK(c >= 0);
		CHECK_EQ(gmp_go(serve, (void *)(intptr_t)c), 0);
	}
}

static void use(int fd, long i)
{
	char c = 'x';

	switch (i % 5) {
	case 0: break; /* closed unused */
	case 1: CHECK_EQ(gmp_write(fd, "q", 1), 1); break;
	case 2: /* the server closes first */
		CHECK_EQ(gmp_write(fd, "q", 1), 1);
		CHECK_EQ(gmp_read(fd, &c, 1), 0);
		break;
	case 3:
		CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, gmp_deadline(PATIENCE)), 0);
		CHECK_EQ(gmp_write(fd, &c, 1), 1);
		CHECK_EQ(gmp_read(fd, &c, 1), 1);
		CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
		CHECK_EQ(gmp_read(fd, &c, 1), 0);
		break;
	default:
		CHECK_EQ(gmp_write(fd, &c, 1), 1); /* the answer stays unread */
		break;
	}
}

static void open_and_close(UNUSED void *arg)
{
	for (long i; (i = atomic_fetch_add(&begun, 1)) < wanted;) {
		int which = (int)(i / 5 % 2), fd = gmp_dial(nets[which], addrs[which]);

		CHECK(fd >= 0);
		use(fd, i);
		if (which == 0)
			reset_on_close(fd);
		CHECK_EQ(gmp_close(fd), 0);
	}
	atomic_fetch_sub(&begun, 1);
}

static void run_up_to(long n)
{
	gmp_g *g[CLIENTS];

	wanted = n;
	for (int i = 0; i < CLIENTS; i++)
		g[i] = spawn(open_and_close, NULL);
	for (int i = 0; i < CLIENTS; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&begun), n);
	WAIT_FOR(atomic_load(&served) == n);
}

RT(connections_closed_in_every_way_leak_nothing)
{
	long n = check_scaled(SANITIZED ? 25000 : 100000), kb;
	gmp_g *a[2];
	int l[2], fds, threads;

	need_descriptors(1000);
	for (int i = 0; i < 2; i++) {
		l[i] = listen_any(nets[i], addrs[i]);
		a[i] = spawn(accept_all, (void *)(intptr_t)l[i]);
	}
	fds = count_fds();
	run_up_to(n / 10);
	WAIT_FOR(stats().greens == 3);
	kb = rss_kb();
	threads = count_threads();
	run_up_to(n);
	WAIT_FOR(stats().greens == 3);
	CHECK_EQ(stats().descriptors, 2);
	CHECK_EQ(count_fds(), fds);
	/* Bound by the Gs, not by n: on a busy machine each client, its peer and the two that
	 * accept may be preempted at once (PREEMPT-4), and two Ms are spare. */
	CHECK(count_threads() <= threads + 2 * CLIENTS + 4);
	fprintf(stderr, "%ld KiB, then %ld KiB\n", kb, rss_kb());
	if (!SANITIZED) /* sanitizers keep history and quarantine freed memory */
		CHECK(rss_kb() <= kb + 1024);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_close(l[i]), 0);
		join(a[i]);
	}
	CHECK_EQ(stats().descriptors, 0);
}
