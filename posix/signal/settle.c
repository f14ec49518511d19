/* SPDX-License-Identifier: MIT */
/*
 * Settles the signals that a child has sent to the process before its end: their handlers run
 * before a wait for the child returns.
 *
 *   SETTLE-1  A receiver (receiver.c) that has waited for a child returns after the handlers of the
 *             signals that the child had sent to the process, as natively.
 *
 * A signal that was sent before the child ended is pending for the process, in the kernel on an OS
 * thread that has accepted it, in a trampoline, or on its way to the receiver:
 *
 *   receiver R (settle_after_child)           first OS thread F, which the kernel prefers
 *    1 asked += 1; send SIG_FORWARD with       a the kernel accepts a signal: its frame, in which
 *      that number to F, unless R runs on F      SIG_FORWARD is blocked, is on the stack of F
 *    2 wait until answered >= the number       b trampoline: taken += 1; unblock SIG_FORWARD
 *    3 accept each signal that is pending      c forwarded: moving |= the signal
 *      and that R admits; handle it            d taken -= 1
 *    4 taken is 0, and moving has no such      e handler of SIG_FORWARD: answered = the number
 *      signal?  return
 *    5 nap; from 3                            trampoline that calls the handler, on any OS thread
 *                                              f moving &= ~ the signal, unless another one of the
 *                                                number waits for the signal thread; taken -= 1
 *
 * Step e comes after b of each signal that F had accepted before it got the number: the kernel
 * makes the frames of all signals before F runs, and either that of the signal is on top, or the
 * number is blocked until b.  So after 2 such a signal is found by 4, and a signal that the kernel
 * still keeps is found by 3.  A signal that another thread than F has accepted is found by 4 from b
 * on: the kernel chooses another one if F does not run and has another signal to handle.
 *
 * Each wait of R ends after SETTLE_NS.  If F has not answered MUTE times in a row (it ended, or is
 * in a system call that no signal ends), it is not asked again.
 *
 * Rejected
 *   The same after reads and polls.  After each wait steps 3 to 5 alone missed 0 to 25 % of 1,000
 *   children that wrote to a pipe after a kill.  With a question after each wait, of some 50 us,
 *   polls missed none, but reads that found data at once up to 98 %: each read would have to ask.
 */
#include "posix/signal/settle.h"

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
 * after so long the receiver releases its P, and tries again each TRY_NS; not measured. */
enum { SETTLE_NS = S, NAP_NS = 20 * US, NAPS_NS = 200 * US, MUTE = 2 };

static struct {
	uint32_t taken;      /* (a) trampolines between b and d */
	uint32_t asked;      /* (a) questions */
	uint32_t answered;   /* (a) number of the last question with an answer */
	uint32_t unanswered; /* (a) questions in a row without an answer */
} settling;

/* --- the trampoline --- */

void settle_take_sig(const void *context)
{
	uint64_t forward = mask_bit(SIG_FORWARD);
	const ucontext_t *u = context;

	add_rlx(&settling.taken, 1u);
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

static bool is_answered(uint32_t number)
{
	return (int32_t)(ld_acq(&settling.answered) - number) >= 0; /* ORD(receiver) */
}

/* Steps 1 and 2. */
static void ask_first_thread(void)
{
	int first = getpid();

	if (os_thread_id() == first || ld_rlx(&settling.unanswered) >= MUTE)
		return;
	uint32_t number = add_rlx(&settling.asked, 1u) + 1;
	int64_t begin = os_now();

	if (siginfo_send_question_sig(first, SIG_FORWARD, (int)number))
		return;
	uint32_t last = ld_rlx(&settling.answered);

	if (!is_answered(number))
		os_futex_wait(&settling.answered, last, begin + NAPS_NS);
	while (!is_answered(number) && os_now() - begin < SETTLE_NS)
		pause_settling(begin);
	st_rlx(&settling.unanswered, is_answered(number) ? 0 : ld_rlx(&settling.unanswered) + 1);
}

/* Accept a pending signal of bits.  Returns its number, with *info, or 0. */
static int take_pending(uint64_t bits, siginfo_t *info)
{
	static const struct timespec at_once;
	long signo;

	do
		signo = syscall(SYS_rt_sigtimedwait, &bits, info, &at_once, SIGSET_BYTES);
	while ((signo < 0 && errno == EINTR) ||
	       (signo > 0 && siginfo_is_note_sig(info))); /* a hint: kill.c repeats it */
	return signo > 0 ? (int)signo : 0;
}

/* Step 3. */
static void handle_pending(uint64_t bits)
{
	siginfo_t info;
	int signo;

	while ((signo = take_pending(bits, &info))) {
		siginfo_unpack_sig(&info);
		signal_unblock(signo);
		siginfo_send_for_thread_sig(os_thread_id(), signo, &info);
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
	ask_first_thread();
	handle_pending(bits);
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

/* --- the first OS thread --- */

/* What the system call takes: sigaction(2) of glibc refuses SIG_FORWARD. */
struct kernel_action {
	void (*handler)(int signo, siginfo_t *info, void *context);
	unsigned long flags;
	unsigned long rest[3]; /* where libc's handlers return to, on some machines; the mask */
};

static void on_forward(int signo, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)signo;
	(void)context;
	if (!siginfo_is_question_sig(info))
		return;
	st_rel(&settling.answered, (uint32_t)info->si_value.sival_int); /* ORD(receiver) */
	os_futex_wake(&settling.answered, INT_MAX);
	errno = saved;
}

/* The handler of SIG_FORWARD answers questions (SETTLE-1).  A handler on the signal thread may
 * unblock SIG_FORWARD by libc's pthread_sigmask: then a signal is lost, and the process does not
 * end.  It returns as libc's does.  libc sets its own before it uses SIG_FORWARD. */
void settle_begin(void)
{
	struct kernel_action now, ours;

	if (syscall(SYS_rt_sigaction, SIG_FORWARD, NULL, &now, SIGSET_BYTES) || now.handler ||
	    syscall(SYS_rt_sigaction, SIG_SETXID, NULL, &ours, SIGSET_BYTES) ||
	    (uintptr_t)ours.handler <= (uintptr_t)SIG_IGN)
		return;
	ours.handler = on_forward;
	ours.flags |= SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	syscall(SYS_rt_sigaction, SIG_FORWARD, &ours, NULL, SIGSET_BYTES);
}

void settle_forget(void)
{
	st_rlx(&settling.taken, 0u);
	st_rlx(&settling.unanswered, 0u);
}
