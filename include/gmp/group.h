/* SPDX-License-Identifier: MIT */
/*
 * Groups: structured concurrency, green threads that do one thing together.
 *
 * No child outlives the wait for its group. The first failure cancels the other children, and so
 * does the deadline.
 */
#ifndef GMPRT_GROUP_H
#define GMPRT_GROUP_H

#include "base.h"
#include "time.h" /* GMP_FOREVER, gmp_deadline */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A group has children, a limit on how many of them run at a time, a deadline, and a result.
 *
 * Result: the first child that returns a value other than 0 gives the group its result, and cancels
 * the others (gmp_cancel). If the deadline passes before all children have ended, the result is
 * -ETIMEDOUT, and all are cancelled. If gmp_config.max_green are alive just then and no thread
 * waits in gmp_group_wait or gmp_group_go, that happens only when the next green thread ends. From
 * then on the result stays: gmp_group_go still starts fn, but already cancelled, so that what fn
 * has to clean up is cleaned up. A group without a failure can be used again after a wait.
 *
 * A group may live as long as the run: the memory of children that have ended is used again, so it
 * grows with the number of children that exist at a time, not with the number that was started. The
 * children of such a group must return 0, also after an error of their own (a connection that was
 * reset): any other value cancels all children, and each later one when it starts.
 *
 * No call cancels one child: a child can publish its gmp_self() (gmp/green.h has the rules), or be
 * a green thread of gmp_spawn instead.
 *
 * End of a child: its function has returned, and the destructors of its locals have run. A child
 * that ends by gmp_exit has returned 0. In C++ no exception may leave a child's function.
 *
 * A group belongs to the run that made it: after that run its calls return -ESRCH, and
 * gmp_group_free only frees.
 *
 * Source: Go's errgroup with a context.
 *
 * Example:
 *   static int fetch(void *url)                            // 0, or a negative errno value
 *   {
 *           return url ? gmp_sleep(GMP_MS) : -ENOENT;
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_group *g = gmp_group_new(8, gmp_deadline(2 * GMP_S));   // 8 at a time, 2 s in all
 *           char *urls[] = { "a", "b", NULL, "c" };
 *
 *           (void)arg;
 *           for (int i = 0; i < 4; i++)
 *                   gmp_group_go(g, fetch, urls[i]);
 *           assert(gmp_group_wait(g) == -ENOENT);          // all have ended
 *           gmp_group_free(g);
 *   }
 */
typedef struct gmp_group gmp_group;

/*
 * gmp_group_new - make a group
 *
 * limit     how many children may run at a time; 0 or less: any number
 * deadline  nanoseconds on the clock of gmp_now(); GMP_FOREVER: none
 *
 * Returns the group; NULL without memory or a runtime. Free it by gmp_group_free.
 */
GMP_API gmp_group *gmp_group_new(int limit, int64_t deadline);

/*
 * gmp_group_go - start a child; at the limit, wait first until a child has ended
 *
 * g        the group
 * fn, arg  the child's function and its argument. fn returns 0, or an error that becomes the
 *          group's result.
 *
 * Threads: any, also a child of the group.
 *
 * Returns 0.
 * After 0 fn is called, with one exception: if there is no memory for the green thread's first
 * gmp_key value, the group fails with -ENOMEM instead.
 * Errors, nothing has been started:
 *   -ECANCELED  the calling green thread was cancelled while it waited
 *   -EINVAL     g or fn is NULL
 *   -ENOMEM     no memory
 *   -EAGAIN     gmp_config.max_green green threads are alive, or max_stack_memory is reserved
 *   -ESRCH      the run that made the group has ended
 */
GMP_API int gmp_group_go(gmp_group *g, int (*fn)(void *arg), void *arg);

/*
 * gmp_group_try_go - gmp_group_go that does not wait
 *
 * g, fn, arg  as gmp_group_go
 *
 * Returns and errors: as gmp_group_go without -ECANCELED, and
 *   -EAGAIN  also: the limit is reached
 *
 * The result does not tell the limit from the other causes of -EAGAIN (gmp_config.max_green,
 * max_stack_memory), and a gmp_group_running afterwards is only a hint. If a program must know, it
 * keeps the limit itself: a group without a limit, and a gmp_sem with a permit per child.
 * gmp_sem_try_acquire before gmp_group_go is -EAGAIN at the limit; the child releases the permit.
 */
GMP_API int gmp_group_try_go(gmp_group *g, int (*fn)(void *arg), void *arg);

/*
 * gmp_group_wait - wait until all children have ended, also children that children start meanwhile
 *
 * g  the group. A child that waits for its own group waits indefinitely.
 *
 * Cancellation does not cut it short. If the caller is cancelled (and has not masked that), the
 * children are, and it continues to wait for them. So cancelling a green thread reaches the groups
 * that it waits for, and the groups in these.
 *
 * Returns the result of the group.
 * Errors:
 *   -EINVAL  g is NULL
 *   -ENOMEM  a child could not begin: see gmp_group_go
 *   -ESRCH   the run has ended, and the children were killed
 */
GMP_API int gmp_group_wait(gmp_group *g);

/*
 * gmp_group_wait_until - wait until all children have ended, or give up at a deadline
 *
 * g         the group
 * deadline  nanoseconds on the clock of gmp_now(), of this wait alone: the children run on when it
 *           passes. A deadline in the past asks whether all have ended. GMP_FOREVER waits
 *           indefinitely but can be cancelled, unlike gmp_group_wait.
 *
 * Returns the result of the group, as gmp_group_wait, when all children have ended.
 * Errors; the group and its children are as they were, and g can be waited for again:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT). The children
 *               are not: call gmp_group_cancel or gmp_group_free for that.
 *   -EINVAL     g is NULL
 *   -ESRCH      the run has ended, and the children were killed
 *
 * A child may return the same values, and a group whose own deadline passed has the result
 * -ETIMEDOUT: gmp_group_running tells the two apart.
 */
GMP_API int gmp_group_wait_until(gmp_group *g, int64_t deadline);

/*
 * gmp_group_running - the number of children that have been started and have not ended
 *
 * g  the group
 *
 * Returns the number; it is of the past as soon as other green threads start children or children
 * end.
 * Errors:
 *   -EINVAL  g is NULL
 *   -ESRCH   the run has ended, and the children were killed
 */
GMP_API int gmp_group_running(gmp_group *g);

/*
 * gmp_group_cancel - cancel the children, and later ones when they start
 *
 * g  the group; NULL is a no-op, and so is a group whose run has ended
 *
 * The result of the group is what the children make of it.
 */
GMP_API void gmp_group_cancel(gmp_group *g);

/*
 * gmp_group_free - cancel running children, wait for them, and free the group
 *
 * g  the group; NULL is a no-op. No other call with it may be made any more.
 */
GMP_API void gmp_group_free(gmp_group *g);

#ifdef __cplusplus
}
#endif

#endif
