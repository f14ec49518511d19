/* SPDX-License-Identifier: MIT */
/*
 * Replaces sigaction and signal: the kernel calls trampoline, which calls the program's handler
 * where it belongs.
 *
 *   kernel ──> trampoline, on any OS thread ──> receiver_route_sig (receiver.c)
 *                                                 here: note the stack, call the handler
 *                                                 elsewhere: return
 *
 * The trampoline runs on the alternate stack (SA_ONSTACK), as handlers do that exist when a run
 * begins (SIGNAL-1 of monitor/faultsig.c).  The note in the thread-local signal_state is the part
 * of that stack below the trampoline's frame.  A replaced function that runs there is called by a
 * handler: it is libc's, since a handler must not park (the mask of the OS thread would stay as it
 * is).
 *
 * Invariants
 *   SIGTAB-1  `table` has the program's dispositions; what the kernel has is a trampoline, the same
 *             disposition, or a handler that was set by code that does not use this sigaction.
 *             A query returns the entry of the table if the kernel has the trampoline, and what the
 *             kernel has otherwise.
 *   -         The table changes under `spin`, with all signals blocked, so that a handler may call
 *             sigaction.  The trampoline reads the handler alone; it is valid at any time.
 *   SIGTAB-3  While the program's green threads block a signal with the default action, the kernel
 *             has the default trampoline (a bit of `held`): an OS thread whose mask is not up to
 *             date then defers the signal, which would end the process.  exec resets it to the
 *             default, as the program's own disposition is.  Under gmp-run this holds for SIGPIPE
 *             and SIGXFSZ from the start (run_main.c): the runtime would replace the default action
 *             of SIGPIPE, and a green thread may block them (SIGTAB-9).
 *   -         The note is valid only for code on that stack below it.  So a handler that leaves by
 *             siglongjmp or pthread_exit needs no clean-up.
 *   SIGTAB-5  The child of a vfork shares the table, so it calls libc's function only.
 *   SIGTAB-6  A signal that the kernel took while the program had a handler, and that has not
 *             reached it when the program sets the default action, is dropped.  Otherwise
 *             `alarm(0); signal(SIGALRM, SIG_DFL)` might end the process.
 *   -         The kernel then has the default trampoline: it alone takes the default action, for
 *             signals that come later.  What is still in the other trampoline, or was forwarded,
 *             finds no handler.  What was deferred while a handler ran has an older epoch, which is
 *             in one word with the handler.
 *   SIGTAB-7  A handler may call pthread_kill, and may leave by siglongjmp.  So none interrupts a
 *             holder of the lock of the table of threads, nor pthread_create and the wakeup of a
 *             parked waiter, which take locks of the runtime.  Between signals_hold and
 *             signals_release the trampoline blocks the signal in the interrupted code and sends
 *             it to the own OS thread again; signals_release unblocks it.  Notes are dropped:
 *             kill.c repeats them.  Such a section does not wait, so its OS thread stays the same.
 *   SIGTAB-8  SA_RESETHAND is done by the trampoline that calls the handler.  The kernel would
 *             reset the action at the first trampoline, which may forward the signal.
 *   SIGTAB-9  SIGPIPE and SIGXFSZ, which the kernel raises for a write, are the writing green
 *             thread's.  No OS thread of a green thread blocks them for it, so they interrupt it at
 *             once: the trampoline calls the handler there, or makes the signal pending for the
 *             green thread if that blocks it.
 */
#include "posix/signal/disposition.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/call/hook.h"
#include "posix/signal/kill.h"
#include "posix/signal/receiver.h"
#include "posix/signal/settle.h"
#include "posix/signal/siginfo.h"

enum { SIGNALS = 64, HANDLER_ROOM = 64 * 1024 };

typedef void (*handler_fn)(int signo, siginfo_t *info, void *context);

/* Of an address that a program can have. */
enum { EPOCH_SHIFT = 48 };

static struct {
	pthread_spinlock_t spin;
	pid_t pid;                         /* SIGTAB-5 */
	struct sigaction act[SIGNALS + 1]; /* under spin */
	uint64_t taker[SIGNALS + 1];       /* (a) its handler, and above it the epoch: SIGTAB-6 */
	uint64_t held;                     /* under spin */
	uint64_t always;  /* (c) signals that are held while they have the default */
	uint64_t resets;  /* (a) signals with SA_RESETHAND; changes under spin */
	uint64_t handled; /* (a) signals with a handler; changes under spin */
} table;

