/* SPDX-License-Identifier: MIT */
/*
 * The nouns of the runtime: G, M and P, and the scheduler that they belong to.
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
 * What one file X.c or one protocol keeps in them is declared by its owner: in X.h if that needs no
 * noun (stack.h), otherwise in X_state.h, which uses the nouns by pointers only, so that X.h can
 * include this file.  What observers and variants keep: probe_state.h, variant_state.h.
 *
 * State words: waiter.state (waiter_state.h), g.status (gstatus.def), g.resume, g.at_end
 * (g_state.h), p.status, p.attention (proc_state.h), m.taken (handoff_state.h), m.abandon.state
 * (variant_state.h), g.join (spawn.h), polldesc.use (netpoll/record.h).  Locks and the orders of
 * the atomics: docs/internals/memory-order.md.
 */
#ifndef GMP_TYPES_H
#define GMP_TYPES_H

#include <pthread.h>

#include "base/atomic.h"
#include "base/options.h"
#include "base/policy.h"
#include "base/san.h"
#include "base/tls.h"
#include "context.h"
#include "g_state.h"
#include "handoff_state.h"
#include "machine/cxx.h"
#include "observe/probe_state.h"
#include "pick_state.h"
#include "proc_state.h"
#include "runq_state.h"
#include "stack.h"
#include "timer/timerheap_state.h"
#include "upcalls.h"
#include "variant/variant_state.h"
#include "waiter_state.h"
#include "waitreason.h"

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
	uintptr_t join;      /* (a) enum joinstate, or the joiner's sudog: see spawn.h */
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

/* The C++ exception state of a parked G with RESUME_CXX, above its first frame. */
static inline struct cxx_globals *g_cxx(const struct g *gp)
{
	return (struct cxx_globals *)stack_top(gp->stack, gp->stack_class) - 1;
}

struct p {
	/* fields that the owner writes at every step of the scheduler */
	struct m *m;            /* (l) (a) NULL: idle, retired, or its next M does not run yet */
	struct g *runnext;      /* (a) runs next; inherits the quantum; thieves may take it */
	uint32_t schedtick;     /* (a) quanta begun (PICK-1), and checks that took a G */
	uint32_t inherited;     /* (o) how often runnext has run in this quantum: PICK-1 */
	uint32_t attention;     /* (a) ATTENTION_* */
	bool shared;            /* (a) the owner uses locked instructions */
	bool open;              /* (a) thieves may come; set only after `shared` */
	bool in_order;          /* (c) FIFO order: no runnext, only LANE_EVENT */
	bool wake_deferred;     /* (o) no M was woken for Gs that timers made ready: ready.h */
	uint32_t tail[LANES];   /* (a) written by the owner: of its lanes */
	uint32_t room;          /* (c) of a ring: RUNQ_SIZE; 0: only the global queue is used */
	uint32_t poll_from;     /* (o) the schedtick from which on poll_if_due may poll */
	uint64_t clock_read_at; /* (o) cpu_ticks when it last read the clock for its timers */

	uint64_t head[LANES] aligned_to(CACHE_LINE); /* (a) owner and thieves; see runq.h */
	uint32_t yield_room; /* (o) of LANE_YIELD: RUNQ_SIZE; 0: each yield is slow (RUNQ-6) */
	uint32_t round_end;  /* (o) the place in LANE_YIELD where its round ends: RUNQ-6 */
	uint32_t takes;      /* (o) counts takes while LANE_EVENT and LANE_NEW hold Gs: RUNQ-5 */
	bool slow;           /* (o) Gs run for long: PICK-3 */
	uint64_t rand;       /* (o) */
	struct g *ring[LANES][RUNQ_SIZE]; /* (a) */

	struct timers timers aligned_to(CACHE_LINE);

