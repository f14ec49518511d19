/* SPDX-License-Identifier: MIT */
/*
 * Does every event reach one who waits, is every wait ended by a close or a deadline, and does no system
 * call of a former owner reach the next owner of the number?
 *
 * Who takes part
 *   Reader   N of them, which want one byte each of one descriptor (call_loop of src/io/fd.c)
 *   Peer     sends N bytes, one after the other; with -DCLOSE or -DLATE perhaps fewer
 *   Poller   reports what the kernel has noted, edge by edge (event of src/netpoll.c)
 *   Closer   with -DCLOSE: closes it at any time (close_fd), and then the number is another's
 *   Deadline with -DLATE: passes at any time, and its timer fires after that (deadline_end_waits)
 *
 * What stands for what: seen, turn, queue, events, use are those of src/netpoll.h; a reader's waiter is
 * claimed by whoever takes it out of the queue, in the section that does (its arming before pd->lock is
 * dropped is select.pml's subject).
 *
 * Properties
 *   N2, N3: nobody waits while there is a byte   every end state is valid: all readers have ended
 *   N3: one turn at a time                       assertion in give_turn
 *   N4: no call reaches the next owner           assertion in try
 *   N6: after the deadline nobody waits          every end state is valid
 *
 * What a step is: a look at the word of events or of use, a system call, a section under pd->lock.  Memory
 * is sequentially consistent: use is changed by locked instructions, and events and the kernel's answer
 * are ordered by the system call.
 *
 * Left out: waits that are cut short (they leave the queue like one that is late), the drained mark,
 * external threads, two sides at a time (gmp_fd_wait).
 *
 * Models:
 *   src/io/fd.c: call_loop fd_wait fd_close_inside fd_shut wait_until_unused
 *   src/netpoll.c: netpoll_event side_ready wake_first netpoll_pass
 *   src/netpoll/register.c: netpoll_shut netpoll_forget
 *   src/netpoll/deadline.c: deadline_end_waits
 *   src/netpoll/record.h: netpoll_use netpoll_unuse netpoll_used
 *   ORD: pd.use pd.events
 *
 * Runs: what scripts/model does with this file
 *   holds      -DN=3
 *   holds      -DN=2 -DCLOSE
 *   holds      -DN=2 -DLATE
 *   deadlock   -DN=2 -DMUTANT_NO_COUNT
 *   deadlock   -DN=3 -DMUTANT_TURN_KEPT
 *   deadlock   -DN=3 -DMUTANT_NOT_TRIED
 *   deadlock   -DN=2 -DLATE -DMUTANT_ONE_LOOK
 *   assertion  -DN=2 -DCLOSE -DMUTANT_NO_USE
 *   deadlock   -DN=2 -DCLOSE -DMUTANT_CLOSED_UNSEEN
 */
#define NONE 255

/* the kernel */
byte bytes;
bool edge; /* an event that epoll_wait will report */
bool gone; /* the number is another's */

/* struct polldesc */
#define OPEN 0
#define CLOSING 1
byte state, users;
/* struct pollside */
byte events, queue[N], length;
bool turn, late;

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

inline give_turn()
{
	if
	:: length > 0 -> wake_first(EVENT); turn = true
	:: else -> turn = false
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
#ifdef MUTANT_TURN_KEPT /* the others wait for an event, though there is more */
	skip
#else
	atomic { assert(turn); give_turn() }
#endif
}

/* fd_wait: nothing has come since it looked: into the queue */
inline wait()
{
	atomic {
		if
#ifndef MUTANT_CLOSED_UNSEEN /* nobody wakes who comes after the close */
		:: state == CLOSING -> out = ECANCELED
#endif
#ifndef MUTANT_NO_COUNT /* ORD(pd.events): an event between the try and the wait is lost */
		:: state == OPEN && (mine || (length == 0 && !turn)) && events != seen
#endif
#ifndef MUTANT_NOT_TRIED /* it left it to the one with the turn, which is gone since */
		:: state == OPEN && length == 0 && !turn && !tried
#endif
#ifndef MUTANT_ONE_LOOK /* the timer has been, and does not come again */
		:: state == OPEN && late
#endif
		:: else ->
			if
			:: mine ->
				turn = false;
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
			:: mine || (length == 0 && !turn) ->
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
			:: !turn -> give_turn()
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
