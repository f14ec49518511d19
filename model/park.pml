/* SPDX-License-Identifier: MIT */
/*
 * Model of parking: a wait is ended once, by a waker that has all writes of the waiter in its view;
 * and no other thread uses the sudog or the stack after the wait has returned, although stores
 * become visible late and in any order.
 *
 * Processes
 *   G        waits twice, for an item of an object X; it is resumed on another M each time
 *   G0       the stack g0 of each M: arms, checks for cancellation, commits (unlocks X)
 *   Waker    brings items: to the first waiter, or into X
 *
 * The runs differ in
 *   TIMED    both waits have a deadline, and the second waits for nothing else (a sleep); one item
 *   CANCEL   another thread cancels; one item; with UNCANCELLABLE the first wait is uncancellable
 *   HOLD     another thread holds the waiter for a moment and writes to the stack (waiter_hold, as
 *            trim_parked)
 *   EXTERN   an external thread in place of G; its sudog is on its stack; its waits may time out
 *
 * Properties
 *   PARK-1: resumed when off its stack, with the context that was saved    assertions in resumed
 *   PARK-2: one result, woken once; an item is received if and only if the result says so
 *                                          assertions in make_ready, init
 *   PARK-3, PARK-5: not queued, and no other thread uses its sudog or stack   assertions in over
 *   every wait ends                        every end state is valid
 *
 * Memory is that of c11.inc.  Accesses of data that is not atomic are counted by `touch`, and the
 * next access must have the last one in its view.  X's lock and the heap lock pass on the views of
 * their owners, and so does the run queue (runq.pml) from the waker to the M that resumes.  The
 * heavy fence is a fence of all threads; the light one is no instruction.
 *
 * Left out: several waiters, several objects (select.pml), timer heaps, masks, and machines without
 * membarrier, where both fences are full ones.
 *
 * Models:
 *   src/park.c: park_g0 park_slow_g0 cancel_wait park_green park_external ready
 *   src/waiter.h: waiter_claim waiter_hold waiter_release
 *   src/wait/parkinglot.c: lot_wake_first lot_dequeue lot_unwait lot_wait
 *   src/sched.c: end_wait_g0 execute_g0
 *   src/ready.c: sched_wake_external
 *   src/spawn.c: cancel_g
 *   ORD: waiter.claim waiter.done sudog.queued cancel
 *
 * Runs: the searches of scripts/model
 *   holds      -DTIMED
 *   holds      -DCANCEL
 *   holds      -DCANCEL -DUNCANCELLABLE
 *   holds      -DHOLD
 *   holds      -DEXTERN
 *   assertion  -DCANCEL -DMUTANT_ARMED
 *   assertion  -DHOLD -DMUTANT_CLAIM
 *   assertion  -DHOLD -DMUTANT_HELD
 *   assertion  -DHOLD -DMUTANT_RELEASED
 *   assertion  -DCANCEL -DMUTANT_CUT
 *   assertion  -DCANCEL -DUNCANCELLABLE -DMUTANT_NOT_CUT
 *   assertion  -DTIMED -DMUTANT_UNQUEUED
 *   assertion  -DTIMED -DMUTANT_QUEUED_SEEN
 *   assertion  -DEXTERN -DMUTANT_DONE
 *   assertion  -DEXTERN -DMUTANT_DONE_SEEN
 *   assertion  -DTIMED -DMUTANT_LATE_CLAIM
 *   assertion  -DTIMED -DMUTANT_NO_RECHECK
 *   deadlock   -DTIMED -DMUTANT_NOT_BUSY
 *   deadlock   -DHOLD -DMUTANT_COMMIT_FIRST
 *   assertion  -DCANCEL -DMUTANT_ARMED_ON_ITS_STACK
 *   deadlock   -DCANCEL -DMUTANT_NO_LIGHT_FENCE
 *   deadlock   -DCANCEL -DMUTANT_NO_HEAVY_FENCE
 */
#if defined(EXTERN)
#define MS 1
#else
#define MS 3
#endif
#define WAKER MS
#define OTHER (MS + 1) /* the timer, the canceller, or the thread that holds */
#define THREADS (MS + 2)

#if defined(HOLD)
#define ITEMS 2
#else
#define ITEMS 1
#endif
#define WAITS 2

