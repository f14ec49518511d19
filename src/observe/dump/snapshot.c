/* SPDX-License-Identifier: MIT */
/* Snapshot of a green thread: see observe/dump/snapshot.h. */
#include "observe/dump/snapshot.h"

#include "base/finding.h"
#include "chan.h"
#include "g.h"
#include "machine/unwind.h"
#include "netpoll/netpoll.h"
#include "observe/dump/running.h"
#include "observe/tracing.h"
#include "wait/mutex.h"
#include "wait/sync.h"
#include "waiter.h"

enum { CASES_MOST = 6 }; /* of a select that are shown */

const char *const snapshot_states[] = {
#define GSTATUS(name, text, edges) [name] = text,
#include "gstatus.def"
#undef GSTATUS
};

const char *const snapshot_p_states[] = {
	[P_IDLE] = "idle",
	[P_RUNNING] = "running",
	[P_RETIRED] = "retired",
	[P_BLOCKED] = "blocked",
};

/* Return the object of a wait: the number of an fd, or an address. */
static uintptr_t object_of(enum waitkey kind, const void *key)
{
	switch (kind) {
	case WAITKEY_LOCK: return (uintptr_t)wait_key_mutex(key);
	case WAITKEY_FD: return (uintptr_t)((const struct polldesc *)key)->fd;
	case WAITKEY_OFFSET: return (uintptr_t)key & ~(uintptr_t)7;
	case WAITKEY_COMPLEMENT: return ~(uintptr_t)key;
	default: return (uintptr_t)key;
	}
}

/* Return whether gp waits for a writer that has claimed the lock and still waits for readers. */
static bool awaits_claimer(const struct g *gp)
{
	return g_wait_kind(gp)->key == WAITKEY_LOCK &&
	       ld_rlx(&wait_key_mutex(gp->sudog.key)->state) & RW_DRAIN;
}

struct g *snapshot_awaited(const struct g *gp)
{
	const void *key = gp->sudog.key;

	if (!ld_rlx(&gp->sudog.queued))
		return NULL;
	switch (g_wait_kind(gp)->key) {
	case WAITKEY_LOCK:
		if (key == rw_drain(wait_key_mutex(key)))
			return NULL; /* gp is the owner, and waits for readers */
		return gmp__token_g(ld_rlx(&wait_key_mutex(key)->owner));
	case WAITKEY_ONCE: return gmp__token_g(ld_rlx(&((const gmp_once *)key)->owner));
	case WAITKEY_JOIN: return container_of((uintptr_t)key, struct g, join);
	default: return NULL;
	}
}

static bool snapshot_is_alive(const struct g *gp)
{
	uint8_t status = ld_acq(&gp->status); /* ORD(g.status) */

	return status != G_FREE && status != G_DEAD;
}

/* ": receive 0x55d2, send 0x55d8, and 3 more" */
static void add_cases(const struct g *gp, struct line *l)
{
	struct select_op at[CASES_MOST];
	unsigned n = select_ops(gp, at, CASES_MOST);

	for (unsigned i = 0; i < min_of(n, (unsigned)CASES_MOST); i++)
		line_add_sig(l, "%s%s 0x%lx", i ? ", " : ": ", at[i].sends ? "send" : "receive",
			     (uintptr_t)at[i].c);
	if (n > CASES_MOST)
		line_add_sig(l, ", and %u more", n - CASES_MOST);
}

uintptr_t snapshot_object(const struct g *gp)
{
	const void *key = gp->sudog.key;

	if (!ld_rlx(&gp->sudog.queued) || !key)
		return 0;
	return object_of(g_wait_kind(gp)->key, key);
}

/* "channel receive 0x55d2", "mutex lock 0x55d8, held by green thread 4". gp is held (SNAPSHOT-1).
 * */
