/* SPDX-License-Identifier: MIT */
/*
 * In which order does the runtime begin and end?  This is the one place that knows.
 *
 * Begin: options, memory (proc.c), poller, signals, the watcher, the first green thread, Ms.
 *
 * End (the first green thread has ended, or gmp_stop):
 *  1 state = RUN_STOPPING; every P is told to attend, every sleeping M woken (sched_stop): each M
 *    leaves at its next turn of the scheduler
 *  2 the calling thread joins the others: from here on no green thread runs
 *    and what the kernel still does with the files of some is awaited (io/uring.h R1)
 *  3 every green thread that waits is claimed, and then the wait of each undone (park.h W3): no
 *    queue of an object that outlives the run holds it.  First all are claimed: whoever leaves a
 *    queue and lets others in (readers behind a writer) must not give the object to one that is
 *    dropped too.  One that somebody has claimed already is awaited: a external thread is about to
 *    make it runnable
 *  4 external threads that wait for the end of a green thread, a descriptor, or a tick, get -ESRCH;
 *    those inside a call are awaited (sched.external)
 *  5 everything is unmapped
 *
 * Invariants
 *  U1 One runtime at a time: state goes NONE -> STARTING -> ON -> STOPPING -> NONE.
 *  U2 After the end nothing of ours is left: no thread, descriptor, mapping, signal handler.
 *  U3 The child of a fork has no runtime: state NONE, no M, an empty parking table (parkinglot.c).  What
 *     the parent's held stays mapped there, the stack under the caller among it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/object.h"
#include "base/os.h"
#include "base/srcline.h"
#include "base/throw.h"
#include "debug/check.h"
#include "debug/cycle.h"
#include "debug/dump.h"
#include "debug/dump_signal.h"
#include "debug/report.h"
#include "faultsig.h"
#include "fls.h"
#include "g.h"
#include "idle.h"
#include "io/cleanup.h"
#include "io/uring.h"
#include "mode/vtime.h"
#include "netpoll.h"
#include "park.h"
#include "parkinglot.h"
#include "proc.h"
#include "ready.h"
#include "sched.h"
#include "spawn.h"
#include "stall.h"
#include "sys/notify.h"
#include "sys/resolve.h"
#include "sysmon.h"
#include "ticker.h"
#include "timerheap.h"

/* --- fork --- */

/* The number of the run stays: it tells the parent's timers from the child's. */
static void fork_child(void)
{
	uint32_t run = sched.run;
	struct m *m = getm() ? getm() : gmp__blockedm();

	if (m) {
		os_timer_slack(sched.slack);
		signal_thread_restore();
		fls_adopt(m->curg);
	}
	gmp__setm(NULL);
	dump_signal_forget();
	signals_forget();
	if (ld_rlx(&sched.state) != RUN_NONE) {
		uring_forget();
		gmp__poller.close();
		signal_fini();
		proc_forget();
		netpoll_forget_all();
	}
	dump_forget();
	ticks_forget();
	names_forget();
	leftovers_forget();
	memset(&sched, 0, sizeof(sched));
	sched.run = run;
}

/* In state STARTING, which one thread is in. */
static int fork_init(void)
{
	static bool registered;
	int err = registered ? 0 : -pthread_atfork(NULL, NULL, fork_child);

	registered = !err;
	return err;
}

/* --- Ms --- */

static void *m_main(void *arg)
{
	struct m *m = arg;

	gmp__cancel_hold(); /* for good: a green thread may hand out pthread_self() */
	os_timer_slack(1);
	san_thread(&m->san);
	signal_thread_begin(m);
	if (m->alone)
		thread_run(m);
	else
		mstart(m);
	signal_thread_end(m);
	m_dead(m);
	return NULL;
}

/* --- begin --- */

static int claim_runtime(void)
{
	uint32_t none = RUN_NONE;

	if (getm() || gmp__blockedm() || !cas_seq(&sched.state, &none, RUN_STARTING)) /* ORD(run) */
		return -EBUSY;
	return 0;
}

