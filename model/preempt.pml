/* SPDX-License-Identifier: MIT */
/*
 * Model of preemption: a P that sysmon takes from a running M has one owner, which sees all that
 * the former owner wrote; and a green thread without a P is never reported as deadlocked.
 *
 * Processes
 *   M         two or three, of which one begins with a P; each runs green threads, which use the P
 *             in sections, park, yield, enter blocking code, and end, with or without a P
 *   Sysmon    takes the P of an M that runs a green thread (ROUNDS times), retakes the P of an M in
 *             blocking code, and makes parked green threads runnable
 *
 * Abstractions: begin, hold and drop are p_hold, p_hold_last and p_drop (src/enter.h; the protocol
 * is in src/monitor/preempt.h).  preempt is sched_preempt, hand_off is sched_hand_off.  leave is
 * gmp_block_leave with leave_slow; block.pml is the model of blocking code without preemption.  The
 * data that belongs to a P is one location that is not atomic.
 *
 * Properties
 *   PREEMPT-1: one owner of a P, which uses it      assertion in use, owns, preempt
 *   the owner sees the last use by another M        assertion in use (KNOWN)
 *   PREEMPT-3: nblocked counts the green threads    assertion in unlock
 *     without a P; no false deadlock
 *   all green threads end                           every end state is valid; ended at the end
 *
 * Step granularity: each access of `inside`, `taken` and the status outside of sched.lock; a
 * section under the lock.  Stores become visible late and in any order (c11.inc), and a membarrier
 * brings the views of all threads to the same state.
 *
 * Left out: spinning and timers (wake.pml), the end of a run, nested sections (an M gives no P up
 * in them), m.preempted.steps (a request that outlives its run costs a hand-off).  sysmon asks only
 * while `inside` is 0: it would leave WANTED otherwise, as it does if the M begins a section
 * meanwhile.
 * p.m keeps the name of an M that has given its P away (give_away); the code also clears it.
 *
 * Models:
 *   src/enter.h: p_hold p_hold_last p_drop
 *   src/m.c: m_end_request m_defer_request m_end_taken_locked
 *   src/policy/take.c: sched_preempt p_ask_locked sched_give_p_up sched_start_preempted
 *   src/handoff.c: sched_hand_off sched_regain_p sched_stop_without_p
 *   src/park.c: to_g0 park_g0 park_slow_g0 yield_g0
 *   src/sched.c: leave_section execute_g0 sched_exit exit_regain_p
 *   src/wait/blocking.c: gmp_block_enter gmp_block_leave
 *   src/policy/pin.c: pin_hand_over
 *   ORD: preempt
 *
 * Runs: the searches of scripts/model
 *   holds      -DGREENS=2 -DOPS=2 -DROUNDS=2
 *   holds      -DGREENS=3 -DOPS=2 -DROUNDS=1
 *   holds      -DPS=2 -DMS=3 -DGREENS=1 -DOPS=1 -DROUNDS=1
 *   holds      -DPINNED -DPS=2 -DMS=3 -DGREENS=2 -DOPS=1 -DROUNDS=1
 *   holds      -DSTARTS -DGREENS=2 -DOPS=1 -DROUNDS=1
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_NO_LIGHT_FENCE
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_NO_HEAVY_FENCE
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_DROPPED
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_LEFT
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_INSIDE_SEEN
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_INSIDE_UNCHECKED
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_STATUS_UNCHECKED
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_TAKEN_UNREAD
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_SETTLES_PLAINLY
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_TAKES_PLAINLY
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_HOLDS_PLAINLY
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_GIVEN_UNCOUNTED
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_GIVEN_USED
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_BLOCKS_OUTSIDE
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_EXITS_OUTSIDE
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_LEAVES_EARLY
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_LEAVES_UNREAD
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_COUNTED_TOO_LATE
 *   assertion  -DGREENS=2 -DOPS=2 -DROUNDS=1 -DMUTANT_TAKEN_KEPT
 *   assertion  -DSTARTS -DGREENS=2 -DOPS=1 -DROUNDS=1 -DMUTANT_STARTS_UNMARKED
 *   assertion  -DPS=2 -DMS=3 -DGREENS=2 -DOPS=1 -DROUNDS=1 -DMUTANT_OWNER_KEPT
 *   assertion  -DPINNED -DPS=2 -DMS=3 -DGREENS=2 -DOPS=1 -DROUNDS=1 -DMUTANT_OLD_OWNER
 */
