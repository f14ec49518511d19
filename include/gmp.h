/* SPDX-License-Identifier: MIT */
/*
 * gmp: green threads for C, scheduled as Go schedules goroutines.
 *
 *   #include <gmp.h>
 *   #include <stdio.h>
 *
 *   static void hello(void *arg) { printf("hello from %s\n", (const char *)arg); }
 *
 *   static void app(void *arg)
 *   {
 *           gmp_g *g;
 *           (void)arg;
 *           if (gmp_spawn(&g, hello, "a green thread", NULL) == 0)
 *                   gmp_join(g);
 *   }
 *
 *   int main(void) { return gmp_run(app, NULL, NULL) != 0; }
 *
 * Conventions that hold for every function on this page:
 *
 * - Failure is a negative errno value (-EPIPE, -ETIMEDOUT ...), success is 0 or a count.
 *   errno is neither read nor promised: after a wait the caller may be on another thread.
 * - Times are int64_t nanoseconds.  A deadline is a point on the clock that gmp_now() reads.
 *   X_until(..., deadline) is X that gives up with -ETIMEDOUT; a deadline in the past makes it
 *   a try.  try_X never waits and says -EAGAIN instead.
 * - Calls may be made from a green thread and, unless their text says otherwise, from a
 *   thread that the runtime did not make (an "external" thread), which then sleeps in the kernel.
 * - Without a running runtime, synchronisation, channels and sleeping still work between external
 *   threads; whatever needs one returns -ESRCH (or NULL).
 * - Synchronisation objects are plain structs, valid when all bytes are zero, and need no
 *   destroy.  Once the call that completes an exchange has returned, the object may be freed,
 *   even if the peer's call has not returned yet.
 * - No call is a cancellation point of pthreads: a pthread_cancel of an external thread inside a call stays
 *   pending until the call has returned, gmp_run, gmp_once_do with its function, and waits included. To end a
 *   wait use a deadline or gmp_close. The threads that run green threads are not cancelled.
 *   PTHREAD_CANCEL_ASYNCHRONOUS inside a call is forbidden.
 * - Misuse that cannot be reported prints "gmp: fatal: ...", a backtrace, and aborts.
 * - A struct with a `size` field is initialised with its _INIT macro; size 0 is -EINVAL.
 */
#ifndef GMPRT_GMP_H
#define GMPRT_GMP_H

#include <errno.h> /* gmp_blocking_sys */
#include <limits.h>
#include <poll.h> /* gmp_poll */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GMP_API __attribute__((visibility("default")))
#else
#define GMP_API
#endif

/*
 * The version of this header: semantic versioning. Before 1.0 the minor number changes when a program
 * has to be compiled anew or changed. CMakeLists.txt takes the version of the package from here.
 */
#define GMP_VERSION_MAJOR 0
#define GMP_VERSION_MINOR 2
#define GMP_VERSION_PATCH 0

/*
 * gmp_version_string - the version of the library that the program runs with, for example "0.2.0"
 *
 * It differs from GMP_VERSION_* if the program was compiled with the header of another version.
 * Returns a string with static storage duration.
 */
GMP_API const char *gmp_version_string(void);

/* A struct that tells its own size, all else 0. */
#ifdef __cplusplus
extern "C++" {
template <typename T> inline T gmp_sized_()
{
	T t = T();

	t.size = sizeof(T);
	return t;
}
}
#define GMP_SIZED_INIT_(type) gmp_sized_<type>()
#else
/* clang-format off */
#define GMP_SIZED_INIT_(type) { .size = sizeof(type) }
/* clang-format on */
#endif

/* ------------------------------------------------------------------ Runtime */

/* What a green thread runs. */
typedef void (*gmp_fn)(void *arg);

/*
 * How the ready ones are kept: the generations of Go's scheduler, to compare them in one program
 * (docs/experiments.md).  All but the first are slower at most things.
 *
 *   GMP_SCHED_RUNNEXT  a queue for each P, stealing, and what was made ready last runs next (Go 1.5)
 *   GMP_SCHED_LOCAL    a queue for each P, stealing, in order (Go 1.1)
 *   GMP_SCHED_GLOBAL   one queue with a lock for all Ps, in order (Go 1.0)
 *   GMP_SCHED_THREAD   every green thread is a thread of the kernel's, which schedules it
 *
 * With GMP_SCHED_THREAD all calls do what they say; but the Ps bound nothing, a deadlock is not reported,
 * gmp_dump and gmp_stats count all green threads as in blocking code, an overflow of a stack is a plain
 * SIGSEGV, and max_threads bounds the green threads too (gmp_go: -EAGAIN).  At the end of the run those
 * that live leave at their next wait, yield or checkpoint (gmp_go is -ESRCH by then, and no such point);
 * gmp_run waits for a green thread that sleeps in the kernel by itself or resolves a name.  Not with
 * GMP_VIRTUAL_TIME or chaos: gmp_run returns -ENOTSUP.
 */
typedef enum gmp_sched {
	GMP_SCHED_RUNNEXT = 1,
	GMP_SCHED_LOCAL,
	GMP_SCHED_GLOBAL,
	GMP_SCHED_THREAD
} gmp_sched;

/*
 * How to start the runtime.  A field that is 0 takes its value from the environment variable
 * named beside it, and where that is unset, from the default.  A program that has more privileges than
 * its caller (set-user-ID, set-group-ID, file capabilities: secure_getenv(3)) ignores the environment.
 */
typedef struct gmp_config {
	size_t size; /* set by GMP_CONFIG_INIT */
	int procs;   /* GMP_PROCS: number of Ps, 1..1024; default: the CPUs that affinity and the
	                      cgroup's quota leave */
	int max_threads;   /* GMP_MAX_THREADS: most threads that the runtime makes; default 10000 */
	size_t stack_size; /* GMP_STACK_SIZE: bytes reserved for a stack, 16 KiB..1 GiB (rounded up to
	                      a power of two); default 256 KiB; see gmp_attr */
	unsigned flags;    /* GMP_VIRTUAL_TIME, or 0 */
	uint64_t seed;     /* GMP_SEED: seeds every random draw of the scheduler; default: random */
	uint32_t max_green; /* GMP_MAX_GREEN: most green threads alive at once; default 16 Mi */
	int sched; /* GMP_SCHED: enum gmp_sched, in the environment runnext, local ...; default runnext */
	uint64_t max_stack_memory; /* GMP_MAX_STACK_MEMORY: most bytes reserved for stacks of green
	                              threads, without their guards; default no limit */
} gmp_config;
#define GMP_CONFIG_INIT GMP_SIZED_INIT_(gmp_config)

/*
 * For gmp_config.flags: virtual time, for tests (also GMP_DEBUG=virtual).  The clock of gmp_now stands
 * still while a green thread runs or could run, and jumps to the next timer or deadline when all of them
 * wait: a test of an hour's timeouts takes milliseconds, and what it measures with gmp_now is exact.
 *
 * While a green thread waits for a descriptor or is in blocking code (a name is looked up in it), time
 * is that of the machine, since their end cannot be foreseen.  External threads are not waited for: their own
 * deadlines are as far away as they were on the clock when the call began, in real time.  The clock
 * begins at the same point in each run, so deadlines from outside of it mean nothing inside.  A loop
 * that looks at gmp_now until it is late must sleep in it: yielding takes no time.
 *
 * With procs = 1 a run in virtual time is repeated step by step by one with the same seed, as long as
 * the program does the same: without external threads, descriptors, blocking code and signals.
 *
 *   static void retries_for_an_hour(void *arg) { ... gmp_sleep(...) ... }
 *   gmp_config c = GMP_CONFIG_INIT;
 *   c.procs = 1, c.seed = 42, c.flags = GMP_VIRTUAL_TIME;
 *   gmp_run(retries_for_an_hour, NULL, &c);
 */
#define GMP_VIRTUAL_TIME 1u

/*
 * Start the runtime, run fn(arg) as the first green thread, and stop when it returns (or calls
 * gmp_exit).  The calling thread serves as one of the runtime's threads meanwhile.
 *
 * Green threads that still live when fn returns are killed, as in Go: waiting and runnable ones
 * never run again, running ones stop at their next wait or checkpoint.  They are dequeued from every
 * queue; what they held stays held; an external thread that waits for something only the runtime could
 * do gets -ESRCH.
 *
 * When no green thread can ever run again, gmp_run prints "gmp: fatal: all green threads are
 * asleep - deadlock!" with what each waits for, as gmp_dump has it, and the cycles of green threads
 * that wait for each other; then it ends the process with status 2.  It does not report while the process
 * has threads that the runtime did not make.  Sleepers and armed timers may still make something happen; a
 * deadline of a descriptor without a waiter does not.
 *
 * Returns 0; -EBUSY inside a running runtime; -EINVAL for a bad configuration (also from the
 * environment); -E2BIG if cfg is of a newer version, and sets a field that this one does not know;
 * -ENOMEM, -EAGAIN, -EMFILE when the system refuses what the start needs; -ENOMEM if the calling thread
 * has less than 24 KiB of its stack left: the scheduler runs there.
 * Not from a green thread (-EBUSY).  May be called again after it has returned.
 */
GMP_API int gmp_run(gmp_fn fn, void *arg, const gmp_config *cfg);

/*
 * Signals.  The OS threads that run green threads have the signal mask of the thread that called gmp_run or
 * gmp_start, except that SIGSEGV and SIGBUS are unblocked.  A handler of the program runs on any thread, as
 * in every program with several threads; it may interrupt gmp, so it must not call gmp: set a flag, or use
 * gmp_signal_notify in place of a handler.  A signal that a green thread sends to its own thread (raise) is
 * handled at once.
 *   Stack of a handler: handlers that exist when the run begins get SA_ONSTACK until it ends, and run on an
 * alternate stack of gmp's (48 KiB and the kernel's frame).  Set SA_ONSTACK on a handler that you install during
 * a run: without it, it needs room on the stack of whichever green thread it interrupts.
 *   SIGPIPE: a plain write(2) of a green thread to a broken pipe is EPIPE and raises nothing.  While
 * SIGPIPE has its default action, a handler of gmp stands in its place until the run ends; on other threads
 * SIGPIPE ends the process as before.  A handler of the program is called, as by every write(2).  If the
 * program sets SIGPIPE to its default action during a run, it ends the process from green threads, too.
 *
 * Child processes.  A child that is made by fork, system, popen, posix_spawn or gmp_process_spawn, and a program
 * that replaces this one by exec, start with the mask above.
 */

/*
 * The child of a fork() has one thread, which is an external one, and no runtime: it may start one.  Where a
 * green thread forked, that thread continues on its stack; if it returns from the function of the green
 * thread, it ends the child with _exit(0).  Channels, locks and the like are as they were at that
 * instant, without their waiters: what another thread held stays held, and a channel that another thread
 * was using just then may stay locked.  So the child uses new ones, and those which no other thread used
 * meanwhile.  Pools, groups and timers are the parent's.
 */

/*
 * gmp_run for a program that keeps its own main loop: gmp_start makes the runtime run on threads
 * of its own and returns, the caller stays an external thread; gmp_stop, from an external thread,
 * drops what still lives and returns when the runtime's last thread has ended.
 * gmp_stop: -ESRCH without a runtime, -EINVAL under gmp_run, -EPERM from a green thread.
 */
GMP_API int gmp_start(const gmp_config *cfg);
GMP_API int gmp_stop(void);

/*
 * The number of the present run, from 1: a second gmp_run has another.  0 where no runtime runs.
 * For what is kept between calls and belongs to a run, as pools and timers do.
 */
GMP_API uint64_t gmp_run_id(void);

