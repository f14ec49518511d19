/* SPDX-License-Identifier: MIT */
/*
 * Model of the pairs that need a total order: two threads each write a word and then read the
 * word of the other, and at least one of them sees what the other has written.
 *
 * Processes
 *   One      writes A, then reads B
 *   Two      writes B, then reads A
 *   Enter    counts itself in, reads whether the end has begun, uses memory, counts itself out
 *   End      begins the end, waits until no thread is counted, frees the memory
 *
 * The runs of One and Two, by the tag
 *   IGNORES       a thread that begins to wait for an fd; the M that sleeps where none reaches it
 *   CHILD         a child of a group that begins; a canceller
 *   EXPIRE        a caller that starts a child of a group; the deadline
 *   ARM           a thread that arms a timer; the M that announces how long it sleeps
 *   RELEASE       an M that releases its P; the M in the poller that has no idle P
 *   WORK          an M that gets a P; sysmon, which goes to sleep
 *   DELEGATED     a signal handler that delegates work to sysmon; sysmon
 *   STOP          the end of a run, which stops sysmon; sysmon
 *   SLEEP         an M that sleeps in epoll; a waker, and a poll that takes its event
 *   REST          an M that sleeps on the word; a waker; with the writes of the wakers
 *   SUBMIT        a thread that enqueues a G; an M that goes idle; with FULL without membarrier
 *   SPIN          a thread that enqueues a G; an M that stops spinning with another G
 *   QUEUED        a thread without a P that enqueues a G globally; the same M
 *   ASKED         a thread that enqueues a G globally; a P that was asked to check before
 *   CANCEL        a G that parks; a canceller; without membarrier
 *   UNCONTENDED   the owner of a mutex, which unlocks by a plain store; the first waiter
 * and of Enter and End
 *   EXTERNAL      a call of an external thread; the end of a run, and the next run
 *   NOTIFY        the handler of a subscribed signal; the end of the last subscription
 *   SAMPLING      the handler of SIGPROF; the end of a CPU profile
 *   USE           a system call on an fd; close, and the next file with the number
 *
 * Properties
 *   at least one sees the other                                assertions in check
 *   no waiter sleeps on after its wakeup                       every end state is valid
 *   memory is not used after it is freed, or before it is initialised   assertions in mine
 *
 * Memory is that of c11.inc with TOTAL: a `seq` access takes part in the total order, but is no
 * fence for accesses of other orders, as with a pair of load-exclusive and store-exclusive.  The
 * kernel's epoll and futex pass on the view of their callers.
 *
 * Left out: what each side does after it has seen the other (wake.pml, poller.pml, mutex.pml,
 * park.pml, netpoll.pml).
 *
 * Models:
 *   src/netpoll/netpoll.c: netpoll_rest netpoll_add_waiter
 *   src/netpoll/record.h: netpoll_use netpoll_unuse netpoll_used
 *   src/netpoll/register.c: netpoll_open netpoll_shut netpoll_forget
 *   src/service/group.c: child_main cancel_locked cancel_chunk group_begin expire_locked
 *   src/service/group.c: has_children
 *   src/timer/timerheap.c: timer_arm timers_move
 *   src/idle.c: poll_time sleep_in_poller notify_poller wake_sysmon releasep stopm
 *   src/monitor/sysmon.c: sysmon_sleep sysmon_stop
 *   src/observe/dump/dump_signal.c: delegate_sig
 *   src/netpoll_epoll.c: ep_wait ep_rest ep_wake
 *   src/ready.h: wake_if_idle stop_spinning
 *   src/ready.c: wake_for_queued sched_ask_one
 *   src/sched.c: execute_found_g0 due_or_global
 *   src/variant/thread.c: variant_arm variant_cancel_wait
 *   src/wait/mutex_unlock.c: gmp_mutex_unlock
 *   src/wait/parkinglot.c: lot_mark_contended
 *   src/enter.h: rt_enter rt_leave
 *   src/idle.c: sched_stop
 *   src/run/run.c: run_main claim_runtime
 *   src/sys/notify.c: on_notify_signal close_pipe
 *   src/observe/cpusample.c: on_sigprof cpusample_stop cpusample_begin
 *   ORD: ignores_fds group.cancel group.expire poll.until sysmon poller.waking idle check cancel
 *   ORD: uncontended external run notify sample.on pd.use
 *
 * Runs: the searches of scripts/model
 *   holds      -DIGNORES
 *   holds      -DCHILD
 *   holds      -DEXPIRE
 *   holds      -DARM
 *   holds      -DRELEASE
 *   holds      -DLONG
 *   holds      -DWORK
 *   holds      -DDELEGATED
 *   holds      -DSTOP
 *   holds      -DSLEEP
 *   holds      -DREST
 *   holds      -DSUBMIT
 *   holds      -DSUBMIT -DFULL
 *   holds      -DSPIN
 *   holds      -DQUEUED
 *   holds      -DASKED
 *   holds      -DCANCEL
 *   holds      -DUNCONTENDED
 *   holds      -DEXTERNAL
 *   holds      -DNOTIFY
 *   holds      -DSAMPLING
 *   holds      -DUSE
 *   assertion  -DIGNORES -DMUTANT_COUNT
 *   assertion  -DIGNORES -DMUTANT_IGNORES_SEEN
 *   assertion  -DIGNORES -DMUTANT_IGNORES
 *   assertion  -DIGNORES -DMUTANT_COUNT_SEEN
 *   assertion  -DCHILD -DMUTANT_GREEN
 *   assertion  -DCHILD -DMUTANT_CANCELLED_SEEN
 *   assertion  -DCHILD -DMUTANT_CANCELLED
 *   assertion  -DCHILD -DMUTANT_GREEN_SEEN
 *   assertion  -DEXPIRE -DMUTANT_PLACE
 *   assertion  -DEXPIRE -DMUTANT_EXPIRED_SEEN
 *   assertion  -DEXPIRE -DMUTANT_EXPIRED
 *   assertion  -DEXPIRE -DMUTANT_PLACE_SEEN
 *   assertion  -DARM -DMUTANT_ARM_FENCE
 *   assertion  -DARM -DMUTANT_TIME_FENCE
 *   assertion  -DRELEASE -DMUTANT_RELEASED
 *   assertion  -DRELEASE -DMUTANT_NEVER
 *   assertion  -DLONG -DMUTANT_LONG_FENCE
 *   assertion  -DLONG -DMUTANT_STATUS_FENCE
 *   assertion  -DWORK -DMUTANT_WORK_FENCE
 *   assertion  -DWORK -DMUTANT_ASLEEP_FENCE
 *   assertion  -DDELEGATED -DMUTANT_DELEGATED
 *   assertion  -DDELEGATED -DMUTANT_ASLEEP_SEEN
 *   assertion  -DDELEGATED -DMUTANT_ASLEEP
 *   assertion  -DSUBMIT -DMUTANT_LIGHT_FENCE
 *   assertion  -DSUBMIT -DFULL -DMUTANT_SUBMIT_FENCE
 *   assertion  -DSUBMIT -DMUTANT_HEAVY_FENCE
 *   assertion  -DSPIN -DMUTANT_FULL_FENCE
 *   assertion  -DSPIN -DMUTANT_SPIN_FENCE
 *   assertion  -DQUEUED -DMUTANT_QUEUED_FENCE
 *   assertion  -DASKED -DMUTANT_ASK_FENCE
 *   assertion  -DASKED -DMUTANT_ASKED_FENCE
 *   assertion  -DCANCEL -DMUTANT_PARK_FENCE
 *   assertion  -DCANCEL -DMUTANT_CANCEL_FENCE
 *   deadlock   -DSTOP -DMUTANT_STOP
 *   deadlock   -DSTOP -DMUTANT_STOP_FENCE
 *   deadlock   -DSLEEP -DMUTANT_SLEEPING
 *   deadlock   -DSLEEP -DMUTANT_WAKING_SEEN
 *   deadlock   -DSLEEP -DMUTANT_WAKING
 *   deadlock   -DSLEEP -DMUTANT_SLEEPING_SEEN
 *   deadlock   -DREST -DMUTANT_RESTING
 *   assertion  -DREST -DMUTANT_CLEARED
 *   assertion  -DREST -DMUTANT_ABSORBED
 *   deadlock   -DREST -DMUTANT_RESTING_SEEN
 *   deadlock   -DUNCONTENDED -DMUTANT_UNLOCK_FENCE
 *   deadlock   -DUNCONTENDED -DMUTANT_MARK_FENCE
 *   assertion  -DEXTERNAL -DMUTANT_ENTER
 *   assertion  -DEXTERNAL -DMUTANT_STATE_SEEN
 *   assertion  -DEXTERNAL -DMUTANT_LEAVE
 *   assertion  -DEXTERNAL -DMUTANT_RUN_ON
 *   assertion  -DEXTERNAL -DMUTANT_STOPPING
 *   assertion  -DEXTERNAL -DMUTANT_EXTERNAL_SEEN
 *   assertion  -DEXTERNAL -DMUTANT_RUN_NONE
 *   assertion  -DEXTERNAL -DMUTANT_CLAIM
 *   assertion  -DNOTIFY -DMUTANT_INSIDE
 *   assertion  -DNOTIFY -DMUTANT_FD_SEEN
 *   assertion  -DNOTIFY -DMUTANT_OUTSIDE
 *   assertion  -DNOTIFY -DMUTANT_FD
 *   assertion  -DNOTIFY -DMUTANT_NO_FD
 *   assertion  -DNOTIFY -DMUTANT_INSIDE_SEEN
 *   assertion  -DSAMPLING -DMUTANT_HANDLER
 *   assertion  -DSAMPLING -DMUTANT_ON_SEEN
 *   assertion  -DSAMPLING -DMUTANT_HANDLED
 *   assertion  -DSAMPLING -DMUTANT_ON
 *   assertion  -DSAMPLING -DMUTANT_OFF
 *   assertion  -DSAMPLING -DMUTANT_HANDLER_SEEN
 *   assertion  -DUSE -DMUTANT_FIND
 *   assertion  -DUSE -DMUTANT_UNUSE
 *   assertion  -DUSE -DMUTANT_OPEN
 *   assertion  -DUSE -DMUTANT_USED
 *   assertion  -DUSE -DMUTANT_FORGET
 *   assertion  -DUSE -DMUTANT_BEFORE
 *   assertion  -DSUBMIT -DFULL -DMUTANT_HEAVY_FENCE
 */
