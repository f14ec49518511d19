/* SPDX-License-Identifier: MIT */
/*
 * Green threads: start, join, cancel, yield, and the binding to an OS thread.
 *
 * Stacks and their limits: docs/limits.md. errno and thread-locals:
 * docs/api/errno-and-thread-locals.md. Exceptions: docs/api/cxx.md.
 */
#ifndef GMPRT_GREEN_H
#define GMPRT_GREEN_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- Start */

/*
 * Attributes of a green thread.
 *
 * A green thread that runs over the end of its stack ends the process by SIGSEGV, after a line that
 * names it. That is certain for frames of up to 64 KiB, and for larger ones in code that is
 * compiled with -fstack-clash-protection, which the flags of pkg-config and of the CMake targets
 * contain. A call of gmp with a buffer that reaches into the guard of the caller's stack returns
 * -EFAULT. See docs/limits.md, "Stacks".
 */
typedef struct gmp_attr {
	size_t size;       /* set by GMP_ATTR_INIT */
	const char *name;  /* copied (at most 63 bytes); shown in every diagnostic */
	size_t stack_size; /* bytes reserved, of which up to 2 KiB stay unused; the guard of 64 KiB
	                      lies below them. 0: the runtime's; rounded up to a power of two of at
	                      least 16 KiB; more than 1 GiB is -EINVAL */
	unsigned flags;    /* GMP_PINNED, GMP_OWN_TLS (gmp/base.h), or 0 */
} gmp_attr;
#define GMP_ATTR_INIT GMP_SIZED_INIT_(gmp_attr)
#define GMP_PINNED 1u /* for gmp_attr.flags: as if the green thread began with gmp_pin */

/*
 * gmp_go - start a detached green thread
 *
 * fn   the entry function
 * arg  its argument
 *
 * The new green thread becomes runnext of the caller's P: it runs next there (Go's go statement).
 * From an external thread it goes to the global queue. It does not run at once, and the call does
 * not wait.
 *
 * Returns 0.
 * Errors, nothing has been started:
 *   -EINVAL  fn is NULL
 *   -EAGAIN  gmp_config.max_green green threads are alive, or max_stack_memory is reserved. A stack
 *            that was reserved once is reused by later green threads. With GMP_SCHED_THREAD also:
 *            max_threads OS threads exist, or the system gives none
 *   -ENOMEM  no memory or address space
 *   -ESRCH   no runtime, or its end has begun
 *
 * See also: docs/limits.md for what else can run out.
 *
 * Example:
 *   static void send_one(void *out)
 *   {
 *           int one = 1;
 *
 *           gmp_chan_send(out, &one);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_chan *c = gmp_chan_new(sizeof(int), 0);
 *           int v = 0;
 *
 *           (void)arg;
 *           if (gmp_go(send_one, c) == 0)
 *                   gmp_chan_recv(c, &v);
 *           assert(v == 1);
 *           gmp_chan_free(c);
 *   }
 */
GMP_API int gmp_go(gmp_fn fn, void *arg);

/*
 * gmp_spawn - start a joinable green thread
 *
 * g     receives the handle, which must be joined or detached exactly once
 * fn    the entry function
 * arg   its argument
 * attr  attributes; NULL: all fields 0
 *
 * The order in which it runs is that of gmp_go.
 *
 * Returns 0.
 * Errors, nothing has been started: those of gmp_go, and
 *   -EINVAL  g is NULL; attr->size is less than that of GMP_ATTR_INIT; attr->stack_size is more
 *            than 1 GiB; an unknown flag
 *   -ENOTSUP GMP_OWN_TLS where it cannot be; a line on stderr says why
 *
 * Example:
 *   static void work(void *job) { *(int *)job += 1; }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_attr a = GMP_ATTR_INIT;
 *           int job = 41;
 *           gmp_g *g;
 *
 *           (void)arg;
 *           a.name = "worker";
 *           a.stack_size = 64 << 10;
 *           if (gmp_spawn(&g, work, &job, &a) == 0)
 *                   gmp_join(g);
 *           assert(job == 42);
 *   }
 */
GMP_API int gmp_spawn(gmp_g **g, gmp_fn fn, void *arg, const gmp_attr *attr);

/* ------------------------------------------------------------- End and join */

/*
 * gmp_join - wait until a green thread has ended
 *
 * g  a handle of gmp_spawn
 *
 * Returns 0; the handle is gone. The destructors of the green thread's locals have run (gmp/key.h).
 * Errors, the handle stays:
 *   -EDEADLK    g is the caller
 *   -EINVAL     g is NULL or detached, or another thread joins it now
 *   -ECANCELED  the calling green thread was cancelled
 *   -ESRCH      no runtime, or it stops first
 */
GMP_API int gmp_join(gmp_g *g);

/*
 * gmp_join_until - gmp_join, or give up at a deadline
 *
 * g         a handle of gmp_spawn
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *           GMP_FOREVER is gmp_join.
 *
 * Returns and errors: as gmp_join, and
 *   -ETIMEDOUT  g still runs at the deadline; the handle stays
 */