/*
 * The number of Ps: how many green threads can run at one instant (Go's GOMAXPROCS).  0 without a
 * runtime.  gmp_set_procs changes it while everything runs and returns the old number; it never
 * waits for a running green thread: a P that is to go goes at its next switch.
 * -EINVAL for n < 1 or n > 1024, -ESRCH without a runtime, -ENOMEM.
 */
GMP_API int gmp_procs(void);
GMP_API int gmp_set_procs(int n);

/* ------------------------------------------------------------ Green threads */

/* A green thread's handle (Go: the G).  Opaque. */
typedef struct gmp_g gmp_g;

typedef struct gmp_attr {
	size_t size;      /* set by GMP_ATTR_INIT */
	const char *name; /* copied (at most 63 bytes); shown in every diagnostic */
	size_t stack_size; /* bytes reserved, of which up to 2 KiB stay unused; the guard of 64 KiB lies
	                      below them. 0 = the runtime's; rounded up to a power of two of at least
	                      16 KiB; more than 1 GiB is -EINVAL */
	unsigned flags; /* GMP_PINNED, or 0 */
} gmp_attr;
#define GMP_ATTR_INIT GMP_SIZED_INIT_(gmp_attr)
#define GMP_PINNED 1u /* for gmp_attr.flags: as if its first step were gmp_pin */

/*
 * gmp_go starts a detached green thread.  gmp_spawn starts a joinable one, which must be joined or
 * detached exactly once; *g is its handle until then.  The new green thread is put where it runs
 * next on the caller's P (Go's runnext); from an external thread it goes to the global queue.
 * Neither runs it at once, and neither waits.
 *
 *   gmp_attr a = GMP_ATTR_INIT;
 *   a.name = "worker";
 *   a.stack_size = 64 << 10;
 *   int err = gmp_spawn(&g, work, job, &a);
 *
 * -EINVAL: fn (or g) is NULL, a bad attribute.  -ENOMEM: no memory or address space.
 * -EAGAIN: max_green are alive, or max_stack_memory is reserved: a stack that was once reserved is used
 * again by later green threads.  -ESRCH: no runtime.  docs/limits.md tells what else can run out.
 *
 * A green thread that runs over the end of its stack ends the process by SIGSEGV, after a line that names it.
 * That is certain for frames of up to 64 KiB; for larger ones in code that is compiled with
 * -fstack-clash-protection, which the flags of pkg-config and of the CMake targets contain.  A call of gmp's with a
 * buffer that reaches into the guard of the caller's stack is -EFAULT.  See docs/limits.md, "Stacks".
 */
GMP_API int gmp_go(gmp_fn fn, void *arg);
GMP_API int gmp_spawn(gmp_g **g, gmp_fn fn, void *arg, const gmp_attr *attr);

/*
 * Wait until g has ended.  When it returns 0 the handle is gone.  -EDEADLK for oneself, -EINVAL
 * while another joins it (or for NULL), -ETIMEDOUT (the handle stays), -ESRCH when the runtime
 * stopped first.
 */
GMP_API int gmp_join(gmp_g *g);
GMP_API int gmp_join_until(gmp_g *g, int64_t deadline);

/* Give the handle up: g continues and cannot be joined.  -EINVAL while another thread joins it. */
GMP_API int gmp_detach(gmp_g *g);

/*
 * Cancellation.  From gmp_cancel(g) on, each call of g that would have to wait returns -ECANCELED, the
 * one in which it waits now too, until it ends.  A call that need not wait works as usual, and so does
 * every try form.  Not cut short, since callers do not check what they return: gmp_mutex_lock,
 * gmp_rwmutex_rlock, gmp_rwmutex_lock and gmp_once_do (their _until forms are, also with GMP_FOREVER);
 * the locking of the mutex again in gmp_cond_wait;
 * gmp_timer_free; gmp_close.  Being cancelled beats a deadline that has passed.
 *
 *   void worker(void *arg)
 *   {
 *           while (gmp_chan_recv(jobs, &job) == 0)     // -EPIPE when closed, -ECANCELED
 *                   work(job);
 *           gmp_cancel_mask(1);                        // the farewell may wait
 *           gmp_chan_send(done, &me);
 *           gmp_cancel_mask(0);
 *   }
 *
 * gmp_cancel: 0, also if g has ended or is cancelled already; from any thread, while the
 * handle is good (or on gmp_self()).  -EINVAL for NULL, -ESRCH without a runtime.
 * gmp_cancelled: 1 once the caller has been cancelled, masked or not; 0 on an external thread.
 * gmp_cancel_mask(1): the caller's waits behave as if it were not cancelled, until as many
 * gmp_cancel_mask(0); -EINVAL for one too many, or deeper than 255; 0 on an external thread.
 */
GMP_API int gmp_cancel(gmp_g *g);
GMP_API int gmp_cancelled(void);
GMP_API int gmp_cancel_mask(int on);

/*
 * One thread of the kernel's for one green thread, for code that keeps something in its thread: a
 * library with thread-local state, a namespace, a graphics context.  (Go: runtime.LockOSThread.)
 *
 *   void ui(void *arg)
 *   {
 *           gmp_lock_thread();      // at the very start of gmp_run's fn: the thread that called gmp_run
 *           gl_make_current(arg);
 *           while (gmp_chan_recv(frames, &f) == 0)
 *                   draw(&f);       // always on the same thread, with no other green thread on it
 *   }
 *
 * From gmp_lock_thread on, until gmp_unlock_thread has been called as often, the caller runs on the
 * thread that it is on, and that thread runs nothing else.  Each wait costs two switches of threads.
 * A green thread that ends while it is locked takes its thread with it: whatever it did to it is
 * gone.  (The thread that called gmp_run runs nothing any more until the run ends.)  Green threads
 * that it spawns are not locked.
 *
 * gmp_lock_thread: 0, or -EAGAIN when there would be no thread for the others: gmp_config.max_threads
 * reached, or the system refuses one; nothing is locked then.  The second and later locks never fail
 * before the 2^32nd, which is -EAGAIN too.
 * Misuse: either on an external thread; gmp_unlock_thread without a lock.
 */
GMP_API int gmp_lock_thread(void);
GMP_API int gmp_unlock_thread(void);

/*
 * To stay on one thread, which others use too: for a library that keeps something in a thread-local
 * between two calls, around the calls that belong together.
 *
 *   gmp_pin();
 *   lib_begin(req);                 // what it keeps in a thread-local ...
 *   gmp_write_all(fd, buf, n);
 *   lib_end(req);                   // ... is there yet, though the write may have waited
 *   gmp_unpin();
 *
 * From gmp_pin until gmp_unpin has been called as often, the caller runs on the thread that it is on.
 * Other green threads run there while it waits, pinned ones too, and may change what it keeps there: where
 * they must not, gmp_lock_thread.  A call costs a few instructions.  Each wait may cost more, up to two
 * switches of threads: the caller continues only when that thread is free, which it is not while it is in
 * blocking code or computes.  A green thread with the attribute GMP_PINNED stays on the thread on which it
 * begins, until it ends, or has called gmp_unpin once more than gmp_pin.
 *
 * gmp_pin: 0, or -EAGAIN for the 256th one.  gmp_unpin: 0, or -EINVAL for one too many.  0 on an external
 * thread.  gmp_lock_thread is -EAGAIN on a thread that others are pinned to.
 */
GMP_API int gmp_pin(void);
GMP_API int gmp_unpin(void);

/*
 * errno belongs to the thread: after a call that may wait it is that of another thread, and a compiler
 * may even use the address of the former one, for it takes this to stay the same for the whole of a
 * function.  gmp's own calls return negative errors.  For other calls read errno at once, before the
 * next call that may wait; and where a function both waits and reads errno, define GMP_SAFE_ERRNO before
 * the first include of this header:
 *
 *   #define GMP_SAFE_ERRNO
 *   #include <gmp.h>                // errno finds its thread anew each time, by a call
 *
 * The value is not carried along: after such a call errno is the last value on that thread, which may be
 * another green thread's.
 * What is needed later is kept in a variable (int err = errno).  Between gmp_block_enter and gmp_block_leave
 * errno is as in any C program.
 *
 * gmp_errno_here: the address of the present thread's.
 */
GMP_API int *gmp_errno_here(void);
#ifdef GMP_SAFE_ERRNO
#undef errno
#define errno (*gmp_errno_here())
#endif

/*
 * C++.  Exceptions are a green thread's own: what it throws it catches, it may wait in a catch block or
 * in a destructor that an exception has brought about, std::current_exception() and
 * std::uncaught_exceptions() are its own, and throw; throws on what it had caught.
 * An exception that leaves the entry function prints "gmp: fatal: an exception leaves the entry function in
 * green thread 17 "worker" (entry f)" and where it was thrown, then std::terminate is called.  gmp_run
 * lets none through to its caller.  None may leave a function that gmp calls in the midst of its own
 * work either: of gmp_once_do, of a pool's or a group's task, a timer's, the destructor of a local.
 * gmp_exit runs no destructors: return from the entry function, or throw what it catches.
 *
 * thread_local (C: _Thread_local) belongs to the thread, not to the green thread.  After any call
 * that may wait, a yield or the end of blocking code among them, the caller may be on another thread:
 * its variable is another one then, and a compiler that has kept the address of the former uses that.
 * So a thread_local is good between two such calls only, and best in a function of its own that does
 * not wait and is not inlined.  What is to follow a green thread is a local (gmp_key_create); code
 * that needs its thread's variables runs under gmp_lock_thread.
 * The destructor of a thread_local runs when its thread ends: at the end of the run at the earliest,
 * and for the caller of gmp_run at the thread's own end.
 */

/* Let the others run: to the tail of this P's queue.  On an external thread: sched_yield. */
GMP_API void gmp_yield(void);

/* End the calling green thread.  On an external thread: misuse. */
GMP_API void gmp_exit(void) __attribute__((noreturn));

/* The calling green thread; NULL on an external thread.  Not a handle to join unless gmp_spawn
 * returned it, but good for gmp_id and gmp_name. */
GMP_API gmp_g *gmp_self(void);

/* A number that is never used twice in a run, from 1; 0 for NULL. */
GMP_API uint64_t gmp_id(const gmp_g *g);

/* The name given by gmp_attr, "" without one.  Valid until the handle is gone. */
GMP_API const char *gmp_name(const gmp_g *g);

/*
 * For long loops: yields when the scheduler has asked the caller to (after 10 ms of running, or
 * because the runtime stops); otherwise a load and a branch.  Nothing on an external thread.
 * Reading and writing is such a point too, also where it need not wait.
 */
GMP_API void gmp_checkpoint(void);

/* --------------------------------------------------------------------- Time */

#define GMP_FOREVER INT64_MAX /* the deadline that never comes */

/* Durations in nanoseconds, of type int64_t: gmp_sleep(250 * GMP_MS), gmp_deadline(2 * GMP_S). */
#define GMP_US INT64_C(1000)
#define GMP_MS INT64_C(1000000)
#define GMP_S INT64_C(1000000000)

/* Nanoseconds on the monotonic clock. */
GMP_API int64_t gmp_now(void);
/* now + ns, saturating at GMP_FOREVER; ns <= 0 gives a deadline that has passed. */
GMP_API int64_t gmp_deadline(int64_t ns);

/* Sleep.  ns <= 0, or a deadline in the past, yields.  0, or -ECANCELED before the time has come.  As
 * precise as the kernel's timers, but that all times that come within 50 us of the next one may be
 * waited for together.  Where other green threads are runnable, the sleeper runs before them at the next
 * switch of its P; none is interrupted for it.  So do waits with a deadline, ticks and timers, which
 * together take at most three quarters of the time from the others (docs/limits.md). */
