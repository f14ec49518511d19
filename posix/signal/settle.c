/* SPDX-License-Identifier: MIT */
/*
 * Settles the signals that a child has sent to the process before its end: their handlers run
 * before a wait for the child returns.
 *
 *   SETTLE-1  A receiver (receiver.c) that has waited for a child returns after the handlers of the
 *             signals that the child had sent to the process, as natively.
 *
 * A signal that was sent before the child ended is pending for the process, in the kernel on an OS
 * thread that has accepted it, in a trampoline, or on its way to the receiver.  The kernel prefers
 * the first OS thread for kill, and that which has made the child for SIGCHLD.
 *
 *   receiver R (settle_after_child)           another OS thread T: the first one, or an M
 *    1 accept each signal that is pending      a the kernel accepts a signal: its frame, in which
 *      and that R admits; handle it              SIG_FORWARD is blocked, is on the stack of T
 *    2 send SIG_FORWARD with a question to     b trampoline: taken += 1; unblock SIG_FORWARD
 *      each T that does not sleep              c forwarded, or deferred (SIGTAB-7): moving |= the
 *    3 wait until each T has answered            signal
 *    4 taken is 0, and moving has no such      d taken -= 1
 *      signal?  return                         e handler of SIG_FORWARD: answer the question
 *    5 nap; 1; from 4                         trampoline that calls the handler, on any OS thread
 *                                              f moving &= ~ the signal, unless another one of the
 *                                                number waits for the signal thread; taken -= 1
 *
 * A signal that is not pending in 1 has been accepted.  Step e comes after b of each signal that T
 * had accepted before it got the question: the kernel makes the frames of all signals before T
 * runs, and either that of the signal is on top, or the question is blocked until b.  So after 3
 * such a signal is found by 4.  A T that sleeps in a system call has no frame that it has not run;
 * a question would end the call with EINTR, if that has no restart.  R also waits
 * until no M begins, and until the signal thread, which blocks SIG_FORWARD, does not run.  Beside
 * more than MOST_ASKED Ms, the newest are asked; a signal that another one or a thread of the
 * program has accepted is found from b on.
 *
 * Each wait of R ends after SETTLE_NS.  After MUTE questions in a row without all answers (libc has
 * replaced the handler of SIG_FORWARD) none is asked.
 *
 * Rejected
 *   The same after reads and polls.  After each wait steps 3 to 5 alone missed 0 to 25 % of 1,000
 *   children that wrote to a pipe after a kill.  With a question after each wait, of some 50 us,
 *   polls missed none, but reads that found data at once up to 98 %: each read would have to ask.
 */
#include "posix/signal/settle.h"

#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigtable.h"

/* SETTLE_NS: at a load of 20 on two CPUs the first OS thread did not run for 200 ms.
 * NAP_NS: a part of the time that a signal needs through the signal thread, some 50 us.  NAPS_NS:
 * after so long the receiver releases its P, and tries again each TRY_NS; not measured.
 * FAULT_NS: a page fault of a frame ends sooner; the wait for the child of a vfork may not. */
enum { SETTLE_NS = S, NAP_NS = 20 * US, NAPS_NS = 200 * US, FAULT_NS = 10 * MS };

/* The value of SIG_FORWARD has the number of a question and the index of T; the low 32 bits of a
 * question are the set of those T that have not answered, and the others its number.  Of more than
 * QUESTIONS at once, the oldest count as answered. */
enum { INDEX_BITS = 5, MOST_ASKED = 1 << INDEX_BITS, QUESTIONS = 16, MUTE = 2 };

static struct {
	uint32_t taken;                /* (a) trampolines between b and d */
	uint32_t asked;                /* (a) questions */
	uint32_t ended;                /* (a) questions that each T has answered; a futex */
	uint32_t unanswered;           /* (a) questions in a row that some T has not answered */
	uint64_t questions[QUESTIONS]; /* (a) at their number modulo QUESTIONS */
} settling;

/* --- the trampoline --- */

