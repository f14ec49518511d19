/* SPDX-License-Identifier: MIT */
/* The same in blocking code: it leaves the entry function of a green thread. */
#include "exception.h"

extern "C" void worker(void *)
{
	gmp_block_enter();
	fails(1);
	no_jump();
}
