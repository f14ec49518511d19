/* SPDX-License-Identifier: MIT */
/*
 * Synchronisation: mutex, rwmutex, wait group, condition, semaphore, once, barrier, done.
 *
 * All except the done object are plain structs: valid when all bytes are zero, without destroy, and
 * usable between green threads and external threads, with or without a runtime. After the call that
 * completes an exchange has returned, the object may be freed, even if the peer's call has not
 * returned yet.
 */
#ifndef GMPRT_SYNC_H
#define GMPRT_SYNC_H

#include "base.h"
#include "time.h" /* GMP_FOREVER, gmp_deadline */

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- Mutex */

/*
 * A mutex with Go's two modes. Normal mode: unlock frees the mutex, and a running thread may lock
 * it ahead of the waiters. Starvation mode: unlock hands the mutex to the first waiter.
 *
 * Fairness: if the first waiter has waited for more than 1 ms, the next unlock hands the mutex to
 * it, except within 20 us of the last hand-over (500 us, if that was to an external thread). A
 * waiter with g green threads and e external threads waiting ahead of it has the mutex after 1 ms +
 * g * 20 us + e * 500 us at the latest, rounded up g + e + 1 times to the next unlock. An unlock
 * while a woken waiter has not run yet does not count.
 *
 * Not recursive. Unlock by another thread is legal.
 *
 * Example:
 *   static gmp_mutex m = GMP_MUTEX_INIT;
 *   static int balance;
 *
 *   static void deposit(void *w)
 *   {
 *           gmp_mutex_lock(&m);
 *           balance += 10;
 *           gmp_mutex_unlock(&m);
 *           gmp_wg_done(w);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_wg w = GMP_WG_INIT;
 *
 *           (void)arg;
 *           gmp_wg_add(&w, 100);
 *           for (int i = 0; i < 100; i++)
 *                   gmp_go(deposit, &w);
 *           gmp_wg_wait(&w);
 *           assert(balance == 1000);
 *   }
 */
typedef struct gmp_mutex {
	uint32_t state;
	uint32_t owner;
} gmp_mutex;
/* clang-format off */
#define GMP_MUTEX_INIT { 0, 0 }
/* clang-format on */

/*
 * gmp_mutex_lock - lock a mutex
 *
 * m  the mutex; all-zero bytes are an unlocked mutex
 *
 * Cancellation does not cut it short.
 *
 * Returns 0 with m locked.
 */
GMP_API int gmp_mutex_lock(gmp_mutex *m);

/*
 * gmp_mutex_lock_until - lock a mutex, or give up at a deadline
 *
 * m         the mutex
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *           GMP_FOREVER waits indefinitely but can be cancelled, unlike gmp_mutex_lock.
 *
 * Returns 0 with m locked.
 * Errors, m not locked by this call:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 */
GMP_API int gmp_mutex_lock_until(gmp_mutex *m, int64_t deadline);

/*
 * gmp_mutex_try_lock - lock a mutex if it is free
 *
 * m  the mutex
 *
 * Returns 0 with m locked.
 * Errors:
 *   -EAGAIN  m is locked
 */
GMP_API int gmp_mutex_try_lock(gmp_mutex *m);

/*
 * gmp_mutex_unlock - unlock a mutex
 *
 * m  a locked mutex, locked by any thread. An unlocked one is misuse.
 *
 * Returns 0.
 */
GMP_API int gmp_mutex_unlock(gmp_mutex *m);

/* ----------------------------------------------------------------- Rwmutex */

/*
 * A lock for many readers or one writer at a time.
 *
 * A writer that waits for readers holds off new readers, so a thread that read-locks twice can
 * deadlock. When a writer unlocks, the readers queued by then go first, together. At most 2^26 - 1
 * read locks may be held at a time; this is not checked.
 *
 * Fairness: writers exclude each other as by a gmp_mutex, with its two modes. A writer that waits
 * for another writer holds off readers from the moment at which the lock is handed to it, or at
 * which it has been woken and runs. So
 *   - a reader waits for one writer at most, and for the readers that this writer waits for;
 *   - a writer with g green threads and e external threads waiting to write ahead of it holds off
 *     new readers after 1 ms + g * 20 us + e * 500 us at the latest, rounded up g + e + 1 times to
 *     the next unlock by a writer, and then waits for the readers that hold the lock. An unlock
 *     while a woken writer has not run yet does not count.
 *
 * Example:
 *   static gmp_rwmutex rw = GMP_RWMUTEX_INIT;
 *   static int setting;
 *
 *   static void writer(void *arg)
 *   {
 *           (void)arg;
 *           gmp_rwmutex_lock(&rw);
 *           setting = 1;
 *           gmp_rwmutex_unlock(&rw);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_g *g;
 *
 *           (void)arg;
 *           gmp_rwmutex_rlock(&rw);
 *           gmp_spawn(&g, writer, NULL, NULL);
 *           gmp_yield();
 *           assert(setting == 0);                  // the writer waits for this reader
 *           gmp_rwmutex_runlock(&rw);
 *           gmp_join(g);
 *           assert(setting == 1);
 *   }
 */
