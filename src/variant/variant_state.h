/* SPDX-License-Identifier: MIT */
/* Variant state: what variants of the runtime keep in an M and in the scheduler (variant.h). */
#ifndef GMP_VARIANT_STATE_H
#define GMP_VARIANT_STATE_H

#include "base/os.h"
#include "stack.h"
#include "waiter_state.h"

/*
 * m.abandon.state: how the OS thread of an M whose G makes no call leaves a run that ends
 * (variant/abandon.h).
 *
 *   LEAVE_NONE      not asked
 *   LEAVE_ASKED     asked by a signal.  Entered by the end of the run; left by the thread, to NONE
 *                   if it cannot leave now
 *   LEAVE_LEFT      the thread has left the runtime.  Left by an exchange of either side
 *   LEAVE_ENDED     the thread has ended first: the end of the run frees m
 *   LEAVE_DETACHED  the run has ended first: the thread frees m
 */
enum leave { LEAVE_NONE, LEAVE_ASKED, LEAVE_LEFT, LEAVE_ENDED, LEAVE_DETACHED };

struct abandon {
	uint32_t state;          /* (a) enum leave */
	struct kept_stack stack; /* (o) of its G, once it has LEFT */
	struct tlsblock *block;  /* (o) likewise */
	struct os_sleep sleep;   /* written by the end of the run while LEAVE_NONE, read by the
				  * handler while LEAVE_ASKED; may be an earlier sleep */
	uint64_t sleeps;         /* (l) os_thread_sleeps when the end of the run last checked */
	int64_t cpu;             /* (l) os_thread_cpu_time since it is awake; -1: not checked */
	int64_t ask_after;       /* (l) do not ask it in a sleep before */
	bool awake;              /* (l) it was in state R then */
	uint8_t asked;           /* (l) how often it was asked in a sleep */
};

/* Free thread-local blocks of a P, LIFO: variant/owntls.h. */
struct block_cache {
	struct tlsblock *top;
	uint32_t n;
};

/* An M that is the OS thread of one G: variant/thread.h. */
struct thread_mode {
	bool alone;         /* (l) it is such an M */
	bool killed;        /* (o) shutdown kills its G; the wait never returns */
	void *way_out;      /* (o) a jmp_buf */
	struct waiter call; /* awaits of its G in a call of libc; gp: its G, then (THREAD-4) */
	int timer;          /* (w) THREAD-5: 1 + its number; 0: none */
};

/* What variants change in a run; constant in it: variant_begin. */
struct variant {
	bool threads;          /* Gs run as OS threads */
	bool begins_otherwise; /* threads or GMP_OWN_TLS: the first run of a G is another one */
};

/* The step on g0 of m->curg, which has left its stack.  Ends in a jump. */
typedef int (*leave_fn)(void *m);

/* See variant/leave.h. */
struct leave_steps {
	leave_fn park, yield, exit, without_p, exit_without_p;
};

#endif
