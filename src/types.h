/* SPDX-License-Identifier: MIT */
/*
 * The nouns of the runtime: G, M and P, and the waiters, timers and queues that they are made of.
 *
 *   G  a green thread: a g struct (below) and, from its first run to its end, a stack (stack.c)
 *   M  an OS thread that runs Gs; its own stack is called g0, and only the scheduler runs on it
 *   P  the right to run Gs, with a local run queue and caches; there are `procs` of them
 *
 *        M ── holds ──> P ── runq ──> G G G ...          global queue: G G G ...
 *        └─ runs ─────> G
 *
 * Access rule of a field, in the comment behind it
 *   (c) constant once set      (o) its owner only: the M of a G, the M of a P, an M itself
 *   (a) atomic                 (l) under sched.lock
 *   (t) under timers.lock of the P      (w) the waker that claimed the waiter
 *
 * State words: waiter.state, g.status, g.resume, g.at_end, p.status, p.attention (here), g.join
 * (spawn.c), polldesc.use (netpoll/record.h).  Locks and the orders of the atomics:
 * docs/internals/memory-order.md.
 */
#ifndef GMP_TYPES_H
#define GMP_TYPES_H

#include <pthread.h>

#include "base/atomic.h"
#include "base/base.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/os.h"
#include "base/san.h"
#include "base/tls.h"
#include "context.h"
#include "gmp.h"
#include "machine/cxx.h"
#include "stack.h"

struct g;
struct m;
struct p;
struct tlsblock;
struct waiter;

enum gstatus {
#define GSTATUS(name, text, edges) name,
#include "gstatus.def"
#undef GSTATUS
};

enum waitreason {
#define WAITREASON(name, text, key, end, handler) name,
#include "waitreason.def"
#undef WAITREASON
	WAIT_REASONS /* their number */
};

/* What the key of a waiting sudog is. */
enum waitkey {
	WAITKEY_OBJECT,     /* NULL or the address of the object */
	WAITKEY_LOCK,       /* of a gmp_mutex or gmp_rwmutex: wait_key_mutex */
	WAITKEY_ONCE,       /* a gmp_once */
	WAITKEY_JOIN,       /* the field `join` of the awaited G */
	WAITKEY_FD,         /* a struct polldesc */
	WAITKEY_CASES,      /* NULL; select_places finds the channels */
	WAITKEY_OFFSET,     /* the address of the object plus up to 7 (posix/parked.h) */
	WAITKEY_COMPLEMENT, /* the complement of the address of the object */
};

/* What can end a wait: bits. */
enum waitend {
	WAITEND_OTHER = 0,      /* nothing, a timer, or a G that is not recorded */
	WAITEND_KNOWN = 1 << 0, /* one G, which snapshot_awaited finds */
	WAITEND_ANY = 1 << 1,   /* any G */
	WAITEND_IO = 1 << 2,    /* a file descriptor or an operation on it */
	WAITEND_KNOWN_OR_ANY = WAITEND_KNOWN | WAITEND_ANY,
};

enum { WAITHANDLER_KEEPS, WAITHANDLER_CUTS };

struct wait_kind {
	const char *text;
	uint8_t key; /* enum waitkey */
	uint8_t end; /* enum waitend */
	bool cut_by_handlers;
};

extern const struct wait_kind wait_kinds[WAIT_REASONS]; /* g.c */

/* Or-ed to the reason of a wait: cancellation does not end it. */
enum { UNCANCELLABLE = 0x80 };

/* --- timers: timerheap.c --- */

struct timer;

/* Waiters that became runnable together: Gs, linked by schedlink in FIFO order, and external
 * threads, linked by their sudogs.  ready_list (park.h) makes them run. */
struct glist {
	struct g *head, *tail;
	unsigned n; /* Gs */
	struct sudog *external;
};

/*
 * Action of a timer that is due.  Runs on g0 or on an external thread, with the heap's lock held.
 * It may claim a waiter and append its G to out, and nothing else.  To stay in the heap, it sets
 * t->when and returns true.
 */
typedef bool (*timer_fire)(struct timer *t, int64_t now, struct glist *out);

struct timer {
	int64_t when;    /* (t) */
	timer_fire fire; /* (c) */
	struct p *pp;    /* (a) the P whose heap holds it; NULL: not armed */
	uint32_t at;     /* (t) its index there */
};

/* The heap holds the time beside the pointer, so sifting touches only the timers that it moves. */
struct timer_slot {
	int64_t when;
	struct timer *t;
};

struct timers {
	struct lock lock;
	uint32_t n;              /* (a) written under the lock */
	int64_t next;            /* (a) the earliest `when`; NEVER when empty */
	struct timer_slot *heap; /* under the lock: address space for every timer that can exist */
	uint32_t limit;          /* (c) of these, timers of Gs and fds */
	size_t bytes;            /* of the heap; this and `link` under the lock of places */
	struct timers *link;
};

/* --- waiting: park.h --- */

/*
 * State word of a waiter.  One writer wins the transition ARMED -> CLAIMED by compare-and-swap.
 *
 *   bits 0..1   enum waiter_state
 *   bit  2      WAITER_DONE: the waker of an external thread no longer uses its sudog.  Set only
 *               with CLAIMED, by sched_wake_external; never cleared.  An external thread that was
 *               claimed by a waker returns only after it.
 *   bits 3..31  the negated result of the wait (a negative errno); valid while CLAIMED
 *
 *   IDLE     the owner runs; no other thread writes the word
 *   ARMED    the owner is off its stack (an external thread: about to sleep); a waker may claim it
 *   BUSY     one thread inspects the waiter or arms its timer, and then makes it ARMED or CLAIMED;
 *            other claimers spin
 *   CLAIMED  exactly one waker owns the waiter and makes it runnable
 */
