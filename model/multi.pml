/* SPDX-License-Identifier: MIT */
/*
 * Model of gmp_poll: the call ends if one of its file descriptors is ready or closed, and no waker
 * uses it after its return.
 *
 * Processes
 *   Call     polls fd 0, which is registered, and fd 1, which is not (io/poll.c)
 *   Kernel   makes one of the two ready, at any time; with -DCLOSE nothing becomes ready
 *   Commit   the call's commit step (multi_commit_unlock)
 *   Poller   reports the kernel's events (netpoll_event of src/netpoll/netpoll.c)
 *   Adopter  with -DADOPT: gmp_fd_adopt of descriptor 1 at any time
 *   Closer   with -DCLOSE: gmp_close of descriptor 0 at any time
 *   Timer    with -DLATE: the deadline of the call, at any time
 *
 * The registration of descriptor 0 is edge-triggered.  That of descriptor 1 is one-shot: armed[1]
 * says that it reports once.  Arming, and an adoption, report what is ready by then.
 *
 * Properties
 *   MULTI-1: the call ends                          every end state is valid
 *   MULTI-2: one claim wins                         assertion in fire
 *   MULTI-3: no waker uses a call that has returned   assertion in fire
 *
 * A step is a question to the kernel, a read of events, a section under a lock.  A section under
 * pd->lock in which the call's lock is taken is several steps.  Memory is sequentially consistent:
 * the locks order the rest.
 *
 * Left out: several calls at a time (entries of a record are fired one by one), sysmon's checks and
 * reopened numbers (reopen.pml), cancellation, which ends the wait as the timer does.
 *
 * Models:
 *   src/io/poll.c: poll_kernel_again link_all wait_once multi_wait multi_unwait multi_unlink_all
 *   src/netpoll/multi.c: multi_link link_in_record multi_unlink
 *   src/netpoll/register.c: netpoll_arm netpoll_open
 *   src/netpoll/netpoll.c: netpoll_event multi_fire_entry multi_event multi_forgotten
 *
 * Runs: the searches of scripts/model
 *   holds      -DLATE
 *   holds      -DADOPT
 *   holds      -DCLOSE
 *   holds      -DCLOSE -DLATE
 *   deadlock   -DMUTANT_NO_COUNT
 *   deadlock   -DMUTANT_NO_FLAG
 *   deadlock   -DMUTANT_ARMED_FIRST
 *   deadlock   -DCLOSE -DMUTANT_CLOSING_UNLINKED
 *   assertion  -DLATE -DMUTANT_UNLINK_LATER
 *   assertion  -DLATE -DMUTANT_NO_LOCK_END
 */
/* the kernel */
bool ready[2];
bool edge[2]; /* an event that epoll_wait will report */
bool armed[2]; /* [0]: always; [1]: one-shot, unless it is adopted */
bool adopted;
bool gone; /* descriptor 0 is closed */

/* struct polldesc */
bool locked[2], linked[2];
byte events[2];
#define OPEN 0
#define CLOSING 1
#define FREE 2
byte state;

/* struct multi, struct waiter */
bool multi_locked, fired, closed;
bool parked, claimed;
byte result;
#define EVENT 0
#define ETIMEDOUT 1
bool alive;  /* the call's stack frame */
bool commit; /* the commit step is under way on g0, while the call may run again */

byte ended;

inline lock_pd(d)
{
	atomic { !locked[d] -> locked[d] = true }
}

inline lock_multi()
{
	atomic { !multi_locked -> multi_locked = true }
}

/* waiter_claim */
inline claim(how)
{
	atomic {
		if
		:: parked && !claimed -> claimed = true; result = how
		:: else
		fi
	}
}

/* Under pd->lock. */
inline fire()
{
	assert(alive);
	lock_multi();
	assert(alive);
	if
	:: !fired ->
		fired = true;
		claim(EVENT)
	:: else
	fi;
	assert(alive);
	multi_locked = false
}

/* --- the call --- */

/* poll(2), and POLL-2 */
#define anything_ready (ready[0] || ready[1] || closed || gone)

