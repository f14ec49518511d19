/* SPDX-License-Identifier: MIT */
/* Dumps at a signal: gmp_dump_on, GMP_DEBUG=quit. See dump_signal.c. */
#ifndef GMP_DUMP_SIGNAL_H
#define GMP_DUMP_SIGNAL_H

#include "types.h"

/* Dump to stderr on each signo from now on; signo 0: on none. The runtime exists. Returns 0 or
 * -errno. */
int dump_signal_set(int signo);
/* On sysmon, for sched.errand: after the handler or dump_signal_set has set it. */
void dump_signal_errand(void);
/* Let sysmon call dump_signal_errand and gmp__posix_errand soon.  Async-signal-safe. */
void raise_errand_sig(void);
/* (c) NULL, or an errand of libgmprt_posix: posix/parked.c. */
extern errand_fn gmp__posix_errand;
/* End of a run, after the end of sysmon. */
void dump_signal_fini(void);
/* In the child of a fork. */
void dump_signal_forget(void);

#endif
