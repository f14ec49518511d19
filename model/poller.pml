/* SPDX-License-Identifier: MIT */
/*
 * Is the one that sleeps in the poller woken by whatever it should get up for, in the poller as on its
 * word?
 *
 * Who takes part
 *   Sleeper   again and again: announces until when it sleeps, looks once more, and sleeps; where nobody waits
 *             for a descriptor on the word `waking` (ep_rest), else in the kernel's poller (ep_wait)
 *   Armer     two of them: each arms a timer that comes before all others
 *   Reader    begins to wait for a descriptor, until its event has come, or it is cut short
 *   Peer      makes that event, at any time or never
 *   Drain     store buffers empty themselves
 *
 * Properties
 *   nobody sleeps while there is a timer that it has not seen, or an event for one who waits: every end state
 *   is valid (a sleeper that has seen all may get up by itself)
 *
 * What a step is: one access of poll_until, deaf, npollwait, waking or resting, one system call, or one look at
 * all timers.  A plain store may wait in its thread's store buffer (`late_...`) while what follows is
 * read from memory; locked instructions and full fences of the thread empty it, system calls do not.
 *
 * Left out: that a sleep ends by itself, and that others take timers and events meanwhile: that would hide a
 * wake-up that fails to come.  How the event goes to the one who waits (netpoll.pml), which timers are early
 * enough (T5 of timerheap.h), and the timers of a P that is given up (notify_poller).
 *
 * Models:
 *   src/idle.c: poll_time sleep_in_poller
 *   src/timerheap.c: timer_arm notify_sleeper
 *   src/netpoll.c: netpoll_rest netpoll_add_waiter
 *   src/netpoll_epoll.c: ep_wait ep_rest ep_wake
 *   ORD: poll.until deaf poller.waking
 *
 * Runs: what scripts/model does with this file
 *   holds
 *   deadlock   -DMUTANT_ANNOUNCED_LATE
 *   deadlock   -DMUTANT_NO_LAST_LOOK
 *   deadlock   -DMUTANT_ARMED_LATE
 *   deadlock   -DMUTANT_DEAF_LATE
 *   deadlock   -DMUTANT_NOBODY_COUNTED
 *   deadlock   -DMUTANT_COUNTED_LATE
 *   deadlock   -DMUTANT_RESTING_LATE
 *   deadlock   -DMUTANT_CLEARED_BEFORE_UP
 *   deadlock   -DMUTANT_NOT_CLEARED
 *   deadlock   -DMUTANT_CLEARED_BEFORE_READ
 */
#define ARMERS 2

/* struct sched: does somebody sleep, and longer than until any of the timers here? */
bool announced, deaf;
byte npollwait;

/* netpoll_epoll.c, and the kernel */
bool waking, resting;
bool on_word;  /* the sleeper is in futex_wait */
bool readable; /* the eventfd is armed: the next wait reports and disarms it */
bool event;    /* one that epoll_wait will report */

bool timer[ARMERS], seen[ARMERS], heard, cut;

/* store buffers: what is true, and nobody knows yet */
bool late_announced, late_deaf, late_resting, late_timer[ARMERS], late_count;

#define DONE (seen[0] && seen[1] && (heard || cut))
#define NEWS ((timer[0] && !seen[0]) || (timer[1] && !seen[1]))

inline empty_sleepers()
{
	announced = announced || late_announced;
	deaf = deaf || late_deaf;
	resting = resting || late_resting;
	late_announced = false;
	late_deaf = false;
	late_resting = false
}

/* ep_wake, of a thread whose buffer its exchange has emptied */
inline wake()
{
	atomic { before = waking; waking = true };
	if
	:: before /* somebody else's serves this one, too */
	:: else ->
		if
		:: resting -> on_word = false
		:: else -> readable = true
		fi
	fi;
	before = false
}

/* --- the others --- */

