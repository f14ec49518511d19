/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a finding is written once per place. The same place in many green threads
 * is one finding; two places in one green thread are two, for waits, computations and sleeps, also
 * without a wait between them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <gmp.h>

#include "told.h"

static _Thread_local char scratch[8];
static volatile long sum, written; /* so that no call is a jump */
static int ends[2];

__attribute__((noinline)) void wait_here(void)
{
	GMP_TLS_CANARY(scratch);
	gmp_yield();
	sum++;
}

__attribute__((noinline)) void wait_there(void)
{
	GMP_TLS_CANARY(scratch);
	gmp_yield();
	sum++;
}

static void waits(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		wait_here();
		wait_there();
	}
}

/* Compute until it is reported: sysmon may get the CPU late. */
#define COMPUTE_UNTIL(text)                                                                        \
	for (int i = 0; i < 100 && !told(text); i++)                                               \
		for (int64_t end = gmp_deadline(200000000); gmp_now() < end;)                      \
	sum++

__attribute__((noinline)) void compute_here(void)
{
	COMPUTE_UNTIL("without a wait, in compute_here+");
}

__attribute__((noinline)) void compute_there(void)
{
	COMPUTE_UNTIL("without a wait, in compute_there+");
}

static void computes(void *arg)
{
	(void)arg;
	compute_here();
	compute_there();
}

__attribute__((noinline)) void read_here(void)
{
	char c;

	sum += read(ends[0], &c, 1);
}

__attribute__((noinline)) void read_there(void)
{
	char c;

	sum += read(ends[0], &c, 1);
}

static void *writer(void *arg)
{
	(void)arg;
	await_told(" read_here+");
	written += write(ends[1], "x", 1);
	await_told(" read_there+");
	written += write(ends[1], "x", 1);
	return NULL;
}

static void app(void *arg)
{
	enum { N = 20 };
	gmp_g *g[N];
	pthread_t t;

	(void)arg;
	for (int i = 0; i < N; i++)
		gmp_spawn(&g[i], waits, NULL, NULL);
	for (int i = 0; i < N; i++)
		gmp_join(g[i]);
	for (int i = 0; i < 3; i++)
		if (gmp_spawn(&g[i], computes, NULL, NULL) == 0)
			gmp_join(g[i]);
	if (pthread_create(&t, NULL, writer, NULL))
		exit(2);
	read_here();
	read_there();
	pthread_join(t, NULL);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "check", 1);
	c.procs = 1;
	if (pipe(ends) || gmp_run(app, NULL, &c))
		return 2;
	return written != 2 || told_times("waits with the address of a thread-local") != 2 ||
	       told_times("without a wait, in compute_here+") > 1 ||
	       told_times("without a wait, in compute_there+") > 1;
}
