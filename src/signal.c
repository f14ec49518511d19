/* SPDX-License-Identifier: MIT */
/*
 * What happens when a green thread runs over the end of its stack?
 *
 * It touches the guard below, and the kernel sends SIGSEGV to its M.  The handler runs on the M's
 * alternate stack (there is no room on the other), says which green thread it was, and lets the
 * signal end the process.  Any other fault goes on to whoever had the signal before us.
 *
 * And how is the program kept from handling signals on a green thread's stack, which may be small, and
 * whose M may be in the middle of a switch?  Ms block what comes from outside, SIGPIPE with it; the
 * watcher, which has a stack of its own and the mask of the thread that began the run, is there to
 * take it, so that ^C still works when all other threads are Ms.  So a write of ours that raises
 * SIGPIPE finds it blocked, and takes it back (os_sigpipe_hold).  What io/signals.c handles for a channel
 * Ms let through (signal_admit): a signal may be sent to one thread, and that handler may run anywhere.
 *
 * Everything here but init and fini is async-signal-safe.
 */
#include "signal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"
#include "base/trace.h"
#include "allgs.h"
#include "wake.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* What the handlers use themselves: the name of a function is looked up in a file. */
enum { HANDLER_BYTES = 48 * 1024 };

static struct {
	int signo;
	struct sigaction old;
	bool chained; /* at the end of a run another handler stood before ours, which may call it */
} handled[] = { { .signo = SIGSEGV }, { .signo = SIGBUS } };

static bool installed;
enum { SIGNAL_TELL = SIGURG }; /* which is ignored by default; also DEBUG_chaos's */

static struct sigaction tell_old;

/* The mask of the thread that began the run: the watcher's, and that of a fork's child. */
static sigset_t outer;

/* What a thread brings upon itself, and what may come upon a green stack. */
static const int not_blocked[] = { SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGABRT,
				   SIGSYS,  SIGPROF, SIGXFSZ, SIGTTIN, SIGTTOU };

