/* SPDX-License-Identifier: MIT */
/*
 * Fault and signal handling of Ms: names the green thread that runs over the end of its stack.
 *
 * A fault raises SIGSEGV or SIGBUS on the M that runs the green thread.  The handler runs on the
 * M's alternate stack, since the green thread's has no room, and decides by the fault address and
 * the stack pointer (what_fault_sig):
 *
 *   address in the guard               overflow: two lines and the calls, then the signal ends the
 *                                      process, also if the program had a handler of its own
 *   stack pointer below the stack,     overflow by a frame larger than the guard: the same; the
 *   and the address in that frame      program's handler, if it has one, is called
 *   any other                          the program's handler; without one, a line that names the
 *                                      green thread, and the stack pointer if that has left the
 *                                      stack
 *
 * An address in the guard of that alternate stack is an overflow by a handler of the program: a
 * line, then the signal ends the process.
 *
 * Faults on g0 and of external threads go to the program's disposition without a line.
 *
 * Each handler of the runtime has SA_RESTART, unless the program's handler that it calls has not: a
 * system call that sleeps continues if the kernel can restart it, as in a program without handlers.
 *
 * The program's own signals: an M has the mask of the thread that began the run.  So a child of
 * system, popen, posix_spawn or exec starts with the program's mask, from any green thread.
 *
 * Invariants
 *  SIGNAL-1  A handler of the program runs on any thread.  A handler that exists when a run begins
 *            is lent SA_ONSTACK until the run ends, so it runs on the M's alternate stack, and the
 *            size of green stacks does not matter to it.  A handler that the program installs
 *            during a run without SA_ONSTACK runs on the stack of the green thread that it
 *            interrupts, above a guard (stack.h).
 *  SIGNAL-2  A write to a broken pipe by a green thread returns EPIPE: while SIGPIPE has its
 *            default action, on_sigpipe replaces it.  It returns if an M raised the signal by a
 *            write, and otherwise takes the default action.  An exec resets it to the default.
 *  SIGNAL-3  gmp's own writes raise no SIGPIPE that the program could notice: Ms rely on SIGNAL-2,
 *            or on SIG_IGN; if the program has a handler, asks for the signal by a channel, or
 *            blocks it, the write blocks it and takes it back (os_sigpipe_hold), as on other
 *            threads.
 *
 * Rejected: Ms block the program's signals, and sysmon takes them.  No handler then runs on a
 * green stack, but a program that replaces itself by exec keeps SIGTERM blocked for good, and so
 * do the children of system and popen.  gmp could restore the mask in a fork handler and around
 * blocking code (460 ns), but not around exec.
 *
 * Everything here except init and fini is async-signal-safe.
 */
#include "monitor/faultsig.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/finding.h"
#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"
#include "base/trace.h"
#include "g.h"
#include "idle.h"
#include "observe/cpusample.h"
#include "observe/longrun.h"
#include "variant/abandon.h"
#include "variant/variant.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* REPORT_BYTES: what the handlers need themselves: a symbol lookup reads a file.  HANDLER_BYTES:
 * with room for handlers of the program, which is address space alone until they use it.  The guard
 * is below it. */
enum { REPORT_BYTES = 48 * 1024, HANDLER_BYTES = 256 * 1024, ALTSTACK_GUARD = STACK_GUARD };

/* Report of an overflow: number of shown calls outside the program, and of calls of the program
 * above them. */
enum { SYSTEM_CALLS = 8, PROGRAM_CALLS = 4 };

static struct {
	int signo;
	struct sigaction old;
	bool chained; /* another handler was installed at the end of a run; it may call on_fault */
} handled[] = { { .signo = SIGSEGV }, { .signo = SIGBUS } };

static bool installed;

/* The mask of the thread that began the run; also that of sysmon and of child processes. */
static sigset_t program_mask;

enum { SIGNALS = 64 };

/* SIGNAL-1: the handlers that were lent SA_ONSTACK. */
static void (*lent[SIGNALS + 1])(int);

