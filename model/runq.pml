/* SPDX-License-Identifier: MIT */
/*
 * Model of the run queues of a P: each green thread is taken once and whole, by the owner, a thief
 * or the global queue, although the owner reuses slots, and stores become visible late and in any
 * order.
 *
 * Processes
 *   Owner    thread 0: puts GREENS green threads, one after the other, and takes some between; if
 *            the ring is full, half of it moves to the global queue
 *   Thief    THIEVES of them, each TRIES times
 *
 * The runs differ in
 *   (plain)  ring and global queue
 *   NEXT     each green thread goes into runnext and moves the former one to the ring; thieves
 *            take runnext, too
 *   CHAIN    the first thief steals more than it runs, and others steal from its ring
 *   EMPTY    no thief; a thread checks whether the ring is empty (runq_len), while the green
 *            threads of the owner yield to each other
 *   ALONE    the P is not shared at first, and the owner moves head by plain stores; the owner
 *            opens the P itself
 *   BLOCKED  the owner enters blocking code; sysmon takes the P, and another M continues with it
 *   BACK     the owner also takes back the green thread that it has put last
 *   FRONT    the owner also puts in front of the ring
 *   ROUNDS   the ring is that of the yield lane: green threads yield into it, and it is run in
 *            rounds; the first thief has such a ring of its own, steals more than it runs, and
 *            takes rounds
 *   SLOW     with ROUNDS or FAIR: the P becomes slow, so each green thread that yields goes to the
 *            global queue, and a new round is one green thread; with FAIR it also becomes fast
 *            again, at any time
 *   FAIR     the order of the yield lane: no thief, and memory without delay; green threads yield
 *            again and again, on this P and on another one
 *
 * Properties
 *   RUNQ-3: each is run once, none is lost     assertions in run, init
 *   a slot that is read has been written, and the green thread in it too
 *                                              assertion in run
 *   no more is copied than there is room       assertion in grab
 *   RUNQ-6: while a green thread waits in the yield lane, each other one runs twice at most
 *                                              assertion in Lane
 *   if a check finds an empty ring, it was empty at some moment    assertion in Checker
 *   a check has no tail that is older than its head                assertion in Checker
 *
 * Memory is that of c11.inc: each access is one step with the order that it has in the code, and
 * each order is removed by one mutant.  Two of them also need a late load or store, which c11.inc
 * does not have: there the mutant swaps the two accesses.
 *
 * Left out: the wrap of the 32-bit counters; a P with several lanes (when each of them runs:
 * quantum.pml); the order of green threads of two Ps; the choice of victims, the number of
 * attempts, and wakeups (wake.pml).
 *
 * Models:
 *   src/runq.h: runq_put runq_yield ring_get runq_get runq_get_yielded runq_take_back runnext_swap
 *   src/runq.h: ring_holds ring_len runq_ready_len runq_len
 *   src/runq.c: runq_put_slow runq_put_first take_yielded spill_yielded_locked runq_yield_slow
 *   src/runq.c: runq_flush_yielded_locked runq_get_round ring_grab ring_steal runq_steal
 *   src/runq.c: gq_put_yielded lane_take gq_get_yielded
 *   src/pick.c: set_pace
 *   src/proc.h: p_open
 *   src/wait/blocking.c: gmp_block_enter gmp_block_leave
 *   src/monitor/retake.c: retake_blocked_ps
 *   ORD: runq.publish runq.take runnext p.open p.blocked
 *
 * Runs: the searches of scripts/model
 *   holds      -DSIZE=2 -DGREENS=3 -DTHIEVES=2
 *   holds      -DSIZE=4 -DGREENS=5
 *   holds      -DSIZE=4 -DGREENS=5 -DTRIES=2
 *   holds      -DNEXT -DSIZE=2 -DGREENS=3 -DTHIEVES=2
 *   holds      -DCHAIN -DSIZE=4 -DGREENS=3 -DTHIEVES=2
 *   holds      -DEMPTY -DSIZE=2 -DGREENS=5 -DOPS=5
 *   holds      -DALONE -DSIZE=2 -DGREENS=3 -DTRIES=2
 *   holds      -DBLOCKED -DSIZE=2 -DGREENS=3
 *   holds      -DBACK -DSIZE=2 -DGREENS=2 -DTHIEVES=2
 *   holds      -DBACK -DSIZE=4 -DGREENS=4 -DTRIES=2
 *   holds      -DFRONT -DSIZE=2 -DGREENS=3 -DTHIEVES=2
 *   holds      -DFRONT -DSIZE=4 -DGREENS=4 -DTRIES=2
 *   holds      -DROUNDS -DSIZE=2 -DGREENS=4
 *   holds      -DROUNDS -DSIZE=4 -DGREENS=3 -DTHIEVES=2
 *   holds      -DROUNDS -DSLOW -DSIZE=2 -DGREENS=3
 *   holds      -DFAIR -DSIZE=2 -DGREENS=4
 *   holds      -DFAIR -DSLOW -DSIZE=2 -DGREENS=4
 *   assertion  -DSIZE=2 -DGREENS=3 -DMUTANT_PUBLISH
 *   assertion  -DSIZE=2 -DGREENS=3 -DMUTANT_TAIL_SEEN
 *   assertion  -DSIZE=2 -DGREENS=4 -DMUTANT_SLOT_FIRST
 *   assertion  -DSIZE=2 -DGREENS=4 -DMUTANT_READ_LATE
 *   assertion  -DSIZE=2 -DGREENS=3 -DMUTANT_TAKE_PLAINLY
 *   assertion  -DSIZE=2 -DGREENS=3 -DMUTANT_OVERFLOW_ANYWAY
 *   assertion  -DSIZE=2 -DGREENS=4 -DMUTANT_ANY_NUMBER
 *   assertion  -DNEXT -DSIZE=2 -DGREENS=3 -DMUTANT_NEXT_PUT
 *   assertion  -DNEXT -DSIZE=2 -DGREENS=3 -DMUTANT_NEXT_SWAP
 *   assertion  -DNEXT -DSIZE=2 -DGREENS=3 -DMUTANT_NEXT_TAKE
 *   assertion  -DNEXT -DSIZE=2 -DGREENS=3 -DMUTANT_NEXT_PLAINLY
 *   assertion  -DCHAIN -DSIZE=4 -DGREENS=3 -DTHIEVES=2 -DMUTANT_STOLEN
 *   assertion  -DEMPTY -DSIZE=2 -DGREENS=5 -DOPS=5 -DMUTANT_OWN_TAKE
 *   assertion  -DEMPTY -DSIZE=2 -DGREENS=5 -DOPS=5 -DMUTANT_OVERFLOW
 *   assertion  -DEMPTY -DSIZE=2 -DGREENS=5 -DOPS=5 -DMUTANT_TAKE_ALL
 *   assertion  -DEMPTY -DSIZE=2 -DGREENS=5 -DOPS=5 -DMUTANT_CHECK
 *   assertion  -DEMPTY -DSIZE=2 -DGREENS=5 -DOPS=5 -DMUTANT_NO_RETRY
 *   assertion  -DALONE -DSIZE=2 -DGREENS=3 -DMUTANT_OPEN
 *   assertion  -DALONE -DSIZE=2 -DGREENS=3 -DMUTANT_OPEN_SEEN
 *   assertion  -DBLOCKED -DSIZE=2 -DGREENS=3 -DMUTANT_BLOCKED
 *   assertion  -DBLOCKED -DSIZE=2 -DGREENS=3 -DMUTANT_TAKEN
 *   assertion  -DBACK -DSIZE=4 -DGREENS=3 -DMUTANT_BACK_UNCOUNTED
 *   assertion  -DBACK -DSIZE=4 -DGREENS=3 -DMUTANT_BACK_LATE
 *   assertion  -DBACK -DSIZE=4 -DGREENS=3 -DMUTANT_BACK_TAKE
 *   assertion  -DBACK -DSIZE=4 -DGREENS=3 -DMUTANT_HEAD_SEEN
 *   assertion  -DBACK -DSIZE=4 -DGREENS=3 -DMUTANT_BACK_TAIL
 *   assertion  -DFRONT -DSIZE=4 -DGREENS=3 -DMUTANT_FRONT_UNCOUNTED
 *   assertion  -DFRONT -DSIZE=4 -DGREENS=3 -DMUTANT_FRONT_PLAINLY
 *   assertion  -DFRONT -DSIZE=4 -DGREENS=3 -DMUTANT_FRONT_EARLY
 *   assertion  -DFRONT -DSIZE=4 -DGREENS=3 -DMUTANT_FRONT_PUT
 *   assertion  -DFRONT -DSIZE=2 -DGREENS=4 -DMUTANT_FRONT_ROOM
 *   assertion  -DROUNDS -DSIZE=2 -DGREENS=3 -DMUTANT_YIELD_PUBLISH
 *   assertion  -DROUNDS -DSIZE=2 -DGREENS=3 -DMUTANT_YIELD_FIRST
 *   assertion  -DROUNDS -DSIZE=2 -DGREENS=3 -DMUTANT_BATCH_ANYWAY
 *   assertion  -DROUNDS -DSIZE=2 -DGREENS=4 -DMUTANT_ROUND_PUBLISH
 *   assertion  -DFAIR -DSIZE=2 -DGREENS=4 -DMUTANT_ROUND_ENDLESS
 *   assertion  -DFAIR -DSIZE=2 -DGREENS=4 -DMUTANT_ROUND_KEPT
 *   assertion  -DFAIR -DSIZE=2 -DGREENS=4 -DMUTANT_ROUND_CUT
 *   assertion  -DFAIR -DSIZE=2 -DGREENS=4 -DMUTANT_ROUND_UNSET
 *   assertion  -DFAIR -DSLOW -DSIZE=2 -DGREENS=4 -DMUTANT_SLOW_ROUND
 */
