/* SPDX-License-Identifier: MIT */
/*
 * Model of published data: a thread that reads a word sees the data that was written before the
 * word, and a thread that reuses data finds all earlier uses finished.
 *
 * The runs, by the tag; each has a mutant for each end
 *   one thread writes data, then a word; another reads the word, then the data
 *     G_MADE, CHUNK, WATCH, LIBRARY, TIMES, SHARD, CURRENT, RING, FILE_STOP, STATUS, KEY_ONCE,
 *     KQUEUE, RUN_SAMPLE, OWN_TLS, SETTLE
 *   data of which an older or newer state is as bad
 *     WATCHED, PLACES, EVENTS, TRY_SEND, TRY_RECV, CLOSED
 *   a word that guards data, which several threads use one after another
 *     SPINLOCK, LOCK_FREED, SEMAPHORE, SLOT, SESSION, QUESTION, AWAITS, OBJECT, CHILD,
 *     DONE_SET, ONCE
 *   a word that counts
 *     WAIT_GROUP, RWMUTEX
 *   data that is read while it may be reused; the word is read before and after
 *     LIFE, KEY
 *
 * Properties
 *   a thread that may use the guarded data has all earlier changes in its view   assertions in mine
 *   what is read together was written together                 the other assertions
 *
 * Memory is that of c11.inc; accesses of the guarded data are counted by `touch`.
 *
 * Left out: the waits of each object, in which the waker passes the order on (park.pml).
 *
 * Models:
 *   src/g.c: g_made g_free
 *   src/g.h: g_init
 *   src/types.h: g_set_status
 *   src/netpoll_kqueue.c: find_key make_key
 *   src/netpoll/register.c: netpoll_record
 *   src/netpoll/record.h: netpoll_find
 *   src/netpoll/netpoll.c: netpoll_watch watch_event side_ready
 *   src/observe/profile/pprof_protobufc.c: load_protobufc pprof_available
 *   src/variant/owntls.c: owntls_is_used owntls_set_used
 *   src/machine/tlsblock_glibc.c: images_renew images_now
 *   src/observe/tracing.c: cputime_begin cputime_add
 *   src/wait/done.c: shard_slow gmp_done_chan gmp_done_set gmp_done_get gmp_done_free
 *   src/service/group.c: place_take_locked place_free chunk_take is_empty_or_watched
 *   src/io/uring_liburing.c: uring_set_up uring_on
 *   src/observe/trace/tracefile.c: tracefile_stop
 *   src/service/service.h: service_key_once
 *   src/monitor/progress.c: sample_run
 *   src/policy/take.c: m_is_descheduled
 *   src/observe/latency.c: latency_watch latency_note_running
 *   src/service/pool.c: pool_free_place gmp_pool_running
 *   src/io/fd.c: call_loop
 *   src/chan.c: gmp_chan_try_send gmp_chan_try_recv closed_and_empty gmp_chan_close waitq_dequeue
 *   src/base/lock.h: lock try_lock unlock lock_end
 *   src/wait/sem.c: acquire_now gmp_sem_release release_slow
 *   src/observe/cpusample.c: sample_take_sig cpusample_drain cpusample_begin cpusample_end
 *   src/observe/longrun.c: send_question longrun_ask answer_dump_sig longrun_answer_sig
 *   src/observe/longrun.c: longrun_answered longrun_drop
 *   src/variant/thread.c: variant_arm stop_awaiting hold_waiter thread_end_wait
 *   src/base/object.c: object_free
 *   src/wait/once.c: once_finish is_done once_do_slow
 *   src/wait/wg.c: gmp_wg_add wg_add_slow gmp_wg_wait_until
 *   src/wait/rwmutex.c: rw_take_read runlock_slow gmp_rwmutex_runlock rw_wait_readers
 *   src/wait/rwmutex.c: rw_take_write gmp_rwmutex_unlock
 *   src/observe/dump/snapshot.c: snapshot_unheld
 *   src/wait/fls.c: key_claim key_publish gmp_key_delete destructor
 *   ORD: g.made kq.keys pd.chunk np.own pprof.lib cputime done.shard group.current uring.state
 *   ORD: tracefile.stop g.status service.key run_sample p.watched pool.running pd.events
 *   ORD: chan.closed lock owntls
 *   ORD: sem sample sample.busy longrun awaits object group.ended done once wg rwmutex g.life key
 *
 * Runs: the searches of scripts/model
 *   holds      -DG_MADE
 *   holds      -DCHUNK
 *   holds      -DWATCH
 *   holds      -DLIBRARY
 *   holds      -DTIMES
 *   holds      -DSHARD
 *   holds      -DCURRENT
 *   holds      -DRING
 *   holds      -DFILE_STOP
 *   holds      -DSTATUS
 *   holds      -DKEY_ONCE
 *   holds      -DKQUEUE
 *   holds      -DRUN_SAMPLE
 *   holds      -DOWN_TLS
 *   holds      -DSETTLE
 *   holds      -DWATCHED
 *   holds      -DPLACES
 *   holds      -DEVENTS
 *   holds      -DTRY_SEND
 *   holds      -DTRY_RECV
 *   holds      -DCLOSED
 *   holds      -DSPINLOCK
 *   holds      -DLOCK_FREED
 *   holds      -DSEMAPHORE
 *   holds      -DSLOT
 *   holds      -DSESSION
 *   holds      -DQUESTION
 *   holds      -DAWAITS
 *   holds      -DOBJECT
 *   holds      -DCHILD
 *   holds      -DDONE_SET
 *   holds      -DONCE
 *   holds      -DWAIT_GROUP
 *   holds      -DRWMUTEX
 *   holds      -DLIFE
 *   holds      -DKEY
 *   assertion  -DG_MADE -DMUTANT_MADE
 *   assertion  -DG_MADE -DMUTANT_MADE_SEEN
 *   assertion  -DCHUNK -DMUTANT_CHUNK
 *   assertion  -DCHUNK -DMUTANT_CHUNK_SEEN
 *   assertion  -DWATCH -DMUTANT_WATCH
 *   assertion  -DWATCH -DMUTANT_WATCH_SEEN
 *   assertion  -DLIBRARY -DMUTANT_LIBRARY
 *   assertion  -DLIBRARY -DMUTANT_LIBRARY_SEEN
 *   assertion  -DTIMES -DMUTANT_TIMES
 *   assertion  -DTIMES -DMUTANT_TIMES_SEEN
 *   assertion  -DSHARD -DMUTANT_SHARD
 *   assertion  -DSHARD -DMUTANT_SHARD_SEEN
 *   assertion  -DCURRENT -DMUTANT_CURRENT
 *   assertion  -DCURRENT -DMUTANT_CURRENT_SEEN
 *   assertion  -DRING -DMUTANT_RING
 *   assertion  -DRING -DMUTANT_RING_SEEN
 *   assertion  -DFILE_STOP -DMUTANT_FILE_STOP
 *   assertion  -DFILE_STOP -DMUTANT_FILE_STOP_SEEN
 *   assertion  -DSTATUS -DMUTANT_STATUS
 *   assertion  -DSTATUS -DMUTANT_STATUS_SEEN
 *   assertion  -DKEY_ONCE -DMUTANT_KEY_ONCE
 *   assertion  -DKEY_ONCE -DMUTANT_KEY_ONCE_SEEN
 *   assertion  -DKQUEUE -DMUTANT_KQUEUE
 *   assertion  -DKQUEUE -DMUTANT_KQUEUE_SEEN
 *   assertion  -DRUN_SAMPLE -DMUTANT_RUN_SAMPLE
 *   assertion  -DRUN_SAMPLE -DMUTANT_RUN_SAMPLE_SEEN
 *   assertion  -DOWN_TLS -DMUTANT_OWN_TLS
 *   assertion  -DOWN_TLS -DMUTANT_OWN_TLS_SEEN
 *   assertion  -DSETTLE -DMUTANT_SETTLE
 *   assertion  -DSETTLE -DMUTANT_SETTLE_SEEN
 *   assertion  -DWATCHED -DMUTANT_WATCHED
 *   assertion  -DWATCHED -DMUTANT_WATCHED_SEEN
 *   assertion  -DPLACES -DMUTANT_RUNNING
 *   assertion  -DPLACES -DMUTANT_RUNNING_SEEN
 *   assertion  -DEVENTS -DMUTANT_EVENT
 *   assertion  -DEVENTS -DMUTANT_EVENT_SEEN
 *   assertion  -DTRY_SEND -DMUTANT_FIRST
 *   assertion  -DTRY_SEND -DMUTANT_FIRST_SEEN
 *   assertion  -DTRY_RECV -DMUTANT_TAKEN
 *   assertion  -DTRY_RECV -DMUTANT_TAKEN_SEEN
 *   assertion  -DCLOSED -DMUTANT_CLOSED
 *   assertion  -DCLOSED -DMUTANT_CLOSED_SEEN
 *   assertion  -DSPINLOCK -DMUTANT_LOCK
 *   assertion  -DSPINLOCK -DMUTANT_UNLOCK
 *   assertion  -DLOCK_FREED -DMUTANT_LOCK_END
 *   assertion  -DSEMAPHORE -DMUTANT_ACQUIRE
 *   assertion  -DSEMAPHORE -DMUTANT_RELEASE
 *   assertion  -DSEMAPHORE -DMUTANT_RELEASE_SLOW
 *   assertion  -DSLOT -DMUTANT_FREE
 *   assertion  -DSLOT -DMUTANT_FULL
 *   assertion  -DSLOT -DMUTANT_FILL
 *   assertion  -DSLOT -DMUTANT_FULL_SEEN
 *   assertion  -DSESSION -DMUTANT_NOT_BUSY
 *   assertion  -DSESSION -DMUTANT_BUSY
 *   assertion  -DQUESTION -DMUTANT_GIVEN_UP
 *   assertion  -DQUESTION -DMUTANT_ANSWERED
 *   assertion  -DQUESTION -DMUTANT_ASKED_SEEN
 *   assertion  -DQUESTION -DMUTANT_LATE
 *   assertion  -DQUESTION -DMUTANT_LATE_SEEN
 *   assertion  -DQUESTION -DMUTANT_READ
 *   assertion  -DQUESTION -DMUTANT_ASK
 *   assertion  -DQUESTION -DMUTANT_ASKED
 *   assertion  -DQUESTION -DMUTANT_ANSWER_SEEN
 *   assertion  -DAWAITS -DMUTANT_GIVE_BACK
 *   assertion  -DAWAITS -DMUTANT_RESUME
 *   assertion  -DAWAITS -DMUTANT_WAITS
 *   assertion  -DAWAITS -DMUTANT_HOLD
 *   assertion  -DOBJECT -DMUTANT_PUT
 *   assertion  -DOBJECT -DMUTANT_REMOVE
 *   assertion  -DCHILD -DMUTANT_EMPTY_SEEN
 *   assertion  -DCHILD -DMUTANT_FREE_PLACE
 *   assertion  -DCHILD -DMUTANT_TAKE_PLACE
 *   assertion  -DDONE_SET -DMUTANT_SET_SEEN
 *   assertion  -DDONE_SET -DMUTANT_SETTING
 *   assertion  -DDONE_SET -DMUTANT_SET
 *   assertion  -DDONE_SET -DMUTANT_FREE
 *   assertion  -DDONE_SET -DMUTANT_FREE_SEEN
 *   assertion  -DDONE_SET -DMUTANT_DONE_SEEN
 *   assertion  -DONCE -DMUTANT_FINISH_SLOW
 *   assertion  -DONCE -DMUTANT_FINISH
 *   assertion  -DONCE -DMUTANT_DONE_AT_ONCE
 *   assertion  -DWAIT_GROUP -DMUTANT_LAST_WORKED
 *   assertion  -DWAIT_GROUP -DMUTANT_WORKED
 *   assertion  -DWAIT_GROUP -DMUTANT_NONE_LEFT
 *   assertion  -DRWMUTEX -DMUTANT_WUNLOCK
 *   assertion  -DRWMUTEX -DMUTANT_WLOCK
 *   assertion  -DRWMUTEX -DMUTANT_RUNLOCK_SLOW
 *   assertion  -DRWMUTEX -DMUTANT_RUNLOCK
 *   assertion  -DRWMUTEX -DMUTANT_RLOCK
 *   assertion  -DRWMUTEX -DMUTANT_READERS_SEEN
 *   assertion  -DLIFE -DMUTANT_GENERATION
 *   assertion  -DLIFE -DMUTANT_ALIVE
 *   assertion  -DLIFE -DMUTANT_INIT_FENCE
 *   assertion  -DLIFE -DMUTANT_GENERATION_SEEN
 *   assertion  -DLIFE -DMUTANT_ALIVE_SEEN
 *   assertion  -DLIFE -DMUTANT_CHECK_FENCE
 *   assertion  -DKEY -DMUTANT_KEY_CLAIM
 *   assertion  -DKEY -DMUTANT_KEY_FENCE
 *   assertion  -DKEY -DMUTANT_KEY_LIVE
 *   assertion  -DKEY -DMUTANT_KEY_SEEN
 *   assertion  -DKEY -DMUTANT_KEY_CHECK
 */
