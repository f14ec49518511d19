/* SPDX-License-Identifier: MIT */
/*
 * Replaces sigaction and signal: the kernel gets a trampoline (trampoline.c) for each handler, and
 * the table (sigtable.c) has the program's.
 *
 * Invariants
 *   SIGTAB-5  The child of a vfork shares the table, so it calls libc's function only.
 *   SIGTAB-6  A signal that the kernel took while the program had a handler, and that has not
 *             reached it when the program sets the default action, is dropped.  Otherwise
 *             `alarm(0); signal(SIGALRM, SIG_DFL)` might end the process.
 *   -         The kernel then has the default trampoline: it alone takes the default action, for
 *             signals that come later.  What is still in the other trampoline, or was forwarded,
 *             finds no handler.  What was deferred while a handler ran has an older epoch, which is
 *             in one word with the handler.
 */
#include "posix/call/hook.h"
#include "posix/signal/kill.h"
#include "posix/signal/receiver.h"
#include "posix/signal/sigtable.h"
#include "posix/signal/sigthread.h"

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
	struct sigaction entry = sigtable_entry(signo), kernels, mine;
	bool dropped = sa && is_function(&entry) && !is_function(sa) && receiver_admits(signo);

	if (sa && !is_function(sa))
		kill_discard(signo, sa->sa_handler == SIG_IGN || does_nothing_by_default(signo));
	if (sa) {
		mine = sigtable_for_kernel(signo, sa, receiver_defers(signo), dropped);
		sigtable_set(signo, sa);
	}
	if (dropped) {
		sigtable_drop(signo);
		drop_pending(signo);
	}
	int result = LIBC(sigaction)(signo, sa ? &mine : NULL, &kernels);

	if (result && sa)
		sigtable_set(signo, &entry);
	if (!result)
		*old = for_program(signo, kernels, &entry);
	return result;
}

static int set_action(int signo, const struct sigaction *sa, struct sigaction *old)
{
	struct sigaction copy, was;

	if (sa) {
		copy = *sa;
		if (is_function(sa))
			or_rlx(&gmp__signals_used, (uint32_t)USED_SIGNALS);
	}
	uint64_t before = sigtable_lock();
	int result = set_locked(signo, sa ? &copy : NULL, &was), err = errno;

	sigtable_unlock(before);
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

	if (!sigtable_has(signo))
		return LIBC(sigaction)(signo, sa, old);
	int result = set_action(signo, sa, old);

	if (!result)
		errno = saved;
	if (!result && sa && is_function(sa) && hook_how() == HOOK_PARK)
		sigthread_begin();
	return result;
}

HOOK sighandler_t signal(int signo, sighandler_t handler)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	if (handler == SIG_ERR || !sigtable_has(signo))
		return LIBC(signal)(signo, handler);
	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, signo);
	return sigaction(signo, &sa, &old) == 0 ? old.sa_handler : SIG_ERR;
}
