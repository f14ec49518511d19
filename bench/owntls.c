/* SPDX-License-Identifier: MIT */
/*
 * Measures what own thread-locals cost, on one P.
 *
 *	gmp-owntls own|plain OPERATION COUNT
 *
 * does the operation COUNT times in green threads with or without GMP_OWN_TLS, after a warm-up,
 * and prints the nanoseconds of one, or for `parked` the bytes of one green thread. The time is CPU
 * time of the process, which other programs on the machine change less than the time of a clock.
 * bench/owntls runs both sides alternately.
 *
 *   yield    gmp_yield of two green threads in turn; half a switch there and back
 *   channel  a message to another green thread, and the answer, over two channels without a buffer
 *   spawn    gmp_spawn and gmp_join, one at a time, so that the block comes from the pool
 *   parked   COUNT green threads wait: VmRSS + VmPTE of /proc/self/status, divided by COUNT
 *   seteuid  a call of seteuid while COUNT green threads wait
 *   writes   the thread pointer is written twice, which is the least that a switch there and back
 *            can cost; no green thread, and the same on both sides
 */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arch.h"

enum { IDS = 40 }; /* calls of seteuid that are measured */

static int64_t count, done;
static unsigned flags; /* of all green threads */
static double result;
static gmp_chan *there, *back;

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "gmp-owntls: %s\n", what);
	exit(1);
}

static gmp_g *start(gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.flags = flags;
	need(gmp_spawn(&g, fn, arg, &a) == 0, "gmp_spawn");
	return g;
}

static int64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void set_time(int64_t began, int64_t n)
{
	result = (double)(cpu_now() - began) / (double)n;
}

/* --- yield --- */

static void yielder(void *arg)
{
	int64_t n = *(int64_t *)arg;

	for (int64_t i = 0; i < n; i++) {
		gmp_yield();
		done++;
	}
}

static void yields(int64_t n)
{
	int64_t each = n / 2;
	gmp_g *a = start(yielder, &each), *b = start(yielder, &each);

	gmp_join(a);
	gmp_join(b);
}

static void yield(void)
{
	yields(count / 8);
	done = 0;

	int64_t began = cpu_now();

	yields(count);
	set_time(began, count);
	need(done == count / 2 * 2, "yields are missing");
}

/* --- channel --- */

static void answer(void *arg)
{
	int64_t v;

	(void)arg;
	while (gmp_chan_recv(there, &v) == 0) {
		v++;
		need(gmp_chan_send(back, &v) == 0, "gmp_chan_send");
	}
}

static void ask(void *arg)
{
	int64_t began = 0;

	(void)arg;
	for (int64_t i = -count / 8; i < count; i++) {
		int64_t v = i;

		if (i == 0)
			began = cpu_now();
		need(gmp_chan_send(there, &v) == 0 && gmp_chan_recv(back, &v) == 0, "channel");
		need(v == i + 1, "a wrong answer");
	}
	set_time(began, count);
}

static void channel(void)
{
	there = gmp_chan_new(sizeof(int64_t), 0);
	back = gmp_chan_new(sizeof(int64_t), 0);
	need(there && back, "no memory");

	gmp_g *a = start(answer, NULL), *b = start(ask, NULL);

	gmp_join(b);
	gmp_chan_close(there);
	gmp_join(a);
	gmp_chan_free(there);
	gmp_chan_free(back);
}

/* --- spawn --- */

static void nothing(void *arg)
{
	(void)arg;
	done++;
}

static void spawn(void)
{
	int64_t began = 0;

	for (int64_t i = -count / 8; i < count; i++) {
		if (i == 0)
			began = cpu_now();
		gmp_join(start(nothing, NULL));
	}
	set_time(began, count);
	need(done == count + count / 8, "green threads have not run");
}

/* --- parked --- */

static double memory_now(void)
{
	char line[256];
	long kib, sum = 0;
	FILE *f = fopen("/proc/self/status", "re");

	need(f != NULL, "no /proc/self/status");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1 || sscanf(line, "VmPTE: %ld", &kib) == 1)
			sum += kib;
	fclose(f);
	need(sum > 0, "/proc/self/status lacks VmRSS and VmPTE");
	return (double)sum * 1024;
}

static gmp_wg gate;

static void park(void *arg)
{
	(void)arg;
	done++;
	gmp_wg_wait(&gate);
}

/* Room for COUNT green threads that wait at the gate. */
static gmp_g **room_for_all(void)
{
	gmp_g **g = calloc((size_t)count, sizeof(gmp_g *));

	need(g != NULL, "no memory");
	memset(g, 1, (size_t)count * sizeof(gmp_g *)); /* not to be counted */
	gmp_wg_add(&gate, 1);
	return g;
}

static void start_all(gmp_g **g)
{
	for (int64_t i = 0; i < count; i++)
		g[i] = start(park, NULL);
	while (done < count)
		gmp_yield();
	gmp_yield();
}

static void release_all(gmp_g **g)
{
	gmp_wg_done(&gate);
	for (int64_t i = 0; i < count; i++)
		gmp_join(g[i]);
	free(g);
}

static void parked(void)
{
	gmp_g **g = room_for_all();

	gmp_join(start(nothing, NULL));
	done = 0;

	double before = memory_now();

	start_all(g);
	result = (memory_now() - before) / (double)count;
	release_all(g);
}

/* --- seteuid --- */

static void set_ids(void)
{
	gmp_g **g = room_for_all();

	start_all(g);

	int64_t began = cpu_now();

	for (int i = 0; i < IDS; i++)
		need(seteuid(geteuid()) == 0, "seteuid");
	set_time(began, IDS);
	release_all(g);
}

/* --- writes --- */

static void writes(void)
{
	void *tp = arch_tp();
	int64_t began = cpu_now();

	for (int64_t i = 0; i < count; i++) {
		arch_set_tp(tp);
		arch_set_tp(tp);
	}
	set_time(began, count);
}

static const struct {
	const char *name;
	void (*fn)(void);
} operations[] = {
	{ "yield", yield },   { "channel", channel }, { "spawn", spawn },
	{ "parked", parked }, { "seteuid", set_ids }, { "writes", writes },
};

static void run(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;
	size_t i = 0;

	a.flags = GMP_OWN_TLS;
	if (gmp_spawn(&g, nothing, NULL, &a) != 0)
		exit(77); /* not on this machine */
	gmp_join(g);
	done = 0;
	while (i < sizeof(operations) / sizeof(operations[0]) &&
	       strcmp(operations[i].name, arg) != 0)
		i++;
	need(i < sizeof(operations) / sizeof(operations[0]), "no such operation");
	operations[i].fn();
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	need(argc == 4, "usage: gmp-owntls own|plain OPERATION COUNT");
	flags = strcmp(argv[1], "own") == 0 ? GMP_OWN_TLS : 0;
	count = atoll(argv[3]);
	need(count >= 16, "COUNT is less than 16");
	c.procs = 1;
	need(gmp_run(run, argv[2], &c) == 0, "gmp_run");
	printf("%.2f\n", result);
	return 0;
}