#define WORD 0
#define ALSO 1
#define THIRD 2
#define SYNCS 3
#define DATA 3
#define MORE 4
#define LAST 5
#define LOCS 6
#define DEPTH 12
#define THREADS 3
#define FENCES
#include "c11.inc"
#define NOW(l) VALUE(l, newest[l])

/* The caller reads and writes what is guarded. */
inline use(l)
{
	d_step { assert(KNOWN(l)); newest[l]++; KNOWS(me, l) = newest[l] }
}

inline mine()
{
	use(DATA)
}

/* --- one thread publishes --- */

#ifdef G_MADE
#define PUBLISH UNLESS(MUTANT_MADE, REL) /* ORD(g.made): a g struct is read uninitialised */
#define OBSERVE UNLESS(MUTANT_MADE_SEEN, ACQ) /* ORD(g.made): the same */
#endif
#ifdef CHUNK
#define PUBLISH UNLESS(MUTANT_CHUNK, REL) /* ORD(pd.chunk): a record is read uninitialised */
#define OBSERVE UNLESS(MUTANT_CHUNK_SEEN, ACQ) /* ORD(pd.chunk): the same */
#endif
#ifdef WATCH
#define PUBLISH UNLESS(MUTANT_WATCH, REL) /* ORD(np.own): a ring is read uninitialised */
#define OBSERVE UNLESS(MUTANT_WATCH_SEEN, ACQ) /* ORD(np.own): the same */
#endif
#ifdef LIBRARY
#define PUBLISH UNLESS(MUTANT_LIBRARY, REL) /* ORD(pprof.lib): a null pointer is called */
#define OBSERVE UNLESS(MUTANT_LIBRARY_SEEN, ACQ) /* ORD(pprof.lib): the same */
#endif
#ifdef TIMES
#define PUBLISH UNLESS(MUTANT_TIMES, REL) /* ORD(cputime): memory before it is mapped */
#define OBSERVE UNLESS(MUTANT_TIMES_SEEN, ACQ) /* ORD(cputime): the same */
#endif
#ifdef OWN_TLS
#define PUBLISH UNLESS(MUTANT_OWN_TLS, REL) /* ORD(owntls): a G with the steps of others */
#define OBSERVE UNLESS(MUTANT_OWN_TLS_SEEN, ACQ) /* ORD(owntls): the same */
#endif
#ifdef SETTLE
#define PUBLISH UNLESS(MUTANT_SETTLE, REL) /* ORD(receiver): a signal on its way is not seen */
#define OBSERVE UNLESS(MUTANT_SETTLE_SEEN, ACQ) /* ORD(receiver): the same */
#endif
#ifdef SHARD
#define PUBLISH UNLESS(MUTANT_SHARD, REL) /* ORD(done.shard): a channel is read uninitialised */
#define OBSERVE UNLESS(MUTANT_SHARD_SEEN, ACQ) /* ORD(done.shard): the same */
#endif
#ifdef CURRENT
#define PUBLISH UNLESS(MUTANT_CURRENT, REL) /* ORD(group.current): an uninitialised chunk */
#define OBSERVE UNLESS(MUTANT_CURRENT_SEEN, ACQ) /* ORD(group.current): the same */
#endif
#ifdef RING
#define PUBLISH UNLESS(MUTANT_RING, REL) /* ORD(uring.state): a ring is used uninitialised */
#define OBSERVE UNLESS(MUTANT_RING_SEEN, ACQ) /* ORD(uring.state): the same */
#endif
#ifdef FILE_STOP
#define PUBLISH UNLESS(MUTANT_FILE_STOP, REL) /* ORD(tracefile.stop): the last pass misses events */
#define OBSERVE UNLESS(MUTANT_FILE_STOP_SEEN, ACQ) /* ORD(tracefile.stop): the same */
#endif
#ifdef STATUS
#define PUBLISH UNLESS(MUTANT_STATUS, REL) /* ORD(g.status): fields of a former G are read */
#define OBSERVE UNLESS(MUTANT_STATUS_SEEN, ACQ) /* ORD(g.status): the same */
#endif
#ifdef KEY_ONCE
#define PUBLISH UNLESS(MUTANT_KEY_ONCE, REL) /* ORD(service.key): a key without its destructor */
#define OBSERVE UNLESS(MUTANT_KEY_ONCE_SEEN, ACQ) /* ORD(service.key): the same */
#define BY_CAS
#endif
#ifdef KQUEUE
#define PUBLISH UNLESS(MUTANT_KQUEUE, REL) /* ORD(kq.keys): a key that is not zeroed is read */
#define OBSERVE UNLESS(MUTANT_KQUEUE_SEEN, ACQ) /* ORD(kq.keys): the same */
#define BY_CAS
#endif
#ifdef RUN_SAMPLE
#define PUBLISH UNLESS(MUTANT_RUN_SAMPLE, REL) /* ORD(run_sample): its tid, times of another M */
#define OBSERVE UNLESS(MUTANT_RUN_SAMPLE_SEEN, ACQ) /* ORD(run_sample): the same */
#endif

