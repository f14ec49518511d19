/* SPDX-License-Identifier: MIT */
/*
 * Retry loop: calls a service with exponential backoff, and is tested in virtual time.
 *
 * call_with_retries calls a service until it succeeds, fails permanently, or the deadline passes.
 * The backoff between two calls doubles up to a minute, and has a random part. The tests run in
 * virtual time: the clock jumps over the pauses, so that the tests take milliseconds and can
 * compare times exactly.
 */
#include <gmp.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)

/* ------------------------------------------------------------------ The loop */

/* Returns 0; -EAGAIN or -ETIMEDOUT if a retry may succeed; another negative errno value if not. */
typedef int (*service_fn)(void *arg, int64_t deadline);

struct policy {
	int64_t first, most; /* shortest and longest pause */
	int64_t patience;    /* timeout of one call */
};

static const struct policy usual = { .first = 100 * MS, .most = MINUTE, .patience = 10 * SECOND };

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns a random time from pause / 2 to pause, so that clients do not retry at the same time. */
static int64_t spread(int64_t pause, unsigned *chance)
{
	*chance = *chance * 1103515245 + 12345;
	return pause / 2 + (int64_t)(*chance >> 16) % (pause / 2 + 1);
}

/* Call the service until it succeeds or fails permanently. Returns its result, -ETIMEDOUT if the
 * next pause would pass the deadline, or -ECANCELED. */
static int call_with_retries(const struct policy *p, service_fn service, void *arg,
			     int64_t deadline)
{
	unsigned chance = (unsigned)gmp_now();
	int64_t pause = p->first;

	for (;;) {
		int err = service(arg, earlier(gmp_deadline(p->patience), deadline));

		if (err != -EAGAIN && err != -ETIMEDOUT)
			return err;
		int64_t next = gmp_deadline(spread(pause, &chance));

		if (next >= deadline)
			return -ETIMEDOUT;
		err = gmp_sleep_until(next);
		if (err)
			return err; /* cancelled */
		pause = earlier(pause * 2, p->most);
	}
}

/* ----------------------------------------------------------------- The tests */

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond);   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Simulated service: until `up_from` it fails with -EAGAIN or, if `silent`, does not answer. */
struct service {
	int64_t up_from;
	int final; /* its result from `up_from` on */
	int silent;
	int calls;
};

static int ask(void *arg, int64_t deadline)
{
	struct service *s = arg;

	s->calls++;
	if (gmp_now() >= s->up_from)
		return s->final;
	if (!s->silent)
		return -EAGAIN;
	int err = gmp_sleep_until(deadline);

	return err ? err : -ETIMEDOUT;
}

static void it_goes_on_until_the_service_is_up(void)
{
	int64_t began = gmp_now();
	struct service s = { .up_from = began + 45 * MINUTE };

	CHECK(call_with_retries(&usual, ask, &s, gmp_deadline(60 * MINUTE)) == 0);
	CHECK(gmp_now() >= s.up_from && gmp_now() <= s.up_from + usual.most);
	CHECK(s.calls > 45 && s.calls < 120); /* about one per minute, once the pauses are long */
}

static void it_gives_up_in_time(void)
{
	int64_t began = gmp_now();
	struct service s = { .up_from = GMP_FOREVER };

	CHECK(call_with_retries(&usual, ask, &s, gmp_deadline(60 * MINUTE)) == -ETIMEDOUT);
	CHECK(gmp_now() - began <= 60 * MINUTE && gmp_now() - began >= 59 * MINUTE);
}

static void it_takes_no_for_an_answer(void)
{
	int64_t began = gmp_now();
	struct service s = { .final = -EACCES };

	CHECK(call_with_retries(&usual, ask, &s, GMP_FOREVER) == -EACCES);
	CHECK(s.calls == 1 && gmp_now() == began);
}

static void a_service_that_says_nothing_is_asked_again(void)
{
	int64_t began = gmp_now();
	struct service s = { .up_from = began + 5 * SECOND, .silent = 1 };

	CHECK(call_with_retries(&usual, ask, &s, GMP_FOREVER) == 0);
	CHECK(s.calls == 2);
	CHECK(gmp_now() - began >= usual.patience + usual.first / 2);
	CHECK(gmp_now() - began <= usual.patience + usual.first);
}

struct caller {
	struct service *s;
	int result;
};

static void call(void *arg)
{
	struct caller *c = arg;

	c->result = call_with_retries(&usual, ask, c->s, GMP_FOREVER);
}

static void it_can_be_cancelled_in_a_pause(void)
{
	struct service s = { .up_from = GMP_FOREVER };
	struct caller c = { &s, 0 };
	int64_t began;
	gmp_g *g;

	CHECK(gmp_spawn(&g, call, &c, NULL) == 0);
	CHECK(gmp_sleep(30 * MINUTE) == 0);
	began = gmp_now();
	CHECK(gmp_cancel(g) == 0);
	CHECK(gmp_join(g) == 0);
	CHECK(c.result == -ECANCELED && gmp_now() == began);
}

static void tests(void *arg)
{
	int64_t began = gmp_now();

	(void)arg;
	it_goes_on_until_the_service_is_up();
	it_gives_up_in_time();
	it_takes_no_for_an_answer();
	a_service_that_says_nothing_is_asked_again();
	it_can_be_cancelled_in_a_pause();
	printf("5 tests passed in %d minutes of virtual time\n",
	       (int)((gmp_now() - began) / MINUTE));
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	c.flags = GMP_VIRTUAL_TIME;
	return gmp_run(tests, NULL, &c) != 0;
}