uint32_t gmp__signals_used;

static void trampoline(int signo, siginfo_t *info, void *context);
static void default_trampoline(int signo, siginfo_t *info, void *context);

static bool is_trampoline(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO &&
	       (sa->sa_sigaction == trampoline || sa->sa_sigaction == default_trampoline);
}

static bool is_function(const struct sigaction *sa)
{
	return sa->sa_handler != SIG_DFL && sa->sa_handler != SIG_IGN;
}

static bool is_set_sig(handler_fn handler)
{
	return handler && handler != (handler_fn)(void *)SIG_IGN;
}

/* SIG_DFL, SIG_IGN or a function. */
static handler_fn handler_sig(int signo)
{
	uint64_t taker = ld_rlx(&table.taker[signo]);

	return (handler_fn)(uintptr_t)(taker & ((UINT64_C(1) << EPOCH_SHIFT) - 1));
}

uint32_t signal_epoch_sig(int signo)
{
	return (uint32_t)(ld_rlx(&table.taker[signo]) >> EPOCH_SHIFT);
}

uint64_t signal_undeferred(void)
{
	static const int numbers[] = { SIGKILL, SIGSTOP, SIG_CANCEL, SIG_SETXID, SIGSEGV, SIGBUS,
				       SIGFPE,  SIGILL,  SIGTRAP,    SIGSYS,     SIGURG };
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		bits |= mask_bit(numbers[i]);
	return bits;
}

uint64_t signal_handled(void)
{
	return ld_rlx(&table.handled);
}

static bool does_nothing_by_default(int signo)
{
	return signo == SIGCHLD || signo == SIGCONT || signo == SIGWINCH || signo == SIGURG;
}

/* Signals whose default action does not end the process.  It must not look like a handler for
 * longer than necessary: a signal that is ignored by default would end system calls with EINTR. */
static uint64_t mild_signals(void)
{
	return mask_bit(SIGCHLD) | mask_bit(SIGCONT) | mask_bit(SIGWINCH) | mask_bit(SIGURG) |
	       mask_bit(SIGTSTP) | mask_bit(SIGTTIN) | mask_bit(SIGTTOU);
}

/* --- the table --- */

static const struct sigaction holder = { .sa_sigaction = default_trampoline,
					 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

static void set_entry(int signo, const struct sigaction *sa)
{
	table.act[signo] = *sa;
	uint64_t epoch = ld_rlx(&table.taker[signo]) >> EPOCH_SHIFT << EPOCH_SHIFT;

	st_rlx(&table.taker[signo], epoch | (uintptr_t)sa->sa_handler);
	if (is_function(sa))
		or_rlx(&table.handled, mask_bit(signo));
	else
		and_rlx(&table.handled, ~mask_bit(signo));
	if (is_function(sa) && sa->sa_flags & SA_RESETHAND)
		or_rlx(&table.resets, mask_bit(signo));
	else
		and_rlx(&table.resets, ~mask_bit(signo));
}

/* What the kernel gets for *sa, with the table locked.  dropped: SIGTAB-6. */
static struct sigaction for_kernel(int signo, const struct sigaction *sa, bool dropped)
{
	struct sigaction k = *sa;
	bool hold = receiver_defers(signo) || table.always & mask_bit(signo) ||
		    (dropped && !(mild_signals() & mask_bit(signo)));

	table.held &= ~mask_bit(signo);
	if (is_function(sa)) {
		k.sa_sigaction = trampoline;
		k.sa_flags |= SA_SIGINFO | SA_ONSTACK;
		k.sa_flags &= ~(int)SA_RESETHAND;                        /* SIGTAB-8 */
		*(uint64_t *)(void *)&k.sa_mask |= mask_bit(SIG_CANCEL); /* SETTLE-1 */
	} else if (sa->sa_handler == SIG_DFL && hold) {
		table.held |= mask_bit(signo);
		k = holder;
	}
	return k;
}

/* --- the handler --- */

bool gmp__handler_runs(void)
{
	const struct signal_state *s = gmp__signal_state();
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return s->low <= here && here < s->high;
}

static uintptr_t low_end_sig(const ucontext_t *u, uintptr_t frame)
{
	uintptr_t low = (uintptr_t)u->uc_stack.ss_sp;
	size_t size;
	const struct g *gp = own_green();

	if (!(u->uc_stack.ss_flags & SS_DISABLE) && frame - low < u->uc_stack.ss_size)
		return low;
	if (gp && is_on_stack_sig(gp, frame))
		return (uintptr_t)green_stack(gp, &size);
	return frame - HANDLER_ROOM;
}

/* Take the default action of a signal for which the kernel has the trampoline. */
static void default_action_sig(int signo)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (does_nothing_by_default(signo))
		return;
	LIBC(sigaction)(signo, &dfl, NULL);
	and_rlx(&table.held, ~mask_bit(signo));
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo); /* when the trampoline returns */
}

