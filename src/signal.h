/* SPDX-License-Identifier: MIT */
/* What happens when a green thread runs over the end of its stack?  See signal.c. */
#ifndef GMP_SIGNAL_H
#define GMP_SIGNAL_H

#include "runtime.h"

/* With GMP_DEBUG=sched: the thread says which green thread it runs, and by which calls that came where it
 * is.  Nothing otherwise. */
void signal_ask_asleep(int tid);

/* Install the handlers; put back those that were there, if ours still are. */
int signal_init(void);
void signal_fini(void);
/* An alternate stack for the calling thread; false without memory. */
bool signal_thread_begin(struct m *m);
void signal_thread_end(struct m *m);

#endif