GMP_API int gmp_sleep(int64_t ns);
GMP_API int gmp_sleep_until(int64_t deadline);

/*
 * A timer runs fn(arg) on a green thread of its own (Go's AfterFunc).
 *
 *   gmp_timer *t = gmp_timer_new(flush, log);
 *   gmp_timer_set(t, gmp_deadline(50000000), 50000000);   // every 50 ms
 *   ...
 *   gmp_timer_free(t);
 *
 * gmp_timer_new: NULL without memory, without fn, without a runtime, or while gmp_config.max_green
 * timers and ticks are there.
 * gmp_timer_set arms it for deadline, and then every `period` ns (0: once); it replaces what was
 * set before; GMP_FOREVER disarms.  1 if it was armed, else 0; -EINVAL for a negative period.  Runs
 * may overlap; periods that were missed are dropped and the phase is kept.  A period in which the run
 * of an earlier one has not even begun is missed.  After a run whose next would be at GMP_FOREVER or
 * later the timer is no longer armed.
 * gmp_timer_stop: 1 if this call stopped it, else 0; it does not wait for a running fn.
 * gmp_timer_free stops it and waits for a running fn, unless called from that fn.
 * A timer belongs to the run that made it: when the runtime has stopped, set and stop return
 * -ESRCH, and free only frees.
 */
typedef struct gmp_timer gmp_timer;
GMP_API gmp_timer *gmp_timer_new(gmp_fn fn, void *arg);
GMP_API int gmp_timer_set(gmp_timer *t, int64_t deadline, int64_t period);
GMP_API int gmp_timer_stop(gmp_timer *t);
GMP_API void gmp_timer_free(gmp_timer *t);

/* ----------------------------------------------------------------- Channels */

/*
 * A channel (Go's hchan): elements of one size, a buffer of `capacity` of them, or, with capacity 0,
 * a meeting of sender and receiver.  First come, first served on both sides.
 *
 *   gmp_chan *c = gmp_chan_new(sizeof(int), 16);
 *   gmp_go(producer, c);
 *   for (int v; gmp_chan_recv(c, &v) == 0;)
 *           printf("%d\n", v);
 *   gmp_chan_free(c);
 *
 * gmp_chan_new: NULL without memory, or if the product overflows.  elem_size 0 is legal.
 * Send: copies *elem.  -EPIPE on a closed channel, also when it is closed while the sender waits;
 * the element is dropped.
 * Receive: *elem is the next element (elem NULL drops it); on a closed channel first what is
 * buffered, then -EPIPE with *elem zeroed.
 * Close: -EPIPE if it is closed already; wakes all waiters.
 * -EINVAL for a NULL channel, or a NULL elem in sending elements of a size above 0.
 * On -ETIMEDOUT, -ECANCELED and -EAGAIN nothing was sent, and *elem is as it was.
 * gmp_chan_free: misuse while there is a waiter.  NULL is a no-op.  A select waits on the
 * channels of all its cases: until one of them has run, on that one's; until it has returned, on the
 * others.
 * A send happens before the receive of its element; a close before the receive that reports it; the
 * k-th receive before the end of the (k + capacity)-th send.
 */
typedef struct gmp_chan gmp_chan;
GMP_API gmp_chan *gmp_chan_new(size_t elem_size, size_t capacity);
GMP_API void gmp_chan_free(gmp_chan *c);
GMP_API int gmp_chan_send(gmp_chan *c, const void *elem);
GMP_API int gmp_chan_send_until(gmp_chan *c, const void *elem, int64_t deadline);
GMP_API int gmp_chan_try_send(gmp_chan *c, const void *elem);
GMP_API int gmp_chan_recv(gmp_chan *c, void *elem);
GMP_API int gmp_chan_recv_until(gmp_chan *c, void *elem, int64_t deadline);
GMP_API int gmp_chan_try_recv(gmp_chan *c, void *elem);
GMP_API int gmp_chan_close(gmp_chan *c);
/* How many elements are buffered now, and how many can be; 0 for NULL. */
GMP_API size_t gmp_chan_len(const gmp_chan *c);
GMP_API size_t gmp_chan_cap(const gmp_chan *c);

/*
 * Go's select: wait until one of n cases can run, and run it.  Returns its index; what the call
 * returned that it stands for, 0 or -EPIPE, is in its status: a closed channel makes its cases
 * ready.
 *
 *   int v, sum = 0;
 *   gmp_case cs[] = { GMP_RECV_CASE(in, &v), GMP_SEND_CASE(out, &sum) };
 *   switch (gmp_select(cs, 2)) {
 *   case 0: if (cs[0].status == 0) sum += v; break;
 *   case 1: sum = 0; break;
 *   }
 *
 * Checks all cases atomically and runs one of the ready cases, chosen uniformly at random.  Two cases of one call
 * never match each other, though the same channel may be in several cases, on both sides.  A case whose channel
 * is NULL is never ready.  Without a ready case gmp_select waits, gmp_select_until until the
 * deadline (-ETIMEDOUT), gmp_select_try not at all (-EAGAIN: Go's default branch).  n = 0 waits for
 * ever, or until the deadline.  What the pointers point to must stay until the call returns;
 * elements of cases that did not run are as they were.
 * -EINVAL: n < 0, a bad dir, or a NULL elem where elements of a size above 0 would be sent; nothing
 * has run then.  -ENOMEM: more than 64 cases, and no memory for them.
 */
typedef enum gmp_dir { GMP_SEND, GMP_RECV } gmp_dir;
typedef struct gmp_case {
	gmp_chan *c;
	gmp_dir dir;
	void *elem;
	int status;
} gmp_case;
/* A case, to assign or in the braces of an array. */
#ifdef __cplusplus
#define GMP_CASE_(...)                                                                             \
	gmp_case                                                                                   \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#else
#define GMP_CASE_(...) ((gmp_case){ __VA_ARGS__ })
#endif
#define GMP_SEND_CASE(c, elem) GMP_CASE_((c), GMP_SEND, (void *)(uintptr_t)(elem), 0)
#define GMP_RECV_CASE(c, elem) GMP_CASE_((c), GMP_RECV, (elem), 0)
GMP_API int gmp_select(gmp_case *cases, int n);
GMP_API int gmp_select_until(gmp_case *cases, int n, int64_t deadline);
GMP_API int gmp_select_try(gmp_case *cases, int n);

/*
 * A channel of int64_t, capacity 1, that receives the time of each tick: the first at the deadline
 * `first`, then every `period` ns (0: only the first).  A slow reader loses ticks; the phase is
 * kept.  No green thread is made for a tick.  NULL without memory or a runtime, for a negative period,
 * or while gmp_config.max_green timers and ticks are there.
 * gmp_tick_free stops it and frees the channel (only this one, not gmp_chan_free).
 * A tick belongs to its run: after that, receiving what has not come is -ESRCH, also for an external
 * thread that waits when the run ends (a gmp_select of several cases waits on for the others).
 */
GMP_API gmp_chan *gmp_tick_new(int64_t first, int64_t period);
GMP_API void gmp_tick_free(gmp_chan *c);

/* ---------------------------------------------------------- Synchronisation */

/*
 * A mutex, in Go's two modes.  Normal mode: unlock frees the mutex, and a running thread may lock it ahead of
 * the waiters.  Starvation mode: unlock hands the mutex to the first waiter.
 *
 * Fairness: if the first waiter has waited for more than 1 ms, the next unlock hands the mutex to it, except
 * within 20 us of the last hand-over (500 us, if that was to an external thread).  A waiter with g green threads
 * and e external threads waiting ahead of it has the mutex after 1 ms + g * 20 us + e * 500 us at the latest,
 * rounded up g + e + 1 times to the next unlock.  An unlock while a woken waiter has not run yet does not count.
 *
 * Not recursive.  Unlock by another thread is legal; unlock of an unlocked mutex is misuse.
 *
 *   static gmp_mutex m = GMP_MUTEX_INIT;
 *   gmp_mutex_lock(&m);
 *   balance += n;
 *   gmp_mutex_unlock(&m);
 */
typedef struct gmp_mutex {
	uint32_t state;
	uint32_t owner;
} gmp_mutex;
/* clang-format off */
#define GMP_MUTEX_INIT { 0, 0 }
/* clang-format on */
GMP_API int gmp_mutex_lock(gmp_mutex *m);
GMP_API int gmp_mutex_lock_until(gmp_mutex *m, int64_t deadline);
GMP_API int gmp_mutex_try_lock(gmp_mutex *m);
GMP_API int gmp_mutex_unlock(gmp_mutex *m);

/*
 * Many readers or one writer at a time.
 *
 * A writer that waits for readers holds off new readers, so a thread that read-locks twice can deadlock.  When a
 * writer unlocks, the readers queued by then go first, together.  Unlocking what is not locked so is misuse.
 * At most 2^26 - 1 read locks may be held at a time; this is not checked.
 *
 * Fairness: writers exclude each other as by a gmp_mutex, with its two modes.  A writer that waits for another
 * writer holds off readers from the moment at which the lock is handed to it, or at which it has been woken and
 * runs.  So
 *   - a reader waits for one writer at most, and for the readers that this writer waits for;
 *   - a writer with g green threads and e external threads waiting to write ahead of it holds off new readers after
 *     1 ms + g * 20 us + e * 500 us at the latest, rounded up g + e + 1 times to the next unlock by a writer, and
 *     then waits for the readers that hold the lock.  An unlock while a woken writer has not run yet does not count.
 */
typedef struct gmp_rwmutex {
	gmp_mutex m;
} gmp_rwmutex;
/* clang-format off */
#define GMP_RWMUTEX_INIT { GMP_MUTEX_INIT }
/* clang-format on */
GMP_API int gmp_rwmutex_rlock(gmp_rwmutex *rw);
GMP_API int gmp_rwmutex_rlock_until(gmp_rwmutex *rw, int64_t deadline);
GMP_API int gmp_rwmutex_try_rlock(gmp_rwmutex *rw);
GMP_API int gmp_rwmutex_runlock(gmp_rwmutex *rw);
GMP_API int gmp_rwmutex_lock(gmp_rwmutex *rw);
GMP_API int gmp_rwmutex_lock_until(gmp_rwmutex *rw, int64_t deadline);
GMP_API int gmp_rwmutex_try_lock(gmp_rwmutex *rw);
GMP_API int gmp_rwmutex_unlock(gmp_rwmutex *rw);

/*
 * A counter that can be waited on until it is 0 (Go's WaitGroup).  Add before the work starts, not
 * in it.  A negative counter, or one over INT32_MAX, is misuse.
 */
typedef struct gmp_wg {
	uint64_t state;
} gmp_wg;
/* clang-format off */
#define GMP_WG_INIT { 0 }
/* clang-format on */
GMP_API int gmp_wg_add(gmp_wg *w, int n);
GMP_API int gmp_wg_done(gmp_wg *w);
GMP_API int gmp_wg_wait(gmp_wg *w);
GMP_API int gmp_wg_wait_until(gmp_wg *w, int64_t deadline);

/*
 * A condition variable (Go's Cond).  gmp_cond_wait unlocks m, waits, and has m again when it returns,
 * also on -ETIMEDOUT and -ECANCELED.  There are no spurious wake-ups, but another may have come
 * first: check the condition in a loop.  gmp_cond_signal wakes the waiter that has waited longest,
 * gmp_cond_broadcast all that wait now; the mutex may be held or not.  Waiting with an unlocked
 * mutex is misuse.
 *
 *   gmp_mutex_lock(&m);
 *   while (queue_empty(&q))
 *           gmp_cond_wait(&filled, &m);
 *   job = queue_pop(&q);
 *   gmp_mutex_unlock(&m);
 */