#ifndef THIEVES
#define THIEVES 1
#endif
#ifndef TRIES
#define TRIES 1
#endif
#ifndef OPS
#define OPS 0
#endif
#define BATCH 2 /* RUNQ_BATCH */
#if defined(ROUNDS) || defined(FAIR)
#define SECOND
#endif
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#ifdef BLOCKED
#define THREADS (THIEVES + 2)
#define WATCHER (THIEVES + 1)
#else
#define THREADS (THIEVES + 1)
#endif

/* --- the orders, as in the code; a mutant takes away one --- */

#ifdef MUTANT_PUBLISH /* ORD(runq.publish): the tail is seen before the slot */
#define ORDER_PUBLISH RLX
#else
#define ORDER_PUBLISH REL
#endif
#ifdef MUTANT_STOLEN /* ORD(runq.publish): the same, of what a thief has stolen */
#define ORDER_STOLEN RLX
#else
#define ORDER_STOLEN REL
#endif
#ifdef MUTANT_TAIL_SEEN /* ORD(runq.publish): a slot is read as it was before */
#define ORDER_TAIL_SEEN RLX
#else
#define ORDER_TAIL_SEEN ACQ
#endif
#ifdef MUTANT_OWN_TAKE /* ORD(runq.take): a check reads the tail from before */
#define ORDER_OWN_TAKE RLX
#else
#define ORDER_OWN_TAKE REL
#endif
#ifdef MUTANT_OVERFLOW /* ORD(runq.take): the same */
#define ORDER_OVERFLOW RLX
#else
#define ORDER_OVERFLOW REL
#endif
#ifdef MUTANT_TAKE_ALL /* ORD(runq.take): the same */
#define ORDER_TAKE_ALL RLX
#else
#define ORDER_TAKE_ALL REL
#endif
#ifdef MUTANT_CHECK /* ORD(runq.take): the same, at the other end */
#define ORDER_CHECK RLX
#else
#define ORDER_CHECK ACQ
#endif
#ifdef MUTANT_NEXT_PUT /* ORD(runnext): the pointer is seen before the green thread */
#define ORDER_NEXT_PUT RLX
#else
#define ORDER_NEXT_PUT REL
#endif
#ifdef MUTANT_NEXT_SWAP /* ORD(runnext): the same, where there was one before */
#define ORDER_NEXT_SWAP RLX
#else
#define ORDER_NEXT_SWAP SEQ
#endif
#ifdef MUTANT_NEXT_TAKE /* ORD(runnext): the green thread is read as it was before */
#define ORDER_NEXT_TAKE RLX
#else
#define ORDER_NEXT_TAKE SEQ
#endif
#ifdef MUTANT_BLOCKED /* ORD(p.blocked): the next M of the P misses the last put */
#define ORDER_BLOCKED RLX
#else
#define ORDER_BLOCKED REL
#endif
#ifdef MUTANT_TAKEN /* ORD(p.blocked): the same */
#define ORDER_TAKEN RLX
#else
#define ORDER_TAKEN ACQ
#endif
#ifdef MUTANT_OPEN /* ORD(p.open): the owner's plain stores of head come after a thief's */
#define ORDER_OPEN RLX
#else
#define ORDER_OPEN REL
#endif
#ifdef MUTANT_OPEN_SEEN /* ORD(p.open): the same */
#define ORDER_OPEN_SEEN RLX
#else
#define ORDER_OPEN_SEEN ACQ
#endif

