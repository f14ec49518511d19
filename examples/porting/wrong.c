/* SPDX-License-Identifier: MIT */
/*
 * Makes a mistake of a port to gmp that compiles and often passes unnoticed (docs/porting.md).
 *
 *   $ GMP_DEBUG=check porting_wrong MISTAKE
 *
 * MISTAKE names the mistake; docs/porting.md shows what GMP_DEBUG=check reports about each.
 */
#include <errno.h>
#include <gmp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int client;
static pthread_key_t session;
static gmp_barrier both = GMP_BARRIER_INIT(2);
static volatile unsigned long sum;
static volatile bool moved; /* a wait has ended on another OS thread */

#define NOINLINE __attribute__((noinline))

NOINLINE void checksum(void)
{
	int64_t end = gmp_now() + 200 * GMP_MS;

	while (gmp_now() < end)
		for (unsigned i = 0; i < 100000; i++)
			sum += i;
}

static void computes(void *arg)
{
	(void)arg;
	checksum();
}

NOINLINE void wait_for_input(void)
{
	char c;
	int p[2];

	if (pipe(p) == 0 && fork() == 0) {
		usleep(200000);
		_exit(0); /* closes the writing end */
	}
	close(p[1]);
	if (read(p[0], &c, 1) != 0)
		abort();
	close(p[0]);
}

static void blocks(void *arg)
{
	(void)arg;
	wait_for_input();
}

NOINLINE void write_log(void)
{
	pthread_mutex_lock(&lock);
	gmp_sleep(1 * GMP_MS); /* or gmp_write */
	pthread_mutex_unlock(&lock);
}

static void holds_mutex(void *arg)
{
	(void)arg;
	write_log();
}

NOINLINE void set_client(int fd)
{
	client = fd;
	__asm__ volatile("" ::: "memory");
}

NOINLINE void set_session(void *s)
{
	pthread_setspecific(session, s);
	__asm__ volatile("");
}

/* Wait until both green threads are here. */
NOINLINE void wait_for_request(void)
{
	gmp_barrier_wait(&both);
	__asm__ volatile("");
}

NOINLINE int get_client(void)
{
	__asm__ volatile("" ::: "memory");
	return client;
}

static void sets_local(void *arg)
{
	int fd = (int)(intptr_t)arg;

	set_client(fd);
	wait_for_request();
	printf("client %d, set to %d\n", get_client(), fd);
}

static void sets_key(void *arg)
{
	set_session(arg);
	wait_for_request();
}

/* Compute, so that the OS thread is taken, until a wait has ended on another one. */
static void computes_meanwhile(void *arg)
{
	(void)arg;
	while (!moved)
		;
}

/* Keep the address of a thread-local across a wait that ends on another OS thread. */
NOINLINE void read_request(void)
{
	int *volatile e = &errno;

	while (!moved) {
		gmp_go(computes_meanwhile, NULL);
		gmp_sleep(1 * GMP_MS);
		if (gmp_errno_here() != e)
			moved = true;
	}
	*e = 0;
}

static void keeps_errno(void *arg)
{
	(void)arg;
	read_request();
}

NOINLINE void parse(volatile char *s)
{
	volatile char path[300 << 10];

	path[0] = s[0];
	path[sizeof(path) - 1] = s[0];
	__asm__ volatile("" : : "r"(path) : "memory"); /* otherwise clang removes `path` */
}

static void overflows(void *arg)
{
	char c = 'x';

	(void)arg;
	parse(&c);
}

static const struct {
	const char *name;
	gmp_fn fn;
} mistakes[] = {
	{ "computes", computes },       { "blocks", blocks }, { "mutex", holds_mutex },
	{ "thread-local", sets_local }, { "key", sets_key },  { "errno", keeps_errno },
	{ "overflow", overflows },
};

/* Start two green threads that make the same mistake. */
static void app(void *arg)
{
	gmp_g *g[2];

	for (int i = 0; i < 2; i++) {
		gmp_attr a = GMP_ATTR_INIT;

		a.name = i == 0 ? "first" : "second";
		if (gmp_spawn(&g[i], *(gmp_fn *)arg, (void *)(intptr_t)(i + 1), &a) != 0)
			abort();
	}
	for (int i = 0; i < 2; i++)
		gmp_join(g[i]);
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	pthread_key_create(&session, NULL);
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		gmp_fn fn = mistakes[i].fn;

		if (argc != 2 || strcmp(argv[1], mistakes[i].name) != 0)
			continue;
		return gmp_run(app, &fn, &c) != 0;
	}
	fprintf(stderr, "usage: porting_wrong MISTAKE (computes, blocks, mutex ...)\n");
	return 2;
}
