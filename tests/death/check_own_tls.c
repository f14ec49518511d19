/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, thread-locals of green threads with GMP_OWN_TLS are not reported as changed
 * during a wait; those of green threads without the flag on the same OS thread are.
 */
#include <errno.h>
#include <stdlib.h>

#include <gmp.h>

static _Thread_local long own_id, shared_id;
static int wrong;

__attribute__((noinline)) static long *at(long *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

static void use_own(void *arg)
{
	long value = (long)arg;

	*at(&own_id) = value;
	gmp_yield();
	wrong += *at(&own_id) != value;
}

static void use_shared(void *arg)
{
	*at(&shared_id) = (long)arg;
	gmp_yield();
}

static void app(void *unused)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g[4];

	(void)unused;
	for (int i = 0; i < 4; i++) {
		a.flags = i < 2 ? GMP_OWN_TLS : 0;
		int err = gmp_spawn(&g[i], i < 2 ? use_own : use_shared, (void *)(i + 1L), &a);

		if (err)
			exit(err == -ENOTSUP ? 77 : 2);
	}
	for (int i = 0; i < 4; i++)
		gmp_join(g[i]);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "check", 1);
	setenv("GMP_SCHED", "local", 1); /* FIFO order */
	c.procs = 1;
	return gmp_run(app, NULL, &c) || wrong;
}