/* --- the orders, as in the code; a mutant takes away one --- */

#ifdef MUTANT_ARMED /* ORD(waiter.claim): a waker resumes a context before it is saved */
#define ORDER_ARMED RLX
#else
#define ORDER_ARMED REL
#endif
#ifdef MUTANT_CLAIM /* ORD(waiter.claim): the stack is still being written to when it is resumed */
#define ORDER_CLAIM RLX
#else
#define ORDER_CLAIM SEQ
#endif
#ifdef MUTANT_HELD /* ORD(waiter.claim): a context is read before it is saved */
#define ORDER_HELD RLX
#else
#define ORDER_HELD SEQ
#endif
#ifdef MUTANT_RELEASED /* ORD(waiter.claim): the stack is resumed while it is written */
#define ORDER_RELEASED RLX
#else
#define ORDER_RELEASED REL
#endif
#ifdef MUTANT_CUT /* ORD(waiter.claim): a context is resumed before it is saved */
#define ORDER_CUT RLX
#else
#define ORDER_CUT SEQ
#endif
#ifdef MUTANT_NOT_CUT /* ORD(waiter.claim): the data is written again while it is read */
#define ORDER_NOT_CUT RLX
#else
#define ORDER_NOT_CUT REL
#endif
#ifdef MUTANT_UNQUEUED /* ORD(sudog.queued): the sudog is reused while the waker uses it */
#define ORDER_UNQUEUED RLX
#else
#define ORDER_UNQUEUED REL
#endif
#ifdef MUTANT_QUEUED_SEEN /* ORD(sudog.queued): the same */
#define ORDER_QUEUED_SEEN RLX
#else
#define ORDER_QUEUED_SEEN ACQ
#endif
#ifdef MUTANT_DONE /* ORD(waiter.done): the waker uses the sudog after the frame is gone */
#define ORDER_DONE RLX
#else
#define ORDER_DONE REL
#endif
#ifdef MUTANT_DONE_SEEN /* ORD(waiter.done): the same */
#define ORDER_DONE_SEEN RLX
#else
#define ORDER_DONE_SEEN ACQ
#endif

/* --- memory --- */

#define STATE 0
#define QUEUED 1
#define CANCELLED 2
#define SYNCS 3
/* not atomic */
#define CONTEXT 3
#define SUDOG 4
#define STACK 5
#define LOCS 6
#define DEPTH 20
#define LOCKS 2
#define X 0
#define HEAP 1
#include "c11.inc"

/* enum waiter_state; the claimed ones with their result */
#define IDLE 0
#define ARMED 1
#define BUSY 2
#define OK 3
#define ETIMEDOUT 4
#define ECANCELED 5
#define DONE 8 /* a flag */

/* under X's lock */
byte items;
bool inqueue;
/* under the heap's */
bool armed;

bool parked[MS]; /* from G to the g0 of its M: off the stack */
bool off;        /* its stack is not in use */
bool uncancellable;
bool sleeps; /* for no object */
bool woken;
byte handed[LOCS]; /* what the run queue hands on */
byte received, waits, ended;

/* waiter_claim: in won */
inline claim(how)
{
	do
	:: was = ARMED;
		cas(STATE, was, how, ORDER_CLAIM, won);
		if
		:: won || was != BUSY -> break
		:: else -> VALUE(STATE, newest[STATE]) != BUSY /* it polls */
		fi
	od;
	was = 0
}

/* ready of a green thread */
inline make_ready()
{
	d_step {
		assert(!woken);
		woken = true;
		for (mem_k : 0 .. LOCS - 1) {
			handed[mem_k] = KNOWS(me, mem_k)
		};
		mem_k = 0
	}
}

/* cancel_wait: in won, whether the caller must make it ready */
inline cancel_wait()
{
	do
	:: was = ARMED;
		cas(STATE, was, BUSY, ORDER_CUT, won);
		if
		:: won || was != BUSY -> break
		:: else -> VALUE(STATE, newest[STATE]) != BUSY
		fi
	od;
	was = 0;
	if
	:: won ->
		assert(KNOWN(CONTEXT));
		touch(STACK); /* it reads what the next wait writes: masked, uncancellable */
		load(CANCELLED, RLX, was);
		if
		:: was && !uncancellable -> store(STATE, REL, ECANCELED)
		:: else -> won = false; store(STATE, ORDER_NOT_CUT, ARMED)
		fi
	:: else
	fi;
	was = 0
}