enum waiter_state { WAITER_IDLE = 0, WAITER_ARMED = 1, WAITER_CLAIMED = 2, WAITER_BUSY = 3 };
enum { WAITER_STATE_MASK = 3, WAITER_DONE = 1 << 2, WAITER_RESULT_SHIFT = 3 };

_Static_assert(WAITER_BUSY == (int)WAITER_STATE_MASK, "the states fill the mask");
_Static_assert((WAITER_DONE & WAITER_STATE_MASK) == 0 && WAITER_DONE < 1 << WAITER_RESULT_SHIFT,
	       "WAITER_DONE lies between the state and the result");

/* Something that can wait: a G, or an external thread that sleeps on the state word. */
struct waiter {
	uint32_t state; /* (a) see above */
	struct g *gp;   /* (c) NULL: an external thread */
};

/*
 * Undo an unfinished wait: dequeue the sudog of w.  Called when a timeout, a cancellation or the
 * end of the run has claimed w, and for a G that shutdown kills after it was woken (result 0) and
 * before it ran: then a grant that it received is passed on.  Runs on g0 or on the waiting external
 * thread, with no lock held.
 */
typedef void (*unwait_fn)(struct waiter *w);

/* A waiter's place in one queue.  A G has one inside, which serves every wait except select. */
struct sudog {
	/* the tree of the parking table, see parkinglot.c */
	struct sudog *left, *right, *tail;
	int64_t due; /* from this time on an unlock hands the mutex over: MUTEX-4 of wait/mutex.c,
			PARKED-5 of posix/parked.h */
	/* fields that every wait touches, in one cache line of a G */
	struct waiter *w;
	struct sudog *next, *prev; /* in the queue of its object (parkinglot.c: address) */
	const void *key;           /* the object: an address, a channel, a side of an fd */
	void *elem;                /* the element to send, or the place to receive it */
	uint32_t priority;         /* in the tree */
	uint16_t kind;             /* free for the object: reader or writer, ... */
	bool queued;               /* it is in a queue */
	bool chosen;               /* (w) the peer of a channel, or an event, matched this sudog */
};

/* --- G --- */

enum { G_NAME_MAX = 64 };

/*
 * g.resume: work of the next switch to the G.  Any bit sends the switch to the slow path
 * (sched.c: begin_g0, resume_slow_g0).  Written by the owner of the G only, so never stale.
 */
enum {
	/* The wait has a deadline, so its timer may be armed.  Set by park_g0, cleared by
	 * end_wait_g0. */
	RESUME_TIMED = 1 << 0,
	/* Only its own M may run it (PIN-1).  Set and cleared by gmp_lock_thread and its
	 * inverse. */
	RESUME_BOUND = 1 << 1,
	/* It has exception state of a C++ runtime on its stack, see machine/cxx.h.  Set by
	 * sched_leave_cxx, cleared by end_wait_g0. */
	RESUME_CXX = 1 << 2,
	/* It runs only on one M, which runs others too (PIN-2).  Set by gmp_pin and for GMP_PINNED,
	 * cleared by gmp_unpin. */
	RESUME_PINNED = 1 << 3,
	/* Call sched.on_arrive once.  Set by observe/, cleared by resume_slow_g0. */
	RESUME_OBSERVED = 1 << 4,
	/* Made by gmp_go and has not run, so that only the run queue has a pointer to it (G-3).
	 * Set by gmp_go, cleared by begin_g0. */
	RESUME_UNSHARED = 1 << 5,
	/* The time since ready_at must be recorded: observe/latency.h, which sets and clears it. */
	RESUME_MEASURED = 1 << 6,
	/* It has thread-locals of its own: variant/owntls.h.  Set at the spawn or the first run,
	 * never cleared. */
	RESUME_OWN_TLS = 1 << 7,
};

/* g.at_end: work of the G's end.  Set by the G's M, cleared when the work is done. */
enum {
	AT_END_LOCALS = 1 << 0,    /* it has locals: sched.locals_end */
	AT_END_TIMER_RUN = 1 << 1, /* a timer started it: sched.timer_run_end */
	AT_END_OWN_TLS = 1 << 2,   /* destructors of its own thread-locals: owntls_end */
};

/* A function that runs on the G's stack when it ends, also by gmp_exit. */
struct cleanup {
	struct cleanup *next;
	void (*fn)(void *arg);
	void *arg;
};

struct g {
	/* fields that a switch touches: one cache line */
	struct context ctx; /* (o) */
	struct waiter w;
	char *stack;         /* (o) lowest address, (a) for reads; NULL before the first run */
	uint8_t status;      /* (a) enum gstatus */
	uint8_t stack_class; /* (c) while alive */
	uint8_t reason;      /* (a) enum waitreason */
	bool trimmed;        /* (a) sysmon has checked its stack since it parked */
	uint8_t resume;      /* (o) RESUME_* */
	uint8_t measured;    /* (o) with RESUME_MEASURED: see observe/latency.h */
	bool uncancellable;  /* (o) cancellation does not end its present wait */
	bool cancelled;      /* (a) */
	uint32_t token;      /* (c) identifies it as a lock owner: index + 1 */
	uint32_t born;       /* (a) when it was made: see g_born_at */
	union {
		struct g *schedlink;   /* (o) next in the list that holds it */
		struct waiter *awaits; /* (a) if it runs as an OS thread: see variant/thread.c */
	};
	unwait_fn unwait; /* (o) undoes its present wait */

