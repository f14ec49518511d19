/* SPDX-License-Identifier: MIT */
/*
 * Model of the quanta of the yield lane (PICK-4): a P runs Gs that an event made runnable before
 * Gs that have yielded, and neither kind waits for longer than its bound.
 *
 * Sequential, in discrete time.  One process is the P: it picks a G, which runs for one of the
 * times of RUNS; meanwhile Gs may arrive in both lanes.  The lanes are a bit each, set if a G
 * waits, since the accounting does not depend on how many.  An interval has 2 runs at most instead
 * of GLOBAL_INTERVAL.  All times are multiples of 4, so that all divisions are exact.
 *
 * The runs differ in
 *   EVENTS  checks the bounds of the other lanes
 *   FULL    with EVENTS: the yield lane never becomes empty
 *   YIELDS  checks the bounds of the yield lane; a G of a quantum may block, and another M
 *           acquires the P
 *   LONG    with EVENTS: runs so long that an interval may exceed what CREDIT_MAX makes up for;
 *           with YIELDS: runs of the yield lane so long that CREDIT_MIN limits what they cost
 *
 * Properties
 *   PICK-4: a quantum lasts for CREDIT_MAX and its last run at most  assertion in end_quantum
 *   PICK-5: while events wait for a time t in which they run, the yield lane has at most
 *   CREDIT_MAX, two runs (the first is under way when the event arrives, the other ends a quantum),
 *   and t / 3                                                  assertion in pass, EVENTS FULL
 *   If the lane may become empty: also a run for each CHECK_TICKS of t
 *                                                              assertion in pass, EVENTS
 *   PICK-5: a G of the yield lane that arrives after a check has found the lane empty waits for at
 *   most four times the runs of its lane, plus CHECK_TICKS, an interval of events, and one more run
 *                                                              assertion in pass, YIELDS
 *   Any other: the same, plus a second interval, plus three times the overrun of the last quantum,
 *   at most -4 * CREDIT_MIN                                    assertion in pass, YIELDS
 *
 * Outside of quanta all runs of an interval count as equally long.  The yield lane has its share
 * only if an interval of events accrues less than CREDIT_MAX - DUE, so the runs of events in YIELDS
 * are short enough.
 *
 * Left out: the wait for the Gs that are new when a quantum becomes due, and that
 * each G runs once in a quantum; the global queue and rounds (runq.pml); thieves, which count as
 * runs of the P; timers and pinned Gs; that an interval has at most twice the switches of the last
 * one, which makes intervals shorter.
 *
 * Models:
 *   src/pick.c: begin_interval pick_begin yielded_wait add_credit set_pace use_credit
 *   src/pick.c: end_interval end_quantum quantum_next
 *   src/sched.c: own_work attend_g0
 *
 * Runs: the searches of scripts/model
 *   holds      -DEVENTS
 *   holds      -DEVENTS -DFULL
 *   holds      -DEVENTS -DLONG
 *   holds      -DYIELDS
 *   holds      -DYIELDS -DLONG
 *   assertion  -DYIELDS -DMUTANT_NO_QUANTUM
 *   assertion  -DYIELDS -DMUTANT_NO_BEGIN
 *   assertion  -DYIELDS -DMUTANT_NO_LEAST
 *   assertion  -DYIELDS -DLONG -DMUTANT_NO_MIN
 *   assertion  -DYIELDS -DMUTANT_NO_RESET
 *   assertion  -DYIELDS -DMUTANT_ALL_CHARGED
 *   assertion  -DYIELDS -DMUTANT_COUNTED_TWICE
 *   assertion  -DYIELDS -DMUTANT_DROPPED
 *   assertion  -DEVENTS -DMUTANT_AGAIN
 *   assertion  -DEVENTS -DMUTANT_NO_END
 *   assertion  -DEVENTS -DMUTANT_FORGOTTEN
 *   assertion  -DEVENTS -DFULL -DMUTANT_FORGIVEN
 *   assertion  -DEVENTS -DLONG -DMUTANT_NO_MOST
 */

