/* SPDX-License-Identifier: MIT */
/*
 * Single-steps a call, to check the state that another thread could see between any two
 * instructions.
 *
 *   STEP(check, runq_put(pp, gp));  // check() is called after each instruction of runq_put
 *
 * The trap flag of the CPU raises SIGTRAP after each instruction of this thread, and the handler
 * calls check(). An order that another thread relies on is thus tested deterministically, without
 * that thread. The test shows the order of the instructions, which is also the order that other
 * threads see on x86, where stores are not reordered.
 *
 * A step takes 10 to 60 us on a virtual machine, whose hypervisor gets each trap. If the state
 * after an action at the k-th instruction is of interest, for every k, a call of n instructions
 * takes n steps instead of n * n if check() acts in a child: see step_fork().
 */
#ifndef TESTS_STEP_H
#define TESTS_STEP_H

#include <stdbool.h>

#include "check.h"

void step_begin(void (*check)(void));
void step_end(void);

/* Called by check(): no instruction of the call is stepped any more. */
void step_stop(void);

/*
 * Called by check(): forks.  Returns true in the child, in which the call continues, and which ends
 * with _exit(0); false in the parent, after the child has ended so.
 */
bool step_fork(void);

#if defined(__SANITIZE_THREAD__)

/* The ThreadSanitizer runtime takes locks between two instructions, and again in check(). */
#define STEP(check, call)                                                                          \
	do {                                                                                       \
		step_begin(check);                                                                 \
		check_skip("ThreadSanitizer cannot be single-stepped");                            \
		call;                                                                              \
	} while (0)

#elif defined(__x86_64__)

/* below the red zone, in which the compiler may keep data */
#define STEP_FLAG_(change)                                                                         \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change "\n\tpopfq\n\t"             \
			 "lea 128(%%rsp), %%rsp" ::                                                \
				 : "memory", "cc")

#define STEP(check, call)                                                                          \
	do {                                                                                       \
		step_begin(check);                                                                 \
		STEP_FLAG_("orq $0x100, (%%rsp)");                                                 \
		call;                                                                              \
		STEP_FLAG_("andq $~0x100, (%%rsp)");                                               \
		step_end();                                                                        \
	} while (0)

#else

#define STEP(check, call)                                                                          \
	do {                                                                                       \
		step_begin(check);                                                                 \
		check_skip("single-stepping is not supported on this machine");                    \
		call;                                                                              \
	} while (0)

#endif

#endif
