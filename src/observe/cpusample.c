/* SPDX-License-Identifier: MIT */
/* CPU samples by timers of the CPU time of each M: see observe/cpusample.h. */
#include "observe/cpusample.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/os.h"
#include "g.h"
#include "observe/longrun.h"
#include "stack.h"

/* Enough for 40 CPUs at 1000 Hz between two drains of 100 ms. */
enum { SLOTS = 4096 };

enum slot_state { SLOT_FREE = 0, SLOT_FILLING = 1, SLOT_FULL = 2 };

struct sample_slot {
	uint32_t state; /* (a) enum slot_state */
	struct cpusample s;
};

static struct {
	struct lock lock; /* of the Ms and their timers, period and old */
	struct m *ms;
	int64_t period; /* ns; 0: no timers */
	struct sigaction old;
	uint32_t busy;            /* (a) 1: from cpusample_begin to cpusample_end */
	uint32_t on;              /* (a) 1: the handler takes samples */
	uint32_t inside;          /* (a) handlers that run */
	struct sample_slot *slot; /* (c) while busy */
	uint64_t next;            /* (a) number of the next sample */
	uint64_t drained;         /* number of the next sample to drain */
	uint64_t lost;            /* (a) */
} sampling;

/* --- the handler --- */

static void note_green_sig(struct cpusample *s, const struct g *gp)
{
	s->id = gp->id;
	s->token = gp->token;
	s->fn = gp->fn;
	g_copy_name(gp, s->name);
}

/* SAMPLE-2, SAMPLE-3 */
static void sample_fill_sig(struct cpusample *s, int overrun, const void *context)
{
	uintptr_t pc = context_pc_sig(context);
	struct m *m = getm();

	if (!m)
		m = gmp__blockedm();
	s->n = 1 + (uint32_t)max_of(overrun, 0);
	s->id = 0;
	s->token = 0;
	s->fn = NULL;
	s->name[0] = '\0';
	if (m && m->curg && longrun_on_green_side(m, context_sp_sig(context)))
		note_green_sig(s, m->curg);
	trace_own_from(&s->trace, pc, 0);
	if (s->trace.n == 0) {
		s->trace.pc[0] = pc;
		s->trace.n = 1;
	}
}

static void sample_take_sig(int overrun, const void *context)
{
	uint64_t number = add_rlx(&sampling.next, (uint64_t)1);
	struct sample_slot *slot = &sampling.slot[number % SLOTS];
	uint32_t state = SLOT_FREE;

	if (!cas_acq(&slot->state, &state, (uint32_t)SLOT_FILLING)) { /* ORD(sample) */
		add_rlx(&sampling.lost, (uint64_t)1);
		return;
	}
	sample_fill_sig(&slot->s, overrun, context);
	st_rel(&slot->state, (uint32_t)SLOT_FULL); /* ORD(sample) */
}

static void on_sigprof(int signo, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)signo;
	add_seq(&sampling.inside, 1u); /* ORD(sample.on): before `on` is read */
	if (ld_seq(&sampling.on) && info->si_code == SI_TIMER) /* ORD(sample.on) */
		sample_take_sig(info->si_overrun, context);
	sub_seq(&sampling.inside, 1u); /* ORD(sample.on) */
	errno = saved;
}

/* --- the disposition of SIGPROF --- */

static bool is_on_sigprof(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_sigprof;
}

/* Returns 0; -EBUSY: the signal is the program's. */
static int sample_install(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigprof,
				.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

	/* a handler that leaves the run (variant/abandon.h) must not interrupt this one */
	sigaddset(&sa.sa_mask, LONGRUN_SIGNAL);
	if (sigaction(SIGPROF, NULL, &sampling.old) < 0)
		return -errno;
	if (sampling.old.sa_handler != SIG_DFL && sampling.old.sa_handler != SIG_IGN)
		return -EBUSY;
	return sigaction(SIGPROF, &sa, NULL) < 0 ? -errno : 0;
}

/* SAMPLE-5.  A handler that the program has installed meanwhile stays. */
static void sample_uninstall(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, now;

	if (sigaction(SIGPROF, NULL, &now) < 0 || !is_on_sigprof(&now))
		return;
	sigaction(SIGPROF, &ignore, NULL);
	sigaction(SIGPROF, &sampling.old, NULL);
}

/* --- timers --- */

/* The first sample is after a random part of the period: if it were after a whole one, no thread
 * that uses less would be sampled. */