#ifdef PUBLISH
proctype Publisher(byte me)
{
	byte ts, v;
	bool won;

	mine();
#ifdef BY_CAS
	cas(WORD, v, 1, PUBLISH, won)
#else
	store(WORD, PUBLISH, 1)
#endif
}

proctype Reader(byte me)
{
	byte ts, v;

	load(WORD, OBSERVE, v);
	if
	:: v -> mine()
	:: else
	fi
}

init { atomic { run Publisher(0); run Reader(1) } }
#endif

/* --- states that belong together --- */

#ifdef WATCHED
/* WORD: steps; ALSO: since */
proctype Sysmon(byte me)
{
	byte ts, n = 1;

	do
	:: n > 2 -> break
	:: else ->
		store(ALSO, RLX, n);
		store(WORD, UNLESS(MUTANT_WATCHED, REL), n); /* ORD(p.watched): too long */
		n++
	od
}

proctype Reader(byte me)
{
	byte ts, steps, since;

	load(WORD, UNLESS(MUTANT_WATCHED_SEEN, ACQ), steps); /* ORD(p.watched): the same */
	load(ALSO, RLX, since);
	assert(since >= steps)
}

init { atomic { run Sysmon(0); run Reader(1) } }
#endif

#ifdef PLACES
/* WORD: running, of 2; ALSO: idle */
proctype Worker(byte me)
{
	byte ts;

	store(ALSO, RLX, 1);
	store(WORD, UNLESS(MUTANT_RUNNING, REL), 1) /* ORD(pool.running): no place is idle */
}

