/* SPDX-License-Identifier: MIT */
/*
 * A program for debuggers/owntls.sh: green threads with own thread-locals stop in at_rest, on
 * several OS threads, each with another value of the thread-local `own`.
 *
 * Status 77 without own thread-locals.
 */
#include <errno.h>
#include <gmp.h>

enum { GREENS = 4 };

static _Thread_local volatile int own;
static int values[GREENS] = { 101, 102, 103, 104 };

__attribute__((noinline)) static void at_rest(int value)
{
	__asm__ volatile("" : : "r"(value) : "memory");
}

static void green(void *arg)
{
	own = *(int *)arg;
	gmp_yield();
	at_rest(*(int *)arg);
}

static void app(void *arg)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g[GREENS];

	attr.flags = GMP_OWN_TLS;
	for (int i = 0; i < GREENS; i++) {
		int err = gmp_spawn(&g[i], green, &values[i], &attr);

		if (err) {
			*(int *)arg = err;
			return;
		}
	}
	for (int i = 0; i < GREENS; i++)
		gmp_join(g[i]);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;
	int err = 0, result;

	c.procs = 2;
	result = gmp_run(app, &err, &c);
	return err == -ENOTSUP ? 77 : result != 0 || err != 0;
}