#ifdef MUTANT_BACK_TAKE /* ORD(runq.take): a thief sees that head, and the tail from before */
#define ORDER_BACK_TAKE RLX
#else
#define ORDER_BACK_TAKE REL
#endif
#ifdef MUTANT_HEAD_SEEN /* ORD(runq.take): the same */
#define ORDER_HEAD_SEEN RLX
#else
#define ORDER_HEAD_SEEN ACQ
#endif
#ifdef MUTANT_BACK_TAIL /* ORD(runq.publish): the tail is seen, and a slot before it is not */
#define ORDER_BACK_TAIL RLX
#else
#define ORDER_BACK_TAIL REL
#endif

#ifdef MUTANT_FRONT_PUT /* ORD(runq.take): the head is seen before the slot, or the green thread */
#define ORDER_FRONT_PUT RLX
#else
#define ORDER_FRONT_PUT REL
#endif

#ifdef MUTANT_YIELD_PUBLISH /* ORD(runq.publish): the tail is seen before the slot */
#define ORDER_YIELD RLX
#else
#define ORDER_YIELD REL
#endif
#ifdef MUTANT_ROUND_PUBLISH /* ORD(runq.publish): the same, of what came from the global queue */
#define ORDER_ROUND RLX
#else
#define ORDER_ROUND REL
#endif

/* --- memory --- */

/* A head: the slot that is next, and how often the owner has taken back, or put in front. */
#define TAKEN_BACK 16
#ifdef FAIR
#define POS(head) (head)
#else
#define POS(head) ((head) % TAKEN_BACK)
#endif

