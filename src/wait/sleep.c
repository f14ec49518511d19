/* SPDX-License-Identifier: MIT */
/*
 * Sleep, and gmp_timer: a timer that starts a green thread at each expiry.
 *
 * A sleep is a wait without an object: the G's own timer ends it, so it needs no memory.
 *
 * A run of a timer is the green thread of one expiry.
 *
 * Invariants of a gmp_timer
 *  USERTIMER-1  `running` counts the runs that were started and have not ended.  It grows in
 *               timer_fires, under the heap's lock, and shrinks under the lock of the bucket whose
 *               key the timer is.
 *  USERTIMER-2  set, stop and free hold t->lock, so disarming and arming are one step for other
 *               threads.  A freed timer is never armed again, although its last runs may call set
 *               until they have ended.
 *  USERTIMER-3  If the run of an earlier period has not begun, the present period is skipped.  So
 *               at most one run of a periodic timer is queued, however short its period and
 *               however busy the Ps.
 *  USERTIMER-4  The memory is freed when the program has freed the timer and `running` is 0: by
 *               gmp_timer_free, or by the end of the last run if gmp_timer_free was called from a
 *               run of this timer or its caller was killed while it waited.
 *  USERTIMER-5  If no green thread can be made for the run of a one-shot timer, the timer stays
 *               armed and fires again until one can.  A period of a periodic timer passes without
 *               a run instead, and counts in total.timers_skipped.  `deferred` means that the run
 *               also counts as a deferred G (G-4).  It is set by timer_fires, and cleared by
 *               timer_fires or by the thread that has disarmed or armed the timer.
 */
#include <errno.h>
#include <unistd.h>

#include "base/finding.h"
#include "base/mem.h"
#include "base/object.h"
#include "base/os.h"
#include "base/trace.h"
#include "enter.h"
#include "g.h"
#include "park.h"
#include "proc.h"
#include "spawn.h"
#include "timer/timerheap.h"
#include "variant/variant.h"
#include "wait/join.h"
#include "wait/parkinglot.h"
#include "waiter.h"

/* USERTIMER-5: a late run is tried again after an eighth of the time that it is late, within
 * these bounds, and after RETRY_EACH_NS for each deferred G, so that all together take some
 * percent of a CPU at most.  Not measured. */
#define RETRY_LEAST_NS MS
#define RETRY_MOST_NS (50 * MS)
#define RETRY_EACH_NS (10 * US)

int64_t gmp_now(void)
{
	return rt_now();
}

int64_t gmp_deadline(int64_t ns)
{
	int64_t now = rt_now();

	return ns > NEVER - now ? NEVER : now + ns;
}

/* --- sleep --- */

/* Of a G that runs as an OS thread: a sleep that cancellation and shutdown can end. */
static int sleep_in_thread_mode(int64_t deadline)
{
	struct external f;

	if (deadline <= rt_now()) {
		gmp_yield();
		return 0;
	}
	int result = wait_on(external_sudog(&f)->w, WAIT_SLEEP, NULL, commit_none, NULL, deadline);

	return result == -ETIMEDOUT ? 0 : result;
}

static int sleep_external(int64_t deadline)
{
	static uint32_t never;

	if (self_m_slow())
		return sleep_in_thread_mode(deadline);
	deadline = vtime_real(deadline);
	while (os_now() < deadline)
		os_futex_wait(&never, 0, deadline);
	return 0;
}

int gmp_sleep_until(int64_t deadline)
{
	struct m *m = getm();

	if (unlikely(!m))
		return sleep_external(deadline);
	if (deadline <= rt_now())
		return park_yield();
	int result = wait_on(&m->curg->w, WAIT_SLEEP, NULL, commit_none, NULL, deadline);

	return result == -ETIMEDOUT ? 0 : result;
}

int gmp_sleep(int64_t ns)
{
	if (ns <= 0) {
		gmp_yield();
		return 0;
	}
	return gmp_sleep_until(gmp_deadline(ns));
}

/* --- timers --- */

