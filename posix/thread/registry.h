/* SPDX-License-Identifier: MIT */
/*
 * POSIX threads that are green threads: the record of each, and the table that finds it by its
 * pthread_t.
 *
 * The pthread_t is the address of libc's thread struct in the thread's own block
 * (machine/tlsblock.h), so libc's pthread_self() returns it.
 *
 *   pthread_create          the green thread                 pthread_join          pthread_detach
 *    1 take a block, make    3 thread_main: base of the       6 state is JOINABLE   JOINABLE:
 *      a G that is not         unwinder, then the               and no joiner: set    DETACHED, and
 *      runnable                program's function               joiner                gmp_detach
 *    2 enter the record in   4 destructors (owntls_end)       7 gmp_join_until      ENDED: as 8,
 *      the table; write      5 on g0, thread_ended:           8 it returned 0:        gmp_detach
 *      pthread_t; ready        JOINABLE: ENDED, keeps the       read the result,
 *      the G                   block.  DETACHED: remove         remove the record,
 *                              the record; the block goes       give the block back
 *                              to the pool.  Then the G
 *                              dies: gmp's join word
 *
 * Invariants
 *   A pthread_t is unique from step 1 until step 8 or the end of a detached thread: its block does
 *   not go to the pool before.  So a joiner never finds a later thread.
 *   Step 7 returns 0 only after step 5, so the record is ENDED in step 8.
 *   PTHREAD-1  While a record is in the table with a state other than ENDED and the number of the
 *              present run, its G has not been freed: step 5 is before.  So gmp_cancel under the
 *              table's lock reaches that thread and no later one.
 *   PTHREAD-2  A record of a thread that was killed by the end of a run has the number of that run.
 *              thread_find does not return it; thread_enter removes it.
 *   PTHREAD-3  Records are reused and never freed.  They are reused only after their removal.
 *
 * The table changes under its lock.  A reader of its own record (thread_self) takes no lock.
 */
#ifndef GMP_POSIX_REGISTRY_H
#define GMP_POSIX_REGISTRY_H

#include "posix/call/hook.h"

/*
 * THREAD_JOINABLE  it has not ended, or is ending
 * THREAD_DETACHED  the same, and its end removes the record
 * THREAD_ENDED     it has ended and may be joined; the record has the block
 */
enum thread_state { THREAD_JOINABLE, THREAD_DETACHED, THREAD_ENDED };

enum { THREAD_NAME = 16 };

/* (l) under the table's lock; (o) the thread itself; (c) constant while it is in the table. */
struct thread {
	struct thread *next;     /* (l) in its chain; in the list of unused records */
	pthread_t self;          /* (c) */
	struct g *g;             /* (c) PTHREAD-1 */
	struct tlsblock *block;  /* (l) of an ENDED one */
	uint32_t run;            /* (c) the number of the run: PTHREAD-2 */
	enum thread_state state; /* (l) */
	pthread_t joiner;        /* (l) that waits in step 7; 0: none */
	pthread_t joins;         /* (l) the thread that this one waits for; 0: none */
	int policy;              /* (a) of pthread_setschedparam: no effect */
	bool is_main;            /* (c) the thread of main, or the first one of a child of a fork */
	bool c11;                /* (c) made by thrd_create */
	void *(*fn)(void *);     /* (c) */
	void *arg;               /* (c) */
	uint64_t mask;           /* (a) of signals; (o) after its start */
	uint64_t killed;         /* (a) signals that are pending for it: kill.c */
	uint64_t offered;        /* (o) of the signal thread: killed before its fence, KILL-2 */
	uint64_t expected;       /* (a) signals of its sigwait; written by it: KILL-6 */
	int noted;               /* (l) the signal of a note to its sigwait; 0: none */
	unsigned tries;          /* (l) of the signal thread: KILL-7 */
	struct thread *next_killed,
		**at_killed;    /* (l) in the list of kill.c; at_killed NULL: not */
	uint32_t stage;         /* (a) of its wait; written by it: kill.c */
	void *result;           /* (o) until it is ENDED */
	bool pending;           /* (l) pthread_cancel was called */
	bool disabled;          /* (o) PTHREAD_CANCEL_DISABLE */
	bool async;             /* (o) PTHREAD_CANCEL_ASYNCHRONOUS */
	bool exiting;           /* (o) it unwinds or runs destructors: no cancellation */
	uint32_t handling;      /* (a) written by the thread: depth of its signal handlers; too
	                            high from a siglongjmp out of one until the next wait */
	char name[THREAD_NAME]; /* (l) "": that of the program */
};

/* --- registry.c --- */

void threads_lock(void);
void threads_unlock(void);
/* With the lock held: the thread, or NULL. */
struct thread *thread_find(pthread_t self);
/* The same; in the child of a fork also its first thread before the runtime starts, whose id the
 * kernel does not know either. */
struct thread *thread_find_or_first(pthread_t self);
/* Call fn for each thread of the run, with the lock held. */
void threads_each(void (*fn)(struct thread *t, int signo, bool ignored), int signo, bool ignored);
/* With the lock held. */
void thread_enter(struct thread *t);
/* With the lock held: remove t, which is unused then (PTHREAD-3).  Returns its block, or NULL. */
struct tlsblock *thread_remove(struct thread *t);
/* An unused record with the fields 0; NULL without memory.  No lock held. */
struct thread *thread_record(void);
/* With the lock held: t leaves the list of kill.c, if it is in it. */
void thread_unlist(struct thread *t);
/* With the lock held: t was not entered. */
void thread_unused(struct thread *t);
/* The child of a fork: an empty table. */
void threads_forget(void);

/* --- create.c --- */

/* The entry of the G of each thread but main's; its argument is the record. */
void thread_main(void *t);

/* Call the function of a thread; c11: one of thrd_create, which returns an int. */
void *thread_call(void *(*fn)(void *), void *arg, bool c11);
/* The record of a G, or NULL: pthread_create has not made it, or gp is NULL. */
struct thread *thread_of(const struct g *gp);
/* The record of the calling thread, or NULL. */
struct thread *thread_self(void);
/* pthread_create for a green thread, and for an OS thread that counts (PROGRAM-1); otherwise
 * NOT_GREEN. */
int thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		  bool c11);
/* t must no longer be cancelled: it ends.  On its own stack. */
void thread_begin_exit(struct thread *t);
/* The caller's function has ended, maybe after a siglongjmp out of blocking code: leave that. */
void thread_end_blocking(void);
/* In place of an errno value: libc's function must be called. */
enum { NOT_GREEN = -1 };

/* --- cancel.c --- */

/* Step b: the caller, whose record is t, must act on pthread_cancel. */
bool cancel_is_pending(const struct thread *t);
/* The caller is a green thread with own thread-locals that pthread_create has not made. */
bool is_spawned(void);

/* --- alive.c --- */

/* In the child of a fork: the record of its first thread while that is an OS thread; otherwise
 * NULL.  Its g struct is the parent's. */
struct thread *forked_thread(void);
/* The same, if it is the caller. */
struct thread *forked_self(void);

#endif