static void add_wait(struct snapshot *v, const struct g *gp)
{
	const struct wait_kind *kind = g_wait_kind(gp);
	const struct g *awaited = snapshot_awaited(gp);
	struct line *l = &v->what;

	v->reason = ld_rlx(&gp->reason);
	v->awaits = awaited;
	line_str_sig(l, kind->text);
	if (kind->key == WAITKEY_CASES)
		add_cases(gp, l);
	if (!ld_rlx(&gp->sudog.queued))
		return;
	if (kind->key == WAITKEY_JOIN) {
		line_add_sig(l, " of green thread %lu", ld_rlx(&awaited->id));
		return;
	}
	line_add_sig(l, kind->key == WAITKEY_FD ? " %lu" : " 0x%lx",
		     object_of(kind->key, gp->sudog.key));
	if (!awaited)
		return;
	line_add_sig(l, ", %s by green thread %lu", awaits_claimer(gp) ? "claimed" : "held",
		     ld_rlx(&awaited->id));
	if (!snapshot_is_alive(awaited))
		line_str_sig(l, ", which has ended");
}

static void copy_identity(struct snapshot *v, const struct g *gp)
{
	v->id = ld_rlx(&gp->id);
	v->fn = ld_rlx(&gp->fn);
	v->made_at = ld_rlx(&gp->made_at);
	v->born = ld_rlx(&gp->born);
	uint64_t cpu_ns;

	v->has_cpu = cputime_of(gp, &cpu_ns);
	v->cpu_ns = (int64_t)cpu_ns;
	g_copy_name(gp, v->name);
}

static void snapshot_held(struct snapshot *v, const struct g *gp)
{
	copy_identity(v, gp);
	v->state = NULL;
	v->since = ld_rlx(&gp->since);
	add_wait(v, gp);
	trace_parked(&v->trace, &gp->ctx, gp->stack, gp->stack + ((size_t)1 << gp->stack_class));
}

static const char *state_of(const struct g *gp, uint8_t status, uint32_t wait)
{
	if (status == G_WAITING) /* not parked yet, or woken */
		return snapshot_states[wait == WAITER_IDLE ? G_RUNNING : G_RUNNABLE];
	if (status == G_RUNNABLE && !ld_rlx(&gp->stack))
		return "runnable, not begun";
	return snapshot_states[status];
}

/* "in read() of fd 5 (pipe:[12])"; "in compute+0x40", and the backtrace. */
static void add_location(struct snapshot *v, int tid, const struct locations *locations)
{
	const struct trace *t;
	struct os_call call;

	if (tid && os_thread_call(tid, &call)) {
		finding_call(&v->what, &call); /* a location from before it slept is out of date */
	} else if ((t = locations_find(locations, v->id)) != NULL) {
		v->trace = *t;
		line_str_sig(&v->what, "in ");
		line_sym_sig(&v->what, t->pc[finding_frame(t)]);
	}
}

/* Fill *v for a G that is not held, without its stack. wait: the state of its waiter. Returns false
 * if gp is not alive, or its g struct was reused (SNAPSHOT-3). */
static bool snapshot_unheld(struct snapshot *v, const struct g *gp, uint32_t wait,
			    const struct locations *locations)
{
	uint32_t life = ld_acq(&gp->generation); /* ORD(g.life) */
	uint8_t status = ld_acq(&gp->status);    /* ORD(g.status) */
	uint64_t ran_from = 0;
	int tid = 0;

	if (!snapshot_is_alive(gp))
		return false;
	copy_identity(v, gp);
	v->state = state_of(gp, status, wait);
	if (status == G_RUNNING) {
		if (m_of_running(gp, &tid, &v->since, &ran_from) && v->since)
			v->state = "running without a P";
		v->cpu_ns += cputime_present(ran_from);
		add_location(v, tid, locations);
	}
	fence_acq(); /* ORD(g.life): SNAPSHOT-3 */
	return ld_rlx(&gp->generation) == life;
}

/* Replace the entry function of a service by that of the program, if the backtrace has it. */
static void show_program_entry(struct snapshot *v)
{
	v->fn = (gmp_fn)finding_entry((uintptr_t)v->fn, &v->trace);
}

