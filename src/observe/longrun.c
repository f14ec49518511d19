/* SPDX-License-Identifier: MIT */
/*
 * Long runs: reports green threads that keep their P for a time slice, with the cause and the
 * backtrace.
 *
 * Three causes need different remedies: the green thread computes, its OS thread sleeps in a system
 * call, or the OS thread is runnable and other threads have the CPU.  The kernel distinguishes them
 * by two numbers of a thread: its CPU time and its run-queue delay
 * (/proc/self/task/TID/schedstat).  sysmon reads both when a P has switched, and again when the P
 * has not switched for a time slice.
 *
 * A thread that sleeps is read from outside: /proc/self/task/TID/syscall names the call, and a copy
 * of its stack is unwound (machine/asleep.h).  A signal would end a usleep or a poll with EINTR.
 *
 * A thread that computes must walk its own stack.  So the asker sends a signal, the handler stores
 * the backtrace, and the asker writes it: symbols and source positions need malloc and files, which
 * a signal handler may not use.  There are two askers: sysmon, and a dump (observe/dump/running.c),
 * which asks where a running green thread is.  Each has questions of its own.
 *
 *   asker: sysmon, or a dump                      handler, on the asked thread
 *    1 a dump: FREE -> FILLING by                  1 each question ASKED of this thread:
 *      compare-and-swap, since several dumps         -> ANSWERING by compare-and-swap
 *      may run.  sysmon: a FREE question           2 store the green thread and its backtrace
 *    2 fill it in, -> ASKED   ORD(longrun)         3 ANSWERING -> DONE by compare-and-swap; if that
 *    3 send the signal                               fails it is DROPPED: -> FREE   ORD(longrun)
 *    4 DONE: use the answer, -> FREE
 *    5 sysmon, ASKED, and the run has ended;
 *      a dump, ASKED, at its timeout: -> FREE
 *      by compare-and-swap
 *    6 a dump, ANSWERING, at its timeout:
 *      -> DROPPED by compare-and-swap
 *
 * Invariants
 *  LONGRUN-1  The asker owns a FREE, FILLING or DONE question, the handler an ANSWERING or DROPPED
 *             question.  ASKED and ANSWERING are left by compare-and-swap only.  So no asker waits
 *             for a handler without a timeout, and no handler writes to a question that another
 *             asker has begun to use.
 *  LONGRUN-2  A finding is written once for each place (struct findings): the function of a
 *             computation, the call in the program that leads to a sleep.  So a run may be asked
 *             about more than once: a computation after 10, 30, 70 ms and then every 100 ms, a
 *             sleep if the thread has run and sleeps again.
 *  -          A question of sysmon stays ASKED until its run ends: the signal is delivered once,
 *             and may be late (the thread waits for a CPU or a disk, or ThreadSanitizer delays it
 *             until the call has returned).
 *  -          A signal is for all questions to its thread: the kernel drops a second signal that is
 *             sent while the first is pending.
 *  LONGRUN-5  The runtime's own work is never reported: a P with odd `pauses` is not asked about, a
 *             signal during the pause is not answered, and measurements from before it are dropped
 *             (p_steps).  While libdw searches, a delay of another thread may be a wait for libdw:
 *             it is not reported.
 *  LONGRUN-7  An answer to a dump has frames only if the signal arrived on the green thread's side:
 *             on its stack, or on a stack that the program has made.  On g0 the frames are the
 *             scheduler's: g0 is a P section, and its last instructions after that are recognized
 *             by the stack pointer.  The green thread may be another than the dump has asked about:
 *             the dump compares the ids.
 *  LONGRUN-8  A thread that sleeps is not signalled.  Its question is answered by sysmon, FREE ->
 *             DONE, if the thread sleeps from before the first read of the G to after the last read
 *             of the stack: it has got no time slice meanwhile.
 *
 * Accuracy: a baseline is up to BASE_NS older than the run, enough for a threshold of one half.
 */