static void note_run_sig(struct signal_state *s, int signo)
{
	struct sigaction now;

	s->ran = true;
	if (s->restarts && LIBC(sigaction)(signo, NULL, &now) == 0) /* after siginterrupt, too */
		s->restarts = now.sa_flags & SA_RESTART;
}

/* SIGTAB-8.  Returns the handler if it is the caller's to call. */
static handler_fn reset_sig(int signo, handler_fn handler)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL }, k;
	uint64_t before = signals_lock(&table.spin);

	if (ld_rlx(&table.resets) & mask_bit(signo)) {
		k = for_kernel(signo, &dfl, true);
		set_entry(signo, &dfl);
		LIBC(sigaction)(signo, &k, NULL);
	} else {
		handler = handler_sig(signo);
	}
	signals_unlock(&table.spin, before);
	return handler;
}

/* A signal in the trampoline. */
struct taken_signal {
	int signo;
	bool by_default; /* the kernel had the default trampoline when it took the signal */
	siginfo_t *info;
	void *context;
	struct g *gp; /* the green thread that it interrupted, or NULL */
	int error;    /* errno of the interrupted code */
	bool *taken;  /* SETTLE-1: it counts as taken */
};

static void end_taken_sig(const struct taken_signal *d)
{
	if (*d->taken)
		settle_taken_sig();
	*d->taken = false;
}

/* by_default: the default action, if there is no handler; otherwise SIGTAB-6.  Returns whether a
 * handler has run. */
static bool call_handler_sig(const struct taken_signal *d, bool by_default)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	handler_fn handler = handler_sig(d->signo);
	struct signal_state *s = gmp__signal_state(), before = *s;

	if (is_set_sig(handler)) {
		note_run_sig(s, d->signo);
		if (ld_rlx(&table.resets) & mask_bit(d->signo))
			handler = reset_sig(d->signo, handler);
	}
	if (!is_set_sig(handler)) {
		if (!handler && by_default)
			default_action_sig(d->signo);
		return false;
	}
	d->info->si_errno = 0;
	s->low = low_end_sig(d->context, frame);
	s->high = frame;
	kill_handler_sig(d->gp, 1);
	settle_arrived_sig(d->signo);
	end_taken_sig(d);
	errno = d->error;
	handler(d->signo, d->info, d->context); /* one without SA_SIGINFO ignores two arguments */
	kill_handler_sig(d->gp, -1);
	s->low = before.low;
	s->high = before.high;
	return true;
}

static bool has_handler_sig(int signo)
{
	return is_set_sig(handler_sig(signo));
}

/* A note of kill.c, or what the kernel made of one: without memory it loses the siginfo. */
static bool is_note_sig(int signo, const siginfo_t *info, const struct g *gp)
{
	bool lost = info->si_code == SI_USER && info->si_pid == 0 && info->si_uid == 0;

	return siginfo_is_note_sig(info) || (lost && kill_is_pending_sig(signo, gp));
}

/* SIGTAB-7.  info was unpacked. */
static void defer_sig(int signo, bool for_thread, const siginfo_t *info, void *context)
{
	struct signal_state *s = gmp__signal_state();
	int tid = os_thread_id();

	sigaddset(&((ucontext_t *)context)->uc_sigmask, signo);
	s->deferred |= mask_bit(signo);
	if (for_thread)
		siginfo_send_for_thread_sig(tid, signo, info);
	else
		siginfo_send_to_sig(tid, signo, info);
}

void signals_deliver(struct signal_state *s)
{
	sigset_t set = mask_set(s->deferred);

	s->deferred = 0;
	LIBC(pthread_sigmask)(SIG_UNBLOCK, &set, NULL);
}

