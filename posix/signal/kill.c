/* SPDX-License-Identifier: MIT */
/*
 * Signals of pthread_kill and raise: pending for one green thread until it takes them.
 *
 * The kernel knows OS threads only.  So each record of a thread has a set `killed` of signals that
 * are pending for it.  The signal thread (sigthread.c) brings them to the green thread T, wherever
 * it is, and repeats that until T has taken them: a note that it sends is a hint, which may come
 * late, twice, or not at all.
 *
 *   sender                    signal thread, in passes         T
 *    1 lock the table, find T  1 asked = 0; table locked: for   a start of a wait: stage = WAITS
 *    2 killed |= signal;         each listed T, offered =       b wait
 *      list T                    killed; heavy fence            c stage = ENDS; light fence; if
 *    3 unlock                  2 for each listed T, with the      killed is not empty: lock and
 *    4 asked = 1; was it 0?      table locked: killed is          unlock the table
 *      wake the signal thread    empty?  unlist T.  T blocks    d stage = NONE; for each signal of
 *                                all of it?  done with T          killed that T admits: unblock it
 *                              3 stage WAITS: claim the wait      in the kernel, send a note to
 *                                with -EINTR, unlock, ready       the own OS thread
 *                              4 running: unlock, send a note   e a new mask: mask = it; light
 *                                to its OS thread                 fence; as d
 *                              5 if a T is left that admits a
 *                                signal of killed: next pass
 *                                after TRY_NS
 *
 *   trampoline, with a note
 *    f The handler has interrupted T, in stage NONE, outside of signals_hold and of P sections, and
 *      T admits the signal: remove it from killed; if it was there, call the program's handler.
 *      Otherwise do nothing: after step 5 comes another note.
 *
 * The sender may be T itself: steps 1 to 3, then d.
 *
 * Invariants
 *   KILL-1  No lost signal: a signal stays in killed until T takes it (f, sigwait), or its action
 *           becomes SIG_IGN, or the default one while T does not block it (kill_discard).  While T
 *           admits a signal of killed, there is a next pass.  If the signal thread finds in 2 that
 *           T blocks it, T reads it in e: T writes its mask, then reads killed; the signal thread
 *           reads the mask after the heavy fence, and a signal sent later causes a later pass.
 *   KILL-2  Step 3 claims only waits between a and c, which expect -EINTR, and only for a signal
 *           that was offered.  By the fences either T reads this signal in killed in c, and waits
 *           for the section of the signal thread; or the signal thread reads the stage that T wrote
 *           in c or later.
 *   KILL-3  A handler runs on T in stage NONE only, and not between signals_hold and
 *           signals_release (SIGTAB-7): T then holds no lock that the handler may take, or that
 *           siglongjmp would leave locked.
 *   KILL-4  A signal that is pending for T already is not queued again, also a real-time one.
 *   -       Lifetime: a record is used under the table's lock only.  A record that is removed is
 *           unlisted first.  A note names no thread: it is for the thread that it interrupts.
 *   KILL-7  While T runs a handler, or is about to be in a call with a mask, the kernel may block a
 *           signal that T admits; then passes are repeated without bound (`handling`).  If the
 *           signal is blocked otherwise (BLOCKED_TRIES), or T is in a wait of a gmp_ function
 *           (TRIES), the handler runs on the signal thread, as for the main receiver.
 *
 * A signal with the default action that T blocks is in killed, too.  If T does not block it, the
 * kernel takes the action.
 *
 * kill of the own process is replaced for main only, to which the kernel would give the signal.
 * pause and sigsuspend of a thread other than main park until a handler has run.
 *
 * Verified by model/posix_kill.pml.
 */
#include "posix/signal/kill.h"

#include <string.h>
#include <sys/syscall.h>

#include "base/lock.h"
#include "base/os.h"
#include "posix/call/point.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"

/*
 * SLOW_AFTER: after so many passes without a new signal the interval doubles with each further
 * SLOW_AFTER, up to TRY_NS << SLOWEST = 6.4 ms: a T that waits for a CPU, or runs a long handler,
 * costs little.  BLOCKED_TRIES: some 300 ms, so that a thread is not given up that loses its CPU
 * where libc blocks signals (pthread_create).  Not measured.
 */
enum { BLOCKED_TRIES = 300, SLOW_AFTER = 50, SLOWEST = 6 };