/* --- constants, as in the code --- */

#define CHECK 16 /* CHECK_TICKS */
#define SLICE (2 * CHECK)
#define YIELD_SHARE 4
#define DUE (CHECK / YIELD_SHARE) /* with so much credit, a quantum is due */
#define CREDIT_MAX SLICE /* QUANTUM_TICKS */
#define CREDIT_MIN (-5 * SLICE) /* -DEFICIT_TICKS */
#define INTERVAL 2 /* GLOBAL_INTERVAL */

/* Lengths of a run. */
#define SHORT 4
#define EVENT_LONGEST 28
#define LONGEST 28
#ifdef LONG
#undef LONGEST
#ifdef EVENTS
#undef EVENT_LONGEST
#define EVENT_LONGEST 80
#define LONGEST 80
#else
#define LONGEST 268
#endif
#endif

/* --- bounds --- */

/* The longest interval in which the yield lane has no run. */
#define INTERVAL_MAX (INTERVAL * EVENT_LONGEST)

/* Three quarters of an overrun are charged, and a quarter of the time is added. */
#define OVERRUN_MAX MIN((YIELD_SHARE - 1) * LONGEST, -YIELD_SHARE * CREDIT_MIN)
#define FIRST_WAIT (YIELD_SHARE * DUE + INTERVAL_MAX + EVENT_LONGEST)
#define YIELDS_WAIT (FIRST_WAIT + OVERRUN_MAX + INTERVAL_MAX)

/* Three times what the yield lane may have for a time t of events: t / 3.  If a check finds the
 * lane empty, the last run of a quantum costs nothing.  The next quantum is then due after CHECK,
 * so there is one such run for each CHECK of the events at most. */
#ifdef FULL
#define PRICE 1
#else
#define PRICE (1 + (YIELD_SHARE - 1) * LONGEST / CHECK)
#endif
#define EVENTS_WAIT (CREDIT_MAX + 2 * LONGEST)

/* --- the P --- */

bool first;   /* a lane of events or new Gs holds a G */
bool second;  /* the yield lane does */
bool quantum; /* ATTENTION_YIELDED */
bool began;   /* drr.began is not 0 */
short credit; /* drr.credit */
short least;  /* in add_credit */
short left;   /* drr.end - now */
short lasts;  /* now - drr.began */
short used;   /* now - drr.since */
byte runs;    /* count.switches - drr.from */
byte ran;     /* the same, and at least 1 */
byte theirs;  /* yieldhead - drr.head */
byte every = INTERVAL; /* drr.every */

/* For the assertions. */
short waited; /* EVENTS: by an event, three times; YIELDS: by a G of the yield lane */
bool fresh;   /* a check has found no G in the yield lane, and none has run since */
bool is_second; /* the G that runs is of the yield lane */
bool none;  /* no G runs */
short length;

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

inline begin_interval()
{
	used = 0;
	runs = 0;
	theirs = 0
}

inline use_credit(time)
{
#ifdef MUTANT_ALL_CHARGED /* the lane has a fifth of the time */
	credit = credit - (time);
#else
	credit = credit - ((time) - (time) / YIELD_SHARE);
#endif
#ifndef MUTANT_NO_MIN /* a long run costs more than CREDIT_MIN */
	credit = MAX(credit, CREDIT_MIN)
#endif
}

inline pick_begin()
{
	if
	:: quantum ->
#ifndef MUTANT_AGAIN /* each M begins the quantum again, with all of the credit */
		use_credit(lasts);
#endif
		began = false;
		lasts = 0;
		left = 0;
		if
		:: credit < DUE -> quantum = false
		:: else
		fi
	:: !quantum && runs > 0 && second -> add_credit(runs)
	:: else
	fi;
	begin_interval()
}

