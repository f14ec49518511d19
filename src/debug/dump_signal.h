/* SPDX-License-Identifier: MIT */
/* Dumps at a signal: gmp_dump_on, GMP_DEBUG=quit. See dump_signal.c. */
#ifndef GMP_DUMP_SIGNAL_H
#define GMP_DUMP_SIGNAL_H

/* Dump to stderr at signo from now on; 0: at none. 0 or -errno. The runtime is there. */
int dump_signal_set(int signo);
/* For sched.errand: sysmon, after the handler or dump_signal_set. */
void dump_signal_errand(void);
/* After sysmon has ended. */
void dump_signal_fini(void);
/* The child of a fork. */
void dump_signal_forget(void);

#endif
