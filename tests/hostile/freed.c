/* SPDX-License-Identifier: MIT */
/*
 * Misuses the frees of gmp's objects.
 *
 *   freed twice KIND [BETWEEN]   frees an object twice, and BETWEEN channels in between
 *   freed race KIND              frees an object in two threads at once
 *   freed used CALL              frees an object of a service, then makes the call CALL on it
 *   freed wrong CALL             makes the call CALL on a channel
 *   freed list                   prints each CALL
 *   freed NAME                   another misuse, see `misuses`
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

#define KIND(name, kind, make)                                                                     \
	static void *make_##name(void)                                                             \
	{                                                                                          \
		return make;                                                                       \
	}                                                                                          \
	static void free_##name(void *o)                                                           \
	{                                                                                          \
		gmp_##kind##_free(o);                                                              \
	}
KIND(chan, chan, gmp_chan_new(8, 4))
KIND(large, chan, gmp_chan_new(1, 60000))
KIND(tick, tick, gmp_tick_new(GMP_MS, GMP_MS))
KIND(timer, timer, gmp_timer_new(nothing, NULL))
KIND(pool, pool, gmp_pool_new(4, NULL))
KIND(multipool, multipool, gmp_multipool_new(2, 4, GMP_ROUND_ROBIN, NULL))
KIND(group, group, gmp_group_new(4, GMP_FOREVER))
KIND(done, done, gmp_done_new())
KIND(singleflight, singleflight, gmp_singleflight_new(8))

#define ENTRY(name)                                                                                \
	{                                                                                          \
#name, make_##name, free_##name                                                    \
	}
static const struct kind {
	const char *name;
	void *(*make)(void);
	void (*free)(void *);
} kinds[] = {
	ENTRY(chan),      ENTRY(large), ENTRY(tick), ENTRY(timer),        ENTRY(pool),
	ENTRY(multipool), ENTRY(group), ENTRY(done), ENTRY(singleflight),
};

static void twice(const struct kind *k)
{
	void *o = k->make();

	k->free(o);
	free_others();
	k->free(o);
}

/* --- two threads free one object --- */

static const struct kind *raced;
static void *object;
static pthread_barrier_t both;

static void *racer(void *arg)
{
	pthread_barrier_wait(&both);
	raced->free(object);
	return arg;
}

static void join_both(pthread_t t[2])
{
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
}

static void race(const struct kind *k)
{
	pthread_t t[2];

	raced = k;
	object = k->make();
	pthread_barrier_init(&both, NULL, 2);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&t[i], NULL, racer, NULL) != 0)
			exit(2);
	gmp_block_enter();
	join_both(t);
	gmp_block_leave();
}

/* --- other misuses --- */

static gmp_timer *own;

static void free_own(void *arg)
{
	gmp_timer_free(own);
	gmp_timer_free(own);
	(void)arg;
}

static void timer_own(void)
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

#define USED(kind, name, call)                                                                     \
	static void used_##name(void)                                                              \
	{                                                                                          \
		gmp_##kind *o = make_##kind();                                                     \
                                                                                                   \
		free_##kind(o);                                                                    \
		call;                                                                              \
	}
USED(chan, chan_len, gmp_chan_len(o))
USED(chan, chan_cap, gmp_chan_cap(o))
USED(chan, chan_try_send, gmp_chan_try_send(o, &between))
USED(chan, chan_try_recv, gmp_chan_try_recv(o, &between))
USED(done, done_wait, gmp_done_wait(o))
USED(done, done_wait_until, gmp_done_wait_until(o, 0))
USED(done, done_get, gmp_done_get(o))
USED(done, done_set, gmp_done_set(o))
USED(done, done_chan, gmp_done_chan(o))
USED(timer, timer_set, gmp_timer_set(o, GMP_FOREVER, 0))
USED(timer, timer_stop, gmp_timer_stop(o))

/* --- calls on a freed object of a service --- */

static int child(void *arg)
{
	(void)arg;
	return 0;
}

static int fly(void *arg, void *value)
{
	(void)arg;
	(void)value;
	return 0;
}

#define CALL(kind, name, ...)                                                                      \
	static void use_gmp_##kind##_##name(void *o)                                               \
	{                                                                                          \
		gmp_##kind##_##name(__VA_ARGS__);                                                  \
	}
