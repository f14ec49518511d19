/* SPDX-License-Identifier: MIT */
/*
 * Model of the futexes of libgmprt_posix: no lost wakeup between green threads that park, OS
 * threads that sleep in the kernel, and the operations that wake; no wake ends too many waits.
 *
 * Processes
 *   Thread   three of them; 1 is a green thread, 2 is another one, or with -DOUTSIDE an OS thread
 *            that waits in the kernel
 *     -DSEMAPHORE   0 posts a semaphore, which the others take and post by FUTEX_WAKE of one
 *     -DREQUEUE     the others wait for a change of the word; 0 changes it, calls FUTEX_CMP_REQUEUE
 *                   for one waiter to wake and one or none to move, then FUTEX_WAKE for the others
 *     -DWAKE_OP     the same; 0 changes the word by FUTEX_WAKE_OP
 *   With -DTIMER the deadline of thread 2 may pass at any time while it is parked
 *
 * Abstractions: the program's word is A, parked[bucket] is B.  The bucket is lock 0 and one queue;
 * the kernel's is lock 1 and `asleep`.  A requeue that moves thread 2 wakes it: the wake of the
 * other word is left out.  No green thread waits on that word.
 *
 * Properties
 *   FUTEX-1: no lost wakeup              every end state is valid
 *   FUTEX-2: no call ends too many waits assertion in wake and requeue
 *   FUTEX-3: a claimed wait returns 0: otherwise its wakeup is lost
 *   PARKED-2: the count is 0 at the end  assertion in init
 *
 * Step granularity: one access of A or B, a section under a lock, a claim.  Memory is that of
 * c11.inc with TOTAL.
 *
 * Left out: the first compare of a wait, without the lock; calls of signal handlers (-DPOST of
 * posix_mutex.pml); the unlocked check of the kernel for waiters, which is its own pair of fences.
 *
 * Models:
 *   posix/sync/futex.c: compare_word futex_park wake_parked
 *   posix/sync/futex.c: futex_wake futex_requeue futex_wake_op sum_of
 *   posix/sync/parked.c: parked_once parked_wake_some parked_unwait
 *   ORD: parked
 *
 * Runs: the searches of scripts/model
 *   holds      -DSEMAPHORE
 *   holds      -DSEMAPHORE -DOUTSIDE
 *   holds      -DSEMAPHORE -DTIMER
 *   holds      -DREQUEUE
 *   holds      -DREQUEUE -DOUTSIDE
 *   holds      -DWAKE_OP -DOUTSIDE
 *   deadlock   -DSEMAPHORE -DMUTANT_NO_WAITER_FENCE
 *   deadlock   -DSEMAPHORE -DMUTANT_NO_WAKER_FENCE
 *   deadlock   -DSEMAPHORE -DMUTANT_NO_COMPARE_UNDER_THE_LOCK
 *   deadlock   -DSEMAPHORE -DMUTANT_COUNTED_LATE
 *   deadlock   -DSEMAPHORE -DOUTSIDE -DMUTANT_KERNEL_NOT_ASKED
 *   assertion  -DSEMAPHORE -DOUTSIDE -DMUTANT_KERNEL_ASKED_FOR_NONE
 *   deadlock   -DSEMAPHORE -DTIMER -DMUTANT_TIMES_OUT_WHEN_WOKEN
 *   deadlock   -DSEMAPHORE -DTIMER -DMUTANT_COUNTS_A_LOST_CLAIM
 *   deadlock   -DREQUEUE -DMUTANT_LEAVES_THE_MOVED
 *   assertion  -DREQUEUE -DOUTSIDE -DMUTANT_SUM_OF_EACH_KIND
 *   deadlock   -DWAKE_OP -DMUTANT_PARKED_BEFORE_THE_KERNEL
 */
#define TOTAL
#define THREADS 3
#define SYNCS 2
#define LOCS 2
#define LOCKS 2
#define DEPTH 24
#include "c11.inc"

#define A 0
#define B 1
#define TIMED 2

byte queue[2], length, ended;
bool ready[3], claimed[3], asleep; /* asleep: thread 2, in the kernel */

/* --- waits for A == 0 --- */

inline unlink(me)
{
	d_step {
		if
		:: length > 0 && queue[0] == me -> queue[0] = queue[1]; queue[1] = 0; length--
		:: length > 1 && queue[1] == me -> queue[1] = 0; length--
		:: else
		fi
	}
}

/* Sets got to false if the deadline has passed. */
inline futex_park()
{
#ifndef MUTANT_COUNTED_LATE /* after the compare */
	exchange(B, v + 1, SEQ, v);
#endif
	fence(UNLESS(MUTANT_NO_WAITER_FENCE, SEQ)); /* ORD(parked): a lost wakeup */
	take_lock(0);
#ifdef MUTANT_NO_COMPARE_UNDER_THE_LOCK /* the word was changed meanwhile */
	v = 0;
#else
	load(A, RLX, v);
#endif
#ifdef MUTANT_COUNTED_LATE
	exchange(B, first + 1, SEQ, first);
	first = 0;
#endif
	if
	:: v != 0 -> drop_lock(0); exchange(B, v - 1, RLX, v)
	:: else ->
		d_step { queue[length] = me; length++; claimed[me] = false };
		drop_lock(0);
		if
		:: atomic { ready[me] -> ready[me] = false };
			exchange(B, v - 1, RLX, v);
#ifdef MUTANT_TIMES_OUT_WHEN_WOKEN /* the wake has ended no other wait */
			if
			:: me == TIMED -> got = false
			:: true
			fi
#endif
#ifdef TIMER
		:: atomic { me == TIMED && !claimed[me] -> claimed[me] = true };
			exchange(B, v - 1, RLX, v);
			take_lock(0);
			unlink(me);
			drop_lock(0);
			got = false
#endif
		fi
	fi;
	v = 0
}

