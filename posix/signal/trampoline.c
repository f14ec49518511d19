/* SPDX-License-Identifier: MIT */
/*
 * Trampoline: the kernel calls it for each signal with a handler.  It calls the program's handler,
 * or sends the signal to where it belongs.
 *
 *   kernel ──> trampoline, on any OS thread ──> route_sig
 *                                                 here: note the stack, call the handler
 *                                                 elsewhere: return
 *
 * The trampoline runs on the alternate stack (SA_ONSTACK), as handlers do that exist when a run
 * begins (SIGNAL-1 of monitor/faultsig.c).  `low` and `high` of the thread-local signal_state are
 * the part of that stack below the trampoline's frame, the range of the handler.  A replaced
 * function that runs there is called by a handler: it is libc's, since a handler must not park (the
 * mask of the OS thread would stay as it is).
 *
 * A signal that no receiver admits is blocked: an OS thread of the runtime that gets it adds it to
 * the mask of the interrupted code, which blocks it from then on, and sends it to the process
 * again.  It ends up pending, where sigwait, signalfd and sigpending find it, or on an external
 * thread that admits it.
 *
 * Invariants
 *   -         The range is valid only for code on that stack below it.  So a handler that leaves by
 *             siglongjmp or pthread_exit needs no clean-up.
 *   SIGTAB-7  A handler may call pthread_kill, and may leave by siglongjmp.  So none interrupts a
 *             section with a lock of posix/ or of the runtime that other threads take, too.
 *             Between signals_hold and signals_release the trampoline blocks the signal in the
 *             interrupted code and sends it to the own OS thread again; signals_release unblocks
 *             it.  Notes are dropped: kill.c repeats them.  Such a section does not wait, so its
 *             OS thread stays the same.  A call that waits is in HANDLER_WAIT.
 *   SIGTAB-8  SA_RESETHAND is done by the trampoline that calls the handler.  The kernel would
 *             reset the action at the first trampoline, which may forward the signal.
 *   SIGTAB-9  SIGPIPE and SIGXFSZ, which the kernel raises for a write, are the writing green
 *             thread's.  No OS thread of a green thread blocks them for it, so they interrupt it at
 *             once: the trampoline calls the handler there, or makes the signal pending for the
 *             green thread if that blocks it.
 *   RECEIVER-5  Faults are handled by the OS thread that gets them, and so are signals that were
 *               sent to one thread (si_code SI_TKILL), unless it runs a busy receiver or a thread
 *               in a wait (RECEIVER-3, KILL-3): then they are forwarded.  Those of pthread_kill to
 *               a green thread are brought to it by kill.c.
 *   RECEIVER-10 The kernel sends the ticks of ITIMER_PROF and ITIMER_VIRTUAL to the OS thread that
 *               uses the CPU.  So the green thread that a tick interrupts handles it, unless that
 *               is busy or in the runtime: then main does.
 */
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/call/hook.h"
#include "posix/signal/kill.h"
#include "posix/signal/receiver.h"
#include "posix/signal/settle.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigtable.h"

/* Of the stack below a handler on a stack that is not known. */
enum { HANDLER_ROOM = 64 * 1024 };

/* A signal in the trampoline. */
struct taken_signal {
	int signo;
	bool by_default; /* the kernel had the default trampoline when it took the signal */
	siginfo_t *info;
	void *context;
	struct g *gp; /* the green thread that it interrupted, or NULL */
	int error;    /* errno of the interrupted code */
	bool taken;   /* SETTLE-1: it counts as taken */
};

/* --- routes: true if the handler must run here; otherwise the signal was sent elsewhere --- */

static bool is_runtimes_thread_sig(void)
{
	return getm() || gmp__blockedm() || gmp__signal_state()->ours;
}

/* No receiver admits the signal. */
static bool route_blocked_sig(const struct taken_signal *d, const struct receiver *main)
{
	if (!is_runtimes_thread_sig())
		return true;
	if (mask_of_writes() & mask_bit(d->signo) && kill_keep_sig(d->signo, main->gp))
		return false; /* SIGTAB-9: no OS thread may block it */
	sigaddset(&((ucontext_t *)d->context)->uc_sigmask, d->signo);
	if (siginfo_pass_sig(0, d->signo, d->info, CODE_DEFERRED))
		return true;
	receiver_arrived_sig(d->signo);
	return false;
}

