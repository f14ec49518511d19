/* SPDX-License-Identifier: MIT */
/* An exception that nobody catches leaves the entry function of a green thread. */
#include "exception.h"

extern "C" void worker(void *)
{
	gmp_yield();
	fails(1);
	no_jump();
}