struct gmp_timer {
	struct timer t;
	struct lock lock;
	uint32_t kind;     /* enum object_kind */
	uint32_t running;  /* (a) USERTIMER-1 */
	bool pending;      /* (a) USERTIMER-3: a run of a periodic timer has not begun */
	bool deferred;     /* under the heap's lock, or while not armed: USERTIMER-5 */
	uint32_t unmade;   /* (a) attempts since the last run to make a green thread */
	bool freed;        /* under lock: USERTIMER-2 */
	uint32_t run;      /* (c) number of the runtime's run; after that run t is only memory */
	bool dying;        /* under the bucket's lock: the end of the last run frees t */
	int64_t period;    /* under the heap's lock, or while not armed */
	int64_t due;       /* (a) USERTIMER-5: when the run that is late was due; 0: none is */
	gmp_fn fn;         /* (c) */
	void *arg;         /* (c) */
	uintptr_t made_at; /* (c) the pc of the call of gmp_timer_new */
};

static void timer_release(struct gmp_timer *t)
{
	timer_give_place();
	object_free(t, sizeof(*t));
}

/* Not part of timer_main: fn may end the green thread by gmp_exit. */
void timer_run_ended(struct g *gp)
{
	struct gmp_timer *t = gp->arg;
	struct glist out = { 0 };
	struct bucket *b = lot_lock(t);
	bool last = add_rlx(&t->running, -1u) == 1, gone = last && t->dying;

	if (last)
		lot_wake_first(b, t, 0, &out);
	lot_unlock_ready(b, &out);
	if (gone)
		timer_release(t);
}

/* On the G of a run that could not be made before. */
static noinline void report_unmade(struct gmp_timer *t)
{
	static struct findings reported;
	int64_t due = ld_rlx(&t->due);
	uint32_t n = ld_rlx(&t->unmade);
	struct line l = { .n = 0 };

	st_rlx(&t->unmade, 0u);
	if (!(sched.options.debug & DEBUG_check) || !finding_wanted(&reported, t->made_at))
		return;
	line_str_sig(&l, "gmp: check: a timer (entry ");
	line_sym_sig(&l, (uintptr_t)t->fn);
	line_add_sig(&l, ") got no green thread at %u", n);
	if (due)
		line_add_sig(&l, " attempts: its run begins %lu ms late",
			     time_between(due, rt_now()) / MS);
	else
		line_str_sig(&l, " expiries, which were skipped");
	line_str_sig(&l, "\n     max_green green threads were alive, or max_stack_memory was "
			 "reserved: raise the limit, or start fewer\n");
	line_write_sig(&l, STDERR_FILENO);
}

static void timer_main(void *arg)
{
	struct gmp_timer *t = arg;

	st_rlx(&t->pending, false);
	if (unlikely(ld_rlx(&t->unmade)))
		report_unmade(t);
	run_program(t->fn, t->arg);
}

/* A G for a run of t.  NULL: there is none, or USERTIMER-3. */
static struct g *run_new(struct gmp_timer *t, int *err)
{
	*err = 0;
	if (t->period && ld_rlx(&t->pending))
		return NULL;
	struct g *gp = unlikely(t->deferred) ? green_new_deferred(timer_main, t, err)
					     : green_new(timer_main, t, 0, 0, err);

	if (!gp) {
		add_rlx(&t->unmade, 1);
		return NULL;
	}
	t->deferred = false;
	st_rlx(&t->pending, t->period != 0);
	st_rlx(&gp->made_at, t->made_at);
	gp->at_end = AT_END_TIMER_RUN;
	add_rlx(&t->running, 1);
	return gp;
}

/* USERTIMER-5: t tries again, sooner if its run is not late yet and few Gs are deferred. */
static void run_defer(struct gmp_timer *t, int64_t now, int err)
{
	if (!t->due)
		st_rlx(&t->due, max_of(t->t.when, INT64_C(1)));
	if (err == -EAGAIN && !t->deferred) {
		t->deferred = true;
		g_defer();
	}
	int64_t late = (int64_t)min_of(time_between(t->due, now), (uint64_t)RETRY_MOST_NS * 8);
	int64_t wait = max_of(late / 8, max_of(RETRY_LEAST_NS, RETRY_EACH_NS * g_deferred()));

	t->t.when = now < NEVER - wait ? now + wait : NEVER - 1;
}

static noinline __attribute__((cold)) void forget_late_run(struct gmp_timer *t)
{
	st_rlx(&t->due, INT64_C(0));
	if (t->deferred)
		g_undefer();
	t->deferred = false;
}

/* t is armed or disarmed: USERTIMER-5.  With the heap's lock held, or while t is not armed. */
static inline void run_undefer(struct gmp_timer *t)
{
	if (unlikely(ld_rlx(&t->due) != 0))
		forget_late_run(t);
}

