/* SPDX-License-Identifier: MIT */
/* How many CPUs does the cgroup's quota leave?  Split from os_linux.c so that tests can hand in
 * trees of their own. */
#ifndef GMP_OS_CGROUP_H
#define GMP_OS_CGROUP_H

/* cgroup_file is /proc/self/cgroup, mountinfo_file /proc/self/mountinfo, or a test's copies.
 * Returns the tightest quota in whole CPUs, rounded up, at least 1; INT_MAX when there is none. */
int os_cgroup_cpus(const char *cgroup_file, const char *mountinfo_file);

#endif