/* Both return whether a handler has run. */
static bool take_note_sig(const struct taken_signal *d)
{
	uint32_t epoch = signal_epoch_sig(d->signo);

	return !gmp__signal_state()->holds && kill_take_sig(d->signo, d->info, d->gp) &&
	       call_handler_sig(d, epoch == signal_epoch_sig(d->signo));
}

/* Was it raised for a write of the green thread?  Or sent by kill of the own process, which looks
 * the same. */
static bool is_of_write_sig(const struct taken_signal *d)
{
	return mask_of_writes() & mask_bit(d->signo) && d->gp && d->info->si_code == SI_USER &&
	       d->info->si_pid == getpid();
}

static bool take_signal_sig(const struct taken_signal *d)
{
	bool for_thread = siginfo_is_for_thread_sig(d->info) || is_of_write_sig(d);
	bool forwarded = siginfo_unpack_sig(d->info), handled = has_handler_sig(d->signo);
	bool accepted = forwarded || !d->by_default || siginfo_is_stale_sig(d->info);

	if (is_of_write_sig(d) && kill_keep_sig(d->signo, d->gp))
		return false;
	if (accepted && !handled)
		return false; /* SIGTAB-6 */
	if (handled && gmp__signal_state()->holds && !is_fault_signal(d->signo)) {
		defer_sig(d->signo, for_thread, d->info, d->context);
		return false;
	}
	return receiver_route_sig(d->signo, handled, for_thread, d->info, d->context) &&
	       call_handler_sig(d, d->by_default);
}

static void take_sig(int signo, bool by_default, siginfo_t *info, void *context)
{
	int error = errno;
	bool taken = true;

	settle_take_sig(context);
	struct taken_signal d = {
		.signo = signo,
		.by_default = by_default,
		.info = info,
		.context = context,
		.gp = interrupted_green_sig(context),
		.error = error,
		.taken = &taken,
	};
	/* a handler may change errno, as natively */
	bool ran = is_note_sig(signo, info, d.gp) ? take_note_sig(&d) : take_signal_sig(&d);

	end_taken_sig(&d);
	if (!ran)
		errno = error;
}

static void trampoline(int signo, siginfo_t *info, void *context)
{
	take_sig(signo, false, info, context);
}

/* That of a signal with the default action: SIGTAB-3, SIGTAB-6. */
static void default_trampoline(int signo, siginfo_t *info, void *context)
{
	take_sig(signo, true, info, context);
}

/* --- sigaction --- */

/* SIGTAB-1: what the program sees of k, which the kernel has; entry: the table's. */
static struct sigaction for_program(int signo, struct sigaction k, const struct sigaction *entry)
{
	if (!is_trampoline(&k))
		signal_program_action(signo, &k);
	if (!is_trampoline(&k))
		return k;
	bool restarts = is_function(entry) && k.sa_flags & SA_RESTART; /* siginterrupt */

	k = *entry;
	if (is_function(entry))
		k.sa_flags = (k.sa_flags & ~SA_RESTART) | (restarts ? SA_RESTART : 0);
	return k;
}

/* SIGTAB-6: with all signals blocked, takes what the kernel has for an OS thread that did not run
 * yet. */
static void drop_pending(int signo)
{
	sigset_t only = mask_set(mask_bit(signo));
	static const struct timespec at_once;

	while (LIBC(sigtimedwait)(&only, NULL, &at_once) == signo)
		;
}

static int set_locked(int signo, const struct sigaction *sa, struct sigaction *old)
{
	struct sigaction entry = table.act[signo], kernels, mine;

	if (sa && !is_function(sa))
		kill_discard(signo, sa->sa_handler == SIG_IGN || does_nothing_by_default(signo));
	if (sa) {
		bool dropped = is_function(&entry) && !is_function(sa) && receiver_admits(signo);

		mine = for_kernel(signo, sa, dropped);
		if (dropped) {
			set_entry(signo, sa);
			bump(&table.taker[signo], UINT64_C(1) << EPOCH_SHIFT);
			drop_pending(signo);
		}
		set_entry(signo, sa);
	}
	int result = LIBC(sigaction)(signo, sa ? &mine : NULL, &kernels);

	if (result && sa)
		set_entry(signo, &entry);
	if (!result)
		*old = for_program(signo, kernels, &entry);
	return result;
}

