/* SPDX-License-Identifier: MIT */
/*
 * Model of timers during long sections of blocking code: a timer of a P whose M sleeps in the
 * kernel fires, although sysmon does not run.
 *
 * Processes
 *   Blocking  an M with the only P; its green thread is in one long section after the other, and
 *             never in the scheduler.  The last section ends when the timer has fired.
 *   Polling   an M that sleeps in the poller, without a P at first
 *   Clock     makes the timer due, at any time
 *   Noise     wakes the M in the poller for nothing, at any time
 *
 * Properties (BLOCK-7)
 *   the timer fires               no process is stuck: every end state is valid
 *   the M in the poller is not woken for it again and again   assertion in sleep_in_poller
 *
 * Step granularity: an access of the status of the P or of poll_until; a section of sched.lock,
 * which excludes no access of a P in blocking code.  Memory is sequentially consistent: the order
 * of poll.until is that of dekker.pml.
 *
 * Left out: events (an M leaves the poller for them as for the timer, until == NEVER too), the M
 * that is started if none is idle, sysmon, several Ps.
 *
 * Models:
 *   src/wait/blocking.c: gmp_block_enter gmp_block_leave leave_slow
 *   src/handoff.c: sched_hand_off
 *   src/idle.c: wait_for_p acquirep notify_poller
 *   src/proc.c: p_take_blocked_locked p_any_is_long p_idle_locked
 *
 * Runs: the searches of scripts/model
 *   holds
 *   deadlock   -DMUTANT_NEVER_HANDED_OFF
 *   deadlock   -DMUTANT_CHECKED_BEFORE_BLOCKED
 *   deadlock   -DMUTANT_LOOKS_TOO_EARLY
 *   deadlock   -DMUTANT_ONLY_IDLE_COUNTS
 *   assertion  -DMUTANT_NOT_TAKEN_FOR_TIMER
 *   deadlock   -DMUTANT_POLLER_NOT_WOKEN
 */
#define SECTIONS 3

#define RUNNING 0
#define LONG 1 /* BLOCKED, with the number of the M and P_LONG */
#define IDLE 2
byte status = RUNNING;

#define NONE 0 /* INT64_MIN: no M sleeps in the poller */
#define TIMER 1
#define NEVER 2
byte until = NONE; /* sched.poll_until */

bool due, fired;
bool wake; /* the eventfd of the poller */

#define UNSERVED(u) (u != TIMER && !fired)

inline hand_off()
{
	status = IDLE; /* under sched.lock */
#ifndef MUTANT_POLLER_NOT_WOKEN
	wake = true /* HANDOFF-6, notify_poller */
#endif
}

inline enter()
{
#ifdef MUTANT_NEVER_HANDED_OFF
	status = LONG;
#else
#ifdef MUTANT_CHECKED_BEFORE_BLOCKED
	seen = until;
	status = LONG;
#else
	status = LONG;
	seen = until;
#endif
	if
	:: UNSERVED(seen) ->
		atomic {
			taken = status != LONG;
			if
			:: !taken -> status = RUNNING
			:: else
			fi
		};
		if
		:: !taken -> hand_off()
		:: else
		fi
	:: else
	fi
#endif
}

inline leave()
{
	atomic {
		if /* the status of enter, or step 6 */
		:: status == LONG -> status = RUNNING
		:: status == IDLE -> status = RUNNING
		fi
	}
}

active proctype Blocking()
{
	byte i, seen;
	bool taken;

	for (i : 1 .. SECTIONS) {
		enter();
		if
		:: i == SECTIONS -> fired
		:: else
		fi;
		leave()
	}
	status = IDLE
}

inline sleep_in_poller()
{
	until = NEVER;
#ifdef MUTANT_ONLY_IDLE_COUNTS
	may = status == IDLE;
#else
#ifndef MUTANT_LOOKS_TOO_EARLY
	may = (status == IDLE || status == LONG);
#endif
#endif
	if
	:: may && !fired -> until = TIMER
	:: else
	fi;
	if
	:: wake -> wake = false
	:: until == TIMER && due -> awakenings++; assert(awakenings <= 2 * SECTIONS + 2)
	fi;
#ifdef MUTANT_LOOKS_TOO_EARLY /* for its next sleep */
	may = (status == IDLE || status == LONG);
#endif
	until = NONE
}

inline acquirep()
{
	atomic { /* each case is one access of the status */
		if
		:: status == IDLE -> status = RUNNING; has_p = true
#ifndef MUTANT_NOT_TAKEN_FOR_TIMER
		:: status == LONG && due -> status = RUNNING; has_p = true
#endif
		:: else
		fi
	}
}

active proctype Polling()
{
	byte awakenings; /* for the timer */
	bool may, has_p;

	do
	:: fired -> break
	:: else ->
		sleep_in_poller();
		acquirep();
		if
		:: has_p ->
			if
			:: due -> fired = true
			:: else
			fi;
			has_p = false;
			status = IDLE
		:: else
		fi
	od
}

active proctype Clock()
{
	due = true
}

active proctype Noise()
{
	wake = true
}
