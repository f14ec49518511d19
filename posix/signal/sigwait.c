/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that wait for a signal: libc's function runs as blocking code.  pause and
 * sigsuspend of a thread other than main park.
 *
 * sigwait and the like take a signal that all threads block; the kernel gives it to an OS thread in
 * that call, or keeps it pending.  pause and sigsuspend end when a handler has run on the calling
 * thread: receiver.c sends the signal to the OS thread that is in blocking code for its receiver.
 * The kernel exchanges the mask and sleeps in one step, so no signal is missed in between.
 *
 * These calls fail with EINTR after a handler of the caller only, but the kernel ends them too if
 * another OS thread takes the signal, and sends it again (trampoline.c), or after a handler of the
 * runtime.  So each call is repeated until a handler of the program has run on this thread.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "posix/call/hook.h"
#include "posix/call/point.h"
#include "posix/call/times.h"
#include "posix/call/user.h"
#include "posix/signal/kill.h"
#include "posix/signal/mask.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigthread.h"

/* sigtimedwait, which only a handler of the program ends with EINTR.  Returns 0 to try again. */
static int take_once(const sigset_t *set, siginfo_t *got, const struct timespec *timeout)
{
	int signo = LIBC(sigtimedwait)(set, got, timeout);

	if (signo > 0 && got->si_code == CODE_NOTE) {
		kill_note_taken();
		return 0; /* a signal may be pending for the caller, or it is cancelled */
	}
	return signo < 0 && errno == EINTR && !gmp__signal_state()->ran ? 0 : signo;
}

/* In blocking code: take a signal that is pending for the caller, or wait for the kernel's. */
static int take(const sigset_t *set, siginfo_t *got, const struct timespec *timeout)
{
	int64_t deadline = deadline_after(timeout);
	struct timespec left;
	int signo = 0;

	gmp__signal_state()->ran = false;
	while (!signo) {
		if (kill_is_cancelled()) { /* KILL-6, as the next */
			errno = ECANCELED;
			return -1;
		}
		signo = kill_take(mask_of(set), got);
		if (!signo)
			signo = take_once(set, got, timeout);
		if (!signo && deadline != GMP_FOREVER) {
			left = time_left(deadline);
			timeout = &left;
		}
	}
	return signo;
}

/* sigtimedwait in blocking code. */
static int wait_kernel(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	sigset_t before;
	bool expects = kill_expect(set, &before);
	int signo = take(set, info, timeout), err = errno;

	if (signo < 0 && err == EAGAIN) { /* its note may be on the way */
		int late = kill_take(mask_of(set), info);

		signo = late ? late : signo;
	}
	if (expects)
		kill_unexpect(&before);
	errno = err;
	return signo;
}

static int wait_for_info(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	siginfo_t got;
	struct timespec time;
	uint64_t mask;

	hook_point();
	if (!user_read(&mask, set, sizeof(mask)) ||
	    (timeout && !user_read(&time, timeout, sizeof(time))))
		return (int)hook_return(-EFAULT);
	sigset_t copy = mask_set(mask);

	timeout = timeout ? &time : NULL;
	int signo = hook_how() == HOOK_LIBC ? HOOK_CALL(LIBC(sigtimedwait)(&copy, &got, timeout))
					    : HOOK_BLOCKING(wait_kernel(&copy, &got, timeout));

	if (signo < 0 && errno == ECANCELED)
		cancel_point(); /* ends the caller */
	if (signo > 0) {
		siginfo_unpack_sig(&got);
		got.si_errno = 0;
		if (info && !user_write(info, &got, sizeof(got)))
			return (int)hook_return(-EFAULT);
	}
	return signo;
}

HOOK int sigwait(const sigset_t *set, int *signo)
{
	int saved = errno, got;

	if (hook_how() == HOOK_LIBC && !run_has_threads())
		return LIBC(sigwait)(set, signo);
	do
		got = wait_for_info(set, NULL, NULL);
	while (got < 0 && errno == EINTR);
	int err = got < 0 ? errno : 0;

	errno = saved;
	if (!err)
		*signo = got;
	return err;
}

HOOK int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return wait_for_info(set, info, NULL);
}

HOOK int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	return wait_for_info(set, info, timeout);
}

/* --- pause, sigsuspend --- */

/* Whether a handler has run.  *err: 0 or -ECANCELED. */
static bool wait_handler(int *err)
{
	struct signal_state *s = gmp__signal_state();

	handler_wait_begin();
	bool ran = s->ran;

	if (!ran) {
		signal_wait_begin();
		*err = gmp_sleep_until(GMP_FOREVER);
		signal_wait_end();
	}
	handler_wait_end();
	return ran || s->ran;
}

/* mask: NULL: that of the thread. */
static int suspend_parked(const sigset_t *mask)
{
	struct signal_state *s = gmp__signal_state();
	uint64_t before = mask_to_inherit();
	int err = 0;

	cancel_point();
	s->ran = false;
	if (mask)
		mask_set_own(mask_of(mask)); /* handlers of pending signals run */
	while (!s->ran && !wait_handler(&err) && err != -ECANCELED)
		;
	if (mask)
		mask_set_own(before);
	if (err == -ECANCELED)
		cancel_waited();
	return (int)hook_return(err == -ECANCELED ? err : -EINTR);
}

/* In blocking code: until a handler of the program has run.  set: the mask meanwhile; NULL: that of
 * the OS thread.  Other signals than those of the set stay blocked between two calls of libc. */
static int suspend(const sigset_t *set)
{
	struct signal_state *s = gmp__signal_state();
	uint64_t before = os_signals_block();
	sigset_t own = mask_set(before);
	int result;

	s->ran = false;
	do
		result = LIBC(sigsuspend)(set ? set : &own);
	while (!s->ran);
	int err = errno;

	os_signals_restore(before);
	errno = err;
	return result;
}

/* set: the mask meanwhile; NULL: that of the caller.  A thread of kill.c parks. */
static int wait_for_handler(const sigset_t *set)
{
	if (hook_parks()) {
		sigthread_begin();
		if (kill_reaches_caller())
			return suspend_parked(set);
	}
	hook_point();
	return HOOK_MASKED(set, suspend(set));
}

HOOK int pause(void)
{
	if (hook_how() == HOOK_LIBC)
		return HOOK_CALL(LIBC(pause)());
	return wait_for_handler(NULL);
}

HOOK int sigsuspend(const sigset_t *set)
{
	if (hook_how() == HOOK_LIBC)
		return HOOK_CALL(LIBC(sigsuspend)(set));
	if (!user_reads(set, sizeof(uint64_t)))
		return (int)hook_return(-EFAULT);
	return wait_for_handler(set);
}

/* --- sigpending --- */

HOOK int sigpending(sigset_t *set)
{
	int result = LIBC(sigpending)(set);

	if (result == 0)
		*set = mask_set(mask_of(set) | kill_pending_sig(own_green()));
	return result;
}