typedef struct gmp_cond {
	uint32_t waiters;
} gmp_cond;
/* clang-format off */
#define GMP_COND_INIT { 0 }
/* clang-format on */
GMP_API int gmp_cond_wait(gmp_cond *c, gmp_mutex *m);
GMP_API int gmp_cond_wait_until(gmp_cond *c, gmp_mutex *m, int64_t deadline);
GMP_API int gmp_cond_signal(gmp_cond *c);
GMP_API int gmp_cond_broadcast(gmp_cond *c);

/*
 * A counting semaphore: n permits, first come, first served.
 *
 *   static gmp_sem slots = GMP_SEM_INIT(8);
 *   gmp_sem_acquire(&slots);
 *   fetch(url);
 *   gmp_sem_release(&slots, 1);
 *
 * gmp_sem_release gives n back (also such as were never acquired): -EINVAL for n < 1, -EOVERFLOW
 * if more than INT32_MAX were free.
 */
typedef struct gmp_sem {
	uint64_t state;
} gmp_sem;
/* clang-format off */
#define GMP_SEM_INIT(n) { (uint64_t)(uint32_t)(n) << 32 }
/* clang-format on */
GMP_API int gmp_sem_acquire(gmp_sem *s);
GMP_API int gmp_sem_acquire_until(gmp_sem *s, int64_t deadline);
GMP_API int gmp_sem_try_acquire(gmp_sem *s);
GMP_API int gmp_sem_release(gmp_sem *s, int n);

/*
 * Once (Go's Once): the first gmp_once_do runs fn(arg), the others wait until it has ended; from then
 * on it is a load and a branch, in the caller itself where the compiler can.  An fn that ends its green
 * thread (gmp_exit) has run.  Calling it from fn on the same object is misuse.  Not cut short by
 * cancellation.
 */
typedef struct gmp_once {
	uint32_t state;
	uint32_t owner;
} gmp_once;
/* clang-format off */
#define GMP_ONCE_INIT { 0, 0 }
/* clang-format on */
GMP_API int gmp_once_do(gmp_once *o, gmp_fn fn, void *arg);

/*
 * gmp_once_do_until - run fn once, or wait until a deadline for the caller that runs it
 *
 * o, fn, arg  as gmp_once_do
 * deadline    bounds the wait for another caller's fn, not an fn that this call runs.  A deadline in the
 *             past makes one attempt.  GMP_FOREVER waits indefinitely but can be cancelled, unlike
 *             gmp_once_do.
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

/*
 * A barrier for n: each gmp_barrier_wait waits until n have arrived; then one of them gets 1, the
 * others 0, and the next round begins.  -ECANCELED: the arrival is taken back.  With n of 0 or 1
 * no call waits.
 */
typedef struct gmp_barrier {
	uint32_t n;
	uint32_t arrived;
} gmp_barrier;
/* clang-format off */
#define GMP_BARRIER_INIT(n) { (uint32_t)(n), 0 }
/* clang-format on */
GMP_API int gmp_barrier_wait(gmp_barrier *b);

/*
 * gmp_barrier_wait_until - arrive at a barrier, or give up at a deadline
 *
 * b         the barrier
 * deadline  nanoseconds on the clock of gmp_now().  A deadline in the past makes one attempt, which
 *           succeeds for the n-th arrival only.  GMP_FOREVER is gmp_barrier_wait.
 *
 * Returns 1 for one of the n callers of a round and 0 for the others.
 * Errors; the arrival is taken back, and the round needs another caller instead:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 */
GMP_API int gmp_barrier_wait_until(gmp_barrier *b, int64_t deadline);

/* --------------------------------------------------------- Input and output */

/*
 * Descriptors are plain ints, non-blocking inside, known to the poller since the call that opened
 * or adopted them.  From external threads too.  -ESRCH without a runtime, -EBADF for a descriptor
 * that gmp does not know.  The runtime's own descriptors have numbers from 960 on; a program that closes them
 * (closefrom, close_range) is ended with a message: docs/limits.md.
 *
 *   int l = gmp_listen("tcp", ":7000");
 *   for (int c; (c = gmp_accept(l)) >= 0;)
 *           gmp_go(serve, (void *)(intptr_t)c);
 *
 * net: "tcp" "tcp4" "tcp6", "udp" "udp4" "udp6" (listening is to have the address, dialling to have a
 * peer), "unix".  addr: "host:port", ":port" (all addresses), "[::1]:0", "[fe80::1%eth0]:0" (an
 * interface or its number), or a path ("@name" is Linux's abstract namespace).  A host that is not
 * numeric is looked up (gmp_getaddrinfo), and its addresses are tried in turn: -ENOENT if it has none,
 * -EAGAIN if no name server answered.  "localhost" is not looked up: it is 127.0.0.1 ("tcp6", "udp6": [::1]),
 * and a dial by "tcp" that fails there tries [::1] next.  -EINVAL: net or addr that cannot be understood.
 * Other errors are the system's: -EADDRINUSE, -ECONNREFUSED, -EMFILE ...
 */
GMP_API int gmp_listen(const char *net, const char *addr);

/*
 * The same with options; NULL: none.  gmp_accept reports what stands in its way, -EMFILE, -ENFILE,
 * -ENOBUFS, -ENOMEM, -ECONNABORTED among it, and loses no connection by it: try again when there are
 * descriptors (after a while: at once it would say the same).  But a connection for which the
 * poller has no room is closed (-ENOSPC, fs.epoll.max_user_watches; -ENOMEM, the kernel's memory).
 */
typedef struct gmp_listen_opts {
	size_t size; /* set by GMP_LISTEN_OPTS_INIT */
	int backlog; /* connections that wait to be accepted; 0: 4096; the system has a limit, too */
	int reuse_port; /* several may listen at the address, and the kernel deals connections out */
} gmp_listen_opts;
#define GMP_LISTEN_OPTS_INIT GMP_SIZED_INIT_(gmp_listen_opts)
GMP_API int gmp_listen_with(const char *net, const char *addr, const gmp_listen_opts *opts);
GMP_API int gmp_dial(const char *net, const char *addr);
GMP_API int gmp_dial_until(const char *net, const char *addr, int64_t deadline);
GMP_API int gmp_accept(int fd);

/*
 * gmp_accept_from - gmp_accept that also gives the peer's address
 *
 * addr  where to write it; NULL: nowhere, and len is not read
 * len   in: bytes that addr has room for; out: the address's length, larger than that if it was cut.  Written only
 *       if a connection was accepted.
 *
 * Returns the connection, or an error as gmp_accept.
 * Errors, with no connection taken:
 *   -EINVAL  addr without len
 *   -EFAULT  addr or len reaches into the guard of the caller's stack
 */
GMP_API int gmp_accept_from(int fd, struct sockaddr *addr, socklen_t *len);

/* The address at this or the other end, as listen and dial take it: "127.0.0.1:41234",
 * "[::1]:80", "[fe80::1%eth0]:80", "/path".  Returns its length; -ENOSPC if buf is too small. */
GMP_API int gmp_local_addr(int fd, char *buf, size_t n);
GMP_API int gmp_peer_addr(int fd, char *buf, size_t n);

/* Make a descriptor that was opened elsewhere the poller's (and non-blocking).  Returns fd;
 * -EEXIST if gmp has it already.  What cannot be polled (a regular file) stays as it is: calls on it
 * go the way of blocking code, and it has no deadlines (-EPERM).
 * O_NONBLOCK belongs to the open file, which dups and other processes may share (a terminal, what a child
 * inherits).  If one of them switches it off, as gmp_fd_release of a dup may, a call that finds nothing to do
 * keeps its thread until there is: deadlines, cancellation and gmp_close take effect then.
 * A library may close the number and open another file under it: see gmp_fd_wait.
 * A number is given back by gmp_close or gmp_fd_release.  A plain close() does too where no other number has the
 * same open file; else, as after dup2() over it, the file that was there stays the poller's under this number,
 * and when it comes back to it (saved = dup(1) ... dup2(saved, 1)), gmp_fd_adopt is -EEXIST.
 * An adoption ends no wait of the number's present file. */
GMP_API int gmp_fd_adopt(int fd);

/*
 * gmp_fd_release - the reverse of gmp_fd_adopt: gmp forgets fd without closing it
 *
 * Waiters of fd get -ECANCELED.  O_NONBLOCK is as gmp_fd_adopt found it; what gmp opened itself stays non-blocking.
 * Call it before the descriptor is closed; after that the number may be another connection's.
 *
 * Returns 0.
 * Errors:
 *   -EBADF  gmp does not know fd
 *   -EBADF  the caller has lost the number to another connection.  That connection and its waiters are left alone.
 *
 * A thread has lost the number if it belonged to an earlier connection of it: it adopted the descriptor, or it is
 * the green thread that waited last in one of the directions, or a call of it ended with -ECANCELED because the
 * descriptor was gone.  It belongs to the present connection as soon as it adopts the number (0, not -EEXIST), or
 * reads, writes or waits on it, as a thread does that the connection was handed to.  GMP_DEBUG=check reports each
 * release and close that is refused.
 *
 * Misuse, which gmp cannot tell from the release of a connection that was handed on, and which ends the waits of
 * the connection that has the number now:
 *   - a release or close by a thread that never adopted the earlier connection and never waited on it
 *   - by a thread that has read, written or waited on the number after its own descriptor was closed
 *   - by the thread that adopted both connections
 */
GMP_API int gmp_fd_release(int fd);

/*
 * As read(2) and write(2), waiting for readiness; end of stream is 0; EINTR is retried.
 * gmp_read_full reads until n bytes or the end of the stream (a short count); gmp_write_all writes
 * all n; an error that comes partway is returned in place of the count.  Two gmp_write_all on one
 * descriptor do not interleave.  Writing to a closed peer is -EPIPE, and raises no SIGPIPE; but
 * if the peer of a unix socket has shut down its reading side alone, the system does not wake a writer that
 * waits for room.
 * A call that waits while another closes the descriptor gets -ECANCELED.
 * On a TCP socket that gmp_dial or gmp_accept gave, a read that got less than it asked for is taken
 * to have emptied the socket, so do not put a protocol with records on top of it in the kernel (kTLS);
 * an adopted socket, opened elsewhere, may have it.
 */
GMP_API ssize_t gmp_read(int fd, void *buf, size_t n);
GMP_API ssize_t gmp_write(int fd, const void *buf, size_t n);
GMP_API ssize_t gmp_read_full(int fd, void *buf, size_t n);
GMP_API ssize_t gmp_write_all(int fd, const void *buf, size_t n);

/*
 * The others, with the arguments of their namesakes, waiting and retrying in the same way.
 * MSG_DONTWAIT: one try, -EAGAIN; likewise to receive with MSG_OOB or MSG_ERRQUEUE, for which the system
 * does not wait either.  MSG_WAITALL has no effect: gmp_read_full.  Descriptors that come
 * with gmp_recvmsg are plain ones: gmp_fd_adopt.  gmp_sendfile waits for `out`, which gmp knows, and reads
 * `in`, a file of any kind that sendfile(2) takes; it may send less than n.  A negative count of
 * buffers, or more than IOV_MAX, is -EINVAL.  A message by address to a unix socket whose queue is full is
 * tried again every 16 ms at most, as the system does not say when there is room.
 */
GMP_API ssize_t gmp_readv(int fd, const struct iovec *iov, int count);
GMP_API ssize_t gmp_writev(int fd, const struct iovec *iov, int count);
GMP_API ssize_t gmp_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
			     socklen_t *addrlen);