#ifndef MS
#define MS 2
#endif
#ifndef PS
#define PS 1
#endif
#ifndef GREENS
#define GREENS 2
#endif
#ifndef OPS
#define OPS 2 /* of each green thread, before it exits */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of sched_preempt */
#endif
#define SYSMON MS
#define THREADS (MS + 1)
#define NONE 255

/* --- the orders, as in the code; a mutant takes away one --- */

#ifdef MUTANT_DROPPED /* ORD(preempt): the next user of the P reads what the section has replaced */
#define ORDER_DROPPED RLX
#else
#define ORDER_DROPPED REL
#endif
#ifdef MUTANT_LEFT /* ORD(preempt): the same, of the last use on g0 */
#define ORDER_G0_LEFT RLX
#else
#define ORDER_G0_LEFT REL
#endif
#ifdef MUTANT_INSIDE_SEEN /* ORD(preempt): the same, at the other end */
#define ORDER_INSIDE_SEEN RLX
#else
#define ORDER_INSIDE_SEEN ACQ
#endif

/* --- memory --- */

#define STATUS(p) (p)
#define INSIDE(m) (PS + (m))
#define TAKEN(m) (PS + MS + (m))
#define SYNCS (PS + 2 * MS)
/* not atomic: what belongs to the P */
#define DATA(p) (SYNCS + (p))
#define LOCS (SYNCS + PS)
#ifndef DEPTH
#if MS == 2
#define DEPTH 24
#elif PS == 1
#define DEPTH 13
#else
#define DEPTH 9
#endif
#endif
#include "c11.inc"
#define NOW(l) VALUE(l, newest[l])

/* struct p: the status; less than MS: the M with that number is in blocking code */
#define IDLE 100
#define RUNNING 101
byte pm[PS]; /* p.m */

/* struct m */
#define P_KEPT 0
#define P_ASKED 1
#define P_TAKEN 2
#define P_WANTED 3
byte mp[MS]; /* m.p */
bool listed[MS], wake[MS];
byte nextp[MS];
byte given[MS]; /* how it gets nextp, and the list that it is in */
#define WITH_P 1	/* by wakep */
#define HANDED 2	/* by sched_hand_off, until it runs */
#define LOSTP 3		/* the P was taken meanwhile */

/* struct sched: a set of queued green threads, as bits */
byte gq, parked;
short nblocked;

/* for the properties */
byte owner[PS];
byte nrunning;
#ifdef MUTANT_COUNTED_TOO_LATE
bool late;
#endif
bool without[MS];
byte retaking; /* sysmon has a P whose former green thread does not count yet */
byte left = OPS;
byte ended;

/*
 * Fewer states: forget entries that no thread may read any more.  Outside of steps 1 to 5 of sysmon
 * the age of what a thread knows of `status` and `inside` has no consequence, since step 3 ends it.
 * `taken` is read by its M and by sysmon only.
 */
byte in_round, asked = NONE;
byte lo, k1, k2;

#define READS(id, l) (l < PS || id == SYSMON || l == INSIDE(id) || l == TAKEN(id))

