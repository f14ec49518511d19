/* SPDX-License-Identifier: MIT */
/*
 * Runs one operation COUNT times on one P, so that callgrind can count its instructions.
 *
 *	gmp-instructions NAME COUNT
 *
 * bench/instructions runs it with two counts and divides the difference of the instructions, so
 * that start and end of the process cancel out.  Times depend on the machine; instructions show on
 * any machine that a path has become longer.
 */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR INT64_C(3600000000000)

static int64_t count, done;
static gmp_wg wg;

static void fail(const char *what)
{
	fprintf(stderr, "gmp-instructions: %s\n", what);
	exit(1);
}

static void need(int ok, const char *what)
{
	if (!ok)
		fail(what);
}

static gmp_chan *make(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int64_t), capacity);

	need(c != NULL, "no memory");
	return c;
}

/* --- two green threads yield alternately; an operation is one yield of either --- */

static void yielder(void *arg)
{
	(void)arg;
	for (int64_t i = 0; i < count / 2; i++) {
		gmp_yield();
		done++;
	}
	gmp_wg_done(&wg);
}

static void yield(void)
{
	gmp_wg_add(&wg, 2);
	need(gmp_go(yielder, NULL) == 0 && gmp_go(yielder, NULL) == 0, "gmp_go");
	gmp_wg_wait(&wg);
	done += count % 2;
}

/* --- starting --- */

static void end(void *arg)
{
	(void)arg;
	done++;
	gmp_wg_done(&wg);
}

static void go(void)
{
	for (int64_t i = 0; i < count; i++) {
		gmp_wg_add(&wg, 1);
		need(gmp_go(end, NULL) == 0, "gmp_go");
		gmp_wg_wait(&wg);
	}
}

static void counted(void *arg)
{
	(void)arg;
	done++;
}

static void join(void)
{
	for (int64_t i = 0; i < count; i++) {
		gmp_g *g;

		need(gmp_spawn(&g, counted, NULL, NULL) == 0, "gmp_spawn");
		gmp_join(g);
	}
}

/* --- channels --- */

static void buffered(void)
{
	gmp_chan *c = make(1);

	for (int64_t i = 0, v; i < count; i++) {
		gmp_chan_send(c, &i);
		gmp_chan_recv(c, &v);
		done += v == i;
	}
	gmp_chan_free(c);
}

static gmp_chan *there, *back;

static void answer(void *arg)
{
	int64_t v;

	(void)arg;
	while (gmp_chan_recv(there, &v) == 0)
		gmp_chan_send(back, &v);
	gmp_wg_done(&wg);
}

static void round_trip(void)
{
	there = make(0);
	back = make(0);
	gmp_wg_add(&wg, 1);
	need(gmp_go(answer, NULL) == 0, "gmp_go");
	for (int64_t i = 0, v; i < count; i++) {
		gmp_chan_send(there, &i);
		gmp_chan_recv(back, &v);
		done += v == i;
	}
	gmp_chan_close(there);
	gmp_wg_wait(&wg);
	gmp_chan_free(there);
	gmp_chan_free(back);
}

static void select_ready(void)
{
	gmp_chan *c[4] = { make(1), make(1), make(1), make(1) };

	for (int64_t i = 0, v; i < count; i++) {
		gmp_case cases[] = { GMP_RECV_CASE(c[0], &v), GMP_RECV_CASE(c[1], &v),
				     GMP_RECV_CASE(c[2], &v), GMP_RECV_CASE(c[3], &v) };

		gmp_chan_send(c[i % 4], &i);
		done += gmp_select(cases, 4) == i % 4 && v == i;
	}
	for (int i = 0; i < 4; i++)
		gmp_chan_free(c[i]);
}

static void select_try(void)
{
	gmp_chan *c[4] = { make(1), make(1), make(1), make(1) };

	for (int64_t i = 0, v; i < count; i++) {
		gmp_case cases[] = { GMP_RECV_CASE(c[0], &v), GMP_RECV_CASE(c[1], &v),
				     GMP_RECV_CASE(c[2], &v), GMP_RECV_CASE(c[3], &v) };

		done += gmp_select_try(cases, 4) < 0;
	}
	for (int i = 0; i < 4; i++)
		gmp_chan_free(c[i]);
}

/* --- other operations, without contention --- */

static void mutex(void)
{
	gmp_mutex m = GMP_MUTEX_INIT;

	for (int64_t i = 0; i < count; i++) {
		gmp_mutex_lock(&m);
		done++;
		gmp_mutex_unlock(&m);
	}
}

static void rwmutex(void)
{
	gmp_rwmutex rw = GMP_RWMUTEX_INIT;

	for (int64_t i = 0; i < count; i++) {
		gmp_rwmutex_rlock(&rw);
		done++;
		gmp_rwmutex_runlock(&rw);
	}
}

static void never(void *arg)
{
	(void)arg;
	fail("a timer fired an hour early");
}

/* Always with the same deadline, because reading the clock runs code of the kernel. */
static void timer(void)
{
	gmp_timer *t = gmp_timer_new(never, NULL);
	int64_t when = gmp_deadline(HOUR);

	need(t != NULL, "gmp_timer_new");
	for (int64_t i = 0; i < count; i++) {
		gmp_timer_set(t, when, 0);
		done += gmp_timer_stop(t);
	}
	gmp_timer_free(t);
}

static void block(void)
{
	for (int64_t i = 0; i < count; i++) {
		gmp_block_enter();
		gmp_block_leave();
		done++;
	}
}

static const struct op {
	const char *name;
	void (*fn)(void);
} ops[] = {
	{ "yield", yield },
	{ "go+wait", go },
	{ "spawn+join", join },
	{ "send+recv buffered", buffered },
	{ "round trip", round_trip },
	{ "select ready", select_ready },
	{ "select try", select_try },
	{ "lock+unlock", mutex },
	{ "rlock+runlock", rwmutex },
	{ "timer set+stop", timer },
	{ "block enter+leave", block },
};

static const struct op *chosen;

static void app(void *arg)
{
	(void)arg;
	chosen->fn();
}

int main(int argc, char **argv)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int n = sizeof(ops) / sizeof(ops[0]);

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (int i = 0; i < n; i++)
			puts(ops[i].name);
		return 0;
	}
	need(argc == 3, "usage: gmp-instructions NAME COUNT, or --list");
	for (int i = 0; i < n; i++)
		if (!strcmp(ops[i].name, argv[1]))
			chosen = &ops[i];
	need(chosen != NULL, "no such operation");
	count = atoll(argv[2]);
	cfg.procs = 1;
	need(gmp_run(app, NULL, &cfg) == 0, "gmp_run");
	need(done == count, "not all was done");
	return 0;
}
