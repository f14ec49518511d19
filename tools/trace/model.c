/* SPDX-License-Identifier: MIT */
/*
 * Model of the traced program: follows Gs, threads and Ps through the events of a trace.
 */
#include "model.h"

#include <stdlib.h>

#include "model_names.h"

static void warn(struct model *m, enum warning w)
{
	m->trace->warnings.count[w]++;
}

/* --- slices of threads and Ps --- */

static void thread_does(struct model *m, struct thread *t, enum doing doing, struct green *g)
{
	if (t->doing == doing && t->g == g)
		return;
	if (m->sink->thread != NULL)
		m->sink->thread(m->sink->user, t, m->now);
	t->doing = doing;
	t->g = g;
	t->since = m->now;
}

/* Lets a P run g, or nothing if g is NULL. */
static void proc_does(struct model *m, struct proc *p, struct green *g, bool is_blocking)
{
	if (p == NULL || (p->g == g && p->is_blocking == is_blocking))
		return;
	if (g != NULL && g->p != NULL && g->p != p)
		proc_does(m, g->p, NULL, false);
	if (p->g != NULL && m->sink->proc != NULL)
		m->sink->proc(m->sink->user, p, m->now);
	if (p->g != NULL && p->g != g)
		p->g->p = NULL;
	p->g = g;
	p->is_blocking = is_blocking;
	p->since = m->now;
	if (g != NULL)
		g->p = p;
}

/* Lets a thread hold a P, or no thread if t is NULL. */
static void hold_proc(struct model *m, struct proc *p, struct thread *t)
{
	if (p == NULL || p->holder == t)
		return;
	if (p->holder != NULL) {
		add_ns(&p->held, m->now - p->held_since);
		p->holder->p = NULL;
	}
	if (t != NULL && t->p != NULL)
		hold_proc(m, t->p, NULL);
	p->holder = t;
	p->held_since = m->now;
	if (t != NULL)
		t->p = p;
}

/* --- states of Gs --- */

static void end_span(struct model *m, struct green *g, bool is_open)
{
	struct span s = { g, g->state, g->since, m->now, is_open };

	if (g->state != STATE_UNKNOWN && g->state != STATE_DEAD && m->sink->span != NULL)
		m->sink->span(m->sink->user, &s);
}

static void set_state(struct model *m, struct green *g, enum state state)
{
	end_span(m, g, false);
	g->is_guess = false;
	g->state = state;
	g->since = m->now;
}

/* Takes g, which stops running, from its thread and P. */
static void leave_thread(struct model *m, struct green *g)
{
	if (g->thread != NULL && g->thread->g == g)
		thread_does(m, g->thread, DOING_OTHER, NULL);
	if (g->p != NULL)
		proc_does(m, g->p, NULL, false);
	g->thread = NULL;
	g->p = NULL;
}

/*
 * Prepares an event that g emits on thread t: g runs there. Returns false if g has ended; the event
 * is ignored then.
 */
static bool runs_on(struct model *m, struct green *g, struct thread *t)
{
	if (g->state == STATE_DEAD) {
		warn(m, WARN_LATE);
		return false;
	}
	if (!g->is_guess && (g->state == STATE_WAITING || g->state == STATE_RUNNABLE))
		warn(m, WARN_MISSING);
	if (g->thread != NULL && g->thread != t && g->thread->g == g)
		thread_does(m, g->thread, DOING_OTHER, NULL);
	g->thread = t;
	return true;
}

/* Makes g runnable. */
static void make_runnable(struct model *m, struct green *g, const struct wake *wake)
{
	if (g->state == STATE_WAITING)
		model_hand_over(m, g, wake);
	g->wake = *wake;
	set_state(m, g, STATE_RUNNABLE);
	g->has_flow = wake->is_wakeup;
	if (m->sink->wake != NULL)
		m->sink->wake(m->sink->user, g);
}

static struct wake wake_of(struct model *m, const struct event *e, unsigned cause, unsigned queue)
{
	struct green *by = e->b != 0 ? map_get(&m->greens, e->b) : NULL;
	bool has_slice = by != NULL && by->state != STATE_UNKNOWN && by->state != STATE_DEAD;

