/* SPDX-License-Identifier: MIT */
/*
 * What is there?  The nouns of the runtime: G, M, P, and what they are made of.
 *
 *   G  a green thread: a descriptor (here) and, from its first run to its end, a stack (stack.c)
 *   M  a thread of the kernel's; its own stack is called g0, and only the scheduler runs on it
 *   P  the right to run green threads, with a run queue and caches of its own; procs of them
 *
 *        M ── holds ──> P ── runq ──> G G G ...          global queue: G G G ...
 *        └─ runs ─────> G
 *
 * Who may touch a field stands behind it:
 *   (c) constant once set   (o) its owner only: a G's M, a P's M, an M itself
 *   (a) atomic              (l) under sched.lock
 *   (t) under the P's timers.lock        (w) the one who has claimed the waiter
 *
 * Which locks guard what, and which orders the atomics keep: docs/internals/memory-order.md.
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
struct waiter;

enum gstatus {
#define GSTATUS(name, text, edges, owner) name,
#include "gstatus.def"
#undef GSTATUS
};

enum waitreason {
#define WAITREASON(name, text, external) name,
#include "waitreason.def"
#undef WAITREASON
};

/* Beside the reason of a wait: cancellation does not end it. */
enum { UNCANCELLABLE = 0x80 };

/* --- timers: see timerheap.c --- */

struct timer;

/* Those who became ready: green threads, linked through their schedlink, in order; and external
 * threads, through their sudogs.  ready_list (park.h) lets them go on. */
struct glist {
	struct g *head, *tail;
	unsigned n; /* green ones */
	struct sudog *external;
};

/*
 * What a timer does when its time has come.  Runs on g0 or an external thread, with the heap's lock
 * held: it may claim a waiter and append its G to out, set t->when and return true to stay in
 * the heap, and nothing else.
 */
typedef bool (*timer_fire)(struct timer *t, int64_t now, struct glist *out);

struct timer {
	int64_t when;    /* (t) */
	timer_fire fire; /* (c) */
	struct p *pp;    /* (a) whose heap it is in; NULL: none */
	uint32_t at;     /* (t) its place there */
};

/* In the heap the time stands beside the pointer: sifting touches no timer but those it moves. */
struct timer_slot {
	int64_t when;
	struct timer *t;
};

struct timers {
	struct lock lock;
	uint32_t n;              /* (a) written under the lock */
	int64_t next;            /* (a) the earliest `when`, NEVER when empty */
	struct timer_slot *heap; /* (c) address space for every timer there can be */
};

/* --- waiting: see park.c --- */

enum waiter_state {
	WAITER_IDLE,    /* not waiting */
	WAITER_ARMED,   /* off its stack (or in the kernel): may be claimed */
	WAITER_CLAIMED, /* one waker has won; it alone makes it ready */
	WAITER_BUSY,    /* held for a moment, by one who looks at it, or who arms its timer */
	WAITER_DONE, /* a flag beside WAITER_CLAIMED: the waker of an external thread is done with its sudog */
	WAITER_RESULT_SHIFT = 3, /* how far the negated result is shifted */
};

/* One that can wait: a G, or an external thread asleep on its state word. */
struct waiter {
	uint32_t state; /* (a) enum waiter_state; once claimed, also what the wait returns */
	struct g *gp;   /* (c) NULL: an external thread */
};

/* Take all traces of a wait away that nobody has answered; called for a waiter that the time, a
 * cancellation, or the end of the run has claimed.  Also for a green thread that is dropped between
 * being woken (result 0) and running: what it was to do for others must be done.  On g0 or on the
 * waiting external thread; no locks held. */
typedef void (*unwait_fn)(struct waiter *w);

/* A waiter's place in one queue: Go's sudog.  A G has one inside, for all waits but select. */
struct sudog {
	/* the parking table's tree, see parkinglot.c */
	struct sudog *left, *right, *tail;
	int64_t due; /* from when on an unlock hands the mutex over to it: X5 of sync/mutex.c */
	/* from here on: what every wait touches, one cache line of a G */
	struct waiter *w;
	struct sudog *next, *prev; /* in the queue of its object or, in parkinglot.c, of its address */
	const void *key;           /* the object: an address, a channel, a side of a descriptor */
	void *elem;                /* what is sent, or where to receive */
	uint32_t priority;         /* the tree's */
	uint16_t kind;             /* free for the object: reader or writer, ... */
	bool queued;               /* it stands in a queue */
	bool chosen;               /* (w) a channel's peer, or an event, has met the waiter here */
};

