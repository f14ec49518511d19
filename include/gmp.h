/* SPDX-License-Identifier: MIT */
/*
 * gmp runs green threads for C, scheduled as Go schedules goroutines.
 *
 * This header includes one header per subject; each of them can also be included alone:
 *
 *   gmp/base.h          version, errno, what all other headers share
 *   gmp/runtime.h       start and stop the runtime; number of Ps
 *   gmp/green.h         start, join, cancel, pin green threads
 *   gmp/time.h          deadlines, sleep, timers, ticks
 *   gmp/chan.h          channels and select
 *   gmp/sync.h          mutex, rwmutex, wait group, condition, semaphore, once, barrier, done
 *   gmp/io.h            file descriptors, sockets, files, host names
 *   gmp/process.h       child processes
 *   gmp/signal.h        signals as elements of a channel
 *   gmp/blocking.h      code that sleeps in the kernel or computes for long
 *   gmp/key.h           values that belong to one green thread
 *   gmp/debug.h         statistics, dumps, canaries
 *   gmp/pool.h          bounded pools of workers
 *   gmp/group.h         structured concurrency
 *   gmp/singleflight.h  one computation for all concurrent callers with the same key
 *
 * Conventions of all functions
 *   Results      0 or a count on success, a negative errno value (-EPIPE, -ETIMEDOUT) on failure.
 *                errno is neither read nor promised: after a wait the caller may be on another OS
 *                thread.
 *   Times        int64_t nanoseconds. A deadline is a point on the clock of gmp_now(). X_until() is
 *                X() that returns -ETIMEDOUT at its deadline; a deadline in the past makes one
 *                attempt. try_X() never waits and returns -EAGAIN instead.
 *   Threads      A function may be called by a green thread and, unless its comment says otherwise,
 *                by an external thread: an OS thread that the runtime did not create. A wait of an
 *                external thread sleeps in the kernel.
 *   No runtime   Without a running runtime, synchronisation, channels, select and sleep work
 *                between external threads. Functions that need a runtime return -ESRCH, or NULL.
 *   Cancelled    -ECANCELED is reported before -ETIMEDOUT. Unless a comment says otherwise, each
 *                function that waits returns it after a gmp_cancel of its caller (gmp/green.h).
 *   Objects      Synchronisation objects are plain structs, valid when all bytes are zero, and need
 *                no destroy. After the call that completes an exchange has returned, the object may
 *                be freed, even if the peer's call has not returned yet.
 *   Sizes        A struct with a `size` field must be initialised with its _INIT macro; size 0 is
 *                -EINVAL.
 *   Misuse       Misuse that cannot be reported prints "gmp: fatal: ..." and a backtrace, and
 *                aborts.
 *   pthreads     No function is a cancellation point. A pthread_cancel of an external thread inside
 *                a call stays pending until the call returns; this holds for gmp_run, for
 *                gmp_once_do with its function, and for waits. To end a wait use a deadline or
 *                gmp_close. The OS threads that run green threads are not cancelled.
 *                PTHREAD_CANCEL_ASYNCHRONOUS inside a call is forbidden. See docs/limits.md,
 *                "Cancellation of OS threads".
 *
 * Concepts: docs/api/README.md lists the pages. Limits: docs/limits.md. Diagnostics:
 * docs/debugging.md.
 *
 * Example:
 *   #include <gmp.h>
 *   #include <stdio.h>
 *
 *   static void hello(void *arg) { printf("hello from %s\n", (const char *)arg); }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_g *g;
 *
 *           (void)arg;
 *           if (gmp_spawn(&g, hello, "a green thread", NULL) == 0)
 *                   gmp_join(g);
 *   }
 *
 *   int main(void) { return gmp_run(app, NULL, NULL) != 0; }
 */
#ifndef GMPRT_GMP_H
#define GMPRT_GMP_H

#include "gmp/base.h"

#include "gmp/blocking.h"
#include "gmp/chan.h"
#include "gmp/debug.h"
#include "gmp/green.h"
#include "gmp/group.h"
#include "gmp/io.h"
#include "gmp/key.h"
#include "gmp/pool.h"
#include "gmp/process.h"
#include "gmp/runtime.h"
#include "gmp/signal.h"
#include "gmp/singleflight.h"
#include "gmp/sync.h"
#include "gmp/time.h"

#endif
