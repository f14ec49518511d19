/* SPDX-License-Identifier: MIT */
/*
 * Locals: a value of each thread's own under a key that all threads share.
 *
 * The same as pthread_getspecific(3), for green threads too: the request that a log line belongs
 * to, a buffer that is kept, a transaction.
 */
#ifndef GMPRT_KEY_H
#define GMPRT_KEY_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A key. 0 is never a key.
 *
 * When a thread ends, also by gmp_exit, destroy(value) runs on it for each key that has a
 * destructor and a value; the value that was set last (when there was none) is destroyed first, and
 * is NULL by then. A destructor may wait, start green threads, read and set values; the destructor
 * of a key runs four times at most. gmp_join returns after the destructors. A cancelled green
 * thread is cancelled in its destructors too: see gmp_cancel_mask. Green threads that are killed at
 * shutdown run no destructors. In C++ no exception may leave a destructor.
 *
 * In blocking code (gmp_block_enter) the values are still the green thread's. In the child of a
 * fork the thread that continues has the values of the green thread that called fork; if a
 * destructor forked, its return ends the child with _exit(0), and the other destructors do not run
 * in it.
 *
 * Example:
 *   static gmp_key request;
 *   static int freed;
 *
 *   static void request_free(void *value)
 *   {
 *           free(value);
 *           freed++;
 *   }
 *
 *   static int request_id(void) { return *(int *)gmp_key_get(request); }    // however deep
 *
 *   static void serve(void *conn)
 *   {
 *           int *id = malloc(sizeof(*id));
 *
 *           (void)conn;
 *           *id = 17;
 *           gmp_key_set(request, id);
 *           assert(request_id() == 17);
 *   }                                       // here request_free(gmp_key_get(request)) runs
 *
 *   static void app(void *arg)
 *   {
 *           gmp_g *g;
 *
 *           (void)arg;
 *           gmp_key_create(&request, request_free);
 *           gmp_spawn(&g, serve, NULL, NULL);
 *           gmp_join(g);
 *           assert(freed == 1);
 *           gmp_key_delete(request);
 *   }
 */
typedef unsigned gmp_key;

/*
 * gmp_key_create - make a key
 *
 * k        receives the key, under which every thread, green or external, finds NULL until it sets
 *          a value
 * destroy  the destructor of its values; NULL: none
 *
 * With or without a runtime; keys, and the values of external threads, outlive a run.
 *
 * Returns 0.
 * Errors:
 *   -EAGAIN  1024 keys exist, or one less for each 4,194,303 that were made and deleted: their
 *            numbers are used up, since no number is given twice
 *   -EINVAL  k is NULL
 */
GMP_API int gmp_key_create(gmp_key *k, void (*destroy)(void *value));

/*
 * gmp_key_delete - delete a key
 *
 * k  no thread may use it any more. Its values are forgotten; no destructor runs for them.
 *
 * Returns 0.
 * Errors:
 *   -EINVAL  k is no key
 */
GMP_API int gmp_key_delete(gmp_key k);

/*
 * gmp_key_get - the caller's value under a key
 *
 * k  the key
 *
 * Cost: a few instructions.
 *
 * Returns the value; NULL if the caller has set none.
 */
GMP_API void *gmp_key_get(gmp_key k);

/*
 * gmp_key_set - set the caller's value under a key
 *
 * k  the key
 * v  the value; NULL: none
 *
 * Returns 0.
 * Errors, only if the caller sets its first value, or one under a key that it has not used yet:
 *   -EINVAL  k is no key
 *   -ENOMEM  no memory
 *   -EAGAIN  on an external thread: libc has no pthread key left for gmp
 */
GMP_API int gmp_key_set(gmp_key k, void *v);

#ifdef __cplusplus
}
#endif

#endif
