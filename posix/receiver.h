/* SPDX-License-Identifier: MIT */
/* The green threads that handle signals, and the thread that brings signals to them: receiver.c. */
#ifndef GMP_POSIX_RECEIVER_H
#define GMP_POSIX_RECEIVER_H

#include <signal.h>

#include "types.h"

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

/* The signal thread exists, and brings signals to green threads of this run. */
bool receiver_has_thread(void);
/* Send a note of kill.c, with the signal and the thread, to an OS thread; 0: the signal thread. */
enum { RECEIVER_CODE_NOTE = -1003 };
int receiver_send_note(int tid, int signo, pthread_t to);
/* Claim the wait of gp with -EINTR; false if it is in no wait that ends so.  The caller calls
 * ready. */
bool receiver_cut_wait(struct g *gp);
/* The OS thread does not block the signal: RECEIVER-6. */
bool receiver_thread_admits(int tid, int signo);

/* In the handler of signo on any thread: true if the program's handler must run here; otherwise the
 * signal has been sent to where it belongs.  handled: the program has a handler. */
bool receiver_route_sig(int signo, bool handled, siginfo_t *info, void *context);
/* The green thread whose code the handler has interrupted, or NULL. */
struct g *receiver_interrupted_sig(const void *context);

/* Send the signal, whose info was unpacked, to the process; to the OS thread tid. */
int receiver_send_sig(int signo, const siginfo_t *info);
int receiver_send_to_sig(int tid, int signo, const siginfo_t *info);
/* For a new signal: that OS thread calls the program's handler itself. */
int receiver_send_for_thread(int tid, int signo, siginfo_t *info);
/* The caller is the main receiver, and admits the signal: one for the process is its own. */
bool receiver_is_mine(int signo);
/* Before receiver_unpack_sig: was the signal sent by receiver_send_for_thread? */
bool receiver_is_for_thread_sig(const siginfo_t *info);
/* Undo the packing of a siginfo that one of them has sent, and set si_errno to the epoch of the
 * signal (SIGTAB-6); it is 0 for the program.  Returns true if it was sent to a thread: the program
 * had a handler for it, and did not block it. */
bool receiver_unpack_sig(siginfo_t *info);
/* After receiver_unpack_sig: the handler that accepted the signal was removed. */
bool receiver_is_stale_sig(const siginfo_t *info);

#endif
