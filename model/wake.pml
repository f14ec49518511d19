/* SPDX-License-Identifier: MIT */
/*
 * Model of wakeups of idle Ps: every queued green thread gets an idle P, although Ms are about to
 * sleep or to stop spinning.
 *
 * Processes: Ps, and as many Ms.
 *   M         an M without work: checks the queues, spins, stops, as in find_runnable_g0
 *   Submitter with -DRING: M 0 runs a green thread that puts others into the ring of P 0, and then
 *             computes without returning to the scheduler
 *   External  with -DGLOBAL: an external thread that puts green threads into the global queue, at
 *             once or one by one (submit_external, sched_submit_list)
 *   Drain     store buffers drain
 *
 * The green threads compute until as many run at once as there are, so each needs a P of its own,
 * and no other event makes up for a lost wakeup.  Sysmon, which would repair one after a
 * millisecond, is left out.
 *
 * Property (IDLE-1)
 *   if a green thread is in a ring or in the global queue and a P is idle, an M spins, or has been
 *   woken, or the submitter is about to wake one: all run in the end (every end state is valid)
 *   M-1: an idle P has a sleeping M (midle_get); nmspinning never drops below 0: assertions
 *
 * Step granularity: one access of a ring, of gqn, npidle or nmspinning.  Rings are numbers: the
 * order and the races of the consumers are the subject of runq.pml.  The tail of a ring is
 * published by a plain store, which may stay in the store buffer (`buffered`, for the one ring that
 * a submitter fills) while the thread reads other words from memory.  Locked instructions and full
 * fences of the same thread drain the buffer, and so does the membarrier of another.  gqn and
 * unlock of External may wait likewise (`under_way`); no membarrier may be assumed there, since if
 * all Ps are idle there is none.  All other stores of the protocol are locked instructions, or
 * followed by one before the thread reads any word of it.
 *
 * Left out: runnext and small lists of timers and poller (by design they wake no M, or only after a
 * while), the wait in the poller (poller.pml; that M sleeps like the others here), new Ms (all
 * exist), bound Ms, resizing, the end of a run.
 *
 * Models:
 *   src/ready.h: wake_if_idle has_work
 *   src/ready.c: wakep has_work_except submit_external sched_submit sched_submit_list
 *   src/idle.c: stopm releasep recheck_work wait_for_p acquirep
 *   src/sched.c: find_runnable_g0
 *   src/pick.h: local_work
 *   src/pick.c: from_global steal_work may_spin
 *   src/proc.c: pidle_get pidle_put
 *   src/m.c: midle_get midle_put midle_del m_wake m_sleep
 *   ORD: idle
 *   without: external (of the end of a run, which is left out)
 *
 * Runs: the searches of scripts/model
 *   holds      -DRING -DPROCS=3
 *   holds      -DGLOBAL -DPROCS=2
 *   deadlock   -DRING -DPROCS=3 -DMUTANT_LIGHT_ONLY
 *   deadlock   -DRING -DPROCS=3 -DMUTANT_NO_HEAVY_FENCE
 *   deadlock   -DRING -DPROCS=3 -DMUTANT_NO_RECHECK
 *   deadlock   -DRING -DPROCS=3 -DMUTANT_CHECKS_TOO_EARLY
 *   deadlock   -DRING -DPROCS=3 -DMUTANT_FINDER_WAKES_NONE
 *   deadlock   -DRING -DPROCS=3 -DMUTANT_WAKE_FIRST
 *   deadlock   -DGLOBAL -DPROCS=2 -DMUTANT_NO_EXTERNAL_FENCE
 *   deadlock   -DGLOBAL -DPROCS=2 -DMUTANT_QUIET_RISE
 *   deadlock   -DGLOBAL -DPROCS=2 -DMUTANT_NO_RECHECK
 */
#define NONE 255
#ifdef RING
#define GREENS (PROCS - 1) /* without the submitter */
#else
#define GREENS PROCS
#endif

/* struct p */
byte ring[PROCS];
bool buffered; /* one more in ring[0], in the store buffer of M 0 */
byte under_way; /* so many more in gqn, and the unlock after it, in the store buffer of External */
bool idle[PROCS];
/* struct m */
bool listed[PROCS], woken[PROCS], spinning[PROCS];
byte nextp[PROCS];
/* struct sched */
bool locked;
byte gqn, npidle, nmspinning;

byte begun; /* green threads that run */

inline take_lock()
{
	atomic { !locked -> locked = true }
}

