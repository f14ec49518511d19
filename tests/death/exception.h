// SPDX-License-Identifier: MIT
// The green thread "clerk" runs worker(), which does not catch the exception of fails().
#ifndef TESTS_DEATH_EXCEPTION_H
#define TESTS_DEATH_EXCEPTION_H

#include <stdexcept>

#include <gmp.h>

extern "C" void worker(void *);

// A function that is not inlined and keeps its name.
#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

// Keeps the call before it from becoming a jump.
static inline void no_jump()
{
	__asm__ volatile("" ::: "memory");
}

extern "C" CALL void fails(int n)
{
	if (n > 0)
		throw std::runtime_error("no such thing");
}

static void app(void *)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = "clerk";
	if (gmp_spawn(&g, worker, nullptr, &a) == 0)
		gmp_join(g);
}

int main()
{
	gmp_run(app, nullptr, nullptr);
	return 0;
}

#endif
