/* SPDX-License-Identifier: MIT */
/*
 * Deadlock with a cycle through an rwmutex held for writing, a mutex and a join; and a second
 * cycle.
 */
#include <gmp.h>

static gmp_rwmutex shelf = GMP_RWMUTEX_INIT;
static gmp_mutex desk = GMP_MUTEX_INIT;
static gmp_g *reader, *writer, *third;
/* all five Gs hold their locks, and app has spawned all of them */
static gmp_barrier all_set = GMP_BARRIER_INIT(6);

static void read_shelf(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&desk);
	gmp_barrier_wait(&all_set);
	gmp_rwmutex_rlock(&shelf);
}

static void write_shelf(void *arg)
{
	(void)arg;
	gmp_rwmutex_lock(&shelf);
	gmp_barrier_wait(&all_set);
	gmp_join(third);
}

static void wait_for_twin(void *arg)
{
	gmp_barrier_wait(&all_set);
	gmp_join(*(gmp_g **)arg);
}

static void wait_for_desk(void *arg)
{
	(void)arg;
	gmp_barrier_wait(&all_set);
	gmp_mutex_lock(&desk);
}

static void app(void *arg)
{
	static gmp_g *a, *b;

	(void)arg;
	/* 2 holds the desk and wants the shelf; 3 holds the shelf and joins 4; 4 wants the desk */
	if (gmp_spawn(&reader, read_shelf, NULL, NULL) != 0 ||
	    gmp_spawn(&writer, write_shelf, NULL, NULL) != 0 ||
	    gmp_spawn(&third, wait_for_desk, NULL, NULL) != 0)
		return;
	/* 5 and 6 join each other */
	if (gmp_spawn(&a, wait_for_twin, &b, NULL) != 0 ||
	    gmp_spawn(&b, wait_for_twin, &a, NULL) != 0)
		return;
	gmp_barrier_wait(&all_set);
	gmp_join(reader);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
