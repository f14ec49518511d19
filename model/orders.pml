/* SPDX-License-Identifier: MIT */
/*
 * Model of the memory orders of single words: the data that a word guards is visible to its next
 * user.
 *
 * The other models verify which thread changes a word, and when.  Some of them do so with a memory
 * that is sequentially consistent, or without the data that the word guards.  This model has only
 * the data and the orders, for the words whose orders no other model weakens.  Each run is one
 * word.
 *
 * Processes
 *   MUTEX    three threads that lock and unlock, in each of the ways there are
 *   JOIN     a thread that detaches a green thread; the end of that G, which reads without the
 *            bucket lock
 *   WAKE     an M that sleeps, and an M that wakes it, twice
 *   TIMER    a heap that fires a timer; its owner, which removes it or observes that it has fired
 *   ALLP     a thread that creates a P; a thread that iterates over all Ps
 *
 * Properties
 *   a thread that may use the guarded data has all earlier changes in its view   assertions in mine
 *
 * Memory is that of c11.inc; accesses of the guarded data are counted by `touch`.
 *
 * Left out: handing the mutex over, where the word of the waiter carries the order (park.pml); the
 * protocol of each word (mutex.pml, join.pml, wake.pml, fd.pml).
 *
 * Models:
 *   src/wait/mutex.c: mutex_take mutex_unlock_slow
 *   src/wait/mutex_unlock.c: gmp_mutex_unlock
 *   src/wait/join.c: gmp_detach
 *   src/sched.c: sched_exit_g0
 *   src/pick.c: steal_work
 *   src/m.c: m_wake m_sleep
 *   src/proc.c: p_make_up_to
 *   src/timer/timerheap.c: timers_run timer_del
 *   ORD: mutex join m.wake timer.pp allp
 *
 * Runs: the searches of scripts/model
 *   holds      -DMUTEX
 *   holds      -DJOIN
 *   holds      -DWAKE
 *   holds      -DTIMER
 *   holds      -DALLP
 *   assertion  -DMUTEX -DMUTANT_TAKE
 *   assertion  -DMUTEX -DMUTANT_UNLOCK
 *   assertion  -DMUTEX -DMUTANT_UNLOCK_CAS
 *   assertion  -DMUTEX -DMUTANT_UNLOCK_WOKEN
 *   assertion  -DMUTEX -DMUTANT_UNLOCK_SLOW
 *   assertion  -DJOIN -DMUTANT_DETACH
 *   assertion  -DJOIN -DMUTANT_END
 *   assertion  -DWAKE -DMUTANT_WAKE_M
 *   assertion  -DWAKE -DMUTANT_SLEEP_M
 *   assertion  -DTIMER -DMUTANT_FIRED
 *   assertion  -DTIMER -DMUTANT_NOT_THERE
 *   assertion  -DALLP -DMUTANT_MADE
 *   assertion  -DALLP -DMUTANT_ITERATE
 */
#define WORD 0
#define DATA 1
#define LOCS 2
#define SYNCS 1
#define DEPTH 16
#define THREADS 3
#include "c11.inc"

/* --- the orders, as in the code; a mutant takes away one --- */

#ifdef MUTANT_TAKE /* ORD(mutex): the writes of the last owner are not visible */
#define ORDER_TAKE RLX
#else
#define ORDER_TAKE ACQ
#endif
#ifdef MUTANT_UNLOCK /* ORD(mutex): the writes are not released: uncontended bucket */
#define ORDER_UNLOCK RLX
#else
#define ORDER_UNLOCK REL
#endif
#ifdef MUTANT_UNLOCK_CAS /* ORD(mutex): the same, contended bucket */
#define ORDER_UNLOCK_CAS RLX
#else
#define ORDER_UNLOCK_CAS REL
#endif
#ifdef MUTANT_UNLOCK_WOKEN /* ORD(mutex): the same, with WOKEN set */
#define ORDER_UNLOCK_WOKEN RLX
#else
#define ORDER_UNLOCK_WOKEN REL
#endif
#ifdef MUTANT_UNLOCK_SLOW /* ORD(mutex): the same, in mutex_unlock_slow */
#define ORDER_UNLOCK_SLOW RLX
#else
#define ORDER_UNLOCK_SLOW REL
#endif
#ifdef MUTANT_DETACH /* ORD(join): the g struct is freed while it is still read */
#define ORDER_DETACH RLX
#else
#define ORDER_DETACH REL
#endif
#ifdef MUTANT_END /* ORD(join): the same */
#define ORDER_END RLX
#else
#define ORDER_END ACQ
#endif
#ifdef MUTANT_WAKE_M /* ORD(m.wake): it wakes without seeing its P */
#define ORDER_WAKE_M RLX
#else
#define ORDER_WAKE_M REL
#endif
#ifdef MUTANT_SLEEP_M /* ORD(m.wake): the same */
#define ORDER_SLEEP_M RLX
#else
#define ORDER_SLEEP_M ACQ
#endif
#ifdef MUTANT_FIRED /* ORD(timer.pp): it is armed again while it still fires */
#define ORDER_FIRED RLX
#else
#define ORDER_FIRED REL
#endif
#ifdef MUTANT_NOT_THERE /* ORD(timer.pp): the same */
#define ORDER_NOT_THERE RLX
#else
#define ORDER_NOT_THERE ACQ
#endif
#ifdef MUTANT_MADE /* ORD(allp): a P is read before it is initialised */
#define ORDER_MADE RLX
#else
#define ORDER_MADE REL
#endif
#ifdef MUTANT_ITERATE /* ORD(allp): the same */
#define ORDER_LOOK RLX
#else
#define ORDER_LOOK ACQ
#endif

