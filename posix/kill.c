/* SPDX-License-Identifier: MIT */
/*
 * Signals of pthread_kill to another green thread: pending for that thread until it handles them.
 *
 * The kernel knows OS threads only.  So each record of a thread has a set `killed` of signals that
 * are pending for it, and the signal thread of receiver.c brings them to the green thread T,
 * wherever it is.
 *
 *   pthread_kill               signal thread                      T
 *    1 lock the table, find T   1 take a note; heavy fence         a begin of a wait: stage = WAITS
 *    2 killed |= signal;        2 lock the table, find T; not in   b wait
 *      present before? done       killed, or T blocks it? done     c stage = ENDS, light fence;
 *    3 send a note to the       3 stage WAITS: claim the wait        killed is not empty?  lock
 *      signal thread, unlock      with -EINTR, unlock, ready         and unlock the table
 *                               4 running: unlock, send the note   d stage = NONE; for each signal
 *                                 to its OS thread                   of killed that T does not
 *                               5 otherwise: unlock, try again       block: send the note to the
 *                                                                    own OS thread
 *   trampoline, with a note
 *    e interrupted T, stage NONE, T does not block the signal: remove it from killed; if it was
 *      there, call the handler
 *    f T blocks it: done.  Otherwise send the note to the signal thread again
 *
 * Invariants
 *   KILL-1  No lost signal: a signal stays in killed until a trampoline on T takes it (e), or
 *           sigwait.  If the signal thread gives up in 2 because T blocks the signal, T finds it
 *           when it unblocks it: T writes its mask, then reads killed; the signal thread reads the
 *           mask after the heavy fence.
 *   KILL-2  Step 3 claims only waits between a and c, which expect -EINTR.  By the fences T reads
 *           in c the signal that the signal thread has found in killed, and waits for its section;
 *           or the signal thread reads the stage of c or of a later wait.
 *   KILL-3  A handler runs on T in stage NONE only: T holds no lock of these protocols, which
 *           siglongjmp would leave locked.
 *   KILL-4  A signal that is pending for T already is not queued again, also a real-time one.
 *   KILL-5  Lifetime: only a thread in the table, under its lock, is used (THREAD-2).  If the
 *           pthread_t is another thread's by now, its killed does not have the signal.
 *   KILL-6  While T is in sigwait and the like, `expected` has their signals, and its OS thread
 *           blocks these: the signal thread moves them to the OS thread.  T writes expected, then
 *           reads killed.  After the call T moves what is left back, with expected 0.
 *
 * kill of the own process is replaced for main only, to which the kernel would give the signal.
 *
 * pause and sigsuspend park such a thread until a handler has run.
 *
 * If T is in a wait of a gmp_ function, or its OS thread blocks the signal, the handler runs on the
 * signal thread after TRIES, as for the main receiver.
 */
#include "posix/kill.h"

#include <sys/syscall.h>

#include "base/os.h"
#include "enter.h"
#include "m.h"
#include "park.h"
#include "posix/receiver.h"
#include "ready.h"

/* TRY_NS, TRIES: as in receiver.c. */
enum { TRY_NS = 100000, TRIES = 50, SIGSET_BYTES = 8 };

enum kill_stage { STAGE_NONE, STAGE_WAITS, STAGE_ENDS };

static struct thread *record_of(const struct g *gp)
{
	return gp && gp->fn == thread_main ? gp->arg : NULL;
}

static struct thread *self_record(void)
{
	return record_of(own_green());
}

/* Returns false if the signal is not pending. */
static bool take(struct thread *t, int signo)
{
	return and_rlx(&t->killed, ~mask_bit(signo)) & mask_bit(signo);
}

static void make_info(siginfo_t *info, int signo)
{
	*info = (siginfo_t){ .si_signo = signo, .si_code = SI_TKILL };
	info->si_pid = getpid();
	info->si_uid = getuid();
}

/* --- pthread_kill --- */

bool kill_send(struct thread *t, int signo)
{
	if (t->is_main || !receiver_has_thread())
		return false;
	if (or_rlx(&t->killed, mask_bit(signo)) & mask_bit(signo))
		return true; /* KILL-4 */
	if (receiver_send_note(0, signo, t->self) == 0)
		return true;
	and_rlx(&t->killed, ~mask_bit(signo));
	return false;
}

bool kill_reaches_caller(void)
{
	return self_record() && receiver_has_thread();
}

bool kill_is_note(const siginfo_t *info)
{
	return info->si_code == RECEIVER_CODE_NOTE;
}