/* lot_dequeue */
inline dequeue(order)
{
	inqueue = false;
	store(QUEUED, order, 0)
}

/* lot_unwait */
inline unwait()
{
	load(QUEUED, ORDER_QUEUED_SEEN, was);
	if
	:: was ->
		take_lock(X);
#ifndef MUTANT_NO_RECHECK /* the waker has dequeued it meanwhile */
		if
		:: inqueue -> dequeue(RLX)
		:: else
		fi;
#else
		assert(inqueue);
		dequeue(RLX);
#endif
		drop_lock(X)
	:: else
	fi;
	was = 0
}

/* wait_on has returned */
inline over()
{
	atomic {
		assert(!inqueue && !woken && KNOWN(SUDOG) && KNOWN(STACK));
		assert(!sleeps || what == ETIMEDOUT);
		if
		:: what == OK -> received++
		:: else
		fi;
		what = 0
	}
}

/* --- the waiter --- */

#ifndef EXTERN
/* park_g0: steps 4 to 7 of park.h, and 8 */
proctype G0(byte me)
{
	byte ts, was;
	bool won;

end:	atomic { parked[me] -> off = true };
#ifdef TIMED
#ifndef MUTANT_NOT_BUSY /* the timer finds nothing to claim, and does not fire again */
	store(STATE, RLX, BUSY);
#endif
	take_lock(HEAP);
	armed = true;
	drop_lock(HEAP);
#endif
#ifdef MUTANT_COMMIT_FIRST /* the waker finds nothing to claim, as if another had won */
	drop_lock(X);
#endif
#ifdef MUTANT_NO_LIGHT_FENCE /* ORD(cancel): the flag is read before it is armed */
	load(CANCELLED, RLX, was);
#endif
#ifndef MUTANT_ARMED_ON_ITS_STACK
	store(STATE, ORDER_ARMED, ARMED);
#endif
#ifndef MUTANT_NO_LIGHT_FENCE
	load(CANCELLED, RLX, was);
#endif
	if
	:: was -> was = 0; cancel_wait()
	:: else
	fi;
#ifndef MUTANT_COMMIT_FIRST
	if
	:: !sleeps -> drop_lock(X)
	:: else /* commit_none */
	fi;
#endif
	if
	:: won -> make_ready(); won = false
	:: else
	fi
}

/* execute_g0, end_wait_g0: on another M, with the view that the run queue passes on */
inline resumed()
{
	atomic {
		woken ->
		d_step {
			woken = false;
			me++;
			for (mem_k : 0 .. LOCS - 1) {
				if
				:: handed[mem_k] > KNOWS(me, mem_k) ->
					KNOWS(me, mem_k) = handed[mem_k]
				:: else
				fi;
				handed[mem_k] = 0
			};
			mem_k = 0;
			assert(off && KNOWN(CONTEXT) && KNOWN(STACK));
			off = false
		}
	};
	load(STATE, RLX, what);
	assert(what >= OK);
#ifdef TIMED
	/* timer_del */
	take_lock(HEAP);
	armed = false;
	drop_lock(HEAP);
#endif
	if
	:: what != OK && !sleeps -> unwait()
	:: else
	fi;
	store(STATE, RLX, IDLE)
}

proctype G()
{
	byte me, ts, was, what;

	do
	:: waits == WAITS -> break
	:: else ->
		waits++;
#ifdef UNCANCELLABLE
		uncancellable = waits == 1;
#endif
#ifdef TIMED
		sleeps = waits == 2;
#endif
		if
		:: !sleeps -> take_lock(X)
		:: else
		fi;
		if
		:: sleeps -> touch(CONTEXT); parked[me] = true; resumed(); over()
		:: !sleeps && items > 0 -> items--; drop_lock(X); received++
		:: else ->
			assert(KNOWN(SUDOG));
			touch(SUDOG);
			store(QUEUED, RLX, 1);
			inqueue = true;
#ifdef MUTANT_ARMED_ON_ITS_STACK /* PARK-1: it is resumed elsewhere while it runs here */
			store(STATE, REL, ARMED);
#endif
			touch(CONTEXT);
			parked[me] = true;
			resumed();
			over()
		fi
	od;
	ended++
}
#else
bool live; /* the frame with the sudog is there */

