/* SPDX-License-Identifier: MIT */
/*
 * Machine interface of the switch: what each frame_<arch>.h defines.
 *
 *   struct context_frame     what mcall saves at sp, lowest address first; `pc` is where gogo
 *                            continues.  Debuggers unwind a parked G by it (debuggers/).
 *   context_frame_set_fp()   sets the frame pointer in it (machine/asleep.c)
 *   context_pc_sig()         the pc at which a signal interrupted the thread; `context` is the
 *                            argument of the handler
 *   context_sp_sig()         the stack pointer at that moment
 *   context_restart_sig()    if the signal has ended the system call s with EINTR, begins the call
 *                            again when the handler returns
 *   gmp__fpwords()           the floating-point control words of the calling thread
 */
#ifndef GMP_FRAME_H
#define GMP_FRAME_H

#if defined(__x86_64__)
#include "machine/frame_x86_64.h"
#elif defined(__aarch64__)
#include "machine/frame_aarch64.h"
#elif defined(__riscv)
#include "machine/frame_riscv64.h"
#endif

#endif
