/* SPDX-License-Identifier: MIT */
/*
 * Model of lasting registrations: a read that waits for a stream socket ends if there is a byte for
 * it.
 *
 * Processes
 *   Reader   a replaced read, two of them: attempts, and waits for the fd (posix/wait.c,
 *            multi_link_read).  Each takes one byte, twice; with
 *            -DCALL once
 *   Peer     sends a byte for each read, at any time
 *   Poller   reports the kernel's events (netpoll_event)
 *   Call     with -DCALL: a gmp_poll of the same fd, which arms a one-shot registration
 *
 * The socket has `data` bytes.  The registration is lasting, edge-triggered for reads; or one-shot,
 * and armed or not.  epoll_wait reports an edge only if there is data by then.  An attempt to read
 * takes one byte: it is short if that was the last one.  A read after a short one leaves out its
 * attempt if no event came since (IO-1).
 *
 * Properties
 *   LASTING-1: each read ends     every end state is valid
 *
 * A step is a system call, a read of the count, a section under pd->lock.  Memory is sequentially
 * consistent: the lock orders the rest, except the count, which is in publish.pml.
 *
 * Left out: a wait that is cancelled or whose time expires (multi.pml), parking (multi.pml), and
 * numbers that are closed and reopened.
 *
 * Models:
 *   src/netpoll/multi.c: multi_link_read multi_unlink
 *   src/netpoll/fire.c: multi_event
 *   src/netpoll/register.c: netpoll_arm netpoll_unwanted
 *   src/netpoll.c: netpoll_event
 *   posix/io.c: park_read read_socket
 *
 * Runs: the searches of scripts/model
 *   holds
 *   holds      -DCALL
 *   deadlock   -DMUTANT_NO_COUNT
 *   deadlock   -DMUTANT_COUNT_LATE
 *   deadlock   -DMUTANT_DRAINED_LATE
 *   deadlock   -DMUTANT_QUIET
 *   deadlock   -DMUTANT_STAYS
 *   deadlock   -DCALL -DMUTANT_FIRES_ONE
 */
#define READERS 2
#ifdef CALL
#define READS 1
#else
#define READS 2
#endif
#define UNWANTED_MOST 2

/* the kernel */
byte data;
bool edge; /* an event that epoll_wait will report, if there is data by then */
#define NONE 0
#define ONCE 1
#define LASTING 2
byte kind = NONE; /* of the registration */
bool armed;       /* of a one-shot registration */

/* struct polldesc */
bool locked;
byte polled = NONE, events, drained = 255, unwanted;
bool linked[READERS + 1], fired[READERS + 1];

byte ended;

inline lock_pd()
{
	atomic { !locked -> locked = true }
}

inline arrive()
{
	atomic {
		data++;
		edge = edge || kind == LASTING || (kind == ONCE && armed)
	}
}

/* EPOLL_CTL_ADD or MOD: reports what is ready by then. */
inline register(what)
{
	atomic { kind = what; polled = what; armed = true; edge = data > 0 }
}

inline unlink(me)
{
	lock_pd();
	linked[me] = false;
	fired[me] = false;
	locked = false
}

proctype Reader(byte me)
{
	byte seen, n = 0;
	bool got, wait;

	do
	:: n == READS -> break
	:: else ->
#ifndef MUTANT_COUNT_LATE /* the count is read after the attempt */
		seen = events;
#endif
		got = false;
		atomic {
			if
			:: drained == seen /* the attempt is left out */
			:: drained != seen && data > 0 ->
				data--;
				got = true;
				if
				:: data == 0 -> wait = true /* short */
				:: else -> wait = false
				fi
			:: else
			fi
		};
#ifdef MUTANT_COUNT_LATE
		seen = events;
#endif
		if
		:: got ->
			n++;
			if
#ifndef MUTANT_DRAINED_LATE /* the count of a short read is read after it */
			:: wait -> drained = seen
#else
			:: wait -> drained = events
#endif
			:: else
			fi
		:: else ->
			lock_pd();
			if
#ifndef MUTANT_NO_COUNT /* an event between the attempt and the link is lost */
			:: polled == LASTING && events != seen -> wait = false
			:: polled == LASTING && events == seen -> wait = true
#else
			:: polled == LASTING -> wait = true
#endif
			:: polled != LASTING ->
#ifndef MUTANT_QUIET /* a lasting registration does not report what is ready */
				register(LASTING);
#else
				atomic { kind = LASTING; polled = LASTING };
#endif
				wait = true
			fi;
			if
			:: wait -> linked[me] = true; unwanted = 0
			:: else
			fi;
			locked = false;
			if
			:: wait -> fired[me]; unlink(me)
			:: else
			fi
		fi
	od;
	ended++
}

proctype Peer()
{
	byte n = 0;

	do
	:: n == READERS * READS -> break
	:: else -> arrive(); n++
	od
}

inline fire_all()
{
	byte i = 0;
	any = false;
	do
	:: i > READERS -> break
	:: else ->
		if
#ifndef MUTANT_FIRES_ONE /* a one-shot event ends the wait of one entry only */
		:: linked[i] -> fired[i] = true; any = true
#else
		:: linked[i] && !(any && polled == ONCE) -> fired[i] = true; any = true
#endif
		:: else
		fi;
		i++
	od
}

proctype Poller()
{
	bool any;

end_poll:
	do
	:: atomic {
			edge ->
			edge = false;
			if
			:: data == 0 -> goto end_poll
			:: else
			fi;
			armed = false
		};
		lock_pd();
		events++;
		atomic { fire_all() };
		if
		:: !any && polled == LASTING ->
			unwanted++;
			if
			:: unwanted == UNWANTED_MOST ->
#ifndef MUTANT_STAYS /* the record still says that it is lasting */
				polled = ONCE;
#endif
				atomic { kind = ONCE; armed = false; edge = false };
				unwanted = 0
			:: else
			fi
		:: else
		fi;
		locked = false
	od
}

#ifdef CALL
proctype Call()
{
	do
	:: data > 0 -> break
	:: else ->
		lock_pd();
		register(ONCE);
		linked[READERS] = true;
		locked = false;
end_call: /* the readers may have taken all */
		fired[READERS];
		unlink(READERS);
		break
	od
}
#endif

init
{
	atomic {
		run Reader(0);
		run Reader(1);
		run Peer();
		run Poller();
#ifdef CALL
		run Call();
#endif
	};
	ended == READERS
}