#define HEAD 0
#define TAIL 1
#if defined(NEXT)
#define RUNNEXT 2
#define SYNCS 3
#elif defined(CHAIN) || defined(ROUNDS)
#define HEAD2 2 /* of the first thief's ring */
#define TAIL2 3
#define SYNCS 4
#elif defined(BLOCKED)
#define STATUS 2 /* 0 it runs, 1 in blocking code, 2 it runs for another */
#define SYNCS 3
#elif defined(ALONE)
#define OPEN 2
#define SHARED 3
#define SYNCS 4
#else
#define SYNCS 2
#endif
#define AT(slots, i) ((slots) + (i) % SIZE)
#define SLOTS SYNCS
#define SLOT(i) AT(SLOTS, i)
#ifdef HEAD2
#define SLOTS2 (SYNCS + SIZE)
#define SLOT2(i) AT(SLOTS2, i)
#define MADE (SYNCS + 2 * SIZE)
#else
#define MADE (SYNCS + SIZE) /* the newest green thread that is initialised */
#endif
#ifdef SECOND
#define YIELDS (MADE + 1) /* LANE_YIELD of the global queue is not empty */
#define LOCS (MADE + 2)
#else
#define LOCS (MADE + 1)
#endif
#ifdef ALONE
#define DEPTH (2 * GREENS + 2) /* a plain store takes two places */
#elif defined(NEXT)
#define DEPTH (2 * GREENS + 3)
#elif defined(ROUNDS)
#define DEPTH (2 * GREENS + 4)
#elif defined(BACK) || defined(FRONT)
#define DEPTH (3 * GREENS + 3)
#else
#define DEPTH (GREENS + 3 + OPS)
#endif
#ifdef FAIR
/* One thread: a location has one value. */
byte cell[LOCS];
#define MINE(l) cell[l]
#define RLX 0
#define ACQ 1
#define REL 2
#define load(l, order, into) into = cell[l]
#define store(l, order, v) cell[l] = v
#define cas(l, from, to, order, won) \
	d_step { assert(cell[l] == from); cell[l] = to; won = true }
#define take_lock(l) skip
#define drop_lock(l) skip
#else
#include "c11.inc"
#define MINE(l) VALUE(l, newest[l])
#endif

bool ran[GREENS + 1]; /* they are numbered from 1 on */
byte made; /* how many there have been */
#define GLOBAL (GREENS + BATCH) /* a mutant puts some twice */
byte global[GLOBAL], nglobal;
byte ended;

inline run_green(g)
{
	d_step {
		assert(g != 0 && !ran[g] && KNOWS(me, MADE) >= g);
		ran[g] = true
	}
}

/* --- the owner --- */

#ifdef EMPTY
bool bare; /* there was nothing in the ring at some time */
#define see() bare = bare || MINE(HEAD) == MINE(TAIL)
#endif

/* Move head past the slots that were read; in won, whether no other thread has. */
inline take_own(headof, n, order)
{
#ifdef ALONE
	load(SHARED, RLX, shared);
	if
	:: !shared -> store_late(headof, head + n); won = true
	:: else -> cas(headof, head, head + n, order, won)
	fi;
	shared = 0
#elif defined(MUTANT_TAKE_PLAINLY) /* RUNQ-3: a load and a store; a thief takes the same between */
	won = true;
	store(headof, order, head + n)
#elif defined(EMPTY)
	atomic { cas(headof, head, head + n, order, won); see() }
#else
	cas(headof, head, head + n, order, won)
#endif
}

/* The owner reads its slots and tail plainly: no other thread writes them. */
inline runq_put(g)
{
	do
	:: assert(KNOWS(me, TAIL) == newest[TAIL]);
		tail = MINE(TAIL);
#ifdef MUTANT_SLOT_FIRST /* ORD(runq.take): the slot is written while a thief reads it */
		store(SLOT(tail), RLX, g);
		load(HEAD, RLX, head);
		if
		:: tail - POS(head) >= SIZE ->
end_unseen:		false /* only executions where the slot is free, though observed late */
		:: else -> store(TAIL, ORDER_PUBLISH, tail + 1); break
		fi
#else
		load(HEAD, ACQ, head);
		if
		:: tail - POS(head) >= SIZE ->
			/* runq_put_slow */
			n = (tail - POS(head)) / 2;
			d_step {
				batch[0] = MINE(SLOT(head));
				if
				:: n > 1 -> batch[1] = MINE(SLOT(head + 1))
				:: else
				fi
			};
			take_own(HEAD, n, ORDER_OVERFLOW);
#ifdef MUTANT_OVERFLOW_ANYWAY /* RUNQ-3: a thief has taken some of the half meanwhile */
			won = true;
#endif
			if
			:: won ->
				take_lock(0);
				d_step {
					global[nglobal] = batch[0];
					nglobal++;
					if
					:: n > 1 -> global[nglobal] = batch[1]; nglobal++
					:: else
					fi;
					global[nglobal] = g;
					nglobal++
				};
				drop_lock(0);
				break
			:: else
			fi
		:: else ->
			store(SLOT(tail), RLX, g);
			store(TAIL, ORDER_PUBLISH, tail + 1);
			break
		fi
#endif
	od;
	atomic { head = 0; tail = 0; n = 0; batch[0] = 0; batch[1] = 0; won = false }
}

/* into g: 0 when empty */
inline ring_get(headof, tailof, slots, g)
{
	load(headof, RLX, head);
	do
	:: POS(head) == MINE(tailof) -> g = 0; break
	:: else ->
		g = MINE(AT(slots, head));
		take_own(headof, 1, ORDER_OWN_TAKE);
		if
		:: won -> break
		:: else
		fi
	od;
	atomic { head = 0; won = false }
}

inline runq_get(g)
{
	ring_get(HEAD, TAIL, SLOTS, g)
}