static bool sigpipe_replaced;

/* --- faults --- */

enum fault { FAULT_GUARD, FAULT_BEYOND, FAULT_OTHER };

/* FAULT_BELOW: the red zone, and the distance that a probe of -fstack-clash-protection is below
 * the stack pointer.  FAULT_FARTHEST: a stack pointer farther below belongs to a stack that the
 * program made. */
enum { FAULT_BELOW = PAGE, FAULT_FARTHEST = 1 << STACK_CLASS_MAX };

static enum fault what_fault_sig(const struct g *gp, uintptr_t addr, uintptr_t sp)
{
	uintptr_t lo = (uintptr_t)gp->stack;

	if (stack_guard_overlaps(gp->stack, (void *)addr, 1))
		return FAULT_GUARD;
	if (sp < lo && lo - sp <= FAULT_FARTHEST && addr < lo && addr >= sp - FAULT_BELOW)
		return FAULT_BEYOND;
	return FAULT_OTHER;
}

static int first_of_program_sig(const struct trace *t)
{
	int i = 0;

	while (i < t->n && !code_is_programs(t->pc[i]))
		i++;
	return i;
}

static void say_calls_of_sig(const struct trace *t, int from, int to, int number)
{
	struct line l = { .n = 0 };

	for (int i = from; i < min_of(to, t->n); i++) {
		line_frame_sig(&l, number + i, t->pc[i]);
		line_write_sig(&l, STDERR_FILENO);
	}
}

/* Writes the innermost calls, and the first calls of the program: the overflow may be in libc.
 * Each frame is unwound by its table, as for a dump; if a wrong table makes that fault, the
 * process ends as it would anyway. */
static noinline void say_calls_sig(uintptr_t pc)
{
	int skip = 0, own;
	struct trace t;

	trace_own(&t, pc);
	own = first_of_program_sig(&t);
	say_calls_of_sig(&t, 0, min_of(own, (int)SYSTEM_CALLS), 0);
	while (own == t.n && t.more) {
		skip += TRACE_MOST;
		trace_own_from(&t, pc, skip);
		own = first_of_program_sig(&t);
	}
	if (skip + own > SYSTEM_CALLS)
		text_write_sig(STDERR_FILENO, "    ...\n", 8);
	say_calls_of_sig(&t, own, own + PROGRAM_CALLS, skip);
}

static void say_overflow_sig(const struct g *gp, uintptr_t addr, uintptr_t pc, enum fault kind)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, "gmp: fatal: stack overflow in ");
	line_green_sig(&l, gp->id, g_name(gp), (uintptr_t)gp->fn);
	line_str_sig(&l, ": ");
	line_dec_sig(&l, (uint64_t)1 << gp->stack_class);
	line_str_sig(&l, " bytes reserved, ");
	line_dec_sig(&l, (uintptr_t)gp->stack - addr);
	line_str_sig(&l, " bytes past the end, in ");
	line_sym_sig(&l, pc);
	line_str_sig(&l, kind == FAULT_BEYOND ? "; a frame larger than the guard?\n" : "\n");
	line_write_sig(&l, STDERR_FILENO);
	line_str_sig(
		&l, "     raise gmp_attr.stack_size or GMP_STACK_SIZE, or move large arrays to the "
		    "heap\n");
	line_write_sig(&l, STDERR_FILENO);
	say_calls_sig(pc);
}

