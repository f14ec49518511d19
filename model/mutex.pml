/* SPDX-License-Identifier: MIT */
/*
 * Model of the mutex: mutual exclusion and no lost wakeup under every schedule of three threads.
 *
 * Processes
 *   Thread   three of them (with -DTWO: two); each locks and unlocks ROUNDS times
 *   Timer    the deadline of the last thread; it may pass during any of its waits
 *            (with -DKILLED, in its place: the last thread may be killed at shutdown before it
 *            runs, after it was woken to compete or was handed the lock)
 *   Sysmon   with -DQUICK: the bucket is uncontended at first, and sysmon marks it as uncontended
 *            again, at any time, if it is empty.  Without: it is always contended, and every unlock
 *            is a locked instruction
 *
 * Abstractions: lock, enqueue, mutex_lock_slow, mutex_unlock_slow and mutex_unwait are those of
 * src/wait/mutex.c.  The queue is the bucket of src/wait/parkinglot.c, the wait that of src/park.h;
 * its arming before the bucket is unlocked is one step here (modelled in select.pml).  Whether the
 * first waiter is overdue (MUTEX-4) is arbitrary (`starving`), and so is whether a thread spins
 * (mutex_spin, and with it the bit STUCK, which otherwise only makes an unlock compare and swap).
 *
 * Properties
 *   mutual exclusion                 assertion in got_it
 *   no lost wakeup                   every end state is valid; the word is clean at the end (init)
 *   a lock handed over is not lost   got_it: the heir has not timed out, and the next lock is
 *                                    its own
 *   no barging in starvation mode    got_it: no other thread gets the lock before the heir
 *   MUTEX-1: if a waiter is queued, PARKED is set, or the unlocker that has overwritten PARKED is
 *       in unlock_repair (UNLOCK-1): assertion after each section
 *
 * Step granularity: one access of the word.  A section under the bucket lock is several steps,
 * since the word changes without that lock.  Memory is sequentially consistent, except the plain
 * store of unlock (UNLOCK-1): it stays in the store buffer of its thread, invisible to others,
 * until the next locked instruction of that thread, the heavy fence of another, or any earlier
 * moment.  The thread itself reads the word meanwhile only in lock, as a hint.
 *
 * Left out: try_lock (a lock that does not wait), external threads, the treap.
 *
 * Models:
 *   src/wait/mutex.c: mutex_take mutex_enqueue mutex_unwait mutex_give_up mutex_lock_slow
 *   src/wait/mutex.c: mutex_claim_first mutex_unlock_slow gmp_mutex_lock
 *   src/wait/mutex_unlock.c: unlock_repair gmp_mutex_unlock
 *   src/wait/parkinglot.c: lot_wake_first lot_unwait lot_dequeue lot_mark_contended lot_reset
 *   src/waiter.h: waiter_claim
 *   ORD: uncontended
 *
 * Runs: the searches of scripts/model
 *   holds      -DROUNDS=2
 *   holds      -DROUNDS=2 -DTIMER
 *   holds      -DROUNDS=2 -DKILLED
 *   assertion  -DROUNDS=1 -DMUTANT_BLIND_TAKE
 *   assertion  -DROUNDS=1 -DMUTANT_FREE_HANDOVER
 *   assertion  -DROUNDS=1 -DMUTANT_PARKED_LOST
 *   deadlock   -DROUNDS=1 -DMUTANT_NO_RECHECK_IN_LOCK
 *   deadlock   -DROUNDS=2 -DMUTANT_WOKEN_KEPT
 *   assertion  -DROUNDS=1 -DTIMER -DMUTANT_HANDOVER_LOST
 *   assertion  -DROUNDS=1 -DKILLED -DMUTANT_NOT_PASSED_ON
 *   assertion  -DROUNDS=1 -DKILLED -DMUTANT_HANDED_TO_KILLED
 *   holds      -DROUNDS=1 -DQUICK
 *   holds      -DROUNDS=1 -DQUICK -DTIMER
 *   holds      -DROUNDS=1 -DQUICK -DKILLED
 *   holds      -DROUNDS=3 -DQUICK -DTWO
 *   assertion  -DROUNDS=1 -DQUICK -DMUTANT_NO_FENCE
 *   assertion  -DROUNDS=1 -DQUICK -DMUTANT_NO_RECHECK_IN_UNLOCK
 *   assertion  -DROUNDS=1 -DQUICK -DMUTANT_NO_REPAIR_OF_LOCKED
 *   deadlock   -DROUNDS=1 -DQUICK -DMUTANT_UNCONTENDED_WITH_WAITERS
 */
