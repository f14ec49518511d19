/* SPDX-License-Identifier: MIT */
/* The monitor thread.  monitor.h has its tasks, sysmon.c the invariants. */
#ifndef GMP_SYSMON_H
#define GMP_SYSMON_H

int sysmon_start(void); /* returns 0 or -errno */
int sysmon_tid(void);   /* of the thread; 0: it does not run yet */
void sysmon_stop(void); /* joins the thread: on return no pass is under way */

#endif
