/* SPDX-License-Identifier: MIT */
/*
 * Helpers for the tests that follow Go's public tests: what a program makes is freed after the run,
 * since green threads that still exist are killed at shutdown, as in Go at the end of main.
 */
#ifndef TESTS_RUNTIME_GO_UTIL_H
#define TESTS_RUNTIME_GO_UTIL_H

#include "util.h"

enum { MADE_MOST = 1 << 17 };

static void *made_memory[MADE_MOST];
static gmp_chan *made_chans[MADE_MOST];
static atomic_int n_memory, n_chans;

UNUSED static void *make_memory(size_t bytes)
{
	void *p = calloc(1, bytes);
	int i = atomic_fetch_add(&n_memory, 1);

	CHECK(p != NULL && i < MADE_MOST);
	return made_memory[i] = p;
}

UNUSED static gmp_chan *make_chan(size_t elem_size, size_t capacity)
{
	gmp_chan *c = gmp_chan_new(elem_size, capacity);
	int i = atomic_fetch_add(&n_chans, 1);

	CHECK(c != NULL && i < MADE_MOST);
	return made_chans[i] = c;
}

UNUSED static void free_made(void)
{
	for (int i = 0; i < atomic_load(&n_memory); i++)
		free(made_memory[i]);
	for (int i = 0; i < atomic_load(&n_chans); i++)
		gmp_chan_free(made_chans[i]);
	atomic_store(&n_memory, 0);
	atomic_store(&n_chans, 0);
}

/* GO_MAIN(name) { ... }: a case at 1, 2 and 4 Ps. What make_*() returned is freed after the run. */
#define GO_MAIN(name) RT_THEN(name, free_made)

UNUSED static void go(gmp_fn fn, void *arg)
{
	CHECK_EQ(gmp_go(fn, arg), 0);
}

UNUSED static void spawn_all(gmp_fn fn, void *arg, gmp_g **g, int n)
{
	for (int i = 0; i < n; i++)
		g[i] = spawn(fn, arg);
}

UNUSED static void join_all(gmp_g **g, int n)
{
	for (int i = 0; i < n; i++)
		join(g[i]);
}

UNUSED static gmp_chan *make_ints(size_t capacity)
{
	return make_chan(sizeof(int), capacity);
}

UNUSED static void put_int(gmp_chan *c, int v)
{
	CHECK_EQ(gmp_chan_send(c, &v), 0);
}

UNUSED static int get_int(gmp_chan *c)
{
	int v = -1;

	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	return v;
}

#endif
