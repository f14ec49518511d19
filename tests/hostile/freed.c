/* SPDX-License-Identifier: MIT */
/*
 * Misuses the frees of gmp's objects.
 *
 *   freed twice KIND [BETWEEN]   frees an object twice, and BETWEEN other channels, of 4,000 bytes, in between
 *   freed NAME                   another misuse: see the table below
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmp.h>

static int between;

static void free_others(void)
{
	for (int i = 0; i < between; i++)
		gmp_chan_free(gmp_chan_new(1, 4000));
}

static void nothing(void *arg)
{
	(void)arg;
}

#define TWICE(kind, make)                                                                          \
	static void twice_##kind(void)                                                             \
	{                                                                                          \
		gmp_##kind *o = (make);                                                            \
                                                                                                   \
		gmp_##kind##_free(o);                                                              \
		free_others();                                                                     \
		gmp_##kind##_free(o);                                                              \
	}
TWICE(chan, gmp_chan_new(8, 4))
TWICE(timer, gmp_timer_new(nothing, NULL))
TWICE(pool, gmp_pool_new(4, NULL))
TWICE(multipool, gmp_multipool_new(2, 4, GMP_ROUND_ROBIN, NULL))
TWICE(group, gmp_group_new(4, GMP_FOREVER))
TWICE(done, gmp_done_new())
TWICE(singleflight, gmp_singleflight_new(8))

static void twice_large(void)
{
	gmp_chan *c = gmp_chan_new(1, 60000);

	gmp_chan_free(c);
	free_others();
	gmp_chan_free(c);
}

static void twice_tick(void)
{
	gmp_chan *c = gmp_tick_new(1000000, 0);

	gmp_tick_free(c);
	free_others();
	gmp_tick_free(c);
}

static gmp_timer *own;

static void free_own(void *arg)
{
	gmp_timer_free(own);
	gmp_timer_free(own);
	(void)arg;
}

static void twice_timer_own(void)
{
	own = gmp_timer_new(free_own, NULL);
	gmp_timer_set(own, gmp_now(), 0);
	gmp_sleep(1000000000);
}

static void done_chan(void)
{
	gmp_done *d = gmp_done_new();

	gmp_chan_free(gmp_done_chan(d));
	gmp_done_free(d);
}

static void other_kind(void)
{
	gmp_chan_free((gmp_chan *)(void *)gmp_singleflight_new(500));
}

static void used_chan(void)
{
	gmp_chan *c = gmp_chan_new(8, 4);
	uint64_t v = 0;

	gmp_chan_free(c);
	gmp_chan_send(c, &v);
}

static void used_singleflight(void)
{
	gmp_singleflight *t = gmp_singleflight_new(8);

	gmp_singleflight_free(t);
	gmp_singleflight_forget(t, "a", 1);
}

/* --- calls inside a singleflight --- */

static gmp_singleflight *flight;
static _Atomic bool inside;

static int stay(void *arg, void *value)
{
	(void)arg;
	(void)value;
	inside = true;
	gmp_sleep(GMP_FOREVER);
	return 0;
}

static void call_flight(void *arg)
{
	(void)arg;
	gmp_singleflight_do(flight, "a", 1, stay, NULL, NULL, NULL);
}

static void *call_thread(void *arg)
{
	call_flight(arg);
	return NULL;
}

static void inside_green(void)
{
	flight = gmp_singleflight_new(8);
	gmp_go(call_flight, NULL);
	while (!inside)
		gmp_yield();
	gmp_singleflight_free(flight);
}

static void inside_external(void)
{
	pthread_t t;

	flight = gmp_singleflight_new(8);
	pthread_create(&t, NULL, call_thread, NULL);
	while (!inside)
		gmp_yield();
	gmp_singleflight_free(flight);
}

/* No misuse: the end of a run has killed the callers, or they have given up. */
static int fly(void *arg, void *value)
{
	(void)arg;
	(void)value;
	return 0;
}

static void late_caller(void *arg)
{
	(void)arg;
	if (gmp_singleflight_do_until(flight, "a", 1, fly, NULL, NULL, NULL, gmp_deadline(1)) !=
	    -ETIMEDOUT)
		abort();
	gmp_singleflight_free(flight);
	exit(0);
}

static void inside_killed(void)
{
	flight = gmp_singleflight_new(8);
	gmp_go(call_flight, NULL);
	while (!inside)
		gmp_yield();
}

/* --- --- */

static const struct {
	const char *name;
	void (*fn)(void);
} misuses[] = {
	{ "twice chan", twice_chan },
	{ "twice large", twice_large },
	{ "twice tick", twice_tick },
	{ "twice timer", twice_timer },
	{ "twice timer_own", twice_timer_own },
	{ "twice pool", twice_pool },
	{ "twice multipool", twice_multipool },
	{ "twice group", twice_group },
	{ "twice done", twice_done },
	{ "twice singleflight", twice_singleflight },
	{ "done_chan", done_chan },
	{ "other_kind", other_kind },
	{ "used chan", used_chan },
	{ "used singleflight", used_singleflight },
	{ "inside green", inside_green },
	{ "inside external", inside_external },
	{ "inside killed", inside_killed },
};

static void app(void *arg)
{
	for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
		if (strcmp(arg, misuses[i].name) == 0) {
			misuses[i].fn();
			return;
		}
	}
	fprintf(stderr, "freed: no misuse \"%s\"\n", (char *)arg);
	exit(2);
}

int main(int argc, char **argv)
{
	char name[64];

	if (argc < 2)
		return 2;
	snprintf(name, sizeof name, "%s%s%s", argv[1], argc > 2 ? " " : "",
		 argc > 2 ? argv[2] : "");
	between = argc > 3 ? atoi(argv[3]) : 0;
	if (gmp_run(app, name, NULL))
		return 2;
	if (flight)
		gmp_run(late_caller, NULL, NULL);
	return 0;
}