	return (struct wake){
		.time = m->now,
		.by = e->b,
		.by_entry = e->b != 0 ? model_entry_of(m, e->b) : NULL,
		.by_track = has_slice ? by->track : 0,
		.thread = e->thread,
		.cause = (uint8_t)cause,
		.queue = (uint8_t)queue,
		.is_wakeup = true,
	};
}

/* --- events of Gs --- */

static void on_spawn(struct model *m, const struct event *e, struct green *g)
{
	struct wake wake = wake_of(m, e, m->cause_of[CAUSE_SPAWN], e->small & 15);

	g->entry = model_entry(m, e->c);
	if (g->state == STATE_UNKNOWN)
		make_runnable(m, g, &wake);
}

static void on_name(const struct event *e, struct green *g)
{
	free(g->name);
	g->name = copy_text(e->text, e->text_length);
}

/* Ends the state of a G that runs although nothing has made it runnable: events are missing. */
static void leave_unseen(struct model *m, struct green *g)
{
	struct wake wake = { .time = m->now, .queue = QUEUE_NONE };

	m->trace->warnings.count[WARN_MISSING] += !g->is_guess;
	wake.cause = m->cause_of[CAUSE_UNKNOWN];
	if (g->state == STATE_WAITING)
		g->wake = wake; /* what has ended the wait */
	set_state(m, g, STATE_UNKNOWN);
	g->wake = wake;
	g->has_flow = false;
	leave_thread(m, g);
}

static void on_run(struct model *m, const struct event *e, struct green *g, struct thread *t)
{
	struct proc *p = model_proc(m, e->b);

	if (g->state == STATE_DEAD) {
		warn(m, WARN_LATE);
		return;
	}
	if (t->g != NULL && t->g != g) { /* the event by which that G left is missing */
		struct green *other = t->g;

		warn(m, WARN_MISSING);
		set_state(m, other, STATE_UNKNOWN);
		leave_thread(m, other);
	}
	if (g->state == STATE_WAITING || g->state == STATE_RUNNING || g->state == STATE_BLOCKING)
		leave_unseen(m, g);
	set_state(m, g, STATE_RUNNING);
	g->early.is_wakeup = false;
	g->thread = t;
	thread_does(m, t, DOING_RUN, g);
	hold_proc(m, p, t);
	proc_does(m, p, g, false);
}

static void on_park(struct model *m, const struct event *e, struct green *g, struct thread *t)
{
	if (!runs_on(m, g, t))
		return;
	set_state(m, g, STATE_WAITING);
	leave_thread(m, g);
	g->reason = e->small;
	g->object = e->b;
	g->holder = model_holder(m, g, e->c);
	g->holder_entry = g->holder != 0 ? model_entry_of(m, g->holder) : NULL;
	if (g->early.is_wakeup && m->now - g->early.time < EARLY_NS)
		make_runnable(m, g, &g->early);
	g->early.is_wakeup = false;
}

static void on_ready(struct model *m, const struct event *e, struct green *g)
{
	struct wake wake = wake_of(m, e, e->small >> 4, e->small & 15);

	switch (g->state) {
	case STATE_DEAD: warn(m, WARN_LATE); break;
	case STATE_RUNNING:
	case STATE_BLOCKING: g->early = wake; break;
	case STATE_RUNNABLE: /* it has lost its P, and enters a queue */
		if (!g->wake.is_wakeup) {
			g->wake.queue = wake.queue;
			g->wake.cause = wake.cause;
		}
		break;
	default: make_runnable(m, g, &wake);
	}
}

/* A G stops to run, and remains runnable. */
static void on_yield(struct model *m, struct green *g, struct thread *t, unsigned cause)
{
	struct wake wake = { .time = m->now, .cause = m->cause_of[cause] };

	wake.queue = cause == CAUSE_YIELD ? m->yield_queue : QUEUE_NONE;
	if (!runs_on(m, g, t))
		return;
	if (g->state == STATE_RUNNABLE) { /* READY has come before */
		leave_thread(m, g);
		return;
	}
	set_state(m, g, STATE_RUNNABLE); /* ends the state with the wakeup that began it */
	g->wake = wake;
	g->has_flow = false;
	leave_thread(m, g);
	if (m->sink->wake != NULL)
		m->sink->wake(m->sink->user, g);
}

