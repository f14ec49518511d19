/* SPDX-License-Identifier: MIT */
/*
 * Model of the parked waiters of libgmprt_posix: no lost wakeup between libc's unlock and a green
 * thread that parks, and between sem_post in a handler and sysmon.
 *
 * Processes
 *   Thread   three of them; the first one holds the mutex at first, each other one locks and
 *            unlocks it
 *   Timer    with -DTIMER: the deadline of the last thread may pass while it is queued
 *   Handler, Sysmon   with -DPOST, in place of these
 *
 * Abstractions: the word of libc's mutex is A: trylock is a compare-and-swap with acquire, and
 * unlock an exchange with release (the value for libc's own waiters is left out: they are woken by
 * libc).  The count parked[bucket] is B.  The bucket is one lock and one queue.
 *
 * Properties
 *   no lost wakeup, also if a woken thread has timed out (PARKED-3)
 *                                        every end state is valid
 *   mutual exclusion                     assertion in got_it
 *   PARKED-2: the count is 0 at the end  assertion in init
 *   LATER-1: a post that sysmon has not seen has delegated its work   assertion in Sysmon
 *
 * Step granularity: one access of A or B, a section under the bucket lock.  Memory is that of
 * c11.inc with TOTAL.
 *
 * Left out: the stores of `delegated` (dekker.pml), the arming of the waiter before the bucket is
 * unlocked (park.pml), the kinds of mutexes, condition variables (their counts are ordered by the
 * mutex).
 *
 * Models:
 *   posix/sync/parked.c: parked_once parked_acquire parked_wake_some parked_unwait put_into
 *   posix/sync/parked.c: wake_posted
 *   posix/sync/parked.h: parked_wake
 *   ORD: parked posted
 *
 * Runs: the searches of scripts/model
 *   holds      -DMUTEX
 *   holds      -DMUTEX -DTIMER
 *   holds      -DPOST
 *   deadlock   -DMUTEX -DMUTANT_NO_WAITER_FENCE
 *   deadlock   -DMUTEX -DMUTANT_NO_WAKER_FENCE
 *   deadlock   -DMUTEX -DMUTANT_NO_TRY_UNDER_THE_LOCK
 *   deadlock   -DMUTEX -DMUTANT_COUNTED_LATE
 *   deadlock   -DMUTEX -DTIMER -DMUTANT_GIVES_UP_WHEN_WOKEN
 *   assertion  -DPOST -DMUTANT_SLOT
 *   assertion  -DPOST -DMUTANT_SLOT_SEEN
 */
#define TOTAL
#define THREADS 3
#define SYNCS 2
#define LOCS 2
#define DEPTH 24
#include "c11.inc"

#define A 0
#define B 1

#ifdef MUTEX
#define LAST 2
#define NONE 255

byte queue[2], length, holder, ended;
bool queued[3], ready[3], expired;

inline got_it(me)
{
	atomic { assert(holder == NONE); holder = me }
}

inline unlink_first()
{
	d_step { queued[queue[0]] = false; queue[0] = queue[1]; queue[1] = 0; length-- }
}

inline unlink_last()
{
	d_step {
		if
		:: queue[0] == LAST -> queue[0] = queue[1]
		:: else
		fi;
		queue[1] = 0;
		queued[LAST] = false;
		length--
	}
}

/* Sets got. */
inline lock_mutex()
{
	woken = false;
	cas(A, free, 1, ACQ, won);
	free = 0;
	do
	:: won -> got_it(me); got = true; break
	:: else ->
#ifndef MUTANT_COUNTED_LATE /* after the try */
		exchange(B, v + 1, SEQ, v);
#endif
		fence(UNLESS(MUTANT_NO_WAITER_FENCE, SEQ)); /* ORD(parked): a lost wakeup */
		take_lock(0);
#ifdef MUTANT_NO_TRY_UNDER_THE_LOCK /* unlocked meanwhile */
		won = false;
#else
		cas(A, free, 1, ACQ, won);
		free = 0;
#endif
#ifdef MUTANT_COUNTED_LATE
		exchange(B, v + 1, SEQ, v);
#endif
		if
		:: won -> drop_lock(0); exchange(B, v - 1, RLX, v)
		:: else ->
			d_step {
				if
				:: woken && length == 1 -> queue[1] = queue[0]; queue[0] = me
				:: else -> queue[length] = me
				fi;
				length++;
				queued[me] = true
			};
			drop_lock(0);
			if
			:: atomic { ready[me] -> ready[me] = false };
				exchange(B, v - 1, RLX, v);
				woken = true;
#ifdef MUTANT_GIVES_UP_WHEN_WOKEN /* the unlock has woken no other waiter */
				if
				:: me == LAST && expired -> got = false; break
				:: else
				fi
#endif
			:: me == LAST && expired && queued[me] ->
				/* parked_unwait: the timer has claimed it, unless a waker has */
				exchange(B, v - 1, RLX, v);
				take_lock(0);
				if
				:: queued[me] -> unlink_last(); drop_lock(0); got = false; break
				:: else -> drop_lock(0); exchange(B, v + 1, SEQ, v);
					atomic { ready[me] -> ready[me] = false };
					exchange(B, v - 1, RLX, v);
					woken = true
				fi
			fi
		fi
	od
}

inline unlock_mutex()
{
	holder = NONE;
	exchange(A, 0, REL, v);
	fence(UNLESS(MUTANT_NO_WAKER_FENCE, SEQ)); /* ORD(parked): the same */
	load(B, RLX, v);
	if
	:: v > 0 ->
		first = NONE;
		take_lock(0);
		if
		:: length > 0 -> first = queue[0]; unlink_first()
		:: else
		fi;
		drop_lock(0);
		if
		:: first != NONE -> ready[first] = true
		:: else
		fi
	:: else
	fi
}

proctype Thread(byte me)
{
	byte ts, v, first, free;
	bool won, got, woken;

	if
	:: me == 0 -> got = true
	:: else -> lock_mutex()
	fi;
	if
	:: got -> unlock_mutex()
	:: else
	fi;
	ended++
}

#ifdef TIMER
proctype Timer()
{
	if
	:: expired = true
	:: true
	fi
}
#endif

init {
	atomic {
		holder = 0;
		VALUE(A, 0) = 1;
		run Thread(0);
		run Thread(1);
		run Thread(2);
#ifdef TIMER
		run Timer();
#endif
	}
	ended == 3;
	assert(VALUE(B, newest[B]) == 0 && length == 0)
}
#endif

#ifdef POST
/* A: a slot.  B: delegated. */
byte me_done;

proctype Handler(byte me)
{
	byte ts, v;
	bool won;

	v = 0;
	cas(A, v, 1, WEAK(MUTANT_SLOT, SEQ, ACQREL), won); /* ORD(posted): the wakeup is late */
	store_any(B, SEQ, 1);
	me_done++
}

proctype Sysmon(byte me)
{
	byte ts, v;

	store_any(B, SEQ, 0);
	load(A, UNLESS(MUTANT_SLOT_SEEN, SEQ), v); /* ORD(posted): the same */
	me_done == 1;
	assert(v == 1 || VALUE(B, newest[B]) == 1)
}

init { atomic { run Handler(0); run Sysmon(1) } }
#endif