#define A 0
#define B 1
#define C 2
#define SYNCS 3
#define DATA 3
#define OTHER 4
#define LOCS 5
#define DEPTH 10
#define THREADS 3
#define TOTAL
#include "c11.inc"
#define NOW(l) VALUE(l, newest[l])

/* The caller reads and writes the memory that is guarded. */
inline mine()
{
	d_step { assert(KNOWN(DATA)); newest[DATA]++; KNOWS(me, DATA) = newest[DATA] }
}

byte seen[2], sides;

/* Neither side has seen the other: it has read 0. */
inline check(side, saw)
{
	d_step { seen[side] = saw; sides++; assert(sides < 2 || seen[0] || seen[1]) }
}

/* A full fence of all threads; in a run with FULL, of the caller. */
inline heavy_fence(order)
{
#ifdef FULL
	fence(order)
#else
	if
	:: (order) == SEQ -> meet_all()
	:: else
	fi
#endif
}

/* --- two words: inline one() and two() of each run --- */

#ifdef IGNORES
inline one()
{
	exchange(A, 1, WEAK(MUTANT_COUNT, SEQ, ACQREL), v); /* ORD(ignores_fds): no event for it */
	load(B, WEAK(MUTANT_IGNORES_SEEN, SEQ, ACQ), v) /* ORD(ignores_fds): the same */
}
inline two()
{
	store(B, WEAK(MUTANT_IGNORES, SEQ, REL), 1); /* ORD(ignores_fds): the same */
	load(A, WEAK(MUTANT_COUNT_SEEN, SEQ, ACQ), v) /* ORD(ignores_fds): the same */
}
#endif

