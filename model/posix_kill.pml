/* SPDX-License-Identifier: MIT */
/*
 * Model of the signals that are pending for one green thread: none is lost, and no wait ends with
 * -EINTR that does not expect it.
 *
 * Processes
 *   Sender    sends the signal twice
 *   Thread    T: twice blocks and unblocks the signal, waits, or waits in a gmp_ function
 *   Signals   the signal thread, in passes
 *   Handler   the trampoline, on either of the two OS threads that T may run on
 *   Buffer    the stores of T to stage and mask become visible late, in their order
 *
 * Properties
 *   KILL-1: T does not wait, and does not end, with a signal that it admits   assertions in Thread
 *   KILL-2: no plain wait is claimed                                          assertion in Thread
 *   every process ends, or waits for a signal                         every end state is valid
 *
 * A step is an access of one word, a section of the trampoline, or a system call.  timeout: no
 * process can move, so T waits for good.
 *
 * Left out: the kernel's mask and the tries it causes, sigwait, the list of several threads, and
 * waits that end for another reason (posix_mutex.pml, park.pml).
 *
 * Models:
 *   posix/signal/kill.c: add ask kill_pass pass examine send_notes kill_take_sig run_all
 *   posix/signal/kill.c: kill_set_mask kill_wait_begin kill_wait_ending kill_wait_ended
 *
 * Runs: the searches of scripts/model
 *   holds
 *   assertion  -DMUTANT_NO_HEAVY_FENCE
 *   assertion  -DMUTANT_NEW_SIGNAL_IS_OFFERED
 *   assertion  -DMUTANT_MASK_FENCE
 *   assertion  -DMUTANT_STAGE_FENCE
 *   assertion  -DMUTANT_NO_SECTION_AT_THE_END
 *   assertion  -DMUTANT_NOTE_IS_TRUSTED
 *   assertion  -DMUTANT_ASKED_CLEARED_LATE
 *   assertion  -DMUTANT_GIVEN_UP_WHILE_IT_IS_RUNNABLE
 */
#define NONE 0
#define WAITS 1
#define ENDS 2
#define NOWHERE 2

/* struct thread; what memory has, and what T has written */
bool killed;
bool mask, own_mask;
byte stage, own_stage;
chan buffer = [3] of { bool, byte }; /* stage or mask, value */

bool locked; /* the table's lock */
bool asked, wakeup;
bool armed, claimed; /* the waiter of T */
byte on;             /* the OS thread that runs T */
bool held;           /* T holds the lock: signals_hold */
bool note[2];        /* pending for an OS thread */

inline lock_table()
{
	atomic { !locked -> locked = true }
}

inline unlock_table()
{
	locked = false
}

inline set_stage(v)
{
	atomic { own_stage = v; buffer ! true, v }
}

inline set_mask(v)
{
	atomic { own_mask = v; buffer ! false, v }
}

inline apply()
{
	buffer ? is_stage, written;
	if
	:: is_stage -> stage = written
	:: else -> mask = written
	fi
}

proctype Buffer()
{
	bool is_stage;
	byte written;

end:	do
	:: atomic { nempty(buffer) -> apply(); is_stage = false; written = 0 }
	od
}

proctype Sender()
{
	byte n;
	bool was;

	do
	:: n < 2 ->
		lock_table();
		killed = true;
		unlock_table();
		d_step { was = asked; asked = true };
		if
		:: !was -> wakeup = true
		:: else
		fi;
		was = false;
		n++
	:: else -> break
	od
}

/* Step f.  The kernel delivers a note to whatever runs on the OS thread. */
inline deliver(x)
{
	atomic {
		note[x] ->
		note[x] = false;
		if
		:: on == x && own_stage == NONE && !held && !own_mask -> killed = false
		:: else
		fi
	}
}

proctype Handler()
{
end:	do
	:: deliver(0)
	:: deliver(1)
	od
}

/* Steps d and e: the note to the own OS thread is delivered at once. */
inline run_handlers()
{
	atomic {
		if
		:: killed && !own_mask -> killed = false
		:: else
		fi
	}
}

inline resume_anywhere()
{
	if
	:: on = 0
	:: on = 1
	fi;
	armed = false;
	claimed = false
}

inline wait_for_handler()
{
	set_stage(WAITS);
	atomic { on = NOWHERE; armed = true };
	if
	:: claimed
	:: timeout -> assert(!killed)
	fi;
	atomic { resume_anywhere() };
#ifdef MUTANT_STAGE_FENCE /* the load comes before the store */
	seen = killed;
	set_stage(ENDS);
#else
	set_stage(ENDS);
	seen = killed;
#endif
#ifndef MUTANT_NO_SECTION_AT_THE_END
	if
	:: seen ->
		lock_table();
		held = true;
		atomic { empty(buffer) -> held = false };
		unlock_table()
	:: else
	fi;
#endif
	seen = false;
	set_stage(NONE);
	run_handlers()
}

/* A wait of a gmp_ function: another thread ends it. */
inline wait_plain()
{
	atomic { on = NOWHERE; armed = true };
	if
	:: atomic { claimed -> assert(false) }
	:: atomic { !claimed -> resume_anywhere() }
	fi
}

inline block_and_unblock()
{
	set_mask(1);
#ifdef MUTANT_MASK_FENCE
	seen = killed;
	set_mask(0);
#else
	set_mask(0);
	seen = killed;
#endif
	if
	:: seen -> run_handlers()
	:: else
	fi;
	seen = false
}

proctype Thread()
{
	byte n;
	bool seen;

	do
	:: n < 2 ->
		n++;
		if
		:: block_and_unblock()
		:: wait_for_handler()
		:: wait_plain()
		fi
	:: else -> break
	od;
	timeout -> assert(!killed)
}

/* Steps 2 and 3, with the lock held. */
inline examine()
{
	if
	:: !killed -> again = false
	:: killed && !offered -> skip
	:: killed && offered ->
		if
		:: mask -> again = false
		:: else ->
			if
			:: stage == WAITS ->
				d_step {
					if
					:: armed -> armed = false; claimed = true
					:: else
					fi
				}
			:: else -> tid = on
			fi
		fi
	fi
}

proctype Signals()
{
	bool again, offered, is_stage;
	byte tid = NOWHERE, written;

end:	do
	:: wakeup || again ->
		wakeup = false;
#ifndef MUTANT_ASKED_CLEARED_LATE
		asked = false;
#endif
		again = true;
		lock_table();
		offered = killed;
		unlock_table();
#ifdef MUTANT_NEW_SIGNAL_IS_OFFERED
		offered = true;
#endif
#ifndef MUTANT_NO_HEAVY_FENCE
		atomic {
			do
			:: nempty(buffer) -> apply()
			:: empty(buffer) -> is_stage = false; written = 0; break
			od
		};
#endif
		lock_table();
		examine();
		unlock_table();
		if
		:: tid != NOWHERE ->
			note[tid] = true;
#ifdef MUTANT_NOTE_IS_TRUSTED
			again = false;
#endif
			tid = NOWHERE
		:: else
#ifdef MUTANT_GIVEN_UP_WHILE_IT_IS_RUNNABLE
			; again = false
#endif
		fi
#ifdef MUTANT_ASKED_CLEARED_LATE
		; asked = false
#endif
	od
}

init
{
	atomic {
		run Buffer();
		run Sender();
		run Thread();
		run Handler();
		run Signals()
	}
}