typedef struct gmp_rwmutex {
	gmp_mutex m;
} gmp_rwmutex;
/* clang-format off */
#define GMP_RWMUTEX_INIT { GMP_MUTEX_INIT }
/* clang-format on */

/*
 * gmp_rwmutex_rlock - lock for reading
 *
 * rw  the rwmutex; all-zero bytes are an unlocked one
 *
 * Cancellation does not cut it short.
 *
 * Returns 0 with a read lock held.
 */
GMP_API int gmp_rwmutex_rlock(gmp_rwmutex *rw);

/*
 * gmp_rwmutex_rlock_until - lock for reading, or give up at a deadline
 *
 * rw        the rwmutex
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *           GMP_FOREVER waits indefinitely but can be cancelled, unlike gmp_rwmutex_rlock.
 *
 * Returns 0 with a read lock held.
 * Errors, no lock taken:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 */
GMP_API int gmp_rwmutex_rlock_until(gmp_rwmutex *rw, int64_t deadline);

/*
 * gmp_rwmutex_try_rlock - lock for reading if that needs no wait
 *
 * rw  the rwmutex; all-zero bytes are an unlocked one
 *
 * Returns 0 with a read lock held.
 * Errors:
 *   -EAGAIN  a writer holds the lock or holds off readers
 */
GMP_API int gmp_rwmutex_try_rlock(gmp_rwmutex *rw);

/*
 * gmp_rwmutex_runlock - end a read lock
 *
 * rw  locked for reading, by any thread. Otherwise it is misuse.
 *
 * Returns 0.
 */
GMP_API int gmp_rwmutex_runlock(gmp_rwmutex *rw);

/*
 * gmp_rwmutex_lock - lock for writing
 *
 * rw  the rwmutex; all-zero bytes are an unlocked one
 *
 * Cancellation does not cut it short.
 *
 * Returns 0 with the write lock held.
 */
GMP_API int gmp_rwmutex_lock(gmp_rwmutex *rw);

/*
 * gmp_rwmutex_lock_until - lock for writing, or give up at a deadline
 *
 * rw        the rwmutex
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *           GMP_FOREVER waits indefinitely but can be cancelled, unlike gmp_rwmutex_lock.
 *
 * Returns 0 with the write lock held.
 * Errors, no lock taken:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 */
GMP_API int gmp_rwmutex_lock_until(gmp_rwmutex *rw, int64_t deadline);

/*
 * gmp_rwmutex_try_lock - lock for writing if the lock is free
 *
 * rw  the rwmutex; all-zero bytes are an unlocked one
 *
 * Returns 0 with the write lock held.
 * Errors:
 *   -EAGAIN  a writer or readers hold the lock
 */
GMP_API int gmp_rwmutex_try_lock(gmp_rwmutex *rw);

/*
 * gmp_rwmutex_unlock - end the write lock
 *
 * rw  locked for writing, by any thread. Otherwise it is misuse.
 *
 * Returns 0.
 */
GMP_API int gmp_rwmutex_unlock(gmp_rwmutex *rw);

/* -------------------------------------------------------------- Wait group */

/*
 * A counter that can be waited for until it is 0. Add before the work starts, not in it. A negative
 * counter, or one over INT32_MAX, is misuse.
 *
 * Source: Go's sync.WaitGroup. Example: gmp_mutex.
 */
typedef struct gmp_wg {
	uint64_t state;
} gmp_wg;
/* clang-format off */
#define GMP_WG_INIT { 0 }
/* clang-format on */

/*
 * gmp_wg_add - add to the counter; at 0 all waiters are woken
 *
 * w  the wait group
 * n  what to add; may be negative
 *
 * Happens-before: what the caller did before, to the return of the wait that it ends.
 *
 * Returns 0.
 */
GMP_API int gmp_wg_add(gmp_wg *w, int n);

/*
 * gmp_wg_done - gmp_wg_add(w, -1)
 *
 * w  the wait group
 *
 * Returns 0.
 */
GMP_API int gmp_wg_done(gmp_wg *w);