/* park_external */
proctype G()
{
	byte me, ts, was, what;
	bool won;

	do
	:: waits == WAITS -> break
	:: else ->
		waits++;
		take_lock(X);
		if
		:: items > 0 -> items--; drop_lock(X); received++
		:: else ->
			live = true;
			store(STATE, RLX, IDLE);
			touch(SUDOG);
			store(QUEUED, RLX, 1);
			inqueue = true;
			store(STATE, REL, ARMED);
			drop_lock(X);
			do
			:: load(STATE, ORDER_DONE_SEEN, what);
				if
				:: what & DONE -> what = what - DONE; break
				:: else /* futex: until the word changes or the deadline passes */
					if
					:: VALUE(STATE, newest[STATE]) != what
					:: what == ARMED ->
						claim(ETIMEDOUT);
						if
						:: won -> what = ETIMEDOUT; break
						:: else
						fi
					fi
				fi
			od;
			won = false;
			if
			:: what != OK -> unwait()
			:: else
			fi;
			over();
			live = false
		fi
	od;
	ended++
}
#endif

/* --- the wakers --- */

proctype Waker()
{
	byte me = WAKER, ts, was, k;
	bool won;

	do
	:: k == ITEMS -> break
	:: else ->
		k++;
		take_lock(X);
		/* lot_wake_first */
		if
		:: inqueue ->
#ifdef MUTANT_LATE_CLAIM /* PARK-5, ORD(sudog.queued): the claim hits the next wait */
			dequeue(ORDER_UNQUEUED);
			claim(OK);
#else
			claim(OK);
			touch(SUDOG); /* its links */
			dequeue(ORDER_UNQUEUED);
#endif
		:: else
		fi;
		if
		:: !won -> items++
		:: else
		fi;
		drop_lock(X);
		if
		:: won ->
#ifdef EXTERN
			/* sched_wake_external, after the links of the list */
			assert(live);
			touch(SUDOG);
			store(STATE, ORDER_DONE, OK + DONE);
#else
			make_ready();
#endif
			won = false
		:: else
		fi
	od;
	ended++
}

#ifdef TIMED
/* timers_run, wait_timed_out */
proctype Other()
{
	byte me = OTHER, ts, was;
	bool won;

end:	do
	:: atomic { armed -> take_lock(HEAP) };
		if
		:: armed -> armed = false; claim(ETIMEDOUT)
		:: else
		fi;
		drop_lock(HEAP);
		if
		:: won -> make_ready(); won = false
		:: else
		fi
	od
}
#endif

#ifdef CANCEL
/* cancel */
proctype Other()
{
	byte me = OTHER, ts, was;
	bool won;

	store(CANCELLED, RLX, 1);
	cancel_wait();
#ifndef MUTANT_NO_HEAVY_FENCE /* ORD(cancel): neither sees what the other has stored */
	if
	:: !won -> meet_all(); cancel_wait()
	:: else
	fi;
#else
	if
	:: !won -> cancel_wait()
	:: else
	fi;
#endif
	if
	:: won -> make_ready()
	:: else
	fi;
	ended++
}
#endif

#ifdef HOLD
/* trim_parked: waiter_hold, waiter_release */
proctype Other()
{
	byte me = OTHER, ts, was, k;
	bool won;

	for (k : 1 .. 2) {
		was = ARMED;
		cas(STATE, was, BUSY, ORDER_HELD, won);
		if
		:: won ->
			assert(KNOWN(CONTEXT));
			touch(STACK);
			store(STATE, ORDER_RELEASED, ARMED)
		:: else
		fi;
		won = false
	};
	ended++
}
#endif

#if defined(CANCEL) || defined(HOLD)
#define PARTS 3
#else
#define PARTS 2
#endif

init
{
	atomic {
		run G();
		run Waker();
#ifndef EXTERN
		run G0(0);
		run G0(1);
		run Other();
#endif
	};
	ended == PARTS;
	assert(received + items == ITEMS && !inqueue)
}
