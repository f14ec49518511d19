/* SPDX-License-Identifier: MIT */
/*
 * Model of own thread-locals: two Ms run a green thread with a block of its own in turn, while
 * glibc's signal for setuid interrupts them at any instruction.
 *
 * Processes
 *   M(i)        takes the G from the queue, loads its block, runs it, unloads, publishes it
 *   Handler(i)  the signal on the OS thread of M i: M i makes no step meanwhile
 *   Setter      the caller of setuid: asks each OS thread, and waits for its answer
 *
 * Properties
 *   OWNTLS-1: a block is loaded by one OS thread at most       assertion in load
 *   OWNTLS-2: getm() of the running G is its M                 assertion in M
 *   OWNTLS-2, TLSBLOCK-4: a handler answers for its own OS thread, and for no other one
 *                                                              assertion in Handler
 *   setuid returns                                             every end state is valid
 *
 * A step is one access of the block, or one write of the thread pointer.  Memory is sequentially
 * consistent: a handler runs on the OS thread that it interrupts, and the queue orders the accesses
 * of the two Ms.
 *
 * Left out: the pool, which a lock guards; what the G does; other signals, whose handlers need no
 * block of the OS thread.
 *
 * Models:
 *   src/variant/owntls.h: owntls_load owntls_unload
 *   src/machine/tlsblock.h: tlsblock_load
 *   src/machine/tlsblock_glibc.c: on_setxid
 *   src/variant/leave.c: park_own_g0
 *   src/variant/variant.h: variant_enter
 *   src/sched.c: resume_g0
 *
 * Runs: the searches of scripts/model
 *   holds
 *   deadlock   -DMUTANT_HOST_AFTER_LOAD
 *   assertion  -DMUTANT_M_AFTER_LOAD
 *   assertion  -DMUTANT_PUBLISHED_FIRST
 *   assertion  -DMUTANT_NOT_RESTORED
 *   deadlock   -DMUTANT_NO_HANDLER
 */
#define MS 2
#define ROUNDS 2
#define BLOCK 2 /* the G's; 0 and 1 are those of the OS threads */
#define NONE 3

byte tp[MS];       /* the block that is loaded */
byte its_m = NONE; /* in the G's block */
byte host = NONE;
bool queued = true; /* the G is in the queue */

/* in glibc's struct of each OS thread, and in the G's block */
bool asked[3];
bool pending[MS], handling[MS]; /* the signal */
bool ended[MS];

/* M i executes a step: no handler runs on its OS thread. */
#define STEP(step) atomic { !handling[i] -> step }

inline load()
{
#ifdef MUTANT_HOST_AFTER_LOAD
	STEP(its_m = i);
	STEP(tp[i] = BLOCK);
	STEP(host = i);
#else
#ifdef MUTANT_M_AFTER_LOAD
	STEP(host = i);
	STEP(tp[i] = BLOCK; assert(its_m == i)); /* a handler may call getm() here */
	STEP(its_m = i);
#else
	STEP(its_m = i);
	STEP(host = i);
	STEP(tp[i] = BLOCK; assert(its_m == i));
#endif
#endif
	assert(tp[1 - i] != BLOCK)
}

proctype M(byte i)
{
	byte n = 0;

	do
	:: n < ROUNDS ->
		atomic { queued && !handling[i] -> queued = false };
		load();
		STEP(assert(tp[i] == BLOCK && its_m == i)); /* the G runs */
#ifdef MUTANT_PUBLISHED_FIRST
		STEP(queued = true);
		STEP(tp[i] = i);
#else
		STEP(tp[i] = i);
		STEP(queued = true);
#endif
		n++
	:: else -> break
	od;
	STEP(ended[i] = true)
}

proctype Handler(byte i)
{
	byte was = NONE;

	atomic { pending[i] -> pending[i] = false; handling[i] = true };
#ifndef MUTANT_NO_HANDLER
	was = tp[i];
	if
	:: tp[i] == BLOCK && host != NONE -> tp[i] = host
	:: else
	fi;
#endif
	assert(tp[i] != 1 - i);
	asked[tp[i]] = false; /* glibc's handler */
#ifndef MUTANT_NO_HANDLER
#ifndef MUTANT_NOT_RESTORED
	tp[i] = was;
#endif
#endif
	handling[i] = false
}

proctype Setter()
{
	byte i = 0;

	do
	:: i < MS ->
		asked[i] = true;
		pending[i] = true;
		!asked[i];
		i++
	:: else -> break
	od
}

init {
	atomic {
		tp[0] = 0;
		tp[1] = 1;
		run M(0);
		run M(1);
		run Handler(0);
		run Handler(1);
		run Setter()
	}
}
