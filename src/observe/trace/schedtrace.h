/* SPDX-License-Identifier: MIT */
/* GMP_DEBUG=schedtrace: the state of the scheduler on stderr. See schedtrace.c. */
#ifndef GMP_SCHEDTRACE_H
#define GMP_SCHEDTRACE_H

#include "base/base.h"

/* Before sysmon starts: forget what the last run has counted. */
void schedtrace_begin(void);
/* For sched.up.schedtrace, as a monitor's poll (monitor/monitor.h): write a report if it is due. */
int64_t schedtrace_report(int64_t now);

#endif