static void end_regions(struct model *m, struct green *g, struct thread *t, struct regions *r)
{
	while (r->count > 0) {
		r->count--;
		if (m->sink->region != NULL)
			m->sink->region(m->sink->user, g, t, &r->at[r->count], true, m->now);
	}
}

static void is_gone(struct model *m, struct green *g)
{
	if (g->entry->index == 0)
		warn(m, WARN_UNKNOWN_G);
	if (m->sink->gone != NULL)
		m->sink->gone(m->sink->user, g);
}

static void on_exit_event(struct model *m, struct green *g, struct thread *t)
{
	if (!runs_on(m, g, t))
		return;
	set_state(m, g, STATE_DEAD);
	end_regions(m, g, NULL, &g->regions);
	leave_thread(m, g);
	is_gone(m, g);
	model_bury(m, g);
}

static void on_block(struct model *m, const struct event *e, struct green *g, struct thread *t)
{
	struct proc *p = g->p != NULL ? g->p : map_get(&m->procs, e->b);

	if (!runs_on(m, g, t))
		return;
	set_state(m, g, STATE_BLOCKING);
	thread_does(m, t, DOING_BLOCK, g);
	if (p != NULL && (p->g == NULL || p->g == g))
		proc_does(m, p, g, true);
}

static void on_unblock(struct model *m, const struct event *e, struct green *g, struct thread *t)
{
	if (!runs_on(m, g, t))
		return;
	set_state(m, g, STATE_RUNNING);
	thread_does(m, t, DOING_RUN, g);
	if (e->small)
		proc_does(m, g->p != NULL ? g->p : t->p, g, false); /* its P, or a new one */
	else if (g->p != NULL)
		proc_does(m, g->p, NULL, false);
}

/* A G that is alive at the start of the trace. */
static void on_green(struct model *m, const struct event *e, struct green *g)
{
	if (e->b != 0)
		g->entry = model_entry(m, e->b);
	if (e->text_length > 0 && g->name == NULL)
		on_name(e, g);
	if (g->state != STATE_UNKNOWN)
		return;
	g->state = m->states[e->small];
	g->is_guess = true;
	g->reason = (uint8_t)e->c;
	g->since = g->drawn = m->now;
	g->wake.time = m->now;
}

static void follow_green(struct model *m, const struct event *e, struct green *g, struct thread *t)
{
	switch (e->type) {
	case EVENT_SPAWN: on_spawn(m, e, g); break;
	case EVENT_NAME: on_name(e, g); break;
	case EVENT_RUN: on_run(m, e, g, t); break;
	case EVENT_PARK: on_park(m, e, g, t); break;
	case EVENT_YIELD: on_yield(m, g, t, CAUSE_YIELD); break;
	case EVENT_EXIT: on_exit_event(m, g, t); break;
	case EVENT_READY: on_ready(m, e, g); break;
	case EVENT_BLOCK: on_block(m, e, g, t); break;
	case EVENT_UNBLOCK: on_unblock(m, e, g, t); break;
	case EVENT_LOSE_P: on_yield(m, g, t, CAUSE_LOSE_P); break;
	case EVENT_GREEN: on_green(m, e, g); break;
	default: break;
	}
}

/* --- other events --- */

