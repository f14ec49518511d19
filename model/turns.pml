/* SPDX-License-Identifier: MIT */
/*
 * Model of the turns of the second lane (PICK-4): a P runs Gs that an event made runnable before Gs
 * that have yielded, and neither kind waits for longer than its bound.
 *
 * Sequential, in discrete time.  One process is the P: it picks a G, which runs for one of the
 * times of RUNS; meanwhile Gs may arrive in both lanes.  The lanes are a bit each, set if a G
 * waits, since the accounting does not depend on how many.  An interval has 2 runs at most instead
 * of GLOBAL_INTERVAL.  All times are multiples of 4, so that all divisions are exact.
 *
 * The runs differ in
 *   EVENTS  checks the bounds of the first lane
 *   YIELDS  checks the bounds of the second lane
 *   LONG    runs so long that an interval may exceed what OWED_MAX makes up for
 *
 * Properties
 *   PICK-4: a turn lasts for OWED_MAX and its last run at most       assertion in end_turn
 *   PICK-4: while an event waits, the second lane has at most OWED_MAX, two runs (which are under
 *   way when the event arrives, and at the end of a turn), a quarter of the time of the events, and
 *   one run for each CHECK_TICKS of it, which is not charged if the lane is then empty
 *                                                                    assertion in pass, EVENTS
 *   PICK-4: while a G of the second lane waits, time passes at most at SHARE times the runs of its
 *   lane, plus four times what the lane has had in advance, plus two intervals
 *                                                                    assertion in pass, YIELDS
 *   The same without the advance if a check has found the lane empty, for the first G of the lane
 *                                                                    assertion in pass, YIELDS
 *
 * Left out: the global queue and rounds (runq.pml); thieves, which count as runs of the P; timers
 * and pinned Gs; a P that loses its M during a turn.
 *
 * Models:
 *   src/pick.c: begin_interval pick_begin yielded_wait owe set_pace end_interval end_turn take_turn
 *   src/sched.c: own_work attend_g0
 *
 * Runs: the searches of scripts/model
 *   holds      -DEVENTS
 *   holds      -DEVENTS -DLONG
 *   holds      -DYIELDS
 *   assertion  -DYIELDS -DMUTANT_NO_TURN
 *   assertion  -DYIELDS -DMUTANT_NO_BEGIN
 *   assertion  -DYIELDS -DMUTANT_NO_LEAST
 *   assertion  -DYIELDS -DMUTANT_NO_RESET
 *   assertion  -DYIELDS -DMUTANT_COUNTED_TWICE
 *   assertion  -DYIELDS -DMUTANT_DROPPED
 *   assertion  -DEVENTS -DMUTANT_NO_END
 *   assertion  -DEVENTS -DMUTANT_FORGOTTEN
 *   assertion  -DEVENTS -DLONG -DMUTANT_NO_MOST
 */

/* --- constants, as in the code --- */

#define CHECK 16 /* CHECK_TICKS */
#define SLICE (2 * CHECK)
#define YIELD_SHARE 4
#define DUE (CHECK / YIELD_SHARE) /* a P that owes so much begins a turn */
#define OWED_MAX SLICE
#define LEAST (-SLICE) /* less than in the code, for a smaller search */
#ifdef MUTANT_NO_LEAST /* the lane pays for all that it had alone; finite: the search ends */
#define OWED_MIN (8 * LEAST)
#else
#define OWED_MIN LEAST
#endif
#define INTERVAL 2 /* GLOBAL_INTERVAL */

/* Lengths of a run. */
#define SHORT 4
#ifdef LONG
#define LONGEST 80
#else
#define LONGEST 28
#endif

/* --- bounds --- */

/* An interval of the longest runs; SHARE holds only if it accrues less than OWED_MAX - DUE. */
#define INTERVAL_MAX (INTERVAL * LONGEST)

/* For a time t of the events the second lane is owed t / 4, so it has a fifth of the time. */
#define SHARE 5
#define YIELDS_WAIT (YIELD_SHARE * (DUE - LEAST) + 2 * INTERVAL_MAX + LONGEST)
#define FIRST_WAIT (YIELD_SHARE * DUE + INTERVAL_MAX + LONGEST)

/* Four times what the second lane may have for a time t of events: t / 4, and the last runs of
 * turns, which it does not pay for if a check finds the lane empty.  The next turn is then due
 * after CHECK, so there is one such run for each CHECK of the events at most. */
#define PRICE (1 + YIELD_SHARE * LONGEST / CHECK)
#define EVENTS_WAIT (OWED_MAX + 2 * LONGEST)

/* --- the P --- */

bool first;   /* the first ring holds a G */
bool second;  /* the second ring does */
bool turn;    /* ATTENTION_YIELDED */
bool began;   /* turns.began is not 0 */
short owed;   /* turns.owed */
short left;   /* turns.end - now */
short lasts;  /* now - turns.began */
short used;   /* now - turns.since */
byte runs;    /* count.switches - turns.from */
byte ran;     /* the same, and at least 1 */
byte theirs;  /* yieldhead - turns.head */
byte every = INTERVAL; /* turns.every */

