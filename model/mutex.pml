/* SPDX-License-Identifier: MIT */
/*
 * Does the mutex let in one at a time, and does nobody sleep for ever while it is free?
 *
 * Who takes part
 *   Thread   three of them (with -DTWO: two), of which each takes the lock and lets it go ROUNDS times
 *   Timer    the deadline of the last one: it may pass during any of its waits
 *            (with -DDROP, in its place: the last one, woken to compete or handed the lock, may be dropped
 *            before it runs, as at the end of a run)
 *   Watcher  with -DQUICK: the bucket is calm at first, and the watcher calms it down, now and then, when
 *            nobody stands in it.  Without, it never is, and every unlock is by a locked instruction
 *
 * What stands for what: lock, enqueue, mutex_lock_slow, mutex_unlock_slow, mutex_unwait are those of
 * src/sync/mutex.c; the queue is the bucket's of src/parkinglot.c; the wait is src/park.h's, whose arming
 * before the bucket is unlocked is select.pml's subject and one step here.  Whether the first waiter
 * is due for a hand-over (X5) is arbitrary (`starving`), and so is whether a thread spins (mutex_spin, and
 * with it the bit STUCK, which otherwise only makes an unlock compare and swap).
 *
 * Properties
 *   mutual exclusion                 assertion in got_it
 *   nobody sleeps for ever           every end state is valid; the word is clean at the end (init)
 *   a lock handed over is not lost   got_it: who is handed it has not timed out, and the next lock
 *                                    is its own
 *   nobody barges in starvation      the same: between handing over and the heir nobody gets it
 *   X1: who stands in the queue, stands there with PARKED set, or who has wiped it out is on its way
 *       (X4): assertion after each section
 *
 * What a step is: one access of the word; a section under the bucket's lock is several, since the
 * word changes beside it.  Memory is sequentially consistent, but for the plain store of the unlock
 * (X4): it stays in its thread's buffer, unseen by others, until the thread's next locked instruction, the
 * heavy fence of another, or any moment before.  The thread itself does not look at the word meanwhile but
 * to lock it, and that look is only a guess.
 *
 * Left out: try_lock (a lock that does not wait), external threads, the treap.
 *
 * Models:
 *   src/sync/mutex.c: mutex_take mutex_enqueue mutex_unwait mutex_give_up mutex_lock_slow
 *   src/sync/mutex.c: mutex_claim_first mutex_unlock_slow gmp_mutex_lock
 *   src/sync/mutex_unlock.c: unlock_repair gmp_mutex_unlock
 *   src/parkinglot.c: lot_wake_first lot_unwait lot_dequeue lot_mark_contended lot_reset
 *   src/types.h: waiter_claim
 *   ORD: calm
 *
 * Runs: what scripts/model does with this file
 *   holds      -DROUNDS=2
 *   holds      -DROUNDS=2 -DTIMER
 *   holds      -DROUNDS=2 -DDROP
 *   assertion  -DROUNDS=1 -DMUTANT_BLIND_TAKE
 *   assertion  -DROUNDS=1 -DMUTANT_FREE_HANDOVER
 *   assertion  -DROUNDS=1 -DMUTANT_PARKED_LOST
 *   deadlock   -DROUNDS=1 -DMUTANT_NO_SECOND_LOOK
 *   deadlock   -DROUNDS=2 -DMUTANT_WOKEN_KEPT
 *   assertion  -DROUNDS=1 -DTIMER -DMUTANT_HANDOVER_LOST
 *   assertion  -DROUNDS=1 -DDROP -DMUTANT_NOT_PASSED_ON
 *   assertion  -DROUNDS=1 -DDROP -DMUTANT_HANDED_TO_NOBODY
 *   holds      -DROUNDS=1 -DQUICK
 *   holds      -DROUNDS=1 -DQUICK -DTIMER
 *   holds      -DROUNDS=1 -DQUICK -DDROP
 *   holds      -DROUNDS=3 -DQUICK -DTWO
 *   assertion  -DROUNDS=1 -DQUICK -DMUTANT_NO_FENCE
 *   assertion  -DROUNDS=1 -DQUICK -DMUTANT_NO_LOOK_AFTER
 *   assertion  -DROUNDS=1 -DQUICK -DMUTANT_NO_MEND_OF_LOCKED
 *   deadlock   -DROUNDS=1 -DQUICK -DMUTANT_CALM_WITH_WAITERS
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

/* the plain stores that nobody has seen yet, and who may have to mend what they wiped out */
bool buffered[N], mending[N];

/* the bucket */
bool bucket_locked, calm;
byte queue[N], length;

/* for the properties */
byte holder = NONE, heir = NONE, ended;

