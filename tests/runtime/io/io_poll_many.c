/* SPDX-License-Identifier: MIT */
/* Tests gmp_poll of the same fds by many green and external threads at once. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/eventfd.h>

#include "io_util.h"

enum { PIPES = 12, READERS = 4, BYTES = 3000 };

static int shared[PIPES][2];
static atomic_int taken;

static void take_bytes(void *arg)
{
	struct pollfd p[PIPES + 1];
	int stop = (int)(intptr_t)arg;
	char c;

	for (;;) {
		for (int i = 0; i < PIPES; i++)
			p[i] = (struct pollfd){ .fd = shared[i][0], .events = POLLIN };
		p[PIPES] = (struct pollfd){ .fd = stop, .events = POLLIN };
		CHECK(gmp_poll(p, PIPES + 1, gmp_deadline(PATIENCE)) > 0);
		if (p[PIPES].revents)
			return;
		for (int i = 0; i < PIPES; i++)
			if (p[i].revents && read(shared[i][0], &c, 1) == 1)
				atomic_fetch_add(&taken, 1);
	}
}

static void give_bytes(void *arg)
{
	unsigned seed = (unsigned)(intptr_t)arg;

	for (int i = 0, n = check_scaled(BYTES); i < n; i++) {
		CHECK_EQ(write(shared[rand_r(&seed) % PIPES][1], "x", 1), 1);
		if (rand_r(&seed) % 3 == 0)
			gmp_yield();
	}
}

/* Half of the pipes are known to gmp; green and external threads poll them all. */
RT(poll_of_shared_descriptors_by_many_threads_loses_no_wakeup)
{
	struct ext_thread f[2];
	gmp_g *g[READERS], *w[2];
	int stop = eventfd(0, EFD_CLOEXEC);

	atomic_store(&taken, 0);
	for (int i = 0; i < PIPES; i++) {
		CHECK_EQ(pipe2(shared[i], O_CLOEXEC | O_NONBLOCK), 0);
		if (i & 1)
			CHECK_EQ(gmp_fd_adopt(shared[i][0]), shared[i][0]);
	}
	for (int i = 0; i < READERS; i++)
		g[i] = spawn(take_bytes, (void *)(intptr_t)stop);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], take_bytes, (void *)(intptr_t)stop);
	for (int i = 0; i < 2; i++)
		w[i] = spawn(give_bytes, (void *)(intptr_t)(i + 1));
	for (int i = 0; i < 2; i++)
		join(w[i]);
	WAIT_FOR(atomic_load(&taken) == 2 * check_scaled(BYTES));
	CHECK_EQ(write(stop, &(uint64_t){ 1 }, 8), 8);
	for (int i = 0; i < READERS; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	for (int i = 0; i < PIPES; i++) {
		if (i & 1)
			CHECK_EQ(gmp_fd_release(shared[i][0]), 0);
		CHECK_EQ(close(shared[i][0]), 0);
		CHECK_EQ(close(shared[i][1]), 0);
	}
	CHECK_EQ(close(stop), 0);
}
