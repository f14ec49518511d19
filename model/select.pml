/* SPDX-License-Identifier: MIT */
/*
 * Model of select: a select over two channels has exactly one winner, and leaves no sudog, timer or
 * claim behind.
 *
 * Processes
 *   S        a select that receives from both channels, with a deadline; then, with the same
 *            waiter, a plain receive from channel 1 alone, without a deadline
 *   T        a select that sends on both channels, its cases in the other order
 *   R        a plain send on channel 0
 *   G0       for each of these the stack g0 of the M that it parked on: arms, then unlocks; it runs
 *            concurrently with its G, which may be resumed elsewhere at once
 *   Timer    the deadline of S
 *   Closer   closes both channels, in either order; so every wait ends
 *   Canceller (with -DCANCEL, in place of Timer, Closer and R) cancels S and T
 *
 * Properties
 *   one winner, no waiter woken twice  PARK-2: assertion in make_ready
 *   an element moves if and only if the result says so: none lost, none doubled
 *                                      PARK-2: assertions in deliver, check_received, init
 *   nothing of a wait is left          PARK-3: assertions in no_trace, and `live` in G0 (SELECT-3)
 *   no deadlock; a claimed wait ends   every end state is valid (the checker's own question)
 *   queues as chan.h has them          CHAN-2: assertions in send_now, recv_now; empty at the end:
 *                                      init
 *
 * Step granularity: everything that another process can observe in between.  Reads and changes of a
 * queue are one step: they are under the channel lock.  `queued` of a sudog is read without the
 * lock, so that is a step of its own.  Memory is sequentially consistent, except the one store that
 * a fence is about: WAITER_ARMED goes through a store buffer (`sb`), which a locked instruction of
 * the same thread, a later unlock or the heavy fence of the canceller drains, or it drains by
 * itself (Drain).
 *
 * Left out: a channel in several cases (HAS_DUPLICATES), external threads, unlocked reads of try
 * calls, ticks.
 *
 * Models:
 *   src/select.c: select_run lock_all unlock_all run_ready_case select_wait select_unlink_all
 *   src/select.c: select_unwait
 *   src/chan.c: chan_claim_first waitq_dequeue try_send_locked try_recv_locked chan_unlink
 *   src/chan.c: chan_unwait gmp_chan_close
 *   src/park.c: park_g0 cancel_wait ready
 *   src/waiter.h: waiter_claim
 *   src/timer/timerheap.c: timer_del timers_run
 *   src/spawn.c: cancel_g
 *   src/sched.c: end_wait_g0
 *   ORD: waiter.claim cancel sudog.queued
 *   without: chan.closed (of unlocked reads, which are left out)
 *
 * Runs: the searches of scripts/model
 *   holds      -DBUF=0
 *   holds      -DBUF=1
 *   holds      -DBUF=0 -DCANCEL
 *   holds      -DBUF=1 -DCANCEL
 *   assertion  -DBUF=0 -DMUTANT_SPLIT_CLAIM
 *   assertion  -DBUF=0 -DMUTANT_LATE_CLAIM
 *   assertion  -DBUF=0 -DMUTANT_NO_LEAVE
 *   assertion  -DBUF=0 -DMUTANT_LIVE_LIST
 *   assertion  -DBUF=0 -DMUTANT_TIMER_LEFT
 *   assertion  -DBUF=1 -DMUTANT_OLDEST_LAST
 *   deadlock   -DBUF=0 -DMUTANT_LOCK_ORDER
 *   deadlock   -DBUF=0 -DCANCEL -DMUTANT_CANCEL_ONCE
 */
#define NONE 255

/* the waiters: each has a struct waiter and two sudogs */
#define S 0
#define T 1
#define R 2
#define WAITERS 3
#define SG(id, c) ((id) * 2 + (c))
#define OWNER(sg) ((sg) / 2)

/* enum waiter_state (src/waiter_state.h) */
#define IDLE 0
#define ARMED 1
#define CLAIMED 2
#define BUSY 3
/* results */
#define OK 0
#define EPIPE 1
#define ETIMEDOUT 2
#define ECANCELED 3
#define MUST_WAIT 4

