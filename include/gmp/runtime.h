/* SPDX-License-Identifier: MIT */
/*
 * Start and stop the runtime, and set the number of Ps.
 *
 * At most one runtime exists in a process at a time. It can be started again after it has stopped.
 *
 * Configuration, scheduler modes, virtual time, shutdown and deadlocks: docs/api/running.md.
 * Signals, fork and child processes: docs/api/signals-and-fork.md.
 */
#ifndef GMPRT_RUNTIME_H
#define GMPRT_RUNTIME_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Scheduler modes, for comparisons: docs/api/running.md, "Scheduler modes". All except the first
 * are slower at most things.
 *
 *   GMP_SCHED_RUNNEXT  a queue for each P, work stealing; the G made runnable last runs next (Go
 *                      1.5)
 *   GMP_SCHED_LOCAL    a queue for each P, work stealing, FIFO order (Go 1.1)
 *   GMP_SCHED_GLOBAL   one queue with a lock for all Ps, FIFO order (Go 1.0)
 *   GMP_SCHED_THREAD   every green thread is an OS thread, and the kernel schedules it
 */
typedef enum gmp_sched {
	GMP_SCHED_RUNNEXT = 1,
	GMP_SCHED_LOCAL,
	GMP_SCHED_GLOBAL,
	GMP_SCHED_THREAD
} gmp_sched;

/*
 * How to start the runtime. A field that is 0 takes its value from the environment variable named
 * beside it. If that is unset or empty, the default applies. A program that has more privileges
 * than its caller (set-user-ID, set-group-ID, file capabilities: secure_getenv(3)) ignores the
 * environment.
 */
typedef struct gmp_config {
	size_t size; /* set by GMP_CONFIG_INIT */
	int procs;   /* GMP_PROCS: number of Ps, 1 to 1024; default: the CPUs that affinity and the
	                cgroup's quota leave */
	int max_threads;   /* GMP_MAX_THREADS: most OS threads that run green threads, 1 to
	                      1,000,000; default 10,000; the runtime has a few more for itself */
	size_t stack_size; /* GMP_STACK_SIZE: bytes reserved for a stack, at most 1 GiB, rounded up
	                      to a power of two of at least 16 KiB; default 256 KiB; see gmp_attr */
	unsigned flags;    /* GMP_VIRTUAL_TIME, GMP_COOPERATIVE, GMP_OWN_TLS (gmp/base.h), or 0 */
	uint64_t seed;     /* GMP_SEED: seeds every random draw of the scheduler; default: random */
	uint32_t max_green; /* GMP_MAX_GREEN: most green threads alive at once, 1 to 64 Mi; default
	                       16 Mi */
	int sched; /* GMP_SCHED: enum gmp_sched; in the environment runnext, local, global, thread;
	              default runnext */
	uint64_t max_stack_memory; /* GMP_MAX_STACK_MEMORY: most bytes reserved for stacks of green
	                              threads, without their guards, 16 KiB or more; default no
	                              limit */
	int64_t preempt_ns; /* GMP_PREEMPT: ns of a time slice, 1 ms to 1 hour, in the environment
	                       also with the suffix us, ms or s, or `off` (GMP_COOPERATIVE);
	                       default 10 ms */
} gmp_config;
#define GMP_CONFIG_INIT GMP_SIZED_INIT_(gmp_config)

/*
 * For gmp_config.flags: virtual time, for tests; also GMP_DEBUG=virtual. The clock of gmp_now()
 * is stopped while a green thread runs or is runnable, and jumps to the next timer or deadline
 * when all of them wait. docs/api/running.md, "Virtual time", has what it cannot cover.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           int64_t start = gmp_now();
 *
 *           (void)arg;
 *           for (int i = 0; i < 60; i++)
 *                   gmp_sleep(60 * GMP_S);
 *           assert(gmp_now() - start == 3600 * GMP_S);     // an hour, and no time has passed
 *   }
 *
 *   int main(void)
 *   {
 *           gmp_config c = GMP_CONFIG_INIT;
 *
 *           c.procs = 1;
 *           c.seed = 42;
 *           c.flags = GMP_VIRTUAL_TIME;
 *           return gmp_run(app, NULL, &c) != 0;
 *   }
 */
#define GMP_VIRTUAL_TIME 1u

/*
 * For gmp_config.flags: no preemption; also GMP_PREEMPT=off. A green thread then keeps its P until
 * it waits, yields, ends, or enters blocking code, however long it computes or sleeps in the
 * kernel. docs/api/preemption.md says what is done otherwise.
 */
#define GMP_COOPERATIVE 2u