#include "observe/longrun.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/finding.h"
#include "base/os.h"
#include "enter.h"
#include "g.h"
#include "machine/asleep.h"
#include "observe/pause.h"
#include "proc.h"

enum {
	BASE_NS = 1 * MS,      /* between two baselines, which read a file of /proc */
	UNCLEAR_NS = 100 * MS, /* after that the largest of three causes is named */
	SLEEPERS = 16,         /* threads that are watched for LONGRUN-9 at the same time */
	SYSMON_QUESTIONS = 16,
	DUMP_QUESTIONS = 64, /* at the same time */
	QUESTIONS = SYSMON_QUESTIONS + DUMP_QUESTIONS,
	EXIT_STACK = 256 * 1024, /* as sysmon's */
	G0_MOST = 64 * 1024, /* bytes that the scheduler uses below m->g0; CALLER_STACK of run.c */
};

/*
 * State word of a question.  LONGRUN-1 has its owner in each state.
 *
 *   FREE       not in use
 *   FILLING    a dump fills it in
 *   ASKED      published; the handler of its thread may take it, or the asker take it back
 *   ANSWERING  the handler fills it in
 *   DROPPED    the same, and the asker does not wait for the answer any more
 *   DONE       answered, not used yet
 */
enum question_state { FREE = 0, ASKED = 1, ANSWERING = 2, DONE = 3, FILLING = 4, DROPPED = 5 };

/* The first SYSMON_QUESTIONS are sysmon's. */
static struct question {
	uint32_t state; /* (a) enum question_state */
	int tid;        /* (a) the thread that is asked */
	/* written by sysmon */
	int p;
	enum longrun_kind kind;
	bool check; /* GMP_DEBUG=check; otherwise sched */
	int64_t elapsed, spent;
	uint64_t run;        /* p_steps of its P: the answer is for this one */
	int64_t at;          /* when it was asked */
	struct os_call call; /* of a sleep */
	bool in_call;
	int certain; /* frames of a sleep: see trace_asleep */
	/* written by the handler, or by sysmon for a sleep */
	uint64_t id;
	gmp_fn entry;
	char name[G_NAME_MAX];
	struct trace trace;
} questions[QUESTIONS];

/* Measurements of a P, used by sysmon alone. */
static struct baseline {
	int tid;
	uint64_t run;   /* p_steps of the P */
	unsigned asked; /* in this run: bits of kinds */
	int64_t at, cpu, delay;
	int64_t next;      /* ns of computing until the next question */
	uint64_t slices;   /* os_thread_slices at the last report of a sleep */
	uint32_t searches; /* finding_searches */
} baselines[PROCS_MAX];

/*
 *  LONGRUN-9  A thread whose P was taken before it has slept for sched.slice is reported when it
 *             has (struct sleeper), if it still sleeps: it got no time slice since.  With
 *             GMP_DEBUG=sched it is reported when its P is taken.  Used by sysmon alone.
 */
static struct sleeper {
	int tid; /* 0: free */
	int64_t since;
	uint64_t slices;
} sleepers[SLEEPERS];

static struct findings told[LONGRUN_KINDS];

static const uint64_t NO_RUN = UINT64_MAX;

static const char *const remedies[] = {
	[OS_CALL_OTHER] = "wrap the call: gmp_blocking(...)",
	[OS_CALL_STREAM] =
		"use the gmp_ call of that name, or gmp_fd_wait before it, or gmp_blocking(...)",
	[OS_CALL_FILE] = "use the gmp_ call of that name, or gmp_blocking(...)",
	[OS_CALL_SLEEP] = "use gmp_sleep",
	[OS_CALL_LOCK] = "use gmp_mutex, gmp_cond or a channel, or gmp_blocking(...)",
	[OS_CALL_POLL] = "use gmp_fd_wait, or gmp_blocking(...)",
	[OS_CALL_CHILD] = "use gmp_waitpid",
};

/* --- classification --- */

