/* SPDX-License-Identifier: MIT */
/*
 * Model of deadlines and reuse of a file descriptor: a wait is ended by the deadline that is set
 * when it passes, and by no other; and nothing of a closed file reaches the next file with its
 * number.
 *
 * Processes
 *   Reader   wants one byte; it becomes readable only by an event, which may never occur
 *   Setter   moves the deadline: SETS times to any time, and then to a time that comes
 *   Heap     two timer heaps, each with an M that runs timers (timers_run): fires the timer of the
 *            side when it is due
 *   Clock    advances at any time; the clock of the reader may be a little behind
 *   Closer   with -DCLOSE: closes the fd at any time; another file gets the number
 *   Poller   with -DCLOSE: holds an event of the first file, which it may report late
 *
 * Abstractions: word is the deadline of the side, armed is pd->armed, pp is timer.pp.  arm, disarm
 * and deadline_end_waits are deadline_arm, deadline_disarm and deadline_end_waits of
 * src/netpoll/deadline.c, is_late is netpoll_late of src/netpoll/record.h.  The queue holds one
 * waiter, which is claimed in the section that dequeues it (netpoll.pml has several readers and the
 * tokens; park.pml has the claim).
 *
 * Properties
 *   NETPOLL-6: a wait that begins, or is under way, when the deadline passes ends
 *                                                                  every end state is valid
 *   NETPOLL-6: it does not end earlier                             assertion in deadline_end_waits
 *   NETPOLL-7: no deadlock of pd->lock and the heap lock           every end state is valid
 *   TIMER-1: a timer is armed once                                 assertion in timer_add
 *   NETPOLL-5: the next file sees nothing of the first             assertions in Closer, Poller,
 *                                                                  Reader
 *   narmed (armed of deadline.c) is the number of armed timers     assertions in Closer, init
 *
 * Step granularity: a read of the clock, of the word or of events; locking and unlocking pd->lock
 * and the heap lock; a change under one of them that a thread can observe without it.  Memory is
 * sequentially consistent: the word is one word, and the locks order the rest.
 *
 * Left out: the other side, heaps that are moved to another P, cancellation.
 *
 * Models:
 *   src/netpoll/deadline.c: deadline_disarm deadlines_clear deadline_end_waits deadline_fire
 *   src/netpoll/deadline.c: deadline_arm deadline_set_side netpoll_deadline
 *   src/netpoll/register.c: netpoll_open netpoll_shut netpoll_forget
 *   src/netpoll/netpoll.c: netpoll_event
 *   src/netpoll/record.h: netpoll_late
 *   src/timer/timerheap.c: timer_add timer_del timers_run
 *   src/io/fd.c: call_loop fd_wait fd_close_inside
 *   src/io/fd.h: fd_same
 *
 * Runs: the searches of scripts/model
 *   holds      -DSETS=2
 *   holds      -DSETS=1 -DCLOSE
 *   deadlock   -DSETS=1 -DMUTANT_NO_TRY
 *   deadlock   -DSETS=1 -DMUTANT_NOT_REARMED
 *   deadlock   -DSETS=1 -DMUTANT_WORD_LEFT
 *   deadlock   -DSETS=1 -DMUTANT_NO_RECHECK
 *   assertion  -DSETS=1 -DMUTANT_BLIND_TIMER
 *   assertion  -DSETS=1 -DMUTANT_FIRED_IS_OUT
 *   deadlock   -DSETS=1 -DMUTANT_EARLIER_IGNORED
 *   assertion  -DSETS=1 -DCLOSE -DMUTANT_TIMER_LEFT
 *   assertion  -DSETS=1 -DCLOSE -DMUTANT_ANY_SEQ
 *   assertion  -DSETS=1 -DCLOSE -DMUTANT_OLD_HANDLE
 */
#define NEVER 9
#define FAR 8 /* after the end of the clock */
#define LONG_AGO 0
#define LAST 3 /* the clock: 1 to 3 */
byte now = 1;

/* the side, and its timer */
byte word = NEVER, armed = NEVER;
byte events, narmed;
bool queued, late_once;
byte pp; /* timer.pp: 1 or 2, or 0 */
byte when;

/* the record */
bool open = true;
byte seq;
bool pd_locked, heap_locked[3];

/* the reader's waiter */
bool woken;
byte result;
#define EVENT 0
#define ECANCELED 1
#define ETIMEDOUT 2
#define AGAIN 3
byte ended;

inline lock_pd()
{
	atomic { !pd_locked -> pd_locked = true }
}

inline lock_heap(h)
{
	atomic { !heap_locked[h] -> heap_locked[h] = true }
}

inline wake_side(how)
{
	atomic {
		if
		:: queued -> queued = false; result = how; woken = true
		:: else
		fi
	}
}

/* --- timers, src/timer/timerheap.c --- */

/* Into the heap of the P of the caller, which may be any. */
inline timer_add(t)
{
	if
	:: h = 1
	:: h = 2
	fi;
	lock_heap(h);
	atomic { assert(pp == 0); pp = h; when = t; heap_locked[h] = false; h = 0 }
}

inline timer_del()
{
	do
	:: h = pp;
		if
		:: h == 0 -> break
		:: else ->
			lock_heap(h);
			atomic { done = (pp == h); pp = (done -> 0 : pp); heap_locked[h] = false };
			if
			:: done -> break
			:: else
			fi
		fi
	od;
	h = 0;
	done = false
}

/* --- deadlines, under pd->lock --- */

inline disarm()
{
	if
	:: armed != NEVER -> timer_del(); atomic { armed = NEVER; narmed-- }
	:: else
	fi
}