	gmp_fn fn;           /* (c) while alive */
	void *arg;           /* (c) while alive */
	uint64_t id;         /* (c) while alive */
	uintptr_t join;      /* (a) enum joinstate, or the joiner's sudog: see spawn.c */
	uint32_t generation; /* (a) how often the g struct was freed */
	uint8_t masked;      /* (o) depth of gmp_cancel_mask */
	uint8_t at_end;      /* (o) AT_END_* */
	bool named;          /* (a) g_name returns a name */
	uint8_t pins;        /* (o) depth of gmp_pin */
	struct m *lockedm;   /* (o) its M while it is bound or pinned */
	uintptr_t made_at;   /* (c) the pc of the call that made it */
	union {
		int64_t since;     /* (a) of a waiting G: about when it parked */
		uint64_t ready_at; /* (a) of a woken G with RESUME_MEASURED: cpu_ticks;
				      in a list of due timers: the deadline */
	};
	struct cleanup *cleanups; /* (o) LIFO */
	struct locals *locals;    /* (o) see wait/fls.c; may be left by a former G */
	struct timer timer;       /* of a wait with a deadline */
	struct sudog sudog;
	struct san_stack san;
};

_Static_assert(offsetof(struct g, sudog.w) / CACHE_LINE ==
		       offsetof(struct g, sudog.chosen) / CACHE_LINE,
	       "a wait touches one line of the sudog");

/* The unit of `born`: 17 ms; it wraps after two years. */
enum { BORN_SHIFT = 24 };

static inline uint32_t g_born_at(int64_t ns)
{
	return (uint32_t)((uint64_t)ns >> BORN_SHIFT);
}

/* The C++ exception state of a parked G with RESUME_CXX, above its first frame. */
static inline struct cxx_globals *g_cxx(const struct g *gp)
{
	return (struct cxx_globals *)stack_top(gp->stack, gp->stack_class) - 1;
}

/* --- P --- */

enum {
	RUNQ_SIZE = 2048, /* of the ring of a P: see runq.h */
	RUNQ_BATCH = 128, /* at most so many Gs move to or from the global queue at a time */
	GQ_CAP_MIN = 128, /* least entries of a lane of the global queue; a page holds them */
	GFREE_CACHE = 64, /* free g structs of a P */
};

/*
 * Status word of a P.
 *
 *   bits 0..1   enum p_status
 *   bit  2      P_LONG, with P_BLOCKED only: the section is expected to be long, so any M that
 *               needs a P takes this one at once (blocking.c, BLOCK-5).  A hint: it may be wrong
 *               either way.
 *   bits 3..31  with P_BLOCKED only: the number of the M in blocking code.  An M therefore never
 *               mistakes a section of another M in the same P for its own.
 *
 *   state    meaning                                    entered from    by
 *   IDLE     on sched.pidle, no M, empty queues         RUNNING         its M: pidle_put       (l)
 *                                                       RETIRED         p_revive               (l)
 *   RUNNING  an M runs it, or is about to: between a    IDLE            pidle_get, sched_regain_p,
 *            hand-off and acquirep it has no M                          acquirep               (l)
 *                                                       BLOCKED         its M or a taker, by
 *                                                                       compare-and-swap
 *   RETIRED  beyond procs: no M, empty queues           IDLE            p_dismiss              (l)
 *                                                       RUNNING         p_retire, p_idle_locked (l)
 *   BLOCKED  its M is in blocking code                  RUNNING         its M: gmp_block_enter
 *
 * Staleness: an unlocked read may be outdated in every direction.  Under sched.lock only the change
 * between RUNNING and BLOCKED can happen meanwhile, so a taker decides by the compare-and-swap.
 */
enum p_status { P_IDLE = 0, P_RUNNING = 1, P_RETIRED = 2, P_BLOCKED = 3 };
enum { P_STATUS_MASK = 3, P_LONG = 1 << 2, P_BLOCKED_M_SHIFT = 3 };

_Static_assert(P_BLOCKED == (int)P_STATUS_MASK, "the states fill the mask");
_Static_assert((P_LONG & P_STATUS_MASK) == 0 && P_LONG < 1 << P_BLOCKED_M_SHIFT,
	       "P_LONG lies between the state and the number of the M");

/* How long the sections of one call of gmp_block_enter last. */
struct section {
	uint32_t ticks; /* moving average in cpu_ticks, capped; 0: none was timed */
	uint32_t begun;
};
enum { SECTION_SITES = 64 };

/*
 * p.attention: why the M of a P leaves the fast path of schedule_g0 (attend_g0) at its next step.
 * A bit that is set although the cause is gone costs one slow step; a bit that is missing would
 * delay its cause without bound.  Set by other threads with an atomic or; cleared by the owner, and
 * RETIRE also under sched.lock.
 */