inline tidy()
{
	d_step {
		for (mem_k : 0 .. SYNCS - 1) {
			lo = newest[mem_k];
			if
			:: in_round == 0 || (in_round == 1 && mem_k < TAKEN(0)) ||
			   (mem_k >= INSIDE(0) && mem_k < TAKEN(0) && mem_k != INSIDE(asked))
			:: else ->
				for (mem_id : 0 .. THREADS - 1) {
					if
					:: KNOWS(mem_id, mem_k) < lo && READS(mem_id, mem_k) ->
						lo = KNOWS(mem_id, mem_k)
					:: else
					fi
				}
			fi;
			if
			:: lo > 0 -> forget(mem_k)
			:: else
			fi
		};
		mem_k = 0;
		mem_id = 0;
		lo = 0
	}
}

/* The first lo entries of l; under d_step. */
inline forget(l)
{
	for (mem_id : 0 .. THREADS - 1) {
		KNOWS(mem_id, l) = (KNOWS(mem_id, l) > lo -> KNOWS(mem_id, l) - lo : 0)
	};
	under_lock[l] = (under_lock[l] > lo -> under_lock[l] - lo : 0);
	for (k1 : 0 .. newest[l]) {
		VALUE(l, k1) = (k1 + lo <= newest[l] -> VALUE(l, k1 + lo) : 0);
		for (k2 : 0 .. LOCS - 1) {
			BESIDE(l, k1, k2) = (k1 + lo <= newest[l] -> BESIDE(l, k1 + lo, k2) : 0)
		}
	};
	newest[l] = newest[l] - lo;
	for (k1 : 0 .. SYNCS - 1) {
		for (k2 : 0 .. newest[k1]) {
			BESIDE(k1, k2, l) = (BESIDE(k1, k2, l) > lo -> BESIDE(k1, k2, l) - lo : 0)
		}
	};
	k1 = 0;
	k2 = 0
}

/* touch, but of a view only whether it has the last one is kept: 0 or 1 */
inline touch_data(l)
{
	d_step {
		for (mem_id : 0 .. THREADS - 1) {
			KNOWS(mem_id, l) = 0
		};
		mem_id = 0;
		under_lock[l] = 0;
		for (k1 : 0 .. SYNCS - 1) {
			for (k2 : 0 .. newest[k1]) {
				BESIDE(k1, k2, l) = 0
			}
		};
		k1 = 0;
		k2 = 0;
		newest[l] = 1;
		KNOWS(me, l) = 1
	}
}

/* load, relaxed and under atomic, where spin lets no break end at a d_step */
inline load_here(l, into)
{
	ts = KNOWS(me, l);
	do
	:: ts < newest[l] -> ts++
	:: break
	od;
	KNOWS(me, l) = ts;
	into = VALUE(l, ts);
	ts = 0
}

/* An M in the given state, or NONE. */
inline find_given(state)
{
	w = NONE;
	for (k1 : 0 .. MS - 1) {
		if
		:: given[k1] == state -> w = k1
		:: else
		fi
	};
	k1 = 0
}

#if PS > 1
#define ALL_IDLE (NOW(STATUS(0)) == IDLE && NOW(STATUS(1)) == IDLE)
#define ANY_IDLE (NOW(STATUS(0)) == IDLE || NOW(STATUS(1)) == IDLE)
#else
#define ALL_IDLE (NOW(STATUS(0)) == IDLE)
#define ANY_IDLE ALL_IDLE
#endif
#if MS > 2
#define WITHOUT (without[0] + without[1] + without[2])
#define ANY_LISTED (listed[0] || listed[1] || listed[2])
#define ANY_LOSTP (given[0] == LOSTP || given[1] == LOSTP || given[2] == LOSTP)
#else
#define WITHOUT (without[0] + without[1])
#define ANY_LISTED (listed[0] || listed[1])
#define ANY_LOSTP (given[0] == LOSTP || given[1] == LOSTP)
#endif
inline unlock()
{
	assert(nblocked + retaking == WITHOUT);
	/* sched_stalled_locked */
	assert(!(ALL_IDLE && nblocked == 0 && gq == 0 && nrunning > 0));
	drop_lock(0);
	tidy()
}

inline owns(p, m)
{
	assert(owner[p] == NONE);
	owner[p] = m
}