enum longrun_kind longrun_classify(int64_t elapsed, int64_t cpu, int64_t delay, char state)
{
	bool sleeping = state == 'S' || state == 'D';
	int64_t known = cpu + max_of(delay, (int64_t)0);
	int64_t rest = max_of(elapsed - known, (int64_t)0);

	if (cpu * 2 >= elapsed)
		return LONGRUN_COMPUTES;
	if (delay * 2 >= elapsed)
		return LONGRUN_STARVED;
	if (sleeping && rest * 2 >= elapsed)
		return LONGRUN_SLEEPS;
	if (elapsed < UNCLEAR_NS)
		return LONGRUN_UNKNOWN;
	/* the kernel counts a delay only when it has ended */
	if (cpu >= max_of(delay, rest))
		return LONGRUN_COMPUTES;
	return sleeping && rest >= delay ? LONGRUN_SLEEPS : LONGRUN_STARVED;
}

/* True while the M of pp does work of the runtime (run_pause). */
static bool is_paused(const struct p *pp)
{
	return ld_rlx(&pp->pauses) & 1;
}

static void baseline_take(struct baseline *b, int tid, int64_t now)
{
	b->tid = tid;
	b->at = now;
	b->cpu = os_thread_cpu_time(tid);
	b->delay = os_thread_delay(tid);
	b->searches = finding_searches();
}

static void baseline_begin_run(struct baseline *b, const struct p *pp)
{
	b->run = p_steps(pp);
	b->asked = 0;
	b->next = sched.slice;
}

static bool check_enabled(void)
{
	return sched.options.debug & DEBUG_check;
}

void longrun_moved(int i, int tid, int64_t now)
{
	baseline_begin_run(&baselines[i], sched.allp[i]);
	if (check_enabled() && (baselines[i].tid != tid || now - baselines[i].at >= BASE_NS))
		baseline_take(&baselines[i], tid, now);
}

/* --- questions --- */

/* Returns false if the kernel does not queue the signal (RLIMIT_SIGPENDING). */
static bool send_question(struct question *q, int i, int tid, enum longrun_kind kind,
			  int64_t elapsed, int64_t spent)
{
	uint32_t state = ASKED;

	q->p = i;
	st_rlx(&q->tid, tid);
	q->kind = kind;
	q->check = check_enabled();
	q->run = baselines[i].run;
	q->at = os_now();
	q->elapsed = elapsed;
	q->spent = spent;
	st_rel(&q->state, (uint32_t)ASKED); /* ORD(longrun) */
	return os_thread_signal(tid, LONGRUN_SIGNAL) == 0 ||
	       !cas_acq(&q->state, &state, (uint32_t)FREE); /* ORD(longrun) */
}

/* The G may end meanwhile, and g_init may write the class of the next one.  Then the thread has
 * run, and nothing is reported (LONGRUN-8).  A relaxed store in g_init would cost gmp_spawn an
 * instruction. */
unsanitized static noinline size_t stack_size_of(const struct g *gp)
{
	return (size_t)1 << gp->stack_class;
}

/* Note the green thread that OS thread tid runs, and return its stack in *lo and *hi.  Returns
 * false if there is none, or if it is in blocking code. */
