/* SPDX-License-Identifier: MIT */
/*
 * Model of readiness of one file descriptor: every event reaches a waiter, a close or a deadline
 * ends every wait, and no system call for a closed file reaches the next file with its number.
 *
 * Processes
 *   Reader   N of them, each reads one byte of one fd (call_loop of src/io/fd.c)
 *   Peer     sends N bytes, one after the other; with -DCLOSE or -DLATE perhaps fewer
 *   Poller   reports the edges that the kernel has noted (netpoll_event of src/netpoll/netpoll.c)
 *   Closer   with -DCLOSE: closes the fd at any time (fd_close_inside); then the number is reused
 *   Deadline with -DLATE: passes at any time, and its timer fires after that (deadline_end_waits)
 *
 * Abstractions: seen, token, queue, events and use are those of src/netpoll/netpoll.h.  A reader is
 * claimed in the section that dequeues it (select.pml models arming before pd->lock is unlocked).
 *
 * Properties
 *   NETPOLL-2, NETPOLL-3: no reader waits while there is a byte   every end state is valid: all
 *                                                                 readers have ended
 *   NETPOLL-3: one token at a time                                assertion in give_token
 *   NETPOLL-4: no call reaches the next file                      assertion in try
 *   NETPOLL-6: after the deadline no reader waits                 every end state is valid
 *
 * Step granularity: a read of events or of use, a system call, a section under pd->lock.  Memory is
 * sequentially consistent: use is changed by locked instructions, and the system call orders events
 * and the answer of the kernel.
 *
 * Left out: cancelled waits (they leave the queue as late ones do), the drained mark, external
 * threads, two sides at a time (gmp_fd_wait).
 *
 * Models:
 *   src/io/fd.c: call_loop fd_wait fd_close_inside fd_shut wait_until_unused
 *   src/netpoll/netpoll.c: netpoll_event side_ready wake_first netpoll_pass
 *   src/netpoll/register.c: netpoll_shut netpoll_forget
 *   src/netpoll/deadline.c: deadline_end_waits
 *   src/netpoll/record.h: netpoll_use netpoll_unuse netpoll_used
 *   ORD: pd.use pd.events
 *
 * Runs: the searches of scripts/model
 *   holds      -DN=3
 *   holds      -DN=2 -DCLOSE
 *   holds      -DN=2 -DLATE
 *   deadlock   -DN=2 -DMUTANT_NO_COUNT
 *   deadlock   -DN=3 -DMUTANT_TOKEN_KEPT
 *   deadlock   -DN=3 -DMUTANT_NOT_TRIED
 *   deadlock   -DN=2 -DLATE -DMUTANT_NO_RECHECK
 *   assertion  -DN=2 -DCLOSE -DMUTANT_NO_USE
 *   deadlock   -DN=2 -DCLOSE -DMUTANT_CLOSED_UNSEEN
 */
#define NONE 255

/* the kernel */
byte bytes;
bool edge; /* an event that epoll_wait will report */
bool gone; /* the number is reused */

/* struct polldesc */
#define OPEN 0
#define CLOSING 1
byte state, users;
/* struct pollside */
byte events, queue[N], length;
bool token, late;

/* struct waiter */
bool woken[N];
byte result[N];
#define EVENT 0
#define ECANCELED 1
#define ETIMEDOUT 2

byte ended;

/* --- under pd->lock: each use is one atomic step --- */

inline wake_first(how)
{
	w = queue[0];
	length--;
	queue[0] = queue[1];
#if N > 2
	queue[1] = queue[2];
	queue[2] = 0;
#else
	queue[1] = 0;
#endif
	result[w] = how;
	woken[w] = true;
	w = 0
}

inline give_token()
{
	if
	:: length > 0 -> wake_first(EVENT); token = true
	:: else -> token = false
	fi
}

inline wake_all(how)
{
	do
	:: length > 0 -> wake_first(how)
	:: else -> break
	od
}

inline push_back()
{
	queue[length] = me;
	length++
}

