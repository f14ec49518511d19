/* SPDX-License-Identifier: MIT */
/* CPU quota of the process's cgroups. Separate from os_linux.c, so that tests can pass their own
 * file trees. Algorithm: os_cgroup.c. */
#ifndef GMP_OS_CGROUP_H
#define GMP_OS_CGROUP_H

/* cgroup_file: /proc/self/cgroup; mountinfo_file: /proc/self/mountinfo; or copies of a test.
 * Returns the smallest quota in whole CPUs, rounded up, at least 1; INT_MAX without a quota. */
int os_cgroup_cpus(const char *cgroup_file, const char *mountinfo_file);

#endif