enum {
	/* The runtime stops.  Set by sched_stop; never cleared. */
	ATTENTION_STOP = 1 << 0,
	/* The P is beyond procs: retire it (p_retire).  Set by p_dismiss, also cleared by
	 * p_revive. */
	ATTENTION_RETIRE = 1 << 1,
	/* Thieves may come: call p_open.  Set by p_share. */
	ATTENTION_SHARE = 1 << 2,
	/* The running G yields at its next checkpoint, except for PREEMPT-6, where the checkpoint
	 * clears the bit.  Set by sched_ask_yield. */
	ATTENTION_YIELD = 1 << 3,
	/* GMP_DEBUG=chaos: each step takes the slow path (variant/chaos.c).  Constant. */
	ATTENTION_CHAOS = 1 << 4,
	/* Gs that are pinned to the P's M may be in m->pinned.  Set by pin_send and p_bind, cleared
	 * by pin_take.  May be set although the list is empty, or the P has another M. */
	ATTENTION_PINNED = 1 << 5,
	/* PICK-3 at the next switch: the P has switched only a few times for a while, or a G in the
	 * global queue must not wait longer.  Set by sched_ask_check. */
	ATTENTION_CHECK = 1 << 6,
	/* It is the turn of the second ring: PICK-4.  Set and cleared by pick.c. */
	ATTENTION_YIELDED = 1 << 7,
	/* Work of the next switch: no checkpoint yields for it.  A yield would move a G of an event
	 * behind all Gs that have yielded, for a bit that its wakeup may have set itself; and a G
	 * that computes would wait for all of them at each event. */
	ATTENTION_AT_SWITCH = ATTENTION_CHECK | ATTENTION_YIELDED,
};

/* Written by the owner alone, read by any thread. */
struct counters {
	uint64_t spawns, exits, binds, unbinds, switches, steals, stolen, overflows, wakeups, parks,
		spins, timers_fired, blocks, ran;
};

/* --- scheduling latency: observe/latency.h --- */

/* A run of a G that sysmon has seen in two polls: PREEMPT-6.  It is that of an earlier G if sysmon
 * has not seen the present one. */
struct stay {
	int tid;       /* (a) of its M; the last to be written */
	int64_t since; /* (a) os_now of the last poll that saw the P switch; written first */
	int64_t cpu;   /* (a) os_thread_cpu_time of the M then, at the latest */
};

enum { LATENCY_BUCKETS = 168 }; /* up to 2^43 cpu_ticks, about an hour */

struct latency {
	uint64_t samples;             /* (a) measurements */
	uint64_t max;                 /* (a) cpu_ticks */
	uint64_t in[LATENCY_BUCKETS]; /* (a) by octave and quarter: the sum of the weights */
};

/* sysmon's record of the run that a P is in. */
struct watched_run {
	uint64_t steps;       /* (a) what run_steps was */
	int64_t since;        /* (a) when sysmon first saw that; NEVER: nothing runs */
	int64_t queued_since; /* (o) sysmon's: since when a queue has the same first G */
	uint64_t heads[2]; /* (o) sysmon's: of both rings, if a G was queued; otherwise NO_HEAD */
	const void *next;  /* (o) sysmon's: runnext */
};

/* What a spinning M has read of a P: PICK-2. */
struct probe {
	uint64_t switches; /* when the search began */
	uint32_t head;     /* at the last probe */
};

enum { GLOBAL_INTERVAL = 61 }; /* PICK-3; a prime: no beat with a rhythm of the program */

/* When a P last checked the global queue and its second ring: pick.c.  Times are variant_ticks,
 * counts are lower halves. */
struct turns {
	uint32_t every; /* so many switches after it the next one is due */
	uint32_t from;  /* the count of switches then */
	uint32_t took;  /* PICK-3: that count when a check last took a G of the global queue */
	uint32_t head;  /* yieldhead then; less by the Gs of the second lane that passed it by */
	uint64_t since; /* the time then */
	uint64_t began; /* PICK-4: the start of the turn */
	uint64_t end;   /* PICK-4: no G of the turn begins to run after it */
	int64_t credit; /* PICK-4: how long the second lane must run beside the first ring */
	const struct g *next; /* PICK-4: runnext when a turn became due, while it is there; compared
			       * only */
	uint32_t mark;        /* PICK-4: runqtail when a turn became due, or when next was gone */
	uint32_t left;        /* PICK-4: so many Gs may still run in the turn */
	bool due;             /* PICK-4: a turn begins once runqhead has reached mark */
};

struct p {
	/* fields that the owner writes at every step of the scheduler */
	struct m *m;            /* (l) (a) NULL: idle, retired, or its next M does not run yet */
	struct g *runnext;      /* (a) runs next; inherits the time slice; thieves may take it */
	uint32_t schedtick;     /* (a) slices begun */
	uint32_t inherited;     /* (o) how often runnext has run in this slice: PICK-1 */
	uint32_t attention;     /* (a) ATTENTION_* */
	bool shared;            /* (a) the owner uses locked instructions */
	bool open;              /* (a) thieves may come; set only after `shared` */
	bool in_order;          /* (c) FIFO order: no runnext, no second ring */
	bool wake_deferred;     /* (o) no M was woken for Gs that timers made ready: ready.h */
	uint32_t runqtail;      /* (a) written by the owner */
	uint32_t room;          /* (c) of the ring: RUNQ_SIZE; 0: only the global queue is used */
	uint32_t gfree_n;       /* (o) */
	uint32_t poll_from;     /* (o) the schedtick from which on poll_if_due may poll */
	uint64_t rand;          /* (o) */
	uint64_t clock_read_at; /* (o) cpu_ticks when it last read the clock for its timers */

