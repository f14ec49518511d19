/* SPDX-License-Identifier: MIT */
/*
 * Pools: many tasks on reused green threads, with a bound on the tasks that have begun (ants, for
 * Go).
 */
#ifndef GMPRT_POOL_H
#define GMPRT_POOL_H

#include "base.h"
#include "time.h" /* GMP_FOREVER, gmp_deadline */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A pool runs at most `capacity` tasks at a time.
 *
 * A task that has been accepted holds a place. A task gets a green thread of its own if it has to
 * wait or runs beside others; tasks that end without having waited share one. The worker that
 * became free last is used next.
 *
 * A task must leave its green thread as it found it: not locked to an OS thread, not in blocking
 * code, without a cancel mask. What it sets by gmp_key_set, later tasks find. A task that calls
 * gmp_exit ends its worker and frees its place; so does a cancelled task. In C++ no exception may
 * leave a task.
 *
 * A pool belongs to the run that made it: after that run all calls return -ESRCH, its tasks are
 * killed at shutdown with the other green threads, and gmp_pool_free only frees.
 *
 * Example:
 *   static void handle(void *sum) { __atomic_add_fetch((int *)sum, 1, __ATOMIC_RELAXED); }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_pool_opts o = GMP_POOL_OPTS_INIT;
 *           int sum = 0;
 *
 *           (void)arg;
 *           o.fn = handle;                                  // one function for all tasks
 *
 *           gmp_pool *p = gmp_pool_new(10, &o);             // o may be NULL
 *
 *           for (int i = 0; i < 100; i++)
 *                   gmp_pool_invoke(p, &sum);               // waits while ten are being handled
 *           gmp_pool_release(p, gmp_deadline(5 * GMP_S));   // -ETIMEDOUT: some still run
 *           gmp_pool_free(p);                               // waits for those
 *           assert(sum == 100);
 *   }
 */
typedef struct gmp_pool gmp_pool;

/* Options of gmp_pool_new. */
typedef struct gmp_pool_opts {
	size_t size;       /* set by GMP_POOL_OPTS_INIT */
	gmp_fn fn;         /* of gmp_pool_invoke */
	int nonblocking;   /* 1: submitting never waits */
	int max_waiting;   /* most submitters that wait; 0: no limit */
	int64_t idle_ns;   /* a worker unused for that long ends (at most a quarter later), in
	                      nanoseconds; 0: one second; GMP_FOREVER: never. As long as a worker
	                      will end so, no deadlock is reported */
	int prealloc;      /* 1: memory for `capacity` workers and tasks is taken by gmp_pool_new */
	const char *name;  /* of the workers, in every diagnostic; copied, at most 63 bytes */
	size_t stack_size; /* of a worker, bytes; 0: the runtime's */
	void (*dropped)(gmp_fn fn, void *arg); /* gets the delayed tasks that a release drops */
} gmp_pool_opts;
#define GMP_POOL_OPTS_INIT GMP_SIZED_INIT_(gmp_pool_opts)

/*
 * gmp_pool_new - make a pool
 *
 * capacity  most tasks that have begun and not ended; 0 or less: no bound
 * o         options; NULL: all fields 0
 *
 * Returns the pool; NULL without memory or a runtime, or for invalid options: idle_ns < 0, prealloc
 * without a capacity, a stack_size above 1 GiB, size 0. Free it by gmp_pool_free.
 */
GMP_API gmp_pool *gmp_pool_new(int capacity, const gmp_pool_opts *o);