inline deadline_end_waits()
{
	assert(word <= now);
#ifndef MUTANT_WORD_LEFT /* NETPOLL-6: a reader with a late clock parks after the timer */
	word = LONG_AGO;
#endif
	wake_side(ETIMEDOUT)
}

inline arm(t)
{
#ifdef MUTANT_EARLIER_IGNORED /* the timer is armed for a later time */
	if
	:: armed != NEVER
#else
	if
	:: armed <= t
#endif
	:: else ->
#ifdef MUTANT_FIRED_IS_OUT /* late has said so, but the heap still fires it */
		if
		:: armed != NEVER -> timer_del()
		:: else -> narmed++
		fi;
#else
		if
		:: armed == NEVER -> narmed++
		:: else
		fi;
		timer_del();
#endif
		armed = t;
		timer_add(t)
	fi
}

/* netpoll_deadline, deadline_set_side */
inline set_deadline(t)
{
	lock_pd();
	if
	:: open && seq == 0 ->
		if
		:: t == NEVER || t <= now -> disarm()
		:: else -> arm(t)
		fi;
		word = t;
		if
		:: word <= now -> deadline_end_waits()
		:: else
		fi
	:: else
	fi;
	pd_locked = false
}

/* late: with the heap's lock held */
proctype Heap(byte me)
{
	bool again;

end:	do
	:: atomic { !heap_locked[me] && pp == me && when <= now -> heap_locked[me] = true };
#ifdef MUTANT_NO_TRY /* NETPOLL-7: another thread has pd->lock and waits for the heap */
		lock_pd();
#else
		atomic {
			again = pd_locked;
			pd_locked = true
		};
#endif
		if
		:: again -> again = false /* a little later */
		:: else ->
			if
#ifdef MUTANT_BLIND_TIMER /* the deadline has been moved since */
			:: false
#else
			:: word > now && word != NEVER ->
#ifdef MUTANT_NOT_REARMED /* no timer fires at the new deadline */
				atomic { armed = NEVER; narmed--; pp = 0 }
#else
				atomic { armed = word; when = word }
#endif
#endif
			:: else ->
#ifdef MUTANT_BLIND_TIMER
				deadline_end_waits();
#else
				if
				:: word <= now -> deadline_end_waits()
				:: else
				fi;
#endif
				atomic { armed = NEVER; narmed-- };
				pd_locked = false;
				pp = 0;
				goto out
			fi;
			pd_locked = false
		fi;
out:		heap_locked[me] = false
	od
}

/* --- the reader --- */

/* netpoll_late, by a clock that may be behind */
inline is_late()
{
	if
	:: lateness = (word <= now)
	:: now > 1 -> lateness = (word <= now - 1)
	fi
}

proctype Reader()
{
	byte seen, r = AGAIN;
	bool lateness;

	do
	:: r != AGAIN -> break
	:: else ->
		seen = events;
		is_late();
		if
		:: lateness -> r = ETIMEDOUT
		:: else ->
			if
			:: seen > 0 -> r = EVENT /* the try */
			:: else
			fi
		fi;
		if
		:: r == AGAIN ->
			/* fd_wait */
			lock_pd();
#ifdef MUTANT_NO_RECHECK /* NETPOLL-6: the timer has fired since, and does not fire again */
			lateness = false;
#else
			is_late();
#endif
			if
#ifdef MUTANT_OLD_HANDLE /* it waits for the next file with the number */
			:: !open ->
#else
			:: !open || seq != 0 -> /* fd_same */
#endif
				r = ECANCELED;
				pd_locked = false
			:: else ->
				if
				:: lateness || events != seen -> pd_locked = false
				:: else ->
					assert(seq == 0);
					queued = true;
					pd_locked = false;
					atomic { woken -> woken = false };
					if
					:: result == EVENT
					:: else -> r = result
					fi;
					result = EVENT
				fi
			fi
		:: else
		fi
	od;
	ended++
}

/* --- the others --- */

proctype Setter()
{
	byte k, t, h;
	bool done;

	for (k : 1 .. SETS) {
		if
		:: t = 1
		:: t = 2
		:: t = FAR
		:: t = NEVER
		fi;
		set_deadline(t)
	};
	if
	:: t = 2
	:: t = 3
	fi;
	set_deadline(t);
	ended++
}

proctype Clock()
{
	do
	:: now < LAST -> now++
	:: else -> break
	od
}

#ifdef CLOSE
proctype Closer()
{
	byte h;
	bool done;

	/* netpoll_shut */
	lock_pd();
	open = false;
	wake_side(ECANCELED);
#ifndef MUTANT_TIMER_LEFT /* it fires for the next file */
	disarm();
#endif
	word = NEVER;
	pd_locked = false;
	/* netpoll_forget, and netpoll_open for the next file */
	lock_pd();
	assert(armed == NEVER && narmed == 0 && !queued && word == NEVER);
	seq = 1;
	events = 0;
	open = true;
	pd_locked = false;
	ended++
}

/* event */
proctype Poller()
{
	lock_pd();
#ifdef MUTANT_ANY_SEQ /* NETPOLL-5: an event of the first file */
	if
	:: open ->
#else
	if
	:: open && seq == 0 ->
#endif
		assert(seq == 0);
		events++;
		wake_side(EVENT)
	:: else
	fi;
	pd_locked = false;
	ended++
}
#define PARTS 4
#else
#define PARTS 2
#endif

init
{
	atomic {
		run Heap(1);
		run Heap(2);
		run Clock();
		run Reader();
		run Setter();
#ifdef CLOSE
		run Closer();
		run Poller();
#endif
	};
	ended == PARTS;
	atomic {
		!pd_locked && !heap_locked[1] && !heap_locked[2] ->
		assert(narmed == (armed != NEVER) && !queued)
	}
}
