/* SPDX-License-Identifier: MIT */
/*
 * libuv in green threads: run a loop in one green thread, and wait for requests in others.
 *
 * The library is libgmprt_uv (pkg-config and CMake package gmprt-uv). docs/api/uv.md has what a
 * callback may do, what depends on the OS thread, and what libuv does with signals and children.
 */
#ifndef GMPRT_GMP_UV_H
#define GMPRT_GMP_UV_H

#include "gmp/base.h"

#include <sys/types.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * gmp_uv_run - run a loop in the calling green thread, as uv_run(loop, UV_RUN_DEFAULT)
 *
 * loop  an initialised loop that no thread runs
 *
 * While the loop has nothing to do, the caller is parked and its P runs other green threads.
 * Callbacks run on the calling green thread. A callback may call functions of gmp that wait; no
 * other callback of the loop runs until it returns, and other green threads run. A callback must
 * not call gmp_exit, or leave by an exception or longjmp. As always with libuv, other threads call
 * nothing of the loop except uv_async_send.
 *
 * Returns 0 when no active handle or request is left; 1 after uv_stop, if there is still one.
 * Errors; except for -EBUSY and -EINVAL the loop may have run, and may be run again:
 *   -EINVAL     loop is NULL
 *   -EBUSY      a green thread runs the loop already
 *   -ECANCELED  the calling green thread was cancelled, and the loop would have to wait
 *   -ENOMEM, -ENOSPC, -EMFILE ...  no memory, no room in the poller, no file descriptor
 *
 * Threads: any. On an external thread, and in blocking code, it is uv_run itself.
 *
 * Example:
 *   static void on_timer(uv_timer_t *t)
 *   {
 *           gmp_sleep(GMP_MS);                     // the loop waits, other Gs run
 *           uv_close((uv_handle_t *)t, NULL);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           uv_loop_t loop;
 *           uv_timer_t t;
 *
 *           (void)arg;
 *           uv_loop_init(&loop);
 *           uv_timer_init(&loop, &t);
 *           uv_timer_start(&t, on_timer, 10, 0);
 *           assert(gmp_uv_run(&loop) == 0);
 *           assert(uv_loop_close(&loop) == 0);
 *   }
 */
GMP_API int gmp_uv_run(uv_loop_t *loop);

/* A call of gmp_uv_await under way. */
typedef struct gmp_uv_wait gmp_uv_wait;

/*
 * gmp_uv_await - start a request on a loop, and wait until its callback has run
 *
 * loop   a loop that another green thread runs by gmp_uv_run
 * start  called on the green thread of the loop, as a callback. It starts a request or a handle,
 *        and stores w where the callback finds it, for example in uv_req_t.data. It returns 0, and
 *        gmp_uv_done is called for w exactly once, by a callback or by start itself; or it returns
 *        a negative error, and gmp_uv_done is not called.
 * arg    its argument. As the call does not return before the callback, the request may lie on the
 *        caller's stack.
 *
 * Before start is called, the call does not keep the loop active: a loop that only serves such
 * calls needs an active handle. After start has been called, the call waits for gmp_uv_done,
 * whatever happens: a cancelled caller too, and if the loop was stopped, until it is run again. To
 * give a request up, let a second call on the same loop do uv_cancel or uv_close.
 *
 * Returns the result given to gmp_uv_done; by convention 0 or a count, or a negative error.
 * Errors, start has not been called:
 *   -EINVAL     loop or start is NULL
 *   -EPERM      the caller is an external thread, or in blocking code
 *   -EDEADLK    the caller runs the loop
 *   -ESRCH      no green thread runs the loop, or gmp_uv_run returned first
 *   -ECANCELED  the calling green thread was cancelled
 * Errors of start: any; libuv's errors are negative errno values too.
 *
 * Threads: green threads.
 *
 * Example:
 *   struct lookup { uv_fs_t req; const char *path; };
 *
 *   static void on_stat(uv_fs_t *req) { gmp_uv_done((gmp_uv_wait *)req->data, req->result); }
 *
 *   static int start_stat(uv_loop_t *loop, gmp_uv_wait *w, void *arg)
 *   {
 *           struct lookup *l = (struct lookup *)arg;
 *
 *           l->req.data = w;
 *           return uv_fs_stat(loop, &l->req, l->path, on_stat);
 *   }
 *
 *   static void run(void *loop) { gmp_uv_run((uv_loop_t *)loop); }
 *   static void on_close(uv_async_t *a) { uv_close((uv_handle_t *)a, NULL); }
 *
 *   static void app(void *arg)
 *   {
 *           struct lookup l = { .path = "/" };
 *           uv_loop_t loop;
 *           uv_async_t end;
 *           gmp_g *g;
 *           ssize_t result;
 *
 *           (void)arg;
 *           uv_loop_init(&loop);
 *           uv_async_init(&loop, &end, on_close);  // keeps the loop active
 *           gmp_spawn(&g, run, &loop, NULL);
 *           while ((result = gmp_uv_await(&loop, start_stat, &l)) == -ESRCH)
 *                   gmp_yield();                   // the loop does not run yet
 *           assert(result == 0 && S_ISDIR(l.req.statbuf.st_mode));
 *           uv_fs_req_cleanup(&l.req);
 *           uv_async_send(&end);
 *           gmp_join(g);
 *           assert(uv_loop_close(&loop) == 0);
 *   }
 */
GMP_API ssize_t gmp_uv_await(uv_loop_t *loop,
			     int (*start)(uv_loop_t *loop, gmp_uv_wait *w, void *arg), void *arg);

/*
 * gmp_uv_done - end a call of gmp_uv_await
 *
 * w       what start was given. It must not be used after this call.
 * result  the result of the call
 *
 * It does not wait.
 *
 * Threads: any; usually a callback of the loop.
 */
GMP_API void gmp_uv_done(gmp_uv_wait *w, ssize_t result);

#ifdef __cplusplus
}
#endif

#endif