#ifdef CHILD
inline one()
{
	store(A, WEAK(MUTANT_GREEN, SEQ, REL), 1); /* ORD(group.cancel): it is not cancelled */
	load(B, WEAK(MUTANT_CANCELLED_SEEN, SEQ, ACQ), v) /* ORD(group.cancel): the same */
}
inline two()
{
	store(B, WEAK(MUTANT_CANCELLED, SEQ, REL), 1); /* ORD(group.cancel): the same */
	exchange(C, 1, SEQ, v); /* the word of the chunk, which the child has changed before */
	load(A, WEAK(MUTANT_GREEN_SEEN, SEQ, ACQ), v) /* ORD(group.cancel): the same */
}
#endif

#ifdef EXPIRE
inline one()
{
	exchange(A, 1, WEAK(MUTANT_PLACE, SEQ, ACQREL), v); /* ORD(group.expire): the result is 0 */
	load(B, WEAK(MUTANT_EXPIRED_SEEN, SEQ, ACQ), v) /* ORD(group.expire): the same */
}
inline two()
{
	store(B, WEAK(MUTANT_EXPIRED, SEQ, REL), 1); /* ORD(group.expire): the same */
	load(A, WEAK(MUTANT_PLACE_SEEN, SEQ, ACQ), v) /* ORD(group.expire): the same */
}
#endif

