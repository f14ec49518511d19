/* SPDX-License-Identifier: MIT */
/*
 * Call target: decodes the call instruction before a return address.
 *
 * A function that ends in a tail call leaves no frame.  In optimised builds the waiting functions
 * of gmp do, so the innermost frame of a parked G is often the program's, just after a call of
 * gmp_chan_recv or the like.  The call instruction still names that function.
 */
#ifndef GMP_CALLTARGET_H
#define GMP_CALLTARGET_H

#include "base/base.h"

/* Returns the entry of the function that the call before pc has called, also through a stub of the
 * dynamic linker.  Returns 0 if the call goes through a register or memory, or cannot be read.
 * Reads the code by a system call, so pc may be any number. */
uintptr_t call_target(uintptr_t pc);
/* Returns whether the first JUMP_BYTES bytes of function fn contain a jump to `to`: fn may have
 * left by it.  Bytes in the middle of an instruction may look like one. */
enum { JUMP_BYTES = 512 };
bool jumps_to(uintptr_t fn, uintptr_t to);
/* Returns whether a call instruction of any form may end at pc: the bytes before it can be decoded
 * as one.  Reads the code by a system call, too. */
bool call_ends_at(uintptr_t pc);

#endif