bool kill_resend(const siginfo_t *info)
{
	bool note = kill_is_note(info);

	if (note) /* it was sent to an OS thread, by the number itself */
		receiver_send_note(0, info->si_signo, (pthread_t)info->si_value.sival_ptr);
	return note;
}

/* --- the signal thread --- */

/* AGAIN: at most TRIES times.  LATER: without bound. */
enum delivery { DONE, AGAIN, LATER };

/* KILL-6.  With the lock held. */
static enum delivery send_expected(struct thread *t, int signo)
{
	uint64_t ran_from;
	int64_t since;
	int tid;

	if (!m_of_running(t->g, &tid, &since, &ran_from))
		return LATER;
	if (take(t, signo) && syscall(SYS_tgkill, getpid(), tid, signo))
		or_rlx(&t->killed, mask_bit(signo)); /* t finds it in its next call */
	return DONE;
}

/* Steps 2 and 3, with the lock held.  *tid: the OS thread for step 4, or 0. */
static enum delivery find_locked(struct thread *t, int signo, int *tid, struct g **woken)
{
	uint64_t bit = mask_bit(signo), ran_from;
	int64_t since;

	if (!(ld_rlx(&t->killed) & bit))
		return DONE;
	if (ld_rlx(&t->expected) & bit)
		return send_expected(t, signo);
	if (ld_rlx(&t->mask) & bit)
		return DONE;
	if (ld_rlx(&t->stage) == STAGE_WAITS) {
		if (!receiver_cut_wait(t->g))
			return LATER; /* about to wait, or woken by something else */
		*woken = t->g;
		return DONE;
	}
	uint8_t status = ld_rlx(&t->g->status);

	if (status == G_WAITING)
		return AGAIN; /* in a wait that no handler ends */
	if (m_of_running(t->g, tid, &since, &ran_from))
		return DONE;
	*tid = 0;
	return LATER;
}

static enum delivery deliver_once(pthread_t to, int signo)
{
	enum delivery done = DONE;
	struct g *woken = NULL;
	bool handling = false;
	int tid = 0;

	sched_heavy_fence(); /* ORD(cancel): KILL-1, KILL-2 */
	threads_lock();
	struct thread *t = thread_find(to);

	if (t && t->state != THREAD_ENDED) {
		done = find_locked(t, signo, &tid, &woken);
		handling = ld_rlx(&t->handling);
	}
	threads_unlock();
	if (woken)
		ready(&woken->w);
	if (!tid)
		return done;
	if (!receiver_thread_admits(tid, signo))
		return handling ? LATER : AGAIN; /* the kernel blocks it in the handler */
	return receiver_send_note(tid, signo, to) == 0 ? DONE : AGAIN;
}

static enum delivery try_deliver(pthread_t to, int signo)
{
	if (!rt_enter())
		return DONE;
	enum delivery done = deliver_once(to, signo);

	rt_leave();
	return done;
}

/* The handler runs on the signal thread, if the signal is still pending. */
static void handle_by_thread(pthread_t to, int signo)
{
	sigset_t only = mask_set(mask_bit(signo));
	siginfo_t info;

	threads_lock();
	struct thread *t = thread_find(to);
	bool mine = t && take(t, signo);

	threads_unlock();
	if (!mine)
		return;
	make_info(&info, signo);
	receiver_send_for_thread(os_thread_id(), signo, &info);
	LIBC(pthread_sigmask)(SIG_UNBLOCK, &only, NULL);
}

void kill_deliver(const siginfo_t *note)
{
	pthread_t to = (pthread_t)note->si_value.sival_ptr;
	enum delivery done;
	int tries = 0;

	while ((done = try_deliver(to, note->si_errno)) == LATER ||
	       (done == AGAIN && tries++ < TRIES))
		os_nap(TRY_NS);
	if (done != DONE)
		handle_by_thread(to, note->si_errno);
}

/* --- the trampoline --- */

bool kill_take_sig(int signo, siginfo_t *info, const struct g *interrupted)
{
	pthread_t to = (pthread_t)info->si_value.sival_ptr;
	struct thread *t = record_of(interrupted);

	if (!t || t->self != to || ld_rlx(&t->stage) != STAGE_NONE) {
		receiver_send_note(0, signo, to);
		return false;
	}
	if (ld_rlx(&t->mask) & mask_bit(signo) || !take(t, signo))
		return false;
	make_info(info, signo);
	st_rlx(&t->handling, ld_rlx(&t->handling) + 1);
	return true;
}

void kill_handled_sig(const struct g *interrupted)
{
	struct thread *t = record_of(interrupted);

	if (t && ld_rlx(&t->handling))
		st_rlx(&t->handling, ld_rlx(&t->handling) - 1);
}