static void report_overflow_sig(const struct g *gp, uintptr_t pc)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, "gmp: fatal: stack overflow in ");
	line_green_sig(&l, gp->id, g_name(gp), (uintptr_t)gp->fn);
	line_str_sig(&l, ": ");
	line_dec_sig(&l, (uint64_t)1 << gp->stack_class);
	line_str_sig(&l, " bytes reserved, ran over in ");
	line_sym_sig(&l, pc);
	line_str_sig(&l, "; raise gmp_attr.stack_size or GMP_STACK_SIZE\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* As if we had never been there: the old disposition meets the signal. */
static void pass_on_sig(int signo, siginfo_t *info, void *context)
{
	struct sigaction *old = NULL;

	for (unsigned i = 0; i < countof(handled); i++)
		if (handled[i].signo == signo)
			old = &handled[i].old;
	if (old && old->sa_flags & SA_SIGINFO && old->sa_sigaction) {
		old->sa_sigaction(signo, info, context);
		return;
	}
	if (old && !(old->sa_flags & SA_SIGINFO) && old->sa_handler != SIG_DFL &&
	    old->sa_handler != SIG_IGN) {
		old->sa_handler(signo);
		return;
	}
	bool sent = info->si_code <= 0;

	if (sent && old && old->sa_handler == SIG_IGN)
		return;
	/* the default, also for a fault that is ignored: returning repeats the fault, or the signal
	 * that was sent is sent again */
	signal(signo, SIG_DFL);
	if (sent)
		raise(signo);
}

/* Sent by the watcher: what is to be told of whoever this thread runs. */
static void on_told(int signo, siginfo_t *info, void *context)
{
	int saved = errno, kind = info->si_value.sival_int;
	struct m *m = getm();
	struct line l = { .n = 0 };
	struct trace t;

	(void)signo;
	if (m && m->curg && info->si_code == SI_QUEUE && info->si_pid == getpid() &&
	    (unsigned)kind < countof(m->told) && m->told[kind] != m->curg->id) {
		m->told[kind] = m->curg->id;
		line_str_sig(&l, kind == SIGNAL_LONG ? "gmp: check: " : "gmp: ");
		line_green_sig(&l, m->curg->id, g_name(m->curg), (uintptr_t)m->curg->fn);
		line_str_sig(&l, kind == SIGNAL_LONG
					 ? " has run for 10 ms without a wait\n"
					 : " keeps its thread asleep without gmp_block_enter\n");
		line_write_sig(&l, STDERR_FILENO);
		trace_own(&t, context_pc_sig(context));
		for (int i = 0; i < t.n; i++) {
			l.n = 0;
			line_frame_sig(&l, i, t.pc[i]);
			line_write_sig(&l, STDERR_FILENO);
		}
	}
	errno = saved;
}

/* Sent by the watcher, with DEBUG_chaos: this thread stands still for a moment, whatever it does; and a
 * system call that sleeps ends (no SA_RESTART). */
static void on_chaos(int signo)
{
	int saved = errno;

	(void)signo;
	os_nap((int64_t)(cpu_ticks() >> 4) % 50000);
	errno = saved;
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
	int saved = errno;
	struct m *m = getm();
	struct g *gp;

	if (!m)
		m = gmp__blockedm();
	gp = m ? m->curg : NULL;
	if (gp && gp->stack && info->si_code > 0 && stack_guard_hit(gp->stack, info->si_addr)) {
		report_overflow_sig(gp, context_pc_sig(context));
		signal(SIGSEGV, SIG_DFL);
		if (signo != SIGSEGV)
			raise(SIGSEGV);
		return; /* the fault repeats, and ends the process */
	}
	pass_on_sig(signo, info, context);
	errno = saved;
}

static bool is_ours(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_fault;
}

static bool is_nobodys(const struct sigaction *sa)
{
	return sa->sa_handler == SIG_DFL || sa->sa_handler == SIG_IGN;
}

/* Is on_fault still reached?  A handler that was put before it in an earlier run, and is there yet, is
 * taken to call it: put before that one again, the two would call each other for ever. */
static bool still_reached(unsigned i, const struct sigaction *now)
{
	return is_ours(now) || (handled[i].chained && !is_nobodys(now));
}

static bool may_ask(void)
{
	return sched.options.debug & (DEBUG_sched | DEBUG_check);
}

void signal_ask(int tid, enum signal_kind kind)
{
	if (sched.options.debug & (kind == SIGNAL_LONG ? DEBUG_check : DEBUG_sched))
		os_thread_signal(tid, SIGNAL_TELL, kind);
}

static bool sends_signals(void)
{
	return may_ask() || sched.options.debug & DEBUG_chaos;
}

void signal_disturb(int tid)
{
	if (!may_ask())
		os_thread_signal(tid, SIGNAL_TELL, 0);
}

/* SA_RESTART: the call that sleeps goes on as if nothing had been. */
static int tell_init(void)
{
	struct sigaction sa = { .sa_sigaction = on_told,
				.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

	if (!sends_signals())
		return 0;
	if (!may_ask())
		sa = (struct sigaction){ .sa_handler = on_chaos, .sa_flags = SA_ONSTACK };
	sigemptyset(&sa.sa_mask);
	return sigaction(SIGNAL_TELL, &sa, &tell_old) < 0 ? -errno : 0;
}

int signal_init(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK },
			 now;

	sigemptyset(&sa.sa_mask);
	pthread_sigmask(SIG_BLOCK, NULL, &outer);
	installed = true;
	for (unsigned i = 0; i < countof(handled); i++) {
		if (sigaction(handled[i].signo, NULL, &now) < 0)
			return -errno;
		if (still_reached(i, &now))
			continue;
		handled[i].chained = false;
		if (sigaction(handled[i].signo, &sa, &handled[i].old) < 0)
			return -errno;
	}
	return tell_init();
}

void signal_fini(void)
{
	struct sigaction now;

	if (!installed)
		return;
	installed = false;
	if (sends_signals())
		sigaction(SIGNAL_TELL, &tell_old, NULL);
	for (unsigned i = 0; i < countof(handled); i++) {
		if (sigaction(handled[i].signo, NULL, &now) < 0)
			continue;
		handled[i].chained = !is_ours(&now);
		if (is_ours(&now))
			sigaction(handled[i].signo, &handled[i].old, NULL);
	}
}

static size_t altstack_bytes(void)
{
	return round_up(getauxval(AT_MINSIGSTKSZ) + HANDLER_BYTES, PAGE);
}

static void block_others(void)
{
	sigset_t set;

	sigfillset(&set);
	for (unsigned i = 0; i < countof(not_blocked); i++)
		sigdelset(&set, not_blocked[i]);
	if (sends_signals())
		sigdelset(&set, SIGNAL_TELL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void signal_admit(uint64_t signals)
{
	/* a write of ours counts on it */
	signals &= ~((uint64_t)1 << (SIGPIPE - 1));
	for (unsigned i = 0; i < countof(not_blocked); i++)
		signals &= ~((uint64_t)1 << (not_blocked[i] - 1));
	if (sends_signals())
		signals &= ~((uint64_t)1 << (SIGNAL_TELL - 1));
	sched_admit(signals);
}

void signal_thread_restore(void)
{
	pthread_sigmask(SIG_SETMASK, &outer, NULL);
}

static bool give_altstack(struct m *m)
{
	stack_t ss = { .ss_size = altstack_bytes() }, old;

	/* one that the program gave its own thread stays */
	if (sigaltstack(NULL, &old) == 0 && !(old.ss_flags & SS_DISABLE))
		return true;
	ss.ss_sp = os_reserve(ss.ss_size);
	if (!ss.ss_sp)
		return false;
	if (sigaltstack(&ss, NULL) < 0) {
		os_release(ss.ss_sp, ss.ss_size);
		return false;
	}
	m->altstack = ss.ss_sp;
	return true;
}

bool signal_thread_begin(struct m *m)
{
	block_others();
	return give_altstack(m);
}

void signal_thread_end(struct m *m)
{
	stack_t off = { .ss_flags = SS_DISABLE };

	if (!m->ours)
		signal_thread_restore();
	if (!m->altstack)
		return;
	sigaltstack(&off, NULL);
	if (!san_keeps_altstack())
		os_release(m->altstack, altstack_bytes());
	m->altstack = NULL;
}