#define N 3
#define LAST 2
#define NONE 255

/* the word */
#define LOCKED 1
#define PARKED 2
#define WOKEN 4
#define BARE(s, bit) ((s) & (7 - (bit)))
byte word;

/* struct waiter, and the G's sudog */
#define IDLE 0
#define ARMED 1
#define CLAIMED 2
byte state[N], result[N];
#define OK 0
#define ETIMEDOUT 1
#define HANDED_OVER 2
bool ready[N], queued[N];

/* the plain stores in store buffers, and the threads that may have to repair what they overwrote */
bool buffered[N], mending[N];

/* the bucket */
bool bucket_locked, uncontended;
byte queue[N], length;

/* for the properties */
byte holder = NONE, heir = NONE, ended;

inline flush(id)
{
	if
	:: buffered[id] -> buffered[id] = false; word = 0
	:: else
	fi
}

/* a locked instruction */
inline lock_bucket(me)
{
	atomic { !bucket_locked -> flush(me); bucket_locked = true }
}

inline unlock_bucket()
{
	atomic {
		/* MUTEX-1 */
		assert(length == 0 || (word & PARKED) || mending[0] || mending[1] || mending[2]);
		bucket_locked = false
	}
}

/* one compare-and-swap; s is what it finds, as in src/base/atomic.h */
inline cas(from, to, won)
{
	atomic {
		flush(me);
		if
		:: word == from -> word = to; won = true
		:: else -> from = word; won = false
		fi
	}
}

inline got_it(me)
{
	atomic {
		assert(holder == NONE && (heir == NONE || heir == me));
		holder = me;
		heir = NONE
	}
}

inline push_front(id)
{
	d_step {
		queue[2] = queue[1];
		queue[1] = queue[0];
		queue[0] = id;
		length++;
		queued[id] = true
	}
}

inline push_back(id)
{
	d_step { queue[length] = id; length++; queued[id] = true }
}

inline unlink(id)
{
	d_step {
		assert(queued[id]);
		if
		:: queue[0] == id -> queue[0] = queue[1]; queue[1] = queue[2]
		:: queue[0] != id && queue[1] == id -> queue[1] = queue[2]
		:: else
		fi;
		length--;
		queue[length] = 0;
		queued[id] = false
	}
}

/* waiter_claim */
inline claim(id, how, won)
{
	atomic {
		if
		:: state[id] == ARMED -> state[id] = CLAIMED; result[id] = how; won = true
		:: else -> won = false
		fi
	}
}

inline make_ready(id)
{
	atomic { assert(state[id] == CLAIMED && !ready[id]); ready[id] = true }
}

/* lot_wake_first, for a claim with 0; in first: the waiter to make ready, or NONE */
inline wake_first()
{
	first = NONE;
	do
	:: length == 0 -> break
	:: length > 0 ->
		first = queue[0];
		claim(first, OK, won);
		unlink(first);
		if
		:: won -> break
		:: else -> first = NONE
		fi
	od
}

/* --- the waits that end without the lock --- */

inline mutex_unwait(me)
{
	if
	:: queued[me] ->
		/* mutex_give_up */
		lock_bucket(me);
		if
		:: queued[me] -> unlink(me)
		:: else
		fi;
		unlock_bucket()
	:: else ->
		if
		:: result[me] != OK
		:: else ->
#ifndef MUTANT_NOT_PASSED_ON /* the woken waiter is gone and wakes no other */
			lock_bucket(me);
			atomic { s = word; word = BARE(word, WOKEN) };
			if
			:: s & LOCKED -> first = NONE
			:: else ->
				wake_first();
				if
				:: first != NONE -> /* mutex_set_woken */
					atomic {
						word = BARE(word, PARKED) | WOKEN |
						       (length > 0 -> PARKED : 0)
					}
				:: else
				fi
			fi;
			unlock_bucket();
			if
			:: first != NONE -> make_ready(first)
			:: else
			fi
#else
			skip
#endif
		fi
	fi
}