/*
 * gmp_pool_submit - hand a task to a pool; waits for a place
 *
 * p        the pool
 * fn, arg  the task
 *
 * Waiters are served in FIFO order. A task of the same pool may call it. If all places are held by
 * tasks that wait for one, none of them continues: gmp_pool_waiting and gmp_pool_running show it,
 * and if nothing else can happen, the deadlock report does. In that report such a task is a green
 * thread with the task's function as its entry that waits in gmp_pool_submit (or gmp_pool_invoke).
 *
 * Returns 0 when the pool has accepted the task.
 * Errors, the task was not accepted:
 *   -EAGAIN     there is no place, and the pool is nonblocking or max_waiting submitters wait; or a
 *               new worker is needed, and gmp_config.max_green or max_stack_memory does not allow
 *               one
 *   -EPIPE      the pool is released, also while the caller waits
 *   -ENOMEM     no memory
 *   -ECANCELED  the calling green thread was cancelled
 *   -EINVAL     p or fn is NULL
 *   -ESRCH      the run that made the pool has ended
 */
GMP_API int gmp_pool_submit(gmp_pool *p, gmp_fn fn, void *arg);

/*
 * gmp_pool_submit_until - gmp_pool_submit, or give up at a deadline
 *
 * p, fn, arg  as gmp_pool_submit
 * deadline    nanoseconds on the clock of gmp_now(), of the wait for a place. A deadline in the
 *             past makes one attempt.
 *
 * Returns and errors: as gmp_pool_submit, and
 *   -ETIMEDOUT  the deadline passed
 */
GMP_API int gmp_pool_submit_until(gmp_pool *p, gmp_fn fn, void *arg, int64_t deadline);

/*
 * gmp_pool_try_submit - gmp_pool_submit that returns -EAGAIN in place of waiting
 *
 * p, fn, arg  as gmp_pool_submit
 *
 * Returns and errors: as gmp_pool_submit without -ECANCELED. -EAGAIN does not tell a full pool from
 * a worker that could not be started; gmp_pool_running(p) < gmp_pool_capacity(p) afterwards is a
 * hint that it was the second.
 */
GMP_API int gmp_pool_try_submit(gmp_pool *p, gmp_fn fn, void *arg);

/*
 * gmp_pool_invoke - gmp_pool_submit with the function of the pool's options
 *
 * p    a pool with gmp_pool_opts.fn
 * arg  the argument of the task
 *
 * Returns and errors: as gmp_pool_submit; -EINVAL also without gmp_pool_opts.fn.
 */
GMP_API int gmp_pool_invoke(gmp_pool *p, void *arg);

/*
 * gmp_pool_submit_at - hand a task to a pool that begins it at a deadline; never waits
 *
 * p         the pool
 * deadline  nanoseconds on the clock of gmp_now()
 * fn, arg   the task
 *
 * The task begins when the deadline has come and there is a place. Until then it has neither a
 * place nor a green thread, and takes 24 bytes (48 when their number has just grown). Tasks that
 * are due and submitters that wait get places alternately.
 *
 * Returns 0 when the pool has accepted the task.
 * Errors, the task was not accepted:
 *   -EPIPE   the pool is released
 *   -ENOMEM  no memory
 *   -EINVAL  p or fn is NULL
 *   -ESRCH   the run that made the pool has ended
 */
GMP_API int gmp_pool_submit_at(gmp_pool *p, int64_t deadline, gmp_fn fn, void *arg);

/*
 * gmp_pool_running - number of tasks that hold a place (workers with a task)
 *
 * p  the pool
 *
 * Returns the number at the time of the call.
 * Errors:
 *   -EINVAL  p is NULL
 *   -ESRCH   the run that made the pool has ended
 */
GMP_API int gmp_pool_running(gmp_pool *p);

/*
 * gmp_pool_idle - number of workers without a task
 *
 * p  the pool
 *
 * Returns and errors: as gmp_pool_running.
 */
GMP_API int gmp_pool_idle(gmp_pool *p);

/*
 * gmp_pool_waiting - number of submitters that wait for a place
 *
 * p  the pool
 *
 * Returns and errors: as gmp_pool_running.
 */
GMP_API int gmp_pool_waiting(gmp_pool *p);

/*
 * gmp_pool_capacity - capacity of a pool
 *
 * p  the pool
 *
 * Returns the capacity; -1 (which is not an error) without a bound.
 * Errors: as gmp_pool_running.
 */