static void on_region(struct model *m, const struct event *e, struct green *g, struct thread *t)
{
	struct regions *r = g != NULL ? &g->regions : &t->regions;

	if (g != NULL && g->state == STATE_DEAD) {
		warn(m, WARN_LATE);
	} else if (e->type == EVENT_BEGIN && r->count == MOST_REGIONS) {
		warn(m, WARN_DEEP);
		r->ignored++;
	} else if (e->type == EVENT_BEGIN) {
		ROOM_FOR_ONE(r->at, r->count, r->capacity);
		r->at[r->count] =
			(struct region){ intern(&m->texts, e->text, e->text_length), m->now };
		if (m->sink->region != NULL)
			m->sink->region(m->sink->user, g, t, &r->at[r->count], false, m->now);
		r->count++;
	} else if (r->ignored > 0) {
		r->ignored--;
	} else if (r->count == 0) {
		warn(m, WARN_NO_BEGIN);
	} else {
		r->count--;
		if (m->sink->region != NULL)
			m->sink->region(m->sink->user, g, t, &r->at[r->count], true, m->now);
	}
}

/* The P of a G is taken from it; the G runs or blocks without. */
static void on_taken(struct model *m, const struct event *e)
{
	struct proc *p = model_proc(m, e->a);

	if (p == NULL)
		return;
	proc_does(m, p, NULL, false);
	hold_proc(m, p, NULL);
}

static void follow_thread(struct model *m, const struct event *e, struct thread *t)
{
	switch (e->type) {
	case EVENT_P_START:
		t->is_m = true;
		hold_proc(m, model_proc(m, e->a), t);
		break;
	case EVENT_P_STOP: hold_proc(m, model_proc(m, e->a), NULL); break;
	case EVENT_M_SLEEP:
		t->is_m = true;
		if (t->g == NULL)
			thread_does(m, t, e->small ? DOING_POLL : DOING_SLEEP, NULL);
		break;
	case EVENT_M_WAKE:
		if (t->g == NULL)
			thread_does(m, t, DOING_OTHER, NULL);
		break;
	case EVENT_HANDOFF:
	case EVENT_PREEMPT: on_taken(m, e); break;
	default: break;
	}
}

/* Returns the G that the first argument of an event names, or NULL. */
static struct green *subject(struct model *m, const struct event *e)
{
	const char *a = event_kinds[e->type].a;

	if (a[0] != 'G' || a[1] != '\0' || e->a == 0)
		return NULL;
	if (e->type == EVENT_STACK || e->type == EVENT_TRIM || e->type == EVENT_LOG)
		return map_get(&m->greens, e->a);
	return model_green(m, e->a);
}

static void follow(struct model *m, const struct event *e)
{
	struct thread *t = model_thread(m, e->thread);
	struct green *g = subject(m, e);

	m->counts[e->type]++;
	t->latest = m->now;
	if (e->type == EVENT_BEGIN || e->type == EVENT_END)
		on_region(m, e, g, t);
	else if (g != NULL)
		follow_green(m, e, g, t);
	else
		follow_thread(m, e, t);
	if (m->sink->event != NULL)
		m->sink->event(m->sink->user, e, t, g);
}

/* Ends all that is open at the end of the trace. */
static void finish(struct model *m)
{
	size_t count;
	struct green **greens = sorted_greens(m, &count);

	for (size_t i = 0; i < count; i++) {
		if (greens[i]->state == STATE_DEAD)
			continue;
		end_span(m, greens[i], true);
		end_regions(m, greens[i], NULL, &greens[i]->regions);
		is_gone(m, greens[i]);
	}
	free(greens);

	struct thread **threads = sorted_threads(m, &count);

	for (size_t i = 0; i < count; i++) {
		struct thread *t = threads[i];
		int64_t end = t->doing == DOING_OTHER ? t->latest : m->now;

		if (end < t->since)
			end = t->since;
		if (m->sink->thread != NULL)
			m->sink->thread(m->sink->user, t, end);
		end_regions(m, NULL, t, &t->regions);
	}
	free(threads);

	struct proc **procs = sorted_procs(m, &count);

	for (size_t i = 0; i < count; i++) {
		if (procs[i]->g != NULL && m->sink->proc != NULL)
			m->sink->proc(m->sink->user, procs[i], m->now);
		hold_proc(m, procs[i], NULL);
	}
	free(procs);
}

void model_run(struct model *m, struct trace *t, const struct sink *sink)
{
	struct event e;

	model_init(m, t, sink);
	while (trace_next(t, &e)) {
		m->now = e.ns;
		follow(m, &e);
	}
	finish(m);
}
