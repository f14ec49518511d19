/* SPDX-License-Identifier: MIT */
/*
 * Waits with deadlines, and work that only the scheduler does, beside a preloaded library that
 * replaces libc's functions (interposer.c).  Exits with 0 if each wait ends at its time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <gmp.h>

__attribute__((weak)) void interposer_begin(void);
__attribute__((weak)) void interposer_end(void);

/* The kernel's clock. */
static long long real_ms(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

enum { WAIT_MS = 40, LATE_MS = 5000 };

static void lasted(const char *what, long long begin)
{
	long long ms = real_ms() - begin;

	if (ms >= WAIT_MS - 1 && ms < LATE_MS)
		return;
	fprintf(stderr, "interposed: %s took %lld ms instead of %d\n", what, ms, WAIT_MS);
	exit(1);
}

static void must(const char *what, long result, long expected)
{
	if (result == expected)
		return;
	fprintf(stderr, "interposed: %s: %ld instead of %ld\n", what, result, expected);
	exit(1);
}

#define LASTS(call, expected)                                                                      \
	do {                                                                                       \
		long long begin_ = real_ms();                                                      \
		must(#call, (long)(call), expected);                                               \
		lasted(#call, begin_);                                                             \
	} while (0)

static gmp_chan *chan;
static gmp_mutex mutex;

static int64_t soon(void)
{
	return gmp_deadline(WAIT_MS * GMP_MS);
}

static void wait_for_all(void)
{
	int64_t now = gmp_now();
	char byte;
	int v, fd[2];

	LASTS(gmp_sleep(WAIT_MS * GMP_MS), 0);
	if (gmp_now() - now < WAIT_MS * GMP_MS || gmp_now() - now > LATE_MS * GMP_MS)
		must("gmp_now", (long)(gmp_now() - now), WAIT_MS * GMP_MS);
	LASTS(gmp_chan_recv_until(chan, &v, soon()), -ETIMEDOUT);
	LASTS(gmp_mutex_lock_until(&mutex, soon()), -ETIMEDOUT);
	if (!gmp_self())
		return;
	must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	must("gmp_fd_adopt", gmp_fd_adopt(fd[0]), fd[0]);
	must("gmp_fd_set_deadline", gmp_fd_set_deadline(fd[0], GMP_READ, soon()), 0);
	LASTS(gmp_read(fd[0], &byte, 1), -ETIMEDOUT);
	must("gmp_close", gmp_close(fd[0]), 0);
	close(fd[1]);
}

static void *external(void *arg)
{
	wait_for_all();
	return arg;
}

static void holder(void *arg)
{
	must("gmp_mutex_lock", gmp_mutex_lock(&mutex), 0);
	gmp_chan_send(arg, &(int){ 0 });
	gmp_chan_recv(arg, &(int){ 0 });
	must("gmp_mutex_unlock", gmp_mutex_unlock(&mutex), 0);
}

/* --- what needs no call of libc --- */

static gmp_chan *there, *back;
static gmp_wg done;
static gmp_sem sem;

static void echo(void *arg)
{
	int v;

	(void)arg;
	while (gmp_chan_recv(there, &v) == 0)
		gmp_chan_send(back, &v);
	gmp_wg_done(&done);
}

static void sleeper(void *arg)
{
	for (long i = 0; i < 20; i++) {
		gmp_sleep(((long)arg % 7 + 1) * GMP_MS / 4);
		gmp_sem_release(&sem, 1);
	}
	gmp_wg_done(&done);
}

static void schedule(void)
{
	int v = 0;

	gmp_wg_add(&done, 11);
	gmp_go(echo, NULL);
	for (long i = 0; i < 10; i++)
		gmp_go(sleeper, (void *)i);
	for (int i = 0; i < 20000; i++) {
		gmp_chan_send(there, &v);
		gmp_chan_recv(back, &v);
		gmp_yield();
	}
	for (int i = 0; i < 200; i++)
		gmp_sem_acquire(&sem);
	gmp_chan_close(there);
	gmp_wg_wait(&done);
}

static void app(void *arg)
{
	gmp_chan *told = gmp_chan_new(sizeof(int), 0);
	pthread_t t;

	(void)arg;
	there = gmp_chan_new(sizeof(int), 0);
	back = gmp_chan_new(sizeof(int), 0);
	chan = gmp_chan_new(sizeof(int), 0);
	must("gmp_go", gmp_go(holder, told), 0);
	gmp_chan_recv(told, &(int){ 0 });
	wait_for_all();
	must("pthread_create", pthread_create(&t, NULL, external, NULL), 0);
	gmp_blocking(pthread_join(t, NULL));
	gmp_chan_send(told, &(int){ 0 });
	if (interposer_begin)
		interposer_begin();
	schedule();
	if (interposer_end)
		interposer_end();
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 2;
	must("gmp_run", gmp_run(app, NULL, &c), 0);
	return 0;
}
