/* SPDX-License-Identifier: MIT */
/*
 * Model of blocking code: a P that blocking code keeps has one owner, although other Ms take it
 * meanwhile; and a green thread in blocking code, or on its way out, is never reported as
 * deadlocked.
 *
 * Processes
 *   M         three, of which one begins with the only P; each runs a green thread, which enters
 *             and leaves blocking code, finds the next one, or stops
 *   Sysmon    takes the P from an M that is in blocking code, and hands it off
 *   Poller    checks once, at any time, whether the program is deadlocked
 *
 * Abstractions: enter and leave are gmp_block_enter and gmp_block_leave (src/wait/blocking.c, whose
 * protocol this is).  hand_off and regain_p are sched_hand_off and sched_regain_p of
 * src/handoff.c, without_p is sched_without_p_g0 of src/sched.c.  rest and the check of Poller are
 * those of src/idle.c, without spinning and timers (wake.pml).
 *
 * Properties
 *   BLOCK-1: one owner of the P            assertion in owns
 *   BLOCK-2: the P names its M             assertion in leave
 *   a green thread runs on one M           assertion in run_green
 *   BLOCK-3: no false deadlock             assertion in Poller
 *   all green threads end                  every end state is valid; ended at the end (init)
 *   HANDOFF-5: an M that runs gets the P   all green threads end: otherwise no M runs the queue
 *
 * Step granularity: an access of the status of the P outside of sched.lock; a read of the global
 * queue there; a section under the lock, since no such section touches a P in blocking code.
 * Memory is sequentially consistent: the status is one word, and the lock orders the rest.
 *
 * Left out: an M that leaves the poller and takes the P (the same step as in regain_p), bound Ms,
 * new Ms (their number is at its limit), the end of a run, several Ps.
 *
 * Models:
 *   src/wait/blocking.c: gmp_block_enter gmp_block_leave leave_slow
 *   src/handoff.c: sched_hand_off sched_regain_p
 *   src/proc.c: p_take_blocked_locked p_idle_locked
 *   src/m.c: p_hand_to_locked m_take_lostp_locked p_take_handed_locked m_unlist_handed_locked
 *   src/sched.c: sched_without_p_g0
 *   src/ready.c: wake_for_queued
 *   src/idle.c: stopm acquirep wait_for_p
 *   src/policy/stall.c: sched_is_stalled
 *   src/monitor/retake.c: retake_blocked_ps
 *
 * Runs: the searches of scripts/model
 *   holds      -DGREENS=2
 *   holds      -DGREENS=3 -DSECTIONS=1
 *   assertion  -DGREENS=2 -DMUTANT_NO_NUMBER
 *   assertion  -DGREENS=2 -DMUTANT_TAKEN_UNCOUNTED
 *   assertion  -DGREENS=2 -DMUTANT_TAKEN_WITHOUT_CAS
 *   assertion  -DGREENS=2 -DMUTANT_COUNTED_TOO_SHORT
 *   assertion  -DGREENS=2 -DMUTANT_COUNTED_TOO_LATE
 *   deadlock   -DGREENS=2 -DMUTANT_NO_WAKE
 *   assertion  -DGREENS=2 -DMUTANT_TAKES_FROM_RUNNING
 *   deadlock   -DGREENS=2 -DMUTANT_LOSTP_KEPT
 */
#define MS 3
#define NONE 255
#ifndef SECTIONS
#define SECTIONS 2 /* of blocking code, each green thread */
#endif

/* struct p: the status, its owner, and the M that it names (p_bind) */
#define IDLE 100
#define RUNNING 101 /* less than MS: the M with that number is in blocking code */
byte status = RUNNING;
byte owner = 0, bound = 0;
#define SYSMON 50

/* struct m */
bool listed[MS];
bool wake[MS];
byte given[MS]; /* nextp, and the list that it is in */
#define WITH_P 1	/* by wakep */
#define HANDED 2	/* by sched_hand_off, until it runs */
#define LOSTP 3	/* the P was taken meanwhile */