/* gmp_dir, and the queue of the waiters with such a case */
#define RECV 0
#define SEND 1
#define QUEUE(dir, c) queue[(dir) * 2 + (c)]

/* struct waiter */
byte state[WAITERS], result[WAITERS];
bool woken[WAITERS]; /* it is in a run queue (sched_submit) */
/* struct g */
bool cancelled[WAITERS], timed[WAITERS];
/* struct sudog; elem: what it sends, or what has been put where it receives */
bool queued[6], chosen[6];
byte elem[6];
/* struct gmp_chan: buf holds one element at most */
bool locked[2], closed[2];
byte count[2], buf[2];
chan queue[4] = [WAITERS] of { byte }; /* recvq of both, sendq of both */
/* from a parking G to its g0 */
bool parked[WAITERS]; /* it is off its stack: g0 continues */
bool sb[WAITERS];     /* WAITER_ARMED is in the store buffer of that M */
byte ncases[WAITERS]; /* 2: commit is unlock_all; 1: chan_commit */
byte chan_of[WAITERS];
bool live[WAITERS];   /* the frame of select is there: struct selection and its sudogs */
/* timerheap.c: the heap lock, and whether the timer of S is in it */
bool heap_locked, armed;

/* the accounts; elements are 1 (T's) and 2 (R's) */
byte sent[3], received[3];
byte ended;

inline take_lock(c)
{
	atomic { !locked[c] -> locked[c] = true }
}

inline drop_lock(c)
{
	locked[c] = false
}

/* --- src/waiter.h:waiter_claim --- */

inline claim(id, how, won)
{
#ifdef MUTANT_SPLIT_CLAIM /* ORD(waiter.claim): a load and a store: two wakers may win */
	atomic { state[id] != BUSY -> won = (state[id] == ARMED) };
	if
	:: won -> atomic { state[id] = CLAIMED; result[id] = how }
	:: else
	fi
#else
	atomic {
		state[id] != BUSY ->
		if
		:: state[id] == ARMED -> state[id] = CLAIMED; result[id] = how; won = true
		:: else -> won = false
		fi
	}
#endif
}

/* src/park.c:ready */
inline make_ready(id)
{
	atomic {
		assert(state[id] == CLAIMED && !woken[id]);
		woken[id] = true
	}
}

/* src/park.c:cancel_wait */
inline cancel_wait(id, cut)
{
	atomic {
		state[id] != BUSY ->
		if
		:: state[id] == ARMED -> state[id] = BUSY; cut = true
		:: else -> cut = false
		fi
	}
	if
	:: cut ->
		cut = cancelled[id];
		atomic {
			if
			:: cut -> state[id] = CLAIMED; result[id] = ECANCELED
			:: else -> state[id] = ARMED
			fi
		}
	:: else
	fi
}

/* --- src/chan.c, under the channel's lock --- */

inline enqueue(dir, c, sg)
{
	atomic {
		chosen[sg] = false;
		QUEUE(dir, c)!sg;
		queued[sg] = true
	}
}

inline dequeue(dir, c, sg)
{
	atomic {
		assert(queued[sg] && QUEUE(dir, c)??[eval(sg)]);
		QUEUE(dir, c)??eval(sg);
		queued[sg] = false
	}
}

/* claim_first; sg is NONE if no waiter is queued */
inline claim_first(dir, c, how)
{
	do
	:: atomic { empty(QUEUE(dir, c)) -> sg = NONE }; break
	:: atomic { nempty(QUEUE(dir, c)) -> QUEUE(dir, c)?<sg> };
#ifdef MUTANT_LATE_CLAIM /* ORD(sudog.queued), PARK-5: the claim may hit the next wait */
		dequeue(dir, c, sg);
		claim(OWNER(sg), how, won);
#else
		claim(OWNER(sg), how, won);
		dequeue(dir, c, sg);
#endif
		if
		:: won -> chosen[sg] = true; break
		:: else
		fi
	od
}

