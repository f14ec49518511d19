/* SPDX-License-Identifier: MIT */
/* The two ends of a wait that a signal handler may interrupt: handler.h. */
#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/call/hook.h"
#include "posix/signal/kill.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigthread.h"
#include "posix/signal/sigtable.h"

void gmp__handler_wait_begin(void)
{
	gmp__cputime_stop();
	if (!signals_used())
		return;
	struct receiver *r = receiver_self();

	if (unlikely(r && !receiver_thread()))
		sigthread_begin(); /* which waits: before the stage of this wait begins (KILL-2) */
	kill_wait_begin();
	if (unlikely(r != NULL))
		receiver_wait_begin(r);
}

/* Handle the signal on the calling OS thread, now: the kernel calls the trampoline. */
static void handle_stored(const struct receiver *r, int signo, const siginfo_t *info)
{
	if (ld_rlx(&r->mask) & mask_bit(signo)) { /* blocked meanwhile */
		siginfo_pass_sig(0, signo, info, CODE_DEFERRED);
		receiver_arrived_sig(signo);
		return;
	}
	siginfo_handle_here(info);
}

void gmp__handler_wait_end(void)
{
	gmp__cputime_start();
	if (!signals_used())
		return;
	struct receiver *r = receiver_self();
	struct signal_state *s = gmp__signal_state();
	siginfo_t info;
	int signo = 0;

	s->ran = false;
	s->restarts = true;
	kill_wait_ending();
	if (unlikely(r != NULL) && r->waits)
		signo = receiver_wait_end(r, &info);
	kill_wait_ended();
	mask_apply();
	if (signo)
		handle_stored(r, signo, &info);
	kill_run();
}
