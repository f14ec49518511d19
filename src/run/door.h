/* SPDX-License-Identifier: MIT */
/*
 * Door: the functions by which posix/ uses the runtime.
 *
 * posix/ includes no other header of src/ except base/ and, for descriptors, io/fd.h and io/poll.h
 * (rule R9 of ARCHITECTURE.md).  It reads no field of a G, M, P, sudog or of `sched`: what it needs
 * is a function here (scripts/check-floors).  Functions on fast paths are inline.
 *
 * The headers below are the door's too, for these functions
 *   enter.h                  own_green, rt_enter, rt_leave
 *   ready.h                  sched_light_fence, sched_heavy_fence
 *   park.h                   ready_list
 *   wait/parkinglot.h        lot_...
 *   machine/tlsblock.h       tlsblock_...
 *   monitor/faultsig.h       signal_...
 *   observe/dump/dump_signal.h   delegate_sig
 *   run/fork.h               run_adopt
 *   variant/chaos.h          chaos_point
 *   variant/thread.h         libc_call_...
 *
 * A function whose name ends in _sig is async-signal-safe.
 */
#ifndef GMP_DOOR_H
#define GMP_DOOR_H

#include <gmp.h>
#include <pthread.h>

#include "enter.h"
#include "machine/tlsblock.h"
#include "monitor/faultsig.h"
#include "observe/dump/dump_signal.h"
#include "park.h"
#include "ready.h"
#include "run/fork.h"
#include "variant/chaos.h"
#include "variant/thread.h"
#include "wait/parkinglot.h"

/* --- the caller --- */

/* The calling G while it runs code of the program; NULL for an external thread, in blocking code,
 * on g0 and in a P section. */
static inline struct g *running_green(void)
{
	struct m *m = getm();

	return unlikely(m != NULL) && likely(m->curg && !m->inside) ? m->curg : NULL;
}

/* gp has thread-locals of its own (variant/owntls.h). */
static inline bool green_has_own_tls(const struct g *gp)
{
	return gp->resume & RESUME_OWN_TLS;
}

/* gp, which running_green has returned, has own thread-locals, or is locked or pinned to its OS
 * thread: it may wait on its own stack. */
static inline bool green_may_park(const struct g *gp)
{
	return green_has_own_tls(gp) || gp->lockedm == getm();
}

/* The caller is a G, outside of blocking code, that was cancelled. */
static inline bool caller_is_cancelled(void)
{
	const struct m *m = getm();

	return likely(m != NULL) && unlikely(ld_rlx(&m->curg->cancelled));
}

/* The caller is on g0 or in a P section, which siglongjmp would not leave; also in one at an end of
 * blocking code. */
static inline bool is_in_runtime_sig(void)
{
	const struct m *m = getm() ? getm() : gmp__blockedm();

	return m && ld_rlx(&m->inside);
}

/* The mask that posix/ has set on the OS thread of the calling G, also in blocking code; NULL for
 * an external thread.  For posix/signal/mask.c alone. */
static inline uint64_t *caller_sigmask(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();

	return m ? &m->sigmask : NULL;
}

/* How many switches the P of the calling G has made; 0 without a P. */
static inline uint64_t switches_here(void)
{
	const struct p *pp = ld_rlx(&getm()->p);

	return pp ? ld_rlx(&pp->count.switches) : 0;
}

/* --- the run --- */

/* The number of the present run, or of the last one. */
static inline uint32_t run_number(void)
{
	return ld_rlx(&sched.run);
}

static inline bool run_is_on(void)
{
	return ld_seq(&sched.state) == RUN_ON; /* ORD(run) */
}

/* The first G of gmp_run, whose end ends the run; NULL under gmp_start. */
static inline struct g *run_first_green(void)
{
	return sched.main;
}

/* The Gs of the run are OS threads (GMP_SCHED=thread). */
static inline bool run_has_threads(void)
{
	return sched.variant.threads;
}

/* From now on a run in which all Gs wait is no deadlock: signals end waits. */
void run_ends_by_signals(void);

/* Around a wait that only a signal ends: no deadlock meanwhile.  On its G. */
void signal_wait_begin(void);
void signal_wait_end(void);

/* The kernel's ids of Ms, the newest first; run_tids: of the runtime's threads that make Ms, too.
 * Both write n at most, which is 2 or more, and return their number. */
int run_m_tids(int *tids, int n);
int run_tids(int *tids, int n);

/* Around a call that makes a process: the OS thread of an M gets the timer slack, and the slice of
 * the kernel's scheduler, of a process without runtime, which its child inherits. */
