/* SPDX-License-Identifier: MIT */
/* With GMP_DEBUG=check: a green thread that runs for more than 10 ms without a wait is told of, once. */
#include <stdlib.h>
#include <sys/stat.h>

#include <gmp.h>

/* What has been told so far, if stderr is a file; else -1. */
static long told(void)
{
	struct stat st;

	return fstat(2, &st) == 0 && S_ISREG(st.st_mode) ? (long)st.st_size : -1;
}

static void compute_for(int64_t ns)
{
	int64_t end = gmp_deadline(ns);

	while (gmp_now() < end)
		;
}

/* Until it has been told of: the watcher may come late to the CPU. */
__attribute__((noinline)) void compute(void)
{
	long before = told();

	for (int i = 0; i < 100; i++) {
		compute_for(200000000);
		if (told() < 0 || told() > before)
			break;
	}
}

static void busy(void *arg)
{
	(void)arg;
	compute();
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	a.name = "cruncher";
	if (gmp_spawn(&g, busy, NULL, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, NULL) != 0;
}