/* --- G --- */

enum { G_NAME_MAX = 64 };

enum {
	RESUME_TIMED = 1,      /* its wait has a deadline: the timer may be armed */
	RESUME_BOUND = 2,      /* only its own M may run it */
	RESUME_PINNED = 8,     /* it runs on its own M only, which runs others too */
	RESUME_CXX = 4,        /* it has words of a C++ runtime, see machine/cxx.h */
	RESUME_OBSERVED = 16, /* sched.on_arrive wants to see it */
	/* made by gmp_go, and has not run: only the run queue has a pointer to it (g.c, B3) */
	RESUME_UNSHARED = 32,
	RESUME_MEASURED = 64, /* the time since ready_at is recorded: see mode/latency.h */
};

enum {
	OWES_LOCALS = 1,    /* it has locals: sched.locals_end */
	OWES_TIMER_RUN = 2, /* a timer started it: sched.timer_run_end */
};

/* What a green thread that ends by gmp_exit has to do for others first; on its stack. */
struct cleanup {
	struct cleanup *next;
	void (*fn)(void *arg);
	void *arg;
};

struct g {
	/* what a switch touches: one cache line */
	struct context ctx; /* (o) */
	struct waiter w;
	char *stack;         /* (o) lowest address; NULL before the first run; (a) for that look */
	uint8_t status;      /* (a) enum gstatus */
	uint8_t stack_class; /* (c) while alive */
	uint8_t reason;      /* (a) enum waitreason */
	bool trimmed;        /* (a) its stack has been looked at since it parked */
	uint8_t turn;        /* (o) TURN_*: what its next turn begins with */
	uint8_t measured;    /* (o) with RESUME_MEASURED: see mode/latency.h */
	bool uncancellable;          /* (o) cancellation does not end its present wait */
	bool cancelled;      /* (a) */
	uint32_t token;      /* (c) who holds a lock: index + 1 */
	uint32_t born;       /* (a) when it was made: see g_age */
	union {
		struct g *schedlink;   /* (o) of whichever list holds it */
		struct waiter *awaits; /* (a) of one that is a thread of its own: see mode/thread.c */
	};
	unwait_fn unwait; /* (o) how to end its present wait */

