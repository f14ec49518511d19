/* SPDX-License-Identifier: MIT */
/*
 * Overflows the stack of one G between sleeping neighbours, by frames of a given size of which only
 * the low bytes are touched.
 *
 *   frames STACK_KIB FRAME_BYTES
 *
 * The recursion ends one frame below the guard. Without a fatal error the program exits with 0, or
 * with 3 if the stack of a neighbour was overwritten.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmp.h>

enum { NEIGHBOURS = 16, MARK = 0x5a, GUARD = 64 << 10 };

/*
 * The asm keeps clang from shrinking path to the bytes that are used. The store after the call
 * keeps the compiler from turning the recursion into a loop.
 */
#define FRAME(n)                                                                                   \
	static int dig_##n(volatile int depth)                                                     \
	{                                                                                          \
		volatile char path[n];                                                             \
                                                                                                   \
		__asm__ volatile("" : : "r"(path) : "memory");                                     \
		path[0] = (char)depth;                                                             \
		if (depth > 0)                                                                     \
			path[0] = (char)dig_##n(depth - 1);                                        \
		return path[0];                                                                    \
	}
#define FRAMES(X)                                                                                  \
	X(1000) X(4200) X(8192) X(12000) X(16384) X(32768) X(65536) X(100000) X(250000) X(1048576)

FRAMES(FRAME)

#define ROW(n) { n, dig_##n },

static const struct {
	int bytes;
	int (*dig)(volatile int depth);
} digs[] = { FRAMES(ROW) };

static gmp_wg gate = GMP_WG_INIT, ready = GMP_WG_INIT;
static int stack_bytes, frame_bytes, overwritten;

static void sleeper(void *arg)
{
	volatile unsigned char mark[2048];

	(void)arg;
	for (unsigned i = 0; i < sizeof(mark); i++)
		mark[i] = MARK;
	gmp_wg_done(&ready);
	gmp_wg_wait(&gate);
	for (unsigned i = 0; i < sizeof(mark); i++)
		overwritten |= mark[i] != MARK;
}

static void digger(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < sizeof(digs) / sizeof(digs[0]); i++)
		if (digs[i].bytes == frame_bytes)
			digs[i].dig((stack_bytes + GUARD) / frame_bytes + 1);
}

static void start(gmp_g **g, gmp_fn fn, const char *name)
{
	gmp_attr a = GMP_ATTR_INIT;

	a.name = name;
	a.stack_size = (size_t)stack_bytes;
	if (gmp_spawn(g, fn, NULL, &a) != 0)
		exit(2);
}

static void app(void *arg)
{
	gmp_g *g[NEIGHBOURS], *d;

	(void)arg;
	gmp_wg_add(&ready, NEIGHBOURS);
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < NEIGHBOURS / 2; i++)
		start(&g[i], sleeper, "sleeper");
	gmp_yield();
	start(&d, digger, "digger");
	for (int i = NEIGHBOURS / 2; i < NEIGHBOURS; i++)
		start(&g[i], sleeper, "sleeper");
	gmp_wg_wait(&ready);
	gmp_join(d);
	gmp_wg_done(&gate);
	for (int i = 0; i < NEIGHBOURS; i++)
		gmp_join(g[i]);
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	if (argc != 3)
		return 2;
	stack_bytes = atoi(argv[1]) << 10;
	frame_bytes = atoi(argv[2]);
	c.procs = 1;
	gmp_run(app, NULL, &c);
	return overwritten ? 3 : 0;
}
