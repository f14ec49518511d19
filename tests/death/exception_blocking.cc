/* SPDX-License-Identifier: MIT */
/*
 * An uncaught exception leaves the entry function of a green thread in blocking code: fatal error.
 */
#include "exception.h"

extern "C" void worker(void *)
{
	gmp_block_enter();
	fails(1);
	no_jump();
}
