/* SPDX-License-Identifier: MIT */
/* After a wait for a child: see settle.c. */
#ifndef GMP_POSIX_SETTLE_H
#define GMP_POSIX_SETTLE_H

#include "base/libc.h"

/* The signal that brings forwarded signals, and questions; the size of the kernel's sets. */
enum { SIG_FORWARD = SIG_CANCEL, SIGSET_BYTES = 8 };

/* The caller has waited for a child: run the handlers of the signals that the child has sent before
 * its end.  Changes no errno. */
void settle_after_child(void);

/* Step b, with the context of the interrupted code; the end of it; step c; step f: a handler of the
 * signal is about to run, or it is pending for the process again. */
void settle_take_sig(const void *context);
void settle_taken_sig(void);
void settle_forward_sig(int signo);
void settle_arrived_sig(int signo);

/* Before the signal thread starts; in the child of a fork. */
void settle_begin(void);
void settle_forget(void);

#endif