proctype Caller(byte me)
{
	byte ts, v;

	load(WORD, UNLESS(MUTANT_RUNNING_SEEN, ACQ), v); /* ORD(pool.running): the same */
	if
	:: v -> load(ALSO, RLX, v); assert(v == 1)
	:: else
	fi
}

init { atomic { run Worker(0); run Caller(1) } }
#endif

#ifdef EVENTS
/* WORD: the count of events; ALSO: hup, and that the kernel has data */
proctype Poller(byte me)
{
	byte ts;

	store(ALSO, RLX, 1);
	take_lock(0);
	store(WORD, UNLESS(MUTANT_EVENT, REL), 1); /* ORD(pd.events): it waits, and data is there */
	drop_lock(0)
}

proctype Call(byte me)
{
	byte ts, events, data;

	load(WORD, UNLESS(MUTANT_EVENT_SEEN, ACQ), events); /* ORD(pd.events): the same */
	load(ALSO, RLX, data); /* the attempt */
	if
	:: !data ->
		take_lock(0);
		assert(NOW(WORD) != events || !NOW(WORD)); /* it waits for the next event */
		drop_lock(0)
	:: else
	fi
}

init { atomic { run Poller(0); run Call(1) } }
#endif

#ifdef TRY_SEND
/* WORD: a receiver waits, in an unbuffered channel; ALSO: closed */
proctype Closer(byte me)
{
	byte ts;

	take_lock(0);
	store(ALSO, REL, 1);
	store(WORD, UNLESS(MUTANT_FIRST, REL), 1); /* ORD(chan.closed): it is open, without one */
	drop_lock(0)
}

proctype Sender(byte me)
{
	byte ts, none, closed;

	load(WORD, UNLESS(MUTANT_FIRST_SEEN, ACQ), none); /* ORD(chan.closed): the same */
	load(ALSO, RLX, closed);
	assert(!none || closed)
}

init { atomic { run Closer(0); run Sender(1) } }
#endif

#ifdef TRY_RECV
/* WORD: how many elements have been taken of the only one; ALSO: closed */
proctype Closer(byte me)
{
	byte ts;

	take_lock(0);
	store(ALSO, REL, 1);
	drop_lock(0);
	take_lock(0);
	store(WORD, UNLESS(MUTANT_TAKEN, REL), 1); /* ORD(chan.closed): it is open and empty */
	drop_lock(0)
}

proctype Receiver(byte me)
{
	byte ts, taken, closed;

	load(WORD, UNLESS(MUTANT_TAKEN_SEEN, ACQ), taken); /* ORD(chan.closed): the same */
	load(ALSO, RLX, closed);
	assert(!taken || closed)
}

init { atomic { run Closer(0); run Receiver(1) } }
#endif

#ifdef CLOSED
/* WORD: closed; ALSO: count */
proctype Closer(byte me)
{
	byte ts;

	take_lock(0);
	store(ALSO, RLX, 1);
	drop_lock(0);
	take_lock(0);
	store(WORD, UNLESS(MUTANT_CLOSED, REL), 1); /* ORD(chan.closed): an element is lost */
	drop_lock(0)
}