inline link(d)
{
	lock_pd(d);
	if
	:: d == 0 && state == CLOSING ->
#ifndef MUTANT_CLOSING_UNLINKED /* the close does not wake the call */
		linked[0] = true
#else
		skip
#endif
#ifndef MUTANT_NO_COUNT /* an event between the question and the link is lost */
	:: d == 0 && state != CLOSING && !gone && events[0] != seen -> again = true
	:: d == 0 && state != CLOSING && !gone && events[0] == seen -> linked[0] = true
#else
	:: d == 0 && state != CLOSING && !gone -> linked[0] = true
#endif
	:: d == 0 && gone -> again = true /* EBADF */
	:: d == 1 ->
#ifndef MUTANT_ARMED_FIRST /* the report is used up before the entry is there */
		atomic { armed[1] = true; edge[1] = edge[1] || ready[1] };
#endif
		linked[1] = true
	fi;
	locked[d] = false
}

inline unlink(d)
{
	lock_pd(d);
	linked[d] = false;
	locked[d] = false
}

proctype Call()
{
	byte seen;
	bool again;

	do
	:: seen = events[0];
		if
		:: anything_ready -> break
		:: else
		fi;
		atomic { fired = false; parked = false; claimed = false; result = EVENT };
		again = false;
#ifdef MUTANT_ARMED_FIRST
		atomic { armed[1] = true; edge[1] = edge[1] || ready[1] };
#endif
		link(0);
		if
		:: !again -> link(1)
		:: else
		fi;
		if
		:: !again ->
			lock_multi();
			if
#ifndef MUTANT_NO_FLAG /* it was fired while it was not parked */
			:: fired -> multi_locked = false
#endif
			:: else ->
				parked = true;
				commit = true;
				claimed;
#ifndef MUTANT_NO_LOCK_END /* the commit step unlocks what has gone */
				if
				:: result == ETIMEDOUT -> !multi_locked /* lock_end */
				:: else
				fi
#endif
			fi
		:: else
		fi;
#ifdef MUTANT_UNLINK_LATER
		if
		:: result == ETIMEDOUT -> break
		:: else
		fi;
#endif
		unlink(0);
		unlink(1);
		parked = false;
		if
		:: result == ETIMEDOUT -> break
		:: else
		fi
	od;
	alive = false;
	ended++
}

/* --- the others --- */

proctype Commit()
{
end_commit:
	do
	:: commit ->
		assert(alive);
		atomic { multi_locked = false; commit = false }
	od
}

proctype Kernel()
{
	byte d;

	if
	:: d = 0
	:: d = 1
	fi;
	atomic {
		ready[d] = true;
		if
		:: armed[d] -> edge[d] = true
		:: else
		fi
	}
}

proctype Poller()
{
	byte d;

end_poll:
	do
	:: atomic { edge[0] -> edge[0] = false; d = 0 };
		lock_pd(0);
		events[0]++;
		if
		:: linked[0] -> fire()
		:: else
		fi;
		locked[0] = false
	:: atomic { edge[1] -> edge[1] = false; armed[1] = adopted; d = 1 };
		lock_pd(1);
		if
		:: linked[1] -> fire()
		:: else
		fi;
		locked[1] = false
	od
}

#ifdef ADOPT
proctype Adopter()
{
	lock_pd(1);
	atomic { adopted = true; armed[1] = true; edge[1] = edge[1] || ready[1] };
	locked[1] = false
}
#endif

#ifdef CLOSE
proctype Closer()
{
	lock_pd(0);
	state = CLOSING; /* netpoll_shut */
	armed[0] = false;
	locked[0] = false;
	/* multi_forgotten */
	lock_pd(0);
	state = FREE;
	if
	:: linked[0] -> closed = true; fire()
	:: else
	fi;
	locked[0] = false;
	gone = true; /* close(2); a call that asks before it is fired by sysmon's check */
	lock_pd(0);
	if
	:: linked[0] -> fire()
	:: else
	fi;
	locked[0] = false
}
#endif

#ifdef LATE
proctype Timer()
{
	claim(ETIMEDOUT)
}
#endif

init
{
	atomic {
		armed[0] = true;
		alive = true;
		run Call();
#ifndef CLOSE
		run Kernel();
#endif
		run Poller();
		run Commit();
#ifdef ADOPT
		run Adopter();
#endif
#ifdef CLOSE
		run Closer();
#endif
#ifdef LATE
		run Timer();
#endif
	};
	ended == 1
}
