/* SPDX-License-Identifier: MIT */
/* Dumps at a signal: gmp_dump_on, GMP_DEBUG=quit. See dump_signal.c. */
#ifndef GMP_DUMP_SIGNAL_H
#define GMP_DUMP_SIGNAL_H

#include "types.h"

/* Dump to stderr on each signo from now on; signo 0: on none. The runtime exists. Returns 0 or
 * -errno. */
int dump_signal_set(int signo);
/* On sysmon, for sched.delegated: after the handler or dump_signal_set has set it. */
void dump_signal_delegated(void);
/* Let sysmon call dump_signal_delegated and gmp__posix_delegated soon.  Async-signal-safe. */
void delegate_sig(void);
/* (c) NULL, or delegated work of libgmprt_posix: posix/sync/parked.c. */
extern void (*gmp__posix_delegated)(void);
/* End of a run, after the end of sysmon. */
void dump_signal_fini(void);
/* In the child of a fork. */
void dump_signal_forget(void);

#endif