	gmp_fn fn;           /* (c) while alive */
	void *arg;           /* (c) while alive */
	uint64_t id;         /* (c) while alive */
	uintptr_t join;      /* (a) enum joinstate, or the joiner's sudog: see spawn.c */
	uint32_t generation; /* (a) how often the descriptor was used */
	uint8_t masked;      /* (o) gmp_cancel_mask: how deep */
	uint8_t owes;        /* (o) OWES_*: what its end has to do */
	bool named;          /* (a) g_name says how */
	uint8_t pins;        /* (o) gmp_pin: how deep */
	struct m *lockedm;   /* (o) whose it is while it has either */
	uintptr_t made_at;   /* (c) the pc of the call that made it */
	union {
		int64_t since;     /* (a) of a waiting G: about when it parked */
		uint64_t ready_at; /* (a) of a woken G with RESUME_MEASURED: cpu_ticks;
				      in a list of due timers: the deadline */
	};
	struct cleanup *cleanups; /* (o) the last one first */
	struct locals *locals;    /* (o) see fls.c; may be left by the descriptor's last user */
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

/* What C++ has of one that waits, if RESUME_CXX: above its first frame, where it costs nothing. */
static inline struct cxx_globals *g_cxx(const struct g *gp)
{
	return (struct cxx_globals *)stack_top(gp->stack, gp->stack_class) - 1;
}

/* --- P --- */

/* GQ_LEAST: entries of a lane of the global queue at first; a page has room for them (gq_init) */
enum { RUNQ_SIZE = 2048, RUNQ_BATCH = 128, GQ_LEAST = 128, GFREE_CACHE = 64, YIELDED = 64 };

/*
 * Status word of a P.
 *
 *   bits 0..1   enum p_status
 *   bit  2      P_LONG, with P_BLOCKED only: the section is expected to be long, so any M that needs a P
 *               takes this one at once (blocking.c, BLOCK-5).  A hint: it may be wrong either way.
 *   bits 3..31  with P_BLOCKED only: the number of the M in blocking code.  An M therefore never
 *               mistakes a section of another M in the same P for its own.
 */
enum p_status { P_IDLE, P_RUNNING, P_RETIRED, P_BLOCKED, P_STATUS_MASK = 3, P_LONG = 4, P_BLOCKED_M_SHIFT = 3 };

/* How long the sections of one call of gmp_block_enter last. */
struct section {
	uint32_t ticks; /* moving average in cpu_ticks, capped; 0: none was timed */
	uint32_t begun;
};
enum { SECTION_SITES = 64 };

/* why a P's owner should look up at its next turn */
enum {
	ATTENTION_STOP = 1,
	ATTENTION_RETIRE = 2,
	ATTENTION_SHARE = 4,
	ATTENTION_YIELD = 8,
	ATTENTION_CHAOS =
		32, /* always, under GMP_DEBUG=chaos: each turn takes the long way (mode/chaos.c) */
	ATTENTION_PINNED = 64,
};

/* written by the owner alone, read by anybody */
struct counters {
	uint64_t spawns, exits, binds, unbinds, switches, steals, stolen, overflows, wakeups, parks,
		spins, timers_fired, blocks;
};

/* --- scheduling latency: see mode/latency.h --- */

/* What made a G runnable. */
enum latency_cause {
	LATENCY_SPAWN,
	LATENCY_YIELD,
	LATENCY_TIMER,      /* a sleep, a deadline, a gmp_timer, a tick; from the deadline on */
	LATENCY_DESCRIPTOR, /* from the poller's report on */
	LATENCY_BLOCKING,   /* blocking code that has ended, and its P is taken */
	LATENCY_WAKE,       /* a channel, a mutex, a join and so on */
	LATENCY_CAUSES
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
	int64_t queued_since; /* (o) sysmon's: since when its queue has the same first G */
	uint64_t head;        /* (o) sysmon's: runqhead, if something was queued; else NO_HEAD */
	const void *next;     /* (o) sysmon's: runnext */
};

/* What an M that looks for work has seen of a P. */
struct seen {
	uint64_t switches; /* when it began to look */
	uint32_t head;     /* at its last look */
};

struct p {
	/* what the owner writes at every turn */
	struct m *m;        /* (o) */
	struct g *runnext;  /* (a) runs next; inherits the time slice; thieves may take it */
	uint32_t schedtick; /* (a) slices begun: a thief sees by it whether the owner moves */
	uint32_t inherited; /* (o) turns that runnext has had in this slice */
	uint32_t attention; /* (a) ATTENTION_* */
	bool shared;        /* (a) the owner uses locked instructions */
	bool open;          /* (a) and so thieves may come */
	bool in_order;      /* (c) no runnext */
	bool wake_deferred;       /* (o) nobody was woken for what timers made ready: see ready.h */
	uint32_t runqtail;  /* (a) written by the owner */
	uint32_t room;      /* (c) of the ring: RUNQ_SIZE; 0: there is the global queue only */
	uint32_t gfree_n;   /* (o) */
	uint32_t poll_from; /* (o) the schedtick from which on it may poll between two turns */
	uint64_t rand;      /* (o) */
	uint64_t looked;    /* (o) cpu_ticks when it last read the clock for its timers */

	uint64_t runqhead aligned_to(CACHE_LINE); /* (a) written by whoever takes; see runq.h */
	uint64_t yieldhead;                       /* (a) likewise */
	uint32_t yieldtail;                       /* (a) written by the owner */
	struct g *runq[RUNQ_SIZE];                /* (a) */

	struct timers timers aligned_to(CACHE_LINE);

	struct g *yielded[YIELDED]; /* (a) a second ring: on their way to the global queue */

	struct stackcache stacks aligned_to(CACHE_LINE); /* (o) */
	struct g *gfree[GFREE_CACHE];                    /* (o) descriptors, last in first out */
	uint64_t id_next, id_end;                        /* (o) numbers for new green threads */
	uint64_t slice_end; /* (o) cpu_ticks; 0: not asked for yet; see sched.c, D1 */
	struct section sections[SECTION_SITES]; /* (o) by a hash of the call's address: blocking.c */

	/* source.h, SOURCE-1: Gs that timers made ready, in front of the ring */
	uint32_t due;       /* (o) how many were put there; 0 once none is left */
	uint32_t due_end;   /* (o) the place in the ring behind the last of them */
	uint32_t due_from;  /* (o) count.switches then, the lower half */
	int64_t due_budget; /* (o) cpu_ticks that timers may use before the ring runs */
	uint64_t due_since; /* (o) when timers, or the ring, began to use time */