/*
 * gmp_wg_wait - wait until the counter is 0
 *
 * w  the wait group
 *
 * Returns 0.
 * Errors:
 *   -ECANCELED  the calling green thread was cancelled
 */
GMP_API int gmp_wg_wait(gmp_wg *w);

/*
 * gmp_wg_wait_until - wait until the counter is 0, or give up at a deadline
 *
 * w         the wait group
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_wg_wait, and
 *   -ETIMEDOUT  the deadline passed
 */
GMP_API int gmp_wg_wait_until(gmp_wg *w, int64_t deadline);

/* --------------------------------------------------------------- Condition */

/*
 * A condition variable. There are no spurious wakeups, but another thread may have locked the mutex
 * before the woken waiter: check the condition in a loop.
 *
 * Source: Go's sync.Cond.
 *
 * Example:
 *   static gmp_mutex m = GMP_MUTEX_INIT;
 *   static gmp_cond filled = GMP_COND_INIT;
 *   static int jobs;
 *
 *   static void producer(void *arg)
 *   {
 *           (void)arg;
 *           gmp_mutex_lock(&m);
 *           jobs++;
 *           gmp_mutex_unlock(&m);
 *           gmp_cond_signal(&filled);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *           gmp_go(producer, NULL);
 *           gmp_mutex_lock(&m);
 *           while (jobs == 0)
 *                   gmp_cond_wait(&filled, &m);
 *           jobs--;
 *           gmp_mutex_unlock(&m);
 *   }
 */
typedef struct gmp_cond {
	uint32_t waiters;
} gmp_cond;
/* clang-format off */
#define GMP_COND_INIT { 0 }
/* clang-format on */

/*
 * gmp_cond_wait - unlock a mutex, wait for a wakeup, and lock the mutex again
 *
 * c  the condition
 * m  a locked mutex; an unlocked one is misuse
 *
 * Returns 0 after a wakeup; m is locked.
 * Errors; m is locked all the same:
 *   -ECANCELED  the calling green thread was cancelled. The locking of m is not cut short.
 */
GMP_API int gmp_cond_wait(gmp_cond *c, gmp_mutex *m);

/*
 * gmp_cond_wait_until - gmp_cond_wait, or give up at a deadline
 *
 * c, m      as gmp_cond_wait
 * deadline  nanoseconds on the clock of gmp_now(), of the wait for the wakeup. A deadline in the
 *           past returns at once, without unlocking m.
 *
 * Returns and errors: as gmp_cond_wait, and
 *   -ETIMEDOUT  the deadline passed; m is locked
 */
GMP_API int gmp_cond_wait_until(gmp_cond *c, gmp_mutex *m, int64_t deadline);

/*
 * gmp_cond_signal - wake the waiter that has waited longest
 *
 * c  the condition
 *
 * The mutex may be held or not.
 *
 * Returns 0.
 */
GMP_API int gmp_cond_signal(gmp_cond *c);

/*
 * gmp_cond_broadcast - wake all waiters that wait now
 *
 * c  the condition
 *
 * The mutex may be held or not.
 *
 * Returns 0.
 */
GMP_API int gmp_cond_broadcast(gmp_cond *c);

/* --------------------------------------------------------------- Semaphore */

/*
 * A counting semaphore: n permits, in FIFO order.
 *
 * Example:
 *   static gmp_sem slots = GMP_SEM_INIT(8);
 *   static int fetching;
 *
 *   static void fetch(void *w)
 *   {
 *           gmp_sem_acquire(&slots);
 *           assert(__atomic_add_fetch(&fetching, 1, __ATOMIC_RELAXED) <= 8);
 *           gmp_sleep(GMP_MS);
 *           __atomic_sub_fetch(&fetching, 1, __ATOMIC_RELAXED);
 *           gmp_sem_release(&slots, 1);
 *           gmp_wg_done(w);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_wg w = GMP_WG_INIT;
 *
 *           (void)arg;
 *           gmp_wg_add(&w, 40);
 *           for (int i = 0; i < 40; i++)
 *                   gmp_go(fetch, &w);
 *           gmp_wg_wait(&w);
 *   }
 */
typedef struct gmp_sem {
	uint64_t state;
} gmp_sem;
/* clang-format off */
#define GMP_SEM_INIT(n) { (uint64_t)(uint32_t)(n) << 32 }
/* clang-format on */

/*
 * gmp_sem_acquire - take a permit
 *
 * s  the semaphore
 *
 * Returns 0 with a permit taken.
 * Errors, no permit taken:
 *   -ECANCELED  the calling green thread was cancelled
 */
GMP_API int gmp_sem_acquire(gmp_sem *s);