/* What set_up has done, and nobody uses any more. */
static void run_undo(void)
{
	dump_signal_fini();
	signal_fini();
	netpoll_fini();
	check_end();
	srcline_end();
	proc_fini();
	vtime_end();
	st_rlx(&sched.chaos, 0u);
	st_seq(&sched.state, RUN_NONE); /* ORD(run) */
}

/* The scheduler runs on the stack of gmp_run's caller: up to 9 KiB, 15 KiB with GMP_DEBUG=check
 * (tests/hostile/small_stack.sh). */
enum { CALLER_STACK = 24 * 1024 };

/* Writes a line to stderr without stdio, which takes 8 KiB of a stack that may have 16. */
static void write_error(const char *why)
{
	struct iovec line[] = { { "gmp: ", 5 }, { (char *)why, strlen(why) }, { "\n", 1 } };
	ssize_t n = writev(STDERR_FILENO, line, 3);

	(void)n;
}

static int run_set_up(const gmp_config *cfg, bool library)
{
	const char *why = NULL;
	uint32_t run = sched.run;
	struct options options;
	int err = options_load(cfg, &options, &why);

	if (!err && options.c.sched == GMP_SCHED_THREAD &&
	    options.debug & (DEBUG_virtual | DEBUG_chaos)) {
		err = -ENOTSUP;
		why = "GMP_SCHED_THREAD: the kernel goes by no virtual time, nor by our chaos";
	}
	if (!err && !library && os_stack_left() < CALLER_STACK) {
		err = -ENOMEM;
		why = "gmp_run: the calling thread has less than 24 KiB of stack left: "
		      "pthread_attr_setstacksize";
	}
	if (err && why)
		write_error(why);
	if (!err && options.debug & DEBUG_help)
		options_help(STDERR_FILENO);
	if (!err)
		err = fork_init();
	if (err) {
		st_seq(&sched.state, RUN_NONE); /* ORD(run) */
		return err;
	}
	sched_reset();
	st_rlx(&sched.run, run + 1);
	sched.options = options;
	sched.library = library;
	sched.threads = options.c.sched == GMP_SCHED_THREAD;
	if (options.debug & DEBUG_virtual)
		vtime_begin();
	st_rlx(&sched.chaos, (uint32_t)(options.debug & DEBUG_chaos));
	sched.fpwords = gmp__fpwords();
	sched.cpus = os_cpus_online();
	sched.slack = os_timer_slack_now();
	sched.nmlimit = options.c.max_threads;
	sched.asymmetric = os_membarrier_init();
	if (sched.asymmetric)
		lot_reset();
	sched.start_now = sched.coarse_now = os_now();
	sched.start_ticks = cpu_ticks();
	sched.joinable_exit = green_exited;
	sched.thread_killed = leftovers_dropped;
	sched.locals_end = fls_end;
	sched.timer_run_end = timer_run_ended;
	sched.stalled = report_stall;
	sched.on_errand = dump_signal_errand;
	sched.long_waits = cycles_watch;
	cycles_reset();
	proc_set_entry(m_main);
	names_init(max_of(options.c.max_threads / 2, 1));
	gmp__fatal_describe(report_self);
	srcline_begin();
	err = proc_init();
	if (!err)
		err = check_begin();
	park_init();
	if (!err)
		err = netpoll_init();
	if (!err)
		err = signal_init();
	if (!err && options.debug & DEBUG_quit)
		err = dump_signal_set(SIGQUIT);
	if (err)
		run_undo();
	return err;
}

/* One that has to be, whatever max_threads says. */
static struct m *m_new_always(void)
{
	lock(&sched.lock, LR_SCHED);
	st_rlx(&sched.nm, sched.nm + 1);
	unlock(&sched.lock, LR_SCHED);
	return m_new();
}