inline flush(who)
{
	if
	:: buffered[who] -> buffered[who] = false; word = 0
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
		/* X1 */
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

inline push_front(who)
{
	d_step {
		queue[2] = queue[1];
		queue[1] = queue[0];
		queue[0] = who;
		length++;
		queued[who] = true
	}
}

inline push_back(who)
{
	d_step { queue[length] = who; length++; queued[who] = true }
}

inline take_out(who)
{
	d_step {
		assert(queued[who]);
		if
		:: queue[0] == who -> queue[0] = queue[1]; queue[1] = queue[2]
		:: queue[0] != who && queue[1] == who -> queue[1] = queue[2]
		:: else
		fi;
		length--;
		queue[length] = 0;
		queued[who] = false
	}
}

/* waiter_claim */
inline claim(who, how, won)
{
	atomic {
		if
		:: state[who] == ARMED -> state[who] = CLAIMED; result[who] = how; won = true
		:: else -> won = false
		fi
	}
}

inline make_ready(who)
{
	atomic { assert(state[who] == CLAIMED && !ready[who]); ready[who] = true }
}

/* lot_wake_first, for a claim with 0; in first: whom to make ready, or NONE */
inline wake_first()
{
	first = NONE;
	do
	:: length == 0 -> break
	:: length > 0 ->
		first = queue[0];
		claim(first, OK, won);
		take_out(first);
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
		/* give_up */
		lock_bucket(me);
		if
		:: queued[me] -> take_out(me)
		:: else
		fi;
		unlock_bucket()
	:: else ->
		if
		:: result[me] != OK
		:: else ->
#ifndef MUTANT_NOT_PASSED_ON /* woken to compete, and gone: nobody wakes another */
			lock_bucket(me);
			atomic { s = word; word = BARE(word, WOKEN) };
			if
			:: s & LOCKED -> first = NONE
			:: else ->
				wake_first();
				if
				:: first != NONE -> /* add_woken */
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
	/* gmp_mutex_lock: bare, it looked, and still bare */
	s = word;
	do
	:: !(s & LOCKED) ->
#ifdef MUTANT_BLIND_TAKE /* a look and a store: two may find it free */
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
		:: s = word /* it spins a little */
		:: lock_bucket(me);
			/* enqueue; first, lot_mark_contended */
			if
			:: calm ->
				calm = false;
#ifndef MUTANT_NO_FENCE /* ORD(calm): a store that came before it may still be unseen, and its look is over */
				atomic { flush(0); flush(1); flush(2) }
#endif
			:: else
			fi;
#ifdef MUTANT_NO_SECOND_LOOK /* it may have come free before the bucket was locked: nobody will look there */
			atomic { word = (word | PARKED) & (awake -> 7 - WOKEN : 7) };
			won = true;
#else
			s = word;
			do
			:: !(s & LOCKED) -> won = false; break
			:: s & LOCKED ->
#ifdef MUTANT_WOKEN_KEPT /* it sleeps, and unlockers still think that somebody is awake */
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
#ifdef DROP
				if
				:: me == LAST && result[me] != ETIMEDOUT -> dropped = true
				:: true
				fi;
				if
				:: dropped && result[me] == HANDED_OVER ->
#ifdef MUTANT_HANDED_TO_NOBODY /* the lock is kept by one that never runs */
					got = false;
#else /* mutex_unwait unlocks it */
					got_it(me);
					got = true;
#endif
					break
				:: dropped && result[me] == OK -> mutex_unwait(me); got = false; break
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

/* X4: with a plain store behind it, which the lock of the bucket makes visible. */
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
#ifdef MUTANT_NO_MEND_OF_LOCKED /* who holds it now unlocks it without a look at the bucket */
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
			:: first != NONE -> /* add_woken */
				atomic { word = BARE(word, PARKED) | WOKEN | (length > 0 -> PARKED : 0) }
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
	quick = s == LOCKED && calm;
	if
	:: quick ->
		atomic { buffered[me] = true; mending[me] = true };
#ifdef MUTANT_NO_LOOK_AFTER /* who queued up since the look before is not seen */
		mending[me] = false
#else
		if
		:: calm -> mending[me] = false
		:: else -> mend(me)
		fi
#endif
	:: else
	fi;
	/* the fast way out, and the loop at the head of mutex_unlock_slow */
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
#ifdef MUTANT_HANDOVER_LOST /* whether the claim was won is not asked: the heir may have timed out */
			won = true;
#endif
			take_out(first);
			if
			:: !won
			:: else ->
				if
				:: starving -> heir = first
				:: else
				fi;
#ifdef MUTANT_FREE_HANDOVER /* the word is free until the heir comes: newcomers barge */
				word = (length > 0 -> PARKED : 0);
#elif defined(MUTANT_PARKED_LOST) /* the word forgets those who still wait */
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
	bool won, got, awake, starving, dropped, quick;

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
		:: dropped -> break
		:: else
		fi;
		atomic { /* what is not used again need not tell states apart */
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

/* A buffer drains at any moment. */
proctype Drain()
{
end:	do
	:: atomic { buffered[0] -> flush(0) }
	:: atomic { buffered[1] -> flush(1) }
	:: atomic { buffered[2] -> flush(2) }
	od
}

/* lot_reset */
proctype Watcher()
{
end:	do
	:: atomic {
#ifdef MUTANT_CALM_WITH_WAITERS /* who stands there is not seen by the next unlocker */
		!bucket_locked && !calm -> calm = true
#else
		!bucket_locked && !calm && length == 0 -> calm = true
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
		calm = true;
		run Drain();
		run Watcher();
#endif
		run Thread(0);
		run Thread(1);
		run Thread(2)
	};
	ended == N;
	assert(!(word & (LOCKED | WOKEN)) && length == 0 && !bucket_locked);
	assert(holder == NONE && heir == NONE)
}
