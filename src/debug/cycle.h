/* SPDX-License-Identifier: MIT */
/* Cycles of green threads that wait for each other. See cycle.c. */
#ifndef GMP_CYCLE_H
#define GMP_CYCLE_H

#include "base/base.h"

/* Print all cycles to stderr; every green thread is parked for good. */
void cycles_print(void);

/* For sched.long_waits: print each new cycle while others run. True: call again, a green thread of a
 * possible cycle could not be held. */
bool cycles_watch(void);
/* A new run: none has been reported. */
void cycles_reset(void);

#endif