/* The caller reads and writes what is guarded. */
inline mine()
{
	d_step { assert(KNOWN(DATA)); newest[DATA]++; KNOWS(me, DATA) = newest[DATA] }
}

#define NOW VALUE(WORD, newest[WORD]) /* for the owner of the lock under which the word changes */

#ifdef MUTEX
#define LOCKED 1
#define WOKEN 4
#define ROUNDS (me == 0 -> 2 : 1)

/* Each continues if the word is free, with or without WOKEN; another may win the race. */
proctype Thread(byte me)
{
	byte ts, s, round;
	bool won;

	do
	:: round == ROUNDS -> break
	:: else ->
		do
		:: atomic { NOW != LOCKED -> s = NOW };
			cas(WORD, s, LOCKED, ORDER_TAKE, won);
			if
			:: won -> break
			:: else
			fi
		od;
		mine();
		s = LOCKED;
		if
		:: store(WORD, ORDER_UNLOCK, 0)
		:: cas(WORD, s, 0, ORDER_UNLOCK_CAS, won)
		:: cas(WORD, s, WOKEN, ORDER_UNLOCK_WOKEN, won)
		:: take_lock(0);
			if
			:: store(WORD, ORDER_UNLOCK_SLOW, WOKEN)
			:: store(WORD, ORDER_UNLOCK_SLOW, 0)
			fi;
			drop_lock(0)
		fi;
		atomic { round++; s = 0; won = false }
	od
}

init { atomic { run Thread(0); run Thread(1); run Thread(2) } }
#endif

#ifdef JOIN
#define DETACHED 1

proctype Detacher(byte me)
{
	byte ts;

	take_lock(0);
	mine(); /* gp, while it cannot be freed */
	store(WORD, ORDER_DETACH, DETACHED);
	drop_lock(0)
}

/* sched_exit_g0; under the lock: green_exited, which checks again. */
proctype End(byte me)
{
	byte ts, join;

	load(WORD, ORDER_END, join);
	if
	:: join == DETACHED -> mine()
	:: else ->
		take_lock(0);
		if
		:: NOW == DETACHED -> mine()
		:: else /* another thread frees it */
		fi;
		drop_lock(0)
	fi
}

init { atomic { run Detacher(0); run End(1) } }
#endif

#ifdef WAKE
#define TIMES 2

bool listed; /* under sched.lock */

proctype Sleeper(byte me)
{
	byte ts, wake, n;

	do
	:: n == TIMES -> break
	:: else ->
		take_lock(0);
		mine(); /* nextp = NULL */
		listed = true;
		drop_lock(0);
		do
		:: wake == 1 -> break
		:: else -> load(WORD, ORDER_SLEEP_M, wake)
		od;
		store(WORD, RLX, 0);
		mine(); /* nextp is its P */
		atomic { wake = 0; n++ }
	od
}

proctype Waker(byte me)
{
	byte ts, n;

	do
	:: n == TIMES -> break
	:: else ->
		listed;
		take_lock(0);
		listed = false;
		mine();
		drop_lock(0);
		store(WORD, ORDER_WAKE_M, 1);
		n++
	od
}

init { atomic { run Sleeper(0); run Waker(1) } }
#endif

#ifdef TIMER
#define IN_HEAP 0
#define OUT 1

proctype Heap(byte me)
{
	byte ts;

	take_lock(0);
	if
	:: NOW == IN_HEAP ->
		mine(); /* fire */
		store(WORD, ORDER_FIRED, OUT)
	:: else /* it has been removed */
	fi;
	drop_lock(0)
}

proctype Owner(byte me)
{
	byte ts, pp;

	do
	:: load(WORD, ORDER_NOT_THERE, pp);
		if
		:: pp == OUT -> break
		:: else ->
			take_lock(0);
			if
			:: NOW == IN_HEAP -> store(WORD, RLX, OUT); drop_lock(0); break
			:: else -> drop_lock(0)
			fi
		fi
	od;
	mine() /* it is armed for something else */
}

init { atomic { run Heap(0); run Owner(1) } }
#endif

#ifdef ALLP
proctype Maker(byte me)
{
	byte ts;

	mine();
	store(WORD, ORDER_MADE, 1)
}

proctype Looker(byte me)
{
	byte ts, n;

	load(WORD, ORDER_LOOK, n);
	if
	:: n == 1 -> mine()
	:: else
	fi
}

init { atomic { run Maker(0); run Looker(1) } }
#endif