GMP_API ssize_t gmp_sendto(int fd, const void *buf, size_t n, int flags,
			   const struct sockaddr *addr, socklen_t addrlen);
GMP_API ssize_t gmp_recvmsg(int fd, struct msghdr *m, int flags);
GMP_API ssize_t gmp_sendmsg(int fd, const struct msghdr *m, int flags);
GMP_API ssize_t gmp_sendfile(int out, int in, off_t *offset, size_t n);

/*
 * Deadlines of a descriptor, as in Go.  `which` is GMP_READ, GMP_WRITE (gmp_dial and gmp_accept read
 * and write too), or both.  Once the deadline has passed, every call of that direction returns
 * -ETIMEDOUT: the present wait and each later call, even if there is data.  It stays until it is
 * moved: to a later time, and calls work again, or to GMP_FOREVER, which clears it.
 * -EINVAL: a bad `which`.  -EBADF.  -ENOMEM: a million are set.
 *
 *   gmp_fd_set_deadline(c, GMP_READ, gmp_deadline(30 * GMP_S));       // for this request
 *   ssize_t n = gmp_read(c, buf, sizeof(buf));                     // -ETIMEDOUT: too slow
 */
enum { GMP_READ = 1, GMP_WRITE = 2 };
GMP_API int gmp_fd_set_deadline(int fd, int which, int64_t deadline);

/*
 * Wait until fd is ready, and leave reading and writing to another library (OpenSSL, libpq, curl): adopt
 * the descriptor that it works on, and wait here where it asks to poll.  `events` is GMP_READ,
 * GMP_WRITE, or both; returns those of them that are ready, the end of the stream and errors among
 * them, as poll(2) has it: level-triggered.  A deadline in the past makes it a try: -ETIMEDOUT.
 * Deadlines of gmp_fd_set_deadline hold as well.  -EINVAL: bad `events`.
 *
 * The library may close the number and open it again (libpq goes from one host to the next): the next
 * gmp_fd_wait finds the new file and treats it as adopted by its caller (-ENOMEM: no memory to do so).  A wait that was under way when the number was closed
 * by a plain close() ends with -ECANCELED: when gmp sees the number in use again, and within a second otherwise.
 * A wait that parks costs two system calls, poll(2) and epoll_ctl(2); a wait that need not park, the first.
 *
 *   while ((n = SSL_read(ssl, buf, size)) < 0 && SSL_get_error(ssl, n) == SSL_ERROR_WANT_READ)
 *           if (gmp_fd_wait(fd, GMP_READ, deadline) < 0)
 *                   return -1;
 */
GMP_API int gmp_fd_wait(int fd, int events, int64_t deadline);

/*
 * gmp_poll - poll(2): wait until one of several descriptors is ready
 *
 * fds       descriptors and events, as for poll(2); a negative fd is ignored.  gmp need not know the descriptors:
 *           they are not adopted, and O_NONBLOCK stays as it is.  Descriptors that gmp knows may be among them, also while
 *           green threads read, write or wait for them.
 * n         how many; 0: sleep until the deadline
 * deadline  nanoseconds on the clock of gmp_now().  A deadline in the past makes a try; GMP_FOREVER waits
 *           indefinitely.  Deadlines of gmp_fd_set_deadline have no effect.
 *
 * Returns how many are ready; their revents are set as poll(2) sets them, those of the others are 0.  POLLHUP, POLLERR
 * and POLLNVAL (a descriptor that is not open) are always reported.  A regular file is always ready.
 * Errors:
 *   -ETIMEDOUT  none is ready and the deadline has passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 *   -EINVAL     n is above RLIMIT_NOFILE
 *   -EFAULT     fds is not readable
 *   -ENOMEM, -ENOSPC  no memory, or no room in the poller (fs.epoll.max_user_watches)
 *
 * A descriptor that is closed while the call waits is POLLNVAL: at once if gmp_close closes it, within a second if a
 * plain close() does.  If another file has got the number by then, the call waits for that one.
 * A descriptor that is not adopted stays in the runtime's epoll instance until it is closed.
 *
 * Threads: any, also without a runtime: an external thread then sleeps in poll(2).
 * Cost: if a descriptor is ready at once, that of poll(2).  Otherwise three poll(2), one after the wait, and an
 * epoll_ctl(2) for each descriptor.
 *
 *   struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN | POLLOUT } };
 *   int ready = gmp_poll(p, 2, gmp_deadline(50 * GMP_MS));
 */
GMP_API int gmp_poll(struct pollfd *fds, nfds_t n, int64_t deadline);

/*
 * Files, as open(2), pread(2), pwrite(2), fsync(2); none of them keeps a P from others while it waits
 * for a disk, a file server, or the other end of a FIFO.  EINTR is retried; cancellation does not cut
 * them short.  gmp_open adds O_CLOEXEC.  What can be polled (a FIFO, a terminal) is made non-blocking once
 * it is open, and gmp_read waits as on a socket; on anything else gmp_read and gmp_write go the way of
 * blocking code.  Close it by gmp_close.
 *
 * What is in memory is read and written at once.  For the rest there is io_uring, where the kernel and the
 * installed liburing.so.2 have it and no filter forbids it; else, and for gmp_open, blocking code.  Results
 * and errors are the same.  GMP_DEBUG=uring says on stderr when it is refused, GMP_DEBUG=nouring does
 * without.
 *
 *   int fd = gmp_open("/var/log/app", O_WRONLY | O_CREAT | O_APPEND, 0644);
 */
GMP_API int gmp_open(const char *path, int flags, mode_t mode);
GMP_API ssize_t gmp_pread(int fd, void *buf, size_t n, off_t at);
GMP_API ssize_t gmp_pwrite(int fd, const void *buf, size_t n, off_t at);
GMP_API int gmp_fsync(int fd);

/*
 * As waitpid(2); errors are negative: -ECHILD, -EINVAL.  EINTR is retried.  A wait for the end of one
 * child (pid > 0, flags 0) is a wait for a descriptor and can be cut short by cancellation; one for any
 * child (-1, 0, a group), or with WUNTRACED and the like, keeps a thread as blocking code does.
 * (A tracer calls waitpid itself, in blocking code: it waits for more than the child's end.)
 */
GMP_API pid_t gmp_waitpid(pid_t pid, int *status, int flags);

/*
 * gmp_waitpid_until - wait for a child process, or give up at a deadline
 *
 * pid, status, flags  as waitpid(2); status may be NULL
 * deadline            nanoseconds on the clock of gmp_now().  A deadline in the past asks once.
 *                     GMP_FOREVER waits indefinitely but can be cancelled, also where gmp_waitpid cannot.
 *
 * Returns the pid of a child whose state changed, with *status set; 0 only with WNOHANG in flags.
 * Errors, *status untouched and no child reaped:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 *   -ECHILD, -EINVAL  as waitpid(2)
 *   -ESRCH      no runtime, or it stops during the wait
 *
 * The end of one child (pid > 0, flags 0) wakes the caller at once.  Any other wait asks the kernel
 * again after 1, 2, 4 ms and then every 16 ms, and reports a change late by as much.
 */
GMP_API pid_t gmp_waitpid_until(pid_t pid, int *status, int flags, int64_t deadline);

/*
 * Child processes.
 *
 *   const char *argv[] = { "sort", "-n", NULL };
 *   gmp_process_opts o = GMP_PROCESS_OPTS_INIT;
 *   gmp_process p;
 *   int status;
 *
 *   o.argv = argv;
 *   o.flags = GMP_PROCESS_SEARCH;
 *   o.in.kind = o.out.kind = GMP_PROCESS_PIPE;
 *   int err = gmp_process_spawn(&p, &o);            // -ENOENT: there is no sort
 *   if (err)
 *           return err;
 *   gmp_spawn(&writer, write_input, &p, NULL);      // gmp_write_all to p.in, then gmp_close
 *   read_output(p.out);                             // at the same time: both pipes may be full
 *   gmp_join(writer);
 *   p.in = -1;                                      // the writer has closed it
 *   gmp_process_close(&p);
 *   gmp_waitpid(p.pid, &status, 0);
 *
 * A standard stream of a child, by `kind`:
 *   GMP_PROCESS_INHERIT  the caller's; what 0 bytes say
 *   GMP_PROCESS_NULL     /dev/null
 *   GMP_PROCESS_PIPE     a pipe, whose other end gmp_process_spawn gives to the caller
 *   GMP_PROCESS_FD       a duplicate of `fd`, which stays the caller's.  A descriptor that gmp knows is
 *                        non-blocking, and so is the duplicate.
 *   GMP_PROCESS_STDOUT   for err only: where out goes
 */
enum {
	GMP_PROCESS_INHERIT,
	GMP_PROCESS_NULL,
	GMP_PROCESS_PIPE,
	GMP_PROCESS_FD,
	GMP_PROCESS_STDOUT
};
typedef struct gmp_process_stream {
	int kind;
	int fd; /* of GMP_PROCESS_FD */
} gmp_process_stream;

/* For gmp_process_opts.flags. */
enum {
	GMP_PROCESS_SEARCH = 1, /* a file name without a slash is looked up in the caller's PATH */
	GMP_PROCESS_GROUP =
		2, /* a process group of its own: kill(-pid, signo) reaches its children */
	GMP_PROCESS_SESSION = 4, /* a session of its own, without a controlling terminal */
	GMP_PROCESS_CLOSE =
		8 /* close all descriptors from 3 on, also those without FD_CLOEXEC; needs
	                            glibc 2.34 */
};

typedef struct gmp_process_opts {
	size_t size;             /* set by GMP_PROCESS_OPTS_INIT */
	const char *const *argv; /* arguments from the program's name on, NULL at the end */
	const char *file;        /* the program; NULL: argv[0] */
	const char *const *envp; /* environment, NULL at the end; NULL: the caller's */
	const char *cwd; /* working directory, from which a relative `file` counts; NULL: the
	                            caller's */
	gmp_process_stream in, out, err;
	unsigned flags; /* GMP_PROCESS_SEARCH ... */
} gmp_process_opts;
#define GMP_PROCESS_OPTS_INIT GMP_SIZED_INIT_(gmp_process_opts)

typedef struct gmp_process {
	pid_t pid;
	int pidfd;        /* readable when the child has ended; -1: the system gives none */
	int in, out, err; /* the caller's ends of the pipes; -1: not asked for */
} gmp_process;

/*
 * gmp_process_spawn - start a child process
 *
 * p     is filled on success.  The descriptors in it are gmp's: gmp_read, gmp_write, gmp_fd_wait,
 *       gmp_close.  Wait for the child by gmp_waitpid or gmp_waitpid_until; without such a wait it stays
 *       a zombie.
 * opts  see above; what it points to is not used after the call
 *
 * The child has the signal mask of the thread that called gmp_run or gmp_start, whatever thread calls
 * this; no signal handlers; SIGPIPE at its default; other signals that the program ignores stay ignored.
 * It gets the descriptors 0 to 2 as `opts` says and those of the program without FD_CLOEXEC.  All that gmp
 * opens have it.
 *
 * Returns 0: the program has been executed.
 * Errors, with no child left:
 *   -ENOENT, -EACCES, -ENOEXEC ...  the program cannot be executed, or cwd cannot be entered
 *   -EBADF    the fd of a GMP_PROCESS_FD is not open
 *   -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -EAGAIN  the system refuses a descriptor, memory or a process
 *   -EINVAL   p, opts or argv is NULL, argv is empty, an unknown kind or flag
 *   -E2BIG    the arguments are too long, or opts sets a field that this version does not know
 *   -ENOTSUP  GMP_PROCESS_CLOSE where libc cannot
 *   -ESRCH    no runtime
 *
 * Threads: any.  Starting the program counts as blocking code; cancellation does not cut it short.  If
 * shutdown kills the caller during the call, its descriptors are closed, but the child may run.
 */