GMP_API int gmp_pool_capacity(gmp_pool *p);

/*
 * gmp_pool_delayed - number of tasks of gmp_pool_submit_at that have not begun
 *
 * p  the pool
 *
 * Returns and errors: as gmp_pool_running.
 */
GMP_API int64_t gmp_pool_delayed(gmp_pool *p);

/*
 * gmp_pool_resize - change the capacity, at once
 *
 * p         the pool
 * capacity  as gmp_pool_new. If it is larger, waiting submitters continue. If it is smaller, tasks
 *           beyond it end first, and nothing is accepted meanwhile.
 *
 * Returns 0.
 * Errors, nothing has changed:
 *   -EINVAL  p is NULL
 *   -ENOMEM  no memory for more workers in a pool with prealloc
 *   -ESRCH   the run that made the pool has ended
 */
GMP_API int gmp_pool_resize(gmp_pool *p, int capacity);

/*
 * gmp_pool_release - accept no more tasks, and wait for the running tasks
 *
 * p         the pool. Submitters that wait get -EPIPE. Delayed tasks that have not begun are
 *           dropped, each by a call of gmp_pool_opts.dropped(fn, arg) on the caller's thread. Idle
 *           workers end.
 * deadline  nanoseconds on the clock of gmp_now(), of the wait for running tasks. A deadline in the
 *           past does not wait.
 *
 * Called from a task of the pool it waits for the others. Cancellation does not cut it short.
 *
 * Returns 0 when no tasks run.
 * Errors:
 *   -ETIMEDOUT  the deadline passed; the pool is released, and the tasks run on
 *   -EPIPE      the pool is released already
 *   -EINVAL     p is NULL
 *   -ESRCH      the run that made the pool has ended
 */
GMP_API int gmp_pool_release(gmp_pool *p, int64_t deadline);

/*
 * gmp_pool_reboot - open a released pool again
 *
 * p  the pool
 *
 * Tasks that still run count. A release that waits continues to wait, until at some instant no
 * tasks run, new ones among them.
 *
 * Returns 0, also if the pool is open.
 * Errors:
 *   -EINVAL  p is NULL
 *   -ESRCH   the run that made the pool has ended
 */
GMP_API int gmp_pool_reboot(gmp_pool *p);

/*
 * gmp_pool_free - release a pool if it is open, wait for its tasks, and free it
 *
 * p  the pool; NULL is a no-op. No other call with it may be made any more.
 *
 * Called from a task of the pool it returns at once, and the pool is freed after its last task.
 * Cancellation does not cut it short.
 */
GMP_API void gmp_pool_free(gmp_pool *p);

/* -------------------------------------------------------------- Multipools */

/*
 * A multipool is several pools of the same capacity and options, over which submitters are spread.
 * Each pool has a lock of its own, so many threads that submit very short tasks contend less.
 *
 * Example:
 *   static void work(void *n) { __atomic_add_fetch((int *)n, 1, __ATOMIC_RELAXED); }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_multipool *m = gmp_multipool_new(4, 100, GMP_ROUND_ROBIN, NULL);
 *           int n = 0;
 *
 *           (void)arg;
 *           for (int i = 0; i < 1000; i++)
 *                   gmp_multipool_submit(m, work, &n);
 *           gmp_multipool_free(m);
 *           assert(n == 1000);
 *   }
 */
typedef struct gmp_multipool gmp_multipool;

/*
 * How a multipool chooses a pool.
 *
 *   GMP_ROUND_ROBIN  the pools in order; if the next pool is full, the least busy
 *   GMP_LEAST_BUSY   always the least busy, by running + waiting; each submission reads all pools
 *
 * If the chosen pool is full too, the submitter waits in its queue (or not, by the options).
 */
typedef enum gmp_spread { GMP_ROUND_ROBIN, GMP_LEAST_BUSY } gmp_spread;