	uint64_t runqhead aligned_to(CACHE_LINE); /* (a) owner and thieves; see runq.h */
	uint64_t yieldhead;                       /* (a) likewise, of the second ring */
	uint32_t yieldtail;                       /* (a) written by the owner */
	uint32_t yield_room; /* (o) of the second ring: RUNQ_SIZE; 0: each yield is slow (RUNQ-6) */
	uint32_t round_end;  /* (o) the place in the second ring where its round ends: RUNQ-6 */
	bool slow;           /* (o) Gs run for long: PICK-3 */
	struct g *runq[RUNQ_SIZE];    /* (a) Gs that an event or a spawn made runnable */
	struct g *yielded[RUNQ_SIZE]; /* (a) Gs that have yielded or used their slice */

	struct timers timers aligned_to(CACHE_LINE);

	struct stackcache stacks aligned_to(CACHE_LINE); /* (o) */
	struct g *gfree[GFREE_CACHE];                    /* (o) free g structs, LIFO */
	struct tlsblock *blocks;  /* (o) free thread-local blocks, LIFO: variant/owntls.h */
	uint32_t nblocks;         /* (o) */
	uint64_t id_next, id_end; /* (o) ids for new Gs */
	uint64_t slice_end;       /* (o) cpu_ticks; 0: the slice has not been timed yet: PICK-1 */
	struct section sections[SECTION_SITES]; /* (o) by a hash of the call's pc: blocking.c */

	/* SOURCE-1: Gs that timers made ready, in front of the ring */
	uint32_t due;       /* (o) how many were put there; 0 once none is left */
	uint32_t due_end;   /* (o) the place in the ring behind the last of them */
	uint32_t due_from;  /* (o) count.switches then, the lower half */
	int64_t due_budget; /* (o) cpu_ticks that timers may use before the ring runs */
	uint64_t due_since; /* (o) when timers, or the ring, began to use time */

	uint32_t check_at;     /* (o) count.switches, the lower half, when PICK-3 is due */
	struct counters count; /* (o) */
	struct turns turns;    /* (o) PICK-3, PICK-4 */
	uint64_t sample_in;    /* (o) Gs that become runnable until one is measured */
	int id;                /* (c) */
	uint32_t status;       /* (a) see above; under (l), except for P_BLOCKED */
	int tid;               /* (a) the kernel's thread id of its M; 0: in a hand-off */
	struct stay stay;      /* (a) written by sysmon */
	struct p *link;        /* (l) idle list */

	struct latency latency[GMP_LATENCY_CAUSES]; /* (o) */
	struct watched_run watched;
	uint64_t pauses;      /* (o) odd: its M does work of the runtime; see run_pause */
	struct probe *probes; /* (o) of each P, for steal_work; too large for g0 */
};

/* --- M --- */

/*
 * m.taken: whether the P of an M was taken while its G computes or sleeps in the kernel
 * (monitor/preempt.h).
 *
 *   P_KEPT    its P was not taken by preemption
 *   P_ASKED   sysmon is about to take the P.  Entered from KEPT or WANTED by sysmon, under
 *             sched.lock; left by compare-and-swap: by the M, which keeps the P for now, or by
 *             sysmon
 *   P_TAKEN   the M runs its G without a P, and m->p is stale.  Entered from ASKED by sysmon, or
 *             from WANTED by the M, under sched.lock; left by the M when it stops or gets a P
 *   P_WANTED  the M was in a P section when sysmon asked; it gives the P up when it begins the next
 *             one.  Entered from ASKED by the M or by sysmon; left by the M, to KEPT if its G
 *             leaves the stack first, or by sysmon, which asks again.  May be set although the run
 *             that sysmon has judged (m.taken_run) is over
 */
enum taken { P_KEPT = 0, P_ASKED = 1, P_TAKEN = 2, P_WANTED = 3 };

/*
 * m.leave: how the OS thread of an M whose G makes no call leaves a run that ends
 * (variant/abandon.h).
 *
 *   LEAVE_NONE      not asked
 *   LEAVE_ASKED     asked by a signal.  Entered by the end of the run; left by the thread, to NONE
 *                   if it cannot leave now
 *   LEAVE_LEFT      the thread has left the runtime.  Left by an exchange of either side
 *   LEAVE_ENDED     the thread has ended first: the end of the run frees m
 *   LEAVE_DETACHED  the run has ended first: the thread frees m
 */
enum leave { LEAVE_NONE, LEAVE_ASKED, LEAVE_LEFT, LEAVE_ENDED, LEAVE_DETACHED };

/* Commit step of a park: called on g0 once the G is off its stack; arms, publishes, unlocks.  It
 * must not touch the G after another thread can see what it published. */
typedef void (*commit_fn)(void *arg);

/* An M that the CPU profile may sample: observe/cpusample.h.  Guarded by its lock. */
struct sampled {
	struct m *next, **at; /* all Ms whose OS threads run; at: what points to it */
	int tid;
	int timer; /* -1: none */
};