/* The M of the calling thread (gmp_run), or the first thread of the runtime's own (gmp_start). */
static struct m *first_m_new(void)
{
	struct m *m = m_new_always();

	if (!m)
		return NULL;
	lock(&sched.lock, LR_SCHED);
	m->nextp = pidle_get();
	unlock(&sched.lock, LR_SCHED);
	return m;
}

/* --- end --- */

static void join_ms(void)
{
	bool starting;

	do { /* sched_stop has seen to it that no more begin */
		lock(&sched.lock, LR_SCHED);
		starting = sched.nstarting > 0;
		unlock(&sched.lock, LR_SCHED);
		if (starting)
			os_yield();
	} while (starting);
	while (m_join_one(false))
		;
}

/* Step 3 for one. */
static void claim_waiting_g(struct g *gp)
{
	if (ld_rlx(&gp->status) == G_WAITING && !waiter_claim(&gp->w, -ESRCH))
		while (ld_acq(&gp->status) == G_WAITING) /* ORD(g.status) */
			os_yield();
}

static void kill_g(struct g *gp)
{
	/* also for one that was claimed and has not run since: its traces are still there, or what
	 * it was woken for must go to the next */
	if (ld_rlx(&gp->w.state) != WAITER_IDLE) {
		if (gp->turn & RESUME_TIMED)
			timer_del(&gp->timer);
		if (gp->unwait)
			gp->unwait(&gp->w);
	}
	if (gp->owes & OWES_TIMER_RUN)
		timer_run_ended(gp);
}

/* Step 4: -ESRCH for those who wait for what only the runtime could do. */
static void release_external(void)
{
	struct glist out = { 0 };

	netpoll_cancel_all(&out);
	ticks_release(&out);
	out = (struct glist){ .external = out.external }; /* green ones are dropped */
	ready_list(&out);
	for (uint32_t i = 0; i < g_made(); i++)
		green_release_joiner(g_at(i));
}

static void for_each_green(void (*fn)(struct g *gp))
{
	for (uint32_t i = 0; i < g_made(); i++) {
		struct g *gp = g_at(i);

		if (ld_acq(&gp->status) !=
		    G_FREE) /* ORD(g.status): a external thread may have just made it */
			fn(gp);
	}
}

static void kill_all(void)
{
	for_each_green(claim_waiting_g);
	for_each_green(kill_g);
	release_external();
	/* again and again: one that was in a call may only now begin to wait */
	while (ld_seq(&sched.external)) { /* ORD(external) */
		os_nap(200000);
		release_external();
	}
	for (uint32_t i = 0; i < g_made(); i++)
		fls_forget(g_at(i));
	/* the last one that made a green thread runnable is out of the lock */
	lock(&sched.lock, LR_SCHED);
	unlock(&sched.lock, LR_SCHED);
}

static void tear_down(void)
{
	if (sched.threads)
		threads_end();
	join_ms();
	sysmon_stop();
	dump_signal_fini();
	uring_fini();
	kill_all();
	names_fini();
	leftovers_fini();
	signals_fini();
	dump_fini();
	object_release_all();
	run_undo();
}

/* --- the calls --- */

/* The one who takes it from ON stops it. */
static bool begin_stop(void)
{
	uint32_t on = RUN_ON;

	if (!cas_seq(&sched.state, &on, RUN_STOPPING)) /* ORD(external) */
		return false;
	sched_stop();
	return true;
}

/* GMP_SCHED_THREAD: m, on a thread of our own, for the poller and timers; the caller runs gp. */
static int run_on_caller(struct m *m, struct g *gp)
{
	struct m *own = m_new_always();
	int err = own ? 0 : -ENOMEM;

	g_set_status(gp, G_RUNNABLE);
	if (own)
		thread_adopt(own, gp); /* before m may look for a deadlock */
	st_seq(&sched.state, RUN_ON);  /* ORD(run) */
	if (!err)
		err = m_start(m);
	if (err) {
		m_free(m);
	} else {
		signal_thread_begin(own);
		thread_run(own);
		signal_thread_end(own);
	}
	begin_stop();
	if (own)
		m_free(own);
	tear_down();
	return err;
}

