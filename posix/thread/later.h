/* SPDX-License-Identifier: MIT */
/* Upcalls: calls from the threads of posix/ into its later rooms (rule R4). */
#ifndef GMP_POSIX_LATER_H
#define GMP_POSIX_LATER_H

#include <gmp.h>

#include "base/base.h"

struct thread;

/* On the stack of the caller; no locks are held, except where the comment names one. */
struct thread_upcalls {
	/* The entry of the G of main, and of the first thread of a child of a fork; its argument is
	 * the record: run_main.c:program_main. */
	gmp_fn main;
	/* True if the program was started by gmp-run, and a runtime is on, or could be started;
	 * errno stays: run_main.c. */
	bool (*program_runs)(void);
	/* True if gmp-run has started the program: run_main.c. */
	bool (*program_is_started)(void);
	/* The signal mask of the caller as the creator of a thread; and, first thing in that
	 * thread: set it: mask.c. */
	uint64_t (*mask_to_inherit)(void);
	void (*mask_inherit)(uint64_t mask);
	/* pthread_cancel has set t->pending.  With the table's lock: kill.c:kill_cut_sigwait. */
	void (*cancelled)(struct thread *t);
	/* With GMP_SCHED=thread: libc's pthread_cancel has been called:
	 * settle.c:settle_interrupts. */
	void (*cancelled_in_libc)(void);
};

/* In run_main.c.  A constant, since other libraries call pthread_create before the constructors of
 * this one. */
extern const struct thread_upcalls gmp__thread_up __attribute__((visibility("hidden")));

#endif
