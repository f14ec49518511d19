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
 * begins (SIGNAL-1 of faultsig.c).  The note in the thread-local signal_state is the part of that
 * stack below the trampoline's frame.  A replaced function that runs there is called by a handler:
 * it is libc's, since a handler must not park (the mask of the OS thread would stay as it is).
 *
 * Invariants
 *   SIGTAB-1  `table` has the program's dispositions; what the kernel has is a trampoline, the same
 *             disposition, or a handler that was set by code that does not use this sigaction.
 *             A query returns the entry of the table if the kernel has the trampoline, and what the
 *             kernel has otherwise.
 *   SIGTAB-2  The table changes under `spin`, with all signals blocked, so that a handler may call
 *             sigaction.  The trampoline reads the handler alone; it is valid at any time.
 *   SIGTAB-3  While the program's green threads block a signal with the default action, the kernel
 *             has the default trampoline (a bit of `held`): an OS thread whose mask is not up to
 *             date then defers the signal, which would end the process.  exec resets it to the
 *             default, as the program's own disposition is.
 *   SIGTAB-4  The note is valid only for code on that stack below it.  So a handler that leaves by
 *             siglongjmp or pthread_exit needs no clean-up.
 *   SIGTAB-5  The child of a vfork shares the table, so it calls libc's function only.
 *   SIGTAB-6  A signal that the kernel took while the program had a handler, and that has not
 *             reached it when the program sets the default action, is dropped.  Otherwise
 *             `alarm(0); signal(SIGALRM, SIG_DFL)` might end the process.  The kernel then has the
 *             default trampoline: it alone takes the default action, for signals that come later.
 *             What is still in the other trampoline, or was forwarded, finds no handler.  What was
 *             deferred while a handler ran has an older epoch.  The epoch is in one word with the
 *             handler, so a trampoline that reads the new epoch finds no handler after it.
 */
#include "posix/signal.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/os.h"
#include "faultsig.h"
#include "posix/handler.h"
#include "posix/hook.h"
#include "posix/kill.h"
#include "posix/receiver.h"

enum { SIGNALS = 64, SIG_CANCEL = 32, SIG_SETXID = 33, HANDLER_ROOM = 64 * 1024 };

typedef void (*handler_fn)(int signo, siginfo_t *info, void *context);

/* Of an address that a program can have. */
enum { EPOCH_SHIFT = 48 };

static struct {
	pthread_spinlock_t spin;
	pid_t pid;                         /* SIGTAB-5 */
	struct sigaction act[SIGNALS + 1]; /* under spin */
	uint64_t taker[SIGNALS + 1];       /* (a) its handler, and above it the epoch: SIGTAB-6 */
	uint64_t held;                     /* under spin */
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

/* Signals whose default action does not end the process.  It must not look like a handler for
 * longer than necessary: a signal that is ignored by default would end system calls with EINTR. */
static uint64_t mild_signals(void)
{
	return mask_bit(SIGCHLD) | mask_bit(SIGCONT) | mask_bit(SIGWINCH) | mask_bit(SIGURG) |
	       mask_bit(SIGTSTP) | mask_bit(SIGTTIN) | mask_bit(SIGTTOU);
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
	struct m *m = getm();

	if (!(u->uc_stack.ss_flags & SS_DISABLE) && frame - low < u->uc_stack.ss_size)
		return low;
	if (m && m->curg && m->curg->stack && frame > (uintptr_t)m->curg->stack &&
	    frame - (uintptr_t)m->curg->stack < (size_t)1 << m->curg->stack_class)
		return (uintptr_t)m->curg->stack;
	return frame - HANDLER_ROOM;
}

/* Take the default action of a signal for which the kernel has the trampoline. */
static void default_action_sig(int signo)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	switch (signo) {
	case SIGCHLD:
	case SIGCONT:
	case SIGWINCH: return;
	default: break;
	}
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

/* by_default: the kernel had the default trampoline when it took the signal. */
static void call_handler_sig(int signo, bool by_default, siginfo_t *info, void *context)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	handler_fn handler = handler_sig(signo);
	struct signal_state *s = gmp__signal_state(), before = *s;

