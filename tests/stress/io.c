/* SPDX-License-Identifier: MIT */
/*
 * Random connections over tcp and unix sockets, with random requests and ends.
 *
 * Requests have random sizes; clients half-close and reset; servers close while clients read.
 * Checks that every answer is right and that no file descriptor leaks.
 */
#include <signal.h>

#include "stress.h"

enum { NGREEN = 24, NEXTERNAL = 2, MOST = 20000 };

static char addrs[2][128];
static int listeners[2];
static atomic_long requests, broken;
static atomic_int serving;

/* A request is a length and a byte; the answer is that many of the byte, plus one. */
struct request {
	uint32_t n;
	unsigned char byte;
};

static void serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct rng r = rng_for(10000 + (uint64_t)(uintptr_t)fd);
	unsigned char *buf = malloc(MOST);
	struct request q;

	CHECK(buf != NULL);
	for (;;) {
		ssize_t n = gmp_read_full(fd, &q, sizeof(q));

		if (n != (ssize_t)sizeof(q)) {
			CHECK(n >= 0 || n == -ECONNRESET || n == -EPIPE);
			break;
		}
		CHECK(q.n <= MOST);
		memset(buf, q.byte + 1, q.n);
		n = gmp_write_all(fd, buf, q.n);
		if (n != (ssize_t)q.n) {
			CHECK(n == -ECONNRESET || n == -EPIPE);
			break;
		}
		if (draw(&r, 200) == 0)
			break; /* and closes on the client */
	}
	CHECK_EQ(gmp_close(fd), 0);
	free(buf);
	atomic_fetch_sub(&serving, 1);
}

static void accept_all(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	while ((c = gmp_accept(l)) != -ECANCELED && c != -EBADF) {
		if (c < 0) {
			CHECK(c == -ECONNABORTED || c == -EMFILE);
			gmp_sleep(MS);
			continue;
		}
		atomic_fetch_add(&serving, 1);
		CHECK_EQ(gmp_go(serve, (void *)(intptr_t)c), 0);
	}
}

static void client(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);
	unsigned char *buf = malloc(MOST);

	CHECK(buf != NULL);
	do { /* at least once, also if the time is already over */
		unsigned which = draw(&r, 2), n = draw(&r, 50);
		int fd = draw(&r, 2) ? gmp_dial(which ? "unix" : "tcp", addrs[which])
				     : gmp_dial_until(which ? "unix" : "tcp", addrs[which],
						      gmp_deadline(10 * SEC));

		CHECK(fd >= 0);
		if (which == 0 || draw(&r, 2))
			reset_on_close(fd);
		for (unsigned i = 0; i < n; i++) {
			struct request q;
			ssize_t got;

			memset(&q, 0, sizeof(q));
			q.n = draw(&r, 8) ? draw(&r, 200) : draw(&r, MOST);
			q.byte = (unsigned char)draw(&r, 256);
			got = gmp_write_all(fd, &q, sizeof(q));
			if (got != (ssize_t)sizeof(q)) {
				CHECK(got == -EPIPE || got == -ECONNRESET);
				atomic_fetch_add(&broken, 1);
				break;
			}
			if (draw(&r, 50) == 0)
				break; /* does not wait for the answer */
			got = gmp_read_full(fd, buf, q.n);
			if (got != (ssize_t)q.n) {
				CHECK(got >= 0 || got == -ECONNRESET);
				atomic_fetch_add(&broken, 1);
				break;
			}
			for (uint32_t k = 0; k < q.n; k++) {
				if (buf[k] != (unsigned char)(q.byte + 1))
					CHECK_EQ(buf[k], (unsigned char)(q.byte + 1));
			}
			atomic_fetch_add(&requests, 1);
		}
		if (draw(&r, 4) == 0)
			(void)gmp_shutdown(fd, SHUT_WR);
		CHECK_EQ(gmp_close(fd), 0);
	} while (!stress_over());
	free(buf);
}

RT(random_connections_get_right_answers_and_leak_no_fd)
{
	struct ext_thread f[NEXTERNAL];
	gmp_g *g[NGREEN], *a[4];
	int fds = count_fds();

	need_descriptors(1000);
	stress_begin();
	for (int i = 0; i < 2; i++) {
		listeners[i] = listen_any(nets[i], addrs[i]);
		a[i] = spawn(accept_all, (void *)(intptr_t)listeners[i]);
		a[2 + i] = spawn(accept_all, (void *)(intptr_t)listeners[i]);
	}
	for (int i = 0; i < NEXTERNAL; i++)
		ext_thread_start(&f[i], client, (void *)(intptr_t)(500 + i));
	for (int i = 0; i < NGREEN; i++)
		g[i] = spawn(client, (void *)(intptr_t)(1 + i));
	for (int i = 0; i < NGREEN; i++)
		join(g[i]);
	for (int i = 0; i < NEXTERNAL; i++)
		ext_thread_join(&f[i]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_close(listeners[i]), 0);
	for (int i = 0; i < 4; i++)
		join(a[i]);
	WAIT_FOR(atomic_load(&serving) == 0 && stats().greens == 1);
	CHECK_EQ(stats().descriptors, 0);
	CHECK_EQ(count_fds(), fds);
	CHECK(atomic_load(&requests) > 0);
	fprintf(stderr, "%ld requests, %ld broken connections\n", atomic_load(&requests),
		atomic_load(&broken));
}
