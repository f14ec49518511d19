/* SPDX-License-Identifier: MIT */
/* An exception that no green thread catches leaves the entry function: fatal error. */
#include "exception.h"

extern "C" void worker(void *)
{
	gmp_yield();
	fails(1);
	no_jump();
}