struct m {
	/* (o) The G that runs on it.  On g0: the G that has just left its stack, until a step such
	 * as park_g0 clears it; then NULL; then, from execute_g0 on, the G that runs next.  So in
	 * end_wait_g0, and in the unwait functions that it calls, it is the G of the wait.
	 * Written by st_rlx: dumps read it under sched.lock, while m is in sched.allm. */
	struct g *curg;
	struct p *p;         /* (o) written by st_rlx: sysmon reads it.  Stale while P_TAKEN */
	uint32_t inside;     /* (a) P sections that it is in, at least 1 on g0: enter.h */
	uint8_t taken;       /* (a) enum taken; a byte: gcc compares it in one instruction */
	void *g0;            /* (c) the base of the scheduler's stack */
	commit_fn commit;    /* (o) passed from a parking G to g0 */
	void *commit_arg;    /* (o) */
	int64_t deadline;    /* (o) likewise: of the wait */
	uint32_t patience;   /* (o) cpu_ticks to spin at most before it stops */
	bool spinning;       /* (o) counted in sched.nmspinning */
	bool in_poller;      /* (l) it sleeps in the poller, or is about to; false: on its futex */
	uint32_t blocks;     /* (o) depth of gmp_block_enter; 0: not in blocking code */
	bool bound;          /* (o) (l) written under the lock: it runs lockedg only */
	bool lends;          /* (o) it stays bound without a G: PIN-3 */
	struct g *first;     /* (c) the G that it begins with, invisible to thieves; or NULL */
	struct g *lockedg;   /* (o) NULL while bound: the M must end, or PIN-3 */
	uint32_t locks;      /* (o) depth of gmp_lock_thread of its G */
	uint32_t wake;       /* (a) 1: wake up; a futex */
	struct p *nextp;     /* (l) given by its waker */
	uint64_t rand;       /* (o) */
	struct context base; /* (o) the call of mstart: how to leave the scheduler */
	struct m *link;      /* (l) in sched.midle, handed or lostp */
	struct m *alllink;   /* (l) */
	pthread_t thread;    /* (c) */
	bool ours;           /* (c) the runtime made its thread */
	bool joinable;       /* (l) that thread exists */
	bool spare;          /* (l) it counts in sched.nsparing */
	bool dead;           /* (l) it runs nothing any more, and ends */
	int id;              /* (c) */
	int tid;             /* (c) (a) the kernel's thread id; 0: its thread does not run yet */
	bool alone;          /* (l) it is the OS thread of one G: variant/thread.c */
	bool killed;         /* (o) of such an M: shutdown kills its G; the wait never returns */
	void *way_out;       /* (o) of such an M: a jmp_buf */
	void *altstack;      /* (o) for signal handlers */
	void *tp;            /* (c) the thread pointer of its thread: variant/owntls.h */
	struct tlsblock *kept_block; /* (o) of its G, once it has LEFT */

	struct p *held;      /* (l) the P that it was given last; NULL: it is stopping */
	struct glist pinned; /* (l) runnable Gs that are pinned to it: PIN-2 */
	uint32_t npinned;    /* (o) how many Gs are pinned to it */
	bool ran_pinned;     /* (o) the G that it ran last came from that list */

	uint32_t blocked_as;  /* (o) the status that gmp_block_enter left in its P */
	uint32_t block_site;  /* (o) index in p.sections */
	uint64_t block_began; /* (o) cpu_ticks; 0: this section is not timed */
	uint64_t left_id;     /* (o) the G that left its stack last, for trace events on g0 */
	uint64_t
		ran_from; /* (a) cpu_ticks when its G began to run: observe/tracing.h; 0: unknown */
	uint64_t sigmask; /* (o) what libgmprt_posix has set on the OS thread: posix/mask.c */
	int64_t taken_at; /* (l) when its P was taken last; the clock of os_now */
	struct stay stay; /* (a) of that P then; constant while P_TAKEN */
	uint64_t taken_run;     /* (a) p_steps of that P when sysmon asked for it */
	uint32_t leave;         /* (a) enum leave */
	struct kept_stack kept; /* (o) the stack of its G, once it has LEFT */
	struct os_sleep sleep;  /* written by the end of the run while LEAVE_NONE, read by the
				 * handler while LEAVE_ASKED; may be an earlier sleep */
	uint64_t asked_sleeps;  /* (l) os_thread_sleeps when the end of the run last checked */
	int64_t asked_cpu;      /* (l) os_thread_cpu_time then; -1: not checked since asked */
	int64_t ask_after;      /* (l) do not ask it in a sleep before */
	bool asked_awake;       /* (l) it was in state R then */
	uint8_t asked;          /* (l) how often it was asked in a sleep */

	struct cxx_globals *cxx;       /* (c) its thread's; NULL without a C++ runtime */
	struct cxx_globals cxx_before; /* (c) what the thread had before mstart */

	struct sampled sampled;

	struct san_stack san;
};

/* --- the scheduler: one per process --- */

enum { PROCS_MAX = 1024 };

/* A joinable G has ended; on g0. */
typedef void (*exit_fn)(struct g *gp);
/* An OS thread that runs one G is about to jump out of its calls; on its stack, no locks held. */
typedef void (*kill_fn)(const struct m *m);
/* An M, in its outermost P section and on the stack of its G, was asked for its P; locks before
 * LR_SCHED may be held.  Returns true if it has given the P up. */
typedef bool (*give_fn)(struct m *m);
/* A G ends; on its stack; may wait. */
typedef void (*end_fn)(struct g *gp);
/* No G can run, no timer is armed, no waiter waits for an fd.  Reports a deadlock and ends the
 * process, or returns after how many ns to call it again (NEVER: no need). */