GMP_API int gmp_process_spawn(gmp_process *p, const gmp_process_opts *opts);

/*
 * gmp_process_close - close the descriptors of a gmp_process
 *
 * p  NULL is a no-op.  Closes in, out, err and pidfd as far as they are not -1, and sets them to -1.  Set
 *    a descriptor that you have closed yourself to -1: its number may be in use again.
 *
 * It neither waits for the child nor ends it.
 */
GMP_API void gmp_process_close(gmp_process *p);

/*
 * From now on each signal of that number is sent to the channel, whose elements are int; if the
 * channel is full, the signal is dropped.  Several channels may ask for one signal, and one channel for
 * several.  What the program does with the signal otherwise is out of force until the last channel has
 * stopped, and is put back then, and at the end of the run, unless it was changed meanwhile.  While one is active
 * nothing counts as deadlocked.
 *
 *   gmp_chan *c = gmp_chan_new(sizeof(int), 1);
 *   gmp_signal_notify(c, SIGTERM);
 *   gmp_chan_recv(c, &signo);
 *
 * After gmp_signal_stop has returned, no signal comes to that channel any more: only then it may be
 * freed.  -EINVAL: no such signal, a signal that a fault raises (SIGSEGV SIGBUS SIGFPE SIGILL SIGTRAP
 * SIGSYS), SIGKILL, SIGSTOP, or elements of another size; -ENOENT from gmp_signal_stop for what was not
 * asked for.  A signal comes although the program has it blocked, except one that is sent to a single OS
 * thread which blocks it.
 */
GMP_API int gmp_signal_notify(gmp_chan *c, int signo);
GMP_API int gmp_signal_stop(gmp_chan *c, int signo);

/*
 * As getaddrinfo(3), on a thread that is spared meanwhile: at most half of gmp_config.max_threads look
 * up at a time, others wait.  Returns 0 or getaddrinfo's own (negative) EAI_ code, never an errno:
 * EAI_AGAIN when the deadline passes, whatever the resolver does, and EAI_CANCELED where libc has it
 * (else EAI_AGAIN) when the caller is cancelled.  Hosts and services in digits are answered at once.
 * Free the result by freeaddrinfo.  EAI_AGAIN without a runtime.
 *
 *   #include <netdb.h>
 *   struct addrinfo *a;
 *   int err = gmp_getaddrinfo_until("example.org", "http", NULL, &a, gmp_deadline(2000000000));
 */
struct addrinfo;
GMP_API int gmp_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
			    struct addrinfo **res);
GMP_API int gmp_getaddrinfo_until(const char *host, const char *service,
				  const struct addrinfo *hints, struct addrinfo **res,
				  int64_t deadline);

/* As shutdown(2). */
GMP_API int gmp_shutdown(int fd, int how);

/*
 * gmp_close - close a descriptor that gmp opened or adopted
 *
 * Waiters of fd get -ECANCELED; the number is free when the call returns.
 *
 * Returns 0, or the error of close(2) (the number is free all the same).
 * Errors, nothing is closed:
 *   -EBADF  gmp does not know fd
 *   -EBADF  the caller has lost the number to another connection (see gmp_fd_release); or the descriptor was closed
 *           by a plain close() and gmp_poll waits for the file that has the number now
 *
 * Misuse: a close of a descriptor that a library has closed before.  If another file got the number and is not adopted,
 * that is closed, since it may be the caller's own (a library opened it again, and gmp_fd_wait found it ready).
 * GMP_DEBUG=check reports this.
 */
GMP_API int gmp_close(int fd);

/* ----------------------------------------------------------- Blocking code */

/*
 * Around code that may sleep in the kernel, or burn a CPU for long, without gmp's knowing: a library
 * that waits by itself, a disk, a compression.  The green thread keeps its thread, and its P goes to
 * another thread if the section lasts (Go does the same around system calls).
 *
 *   gmp_block_enter();
 *   err = mysql_real_query(db, text, n);
 *   gmp_block_leave();
 *
 *   DIR *d = gmp_blocking(opendir(path));
 *   int fd = gmp_blocking_sys(open(path, O_RDONLY));     // -ENOENT in place of -1 and errno
 *
 * A short section costs nanoseconds.  If others want the P, sysmon hands it to another thread after some
 * 20 us (10 ms if no section was long before); in any case after 10 ms.  Where a call of gmp_block_enter
 * usually takes longer than 20 us, the P is handed on at once if it has work.  At the end of the section the green
 * thread takes back its P, or one whose green thread is in such a long section, or an idle one; otherwise
 * it waits in the global queue.  To leave is a checkpoint (gmp_checkpoint).  Each long section
 * keeps one thread of gmp_config.max_threads: where these are all in blocking code, the others wait.
 *
 * Between the two the caller counts as an external thread: gmp_self() is NULL, and calls that wait
 * sleep in the kernel.  Sections nest.  Cancellation does not end one, and at the end of a run gmp_run
 * waits for the green threads in one.  Nothing on an external thread, or for a leave without an enter.
 * Misuse: to end in such a section, by return or gmp_exit.
 */
GMP_API void gmp_block_enter(void);
GMP_API void gmp_block_leave(void);

/*
 * gmp_blocking(expr): the value of expr, evaluated between the two.
 * gmp_blocking_sys(expr): the same for a call that sets errno: -errno where expr is -1, read before the
 * thread can change.
 * In C++ an exception may leave expr.
 */
#ifdef __cplusplus
extern "C++" {
struct gmp_blocking_ {
	gmp_blocking_()
	{
		gmp_block_enter();
	}
	~gmp_blocking_()
	{
		gmp_block_leave();
	}
};
}
#define gmp_blocking(expr)                                                                         \
	(__extension__({                                                                           \
		gmp_blocking_ gmp_section_;                                                        \
		(expr);                                                                            \
	}))
#define gmp_blocking_sys(expr)                                                                     \
	(__extension__({                                                                           \
		gmp_blocking_ gmp_section_;                                                        \
		__typeof__(expr) gmp_value_ = (expr);                                              \
		gmp_value_ == (__typeof__(expr))-1 ? (__typeof__(expr))-*gmp_errno_here()          \
						   : gmp_value_;                                   \
	}))
#else
static __inline__ __attribute__((__unused__)) void gmp_blocking_leave_(const char *section)
{
	(void)section;
	gmp_block_leave();
}
#define gmp_blocking(expr)                                                                         \
	(__extension__({                                                                           \
		__attribute__((__cleanup__(gmp_blocking_leave_), __unused__)) char gmp_section_;   \
		gmp_block_enter();                                                                 \
		(expr);                                                                            \
	}))
#define gmp_blocking_sys(expr)                                                                     \
	(__extension__({                                                                           \
		gmp_block_enter();                                                                 \
		__typeof__(expr) gmp_value_ = (expr);                                              \
		if (gmp_value_ == (__typeof__(expr))-1)                                            \
			gmp_value_ = (__typeof__(expr))-*gmp_errno_here();                         \
		gmp_block_leave();                                                                 \
		gmp_value_;                                                                        \
	}))
#endif

/* ------------------------------------------------------------------- Locals */

/*
 * A value of each thread's own under a key that all share (as pthread_getspecific, for green threads
 * too): the request that a log line belongs to, a buffer that is kept, a transaction.
 *
 *   static gmp_key request;                        // once: gmp_key_create(&request, request_free);
 *
 *   void serve(void *conn)
 *   {
 *           gmp_key_set(request, request_new(conn));
 *           handle(conn);                          // however deep: gmp_key_get(request)
 *   }                                              // here request_free(gmp_key_get(request)) runs
 *
 * gmp_key_create: a key under which every thread, green or external, finds NULL until it sets a value; 0
 * is never a key.  With or without a runtime; keys and the values of external threads outlive it.
 * -EAGAIN: 1024 keys are there, or one less for each 4,194,303 that were made and deleted: then their
 * numbers are used up, for none is given twice.  -EINVAL: k is NULL.
 * gmp_key_delete: no thread may use k any more.  Values are forgotten, no destructor runs for them.
 * -EINVAL: k is no key.
 * gmp_key_get: the caller's value; NULL if it has set none.  A few instructions.
 * gmp_key_set: -EINVAL if k is no key, -ENOMEM (or on an external thread -EAGAIN) when the caller sets its
 * first value, or one under a key that it has not used yet, and there is no memory.
 *
 * When a thread ends, also by gmp_exit, destroy(value) runs on it for each key that has a destructor
 * and a value, the last that was set (when there was none) first; the value is NULL by then.  A
 * destructor may wait, spawn, read and set values; the destructor of a key runs four times at most.
 * gmp_join returns after that.  A cancelled green thread is cancelled in its destructors too: see
 * gmp_cancel_mask.  Green threads that the end of a run drops run none.
 *
 * In blocking code (gmp_block_enter) they are still the green thread's values.  In the child of a fork
 * the thread that continues has the values of the green thread that called fork; if a destructor forked,
 * its return ends the child with _exit(0), and the others do not run in it.
 */
typedef unsigned gmp_key;
GMP_API int gmp_key_create(gmp_key *k, void (*destroy)(void *value));
GMP_API int gmp_key_delete(gmp_key k);
GMP_API void *gmp_key_get(gmp_key k);
GMP_API int gmp_key_set(gmp_key k, void *v);

/* ------------------------------------------------------------------- Pools */

/*
 * A bounded pool of workers (ants, for Go): many tasks, on green threads that are reused, with at most
 * `capacity` tasks begun at a time (<= 0: no bound).
 *
 *   gmp_pool_opts o = GMP_POOL_OPTS_INIT;
 *   o.fn = handle;                                 // one function for all tasks: gmp_pool_invoke
 *   gmp_pool *p = gmp_pool_new(100, &o);           // o may be NULL
 *   while ((job = next_job()))
 *           gmp_pool_invoke(p, job);               // waits while a hundred are being handled
 *   gmp_pool_release(p, gmp_deadline(5000000000)); // -ETIMEDOUT: some still run
 *   gmp_pool_free(p);                              // waits for those
 *
 * A task that has been accepted holds a place.  It gets a green thread of its own when it has to wait, or
 * runs beside others: tasks that end without having waited share one.  The last to become free is
 * the next to be used.  A task leaves its green thread as it found it: not locked to a thread, not in
 * blocking code, without a mask; what it sets by gmp_key_set, later tasks find.  A task that calls gmp_exit ends
 * its worker and frees its place; so does a cancelled one.
 *
 * gmp_pool_new: NULL without memory or a runtime, or for options that make no sense: idle_ns < 0,
 * prealloc without a capacity, a stack_size above 1 GiB.
 * gmp_pool_submit: from any thread; from a task of the same pool too, but if all places are held by
 * tasks that wait for one, none of them continues: gmp_pool_waiting and gmp_pool_running tell, and where
 * nothing else can happen the deadlock report does, in which such a task is a green thread with the task's
 * function as its entry that waits in gmp_pool_submit (or gmp_pool_invoke).  Waiters are served
 * in order.
 * -EAGAIN: there is no place, and the pool is nonblocking, or max_waiting wait already; also when
 * gmp_config.max_green stands in the way of the worker that is needed.  -EPIPE: the pool is
 * released, also while the caller waits.  -ENOMEM.  -ECANCELED, -ETIMEDOUT: the task was not accepted.
 * -EINVAL: p or fn is NULL, or gmp_pool_invoke without o.fn.
 * gmp_pool_try_submit: -EAGAIN in place of waiting.
 *
 * gmp_pool_submit_at begins the task when the time has come and there is a place, and never waits itself.
 * Until then it has neither, and takes 24 bytes (48 where their number has just grown).  Tasks
 * that are due and submitters that wait get places by turns.
 *
 * A pool belongs to the run that made it: when the runtime has stopped, all calls return -ESRCH, its
 * tasks are dropped with the others, and gmp_pool_free only frees.
 */
