/* SPDX-License-Identifier: MIT */
/*
 * Model of a late gmp_fd_release: it ends no wait of the connection that has the number now, and a
 * connection that was handed on is closed by the thread that got it.
 *
 * Processes
 *   A   closes its connection by a plain close(), and then calls gmp_fd_release with the number;
 *       with -DHANDED it then gets the next connection from B, reads, and closes it by gmp_close
 *   B   opens the number when it is free, adopts it and waits; with -DHANDED it hands the
 *       connection to A
 *
 * Properties
 *   OWNER-2, OWNER-3: the wait of B ends by its event         assertion in B
 *   a connection that was handed on is closed                 assertion in A
 *   every wait ends                                           every end state is valid
 *
 * A step is a system call, or a section under pd->lock up to one.  Memory is sequentially
 * consistent: the lock orders the rest.
 *
 * Left out: sides, and the green thread that parked last on each (it goes into the table as the
 * adopter does); calls that end with -ECANCELED; dups (reopen.pml); system calls under way
 * (netpoll.pml); memory that runs out.
 *
 * Models:
 *   src/netpoll/register.c: netpoll_open netpoll_shut end_registration netpoll_forget
 *   src/netpoll/owner.c: owner_change owner_lost owner_join
 *   src/io/fd.c: fd_close_inside fd_release fd_find_slow
 *
 * Runs: the searches of scripts/model
 *   holds      -DLATE
 *   holds      -DHANDED
 *   assertion  -DLATE -DMUTANT_NOT_REMEMBERED
 *   assertion  -DLATE -DMUTANT_ASKED_UNLOCKED
 *   assertion  -DHANDED -DMUTANT_NO_JOIN
 */
#define A 1
#define B 2

/* the kernel */
byte file = A; /* the thread whose file has the number; 0: it is closed */
bool reg[3];   /* the file is registered */

/* struct polldesc */
bool locked, open = true, closing;
byte owner = A;
bool former[3]; /* pd->former; PD_LOST is the or of all */
bool queued, woken, cancelled;

bool handed;

inline lock_pd()
{
	atomic { !locked -> locked = true }
}

inline wake(result)
{
	d_step {
		if
		:: queued -> queued = false; woken = true; cancelled = result
		:: else
		fi
	}
}

/* gmp_close, or gmp_fd_release; not late: the file is the registered one */
inline gmp_close(me, late)
{
#ifdef MUTANT_ASKED_UNLOCKED /* B adopts between the question and the end of its wait */
	lost = former[me];
	lock_pd();
#else
	lock_pd();
	lost = former[me];
#endif
	if
	:: !open || closing || (lost && (queued || owner != 0)) -> locked = false
	:: else ->
		closing = true;
		wake(true);
		atomic { /* EPOLL_CTL_DEL */
			gone = (file == 0 || !reg[file]);
			reg[file] = false
		};
		if
		:: owner == me -> owner = 0
		:: else
		fi;
		locked = false;
		atomic { open = false; closing = false }; /* netpoll_forget */
		if
		:: late -> assert(gone)
		:: else -> assert(!gone); file = 0 /* close(2) */
		fi
	fi;
	lost = false;
	gone = false
}

proctype Former()
{
	bool lost, gone;

	d_step { reg[A] = false; file = 0 }; /* close(): its registration goes with it */
	gmp_close(A, true);
#ifdef HANDED
	handed;
#ifndef MUTANT_NO_JOIN /* the connection that it was handed counts as not its own */
	lock_pd();
	former[A] = false;
	locked = false;
#endif
	gmp_close(A, false);
	assert(file == 0)
#endif
}

proctype Next()
{
	bool lost, gone;

	atomic { file == 0 -> file = B };
	/* gmp_fd_adopt: -EAGAIN while the record is being closed */
	atomic { !locked && !closing -> locked = true };
	reg[B] = true;
	wake(true);
#ifndef MUTANT_NOT_REMEMBERED /* the late close counts as that of the handed-on connection */
	if
	:: owner == A -> former[A] = true
	:: else
	fi;
#endif
	owner = B;
	open = true;
	locked = false;
	/* gmp_fd_wait; the event comes after it has parked */
	lock_pd();
	assert(open);
	queued = true;
	locked = false;
	if
	:: true -> lock_pd(); wake(false); locked = false
	:: woken
	fi;
	woken;
	assert(!cancelled);
	woken = false;
	assert(file == B);
#ifdef HANDED
	handed = true
#else
	gmp_close(B, false);
	assert(file == 0)
#endif
}

init
{
	atomic {
		reg[A] = true;
		run Former();
		run Next()
	}
}
