/* SPDX-License-Identifier: MIT */
/*
 * Model of the rwmutex: exclusion, no lost wakeup, and a reader waits for one writer at most.
 *
 * Processes
 *   Writer   two of them (0 and 1), each locks and unlocks ROUNDS times
 *   Reader   two of them (2 and 3), likewise
 *   Timer    with -DTIMER=1 the deadline of writer 1, with -DTIMER=3 of reader 3; it may pass
 *            during any wait (with -DKILLED, in its place: writer 1 and reader 3 may be killed at
 *            shutdown before they run, if their wait was granted)
 *
 * The functions are those of src/wait/rwmutex.c, and of src/wait/mutex.c as far as an rwmutex uses
 * them; the queue is the bucket's of src/wait/parkinglot.c; the wait is src/park.h's, in one step.
 * Whether the first writer is overdue (MUTEX-4) is arbitrary.
 *
 * Properties
 *   exclusion                              assertions in writer_in and reader_in
 *   no lost wakeup                         every end state is valid; the word is clean at the end
 *                                          (init)
 *   RW-1: one writer drains                assertion in drain
 *   RW-3: a reader waits for one writer    assertions in lock_mutex and unlock_mutex: no reader is
 *                                          queued when LOCKED is set, cleared or handed over
 *
 * A step is one access of the word; a section under the bucket's lock is several, since the word
 * changes beside it.  Memory is sequentially consistent.  Left out: the uncontended bucket
 * (model/mutex.pml; an rwmutex has no plain store), the try forms, spinning, external threads, the
 * treap.
 *
 * Models:
 *   src/wait/rwmutex.c: rw_take_read rlock_slow runlock_slow gmp_rwmutex_runlock rw_wait_readers
 *   src/wait/rwmutex.c: drain_unwait reader_unwait wlock_slow
 *   src/wait/mutex.c: mutex_take mutex_enqueue mutex_unwait mutex_lock_slow mutex_claim_first
 *   src/wait/mutex.c: mutex_unlock_slow
 *   src/wait/parkinglot.c: lot_wake_first lot_wake_all lot_unwait lot_dequeue
 *   src/waiter.h: waiter_claim
 *   without: rwmutex mutex (memory is sequentially consistent; orders.pml has the mutex)
 *
 * Runs: the searches of scripts/model
 *   holds      -DROUNDS=1
 *   holds      -DROUNDS=1 -DTIMER=1
 *   holds      -DROUNDS=1 -DTIMER=3
 *   holds      -DROUNDS=1 -DKILLED
 *   assertion  -DROUNDS=1 -DMUTANT_READER_BESIDE_CLAIM
 *   assertion  -DROUNDS=1 -DMUTANT_NO_DRAIN_AT_HANDOVER
 *   assertion  -DROUNDS=1 -DMUTANT_READERS_LEFT_QUEUED
 *   deadlock   -DROUNDS=1 -DMUTANT_DRAIN_BLIND
 *   deadlock   -DROUNDS=1 -DTIMER=1 -DMUTANT_LAST_READER_CHECKS_ONCE
 *   deadlock   -DROUNDS=1 -DTIMER=1 -DMUTANT_LOCKED_KEPT
 *   deadlock   -DROUNDS=1 -DTIMER=1 -DMUTANT_PLAIN_STORE
 *   deadlock   -DROUNDS=1 -DKILLED -DMUTANT_READ_NOT_PASSED_ON
 */
#define N 4
#define IS_WRITER(w) ((w) < 2)
#define MAY_FAIL(w) ((w) == 1 || (w) == 3)
#define NONE 255

/* the word */
#define LOCKED 1
#define PARKED 2
#define WOKEN 4
#define RPARKED 8
#define DRAIN 16
#define READER 32
#define CLEAR(s, bits) ((s) & (255 - (bits)))
#define IS_AWAITED(s) (((s) & DRAIN) && (s) - READER < READER)
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

/* the bucket: queues of writers and of readers, and the writer that drains */
bool bucket_locked;
byte wq[2], wn, rq[2], rn, drainer = NONE;

/* for the properties */
byte writers, readers, ended;

inline lock_bucket()
{
	atomic { !bucket_locked -> bucket_locked = true }
}

