/* SPDX-License-Identifier: MIT */
/* What happens when a green thread runs over the end of its stack?  See faultsig.c. */
#ifndef GMP_FAULTSIG_H
#define GMP_FAULTSIG_H

#include <signal.h>

#include "types.h"

/* With GMP_DEBUG=chaos: the thread stands still for a moment, and a system call of its ends with EINTR. */
void signal_disturb(int tid);

/* Install the handlers; put back those that were there, if ours still are. */
int signal_init(void);
void signal_fini(void);
/* The calling thread is an M: it has the program's mask of signals, and an alternate stack; false without memory. */
bool signal_thread_begin(struct m *m);
void signal_thread_end(struct m *m);
/* The disposition of SIGPIPE may have changed: SIGNAL-3. */
void signal_check_sigpipe(void);
/* The mask of before, in the child of a fork from an M. */
void signal_thread_restore(void);
/* The mask of the thread that began the run, for children. */
void signal_program_mask(sigset_t *set);

#endif