/* struct sched, and the queue of the P */
byte runq, gq, nblocked; /* queues are sets: bits */

/* for the properties */
byte left[GREENS]; /* sections to come */
bool running[GREENS];
byte ended;

/* --- the owner of the P --- */

inline owns(me)
{
	assert(owner == NONE);
	owner = me
}

/* Any green thread of a set, or NONE. */
inline dequeue(set)
{
	if
	:: set & 1 -> g = 0
	:: set & 2 -> g = 1
	:: set & 4 -> g = 2
	:: else -> g = NONE
	fi;
	if
	:: g != NONE -> set = set - (1 << g)
	:: else
	fi
}

/* Any sleeping M, or NONE. */
inline midle_get()
{
	if
	:: listed[0] -> w = 0
	:: listed[1] -> w = 1
	:: listed[2] -> w = 2
	:: else -> w = NONE
	fi;
	if
	:: w != NONE -> listed[w] = false
	:: else
	fi
}

/* wake_for_queued, and the last check of stopm: a sleeping M gets an idle P */
inline wake_if_work()
{
	if
	:: gq != 0 && status == IDLE ->
		atomic {
			if
			:: status == IDLE -> midle_get()
			:: else
			fi;
			if
			:: w != NONE ->
				status = RUNNING;
				owns(w);
				given[w] = WITH_P;
				wake[w] = true;
				w = NONE
			:: else
			fi
		}
	:: else
	fi
}

/* --- the M --- */

/* local_work, from_global */
inline find()
{
	atomic { assert(owner == m && status == RUNNING); dequeue(runq) };
	if
	:: g == NONE && gq != 0 -> atomic { dequeue(gq) }
	:: else
	fi
}

/* releasep; with work in the global queue it keeps the P, and finds it */
inline rest()
{
	atomic {
		if
		:: gq == 0 -> owner = NONE; status = IDLE; listed[m] = true; asleep = true
		:: else
		fi
	};
	if
	:: asleep -> wake_if_work()
	:: else
	fi
}

#ifdef MUTANT_NO_NUMBER /* a P that another M is in blocking code with counts as its own */
#define BLOCKED 0
#else
#define BLOCKED m
#endif

/* p_take_blocked_locked: takes the P of any M, as each section may be expected to be long */
#ifdef MUTANT_TAKEN_UNCOUNTED /* only the M that takes the P changes the count */
#define TAKEN(n) n--
#else
#define TAKEN(n)
#endif

/* An M in the given state, or NONE. */
inline find_given(state)
{
	if
	:: given[0] == state -> w = 0
	:: given[1] == state -> w = 1
	:: given[2] == state -> w = 2
	:: else -> w = NONE
	fi
}

/* m_take_lostp_locked: the P of an M that does not run yet; g is queued last there (park_yield) */
inline take_lostp()
{
	find_given(HANDED);
#ifdef MUTANT_TAKES_FROM_RUNNING /* acquirep does not unlink it */
	if
	:: w == NONE && status == RUNNING && owner < MS -> owner = NONE; won = true
	:: else
	fi;
#endif
	if
	:: w != NONE -> given[w] = LOSTP; owner = NONE; w = NONE; won = true
	:: else
	fi;
	if
	:: won ->
		owns(m); bound = m; nblocked--;
		running[g] = false; runq = runq + (1 << g); g = NONE
	:: else
	fi
}

inline regain_p()
{
#ifdef MUTANT_TAKEN_WITHOUT_CAS /* the M may have left its section since its status was read */
	if
	:: status < MS -> steals = true
	:: true
	fi;
	if
	:: steals ->
		atomic { status = RUNNING; owns(m); bound = m; won = true; steals = false }
	:: else
	fi;
#endif
	atomic {
		if
		:: won
		:: !won && status == IDLE ->
			status = RUNNING; owns(m); bound = m; nblocked--; won = true
		:: !won && status < MS ->
			status = RUNNING; owns(m); bound = m; TAKEN(nblocked); won = true
		:: !won && status != IDLE -> take_lostp();
			if
			:: won
			:: else ->
#ifdef MUTANT_COUNTED_TOO_SHORT /* neither counted nor queued until the next section */
				nblocked--
#else
				skip
#endif
			fi
		fi
	}
}