enum kill_stage { STAGE_NONE, STAGE_WAITS, STAGE_ENDS };

static struct {
	struct thread
		*listed;     /* (l) threads with signals in killed; T's `at` points to its place */
	struct thread *rest; /* (l) threads that the present pass has not reached */
	uint32_t used;       /* (a) a thread has had signals in killed */
	uint32_t asked;  /* (a) the signal thread will make a pass, and clears it first: KILL-1 */
	uint32_t passes; /* (o) of the signal thread: since the last new signal */
	int64_t counted_at; /* (o) of it: the last pass that counts as a try */
	bool counts;        /* (o) of it: the present pass does; others follow a new signal */
} killer;

/* NULL also while main has not been entered in the table. */
static struct thread *self_record(void)
{
	struct thread *t = thread_of(own_green());

	return t && t->run == run_number() ? t : NULL;
}

/* Returns false if the signal is not pending. */
static bool take(struct thread *t, int signo)
{
	return and_rlx(&t->killed, ~mask_bit(signo)) & mask_bit(signo);
}

static uint64_t admitted(const struct thread *t)
{
	return ld_rlx(&t->killed) & ~ld_rlx(&t->mask);
}

static int first_of(uint64_t bits)
{
	return __builtin_ctzll(bits) + 1;
}

int kill_tid_of(const struct g *gp)
{
	/* a handler may have interrupted the holder of the lock */
	return handler_runs() ? green_tid_sig(gp) : green_tid(gp);
}

/* --- the list, with the table's lock held --- */

static void link_to(struct thread **head, struct thread *t)
{
	t->next_killed = *head;
	t->at_killed = head;
	if (t->next_killed)
		t->next_killed->at_killed = &t->next_killed;
	*head = t;
}

static void make_pending(struct thread *t, int signo)
{
	st_rlx(&killer.used, 1u);
	or_rlx(&t->killed, mask_bit(signo)); /* KILL-4 */
}

/* Step 2 of the sender. */
static void add(struct thread *t, int signo)
{
	make_pending(t, signo);
	if (!t->at_killed)
		link_to(&killer.listed, t);
}

void kill_forget(struct thread *t)
{
	memset(&killer, 0, sizeof(killer));
	if (!t)
		return;
	t->killed = 0;
	t->at_killed = NULL;
}

/* The action of signo is now the default one, or to ignore it. */
static void discard(struct thread *t, int signo, bool ignored)
{
	if (ignored || !(ld_rlx(&t->mask) & mask_bit(signo)))
		take(t, signo);
}

void kill_discard(int signo, bool ignored)
{
	if (!ld_rlx(&killer.used))
		return;
	threads_lock();
	threads_each(discard, signo, ignored);
	threads_unlock();
}

/* --- senders --- */

/* Step 4 of the sender.  Returns 0, or -1: the signal thread cannot be woken. */
static int ask(void)
{
	if (or_rlx(&killer.asked, 1u))
		return 0;
	int err = receiver_wake();

	if (err)
		st_rlx(&killer.asked, 0u);
	return err;
}

bool kill_takes(const struct thread *t, int signo, enum signal_action action)
{
	if (is_fault_signal(signo) || !receiver_has_thread() || t->run != run_number())
		return false;
	return action == ACTION_HANDLER || ld_rlx(&t->mask) & mask_bit(signo) ||
	       ld_rlx(&t->expected) & mask_bit(signo);
}

int kill_add(struct thread *t, int signo)
{
	add(t, signo);
	/* a system call under the lock: no other sender believes in a wakeup that fails */
	return ask() && take(t, signo) ? EAGAIN : 0;
}

bool kill_self(int signo)
{
	struct thread *t = self_record();
	enum signal_action action = t ? signal_action(signo) : ACTION_DEFAULT;

	if (!t || !kill_takes(t, signo, action))
		return false;
	threads_lock();
	add(t, signo);
	threads_unlock();
	kill_run();
	return true;
}

bool kill_reaches_caller(void)
{
	const struct thread *t = self_record();

	return t && !t->is_main && receiver_has_thread();
}

/* --- the signal thread --- */

/* What a pass found about a thread under the lock. */
struct attempt {
	pthread_t to;
	uint64_t bits;   /* signals for step 4 */
	int tid;         /* the OS thread for step 4; 0: none */
	bool handling;   /* KILL-7 */
	struct g *woken; /* step 3 */
	enum delivery done;
};

