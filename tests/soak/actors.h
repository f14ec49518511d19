/* SPDX-License-Identifier: MIT */
/*
 * Actors that use all of gmp.h and check the results.
 *
 * Each kind of work is an actor (soak.h): connections, datagrams, files, names, children, signals,
 * timers, channels, locks, blocking code, cancellation, external threads, deep stacks, a changing
 * number of Ps, pools, groups and more.  Two actors disturb the others: hog takes all file
 * descriptors, and interrupts sends a signal every 100 us.
 */
#ifndef TESTS_SOAK_ACTORS_H
#define TESTS_SOAK_ACTORS_H

#include "soak.h"

#include <netdb.h>
#include <spawn.h>
#include <sys/time.h>

enum { DESCRIPTORS = 500, MOST_THREADS = 60, LARGE = 20000 };

static char folder[] = "/tmp/gmp-soak-XXXXXX";
static atomic_uint serial;

static void nap(struct rng *r, unsigned us)
{
	gmp_sleep((int64_t)draw(r, us) * US);
}

/* Sleeps for the whole time, also if a signal interrupts the call. */
static void kernel_sleep(unsigned us)
{
	struct timespec t = { 0, (long)us * 1000 };

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

#include "actors_io.h"
/* these use functions of actors_io.h */
#include "actors_inside.h"
#include "actors_outside.h"
#include "actors_together.h"

static struct actor actors[] = {
	{ "connections", connections, 6, 0 },
	{ "datagrams", datagrams, 1, 0 },
	{ "descriptors", descriptors, 3, 0 },
	{ "files", files, 3, 0 },
	{ "names", names, 2, 0 },
	{ "children", children, 2, 0 },
	{ "signals", signals, 2, 0 },
	{ "interrupts", interrupts, 1, 0 },
	{ "timers", timers, 3, 0 },
	{ "channels", channels, 2, 0 },
	{ "locks", locks, 2, 0 },
	{ "blocking", blocking, 6, 0 },
	{ "computing", computing, 1, 0 },
	{ "procs", procs, 1, 0 },
	{ "external", external_threads, 2, 0 },
	{ "burst", burst, 1, 0 },
	{ "stacks", stacks, 1, 0 },
	{ "cancelling", cancelling, 2, 0 },
	{ "dumps", dumps, 1, 0 },
	{ "hog", hog, 1, 0 },
	{ "pools", pools, 2, 0 },
	{ "groups", groups, 2, 0 },
	{ "flights", flights, 1, 0 },
	{ "locals", locals, 1, 0 },
	{ "done", done_objects, 1, 0 },
	{ "meetings", meetings, 1, 0 },
	{ "tries", tries, 2, 0 },
};
enum { ACTORS = sizeof(actors) / sizeof(actors[0]) };

/* Called before the first run; actors_end is called after the last run. */
static void actors_begin(void)
{
	const struct rlimit few = { DESCRIPTORS, DESCRIPTORS };
	const struct sigaction sa = { .sa_handler = on_signal };

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR2, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	CHECK(mkdtemp(folder) != NULL);
}

static void actors_end(void)
{
	CHECK_EQ(rmdir(folder), 0);
	print_actors(actors, ACTORS);
}

#endif
