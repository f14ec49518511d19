/* SPDX-License-Identifier: MIT */
/* Signals on Ms: faults, the program's handlers and mask, SIGPIPE.  faultsig.c has the
 * invariants. */
#ifndef GMP_FAULTSIG_H
#define GMP_FAULTSIG_H

#include <signal.h>

#include "types.h"

/*
 * Begin to ask Ms by LONGRUN_SIGNAL: installs on_asked.  Returns false if the signal is not the
 * runtime's: the program has a handler, or the Ms block it.  Otherwise signal_ask_end, by the last
 * caller, restores the former disposition.  A signal that arrives later is ignored.  Pairs may
 * overlap.  In a run, no locks of rank LR_ASK or above held; not in a signal handler.
 */
bool signal_ask_begin(void);
void signal_ask_end(void);

/* GMP_DEBUG=chaos: delays the OS thread tid for up to 50 us.  A system call in which it sleeps
 * returns EINTR if the kernel cannot restart it. */
void signal_disturb(int tid);

/* Installs the handlers; returns 0 or -errno.  signal_fini restores the previous ones, except where
 * another handler was installed since. */
int signal_init(void);
void signal_fini(void);
/* Gives the calling thread, M m, the program's signal mask and an alternate stack.  Returns false
 * without memory for the stack. */
bool signal_thread_begin(struct m *m);
void signal_thread_end(struct m *m);
/* Checks the disposition of SIGPIPE again, after it may have changed: SIGNAL-3. */
void signal_check_sigpipe(void);
/* If *sa is a handler of the runtime for signo, replaces it by the program's action. */
void signal_program_action(int signo, struct sigaction *sa);
/* Fork: in the child of an M, restores the mask of the thread that began the run. */
void signal_thread_restore(void);
/* Returns that mask in *set, for child processes. */
void signal_program_mask(sigset_t *set);

#endif
