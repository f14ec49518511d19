/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, the time that the runtime needs to write a finding is not a finding. stderr
 * is a full pipe for 100 ms: first at a wait, where the scheduler's stack writes, then on the green
 * thread's stack.
 */
#include "slow_stderr.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include <gmp.h>

static _Thread_local char scratch[8];
static int late;
static volatile int sum; /* so that no call is a jump */

static void *wait_and_let_go(void *arg)
{
	struct timespec ms = { .tv_nsec = 1000000 }, length = { .tv_nsec = 100000000 };

	while (!slow_is_written_to()) /* a thread that blocks gives no event */
		nanosleep(&ms, NULL);
	nanosleep(&length, NULL); /* of the write, which sysmon must not report after 10 ms */
	slow_let_go();
	return arg;
}

__attribute__((noinline)) void wait_in_use(void)
{
	GMP_TLS_CANARY(scratch);
	gmp_yield();
	sum++;
}

static void next_connection(void *arg)
{
	(void)arg;
	gmp_fd_adopt(late);
	sum++;
	gmp_fd_wait(late, GMP_READ, GMP_FOREVER);
}

static void release_late(void)
{
	int s[2], t[2];
	gmp_g *g;

	socketpair(AF_UNIX, SOCK_STREAM, 0, s);
	socketpair(AF_UNIX, SOCK_STREAM, 0, t);
	late = gmp_fd_adopt(s[0]);
	dup2(t[0], late); /* what a library does: close and reopen */
	gmp_spawn(&g, next_connection, NULL, NULL);
	while (!sum)
		gmp_yield();
	sum += gmp_fd_release(late);
	sum += (int)write(t[1], "x", 1);
	gmp_join(g);
}

static void app(void *arg)
{
	if (*(int *)arg)
		release_late();
	else
		wait_in_use();
}

static int run(int on_own_stack)
{
	gmp_config c = GMP_CONFIG_INIT;
	pthread_t t;

	setenv("GMP_DEBUG", "check", 1);
	c.procs = 1;
	if (pthread_create(&t, NULL, wait_and_let_go, NULL))
		return 2;
	return gmp_run(app, &on_own_stack, &c) || pthread_join(t, NULL);
}

static int at_wait(void)
{
	return run(0);
}

static int on_own_stack(void)
{
	return run(1);
}

int main(void)
{
	return slow_run(at_wait) || slow_run(on_own_stack);
}