static int run_main(gmp_fn fn, void *arg, const gmp_config *cfg, uintptr_t called_from)
{
	int err = fn ? claim_runtime() : -EINVAL;

	if (!err)
		err = run_set_up(cfg, false);
	if (err)
		return err;
	struct m *m = first_m_new();
	struct g *gp = m ? green_new(fn, arg, 0, 0, &err) : NULL;

	if (!gp || (err = sysmon_start())) {
		if (m)
			m_free(m);
		run_undo();
		return err ? err : -ENOMEM;
	}
	sched.main = gp;
	st_rlx(&gp->made_at, called_from);
	if (sched.threads)
		return run_on_caller(m, gp);
	san_thread(&m->san);
	signal_thread_begin(m);
	int slack = os_timer_slack(1); /* the caller's own, until the run is over */

	g_set_status(gp, G_RUNNABLE);
	m->first = gp;                /* so that fn can lock itself to the caller's thread */
	st_seq(&sched.state, RUN_ON); /* ORD(run) */
	mstart(m);
	os_timer_slack(slack);
	signal_thread_end(m);
	m_free(m);
	tear_down();
	return 0;
}

/* The hold lasts for the whole run: the green threads of the caller's M stand on stacks that a cancellation cannot
 * unwind. */
int gmp_run(gmp_fn fn, void *arg, const gmp_config *cfg)
{
	gmp__cancel_hold();
	int err = run_main(fn, arg, cfg, (uintptr_t)__builtin_return_address(0));

	gmp__cancel_release();
	return err;
}

static int run_start(const gmp_config *cfg)
{
	int err = claim_runtime();

	if (!err)
		err = run_set_up(cfg, true);
	if (err)
		return err;
	struct m *m = first_m_new();

	err = m ? sysmon_start() : -ENOMEM;
	if (err) {
		if (m)
			m_free(m);
		run_undo();
		return err;
	}
	sched.nstarting = 1; /* from RUN_ON on gmp_stop may come, and awaits the thread by this */
	st_seq(&sched.state, RUN_ON); /* ORD(run) */
	err = m_start(m);
	if (err)
		m_free(m);
	lock(&sched.lock, LR_SCHED);
	sched.nstarting--;
	unlock(&sched.lock, LR_SCHED);
	/* others may have called meanwhile: this is an end like any other */
	if (err && begin_stop())
		tear_down();
	return err;
}

int gmp_start(const gmp_config *cfg)
{
	gmp__cancel_hold();
	int err = run_start(cfg);

	gmp__cancel_release();
	return err;
}

int gmp_stop(void)
{
	if (getm() || gmp__blockedm())
		return -EPERM;
	if (ld_seq(&sched.state) != RUN_ON) /* ORD(run) */
		return -ESRCH;
	if (!sched.library)
		return -EINVAL;
	gmp__cancel_hold();
	int err = begin_stop() ? 0 : -ESRCH;

	if (!err)
		tear_down();
	gmp__cancel_release();
	return err;
}

uint64_t gmp_run_id(void)
{
	/* a green thread's own run goes on as long as it can ask */
	return getm() || gmp__blockedm() || ld_rlx(&sched.state) == RUN_ON ? ld_rlx(&sched.run) : 0;
}

int gmp_procs(void)
{
	return ld_rlx(&sched.state) == RUN_ON ? ld_rlx(&sched.procs) : 0;
}

int gmp_set_procs(int n)
{
	bool fresh = false;
	int old;

	if (n < 1 || n > PROCS_MAX)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	old = procs_resize(n, &fresh);
	if (old > 0 && fresh)
		wakep();
	rt_leave();
	return old;
}
