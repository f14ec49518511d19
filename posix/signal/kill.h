/* SPDX-License-Identifier: MIT */
/* Signals that are pending for one green thread: kill.c. */
#ifndef GMP_POSIX_KILL_H
#define GMP_POSIX_KILL_H

#include <signal.h>

#include "posix/signal/sigtable.h"
#include "posix/thread/registry.h"

/* --- senders --- */

/* With the table's lock: the signal must be pending for t.  False: the kernel takes its action, or
 * this run has no signal thread. */
bool kill_takes(const struct thread *t, int signo, enum signal_action action);
/* With the lock: steps 2 to 4 for t in the table.  Returns 0, or EAGAIN: the kernel's queue of
 * signals is full, and the signal is not pending. */
int kill_add(struct thread *t, int signo);
/* The kernel's id of the OS thread that runs gp, or 0.  It may run another G by the time that a
 * signal comes. */
int kill_tid_of(const struct g *gp);
/* All steps for the caller: the handler has run if it does not block the signal.  Returns false if
 * the signal is not kept here. */
bool kill_self(int signo);

/* In the child of a fork, whose only record of a thread is t (NULL: none): no signal is pending. */
void kill_forget(struct thread *t);
/* The action of signo is now to ignore it, or the default one. */
void kill_discard(int signo, bool ignored);

/* --- the signal thread --- */

/* Steps 1 to 4 for all threads.  Returns the time until the next call in ns; 0: a wakeup. */
int64_t kill_pass(void);

/* --- the trampoline, which has interrupted a green thread or (NULL) other code --- */

/* The thread is in a wait, or its M is in a P section: no handler may run. */
bool kill_is_busy_sig(const struct g *interrupted);
/* The signals that are pending for gp. */
uint64_t kill_pending_sig(const struct g *gp);
/* It blocks the signal, which the kernel has raised for its OS thread: now it is pending for it. */
bool kill_keep_sig(int signo, const struct g *interrupted);
/* Step f.  Returns true if the program's handler must run, with *info as pthread_kill gives it. */
bool kill_take_sig(int signo, siginfo_t *info, const struct g *interrupted);
/* Around each handler of the program: change is 1 before and -1 after it. */
void kill_handler_sig(const struct g *interrupted, int change);

/* --- the thread --- */

/* The caller is a thread of the table other than main, and signals are brought to it. */
bool kill_reaches_caller(void);
/* Run the handlers of signals that are pending and not blocked. */
void kill_run(void);
/* Step e. */
void kill_set_mask(uint64_t mask);
/* Before and after a call that sets the mask in the kernel for its time.  After the second one the
 * caller calls kill_run, when the kernel has its mask again. */
void kill_swap_mask(uint64_t mask);
void kill_swap_mask_back(uint64_t mask);

/* Take a signal of the set that is pending for the calling thread; 0: none. */
int kill_take(uint64_t set, siginfo_t *info);
/* In blocking code, around a call of libc that takes signals of the set: KILL-6.  *before: the mask
 * of the OS thread.  False: signals are not brought to the caller; without kill_unexpect. */
bool kill_expect(const sigset_t *set, sigset_t *before);
/* The caller, in such a call, has been cancelled. */
bool kill_is_cancelled(void);
/* With the table's lock, after t->pending was set: end such a call of t. */
void kill_cut_sigwait(struct thread *t);
/* The call has taken a note. */
void kill_note_taken(void);
void kill_unexpect(const sigset_t *before);

/* In gmp__handler_wait_begin and _end: KILL-2.  ending is before all locks, ended after them;
 * kill_run then runs the handlers. */
void kill_wait_begin(void);
void kill_wait_ending(void);
void kill_wait_ended(void);

#endif