/*
 * gmp_sem_acquire_until - take a permit, or give up at a deadline
 *
 * s         the semaphore
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_sem_acquire, and
 *   -ETIMEDOUT  the deadline passed; no permit taken
 */
GMP_API int gmp_sem_acquire_until(gmp_sem *s, int64_t deadline);

/*
 * gmp_sem_try_acquire - take a permit if one is free
 *
 * s  the semaphore
 *
 * Returns 0 with a permit taken.
 * Errors:
 *   -EAGAIN  no permit is free
 */
GMP_API int gmp_sem_try_acquire(gmp_sem *s);

/*
 * gmp_sem_release - give permits back
 *
 * s  the semaphore
 * n  number of permits, 1 or more; also permits that were never acquired
 *
 * Returns 0.
 * Errors, nothing has changed:
 *   -EINVAL     n is less than 1
 *   -EOVERFLOW  more than INT32_MAX permits would be free
 */
GMP_API int gmp_sem_release(gmp_sem *s, int n);

/* -------------------------------------------------------------------- Once */

/*
 * A once object runs one function once.
 *
 * Source: Go's sync.Once.
 */
typedef struct gmp_once {
	uint32_t state;
	uint32_t owner;
} gmp_once;
/* clang-format off */
#define GMP_ONCE_INIT { 0, 0 }
/* clang-format on */

/*
 * gmp_once_do - run fn once: the first caller runs it, the others wait until it has ended
 *
 * o        the once object
 * fn, arg  the function and its argument. An fn that ends its green thread (gmp_exit) has run. A
 *          call on o in fn is misuse. In C++ no exception may leave fn.
 *
 * After fn has run, a call is a load and a branch, in the caller itself if the compiler can inline
 * it (unless GMP_NO_INLINE is defined). Cancellation does not cut it short.
 *
 * Returns 0 when fn has run, in this call or in another.
 *
 * Example:
 *   static gmp_once once = GMP_ONCE_INIT;
 *   static int loaded;
 *
 *   static void load(void *arg)
 *   {
 *           (void)arg;
 *           loaded++;
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *           gmp_once_do(&once, load, NULL);
 *           gmp_once_do(&once, load, NULL);
 *           assert(loaded == 1);
 *   }
 */
GMP_API int gmp_once_do(gmp_once *o, gmp_fn fn, void *arg);

/*
 * gmp_once_do_until - run fn once, or wait until a deadline for the caller that runs it
 *
 * o, fn, arg  as gmp_once_do
 * deadline    bounds the wait for another caller's fn, not an fn that this call runs. A deadline in
 *             the past makes one attempt. GMP_FOREVER waits indefinitely but can be cancelled,
 *             unlike gmp_once_do.
 *
 * Returns 0 when fn has run, in this call or in another.
 * Errors; fn runs on, and o may be waited for again:
 *   -ETIMEDOUT  another caller still runs fn at the deadline
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 */
GMP_API int gmp_once_do_until(gmp_once *o, gmp_fn fn, void *arg, int64_t deadline);
#define GMP_ONCE_DONE_ 3 /* the state once fn has run: compiled into callers, so it stays */
#if defined(__GNUC__) && !defined(GMP_NO_INLINE)
/* The function is there as well, for its address and for callers that cannot inline. */
extern int gmp_once_call_(gmp_once *o, gmp_fn fn, void *arg) __asm__("gmp_once_do");
extern __inline__ __attribute__((__gnu_inline__)) int gmp_once_do(gmp_once *o, gmp_fn fn, void *arg)
{
	if (__builtin_expect(__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) == GMP_ONCE_DONE_, 1))
		return 0; /* ORD(once) */
	return gmp_once_call_(o, fn, arg);
}
#endif

/* ----------------------------------------------------------------- Barrier */

/*
 * A barrier for n threads: each waits until n have arrived, and then the next round begins. With n
 * of 0 or 1 no call waits.
 *
 * Example:
 *   static gmp_barrier b = GMP_BARRIER_INIT(3);
 *
 *   static void worker(void *leaders)
 *   {
 *           if (gmp_barrier_wait(&b) == 1)
 *                   __atomic_add_fetch((int *)leaders, 1, __ATOMIC_RELAXED);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           int leaders = 0;
 *           gmp_g *g[3];
 *
 *           (void)arg;
 *           for (int i = 0; i < 3; i++)
 *                   gmp_spawn(&g[i], worker, &leaders, NULL);
 *           for (int i = 0; i < 3; i++)
 *                   gmp_join(g[i]);
 *           assert(leaders == 1);
 *   }
 */
typedef struct gmp_barrier {
	uint32_t n;
	uint32_t arrived;
} gmp_barrier;
/* clang-format off */
#define GMP_BARRIER_INIT(n) { (uint32_t)(n), 0 }
/* clang-format on */