#ifdef ARM
inline one()
{
	store(A, RLX, 1); /* the heap's earliest time */
	fence(UNLESS(MUTANT_ARM_FENCE, SEQ)); /* ORD(poll.until): the M sleeps for too long */
	load(B, RLX, v)
}
inline two()
{
	store(B, SEQ, 1);
	fence(UNLESS(MUTANT_TIME_FENCE, SEQ)); /* ORD(poll.until): the same */
	load(A, RLX, v)
}
#endif

#ifdef RELEASE
inline one()
{
	store(A, WEAK(MUTANT_RELEASED, SEQ, REL), 1); /* ORD(poll.until): no M has the timers */
	/* idle_fence, then notify_poller */
	fence(UNLESS(MUTANT_RELEASED, SEQ));
	load(B, SEQ, v)
}
inline two()
{
	store(B, RLX, 1);
	fence(UNLESS(MUTANT_NEVER, SEQ)); /* ORD(poll.until): the same */
	load(A, RLX, v)
}
#endif

#ifdef LONG
inline one()
{
	store(A, REL, 1); /* the P is P_LONG */
	fence(UNLESS(MUTANT_LONG_FENCE, SEQ)); /* ORD(poll.until): no M has its timers */
	load(B, RLX, v)
}
inline two()
{
	store(B, RLX, 1); /* NEVER */
	fence(UNLESS(MUTANT_STATUS_FENCE, SEQ)); /* ORD(poll.until): the same */
	load(A, RLX, v)
}
#endif

#ifdef WORK
inline one()
{
	store(A, RLX, 1); /* the P runs */
	fence(UNLESS(MUTANT_WORK_FENCE, SEQ)); /* ORD(sysmon): no thread preempts its G */
	load(B, RLX, v)
}
inline two()
{
	store(B, SEQ, 1);
	fence(UNLESS(MUTANT_ASLEEP_FENCE, SEQ)); /* ORD(sysmon): the same */
	load(A, RLX, v)
}
#endif

#ifdef DELEGATED
inline one()
{
	store(A, WEAK(MUTANT_DELEGATED, SEQ, REL), 1); /* ORD(sysmon): the dump is late */
	load(B, WEAK(MUTANT_ASLEEP_SEEN, SEQ, ACQ), v) /* ORD(sysmon): the same */
}
inline two()
{
	store(B, WEAK(MUTANT_ASLEEP, SEQ, REL), 1); /* ORD(sysmon): the same */
	fence(UNLESS(MUTANT_ASLEEP, SEQ));
	load(A, RLX, v)
}
#endif

#ifdef SUBMIT
inline one()
{
#ifdef MUTANT_LIGHT_FENCE /* ORD(idle): the compiler moves the read up */
	load(B, RLX, v);
	store(A, REL, 1);
#else
	store(A, REL, 1);
#ifdef FULL
	fence(UNLESS(MUTANT_SUBMIT_FENCE, SEQ)); /* ORD(idle): no M is woken */
#endif
	load(B, RLX, v);
#endif
	skip
}
inline two()
{
	store(B, SEQ, 1);
	heavy_fence(UNLESS(MUTANT_HEAVY_FENCE, SEQ)); /* ORD(idle): it does not see the G */
	load(A, ACQ, v)
}
#endif

#ifdef SPIN
inline one()
{
	store(A, REL, 1);
	fence(UNLESS(MUTANT_FULL_FENCE, SEQ)); /* ORD(idle): no M is woken */
	load(B, RLX, v)
}
inline two()
{
	exchange(B, 1, SEQ, v); /* nmspinning - 1 */
	fence(UNLESS(MUTANT_SPIN_FENCE, SEQ)); /* ORD(idle): it does not see the G */
	load(A, ACQ, v)
}
#endif