inline add_credit(n)
{
#if defined(MUTANT_NO_LEAST) /* the time that the lane had alone costs credit */
	least = CREDIT_MIN;
#elif defined(MUTANT_FORGIVEN) /* an overrun costs no credit */
	least = 0;
#else
	least = MIN(credit, 0);
#endif
	credit = credit + used / YIELD_SHARE - used / n * MIN(theirs, n);
#ifndef MUTANT_NO_MOST /* a quantum has no bound */
	credit = MIN(credit, CREDIT_MAX);
#endif
	credit = MAX(credit, least);
	least = 0;
#ifndef MUTANT_NO_QUANTUM /* the yield lane starves */
	if
	:: credit >= DUE && !quantum ->
#ifndef MUTANT_NO_BEGIN /* a quantum begins at the time of an earlier one, and has ended */
		began = false;
#endif
		quantum = true
	:: else
	fi
#endif
}

inline set_pace(each)
{
	every = MIN(CHECK / ((each) + 1), INTERVAL);
	every = MAX(every, 1)
}

inline end_interval(whole)
{
	ran = MAX(runs, 1);
	if
	:: whole && (used > CHECK || every < INTERVAL) -> set_pace(used / ran)
	:: else
	fi;
	if
	:: second -> add_credit(ran)
	:: else ->
#ifndef MUTANT_NO_RESET /* credit outlasts the Gs of the lane */
		credit = 0;
#endif
		fresh = true
	fi;
	ran = 0;
	begin_interval()
}

inline end_quantum()
{
	assert(lasts < CREDIT_MAX + LONGEST);
#ifndef MUTANT_FORGOTTEN /* the lane has quantum after quantum, and the events starve */
	use_credit(lasts);
#endif
#ifndef MUTANT_COUNTED_TWICE /* a quantum costs credit twice */
	begin_interval()
#endif
}

/* In none, whether it is over. */
inline quantum_next()
{
	if
	:: !began ->
#ifdef MUTANT_DROPPED /* the run between a check and the quantum counts for nothing */
		begin_interval();
#else
		end_interval(false);
#endif
		began = true;
		lasts = 0;
		left = MAX(credit, 1)
	:: else
	fi;
	if
#ifdef MUTANT_NO_END /* the events starve */
	:: second -> is_second = true; none = false
#else
	:: left > 0 && second -> is_second = true; none = false
#endif
	:: else -> quantum = false; end_quantum(); left = 0; lasts = 0; none = true
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
#ifndef FULL
		:: true -> second = false
#endif
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
	:: length = (is_second -> LONGEST : EVENT_LONGEST)
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
	:: quantum && began -> lasts = lasts + length; left = left - length
	:: else
	fi;
	/* the longest wait over all moments at which it may have begun */
#ifdef EVENTS
	if
	:: !first -> waited = 0
	:: first && is_second -> waited = waited + (YIELD_SHARE - 1) * length
	:: else -> waited = MAX(waited - PRICE * length, 0)
	fi;
	assert(waited <= (YIELD_SHARE - 1) * EVENTS_WAIT);
#endif
#ifdef YIELDS
	if
	:: !second -> waited = 0
	:: second && is_second ->
		/* outside of quanta all runs count as equally long */
		waited = MAX(waited + length -
			     YIELD_SHARE * (quantum && began -> length : LONGEST), 0)
	:: else -> waited = waited + length
	fi;
	assert(waited <= YIELDS_WAIT);
	assert(!fresh || waited <= FIRST_WAIT);
#endif
	if
	:: quantum && began -> pick_begin() /* the G blocks, and another M acquires the P */
	:: true
	fi;
	length = 0
}

active proctype P()
{
end:	do
	:: d_step {
			none = true;
			if
			:: quantum -> quantum_next()
			:: else
			fi
		};
		/* ATTENTION_CHECK, or a check that is due; after a quantum only the former */
		if
		:: none ->
			if
			:: runs >= every -> d_step { end_interval(true) }
			:: d_step { runs < every -> end_interval(true) }
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
				:: pick_begin()
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
