/* SPDX-License-Identifier: MIT */
/* Signals that pthread_kill sends to another green thread: kill.c. */
#ifndef GMP_POSIX_KILL_H
#define GMP_POSIX_KILL_H

#include <signal.h>

#include "posix/thread.h"

/* With the table's lock held: a signal for t that the program handles.  Returns false if t or the
 * run has no such signals; the caller then sends it to an OS thread. */
bool kill_send(struct thread *t, int signo);

/* The caller is a thread of the table other than main, and signals are brought to it. */
bool kill_reaches_caller(void);

/* The note that kill_send has sent to the signal thread, which brings the signal to the thread. */
bool kill_is_note(const siginfo_t *info);
/* After the handler that kill_take_sig was called for. */
void kill_handled_sig(const struct g *interrupted);
/* For code that has dequeued *info: if it is a note, send it to the signal thread again.  Returns
 * whether it is one. */
bool kill_resend(const siginfo_t *info);
void kill_deliver(const siginfo_t *note);

/* In the handler of signo, with a note as its siginfo: returns true if the program's handler must
 * run here, with *info changed to what pthread_kill gives. */
bool kill_take_sig(int signo, siginfo_t *info, const struct g *interrupted);

/* The caller's mask is now this: its signals that are no longer blocked are handled. */
void kill_set_mask(uint64_t mask);

/* Take a signal of the set that is pending for the calling thread; 0: none. */
int kill_take(uint64_t set, siginfo_t *info);
/* In blocking code, around a call of libc that takes signals of the set: KILL-6.  False: signals
 * are not brought to the caller; without kill_unexpect. */
bool kill_expect(const sigset_t *set);
void kill_unexpect(const sigset_t *set);

/* In gmp__handler_wait_begin and _end: KILL-2.  ending is before all locks, ended after them;
 * kill_run then runs the handlers. */
void kill_wait_begin(void);
void kill_wait_ending(void);
void kill_wait_ended(void);
void kill_run(void);

#endif