#ifdef QUEUED
inline one()
{
	take_lock(0);
	store(A, RLX, 1);
	drop_lock(0);
	fence(UNLESS(MUTANT_QUEUED_FENCE, SEQ)); /* ORD(idle): an unlock is no fence */
	load(B, SEQ, v)
}
inline two()
{
	exchange(B, 1, SEQ, v);
	fence(SEQ);
	load(A, RLX, v)
}
#endif

#ifdef ASKED
inline one()
{
	take_lock(0);
	store(A, RLX, 1);
	drop_lock(0);
	fence(UNLESS(MUTANT_ASK_FENCE, SEQ)); /* ORD(check): it takes the P for asked */
	load(B, RLX, v) /* 0: the bit is still set */
}
inline two()
{
	exchange(B, 1, RLX, v);
	fence(UNLESS(MUTANT_ASKED_FENCE, SEQ)); /* ORD(check): the P finds the queue empty */
	load(A, RLX, v)
}
#endif

#ifdef CANCEL
inline one()
{
	store(A, REL, 1);
	fence(UNLESS(MUTANT_PARK_FENCE, SEQ)); /* ORD(cancel): the cancelled G sleeps on */
	load(B, RLX, v)
}
inline two()
{
	store(B, RLX, 1);
	fence(UNLESS(MUTANT_CANCEL_FENCE, SEQ)); /* ORD(cancel): the same */
	load(A, RLX, v)
}
#endif

#if !defined(STOP) && !defined(SLEEP) && !defined(REST) && !defined(UNCONTENDED) && \
	!defined(EXTERNAL) && !defined(NOTIFY) && !defined(SAMPLING) && !defined(USE)
proctype One(byte me)
{
	byte ts, v;

	one();
	check(0, v)
}

proctype Two(byte me)
{
	byte ts, v;

	two();
	check(1, v)
}

init { atomic { run One(0); run Two(1) } }
#endif

#ifdef STOP
/* A: stop; B: asleep */
proctype Stopper(byte me)
{
	byte ts;

	store(A, WEAK(MUTANT_STOP, SEQ, REL), 1); /* ORD(sysmon): sysmon never ends */
	store_any(B, SEQ, 0) /* and a futex wake */
}

proctype Sysmon(byte me)
{
	byte ts, asleep, stop;

	store_any(B, SEQ, 1);
	fence(UNLESS(MUTANT_STOP_FENCE, SEQ)); /* ORD(sysmon): the same */
	do
	:: load(B, SEQ, asleep);
		if
		:: !asleep -> break
		:: else
		fi;
		load(A, RLX, stop);
		if
		:: stop -> break
		:: else
		fi;
		NOW(B) == 0 /* the futex */
	od
}

init { atomic { run Stopper(0); run Sysmon(1) } }
#endif

/* --- the poller --- */

#ifdef SLEEP
/* A: sleeping; B: waking */
bool armed; /* the eventfd, under lock 0 */

inline arm()
{
	take_lock(0);
	armed = true;
	drop_lock(0)
}

proctype Sleeper(byte me)
{
	byte ts, v;

	store(A, WEAK(MUTANT_SLEEPING, SEQ, REL), 1); /* ORD(poller.waking): a poll disarms it */
	load(B, WEAK(MUTANT_WAKING_SEEN, SEQ, ACQ), v); /* ORD(poller.waking): the same */
	if
	:: v
	:: else -> armed
	fi
}

proctype Waker(byte me)
{
	byte ts, v;

	exchange(B, 1, WEAK(MUTANT_WAKING, SEQ, ACQREL), v); /* ORD(poller.waking): the same */
	arm()
}

proctype Poll(byte me)
{
	byte ts, v;
	bool got;

	take_lock(0);
	atomic { got = armed; armed = false };
	drop_lock(0);
	if
	:: got ->
		load(A, WEAK(MUTANT_SLEEPING_SEEN, SEQ, ACQ), v); /* ORD(poller.waking): the same */
		if
		:: v -> arm()
		:: else
		fi
	:: else
	fi
}

init { atomic { run Sleeper(0); run Waker(1); run Poll(2) } }
#endif

#ifdef REST
/* A: resting; B: waking; the writes of the wakers: DATA, OTHER */
bool woken, came[2];

