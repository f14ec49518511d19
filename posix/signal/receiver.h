/* SPDX-License-Identifier: MIT */
/* The green threads that handle signals, and the thread that brings signals to them: receiver.c. */
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
/* Make the calling green thread a receiver, with this mask.  NULL without memory. */
struct receiver *receiver_new(uint64_t mask);
/* Set the mask of r, the caller's.  Returns true if receiver_tell must follow, after the mask of
 * the OS thread has been set. */
bool receiver_set_mask(struct receiver *r, uint64_t mask);
void receiver_tell(void);
/* The mask of a green thread that has not set one. */
uint64_t receiver_default_mask(void);
/* Whether receivers exist: a run of gmp_run, whose first green thread is the main receiver. */
bool receiver_routes(void);

/* Receivers exist, and none admits the signal; one admits it. */
bool receiver_defers(int signo);
bool receiver_admits(int signo);

/* The calling thread, an OS thread until now, is the first green thread of a run. */
void receiver_adopt(void);

/* Begin to bring signals to receivers: start the thread. */
void receiver_begin(void);

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
/* Let the signal thread call kill_pass.  Returns 0, or -1: there is none, or the kernel's queue of
 * signals is full. */
int receiver_wake(void);
/* What the kernel tells of an OS thread: RECEIVER-6. */
struct os_thread_signals {
	uint64_t blocked, pending;
};
struct os_thread_signals receiver_thread_signals(int tid);

/* In the handler of signo on any thread: true if the program's handler must run here; otherwise the
 * signal has been sent to where it belongs.  handled: the program has a handler.  for_thread: the
 * signal was sent by siginfo_send_for_thread_sig. */
bool receiver_route_sig(int signo, bool handled, bool for_thread, siginfo_t *info, void *context);

/* Signals below 32 that are on their way to the signal thread: RECEIVER-8. */
uint64_t receiver_forwarded_sig(void);

/* The caller is the main receiver, and admits the signal: one for the process is its own. */
bool receiver_is_mine(int signo);

#endif