#ifdef BACK
/* into g: what was put last; 0 if it has been taken */
inline runq_take_back(g)
{
	load(HEAD, RLX, head);
	tail = MINE(TAIL);
	if
	:: POS(head) == tail -> g = 0
	:: else ->
		tail--;
		g = MINE(SLOT(tail));
#ifndef MUTANT_BACK_LATE /* ORD(runq.take): a thief reads the new head and the old tail */
		store(TAIL, ORDER_BACK_TAIL, tail);
#endif
		do
		:: POS(head) == tail + 1 -> g = 0; break
		:: else ->
#ifdef MUTANT_BACK_UNCOUNTED /* RUNQ-3: a thief has read the old tail, and the head is unchanged */
			cas(HEAD, head, head, ORDER_BACK_TAKE, won);
#else
			cas(HEAD, head, head + TAKEN_BACK, ORDER_BACK_TAKE, won);
#endif
			if
			:: won -> break
			:: else
			fi
		od;
#ifdef MUTANT_BACK_LATE
		if
		:: won -> store(TAIL, ORDER_BACK_TAIL, tail)
		:: else
		fi
#else
		if
		:: !won -> store(TAIL, RLX, tail + 1) /* nothing lies before it */
		:: else
		fi
#endif
	fi;
	atomic { head = 0; tail = 0; won = false }
}
#endif

#ifdef FRONT
/* of one; no room: at the tail (put_first of ready.c) */
inline runq_put_first(g)
{
	g++;
	touch(MADE);
	do
	:: load(HEAD, ACQ, head);
		tail = MINE(TAIL);
		if
#ifndef MUTANT_FRONT_ROOM /* RUNQ-1: the slot holds the last of the ring */
		:: tail - POS(head) + 1 > SIZE -> runq_put(g); break
#endif
		:: else ->
#ifndef MUTANT_FRONT_EARLY /* the slot is published before the green thread is there */
			store(SLOT(POS(head) + SIZE - 1), RLX, g);
#endif
#ifdef MUTANT_FRONT_UNCOUNTED /* RUNQ-3: a thief has read the slot, and finds the head as it was */
			cas(HEAD, head, head - 1, ORDER_FRONT_PUT, won);
#elif defined(MUTANT_FRONT_PLAINLY) /* RUNQ-3: a thief has moved the head between */
			won = true;
			store(HEAD, ORDER_FRONT_PUT, head + TAKEN_BACK - 1);
#else
			cas(HEAD, head, head + TAKEN_BACK - 1, ORDER_FRONT_PUT, won);
#endif
#ifdef MUTANT_FRONT_EARLY
			if
			:: won -> store(SLOT(POS(head) + SIZE - 1), RLX, g)
			:: else
			fi;
#endif
			if
			:: won -> break
			:: else
			fi
		fi
	od;
	atomic { head = 0; tail = 0; won = false }
}
#endif

#ifdef NEXT
/* gp becomes the next; the former next into former */
inline runnext_swap(gp, former)
{
	load(RUNNEXT, RLX, former);
	if
#ifdef MUTANT_NEXT_PLAINLY /* RUNQ-4: a thief takes the former one between the load and the store */
	:: true -> store(RUNNEXT, REL, gp)
#else
	:: former == 0 -> store(RUNNEXT, ORDER_NEXT_PUT, gp)
	:: else -> exchange(RUNNEXT, gp, ORDER_NEXT_SWAP, former)
#endif
	fi
}
#endif

#ifdef SECOND
/* --- the yield lane --- */

/* Under the lock: what the other threads see of it. */
inline count_yields()
{
	if
	:: MINE(YIELDS) != (nglobal > 0) -> store(YIELDS, RLX, nglobal > 0)
	:: else
	fi
}

inline gq_put_yielded(g)
{
	d_step { global[nglobal] = g; nglobal++ };
	count_yields()
}

inline lane_take(g)
{
	d_step {
		g = global[0];
		nglobal--;
		for (k : 0 .. GLOBAL - 2) {
			global[k] = global[k + 1]
		};
		global[GLOBAL - 1] = 0;
		k = 0
	}
}

/* In n, how many; into batch. */
inline take_yielded(headof, tailof, slots)
{
	load(headof, RLX, head);
	do
	:: n = MIN(MINE(tailof) - POS(head), BATCH);
		if
		:: n == 0 -> break
		:: else ->
			d_step {
				batch[0] = MINE(AT(slots, head));
				if
				:: n > 1 -> batch[1] = MINE(AT(slots, head + 1))
				:: else
				fi
			};
			take_own(headof, n, ORDER_TAKE_ALL);
#ifdef MUTANT_BATCH_ANYWAY /* RUNQ-3: a thief has taken some of the batch meanwhile */
			won = true;
#endif
			if
			:: won -> break
			:: else
			fi
		fi
	od;
	atomic { head = 0; won = false }
}

/* In n, how many. */
inline spill_yielded_locked(headof, tailof, slots)
{
	take_yielded(headof, tailof, slots);
	if
	:: n > 0 -> gq_put_yielded(batch[0])
	:: else
	fi;
	if
	:: n > 1 -> gq_put_yielded(batch[1])
	:: else
	fi;
	atomic { batch[0] = 0; batch[1] = 0 }
}