CALL(pool, submit, o, nothing, NULL)
CALL(pool, submit_until, o, nothing, NULL, GMP_FOREVER)
CALL(pool, try_submit, o, nothing, NULL)
CALL(pool, submit_at, o, 0, nothing, NULL)
CALL(pool, invoke, o, NULL)
CALL(pool, running, o)
CALL(pool, idle, o)
CALL(pool, waiting, o)
CALL(pool, capacity, o)
CALL(pool, delayed, o)
CALL(pool, resize, o, 1)
CALL(pool, release, o, 0)
CALL(pool, reboot, o)
CALL(multipool, submit, o, nothing, NULL)
CALL(multipool, invoke, o, NULL)
CALL(multipool, at, o, 0)
CALL(multipool, running, o)
CALL(multipool, idle, o)
CALL(multipool, waiting, o)
CALL(multipool, capacity, o)
CALL(multipool, resize, o, 1)
CALL(multipool, release, o, 0)
CALL(multipool, reboot, o)
CALL(group, go, o, child, NULL)
CALL(group, try_go, o, child, NULL)
CALL(group, wait, o)
CALL(group, wait_until, o, GMP_FOREVER)
CALL(group, running, o)
CALL(group, cancel, o)
CALL(singleflight, do, o, "a", 1, fly, NULL, NULL, NULL)
CALL(singleflight, do_until, o, "a", 1, fly, NULL, NULL, NULL, 0)
CALL(singleflight, forget, o, "a", 1)

#define USE(kind, name)                                                                            \
	{                                                                                          \
		"gmp_" #kind "_" #name, make_##kind, free_##kind, use_gmp_##kind##_##name          \
	}
static const struct use {
	const char *name;
	void *(*make)(void);
	void (*free)(void *);
	void (*use)(void *);
} uses[] = {
	USE(pool, submit),
	USE(pool, submit_until),
	USE(pool, try_submit),
	USE(pool, submit_at),
	USE(pool, invoke),
	USE(pool, running),
	USE(pool, idle),
	USE(pool, waiting),
	USE(pool, capacity),
	USE(pool, delayed),
	USE(pool, resize),
	USE(pool, release),
	USE(pool, reboot),
	USE(multipool, submit),
	USE(multipool, invoke),
	USE(multipool, at),
	USE(multipool, running),
	USE(multipool, idle),
	USE(multipool, waiting),
	USE(multipool, capacity),
	USE(multipool, resize),
	USE(multipool, release),
	USE(multipool, reboot),
	USE(group, go),
	USE(group, try_go),
	USE(group, wait),
	USE(group, wait_until),
	USE(group, running),
	USE(group, cancel),
	USE(singleflight, do),
	USE(singleflight, do_until),
	USE(singleflight, forget),
};

static bool make_call(const char *name, bool wrong)
{
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
		if (strcmp(name, uses[i].name) != 0)
			continue;
		void *o = wrong ? make_chan() : uses[i].make();

		if (!wrong)
			uses[i].free(o);
		uses[i].use(o);
		return true;
	}
	return false;
}

static void list(void)
{
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		puts(uses[i].name);
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
	{ "timer_own", timer_own },
	{ "done_chan", done_chan },
	{ "other_kind", other_kind },
	{ "used chan", used_chan },
	{ "used chan_len", used_chan_len },
	{ "used chan_cap", used_chan_cap },
	{ "used chan_try_send", used_chan_try_send },
	{ "used chan_try_recv", used_chan_try_recv },
	{ "used done_wait", used_done_wait },
	{ "used done_wait_until", used_done_wait_until },
	{ "used done_get", used_done_get },
	{ "used done_set", used_done_set },
	{ "used done_chan", used_done_chan },
	{ "used timer_set", used_timer_set },
	{ "used timer_stop", used_timer_stop },
	{ "list", list },
	{ "inside green", inside_green },
	{ "inside external", inside_external },
	{ "inside killed", inside_killed },
};

static void app(void *arg)
{
	const char *name = arg;

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strncmp(name, "twice ", 6) == 0 && strcmp(name + 6, kinds[i].name) == 0) {
			twice(&kinds[i]);
			return;
		}
		if (strncmp(name, "race ", 5) == 0 && strcmp(name + 5, kinds[i].name) == 0) {
			race(&kinds[i]);
			return;
		}
	}
	if ((strncmp(name, "used ", 5) == 0 && make_call(name + 5, false)) ||
	    (strncmp(name, "wrong ", 6) == 0 && make_call(name + 6, true)))
		return;
	for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
		if (strcmp(name, misuses[i].name) == 0) {
			misuses[i].fn();
			return;
		}
	}
	fprintf(stderr, "freed: no misuse \"%s\"\n", name);
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
