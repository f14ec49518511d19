/* SPDX-License-Identifier: MIT */
/*
 * Start and stop of the runtime: gmp_run, gmp_start and gmp_stop.  Here is the order of both.
 *
 * Start: options, memory (proc.c), poller, signals, sysmon, the first green thread, Ms.
 *
 * Stop (the first green thread has ended, or gmp_stop):
 *   1  sched_stop: state = RUN_STOPPING.  Every P gets ATTENTION_STOP and every sleeping M is
 *      woken, so each M leaves at its next scheduling round.
 *   2  tear_down joins the Ms, and abandons Ms whose G makes no call (variant/abandon.h); after
 *      that no green thread uses the runtime.  Then it stops sysmon, and waits for operations on
 *      files that the kernel has not completed (io/uring.h).
 *   3  shutdown_kill_all (run/shutdown.c): kills the green threads that still exist, and releases
 *      the external threads that wait for them.
 *   4  The services and the core free their memory.
 *
 * Invariants
 *  One runtime at a time: state goes NONE -> STARTING -> ON -> STOPPING -> NONE.
 *  After the end, no OS thread, fd, mapping or signal handler of the runtime is left, except the
 *  threads and stacks of abandoned Gs, and thread-local blocks (variant/owntls.h).
 *  The child of a fork has no runtime (run/fork.c).
 *  RUN-1  No M has a shadow stack: its first switch would end the process by SIGSEGV.  An OS thread
 *         inherits it from its creator, so it suffices that gmp_run and gmp_start refuse to start,
 *         except if an external thread enables its own.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/object.h"
#include "base/os.h"
#include "base/srcline.h"
#include "base/throw.h"
#include "enter.h"
#include "g.h"
#include "idle.h"
#include "io/cleanup.h"
#include "io/uring.h"
#include "monitor/faultsig.h"
#include "monitor/sysmon.h"
#include "netpoll/netpoll.h"
#include "observe/check/check.h"
#include "observe/dump/cycle.h"
#include "observe/dump/deadlock_report.h"
#include "observe/dump/dump.h"
#include "observe/dump/dump_signal.h"
#include "observe/serve/server.h"
#include "observe/trace/schedtrace.h"
#include "observe/trace/tracing.h"
#include "observe/tracing.h"
#include "park.h"
#include "policy/pin.h"
#include "policy/take.h"
#include "proc.h"
#include "ready.h"
#include "run/fork.h"
#include "run/shutdown.h"
#include "sched.h"
#include "spawn.h"
#include "sys/notify.h"
#include "sys/resolve.h"
#include "variant/abandon.h"
#include "variant/leave.h"
#include "variant/owntls.h"
#include "variant/thread.h"
#include "variant/variant.h"
#include "variant/vtime.h"
#include "wait/fls.h"
#include "wait/join.h"
#include "wait/parkinglot.h"

/* --- Ms --- */

static void *m_main(void *arg)
{
	struct m *m = arg;

	gmp__cancel_hold();    /* never released: a green thread may hand out pthread_self() */
	if (os_shadow_stack()) /* RUN-1 */
		gmp__fatal("a thread that gmp started has a shadow stack\n"
			   "an external thread enabled its own, and the new thread inherited it: "
			   "enable it on no thread that calls gmp");
	os_timer_slack(1);
	san_thread(&m->san);
	signal_thread_begin(m);
	if (!variant_run(m))
		mstart(m);
	signal_thread_end(m);
	if (unlikely(ld_rlx(&m->abandon.state) == LEAVE_LEFT ||
		     ld_rlx(&m->abandon.state) == LEAVE_DETACHED))
		abandon_ended(m);
	else
		m_dead(m);
	return NULL;
}

/* --- start --- */

static int claim_runtime(void)
{
	uint32_t none = RUN_NONE;
	int err = fork_register(); /* first: a child of fork must find RUN_NONE */

	end_if_abandoned();
	if (err)
		return err;
	if (getm() || gmp__blockedm() || !cas_seq(&sched.state, &none, RUN_STARTING)) /* ORD(run) */
		return -EBUSY;
	return 0;
}

/* Threads of abandoned Gs may have blocks, for which TLSBLOCK-4 holds. */
static void end_own_tls_signals(void)
{
	if (!abandoned_threads())
		tlsblock_signals_end();
}

/* Undoes run_set_up.  No other thread uses the runtime. */
static void run_undo(void)
{
	tracing_end();
	dump_signal_fini();
	signal_fini();
	netpoll_fini();
	check_end();
	srcline_end();
	owntls_fini();
	proc_fini();
	vtime_end();
	st_rlx(&sched.chaos, 0u);
	end_own_tls_signals();
	st_seq(&sched.state, RUN_NONE); /* ORD(run) */
}