proctype Sleeper(byte me)
{
	byte ts, v;

	store(A, WEAK(MUTANT_RESTING, SEQ, REL), 1); /* ORD(poller.waking): it is not woken */
	if
	:: atomic { NOW(B) == 0 -> woken = false }; woken /* the futex */
	:: NOW(B) == 1
	fi;
	store(A, SEQ, 0);
	atomic {
		exchange(B, 0, WEAK(MUTANT_CLEARED, SEQ, REL), v); /* ORD(poller.waking): stale */
		assert(!came[0] || KNOWN(DATA));
		assert(!came[1] || KNOWN(OTHER))
	}
}

proctype Waker(byte me; byte at)
{
	byte ts, v;

	touch(DATA + at);
	atomic {
		exchange(B, 1, WEAK(MUTANT_ABSORBED, SEQ, ACQ), v); /* ORD(poller.waking): stale */
		came[at] = true
	};
	if
	:: v
	:: else ->
		load(A, WEAK(MUTANT_RESTING_SEEN, SEQ, ACQ), v); /* ORD(poller.waking): no wakeup */
		if
		:: v -> woken = true
		:: else /* it arms the eventfd */
		fi
	fi
}

init { atomic { run Sleeper(0); run Waker(1, 0); run Waker(2, 1) } }
#endif

/* --- the mutex that is unlocked by a plain store --- */

#ifdef UNCONTENDED
/* A: the word; B: the mark, 1 is contended; the bucket is lock 0 */
#define LOCKED 1
#define PARKED 2
bool queued, woken;

inline wake_first()
{
	take_lock(0);
	atomic { woken = woken || queued; queued = false };
	drop_lock(0)
}

proctype Owner(byte me)
{
	byte ts, v;

	load(B, RLX, v);
	if
	:: v == 0 ->
#ifdef MUTANT_UNLOCK_FENCE /* ORD(uncontended): the compiler moves the re-check up */
		load(B, RLX, v);
		store_late(A, 0);
#else
		store_late(A, 0);
		load(B, RLX, v);
#endif
		if
		:: v -> wake_first()
		:: else
		fi
	:: else ->
		exchange(A, 0, REL, v);
		if
		:: v & PARKED -> wake_first()
		:: else
		fi
	fi
}

proctype Waiter(byte me)
{
	byte ts, s = LOCKED;
	bool won;

	take_lock(0);
	store(B, RLX, 1);
	heavy_fence(UNLESS(MUTANT_MARK_FENCE, SEQ)); /* ORD(uncontended): it sleeps, unlocked */
	cas(A, s, LOCKED | PARKED, RLX, won);
	queued = won;
	drop_lock(0);
	if
	:: won -> woken
	:: else
	fi
}

init { VALUE(A, 0) = LOCKED; atomic { run Owner(0); run Waiter(1) } }
#endif

/* --- memory that is used inside and freed at the end --- */

#ifdef EXTERNAL
#define ENTER WEAK(MUTANT_ENTER, SEQ, ACQREL) /* ORD(external): memory that is unmapped */
#define CHECK WEAK(MUTANT_STATE_SEEN, SEQ, ACQ) /* ORD(external), ORD(run): the same */
#define LEAVE WEAK(MUTANT_LEAVE, SEQ, ACQ) /* ORD(external): it is unmapped while it is used */
#define BEGIN UNLESS(MUTANT_RUN_ON, SEQ) /* ORD(run): memory that is not set up */
#define END WEAK(MUTANT_STOPPING, SEQ, REL) /* ORD(external): memory that is unmapped */
#define WAIT WEAK(MUTANT_EXTERNAL_SEEN, SEQ, ACQ) /* ORD(external): the same */
#define OVER UNLESS(MUTANT_RUN_NONE, SEQ) /* ORD(run): the next run begins in this one's memory */
#define NEXT UNLESS(MUTANT_CLAIM, SEQ) /* ORD(run): the same */
#endif

#ifdef NOTIFY
#define ENTER WEAK(MUTANT_INSIDE, SEQ, ACQREL) /* ORD(notify): it writes to another file */
#define CHECK WEAK(MUTANT_FD_SEEN, SEQ, ACQ) /* ORD(notify): the same */
#define LEAVE WEAK(MUTANT_OUTSIDE, SEQ, ACQ) /* ORD(notify): closed while it is written to */
#define BEGIN UNLESS(MUTANT_FD, SEQ) /* ORD(notify): a pipe that is not there */
#define END WEAK(MUTANT_NO_FD, SEQ, ACQREL) /* ORD(notify): it writes to another file */
#define WAIT WEAK(MUTANT_INSIDE_SEEN, SEQ, ACQ) /* ORD(notify): the same */
#endif

