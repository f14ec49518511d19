/* SPDX-License-Identifier: MIT */
/*
 * Deadlines, sleep, timers and ticks on the monotonic clock.
 *
 * Waits with a deadline, sleeps, ticks and timers together take at most three quarters of a P's
 * time while other green threads are runnable there (docs/limits.md).
 */
#ifndef GMPRT_TIME_H
#define GMPRT_TIME_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GMP_FOREVER INT64_MAX /* the deadline that never comes */

/* Durations in nanoseconds, of type int64_t: gmp_sleep(250 * GMP_MS), gmp_deadline(2 * GMP_S). */
#define GMP_US INT64_C(1000)
#define GMP_MS INT64_C(1000000)
#define GMP_S INT64_C(1000000000)

/*
 * gmp_now - present time on the monotonic clock
 *
 * Returns nanoseconds. In virtual time (GMP_VIRTUAL_TIME) those of the virtual clock.
 */
GMP_API int64_t gmp_now(void);

/*
 * gmp_deadline - the deadline that lies a duration ahead
 *
 * ns  nanoseconds from now; 0 or less gives a deadline that has passed
 *
 * Returns gmp_now() + ns, saturating at GMP_FOREVER.
 */
GMP_API int64_t gmp_deadline(int64_t ns);

/*
 * gmp_sleep - sleep for a duration
 *
 * ns  nanoseconds; 0 or less yields
 *
 * Precision: that of the kernel's timers, except that all deadlines within 50 us after the next one
 * may be waited for together. If other green threads are runnable, the sleeper runs before them at
 * the next switch of its P; none is interrupted for it. So do waits with a deadline, ticks and
 * timers: the green thread whose deadline has come runs before the runnable ones.
 *
 * Returns 0 when the time has passed.
 * Errors:
 *   -ECANCELED  the calling green thread was cancelled before that
 */
GMP_API int gmp_sleep(int64_t ns);

/*
 * gmp_sleep_until - sleep until a deadline
 *
 * deadline  nanoseconds on the clock of gmp_now(); a deadline in the past yields
 *
 * Returns and errors: as gmp_sleep.
 */
GMP_API int gmp_sleep_until(int64_t deadline);

/* ------------------------------------------------------------------ Timers */

/*
 * A timer runs a function on a green thread of its own at a deadline, once or periodically.
 *
 * A timer belongs to the run that made it. Source: Go's time.AfterFunc.
 *
 * Example:
 *   static void flush(void *n) { __atomic_add_fetch((int *)n, 1, __ATOMIC_RELAXED); }
 *
 *   static void app(void *arg)
 *   {
 *           static int flushed;
 *           gmp_timer *t = gmp_timer_new(flush, &flushed);
 *
 *           (void)arg;
 *           gmp_timer_set(t, gmp_deadline(5 * GMP_MS), 5 * GMP_MS);     // every 5 ms
 *           while (__atomic_load_n(&flushed, __ATOMIC_RELAXED) < 3)
 *                   gmp_sleep(GMP_MS);
 *           gmp_timer_free(t);
 *   }
 */
typedef struct gmp_timer gmp_timer;

/*
 * gmp_timer_new - make a timer, not armed
 *
 * fn   the function that each expiry runs on a green thread of its own
 * arg  its argument
 *
 * Returns the timer; NULL without memory, without fn, or without a runtime. Free it by
 * gmp_timer_free.
 */
GMP_API gmp_timer *gmp_timer_new(gmp_fn fn, void *arg);

/*
 * gmp_timer_set - arm a timer; replaces what was set before
 *
 * t         the timer
 * deadline  the first expiry, nanoseconds on the clock of gmp_now(); GMP_FOREVER disarms
 * period    nanoseconds between further expiries; 0: only one
 *
 * Runs of fn may overlap. Missed periods are dropped, counted by gmp_stats.timers_skipped, and the
 * phase is kept; a period in which the run of an earlier one has not begun counts as missed, and so
 * does one for which no green thread can be started (max_green, max_stack_memory, memory). Without
 * a period the run is late then: the timer stays armed, and has precedence over spawns when a green
 * thread ends. After a run whose next expiry would be at GMP_FOREVER or later, the timer is no
 * longer armed.
 *
 * Returns 1 if the timer was armed, otherwise 0.
 * Errors:
 *   -EINVAL  t is NULL, or period is negative
 *   -ESRCH   the run that made the timer has ended
 */
GMP_API int gmp_timer_set(gmp_timer *t, int64_t deadline, int64_t period);

/*
 * gmp_timer_stop - disarm a timer
 *
 * t  the timer
 *
 * It does not wait for a running fn.
 *
 * Returns 1 if this call stopped the timer, otherwise 0.
 * Errors: as gmp_timer_set.
 */
GMP_API int gmp_timer_stop(gmp_timer *t);

/*
 * gmp_timer_free - disarm and free a timer
 *
 * t  the timer; NULL is a no-op. After the end of its run the call only frees.
 *
 * It waits for a running fn, unless it is called from that fn. Cancellation does not cut it short.
 * No other call with t may follow.
 */
GMP_API void gmp_timer_free(gmp_timer *t);

/* ------------------------------------------------------------------- Ticks */

/*
 * gmp_tick_new - make a channel that receives the time of each tick
 *
 * first   time of the first tick: a deadline on the clock of gmp_now()
 * period  nanoseconds between further ticks; 0: only the first
 *
 * The channel has elements of int64_t and a capacity of 1. A slow receiver loses ticks; the phase
 * is kept. No green thread is made for a tick.
 *
 * A tick belongs to the run that made it. After that run, a receive that finds no tick is -ESRCH,
 * also for an external thread that waits when the run ends; a gmp_select with several cases
 * continues to wait for the others.
 *
 * Returns the channel; NULL without memory, without a runtime, or for a negative period. Free it by
 * gmp_tick_free. gmp_chan_free of it is misuse.
 *
 * Source: Go's time.NewTicker.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           gmp_chan *c = gmp_tick_new(gmp_deadline(GMP_MS), GMP_MS);
 *           int64_t before, after;
 *
 *           (void)arg;
 *           gmp_chan_recv(c, &before);
 *           gmp_chan_recv(c, &after);
 *           assert(after > before && (after - before) % GMP_MS == 0);
 *           gmp_tick_free(c);
 *   }
 */
GMP_API gmp_chan *gmp_tick_new(int64_t first, int64_t period);

/*
 * gmp_tick_free - stop a tick and free its channel
 *
 * c  a channel of gmp_tick_new; NULL is a no-op. Any other channel is misuse, and so is a channel
 *    with a waiter.
 */
GMP_API void gmp_tick_free(gmp_chan *c);

#ifdef __cplusplus
}
#endif

#endif