/* Reports a fault whose address does not identify an overflow. */
static void say_fault_sig(const struct g *gp, int signo, const siginfo_t *info, const void *context)
{
	uintptr_t sp = context_sp_sig(context), lo = (uintptr_t)gp->stack;
	struct line l = { .n = 0 };

	line_str_sig(&l, signo == SIGSEGV ? "gmp: fatal: SIGSEGV in " : "gmp: fatal: SIGBUS in ");
	line_green_sig(&l, gp->id, g_name(gp), (uintptr_t)gp->fn);
	if (info->si_code != SI_KERNEL) { /* SI_KERNEL has no address */
		line_str_sig(&l, ": address ");
		line_hex_sig(&l, (uintptr_t)info->si_addr);
	}
	line_str_sig(&l, ", in ");
	line_sym_sig(&l, context_pc_sig(context));
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
	if (sp >= lo && sp <= lo + ((size_t)1 << gp->stack_class))
		return;
	line_str_sig(&l, "     the stack pointer is ");
	if (sp < lo && lo - sp <= FAULT_FARTHEST) {
		line_dec_sig(&l, lo - sp);
		line_str_sig(&l, " bytes below the stack of ");
		line_dec_sig(&l, (uint64_t)1 << gp->stack_class);
		line_str_sig(&l, " bytes; a frame larger than the guard?\n");
	} else {
		line_str_sig(&l, "outside its stack, at ");
		line_hex_sig(&l, sp);
		line_str_sig(&l, "\n");
	}
	line_write_sig(&l, STDERR_FILENO);
}

static size_t altstack_bytes(size_t use)
{
	return round_up(getauxval(AT_MINSIGSTKSZ) + use, PAGE);
}

/* The alternate stack of m has overflowed.  The stack pointer is below it, so the kernel has put
 * the frame of the handler that runs now at its start. */
static bool is_altstack_guard_sig(const struct m *m, const siginfo_t *info)
{
	uintptr_t end = (uintptr_t)m->altstack;

	return end && info->si_code > 0 && info->si_code != SI_KERNEL &&
	       end - (uintptr_t)info->si_addr <= ALTSTACK_GUARD;
}

static void say_handler_overflow_sig(const struct m *m, const siginfo_t *info, const void *context)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, "gmp: fatal: stack overflow in a signal handler: ");
	line_dec_sig(&l, altstack_bytes(HANDLER_BYTES));
	line_str_sig(&l, " bytes reserved, ");
	line_dec_sig(&l, (uintptr_t)m->altstack - (uintptr_t)info->si_addr);
	line_str_sig(&l, " bytes past the end, in ");
	line_sym_sig(&l, context_pc_sig(context));
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* The return repeats the fault, which ends the process. */
static void die_of_overflow_sig(int signo)
{
	signal(SIGSEGV, SIG_DFL);
	if (signo != SIGSEGV)
		raise(SIGSEGV);
}

static bool no_handler(const struct sigaction *sa)
{
	return sa->sa_handler == SIG_DFL || sa->sa_handler == SIG_IGN;
}

static struct sigaction *old_action(int signo)
{
	for (unsigned i = 0; i < countof(handled); i++)
		if (handled[i].signo == signo)
			return &handled[i].old;
	return NULL;
}

/* Applies the disposition that the signal had before signal_init. */
static void call_old_handler_sig(int signo, siginfo_t *info, void *context)
{
	struct sigaction *old = old_action(signo);

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
	/* the default action, also for a fault that is ignored: the return repeats the fault; a
	 * signal that was sent is raised again */
	signal(signo, SIG_DFL);
	if (sent)
		raise(signo);
}

/* Sent by sysmon, or by a dump: asks which green thread this M runs (observe/longrun.c); or by the
 * end of the run (variant/abandon.h). */
static void on_asked(int signo, siginfo_t *info, void *context)
{
	int saved = errno;
	struct m *m = getm();

	(void)signo;
	if (!m)
		m = gmp__blockedm();
	if (m && info->si_code == os_thread_signal_code && info->si_pid == getpid())
		longrun_answer_sig(m, context_pc_sig(context), context_sp_sig(context));
	if (m) /* the kernel drops a signal beside a pending one, which may be another sender's */
		abandon_sig(m, context);
	errno = saved;
}