#ifdef SAMPLING
#define ENTER WEAK(MUTANT_HANDLER, SEQ, ACQREL) /* ORD(sample.on): a buffer that is unmapped */
#define CHECK WEAK(MUTANT_ON_SEEN, SEQ, ACQ) /* ORD(sample.on): the same */
#define LEAVE WEAK(MUTANT_HANDLED, SEQ, ACQ) /* ORD(sample.on): unmapped while it is written to */
#define BEGIN UNLESS(MUTANT_ON, SEQ) /* ORD(sample.on): a buffer that is not there */
#define END WEAK(MUTANT_OFF, SEQ, REL) /* ORD(sample.on): a buffer that is unmapped */
#define WAIT WEAK(MUTANT_HANDLER_SEEN, SEQ, ACQ) /* ORD(sample.on): the same */
#endif

#ifdef ENTER
/* A: how many are inside; B: 1 while they may be */
bool over;

proctype Enter(byte me)
{
	byte ts, v;

	exchange(A, v + 1, ENTER, v);
	load(B, CHECK, v);
	if
	:: v == 1 -> mine()
	:: else
	fi;
	exchange(A, v - 1, LEAVE, v)
}

proctype End(byte me)
{
	byte ts, v;

	mine();
	store(B, BEGIN, 1);
#ifdef NOTIFY
	exchange(B, 2, END, v);
#else
	store(B, END, 2);
#endif
	do
	:: load(A, WAIT, v);
		if
		:: v == 0 -> break
		:: else -> v = 0
		fi
	od;
	mine();
#ifdef OVER
	atomic { store(B, OVER, 3); over = true }
#endif
}

#ifdef NEXT
proctype Next(byte me)
{
	byte ts, v = 3;
	bool won;

	over;
	cas(B, v, 4, NEXT, won);
	if
	:: won -> mine()
	:: else
	fi
}
#endif

init {
	atomic {
		run Enter(0);
		run End(1);
#ifdef NEXT
		run Next(2)
#endif
	}
}
#endif

#ifdef USE
#define ORDER_UNUSE WEAK(MUTANT_UNUSE, SEQ, ACQ) /* ORD(pd.use): used when closed */
/* A: the word of the record: how many calls are under way, and */
#define OPEN 16
#define CLOSING 32
#define FREED 64 /* for the property: it was open before */

proctype Call(byte me)
{
	byte ts, v;

	load(A, UNLESS(MUTANT_FIND, ACQ), v); /* ORD(pd.use): a record before it is filled in */
	if
	:: (v & OPEN) && !(v & CLOSING) ->
		assert(KNOWS(me, DATA) >= 1);
		exchange(A, v + 1, SEQ, v);
		if
		:: (v & OPEN) && !(v & CLOSING) -> mine()
		:: else
		fi;
		exchange(A, v - 1, ORDER_UNUSE, v)
	:: else
	fi
}

proctype Owner(byte me)
{
	byte ts, v;

	take_lock(0);
	mine();
	exchange(A, v | OPEN, WEAK(MUTANT_OPEN, SEQ, ACQ), v); /* ORD(pd.use): not filled in */
	drop_lock(0);
	take_lock(0);
	exchange(A, v | CLOSING, SEQ, v);
	drop_lock(0);
	do
	:: load(A, UNLESS(MUTANT_USED, SEQ), v); /* ORD(pd.use): used when closed */
		if
		:: v & 15
		:: else -> break
		fi
	od;
	mine();
	/* ORD(pd.use): the next file's record is written while this one's is used */
	exchange(A, (v & 15) | FREED, WEAK(MUTANT_FORGET, SEQ, ACQ), v)
}

proctype Next(byte me)
{
	byte ts, v;

	NOW(A) & FREED;
	take_lock(0);
	load(A, UNLESS(MUTANT_BEFORE, ACQ), v); /* ORD(pd.use): the same */
	if
	:: v & FREED -> mine()
	:: else
	fi;
	drop_lock(0)
}

init { atomic { run Call(0); run Owner(1); run Next(2) } }
#endif