inline wait_in_kernel()
{
	take_lock(1);
	load(A, RLX, v);
	if
	:: v != 0 -> drop_lock(1)
	:: else ->
		asleep = true;
		drop_lock(1);
		!asleep
	fi;
	v = 0
}

inline wait_for_word()
{
#ifdef OUTSIDE
	if
	:: me == 2 -> wait_in_kernel()
	:: else -> futex_park()
	fi
#else
	futex_park()
#endif
}

/* --- wakeups --- */

/* Adds the number of ended waits to n.  What is made ready in the section runs after it (LOT-2). */
inline wake_parked(most)
{
	fence(UNLESS(MUTANT_NO_WAKER_FENCE, SEQ)); /* ORD(parked): the same */
	load(B, RLX, v);
	if
	:: v > 0 ->
		take_lock(0);
		v = 0;
		do
		:: v < most && length > 0 ->
			atomic {
				first = queue[0];
				if
				:: !claimed[first] ->
					claimed[first] = true;
					ready[first] = true;
					n++;
					v++
				:: else ->
#ifdef MUTANT_COUNTS_A_LOST_CLAIM /* the next waiter sleeps on */
					v++
#else
					skip
#endif
				fi;
				unlink(first);
				first = 0
			}
		:: else -> break
		od;
		drop_lock(0)
	:: else
	fi;
	v = 0
}

/* The same of thread 2 if it sleeps in the kernel, which wakes one waiter also if asked for 0. */
inline wake_in_kernel()
{
#ifdef OUTSIDE
	take_lock(1);
	d_step {
		if
		:: asleep -> asleep = false; n++
		:: else
		fi
	};
	drop_lock(1)
#else
	skip
#endif
}

/* FUTEX_WAKE */
inline wake(most)
{
	n = 0;
	wake_parked(most);
#ifndef MUTANT_KERNEL_NOT_ASKED /* no green thread was parked */
	if
#ifdef MUTANT_KERNEL_ASKED_FOR_NONE /* it wakes one */
	:: true ->
#else
	:: n < most ->
#endif
		wake_in_kernel()
#ifndef MUTANT_KERNEL_ASKED_FOR_NONE
	:: else
#endif
	fi;
#endif
	assert(n <= most);
	n = 0
}

#ifdef SEMAPHORE
inline take_semaphore()
{
	seen = 1;
	do
	:: cas(A, seen, 0, ACQ, won);
		seen = 1;
		if
		:: won -> break
		:: else ->
			wait_for_word();
			if
			:: !got -> break
			:: else
			fi
		fi
	od;
	seen = 0
}

proctype Thread(byte me)
{
	byte ts, v, seen, n, first;
	bool won, got = true;

	if
	:: me == 0
	:: else -> take_semaphore()
	fi;
	if
	:: got -> exchange(A, 1, REL, v); v = 0; wake(1)
	:: else
	fi;
	ended++
}
#else
/* FUTEX_CMP_REQUEUE, of one waiter to wake and `move` others. */
inline requeue(move)
{
	wake_in_kernel();
#ifdef MUTANT_LEAVES_THE_MOVED /* the wake of the other word does not find them */
	rest = 1 - n;
#else
#ifdef MUTANT_SUM_OF_EACH_KIND
	rest = 1 + move;
#else
	rest = 1 + move - n;
#endif
#endif
	wake_parked(rest);
	assert(n <= 1 + move);
	rest = 0;
	n = 0
}

inline change_and_requeue()
{
	store_any(A, RLX, 1);
	if
	:: requeue(0); wake(2)
	:: requeue(1) /* all waiters of the word: two */
	fi
}

/* FUTEX_WAKE_OP.  The kernel stores with its lock held, which is not needed here. */
inline wake_op()
{
#ifdef MUTANT_PARKED_BEFORE_THE_KERNEL /* a waiter parks before the store */
	wake_parked(2);
#endif
	exchange(A, 1, RLX, v);
	v = 0;
	wake_in_kernel();
#ifndef MUTANT_PARKED_BEFORE_THE_KERNEL
	wake_parked(2);
#endif
	n = 0
}

proctype Thread(byte me)
{
	byte ts, v, n, first, rest;
	bool got;

	if
#ifdef REQUEUE
	:: me == 0 -> change_and_requeue()
#else
	:: me == 0 -> wake_op()
#endif
	:: else -> wait_for_word()
	fi;
	ended++
}
#endif

init {
	atomic {
		run Thread(0);
		run Thread(1);
		run Thread(2);
	}
	ended == 3;
	assert(VALUE(B, newest[B]) == 0 && length == 0)
}