/* KILL-6 */
static enum delivery end_sigwait(struct thread *t, uint64_t bits, int tid)
{
	int signo = first_of(bits);

	if (!t->noted && siginfo_send_mark_sig(tid, signo, CODE_NOTE, 0) == 0)
		t->noted = signo;
	return LATER;
}

static enum delivery examine(struct thread *t, struct attempt *a)
{
	uint64_t expected = ld_rlx(&t->killed) & ld_rlx(&t->expected);
	uint64_t bits = expected ? expected : admitted(t);
	int tid;

	if (!bits) {
		t->tries = 0;
		return DONE;
	}
	bits &= t->offered;
	if (!bits)
		return LATER;
	if (!expected && ld_rlx(&t->stage) == STAGE_WAITS) {
		if (green_cut_wait(t->g))
			a->woken = t->g;
		return LATER; /* it is about to wait, or about to run */
	}
	if (green_waits(t->g, &tid))
		return AGAIN; /* in a wait that no handler ends */
	if (!tid)
		return LATER;
	if (expected)
		return end_sigwait(t, bits, tid);
	a->tid = tid;
	a->bits = bits;
	a->handling = ld_rlx(&t->handling);
	return LATER;
}

static bool is_present(const struct thread *t)
{
	return t->state != THREAD_ENDED && t->run == run_number();
}

/* Steps 2 and 3 for the next thread of the pass.  Returns false if there is none. */
static bool find_next(struct attempt *a)
{
	*a = (struct attempt){ .done = DONE };
	threads_lock();
	struct thread *t = killer.rest;

	if (t) {
		thread_unlist(t);
		if (is_present(t) && ld_rlx(&t->killed)) {
			link_to(&killer.listed, t);
			a->to = t->self;
			a->done = examine(t, a);
		}
	}
	threads_unlock();
	if (a->woken)
		green_ready(a->woken);
	return t;
}

/* Take a signal of a thread that admits it. */
static bool take_admitted(pthread_t to, int signo)
{
	threads_lock();
	struct thread *t = thread_find(to);
	bool mine = t && admitted(t) & mask_bit(signo) && take(t, signo);

	threads_unlock();
	return mine;
}

/* The signal has no handler. */
static void act(pthread_t to, int signo, enum signal_action action)
{
	if (take_admitted(to, signo) && action == ACTION_DEFAULT)
		LIBC(kill)(getpid(), signo);
}

/* Step 4. */
static enum delivery send_notes(const struct attempt *a)
{
	struct os_thread_signals s = receiver_thread_signals(a->tid);
	enum delivery done = LATER;

	for (uint64_t bits = a->bits; bits; bits &= bits - 1) {
		int signo = first_of(bits);
		enum signal_action action = signal_action(signo);

		if (action != ACTION_HANDLER)
			act(a->to, signo, action);
		else if (s.blocked & mask_bit(signo))
			done = a->handling ? done : BLOCKED;
		else if (!(s.pending & mask_bit(signo)))
			siginfo_send_mark_sig(a->tid, signo, CODE_NOTE,
					      0); /* fails: the next pass */
	}
	return done;
}

/* KILL-7: the handlers run on the signal thread, if T still admits the signals. */
static void handle_for(pthread_t to)
{
	for (int signo = 1; signo <= SIGNALS; signo++) {
		if (!take_admitted(to, signo))
			continue;
		siginfo_t info = siginfo_make_sig(signo, SI_TKILL);

		siginfo_handle_here(&info);
	}
}

/* Counts attempts in a row that may not succeed.  Returns true after the last one. */
static bool is_tried_enough(pthread_t to, enum delivery done)
{
	threads_lock();
	struct thread *t = thread_find(to);
	bool enough = false;

	if (t) {
		t->tries = done == LATER ? 0 : t->tries + killer.counts;
		enough = t->tries > (done == AGAIN ? TRIES : BLOCKED_TRIES);
		t->tries = enough ? 0 : t->tries;
	}
	threads_unlock();
	return enough;
}

/* Returns true if another pass must follow. */
static bool attempt(struct attempt *a)
{
	if (a->bits)
		a->done = send_notes(a);
	if (a->done == DONE)
		return false;
	if (is_tried_enough(a->to, a->done))
		handle_for(a->to);
	return true;
}