/* The owner of a P uses it. */
inline use(p)
{
	assert((p) < PS);
	assert(owner[p] == me);
	assert(KNOWN(DATA(p)));
	touch_data(DATA(p))
}

/* --- idle Ps and Ms --- */

/* Any sleeping M, or NONE. */
inline midle_get()
{
	if
	:: listed[0] -> w = 0
	:: listed[1] -> w = 1
#if MS > 2
	:: listed[2] -> w = 2
#endif
	:: else -> w = NONE
	fi;
	if
	:: w != NONE -> listed[w] = false
	:: else
	fi
}

/* An idle P, or NONE. */
inline pidle_get(p)
{
	if
	:: NOW(STATUS(0)) == IDLE -> p = 0
#if PS > 1
	:: NOW(STATUS(0)) != IDLE && NOW(STATUS(1)) == IDLE -> p = 1
#endif
	:: else -> p = NONE
	fi;
	if
	:: p != NONE -> store(STATUS(p), RLX, RUNNING)
	:: else
	fi
}

/* wake_for_queued, and the last check of stopm: a sleeping M gets an idle P */
inline wake_if_work()
{
	if
	:: atomic {
			gq != 0 && ANY_IDLE && ANY_LISTED ->
			take_lock(0);
			if
			:: ANY_LISTED -> pidle_get(p)
			:: else
			fi;
			if
			:: p != NONE ->
				midle_get();
				owns(p, w);
				nextp[w] = p;
				given[w] = WITH_P;
				wake[w] = true;
				w = NONE;
				p = NONE
			:: else
			fi;
			unlock()
		}
	:: else
	fi
}

/* sched_hand_off of P p, which the caller owns, under atomic; victim: count it, or NONE.  In won,
 * whether an M got it: if not, wake_if_work follows. */
inline hand_off(victim)
{
	take_lock(0);
	use(p); /* its queue, its timers */
#ifndef MUTANT_OWNER_KEPT /* sysmon takes the P from the M that had it before */
	pm[p] = NONE;
#endif
	if
	:: victim != NONE -> nblocked++; retaking--
	:: else
	fi;
	if
	:: gq != 0 || !ANY_LISTED ->
		find_given(LOSTP); /* it is awake already */
		if
		:: w == NONE ->
			midle_get();
			if
			:: w != NONE -> wake[w] = true
			:: else
			fi
		:: else
		fi
	:: else
	fi;
	if
	:: w != NONE -> owner[p] = w; nextp[w] = p; given[w] = HANDED; w = NONE; won = true
	:: else ->
		owner[p] = NONE;
		store(STATUS(p), RLX, IDLE);
		won = false
	fi;
	p = NONE;
	unlock()
}

/* --- P sections: enter.h --- */

/* m_end_request, with the load before it: the age of ASKED has no consequence */
inline settle()
{
#if defined(MUTANT_TAKEN_UNREAD) /* the P was taken before the section */
	has = true;
#else
	load_here(TAKEN(me), was);
#if defined(MUTANT_SETTLES_PLAINLY)
	has = was != P_TAKEN;
#else
	do
	:: (was == P_ASKED || was == P_WANTED) && !won -> cas(TAKEN(me), was, P_KEPT, RLX, won)
	:: else -> break
	od;
	has = won || was == P_KEPT;
	won = false;
	was = 0
#endif
#endif
}

/* p_hold: the same, but the request stays, and a thread that can take sched.lock gives the P up;
 * nested sections are not modelled */