inline without_p()
{
	atomic {
		running[g] = false;
		gq = gq + (1 << g);
		g = NONE;
		listed[m] = true;
#ifndef MUTANT_COUNTED_TOO_SHORT
		nblocked--;
#endif
		asleep = true
	};
#ifndef MUTANT_NO_WAKE /* a P that has become idle since the check stays idle */
	wake_if_work()
#endif
}

/* from step 5 on; then g continues, or is in the queue and its M sleeps */
inline leave()
{
	atomic {
		if
		:: status == BLOCKED -> status = RUNNING; owns(m); assert(bound == m); won = true
		:: else -> won = false
		fi
	};
	if
	:: !won -> regain_p()
	:: else
	fi;
	if
	:: !won -> without_p()
	:: else -> won = false
	fi
}

/* p_idle_locked */
inline p_rest()
{
	gq = gq + runq;
	runq = 0;
	owner = NONE;
	status = IDLE
}

inline hand_off()
{
	atomic {
#ifndef MUTANT_COUNTED_TOO_LATE /* the P is idle, and its green thread is not counted */
		nblocked++;
#endif
		if
		:: (runq | gq) != 0 ->
			find_given(LOSTP); /* it is awake already */
			if
			:: w == NONE ->
				midle_get();
				if
				:: w != NONE -> wake[w] = true
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		if
		:: w != NONE -> owner = w; given[w] = HANDED; w = NONE; won = true
		:: else -> p_rest(); won = false
		fi
	};
#ifdef MUTANT_COUNTED_TOO_LATE
	nblocked++;
#endif
	if
	:: !won -> wake_if_work()
	:: else -> won = false
	fi
}

inline run_green()
{
	atomic { assert(!running[g]); running[g] = true };
	do
	:: g == NONE -> break
	:: g != NONE && left[g] > 0 ->
		if
		:: atomic { /* step 3 */
				left[g]--;
				assert(owner == m);
				owner = NONE;
				status = BLOCKED
			}
		:: atomic { left[g]--; assert(owner == m && status == RUNNING) };
			hand_off() /* step 2 */
		fi;
		leave()
	:: g != NONE && left[g] == 0 -> atomic { running[g] = false; ended++; g = NONE }
	od
}

proctype M(byte m; bool asleep)
{
	byte g = NONE, w = NONE;
	bool won;
#ifdef MUTANT_TAKEN_WITHOUT_CAS
	bool steals;
#endif

	do
	:: asleep -> /* m_sleep, acquirep */
end_asleep:	atomic { wake[m] -> wake[m] = false };
		atomic {
			if
			:: given[m] == LOSTP ->
				listed[m] = true;
#ifndef MUTANT_LOSTP_KEPT /* asleep, it counts as awake */
				given[m] = 0
#endif
			:: else -> assert(owner == m); given[m] = 0; bound = m; asleep = false
			fi
		};
		if
		:: asleep -> wake_if_work()
		:: else
		fi
	:: else ->
		find();
		if
		:: g != NONE -> run_green()
		:: else -> rest()
		fi
	od
}

/* --- sysmon --- */

proctype Sysmon()
{
	byte w = NONE;
	bool won;

end_sysmon:
	do
	:: atomic { status < MS -> status = RUNNING; owns(SYSMON) }; hand_off() /* step 2 */
	:: ended == GREENS -> break
	od
}

/* --- the check for a deadlock --- */

proctype Poller()
{
	/* sched_stalled_locked */
	assert(!(status == IDLE && nblocked == 0 && gq == 0 && ended < GREENS))
}

init
{
	byte k;

	atomic {
		for (k : 0 .. GREENS - 1) {
			left[k] = SECTIONS
		};
		runq = (1 << GREENS) - 1;
		listed[1] = true;
		listed[2] = true;
		run M(0, false);
		run M(1, true);
		run M(2, true);
		run Sysmon();
		run Poller()
	};
	ended == GREENS
}
