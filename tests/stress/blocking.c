/* SPDX-License-Identifier: MIT */
/*
 * Green threads that block in three ways exchange elements while the number of Ps changes.
 *
 * They are locked to their OS threads, in blocking code, or asleep in the kernel outside of
 * blocking code.  Checks that a locked green thread keeps its OS thread, that no element is lost,
 * and that the number of OS threads stays within max_threads.
 */
#define _GNU_SOURCE 1
#include "stress.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { NGREEN = 24, NCHAN = 3, MOST_THREADS = 40 };

static gmp_chan *chans[NCHAN];
static atomic_long sent, received, ops;

static __attribute__((noinline)) long thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return syscall(SYS_gettid);
}

static void pass_on(struct rng *r)
{
	gmp_chan *c = chans[draw(r, NCHAN)];
	int64_t until = gmp_deadline(draw(r, 100) * US);
	int v = 1;

	if (draw(r, 2)) {
		if (gmp_chan_send_until(c, &v, until) == 0)
			atomic_fetch_add(&sent, 1);
	} else if (gmp_chan_recv_until(c, &v, until) == 0) {
		CHECK_EQ(v, 1);
		atomic_fetch_add(&received, 1);
	}
}

static void worker(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);
	int locks = 0;
	long here = 0;

	while (!stress_over()) {
		switch (draw(&r, 16)) {
		case 0:
			if (gmp_lock_thread() == 0 && locks++ == 0)
				here = thread_id();
			break;
		case 1:
		case 2:
			if (locks > 0) {
				locks--;
				CHECK_EQ(gmp_unlock_thread(), 0);
			}
			break;
		case 3: in_blocking_code(draw(&r, 400)); break;
		case 4:
			gmp_block_enter();
			pass_on(&r); /* takes the path of external threads */
			gmp_block_leave();
			break;
		case 5:
			if (draw(&r, 50) == 0)
				kernel_sleep(draw(&r, 2000));
			break;
		case 6: gmp_sleep((int64_t)draw(&r, 100) * US); break;
		case 7: gmp_yield(); break;
		case 8:
		case 9: in_blocking_code(0); break;
		default: pass_on(&r);
		}
		if (locks)
			CHECK_EQ(thread_id(), here);
		atomic_fetch_add(&ops, 1);
	}
	if (draw(&r, 2))
		while (locks-- > 0)
			CHECK_EQ(gmp_unlock_thread(), 0);
}

static void app(void *arg)
{
	int procs = *(int *)arg, v;
	struct rng r = rng_for(0);
	gmp_g *g[NGREEN];

	for (int i = 0; i < NCHAN; i++)
		chans[i] = gmp_chan_new(sizeof(int), (size_t)i * 2);
	for (int i = 0; i < NGREEN; i++)
		g[i] = spawn(worker, (void *)(intptr_t)(1 + i));
	while (!stress_over()) {
		CHECK(gmp_set_procs(1 + (int)draw(&r, 5)) > 0);
		gmp_sleep((int64_t)draw(&r, 2000) * US);
		CHECK(stats().threads <= MOST_THREADS);
	}
	CHECK(gmp_set_procs(procs) > 0);
	for (int i = 0; i < NGREEN; i++)
		join(g[i]);
	for (int i = 0; i < NCHAN; i++) {
		while (gmp_chan_try_recv(chans[i], &v) == 0)
			atomic_fetch_add(&received, 1);
		gmp_chan_free(chans[i]);
	}
	CHECK_EQ(atomic_load(&sent), atomic_load(&received));
	WAIT_FOR(stats().greens_blocked == 0 && stats().greens == 1);
	fprintf(stderr, "%ld operations, %ld elements, %llu hand-offs, %llu preemptions\n",
		atomic_load(&ops), atomic_load(&sent), (unsigned long long)stats().handoffs,
		(unsigned long long)stats().preemptions);
}

TEST_PROCS(chan_ring_with_blocked_and_locked_threads_loses_no_element)
{
	gmp_config c = GMP_CONFIG_INIT;

	stress_begin();
	c.procs = procs;
	c.max_threads = MOST_THREADS;
	CHECK_EQ(gmp_run(app, &procs, &c), 0);
}