static bool is_handled(int signo)
{
	return signo >= 1 && signo <= SIGNALS && signo != SIGKILL && signo != SIGSTOP &&
	       signo != SIG_CANCEL && signo != SIG_SETXID && getpid() == table.pid;
}

static int set_action(int signo, const struct sigaction *sa, struct sigaction *old)
{
	struct sigaction copy, was;

	if (sa) {
		copy = *sa;
		if (is_function(sa))
			or_rlx(&gmp__signals_used, (uint32_t)USED_SIGNALS);
	}
	uint64_t before = signals_lock(&table.spin);
	int result = set_locked(signo, sa ? &copy : NULL, &was), err = errno;

	signals_unlock(&table.spin, before);
	if (!result && old)
		*old = was;
	if (!result && sa && signo == SIGPIPE)
		signal_check_sigpipe();
	errno = err;
	return result;
}

HOOK int sigaction(int signo, const struct sigaction *sa, struct sigaction *old)
{
	int saved = errno;

	if (!is_handled(signo))
		return LIBC(sigaction)(signo, sa, old);
	int result = set_action(signo, sa, old);

	if (!result)
		errno = saved;
	if (!result && sa && is_function(sa) && hook_how() == HOOK_PARK)
		receiver_begin();
	return result;
}

enum signal_action signal_action(int signo)
{
	struct sigaction k;
	int saved = errno;

	if (!is_handled(signo) || LIBC(sigaction)(signo, NULL, &k)) {
		errno = saved;
		return ACTION_DEFAULT;
	}
	handler_fn handler = handler_sig(signo);

	if (is_trampoline(&k) && is_set_sig(handler))
		return ACTION_HANDLER;
	if (k.sa_handler == SIG_IGN)
		return ACTION_IGNORE;
	if (is_function(&k) && !is_trampoline(&k))
		return ACTION_DEFAULT;
	return does_nothing_by_default(signo) ? ACTION_IGNORE : ACTION_DEFAULT;
}

HOOK sighandler_t signal(int signo, sighandler_t handler)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	if (handler == SIG_ERR || !is_handled(signo))
		return LIBC(signal)(signo, handler);
	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, signo);
	return sigaction(signo, &sa, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* --- SIGTAB-3 --- */

static void hold_locked(int signo)
{
	struct sigaction now;

	if (LIBC(sigaction)(signo, NULL, &now) == 0 && !is_function(&now) &&
	    now.sa_handler == SIG_DFL && LIBC(sigaction)(signo, &holder, NULL) == 0)
		table.held |= mask_bit(signo);
	else if (is_trampoline(&now) && !handler_sig(signo))
		table.held |= mask_bit(signo);
}

void signal_hold_defaults(uint64_t bits)
{
	bits &= ~signal_undeferred();
	if (!(bits & ~ld_rlx(&table.held)))
		return;
	uint64_t before = signals_lock(&table.spin);

	for (int i = 1; i <= SIGNALS; i++)
		if (bits & ~table.held & mask_bit(i) && !handler_sig(i))
			hold_locked(i);
	signals_unlock(&table.spin, before);
}

void signal_hold_always(uint64_t bits)
{
	table.always = bits;
	signal_hold_defaults(bits);
}

void signal_release_defaults(uint64_t bits)
{
	struct sigaction now, dfl = { .sa_handler = SIG_DFL };

	if (!(bits & ld_rlx(&table.held)))
		return;
	uint64_t before = signals_lock(&table.spin);

	for (int n = 1; n <= SIGNALS; n++) {
		if (!(bits & table.held & mild_signals() & mask_bit(n)))
			continue;
		table.held &= ~mask_bit(n);
		if (!handler_sig(n) && LIBC(sigaction)(n, NULL, &now) == 0 && is_trampoline(&now))
			LIBC(sigaction)(n, &dfl, NULL);
	}
	signals_unlock(&table.spin, before);
}

/* --- begin --- */

static void table_begin(void)
{
	pthread_spin_init(&table.spin, PTHREAD_PROCESS_PRIVATE);
	table.pid = getpid();
}

__attribute__((constructor(102))) static void table_first(void)
{
	os_threads_block_signals = true;
	table_begin();
	pthread_atfork(NULL, NULL, table_begin);
}
