/* SPDX-License-Identifier: MIT */
/*
 * Switches COUNT times between two stacks and back, so that bench/switch can count instructions.
 *
 *	switch_count COUNT
 *
 * Compiled with context_<arch>.S: by gmp's switch.  Compiled with BOOST: by Boost.Context's.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 64 * 1024 };

static char stack[STACK] __attribute__((aligned(64)));

#ifdef BOOST
struct transfer {
	void *from, *data;
};

struct transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *top, size_t size, void (*fn)(struct transfer));

static void other(struct transfer t)
{
	for (;;)
		t = jump_fcontext(t.from, NULL);
}

static void switch_often(long count)
{
	struct transfer t = { make_fcontext(stack + STACK, STACK, other), NULL };

	for (long i = 0; i < count; i++)
		t = jump_fcontext(t.from, NULL);
}
#else
int gmp__mcall(void *save, int (*fn)(void *), void *arg, void *g0);
int gmp__gogo(void *ctx, int result, void *g0);
int gmp__gstart(void *arg, int (*fn)(void *), void *stack, uint64_t fpwords, void *g0);

static char scheduler[STACK] __attribute__((aligned(64)));
static void *const g0 = scheduler + STACK;
static void *here, *there; /* what struct context holds */

void gmp__leaves_entry(void); /* the personality of gstart; no exception is thrown */
void gmp__leaves_entry(void)
{
}

/* What the scheduler does between two Gs, at least: on g0, resume the next. */
int resume_g0(void *next);
int resume_g0(void *next)
{
	return gmp__gogo(next, 0, g0);
}

static int other(void *arg)
{
	(void)arg;
	for (;;)
		gmp__mcall(&there, resume_g0, &here, g0);
	return 0;
}

static int begin_other_g0(void *arg)
{
	uint64_t words; /* the head of g0, as mcall wrote it */

	memcpy(&words, (char *)g0 - sizeof(words), sizeof(words));
	return gmp__gstart(arg, other, stack + STACK, words, g0);
}

static void switch_often(long count)
{
	gmp__mcall(&here, begin_other_g0, NULL, g0);
	for (long i = 1; i < count; i++)
		gmp__mcall(&here, resume_g0, &there, g0);
}
#endif

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	switch_often(atol(argv[1]));
	return 0;
}
