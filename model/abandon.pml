/* SPDX-License-Identifier: MIT */
/*
 * Model of abandoning an OS thread: a run that ends frees its memory only when the thread no longer
 * uses it, and the thread's stack and M are freed once, by the second of both sides.
 *
 * Processes
 *   Thread   an M whose G runs code of the program, calls the runtime, and returns from its entry
 *            function, in any order; a signal may interrupt it between any two steps
 *   End      the end of the run: asks, with a note for the handler, until the thread has left or
 *            ended, frees the memory of the run, and detaches the thread.  A signal of another
 *            sender may come
 *
 * Properties
 *   ABANDON-1, ABANDON-3: the runtime uses no memory of an ended run    assertions in Thread
 *   ABANDON-2: stack and M are not used after they are freed, and freed once, and at last, by a
 *   side that sees what the other wrote    assertions in Thread, free_stack, and at the end
 *   ABANDON-4: the handler reads the note (m->abandon.sleep) of its question    assertions
 *   the run ends although the G computes on    assertion in End; every end state is valid
 *
 * Memory is that of c11.inc.  The handler is in the program order of its thread.
 *
 * Left out: several Ms; P sections (preempt.pml); frames: `where` is what the walk of the stack
 * finds.
 *
 * Models:
 *   src/variant/abandon.c: abandon_sig leave_sig abandon_ended abandon_ask abandon_one
 *   src/variant/abandon.c: abandon_release ask
 *   src/m.c: m_abandon_locked m_wait_end
 *   src/variant/outside.c: end_if_abandoned
 *   src/run/run.c: abandon_rest m_main tear_down
 *   ORD: abandon
 *
 * Runs: the searches of scripts/model
 *   holds
 *   assertion  -DMUTANT_ANYWHERE
 *   assertion  -DMUTANT_WAY_BACK
 *   assertion  -DMUTANT_GETM
 *   assertion  -DMUTANT_THREAD_FREES
 *   assertion  -DMUTANT_END_FREES
 *   assertion  -DMUTANT_NOT_FREED
 *   assertion  -DMUTANT_EARLY
 *   assertion  -DMUTANT_ASKED_AGAIN
 *   assertion  -DMUTANT_ENDED_UNSEEN
 *   assertion  -DMUTANT_LEFT_RELAXED
 *   assertion  -DMUTANT_LEFT_SEEN
 *   assertion  -DMUTANT_ENDED_RELAXED
 *   assertion  -DMUTANT_DETACHED_RELAXED
 *   assertion  -DMUTANT_ANSWER_RELAXED
 *   assertion  -DMUTANT_ANSWER_SEEN
 *   assertion  -DMUTANT_QUESTION_RELAXED
 *   assertion  -DMUTANT_QUESTION_SEEN
 *   assertion  -DMUTANT_TAKEN_BACK
 */
/* --- the orders, as in the code; a mutant takes away one --- */

#ifdef MUTANT_LEFT_RELAXED /* ORD(abandon): the run keeps a stack whose address it does not see */
#define ORDER_LEFT RLX
#else
#define ORDER_LEFT REL
#endif
#ifdef MUTANT_LEFT_SEEN /* ORD(abandon): the same, at the other end */
#define ORDER_LEFT_SEEN RLX
#else
#define ORDER_LEFT_SEEN ACQ
#endif
#ifdef MUTANT_ENDED_RELAXED /* ORD(abandon): the run frees a stack that is written still */
#define ORDER_ENDED ACQ
#else
#define ORDER_ENDED SEQ
#endif
#ifdef MUTANT_DETACHED_RELAXED /* ORD(abandon): the thread unmaps a stack that the run unmaps */
#define ORDER_DETACHED ACQ
#else
#define ORDER_DETACHED SEQ
#endif

#ifdef MUTANT_ANSWER_RELAXED /* ORD(abandon): the next note is written while this one is read */
#define ORDER_ANSWER RLX
#else
#define ORDER_ANSWER REL
#endif
#ifdef MUTANT_ANSWER_SEEN /* ORD(abandon): the same, at the other end */
#define ORDER_ANSWER_SEEN RLX
#else
#define ORDER_ANSWER_SEEN ACQ
#endif
#ifdef MUTANT_QUESTION_RELAXED /* ORD(abandon): the handler reads a note that it does not see */
#define ORDER_QUESTION RLX
#else
#define ORDER_QUESTION REL
#endif
#ifdef MUTANT_QUESTION_SEEN /* ORD(abandon): the same, at the other end */
#define ORDER_QUESTION_SEEN RLX
#else
#define ORDER_QUESTION_SEEN ACQ
#endif

#define LEAVE 0 /* m->abandon.state */
#define SYNCS 1
/* not atomic */
#define KEPT 1  /* m->abandon.stack */
#define STACK 2 /* what the thread writes to its stack */
#define SLAB 3  /* the unmapping around the stack */
#define NOTE 4  /* m->abandon.sleep */
#define LOCS 5
#define THREADS 2
#define DEPTH 8
#include "c11.inc"

/* enum leave */
#define NONE 0
#define ASKED 1
#define LEFT 2
#define ENDED 3
#define DETACHED 4

mtype = { PROGRAM, RUNTIME };

