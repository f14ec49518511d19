/* SPDX-License-Identifier: MIT */
/*
 * Model of reopened file descriptors: if a library closes a registered number and opens it again
 * for another file, each wait ends, and no wait for the new file ends with -ECANCELED.
 *
 * Processes
 *   Former   waits for the first file of the number, and for no event: none comes
 *   Waiter   WAITERS of them, gmp_fd_wait as soon as the number has its last file, which becomes
 *            ready once
 *   Library  closes the number and opens it again; with -DBACK a dup keeps the first file, which
 *            comes back after the second one (dup2)
 *   Poller   reports the kernel's events (netpoll_event of src/netpoll/netpoll.c)
 *   Sysmon   checks waits repeatedly (netpoll_check); a check that would find nothing is left out
 *
 * The kernel has a registration per file: reg[f] is its key, 0 if there is none.  A close takes it
 * away unless a dup is open.
 *
 * Properties
 *   every wait ends                              every end state is valid
 *   PCHECK-1: no wait for the last file is cancelled   assertion in Waiter
 *   NETPOLL-5: no event of a former file counts      assertion in Poller
 *
 * A step is a system call, a read of seq or events, or a section under pd->lock.  A section with
 * two system calls in it is two steps, since the library needs no lock.  Memory is sequentially
 * consistent: the lock orders the rest.
 *
 * Left out: tokens and order of waiters (netpoll.pml), gmp_close (netpoll.pml), deadlines (fd.pml),
 * adopters.
 *
 * Models:
 *   src/netpoll/register.c: netpoll_renew register_file netpoll_is_registered
 *   src/netpoll/netpoll.c: netpoll_event
 *   src/netpoll/check.c: netpoll_check check_record
 *   src/io/waitfd.c: waitfd_call wait_both is_reopened follow_renewal
 *
 * Runs: the searches of scripts/model
 *   holds      -DWAITERS=2
 *   holds      -DWAITERS=1 -DBACK
 *   assertion  -DWAITERS=1 -DMUTANT_NOT_ASKED
 *   deadlock   -DWAITERS=1 -DMUTANT_NOT_UNDONE
 *   deadlock   -DWAITERS=1 -DMUTANT_FORMER_LEFT
 *   assertion  -DWAITERS=2 -DMUTANT_NO_FOLLOW
 *   assertion  -DWAITERS=1 -DMUTANT_CHECK_UNLOCKED
 *   deadlock   -DWAITERS=1 -DBACK -DMUTANT_NO_REKEY
 */
#define FORMER WAITERS /* its place */
#define PLACES 3

/* the kernel; files 1 and 2, 0: the number is closed */
byte file = 1, reg[3];
bool ready; /* the last file */
bool edge;  /* an event that epoll_wait will report, with that key */
byte edge_key;
bool last; /* the number has its last file */

/* struct polldesc */
bool locked;
byte seq = 1, events;
bool orphaned;
bool queued[PLACES], woken[PLACES];
byte result[PLACES];
#define EVENT 0
#define ECANCELED 1

byte ended;
byte k;

inline lock_pd()
{
	atomic { !locked -> locked = true }
}

inline wake_all(how)
{
	d_step {
		k = 0;
		do
		:: k < PLACES ->
			if
			:: queued[k] -> queued[k] = false; result[k] = how; woken[k] = true
			:: else
			fi;
			k++
		:: else -> break
		od;
		k = 0
	}
}

/* The kernel checks at once whether a newly registered file is ready. */
inline kernel_key(key)
{
	reg[file] = key;
	if
	:: ready && last -> edge = true; edge_key = key
	:: else
	fi
}

/* register_file, of an open record: `fresh` says that it was not registered */
inline register_file(key)
{
	d_step {
		fresh = false;
		if
		:: file && reg[file] == 0 -> fresh = true; kernel_key(key)
#ifndef MUTANT_NO_REKEY /* its events have the key of long ago */
		:: file && reg[file] && orphaned -> kernel_key(seq)
#endif
		:: else
		fi
	}
}