typedef int64_t (*stall_fn)(void);

/* On sysmon, no locks held. */
typedef void (*delegated_fn)(void);
/* The same; returns when to call again.  now: os_now. */
typedef int64_t (*sched_fn)(int64_t now);
/* The same; true: call again in a second. */
typedef bool (*watch_fn)(void);

/* The step on g0 of m->curg, which has left its stack.  Ends in a jump. */
typedef int (*leave_fn)(void *m);

/* Observes a G that has just left its stack, to wait or to end; on g0, no locks held. */
typedef void (*observe_fn)(struct g *gp);

/* See variant/leave.h. */
struct leave_steps {
	leave_fn park, yield, exit, without_p, exit_without_p;
};

enum runstate { RUN_NONE, RUN_STARTING, RUN_ON, RUN_STOPPING };

/* Lanes of the global queue: Gs that an event made runnable, new Gs, and Gs that have yielded
 * (runq.h, RUNQ-5 and RUNQ-6). */
enum lane { LANE_RUN, LANE_NEW, LANE_YIELD, LANES };

/*
 * Compact form of a G that has not run: all that its g struct holds by then.  An entry of LANE_NEW
 * is such a record or, with fn NULL, the G that arg points to.
 */
struct unstarted {
	gmp_fn fn;
	void *arg;
	uint64_t id;
	uintptr_t made_at;
};

/* A ring that grows in reserved address space: no allocation, no links.  The entries of LANE_NEW
 * are struct unstarted, of the other lanes struct g *. */
struct gqueue {
	void *slot;            /* (c) */
	uint32_t size;         /* (c) of an entry, in bytes */
	uint32_t head, n, cap; /* (l) cap is a power of two */
};

struct sched {
	/* These outlive a run: external threads read them, and count in `external`, at any time. */
	uint32_t state;      /* (a) enum runstate */
	uint32_t external;   /* (a) external threads inside a call that uses the runtime */
	int64_t virtual_now; /* (a) the virtual time (variant/vtime.c); 0: time is real */
	uint32_t chaos;      /* (a) DEBUG_chaos in this run */
	/* From here on cleared for each run. */
	uint32_t run;             /* (c) number of the run: identifies a timer of an earlier run */
	uint64_t external_spawns; /* (a) */
	struct options options;   /* (c) */
	uint64_t fpwords;         /* (c) floating-point control words that Gs begin with */
	unsigned stack_class;     /* (c) the default one */
	bool library;             /* (c) begun by gmp_start */
	bool never_deadlocked;   /* (c) no deadlock is reported: threads or signals end each wait */
	bool threads;            /* (c) Gs run as OS threads */
	bool own_tls;            /* (c) GMP_OWN_TLS: of all Gs; not with threads */
	bool begins_otherwise;   /* (c) one of the two: the first run of a G is another one */
	uint64_t external_exits; /* (a) ends of Gs that no P counts */
	int slack;               /* (c) timer slack of the thread that began the run, in ns */
	int64_t start_now;       /* (c) clock and cpu_ticks at the start, to convert the latter */
	uint64_t start_ticks;    /* (c) */

	/* Calls into higher floors.  Each pointer has one value, set once in run/run.c. */
	exit_fn joinable_exit;     /* (c) spawn.c:green_exited */
	give_fn give_p_up;         /* (c) handoff.c:sched_give_p_up */
	kill_fn thread_killed;     /* (c) io/cleanup.c:leftovers_killed */
	end_fn locals_end;         /* (c) wait/fls.c:fls_end, with AT_END_LOCALS */
	end_fn timer_run_end;      /* (c) wait/sleep.c:timer_run_ended, with AT_END_TIMER_RUN */
	stall_fn stalled;          /* (c) observe/dump/deadlock_report.c:report_stall; on g0 */
	delegated_fn on_delegated; /* (c) observe/dump/dump_signal.c:dump_signal_delegated */
	sched_fn schedtrace;       /* (c) observe/trace/schedtrace.c:schedtrace_report; NULL: off */
	watch_fn long_waits;       /* (c) observe/dump/cycle.c:cycles_watch: see monitor/sysmon.c */
	observe_fn on_leave;  /* (c) observe/check/check.c:on_leave; NULL: GMP_DEBUG=check is off */
	observe_fn on_exit;   /* (c) observe/check/check.c:on_exit_of; likewise */
	observe_fn on_arrive; /* (c) observe/check/check.c:on_arrive, with RESUME_OBSERVED */

	int procs aligned_to(CACHE_LINE); /* (a) what gmp_procs returns */
	int npidle;                       /* (a) Ps without an M */
	int nmspinning;                   /* (a) spinning Ms, and Ms that are woken to spin */
	bool asymmetric;                  /* (c) os_membarrier works: submitters need no fence */
	int cpus;                         /* (c) */
	struct leave_steps leave;    /* (a) those of `untraced`, or of observe/trace/tracing.c */
	struct leave_steps untraced; /* (a) variant/leave.h */

