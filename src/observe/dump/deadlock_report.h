/* SPDX-License-Identifier: MIT */
/* Reports of a process that ends: see deadlock_report.c. */
#ifndef GMP_DEADLOCK_REPORT_H
#define GMP_DEADLOCK_REPORT_H

#include "base/base.h"

/* For gmp__fatal_describe: write ` in green thread 17 "worker" (entry f)` for the green thread that
 * runs on this OS thread. Returns the number of bytes; 0 if none runs. */
size_t report_self(char *buf, size_t n);
/* For sched.up.stalled: end the process by a deadlock report. Returns 0 if it is no deadlock, or
 * the ns after which the caller must call again, if other OS threads may still wake a green
 * thread. */
int64_t report_stall(void);

#endif
