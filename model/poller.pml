/* SPDX-License-Identifier: MIT */
/*
 * Model of the sleep in the poller: every earlier timer and every event for a waiter wakes the
 * sleeping M, in the poller as well as on its word.
 *
 * Processes
 *   Sleeper   repeatedly: announces until when it sleeps, checks again, and sleeps: if no G waits
 *             for an fd, on the word `waking` (ep_rest), otherwise in the kernel poller (ep_wait)
 *   Armer     two of them: each arms a timer that is due before all others
 *   Reader    waits for an fd until the event has come or the wait is cancelled
 *   Peer      makes that event, at any time or never
 *   Poller    waits with ns == 0, and takes the wake of the sleeper
 *   Drain     store buffers drain
 *
 * Properties
 *   the M does not sleep while there is a timer that it has not seen, or an event for a waiter:
 *   every end state is valid (an M that has seen all may wake by itself)
 *
 * Step granularity: one access of poll_until, ignores_fds, npollwait, waking or resting, one system
 * call, or one check of all timers.  A plain store may stay in the store buffer of its thread
 * (`late_...`) while that thread reads other words from memory; its locked instructions and full
 * fences drain the buffer, system calls do not.
 *
 * Left out: that a sleep ends by itself, and that other Ms run timers and events meanwhile: both
 * would hide a lost wakeup.  Also how an event reaches its waiter (netpoll.pml), which timers are
 * early enough (TIMER-5), and the timers of a P that is released (notify_poller).
 *
 * Models:
 *   src/idle.c: poll_time sleep_in_poller
 *   src/timer/timerheap.c: timer_arm notify_sleeper
 *   src/netpoll/netpoll.c: netpoll_rest netpoll_add_waiter
 *   src/netpoll_epoll.c: ep_wait ep_rest ep_wake
 *   ORD: poll.until ignores_fds poller.waking
 *
 * Runs: the searches of scripts/model
 *   holds
 *   deadlock   -DMUTANT_ANNOUNCED_LATE
 *   deadlock   -DMUTANT_NO_LAST_CHECK
 *   deadlock   -DMUTANT_ARMED_LATE
 *   deadlock   -DMUTANT_IGNORES_LATE
 *   deadlock   -DMUTANT_NO_COUNT_CHECK
 *   deadlock   -DMUTANT_COUNTED_LATE
 *   deadlock   -DMUTANT_RESTING_LATE
 *   deadlock   -DMUTANT_SLEEPING_LATE
 *   deadlock   -DMUTANT_NOT_ARMED_AGAIN
 */
#define ARMERS 2

/* struct sched: an M sleeps, and longer than until any of the timers here */
bool announced, ignores_fds;
byte npollwait;

/* netpoll_epoll.c, and the kernel */
bool waking, resting, sleeping;
bool on_word;  /* the sleeper is in futex_wait */
bool readable; /* the eventfd is armed: the next wait reports and disarms it */
bool event;    /* an event that epoll_wait will report */

bool timer[ARMERS], seen[ARMERS], received, cut;

/* store buffers: values that are not visible yet */
bool late_announced, late_ignores, late_resting, late_sleeping, late_timer[ARMERS], late_count;

#define DONE (seen[0] && seen[1] && (received || cut))
#define NEWS ((timer[0] && !seen[0]) || (timer[1] && !seen[1]))

inline empty_sleepers()
{
	announced = announced || late_announced;
	ignores_fds = ignores_fds || late_ignores;
	resting = resting || late_resting;
	sleeping = sleeping || late_sleeping;
	late_announced = false;
	late_ignores = false;
	late_resting = false;
	late_sleeping = false
}

/* ep_wake, of a thread whose buffer its exchange has emptied */
inline wake()
{
	atomic { before = waking; waking = true };
	if
	:: before /* the wake that is under way serves this one, too */
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
#ifndef MUTANT_ARMED_LATE /* ORD(poll.until): the last check misses it, and it sees no sleep */
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

#ifdef MUTANT_COUNTED_LATE /* ORD(ignores_fds): neither of the two sees the other */
	late_count = true;
#else
	npollwait++;
#endif
	if
	:: ignores_fds ->
		atomic { npollwait = npollwait + late_count; late_count = false };
		wake()
	:: else
	fi;
	received || cut;
	atomic { npollwait = npollwait + late_count - 1; late_count = false }
}

proctype Peer()
{
	if
	:: event = true
	:: cut = true
	fi
}

/* ep_wait with ns == 0 */
proctype Poller()
{
	do
	:: DONE -> break
	:: readable ->
		readable = false;
#ifndef MUTANT_NOT_ARMED_AGAIN /* it takes the wake of a thread that sleeps */
		if
		:: sleeping -> readable = true
		:: else
		fi
#endif
	od
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
	atomic { late_resting = false; resting = false };
	atomic { empty_sleepers(); waking = false }
}

inline wait()
{
	late_sleeping = true;
#ifndef MUTANT_SLEEPING_LATE /* ORD(poller.waking): a poll leaves the eventfd disarmed */
	atomic { empty_sleepers() };
#endif
	woken = waking;
	woken || event || readable || DONE;
	if
	:: event -> event = false; received = true
	:: else
	fi;
	if
	:: readable -> readable = false; woken = true
	:: else
	fi;
	atomic { late_sleeping = false; sleeping = false };
	if
	:: woken -> atomic { empty_sleepers(); waking = false }
	:: else
	fi;
	woken = false
}

inline sleep_once()
{
	if
	:: npollwait == 0 -> /* netpoll_rest */
		late_ignores = true;
#ifndef MUTANT_IGNORES_LATE /* ORD(ignores_fds): neither of the two sees the other */
		atomic { empty_sleepers() };
#endif
#ifdef MUTANT_NO_COUNT_CHECK /* ORD(ignores_fds): a waiter since the first check is missed */
		rest();
#else
		if
		:: npollwait == 0 -> rest()
		:: else
		fi;
#endif
		atomic { late_ignores = false; ignores_fds = false }
	:: else -> wait()
	fi
}

proctype Sleeper()
{
	bool woken;

	do
	:: DONE -> break
	:: else ->
		late_announced = true;
#ifndef MUTANT_ANNOUNCED_LATE /* ORD(poll.until): an earlier timer does not wake the M */
		atomic { empty_sleepers() };
#endif
		if
#ifdef MUTANT_NO_LAST_CHECK /* ORD(poll.until): a timer armed before is missed */
		:: sleep_once()
#else
		:: !NEWS -> sleep_once()
		:: NEWS /* the timeout is that timer */
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
	:: atomic {
		late_announced || late_ignores || late_resting || late_sleeping -> empty_sleepers()
	}
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
		run Poller();
		run Drain()
	}
}