void child_attributes_begin(void);
void child_attributes_end(void);

/* --- green threads --- */

/*
 * Make a joinable G with thread-locals of its own that is not runnable yet.
 *
 * fn, arg  its entry
 * stack    bytes; 0: the default of the run
 * self     what pthread_self() is for it
 *
 * Returns 0 or a negative errno.  Inside rt_enter.
 */
int green_make(gmp_fn fn, void *arg, size_t stack, struct g **made, pthread_t *self);
/* Make it runnable.  Inside rt_enter. */
void green_submit(struct g *gp);
/* Before green_submit, or while it cannot end: dumps show the name. */
void green_set_name(struct g *gp, const char *name);

/* The argument of gp if fn is its entry, otherwise NULL. */
static inline void *green_arg(const struct g *gp, gmp_fn fn)
{
	return gp->fn == fn ? gp->arg : NULL;
}

/* The stack of gp, which has not ended: its lowest address, or NULL before the first run, and its
 * size. */
char *green_stack(const struct g *gp, size_t *size);
/* `at` is an address on the stack of gp. */
bool is_on_stack_sig(const struct g *gp, uintptr_t at);

/* On the stack of the calling G, which ends: the destructors of its thread-locals.  May wait. */
void green_end_locals(void);
/* fn is called on g0, with no locks held, for each G with own thread-locals that has ended.  If it
 * returns true, it gives the block back later.  Before the first run. */
void green_on_end(bool (*fn)(struct g *gp, struct tlsblock *b));
/* Give a block back; NULL: nothing.  No locks held. */
void green_give_block(struct tlsblock *b);
/* The block whose pthread_self() is self. */
struct tlsblock *block_of_self(pthread_t self);

/* The kernel's id of the OS thread that runs gp; 0: none does.  green_tid_sig: 0 also if a lock is
 * taken. */
int green_tid(const struct g *gp);
int green_tid_sig(const struct g *gp);

/* It waits or has ended; or it is about to run, or runs.  *tid: its OS thread, or 0. */
bool green_waits(const struct g *gp, int *tid);
/* Claim the wait of gp with -EINTR; false if it is in no wait that a signal handler ends.  The
 * caller then calls green_ready, with no locks held.  gp may have been reused: PARK-1. */
bool green_cut_wait(struct g *gp);
void green_ready(struct g *gp);

/* The G whose code a signal handler with this context has interrupted, also in blocking code; NULL:
 * it was other code. */
struct g *interrupted_green_sig(const void *context);

/* fn is called on sysmon, with no locks held, soon after delegate_sig.  Before the first run. */
void run_on_delegated(void (*fn)(void));

/* --- the parking table --- */

/*
 * A wait in the parking table.
 *
 * why     enum waitreason, or-ed with UNCANCELLABLE
 * front   enqueue before the others
 * due     lot_first_due shows it
 * arg     park_arg returns it to unwait
 * commit  instead of lot_unlock: unlocks the bucket, on g0 for a G; gets commit_arg
 */
struct park_wait {
	const void *key;
	unsigned why;
	bool front;
	int64_t due, deadline;
	unwait_fn unwait;
	void *arg;
	commit_fn commit;
	void *commit_arg;
};

/* Enqueue the caller, a G or an external thread, in the bucket of the key, whose lock is held, and
 * wait.  The lock is dropped.  Returns as wait_on of park.h. */
static inline int park_in(struct bucket *b, const struct park_wait *p)
{
	struct external f;
	struct sudog *sg = self_sudog(&f);

	sg->due = p->due;
	sg->elem = p->arg;
	lot_enqueue(b, p->key, sg, p->front);
	if (p->commit)
		return wait_on(sg->w, p->why, p->unwait, p->commit, p->commit_arg, p->deadline);
	return lot_wait(b, sg, p->why, p->unwait, p->deadline);
}

/* In unwait: what the waiter w waits for, its arg, and the result of its wait. */
static inline const void *park_key(struct waiter *w)
{
	return waiter_sudog(w)->key;
}

static inline void *park_arg(struct waiter *w)
{
	return waiter_sudog(w)->elem;
}

int park_result(const struct waiter *w);

/* The due of the first waiter for the key, with the bucket locked; NULL: there is none. */
static inline int64_t *lot_first_due(struct bucket *b, const void *key)
{
	struct sudog *sg = lot_first(b, key);

	return sg ? &sg->due : NULL;
}

/* The number of the key's bucket, below LOT_BUCKETS. */
static inline unsigned lot_index(const void *key)
{
	return (unsigned)(lot_hash(key) >> 55);
}

#endif