proctype Receiver(byte me)
{
	byte ts, closed, count;

	load(WORD, UNLESS(MUTANT_CLOSED_SEEN, ACQ), closed); /* ORD(chan.closed): the same */
	load(ALSO, RLX, count);
	assert(!closed || count)
}

init { atomic { run Closer(0); run Receiver(1) } }
#endif

/* --- one user after another --- */

#ifdef SPINLOCK
proctype Thread(byte me)
{
	byte ts, was = 1;

	do
	:: was == 0 -> break
	:: else ->
		NOW(WORD) == 0; /* it spins */
		exchange(WORD, 1, UNLESS(MUTANT_LOCK, ACQ), was) /* ORD(lock): it misses a change */
	od;
	mine();
	store_any(WORD, UNLESS(MUTANT_UNLOCK, REL), 0) /* ORD(lock): the same */
}

init { atomic { run Thread(0); run Thread(1); run Thread(2) } }
#endif

#ifdef LOCK_FREED
/* ALSO: the channel is closed, which a thread may see without the lock, and then free it */
proctype Closer(byte me)
{
	byte ts, was;

	exchange(WORD, 1, ACQ, was);
	store(ALSO, REL, 1);
	mine();
	store(WORD, REL, 0)
}

proctype Freer(byte me)
{
	byte ts, v;

	load(ALSO, ACQ, v);
	if
	:: v ->
		load(WORD, UNLESS(MUTANT_LOCK_END, ACQ), v); /* ORD(lock): freed while it is used */
		if
		:: v -> NOW(WORD) == 0; exchange(WORD, 1, ACQ, v)
		:: else
		fi;
		mine()
	:: else
	fi
}

init { atomic { run Closer(0); run Freer(1) } }
#endif

#ifdef SEMAPHORE
/* one permit */
proctype Thread(byte me)
{
	byte ts, s;
	bool won;

	do
	:: won -> break
	:: else ->
		NOW(WORD) == 1;
		s = 1;
		cas(WORD, s, 0, UNLESS(MUTANT_ACQUIRE, ACQ), won) /* ORD(sem): it misses a change */
	od;
	mine();
	s = 0;
	if
	:: cas(WORD, s, 1, UNLESS(MUTANT_RELEASE, REL), won) /* ORD(sem): the same */
	:: take_lock(0);
		store(WORD, UNLESS(MUTANT_RELEASE_SLOW, REL), 1); /* ORD(sem): the same */
		drop_lock(0)
	fi
}

init { VALUE(WORD, 0) = 1; atomic { run Thread(0); run Thread(1); run Thread(2) } }
#endif

#ifdef SLOT
#define ORDER_FREE UNLESS(MUTANT_FREE, REL) /* ORD(sample): the same */
#define ORDER_FULL UNLESS(MUTANT_FULL, REL) /* ORD(sample): the same */
#define FREE 0
#define FILLING 1
#define FULL 2
proctype Handler(byte me)
{
	byte ts, s, n;
	bool won;

	do
	:: n == 2 -> break
	:: else ->
		s = FREE;
		cas(WORD, s, FILLING, UNLESS(MUTANT_FILL, ACQ), won); /* ORD(sample): mixed up */
		if
		:: won -> mine(); store(WORD, ORDER_FULL, FULL)
		:: else
		fi;
		n++
	od
}

proctype Drain(byte me)
{
	byte ts, s, n;

	do
	:: n == 2 -> break
	:: else ->
		load(WORD, UNLESS(MUTANT_FULL_SEEN, ACQ), s); /* ORD(sample): the same */
		if
		:: s == FULL -> mine(); store(WORD, ORDER_FREE, FREE)
		:: else
		fi;
		n++
	od
}

init { atomic { run Handler(0); run Drain(1) } }
#endif

#ifdef SESSION
#define ORDER_NOT_BUSY UNLESS(MUTANT_NOT_BUSY, REL) /* ORD(sample.busy): the same */
proctype Session(byte me)
{
	byte ts, s;
	bool won;

	cas(WORD, s, 1, UNLESS(MUTANT_BUSY, ACQ), won); /* ORD(sample.busy): two use one buffer */
	if
	:: won -> mine(); store(WORD, ORDER_NOT_BUSY, 0)
	:: else
	fi
}

init { atomic { run Session(0); run Session(1) } }
#endif

#ifdef QUESTION
#define ORDER_GIVEN_UP UNLESS(MUTANT_GIVEN_UP, REL) /* ORD(longrun): two fill it in */
#define ORDER_ANSWERED UNLESS(MUTANT_ANSWERED, REL) /* ORD(longrun): a former answer */
#define ORDER_ASKED_SEEN UNLESS(MUTANT_ASKED_SEEN, ACQ) /* ORD(longrun): another question */
#define ORDER_LATE UNLESS(MUTANT_LATE, REL) /* ORD(longrun): the same */
#define ORDER_LATE_SEEN UNLESS(MUTANT_LATE_SEEN, ACQ) /* ORD(longrun): it is freed early */
#define ORDER_READ UNLESS(MUTANT_READ, REL) /* ORD(longrun): two fill it in */
#define ORDER_ASK UNLESS(MUTANT_ASK, ACQ) /* ORD(longrun): while it is answered */
#define FREE 0
#define FILLING 1
#define ASKED 2
#define ANSWERING 3
#define DONE 4
#define DROPPED 5
#define FIRST (me == 0)