	struct counters count; /* (o) */
	uint64_t sample_in;    /* (o) Gs that become runnable until one is measured */
	int id;                /* (c) */
	uint32_t status;       /* (a) enum p_status; under (l), except P_BLOCKED */
	int tid;               /* (a) the kernel's number of its M; 0: in a hand-off */
	struct p *link;        /* (l) idle list */

	struct latency latency[LATENCY_CAUSES]; /* (o) */
	struct watched_run watched;
	uint64_t pauses; /* (o) odd: its M works for GMP_DEBUG=check; see run_pause */
	struct seen *
		seen; /* (o) of each P: steal_work; too large for the stack of a thread of the program */
};

/* --- M --- */

/* Called on g0 once the G that parks is off its stack: arms, publishes, unlocks.  It may not touch
 * the G after what it published can be seen. */
typedef void (*commit_fn)(void *arg);

struct m {
	struct g *curg;      /* (o) the green thread on it; NULL on g0 */
	struct p *p;         /* (o) */
	void *g0;            /* (c) where the scheduler's stack begins */
	commit_fn commit;    /* (o) from a parking G to g0 */
	void *commit_arg;    /* (o) */
	int64_t deadline;    /* (o) likewise: of the wait */
	uint32_t patience;   /* (o) cpu_ticks to spin at most before sleeping */
	bool spinning;       /* (o) counted in sched.nmspinning */
	bool in_poller;      /* (l) where it sleeps */
	uint32_t blocks;     /* (o) gmp_block_enter: how deep; 0: not in blocking code */
	bool bound;          /* (o) (l) written under the lock: it runs lockedg only */
	struct g *first;     /* (c) what it begins with, where no thief can take it; or NULL */
	struct g *lockedg;   /* (o) NULL while bound: it ended, and the thread is to end */
	uint32_t locks;      /* (o) gmp_lock_thread: how often its green thread has called it */
	uint32_t wake;       /* (a) 1: get up; a futex */
	struct p *nextp;     /* (l) given by its waker */
	uint64_t rand;       /* (o) */
	struct context base; /* (o) how to leave the scheduler: where mstart was called */
	struct m *link;      /* (l) in sched.midle, handed or overtaken */
	struct m *alllink;   /* (l) */
	pthread_t thread;    /* (c) */
	bool ours;           /* (c) the runtime made its thread */
	bool joinable;       /* (l) that thread is there */
	bool dead;           /* (l) it runs nothing any more, and ends */
	int id;              /* (c) */
	int tid;             /* (c) the kernel's number of its thread */
	bool alone;          /* (l) it is the thread of one green thread: see mode/thread.c */
	bool dropped;        /* (o) of that one: its wait is undone, and does not return */
	void *way_out;       /* (o) of that one: a jmp_buf */
	void *altstack;      /* (o) for signal handlers */

	struct p *held;      /* (l) the P that it was given last; NULL: it is asleep, or about to */
	struct glist pinned; /* (l) ready, and pinned to it: see "pinned" in pin.h */
	uint32_t npinned;    /* (o) how many green threads are */
	bool ran_pinned;    /* (o) the last turn was one of those in that list */

	uint32_t blocked_as;  /* (o) the status that gmp_block_enter left in its P */
	uint32_t block_site;  /* (o) index in p.sections */
	uint64_t block_began; /* (o) cpu_ticks; 0: this section is not timed */

	struct cxx_globals *cxx;       /* (c) its thread's; NULL without a C++ runtime */
	struct cxx_globals cxx_before; /* (c) what the thread came with */