inline unlock_bucket()
{
	bucket_locked = false
}

inline cas(from, to, won)
{
	atomic {
		if
		:: word == from -> word = to; won = true
		:: else -> from = word; won = false
		fi
	}
}

inline writer_in()
{
	atomic { assert(writers == 0 && readers == 0); writers++ }
}

inline writer_out()
{
	atomic { assert(writers == 1 && readers == 0); writers-- }
}

inline reader_in()
{
	atomic { assert(writers == 0); readers++ }
}

inline reader_out()
{
	atomic { assert(writers == 0 && readers > 0); readers-- }
}


inline claim(w, how, won)
{
	atomic {
		if
		:: state[w] == ARMED -> state[w] = CLAIMED; result[w] = how; won = true
		:: else -> won = false
		fi
	}
}

inline make_ready(w)
{
	atomic { assert(state[w] == CLAIMED && !ready[w]); ready[w] = true }
}

inline push_writer(w, front)
{
	d_step {
		if
		:: front -> wq[1] = wq[0]; wq[0] = w
		:: else -> wq[wn] = w
		fi;
		wn++;
		queued[w] = true
	}
}

inline dequeue(w)
{
	d_step {
		assert(queued[w]);
		if
		:: drainer == w -> drainer = NONE
		:: drainer != w && IS_WRITER(w) ->
			if
			:: wq[0] == w -> wq[0] = wq[1]
			:: else
			fi;
			wn--;
			wq[wn] = 0
		:: else ->
			if
			:: rq[0] == w -> rq[0] = rq[1]
			:: else
			fi;
			rn--;
			rq[rn] = 0
		fi;
		queued[w] = false
	}
}

inline lot_unwait()
{
	if
	:: queued[me] ->
		lock_bucket();
		if
		:: queued[me] -> dequeue(me)
		:: else
		fi;
		unlock_bucket()
	:: else
	fi
}

/* --- LOCKED --- */

/* mutex_unlock_slow, and the fast unlock, which is its first compare-and-swap */
inline unlock_mutex()
{
	first = NONE;
	let[0] = NONE;
	let[1] = NONE;
	n = 0;
	s = word;
	do
	:: (s & LOCKED) && !(s & RPARKED) && ((s & WOKEN) || !(s & PARKED)) ->
		cas(s, CLEAR(s, LOCKED | DRAIN), won);
		if
		:: won -> break
		:: else
		fi
	:: else ->
		assert(s & LOCKED);
		lock_bucket();
		s = word;
#ifndef MUTANT_READERS_LEFT_QUEUED /* the next writer comes before readers that were there first */
		do /* lot_wake_all */
		:: (s & RPARKED) && rn > 0 ->
			other = rq[0];
			claim(other, OK, won);
			dequeue(other);
			if
			:: won -> let[n] = other; n++
			:: else
			fi
		:: else -> break
		od;
#endif
		bits = s & (PARKED | WOKEN);
		do /* mutex_claim_first */
		:: s & WOKEN -> break
		:: !(s & WOKEN) && wn == 0 -> bits = 0; break
		:: !(s & WOKEN) && wn > 0 ->
			first = wq[0];
			if
			:: starving = true
			:: starving = false
			fi;
			claim(first, (starving -> HANDED_OVER : OK), won);
			dequeue(first);
			if
			:: won ->
				bits = (starving -> LOCKED : WOKEN) | (wn > 0 -> PARKED : 0);
				break
			:: else -> first = NONE
			fi
		od;
#ifdef MUTANT_READERS_LEFT_QUEUED
		bits = bits | (s & RPARKED);
#endif
		do
		:: true ->
			atomic {
				cas(s, (s - (s & (READER - 1))) + n * READER + bits, won);
				assert(!won || rn == 0) /* RW-3 */
			};
			if
			:: won -> break
			:: else
			fi
		od;
		unlock_bucket();
		do
		:: n > 0 -> n--; make_ready(let[n])
		:: else -> break
		od;
		if
		:: first != NONE -> make_ready(first)
		:: else
		fi;
		break
	od
}