/* Sent by sysmon, with DEBUG_chaos: delays this thread, at any instruction. */
static void on_chaos(int signo)
{
	int saved = errno;

	(void)signo;
	os_nap((int64_t)(cpu_ticks() >> 4) % (50 * US));
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
	if (m && is_altstack_guard_sig(m, info)) {
		say_handler_overflow_sig(m, info, context);
		die_of_overflow_sig(signo);
		return;
	}
	if (gp && gp->stack && info->si_code > 0) {
		uintptr_t addr = info->si_code == SI_KERNEL ? 0 : (uintptr_t)info->si_addr;
		enum fault kind = what_fault_sig(gp, addr, context_sp_sig(context));

		if (kind != FAULT_OTHER)
			say_overflow_sig(gp, addr, context_pc_sig(context), kind);
		else if (no_handler(old_action(signo)))
			say_fault_sig(gp, signo, info, context);
		if (kind == FAULT_GUARD) {
			die_of_overflow_sig(signo);
			return;
		}
	}
	call_old_handler_sig(signo, info, context);
	errno = saved;
}

static bool is_on_fault(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_fault;
}

/* True if on_fault is still reached.  A handler that was installed over it in an earlier run, and
 * is still there, is assumed to call on_fault: if on_fault were installed over it again, the two
 * would call each other indefinitely. */
static bool still_reached(unsigned i, const struct sigaction *now)
{
	return is_on_fault(now) || (handled[i].chained && !no_handler(now));
}

static bool may_ask(void)
{
	return sched.options.debug & (DEBUG_sched | DEBUG_check);
}

static bool sends_signals(void)
{
	return may_ask() || sched.options.debug & DEBUG_chaos;
}

void signal_disturb(int tid)
{
	if (!may_ask())
		os_thread_signal(tid, LONGRUN_SIGNAL);
}