proctype Asker(byte me)
{
	byte ts, s = FREE;
	bool won;

	cas(WORD, s, FILLING, ORDER_ASK, won);
	if
	:: won ->
		mine();
		store(WORD, UNLESS(MUTANT_ASKED, REL), ASKED); /* ORD(longrun): another question */
		load(WORD, UNLESS(MUTANT_ANSWER_SEEN, ACQ), s); /* ORD(longrun): a former answer */
		if
		:: s == DONE ->
			mine();
			store(WORD, ORDER_READ, FREE)
		:: s != DONE ->
			s = ASKED;
			cas(WORD, s, FREE, ACQ, won);
			if
			:: won
			:: else ->
				s = ANSWERING;
				cas(WORD, s, DROPPED, ACQ, won);
				if
				:: won
				:: else ->
					load(WORD, ORDER_LATE_SEEN, s);
					if
					:: s == DONE -> store(WORD, ORDER_LATE, FREE)
					:: else
					fi
				fi
			fi
		fi
	:: else
	fi
}

proctype Handler(byte me)
{
	byte ts, s;
	bool won;

	s = ASKED;
	cas(WORD, s, ANSWERING, ORDER_ASKED_SEEN, won);
	if
	:: won ->
		mine();
		s = ANSWERING;
		cas(WORD, s, DONE, ORDER_ANSWERED, won);
		if
		:: won
		:: else -> store(WORD, ORDER_GIVEN_UP, FREE)
		fi
	:: else
	fi
}

init { atomic { run Asker(0); run Asker(1); run Handler(2) } }
#endif

#ifdef AWAITS
#define ORDER_GIVE_BACK UNLESS(MUTANT_GIVE_BACK, REL) /* ORD(awaits): it is still used */
#define ORDER_RESUME UNLESS(MUTANT_RESUME, ACQ) /* ORD(awaits): it is still used */
#define ORDER_WAITS UNLESS(MUTANT_WAITS, REL) /* ORD(awaits): flags of a former wait */
/* WORD: awaits */
#define NONE 0
#define WAITS 1
#define HELD 2
proctype Waiter(byte me)
{
	byte ts, s, n;
	bool won;

	do
	:: n == 2 -> break
	:: else ->
		mine(); /* the flags of this wait */
		store(WORD, ORDER_WAITS, WAITS);
		won = false;
		do
		:: won -> break
		:: else ->
			NOW(WORD) == WAITS;
			s = WAITS;
			cas(WORD, s, NONE, ORDER_RESUME, won)
		od;
		n++
	od
}

proctype Canceller(byte me)
{
	byte ts, s = WAITS;
	bool won;

	cas(WORD, s, HELD, UNLESS(MUTANT_HOLD, ACQ), won); /* ORD(awaits): flags of a former wait */
	if
	:: won ->
		mine();
		store(WORD, ORDER_GIVE_BACK, WAITS)
	:: else
	fi
}

init { atomic { run Waiter(0); run Canceller(1) } }
#endif

#ifdef OBJECT
/* WORD: a place of the ring; the object of a thread is its number, from 1 on, and its data */
#define ORDER_PUT WEAK(MUTANT_PUT, ACQREL, ACQ) /* ORD(object): poison in reused memory */
#define ORDER_REMOVE WEAK(MUTANT_REMOVE, ACQREL, REL) /* ORD(object): the same */
#define OBJECT_OF(n) (DATA + (n) - 1)
proctype Thread(byte me)
{
	byte ts, old;

	use(OBJECT_OF(me + 1)); /* poison */
	exchange(WORD, me + 1, ORDER_PUT & ORDER_REMOVE, old);
	if
	:: old -> use(OBJECT_OF(old))
	:: else
	fi
}

init { atomic { run Thread(0); run Thread(1); run Thread(2) } }
#endif

#ifdef CHILD
#define ORDER_EMPTY_SEEN UNLESS(MUTANT_EMPTY_SEEN, ACQ) /* ORD(group.ended): results are not seen */
#define ORDER_FREE_PLACE UNLESS(MUTANT_FREE_PLACE, REL) /* ORD(group.ended): the same */
#define ORDER_TAKE_PLACE UNLESS(MUTANT_TAKE_PLACE, ACQ) /* ORD(group.ended): it is still used */
/* WORD: the word of the chunk; 1: the only place is free */
proctype Child(byte me)
{
	byte ts, s = 1;
	bool won;

	cas(WORD, s, 0, ORDER_TAKE_PLACE, won);
	if
	:: won ->
		mine();
		s = 0;
		cas(WORD, s, 1, ORDER_FREE_PLACE, won)
	:: else
	fi
}

proctype Waiter(byte me)
{
	byte ts, s;

	newest[WORD] >= 2;
	KNOWS(me, WORD) = 1; /* the children began before the wait */
	load(WORD, ORDER_EMPTY_SEEN, s);
	if
	:: s && newest[WORD] == 2 -> assert(KNOWS(me, DATA) >= 1)
	:: else
	fi
}

init { VALUE(WORD, 0) = 1; atomic { run Child(0); run Child(1); run Waiter(2) } }
#endif

#ifdef DONE_SET
/* ORD(done): it is freed while it is used */
#define ORDER_FREE WEAK(MUTANT_FREE, UNLESS(MUTANT_SET_SEEN, ACQ) + REL, ACQ)
#define ORDER_SET WEAK(MUTANT_SET, UNLESS(MUTANT_FREE_SEEN, ACQ) + REL, ACQ) /* ORD(done) */
#define ORDER_SETTING UNLESS(MUTANT_SETTING, REL) /* ORD(done): what came before is not seen */
#define UNSET 0
#define SETTING 1
#define SET 2
#define FREED 3
/* MORE: what the caller of gmp_done_set has done before; DATA, LAST: the object, as the setter and
 * the caller of gmp_done_free use it */
proctype Setter(byte me)
{
	byte ts, s;

	use(MORE);
	take_lock(0);
	store(WORD, ORDER_SETTING, SETTING);
	drop_lock(0);
	mine(); /* it closes the shards */
	exchange(WORD, SET, ORDER_SET, s);
	if
	:: s == FREED -> mine(); use(LAST) /* it releases the object */
	:: else
	fi
}

