/* SPDX-License-Identifier: MIT */
/*
 * Signal handlers and waits: which code a handler interrupts, and what the replacements do then.
 *
 * Rule for a replacement that waits and that POSIX lets a handler interrupt:
 *
 *   result = HANDLER_WAIT(a wait that returns a negative errno: gmp_poll, gmp_sleep_until ...);
 *   if (result == -EINTR && the call is restarted by SA_RESTART && handler_restarts())
 *           wait again, with the same deadline
 *
 * A call that POSIX or Linux never restarts (poll, select, nanosleep, sem_timedwait, sigtimedwait,
 * a call with SO_RCVTIMEO ...) returns EINTR in any case.  A call that never returns EINTR (a
 * mutex, a join) may use it too, and waits again: its handlers then run on the green thread itself.
 * Between handler_wait_begin and handler_wait_end, which are around the wait, the handlers of the
 * green thread are deferred, so waits of the
 * runtime and its locks are safe from siglongjmp.  The handlers run in handler_wait_end, which may
 * therefore not return.  Call both with no lock held.  Pairs do not nest.
 *
 * Blocking code (HOOK_BLOCKING) needs nothing of this: the kernel interrupts it.  There
 * handler_call_begin and handler_has_run tell whether a handler has interrupted a call.
 */
#ifndef GMP_POSIX_HANDLER_H
#define GMP_POSIX_HANDLER_H

#include <gmp.h>

#include "base/atomic.h"
#include "base/base.h"
#include "base/tls.h"

/*
 * (a) What waits must do more; never cleared.
 *
 * USED_SIGNALS  the program has installed a handler, or has changed a mask
 * USED_CLOCKS   a green thread uses the clock of its CPU time (cputime.c)
 */
enum { USED_SIGNALS = 1, USED_CLOCKS = 2 };
extern uint32_t gmp__signals_used __attribute__((visibility("hidden")));

/* The slow paths of the functions below: gmp__handler_runs in handler.c, the waits in
 * signal/waits.c. */
bool gmp__handler_runs(void);
void gmp__handler_wait_begin(void);
void gmp__handler_wait_end(void);

/* In blocking code (signal/mask.c): the OS thread gets the mask of the calling green thread, if
 * that handles signals. */
void mask_apply(void);

/* Steps a and b of cputime.c for the caller, a green thread; nothing if it does not use the
 * clock. */
void gmp__cputime_stop(void);
void gmp__cputime_start(void);

static inline bool signals_used(void)
{
	return unlikely(ld_rlx(&gmp__signals_used) & USED_SIGNALS);
}

/* True in a handler, which must not park: the OS thread's signal mask would stay as it is. */
static inline bool handler_runs(void)
{
	return signals_used() && gmp__handler_runs();
}

static inline void handler_wait_begin(void)
{
	if (unlikely(ld_rlx(&gmp__signals_used)))
		gmp__handler_wait_begin();
}

static inline void handler_wait_end(void)
{
	if (unlikely(ld_rlx(&gmp__signals_used)))
		gmp__handler_wait_end();
}

/* The value of call, a wait that a handler may interrupt. */
#define HANDLER_WAIT(call)                                                                         \
	({                                                                                         \
		handler_wait_begin();                                                              \
		__auto_type handler_waited_ = (call);                                              \
		handler_wait_end();                                                                \
		handler_waited_;                                                                   \
	})

/* Around gmp_block_leave, gmp_yield or gmp_checkpoint, outside of such a pair: the CPU clock of the
 * caller, if it is used, counts one OS thread before and another one after. */
static inline void handler_block_ending(void)
{
	if (unlikely(ld_rlx(&gmp__signals_used) & USED_CLOCKS))
		gmp__cputime_stop();
}

static inline void handler_block_ended(void)
{
	if (unlikely(ld_rlx(&gmp__signals_used) & USED_CLOCKS))
		gmp__cputime_start();
}

/* Let others run; the caller's CPU clock stops meanwhile.  hook_checkpoint: if it must. */
static inline void hook_yield(void)
{
	handler_block_ending();
	gmp_yield();
	handler_block_ended();
}

static inline void hook_checkpoint(void)
{
	handler_block_ending();
	gmp_checkpoint();
	handler_block_ended();
}

static inline void handler_call_begin(void)
{
	if (signals_used())
		gmp__signal_state()->ran = false;
}

/* Has a handler run on this OS thread since handler_call_begin?  True also if no handler is known
 * here: code that is not replaced may have installed one. */
static inline bool handler_has_run(void)
{
	return !signals_used() || gmp__signal_state()->ran;
}

/* All handlers that ran in the last handler_wait_end have SA_RESTART. */
static inline bool handler_restarts(void)
{
	return gmp__signal_state()->restarts;
}

/* Around code that no handler may interrupt, since siglongjmp would leave a lock of it.  Sections
 * may nest, and do not wait: SIGTAB-7 of signal/trampoline.c. */
static inline void signals_hold(void)
{
	gmp__signal_state()->holds++;
}

void signals_deliver(struct signal_state *s);

static inline void signals_release(void)
{
	struct signal_state *s = gmp__signal_state();

	if (--s->holds == 0 && unlikely(s->deferred))
		signals_deliver(s);
}

#endif