GMP_API int gmp_join_until(gmp_g *g, int64_t deadline);

/*
 * gmp_detach - give a handle up
 *
 * g  a handle of gmp_spawn. The green thread continues and cannot be joined.
 *
 * Returns 0; the handle is gone.
 * Errors:
 *   -EINVAL  g is NULL, or another thread joins it now
 *   -ESRCH   no runtime
 */
GMP_API int gmp_detach(gmp_g *g);

/*
 * gmp_exit - end the calling green thread
 *
 * It runs no C++ destructors (docs/api/cxx.md). In the first green thread of gmp_run it ends the
 * run. In a task of a pool it ends the worker and frees its place.
 *
 * Threads: green threads. On an external thread, and in blocking code (gmp_block_enter), it is
 * misuse.
 */
GMP_API void gmp_exit(void) __attribute__((noreturn));

/* ------------------------------------------------------------ Cancellation */

/*
 * gmp_cancel - make a green thread's waits return -ECANCELED
 *
 * g  a handle that has not been joined or detached, or a gmp_self() that is still valid (see there)
 *
 * From this call on until g ends, each call of g that would have to wait returns -ECANCELED, the
 * one in which it waits now too. A call that need not wait works as usual, and so does every try
 * form.
 *
 * Not cut short, since callers do not check their result: gmp_mutex_lock, gmp_rwmutex_rlock,
 * gmp_rwmutex_lock and gmp_once_do (their _until forms are, also with GMP_FOREVER); the locking of
 * the mutex again in gmp_cond_wait; gmp_group_wait; gmp_pool_release; gmp_timer_free; gmp_close;
 * calls on regular files and blocking code.  With libgmprt_posix waits in replaced functions are
 * cut short, too: docs/api/posix.md.
 *
 * Returns 0, also if g has ended or is cancelled already.
 * Errors:
 *   -EINVAL  g is NULL
 *   -ESRCH   no runtime
 *
 * Example:
 *   struct pipe { gmp_chan *jobs, *done; };
 *
 *   static void worker(void *arg)
 *   {
 *           struct pipe *p = arg;
 *           int job, sum = 0;
 *
 *           while (gmp_chan_recv(p->jobs, &job) == 0)     // -EPIPE when closed, -ECANCELED
 *                   sum += job;
 *           gmp_cancel_mask(1);                           // the clean-up may wait
 *           gmp_chan_send(p->done, &sum);
 *           gmp_cancel_mask(0);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           struct pipe p = { gmp_chan_new(sizeof(int), 0), gmp_chan_new(sizeof(int), 0) };
 *           int job = 7, sum = 0;
 *           gmp_g *g;
 *
 *           (void)arg;
 *           gmp_spawn(&g, worker, &p, NULL);
 *           gmp_chan_send(p.jobs, &job);
 *           gmp_cancel(g);
 *           gmp_chan_recv(p.done, &sum);
 *           gmp_join(g);
 *           assert(sum == 7);
 *           gmp_chan_free(p.jobs);
 *           gmp_chan_free(p.done);
 *   }
 */
GMP_API int gmp_cancel(gmp_g *g);

/*
 * gmp_cancelled - whether the calling green thread has been cancelled, masked or not
 *
 * It tells whether a wait that returned -ECANCELED was cancelled, or ended by a gmp_close.
 *
 * Returns 1 after the caller has been cancelled, otherwise 0. On an external thread: 0.
 */
GMP_API int gmp_cancelled(void);

/*
 * gmp_cancel_mask - while masked, the caller's waits behave as if it were not cancelled
 *
 * on  1: mask, up to 255 times; 0: end the last mask
 *
 * Returns 0. On an external thread: 0, without effect.
 * Errors, nothing has changed:
 *   -EINVAL  on is 0 and there is no mask, or on is not 0 and there are 255
 */
GMP_API int gmp_cancel_mask(int on);

/* ------------------------------------------------------------------- Yield */

/*
 * gmp_yield - let other green threads run: the caller goes behind all that have yielded
 *
 * Green threads that an event made runnable run before all that have yielded, which keep a quarter
 * of the time (docs/api/latency.md).
 *
 * On an external thread: sched_yield(2).
 */
GMP_API void gmp_yield(void);

/*
 * gmp_checkpoint - yield if the scheduler has asked for it; otherwise two loads and a branch
 *
 * For long loops. The scheduler asks after a green thread has run for 10 ms, or for 2 ms while
 * others wait for its P, and when the runtime stops; a preempted green thread yields too. It does
 * not yield if the kernel has given most of a time of up to 20 ms to other threads, and it has used
 * less than 2 ms (docs/api/preemption.md). So loops with checkpoints compute on as many OS
 * threads as there are Ps. Reading and writing file descriptors is such a point too, also if it
 * need not wait.
 *
 * On an external thread: no effect.
 */
GMP_API void gmp_checkpoint(void);

/* ------------------------------------------------------------------ Identity */