proctype Getter(byte me)
{
	byte ts, s;

	load(WORD, UNLESS(MUTANT_DONE_SEEN, ACQ), s); /* ORD(done): what came before is not seen */
	if
	:: s != UNSET -> use(MORE)
	:: else
	fi
}

proctype Freer(byte me)
{
	byte ts, s;

	newest[WORD] >= 1;
	KNOWS(me, WORD) = 1; /* it has seen that the event has happened */
	use(LAST);
	exchange(WORD, FREED, ORDER_FREE, s);
	if
	:: s != SETTING -> mine() /* it releases the object */
	:: else
	fi
}

init { atomic { run Setter(0); run Getter(1); run Freer(2) } }
#endif

#ifdef ONCE
#define ORDER_FINISH_SLOW UNLESS(MUTANT_FINISH_SLOW, REL) /* ORD(once): the same */
#define ORDER_FINISH UNLESS(MUTANT_FINISH, REL) /* ORD(once): the same */
#define NEW 0
#define RUNNING 1
#define WAITED 2
#define DONE 3
proctype Caller(byte me)
{
	byte ts, s;
	bool won;

	load(WORD, UNLESS(MUTANT_DONE_AT_ONCE, ACQ), s); /* ORD(once): what fn did is not seen */
	if
	:: s == DONE -> assert(KNOWS(me, DATA) >= 1)
	:: else ->
		s = NEW;
		cas(WORD, s, RUNNING, ACQ, won);
		if
		:: won ->
			mine(); /* fn */
			s = RUNNING;
			cas(WORD, s, DONE, ORDER_FINISH, won);
			if
			:: won
			:: else ->
				take_lock(0);
				store_any(WORD, ORDER_FINISH_SLOW, DONE);
				drop_lock(0)
			fi
		:: else ->
			take_lock(0);
			s = RUNNING;
			cas(WORD, s, WAITED, ACQ, won);
			drop_lock(0)
		fi
	fi
}

init { atomic { run Caller(0); run Caller(1); run Caller(2) } }
#endif

/* --- words that count --- */

#ifdef WAIT_GROUP
#define ORDER_LAST_WORKED WEAK(MUTANT_LAST_WORKED, ACQREL, REL) /* ORD(wg): the other's is not */
#define ORDER_WORKED UNLESS(MUTANT_WORKED, REL) /* ORD(wg): a result is not seen */
/* WORD: the counter, and 16 for waiters; the data of each worker */
#define WAITERS 16
bool queued, woken;

proctype Worker(byte me)
{
	byte ts, s, to;
	bool won;

	use(DATA + me);
	s = NOW(WORD);
	do
	:: won -> break
	:: else ->
		to = ((s & 15) == 1 -> 0 : s - 1);
		if
		:: to == 0 && (s & WAITERS) -> break
		:: else -> cas(WORD, s, to, ORDER_WORKED, won)
		fi
	od;
	if
	:: won
	:: else ->
		take_lock(0);
		do
		:: won -> break
		:: else ->
			s = NOW(WORD);
			cas(WORD, s, 0, ORDER_LAST_WORKED, won)
		od;
		skip; /* spin lets no break end at a d_step */
		/* the claim of the waiter */
		d_step {
			for (mem_k : 0 .. LOCS - 1) {
				if
				:: KNOWS(me, mem_k) > KNOWS(2, mem_k) ->
					KNOWS(2, mem_k) = KNOWS(me, mem_k)
				:: else
				fi
			};
			mem_k = 0
		};
		woken = true;
		drop_lock(0)
	fi
}

proctype Waiter(byte me)
{
	byte ts, s;
	bool won;

	load(WORD, UNLESS(MUTANT_NONE_LEFT, ACQ), s); /* ORD(wg): a result is not seen */
	if
	:: s == 0
	:: else ->
		take_lock(0);
		do
		:: load(WORD, UNLESS(MUTANT_NONE_LEFT, ACQ), s);
			if
			:: s == 0 -> drop_lock(0); break
			:: else ->
				cas(WORD, s, s | WAITERS, ACQ, won);
				if
				:: won -> drop_lock(0); woken; break
				:: else
				fi
			fi
		od
	fi;
	use(DATA);
	use(MORE)
}

init { VALUE(WORD, 0) = 2; atomic { run Worker(0); run Worker(1); run Waiter(2) } }
#endif

#ifdef RWMUTEX
#define ORDER_WUNLOCK UNLESS(MUTANT_WUNLOCK, REL) /* ORD(rwmutex): a write is not seen */
#define ORDER_WLOCK UNLESS(MUTANT_WLOCK, ACQ) /* ORD(rwmutex): a reader's is late */
#define ORDER_RUNLOCK_SLOW UNLESS(MUTANT_RUNLOCK_SLOW, ACQ) /* ORD(rwmutex): an earlier reader's */
#define ORDER_RUNLOCK UNLESS(MUTANT_RUNLOCK, REL) /* ORD(rwmutex): read late */
#define ORDER_RLOCK UNLESS(MUTANT_RLOCK, ACQ) /* ORD(rwmutex): a write is not seen */
/* WORD: 1: LOCKED, 2: DRAIN, and 4 for each reader.  DATA: the writer's accesses; MORE, LAST: those
 * of the readers */
#define LOCKED 1
#define DRAIN 2
#define READER 4
bool woken;

