/* SPDX-License-Identifier: MIT */
/*
 * Which function did the call before a return address call?
 *
 * A function whose last step is a jump leaves no frame. gmp's waiting functions are such in optimised
 * builds, so the innermost frame of a parked G is often the program's, behind a call of gmp_chan_recv or
 * the like. The call instruction still says which function that was.
 */
#ifndef GMP_CALLTARGET_H
#define GMP_CALLTARGET_H

#include "base/base.h"

/* The first instruction of the function that the call before pc called, also through a stub of the
 * dynamic linker; 0: the call goes through a register or memory, or cannot be read. Reads the code by a
 * system call, so pc need not be one. */
uintptr_t call_target(uintptr_t pc);

#endif
