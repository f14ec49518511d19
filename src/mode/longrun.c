/* SPDX-License-Identifier: MIT */
/*
 * Long runs: reports green threads that keep their P for 10 ms, with the cause and the backtrace.
 *
 * Three causes need different remedies: the green thread computes, its OS thread sleeps in a system
 * call, or the OS thread is runnable and other threads have the CPU.  The kernel distinguishes them
 * by two numbers of a thread: its CPU time and its run-queue delay
 * (/proc/self/task/TID/schedstat).  sysmon reads both when a P has switched, and again when the P
 * has not switched for 10 ms.  If the thread sleeps, /proc/self/task/TID/syscall names the call.
 *
 * A thread can only walk its own stack.  So sysmon asks by a signal, the handler stores the
 * backtrace, and sysmon writes it: symbols and source positions need malloc and files, which a
 * signal handler may not use.
 *
 *   sysmon                                        handler, on the asked thread
 *    1 fill in a FREE question, -> ASKED           1 each question ASKED of this thread:
 *                          ORD(longrun)              -> ANSWERING by compare-and-swap
 *    2 send the signal                             2 store the green thread and its backtrace
 *    3 DONE: write it, -> FREE                     3 -> DONE                    ORD(longrun)
 *    4 ASKED, and the run has ended: -> FREE by
 *      compare-and-swap
 *
 * Invariants
 *  LONGRUN-1  sysmon owns a FREE or DONE question, the handler an ANSWERING question.
 *             ASKED is left by compare-and-swap only.
 *  LONGRUN-2  A finding is written once for each place (struct findings): the function of a
 *             computation, the call in the program that leads to a sleep.  So a run may be asked
 *             about more than once: a computation after 10, 30, 70 ms and then every 100 ms, a
 *             sleep if the thread has run and sleeps again.  A call that the signal interrupts,
 *             and that the kernel does not restart (nanosleep, poll), returns EINTR.
 *  LONGRUN-3  A question stays ASKED until its run ends: the signal is delivered once, and may be
 *             late (the thread waits for a CPU or a disk, or ThreadSanitizer delays it until the
 *             call has returned).
 *  LONGRUN-4  A signal is for all questions to its thread: the kernel drops a second signal that is
 *             sent while the first is pending.
 *  LONGRUN-5  The runtime's own work is never reported: a P with odd `pauses` is not asked about, a
 *             signal during the pause is not answered, and measurements from before it are dropped
 *             (run_of).  While libdw searches, a delay of another thread may be a wait for libdw:
 *             it is not reported.
 *  LONGRUN-6  Answers are written even if the program calls exit: a handler of atexit writes the
 *             questions that are DONE, after sysmon has written the one in progress.
 *             `writing.mutex` is held while a question is written.  The handler writes on a thread
 *             of its own, since the caller of exit may have a small stack.
 *
 * Accuracy: a baseline is up to BASE_NS older than the run, enough for a threshold of one half.
 */
#include "mode/longrun.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/finding.h"
#include "base/os.h"
#include "enter.h"
#include "g.h"

enum {
	MS = 1000000,
	BASE_NS = 1 * MS, /* between two baselines, which read a file of /proc */
	RUN_NS = 10 * MS,
	UNCLEAR_NS = 100 * MS, /* after that the largest of three causes is named */
	QUESTIONS = 16,
	EXIT_STACK = 256 * 1024, /* as sysmon's */
};

/*
 * State word of a question.  LONGRUN-1 has its owner in each state.
 *
 *   FREE       not in use
 *   ASKED      published; the handler of its thread may take it, or sysmon take it back
 *   ANSWERING  the handler fills it in
 *   DONE       answered, not written yet
 */
enum question_state { FREE = 0, ASKED = 1, ANSWERING = 2, DONE = 3 };

static struct question {
	uint32_t state; /* (a) enum question_state */
	/* written by sysmon */
	int p, tid;
	enum longrun_kind kind;
	bool check; /* GMP_DEBUG=check; otherwise sched */
	int64_t elapsed, spent;
	uint64_t run; /* run_of its P: the answer is for this one */
	struct os_call call;
	bool in_call;
	/* written by the handler */
	uint64_t id;
	gmp_fn entry;
	char name[G_NAME_MAX];
	struct trace trace;
} questions[QUESTIONS];