/*
 * gmp_self - handle of the calling green thread
 *
 * It must not be joined or detached unless gmp_spawn has given it to the program. gmp_id, gmp_name
 * and gmp_cancel take it.
 *
 * Validity: until the green thread has ended. If gmp_spawn made the green thread and it is not
 * detached, until the join. gmp does not detect a later use in the same run: the handle may be that
 * of another green thread by then, and gmp_cancel cancels that one. In a later run the memory may
 * be gone. A task of a pool has the handle of its worker, which runs other tasks after it: a late
 * gmp_cancel hits the next task.
 *
 * To cancel another green thread by the handle that it got here (detached, the child of a group,
 * the task of a pool): the green thread stores the handle under a lock when it starts, and clears
 * it under the lock before it returns; the canceller holds the lock during gmp_cancel, which does
 * not wait. To cancel one of many, it is simpler to start each by gmp_spawn, and to keep its handle
 * until the join.
 *
 * Returns the handle. On an external thread and in blocking code: NULL.
 */
GMP_API gmp_g *gmp_self(void);

/*
 * gmp_id - number of a green thread
 *
 * g  a valid handle, or NULL
 *
 * Returns a number from 1 on that is never used twice in a run; 0 for NULL.
 */
GMP_API uint64_t gmp_id(const gmp_g *g);

/*
 * gmp_name - name of a green thread, as given by gmp_attr
 *
 * g  a valid handle, or NULL
 *
 * Returns the name; "" without one, and for NULL. It is valid until the handle is gone.
 */
GMP_API const char *gmp_name(const gmp_g *g);

/* -------------------------------------------------------- Binding to an OS thread */

/*
 * gmp_lock_thread - bind the caller to its OS thread, and that thread to the caller
 *
 * For code that keeps something in its OS thread: a library with thread-local state, a namespace, a
 * graphics context. Not for unshare(CLONE_FILES): gmp's descriptors are those of all threads. Until
 * gmp_unlock_thread has been called as often, the caller runs on the OS thread that it is on, and
 * that thread runs nothing else. Each wait costs two switches of OS threads. Green threads that the
 * caller starts are not locked.
 *
 * At the very start of gmp_run's fn it locks the OS thread that called gmp_run.
 *
 * If a green thread ends while it is locked, its OS thread ends too, so that the state which it
 * left in that thread is gone. The thread that called gmp_run instead runs no green thread until
 * the run ends.
 *
 * Returns 0. The second and later locks only count.
 * Errors, the number of locks has not changed:
 *   -EAGAIN  there would be no OS thread for the others: gmp_config.max_threads is reached, or the
 *            system gives none; or other green threads are pinned to this OS thread; or there are
 *            2^32 - 1 locks
 *
 * Threads: green threads. On an external thread, and in blocking code, it is misuse.
 * Source: Go's runtime.LockOSThread.
 *
 * Example:
 *   static pthread_t first;
 *
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *           gmp_lock_thread();                    // the OS thread that called gmp_run
 *           for (int i = 0; i < 10; i++) {
 *                   gmp_sleep(GMP_MS);
 *                   assert(pthread_equal(first, pthread_self()));
 *           }
 *           gmp_unlock_thread();
 *   }
 *
 *   int main(void)
 *   {
 *           first = pthread_self();
 *           return gmp_run(app, NULL, NULL) != 0;
 *   }
 */
GMP_API int gmp_lock_thread(void);

/*
 * gmp_unlock_thread - end the last gmp_lock_thread of the caller
 *
 * Returns 0.
 *
 * Threads: green threads. On an external thread, in blocking code, and without a lock it is misuse.
 */
GMP_API int gmp_unlock_thread(void);

/*
 * gmp_pin - keep the caller on its OS thread, which other green threads use too
 *
 * For a library that keeps something in a thread-local between two calls, around the calls that
 * belong together. Until gmp_unpin has been called as often, the caller runs on the OS thread that
 * it is on. Other green threads run there while it waits, pinned ones too, and may change what it
 * keeps there: if they must not, use gmp_lock_thread.
 *
 * Cost: a few instructions. Each wait may cost more, up to two switches of OS threads: the caller
 * continues only when its OS thread is free, which it is not while another green thread computes or
 * is in blocking code there.
 *
 * A green thread with the attribute GMP_PINNED stays on the OS thread on which it begins, until it
 * ends or has called gmp_unpin once more than gmp_pin.
 *
 * Returns 0. On an external thread: 0, without effect.
 * Errors:
 *   -EAGAIN  there are 255 pins
 *
 * Example:
 *   static _Thread_local int in_progress;
 *
 *   static __attribute__((noinline)) int *progress(void) { return &in_progress; }
 *
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *           gmp_pin();
 *           *progress() = 1;
 *           gmp_sleep(GMP_MS);
 *           assert(*progress() == 1);             // the same variable as before the wait
 *           gmp_unpin();
 *   }
 */
GMP_API int gmp_pin(void);

/*
 * gmp_unpin - end the last gmp_pin of the caller
 *
 * Returns 0. On an external thread: 0, without effect.
 * Errors:
 *   -EINVAL  there is no pin
 */
GMP_API int gmp_unpin(void);

#ifdef __cplusplus
}
#endif

#endif