inline runq_flush_yielded_locked(headof, tailof, slots)
{
	do
	:: spill_yielded_locked(headof, tailof, slots);
		if
		:: n == 0 -> break
		:: else
		fi
	od
}

/* yield_room */
#ifdef SLOW
#define YIELD_ROOM (slow -> 0 : SIZE)
#else
#define YIELD_ROOM SIZE
#endif

/* set_pace; round_end is the caller's. */
inline become_slow()
{
	slow = true;
	load(YIELDS, RLX, n);
	if
#ifdef MUTANT_SLOW_ROUND /* RUNQ-6: a P that becomes slow again and again never ends its round */
	:: true -> round_end = MINE(TAIL)
#else
	:: n == 0 -> round_end = MINE(TAIL)
#endif
	:: else
	fi;
	n = 0
}

#define IN_ROUND(head) (round_end > POS(head) && round_end - POS(head) <= SIZE)

/* round_end is the caller's. */
inline runq_yield(g)
{
	do
	:: tail = MINE(TAIL);
#ifdef MUTANT_YIELD_FIRST /* ORD(runq.take): the slot is written while a thief reads it */
		store(SLOT(tail), RLX, g);
		load(HEAD, RLX, head);
		if
		:: tail - POS(head) >= SIZE ->
end_unseen:		false /* as for MUTANT_SLOT_FIRST */
		:: else -> store(TAIL, REL, tail + 1); break
		fi
#else
		load(HEAD, ACQ, head);
		if
		:: tail - POS(head) >= YIELD_ROOM ->
			/* runq_yield_slow */
			take_lock(0);
			if
#ifdef MUTANT_ROUND_CUT /* RUNQ-6: those of the round go back, each time without having run */
			:: YIELD_ROOM > 0 ->
#else
			:: YIELD_ROOM > 0 && !IN_ROUND(head) ->
#endif
				spill_yielded_locked(HEAD, TAIL, SLOTS);
				drop_lock(0)
			:: else ->
				gq_put_yielded(g);
				drop_lock(0);
				break
			fi
		:: else ->
			store(SLOT(tail), RLX, g);
			store(TAIL, ORDER_YIELD, tail + 1);
			break
		fi
#endif
	od;
	atomic { head = 0; tail = 0; n = 0 }
}

/* Into g, and into the ring, which is empty. */
inline gq_get_yielded(tailof, slots, g)
{
	n = MIN(nglobal, BATCH);
#ifdef SLOW
	n = MIN(n, 1 + !slow);
#endif
	lane_take(g);
	if
	:: n > 1 ->
		lane_take(batch[0]);
		store(AT(slots, MINE(tailof)), RLX, batch[0]);
		store(tailof, ORDER_ROUND, MINE(tailof) + 1);
		batch[0] = 0
	:: else
	fi;
	count_yields()
}

/* Into g: 0 when empty.  round_end is the caller's. */
inline runq_get_yielded(headof, tailof, slots, g)
{
	load(YIELDS, RLX, n);
	if
	:: n == 0 -> ring_get(headof, tailof, slots, g)
	:: else ->
		/* runq_get_round */
		g = 0;
		load(headof, RLX, head);
		if
#ifdef MUTANT_ROUND_ENDLESS /* RUNQ-6: the Gs of the ring run in turn, the others starve */
		:: true -> ring_get(headof, tailof, slots, g)
#else
		:: IN_ROUND(head) -> ring_get(headof, tailof, slots, g)
#endif
		:: else
		fi;
		if
		:: g == 0 ->
			take_lock(0);
#ifndef MUTANT_ROUND_KEPT /* RUNQ-6: new Gs of the global queue run before those of the ring */
			runq_flush_yielded_locked(headof, tailof, slots);
#endif
			if
			:: nglobal > 0 -> gq_get_yielded(tailof, slots, g)
			:: else
			fi;
			drop_lock(0);
#ifndef MUTANT_ROUND_UNSET /* RUNQ-6: the rest of each batch goes back without having run */
			round_end = MINE(tailof)
#endif
		:: else
		fi
	fi;
	atomic { head = 0; n = 0 }
}
#endif

/* sched_submit */
inline submit(g)
{
	g++;
#ifndef FAIR
	touch(MADE);
#endif
#ifdef SECOND
	runq_yield(g)
#elif defined(NEXT)
	runnext_swap(g, old);
	if
	:: old != 0 -> runq_put(old); old = 0
	:: else
	fi
#else
	runq_put(g)
#endif
}

/* local_work, into g */
inline local_work(g)
{
#ifdef NEXT
	load(RUNNEXT, RLX, g);
	if
	:: g != 0 -> runnext_swap(0, g)
	:: else
	fi;
	if
	:: g == 0 -> runq_get(g)
	:: else
	fi
#elif defined(SECOND)
	runq_get_yielded(HEAD, TAIL, SLOTS, g)
#else
	runq_get(g)
#endif
}

