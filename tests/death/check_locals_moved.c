/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a thread-local that a green thread wrote before a wait that ends on another
 * OS thread is reported, except for a green thread that is locked to its thread.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <gmp.h>

static _Thread_local int session, locked_session;

static gmp_chan *from[2], *done;
static atomic_int pinned;
static int *volatile thread; /* identifies an OS thread: the address of its errno */

__attribute__((noinline)) static int *at(int *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) static void write_it(void)
{
	*at(&session) = 4711;
}

__attribute__((noinline)) static int same_thread(void)
{
	return thread == gmp_errno_here();
}

/* Wait until the OS thread changes: a woken G runs on its waker's thread unless it is stolen. */
__attribute__((noinline)) void wait_elsewhere(void)
{
	int v;

	thread = gmp_errno_here();
	for (int i = 0; same_thread(); i++)
		gmp_chan_recv(from[i % 2], &v);
}

/* Locks its OS thread before other Gs are pinned. */
static void keeps_locked(void *arg)
{
	if (gmp_lock_thread())
		exit(2);
	*at(&locked_session) = 4711;
	gmp_chan_send(done, arg);
	for (int i = 0; i < 100; i++)
		gmp_chan_recv(from[i % 2], arg);
}

/* Gs that run at the same time are on different OS threads. */
static void send_on(void *c)
{
	int v = 1;

	atomic_fetch_add(&pinned, 1);
	while (atomic_load(&pinned) < 2)
		;
	gmp_pin();
	while (gmp_chan_send(c, &v) == 0)
		;
	gmp_chan_send(done, &v);
}

static void app(void *arg)
{
	int v;
	gmp_g *g;

	(void)arg;
	done = gmp_chan_new(sizeof(int), 0);
	for (int i = 0; i < 2; i++)
		from[i] = gmp_chan_new(sizeof(int), 0);
	if (gmp_spawn(&g, keeps_locked, &v, NULL))
		exit(2);
	gmp_chan_recv(done, &v);
	for (int i = 0; i < 2; i++)
		gmp_go(send_on, from[i]);
	write_it();
	wait_elsewhere();
	gmp_join(g);
	for (int i = 0; i < 2; i++)
		gmp_chan_close(from[i]);
	for (int i = 0; i < 2; i++)
		gmp_chan_recv(done, NULL);
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 2;
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, &cfg) != 0;
}
