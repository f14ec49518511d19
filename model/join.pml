/* SPDX-License-Identifier: MIT */
/*
 * Model of join and detach: the end of a green thread reaches its joiner, and its g struct is freed
 * once, when no other thread uses it.
 *
 * Processes
 *   Target   a green thread that ends, and g0 after it
 *   Joiner   joins it with a deadline; after a timeout it joins again, or does nothing
 *   Timer    the deadline: it passes at any time during a wait, or never
 *   Second   with -DSECOND: another joiner, at the same time; then neither tries again, and the
 *            target ends after both have called join
 *   Last     detaches the target when all joiners have returned and none has its result
 *
 * Abstractions: join, unwait, exited and detach are join_until, join_unwait, green_exited and
 * gmp_detach (src/wait/join.c).  The bucket is one of src/wait/parkinglot.c.  The wait is that of
 * src/park.h, whose steps and memory orders park.pml models: here it is armed when the bucket is
 * unlocked.
 *
 * Properties
 *   JOIN-1: one result for each joiner, and each wait ends   every end state is valid
 *   a joiner gets the result after the end                   assertion in joined
 *   JOIN-2: freed once, by the last user                     assertions in give_back, in_use, init
 *
 * Step granularity: a read of join without the lock; a section under the bucket lock; a claim;
 * making ready.  Memory is sequentially consistent: the bucket lock orders all but the one unlocked
 * read.
 *
 * Left out: use of a handle that is gone (misuse), cancellation (ends the wait as the deadline
 * does), external threads (park.pml), the end of a run.
 *
 * Models:
 *   src/wait/join.c: wake_joiner green_exited join_until join_wait join_unwait gmp_detach
 *   src/sched.c: sched_exit_g0
 *   src/g.c: g_free
 *   without: g.life (of readers of other g structs: dumps)
 *
 * Runs: the searches of scripts/model
 *   holds      -DALONE
 *   holds      -DSECOND
 *   assertion  -DMUTANT_NO_RECHECK
 *   assertion  -DMUTANT_ON_ITS_STACK
 *   assertion  -DMUTANT_READY_EARLY
 *   assertion  -DMUTANT_CLAIM_IGNORED
 *   assertion  -DMUTANT_STILL_JOINED
 *   assertion  -DMUTANT_BLIND_UNWAIT
 *   assertion  -DMUTANT_JOIN_IN_TWO
 *   assertion  -DMUTANT_DETACH_LEAKS
 *   assertion  -DMUTANT_STAYS_DONE
 *   deadlock   -DSECOND -DMUTANT_TWO_JOINERS
 */
#ifdef SECOND
#define JOINERS 2
#else
#define JOINERS 1
#endif
#define JOINER 0
#define SECOND_ONE 1
#define NONE 255

/* enum joinstate */
#define DETACHED 0
#define JOINABLE 1
#define JOINED 2
#define DONE 3
byte join = JOINABLE;

/* results */
#define OK 0
#define ETIMEDOUT 1
#define EINVAL 2

/* the waiters */
bool armed[2], woken[2], queued[2];
byte result[2];

/* the bucket */
bool locked;

bool on_stack = true, over; /* the target: its stack is in use; it has ended */
byte given_back;
byte tried, returned, had; /* joins begun; joiners that are back; results 0 */

inline take_lock()
{
	atomic { !locked -> locked = true }
}

inline drop_lock()
{
	locked = false
}

/* The caller reads or writes the g struct. */
inline in_use()
{
	assert(given_back == 0)
}

/* g_free */
inline give_back()
{
	atomic { in_use(); assert(!on_stack); given_back++ }
}

inline joined()
{
	atomic { assert(over); had++ }
}

inline make_ready(id)
{
	atomic { assert(!woken[id]); woken[id] = true }
}

/* --- the target --- */

/* wake_joiner: the woken joiner, in w.  One sudog is queued; with MUTANT_TWO_JOINERS two. */
inline wake_first()
{
	do
	:: atomic {
			if
			:: queued[JOINER] -> w = JOINER
			:: else ->
				if
				:: queued[SECOND_ONE] -> w = SECOND_ONE
				:: else -> w = NONE
				fi
			fi
		};
		if
		:: w == NONE -> break
		:: else ->
			atomic {
				won = armed[w];
				if
				:: won -> armed[w] = false; result[w] = OK
				:: else
				fi
			};
#ifdef MUTANT_CLAIM_IGNORED /* PARK-2: it has timed out, and is made ready twice */
			won = true;
#endif
			queued[w] = false;
			if
			:: won -> break
			:: else
			fi
		fi
	od;
	won = false
}