static const struct sigaction asking = { .sa_sigaction = on_asked,
					 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

static struct {
	struct lock lock;      /* of users and old */
	int users;             /* callers of signal_ask_begin; and 1 with DEBUG_check or sched */
	struct sigaction old;  /* what the last user restores */
	struct sigaction base; /* with sends_signals: what signal_fini restores */
} ask;

static bool is_on_asked(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_asked;
}

/* Returns whether the runtime may replace the handler of LONGRUN_SIGNAL.  In a build with
 * ThreadSanitizer, sigaction does not know the handlers of os_sigaction (sys/notify.c). */
static bool may_replace(const struct sigaction *now)
{
	struct sigaction kernels;

	if (is_on_asked(now) || now->sa_handler == on_chaos)
		return true;
	return no_handler(now) && os_sigaction(LONGRUN_SIGNAL, NULL, &kernels) == 0 &&
	       no_handler(&kernels);
}

static bool ask_install_locked(void)
{
	struct sigaction old;

	if (sigaction(LONGRUN_SIGNAL, NULL, &old) < 0 || !may_replace(&old) ||
	    sigaction(LONGRUN_SIGNAL, &asking, &old) < 0)
		return false;
	if (is_on_asked(&old)) /* left by a program that has saved and restored it */
		return true;
	if (!no_handler(&old) && old.sa_handler != on_chaos) { /* the program's, set just now */
		sigaction(LONGRUN_SIGNAL, &old, NULL);
		return false;
	}
	ask.old = old;
	return true;
}

bool signal_ask_begin(void)
{
	struct sigaction now;
	bool ready;

	if (!sends_signals() && sigismember(&program_mask, LONGRUN_SIGNAL))
		return false;
	lock(&ask.lock, LR_ASK);
	if (ask.users > 0)
		ready = sigaction(LONGRUN_SIGNAL, NULL, &now) == 0 && is_on_asked(&now);
	else
		ready = ask_install_locked();
	if (ready)
		ask.users++;
	unlock(&ask.lock, LR_ASK);
	return ready;
}

void signal_ask_end(void)
{
	struct sigaction now;

	lock(&ask.lock, LR_ASK);
	if (--ask.users == 0 && sigaction(LONGRUN_SIGNAL, NULL, &now) == 0 && is_on_asked(&now))
		sigaction(LONGRUN_SIGNAL, &ask.old, NULL);
	unlock(&ask.lock, LR_ASK);
}

static int ask_init(void)
{
	struct sigaction chaos = { .sa_handler = on_chaos, .sa_flags = SA_ONSTACK | SA_RESTART };

	if (!sends_signals())
		return 0;
	sigemptyset(&chaos.sa_mask);
	if (sigaction(LONGRUN_SIGNAL, may_ask() ? &asking : &chaos, &ask.base) < 0)
		return -errno;
	ask.users = may_ask() ? 1 : 0;
	return 0;
}

/* No thread asks any more; in the child of a fork a thread of the parent may.  Another handler is
 * installed if a second copy of gmp, in a plugin, has started since. */
static void ask_fini(void)
{
	const struct sigaction *old = sends_signals() ? &ask.base : &ask.old;
	struct sigaction now;

	if (sigaction(LONGRUN_SIGNAL, NULL, &now) == 0 &&
	    (is_on_asked(&now) || now.sa_handler == on_chaos))
		sigaction(LONGRUN_SIGNAL, old, NULL);
	memset(&ask, 0, sizeof(ask));
}

/* --- the program's handlers: SIGNAL-1 --- */

/* A handler that another thread sets between the two calls is lost: the kernel has no
 * compare-and-swap. */
static void lend_altstacks(void)
{
	struct sigaction sa;

	for (int i = 1; i <= SIGNALS; i++) {
		lent[i] = NULL;
		if (i == SIGSEGV || i == SIGBUS || os_sigaction(i, NULL, &sa) < 0 ||
		    no_handler(&sa) || sa.sa_flags & SA_ONSTACK)
			continue;
		sa.sa_flags |= SA_ONSTACK;
		if (os_sigaction(i, &sa, NULL) == 0)
			lent[i] = sa.sa_handler;
	}
}

static void unlend_altstacks(void)
{
	struct sigaction sa;

	for (int i = 1; i <= SIGNALS; i++) {
		if (!lent[i] || os_sigaction(i, NULL, &sa) < 0 || sa.sa_handler != lent[i])
			continue;
		sa.sa_flags &= ~SA_ONSTACK;
		os_sigaction(i, &sa, NULL);
	}
}

/* --- SIGPIPE: SIGNAL-2 and SIGNAL-3 --- */

static void on_sigpipe(int signo, siginfo_t *info, void *context)
{
	(void)context;
	if ((getm() || gmp__blockedm()) && info->si_code == SI_USER && info->si_pid == getpid())
		return; /* raised by a write: raise and pthread_kill have SI_TKILL */
	signal(signo, SIG_DFL);
	raise(signo); /* delivered when this handler returns */
}

static bool is_on_sigpipe(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_sigpipe;
}

void signal_check_sigpipe(void)
{
	struct sigaction sa;

	os_sigpipe_trust(installed && !sigismember(&program_mask, SIGPIPE) &&
			 os_sigaction(SIGPIPE, NULL, &sa) == 0 &&
			 (is_on_sigpipe(&sa) || sa.sa_handler == SIG_IGN));
}

static void begin_sigpipe(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigpipe,
				.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART },
			 now;

	sigemptyset(&sa.sa_mask);
	sigpipe_replaced = os_sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
			   os_sigaction(SIGPIPE, &sa, NULL) == 0;
	signal_check_sigpipe();
}

static void end_sigpipe(void)
{
	struct sigaction sa = { .sa_handler = SIG_DFL }, now;

	os_sigpipe_trust(false);
	if (sigpipe_replaced && os_sigaction(SIGPIPE, NULL, &now) == 0 && is_on_sigpipe(&now))
		os_sigaction(SIGPIPE, &sa, NULL);
	sigpipe_replaced = false;
}

void signal_program_action(int signo, struct sigaction *sa)
{
	if (is_on_fault(sa))
		*sa = *old_action(signo);
	else if (is_on_sigpipe(sa))
		*sa = (struct sigaction){ .sa_handler = SIG_DFL };
	else if (is_on_asked(sa) || sa->sa_handler == on_chaos)
		*sa = sends_signals() ? ask.base : ask.old;
}