mtype where = PROGRAM; /* the innermost code that is no system library's */
byte asked;            /* questions */
bool stray;            /* another sender's signal has come */
bool pending;          /* a signal */
bool has_m = true;     /* getm() is not NULL */
bool program_return = true;  /* the return address leads to the runtime */
bool over;             /* the run has freed its memory */
bool dead;             /* m_dead: the thread leaves by itself, and is joined */
byte freed;            /* how often stack and M were freed */
bool gone;             /* the thread has ended */

inline free_stack()
{
	d_step { freed++; assert(freed == 1) }
}

/* abandon_sig, between two steps of the thread */
inline interrupt()
{
	if
	:: pending ->
		pending = false;
		load(LEAVE, ORDER_QUESTION_SEEN, seen);
		if
		:: seen == ASKED -> atomic { assert(KNOWN(NOTE)); touch(NOTE) }
		:: else
		fi;
		if
#ifdef MUTANT_ANYWHERE /* in a call of gmp, too */
		:: seen == ASKED && has_m ->
#else
		:: seen == ASKED && has_m && where == PROGRAM ->
#endif
#ifndef MUTANT_WAY_BACK
			program_return = false;
#endif
			touch(KEPT);
#ifndef MUTANT_GETM
			has_m = false;
#endif
			store(LEAVE, ORDER_LEFT, LEFT)
#ifndef MUTANT_ANYWHERE
		:: seen == ASKED && (!has_m || where != PROGRAM) ->
			store(LEAVE, ORDER_ANSWER, NONE)
#endif
		:: else
		fi;
		seen = 0
	:: true
	fi
}

/* end_if_abandoned, or the return to gmp__abandoned_return; then m_main */
inline end_abandoned()
{
#ifdef MUTANT_THREAD_FREES /* without a check of the other side */
	assert(KNOWN(SLAB) && over);
	free_stack();
#else
	exchange(LEAVE, ENDED, ORDER_ENDED, seen);
	if
	:: seen == DETACHED ->
		assert(KNOWN(SLAB));
#ifndef MUTANT_NOT_FREED
		free_stack()
#endif
	:: else
	fi;
#endif
	gone = true
}

active proctype Thread()
{
	byte me = 0, ts, seen, rounds;
	bool m;

	do
	:: atomic { rounds < 2 -> rounds++; assert(freed == 0); touch(STACK) };
		interrupt() /* code of the program */
	:: rounds == 2 -> interrupt()
	:: m = has_m; /* a call */
		where = RUNTIME;
		interrupt();
		if
		:: !m -> break
		:: else
		fi;
		interrupt();
		assert(!over);
		where = PROGRAM;
		interrupt()
	:: where = RUNTIME; break /* the entry function returns */
	od;
	if
	:: where == RUNTIME && !program_return -> end_abandoned()
	:: else -> /* a step of the scheduler: the run ends */
		interrupt();
		assert(!over && freed == 0);
		d_step { dead = true; gone = true }
	fi
}

active proctype End()
{
	byte me = 1, ts, seen;
#ifdef MUTANT_TAKEN_BACK
	bool won;
#endif

	do
	:: dead -> break
	:: atomic { !dead -> load(LEAVE, ORDER_LEFT_SEEN, seen) };
		if
#ifdef MUTANT_ENDED_UNSEEN
		:: seen == LEFT -> break
#else
		:: seen >= LEFT -> break
#endif
		:: else ->
			/* it has left, unseen for good */
			assert(!(gone && !dead && KNOWN(LEAVE)))
		fi
	:: atomic { !dead && asked < 2 -> load(LEAVE, ORDER_ANSWER_SEEN, seen) };
		if
#ifdef MUTANT_ASKED_AGAIN /* and overwrites LEFT */
		:: seen <= ASKED ->
			atomic { KNOWS(me, LEAVE) = newest[LEAVE]; KNOWS(me, NOTE) = newest[NOTE] };
#else
		:: seen == NONE ->
#endif
			asked++;
			atomic { assert(KNOWN(NOTE)); touch(NOTE) };
#ifdef MUTANT_ASKED_AGAIN
			atomic { KNOWS(me, LEAVE) = newest[LEAVE]; store(LEAVE, REL, ASKED) };
#else
			store(LEAVE, ORDER_QUESTION, ASKED);
#endif
			pending = true
#ifdef MUTANT_TAKEN_BACK /* while the handler reads the note */
			;
			seen = ASKED;
			cas(LEAVE, seen, NONE, ACQ, won)
#endif
		:: else
		fi
	:: !dead && !stray -> stray = true; pending = true
	od;
	if
	:: dead -> gone; over = true; free_stack()
	:: else ->
		assert(KNOWN(KEPT)); /* stack_keep */
#ifdef MUTANT_EARLY /* the run's stacks are freed, this one with them */
		free_stack();
#endif
		touch(SLAB);
		over = true;
		exchange(LEAVE, DETACHED, ORDER_DETACHED, seen);
#ifdef MUTANT_END_FREES
		free_stack()
#else
		if
		:: seen == ENDED -> assert(KNOWN(STACK)); free_stack()
		:: else
		fi
#endif
	fi;
	gone;
	assert(freed == 1)
}
