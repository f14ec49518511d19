/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a thread-local that a preempted green thread wrote just before its end is
 * ascribed to that green thread, although it ends on another OS thread.
 */
#include <gmp.h>

#include "pair.h"

static _Thread_local long request_id;
static gmp_sem written = GMP_SEM_INIT(0);

__attribute__((noinline)) static long *at(long *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

/* Continues on the same OS thread. */
static void first(void *arg)
{
	(void)arg;
	*at(&request_id) = 1;
	if (gmp_pin() || gmp_sem_acquire(&written))
		exit(2);
}

static void yields(void *arg)
{
	gmp_yield();
	(void)arg;
}

/* Computes until it has lost its P. */
static void second(void *arg)
{
	gmp_stats s = GMP_STATS_INIT;

	(void)arg;
	if (gmp_go(yields, NULL)) /* wants the P */
		exit(2);
	do {
		if (gmp_stats_get(&s))
			exit(2);
	} while (s.preempted == 0);
	*at(&request_id) = 2;
	gmp_sem_release(&written, 1);
}

int main(void)
{
	return run_pairs();
}
