/* SPDX-License-Identifier: MIT */
/* After a wait for a child: see settle.c. */
#ifndef GMP_POSIX_SETTLE_H
#define GMP_POSIX_SETTLE_H

/* The caller has waited for a child: run the handlers of the signals that the child has sent before
 * its end.  Changes no errno. */
void settle_after_child(void);

/* Step b, with the context of the interrupted code; the end of it. */
void settle_take_sig(const void *context);
void settle_taken_sig(void);

/* Before the signal thread starts; in the child of a fork. */
void settle_begin(void);
void settle_forget(void);

/* With GMP_SCHED=thread: SIG_FORWARD ends system calls from now on (interrupt.c). */
void settle_interrupts(void);

#endif