inline begin()
{
	store(INSIDE(me), RLX, 1);
	atomic {
		load_here(TAKEN(me), was);
#ifdef MUTANT_HOLDS_PLAINLY /* sysmon takes the P of an M that has begun a section */
		has = was != P_TAKEN;
		was = 0;
		won = true
#else
		if
		:: was == P_ASKED -> cas(TAKEN(me), was, P_WANTED, RLX, won)
		:: else
		fi;
		if
		:: won -> was = P_WANTED; won = false
		:: else
		fi;
		has = was != P_TAKEN;
		if
		:: was == P_WANTED && !mem_locked[0] && ANY_LISTED ->
			take_lock(0);
			was = NOW(TAKEN(me));
			if
			:: was == P_WANTED ->
				store(TAKEN(me), RLX, P_TAKEN);
#ifndef MUTANT_GIVEN_UNCOUNTED /* the green thread is seen by no check */
				nblocked++;
#endif
				without[me] = true;
				p = mp[me];
#ifndef MUTANT_GIVEN_USED /* two Ms use the P */
				has = false
#endif
			:: else
			fi;
			was = 0;
			unlock();
			if
			:: p != NONE -> hand_off(NONE)
			:: else -> won = true
			fi
		:: else -> was = 0; won = true
		fi
#endif
	};
	if
	:: !won -> wake_if_work()
	:: else -> won = false
	fi
}

/* p_hold_last, also on the way to g0: in has, whether the M has a P */
inline hold()
{
#ifdef MUTANT_NO_LIGHT_FENCE /* ORD(preempt): neither sees what the other has stored */
	atomic { settle() };
	store(INSIDE(me), RLX, 1);
#else
	store(INSIDE(me), RLX, 1);
	atomic { settle() };
#endif
#ifdef MUTANT_SETTLES_PLAINLY /* sysmon has taken it since the load */
	if
	:: was == P_ASKED -> exchange(TAKEN(me), P_KEPT, RLX, was)
	:: else
	fi;
	was = 0;
#endif
}

inline drop()
{
	atomic { store(INSIDE(me), ORDER_DROPPED, 0); has = false; tidy() }
}

/* --- the M --- */

/* m_end_taken_locked */
inline end_taken()
{
	if
	:: NOW(TAKEN(me)) == P_TAKEN -> store(TAKEN(me), RLX, P_KEPT)
	:: else
	fi
}

/* sched_stop_without_p, under atomic; g is queued, or waits */
inline stop_without_p(queues)
{
	take_lock(0);
	mp[me] = NONE;
	end_taken();
	if
	:: queues -> nrunning--; gq++
	:: else
	fi;
	g = false;
	listed[me] = true;
	asleep = true;
	nblocked--;
	without[me] = false;
	unlock()
}

/* p_take_blocked_locked */
inline take_blocked()
{
	pick_blocked();
	if
	:: p != NONE ->
		was = NOW(STATUS(p));
		w = was;
		cas(STATUS(p), was, RUNNING, ACQ, won);
		if
		:: won -> nblocked++; without[w] = true
		:: else -> p = NONE
		fi;
		was = 0;
		w = NONE
	:: else
	fi
}

inline pick_blocked()
{
	if
	:: NOW(STATUS(0)) < MS -> p = 0
#if PS > 1
	:: NOW(STATUS(1)) < MS -> p = 1
#endif
	:: p = NONE
	fi
}

/* m_take_lostp_locked: the P of an M that does not run yet */
inline take_handed()
{
	find_given(HANDED);
	if
	:: w != NONE ->
		given[w] = LOSTP;
		p = nextp[w];
		nextp[w] = NONE;
		owner[p] = NONE;
		w = NONE;
		won = true;
		overtook = true
	:: else
	fi
}

/* sched_regain_p: in has; under atomic */
inline regain_p()
{
	take_lock(0);
	p = mp[me];
	mp[me] = NONE;
	if
	:: NOW(STATUS(p)) == IDLE -> store(STATUS(p), RLX, RUNNING); won = true
	:: else ->
		take_blocked();
		if
		:: !won -> take_handed()
		:: else
		fi;
		if
		:: !won -> pidle_get(p); won = p != NONE
		:: else
		fi
	fi;
	if
	:: won ->
		owns(p, me);
#ifndef MUTANT_TAKEN_KEPT /* the M does not know that it has a P */
		end_taken();
#endif
		mp[me] = p;
		pm[p] = me;
		use(p);
		nblocked--;
		without[me] = false;
		has = true;
		won = false
	:: else
	fi;
	p = NONE;
	unlock()
}

