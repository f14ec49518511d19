/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a wait while the address of a thread-local is in use is reported, and the
 * program continues. Not reported: a pinned green thread, and a wait after the last use.
 */
#include <stdlib.h>

#include <gmp.h>

static _Thread_local char scratch[64], unwaited[64];

__attribute__((noinline)) void wait_in_use(void)
{
	GMP_TLS_CANARY(scratch);
	gmp_yield();
}

__attribute__((noinline)) void wait_pinned(void)
{
	gmp_pin();
	{
		GMP_TLS_CANARY(unwaited);
		gmp_yield();
	}
	gmp_unpin();
}

__attribute__((noinline)) void wait_after_use(void)
{
	{
		GMP_TLS_CANARY(unwaited);
	}
	gmp_yield();
}

static void app(void *arg)
{
	(void)arg;
	wait_after_use();
	wait_pinned();
	wait_in_use();
	wait_after_use();
}

int main(void)
{
	GMP_TLS_CANARY(scratch); /* no report without a runtime */
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, NULL) != 0;
}