/* An element arrives where `to` receives. */
inline deliver(to, e)
{
	atomic {
		assert(live[OWNER(to)] && elem[to] == 0);
		elem[to] = e
	}
}

/* send_now and recv_now: what, and in sg the peer */
inline send_now(me, c)
{
	if
	:: closed[c] -> what = EPIPE; sg = NONE
	:: else ->
		claim_first(RECV, c, OK);
		if
		:: sg != NONE ->
			atomic { assert(count[c] == 0); deliver(sg, elem[SG(me, c)]); what = OK }
		:: sg == NONE && count[c] < BUF ->
			atomic { buf[c] = elem[SG(me, c)]; count[c] = 1; what = OK }
		:: else -> what = MUST_WAIT
		fi
	fi
}

inline recv_now(me, c)
{
	claim_first(SEND, c, OK);
	if
	:: sg != NONE ->
		atomic {
			assert(count[c] == BUF);
			if
			:: BUF == 0 -> deliver(SG(me, c), elem[sg])
			:: else ->
#ifdef MUTANT_OLDEST_LAST /* the sender's element in place of the buffer's: that one is lost */
				deliver(SG(me, c), elem[sg]);
#else
				deliver(SG(me, c), buf[c]);
#endif
				buf[c] = elem[sg]
			fi;
			what = OK
		}
	:: sg == NONE && count[c] > 0 ->
		atomic { deliver(SG(me, c), buf[c]); count[c] = 0; buf[c] = 0; what = OK }
	:: sg == NONE && count[c] == 0 && closed[c] -> what = EPIPE
	:: else -> what = MUST_WAIT
	fi
}

inline now(dir, me, c)
{
	if
	:: dir == SEND -> send_now(me, c)
	:: else -> recv_now(me, c)
	fi
}

/* chan_unlink */
inline leave(dir, me, c)
{
	if
	:: queued[SG(me, c)] ->
		take_lock(c);
		if
		:: queued[SG(me, c)] -> dequeue(dir, c, SG(me, c))
		:: else
		fi;
		drop_lock(c)
	:: else
	fi
}

/* --- the wait: src/park.h, steps 3 to 10 --- */

/* Off the stack, and back on it (execute_g0, end_wait_g0 of src/sched.c). */
inline park(me)
{
	parked[me] = true;
	atomic { woken[me] -> woken[me] = false; what = result[me] };
	if
	:: timed[me] ->
		/* timer_del */
#ifndef MUTANT_TIMER_LEFT /* the timer of a granted wait stays armed for the next wait */
		atomic { !heap_locked -> armed = false };
#endif
		timed[me] = false
	:: else
	fi
}

/* When unwait has run, in end_wait_g0, the waiter is idle. */
inline back(me)
{
	atomic { state[me] = IDLE; result[me] = OK }
}

inline empty_buffer(id)
{
	atomic {
		if
		:: sb[id] -> sb[id] = false; state[id] = ARMED
		:: else
		fi
	}
}

/* park_g0: steps 4 to 7 */
proctype G0(byte id)
{
	bool cut, list;
	byte c, n;
end:	do
	:: atomic { parked[id] -> parked[id] = false; cut = false };
		if
		:: timed[id] ->
			state[id] = BUSY;
			atomic { !heap_locked -> armed = true }
		:: else
		fi;
		sb[id] = true; /* WAITER_ARMED; the light fence is no instruction */
		if
		:: cancelled[id] ->
			empty_buffer(id); /* by the compare-and-swap */
			cancel_wait(id, cut)
		:: else
		fi;
		empty_buffer(id);
		/* unlock_all: it reads the frame of the select */
		atomic { n = ncases[id]; c = chan_of[id]; list = (n == 2) };
		do
		:: n == 0 -> break
		:: n > 0 ->
			atomic {
				assert(!list || live[id]);
				n--;
				if
				:: list -> c = n
				:: else
				fi
			};
			drop_lock(c)
#ifdef MUTANT_LIVE_LIST /* the loop reads sel->nlocks after each unlock, also the last one */
			;
			assert(!list || live[id])
#endif
		od;
		if
		:: cut -> make_ready(id)
		:: else
		fi
	od
}