void settle_take_sig(const void *context)
{
	uint64_t forward = mask_bit(SIG_FORWARD);
	const ucontext_t *u = context;

	add_rlx(&settling.taken, 1u);
	if (run_has_threads() && own_green())
		return;                           /* INTERRUPT-2 */
	if (!(mask_of(&u->uc_sigmask) & forward)) /* not on the signal thread */
		syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &forward, NULL, SIGSET_BYTES);
}

void settle_taken_sig(void)
{
	add_rel(&settling.taken, -1u); /* ORD(receiver) */
}

/* --- the receiver --- */

/* Until something may have changed. */
static void pause_settling(int64_t begin)
{
	int64_t now = os_now();

	if (now - begin < NAPS_NS) {
		os_nap(NAP_NS);
		return;
	}
	if (HANDLER_WAIT(gmp_sleep_until(now + TRY_NS)))
		os_nap(TRY_NS);
}

/* The set of T that have not answered. */
static uint32_t open_answers(uint32_t number)
{
	uint64_t q = ld_acq(&settling.questions[number % QUESTIONS]); /* ORD(receiver) */

	return q >> 32 == number ? (uint32_t)q : 0;
}

/* T answers, or cannot be asked. */
static void answer_sig(uint32_t number, unsigned index)
{
	uint64_t *at = &settling.questions[number % QUESTIONS], q = ld_rlx(at);

	do {
		if (q >> 32 != number)
			return;
	} while (!cas_rel(at, &q, q & ~(UINT64_C(1) << index))); /* ORD(receiver) */
	if ((uint32_t)q == UINT32_C(1) << index) {
		add_rlx(&settling.ended, 1u);
		os_futex_wake(&settling.ended, INT_MAX);
	}
}

static int list_asked(int *tids)
{
	int n;

	signals_hold();
	n = run_m_tids(tids, MOST_ASKED - 1);
	signals_release();
	tids[n++] = getpid();
	return n;
}

/* Which T of the set do not sleep?  faults: an uninterruptible sleep does not count. */
static uint32_t awake_of(uint32_t set, const int *tids, bool faults)
{
	for (unsigned i = 0; i < MOST_ASKED; i++) {
		char state = set >> i & 1 ? os_thread_state(tids[i]) : 0;

		if (state == 'S' || (state == 'D' && !faults))
			set &= ~(UINT32_C(1) << i);
	}
	return set;
}

/* Step 2.  Returns the number of the question. */
static uint32_t ask(const int *tids, uint32_t set)
{
	uint32_t number = (add_rlx(&settling.asked, 1u) + 1) & (UINT32_MAX >> INDEX_BITS);

	st_rlx(&settling.questions[number % QUESTIONS], (uint64_t)number << 32 | set);
	for (unsigned i = 0; i < MOST_ASKED; i++)
		if (set >> i & 1 && siginfo_send_mark_sig(tids[i], SIG_FORWARD, CODE_QUESTION,
							  (int)(number << INDEX_BITS | i)))
			answer_sig(number, i);
	return number;
}

/* Steps 2 and 3. */
static void ask_threads(void)
{
	int tids[MOST_ASKED], n, self;
	int64_t begin = os_now();
	uint32_t set = 0, ended = ld_rlx(&settling.ended);
	bool asks = ld_rlx(&settling.unanswered) < MUTE;

	while (os_threads_begin() && os_now() - begin < SETTLE_NS)
		pause_settling(begin);
	n = asks ? list_asked(tids) : 0;
	self = os_thread_id();
	for (int i = 0; i < n; i++)
		if (tids[i] != self && (tids[i] != getpid() || i == n - 1))
			set |= UINT32_C(1) << i;
	uint32_t number = ask(tids, awake_of(set, tids, true));

	if (open_answers(number))
		os_futex_wait(&settling.ended, ended, begin + NAPS_NS);
	while (((set = awake_of(open_answers(number), tids, os_now() - begin < FAULT_NS)) ||
		os_thread_state(receiver_thread()) == 'R') &&
	       os_now() - begin < SETTLE_NS)
		pause_settling(begin);
	if (asks)
		st_rlx(&settling.unanswered, set ? ld_rlx(&settling.unanswered) + 1 : 0);
}