proctype ReaderThread(byte me)
{
	byte ts, s;
	bool won, slow;

	do
	:: won -> break
	:: else ->
		atomic { !(NOW(WORD) & LOCKED) -> s = NOW(WORD) };
		cas(WORD, s, s + READER, ORDER_RLOCK, won)
	od;
	assert(KNOWN(DATA));
	touch(MORE + me);
	won = false;
	s = NOW(WORD);
	do
	:: won -> break
	:: !won && (s & DRAIN) && s < 2 * READER -> slow = true; break
	:: else -> cas(WORD, s, s - READER, ORDER_RUNLOCK, won)
	od;
	if
	:: slow ->
		take_lock(0);
		do
		:: load(WORD, ORDER_RUNLOCK_SLOW, s);
			if
			:: (s & DRAIN) && s < 2 * READER -> break
			:: else ->
				cas(WORD, s, s - READER, REL, won);
				if
				:: won -> drop_lock(0); goto over
				:: else
				fi
			fi
		od;
		skip; /* spin lets no break end at a d_step */
		/* the claim of the writer */
		d_step {
			for (mem_k : 0 .. LOCS - 1) {
				if
				:: KNOWS(me, mem_k) > KNOWS(2, mem_k) ->
					KNOWS(2, mem_k) = KNOWS(me, mem_k)
				:: else
				fi
			};
			mem_k = 0
		};
		won = false;
		do
		:: won -> break
		:: else -> s = NOW(WORD); cas(WORD, s, (s - READER) & ~DRAIN, REL, won)
		od;
		woken = true;
		drop_lock(0)
	:: else
	fi;
over:	skip
}

proctype Writer(byte me)
{
	byte ts, s;
	bool won;

	do
	:: won -> break
	:: else ->
		s = NOW(WORD);
		cas(WORD, s, s | LOCKED, ORDER_WLOCK, won)
	od;
	if
	:: s < READER /* rw_take_write */
	:: s >= READER ->
		load(WORD, UNLESS(MUTANT_READERS_SEEN, ACQ), s) /* ORD(rwmutex): the same */
	fi;
	if
	:: s < READER
	:: else ->
		take_lock(0);
		do
		:: load(WORD, UNLESS(MUTANT_READERS_SEEN, ACQ), s);
			if
			:: s < READER -> drop_lock(0); break
			:: else ->
				cas(WORD, s, s | DRAIN, ACQ, won);
				if
				:: won -> drop_lock(0); woken; break
				:: else
				fi
			fi
		od
	fi;
	assert(KNOWN(MORE) && KNOWN(LAST));
	mine();
	won = false;
	do
	:: won -> break
	:: else -> s = LOCKED; cas(WORD, s, 0, ORDER_WUNLOCK, won)
	od
}

init { atomic { run ReaderThread(0); run ReaderThread(1); run Writer(2) } }
#endif

/* --- a word that is read before and after the data --- */

#ifdef LIFE
#define ORDER_GENERATION UNLESS(MUTANT_GENERATION, REL) /* ORD(g.life): alive in the former life */
#define ORDER_ALIVE UNLESS(MUTANT_ALIVE, REL) /* ORD(g.status): a field of the former life */
/* WORD: the generation, from 0 on; ALSO: the status, 1: alive; THIRD: a field, the number of its
 * life */
proctype Owner(byte me)
{
	byte ts, life = 1;

	do
	:: life > 2 -> break
	:: else ->
#ifndef MUTANT_INIT_FENCE /* ORD(g.life): a field of the next life, and this generation */
		fence_rel();
#endif
		store(THIRD, RLX, life);
		store(ALSO, ORDER_ALIVE, 1);
		store(ALSO, REL, 0);
		store(WORD, ORDER_GENERATION, life);
		life++
	od
}

proctype Dump(byte me)
{
	byte ts, life, status, field, after;

	load(WORD, UNLESS(MUTANT_GENERATION_SEEN, ACQ), life); /* ORD(g.life): the same */
	load(ALSO, UNLESS(MUTANT_ALIVE_SEEN, ACQ), status); /* ORD(g.status): the same */
	load(THIRD, RLX, field);
#ifndef MUTANT_CHECK_FENCE /* ORD(g.life): a field of the next life, and this generation */
	fence_acq();
#endif
	load(WORD, RLX, after);
	assert(!status || life != after || field == life + 1)
}

init { atomic { run Owner(0); run Dump(1) } }
#endif

#ifdef KEY
#define ORDER_KEY_CLAIM UNLESS(MUTANT_KEY_CLAIM, ACQ) /* ORD(key): a generation comes twice */
/* WORD: live, 0: free, 1: busy, otherwise the key; ALSO: the destructor, of that key; DATA: the
 * generation */
proctype Owner(byte me)
{
	byte ts, s;
	bool won;

	cas(WORD, s, 1, ORDER_KEY_CLAIM, won);
	if
	:: won ->
		mine();
#ifndef MUTANT_KEY_FENCE /* ORD(key): the destructor of the next key, and this one's number */
		fence_rel();
#endif
		KNOWS(me, ALSO) = newest[ALSO];
		store(ALSO, RLX, 2 + me);
		store(WORD, UNLESS(MUTANT_KEY_LIVE, REL), 2 + me); /* ORD(key): no destructor yet */
		s = 2 + me;
		cas(WORD, s, 0, REL, won)
	:: else
	fi
}

proctype Exit(byte me; byte key)
{
	byte ts, live, destroy, after;

	load(WORD, UNLESS(MUTANT_KEY_SEEN, ACQ), live); /* ORD(key): no destructor yet */
	load(ALSO, RLX, destroy);
#ifndef MUTANT_KEY_CHECK /* ORD(key): the destructor of the next key, and this one's number */
	fence_acq();
#endif
	load(WORD, RLX, after);
	assert(live != key || after != key || destroy == key)
}

init { atomic { run Owner(0); run Owner(1); if :: run Exit(2, 2) :: run Exit(2, 3) fi } }
#endif