/* --- lock --- */

/* In got: whether it has the lock. */
inline lock_mutex(me)
{
	awake = false;
	/* gmp_mutex_lock: the word was read as free, and still is */
	s = word;
	do
	:: !(s & LOCKED) ->
#ifdef MUTANT_BLIND_TAKE /* a load and a store: two threads may find it free */
		word = word | LOCKED;
		won = true;
#else
		cas(s, (s | LOCKED) & (awake -> 7 - WOKEN : 7), won);
#endif
		if
		:: won -> got_it(me); got = true; break
		:: else -> s = word
		fi
	:: s & LOCKED ->
		if
		:: s = word /* it spins once */
		:: lock_bucket(me);
			/* enqueue; first, lot_mark_contended */
			if
			:: uncontended ->
				uncontended = false;
#ifndef MUTANT_NO_FENCE /* ORD(uncontended): an earlier store is invisible, its re-check over */
				atomic { flush(0); flush(1); flush(2) }
#endif
			:: else
			fi;
#ifdef MUTANT_NO_RECHECK_IN_LOCK /* unlocked before the bucket was locked */
			atomic { word = (word | PARKED) & (awake -> 7 - WOKEN : 7) };
			won = true;
#else
			s = word;
			do
			:: !(s & LOCKED) -> won = false; break
			:: s & LOCKED ->
#ifdef MUTANT_WOKEN_KEPT /* it sleeps, and unlockers still count it as awake */
				cas(s, (s | PARKED), won);
#else
				cas(s, (s | PARKED) & (awake -> 7 - WOKEN : 7), won);
#endif
				if
				:: won -> break
				:: else
				fi
			od;
#endif
			if
			:: !won -> unlock_bucket(); s = word
			:: else ->
				if
				:: awake -> push_front(me)
				:: else -> push_back(me)
				fi;
				state[me] = ARMED;
				unlock_bucket();
				atomic { ready[me] -> ready[me] = false };
#ifdef KILLED
				if
				:: me == LAST && result[me] != ETIMEDOUT -> killed = true
				:: true
				fi;
				if
				:: killed && result[me] == HANDED_OVER ->
#ifdef MUTANT_HANDED_TO_KILLED /* a G that never runs again keeps the lock */
					got = false;
#else /* mutex_unwait unlocks it */
					got_it(me);
					got = true;
#endif
					break
				:: killed && result[me] == OK ->
					mutex_unwait(me);
					got = false;
					break
				:: else
				fi;
#endif
				if
				:: result[me] != OK -> mutex_unwait(me)
				:: else
				fi;
				atomic { state[me] = IDLE };
				if
				:: result[me] == HANDED_OVER -> got_it(me); got = true; break
				:: result[me] == ETIMEDOUT -> got = false; break
				:: else -> awake = true; s = word
				fi
			fi
		fi
	od
}

/* --- unlock --- */

/* UNLOCK-1: after a plain store, which locking the bucket makes visible. */
inline mend(me)
{
	lock_bucket(me);
	first = NONE;
	if
	:: length == 0
	:: length > 0 ->
		s = word;
		do
		:: s & (LOCKED | WOKEN) ->
#ifdef MUTANT_NO_REPAIR_OF_LOCKED /* the new owner unlocks without the bucket lock */
			break
#else
			cas(s, s | PARKED, won);
			if
			:: won -> break
			:: else
			fi
#endif
		:: else ->
			wake_first();
			if
			:: first != NONE -> /* mutex_set_woken */
				atomic {
					word = BARE(word, PARKED) | WOKEN |
					       (length > 0 -> PARKED : 0)
				}
			:: else
			fi;
			break
		od
	fi;
	mending[me] = false;
	unlock_bucket();
	if
	:: first != NONE -> make_ready(first)
	:: else
	fi
}

