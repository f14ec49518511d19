/* SPDX-License-Identifier: MIT */
/*
 * Does the end of a green thread reach the one who waits for it, and is its descriptor given back once, by
 * one who knows that nobody is at it any more?
 *
 * Who takes part
 *   Target   a green thread that ends, and g0 after it
 *   Joiner   joins it with a deadline; after that has passed it joins again, or detaches it
 *   Timer    the deadline: at any time during a wait, or never
 *   Second   with -DSECOND: another joiner, at the same time; then neither tries again, and the target
 *            ends when both have been at it
 *   Last     detaches it when all who join have returned and none has it
 *
 * What stands for what: join, unwait, exited, detach are join_until, join_unwait, green_exited, gmp_detach
 * (src/spawn.c); the bucket is one of src/parkinglot.c; the wait is src/park.h's, whose steps and memory
 * orders are the subject of park.pml: here it is armed when the bucket is unlocked.
 *
 * Properties
 *   E1: one result for each, and an end for each wait      every end state is valid
 *   joined: it has ended                                    assertion in joined
 *   E2: given back once, by none but the last one at it     assertions in give_back, at_it, init
 *
 * What a step is: a look at join without the lock; a section under the bucket's lock; a claim; making
 * ready.  Memory is sequentially consistent: the bucket's lock orders all but the one look.
 *
 * Left out: those who use a handle that is gone (misuse), cancellation (as the deadline), external threads
 * (park.pml), the end of a run.
 *
 * Models:
 *   src/spawn.c: wake_joiner green_exited join_until join_wait join_unwait gmp_detach
 *   src/sched.c: sched_exit_g0
 *   src/g.c: g_free
 *   without: g.life (of who looks at descriptors that are not its own: dumps)
 *
 * Runs: what scripts/model does with this file
 *   holds      -DALONE
 *   holds      -DSECOND
 *   assertion  -DMUTANT_ONE_LOOK
 *   assertion  -DMUTANT_ON_ITS_STACK
 *   assertion  -DMUTANT_READY_EARLY
 *   assertion  -DMUTANT_CLAIM_IGNORED
 *   assertion  -DMUTANT_STILL_JOINED
 *   assertion  -DMUTANT_BLIND_UNWAIT
 *   assertion  -DMUTANT_JOIN_IN_TWO
 *   assertion  -DMUTANT_DETACH_LEAVES_IT
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

/* Whoever reads or writes the descriptor. */
inline at_it()
{
	assert(given_back == 0)
}

/* g_free */
inline give_back()
{
	atomic { at_it(); assert(!on_stack); given_back++ }
}

inline joined()
{
	atomic { assert(over); had++ }
}

inline make_ready(who)
{
	atomic { assert(!woken[who]); woken[who] = true }
}

/* --- the target --- */

/* wake_joiner: whom, in w.  One joiner has its sudog there; with MUTANT_TWO_JOINERS there are two. */
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
#ifdef MUTANT_CLAIM_IGNORED /* W2: it has timed out, and is made ready twice */
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
	at_it();
#ifdef MUTANT_ONE_LOOK /* it was not detached when looked at before */
	detached = false;
#else
	detached = (join == DETACHED);
#endif
	if
	:: !detached ->
		wake_first();
		detached_now = (w != NONE);
#ifdef MUTANT_READY_EARLY /* the joiner gives back what is still to be written to */
		if
		:: w != NONE -> make_ready(w); w = NONE
		:: else
		fi;
#endif
#ifdef MUTANT_STAYS_DONE /* a second join finds it ended, and gives it back too */
		detached_now = false;
#endif
		atomic { at_it(); join = (detached_now -> DETACHED : DONE) }
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
#ifndef MUTANT_ON_ITS_STACK /* E2: it is given back, and used anew, while it stands on its stack */
	/* sched_exit_g0 */
	on_stack = false;
#endif
	at_it();
	if
	:: join == DETACHED -> give_back()
	:: else -> exited()
	fi;
	on_stack = false
}

/* --- who joins --- */

inline unwait(me)
{
#ifdef MUTANT_BLIND_UNWAIT /* E1: the target has ended meanwhile, and says so in vain */
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
#ifndef MUTANT_STILL_JOINED /* nobody can have it any more */
			atomic { at_it(); join = JOINABLE }
#endif
		:: else
		fi;
		drop_lock()
	:: else
	fi
#endif
}

/* join_until: in r; in all cases somebody has been at it */
inline join_it(me)
{
	take_lock();
	at_it();
#ifdef MUTANT_TWO_JOINERS /* the other is told nothing, or both have it */
	if
	:: join == JOINABLE || join == JOINED ->
#else
	if
	:: join == JOINABLE ->
#endif
#ifdef MUTANT_JOIN_IN_TWO /* E1: it ends between the look and the queue */
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
	at_it();
	r = (join == JOINABLE || join == DONE -> OK : EINVAL);
	d = (join == DONE);
	if
	:: join == JOINABLE || join == DONE -> join = DETACHED
	:: else
	fi;
	drop_lock();
#ifndef MUTANT_DETACH_LEAVES_IT /* it has ended already, and nobody else gives it back */
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
	/* a further join or detach of the handle returns EINVAL, as long as the g struct is not reused */
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
		run Timer(); /* first, for spin lets them go in turn, the last one first */
		run Target();
		run Joiner(JOINER);
#ifdef SECOND
		run Joiner(SECOND_ONE);
#endif
		run Last()
	};
	_nr_pr == 2; /* but for the timer all have ended */
	assert(given_back == 1 && !locked)
}