/* The scheduler runs on the stack of the caller of gmp_run: up to 9 KiB, 15 KiB with
 * GMP_DEBUG=check (tests/hostile/small_stack.sh). */
enum { CALLER_STACK = 24 * 1024, LOOKUPS_MOST = 5000 /* RESOLVE-2 */ };

/* Writes a line to stderr without stdio, which takes 8 KiB of a stack that may have 16. */
static void write_error(const char *why)
{
	struct iovec line[] = { { "gmp: ", 5 }, { (char *)why, strlen(why) }, { "\n", 1 } };
	ssize_t n = writev(STDERR_FILENO, line, 3);

	(void)n;
}

/* PREEMPT-5 of preempt.h. */
static bool preempts(void)
{
	return sched.asymmetric && variant_gs_switch() && !ld_rlx(&sched.virtual_now) &&
	       !(sched.options.c.flags & GMP_COOPERATIVE);
}

/* GMP_OWN_TLS for all green threads. */
static int own_tls_begin(const char **why)
{
	static char text[256];
	const char *reason = NULL;
	int err = leave_own_tls(&reason);

	if (err == -ENOTSUP) {
		snprintf(text, sizeof(text), "gmp_run: GMP_OWN_TLS is not supported here: %s",
			 reason);
		*why = text;
	}
	return err;
}

/* Returns 0, or a negative errno with *why set: the system, the calling thread or a combination of
 * options does not support a run. */
static int check_support(const struct options *options, bool library, const char **why)
{
	*why = variant_refuses(options);
	if (*why)
		return -ENOTSUP;
	if (sysconf(_SC_PAGESIZE) > PAGE) {
		*why = "the pages of this kernel are larger than 4 KiB: use a kernel with 4 KiB "
		       "pages (arm64: CONFIG_ARM64_4K_PAGES)";
		return -ENOTSUP;
	}
	if (os_shadow_stack()) { /* RUN-1 */
		*why = "gmp_run: the calling thread has a shadow stack, and green threads have "
		       "none: run the program with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off "
		       "(aarch64: glibc.cpu.aarch64_gcs=0)";
		return -ENOTSUP;
	}
	if (!library && os_stack_left() < CALLER_STACK) {
		*why = "gmp_run: the calling thread has less than 24 KiB of stack left: "
		       "pthread_attr_setstacksize";
		return -ENOMEM;
	}
	return 0;
}

/* Fills *options.  Nothing has to be undone if it fails. */
static int run_validate(const gmp_config *cfg, bool library, struct options *options)
{
	const char *why = NULL;
	int err = options_load(cfg, options, &why);

	if (!err)
		err = check_support(options, library, &why);
	if (err && why)
		write_error(why);
	if (err)
		return err;
	if (options->debug & DEBUG_help)
		options_help(STDERR_FILENO);
	return 0;
}

/* Gives `sched`, and what modules keep of the last run, the values of a new run. */
static void run_reset(const struct options *options, bool library)
{
	uint32_t run = sched.run;

	sched_reset();
	st_rlx(&sched.run, run + 1);
	sched.options = *options;
	sched.library = sched.never_deadlocked = library;
	variant_begin();
	if (options->debug & DEBUG_virtual)
		vtime_begin();
	st_rlx(&sched.chaos, (uint32_t)(options->debug & DEBUG_chaos));
	sched.fpwords = gmp__fpwords();
	sched.cpus = os_cpus_online();
	sched.slack = os_timer_slack_now();
	sched.nmlimit = options->c.max_threads;
	sched.asymmetric = os_membarrier_init();
	if (sched.asymmetric)
		lot_reset();
	sched.preempts = preempts();
	sched.slice = options->c.preempt_ns;
	sched.start_now = sched.coarse_now = os_now();
	sched.start_ticks = cpu_ticks();
	schedtrace_begin();
	cycles_reset();
}

/* Sets what lower floors call on higher ones. */
static void run_wire(void)
{
	sched.up.joinable_exit = green_exited;
	sched.up.give_p_up = sched_give_p_up;
	sched.up.thread_killed = leftovers_killed;
	sched.up.locals_end = fls_end;
	sched.up.timer_run_end = timer_run_ended;
	sched.up.stalled = report_stall;
	sched.up.on_delegated = dump_signal_delegated;
	sched.up.long_waits = cycles_watch;
	if (sched.options.debug & DEBUG_schedtrace)
		sched.up.schedtrace = schedtrace_report;
	ms_begin(m_main);
	gmp__fatal_describe(report_self);
}