/* --- gmp_fd_wait --- */

proctype Waiter(byte me)
{
	byte mine, seen;
	bool parked, fresh;

	last;
	mine = seq;
	do
	:: seen = events;
		atomic { /* fd_use, follow */
#ifndef MUTANT_NO_FOLLOW /* another call has registered the same file since */
			mine = (parked -> mine : seq);
#endif
			assert(mine == seq)
		};
		if
		:: ready -> break
		:: else
		fi;
		lock_pd();
		if
		:: mine != seq || events != seen -> locked = false
		:: else ->
#ifndef MUTANT_NOT_ASKED /* it parks on a registration that is gone */
			register_file(seq + 1);
#endif
			if
			:: fresh ->
				atomic { seq++; mine = seq };
				orphaned = true;
				wake_all(ECANCELED);
				locked = false
			:: else ->
				queued[me] = true;
				parked = true;
				locked = false;
				atomic { woken[me] -> woken[me] = false };
				assert(result[me] == EVENT)
			fi
		fi
	od;
	ended++
}

/* It is parked when the model begins. */
proctype Former()
{
	do
	:: atomic { woken[FORMER] -> woken[FORMER] = false };
		if
		:: result[FORMER] == ECANCELED -> break
		:: else ->
			lock_pd();
			if
			:: seq != 1 -> locked = false; break /* fd_same */
			:: else -> queued[FORMER] = true; locked = false
			fi
		fi
	od;
	ended++
}

/* --- the others --- */

inline close_file()
{
#ifdef BACK /* a dup of the first file is open */
	d_step {
		if
		:: file == 2 -> reg[2] = 0
		:: else
		fi;
		file = 0
	}
#else
	d_step { reg[file] = 0; file = 0 }
#endif
}

proctype Library()
{
	close_file();
	file = 2;
#ifdef BACK
	/* it has been registered under the second file: so there is an orphan */
	lock_pd();
	reg[2] = 2;
	atomic { seq = 2; orphaned = true };
	wake_all(ECANCELED);
	locked = false;
	atomic { close_file(); file = 1; last = true };
#else
	last = true;
#endif
	d_step {
		ready = true;
		if
		:: reg[file] -> edge = true; edge_key = reg[file]
		:: else
		fi
	}
}

proctype Poller()
{
	byte key;

end_poll:
	do
	:: atomic { edge -> edge = false; key = edge_key };
		lock_pd();
		if
		:: key == seq -> events++; wake_all(EVENT)
		:: else
		fi;
		locked = false
	od
}

proctype Sysmon()
{
	bool fresh, gone;

end_check:
	do
	:: atomic { (queued[0] || queued[1] || queued[2]) && (file == 0 || reg[file] == 0) };
#ifdef MUTANT_CHECK_UNLOCKED /* the waiters are those of a later registration */
		gone = (file == 0 || reg[file] == 0);
		lock_pd();
#else
		lock_pd();
		register_file(seq + 1);
		gone = (fresh || file == 0);
#ifndef MUTANT_NOT_UNDONE /* the registration of the check stays, its seq is not published */
		if
		:: fresh -> /* taken back: the number may have another file by now */
			d_step { reg[file] = 0; seq++; orphaned = true }
		:: else
		fi;
#endif
#endif
		if
		:: gone -> wake_all(ECANCELED)
		:: else
		fi;
		gone = false;
		locked = false
	od
}

init
{
	atomic {
		reg[1] = 1;
		queued[FORMER] = true;
		byte i;
		for (i : 0 .. WAITERS - 1) {
			run Waiter(i)
		};
		run Former();
		run Library();
		run Poller();
#ifndef MUTANT_FORMER_LEFT /* an event is all that could end its wait */
		run Sysmon()
#endif
	};
	ended == WAITERS + 1
}
