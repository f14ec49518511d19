/* SPDX-License-Identifier: MIT */
/*
 * Model of a replaced call that waits for one file descriptor: it ends if there is a byte for it,
 * if its socket is shut down, or if a replaced close ends it, and it never waits for the next file
 * of its number.
 *
 * Processes
 *   Reader   a replaced read, two of them: attempts, and waits (posix/io/wait.c, poll_park).  Each
 *            takes one byte
 *   Peer     sends a byte for each read, at any time
 *   Poller   reports the kernel's events (netpoll_event)
 *   Shutter  with -DSHUT in place of the peer: a replaced shutdown, for which the kernel reports no
 *            event
 *   Closer   with -DCLOSE in place of the peer: a replaced close (netpoll_close_number), at any
 *            time
 *   Opener   with -DCLOSE: opens another file, which gets the number, and of which nothing can be
 *            read
 *
 * The number has the file OLD, then none, then NEW.  The registration is one-shot: arming reports
 * what is ready by then, and registers the number's present file.
 *
 * Properties
 *   MULTI-1: each read ends                            every end state is valid
 *   MULTI-7: no read that has begun before the close waits for the next file   assertion in Reader
 *
 * A step is a system call, a read of a count, a section under pd->lock.  Memory is sequentially
 * consistent: the lock orders the rest, except the counts, which are in publish.pml.
 *
 * Left out: a wait that is cancelled or whose time expires, and parking (multi.pml); close by code
 * that is not replaced, which sysmon's check finds (reopen.pml).  A read that begins between the
 * closer's two steps may wait for the next file: it may have begun after that was opened.
 *
 * Models:
 *   src/io/poll.c: poll_park wait_once
 *   src/netpoll/record.h: multi_look multi_look_again
 *   src/netpoll/multi.c: link_in_record multi_unlink
 *   src/netpoll/register.c: netpoll_arm netpoll_close_number
 *   src/netpoll/netpoll.c: netpoll_event netpoll_shut_down multi_event multi_close
 *   posix/io/wait.c: io_not_ready
 *   posix/io/socket.c: park_shutdown
 *   posix/io/close.c: close_call
 *
 * Runs: the searches of scripts/model
 *   holds
 *   holds      -DSHUT
 *   holds      -DCLOSE
 *   deadlock   -DMUTANT_QUIET
 *   deadlock   -DMUTANT_FIRES_ONE
 *   deadlock   -DSHUT -DMUTANT_NO_EVENTS
 *   deadlock   -DSHUT -DMUTANT_EVENTS_LATE
 *   deadlock   -DSHUT -DMUTANT_COUNTED_FIRST
 *   deadlock   -DCLOSE -DMUTANT_NO_FIRE
 *   assertion  -DCLOSE -DMUTANT_NO_CLOSES
 *   assertion  -DCLOSE -DMUTANT_CLOSES_LATE
 */
#define READERS 2

#define NONE 0
#define OLD 1
#define NEW 2

/* the kernel */
byte file = OLD; /* of the number */
byte data;       /* of OLD */
bool shut;       /* OLD was shut down: an attempt ends the call */
byte armed;      /* the file of the armed registration */
bool edge;       /* an event that epoll_wait will report */

/* struct polldesc */
bool locked;
byte events, closes;
bool linked[READERS], fired[READERS], closed[READERS];

byte ended;

inline lock_pd()
{
	atomic { !locked -> locked = true }
}

inline arm()
{
#ifndef MUTANT_QUIET /* arming does not report what is ready */
	atomic { armed = file; edge = (file == OLD && data > 0) }
#else
	armed = file
#endif
}

proctype Reader(byte me)
{
	byte seen, begun;
	bool end, again, before;

	atomic { begun = closes; before = (closes == 0) };
	do
	:: end -> break
	:: else ->
#ifndef MUTANT_EVENTS_LATE /* the count is read after the attempt */
		seen = events;
#endif
		atomic { /* the attempt */
			if
			:: file == NONE -> end = true
			:: file == OLD && data > 0 -> data--; end = true
			:: file == OLD && data == 0 && shut -> end = true
			:: else
			fi
		};
#ifdef MUTANT_EVENTS_LATE
		seen = events;
#endif
#ifdef MUTANT_CLOSES_LATE /* the closes are read after the attempt */
		begun = closes;
#endif
		if
		:: !end ->
			again = false;
			lock_pd();
			if
#ifndef MUTANT_NO_CLOSES /* a close between the attempt and the link is not seen */
			:: closes != begun -> end = true; again = true
			:: closes == begun ->
#else
			:: true ->
#endif
				if
#ifndef MUTANT_NO_EVENTS /* a shutdown between the attempt and the link is lost */
				:: events != seen -> again = true
#endif
				:: events == seen && file == NONE -> again = true
#ifdef MUTANT_NO_EVENTS
				:: events != seen && file == NONE -> again = true
				:: file != NONE ->
#else
				:: events == seen && file != NONE ->
#endif
					arm();
					assert(!(file == NEW && before));
					linked[me] = true
				fi
			fi;
			locked = false;
			if
			:: !again ->
				if
				:: fired[me]
				:: file == NEW && !before -> end = true /* left out: it waits on */
				fi;
				lock_pd();
				linked[me] = false;
				fired[me] = false;
				end = end || closed[me];
				locked = false
			:: else
			fi
		:: else
		fi
	od;
	ended++
}

inline fire_all()
{
	atomic {
		byte i = 0;
		bool any = false;
		do
		:: i == READERS -> break
		:: else ->
			if
#ifndef MUTANT_FIRES_ONE /* an event ends the wait of one entry only */
			:: linked[i] -> fired[i] = true
#else
			:: linked[i] && !any -> fired[i] = true; any = true
#endif
			:: else
			fi;
			i++
		od
	}
}

proctype Peer()
{
	byte n = 0;

	do
	:: n == READERS -> break
	:: else ->
		atomic { data++; edge = edge || armed == OLD };
		n++
	od
}

proctype Poller()
{
end_poll:
	do
	:: atomic { edge -> edge = false; armed = NONE };
		lock_pd();
		events++;
		fire_all();
		locked = false
	od
}

#ifdef SHUT
proctype Shutter()
{
#ifdef MUTANT_COUNTED_FIRST /* the event is counted before the shutdown */
	lock_pd();
	events++;
	fire_all();
	locked = false;
	shut = true
#else
	shut = true;
	lock_pd();
	events++;
	fire_all();
	locked = false
#endif
}
#endif

#ifdef CLOSE
proctype Closer()
{
	lock_pd();
	closes++;
#ifndef MUTANT_NO_FIRE /* the close does not end the waits */
	atomic {
		byte k = 0;
		do
		:: k == READERS -> break
		:: else ->
			if
			:: linked[k] -> closed[k] = true; fired[k] = true
			:: else
			fi;
			k++
		od
	};
#endif
	armed = NONE;
	edge = false;
	locked = false;
	file = NONE
}

proctype Opener()
{
	file == NONE;
	file = NEW
}
#endif

init
{
	atomic {
		run Reader(0);
		run Reader(1);
		run Poller();
#ifdef SHUT
		run Shutter();
#endif
#ifdef CLOSE
		run Closer();
		run Opener();
#endif
#if !defined(SHUT) && !defined(CLOSE)
		run Peer();
#endif
	};
	ended == READERS
}