static bool pass(void)
{
	struct attempt a;
	bool again = false;

	threads_lock();
	killer.rest = killer.listed;
	killer.listed = NULL;
	if (killer.rest)
		killer.rest->at_killed = &killer.rest;
	for (struct thread *t = killer.rest; t; t = t->next_killed)
		t->offered = ld_rlx(&t->killed);
	threads_unlock();
	sched_heavy_fence(); /* ORD(cancel): KILL-1, KILL-2 */
	while (find_next(&a))
		again |= attempt(&a);
	return again;
}

int64_t kill_pass(void)
{
	if (ld_rlx(&killer.asked)) {
		st_rlx(&killer.asked, 0u);
		killer.passes = 0;
	} else if (!ld_rlx(&killer.listed)) {
		return 0;
	}
	if (!rt_enter())
		return 0;
	int64_t now = os_now();

	killer.counts = now - killer.counted_at >= TRY_NS;
	if (killer.counts)
		killer.counted_at = now;
	bool again = pass();

	rt_leave();
	if (!again)
		return 0;
	killer.passes++;
	return (int64_t)TRY_NS << min_of(killer.passes / SLOW_AFTER, (uint32_t)SLOWEST);
}

/* --- the trampoline --- */

/*
 * SIGPIPE and SIGXFSZ are raised by the kernel, for an OS thread.  If they interrupt a T that
 * blocks them, the trampoline adds them to killed; T is listed when it leaves them to the signal
 * thread.
 */

bool kill_is_busy_sig(const struct g *interrupted)
{
	const struct thread *t = thread_of(interrupted);

	return is_in_runtime_sig() || (t && ld_rlx(&t->stage) != STAGE_NONE);
}

uint64_t kill_pending_sig(const struct g *gp)
{
	const struct thread *t = thread_of(gp);

	return t ? ld_rlx(&t->killed) : 0;
}

bool kill_take_sig(int signo, siginfo_t *info, const struct g *interrupted)
{
	struct thread *t = thread_of(interrupted);

	if (!t || is_in_runtime_sig() || ld_rlx(&t->stage) != STAGE_NONE ||
	    !(admitted(t) & mask_bit(signo)) || !take(t, signo))
		return false;
	*info = siginfo_make_sig(signo, SI_TKILL);
	return true;
}

bool kill_keep_sig(int signo, const struct g *interrupted)
{
	struct thread *t = thread_of(interrupted);

	if (!t || !(ld_rlx(&t->mask) & mask_bit(signo)))
		return false;
	make_pending(t, signo);
	return true;
}

void kill_handler_sig(const struct g *interrupted, int change)
{
	struct thread *t = thread_of(interrupted);

	if (t && (change > 0 || ld_rlx(&t->handling)))
		st_rlx(&t->handling, ld_rlx(&t->handling) + (uint32_t)change);
}

/* --- the thread --- */

/* Step d for one signal.  Returns false if it is left to the signal thread. */
static bool run_one(struct thread *t, int signo)
{
	enum signal_action action = signal_action(signo);

	if (action == ACTION_IGNORE)
		return take(t, signo) || true;
	if (!handler_runs()) /* otherwise the kernel blocks what the handler's action names */
		signal_unblock(signo);
	if (action == ACTION_DEFAULT && take(t, signo))
		syscall(SYS_tgkill, getpid(), os_thread_id(), signo);
	else if (action == ACTION_HANDLER)
		siginfo_send_mark_sig(os_thread_id(), signo, CODE_NOTE, 0);
	return !(admitted(t) & mask_bit(signo));
}

/* Leave the signals of T to the signal thread. */
static void leave_to_passes(struct thread *t)
{
	threads_lock();
	if (!t->at_killed)
		link_to(&killer.listed, t);
	threads_unlock();
	ask();
}

/* Step d. */
static noinline void run_all(struct thread *t)
{
	int saved = errno;
	uint64_t bits;

	while ((bits = admitted(t)))
		if (!run_one(t, first_of(bits))) {
			leave_to_passes(t);
			break;
		}
	errno = saved;
}

void kill_run(void)
{
	struct thread *t = self_record();

	if (t && unlikely(admitted(t)))
		run_all(t);
}