int signal_init(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault }, now;

	sigemptyset(&sa.sa_mask);
	pthread_sigmask(SIG_BLOCK, NULL, &program_mask);
	installed = true;
	lend_altstacks();
	begin_sigpipe();
	for (unsigned i = 0; i < countof(handled); i++) {
		if (sigaction(handled[i].signo, NULL, &now) < 0)
			return -errno;
		if (still_reached(i, &now))
			continue;
		handled[i].chained = false;
		sa.sa_flags = SA_SIGINFO | SA_ONSTACK |
			      (no_handler(&now) ? SA_RESTART : now.sa_flags & SA_RESTART);
		if (sigaction(handled[i].signo, &sa, &handled[i].old) < 0)
			return -errno;
	}
	return ask_init();
}

void signal_fini(void)
{
	struct sigaction now;

	if (!installed)
		return;
	installed = false;
	ask_fini();
	for (unsigned i = 0; i < countof(handled); i++) {
		if (sigaction(handled[i].signo, NULL, &now) < 0)
			continue;
		handled[i].chained = !is_on_fault(&now);
		if (is_on_fault(&now))
			sigaction(handled[i].signo, &handled[i].old, NULL);
	}
	end_sigpipe();
	unlend_altstacks();
}

/* Under libgmprt_posix the mask of an M that runs no green thread.  What all threads of the program
 * block stays pending. */
static bool admits_nothing(const struct m *m)
{
	return os_threads_block_signals && !variant_runs_gs(m);
}

/* Sets the program's mask, without the signals that the runtime needs. */
static void set_m_mask(const struct m *m)
{
	sigset_t set = program_mask;

	if (admits_nothing(m))
		sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	if (sends_signals())
		sigdelset(&set, LONGRUN_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

void signal_program_mask(sigset_t *set)
{
	*set = program_mask;
}

void signal_thread_restore(void)
{
	pthread_sigmask(SIG_SETMASK, &program_mask, NULL);
}

/* The alternate stack of the caller of gmp_run, if it is too small for the report of a fault.
 * Restored after the run. */
static stack_t small_altstack;

static bool give_altstack(struct m *m)
{
	stack_t ss = { .ss_size = altstack_bytes(HANDLER_BYTES) }, old;

	if (sigaltstack(NULL, &old) == 0 && !(old.ss_flags & SS_DISABLE)) {
		if (m->ours || old.ss_size >= altstack_bytes(REPORT_BYTES))
			return true;
		small_altstack = old;
	}
	char *map = os_reserve(ALTSTACK_GUARD + ss.ss_size);

	if (!map)
		return false;
	ss.ss_sp = map + ALTSTACK_GUARD;
	if (sigaltstack(&ss, NULL) < 0) {
		os_release(map, ALTSTACK_GUARD + ss.ss_size);
		return false;
	}
	if (os_guard_light(map, ALTSTACK_GUARD))
		os_guard_protect(map, ALTSTACK_GUARD); /* no room for a mapping: no guard */
	m->altstack = ss.ss_sp;
	return true;
}

bool signal_thread_begin(struct m *m)
{
	bool given = give_altstack(m);

	gmp__signal_state()->ours = true;
	set_m_mask(m);
	cpusample_thread_begin(m);
	return given;
}

void signal_thread_end(struct m *m)
{
	stack_t ss = { .ss_flags = SS_DISABLE }, now;

	cpusample_thread_end(m);
	gmp__signal_state()->ours = m->ours;
	if (!m->ours)
		signal_thread_restore();
	if (!m->altstack)
		return;
	if (!m->ours && small_altstack.ss_sp) {
		ss = small_altstack;
		small_altstack = (stack_t){ 0 };
	}
	/* a green thread may have set another alternate stack since */
	if (sigaltstack(NULL, &now) < 0 || now.ss_sp == m->altstack)
		sigaltstack(&ss, NULL);
	if (!san_keeps_altstack())
		os_release((char *)m->altstack - ALTSTACK_GUARD,
			   ALTSTACK_GUARD + altstack_bytes(HANDLER_BYTES));
	m->altstack = NULL;
}