	struct lock lock aligned_to(CACHE_LINE);
	struct gqueue gq[LANES]; /* (l) the global run queue: see runq.h */
	uint32_t gqn;            /* (a) Gs in all lanes, for unlocked reads */
	uint32_t gqyields;       /* (a) of these, Gs in LANE_YIELD */
	uint32_t gq_asked;       /* (a) counts the calls of sched_ask_one */
	uint32_t gq_takes;       /* (l) counts takes while LANE_RUN and LANE_NEW hold Gs: RUNQ-5 */
	struct p *pidle;         /* (l) */
	struct m *handed;        /* (l) (a) Ms with a P from sched_hand_off, not running yet */
	struct m *lostp;         /* (l) likewise, but another M has taken that P */
	struct m *midle;         /* (l) Ms that sleep on their futex */
	bool polling;            /* (l) an M is in the poller, or on its way into or out of it */
	struct m *pollm;         /* (l) (a) the M that sleeps in the poller; NULL: none */
	int nmidle;              /* (l) */
	int nm;                  /* (l) (a) Ms alive, and Ms that are being made; a futex */
	int nbound;              /* (l) of these, bound to a G */
	int nblocked;            /* (l) (a) Gs in blocking code whose P has been taken */
	uint64_t handoffs;       /* (a) how often a P was taken from blocking code */
	int npreempted;          /* (l) (a) of these, Gs whose P was taken by preemption */
	uint64_t preemptions;    /* (a) how often a P was taken that way */
	uint64_t unannounced;    /* (a) of these, from a thread that slept in the kernel */
	uint64_t ran_without_p;  /* (a) cpu_ticks of Gs without a P: observe/tracing.h */
	uint64_t preempted_ns;   /* (a) how long Gs ran without a P after that */
	uint64_t refused;        /* (a) how often a P was kept for want of an OS thread */
	uint64_t timers_skipped; /* (a) periods of timers without a run: USERTIMER-5 */
	int64_t slice;           /* (c) ns of a time slice, also without preemption */
	bool preempts;           /* (c) preemption is on: PREEMPT-5 of monitor/preempt.h */
	int nmlimit;             /* (c) */
	int nresting;            /* (l) (a) 1: an M rests, and does not count: PIN-3 */
	struct m *allm;          /* (l) */
	int nstarting;           /* (l) threads being made: not in allm yet */
	int nsparing;            /* (l) Ms of spare.c that are not stopped yet */
	int ndead;               /* (l) Ms in allm that have ended: not joined yet */
	int nextm;               /* (l) */

	int64_t poll_until aligned_to(CACHE_LINE); /* (a) end of pollm's sleep; INT64_MIN: awake */
	uint64_t polls, poll_events;               /* (a) */
	uint64_t lastpoll;                         /* (a) cpu_ticks at the end of the last poll */
	int64_t coarse_now; /* (a) about now: written at each reading of the clock */
	uint32_t npollwait; /* (a) Gs and external threads that wait for an fd */
	uint32_t ndebug;    /* (a) of these, Gs of the debug server: stall.c */
	uint32_t naccepts;  /* (a) of these, Gs that accept */
	bool deaf;          /* (a) pollm sleeps and ignores fds: netpoll_rest */

	int nallp aligned_to(CACHE_LINE); /* (a) entries of allp ever used */
	struct p *allp[PROCS_MAX];        /* (a) entries are set once */
	struct g *main;                   /* (c) its end ends the run; NULL under gmp_start */

	uint64_t admitted;      /* (a) signals that sysmon does not block: bit signo - 1 */
	int64_t longest_run;    /* (a) sysmon's, ns: see observe/latency.h */
	int64_t longest_queued; /* (a) sysmon's, ns */
	uint64_t latency_told[GMP_LATENCY_CAUSES + 1]; /* (a) stats.c: longest that were reported */
	uint32_t delegated;                            /* (a) 1: sysmon must call on_delegated */
	uint32_t sysmon_called; /* (a) 1: its pause ends at once: DUMPSIG-1 */
	uint32_t sysmon_asleep; /* (a) 1: sysmon sleeps here until an M has a P: wake_sysmon */
};

extern struct sched sched __attribute__((visibility("hidden"))); /* no indirection by the GOT */

/* The clock of timers and deadlines. */
static inline int64_t rt_now(void)
{
	int64_t now = ld_rlx(&sched.virtual_now);

	return likely(!now) ? os_now() : now;
}

/* The seed repeats the run step by step (variant/vtime.h), so nothing may depend on the machine's
 * speed. */
static inline bool rt_replays(void)
{
	return ld_rlx(&sched.virtual_now) && ld_rlx(&sched.procs) == 1;
}

/* The time after which a G must yield at a checkpoint while others wait, and after which its P may
 * be taken while events wait and no P switches: 2 ms of a time slice of 10 ms. */
static inline int64_t slice_short(void)
{
	return sched.slice / 5;
}

/* The attention bits of pp, without the constant one of chaos. */
static inline uint32_t p_attends(struct p *pp)
{
	return ld_rlx(&pp->attention) & ~(uint32_t)ATTENTION_CHAOS;
}

static inline struct p *getp(void)
{
	struct m *m = getm();

	return m ? m->p : NULL;
}

#ifdef GMP_DEBUG_CHECKS
void gmp__check_edge(struct g *gp, enum gstatus to);
#endif

static inline void g_set_status(struct g *gp, enum gstatus to)
{
#ifdef GMP_DEBUG_CHECKS
	gmp__check_edge(gp, to);
#endif
	st_rel(&gp->status, (uint8_t)to); /* ORD(g.status): the fields before the status */
}

#endif