/*
 * gmp_run - start the runtime, run fn(arg) as the first green thread, stop when it ends
 *
 * fn   the entry function of the first green thread. The run ends when it returns or calls
 *      gmp_exit.
 * arg  its argument
 * cfg  the configuration; NULL: all fields 0
 *
 * The calling OS thread serves as one of the runtime's Ms during the run; with preemption it runs
 * fn until that waits or yields, and longer if fn calls gmp_lock_thread or gmp_pin before. Green
 * threads that still exist when fn ends are killed at shutdown, as in Go: waiting and runnable ones
 * never run again, running ones stop at their next wait or checkpoint, blocked ones when their
 * blocking code ends, which gmp_run waits for. With preemption gmp_run waits one second for a green
 * thread that computes; then that computes on, on its OS thread, until its next call of gmp
 * (docs/api/preemption.md, "The end of a run"). They are dequeued from every object; what they held
 * stays held. An external thread that waits for something that only the runtime could do gets
 * -ESRCH.
 *
 * If no green thread can ever run again, gmp_run prints "gmp: fatal: all green threads are asleep -
 * deadlock!", a dump and the cycles of waiters, and ends the process with status 2.
 * docs/api/running.md, "Deadlock", has the conditions.
 *
 * Returns 0 after the run. It may be called again.
 * Errors, nothing has run:
 *   -EBUSY   a runtime exists, or the caller is a green thread
 *   -EINVAL  fn is NULL, or a setting of cfg or of the environment is out of range or unknown; a
 *            line on stderr names it
 *   -E2BIG   cfg is of a newer version and sets a field that this version does not know
 *   -ENOTSUP GMP_SCHED_THREAD together with GMP_VIRTUAL_TIME or GMP_DEBUG=chaos; or the pages of
 *            the kernel are larger than 4 KiB; or the CPU checks returns of the calling thread
 *            against a shadow stack (docs/security.md); or GMP_OWN_TLS where it cannot be (a line
 *            on stderr says why)
 *   -ENOMEM  no memory; or the calling thread has less than 24 KiB of its stack left, where the
 *            scheduler runs
 *   -EAGAIN  the system gives no OS thread, or max_stack_memory is below one stack
 *   -EMFILE  the system gives no file descriptor; other errors of the system likewise
 *
 * Threads: external.
 */
GMP_API int gmp_run(gmp_fn fn, void *arg, const gmp_config *cfg);

/*
 * gmp_start - start the runtime on OS threads of its own, and return
 *
 * cfg  the configuration; NULL: all fields 0
 *
 * For a program that keeps its own main loop: the caller stays an external thread. A deadlock is
 * never reported in such a run.
 *
 * Returns 0.
 * Errors, nothing has been started: as gmp_run, except that the caller's stack does not matter.
 *
 * Threads: external.
 *
 * Example:
 *   static void work(void *arg) { gmp_wg_done(arg); }
 *
 *   int main(void)
 *   {
 *           gmp_wg w = GMP_WG_INIT;
 *
 *           if (gmp_start(NULL))
 *                   return 1;
 *           gmp_wg_add(&w, 1);
 *           gmp_go(work, &w);
 *           gmp_wg_wait(&w);                       // sleeps in the kernel
 *           return gmp_stop() != 0;
 *   }
 */
GMP_API int gmp_start(const gmp_config *cfg);

/*
 * gmp_stop - stop a runtime that gmp_start has started
 *
 * Green threads that still exist are killed at shutdown, as by gmp_run.
 *
 * Returns 0 when the last OS thread of the runtime has ended.
 * Errors:
 *   -ESRCH   no runtime, or another thread stops it already
 *   -EINVAL  the runtime was started by gmp_run
 *   -EPERM   the caller is a green thread
 *
 * Threads: external.
 */
GMP_API int gmp_stop(void);

/*
 * gmp_run_id - number of the present run
 *
 * For what is kept between calls and belongs to one run, as pools and timers do.
 *
 * Returns a number from 1 on that each run increases; 0 without a runtime.
 */
GMP_API uint64_t gmp_run_id(void);

/*
 * gmp_procs - number of Ps: how many green threads can run at one instant
 *
 * Source: Go's GOMAXPROCS.
 *
 * Returns the number; 0 without a runtime.
 */
GMP_API int gmp_procs(void);

/*
 * gmp_set_procs - change the number of Ps while green threads run
 *
 * n  the new number, 1 to 1024
 *
 * It never waits for a running green thread: a P that is removed stops at its next switch.
 *
 * Returns the old number.
 * Errors, nothing has changed:
 *   -EINVAL  n is out of range
 *   -ESRCH   no runtime
 *   -ENOMEM  no memory
 *
 * Source: Go's runtime.GOMAXPROCS(n).
 */
GMP_API int gmp_set_procs(int n);

#ifdef __cplusplus
}
#endif

#endif