inline unlock_mutex(me)
{
	holder = NONE;
	s = word;
	quick = s == LOCKED && uncontended;
	if
	:: quick ->
		atomic { buffered[me] = true; mending[me] = true };
#ifdef MUTANT_NO_RECHECK_IN_UNLOCK /* a waiter queued since the first check is missed */
		mending[me] = false
#else
		if
		:: uncontended -> mending[me] = false
		:: else -> mend(me)
		fi
#endif
	:: else
	fi;
	/* the fast path, and the loop at the head of mutex_unlock_slow */
	do
	:: quick -> won = true; break
	:: !quick && (s == LOCKED || (s & WOKEN)) ->
		cas(s, BARE(s, LOCKED), won);
		if
		:: won -> break
		:: else
		fi
	:: else -> won = false; break
	od;
	if
	:: won
	:: else ->
		assert(s & LOCKED);
		lock_bucket(me);
		do
		:: length == 0 -> word = 0; unlock_bucket(); break
		:: length > 0 ->
			first = queue[0];
			if
			:: starving = false
			:: starving = true
			fi;
			claim(first, (starving -> HANDED_OVER : OK), won);
#ifdef MUTANT_HANDOVER_LOST /* a lost claim is ignored: the heir may have timed out */
			won = true;
#endif
			unlink(first);
			if
			:: !won
			:: else ->
				if
				:: starving -> heir = first
				:: else
				fi;
#ifdef MUTANT_FREE_HANDOVER /* the word is free until the heir runs: others barge */
				word = (length > 0 -> PARKED : 0);
#elif defined(MUTANT_PARKED_LOST) /* waiters are queued without PARKED */
				word = (starving -> LOCKED : WOKEN);
#else
				word = (starving -> LOCKED : WOKEN) | (length > 0 -> PARKED : 0);
#endif
				unlock_bucket();
				make_ready(first);
				break
			fi
		od
	fi
}

proctype Thread(byte me)
{
	byte s, first, round;
	bool won, got, awake, starving, killed, quick;

#ifdef TWO
	round = (me == LAST -> ROUNDS : 0);
#endif
	do
	:: round == ROUNDS -> break
	:: else ->
		lock_mutex(me);
		if
		:: got -> unlock_mutex(me)
		:: else
		fi;
		if
		:: killed -> break
		:: else
		fi;
		atomic { /* reset dead variables, so that states are equal */
			round++;
			s = 0;
			first = 0;
			result[me] = OK;
			won = false;
			got = false;
			awake = false;
			starving = false;
			quick = false
		}
	od;
	atomic { flush(me); ended++ }
}

/* A store buffer drains at any moment. */
proctype Drain()
{
end:	do
	:: atomic { buffered[0] -> flush(0) }
	:: atomic { buffered[1] -> flush(1) }
	:: atomic { buffered[2] -> flush(2) }
	od
}

/* lot_reset */
proctype Sysmon()
{
end:	do
	:: atomic {
#ifdef MUTANT_UNCONTENDED_WITH_WAITERS /* the next unlocker misses a waiter */
		!bucket_locked && !uncontended -> uncontended = true
#else
		!bucket_locked && !uncontended && length == 0 -> uncontended = true
#endif
	}
	od
}

#ifdef TIMER
/* timers_run; the timer is disarmed with the wait */
proctype Timer()
{
end:	do
	:: atomic {
			state[LAST] == ARMED -> state[LAST] = CLAIMED; result[LAST] = ETIMEDOUT
		};
		make_ready(LAST)
	od
}
#endif

init {
	atomic {
#ifdef TIMER
		run Timer();
#endif
#ifdef QUICK
		uncontended = true;
		run Drain();
		run Sysmon();
#endif
		run Thread(0);
		run Thread(1);
		run Thread(2)
	};
	ended == N;
	assert(!(word & (LOCKED | WOKEN)) && length == 0 && !bucket_locked);
	assert(holder == NONE && heir == NONE)
}