/* Measurements of a P, used by sysmon alone. */
static struct base {
	int tid;
	uint64_t run;   /* run_of the P */
	unsigned asked; /* in this run: bits of kinds */
	int64_t at, cpu, delay;
	int64_t next;      /* ns of computing until the next question */
	uint64_t slices;   /* os_thread_slices at the last question about a sleep */
	uint32_t searches; /* finding_searches */
} bases[PROCS_MAX];

static struct findings told[LONGRUN_KINDS];

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

/* Number that changes with each switch, each section of blocking code and each pause of the P. */
static uint64_t run_of(const struct p *pp)
{
	return ld_rlx(&pp->count.switches) + ld_rlx(&pp->count.blocks) + ld_rlx(&pp->pauses);
}

/* True while the M of pp works for GMP_DEBUG=check (run_pause). */
static bool is_paused(const struct p *pp)
{
	return ld_rlx(&pp->pauses) & 1;
}

static void base_take(struct base *b, int tid, int64_t now)
{
	b->tid = tid;
	b->at = now;
	b->cpu = os_thread_cpu_time(tid);
	b->delay = os_thread_delay(tid);
	b->searches = finding_searches();
}

static void base_begin_run(struct base *b, const struct p *pp)
{
	b->run = run_of(pp);
	b->asked = 0;
	b->next = RUN_NS;
}

static bool check_enabled(void)
{
	return sched.options.debug & DEBUG_check;
}

void longrun_moved(int i, int tid, int64_t now)
{
	base_begin_run(&bases[i], sched.allp[i]);
	if (check_enabled() && (bases[i].tid != tid || now - bases[i].at >= BASE_NS))
		base_take(&bases[i], tid, now);
}

/* --- questions --- */

/* Returns false if the kernel does not queue the signal (RLIMIT_SIGPENDING). */
static bool send_question(struct question *q, int i, int tid, enum longrun_kind kind,
			  int64_t elapsed, int64_t spent)
{
	uint32_t state = ASKED;

	q->p = i;
	q->tid = tid;
	q->kind = kind;
	q->check = check_enabled();
	q->run = bases[i].run;
	q->elapsed = elapsed;
	q->spent = spent;
	q->in_call = kind == LONGRUN_SLEEPS && os_thread_call(tid, &q->call);
	st_rel(&q->state, (uint32_t)ASKED); /* ORD(longrun) */
	return os_thread_signal(tid, LONGRUN_SIGNAL) == 0 ||
	       !cas_acq(&q->state, &state, (uint32_t)FREE); /* ORD(longrun) */
}

/* LONGRUN-2.  The answer to a question costs a sleeping thread one time slice, which does not
 * count. */
static bool may_ask_of(const struct base *b, enum longrun_kind kind)
{
	if (finding_full(&told[kind]))
		return false;
	return !(b->asked & 1u << kind) || kind == LONGRUN_COMPUTES ||
	       (kind == LONGRUN_SLEEPS && os_thread_slices(b->tid) > b->slices + 1);
}

/* Sends a question about the run of P number p, and starts a new measurement. */
static void ask_about(int p, enum longrun_kind kind, int64_t elapsed, int64_t spent, int64_t now)
{
	struct base *b = &bases[p];

	for (int i = 0; i < QUESTIONS && may_ask_of(b, kind); i++) {
		if (ld_acq(&questions[i].state) != FREE) /* ORD(longrun) */
			continue;
		if (kind == LONGRUN_SLEEPS)
			b->slices = os_thread_slices(b->tid);
		else if (kind == LONGRUN_COMPUTES)
			b->next = min_of(b->next * 2, (int64_t)UNCLEAR_NS);
		if (send_question(&questions[i], p, b->tid, kind, elapsed, spent))
			b->asked |= 1u << kind;
		break;
	}
	base_take(b, b->tid, now);
}