typedef struct gmp_pool gmp_pool;
typedef struct gmp_pool_opts {
	size_t size;     /* set by GMP_POOL_OPTS_INIT */
	gmp_fn fn;       /* of gmp_pool_invoke */
	int nonblocking; /* 1: submitting never waits */
	int max_waiting; /* most submitters that wait; 0: no limit */
	int64_t idle_ns; /* a worker unused for that long ends (at most a quarter later); 0: one second;
			    GMP_FOREVER: never; as long as some are to end, no deadlock is reported */
	int prealloc;      /* 1: memory for `capacity` workers and tasks is taken by gmp_pool_new */
	const char *name;  /* of the workers, in every diagnostic; copied, at most 63 bytes */
	size_t stack_size; /* of a worker; 0: the runtime's */
	void (*dropped)(gmp_fn fn, void *arg); /* gets the delayed tasks that a release drops */
} gmp_pool_opts;
#define GMP_POOL_OPTS_INIT GMP_SIZED_INIT_(gmp_pool_opts)
GMP_API gmp_pool *gmp_pool_new(int capacity, const gmp_pool_opts *o);
GMP_API int gmp_pool_submit(gmp_pool *p, gmp_fn fn, void *arg);
GMP_API int gmp_pool_submit_until(gmp_pool *p, gmp_fn fn, void *arg, int64_t deadline);
GMP_API int gmp_pool_try_submit(gmp_pool *p, gmp_fn fn, void *arg);
GMP_API int gmp_pool_invoke(gmp_pool *p, void *arg);
GMP_API int gmp_pool_submit_at(gmp_pool *p, int64_t deadline, gmp_fn fn, void *arg);

/*
 * At the time of the call: tasks that hold a place (workers with a task); places kept for the next
 * (workers without one); submitters that wait; the capacity, -1 without a bound; tasks of
 * gmp_pool_submit_at that have not begun.  -EINVAL for NULL, -ESRCH when the pool's run is over.
 */
GMP_API int gmp_pool_running(gmp_pool *p);
GMP_API int gmp_pool_idle(gmp_pool *p);
GMP_API int gmp_pool_waiting(gmp_pool *p);
GMP_API int gmp_pool_capacity(gmp_pool *p);
GMP_API int64_t gmp_pool_delayed(gmp_pool *p);

/*
 * gmp_pool_resize: a new capacity, at once (<= 0: no bound).  With a larger one
 * waiters continue; with a smaller one what is beyond it ends its task first, and nothing is accepted meanwhile.
 *
 * gmp_pool_release: no more intake.  Submitters that wait get -EPIPE; delayed tasks that have not begun
 * are dropped, each by a call of o.dropped(fn, arg) on the caller's thread; idle workers end; it waits
 * for running tasks: 0, or -ETIMEDOUT at the deadline, and they run on.  -EPIPE when it is
 * released already.  Called from a task of the pool it waits for the others.  Not cut short by
 * cancellation.
 * gmp_pool_reboot opens a released pool again (0 also if it is open); tasks that still run count.  A
 * release that waits continues to wait, until at some instant no tasks run, new ones among them.
 * gmp_pool_free releases it if need be, and waits for what runs; called from a task of the pool it
 * returns at once, and the pool goes with its last task.  No other call may be made any more.
 */
GMP_API int gmp_pool_resize(gmp_pool *p, int capacity);
GMP_API int gmp_pool_release(gmp_pool *p, int64_t deadline);
GMP_API int gmp_pool_reboot(gmp_pool *p);
GMP_API void gmp_pool_free(gmp_pool *p);

/*
 * Several pools of the same capacity and options, over which submitters are spread: each pool has a lock
 * of its own, so many threads that submit very short tasks stand less in each other's way.
 *
 *   gmp_multipool *m = gmp_multipool_new(4, 100, GMP_ROUND_ROBIN, NULL);
 *   gmp_multipool_submit(m, work, job);
 *
 * GMP_ROUND_ROBIN: each in its turn, or if that one is full, the least busy; GMP_LEAST_BUSY: always
 * that, by running + waiting, which looks at all of them.  Where that one is full too the submitter
 * waits (or not, by the options) in its queue.
 * gmp_multipool_at is one of the pools, NULL for an index out of range; it is not to be freed.  The
 * counts are sums, INT_MAX at most; gmp_multipool_capacity is -1 without a bound.  gmp_multipool_resize
 * sets the capacity of each.  Otherwise as the functions of the same names for one pool; release and free
 * end the pools one after the other.  gmp_multipool_free waits for the tasks of all, which may submit to it
 * until they have ended (-EPIPE); called from one of them, for the others.
 */
typedef struct gmp_multipool gmp_multipool;
typedef enum gmp_spread { GMP_ROUND_ROBIN, GMP_LEAST_BUSY } gmp_spread;
GMP_API gmp_multipool *gmp_multipool_new(int pools, int capacity, gmp_spread spread,
					 const gmp_pool_opts *o);
GMP_API int gmp_multipool_submit(gmp_multipool *m, gmp_fn fn, void *arg);
GMP_API int gmp_multipool_invoke(gmp_multipool *m, void *arg);
GMP_API gmp_pool *gmp_multipool_at(gmp_multipool *m, int i);
GMP_API int gmp_multipool_running(gmp_multipool *m);
GMP_API int gmp_multipool_idle(gmp_multipool *m);
GMP_API int gmp_multipool_waiting(gmp_multipool *m);
GMP_API int gmp_multipool_capacity(gmp_multipool *m);
GMP_API int gmp_multipool_resize(gmp_multipool *m, int capacity);
GMP_API int gmp_multipool_release(gmp_multipool *m, int64_t deadline);
GMP_API int gmp_multipool_reboot(gmp_multipool *m);
GMP_API void gmp_multipool_free(gmp_multipool *m);

/* ------------------------------------------------------------------- Groups */

/*
 * Structured concurrency: green threads that do one thing together.  None outlives the wait, the first
 * failure cancels the others, and so does the deadline.  (Go: errgroup with a context.)
 *
 *   static int fetch(void *url);                         // 0, or a negative errno value
 *
 *   gmp_group *g = gmp_group_new(8, gmp_deadline(2000000000));   // 8 at a time, 2 s in all
 *   for (int i = 0; i < n; i++)
 *           gmp_group_go(g, fetch, urls[i]);
 *   int err = gmp_group_wait(g);                         // all have ended
 *   gmp_group_free(g);
 *
 * gmp_group_new: limit is how many may run at a time, 0 or less: any number.  NULL without memory or
 * a runtime.  A group belongs to the run that made it: later its calls return -ESRCH, and free only frees.
 * gmp_group_go starts fn(arg) on a green thread, from any thread, also from a child; at the limit it
 * first waits until a child has ended (-ECANCELED if the caller is cancelled: nothing has been
 * started).  gmp_group_try_go: -EAGAIN at the limit.  Both: -EINVAL for a NULL; -ENOMEM, -EAGAIN
 * (gmp_config.max_green are alive), -ESRCH.
 * The first child that returns something else than 0 gives the group its result, and cancels the
 * others (gmp_cancel).  When the deadline passes before all have ended, the result is -ETIMEDOUT,
 * and all are cancelled; where max_green are alive just then and no thread waits in gmp_group_wait or
 * gmp_group_go, only when the next child ends.  From then on a group is as it is: gmp_group_go still
 * starts fn, but already cancelled, so that what fn has to clean up is cleaned up.  A child that ends by
 * gmp_exit has returned 0.  A child has ended when the destructors of its locals have
 * run, too.
 * gmp_group_wait waits until all children have ended, also children that children start meanwhile, and
 * returns the result.  A group without a failure can be used again after that.  It is not cut short:
 * if the caller is cancelled (and has not masked that), the children are, and it waits on for them; so
 * cancelling a green thread reaches the groups that it waits for, and the groups in these.
 * -ESRCH when the run has ended, and the children have been dropped.
 * A child that waits for its own group waits forever.
 * gmp_group_cancel cancels the children, and later ones when they start; the result is then what they
 * make of it.  gmp_group_free cancels and awaits running children; NULL is a no-op.
 */
typedef struct gmp_group gmp_group;
GMP_API gmp_group *gmp_group_new(int limit, int64_t deadline);
GMP_API int gmp_group_go(gmp_group *g, int (*fn)(void *arg), void *arg);
GMP_API int gmp_group_try_go(gmp_group *g, int (*fn)(void *arg), void *arg);
GMP_API int gmp_group_wait(gmp_group *g);

/*
 * gmp_group_wait_until - wait until all children have ended, or give up at a deadline
 *
 * g         the group
 * deadline  nanoseconds on the clock of gmp_now(), of this wait alone: the children run on when it
 *           passes.  A deadline in the past asks whether all have ended.  GMP_FOREVER waits indefinitely
 *           but can be cancelled, unlike gmp_group_wait.
 *
 * Returns the result of the group, as gmp_group_wait, when all children have ended.
 * Errors; the group and its children are as they were, and g can be waited for again:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT).  The children are
 *               not: call gmp_group_cancel or gmp_group_free for that.
 *   -ESRCH      the run has ended, and the children were killed
 *
 * A child may return the same values, and a group whose own deadline passed has the result -ETIMEDOUT:
 * gmp_group_running tells the two apart.
 */
GMP_API int gmp_group_wait_until(gmp_group *g, int64_t deadline);

/*
 * gmp_group_running - the number of children that have been started and have not ended
 *
 * Returns the number; it is of the past as soon as other green threads start children or children end.
 * Errors:
 *   -EINVAL  g is NULL
 *   -ESRCH   the run has ended, and the children were killed
 */
GMP_API int gmp_group_running(gmp_group *g);
GMP_API void gmp_group_cancel(gmp_group *g);
GMP_API void gmp_group_free(gmp_group *g);

/*
 * A done object: an event that happens once, and that any number can watch in a select beside what they
 * wait for, without meeting at one lock.  (Go: the Done channel of a context.)
 *
 *   gmp_case cs[] = { GMP_RECV_CASE(jobs, &job), GMP_RECV_CASE(gmp_done_chan(d), NULL) };
 *   while (gmp_select(cs, 2) == 0) {                    // 1: it is done
 *           work(job);
 *           cs[1].c = gmp_done_chan(d);                 // the nearest, after a wait
 *   }
 *
 * gmp_done_new: NULL without memory.
 * gmp_done_set: 0 for the first call, -EALREADY after that.  gmp_done_get: 1 once it is set.
 * gmp_done_wait: 0 once it is set; -ECANCELED, -ETIMEDOUT.
 * gmp_done_chan: a channel to receive from, which is closed when d is set (status -EPIPE).  There is one
 * for each P: ask again before each select that may wait, it costs nanoseconds.  Any of them may be used
 * by any thread; do not send to, close or free them.
 * gmp_done_free: misuse while there is a waiter.  It waits for a gmp_done_set under way.
 */
typedef struct gmp_done gmp_done;
GMP_API gmp_done *gmp_done_new(void);
GMP_API int gmp_done_set(gmp_done *d);
GMP_API int gmp_done_get(gmp_done *d);
GMP_API int gmp_done_wait(gmp_done *d);
GMP_API int gmp_done_wait_until(gmp_done *d, int64_t deadline);
GMP_API gmp_chan *gmp_done_chan(gmp_done *d);
GMP_API void gmp_done_free(gmp_done *d);