/*
 * gmp_barrier_wait - arrive at a barrier, and wait until n have arrived
 *
 * b  the barrier
 *
 * Returns 1 for one of the n callers of a round and 0 for the others.
 * Errors; the arrival is taken back, and the round needs another caller instead:
 *   -ECANCELED  the calling green thread was cancelled
 */
GMP_API int gmp_barrier_wait(gmp_barrier *b);

/*
 * gmp_barrier_wait_until - arrive at a barrier, or give up at a deadline
 *
 * b         the barrier
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt, which
 *           succeeds for the n-th arrival only. GMP_FOREVER is gmp_barrier_wait.
 *
 * Returns 1 for one of the n callers of a round and 0 for the others.
 * Errors; the arrival is taken back, and the round needs another caller instead:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 */
GMP_API int gmp_barrier_wait_until(gmp_barrier *b, int64_t deadline);

/* -------------------------------------------------------------------- Done */

/*
 * A done object is an event that happens once. Any number of threads can watch it in a select
 * beside what they wait for, without contention for one lock.
 *
 * Source: the Done channel of Go's context.
 *
 * Example (with gmp/chan.h):
 *   struct service { gmp_chan *jobs; gmp_done *stop; int sum; };
 *
 *   static void serve(void *arg)
 *   {
 *           struct service *s = arg;
 *           int job;
 *           gmp_case cs[] = { GMP_RECV_CASE(s->jobs, &job),
 *                             GMP_RECV_CASE(gmp_done_chan(s->stop), NULL) };
 *
 *           while (gmp_select(cs, 2) == 0) {                // 1: it is done
 *                   s->sum += job;
 *                   cs[1].c = gmp_done_chan(s->stop);       // the nearest, after a wait
 *           }
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           struct service s = { gmp_chan_new(sizeof(int), 0), gmp_done_new(), 0 };
 *           int job = 5;
 *           gmp_g *g;
 *
 *           (void)arg;
 *           gmp_spawn(&g, serve, &s, NULL);
 *           gmp_chan_send(s.jobs, &job);
 *           gmp_done_set(s.stop);
 *           gmp_join(g);
 *           assert(s.sum == 5);
 *           gmp_done_free(s.stop);
 *           gmp_chan_free(s.jobs);
 *   }
 */
typedef struct gmp_done gmp_done;

/*
 * gmp_done_new - make a done object, not set
 *
 * Works without a runtime.
 *
 * Returns the object; NULL without memory. Free it by gmp_done_free.
 */
GMP_API gmp_done *gmp_done_new(void);

/*
 * gmp_done_set - set a done object, and wake all waiters
 *
 * d  the done object
 *
 * Returns 0 for the first call.
 * Errors:
 *   -EALREADY  it has been set before
 *   -EINVAL    d is NULL
 */
GMP_API int gmp_done_set(gmp_done *d);

/*
 * gmp_done_get - whether a done object has been set
 *
 * d  the done object, or NULL
 *
 * Returns 1 after the first gmp_done_set has begun, otherwise 0; 0 for NULL.
 */
GMP_API int gmp_done_get(gmp_done *d);

/*
 * gmp_done_wait - wait until a done object is set
 *
 * d  the done object
 *
 * Returns 0 when it is set.
 * Errors:
 *   -ECANCELED  the calling green thread was cancelled
 *   -EINVAL     d is NULL
 */
GMP_API int gmp_done_wait(gmp_done *d);

/*
 * gmp_done_wait_until - wait until a done object is set, or give up at a deadline
 *
 * d         the done object
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_done_wait, and
 *   -ETIMEDOUT  the deadline passed
 */
GMP_API int gmp_done_wait_until(gmp_done *d, int64_t deadline);

/*
 * gmp_done_chan - a channel that is closed when the done object is set
 *
 * d  the done object, or NULL
 *
 * A receive from it waits until then and has the status -EPIPE. There is a channel for each P: call
 * this again before each select that may wait; it costs nanoseconds. Any thread may use any of the
 * channels.
 *
 * Returns the channel; NULL for NULL. It belongs to d: sending to it, closing it and freeing it are
 * misuse.
 */
GMP_API gmp_chan *gmp_done_chan(gmp_done *d);

/*
 * gmp_done_free - free a done object
 *
 * d  the object; NULL is a no-op. An object with a waiter is misuse. If a gmp_done_set is still
 *    under way, its thread releases the memory.
 */
GMP_API void gmp_done_free(gmp_done *d);

#ifdef __cplusplus
}
#endif

#endif