bool snapshot_green(struct snapshot *v, struct g *gp, const struct g *self, uintptr_t caller,
		    const struct locations *locations)
{
	uint32_t wait;

	v->what.n = 0;
	v->since = 0;
	v->awaits = false;
	v->reason = WAIT_NONE;
	v->trace.n = 0;
	v->trace.more = v->trace.in_handler = false;
	if (!snapshot_is_alive(gp))
		return false;
	if (gp == self) {
		copy_identity(v, gp);
		v->state = "running, the caller of gmp_dump";
		if (getm())
			v->cpu_ns += cputime_present(ld_rlx(&getm()->traced.ran_from));
		trace_own(&v->trace, caller);
		show_program_entry(v);
		return true;
	}
	while ((wait = waiter_hold(&gp->w)) == WAITER_BUSY)
		cpu_relax(); /* another thread holds it */
	bool alive = true;

	if (wait == WAITER_ARMED) {
		snapshot_held(v, gp);
		waiter_release(&gp->w);
	} else {
		alive = snapshot_unheld(v, gp, wait, locations);
	}
	show_program_entry(v);
	v->what.text[min_of(v->what.n, sizeof(v->what.text) - 1)] = '\0';
	return alive;
}

/* gp is held (SNAPSHOT-1). The G that it awaits is not: it may end meanwhile (SNAPSHOT-3). */
static void copy_holder(struct snapshot_wait *v, const struct g *gp)
{
	const struct g *holder = snapshot_awaited(gp);

	v->holder = 0;
	v->holder_name[0] = '\0';
	if (!holder)
		return;
	uint32_t life = ld_acq(&holder->generation); /* ORD(g.life) */

	v->holder = ld_rlx(&holder->id);
	g_copy_name(holder, v->holder_name);
	fence_acq(); /* ORD(g.life): SNAPSHOT-3 */
	if (ld_rlx(&holder->generation) != life || !snapshot_is_alive(holder)) {
		v->holder = 0;
		v->holder_name[0] = '\0';
	}
}

bool wait_is_same(const struct wait_id *a, const struct wait_id *b)
{
	return a->g == b->g && a->since == b->since && a->key == b->key && a->sp == b->sp &&
	       a->reason == b->reason;
}

/* gp is held (SNAPSHOT-1). */
static void wait_held(struct snapshot_wait *v, const struct g *gp, bool *same)
{
	struct wait_id now = { .g = ld_rlx(&gp->id),
			       .since = ld_rlx(&gp->since),
			       .key = gp->sudog.key,
			       .sp = gp->ctx.sp,
			       .reason = ld_rlx(&gp->reason) };

	*same = wait_is_same(&v->id, &now);
	if (!*same) {
		v->id = now;
		v->fn = ld_rlx(&gp->fn);
		g_copy_name(gp, v->name);
		trace_parked(&v->trace, &gp->ctx, gp->stack,
			     gp->stack + ((size_t)1 << gp->stack_class));
	}
	copy_holder(v, gp);
}

_Static_assert(WAIT_REASONS <= 32, "a wait reason is a bit of an uint32_t");

bool snapshot_parked(struct snapshot_wait *v, struct g *gp, uint32_t reasons, bool *same)
{
	uint32_t wait;
	bool wanted;

	if (ld_rlx(&gp->status) != G_WAITING)
		return false;
	while ((wait = waiter_hold(&gp->w)) == WAITER_BUSY)
		cpu_relax();
	if (wait != WAITER_ARMED)
		return false;
	wanted = reasons & 1u << ld_rlx(&gp->reason);
	if (wanted)
		wait_held(v, gp, same);
	waiter_release(&gp->w);
	return wanted;
}

bool snapshot_brief(struct snapshot *v, const struct g *gp)
{
	uint32_t life = ld_acq(&gp->generation); /* ORD(g.life) */
	uint8_t status = ld_acq(&gp->status);    /* ORD(g.status) */
	uint32_t wait = ld_rlx(&gp->w.state) & WAITER_STATE_MASK;

	if (!snapshot_is_alive(gp))
		return false;
	copy_identity(v, gp);
	v->reason = ld_rlx(&gp->reason);
	v->state = state_of(gp, status, wait);
	if (status == G_WAITING && (wait == WAITER_ARMED || wait == WAITER_BUSY))
		v->state = NULL;
	fence_acq(); /* ORD(g.life): SNAPSHOT-3 */
	return ld_rlx(&gp->generation) == life;
}