/* green_exited */
inline exited()
{
	take_lock();
	in_use();
#ifdef MUTANT_NO_RECHECK /* it was not detached at the unlocked read */
	detached = false;
#else
	detached = (join == DETACHED);
#endif
	if
	:: !detached ->
		wake_first();
		detached_now = (w != NONE);
#ifdef MUTANT_READY_EARLY /* the joiner frees a g struct that is still written */
		if
		:: w != NONE -> make_ready(w); w = NONE
		:: else
		fi;
#endif
#ifdef MUTANT_STAYS_DONE /* a second join finds it ended, and frees it too */
		detached_now = false;
#endif
		atomic { in_use(); join = (detached_now -> DETACHED : DONE) }
	:: else
	fi;
	drop_lock();
	if
	:: detached -> give_back()
	:: else
	fi;
	if
	:: w != NONE -> make_ready(w); w = NONE
	:: else
	fi
}

proctype Target()
{
	byte w = NONE;
	bool won, detached, detached_now;

#ifdef SECOND
	tried == 2;
#endif
	over = true;
#ifndef MUTANT_ON_ITS_STACK /* JOIN-2: it is freed and reused while its stack is in use */
	/* sched_exit_g0 */
	on_stack = false;
#endif
	in_use();
	if
	:: join == DETACHED -> give_back()
	:: else -> exited()
	fi;
	on_stack = false
}

/* --- the joiners --- */

inline unwait(me)
{
#ifdef MUTANT_BLIND_UNWAIT /* JOIN-1: the target has ended meanwhile; its result is lost */
	take_lock();
	queued[me] = false;
	join = JOINABLE;
	drop_lock()
#else
	if
	:: queued[me] ->
		take_lock();
		if
		:: queued[me] ->
			queued[me] = false;
#ifndef MUTANT_STILL_JOINED /* no later join can get it */
			atomic { in_use(); join = JOINABLE }
#endif
		:: else
		fi;
		drop_lock()
	:: else
	fi
#endif
}

/* join_until: result in r; `tried` counts the call in all cases */
inline join_it(me)
{
	take_lock();
	in_use();
#ifdef MUTANT_TWO_JOINERS /* one joiner is never woken, or both free it */
	if
	:: join == JOINABLE || join == JOINED ->
#else
	if
	:: join == JOINABLE ->
#endif
#ifdef MUTANT_JOIN_IN_TWO /* JOIN-1: it ends between the check and the enqueue */
		drop_lock();
		take_lock();
#endif
		join = JOINED;
		queued[me] = true;
		atomic { armed[me] = true; locked = false; tried++ };
		atomic { woken[me] -> woken[me] = false };
		r = result[me];
		if
		:: r != OK -> unwait(me)
		:: else
		fi;
		result[me] = OK
	:: else ->
		atomic {
			r = (join == DONE -> OK : EINVAL);
			tried++;
			join = (join == DONE -> DETACHED : join)
		};
		drop_lock()
	fi;
	if
	:: r == OK -> joined(); give_back()
	:: else
	fi
}

/* gmp_detach: in r */
inline detach()
{
	take_lock();
	in_use();
	r = (join == JOINABLE || join == DONE -> OK : EINVAL);
	d = (join == DONE);
	if
	:: join == JOINABLE || join == DONE -> join = DETACHED
	:: else
	fi;
	drop_lock();
#ifndef MUTANT_DETACH_LEAKS /* it has ended already, and is never freed */
	if
	:: d -> give_back()
	:: else
	fi;
#endif
	assert(r == OK)
}

proctype Joiner(byte me)
{
	byte r;

	join_it(me);
#ifndef SECOND
	if
	:: r == ETIMEDOUT ->
		if
		:: join_it(me); assert(r != EINVAL)
		:: true
		fi
	:: else
	fi;
#endif
	returned++
}

proctype Last()
{
	byte r;
	bool d;

	returned == JOINERS;
	if
	:: had == 0 -> detach()
	:: else
	fi;
	/* until the g struct is reused, another join or detach of the handle returns EINVAL */
	take_lock();
	assert(join != DONE && join != JOINABLE);
	drop_lock()
}

/* wait_timed_out */
proctype Timer()
{
end:	do
	:: atomic { armed[JOINER] -> armed[JOINER] = false; result[JOINER] = ETIMEDOUT };
		make_ready(JOINER)
	od
}

init
{
	atomic {
		run Timer(); /* first: spin ends processes in reverse order */
		run Target();
		run Joiner(JOINER);
#ifdef SECOND
		run Joiner(SECOND_ONE);
#endif
		run Last()
	};
	_nr_pr == 2; /* init and Timer: all others have ended */
	assert(given_back == 1 && !locked)
}