	struct san_stack san;
};

/* --- the one and only scheduler --- */

enum { PROCS_MAX = 1024 };

/* A joinable green thread has ended. */
typedef void (*exit_fn)(struct g *gp);
/* On its stack, under no lock: the thread of one green thread is about to jump out of all its calls. */
typedef void (*kill_fn)(const struct m *m);
/* A green thread ends, on its stack; it may wait. */
typedef void (*end_fn)(struct g *gp);
/* Nothing can run, no timer is armed, nobody waits for a descriptor.  Reports a deadlock and ends
 * the process, or says after how many ns to ask again (NEVER: no need). */
typedef int64_t (*stall_fn)(void);

/* On sysmon, no locks held. */
typedef void (*errand_fn)(void);
/* The same; true: call again in a second. */
typedef bool (*watch_fn)(void);

/* What a green thread does that leaves its stack; on g0, with the G.  Does not come back. */
typedef int (*leave_fn)(void *gp);

/* One who looks at a green thread that has just left its stack, to wait or for good; on g0, no locks
 * held. */
typedef void (*look_fn)(struct g *gp);

enum runstate { RUN_NONE, RUN_STARTING, RUN_ON, RUN_STOPPING };

enum lane { LANE_RUN, LANE_NEW, LANES };

/*
 * The compact form of a green thread that has not run: all that its g struct holds by then. An entry of
 * LANE_NEW is such a record, or, with fn NULL, the G that arg points to.
 */
struct unstarted {
	gmp_fn fn;
	void *arg;
	uint64_t id;
	uintptr_t made_at;
};

/* An array that grows in reserved address space: no allocation, no links. The entries of LANE_RUN are
 * struct g *, those of LANE_NEW struct unstarted. */
struct gqueue {
	void *slot;            /* (c) */
	uint32_t size;         /* (c) of an entry, in bytes */
	uint32_t head, n, cap; /* (l) cap is a power of two */
};

struct sched {
	/* outlive a run: others look at these, and count in `external`, at any time */
	uint32_t state;      /* (a) enum runstate */
	uint32_t external;    /* (a) external threads inside a call that uses the runtime */
	int64_t virtual_now; /* (a) the time, where it is virtual (mode/vtime.c); 0: it is not */
	uint32_t chaos;      /* (a) DEBUG_chaos in this run */
	/* cleared for each run, from here on */
	uint32_t run;            /* (c) number of the run: tells a timer of an earlier one */
	uint64_t external_spawns; /* (a) */
	struct options options;  /* (c) */
	uint64_t fpwords;        /* (c) control words that green threads begin with */
	unsigned stack_class;    /* (c) the default one */
	bool library;            /* (c) begun by gmp_start: nobody reports a deadlock */
	bool threads;            /* (c) GMP_SCHED_THREAD */
	uint64_t thread_exits;   /* (a) ends of green threads on threads of their own */
	int slack;               /* (c) timer slack of the thread that began the run, in ns */
	int64_t start_now;       /* (c) clock and cpu_ticks at the start: the scale of the latter */
	uint64_t start_ticks;    /* (c) */
	exit_fn joinable_exit;   /* (c) spawn.c's: a joinable green thread has ended; on g0 */
	kill_fn thread_killed;  /* (c) io/cleanup.c's */
	end_fn locals_end;       /* (c) fls.c's: for one that has locals */
	end_fn timer_run_end;    /* (c) sleep.c's: for a timer's; also when it is dropped */
	stall_fn stalled;        /* (c) floor 5's: nothing can run; on g0 */
	errand_fn on_errand;     /* (c) debug/dump_signal.c's: sysmon found `errand` set */
	watch_fn long_waits;     /* (c) debug/cycle.c's: see sysmon.c */
	look_fn on_leave, on_exit; /* (c) debug/check.c's; NULL: nobody looks */
	look_fn on_arrive;         /* (c) the same, for one with RESUME_OBSERVED */

	int procs aligned_to(CACHE_LINE); /* (a) what gmp_procs says */
	int npidle;                       /* (a) Ps that no M holds */
	int nmspinning;                   /* (a) Ms that look for work and have none */
	bool asymmetric;                  /* (c) os_membarrier works: submitters need no fence */
	int cpus;                         /* (c) */
	leave_fn park, yield, exit;       /* (c) what a wait, a yield, an end do on g0: park_init */