/* The store buffers drain. */
active proctype Drain()
{
end:	do
	:: atomic { sb[S] -> sb[S] = false; state[S] = ARMED }
	:: atomic { sb[T] -> sb[T] = false; state[T] = ARMED }
	:: atomic { sb[R] -> sb[R] = false; state[R] = ARMED }
	od
}

inline no_trace(me)
{
	atomic {
		assert(!queued[SG(me, 0)] && !queued[SG(me, 1)]);
		assert(state[me] == IDLE && !woken[me]);
		assert(me != S || !armed);
		live[me] = false
	}
}

/* --- src/select.c:select_run, of two cases --- */

/* In what: OK, EPIPE or the error of the wait; in at: the case that ran, or NONE. */
inline select_both(me, dir)
{
	live[me] = true;
	/* lock_all */
#ifdef MUTANT_LOCK_ORDER /* each in the order of its cases, which T has reversed */
	take_lock((me == T));
	take_lock((me != T));
#else
	take_lock(0);
	take_lock(1);
#endif
	/* run_ready_case: any case that is ready; a peer that cannot be claimed is unlinked */
	atomic { tried[0] = false; tried[1] = false; at = NONE; what = MUST_WAIT };
	do
	:: what == MUST_WAIT && !tried[0] -> tried[0] = true; at = 0; now(dir, me, 0)
	:: what == MUST_WAIT && !tried[1] -> tried[1] = true; at = 1; now(dir, me, 1)
	:: what == MUST_WAIT && tried[0] && tried[1] -> at = NONE; break
	:: what != MUST_WAIT -> break
	od;
	if
	:: what != MUST_WAIT ->
		drop_lock(1);
		drop_lock(0);
		if
		:: sg != NONE -> make_ready(OWNER(sg))
		:: else
		fi
	:: else ->
		/* select_wait */
		enqueue(dir, 0, SG(me, 0));
		enqueue(dir, 1, SG(me, 1));
		ncases[me] = 2;
		park(me);
#ifdef MUTANT_NO_LEAVE /* SELECT-2: a matched select leaves its other sudog queued */
		if
		:: what != OK -> leave(dir, me, 0); leave(dir, me, 1)
		:: else
		fi;
#else
		leave(dir, me, 0); /* after an error on g0, by select_unwait; otherwise by itself */
		leave(dir, me, 1);
#endif
		back(me);
		atomic {
			at = (chosen[SG(me, 0)] -> 0 : (chosen[SG(me, 1)] -> 1 : NONE));
			assert(!(chosen[SG(me, 0)] && chosen[SG(me, 1)]));
			/* SELECT-1: chosen if and only if it was a peer */
			assert((at != NONE) == (what == OK || what == EPIPE))
		}
	fi;
	no_trace(me)
}

/* src/chan.c: a plain call */
inline call_one(me, c, dir)
{
	live[me] = true;
	take_lock(c);
	now(dir, me, c);
	if
	:: what != MUST_WAIT ->
		drop_lock(c);
		if
		:: sg != NONE -> make_ready(OWNER(sg))
		:: else
		fi
	:: else ->
		enqueue(dir, c, SG(me, c));
		atomic { ncases[me] = 1; chan_of[me] = c };
		park(me);
		if
		:: what != OK -> leave(dir, me, c) /* chan_unwait */
		:: else
		fi;
		back(me)
	fi;
	no_trace(me)
}

/* --- the parts --- */

/* An element came if and only if the result says so, and where it says. */
inline check_received(c)
{
	if
	:: what == OK -> assert(elem[SG(S, c)] != 0); received[elem[SG(S, c)]]++
	:: else -> assert(elem[SG(S, c)] == 0)
	fi;
	elem[SG(S, c)] = 0
}

