/* SPDX-License-Identifier: MIT */
/* The same in blocking code: it leaves the entry function of a green thread. */
#include <stdexcept>

#include <gmp.h>

extern "C" __attribute__((noinline)) void fails(int n)
{
	if (n > 0)
		throw std::runtime_error("no such thing");
}

extern "C" void worker(void *)
{
	gmp_block_enter();
	fails(1);
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
