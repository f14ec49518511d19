/* SPDX-License-Identifier: MIT */
/*
 * Program of tests/tools/pprof.sh: green threads that compute, wait for channels and for a mutex,
 * while each kind of profile is written to the files argv[1]/cpu.pb and so on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

enum { WAITERS = 3, LOCKERS = 3 };

static const char *folder;
static atomic_int end, held;
static gmp_mutex mutex;
static gmp_chan *chan;

static void stop(int err, const char *what)
{
	if (err == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(err == -ENOTSUP ? 77 : 1);
}

CALL static void burn_cpu(void)
{
	while (!atomic_load(&end))
		;
	__asm__ volatile("" ::: "memory");
}

static void burn_entry(void *arg)
{
	(void)arg;
	burn_cpu();
	__asm__ volatile("" ::: "memory");
}

CALL static void wait_for_job(void)
{
	int v;

	gmp_chan_recv(chan, &v);
	__asm__ volatile("" ::: "memory");
}

static void wait_entry(void *arg)
{
	(void)arg;
	wait_for_job();
	__asm__ volatile("" ::: "memory");
}

CALL static void take_lock(void)
{
	gmp_mutex_lock(&mutex);
	gmp_mutex_unlock(&mutex);
}

static void lock_entry(void *arg)
{
	(void)arg;
	take_lock();
	__asm__ volatile("" ::: "memory");
}

static void hold_entry(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
	atomic_store(&held, 1);
	while (!atomic_load(&end))
		gmp_sleep(GMP_MS);
	gmp_mutex_unlock(&mutex);
}

static void write_one(const char *kind, int seconds)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.pb", folder, kind);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		stop(-errno, path);
	stop(gmp_profile_write(kind, seconds, fd), kind);
	close(fd);
}

static void spawn_named(const char *name, gmp_fn fn)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = name;
	stop(gmp_spawn(&g, fn, NULL, &a), "gmp_spawn");
	gmp_detach(g);
}

/* Wait until n green threads wait. */
static void wait_parked(uint64_t n)
{
	gmp_stats s = GMP_STATS_INIT;

	do {
		gmp_yield();
		stop(gmp_stats_get(&s), "gmp_stats_get");
	} while (s.greens_waiting != n);
}

static void app(void *arg)
{
	(void)arg;
	chan = gmp_chan_new(sizeof(int), 0);
	spawn_named("holds", hold_entry);
	while (!atomic_load(&held))
		gmp_yield();
	for (int i = 0; i < WAITERS; i++)
		spawn_named("waits", wait_entry);
	for (int i = 0; i < LOCKERS; i++)
		stop(gmp_go(lock_entry, NULL), "gmp_go");
	wait_parked(WAITERS + LOCKERS + 1);
	spawn_named("burns", burn_entry);
	write_one("green", 0);
	write_one("mutex", 0);
	write_one("wait", 1);
	write_one("cpu", 1);
	atomic_store(&end, 1);
	gmp_chan_close(chan);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	folder = argv[1];
	return gmp_run(app, NULL, NULL) ? 1 : 0;
}