	struct stackcache stacks aligned_to(CACHE_LINE); /* (o) */
	struct gcache gcache;                            /* (o) */
	struct block_cache blocks;                       /* (o) variant/owntls.h */
	uint64_t slice_end; /* (o) cpu_ticks; 0: the slice has not been timed yet: PICK-1 */
	struct section sections[SECTION_SITES]; /* (o) by a hash of the call's pc: blocking.c */

	struct due due;               /* (o) SOURCE-1 */
	struct counters count;        /* (o) */
	struct drr drr;               /* (o) PICK-3, PICK-4 */
	uint64_t sample_in;           /* (o) Gs that become runnable until one is measured */
	int id;                       /* (c) */
	uint32_t status;              /* (a) proc_state.h; under (l), except for P_BLOCKED */
	int tid;                      /* (a) the kernel's thread id of its M; 0: in a hand-off */
	struct run_sample run_sample; /* (a) written by sysmon */
	struct p *link;               /* (l) idle list */

	struct latency latency[GMP_LATENCY_CAUSES]; /* (o) */
	struct watched_run watched;
	uint64_t pauses;        /* (o) odd: its M does work of the runtime; see run_pause */
	struct victim *victims; /* (o) of each P, for steal_work; too large for g0 */
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
	uint32_t spin_ticks; /* (o) cpu_ticks to spin at most before it stops */
	bool spinning;       /* (o) counted in sched.nmspinning */
	bool in_poller;      /* (l) it sleeps in the poller, or is about to; false: on its futex */
	uint32_t blocks;     /* (o) depth of gmp_block_enter; 0: not in blocking code */
	bool bound;          /* (o) (l) written under the lock: it runs lockedg only */
	bool dedicated;      /* (o) bound for the first G, and without a G after it: PIN-3 */
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
	bool spare;          /* (l) it counts in spare.promised */
	bool dead;           /* (l) it runs nothing any more, and ends */
	int id;              /* (c) */
	int tid;             /* (c) (a) the kernel's thread id; 0: its thread does not run yet */
	struct thread_mode as_thread;
	void *altstack; /* (o) for signal handlers */
	void *tp;       /* (c) the thread pointer of its thread: variant/owntls.h */

	struct p *held;      /* (l) the P that it was given last; NULL: it is stopping */
	struct glist pinned; /* (l) runnable Gs that are pinned to it: PIN-2 */
	uint32_t npinned;    /* (o) how many Gs are pinned to it */
	bool ran_pinned;     /* (o) the G that it ran last came from that list */

	struct blocking blocking;
	struct traced traced;
	uint64_t sigmask; /* (o) what libgmprt_posix has set on the OS thread: its mask.c */
	struct preempted preempted;
	struct abandon abandon;

	struct cxx_globals *cxx;       /* (c) its thread's; NULL without a C++ runtime */
	struct cxx_globals cxx_before; /* (c) what the thread had before mstart */

	struct sampled sampled;

	struct san_stack san;
};