/* Begins the modules.  If it fails, the caller calls run_undo. */
static int run_begin_modules(void)
{
	const char *why = NULL;
	int err;

	resolve_init(max_of(min_of(sched.options.c.max_threads / 2, LOOKUPS_MOST), 1));
	srcline_begin();
	err = proc_init();
	if (!err)
		err = check_begin();
	leave_init();
	if (!err)
		err = tracing_begin(&why);
	if (!err && variant_owns_tls())
		err = own_tls_begin(&why);
	if (err && why)
		write_error(why);
	if (!err)
		err = netpoll_init();
	if (!err)
		err = signal_init();
	if (!err && sched.options.debug & DEBUG_quit)
		err = dump_signal_set(SIGQUIT);
	return err;
}

static int run_set_up(const gmp_config *cfg, bool library)
{
	struct options options;
	int err = run_validate(cfg, library, &options);

	if (err) {
		st_seq(&sched.state, RUN_NONE); /* ORD(run) */
		return err;
	}
	run_reset(&options, library);
	run_wire();
	err = run_begin_modules();
	if (err)
		run_undo();
	return err;
}

static int run_begin(const gmp_config *cfg, bool library)
{
	int err = claim_runtime();

	return err ? err : run_set_up(cfg, library);
}

/* Makes an M without regard to max_threads.  Returns NULL without memory. */
static struct m *m_new_always(void)
{
	lock(&sched.lock, LR_SCHED);
	st_rlx(&sched.nm, sched.nm + 1);
	unlock(&sched.lock, LR_SCHED);
	return m_new();
}

/* Makes the M of the calling thread (gmp_run), or of the first OS thread of the runtime
 * (gmp_start). */
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

/* A start has failed: frees m, the first M or NULL, and undoes run_begin.  Returns err. */
static int start_failed(struct m *m, int err)
{
	if (m)
		m_free(m);
	run_undo();
	return err;
}

/* --- stop --- */

/* GRACE_NS: how long a run that ends waits for Gs that make no call; many computations end in a
 * second.  ASK_NS: until the Ms that are left are asked again; a G that calls gmp in a loop is
 * seldom seen outside of it.  ASK_DUTY: the questions take at most that part of the time; for each
 * M they read two or three files of /proc. */
enum { GRACE_NS = S, ASK_NS = 100 * US, ASK_DUTY = 4 };

/* Steps 1 to 4 of variant/abandon.h.  The Ms that are left in sched.allm have ended, or are in code
 * that cannot be abandoned. */
static void abandon_rest(void)
{
	int64_t until = os_now() + GRACE_NS;
	bool asking = false;

	while (m_wait_end(until)) {
		while (abandon_one())
			;
		if (os_now() < until)
			continue;
		if (!asking && !(asking = signal_ask_begin()))
			break;
		int64_t began = os_thread_cpu_time(os_thread_id());

		abandon_ask();
		int64_t took = os_thread_cpu_time(os_thread_id()) - began;

		until = os_now() + max_of((int64_t)ASK_NS, ASK_DUTY * took);
	}
	if (asking)
		signal_ask_end();
}

static void join_ms(void)
{
	bool starting;

	do { /* sched_stop prevents that more are started */
		lock(&sched.lock, LR_SCHED);
		starting = sched.nstarting > 0;
		unlock(&sched.lock, LR_SCHED);
		if (starting)
			os_yield();
	} while (starting);
	if (sched.preempts)
		abandon_rest();
	while (m_join_one(false))
		;
}

static void tear_down(void)
{
	variant_end();
	join_ms();
	sysmon_stop();
	dump_signal_fini();
	uring_fini();
	shutdown_kill_all();
	resolve_fini();
	leftovers_fini();
	notify_fini();
	debug_servers_fini();
	dump_fini();
	object_release_all();
	run_undo();
	abandon_release();
}

/* --- the calls --- */

/* Step 1.  Returns true for one caller, which must call tear_down. */
static bool begin_stop(void)
{
	uint32_t on = RUN_ON;

	if (!cas_seq(&sched.state, &on, RUN_STOPPING)) /* ORD(external) */
		return false;
	sched_stop();
	return true;
}

/* Gs run as OS threads: starts m on an OS thread of its own, for the poller and timers, and runs gp
 * on the calling thread. */
