/* SPDX-License-Identifier: MIT */
/*
 * Replaces pthread_sigmask and sigprocmask: a signal mask for each green thread with own
 * thread-locals.
 *
 * The kernel keeps masks for OS threads.  The mask of a green thread is in its signal_state.
 * pthread_create copies that of the creator.  A green thread of gmp_spawn that has set none has
 * that of the main one.  Receivers (receiver.h) have it in the
 * kernel, too: their OS thread gets it when they set it, after each wait that a handler may end,
 * and in blocking code.
 *
 * A signal that was sent to the process is delivered if the main green thread admits it, or a
 * green thread that has unblocked it.  So these patterns work as natively:
 *   a block of signals by main, before other threads are made, and sigwait in one of them
 *   a block of signals by main for a critical section: no handler runs meanwhile
 *   a block of all signals by each other thread: handlers run on main only
 *   a block by main, and one thread that unblocks the signals and handles them
 *
 * Invariants
 *   MASK-1  After a signal has been blocked by the last receiver that admits it, signals that were
 *           sent to the OS thread of the caller meanwhile are sent to the process again (rescue).
 *           On that thread they would stay pending, and the caller may continue on another one.
 *   -       Under gmp_start, and for a green thread that is only locked to its OS thread, the mask
 *           is that of the OS thread.
 *   MASK-3  An OS thread keeps the mask of the last receiver that set it (caller_sigmask).  If that
 *           blocks a signal that another thread admits, this thread sets its own mask there: at its
 *           start, in blocking code, and after a wait.
 *   MASK-4  In a call with a mask, a signal that the caller blocks except there is blocked on its
 *           OS thread before the call, so that no handler runs too early to end the call.  A
 *           receiver has its mask there (RECEIVER-9).
 */
#include "posix/signal/mask.h"

#include <pthread.h>

#include "base/libc.h"
#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/call/hook.h"
#include "posix/call/user.h"
#include "posix/signal/kill.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigtable.h"
#include "posix/signal/sigthread.h"

/* SIGKILL and SIGSTOP, and what libc never blocks. */
#define NEVER_BLOCKED                                                                              \
	(mask_bit(SIGKILL) | mask_bit(SIGSTOP) | mask_bit(SIG_CANCEL) | mask_bit(SIG_SETXID))

enum { RESCUED_MOST = 16 };

/* The caller, also in blocking code, has a mask of its own. */
static bool has_own_mask(void)
{
	return hook_has_own_tls() && receiver_routes();
}

static uint64_t own_mask(void)
{
	const struct signal_state *s = gmp__signal_state();

	return s->has_mask ? s->mask : receiver_default_mask();
}

/* MASK-1 */
static void rescue(uint64_t bits)
{
	static const struct timespec at_once;
	siginfo_t info[RESCUED_MOST];
	sigset_t set = mask_set(bits & ~signal_undeferred());
	int n = 0;

	if (!mask_of(&set))
		return;
	while (n < RESCUED_MOST && LIBC(sigtimedwait)(&set, &info[n], &at_once) > 0)
		if (info[n].si_code != CODE_NOTE) /* a hint: kill.c repeats it */
			siginfo_unpack_sig(&info[n++]);
	for (int i = 0; i < n; i++) {
		siginfo_pass_sig(0, info[i].si_signo, &info[i], CODE_DEFERRED);
		receiver_arrived_sig(info[i].si_signo);
	}
}

static void forked(void)
{
	const struct signal_state *s = gmp__signal_state();

	if (s->has_mask)
		os_signals_restore(s->mask);
}

static void note_use(void)
{
	static uint32_t registered;

	or_rlx(&gmp__signals_used, (uint32_t)USED_SIGNALS);
	if (!ld_rlx(&registered) && pthread_atfork(NULL, NULL, forked) == 0)
		st_rlx(&registered, 1u);
}

/* Whether the OS thread, which has the mask *now, must get another one: *mask. */
static bool mask_to_apply(uint64_t now, uint64_t *mask)
{
	const struct receiver *r = receiver_self();

	if (r && r->exact) {
		*mask = ld_rlx(&r->mask);
		return true;
	}
	if (!now || !has_own_mask())
		return false;
	*mask = own_mask() & ~signal_undeferred();
	return now & ~*mask; /* of a receiver that was here: MASK-3 */
}

void mask_apply(void)
{
	uint64_t *now = caller_sigmask(), mask;

	if (!now || !mask_to_apply(*now, &mask))
		return;
	*now = mask & ~mask_of_writes();
	os_signals_restore(*now);
}