/* --- the thread --- */

static uint64_t admitted(const struct thread *t)
{
	return ld_rlx(&t->killed) & ~ld_rlx(&t->mask);
}

/* Step d. */
static noinline void run_all(struct thread *t)
{
	uint64_t bits;

	while ((bits = admitted(t))) {
		int signo = __builtin_ctzll(bits) + 1;
		sigset_t only = mask_set(mask_bit(signo));

		LIBC(pthread_sigmask)(SIG_UNBLOCK, &only, NULL);
		if (receiver_send_note(os_thread_id(), signo, t->self) ||
		    admitted(t) & mask_bit(signo))
			return; /* the signal thread tries again */
	}
}

void kill_run(void)
{
	struct thread *t = self_record();

	if (t && unlikely(admitted(t)))
		run_all(t);
}

void kill_set_mask(uint64_t mask)
{
	struct thread *t = self_record();

	if (!t)
		return;
	st_rlx(&t->mask, mask);
	sched_light_fence(); /* ORD(cancel): KILL-1 */
	if (unlikely(admitted(t)))
		run_all(t);
}

int kill_take(uint64_t set, siginfo_t *info)
{
	struct thread *t = self_record();
	uint64_t bits = t ? ld_rlx(&t->killed) & set : 0;
	int signo = bits ? __builtin_ctzll(bits) + 1 : 0;

	if (!signo || !take(t, signo))
		return 0;
	make_info(info, signo);
	return signo;
}

/* --- sigwait --- */

bool kill_expect(const sigset_t *set)
{
	struct thread *t = self_record();

	if (!t || !receiver_has_thread())
		return false;
	LIBC(pthread_sigmask)(SIG_BLOCK, set, &t->kernel_mask);
	st_rlx(&t->expected, mask_of(set));
	sched_light_fence(); /* ORD(cancel): KILL-6 */
	return true;
}

void kill_unexpect(const sigset_t *set)
{
	static const struct timespec at_once;
	struct thread *t = self_record();
	siginfo_t info;

	threads_lock();
	st_rlx(&t->expected, UINT64_C(0));
	threads_unlock();
	/* libc would show SI_TKILL as SI_USER */
	while (syscall(SYS_rt_sigtimedwait, set, &info, &at_once, SIGSET_BYTES) > 0) {
		if (info.si_code == SI_TKILL) {
			or_rlx(&t->killed, mask_bit(info.si_signo));
			continue;
		}
		if (kill_resend(&info))
			continue;
		receiver_unpack_sig(&info);
		if (receiver_send_sig(info.si_signo, &info) == 0)
			break; /* it is pending for the process: do not take it again */
	}
	LIBC(pthread_sigmask)(SIG_SETMASK, &t->kernel_mask, NULL);
}

/* --- waits --- */

void kill_wait_begin(void)
{
	struct thread *t = self_record();

	if (!t)
		return;
	st_rlx(&t->handling, 0u);
	st_rlx(&t->stage, (uint32_t)STAGE_WAITS);
}

void kill_wait_ending(void)
{
	struct thread *t = self_record();

	if (!t)
		return;
	st_rlx(&t->stage, (uint32_t)STAGE_ENDS);
	sched_light_fence(); /* ORD(cancel): KILL-2 */
	if (likely(!ld_rlx(&t->killed)))
		return;
	threads_lock();
	threads_unlock();
}

void kill_wait_ended(void)
{
	struct thread *t = self_record();

	if (t)
		st_rlx(&t->stage, (uint32_t)STAGE_NONE);
}

/* --- kill --- */

static bool has_handler(int signo)
{
	struct sigaction now;

	return sigaction(signo, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
	       now.sa_handler != SIG_IGN;
}

static bool is_own(pid_t pid, int signo)
{
	return signo > 0 && signo < _NSIG && pid == getpid() && hook_how() == HOOK_PARK &&
	       receiver_is_mine(signo) && has_handler(signo);
}

/* A signal of main to its own process is handled before the call returns.  Sent to the process, an
 * OS thread that runs nothing might have it first. */
HOOK int kill(pid_t pid, int signo)
{
	int saved = errno;
	bool own = is_own(pid, signo);

	errno = saved;
	if (!own)
		return LIBC(kill)(pid, signo);
	siginfo_t info = { .si_signo = signo, .si_code = SI_USER };
	sigset_t only = mask_set(mask_bit(signo));

	info.si_pid = pid;
	info.si_uid = getuid();
	LIBC(pthread_sigmask)(SIG_UNBLOCK, &only, NULL);
	return receiver_send_for_thread(os_thread_id(), signo, &info);
}
