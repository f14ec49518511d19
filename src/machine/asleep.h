/* SPDX-License-Identifier: MIT */
/*
 * Backtrace of another thread that sleeps in the kernel, without a signal.
 *
 * The kernel gives the stack pointer and the pc of a sleeping thread.  The stack above is copied,
 * and the copy is unwound as the stack of a parked green thread is (machine/unwind.h):
 *
 *    the thread's stack                     the copy
 *      hi  entry function                     entry function
 *          ...            - - copied - ->     ...                 words that point to the stack
 *      sp  read()                             read()              point to the copy
 *                                             context_frame       pc; registers: DEAD_END
 *
 * The other registers of the thread are not known.  They do not matter to code that is compiled
 * without frame pointers: its frames are found by the stack pointer, and registers that a function
 * has saved are in the copy.  If a function has a frame pointer, the walk needs it, and ends.  It
 * is then repeated with a guess for the frame pointer: a place on the stack with a return address
 * above it that is behind a call of the last function that was found, or of a function that jumps
 * to it.
 *
 * Measured: 14 calls that sleep (read, poll, usleep, pthread and stdio calls, system, a callback of
 * qsort), four calls deep, compiled by gcc and clang with -O0, -O2, -O2 with frame pointers, and
 * -O3 -static.  All 98 name the function that sleeps, and have all frames; 27 with a guess.
 *
 * Invariants
 *  ASLEEP-1  The copy is of one moment: the thread has not run between two reads of its stack
 *            pointer, pc and number of time slices, one before and one after.
 *  ASLEEP-2  The walk reads the copy only, also after a wrong guess.  Words that point to the
 *            copied stack are changed to point to the copy.  Of the others, only return addresses
 *            are kept.  All other words, and the registers that are not known, point to DEAD_END,
 *            memory whose words point to itself: a frame that is found by such a register is the
 *            last one, and is left out.
 */
#ifndef GMP_ASLEEP_H
#define GMP_ASLEEP_H

#include "base/trace.h"

/*
 * Write to *t the frames of OS thread tid, which sleeps on the stack [lo, hi) of a green thread
 * with this entry function.  Returns how many frames are certain; the rest is likely.  t->more is
 * set if the walk has not reached the entry function.  Returns 0 without frames if the thread
 * sleeps on another stack, or without memory; -1 if it does not sleep, or has run meanwhile.  Reads
 * files of /proc.
 */
int trace_asleep(struct trace *t, int tid, const char *lo, const char *hi, uintptr_t entry);

#endif