	struct lock lock aligned_to(CACHE_LINE);
	struct gqueue gq[LANES]; /* (l) the global run queue: see runq.h */
	uint32_t gqn;            /* (a) how many are in both, for a look without the lock */
	uint32_t gqturn;         /* (l) */
	struct p *pidle;         /* (l) */
	struct m *handed;        /* (l) (a) given a P by sched_hand_off, and not running yet */
	struct m *overtaken;     /* (l) likewise, but another M has taken that P */
	struct m *midle;         /* (l) asleep on their futex */
	bool polling;            /* (l) an M is on its way into, in, or out of the poller */
	struct m *pollm;         /* (l) (a) the one asleep in the poller, if any */
	int nmidle;              /* (l) */
	int nm;                  /* (l) (a) Ms alive, and those that are being made */
	int nbound;              /* (l) of these, bound to a G */
	int nblocked;            /* (l) (a) Gs in blocking code whose P has been taken */
	uint64_t handoffs;       /* (a) how often that was */
	int nspare;              /* (l) (a) Ps beyond procs, while those are all stuck (sysmon.c) */
	uint64_t spares;         /* (a) how many there have been */
	int nmlimit;             /* (c) */
	struct m *allm;          /* (l) */
	int nstarting;           /* (l) threads being made: not in allm yet */
	int nextm;               /* (l) */

	int64_t poll_until
		aligned_to(CACHE_LINE); /* (a) until when pollm sleeps; INT64_MIN: nobody */
	uint64_t polls, poll_events;    /* (a) */
	uint64_t lastpoll;              /* (a) cpu_ticks at the end of the last poll */
	int64_t coarse_now;             /* (a) about now: set whenever somebody reads the clock */
	uint32_t npollwait;             /* (a) Gs and external threads that wait for a descriptor */
	bool deaf;                      /* (a) the one in the poller does not hear of descriptors */

	int nallp aligned_to(CACHE_LINE); /* (a) entries of allp ever used */
	struct p *allp[PROCS_MAX];        /* (a) entries are set once */
	struct g *main;                   /* (c) whose end is the end; NULL under gmp_start */