static noinline bool timer_disarm(struct gmp_timer *t)
{
	bool was = timer_del(&t->t);

	run_undefer(t);
	return was;
}

static bool timer_fires(struct timer *base, int64_t now, struct glist *out)
{
	struct gmp_timer *t = container_of(base, struct gmp_timer, t);
	int err;
	struct g *gp = run_new(t, &err);

	if (gp)
		glist_push(out, gp);
	if (t->period == 0) {
		if (!gp)
			run_defer(t, now, err);
		return !gp;
	}
	__int128 late = (__int128)now - base->when;
	__int128 next = base->when + t->period * (1 + late / t->period);

	if (late >= t->period || !gp)
		add_rlx(&sched.total.timers_skipped, (uint64_t)(late / t->period) + !gp);
	if (next >= NEVER) /* beyond the end of the clock */
		return false;
	base->when = (int64_t)next;
	return true;
}

gmp_timer *gmp_timer_new(gmp_fn fn, void *arg)
{
	struct gmp_timer *t = NULL;

	if (!fn || !rt_enter())
		return NULL;
	if (timer_take_place() && !(t = malloc_zeroed(sizeof(*t))))
		timer_give_place();
	if (t) {
		t->kind = OBJECT_TIMER;
		t->fn = fn;
		t->arg = arg;
		t->made_at = (uintptr_t)__builtin_return_address(0);
		t->run = sched.run;
		t->t.fire = timer_fires;
	}
	rt_leave();
	return t;
}

/* With t->lock held.  Returns true if t was armed. */
static bool timer_set_locked(struct gmp_timer *t, int64_t deadline, int64_t period)
{
	bool was = timer_armed(&t->t);

	if (was && deadline != NEVER && timer_hold(&t->t)) {
		run_undefer(t);
		t->period = period;
		timer_rearm(&t->t, deadline);
		return true;
	}
	if (was)
		was = timer_disarm(t);
	else
		run_undefer(t);
	t->period = period;
	if (deadline != NEVER)
		timer_arm(&t->t, deadline);
	return was;
}

int gmp_timer_set(gmp_timer *t, int64_t deadline, int64_t period)
{
	if (!t || period < 0)
		return -EINVAL;
	if (!timer_enter(&t->run)) {
		object_check(&t->kind, &t->lock);
		return -ESRCH;
	}
	lock(&t->lock, LR_USERTIMER);
	bool was = timer_set_locked(t, likely(!t->freed) ? deadline : NEVER, period);
	unlock(&t->lock, LR_USERTIMER);

	rt_leave();
	return was;
}

int gmp_timer_stop(gmp_timer *t)
{
	return gmp_timer_set(t, NEVER, 0);
}

/* True if the caller is a run of t, also in blocking code. */
static bool caller_is_run_of(struct gmp_timer *t)
{
	struct g *gp = own_green();

	return gp && gp->fn == timer_main && gp->arg == t;
}

/* Shutdown kills the thread that waits in gmp_timer_free: frees t for it (USERTIMER-4). */
static void timer_free_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	struct gmp_timer *t = (struct gmp_timer *)(uintptr_t)sg->key;
	struct bucket *b = lot_lock(t);

	if (sg->queued)
		lot_dequeue(b, sg);
	t->dying = ld_rlx(&t->running) > 0;
	bool gone = !t->dying;

	lot_unlock(b);
	if (gone)
		timer_release(t);
}

void gmp_timer_free(gmp_timer *t)
{
	struct external f;

	if (!t)
		return;
	object_claim(t, &t->kind, OBJECT_TIMER, "gmp_timer_free");
	if (!timer_enter_to_free(t->run)) {
		timer_release(t);
		return;
	}
	lock(&t->lock, LR_USERTIMER);
	t->freed = true;
	timer_del(&t->t);
	run_undefer(t);
	unlock(&t->lock, LR_USERTIMER);
	/* timer_fires does not run from here on (timerheap.h), so `running` only shrinks */
	struct bucket *b = lot_lock(t);

	if (caller_is_run_of(t)) {
		t->dying = true;
		lot_unlock(b);
		rt_leave();
		return;
	}
	if (ld_rlx(&t->running)) {
		struct sudog *sg = self_sudog(&f);

		lot_enqueue(b, t, sg, false);
		lot_wait(b, sg, WAIT_TIMER_FREE | UNCANCELLABLE, timer_free_unwait, NEVER);
	} else {
		lot_unlock(b);
	}
	timer_release(t);
	rt_leave();
}