/*
 * One computes, the others get the result: what many ask for at the same time under the same key is
 * computed once.  (Go: singleflight.)
 *
 *   static int load(void *path, void *value);            // *(struct page **)value = ...; 0 or an errno
 *
 *   gmp_singleflight *f = gmp_singleflight_new(sizeof(struct page *));
 *   struct page *p;
 *   int sharers, err = gmp_singleflight_do(f, path, strlen(path), load, path, &p, &sharers);
 *   ...
 *   if (!err && atomic_fetch_add(&p->dropped, 1) + 1 == sharers)
 *           page_free(p);                                // the last sharer
 *
 * gmp_singleflight_new: for values of that size (0: none); NULL without memory.
 * gmp_singleflight_do: if no call computes under these bytes (any, `size` of them), fn(arg, value) is run by
 * the caller; value points to zeroed bytes that fn fills.  A call under the same key waits for it.  All
 * return what fn returned, with the value copied to theirs, and, in *sharers, the number of calls that have
 * it.  Both may be NULL.  Nothing is kept: a later call computes anew.
 * -EINVAL: a NULL table, fn, or key of a size; -ENOMEM.  Of waiting calls: -ECANCELED, -ETIMEDOUT;
 * -EOWNERDEAD: the computing thread has ended in fn (gmp_exit).  A call under the same key in fn waits
 * forever.
 * gmp_singleflight_forget: a later call does not join the present computation, but computes anew.
 * -ENOENT: nothing is.
 * gmp_singleflight_free: no call may be under way.  A table may be used by one run after the other.  If
 * shutdown kills the caller inside fn, the key stays busy: call gmp_singleflight_forget.  An external thread
 * that waits for it then waits until its deadline.
 */
typedef struct gmp_singleflight gmp_singleflight;
GMP_API gmp_singleflight *gmp_singleflight_new(size_t value_size);
GMP_API int gmp_singleflight_do(gmp_singleflight *f, const void *key, size_t size,
				int (*fn)(void *arg, void *value), void *arg, void *value,
				int *sharers);
GMP_API int gmp_singleflight_do_until(gmp_singleflight *f, const void *key, size_t size,
				      int (*fn)(void *arg, void *value), void *arg, void *value,
				      int *sharers, int64_t deadline);
GMP_API int gmp_singleflight_forget(gmp_singleflight *f, const void *key, size_t size);
GMP_API void gmp_singleflight_free(gmp_singleflight *f);

/* ----------------------------------------------------------- Looking inside */

/* Sums since the start of the run, and levels at the time of the call. */
typedef struct gmp_stats {
	size_t size; /* set by GMP_STATS_INIT */
	/* levels */
	uint64_t greens;           /* green threads alive */
	uint64_t greens_running;   /* on a P */
	uint64_t greens_runnable;  /* in a run queue */
	uint64_t greens_waiting;   /* parked */
	uint64_t threads;          /* Ms alive, the caller of gmp_run among them */
	uint64_t threads_idle;     /* Ms asleep */
	uint64_t procs;            /* Ps */
	uint64_t procs_idle;       /* Ps that no M holds */
	uint64_t timers;           /* armed timers, sleeping green threads among them */
	uint64_t descriptors;      /* descriptors known to the poller */
	uint64_t stack_bytes;      /* reserved for stacks_used: the most that can be resident */
	uint64_t stacks_used;      /* stacks bound to a green thread */
	uint64_t stacks_cached;    /* stacks kept for reuse */
	uint64_t stacks_unguarded; /* stacks made without a guard */
	/* sums */
	uint64_t spawns;      /* green threads started */
	uint64_t exits;       /* green threads ended */
	uint64_t switches;    /* times that a green thread got a P */
	uint64_t steals;      /* successful steals from another P's queue */
	uint64_t stolen;      /* green threads so taken */
	uint64_t overflows;   /* times that a full ring of 2,048 moved 128 Gs to the global queue */
	uint64_t polls;       /* calls to the kernel's poller */
	uint64_t poll_events; /* events that these returned */
	uint64_t wakeups;     /* idle Ms woken */
	uint64_t parks;       /* times that an M went to sleep */
	uint64_t spins;       /* times that an M found no work and continued to spin */
	uint64_t handoffs;    /* Ps taken from a thread in blocking code */
	uint64_t timers_fired;
	uint64_t trimmed_bytes; /* stack memory given back to the kernel */
	/*
	 * Scheduling latency in ns: from the time when a green thread becomes runnable (started, yields,
	 * woken, reported as ready by the poller), for a sleep or a timer from the deadline, until it runs.
	 * Sampled: one wakeup in 64; and each of the wakeups by threads without a P, of the green
	 * threads that return from blocking code without a P, and of those queued behind a green
	 * thread that computes for more than 10 ms. The quantiles estimate all wakeups; each is at most
	 * a quarter above the exact one. latency_max is the longest measured, or the longest that
	 * the monitor thread saw a green thread or a due timer wait on a P that did not switch.
	 * After a queue that is long only once, latency_max is that of a sample.
	 */
	uint64_t latency_samples; /* measurements */
	uint64_t latency_p50;
	uint64_t latency_p90;
	uint64_t latency_p99;
	uint64_t latency_max;
	uint64_t greens_blocked; /* level: in blocking code, and their P is with others */
	uint64_t procs_spare;    /* level: Ps beyond gmp_procs(), while those are all stuck in calls
				    that block without saying so */
	uint64_t spares;         /* sum: how often one was added */
	uint64_t
		longest_run; /* ns that a P ran without a switch to a green thread, the longest since
				    the start, the present run included; without the time between
				    gmp_block_enter and gmp_block_leave. At most 20 ms too short (the
				    monitor thread polls every 1 to 10 ms), so shorter runs may be
				    missing. Calls that block undeclared count */
} gmp_stats;
#define GMP_STATS_INIT GMP_SIZED_INIT_(gmp_stats)

/* Fill *s.  From any thread; the figures are read one by one while everything runs, so they need
 * not add up.  -EINVAL: s NULL or size 0; -ESRCH: no runtime. */
GMP_API int gmp_stats_get(gmp_stats *s);

/*
 * gmp_dump - write to fd what every green thread does
 *
 * Plain text: a line of counts, then blocks. Green threads that are alike share a block: the same entry
 * function, place of making, state, kind of wait and calls, and, if they wait for one known green thread,
 * the same one. Names and the objects waited at may differ.
 *
 *   304 green threads: 0 runnable, 1 running, 303 waiting, 0 in blocking code; 0 ended and not joined
 *   green thread 1 "" (entry app), running, the caller of gmp_dump; made at main+0x1f, 12.41 s ago
 *       #0 0x55d0c0a91c52 app+0x92 (prog+0x1c52)
 *   green thread 2 "clerk" (entry work), waiting for 12.30 s: mutex lock 0x55d0c2b6a2c0, held by green thread 9; made at app+0x41, 12.40 s ago
 *       ...
 *   300 × green thread (entry work), waiting for 1.20 to 12.30 s: channel receive 0x55d0c2b6a2c0; made at app+0x63, 12.40 s ago
 *       3 "first", 4-301, 310
 *       #0 0x55d0c0a9a3f1 gmp_chan_recv (prog+0xa370), left by a jump
 *       #1 0x55d0c0a91b10 next_job+0x20 (prog+0x1b10)
 *       #2 0x55d0c0a91b7d work+0x3d (prog+0x1b7d)
 *
 * Of each: id, name, entry function; its state, and for how long it has waited (to some 10 ms); what it
 * waits for: the object's address (of a select the channels of the first six cases), the number of a file
 * descriptor, the id of a green thread that is joined, and of a mutex its holder ("and others": not all
 * of a group wait at this object); where it was made, and how long ago (to some 30 ms); and, if it waits
 * or is the caller, its calls, the innermost first, as address, function, and object+address for
 * addr2line. The second line of a group has its members: ranges of ids, and names; after eight of them only
 * how many more there are.
 *
 * A green thread that runs or is about to run has no calls to show. "left by a jump": the function has
 * been called there and has no frame, because its last step is a jump. Functions without a symbol appear as
 * object+address. Green threads of gmp_go that have not run and have been moved to the global queue are
 * only counted, in the first line.
 *
 * The program continues meanwhile: each green thread is shown at a moment of its own. It cannot be
 * woken for the microseconds in which its stack is read. If fd has no room the caller waits, and while
 * it is a green thread, others run. Several dumps at a time are possible.
 *
 * Returns 0.
 * Errors:
 *   -ESRCH   no runtime
 *   -EBADF   fd cannot be written to; or another error of write (a pipe without a reader: -EPIPE, and
 *            no SIGPIPE)
 *   -ENOMEM  no memory
 *
 * See also: gmp_dump_all, gmp_dump_on.
 */
GMP_API int gmp_dump(int fd);

/*
 * gmp_dump_all - like gmp_dump, with a block for each green thread
 *
 * Of many with the same calls, all except the first 100 say "; backtrace as green thread N" instead.
 * GMP_DEBUG=dumpall does the same for gmp_dump, for dumps at a signal and for the report of a deadlock.
 *
 * Returns and errors: as gmp_dump.
 */
GMP_API int gmp_dump_all(int fd);

/*
 * gmp_dump_on - dump to stderr at each signal signo
 *
 * signo  1 to 64; 0 turns it off. Replaces the signal of an earlier call. Also by GMP_DEBUG=quit, for
 *        SIGQUIT.
 *
 * The program continues. The dump is made by an OS thread of its own, so it does not need a green
 * thread to yield. The disposition of the signal is replaced until gmp_dump_on(0) or the end of the run.
 * Do not use the same signal with gmp_signal_notify.
 *
 * Returns 0.
 * Errors:
 *   -ESRCH   no runtime
 *   -EINVAL  signo is out of range, SIGKILL, SIGSTOP, or a signal of the runtime: SIGSEGV, SIGBUS
 */
GMP_API int gmp_dump_on(int signo);

/*
 * GMP_DEBUG=check in the environment reports, on stderr, uses of C that green threads break: a pthread
 * mutex held across a wait, thread-locals and pthread keys that change during one, the kept address of a
 * thread-local, a wait in a signal handler, 10 ms without a wait and what the time went to, the depth of
 * stacks.  GMP_DEBUG=help lists all words.  docs/debugging.md has each message, what to do, and the price.
 *
 * GMP_TLS_CANARY(var): from here to the end of the block the caller uses the address of the thread-local
 * var.  With GMP_DEBUG=check a wait before that end is reported, since it may end on another OS thread,
 * unless the caller is pinned or locked to its thread.  Otherwise it costs a call at either end.
 *
 *   GMP_TLS_CANARY(scratch);
 *   char *s = scratch;
 *   format(s, job);
 *   gmp_write_all(fd, s, strlen(s));   // reported
 */
typedef struct gmp_canary {
	struct gmp_canary *next;
	const void *address;
	const char *what;
} gmp_canary;
GMP_API void gmp_canary_set(gmp_canary *c, const void *address, const char *what);
GMP_API void gmp_canary_clear(gmp_canary *c);
#define GMP_TLS_CANARY(var) GMP_TLS_CANARY_(var, __LINE__)
#define GMP_TLS_CANARY_(var, line) GMP_TLS_CANARY_2_(var, line)
#define GMP_TLS_CANARY_2_(var, line)                                                               \
	gmp_canary gmp_canary_##line __attribute__((cleanup(gmp_canary_clear)));                   \
	gmp_canary_set(&gmp_canary_##line, &(var), #var " of " __FILE__ ":" #line)

#ifdef __cplusplus
}
#endif

#endif
