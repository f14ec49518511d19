/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check,chaos, a call that may wait but need not, made with a pthread mutex held, is
 * reported, because chaos makes such calls yield at random.
 *
 * needs libgmprtcheck, needs GMP_DEBUG_CHECKS (chaos_point)
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmp.h>

enum { ROUNDS = 200 }; /* a third of the calls yield: none does in one of 10^35 runs */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static gmp_mutex inner;

__attribute__((noinline)) void lock_for_mutex(void)
{
	pthread_mutex_lock(&m);
	__asm__ volatile("");
}

__attribute__((noinline)) void lock_for_chan(void)
{
	pthread_mutex_lock(&m);
	__asm__ volatile("");
}

static void locks_free_mutex(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		lock_for_mutex();
		gmp_mutex_lock(&inner);
		gmp_mutex_unlock(&inner);
		pthread_mutex_unlock(&m);
	}
}

static void sends_with_room(void *arg)
{
	gmp_chan *c = gmp_chan_new(1, 1);
	char byte = 'x';

	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		lock_for_chan();
		gmp_chan_send(c, &byte);
		pthread_mutex_unlock(&m);
		gmp_chan_try_recv(c, &byte);
	}
	gmp_chan_free(c);
}

static int run(gmp_fn fn)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	return gmp_run(fn, NULL, &c) != 0;
}

/* One process per scenario: a finding is written at most ten times. */
int main(void)
{
	pid_t child;
	int status;

	setenv("GMP_DEBUG", "check,chaos", 1);
	child = fork();
	if (child == 0)
		return run(locks_free_mutex);
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		return 1;
	return run(sends_with_room);
}