#if !defined(EMPTY) && !defined(FAIR)
proctype Owner(byte me)
{
	byte ts, head, tail, n, batch[2], g;
	bool won;
#ifdef ROUNDS
	byte round_end, k;
	bool slow;
#endif
#ifdef BLOCKED
	bool again;
#endif
#ifdef NEXT
	byte old;
#endif
#ifdef ALONE
	bit shared;
#endif

#ifdef BLOCKED
	if
	:: me == WATCHER ->
		/* retake_blocked_ps */
		tail = 1;
		cas(STATUS, tail, 2, ORDER_TAKEN, won);
		if
		:: !won -> goto out
		:: else -> again = true
		fi
	:: else
	fi;
	won = false;
	tail = 0;
#endif
	do
	:: made < GREENS -> submit(made)
	:: local_work(g);
		if
		:: g != 0 -> run_green(g); g = 0
		:: else ->
			if
			:: made == GREENS -> break
			:: else
			fi
		fi
#ifdef SLOW
	:: !slow -> become_slow()
#endif
#ifdef FRONT
	:: made < GREENS -> runq_put_first(made)
#endif
#ifdef BACK
	:: runq_take_back(g);
		if
		:: g != 0 -> run_green(g); g = 0
		:: else
		fi
#endif
#ifdef ALONE
	/* attend_g0: p_open */
	:: MINE(OPEN) == 0 -> store(SHARED, RLX, 1); store(OPEN, ORDER_OPEN, 1)
#endif
#ifdef BLOCKED
	:: !again ->
		/* gmp_block_enter, gmp_block_leave */
		again = true;
		store(STATUS, ORDER_BLOCKED, 1);
		tail = 1;
		cas(STATUS, tail, 0, ACQ, won);
		if
		:: !won -> goto out
		:: else -> won = false; tail = 0
		fi
#endif
	od;
#ifdef BLOCKED
out:
#endif
	ended++
}
#endif

/* --- a thief --- */

/* In n, how many; into copy. */
inline copy_slots(slots)
{
	assert(n <= SIZE / 2);
	load(AT(slots, head), RLX, copy[0]);
	if
	:: n > 1 -> load(AT(slots, head + 1), RLX, copy[1])
	:: else
	fi;
#ifdef HEAD2
	if
	:: me == 1 -> /* they go straight into its ring: the slot before its tail is free, too */
		store(SLOT2(MINE(TAIL2) - 1), RLX, copy[0]);
		if
		:: n > 1 -> store(SLOT2(MINE(TAIL2)), RLX, copy[1])
		:: else
		fi
	:: else
	fi
#endif
}

inline grab(headof, tailof, slots)
{
	do
	:: load(headof, ORDER_HEAD_SEEN, head);
		load(tailof, ORDER_TAIL_SEEN, tail);
		n = (tail > POS(head) -> tail - POS(head) : 0);
		n = n - n / 2;
		if
		:: n == 0 -> break
#ifndef MUTANT_ANY_NUMBER /* more than the thief has room for */
		:: n > SIZE / 2
#endif
		:: else ->
#ifdef MUTANT_READ_LATE /* ORD(runq.take): the slots are read when they are the owner's again */
			cas(headof, head, head + n, RLX, won);
			if
			:: won -> head = head - n; copy_slots(slots); break
			:: else
			fi
#else
			copy_slots(slots);
			cas(headof, head, head + n, SEQ, won);
			if
			:: won -> break
			:: else
			fi
#endif
		fi
	od;
	atomic { head = 0; tail = 0; won = false }
}

/* runq_steal */
inline steal()
{
#ifdef ALONE
	load(OPEN, ORDER_OPEN_SEEN, n);
	if
	:: n != 0 -> n = 0; grab(HEAD, TAIL, SLOTS)
	:: else
	fi
#elif defined(HEAD2)
	if
	:: grab(HEAD, TAIL, SLOTS)
	:: me > 1 -> grab(HEAD2, TAIL2, SLOTS2)
	fi
#else
	grab(HEAD, TAIL, SLOTS)
#endif
#ifdef NEXT
	;
	if
	:: n == 0 ->
		load(RUNNEXT, RLX, copy[0]);
		if
		:: copy[0] != 0 ->
			cas(RUNNEXT, copy[0], 0, ORDER_NEXT_TAKE, won);
			n = won
		:: else
		fi;
		won = false
	:: else
	fi
#endif
}

#if !defined(EMPTY) && !defined(FAIR)
proctype Thief(byte me)
{
	byte ts, head, tail, n, copy[2], tries;
	bool won;
#ifdef ROUNDS
	byte round_end, batch[2], k;
	bool slow;
#endif

	do
	:: tries == TRIES -> break
	:: else ->
		steal();
		if
		:: n > 0 -> run_green(copy[0])
		:: else
		fi;
		if
#ifdef HEAD2
		:: n > 1 && me == 1 ->
			store(TAIL2, ORDER_STOLEN, MINE(TAIL2) + 1);
#ifdef CHAIN
			ring_get(HEAD2, TAIL2, SLOTS2, copy[0]);
			if
			:: copy[0] != 0 -> run_green(copy[0])
			:: else
			fi
#endif
		:: n > 1 && me != 1 -> run_green(copy[1])
#else
		:: n > 1 -> run_green(copy[1])
#endif
		:: else
		fi;
#ifdef ROUNDS
		copy[1] = 0;
		do
		:: me != 1 -> break
		:: else ->
			runq_get_yielded(HEAD2, TAIL2, SLOTS2, copy[0]);
			if
			:: copy[0] == 0 -> break
			:: else -> run_green(copy[0])
			fi
		od;
#endif
		atomic { n = 0; copy[0] = 0; copy[1] = 0; tries++ }
	od;
	ended++
}
#endif