proctype Receiver()
{
	byte what, at, sg;
	bool won, tried[2];

#ifndef CANCEL
	timed[S] = true;
#endif
	select_both(S, RECV);
	atomic {
		timed[S] = false;
		if
		:: at == NONE -> at = 0; assert(what == ETIMEDOUT || what == ECANCELED)
		:: else
		fi;
		assert(elem[SG(S, 1 - at)] == 0);
		check_received(at)
	};
	call_one(S, 1, RECV);
	atomic {
		assert(what != ETIMEDOUT);
		check_received(1);
		ended++
	}
}

proctype Sender()
{
	byte what, at, sg;
	bool won, tried[2];

	atomic { elem[SG(T, 0)] = 1; elem[SG(T, 1)] = 1 };
	select_both(T, SEND);
	atomic {
		sent[1] = (what == OK -> 1 : 0);
		ended++
	}
}

proctype Plain()
{
	byte what, sg;
	bool won;

	elem[SG(R, 0)] = 2;
	call_one(R, 0, SEND);
	atomic {
		sent[2] = (what == OK -> 1 : 0);
		ended++
	}
}

/* src/timer/timerheap.c:timers_run with wait_timed_out; then sched_submit_list */
proctype Timer()
{
	bool won;
end:	do
	:: atomic { armed && !heap_locked -> heap_locked = true };
		claim(S, ETIMEDOUT, won);
		atomic { armed = false; heap_locked = false };
		if
		:: won -> make_ready(S)
		:: else
		fi
	od
}

/* gmp_chan_close; the list of the waiters that became ready is a set */
inline close_one(c)
{
	take_lock(c);
	closed[c] = true;
	do
	:: claim_first(RECV, c, EPIPE);
		if
		:: sg == NONE -> break
		:: else -> out[OWNER(sg)] = true
		fi
	od;
	do
	:: claim_first(SEND, c, EPIPE);
		if
		:: sg == NONE -> break
		:: else -> out[OWNER(sg)] = true
		fi
	od;
	drop_lock(c);
	do
	:: out[S] -> out[S] = false; make_ready(S)
	:: out[T] -> out[T] = false; make_ready(T)
	:: out[R] -> out[R] = false; make_ready(R)
	:: else -> break
	od
}

proctype Closer()
{
	byte sg, first;
	bool won, out[WAITERS];

	if
	:: first = 0
	:: first = 1
	fi;
	close_one(first);
	close_one((1 - first));
	ended++
}

/* src/spawn.c:cancel_g */
inline cancel(id)
{
	cancelled[id] = true;
	cancel_wait(id, cut);
#ifndef MUTANT_CANCEL_ONCE /* ORD(cancel): a waiter whose arming is still buffered is missed */
	if
	:: !cut ->
		/* the heavy fence */
		atomic { empty_buffer(S); empty_buffer(T); empty_buffer(R) };
		cancel_wait(id, cut)
	:: else
	fi;
#endif
	if
	:: cut -> make_ready(id)
	:: else
	fi
}

proctype Canceller()
{
	bool cut;

	if
	:: cancel(S); cancel(T)
	:: cancel(T); cancel(S)
	fi;
	ended++
}

#ifdef CANCEL
#define PARTS 3
#else
#define PARTS 4
#endif

/* At the end: the accounts. */
init {
	atomic {
		run Receiver();
		run Sender();
		run G0(S);
		run G0(T);
#ifdef CANCEL
		run Canceller()
#else
		run G0(R);
		run Plain();
		run Timer();
		run Closer()
#endif
	};
	ended == PARTS;
	atomic {
		byte e = 1;
		do
		:: e <= 2 ->
			/* received, or in a buffer still */
			assert(sent[e] == received[e] + (count[0] > 0 && buf[0] == e) +
					  (count[1] > 0 && buf[1] == e));
			e++
		:: else -> break
		od;
		assert(empty(queue[0]) && empty(queue[1]) && empty(queue[2]) && empty(queue[3]));
		assert(!locked[0] && !locked[1] && !armed)
	}
}