static bool set_mask(uint64_t mask)
{
	struct thread *t = self_record();

	if (!t)
		return false;
	st_rlx(&t->mask, mask);
	sched_light_fence(); /* ORD(cancel): KILL-1 */
	return admitted(t);
}

void kill_set_mask(uint64_t mask)
{
	if (unlikely(set_mask(mask)))
		kill_run();
}

void kill_swap_mask(uint64_t mask)
{
	kill_handler_sig(own_green(), 1); /* KILL-7 */
	if (unlikely(set_mask(mask)))
		leave_to_passes(self_record());
}

void kill_swap_mask_back(uint64_t mask)
{
	kill_handler_sig(own_green(), -1);
	set_mask(mask);
}

int kill_take(uint64_t set, siginfo_t *info)
{
	struct thread *t = self_record();
	uint64_t bits = t ? ld_rlx(&t->killed) & set : 0;
	int signo = bits ? first_of(bits) : 0;

	if (!signo || !take(t, signo))
		return 0;
	*info = siginfo_make_sig(signo, SI_USER); /* libc's sigwaitinfo shows SI_TKILL as SI_USER */
	return signo;
}

/* --- sigwait --- */

/*
 *   KILL-6  While T is in sigwait and the like, `expected` has their signals, and its OS thread
 *           blocks these.  In step 4 the note is sent under the lock; it ends sigwait's call, which
 *           then takes the signal from killed.  T writes expected, then reads killed.  Before T
 *           leaves, it clears expected under the lock, and removes a note that was sent (`noted`).
 *   -       pthread_cancel sets pending, then reads expected, both under the lock; T writes
 *           expected, then reads pending under the lock.  So T sees the request, or gets a note.
 */

bool kill_expect(const sigset_t *set, sigset_t *before)
{
	struct thread *t = self_record();

	if (!t)
		return false;
	LIBC(pthread_sigmask)(SIG_BLOCK, set, before);
	st_rlx(&t->expected, mask_of(set));
	sched_light_fence(); /* ORD(cancel): KILL-6 */
	return true;
}

bool kill_is_cancelled(void)
{
	const struct thread *t = self_record();

	return t && cancel_is_pending(t);
}

void kill_cut_sigwait(struct thread *t)
{
	uint64_t bits = ld_rlx(&t->expected) & ~(mask_bit(SIGKILL) | mask_bit(SIGSTOP));
	int tid = bits ? kill_tid_of(t->g) : 0;

	if (tid)
		end_sigwait(t, bits, tid);
}

void kill_note_taken(void)
{
	struct thread *t = self_record();

	if (!t)
		return;
	threads_lock();
	t->noted = 0;
	threads_unlock();
}

void kill_unexpect(const sigset_t *before)
{
	static const struct timespec at_once;
	struct thread *t = self_record();
	siginfo_t info;

	threads_lock();
	st_rlx(&t->expected, UINT64_C(0));
	int noted = t->noted;

	t->noted = 0;
	threads_unlock();
	if (noted) { /* the kernel takes the thread's own signals before those of the process */
		sigset_t only = mask_set(mask_bit(noted));

		if (LIBC(sigtimedwait)(&only, &info, &at_once) > 0 &&
		    info.si_code != CODE_NOTE) { /* the note was merged into a signal */
			siginfo_unpack_sig(&info);
			siginfo_pass_sig(0, info.si_signo, &info, CODE_DEFERRED);
		}
	}
	LIBC(pthread_sigmask)(SIG_SETMASK, before, NULL);
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

static bool is_own(pid_t pid, int signo)
{
	return signo > 0 && signo < _NSIG && pid == getpid() && hook_how() == HOOK_PARK &&
	       receiver_is_mine(signo);
}

/* A signal of main to its own process acts before the call returns.  Sent to the process, an OS
 * thread that runs nothing might have it first. */
HOOK int kill(pid_t pid, int signo)
{
	int saved = errno;
	enum signal_action action = is_own(pid, signo) ? signal_action(signo) : ACTION_IGNORE;

	if (action == ACTION_HANDLER) {
		siginfo_t info = siginfo_make_sig(signo, SI_USER);

		if (siginfo_handle_here(&info) == 0)
			return 0;
	}
	errno = saved;
	if (action == ACTION_DEFAULT)
		return (int)syscall(SYS_tgkill, pid, os_thread_id(), signo);
	return LIBC(kill)(pid, signo); /* also if the kernel's queue is full, which stops no kill */
}