#define ON_ONE_LINE(type, first, last)                                                             \
	_Static_assert(offsetof(struct type, first) / CACHE_LINE ==                                \
			       offsetof(struct type, last) / CACHE_LINE,                           \
		       #first " to " #last " of " #type " lie in one cache line")
ON_ONE_LINE(g, ctx, unwait);           /* a switch */
ON_ONE_LINE(g, sudog.w, sudog.chosen); /* a wait */
ON_ONE_LINE(p, m, clock_read_at);      /* a step of the owner */
ON_ONE_LINE(p, head, slow);            /* a take */

enum runstate { RUN_NONE, RUN_STARTING, RUN_ON, RUN_STOPPING };

struct sched {
	/* These outlive a run: external threads read them, and count in `external`, at any time. */
	uint32_t state;      /* (a) enum runstate */
	uint32_t external;   /* (a) external threads inside a call that uses the runtime */
	int64_t virtual_now; /* (a) the virtual time (variant/vtime.c); 0: time is real */
	uint32_t chaos;      /* (a) DEBUG_chaos in this run */
	/* From here on cleared for each run. */
	uint32_t run;           /* (c) number of the run: identifies a timer of an earlier run */
	struct options options; /* (c) */
	uint64_t fpwords;       /* (c) floating-point control words that Gs begin with */
	bool starts_preempted;  /* (a) new Gs start without a P: SPARE-2 of policy/spare.h */
	unsigned stack_class;   /* (c) the default one */
	bool library;           /* (c) begun by gmp_start */
	bool never_deadlocked;  /* (c) no deadlock is reported: threads or signals end each wait */
	struct variant variant; /* (c) */
	int slack;              /* (c) timer slack of the thread that began the run, in ns */
	int64_t start_now;      /* (c) clock and cpu_ticks at the start, to convert the latter */
	uint64_t start_ticks;   /* (c) */

	struct upcalls up; /* (c) */

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
	uint32_t gqlen[LANES];   /* (a) Gs in each lane */
	uint32_t gq_asked;       /* (a) counts the calls of sched_ask_one */
	struct p *pidle;         /* (l) */
	struct m *handed;        /* (l) (a) Ms that sched_hand_off wakes with a P: HANDOFF-4 */
	struct m *lostp;         /* (l) likewise, but another M has taken that P */
	struct m *midle;         /* (l) Ms that sleep on their futex */
	bool polling;            /* (l) an M is in the poller, or on its way into or out of it */
	struct m *pollm;         /* (l) (a) the M that sleeps in the poller; NULL: none */
	int nmidle;              /* (l) Ms in midle, and pollm */
	int nm;                  /* (l) (a) Ms alive, and Ms that are being made; a futex */
	int nbound;              /* (l) of these, bound to a G */
	int nblocked;            /* (l) (a) Gs whose P was taken while they ran or blocked */
	int npreempted;          /* (l) (a) of these, Gs whose P was taken by preemption */
	int64_t slice;           /* (c) ns of a time slice, also without preemption */
	bool preempts;           /* (c) preemption is on: PREEMPT-5 of monitor/preempt.h */
	int nmlimit;             /* (c) */
	int nresting;            /* (l) (a) 1: an M rests, and does not count: PIN-3 */
	struct m *allm;          /* (l) */
	int nstarting;           /* (l) threads being made: not in allm yet */

	int64_t poll_until aligned_to(CACHE_LINE); /* (a) end of pollm's sleep; INT64_MIN: awake */
	uint64_t lastpoll;                         /* (a) cpu_ticks at the end of the last poll */
	int64_t coarse_now; /* (a) about now: written at each reading of the clock */
	uint32_t npollwait; /* (a) waits for an fd, and 2^30 for a call of report_suspend */
	uint32_t ndebug;    /* (a) of these, Gs of the debug server: stall.c */
	uint32_t naccepts;  /* (a) of these, Gs that accept */
	bool ignores_fds;   /* (a) pollm sleeps and ignores fds: netpoll_rest */

	int nallp aligned_to(CACHE_LINE); /* (a) entries of allp ever used */
	struct p *allp[PROCS_MAX];        /* (a) entries are set once */
	struct g *main;                   /* (c) its end ends the run; NULL under gmp_start */

	struct totals total aligned_to(CACHE_LINE); /* (a) */
	struct longest longest;                     /* (a) */
	uint64_t admitted;      /* (a) signals that sysmon does not block: bit signo - 1 */
	uint32_t delegated;     /* (a) 1: sysmon must call on_delegated */
	uint32_t sysmon_called; /* (a) 1: its pause ends at once: DUMPSIG-1 */
	uint32_t sysmon_asleep; /* (a) 1: sysmon sleeps here until an M has a P: wake_sysmon */
};

ON_ONE_LINE(sched, procs, asymmetric);      /* a submitter */
ON_ONE_LINE(sched, poll_until, coarse_now); /* the poller */

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
 * be taken while events wait and no P switches. */
static inline int64_t slice_short(void)
{
	return sched.slice / SLICE_SHARE;
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