inline push_front()
{
#if N > 2
	queue[2] = queue[1];
#endif
	queue[1] = queue[0];
	queue[0] = me;
	length++
}

/* --- the reader --- */

/* netpoll_use, the system call, netpoll_unuse */
inline try()
{
#ifndef MUTANT_NO_USE /* ORD(pd.use): the close does not wait for it */
	atomic {
		users++;
		if
		:: state == CLOSING -> users--; out = ECANCELED
		:: else
		fi
	};
#endif
	if
	:: out == NONE ->
		atomic {
			assert(!gone);
			if
			:: bytes > 0 -> bytes--; out = EVENT
			:: else
			fi
		};
#ifndef MUTANT_NO_USE
		users--
#endif
	:: else
	fi
}

/* netpoll_pass */
inline pass()
{
#ifdef MUTANT_TOKEN_KEPT /* the others wait for an event, though there is more */
	skip
#else
	atomic { assert(token); give_token() }
#endif
}

/* fd_wait: no event since the read of events: enqueue */
inline wait()
{
	atomic {
		if
#ifndef MUTANT_CLOSED_UNSEEN /* no close wakes a reader that is queued later */
		:: state == CLOSING -> out = ECANCELED
#endif
#ifndef MUTANT_NO_COUNT /* ORD(pd.events): an event between the try and the wait is lost */
		:: state == OPEN && (mine || (length == 0 && !token)) && events != seen
#endif
#ifndef MUTANT_NOT_TRIED /* it relies on a token whose reader has ended since */
		:: state == OPEN && length == 0 && !token && !tried
#endif
#ifndef MUTANT_NO_RECHECK /* the timer has fired, and does not fire again */
		:: state == OPEN && late
#endif
		:: else ->
			if
			:: mine ->
				token = false;
				push_front()
			:: else -> push_back()
			fi;
			asleep = true
		fi
	};
	if
	:: asleep ->
		atomic {
			woken[me] -> woken[me] = false;
			asleep = false;
			if
			:: result[me] == EVENT -> mine = true
			:: else -> out = result[me]; mine = false
			fi
		}
	:: else
	fi
}

proctype Reader(byte me)
{
	byte seen, w, out = NONE;
	bool mine, asleep, tried;

	do
	:: out == NONE ->
		seen = events;
		tried = false;
		if
		:: late ->
			out = ETIMEDOUT;
			if
			:: mine -> pass()
			:: else
			fi
		:: else ->
			if
			:: mine || (length == 0 && !token) ->
				try();
				tried = true;
				if
				:: out == EVENT && mine -> pass()
				:: else
				fi
			:: else
			fi;
			if
			:: out == NONE -> wait()
			:: else
			fi
		fi
	:: else -> break
	od;
	ended++
}

/* --- the others --- */

proctype Peer()
{
	byte k;

	for (k : 1 .. N) {
#if defined(CLOSE) || defined(LATE)
		if
		:: break
		:: skip
		fi;
#endif
		atomic { bytes++; edge = true }
	}
}

proctype Poller()
{
	byte w;

end_poll:
	do
	:: atomic { edge -> edge = false };
		atomic {
			events++;
			if
			:: !token -> give_token()
			:: else
			fi
		}
	od
}

#ifdef CLOSE
proctype Closer()
{
	byte w;

	atomic { state = CLOSING; wake_all(ECANCELED) }; /* netpoll_shut */
	users == 0;                                      /* wait_until_unused */
	gone = true                                      /* netpoll_forget, close */
}
#endif

#ifdef LATE
proctype Deadline()
{
	byte w;

	late = true;
	atomic { wake_all(ETIMEDOUT) } /* the timer, some time later */
}
#endif

init
{
	byte k;

	atomic {
		for (k : 0 .. N - 1) {
			run Reader(k)
		};
		run Peer();
		run Poller();
#ifdef CLOSE
		run Closer();
#endif
#ifdef LATE
		run Deadline();
#endif
	};
	ended == N
}
