/* SPDX-License-Identifier: MIT */
/*
 * Singleflight: concurrent callers with the same key share one computation.
 */
#ifndef GMPRT_SINGLEFLIGHT_H
#define GMPRT_SINGLEFLIGHT_H

#include "base.h"
#include "time.h" /* GMP_FOREVER, gmp_deadline */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A table of computations under way. No result is kept: a call after the end of a computation
 * computes again.
 *
 * A table may be used by one run after the other. If shutdown kills the caller that computes, the
 * key stays busy: call gmp_singleflight_forget. An external thread that waits for it then waits
 * until its deadline.
 *
 * Source: Go's singleflight.
 *
 * Example:
 *   struct page { int sharers_gone; char text[32]; };
 *
 *   static int load(void *path, void *value)                 // 0, or a negative errno
 *   {
 *           struct page *p = calloc(1, sizeof(*p));
 *
 *           if (!p)
 *                   return -ENOMEM;
 *           snprintf(p->text, sizeof(p->text), "page of %s", (char *)path);
 *           *(struct page **)value = p;
 *           return 0;
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_singleflight *f = gmp_singleflight_new(sizeof(struct page *));
 *           char path[] = "/index";
 *           struct page *p;
 *           int sharers, err;
 *
 *           (void)arg;
 *           err = gmp_singleflight_do(f, path, strlen(path), load, path, &p, &sharers);
 *           assert(err == 0 && strcmp(p->text, "page of /index") == 0);
 *           if (__atomic_add_fetch(&p->sharers_gone, 1, __ATOMIC_ACQ_REL) == sharers)
 *                   free(p);                                 // the last sharer
 *           gmp_singleflight_free(f);
 *   }
 */
typedef struct gmp_singleflight gmp_singleflight;

/*
 * gmp_singleflight_new - make a table
 *
 * value_size  bytes of a value; 0: none
 *
 * Works without a runtime.
 *
 * Returns the table; NULL without memory, or if no key (gmp/key.h) is free. Free it by
 * gmp_singleflight_free.
 */
GMP_API gmp_singleflight *gmp_singleflight_new(size_t value_size);

/*
 * gmp_singleflight_do - compute a value, or wait for the caller that computes it
 *
 * f          the table
 * key, size  any bytes; calls with the same bytes share a computation. key may be NULL if size is
 *            0.
 * fn, arg    if no call computes under the key, the caller runs fn(arg, value), where value points
 *            to zeroed bytes that fn fills. A call under the same key in fn waits indefinitely. In
 *            C++ no exception may leave fn.
 * value      receives a copy of the value; may be NULL
 * sharers    receives the number of calls that have the value, 1 or more; may be NULL
 *
 * value and sharers are written if the computation has completed: after 0, after each error that fn
 * returns (the value is then what fn left in it), and after -EOWNERDEAD. They are not written if
 * the call returns an error of its own: -EINVAL, -ENOMEM without a computation, -ECANCELED and
 * -ETIMEDOUT of its wait. fn may return the same errors: set *sharers to 0 before the call, and it
 * tells the two apart.
 *
 * Cancellation: fn runs on one caller's thread. If that caller is cancelled, waits in fn return
 * -ECANCELED. If fn returns that, all sharers get it, although they are not cancelled. Either mask
 * cancellation in fn (gmp_cancel_mask(1) at its start, gmp_cancel_mask(0) at its end), or let a
 * sharer that gets -ECANCELED call again unless gmp_cancelled(). A mask around the whole call works
 * too, but then the wait for another caller is not cut short either.
 *
 * Returns what fn returned, to all sharers.
 * Errors:
 *   -EINVAL      f or fn is NULL, or key is NULL and size is not 0
 *   -ENOMEM      no memory
 *   -EAGAIN      on an external thread, fn has not run: as gmp_key_set
 *   -ECANCELED   the calling green thread was cancelled while it waited for another caller
 *   -EOWNERDEAD  the thread that computed has ended in fn (gmp_exit)
 * -ENOMEM and -EAGAIN of the caller that was to run fn go to all sharers, as results of fn do.
 */
GMP_API int gmp_singleflight_do(gmp_singleflight *f, const void *key, size_t size,
				int (*fn)(void *arg, void *value), void *arg, void *value,
				int *sharers);

/*
 * gmp_singleflight_do_until - gmp_singleflight_do, or give up at a deadline
 *
 * f, key, size, fn, arg, value, sharers  as gmp_singleflight_do
 * deadline  nanoseconds on the clock of gmp_now(), of the wait for another caller, not of an fn
 *           that this call runs. A deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_singleflight_do, and
 *   -ETIMEDOUT  another caller still computes at the deadline
 */
GMP_API int gmp_singleflight_do_until(gmp_singleflight *f, const void *key, size_t size,
				      int (*fn)(void *arg, void *value), void *arg, void *value,
				      int *sharers, int64_t deadline);

/*
 * gmp_singleflight_forget - let a later call compute again, and not join the present computation
 *
 * f, key, size  as gmp_singleflight_do
 *
 * Returns 0.
 * Errors:
 *   -ENOENT  no call computes under the key
 *   -EINVAL  f is NULL, or key is NULL and size is not 0
 */
GMP_API int gmp_singleflight_forget(gmp_singleflight *f, const void *key, size_t size);

/*
 * gmp_singleflight_free - free a table
 *
 * f  the table; NULL is a no-op. A table in which a call is under way is misuse.
 */
GMP_API void gmp_singleflight_free(gmp_singleflight *f);

#ifdef __cplusplus
}
#endif

#endif