static bool question_identify(struct question *q, int tid, const char **lo, const char **hi)
{
	const struct g *gp;
	struct m *m;

	lock(&sched.lock, LR_SCHED);
	for (m = sched.allm; m && ld_rlx(&m->tid) != tid; m = m->alllink)
		;
	gp = m ? ld_rlx(&m->curg) : NULL;
	if (gp && (ld_acq(&gp->status) != G_RUNNING || !ld_rlx(&gp->stack))) /* ORD(g.status) */
		gp = NULL;
	if (gp) {
		q->id = ld_rlx(&gp->id);
		q->entry = ld_rlx(&gp->fn);
		g_copy_name(gp, q->name);
		*lo = ld_rlx(&gp->stack);
		*hi = *lo + stack_size_of(gp);
	}
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

/* LONGRUN-8.  Returns false if the thread does not sleep, or has run meanwhile. */
static bool report_sleep(struct question *q, int tid, int64_t elapsed)
{
	uint64_t slices = os_thread_slices(tid);
	const char *lo, *hi;

	q->in_call = os_thread_call(tid, &q->call);
	if (!q->in_call && !os_thread_is_asleep(tid))
		return false;
	if (!question_identify(q, tid, &lo, &hi))
		return false;
	q->certain = trace_asleep(&q->trace, tid, lo, hi, (uintptr_t)q->entry);
	/* -1 also if the file is not readable: then the thread has slept through it */
	if (os_thread_slices(tid) != slices || (q->certain < 0 && q->in_call))
		return false;
	q->certain = max_of(q->certain, 0);
	q->kind = LONGRUN_SLEEPS;
	q->check = check_enabled();
	q->elapsed = q->spent = elapsed;
	st_rlx(&q->state, (uint32_t)DONE);
	return true;
}

static struct question *question_free(void)
{
	for (int i = 0; i < SYSMON_QUESTIONS; i++)
		if (ld_acq(&questions[i].state) == FREE) /* ORD(longrun) */
			return &questions[i];
	return NULL;
}

/* LONGRUN-2 */
static bool may_ask_of(const struct baseline *b, enum longrun_kind kind)
{
	if (finding_full(&told[kind]))
		return false;
	return !(b->asked & 1u << kind) || kind == LONGRUN_COMPUTES ||
	       (kind == LONGRUN_SLEEPS && os_thread_slices(b->tid) != b->slices);
}

/* Sends a question about the run of P number p, or reports its sleep, and starts a new
 * measurement. */
static void ask_about(int p, enum longrun_kind kind, int64_t elapsed, int64_t spent, int64_t now)
{
	struct baseline *b = &baselines[p];
	struct question *q = may_ask_of(b, kind) ? question_free() : NULL;
	bool asked = false;

	if (q && kind == LONGRUN_SLEEPS) {
		b->slices = os_thread_slices(b->tid);
		asked = report_sleep(q, b->tid, elapsed);
	} else if (q) {
		if (kind == LONGRUN_COMPUTES)
			b->next = min_of(b->next * 2, (int64_t)UNCLEAR_NS);
		asked = send_question(q, p, b->tid, kind, elapsed, spent);
	}
	if (asked)
		b->asked |= 1u << kind;
	baseline_take(b, b->tid, now);
}

/* Asks about the run of P number i if its cause is clear. */
static void longrun_measure(int i, int64_t since, int64_t now)
{
	struct baseline *b = &baselines[i];
	int tid = b->tid;
	int64_t elapsed = now - b->at, run = min_of(elapsed, now - since);
	int64_t cpu = os_thread_cpu_time(tid) - b->cpu, delay = os_thread_delay(tid);

	if (run < sched.slice)
		return;
	delay = delay < 0 || b->delay < 0 ? -1 : delay - b->delay;
	char state = os_thread_state(tid);
	enum longrun_kind kind = longrun_classify(elapsed, cpu, delay, state);

	if (kind != LONGRUN_SLEEPS && (state == 'S' || state == 'D'))
		return; /* LONGRUN-8: it was delayed before it began to sleep */
	switch (kind) {
	case LONGRUN_COMPUTES:
		if (run >= b->next)
			ask_about(i, LONGRUN_COMPUTES, run, min_of(cpu, run), now);
		break;
	case LONGRUN_STARVED:
		if (b->searches & FINDING_SEARCH || b->searches != finding_searches()) {
			baseline_take(b, tid, now); /* LONGRUN-5 */
			break;
		}
		delay = delay > 0 ? delay : elapsed - cpu;
		ask_about(i, LONGRUN_STARVED, run, min_of(delay, run), now);
		break;
	case LONGRUN_SLEEPS: ask_about(i, LONGRUN_SLEEPS, run, run, now); break;
	case LONGRUN_UNKNOWN: break;
	}
}

bool longrun_poll(int i, int tid, int64_t since, int64_t now)
{
	const struct p *pp = sched.allp[i];
	struct baseline *b = &baselines[i];

	if (!check_enabled() || tid == 0)
		return false;
	if (b->tid != tid || b->run != p_steps(pp) || is_paused(pp)) {
		baseline_begin_run(b, pp);
		baseline_take(b, tid, now);
		return true;
	}
	unsigned before = b->asked;

	longrun_measure(i, since, now);
	return b->asked != before || (!before && now - since < UNCLEAR_NS);
}

/* LONGRUN-9 */
static void watch_taken(int tid, int64_t since)
{
	for (int i = 0; i < SLEEPERS; i++) {
		if (sleepers[i].tid)
			continue;
		sleepers[i] = (struct sleeper){ tid, since, os_thread_slices(tid) };
		break;
	}
}

static void report_taken(int64_t now)
{
	for (int i = 0; i < SLEEPERS; i++) {
		struct sleeper *t = &sleepers[i];
		struct question *q;

		if (!t->tid || now - t->since < sched.slice)
			continue;
		q = finding_full(&told[LONGRUN_SLEEPS]) ? NULL : question_free();
		if (q && t->slices && os_thread_slices(t->tid) == t->slices)
			report_sleep(q, t->tid, now - t->since);
		t->tid = 0;
	}
}

void longrun_stuck(int i, int tid, int64_t since, int64_t now)
{
	if (!(sched.options.debug & DEBUG_sched)) {
		if (check_enabled() &&
		    now - since < sched.slice) /* later, longrun_poll has seen it */
			watch_taken(tid, since);
		return;
	}
	if (baselines[i].run != p_steps(sched.allp[i]))
		baseline_begin_run(&baselines[i], sched.allp[i]);
	baselines[i].tid = tid;
	ask_about(i, LONGRUN_SLEEPS, now - since, now - since, now);
}

/* --- answers --- */

/* p_steps of the run that m is in, on m; NO_RUN during a pause. */
static uint64_t run_of_m(const struct m *m)
{
	if (ld_rlx(&m->taken) == P_TAKEN)
		return ld_rlx(&m->preempted.steps); /* an older value answers no question */
	return is_paused(m->p) ? NO_RUN : p_steps(m->p);
}

static void answer_sysmon_sig(struct question *q, struct m *m, uintptr_t pc)
{
	struct g *gp = m->curg;

	if (!gp || m != getm() || !m->p || q->run != run_of_m(m)) { /* or in blocking code */
		st_rel(&q->state, (uint32_t)FREE);                  /* ORD(longrun) */
		return;
	}
	q->id = gp->id;
	q->entry = gp->fn;
	g_copy_name(gp, q->name);
	trace_own(&q->trace, pc);
	st_rel(&q->state, (uint32_t)DONE); /* ORD(longrun): sysmon drops no question */
}

bool longrun_on_green_side(const struct m *m, uintptr_t sp)
{
	const struct g *gp = m->curg;
	uintptr_t lo = (uintptr_t)gp->stack;

	if (sp >= lo && sp - lo < (size_t)1 << gp->stack_class)
		return true;
	return !ld_rlx(&m->inside) && (uintptr_t)m->g0 - sp > G0_MOST;
}

static void answer_dump_sig(struct question *q, struct m *m, uintptr_t pc, uintptr_t sp)
{
	uint32_t state = ANSWERING;

	q->id = m->curg ? m->curg->id : 0;
	q->trace.n = 0;
	if (m->curg && longrun_on_green_side(m, sp))
		trace_own_from(&q->trace, pc, 0); /* not the handler's frames, if pc is not found */
	if (!cas_rel(&q->state, &state, (uint32_t)DONE)) /* ORD(longrun) */
		st_rel(&q->state, (uint32_t)FREE);       /* ORD(longrun): it is DROPPED */
}

void longrun_answer_sig(struct m *m, uintptr_t pc, uintptr_t sp)
{
	for (int i = 0; i < QUESTIONS; i++) {
		struct question *q = &questions[i];
		uint32_t state = ASKED;

		if (ld_acq(&q->state) != ASKED || /* ORD(longrun) */
		    ld_rlx(&q->tid) != m->tid ||
		    !cas_acq(&q->state, &state, (uint32_t)ANSWERING)) /* ORD(longrun) */
			continue;
		if (i < SYSMON_QUESTIONS)
			answer_sysmon_sig(q, m, pc);
		else
			answer_dump_sig(q, m, pc, sp);
	}
}

/* --- the questions of dumps --- */

int longrun_ask(int tid)
{
	for (int i = SYSMON_QUESTIONS; i < QUESTIONS; i++) {
		struct question *q = &questions[i];
		uint32_t state = FREE;

		if (ld_rlx(&q->state) != FREE ||
		    !cas_acq(&q->state, &state, (uint32_t)FILLING)) /* ORD(longrun) */
			continue;
		st_rlx(&q->tid, tid);
		st_rel(&q->state, (uint32_t)ASKED); /* ORD(longrun) */
		int err = os_thread_signal(tid, LONGRUN_SIGNAL);

		if (err)
			longrun_drop(i);
		return err ? err : i;
	}
	return -EBUSY;
}

bool longrun_answered(int question, uint64_t *id, struct trace *t)
{
	struct question *q = &questions[question];

	if (ld_acq(&q->state) != DONE) /* ORD(longrun) */
		return false;
	*id = q->id;
	*t = q->trace;
	st_rel(&q->state, (uint32_t)FREE); /* ORD(longrun) */
	return true;
}

void longrun_drop(int question)
{
	struct question *q = &questions[question];
	uint32_t asked = ASKED, answering = ANSWERING;

	if (cas_acq(&q->state, &asked, (uint32_t)FREE) ||        /* ORD(longrun) */
	    cas_acq(&q->state, &answering, (uint32_t)DROPPED) || /* ORD(longrun) */
	    ld_acq(&q->state) != DONE) /* ORD(longrun): the handler is through with it */
		return;
	st_rel(&q->state, (uint32_t)FREE); /* ORD(longrun) */
}

/* --- writing --- */

/*
 *  LONGRUN-6  Answers are written even if the program calls exit: a handler of atexit writes the
 *             questions that are DONE, after sysmon has written the one in progress, and sysmon
 *             writes none after that: libdw would run beside the end of the process.
 *             `writing.mutex` is held while a question is written.  The handler writes on a thread
 *             of its own, since the caller of exit may have a small stack.
 */

/* Appends what the green thread did to l, and a remedy to advice. */
static void describe_run(struct line *l, struct line *advice, const struct question *q)
{
	uint64_t spent = (uint64_t)(q->spent / MS), elapsed = (uint64_t)(q->elapsed / MS);

	switch (q->kind) {
	case LONGRUN_COMPUTES:
		line_add_sig(l, " computed for %lu", spent);
		if (q->spent < q->elapsed / 10 * 9)
			line_add_sig(l, " of %lu", elapsed);
		line_str_sig(l, " ms without a wait");
		line_str_sig(advice, "call gmp_checkpoint() in the loop, or wrap the computation: "
				     "gmp_blocking(...)");
		break;
	case LONGRUN_SLEEPS:
		line_str_sig(l, " sleeps in the kernel");
		if (q->in_call) {
			line_str_sig(l, " ");
			finding_call(l, &q->call);
		}
		line_add_sig(l, " for %lu ms", elapsed);
		line_add_sig(advice, "its P runs no other green thread until sysmon takes it: %s",
			     remedies[q->in_call ? q->call.kind : OS_CALL_OTHER]);
		break;
	default:
		line_add_sig(l, " was not given a CPU for %lu of %lu ms", spent, elapsed);
		line_str_sig(advice,
			     "other threads of the machine had it, or the cgroup's quota was used "
			     "up: run less beside it, or lower GMP_PROCS");
	}
}

/* Place of a finding.  A computation is interrupted at any instruction: its place is the function.
 * The place of a sleep is the call in the program that leads to it, or the function that a page
 * fault is in. */
static uint64_t place_of(const struct question *q)
{
	int i = finding_frame(&q->trace);

	if (q->trace.n == 0)
		return 0;
	return q->kind == LONGRUN_SLEEPS && i > 0 ? q->trace.pc[i] : trace_function(q->trace.pc[i]);
}

static void write_finding(const struct question *q)
{
	struct line l = { .n = 0 }, advice = { .n = 0 };

	if (!finding_wanted(&told[q->kind], place_of(q)))
		return;
	line_str_sig(&l, q->check ? "gmp: check: " : "gmp: sched: ");
	line_green_sig(&l, q->id, q->name, finding_entry((uintptr_t)q->entry, &q->trace));
	describe_run(&l, &advice, q);
	if (q->trace.n) {
		int i = finding_frame(&q->trace);
		bool likely = q->kind == LONGRUN_SLEEPS && i >= q->certain;

		line_str_sig(&l, likely ? ", likely called from " : ", in ");
		finding_place(&l, q->trace.pc[i]);
	}
	if (q->kind == LONGRUN_SLEEPS && q->certain < q->trace.n)
		line_add_sig(&advice, "; the calls from #%u on are likely", (unsigned)q->certain);
	finding_write(&l, &advice, &q->trace, false);
}

static struct {
	pthread_mutex_t mutex; /* LONGRUN-6 */
	int tid;               /* (a) of its holder; 0: none */
	int pid;    /* (a) whose questions these are: a fork copies them; 0: there are none */
	bool ended; /* by the mutex: the program has called exit */
} writing = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* last: the program has called exit. */
static void write_answers(bool last)
{
	pthread_mutex_lock(&writing.mutex);
	st_rlx(&writing.tid, os_thread_id());
	for (int i = 0; i < SYSMON_QUESTIONS && !writing.ended; i++) {
		struct question *q = &questions[i];
		uint32_t state = ld_acq(&q->state); /* ORD(longrun) */

		if (state == DONE) {
			write_finding(q);
			st_rlx(&q->state, (uint32_t)FREE);
		} else if (state == ASKED && !last && p_steps(sched.allp[q->p]) != q->run &&
			   os_now() - q->at > UNCLEAR_NS) { /* a preempted G may still answer */
			cas_acq(&q->state, &state, (uint32_t)FREE); /* ORD(longrun) */
		}
	}
	writing.ended |= last;
	st_rlx(&writing.tid, 0);
	pthread_mutex_unlock(&writing.mutex);
}

void longrun_write(void)
{
	if (check_enabled())
		report_taken(os_now());
	if (sched.options.debug & (DEBUG_check | DEBUG_sched))
		write_answers(false);
}

static void *write_last(void *arg)
{
	(void)arg;
	write_answers(true);
	return NULL;
}

/* LONGRUN-6.  Does nothing if a signal handler on sysmon calls exit while sysmon writes. */
static void write_at_exit(void)
{
	struct p *paused;
	pthread_t t;

	if (ld_rlx(&writing.pid) != getpid() || ld_rlx(&writing.tid) == os_thread_id())
		return;
	paused = run_pause();
	if (os_thread_start(&t, write_last, NULL, EXIT_STACK, NULL) == 0)
		pthread_join(t, NULL);
	run_resume(paused);
}

void longrun_begin(void)
{
	memset(questions, 0, sizeof(questions));
	memset(baselines, 0, sizeof(baselines));
	memset(sleepers, 0, sizeof(sleepers));
	memset(told, 0, sizeof(told));
	if (!(sched.options.debug & (DEBUG_check | DEBUG_sched)))
		return;
	if (ld_rlx(&writing.pid) == 0)
		atexit(write_at_exit); /* a child of fork has this one */
	else if (ld_rlx(&writing.pid) != getpid())
		pthread_mutex_init(&writing.mutex, NULL); /* a fork may copy it locked */
	writing.ended = false;
	st_rlx(&writing.tid, 0);
	st_rlx(&writing.pid, (int)getpid());
}
