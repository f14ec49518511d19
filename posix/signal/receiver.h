/* SPDX-License-Identifier: MIT */
/* The green threads that handle signals: receiver.c. */
#ifndef GMP_POSIX_RECEIVER_H
#define GMP_POSIX_RECEIVER_H

#include <signal.h>

#include "run/door.h"

/* A green thread that may run handlers: RECEIVER-1. */
struct receiver {
	struct g *gp;   /* (c) */
	uint32_t run;   /* (a) number of the run; 0: none */
	uint64_t mask;  /* (a) written by gp, under the lock */
	uint32_t busy;  /* (a) written by gp: RECEIVER-3 */
	bool waits;     /* under the lock, written by gp: in a wait that a handler ends */
	bool swapped;   /* (a) written by gp: RECEIVER-9 */
	bool exact;     /* (o) its OS thread must get the mask after each wait */
	int signo;      /* under the lock: the signal that gp must handle; 0: none */
	siginfo_t info; /* under the lock */
	struct receiver *next, **at; /* under the lock */
};

/* The calling green thread's; NULL: it handles no signals. */
struct receiver *receiver_self(void);
/* Make the calling green thread a receiver, which blocks all signals until receiver_set_mask.  NULL
 * without memory. */
struct receiver *receiver_new(void);
/* Set the mask of r, the caller's.  Returns true if receiver_wake must follow, after the mask of
 * the OS thread has been set. */
bool receiver_set_mask(struct receiver *r, uint64_t mask);
/* The mask of a green thread that has not set one. */
uint64_t receiver_default_mask(void);
/* Whether receivers exist: a run of gmp_run, whose first green thread is the main receiver. */
bool receiver_routes(void);

/* Receivers exist, and none admits the signal; one admits it. */
bool receiver_defers(int signo);
bool receiver_admits(int signo);

/*
 * What an attempt of the signal thread to bring a signal to a green thread T has done.  It attempts
 * again after TRY_NS.
 *
 * DONE     T has the signal, or it admits none
 * LATER    T will take it: attempt again, without bound
 * AGAIN    T is in a wait that no handler ends, or gets no signal now: at most TRIES times
 * BLOCKED  T's OS thread blocks it, mostly for a moment: KILL-7
 * NONE     no receiver admits it, or the run has ended
 *
 * TRY_NS, TRIES: 5 ms until a signal is handled by the signal thread; not measured.
 */
enum delivery { DONE, LATER, AGAIN, BLOCKED, NONE };
enum { TRY_NS = 100 * US, TRIES = 50 };

/* The signal thread exists, and brings signals to green threads of this run. */
bool receiver_has_thread(void);
/* The signal thread must read what receivers admit, and call kill_pass.  Returns 0, or -1: there is
 * none, or the kernel's queue of signals is full. */
int receiver_wake(void);
/* What the kernel tells of an OS thread: RECEIVER-6. */
struct os_thread_signals {
	uint64_t blocked, pending;
};
struct os_thread_signals receiver_thread_signals(int tid);

/* The caller is the main receiver, and admits the signal: one for the process is its own. */
bool receiver_is_mine(int signo);

/* --- the signal thread --- */

/* Its kernel's id; 0: there is none. */
int receiver_thread(void);
void receiver_set_thread(int tid);
/* What all receivers admit. */
uint64_t receiver_admitted(void);
/* It has taken the signal, which was forwarded: RECEIVER-8. */
void receiver_forwarded(int signo);
/* Steps 2 to 4.  *stored: NULL at the first attempt.  NONE also if the run has ended. */
enum delivery receiver_deliver(int signo, const siginfo_t *info, struct receiver **stored);

/* --- the receiver --- */

/* Steps 1 and 3.  The latter, if r->waits, returns the stored signal, with *info, or 0. */
void receiver_wait_begin(struct receiver *r);
int receiver_wait_end(struct receiver *r, siginfo_t *info);

/* --- the trampoline, on any thread --- */

/* The main receiver; NULL: there are no receivers. */
const struct receiver *receiver_main_sig(void);
/* The receiver that is gp, which the handler has interrupted, or NULL. */
const struct receiver *receiver_of_sig(const struct g *gp);
/* r is one of the present run, and does not block the signal. */
bool receiver_takes_sig(const struct receiver *r, int signo);
/* Send the signal to the signal thread; false: it does not get it. */
bool receiver_forward_sig(const siginfo_t *info);

/* Signals that were forwarded or deferred, and no handler has run (SETTLE-1).
 * receiver_arrived_sig: a handler is about to run or was removed, or the signal is pending for the
 * process again. */
void receiver_moves_sig(int signo);
bool receiver_is_moving(uint64_t bits);
void receiver_arrived_sig(int signo);
void receiver_drop_moving(uint64_t bits);

/* --- fork --- */

/* In the child.  receiver_forget_own: the caller may have been a receiver of the parent. */
void receiver_forget_all(void);
void receiver_forget_own(void);

#endif