/* --- the order of the yield lane --- */

#ifdef FAIR
bool waits[GREENS + 1]; /* in the lane */
#define OVERTAKES 2
byte runs[GREENS + 1];  /* how often each has run since the first of them has yielded */

inline begin_wait(g)
{
	waits[g] = true;
	if
	:: g == 1 ->
		for (k : 1 .. GREENS) {
			runs[k] = 0
		};
		k = 0
	:: else
	fi
}

active proctype Lane()
{
	byte head, tail, n, batch[2], g, k, round_end;
	bool won, slow;

end:	do
	:: atomic {
			if
			:: local_work(g);
				if
				:: g == 0
				:: g == 1 -> waits[1] = false
				:: g > 1 ->
					waits[g] = false;
					if
					:: waits[1] ->
						runs[g]++;
						assert(runs[g] <= OVERTAKES)
					:: else
					fi
				fi;
				/* it yields, or waits for an event */
				if
				:: g != 0 -> d_step { begin_wait(g) }; runq_yield(g)
				:: true
				fi
			:: /* a G that an event has made runnable yields */
				for (g : 1 .. GREENS) {
					if
					:: !waits[g] -> break
					:: true
					fi
				};
				if
				:: g <= GREENS && !waits[g] ->
					d_step { begin_wait(g) };
					/* on this P, or on another one */
					if
					:: runq_yield(g)
					:: gq_put_yielded(g)
					fi
				:: else
				fi
#ifdef SLOW
			:: slow -> slow = false /* set_pace */
			:: !slow -> become_slow()
#endif
			fi;
			d_step {
				g = 0;
				/* the counts have no end: the same state with lower ones */
				if
				:: cell[HEAD] >= SIZE ->
					cell[HEAD] = cell[HEAD] - SIZE;
					cell[TAIL] = cell[TAIL] - SIZE;
					round_end = (round_end > SIZE -> round_end - SIZE : 0)
				:: else
				fi;
				if
				:: round_end < cell[HEAD] -> round_end = 0
				:: else
				fi;
				for (k : 0 .. SIZE - 1) {
					if
					:: k + SIZE < MINE(TAIL) ||
						(k >= MINE(HEAD) && k < MINE(TAIL))
					:: else -> cell[SLOT(k)] = 0
					fi
				};
				k = 0
			}
		}
	od
}
#endif

/* --- the check for an empty ring --- */

#ifdef EMPTY
/* Green threads that yield, or are created, or leave all at once. */
proctype Owner()
{
	byte me, ts, head, tail, n, batch[2], g, ops;
	bool won;

	submit(made);
	submit(made);
	do
	:: ops == OPS -> break
	:: else ->
		if
		:: runq_get(g);
			if
			:: g != 0 -> runq_put(g)
			:: else
			fi;
			g = 0
		:: made < GREENS -> submit(made)
		:: /* take_yielded */
			load(HEAD, RLX, head);
			n = MIN(MINE(TAIL) - head, BATCH);
			atomic { cas(HEAD, head, head + n, ORDER_TAKE_ALL, won); see() };
			atomic { head = 0; n = 0; won = false }
		fi;
		ops++
	od;
	ended++
}

/* recheck_work: has_work, runq_len, ring_len */
proctype Checker()
{
	byte me = 1, ts, head, tail;

	atomic { meet_all(); bare = MINE(HEAD) == MINE(TAIL) };
	do
	:: load(HEAD, ORDER_CHECK, head);
		load(TAIL, RLX, tail);
		assert(((tail - head) & 255) < 128);
#ifdef MUTANT_NO_RETRY /* head and tail are a whole round apart: the ring seems empty */
		break
#else
		if
		:: tail - head <= SIZE -> break
		:: else
		fi
#endif
	od;
	atomic {
		assert((tail - head > 0 && tail - head <= SIZE) || bare);
		ended++
	}
}
#endif

#ifndef FAIR
init
{
	byte k;

	atomic {
#ifdef FRONT /* so that there are slots in front */
		VALUE(HEAD, 0) = SIZE;
		VALUE(TAIL, 0) = SIZE;
#endif
#ifdef HEAD2
		VALUE(HEAD2, 0) = SIZE;
		VALUE(TAIL2, 0) = SIZE;
#endif
#ifdef EMPTY
		run Owner();
		run Checker();
#else
		run Owner(0);
		for (k : 1 .. THIEVES) {
			run Thief(k)
		};
#endif
#ifdef BLOCKED
		run Owner(WATCHER);
#endif
		k = 0
	};
#if defined(MUTANT_SLOT_FIRST) || defined(MUTANT_YIELD_FIRST)
end:
#endif
	ended == THREADS;
#ifndef EMPTY
	d_step {
		for (k : 0 .. GREENS - 1) {
			if
			:: k < nglobal -> assert(!ran[global[k]]); ran[global[k]] = true
			:: else
			fi
		};
		for (k : 1 .. GREENS) {
			assert(ran[k])
		}
	}
#endif
}
#endif