	if (handler == (handler_fn)(void *)SIG_IGN)
		return;
	if (!handler) {
		if (by_default) /* otherwise: SIGTAB-6 */
			default_action_sig(signo);
		return;
	}
	note_run_sig(s, signo);
	info->si_errno = 0;
	s->low = low_end_sig(context, frame);
	s->high = frame;
	handler(signo, info, context); /* one without SA_SIGINFO ignores two arguments */
	s->low = before.low;
	s->high = before.high;
}

static bool has_handler_sig(int signo)
{
	handler_fn handler = handler_sig(signo);

	return handler && handler != (handler_fn)(void *)SIG_IGN;
}

static void take_sig(int signo, bool by_default, siginfo_t *info, void *context)
{
	int saved = errno;

	if (kill_is_note(info)) {
		const struct g *gp = receiver_interrupted_sig(context);
		bool mine = kill_take_sig(signo, info, gp);

		errno = saved;
		if (!mine)
			return;
		call_handler_sig(signo, false, info, context); /* it had a handler: SIGTAB-6 */
		kill_handled_sig(gp);
		return;
	}
	bool for_thread = receiver_is_for_thread_sig(info);
	bool forwarded = receiver_unpack_sig(info), handled = has_handler_sig(signo);
	bool accepted = forwarded || !by_default || receiver_is_stale_sig(info);

	if (accepted && !handled)
		return; /* SIGTAB-6 */
	bool here = for_thread || receiver_route_sig(signo, handled, info, context);

	errno = saved;
	if (here)
		call_handler_sig(signo, by_default, info, context);
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

/* --- the table --- */

/* SIGTAB-2.  Returns the mask from before. */
static uint64_t table_lock(void)
{
	uint64_t before = os_signals_block();

	while (pthread_spin_trylock(&table.spin))
		LIBC(sched_yield)();
	return before;
}

static void table_unlock(uint64_t before)
{
	pthread_spin_unlock(&table.spin);
	os_signals_restore(before);
}

static const struct sigaction holder = { .sa_sigaction = default_trampoline,
					 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

static void set_entry(int signo, const struct sigaction *sa)
{
	table.act[signo] = *sa;
	uint64_t epoch = ld_rlx(&table.taker[signo]) >> EPOCH_SHIFT << EPOCH_SHIFT;

	st_rlx(&table.taker[signo], epoch | (uintptr_t)sa->sa_handler);
}

/* What the kernel gets for *sa, with the table locked.  dropped: SIGTAB-6. */
static struct sigaction for_kernel(int signo, const struct sigaction *sa, bool dropped)
{
	struct sigaction k = *sa;

	table.held &= ~mask_bit(signo);
	if (is_function(sa)) {
		k.sa_sigaction = trampoline;
		k.sa_flags |= SA_SIGINFO | SA_ONSTACK;
	} else if (sa->sa_handler == SIG_DFL &&
		   (receiver_defers(signo) || (dropped && !(mild_signals() & mask_bit(signo))))) {
		table.held |= mask_bit(signo);
		k = holder;
	}
	return k;
}

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
			st_rlx(&gmp__signals_used, 1u);
	}
	uint64_t before = table_lock();
	int result = set_locked(signo, sa ? &copy : NULL, &was), err = errno;

	table_unlock(before);
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
	uint64_t before = table_lock();

	for (int i = 1; i <= SIGNALS; i++)
		if (bits & ~table.held & mask_bit(i) && !handler_sig(i))
			hold_locked(i);
	table_unlock(before);
}

void signal_release_defaults(uint64_t bits)
{
	struct sigaction now, dfl = { .sa_handler = SIG_DFL };

	if (!(bits & ld_rlx(&table.held)))
		return;
	uint64_t before = table_lock();

	for (int n = 1; n <= SIGNALS; n++) {
		if (!(bits & table.held & mild_signals() & mask_bit(n)))
			continue;
		table.held &= ~mask_bit(n);
		if (!handler_sig(n) && LIBC(sigaction)(n, NULL, &now) == 0 && is_trampoline(&now))
			LIBC(sigaction)(n, &dfl, NULL);
	}
	table_unlock(before);
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