static int run_on_caller(struct m *m, struct g *gp)
{
	struct m *own = m_new_always();
	int err = own ? 0 : -ENOMEM;

	g_set_status(gp, G_RUNNABLE);
	if (own)
		variant_adopt(own, gp); /* before m can check for a deadlock */
	st_seq(&sched.state, RUN_ON);   /* ORD(run) */
	if (!err)
		err = m_start(m);
	if (err) {
		m_free(m);
	} else {
		signal_thread_begin(own);
		variant_run(own);
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
	int err = fn ? run_begin(cfg, false) : -EINVAL;

	if (err)
		return err;
	struct m *m = first_m_new();
	struct g *gp = m ? green_new(fn, arg, 0, 0, &err) : NULL;

	if (!gp || (err = sysmon_start()))
		return start_failed(m, err ? err : -ENOMEM);
	sched.main = gp;
	st_rlx(&gp->made_at, called_from);
	trace_ready(gp, QUEUE_RUNNEXT, GMP_LATENCY_SPAWN);
	if (!variant_gs_switch())
		return run_on_caller(m, gp);
	san_thread(&m->san);
	signal_thread_begin(m);
	int slack = os_timer_slack(1); /* the value of the caller, restored after the run */

	g_set_status(gp, G_RUNNABLE);
	m->first = gp; /* runs on this thread, so fn can lock itself to it */
	if (sched.preempts)
		pin_dedicate(m);
	st_seq(&sched.state, RUN_ON); /* ORD(run) */
	mstart(m);
	gmp__cancel_renew();
	os_timer_slack(slack);
	if (sched.preempts)
		os_thread_slice(0, 0);
	signal_thread_end(m);
	m_free(m);
	tear_down();
	return 0;
}

/* pthread_cancel is held off for the whole run: it cannot unwind the stacks of the green threads
 * that run on the caller's M. */
int gmp_run(gmp_fn fn, void *arg, const gmp_config *cfg)
{
	gmp__cancel_hold();
	int err = run_main(fn, arg, cfg, (uintptr_t)__builtin_return_address(0));

	gmp__cancel_release();
	return err;
}

/* --- FORK-3 of run/fork.c --- */

/* Bytes, with a page as guard; as M_STACK of m.c. */
enum { ADOPT_STACK = 256 * 1024 };

/* On the new stack: m is the M of the calling OS thread, whose block is not loaded yet. */
static int adopt_g0(void *arg)
{
	struct m *m = arg;

	arch_set_tp(m->tp);
	tlsblock_first();
	gmp__cancel_hold();
	signal_thread_begin(m);
	os_timer_slack(1);
	st_seq(&sched.state, RUN_ON); /* ORD(run) */
	mstart(m);
	_exit(0);
}

/* The first G of m: the caller. */
static struct g *adopted_g(struct m *m, const struct adoption *a)
{
	int err;
	struct g *gp = m ? green_new(a->fn, a->arg, a->on->stack_class, 0, &err) : NULL;

	if (!gp)
		return NULL;
	trace_ready(gp, QUEUE_RUNNEXT, GMP_LATENCY_SPAWN);
	st_rlx(&gp->stack, a->on->stack);
	gp->masked = a->masked;
	st_rlx(&gp->cancelled, a->cancelled);
	owntls_attach(gp, (struct tlsblock *)arch_tp());
	g_set_status(gp, G_RUNNABLE);
	return gp;
}

int run_adopt(const struct adoption *a, const gmp_config *cfg)
{
	int err = run_begin(cfg, true);

	if (err)
		return err;
	struct m *m = first_m_new();
	struct g *gp = adopted_g(m, a);
	struct tlsblock *host = gp ? tlsblock_second(owntls_block(gp)) : NULL;
	char *g0 = host ? os_reserve(ADOPT_STACK) : NULL;

	if (!g0 || os_guard_protect(g0, PAGE) || sysmon_start()) {
		os_release(g0, ADOPT_STACK);
		return start_failed(m, -ENOMEM);
	}
	fls_return(gp);
	sched.library = false; /* gmp_stop does not end this run */
	sched.main = m->first = gp;
	tlsblock_own(host, g0, ADOPT_STACK);
	m->tp = host;
	os_mask(UINT64_MAX, 0); /* until signal_thread_begin: no handler runs on half a thread */
	gmp__mcall(&gp->ctx, adopt_g0, m, g0 + ADOPT_STACK);
	return 0;
}

/* --- gmp_start --- */

static int run_start(const gmp_config *cfg)
{
	int err = run_begin(cfg, true);

	if (err)
		return err;
	struct m *m = first_m_new();

	err = m ? sysmon_start() : -ENOMEM;
	if (err)
		return start_failed(m, err);
	sched.nstarting = 1; /* from RUN_ON on, gmp_stop may run: it waits for the thread by this */
	st_seq(&sched.state, RUN_ON); /* ORD(run) */
	err = m_start(m);
	if (err)
		m_free(m);
	lock(&sched.lock, LR_SCHED);
	sched.nstarting--;
	unlock(&sched.lock, LR_SCHED);
	/* other threads may use the runtime already: a full stop is necessary */
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
	end_if_abandoned();
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
	/* as long as a green thread runs, its run has not ended */
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