/* own: the OS thread gets this mask; otherwise it keeps its own. */
static uint64_t swap_for_child(bool own, uint64_t mask)
{
	sigset_t set = mask_set(own ? mask : 0), before;

	LIBC(pthread_sigmask)(own ? SIG_SETMASK : SIG_BLOCK, &set, &before);
	return mask_of(&before);
}

uint64_t mask_for_child(void)
{
	return swap_for_child(signals_used() && has_own_mask(), own_mask());
}

uint64_t mask_for_child_as(uint64_t mask)
{
	return swap_for_child(has_own_mask(), mask);
}

void mask_after_child(uint64_t before)
{
	os_signals_restore(before);
}

static struct receiver *receiver_for(uint64_t mask)
{
	struct receiver *r = receiver_self();

	if (!r && ~mask & receiver_default_mask() & ~signal_undeferred())
		r = receiver_new();
	return r;
}

/* In the kernel, too. */
static void set_receivers_mask(struct receiver *r, uint64_t mask, uint64_t before)
{
	bool tell = receiver_set_mask(r, mask);

	st_rlx(&r->swapped, false); /* RECEIVER-9 */
	mask_apply();
	if (tell)
		receiver_wake();
	rescue(mask & ~before);
}

/* Set the mask of the caller, which has its own. */
static void set_own_mask(uint64_t mask)
{
	struct signal_state *s = gmp__signal_state();
	uint64_t before = own_mask();

	mask &= ~NEVER_BLOCKED;
	if (mask != before)
		note_use();
	struct receiver *r = receiver_for(mask);

	s->mask = mask;
	s->has_mask = true;
	if (r && ~mask & before)
		sigthread_begin();
	if (r)
		set_receivers_mask(r, mask, before);
	kill_set_mask(mask);
}

static int change(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t before = own_mask(), bits = set ? mask_of(set) : 0;

	if (set && how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK)
		return EINVAL;
	if (set)
		set_own_mask(how == SIG_BLOCK     ? before | bits
			     : how == SIG_SETMASK ? bits
						  : before & ~bits);
	if (old && !user_write(old, &before, sizeof(before)))
		return EFAULT; /* the change is made, as in the kernel */
	return 0;
}

uint64_t mask_block(uint64_t bits)
{
	if (!has_own_mask())
		return 0;
	uint64_t before = own_mask();

	set_own_mask(before | bits);
	return before;
}

void mask_set_own(uint64_t mask)
{
	if (has_own_mask())
		set_own_mask(mask);
}

uint64_t mask_to_inherit(void)
{
	sigset_t set;

	if (has_own_mask())
		return own_mask();
	if (gmp__signal_state()->ours || LIBC(pthread_sigmask)(SIG_SETMASK, NULL, &set))
		return receiver_default_mask(); /* a handler on the signal thread */
	return mask_of(&set);
}

void mask_inherit(uint64_t mask)
{
	mask_set_own(mask);
	mask_apply(); /* MASK-3 */
}

static void change_kernel(int how, uint64_t bits)
{
	uint64_t *now = caller_sigmask();
	sigset_t set = mask_set(bits & ~signal_undeferred());

	LIBC(pthread_sigmask)(how, &set, NULL);
	if (now && how == SIG_UNBLOCK)
		*now &= ~bits;
}

/* set of a call: the caller's mask is swapped.  The kernel refuses a bad address. */
static bool swaps(const sigset_t *set)
{
	return set && has_own_mask() && user_reads(set, sizeof(uint64_t));
}

uint64_t mask_swap(const sigset_t *set)
{
	uint64_t before;

	if (!swaps(set))
		return 0;
	before = own_mask();
	note_use();
	struct receiver *r = receiver_for(mask_of(set));

	if (r) {
		st_rlx(&r->swapped, true);
		if (receiver_set_mask(r, mask_of(set)))
			receiver_wake();
	} else {
		change_kernel(SIG_BLOCK, before & ~mask_of(set)); /* MASK-4 */
	}
	kill_swap_mask(mask_of(set));
	return before;
}

void mask_swap_back(const sigset_t *set, uint64_t before)
{
	struct receiver *r;

	if (!swaps(set))
		return;
	r = receiver_self();
	kill_swap_mask_back(before); /* first: no handler runs between the call and the unblock */
	if (r)
		set_receivers_mask(r, before, mask_of(set));
	else
		change_kernel(SIG_UNBLOCK, before & ~mask_of(set));
	kill_run();
}

HOOK int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	if (hook_how() != HOOK_PARK || !has_own_mask())
		return LIBC(pthread_sigmask)(how, set, old);
	int saved = errno, err = change(how, set, old);

	errno = saved;
	return err;
}

HOOK int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int err = pthread_sigmask(how, set, old);

	if (err)
		errno = err;
	return err ? -1 : 0;
}
