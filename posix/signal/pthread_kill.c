/* SPDX-License-Identifier: MIT */
/*
 * Replaces pthread_kill, raise and pthread_sigqueue.
 *
 * A signal of pthread_kill or raise that has a handler, or that the thread blocks, is pending for
 * the green thread (kill.c).  Others are sent to the OS thread that runs the green thread, if one
 * does, otherwise to the process.
 */
#include <sys/syscall.h>

#include "base/os.h"
#include "posix/signal/kill.h"
#include "posix/signal/mask.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigthread.h"

enum { FIRST_OF_LIBC = 32, LAST_OF_LIBC = 33 };

static int send_signal(int tid, int sig, const union sigval *value)
{
	siginfo_t info = siginfo_make_sig(sig, SI_QUEUE);
	int before = errno;
	long err;

	if (!value) {
		err = tid ? syscall(SYS_tgkill, getpid(), tid, sig) : LIBC(kill)(getpid(), sig);
	} else {
		info.si_value = *value;
		/* SI_QUEUE does not tell that the signal is for one thread (RECEIVER-5) */
		bool for_thread = tid && signal_action(sig) == ACTION_HANDLER;

		if (!for_thread)
			info.si_errno = 0;
		err = for_thread ? siginfo_pass_sig(tid, sig, &info, CODE_FOR_THREAD)
				 : siginfo_send_sig(tid, sig, &info);
	}
	err = err ? errno : 0;
	errno = before;
	return (int)err;
}

static bool is_valid(int sig)
{
	return sig >= 0 && sig <= SIGNALS && (sig < FIRST_OF_LIBC || sig > LAST_OF_LIBC);
}

/* What becomes of a signal for a thread of the table. */
struct signal_send {
	int sig;
	enum signal_action action;
	bool by_kill; /* it may become pending for the thread: kill.c */
	/* set by find_target */
	bool ended, kept; /* the thread has ended; the signal is pending for it, or err is not 0 */
	int err;          /* of kill_add */
	int tid;          /* of the OS thread that runs the thread, or 0 */
};

/* Returns false if there is no such thread. */
static bool find_target(pthread_t self, struct signal_send *s)
{
	threads_lock();
	struct thread *t = thread_find_or_first(self);

	s->ended = t && t->state == THREAD_ENDED;
	s->kept = t && !s->ended && s->by_kill && t != forked_thread() &&
		  kill_takes(t, s->sig, s->action);
	if (s->kept)
		s->err = kill_add(t, s->sig);
	else if (t && !s->ended)
		s->tid = kill_tid_of(t->g);
	threads_unlock();
	return t;
}

/* Returns 0, an errno value or NOT_GREEN. */
static int signal_thread(pthread_t self, int sig, const union sigval *value)
{
	struct signal_send s = { .sig = sig, .by_kill = is_valid(sig) && sig && !value };

	if (s.by_kill) {
		if (hook_how() == HOOK_PARK)
			sigthread_begin();
		s.action = signal_action(sig);
	}
	if (!find_target(self, &s))
		return NOT_GREEN;
	if (!is_valid(sig))
		return EINVAL;
	if (s.kept)
		return s.err;
	return s.ended || sig == 0 ? 0 : send_signal(s.tid, sig, value);
}

/* Returns false if the signal is not kept for the caller: libc sends it. */
static bool signal_self(int sig)
{
	if (!is_valid(sig) || !sig)
		return false;
	if (hook_how() == HOOK_PARK && mask_to_inherit() & mask_bit(sig))
		sigthread_begin(); /* it becomes pending: kill_takes */
	return kill_self(sig);
}

HOOK int pthread_kill(pthread_t self, int sig)
{
	int err = NOT_GREEN;

	if (self != pthread_self())
		err = signal_thread(self, sig, NULL);
	else if (signal_self(sig))
		err = 0;
	return err == NOT_GREEN ? LIBC(pthread_kill)(self, sig) : err;
}

HOOK int raise(int sig)
{
	return signal_self(sig) ? 0 : LIBC(raise)(sig);
}

HOOK int pthread_sigqueue(pthread_t self, int sig, const union sigval value)
{
	int err = signal_thread(self, sig, &value);

	if (err != NOT_GREEN)
		return err;
	if (self != pthread_self() || !own_green())
		return LIBC(pthread_sigqueue)(self, sig, value);
	/* not in the table: main of gmp_run, or a green thread of gmp_spawn */
	return !is_valid(sig) ? EINVAL : sig ? send_signal(os_thread_id(), sig, &value) : 0;
}