static bool is_busy_sig(const struct receiver *r, const struct g *gp)
{
	return (r && ld_rlx(&r->busy)) || kill_is_busy_sig(gp);
}

/* RECEIVER-10 */
static bool is_own_tick_sig(const struct taken_signal *d)
{
	const struct signal_state *s = gmp__signal_state();
	uint64_t mask = s->has_mask ? s->mask : receiver_default_mask();

	return (d->signo == SIGPROF || d->signo == SIGVTALRM) && d->info->si_code == SI_KERNEL &&
	       d->gp && green_has_own_tls(d->gp) && !(mask & mask_bit(d->signo)) &&
	       !is_busy_sig(receiver_of_sig(d->gp), d->gp);
}

/* handled: the program has a handler.  for_thread: CODE_FOR_THREAD, or raised for a write. */
static bool route_sig(const struct taken_signal *d, bool handled, bool for_thread)
{
	const struct receiver *main = receiver_main_sig(), *r = receiver_of_sig(d->gp);

	if (!main || is_fault_signal(d->signo))
		return true;
	if (for_thread || d->info->si_code == SI_TKILL) /* RECEIVER-5 */
		return !handled || !is_busy_sig(r, d->gp) || !receiver_forward_sig(d->info);
	if (!receiver_admits(d->signo))
		return route_blocked_sig(d, main);
	if (!handled) /* its action is one of the process */
		return true;
	bool for_main = receiver_takes_sig(main, d->signo);

	if (is_own_tick_sig(d) || (!for_main && !is_runtimes_thread_sig()))
		return true;
	if (r && (r == main || !for_main) && receiver_takes_sig(r, d->signo) &&
	    !is_busy_sig(r, d->gp))
		return true;
	return !receiver_forward_sig(d->info);
}

/* --- the handler --- */

static uintptr_t low_end_sig(const ucontext_t *u, uintptr_t frame)
{
	uintptr_t low = (uintptr_t)u->uc_stack.ss_sp;
	size_t size;
	const struct g *gp = own_green();

	if (!(u->uc_stack.ss_flags & SS_DISABLE) && frame - low < u->uc_stack.ss_size)
		return low;
	if (gp && is_on_stack_sig(gp, frame))
		return (uintptr_t)green_stack(gp, &size);
	return frame - HANDLER_ROOM;
}

/* Take the default action of a signal for which the kernel has the trampoline. */
static void default_action_sig(int signo)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (does_nothing_by_default(signo))
		return;
	LIBC(sigaction)(signo, &dfl, NULL);
	signal_dropped_sig(signo);
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo); /* when the trampoline returns */
}

static void note_run_sig(struct signal_state *s, int signo)
{
	struct sigaction now;

	s->ran = true;
	if (s->restarts && LIBC(sigaction)(signo, NULL, &now) == 0) /* after siginterrupt, too */
		s->restarts = now.sa_flags & SA_RESTART;
}

/* SIGTAB-8.  Returns the handler if it is the caller's to call. */
static handler_fn reset_sig(int signo, handler_fn handler)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL }, k;
	uint64_t before = sigtable_lock();

	if (signal_resets_sig(signo)) {
		k = sigtable_for_kernel(signo, &dfl, receiver_defers(signo), true);
		sigtable_set(signo, &dfl);
		LIBC(sigaction)(signo, &k, NULL);
	} else {
		handler = signal_handler_sig(signo);
	}
	sigtable_unlock(before);
	return handler;
}

static void end_taken_sig(struct taken_signal *d)
{
	if (d->taken)
		settle_taken_sig();
	d->taken = false;
}

/* by_default: the default action, if there is no handler; otherwise SIGTAB-6.  Returns whether a
 * handler has run. */