static int timer_of_m_locked(struct m *m)
{
	uint64_t draw = (cpu_ticks() + (uint64_t)m->sampled.tid) * 0x9e3779b97f4a7c15u >> 32;
	int64_t first = 1 + (int64_t)(draw % (uint64_t)sampling.period);
	int timer = os_cpu_timer_begin(m->sampled.tid, SIGPROF, first, sampling.period);

	m->sampled.timer = max_of(timer, -1);
	return min_of(timer, 0);
}

static void end_timer_of_m_locked(struct m *m)
{
	if (m->sampled.timer >= 0)
		os_timer_end(m->sampled.timer);
	m->sampled.timer = -1;
}

static void sample_end_timers(void)
{
	lock(&sampling.lock, LR_SAMPLE);
	sampling.period = 0;
	for (struct m *m = sampling.ms; m; m = m->sampled.next)
		end_timer_of_m_locked(m);
	unlock(&sampling.lock, LR_SAMPLE);
}

static int sample_begin_timers(int64_t period)
{
	int err = 0;

	lock(&sampling.lock, LR_SAMPLE);
	sampling.period = period;
	for (struct m *m = sampling.ms; m && !err; m = m->sampled.next)
		err = timer_of_m_locked(m);
	unlock(&sampling.lock, LR_SAMPLE);
	return err;
}

void cpusample_thread_begin(struct m *m)
{
	struct sampled *s = &m->sampled;

	s->tid = os_thread_id();
	s->timer = -1;
	lock(&sampling.lock, LR_SAMPLE);
	s->next = sampling.ms;
	s->at = &sampling.ms;
	if (s->next)
		s->next->sampled.at = &s->next;
	sampling.ms = m;
	if (sampling.period && timer_of_m_locked(m) < 0)
		add_rlx(&sampling.lost, (uint64_t)1);
	unlock(&sampling.lock, LR_SAMPLE);
}

void cpusample_thread_end(struct m *m)
{
	struct sampled *s = &m->sampled;

	lock(&sampling.lock, LR_SAMPLE);
	end_timer_of_m_locked(m);
	if (s->at) {
		*s->at = s->next;
		if (s->next)
			s->next->sampled.at = s->at;
		s->at = NULL;
	}
	unlock(&sampling.lock, LR_SAMPLE);
}

/* The child has no timers of its parent. */
void cpusample_forget(void)
{
	struct sigaction now;

	if (ld_rlx(&sampling.busy) && sigaction(SIGPROF, NULL, &now) == 0 && is_on_sigprof(&now))
		sigaction(SIGPROF, &sampling.old, NULL);
	memset(&sampling, 0, sizeof(sampling));
}

/* --- a session --- */

int cpusample_begin(int hz)
{
	uint32_t free = 0;
	struct trace t;
	int err;

	if (!cas_acq(&sampling.busy, &free, 1u)) /* ORD(sample.busy) */
		return -EBUSY;
	trace_own(&t, 0); /* SAMPLE-2 */
	sampling.next = sampling.drained = sampling.lost = 0;
	sampling.slot = os_reserve(SLOTS * sizeof(*sampling.slot));
	err = sampling.slot ? sample_install() : -ENOMEM;
	if (err) {
		cpusample_end();
		return err;
	}
	st_seq(&sampling.on, 1u); /* ORD(sample.on) */
	err = sample_begin_timers(S / hz);
	if (err) {
		cpusample_stop();
		cpusample_end();
	}
	return err;
}

void cpusample_drain(cpusample_fn fn, void *arg)
{
	uint64_t next = ld_rlx(&sampling.next);

	for (; sampling.drained != next; sampling.drained++) {
		struct sample_slot *slot = &sampling.slot[sampling.drained % SLOTS];
		uint32_t state = ld_acq(&slot->state); /* ORD(sample) */

		if (state == SLOT_FILLING)
			break; /* it is read by the next drain */
		if (state == SLOT_FREE)
			continue; /* lost, or read in place of an earlier one */
		fn(arg, &slot->s);
		st_rel(&slot->state, (uint32_t)SLOT_FREE); /* ORD(sample) */
	}
}

void cpusample_stop(void)
{
	st_seq(&sampling.on, 0u); /* ORD(sample.on): before `inside` is read */
	sample_end_timers();
	sample_uninstall();
	while (ld_seq(&sampling.inside)) /* ORD(sample.on) */
		os_yield();
	/* A handler may have taken its number before a drain, and filled the slot after it: read
	 * every slot again. */
	sampling.drained = sampling.next - min_of(sampling.next, (uint64_t)SLOTS);
}

uint64_t cpusample_end(void)
{
	uint64_t lost = sampling.lost;

	os_release(sampling.slot, SLOTS * sizeof(*sampling.slot));
	sampling.slot = NULL;
	st_rel(&sampling.busy, 0u); /* ORD(sample.busy) */
	return lost;
}