void longrun_poll(int i, int tid, int64_t since, int64_t now)
{
	const struct p *pp = sched.allp[i];
	struct base *b = &bases[i];

	if (!check_enabled() || tid == 0)
		return;
	if (b->tid != tid || b->run != run_of(pp) || is_paused(pp)) {
		base_begin_run(b, pp);
		base_take(b, tid, now);
		return;
	}
	int64_t elapsed = now - b->at, run = min_of(elapsed, now - since);
	int64_t cpu = os_thread_cpu_time(tid) - b->cpu, delay = os_thread_delay(tid);

	if (run < RUN_NS)
		return;
	delay = delay < 0 || b->delay < 0 ? -1 : delay - b->delay;
	switch (longrun_classify(elapsed, cpu, delay, os_thread_state(tid))) {
	case LONGRUN_COMPUTES:
		if (run >= b->next)
			ask_about(i, LONGRUN_COMPUTES, run, min_of(cpu, run), now);
		break;
	case LONGRUN_STARVED:
		if (b->searches & FINDING_SEARCH || b->searches != finding_searches()) {
			base_take(b, tid, now); /* LONGRUN-5 */
			break;
		}
		delay = delay > 0 ? delay : elapsed - cpu;
		ask_about(i, LONGRUN_STARVED, run, min_of(delay, run), now);
		break;
	case LONGRUN_SLEEPS: ask_about(i, LONGRUN_SLEEPS, run, run, now); break;
	case LONGRUN_UNKNOWN: break;
	}
}

void longrun_stuck(int i, int tid, int64_t since, int64_t now)
{
	if (!(sched.options.debug & DEBUG_sched) || tid == 0)
		return;
	if (is_paused(sched.allp[i]))
		return;
	if (bases[i].run != run_of(sched.allp[i]))
		base_begin_run(&bases[i], sched.allp[i]);
	bases[i].tid = tid;
	ask_about(i, LONGRUN_SLEEPS, now - since, now - since, now);
}

/* --- answers --- */

static void question_set_name(char *to, const char *from)
{
	size_t n = 0;

	for (; n < G_NAME_MAX - 1 && from[n]; n++)
		to[n] = from[n];
	to[n] = '\0';
}

static void answer_sig(struct question *q, struct m *m, uintptr_t pc)
{
	uint32_t state = ASKED;
	struct g *gp = m->curg;

	if (ld_acq(&q->state) != ASKED || q->tid != m->tid || /* ORD(longrun) */
	    !cas_acq(&q->state, &state, (uint32_t)ANSWERING)) /* ORD(longrun) */
		return;
	if (!m->p || is_paused(m->p) || run_of(m->p) != q->run) {
		st_rel(&q->state, (uint32_t)FREE); /* ORD(longrun) */
		return;
	}
	q->id = gp->id;
	q->entry = gp->fn;
	question_set_name(q->name, g_name(gp));
	trace_own(&q->trace, pc);
	st_rel(&q->state, (uint32_t)DONE); /* ORD(longrun) */
}

void longrun_answer_sig(struct m *m, uintptr_t pc)
{
	for (int i = 0; i < QUESTIONS; i++)
		answer_sig(&questions[i], m, pc);
}

/* --- writing --- */

static void add_ms(struct line *l, int64_t ns)
{
	line_dec_sig(l, (uint64_t)(ns / MS));
}

/* ` in read() of fd 3 (pipe:[1234])` */
static void add_call(struct line *l, const struct question *q)
{
	char what[80];

	if (!q->in_call)
		return;
	line_str_sig(l, " in ");
	line_str_sig(l, q->call.name);
	if (q->call.fd < 0)
		return;
	line_str_sig(l, " of fd ");
	line_dec_sig(l, (uint64_t)q->call.fd);
	if (os_fd_name(q->call.fd, what, sizeof(what))) {
		line_str_sig(l, " (");
		line_str_sig(l, what);
		line_str_sig(l, ")");
	}
}