/* For the assertions. */
short waited; /* EVENTS: by an event, four times; YIELDS: by a G of the second lane */
bool fresh;   /* a check has found no G in the second lane, and none has run since */
bool is_second; /* the G that runs is of the second lane */
bool none;  /* no G runs */
byte length;

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

inline begin_interval()
{
	used = 0;
	runs = 0;
	theirs = 0
}

inline owe(n)
{
	owed = owed + used / YIELD_SHARE - used / n * MIN(theirs, n);
#ifndef MUTANT_NO_MOST /* a turn has no bound */
	owed = MIN(owed, OWED_MAX);
#endif
	owed = MAX(owed, OWED_MIN);
#ifndef MUTANT_NO_TURN /* the second lane starves */
	if
	:: owed >= DUE && !turn ->
#ifndef MUTANT_NO_BEGIN /* a turn begins at the time of an earlier one, and has ended */
		began = false;
#endif
		turn = true
	:: else
	fi
#endif
}

inline set_pace(each)
{
	every = MIN(CHECK / ((each) + 1), INTERVAL);
	every = MAX(every, 1)
}

inline end_interval()
{
	ran = MAX(runs, 1);
	if
	:: used > CHECK || every < INTERVAL -> set_pace(used / ran)
	:: else
	fi;
	if
	:: second -> owe(ran)
	:: else ->
#ifndef MUTANT_NO_RESET /* a new G of the lane pays for former ones */
		owed = 0;
#endif
		fresh = true
	fi;
	ran = 0;
	begin_interval()
}

inline end_turn()
{
	assert(lasts < OWED_MAX + LONGEST);
#ifndef MUTANT_FORGOTTEN /* the lane has turn after turn, and the events starve */
	owed = owed - lasts;
#endif
#ifndef MUTANT_COUNTED_TWICE /* the lane pays twice */
	begin_interval()
#endif
}

/* In none, whether it is over. */
inline take_turn()
{
	if
	:: !began ->
#ifdef MUTANT_DROPPED /* the run between a check and the turn counts for nothing */
		begin_interval();
#else
		end_interval();
#endif
		began = true;
		lasts = 0;
		left = MAX(owed, 1)
	:: else
	fi;
	if
#ifdef MUTANT_NO_END /* the events starve */
	:: second -> is_second = true; none = false
#else
	:: left > 0 && second -> is_second = true; none = false
#endif
	:: else -> turn = false; end_turn(); left = 0; lasts = 0; none = true
	fi
}

/* runq_get and runq_get_yielded. */
inline local_work()
{
	if
	:: first -> is_second = false; none = false
	:: !first && second -> is_second = true; none = false
	:: else -> none = true
	fi
}

/* The G is taken; it may be the last of its lane. */
inline take()
{
	runs++;
	if
	:: is_second -> theirs++; fresh = false;
		if
		:: true -> second = false
		:: true
		fi
	:: else ->
		if
		:: true -> first = false
		:: true
		fi
	fi
}

/* Time passes, and Gs arrive: as early as possible, so they wait for all of it. */
inline pass()
{
	if
	:: length = SHORT
	:: length = LONGEST
	fi;
	if
	:: first = true
	:: true
	fi;
	if
	:: second = true
	:: true
	fi;
	used = used + length;
	if
	:: turn && began -> lasts = lasts + length; left = left - length
	:: else
	fi;
	/* the longest wait over all moments at which it may have begun */
#ifdef EVENTS
	if
	:: !first -> waited = 0
	:: first && is_second -> waited = waited + YIELD_SHARE * length
	:: else -> waited = MAX(waited - PRICE * length, 0)
	fi;
	assert(waited <= YIELD_SHARE * EVENTS_WAIT);
#endif
#ifdef YIELDS
	if
	:: !second -> waited = 0
	:: second && is_second ->
		/* outside of turns all runs count as equally long */
		waited = MAX(waited + length - SHARE * (turn && began -> length : LONGEST), 0)
	:: else -> waited = waited + length
	fi;
	assert(waited <= YIELDS_WAIT);
	assert(!fresh || waited <= FIRST_WAIT);
#endif
	length = 0
}

active proctype P()
{
end:	do
	:: d_step {
			none = true;
			if
			:: turn -> take_turn()
			:: else
			fi
		};
		/* ATTENTION_TURN, or a check that is due; after a turn only the former */
		if
		:: none ->
			if
			:: runs >= every -> d_step { end_interval() }
			:: d_step { runs < every -> end_interval() }
			:: runs < every
			fi;
			d_step { local_work() }
		:: else
		fi;
		atomic {
			if
			:: !none -> take(); pass()
			:: else ->
				/* the M searches, or another one acquires the P */
				if
				:: begin_interval()
				:: used = used + SHORT
				fi;
				if
				:: first = true
				:: second = true
				fi
			fi;
			is_second = false;
			none = false
		}
	od
}
