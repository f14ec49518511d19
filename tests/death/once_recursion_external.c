/* SPDX-License-Identifier: MIT */
/* The function of a gmp_once calls the same once on an external thread: fatal error. */
#include <gmp.h>

static gmp_once outer = GMP_ONCE_INIT, inner = GMP_ONCE_INIT;
static volatile int survived;

static void nothing(void *arg)
{
	(void)arg;
}

static void ask_again(void *arg)
{
	(void)arg;
	gmp_once_do(&outer, nothing, NULL);
	survived = 1;
}

static void begin(void *arg)
{
	(void)arg;
	gmp_once_do(&inner, ask_again, NULL);
	survived = 1;
}

int main(void)
{
	gmp_once_do(&outer, begin, NULL);
	return 0;
}
