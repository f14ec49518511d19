/* SPDX-License-Identifier: MIT */
/* Who sees to what nobody has the time for?  See sysmon.c. */
#ifndef GMP_SYSMON_H
#define GMP_SYSMON_H

int sysmon_start(void); /* 0 or -errno */
void sysmon_stop(void); /* after it no pass is under way */

#endif