/* gmp_block_leave */
inline leave()
{
#ifdef MUTANT_LEAVES_UNREAD /* sysmon sees the P RUNNING again, and takes it */
	store(INSIDE(me), RLX, 1);
	has = true;
#else
	hold();
#endif
	if
	:: atomic {
			has ->
			was = me;
			cas(STATUS(mp[me]), was, RUNNING, ACQ, won);
			was = 0;
			if
			:: won -> owns(mp[me], me); won = false
			:: else -> has = false
			fi
		};
		if
		:: atomic { has -> use(mp[me]) }
		:: atomic { !has -> regain_p() }
		fi
	:: atomic { !has -> regain_p() }
	fi;
	if
	:: has ->
		drop();
		if
		:: overtook ->
			overtook = false;
			hold();
			if
			:: atomic { has -> yield() }
			:: atomic { !has -> stop_without_p(true) }
			fi
		:: else
		fi
	:: else -> atomic { stop_without_p(true) }
	fi
}

/* yield_g0, with a P */
inline yield()
{
	use(mp[me]);
	nrunning--;
	gq++;
	g = false;
	has = false
}

/* pin_hand_over of P p, under atomic: to an M that sleeps; p.m is still this M */
inline give_away()
{
	take_lock(0);
	midle_get();
	owner[p] = w;
	nextp[w] = p;
	given[w] = WITH_P;
	wake[w] = true;
	mp[me] = NONE;
	listed[me] = true;
	asleep = true;
	w = NONE;
	p = NONE;
	unlock()
}

/* The other operations begin in the same way: p_hold_last and to_g0. */
inline run_green()
{
	do
	:: !g -> break
	:: atomic { g && left > 0 -> left-- };
		begin();
		if
		:: atomic { has -> use(mp[me]) };
			drop()
		:: atomic { !has -> drop() }
		fi
	:: g ->
		hold();
		if
#ifdef PINNED
		:: atomic { has && left > 0 -> left--; use(mp[me]) };
			drop()
		:: atomic { !has && left > 0 -> left--; drop() }
#else
		:: atomic { has && left > 0 -> left--; yield() }
		:: atomic { !has && left > 0 -> left--; stop_without_p(true) } /* yield */
		:: atomic { /* park_g0 */
				has && left > 0 ->
				left--;
				use(mp[me]);
				nrunning--;
				parked++;
				g = false;
				has = false
			}
		:: atomic { /* park_slow_g0 */
				!has && left > 0 ->
				left--;
				nrunning--;
				parked++
			};
			atomic { stop_without_p(false) }
		/* gmp_block_enter */
		:: atomic { /* step 3 */
				has && left > 0 ->
				left--;
#ifdef MUTANT_BLOCKS_OUTSIDE /* the P was taken since the section */
				drop()
			};
			atomic {
#endif
				use(mp[me]);
				owner[mp[me]] = NONE;
				store(STATUS(mp[me]), REL, me)
			};
#ifndef MUTANT_BLOCKS_OUTSIDE
			drop();
#endif
			leave()
		:: atomic { /* step 2 */
				has && left > 0 ->
				left--;
				p = mp[me];
				without[me] = true;
				retaking++;
				hand_off(me)
			};
			if
			:: !won -> wake_if_work()
			:: else -> won = false
			fi;
			drop();
			leave()
		:: atomic { !has && left > 0 -> left--; drop() };
			leave()
#endif
#ifdef PINNED
		:: atomic { /* pin_hand_over */
				has && left > 0 && ANY_LISTED && !mem_locked[0] ->
				left--;
				p = mp[me];
				yield();
				give_away()
			}
#endif
		/* sched_exit */
		:: atomic {
				has && left == 0 ->
#ifdef MUTANT_EXITS_OUTSIDE /* the same */
				drop()
			};
			atomic {
#endif
				use(mp[me]);
				nrunning--;
				ended++;
				g = false;
				has = false
			}
		:: atomic { !has && left == 0 -> stop_without_p(true) }
		fi
	od
}