	uint64_t admitted;      /* (a) signals that sysmon does not block: bit signo - 1 */
	int64_t longest_run;    /* (a) sysmon's, ns: see mode/latency.h */
	int64_t longest_queued; /* (a) sysmon's, ns */
	uint32_t errand;        /* (a) 1: sysmon is to call on_errand */
	uint32_t sysmon_asleep; /* (a) 1: the watcher waits here until somebody begins to work */
};

extern struct sched sched __attribute__((visibility("hidden"))); /* no detour by the GOT */

/* The time that the program goes by, and with it timers and deadlines. */
static inline int64_t rt_now(void)
{
	int64_t now = ld_rlx(&sched.virtual_now);

	return likely(!now) ? os_now() : now;
}

/* The seed repeats the run step by step (mode/vtime.c): nothing may depend on how fast the machine is. */
static inline bool rt_replays(void)
{
	return ld_rlx(&sched.virtual_now) && ld_rlx(&sched.procs) == 1;
}

/* What pp is to look up for, and rests until it has. */
static inline uint32_t p_attends(struct p *pp)
{
	return ld_rlx(&pp->attention) & ~(uint32_t)ATTENTION_CHAOS;
}

static inline struct p *getp(void)
{
	struct m *m = getm();

	return m ? m->p : NULL;
}

/* The state of a waiter whose wait returns that. */
#define CLAIMED_WITH(result) (WAITER_CLAIMED | (uint32_t) - (result) << WAITER_RESULT_SHIFT)

/*
 * Win the right to wake w, and say what its wait returns (0 or a negative errno).  False: somebody
 * else has won.  Exactly one claim of a wait succeeds; the winner, and only it, then readies w.
 * An external waiter does not go on before its WAITER_DONE, so its sudog stays until it is made ready.
 */
static inline bool waiter_claim(struct waiter *w, int result)
{
	uint32_t claimed = CLAIMED_WITH(result);

	for (;;) {
		uint32_t old = WAITER_ARMED;

		if (likely(cas_seq(&w->state, &old, claimed))) /* ORD(waiter.claim) */
			return true;
		if (old != WAITER_BUSY)
			return false;
		cpu_relax(); /* a keeper looks at its stack: microseconds */
	}
}

/*
 * Keep a parked one where it is, for microseconds, to look at it and its stack (WAITER_BUSY): who wants to
 * wake it spins.  Returns the state that it found; only if that is WAITER_ARMED the caller holds it, and
 * has to release it.
 */
static inline uint32_t waiter_hold(struct waiter *w)
{
	uint32_t state = WAITER_ARMED;

	cas_seq(&w->state, &state, WAITER_BUSY); /* ORD(waiter.claim) */
	return state;
}

static inline void waiter_release(struct waiter *w)
{
	st_rel(&w->state, WAITER_ARMED); /* ORD(waiter.claim) */
}

static inline int waiter_result(uint32_t state)
{
	return -(int)(state >> WAITER_RESULT_SHIFT);
}

/* The M of a green thread that is a thread of its own (mode/thread.c), if the caller is one. */
struct m *thread_m(void);

/* The calling green thread. */
static inline struct g *self_green(void)
{
	struct m *m = getm();

	if (unlikely(!m))
		m = thread_m();
	return m ? m->curg : NULL;
}

/* The same, also in blocking code: there calls behave as on an external thread, but who it is stays. */
static inline struct g *own_green(void)
{
	struct m *m = getm();

	if (unlikely(!m))
		m = gmp__blockedm();
	return m ? m->curg : NULL;
}

/*
 * Around what the runtime does on the calling M for GMP_DEBUG=check: to look up source positions takes libdw many
 * milliseconds and a thread. The time before, in and after it are different runs to mode/longrun.c. Returns what
 * run_resume takes: NULL without a P, or in another pause.
 */
static inline struct p *run_pause(void)
{
	struct m *m = getm();
	struct p *pp = m ? m->p : NULL;

	if (!pp || pp->pauses & 1)
		return NULL;
	bump(&pp->pauses, 1);
	fence_light(); /* a signal of mode/longrun.c may come from here on */
	return pp;
}

static inline void run_resume(struct p *pp)
{
	if (!pp)
		return;
	fence_light();
	bump(&pp->pauses, 1);
}

/*
 * Around what an external thread does outside rt_enter, but must not be cancelled in. Nothing for green threads:
 * Ms are not cancelled at all.
 */
static inline void cancel_hold(void)
{
	if (unlikely(!getm()) && !thread_m())
		gmp__cancel_hold();
}

static inline void cancel_release(void)
{
	if (unlikely(!getm()) && !thread_m())
		gmp__cancel_release();
}

/*
 * Around a call of an external thread that uses what the runtime owns: false when none runs.  The
 * runtime's end waits for those inside, so pthread_cancel must not end the thread there.  Nothing for
 * green threads.
 */
static inline bool rt_enter(void)
{
	if (likely(getm() != NULL) || thread_m())
		return true;
	gmp__cancel_hold();
	add_seq(&sched.external, 1);         /* ORD(external): counted before the look at the state */
	if (ld_seq(&sched.state) == RUN_ON) /* ORD(run): and what it is made of is there */
		return true;
	sub_seq(&sched.external, 1); /* ORD(external) */
	gmp__cancel_release();
	return false;
}

static inline void rt_leave(void)
{
	if (unlikely(!getm()) && !thread_m()) {
		sub_seq(&sched.external, 1); /* ORD(external) */
		gmp__cancel_release();
	}
}

static inline void glist_push(struct glist *l, struct g *gp)
{
	gp->schedlink = NULL;
	if (l->tail)
		l->tail->schedlink = gp;
	else
		l->head = gp;
	l->tail = gp;
	l->n++;
}

/* Add one that the caller has claimed and taken out of its queue. */
static inline void glist_claimed(struct glist *l, struct sudog *sg)
{
	if (likely(sg->w->gp != NULL)) {
		glist_push(l, sg->w->gp);
		return;
	}
	sg->next = l->external;
	l->external = sg;
}

static inline struct g *glist_pop(struct glist *l)
{
	struct g *gp = l->head;

	if (!gp)
		return NULL;
	l->head = gp->schedlink;
	if (!l->head)
		l->tail = NULL;
	l->n--;
	return gp;
}

/* Their stacks lie far apart, so each is a page that the CPU has to look up first.  All at once, with no
 * locked instruction between, these look-ups go on side by side. */
static inline void glist_prefetch(const struct glist *l)
{
	for (struct g *gp = l->head; gp; gp = gp->schedlink) {
		uintptr_t sp = (uintptr_t)gp->ctx.sp; /* 0: it has not begun */

		__builtin_prefetch((const void *)sp);
		__builtin_prefetch((const void *)(sp + CACHE_LINE));
	}
}

#ifdef GMP_DEBUG_CHECKS
void gmp__check_edge(struct g *gp, enum gstatus to);
#endif

static inline void g_set_status(struct g *gp, enum gstatus to)
{
#ifdef GMP_DEBUG_CHECKS
	gmp__check_edge(gp, to);
#endif
	st_rel(&gp->status,
	       (uint8_t)to); /* ORD(g.status): what it is comes before what it is called */
}

#endif
