/* SPDX-License-Identifier: MIT */
/* What does the runtime say when it dies?  See report.c. */
#ifndef GMP_REPORT_H
#define GMP_REPORT_H

#include "base/base.h"

/* For gmp__fatal_describe: the green thread that runs here. */
size_t report_self(char *buf, size_t n);
/* For sched.stalled. */
int64_t report_stall(void);

#endif