/* mutex_lock_slow; in got: whether LOCKED is set */
inline lock_mutex()
{
	awake = false;
	s = word;
	do
	:: !(s & LOCKED) ->
		atomic {
			cas(s, (s & (awake -> 255 - WOKEN : 255)) | LOCKED, won);
			assert(!won || rn == 0) /* RW-3 */
		};
		if
		:: won -> got = true; break
		:: else
		fi
	:: else ->
		lock_bucket();
		s = word;
		do
		:: !(s & LOCKED) -> won = false; break
		:: else ->
			cas(s, (s & (awake -> 255 - WOKEN : 255)) | PARKED, won);
			if
			:: won -> break
			:: else
			fi
		od;
		if
		:: !won -> unlock_bucket()
		:: else ->
			push_writer(me, awake);
			state[me] = ARMED;
			unlock_bucket();
			atomic { ready[me] -> ready[me] = false };
#ifdef KILLED
			if
			:: MAY_FAIL(me) -> killed = true
			:: true
			fi;
			if
			:: killed && result[me] == HANDED_OVER ->
				unlock_mutex();
				got = false;
				break
			:: killed && result[me] == OK ->
				lock_bucket();
				atomic { s = word; word = CLEAR(s, WOKEN) };
				first = NONE;
				do
				:: (s & LOCKED) || wn == 0 -> break
				:: else ->
					first = wq[0];
					claim(first, OK, won);
					dequeue(first);
					if
					:: won ->
						atomic {
							word = CLEAR(word, PARKED) | WOKEN |
							       (wn > 0 -> PARKED : 0)
						};
						break
					:: else -> first = NONE
					fi
				od;
				unlock_bucket();
				if
				:: first != NONE -> make_ready(first)
				:: else
				fi;
				got = false;
				break
			:: else
			fi;
#endif
			if
			:: result[me] == ETIMEDOUT -> lot_unwait()
			:: else
			fi;
			state[me] = IDLE;
			if
			:: result[me] == HANDED_OVER -> got = true; break
			:: result[me] == ETIMEDOUT -> got = false; break
			:: else -> awake = true; s = word
			fi
		fi
	od
}

/* With LOCKED set; in got: whether it still is, and the readers are gone */
inline drain()
{
	s = word;
#ifdef MUTANT_NO_DRAIN_AT_HANDOVER /* a lock that was handed over may have readers in it */
	if
	:: result[me] == HANDED_OVER -> s = 0
	:: else
	fi;
#endif
	if
	:: s < READER
	:: else ->
		lock_bucket();
		s = word;
		do
#ifndef MUTANT_DRAIN_BLIND /* the last reader may have left before the bucket was locked */
		:: s < READER -> won = false; break
		:: s >= READER ->
#else
		:: true ->
#endif
			cas(s, s | DRAIN, won);
			if
			:: won -> break
			:: else
			fi
		od;
		if
		:: !won -> unlock_bucket()
		:: else ->
			d_step { assert(drainer == NONE); drainer = me; queued[me] = true };
			state[me] = ARMED;
			unlock_bucket();
			atomic { ready[me] -> ready[me] = false };
#ifdef KILLED
			if
			:: MAY_FAIL(me) -> killed = true; unlock_mutex(); got = false
			:: true
			fi;
#endif
			if
			:: result[me] == ETIMEDOUT -> /* drain_unwait */
				lot_unwait();
#ifndef MUTANT_LOCKED_KEPT /* readers stay held off by a writer that has given up */
				unlock_mutex();
#endif
				got = false
			:: else
			fi;
			state[me] = IDLE
		fi
	fi
}

/* --- readers --- */

inline rlock()
{
	s = word;
	do
#ifdef MUTANT_READER_BESIDE_CLAIM /* a reader comes in beside a writer that waits for readers */
	:: !(s & LOCKED) || (s & DRAIN) ->
#else
	:: !(s & LOCKED) ->
#endif
		cas(s, s + READER, won);
		if
		:: won -> got = true; break
		:: else
		fi
	:: s & LOCKED ->
		lock_bucket();
		s = word;
		do
		:: !(s & LOCKED) ->
			cas(s, s + READER, won);
			if
			:: won -> got = true; break
			:: else
			fi
		:: s & LOCKED ->
			cas(s, s | RPARKED, won);
			if
			:: won -> got = false; break
			:: else
			fi
		od;
		if
		:: got -> unlock_bucket(); break
		:: else ->
			d_step { rq[rn] = me; rn++; queued[me] = true };
			state[me] = ARMED;
			unlock_bucket();
			atomic { ready[me] -> ready[me] = false };
			got = result[me] == OK;
#ifdef KILLED
			if
			:: MAY_FAIL(me) -> killed = true
			:: true
			fi;
#endif
			if
			:: !got -> lot_unwait()
			:: else
			fi;
			state[me] = IDLE;
			break
		fi
	od
}

