/* SPDX-License-Identifier: MIT */
/*
 * The program's dispositions of signals, and what the kernel has in their place: a trampoline
 * (trampoline.c) for each handler.
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
 */
#include "posix/signal/sigtable.h"

#include <unistd.h>

#include "posix/call/hook.h"

/* Of an address that a program can have. */
enum { EPOCH_SHIFT = 48 };

static struct {
	pthread_spinlock_t spin;
	pid_t pid;                         /* SIGTAB-5 */
	handler_fn trampoline;             /* (c) */
	struct sigaction holder;           /* (c) what the kernel has by SIGTAB-3 */
	struct sigaction act[SIGNALS + 1]; /* under spin */
	uint64_t taker[SIGNALS + 1];       /* (a) its handler, and above it the epoch: SIGTAB-6 */
	uint64_t held;                     /* (a) changes under spin */
	uint64_t always;  /* (c) signals that are held while they have the default */
	uint64_t resets;  /* (a) signals with SA_RESETHAND; changes under spin */
	uint64_t handled; /* (a) signals with a handler; changes under spin */
} table;

void signal_unblock(int signo)
{
	sigset_t only = mask_set(mask_bit(signo));

	LIBC(pthread_sigmask)(SIG_UNBLOCK, &only, NULL);
}

bool is_trampoline(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && (sa->sa_sigaction == table.trampoline ||
					     sa->sa_sigaction == table.holder.sa_sigaction);
}

handler_fn signal_handler_sig(int signo)
{
	uint64_t taker = ld_rlx(&table.taker[signo]);

	return (handler_fn)(uintptr_t)(taker & ((UINT64_C(1) << EPOCH_SHIFT) - 1));
}

uint32_t signal_epoch_sig(int signo)
{
	return (uint32_t)(ld_rlx(&table.taker[signo]) >> EPOCH_SHIFT);
}

bool signal_resets_sig(int signo)
{
	return ld_rlx(&table.resets) & mask_bit(signo);
}

void signal_dropped_sig(int signo)
{
	and_rlx(&table.held, ~mask_bit(signo));
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

/* Signals whose default action does not end the process.  It must not look like a handler for
 * longer than necessary: a signal that is ignored by default would end system calls with EINTR. */
static uint64_t mild_signals(void)
{
	return mask_bit(SIGCHLD) | mask_bit(SIGCONT) | mask_bit(SIGWINCH) | mask_bit(SIGURG) |
	       mask_bit(SIGTSTP) | mask_bit(SIGTTIN) | mask_bit(SIGTTOU);
}

/* --- the table --- */

uint64_t sigtable_lock(void)
{
	return signals_lock(&table.spin);
}

void sigtable_unlock(uint64_t before)
{
	signals_unlock(&table.spin, before);
}

struct sigaction sigtable_entry(int signo)
{
	return table.act[signo];
}

static void mark(uint64_t *set, int signo, bool on)
{
	if (on)
		or_rlx(set, mask_bit(signo));
	else
		and_rlx(set, ~mask_bit(signo));
}

void sigtable_set(int signo, const struct sigaction *sa)
{
	uint64_t epoch = ld_rlx(&table.taker[signo]) >> EPOCH_SHIFT << EPOCH_SHIFT;

	table.act[signo] = *sa;
	st_rlx(&table.taker[signo], epoch | (uintptr_t)sa->sa_handler);
	mark(&table.handled, signo, is_function(sa));
	mark(&table.resets, signo, is_function(sa) && sa->sa_flags & SA_RESETHAND);
}

void sigtable_drop(int signo)
{
	bump(&table.taker[signo], UINT64_C(1) << EPOCH_SHIFT);
}

struct sigaction sigtable_for_kernel(int signo, const struct sigaction *sa, bool deferred,
				     bool dropped)
{
	struct sigaction k = *sa;
	bool hold = deferred || table.always & mask_bit(signo) ||
		    (dropped && !(mild_signals() & mask_bit(signo)));

	hold = hold && sa->sa_handler == SIG_DFL;
	mark(&table.held, signo, hold);
	if (hold)
		return table.holder;
	if (is_function(sa)) {
		k.sa_sigaction = table.trampoline;
		k.sa_flags |= SA_SIGINFO | SA_ONSTACK;
		k.sa_flags &= ~(int)SA_RESETHAND;                        /* SIGTAB-8 */
		*(uint64_t *)(void *)&k.sa_mask |= mask_bit(SIG_CANCEL); /* SETTLE-1 */
	}
	return k;
}

bool sigtable_has(int signo)
{
	return signo >= 1 && signo <= SIGNALS && signo != SIGKILL && signo != SIGSTOP &&
	       signo != SIG_CANCEL && signo != SIG_SETXID && getpid() == table.pid;
}

enum signal_action signal_action(int signo)
{
	struct sigaction k;
	int saved = errno;

	if (!sigtable_has(signo) || LIBC(sigaction)(signo, NULL, &k)) {
		errno = saved;
		return ACTION_DEFAULT;
	}
	handler_fn handler = signal_handler_sig(signo);

	if (is_trampoline(&k) && is_function_sig(handler))
		return ACTION_HANDLER;
	if (k.sa_handler == SIG_IGN)
		return ACTION_IGNORE;
	if (is_function(&k) && !is_trampoline(&k))
		return ACTION_DEFAULT;
	return does_nothing_by_default(signo) ? ACTION_IGNORE : ACTION_DEFAULT;
}

/* --- SIGTAB-3 --- */

static void hold_locked(int signo)
{
	struct sigaction now;

	if (LIBC(sigaction)(signo, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
	    LIBC(sigaction)(signo, &table.holder, NULL) == 0)
		table.held |= mask_bit(signo);
}

void signal_hold_defaults(uint64_t bits)
{
	bits &= ~signal_undeferred();
	if (!(bits & ~ld_rlx(&table.held)))
		return;
	uint64_t before = sigtable_lock();

	for (int i = 1; i <= SIGNALS; i++)
		if (bits & ~table.held & mask_bit(i) && !signal_handler_sig(i))
			hold_locked(i);
	sigtable_unlock(before);
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
	uint64_t before = sigtable_lock();

	for (int n = 1; n <= SIGNALS; n++) {
		if (!(bits & table.held & mild_signals() & mask_bit(n)))
			continue;
		table.held &= ~mask_bit(n);
		if (LIBC(sigaction)(n, NULL, &now) == 0 && is_trampoline(&now))
			LIBC(sigaction)(n, &dfl, NULL);
	}
	sigtable_unlock(before);
}

/* --- begin --- */

/* Also in the child of a fork. */
static void table_begin(void)
{
	pthread_spin_init(&table.spin, PTHREAD_PROCESS_PRIVATE);
	table.pid = getpid();
}

void sigtable_begin(handler_fn trampoline, handler_fn default_trampoline)
{
	table.trampoline = trampoline;
	table.holder = (struct sigaction){ .sa_sigaction = default_trampoline,
					   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	table_begin();
	pthread_atfork(NULL, NULL, table_begin);
}
