/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread that keeps the address of a thread-local and resumes on
 * another OS thread is reported, with the place of the variable. Not reported: a green thread that
 * takes the address again, and a green thread that stays on its OS thread.
 */
#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <gmp.h>

static _Thread_local struct {
	char unused[4711];
	char kept[64];
} here;

static gmp_chan *from[2], *done;
static atomic_int pinned;
static int *volatile thread; /* identifies an OS thread: the address of its errno */

__attribute__((noinline)) static int same_thread(void)
{
	return thread == gmp_errno_here();
}

__attribute__((noinline)) static void note_thread(void)
{
	thread = gmp_errno_here();
}

/* Wait until the OS thread changes: a woken G runs on its waker's thread unless it is stolen. */
static void wait_elsewhere(void)
{
	int v;

	for (int i = 0; same_thread(); i++)
		gmp_chan_recv(from[i % 2], &v);
}

__attribute__((noinline)) void keeps_address(void)
{
	char *volatile p = here.kept;

	note_thread();
	wait_elsewhere();
	p[0] = 'x'; /* the other thread's */
}

__attribute__((noinline)) void keeps_errno(void)
{
	int *volatile p = gmp_errno_here();

	note_thread();
	wait_elsewhere();
	*p = 0;
}

/* A thread-local of libc that usually has no public symbol. */
__attribute__((noinline)) void keeps_nameless(void)
{
	const unsigned short **volatile p = __ctype_b_loc();

	note_thread();
	wait_elsewhere();
	*p = *__ctype_b_loc();
}

__attribute__((noinline)) static void write_here(void)
{
	__asm__ volatile("" ::: "memory");
	here.kept[0] = 'x';
}

__attribute__((noinline)) void keeps_nothing(void)
{
	note_thread();
	write_here();
	wait_elsewhere();
	write_here();
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
	(void)arg;
	done = gmp_chan_new(sizeof(int), 0);
	for (int i = 0; i < 2; i++) {
		from[i] = gmp_chan_new(sizeof(int), 0);
		gmp_go(send_on, from[i]);
	}
	keeps_nothing();
	keeps_address();
	keeps_nothing();
	keeps_errno();
	keeps_nothing();
	keeps_nameless();
	keeps_nothing();
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
