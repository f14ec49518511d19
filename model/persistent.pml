/* SPDX-License-Identifier: MIT */
/*
 * Model of persistent registrations: a read that waits for a stream socket or a pipe ends if there
 * is a byte for it.
 *
 * Processes
 *   Reader   a replaced read, two of them: attempts, and waits for the fd (posix/io/wait.c,
 *            multi_link_read).  Each takes one byte, twice; with
 *            -DCALL or -DNO_ID once.  With -DNO_ID, of a pipe, a wait after a check arms the
 *            registration again; a reader makes any of its waits with a check or without
 *   Peer     sends a byte for each read, at any time; with -DEND it ends the stream then, which
 *            each reader must find
 *   Poller   reports the kernel's events (netpoll_event)
 *   Call     with -DCALL: a gmp_poll of the same fd, which arms a one-shot registration
 *
 * The socket has `data` bytes.  The registration is persistent, edge-triggered for reads; or
 * one-shot, and armed or not.  epoll_wait reports an edge only if there is data by then.  An
 * attempt to read takes one byte: it is short if that was the last one.  A read after a short one
 * leaves out its attempt if no event came since, and none reported the end (IO-1).
 *
 * Properties
 *   PERSISTENT-1 (MULTI-8): each read ends  every end state is valid
 *
 * A step is a system call, a read of the count, a section under pd->lock.  Memory is sequentially
 * consistent: the lock orders the rest, except the count, which is in publish.pml.
 *
 * Left out: a wait that is cancelled or whose time expires (multi.pml), parking (multi.pml),
 * numbers that are closed and reopened, with the ids that tell them, registrations that fail, and
 * reads that end at a message or packet (MULTI-8).
 *
 * Models:
 *   src/netpoll/multi.c: multi_link_read multi_unlink
 *   src/netpoll/fire.c: multi_event
 *   src/netpoll/register.c: netpoll_arm netpoll_unwanted
 *   src/netpoll/netpoll.c: netpoll_event
 *   posix/io/readwrite.c: park_read read_socket
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
 *   holds      -DEND
 *   deadlock   -DEND -DMUTANT_NO_HUP
 *   holds      -DNO_ID
 *   holds      -DNO_ID -DCALL
 *   holds      -DNO_ID -DEND
 *   deadlock   -DNO_ID -DMUTANT_NO_COUNT
 *   deadlock   -DNO_ID -DMUTANT_QUIET
 */
#define READERS 2
#if defined(CALL) || defined(END) || defined(NO_ID)
#define READS 1
#else
#define READS 2
#endif
#define UNWANTED_MOST 2

/* the kernel */
byte data;
bool fin; /* the end of the stream was sent */
bool edge; /* an event that epoll_wait will report, if there is data by then */
#define NONE 0
#define ONCE 1
#define PERSISTENT 2
byte kind = NONE; /* of the registration */
bool armed;       /* of a one-shot registration */

/* struct polldesc */
bool locked;
bool hup; /* an event has reported the end */
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
		edge = edge || kind == PERSISTENT || (kind == ONCE && armed)
	}
}

/* EPOLL_CTL_ADD or MOD: reports what is ready by then. */
inline register(what)
{
	atomic { kind = what; polled = what; armed = true; edge = (data > 0 || fin) }
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
	bool got, wait, eof = false, again;

	do
#ifndef END
	:: n == READS -> break
#else
	:: eof -> break
#endif
	:: else ->
#ifndef MUTANT_COUNT_LATE /* the count is read after the attempt */
		seen = events;
#endif
		got = false;
		atomic {
			if
#ifndef MUTANT_NO_HUP /* after the end, too, a short read means that nothing is left */
			:: drained == seen && !hup /* the attempt is left out */
			:: (drained != seen || hup) && data == 0 && fin -> eof = true
			:: (drained != seen || hup) && data > 0 ->
#else
			:: drained == seen
			:: drained != seen && data == 0 && fin -> eof = true
			:: drained != seen && data > 0 ->
#endif
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
		:: eof
		:: !got && !eof ->
			again = false;
			lock_pd();
			if /* MULTI_ABSENT: the caller reads the id, and comes again */
			:: polled != PERSISTENT -> locked = false; again = true
			:: else
			fi;
			if
			:: again -> lock_pd()
			:: else
			fi;
			if
#ifdef NO_ID
			:: polled == PERSISTENT -> /* MULTI-7: no file is the registered one */
#ifndef MUTANT_QUIET
				register(PERSISTENT);
#endif
				wait = true
#endif
#ifndef MUTANT_NO_COUNT /* an event between the attempt and the link is lost */
			:: polled == PERSISTENT && events != seen -> wait = false
			:: polled == PERSISTENT && events == seen -> wait = true
#else
			:: polled == PERSISTENT -> wait = true
#endif
			:: polled != PERSISTENT ->
#ifndef MUTANT_QUIET /* a persistent registration does not report what is ready */
				register(PERSISTENT);
#else
				atomic { kind = PERSISTENT; polled = PERSISTENT };
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
	od;
#ifdef END
	atomic { fin = true; edge = edge || kind == PERSISTENT || (kind == ONCE && armed) }
#endif
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
	bool any, hung;

end_poll:
	do
	:: atomic {
			edge ->
			edge = false;
			if
			:: data == 0 && !fin -> goto end_poll
			:: else
			fi;
			armed = false;
			hung = fin
		};
		lock_pd();
		hup = hup || hung;
		events++;
		atomic { fire_all() };
		if
		:: !any && polled == PERSISTENT ->
			unwanted++;
			if
			:: unwanted == UNWANTED_MOST ->
#ifndef MUTANT_STAYS /* the record still says that it is persistent */
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
