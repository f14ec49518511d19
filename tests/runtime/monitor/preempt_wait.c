/* SPDX-License-Identifier: MIT */
/*
 * Tests that a G whose P was taken can wait in every way, and that it can end the wait of another G
 * in every way.
 */
#define _GNU_SOURCE 1
#include "preempt_peers.h"

static const struct kind *kind;
static struct peer peers[PROCS_MOST];
static atomic_int waiting;

/* Both sides of the wait, with checks that the G is still the same. */
static void wait_counted(struct peer *p)
{
	gmp_g *self = gmp_self();

	CHECK(self != NULL);
	atomic_fetch_add(&waiting, 1);
	kind->wait(p);
	CHECK(gmp_self() == self);
}

/* Wait until the n Gs, and the helpers of each, are parked; then the release wakes a waiter. */
static void wait_until_parked(int n)
{
	uint64_t parked = (uint64_t)(n * (1 + kind->helpers));

	WAIT_FOR(atomic_load(&waiting) == n && stats().greens_waiting >= parked);
}

/* --- a G without a P waits --- */

static void wait_without_p(void *arg)
{
	compute_until_taken();
	wait_counted(arg);
}

/* Each wait has ended: join the peers, and check that Ps were taken. */
static void end_peers(const struct kind *k, struct peer *p, int procs)
{
	for (int i = 0; i < procs; i++)
		join(p[i].g);
	for (int i = 0; i < procs; i++)
		k->end(&p[i]);
	rivals_stop();
	CHECK(stats().preemptions >= (uint64_t)procs);
}

static void check_wait(int procs, const struct kind *k)
{
	kind = k;
	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++) {
		k->begin(&peers[i]);
		peers[i].g = spawn_large(wait_without_p, &peers[i]);
	}
	if (k->release) {
		wait_until_parked(procs);
		for (int i = 0; i < procs; i++)
			k->release(&peers[i]);
	}
	end_peers(k, peers, procs);
}

#define WAIT_CASE(name) KIND_CASE(g_without_p_waits_in, name, check_wait)

WAIT_CASE(recv)
WAIT_CASE(recv_until)
WAIT_CASE(recv_closed)
WAIT_CASE(recv_timeout)
WAIT_CASE(recv_cancelled)
WAIT_CASE(send)
WAIT_CASE(send_until)
WAIT_CASE(select)
WAIT_CASE(select_timeout)
WAIT_CASE(lock)
WAIT_CASE(lock_until)
WAIT_CASE(lock_timeout)
WAIT_CASE(rlock)
WAIT_CASE(wlock)
WAIT_CASE(cond_wait)
WAIT_CASE(sem_acquire)
WAIT_CASE(wg_wait)
WAIT_CASE(barrier)
WAIT_CASE(done_wait)
WAIT_CASE(sleep)
WAIT_CASE(join)
WAIT_CASE(group_wait)
WAIT_CASE(once)
WAIT_CASE(read)
WAIT_CASE(fd_wait)
WAIT_CASE(fd_wait_timeout)
WAIT_CASE(fd_wait_cancelled)
WAIT_CASE(poll)

/* --- a G without a P ends a wait --- */

static atomic_int all_parked;

static void wait_with_p(void *arg)
{
	wait_counted(arg);
}

/* The release happens without a P: between it and the preemption there is no other call of gmp. */
static void release_without_p(void *arg)
{
	struct peer *p = arg;

	compute_until_taken();
	COMPUTE_UNTIL(atomic_load(&all_parked));
	kind->release(p);
	compute_for(5 * MS);
}

static void check_release(int procs, const struct kind *k)
{
	gmp_g *g[PROCS_MOST];

	kind = k;
	for (int i = 0; i < procs; i++) {
		k->begin(&peers[i]);
		peers[i].g = spawn(wait_with_p, &peers[i]);
	}
	rivals_start(procs, procs);
	for (int i = 0; i < procs; i++)
		g[i] = spawn_large(release_without_p, &peers[i]);
	wait_until_parked(procs);
	atomic_store(&all_parked, 1);
	/* First the releasers: the caller owns the locks, and its join of a waiter is a cycle. */
	for (int i = 0; i < procs; i++)
		join(g[i]);
	end_peers(k, peers, procs);
}

#define RELEASE_CASE(name) KIND_CASE(g_without_p_ends_wait_in, name, check_release)

RELEASE_CASE(recv)
RELEASE_CASE(recv_until)
RELEASE_CASE(recv_closed)
RELEASE_CASE(recv_cancelled)
RELEASE_CASE(send)
RELEASE_CASE(select)
RELEASE_CASE(lock)
RELEASE_CASE(rlock)
RELEASE_CASE(wlock)
RELEASE_CASE(cond_wait)
RELEASE_CASE(sem_acquire)
RELEASE_CASE(wg_wait)
RELEASE_CASE(barrier)
RELEASE_CASE(done_wait)
RELEASE_CASE(join)
RELEASE_CASE(group_wait)
RELEASE_CASE(once)
RELEASE_CASE(read)
RELEASE_CASE(fd_wait)
RELEASE_CASE(fd_wait_cancelled)
RELEASE_CASE(poll)