/* sched_start_preempted, of a green thread that may be new */
inline start_preempted()
{
	if
	:: atomic {
			ANY_LISTED && !mem_locked[0] ->
			take_lock(0);
#ifndef MUTANT_STARTS_UNMARKED /* the green thread uses the P that it has given away */
			store(TAKEN(me), RLX, P_TAKEN);
#endif
			nblocked++;
			without[me] = true;
			p = mp[me];
			unlock();
			hand_off(NONE)
		};
		if
		:: !won -> wake_if_work()
		:: else -> won = false
		fi
	:: true
	fi
}

proctype M(byte me; bool asleep)
{
	byte ts, w = NONE, p = NONE, was;
	bool g, won, has, overtook;

	do
	:: asleep -> /* wait_for_p */
		wake_if_work();
end_asleep:	atomic { wake[me] -> wake[me] = false };
		/* acquirep */
		atomic {
			take_lock(0);
			if
			:: given[me] == LOSTP -> listed[me] = true
			:: else ->
				p = nextp[me];
				nextp[me] = NONE;
				mp[me] = p;
				pm[p] = me;
				use(p);
				asleep = false
			fi;
			given[me] = 0;
			p = NONE;
			unlock()
		}
	:: else ->
		/* local_work, from_global */
		atomic {
			use(mp[me]);
			if
			:: gq > 0 -> gq--; nrunning++; g = true
			:: else
			fi
		};
		if
		:: g ->
#ifdef STARTS
			start_preempted();
#endif
			/* execute_g0 */
#ifdef MUTANT_LEAVES_EARLY /* the last use is another M's */
			store(INSIDE(me), REL, 0);
			atomic { use(mp[me]) };
#else
			atomic { store(INSIDE(me), ORDER_G0_LEFT, 0); tidy() };
#endif
			run_green()
		:: else ->
			/* releasep; with work in the global queue it keeps the P, and finds it */
			atomic {
				take_lock(0);
				if
				:: gq == 0 ->
					p = mp[me];
					mp[me] = NONE;
					pm[p] = NONE;
					owner[p] = NONE;
					store(STATUS(p), RLX, IDLE);
					listed[me] = true;
					asleep = true;
					p = NONE
				:: else
				fi;
				unlock()
			}
		fi
	od
}

/* --- sysmon --- */

#ifdef MUTANT_OLD_OWNER
#define HAS(m, q) true
#else
#define HAS(m, q) (mp[m] == q)
#endif
#define ASKABLE(q) (rounds > 0 && !mem_locked[0] && NOW(STATUS(q)) == RUNNING && pm[q] != NONE && \
	HAS(pm[q], q) && NOW(INSIDE(pm[q])) == 0 && NOW(TAKEN(pm[q])) != P_TAKEN && \
	(ANY_LISTED || ANY_LOSTP))

#ifdef MUTANT_NO_HEAVY_FENCE
#define ROUND 2
#else
#define ROUND 1
#endif