inline runlock()
{
	first = NONE;
	s = word;
	do
	:: !IS_AWAITED(s) ->
		assert(s >= READER);
		cas(s, s - READER, won);
		if
		:: won -> break
		:: else
		fi
	:: else ->
		lock_bucket();
		s = word;
#ifdef MUTANT_LAST_READER_CHECKS_ONCE /* it becomes the last one after its check */
		won = IS_AWAITED(s);
		if
		:: won && drainer != NONE ->
			first = drainer;
			claim(first, OK, won);
			dequeue(first);
			if
			:: won
			:: else -> first = NONE
			fi
		:: else
		fi;
		do
		:: true ->
			cas(s, (s - READER) & (IS_AWAITED(s) -> 255 - DRAIN : 255), won);
			if
			:: won -> break
			:: else
			fi
		od;
#else
		won = false;
		do
		:: won || IS_AWAITED(s) -> break
		:: else -> cas(s, s - READER, won)
		od;
		if
		:: won
		:: else ->
			if
			:: drainer != NONE ->
				first = drainer;
				claim(first, OK, won);
				dequeue(first);
				if
				:: won
				:: else -> first = NONE
				fi
			:: else
			fi;
#ifdef MUTANT_PLAIN_STORE /* a writer that gives up changes the word beside it */
			word = CLEAR(s - READER, DRAIN)
#else
			do
			:: true ->
			cas(s, CLEAR(s - READER, DRAIN), won);
				if
				:: won -> break
				:: else
				fi
			od
#endif
		fi;
#endif
		unlock_bucket();
		if
		:: first != NONE -> make_ready(first)
		:: else
		fi;
		break
	od
}

inline forget()
{
	atomic { /* what is not used again need not tell states apart */
		round++;
		s = 0;
		first = 0;
		other = 0;
		bits = 0;
		n = 0;
		let[0] = 0;
		let[1] = 0;
		result[me] = OK;
		won = false;
		got = false;
		awake = false;
		starving = false
	}
}

proctype Writer(byte me)
{
	byte s, first, other, bits, n, round, let[2];
	bool won, got, awake, starving, killed;

	do
	:: round == ROUNDS || killed -> break
	:: else ->
		lock_mutex();
		if
		:: got -> drain()
		:: else
		fi;
		if
		:: got -> writer_in(); writer_out(); unlock_mutex()
		:: else
		fi;
		forget()
	od;
	ended++
}

proctype Reader(byte me)
{
	byte s, first, other, bits, n, round, let[2];
	bool won, got, awake, starving, killed;

	do
	:: round == ROUNDS || killed -> break
	:: else ->
		rlock();
		if
#ifdef MUTANT_READ_NOT_PASSED_ON /* let in, and gone before it could leave */
		:: got && killed
		:: got && !killed -> reader_in(); reader_out(); runlock()
#else
		:: got -> reader_in(); reader_out(); runlock()
#endif
		:: else
		fi;
		forget()
	od;
	ended++
}

#ifdef TIMER
/* timers_run; the timer is disarmed with the wait */
proctype Timer()
{
end:	do
	:: atomic { state[TIMER] == ARMED -> state[TIMER] = CLAIMED; result[TIMER] = ETIMEDOUT };
		make_ready(TIMER)
	od
}
#endif

init {
	atomic {
#ifdef TIMER
		run Timer();
#endif
		run Writer(0);
		run Writer(1);
		run Reader(2);
		run Reader(3)
	};
	ended == N;
	assert(!(word & (LOCKED | WOKEN | DRAIN)) && word < READER);
	assert(wn == 0 && rn == 0 && drainer == NONE && !bucket_locked)
}