/* Accept a pending signal of bits.  Returns false if there is none. */
static bool take_pending(uint64_t bits, siginfo_t *info)
{
	static const struct timespec at_once;
	long signo;

	do
		signo = syscall(SYS_rt_sigtimedwait, &bits, info, &at_once, SIGSET_BYTES);
	while ((signo < 0 && errno == EINTR) ||
	       (signo > 0 && info->si_code == CODE_NOTE)); /* a hint: kill.c repeats it */
	return signo > 0;
}

/* Step 1. */
static void handle_pending(uint64_t bits)
{
	siginfo_t info;

	while (take_pending(bits, &info)) {
		siginfo_unpack_sig(&info);
		siginfo_handle_here(&info);
	}
}

static uint64_t handled_by(const struct receiver *r)
{
	return signal_handled() & ~ld_rlx(&r->mask) & ~signal_undeferred() & ~mask_of_writes();
}

void settle_after_child(void)
{
	const struct receiver *r = receiver_self();
	uint64_t bits = r ? handled_by(r) : 0;
	int saved = errno;

	if (!bits)
		return;
	handle_pending(bits);
	ask_threads();
	int64_t begin = os_now();

	while (ld_acq(&settling.taken) || receiver_is_moving(bits)) { /* 4; ORD(receiver) */
		if (os_now() - begin >= SETTLE_NS) {
			receiver_drop_moving(bits);
			break;
		}
		pause_settling(begin);
		handle_pending(bits);
	}
	errno = saved;
}

/* --- an OS thread that is asked --- */

/* What the system call takes: sigaction(2) of glibc refuses SIG_FORWARD. */
struct kernel_action {
	void (*handler)(int signo, siginfo_t *info, void *context);
	unsigned long flags;
	unsigned long rest[3]; /* where libc's handlers return to, on some machines; the mask */
};

static handler_fn libcs; /* (a) libc's handler, which on_forward has replaced; or NULL */

static void on_forward(int signo, siginfo_t *info, void *context)
{
	uint32_t value = (uint32_t)info->si_value.sival_int;
	handler_fn next = ld_rlx(&libcs);
	int saved = errno;

	if (info->si_code == CODE_QUESTION && info->si_pid == getpid())
		answer_sig(value >> INDEX_BITS, value % MOST_ASKED);
	else if (next && info->si_code == SI_TKILL)
		next(signo, info, context);
	errno = saved;
}

/* Give SIG_FORWARD the handler, with flags; now: its present action. */
static void install(const struct kernel_action *now, unsigned long flags)
{
	struct kernel_action ours;

	if (syscall(SYS_rt_sigaction, SIG_SETXID, NULL, &ours, SIGSET_BYTES) ||
	    (uintptr_t)ours.handler <= (uintptr_t)SIG_IGN)
		return;
	if (now->handler && now->handler != on_forward)
		st_rlx(&libcs, now->handler);
	ours.handler = on_forward;
	ours.flags = (ours.flags & ~(unsigned long)SA_RESTART) | SA_SIGINFO | SA_ONSTACK | flags;
	syscall(SYS_rt_sigaction, SIG_FORWARD, &ours, NULL, SIGSET_BYTES);
}

/* The handler of SIG_FORWARD answers questions (SETTLE-1).  A handler on the signal thread may
 * unblock SIG_FORWARD by libc's pthread_sigmask: then a signal is lost, and the process does not
 * end.  It returns as libc's does.  libc sets its own before it uses SIG_FORWARD. */
void settle_begin(void)
{
	struct kernel_action now;

	if (syscall(SYS_rt_sigaction, SIG_FORWARD, NULL, &now, SIGSET_BYTES) == 0 &&
	    (!now.handler || (now.handler == on_forward && !run_has_threads())))
		install(&now, SA_RESTART);
}

void settle_interrupts(void)
{
	struct kernel_action now;

	if (syscall(SYS_rt_sigaction, SIG_FORWARD, NULL, &now, SIGSET_BYTES) == 0 &&
	    (now.handler != on_forward || now.flags & SA_RESTART))
		install(&now, 0);
}

void settle_forget(void)
{
	memset(&settling, 0, sizeof(settling));
}