static bool call_handler_sig(struct taken_signal *d, bool by_default)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	handler_fn handler = signal_handler_sig(d->signo);
	struct signal_state *s = gmp__signal_state(), before = *s;

	if (is_function_sig(handler)) {
		note_run_sig(s, d->signo);
		if (signal_resets_sig(d->signo))
			handler = reset_sig(d->signo, handler);
	}
	if (!is_function_sig(handler)) {
		if (!handler && by_default)
			default_action_sig(d->signo);
		return false;
	}
	d->info->si_errno = 0;
	s->low = low_end_sig(d->context, frame);
	s->high = frame;
	kill_handler_sig(d->gp, 1);
	receiver_arrived_sig(d->signo);
	end_taken_sig(d);
	errno = d->error;
	handler(d->signo, d->info, d->context); /* one without SA_SIGINFO ignores two arguments */
	kill_handler_sig(d->gp, -1);
	s->low = before.low;
	s->high = before.high;
	return true;
}

/* A note of kill.c, or what the kernel made of one: without memory it loses the siginfo. */
static bool is_note_sig(int signo, const siginfo_t *info, const struct g *gp)
{
	bool lost = info->si_code == SI_USER && info->si_pid == 0 && info->si_uid == 0;

	return info->si_code == CODE_NOTE || (lost && kill_pending_sig(gp) & mask_bit(signo));
}

/* SIGTAB-7.  info was unpacked. */
static void defer_sig(int signo, bool for_thread, const siginfo_t *info, void *context)
{
	struct signal_state *s = gmp__signal_state();

	sigaddset(&((ucontext_t *)context)->uc_sigmask, signo);
	s->deferred |= mask_bit(signo);
	receiver_moves_sig(signo);
	siginfo_pass_sig(os_thread_id(), signo, info,
			 for_thread ? CODE_FOR_THREAD : CODE_FORWARDED);
}

/* Both return whether a handler has run. */
static bool take_note_sig(struct taken_signal *d)
{
	uint32_t epoch = signal_epoch_sig(d->signo);

	return !gmp__signal_state()->holds && kill_take_sig(d->signo, d->info, d->gp) &&
	       call_handler_sig(d, epoch == signal_epoch_sig(d->signo));
}

/* Was it raised for a write of the green thread?  Or sent by kill of the own process, which looks
 * the same. */
static bool is_of_write_sig(const struct taken_signal *d)
{
	return mask_of_writes() & mask_bit(d->signo) && d->gp && d->info->si_code == SI_USER &&
	       d->info->si_pid == getpid();
}

static bool take_signal_sig(struct taken_signal *d)
{
	bool for_thread = d->info->si_code == CODE_FOR_THREAD || is_of_write_sig(d);
	bool passed_on = d->info->si_code != SI_TIMER; /* if it is a timer's */
	bool forwarded = siginfo_unpack_sig(d->info),
	     handled = is_function_sig(signal_handler_sig(d->signo));
	bool accepted = forwarded || !d->by_default || siginfo_is_stale_sig(d->info);

	if (is_of_write_sig(d) && kill_keep_sig(d->signo, d->gp))
		return false;
	if ((accepted && !handled) || (passed_on && siginfo_timer_is_gone_sig(d->info))) {
		receiver_arrived_sig(d->signo);
		return false; /* SIGTAB-6 */
	}
	if (handled && gmp__signal_state()->holds && !is_fault_signal(d->signo)) {
		defer_sig(d->signo, for_thread, d->info, d->context);
		return false;
	}
	return route_sig(d, handled, for_thread) && call_handler_sig(d, d->by_default);
}

static void take_sig(int signo, bool by_default, siginfo_t *info, void *context)
{
	int error = errno;

	settle_take_sig(context);
	struct taken_signal d = {
		.signo = signo,
		.by_default = by_default,
		.info = info,
		.context = context,
		.gp = interrupted_green_sig(context),
		.error = error,
		.taken = true,
	};
	/* a handler may change errno, as natively */
	bool ran = is_note_sig(signo, info, d.gp) ? take_note_sig(&d) : take_signal_sig(&d);

	end_taken_sig(&d);
	if (!ran)
		errno = error;
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

__attribute__((constructor(102))) static void begin(void)
{
	os_threads_block_signals = true;
	sigtable_begin(trampoline, default_trampoline);
}