/* Appends what the green thread did to l, and a remedy to advice. */
static void describe_run(struct line *l, struct line *advice, const struct question *q)
{
	switch (q->kind) {
	case LONGRUN_COMPUTES:
		line_str_sig(l, " computed for ");
		add_ms(l, q->spent);
		if (q->spent < q->elapsed / 10 * 9) {
			line_str_sig(l, " of ");
			add_ms(l, q->elapsed);
		}
		line_str_sig(l, " ms without a wait");
		line_str_sig(advice, "call gmp_checkpoint() in the loop, or wrap the computation: "
				     "gmp_blocking(...)");
		break;
	case LONGRUN_SLEEPS:
		line_str_sig(l, " sleeps in the kernel");
		add_call(l, q);
		line_str_sig(l, " for ");
		add_ms(l, q->elapsed);
		line_str_sig(l, " ms");
		line_str_sig(advice, "its P runs no other green thread meanwhile: ");
		line_str_sig(advice, remedies[q->in_call ? q->call.kind : OS_CALL_OTHER]);
		break;
	default:
		line_str_sig(l, " was not given a CPU for ");
		add_ms(l, q->spent);
		line_str_sig(l, " of ");
		add_ms(l, q->elapsed);
		line_str_sig(l, " ms");
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
		line_str_sig(&l, ", in ");
		finding_place(&l, q->trace.pc[finding_frame(&q->trace)]);
	}
	finding_write(&l, &advice, &q->trace, false);
}

static struct {
	pthread_mutex_t mutex; /* LONGRUN-6 */
	int tid;               /* (a) of its holder; 0: none */
	int pid; /* (a) whose questions these are: a fork copies them; 0: there are none */
} writing = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void write_answers(void)
{
	pthread_mutex_lock(&writing.mutex);
	st_rlx(&writing.tid, os_thread_id());
	for (int i = 0; i < QUESTIONS; i++) {
		struct question *q = &questions[i];
		uint32_t state = ld_acq(&q->state); /* ORD(longrun) */

		if (state == DONE) {
			write_finding(q);
			st_rlx(&q->state, (uint32_t)FREE);
		} else if (state == ASKED && run_of(sched.allp[q->p]) != q->run) {
			cas_acq(&q->state, &state, (uint32_t)FREE); /* ORD(longrun) */
		}
	}
	st_rlx(&writing.tid, 0);
	pthread_mutex_unlock(&writing.mutex);
}

void longrun_write(void)
{
	if (sched.options.debug & (DEBUG_check | DEBUG_sched))
		write_answers();
}

static void *write_last(void *arg)
{
	(void)arg;
	write_answers();
	return NULL;
}

/* True if a question is answered, being answered or being written. */
static bool has_answers(void)
{
	bool any = ld_rlx(&writing.tid) != 0;

	for (int i = 0; i < QUESTIONS; i++)
		any |= ld_rlx(&questions[i].state) >= ANSWERING;
	return any;
}

/* LONGRUN-6.  Does nothing if a signal handler on sysmon calls exit while sysmon writes. */
static void write_at_exit(void)
{
	struct p *paused;
	pthread_t t;

	if (ld_rlx(&writing.pid) != getpid() || !has_answers() ||
	    ld_rlx(&writing.tid) == os_thread_id())
		return;
	paused = run_pause();
	if (os_thread_start(&t, write_last, NULL, EXIT_STACK) == 0)
		pthread_join(t, NULL);
	run_resume(paused);
}

void longrun_begin(void)
{
	memset(questions, 0, sizeof(questions));
	memset(bases, 0, sizeof(bases));
	memset(told, 0, sizeof(told));
	if (!(sched.options.debug & (DEBUG_check | DEBUG_sched)))
		return;
	if (ld_rlx(&writing.pid) == 0)
		atexit(write_at_exit); /* a child of fork has this one */
	else if (ld_rlx(&writing.pid) != getpid())
		pthread_mutex_init(&writing.mutex, NULL); /* a fork may copy it locked */
	st_rlx(&writing.tid, 0);
	st_rlx(&writing.pid, (int)getpid());
}
