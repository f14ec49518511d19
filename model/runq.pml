/* SPDX-License-Identifier: MIT */
/*
 * Model of the run queue of a P: each green thread is taken once and whole, by the owner, a thief
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
 *
 * Properties
 *   RUNQ-3: each is run once, none is lost     assertions in run, init
 *   a slot that is read has been written, and the green thread in it too
 *                                              assertion in run
 *   no more is copied than there is room       assertion in grab
 *   if a check finds an empty ring, it was empty at some moment    assertion in Checker
 *   a check has no tail that is older than its head                assertion in Checker
 *
 * Memory is that of c11.inc: each access is one step with the order that it has in the code, and
 * each order is removed by one mutant.  Two of them also need a late load or store, which c11.inc
 * does not have: there the mutant swaps the two accesses.
 *
 * Left out: the wrap of the 32-bit counters; the ring of yielded green threads, which is of the
 * same kind but emptied at once (`all` in EMPTY); the choice of victims, the number of attempts,
 * and wakeups (wake.pml).
 *
 * Models:
 *   src/runq.h: runq_put runq_get runq_take_back runnext_swap ring_len runq_len
 *   src/runq.c: runq_put_slow runq_put_first take_yielded ring_grab runq_steal
 *   src/proc.h: p_open
 *   src/blocking.c: gmp_block_enter gmp_block_leave
 *   src/sysmon.c: retake_blocked_ps
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

/* --- memory --- */

/* A head: the slot that is next, and how often the owner has taken back, or put in front. */
#define TAKEN_BACK 16
#define POS(head) ((head) % TAKEN_BACK)

#define HEAD 0
#define TAIL 1
#if defined(NEXT)
#define RUNNEXT 2
#define SYNCS 3
#elif defined(CHAIN)
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
#ifdef CHAIN
#define SLOTS2 (SYNCS + SIZE)
#define SLOT2(i) AT(SLOTS2, i)
#define MADE (SYNCS + 2 * SIZE)
#else
#define MADE (SYNCS + SIZE) /* the newest green thread that is initialised */
#endif
#define LOCS (MADE + 1)
#ifdef ALONE
#define DEPTH (2 * GREENS + 2) /* a plain store takes two places */
#elif defined(NEXT)
#define DEPTH (2 * GREENS + 3)
#elif defined(BACK) || defined(FRONT)
#define DEPTH (3 * GREENS + 3)
#else
#define DEPTH (GREENS + 3 + OPS)
#endif
#include "c11.inc"

bool ran[GREENS + 1]; /* they are numbered from 1 on */
byte made; /* how many there have been */
byte global[GREENS], nglobal;
byte ended;

inline run_green(g)
{
	d_step {
		assert(g != 0 && !ran[g] && KNOWS(me, MADE) >= g);
		ran[g] = true
	}
}

/* --- the owner --- */

#define MINE(l) VALUE(l, newest[l])

#ifdef EMPTY
bool bare; /* there was nothing in the ring at some time */
#define see() bare = bare || MINE(HEAD) == MINE(TAIL)
#endif

/* Move head past the slots that were read; in won, whether no other thread has. */
inline take_own(n, order)
{
#ifdef ALONE
	load(SHARED, RLX, shared);
	if
	:: !shared -> store_late(HEAD, head + n); won = true
	:: else -> cas(HEAD, head, head + n, order, won)
	fi;
	shared = 0
#elif defined(MUTANT_TAKE_PLAINLY) /* RUNQ-3: a load and a store; a thief takes the same between */
	won = true;
	store(HEAD, order, head + n)
#elif defined(EMPTY)
	atomic { cas(HEAD, head, head + n, order, won); see() }
#else
	cas(HEAD, head, head + n, order, won)
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
			take_own(n, ORDER_OVERFLOW);
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
inline runq_get(g)
{
	load(HEAD, RLX, head);
	do
	:: POS(head) == MINE(TAIL) -> g = 0; break
	:: else ->
		g = MINE(SLOT(head));
		take_own(1, ORDER_OWN_TAKE);
		if
		:: won -> break
		:: else
		fi
	od;
	atomic { head = 0; won = false }
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

/* sched_submit */
inline submit(g)
{
	g++;
	touch(MADE);
#ifdef NEXT
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
#else
	runq_get(g)
#endif
}

#ifndef EMPTY
proctype Owner(byte me)
{
	byte ts, head, tail, n, batch[2], g;
	bool won;
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
#ifdef CHAIN
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
#elif defined(CHAIN)
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

#ifndef EMPTY
proctype Thief(byte me)
{
	byte ts, head, tail, n, copy[2], tries;
	bool won;

	do
	:: tries == TRIES -> break
	:: else ->
		steal();
		if
		:: n > 0 -> run_green(copy[0])
		:: else
		fi;
		if
#ifdef CHAIN
		:: n > 1 && me == 1 ->
			store(TAIL2, ORDER_STOLEN, MINE(TAIL2) + 1);
			/* its own runq_get */
			load(HEAD2, RLX, head);
			do
			:: head == MINE(TAIL2) -> break
			:: else ->
				copy[0] = MINE(SLOT2(head));
				cas(HEAD2, head, head + 1, REL, won);
				if
				:: won -> run_green(copy[0]); break
				:: else
				fi
			od;
			won = false;
			head = 0
		:: n > 1 && me != 1 -> run_green(copy[1])
#else
		:: n > 1 -> run_green(copy[1])
#endif
		:: else
		fi;
		atomic { n = 0; copy[0] = 0; copy[1] = 0; tries++ }
	od;
	ended++
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
			tail = MINE(TAIL);
			atomic { cas(HEAD, head, tail, ORDER_TAKE_ALL, won); see() };
			atomic { head = 0; tail = 0; won = false }
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

init
{
	byte k;

	atomic {
#ifdef FRONT /* so that there are slots in front */
		VALUE(HEAD, 0) = SIZE;
		VALUE(TAIL, 0) = SIZE;
#endif
#ifdef CHAIN
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
#ifdef MUTANT_SLOT_FIRST
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