/*
 * gmp_multipool_new - make a multipool
 *
 * pools        number of pools, 1 or more
 * capacity, o  of each pool, as gmp_pool_new
 * spread       how to choose a pool
 *
 * Returns the multipool; NULL as gmp_pool_new, for pools < 1 and for an unknown spread. Free it by
 * gmp_multipool_free.
 */
GMP_API gmp_multipool *gmp_multipool_new(int pools, int capacity, gmp_spread spread,
					 const gmp_pool_opts *o);

/*
 * gmp_multipool_submit - gmp_pool_submit to one of the pools
 *
 * m, fn, arg  the multipool and the task
 *
 * Returns and errors: as gmp_pool_submit.
 */
GMP_API int gmp_multipool_submit(gmp_multipool *m, gmp_fn fn, void *arg);

/*
 * gmp_multipool_invoke - gmp_pool_invoke to one of the pools
 *
 * m, arg  the multipool and the argument of the task
 *
 * Returns and errors: as gmp_pool_invoke.
 */
GMP_API int gmp_multipool_invoke(gmp_multipool *m, void *arg);

/*
 * gmp_multipool_at - one of the pools
 *
 * m  the multipool
 * i  0 to pools - 1
 *
 * Returns the pool; NULL for an index out of range, and for NULL. Freeing it is misuse.
 */
GMP_API gmp_pool *gmp_multipool_at(gmp_multipool *m, int i);

/*
 * gmp_multipool_running - sum of gmp_pool_running over the pools
 *
 * m  the multipool
 *
 * Returns the sum, INT_MAX at most.
 * Errors: as gmp_pool_running.
 */
GMP_API int gmp_multipool_running(gmp_multipool *m);

/*
 * gmp_multipool_idle - sum of gmp_pool_idle over the pools
 *
 * m  the multipool
 *
 * Returns and errors: as gmp_multipool_running.
 */
GMP_API int gmp_multipool_idle(gmp_multipool *m);

/*
 * gmp_multipool_waiting - sum of gmp_pool_waiting over the pools
 *
 * m  the multipool
 *
 * Returns and errors: as gmp_multipool_running.
 */
GMP_API int gmp_multipool_waiting(gmp_multipool *m);

/*
 * gmp_multipool_capacity - sum of gmp_pool_capacity over the pools
 *
 * m  the multipool
 *
 * Returns the sum, INT_MAX at most; -1 (which is not an error) without a bound.
 * Errors: as gmp_pool_running.
 */
GMP_API int gmp_multipool_capacity(gmp_multipool *m);

/*
 * gmp_multipool_resize - gmp_pool_resize of each pool
 *
 * m         the multipool
 * capacity  of each pool
 *
 * Returns and errors: as gmp_pool_resize. After an error the pools before the failed pool have the
 * new capacity.
 */
GMP_API int gmp_multipool_resize(gmp_multipool *m, int capacity);

/*
 * gmp_multipool_release - gmp_pool_release of one pool after the other
 *
 * m         the multipool
 * deadline  nanoseconds on the clock of gmp_now(), of all waits together
 *
 * Returns and errors: as gmp_pool_release.
 */
GMP_API int gmp_multipool_release(gmp_multipool *m, int64_t deadline);

/*
 * gmp_multipool_reboot - gmp_pool_reboot of each pool
 *
 * m  the multipool
 *
 * Returns and errors: as gmp_pool_reboot.
 */
GMP_API int gmp_multipool_reboot(gmp_multipool *m);

/*
 * gmp_multipool_free - release a multipool, wait for the tasks of all its pools, and free it
 *
 * m  the multipool; NULL is a no-op. No other call with it may be made any more, except by its own
 *    tasks: until they have ended they may submit to it, and get -EPIPE.
 *
 * Called from one of its tasks it waits for the other tasks.
 */
GMP_API void gmp_multipool_free(gmp_multipool *m);

#ifdef __cplusplus
}
#endif

#endif