/* sched_preempt */
inline preempt(q)
{
	atomic {
		ASKABLE(q) ->
		take_lock(0);
		p = q;
		m = pm[p];
		rounds--;
		in_round = ROUND;
		asked = m;
		was = NOW(TAKEN(m));
		cas(TAKEN(m), was, P_ASKED, RLX, won);
		was = 0;
		won = false
	};
#ifndef MUTANT_NO_HEAVY_FENCE /* ORD(preempt): neither sees what the other has stored */
	atomic { meet_all(); tidy(); in_round = 2 };
#endif
#ifdef MUTANT_INSIDE_UNCHECKED /* the M has begun a section since step 1 */
	was = 0;
#else
	load(INSIDE(m), ORDER_INSIDE_SEEN, was);
#endif
	outside = was == 0;
	mine = true;
#ifndef MUTANT_STATUS_UNCHECKED /* a taker of blocked Ps takes it too */
	load(STATUS(p), ACQ, was);
	mine = was == RUNNING;
#endif
	atomic { mine = mine && HAS(m, p); outside = outside && mine };
	atomic {
#ifdef MUTANT_TAKES_PLAINLY /* the M has settled since step 4 */
		if
		:: outside -> exchange(TAKEN(m), P_TAKEN, RLX, was); won = true
		:: else -> was = P_ASKED; cas(TAKEN(m), was, P_KEPT, RLX, won)
		fi;
#else
		was = P_ASKED;
		cas(TAKEN(m), was, (outside -> P_TAKEN : (mine -> P_WANTED : P_KEPT)), RLX, won);
#endif
		mine = false;
		was = 0;
		won = won && outside;
		outside = false;
		if
		:: won -> assert(owner[p] == m); owner[p] = SYSMON;
#ifdef MUTANT_COUNTED_TOO_LATE /* the green thread is seen by no check */
			late = true;
			retaking++;
#else
			nblocked++;
#endif
			without[m] = true
		:: else -> p = NONE
		fi;
		m = NONE;
		in_round = 0;
		asked = NONE;
		unlock()
	};
	if
	:: won -> hand_off_by_sysmon(NONE)
	:: else
	fi
}

inline hand_off_by_sysmon(victim)
{
	atomic { hand_off(victim); m = NONE };
#ifdef MUTANT_COUNTED_TOO_LATE
	if
	:: late -> atomic { take_lock(0); nblocked++; retaking--; late = false; unlock() }
	:: else
	fi;
#endif
	if
	:: !won -> wake_if_work()
	:: else -> won = false
	fi
}

/* retake_blocked_ps */
inline retake(q)
{
	atomic {
		NOW(STATUS(q)) < MS ->
		p = q;
		m = NOW(STATUS(p));
		was = m;
		cas(STATUS(p), was, RUNNING, ACQ, won);
		was = 0;
		if
		:: won -> owns(p, SYSMON); retaking++; without[m] = true
		:: else -> p = NONE; m = NONE
		fi
	};
	if
	:: won -> hand_off_by_sysmon(m)
	:: else
	fi
}

proctype Sysmon()
{
	byte me = SYSMON, ts, m = NONE, w = NONE, p = NONE, was, rounds = ROUNDS;
	bool won, outside, mine;

	do
	:: preempt(0)
	:: retake(0)
#if PS > 1
	:: preempt(1)
	:: retake(1)
#endif
	:: atomic { parked != 0 -> take_lock(0); gq = gq + parked; parked = 0; unlock() };
		wake_if_work() /* a timer; sched_submit_list */
	:: ended == GREENS -> break
	od
}

#if MS > 2
#define ALL_LISTED (listed[0] && listed[1] && listed[2])
#else
#define ALL_LISTED (listed[0] && listed[1])
#endif

init
{
	byte k;

	atomic {
		gq = GREENS;
		for (k : 0 .. PS - 1) {
			VALUE(STATUS(k), 0) = IDLE;
			pm[k] = NONE;
			owner[k] = NONE
		};
		for (k : 0 .. MS - 1) {
			VALUE(INSIDE(k), 0) = 1;
			listed[k] = true;
			mp[k] = NONE;
			nextp[k] = NONE
		};
		VALUE(STATUS(0), 0) = RUNNING;
		owner[0] = MS - 1;
		mp[MS - 1] = 0;
		pm[0] = MS - 1;
		listed[MS - 1] = false;
		for (k : 0 .. MS - 1) {
			run M(k, k < MS - 1)
		};
		run Sysmon();
		k = 0
	};
	ended == GREENS && ALL_LISTED && retaking == 0;
	assert(nblocked == 0 && gq == 0 && parked == 0)
}