inline drop_lock()
{
	locked = false
}

inline empty_buffer()
{
	atomic { ring[0] = ring[0] + buffered; buffered = false }
}

/* The count, then the lock. */
inline empty_external()
{
	atomic {
		if
		:: under_way > 0 -> gqn = gqn + under_way; under_way = 0; locked = false
		:: else
		fi
	}
}

/* --- waking --- */

/* src/proc.c, under sched.lock: any P. */
inline pidle_get(p)
{
	atomic {
		if
		:: idle[0] -> p = 0
		:: idle[1] -> p = 1
#if PROCS > 2
		:: idle[2] -> p = 2
#endif
		:: else -> p = NONE
		fi;
		if
		:: p != NONE -> idle[p] = false; npidle--
		:: else
		fi
	}
}

inline midle_get(w)
{
	atomic {
		if
		:: listed[0] -> w = 0
		:: listed[1] -> w = 1
#if PROCS > 2
		:: listed[2] -> w = 2
#endif
		fi; /* M-1: there is one */
		listed[w] = false
	}
}

/* owner: the store buffer is the caller's, and its locked instructions drain it */
inline wakep(owner)
{
	if
	:: npidle == 0
	:: else ->
		atomic {
			if
			:: nmspinning == 0 -> go = true
			:: else -> go = false
			fi
		};
		if
		:: go ->
			atomic {
				if
				:: nmspinning == 0 -> nmspinning = 1
				:: else -> go = false
				fi;
				if
				:: owner && go -> empty_buffer(); empty_external()
				:: else
				fi
			}
		:: else
		fi;
		if
		:: go ->
			take_lock();
			pidle_get(p2);
			if
			:: p2 != NONE ->
				midle_get(m2);
				atomic { nextp[m2] = p2; spinning[m2] = true };
				drop_lock();
				woken[m2] = true
			:: else ->
				drop_lock();
				atomic { assert(nmspinning > 0); nmspinning-- }
			fi;
			go = false
		:: else
		fi
	fi
}

/* src/idle.h; the light fence is no instruction */
inline wake_if_idle(owner)
{
	if
	:: npidle == 0
	:: else ->
#ifndef MUTANT_LIGHT_ONLY /* ORD(idle): without a heavy fence, a spinning M misses a store */
		if
		:: owner -> empty_buffer()
		:: else
		fi;
#endif
		if
		:: nmspinning == 0 -> wakep(owner)
		:: else
		fi
	fi
}

/* --- finding work --- */

/* local_work, of an M that has P p */
inline local_work()
{
	atomic {
		if
		:: ring[p] > 0 -> ring[p]--; got = true
		:: else
		fi
	}
}

/* from_global with gq_get: a share to the ring, then gqn */
inline from_global()
{
	if
	:: gqn == 0
	:: else ->
		take_lock();
		if
		:: gqn > 0 ->
			n = gqn / PROCS + 1;
			ring[p] = ring[p] + n - 1;
			atomic { gqn = gqn - n; got = true; n = 0 };
			drop_lock()
		:: else -> drop_lock()
		fi
	fi
}

/* runq_steal: half of a ring; meanwhile no other thread can see these green threads */
inline steal(victim)
{
	atomic {
		if
		:: !got && victim != p && ring[victim] > 0 ->
			n = ring[victim] - ring[victim] / 2;
			ring[victim] = ring[victim] - n;
			got = true
		:: else
		fi
	};
	if
	:: n > 1 -> atomic { ring[p] = ring[p] + n - 1; n = 0 }
	:: else -> n = 0
	fi
}

/* steal_work; the number of attempts is arbitrary */
inline spin()
{
	if
	:: !spinning[m] -> atomic { spinning[m] = true; nmspinning++ }
	:: else
	fi;
	do
	:: steal(0);
		steal(1);
#if PROCS > 2
		steal(2);
#endif
		if
		:: !got -> from_global()
		:: else
		fi;
		if
		:: !got -> local_work()
		:: else
		fi;
		if
		:: got -> break
		:: else
			if
			:: break
			:: skip
			fi
		fi
	od
}

inline has_work()
{
	seen = gqn > 0;
	if
	:: !seen -> seen = ring[0] > 0
	:: else
	fi;
	if
	:: !seen -> seen = ring[1] > 0
	:: else
	fi
#if PROCS > 2
	;
	if
	:: !seen -> seen = ring[2] > 0
	:: else
	fi
#endif
}

/* --- sleeping --- */