proctype Armer(byte me)
{
	bool before;

	late_timer[me] = true;
#ifndef MUTANT_ARMED_LATE /* ORD(poll.until): the sleeper's last look misses it, and nobody is told to sleep */
	atomic { timer[me] = true; late_timer[me] = false };
#endif
	if
	:: announced ->
		atomic { timer[me] = true; late_timer[me] = false }; /* the exchange of wake */
		wake()
	:: else
	fi
}

proctype Reader()
{
	bool before;

#ifdef MUTANT_COUNTED_LATE /* ORD(deaf): neither of the two sees the other */
	late_count = true;
#else
	npollwait++;
#endif
	if
	:: deaf ->
		atomic { npollwait = npollwait + late_count; late_count = false };
		wake()
	:: else
	fi;
	heard || cut;
	atomic { npollwait = npollwait + late_count - 1; late_count = false }
}

proctype Peer()
{
	if
	:: event = true
	:: cut = true
	fi
}

/* --- the sleeper --- */

inline rest()
{
	late_resting = true;
#ifndef MUTANT_RESTING_LATE /* ORD(poller.waking): the wake arms the eventfd */
	atomic { empty_sleepers() };
#endif
	atomic {
		if
		:: !waking -> on_word = true
		:: else
		fi
	};
	!on_word || DONE;
#ifdef MUTANT_CLEARED_BEFORE_UP /* ORD(poller.waking): a wake between goes to nobody, and remains set */
	atomic { empty_sleepers(); waking = false };
	resting = false
#else
	atomic { late_resting = false; resting = false };
#ifndef MUTANT_NOT_CLEARED /* ORD(poller.waking): those who come later find it set, and arm nothing */
	atomic { empty_sleepers(); waking = false }
#endif
#endif
}

inline wait()
{
	event || readable || DONE;
	if
	:: event -> event = false; heard = true
	:: else
	fi;
	if
	:: readable ->
#ifdef MUTANT_CLEARED_BEFORE_READ /* ORD(poller.waking): the report of a wake between is lost, and it remains set */
		atomic { empty_sleepers(); waking = false };
		readable = false
#else
		readable = false;
		atomic { empty_sleepers(); waking = false }
#endif
	:: else
	fi
}

inline sleep_once()
{
	if
	:: npollwait == 0 -> /* netpoll_rest */
		late_deaf = true;
#ifndef MUTANT_DEAF_LATE /* ORD(deaf): neither of the two sees the other */
		atomic { empty_sleepers() };
#endif
#ifdef MUTANT_NOBODY_COUNTED /* ORD(deaf): one who has come since the first look is not heard of */
		rest();
#else
		if
		:: npollwait == 0 -> rest()
		:: else
		fi;
#endif
		atomic { late_deaf = false; deaf = false }
	:: else -> wait()
	fi
}

proctype Sleeper()
{
	do
	:: DONE -> break
	:: else ->
		late_announced = true;
#ifndef MUTANT_ANNOUNCED_LATE /* ORD(poll.until): an earlier timer is armed, and nobody is told */
		atomic { empty_sleepers() };
#endif
		if
#ifdef MUTANT_NO_LAST_LOOK /* ORD(poll.until): one that was armed before is not seen */
		:: sleep_once()
#else
		:: !NEWS -> sleep_once()
		:: NEWS /* until that one */
#endif
		fi;
		atomic { late_announced = false; announced = false };
		atomic { /* the timers that are due */
			seen[0] = timer[0];
			seen[1] = timer[1]
		}
	od
}

proctype Drain()
{
end:	do
	:: atomic { late_announced || late_deaf || late_resting -> empty_sleepers() }
	:: atomic { late_timer[0] -> timer[0] = true; late_timer[0] = false }
	:: atomic { late_timer[1] -> timer[1] = true; late_timer[1] = false }
	:: atomic { late_count -> npollwait++; late_count = false }
	od
}

init {
	atomic {
		run Sleeper();
		run Armer(0);
		run Armer(1);
		run Reader();
		run Peer();
		run Drain()
	}
}
