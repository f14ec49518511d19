/* SPDX-License-Identifier: MIT */
/*
 * What would another thread see if it looked between any two instructions?
 *
 *   STEP(look, runq_put(pp, gp));   // look() is called after each instruction of runq_put
 *
 * The processor's trap flag: each instruction of this thread ends in SIGTRAP, whose handler looks.
 * So an order that another thread relies on is tested without that thread, and without luck.  It
 * shows the order of the instructions, which is what others see on x86, stores being seen in order.
 */
#ifndef TESTS_STEP_H
#define TESTS_STEP_H

#include "check.h"

void step_begin(void (*look)(void));
void step_end(void);

#if defined(__SANITIZE_THREAD__)

/* Its runtime takes locks between two instructions of ours, and again where look() calls it. */
#define STEP(look, call)                                                                           \
	do {                                                                                       \
		step_begin(look);                                                                  \
		check_skip("ThreadSanitizer cannot be stepped through");                           \
		call;                                                                              \
	} while (0)

#elif defined(__x86_64__)

/* below the red zone, where the compiler may keep something */
#define STEP_FLAG_(change)                                                                         \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change "\n\tpopfq\n\t"             \
			 "lea 128(%%rsp), %%rsp" ::                                                \
				 : "memory", "cc")

#define STEP(look, call)                                                                           \
	do {                                                                                       \
		step_begin(look);                                                                  \
		STEP_FLAG_("orq $0x100, (%%rsp)");                                                 \
		call;                                                                              \
		STEP_FLAG_("andq $~0x100, (%%rsp)");                                               \
		step_end();                                                                        \
	} while (0)

#else

#define STEP(look, call)                                                                           \
	do {                                                                                       \
		step_begin(look);                                                                  \
		check_skip("this machine cannot be stepped yet");                                  \
		call;                                                                              \
	} while (0)

#endif

#endif