/* stopm: releasep, the fence, recheck_work, wait_for_p.  Afterwards it has a P again. */
inline rest()
{
#ifdef MUTANT_CHECKS_TOO_EARLY /* the submitter sees no idle P after it, the M no work before */
	has_work();
	took = seen;
#endif
	take_lock();
	if
	:: gqn > 0 -> drop_lock()
	:: else ->
		spun = spinning[m];
		atomic { spinning[m] = false; idle[p] = true };
		npidle++;
		listed[m] = true;
		drop_lock();
		if
		:: spun -> atomic { assert(nmspinning > 0); nmspinning-- }
		:: else
		fi;
#ifndef MUTANT_NO_HEAVY_FENCE /* no fence makes up for the light one */
		empty_buffer();
#endif
#if defined(MUTANT_NO_RECHECK) /* a submitter that saw it spin has left the work to it */
		seen = false;
#elif defined(MUTANT_CHECKS_TOO_EARLY)
		seen = took;
#else
		has_work();
#endif
		took = false;
		if
		:: seen ->
			take_lock();
			if
			:: listed[m] ->
				listed[m] = false;
				pidle_get(p);
				if
				:: p != NONE -> took = true
				:: else -> listed[m] = true
				fi
			:: else
			fi;
#ifndef MUTANT_QUIET_RISE /* it does not check for more work after it has found some */
			if
			:: took -> atomic { spinning[m] = true; nmspinning++ }
			:: else
			fi;
#endif
			drop_lock()
		:: else
		fi;
		if
		:: took
		:: else ->
			/* m_sleep, acquirep */
			p = NONE;
end_asleep:		atomic { woken[m] -> woken[m] = false };
			take_lock();
			atomic {
				assert(nextp[m] != NONE && spinning[m]);
				p = nextp[m];
				nextp[m] = NONE
			};
			drop_lock()
		fi;
		atomic { took = false; seen = false; spun = false }
	fi
}

/* --- the processes --- */

/* A green thread runs, until all do. */
inline run_one()
{
	begun++;
	begun == GREENS
}

proctype M(byte m; byte p)
{
	byte n, p2, m2;
	bool got, seen, spun, took, go;

	/* find_runnable_g0 */
	do
	:: local_work();
		if
		:: !got -> from_global()
		:: else
		fi;
		if
		:: !got ->
			if
			/* may_spin */
			:: spinning[m] || 2 * nmspinning < PROCS - npidle -> spin()
			:: else
			fi
		:: else
		fi;
		if
		:: got ->
			got = false;
			if
			:: spinning[m] ->
				atomic {
					spinning[m] = false;
					assert(nmspinning > 0);
					nmspinning--
				};
				has_work();
#ifndef MUTANT_FINDER_WAKES_NONE /* a burst wakes one M, which wakes no other */
				if
				:: seen -> wake_if_idle(false)
				:: else
				fi;
#endif
				seen = false
			:: else
			fi;
			run_one()
		:: else -> rest()
		fi
	od
}

#ifdef RING
/* sched_submit; it keeps its P */
proctype Submitter()
{
	byte i, p2, m2;
	bool go;

	do
	:: i == GREENS -> break
	:: else ->
#ifdef MUTANT_WAKE_FIRST /* the woken M may have checked before the work is queued */
		wake_if_idle(true);
		atomic { empty_buffer(); buffered = true };
#else
		atomic { empty_buffer(); buffered = true };
		wake_if_idle(true);
#endif
		i++
	od
}
#else
proctype External()
{
	byte i, k, p2, m2;
	bool go;

	do
	:: i == GREENS -> break
	:: else ->
		/* from one to all */
		k = 1;
		do
		:: i + k < GREENS -> k++
		:: break
		od;
		take_lock();
		under_way = k;
#ifndef MUTANT_NO_EXTERNAL_FENCE /* ORD(idle): an M that stops misses what is under way */
		empty_external();
#endif
		wakep(true);
		empty_external(); /* the next lock drains it at the latest */
		atomic { i = i + k; k = 0 }
	od
}
#endif

active proctype Drain()
{
end:	do
	:: atomic { buffered -> empty_buffer() }
	:: atomic { under_way > 0 -> empty_external() }
	od
}

init {
	atomic {
		nextp[0] = NONE;
		nextp[1] = NONE;
#if PROCS > 2
		nextp[2] = NONE;
		run M(2, 2);
#endif
#ifdef RING
		run Submitter();
#else
		run External();
		run M(0, 0);
#endif
		run M(1, 1)
	};
	begun == GREENS
}
