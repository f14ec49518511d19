/* SPDX-License-Identifier: MIT */
/*
 * Looking inside: statistics, dumps of all green threads, a debug server, and canaries for
 * thread-locals.
 *
 * The words of GMP_DEBUG, what its reports mean and what they cost: docs/debugging.md. How a dump
 * reads: docs/api/dumps.md.
 */
#ifndef GMPRT_DEBUG_H
#define GMPRT_DEBUG_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------- Statistics */

/*
 * What made a green thread runnable: the index of gmp_stats.latency.
 */
typedef enum gmp_latency_cause {
	GMP_LATENCY_SPAWN,      /* it was started */
	GMP_LATENCY_YIELD,      /* it yielded, or its time slice was over */
	GMP_LATENCY_TIMER,      /* a sleep, a deadline, a gmp_timer or a tick; from its time on */
	GMP_LATENCY_DESCRIPTOR, /* a descriptor or a file; from the report of the kernel on */
	GMP_LATENCY_BLOCKING,   /* its blocking code ended, and others used its P */
	GMP_LATENCY_WAKE,       /* a channel, a lock, a join, a signal and so on */
	GMP_LATENCY_CAUSES      /* their number */
} gmp_latency_cause;

/* Scheduling latency of one cause, in ns: see gmp_stats. 0 without a measurement. */
typedef struct gmp_latency {
	uint64_t samples; /* measurements */
	uint64_t p50;
	uint64_t p90;
	uint64_t p99;
	uint64_t max; /* the longest measured */
} gmp_latency;

/* Sums since the start of the run, and levels at the time of the call. */
typedef struct gmp_stats {
	size_t size; /* set by GMP_STATS_INIT */
	/* levels */
	uint64_t greens;           /* green threads alive */
	uint64_t greens_running;   /* on a P */
	uint64_t greens_runnable;  /* in a run queue */
	uint64_t greens_waiting;   /* parked */
	uint64_t threads;          /* Ms alive, the caller of gmp_run among them until it only waits
	                              for the end of the run */
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
	 * Scheduling latency in ns: from the time when a green thread becomes runnable (started,
	 * yields, woken, reported as ready by the poller), for a sleep or a timer from the
	 * deadline, until it runs. Sampled: one wakeup in 64; and each of the wakeups by threads
	 * without a P, of the green threads that return from blocking code without a P, and of
	 * those queued behind a green thread that computes for more than 10 ms. The quantiles
	 * estimate all wakeups; each is at most a quarter above the exact one. latency_max is
	 * the longest measured, or the longest that sysmon saw a green thread or a due timer
	 * wait on a P that did not switch. After a queue that is long only once, latency_max is
	 * that of a sample.
	 */
	uint64_t latency_samples; /* measurements */
	uint64_t latency_p50;
	uint64_t latency_p90;
	uint64_t latency_p99;
	uint64_t latency_max;
	uint64_t greens_blocked; /* level: without a P, which others use: in blocking code, or
	                         preempted */
	uint64_t preempted;      /* level: of these, green threads whose P was taken while they
	                         computed, or slept in the kernel without gmp_block_enter */
	uint64_t preemptions;    /* sum: how often a P was taken that way */
	/*
	 * ns that a P ran without a switch to a green thread, the longest since the start, the
	 * present run included; without the time between gmp_block_enter and gmp_block_leave. At
	 * most 20 ms too short (sysmon polls every 1 to 10 ms), so shorter runs may be missing.
	 * Calls that block without gmp_block_enter count.
	 */
	uint64_t longest_run;
	uint64_t preempted_ns; /* sum: time that green threads ran without a P after that; counted
	                          when they stop or have a P again */
	uint64_t abandoned; /* level: green threads of ended runs that are not at their end, each on
	                          an OS thread that threads does not count (gmp_run) */
	gmp_latency latency[GMP_LATENCY_CAUSES]; /* the latency by cause, measured as above */
	uint64_t cpu_ns; /* sum: time that green threads ran while it was accounted: during traces,
	                    with GMP_DEBUG=cputime, and on request of the debug server (?cputime,
	                    gmp-top); counted when they stop. The time in which the kernel has
	                    descheduled their OS threads is included */
	uint64_t unannounced; /* sum: of the preemptions, those of a green thread that slept in the
	                         kernel: a call that blocks without gmp_block_enter, and that
	                         libgmprt_posix does not replace */
	uint64_t preempt_refused; /* sum: attempts, about one a millisecond, to take the P of a
	                             green thread that computes, which failed because no OS thread
	                             could be had for it: max_threads, RLIMIT_NPROC or the pids.max
	                             of the cgroup; others wait meanwhile */
	uint64_t timers_skipped;  /* sum: periods of timers (gmp_timer_set) without a run: the timer
	                             was late, the run of an earlier period had not begun, or no
	                             green thread could be made */
} gmp_stats;
#define GMP_STATS_INIT GMP_SIZED_INIT_(gmp_stats)

/*
 * gmp_stats_get - fill in the statistics of the runtime
 *
 * s  initialised with GMP_STATS_INIT
 *
 * The figures are read one by one while green threads run, so they need not add up.
 *
 * Returns 0.
 * Errors:
 *   -EINVAL  s is NULL, or s->size is 0
 *   -ESRCH   no runtime
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           gmp_stats s = GMP_STATS_INIT;
 *
 *           (void)arg;
 *           assert(gmp_stats_get(&s) == 0);
 *           assert(s.greens == 1 && s.procs == (uint64_t)gmp_procs());
 *   }
 */
GMP_API int gmp_stats_get(gmp_stats *s);

/* ------------------------------------------------------------------- Dumps */

/*
 * gmp_dump - write to fd what every green thread does
 *
 * fd  where to write plain text: a line of counts, then blocks. Green threads that are alike share
 *     a block (docs/api/dumps.md).
 *
 * The program continues meanwhile: each green thread is shown at a moment of its own. It cannot be
 * woken for the microseconds in which its stack is read. If fd has no room the caller waits, and
 * while it is a green thread, others run. Several dumps at a time are possible.
 *
 * Of a green thread that computes, the function and the calls are shown: its OS thread is asked by
 * SIGURG, unless the program has a handler of that signal. The caller waits for the answers for at
 * most 20 ms and a time slice for each of them on each CPU, 1 s in all. Of a green thread that
 * sleeps in the kernel, the system call is shown; it gets no signal. See docs/api/dumps.md.
 *
 * Returns 0.
 * Errors:
 *   -ESRCH   no runtime
 *   -EBADF   fd cannot be written to; or another error of write (a pipe without a reader: -EPIPE,
 *            and no SIGPIPE)
 *   -ENOMEM  no memory
 *
 * See also: gmp_dump_all, gmp_dump_on.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *           assert(gmp_dump(STDERR_FILENO) == 0);
 *   }
 */
GMP_API int gmp_dump(int fd);

/*
 * gmp_dump_all - gmp_dump with a block for each green thread
 *
 * fd  as gmp_dump
 *
 * Of many green threads with the same calls, all except the first 100 say "; backtrace as green
 * thread N" instead. GMP_DEBUG=dumpall does the same for gmp_dump, for dumps at a signal and for
 * the report of a deadlock.
 *
 * Returns and errors: as gmp_dump.
 */
GMP_API int gmp_dump_all(int fd);

/*
 * gmp_dump_on - dump to stderr at each signal signo
 *
 * signo  1 to 64; 0 turns it off. Replaces the signal of an earlier call. Also by GMP_DEBUG=quit,
 *        for SIGQUIT.
 *
 * The program continues. An OS thread of its own makes the dump, so no green thread needs to yield
 * for it. The disposition of the signal is replaced until gmp_dump_on(0) or the end of the run. Do
 * not use the same signal with gmp_signal_notify.
 *
 * Returns 0.
 * Errors:
 *   -ESRCH   no runtime
 *   -EINVAL  signo is out of range, SIGKILL, SIGSTOP, or a signal of the runtime: SIGSEGV, SIGBUS
 */
GMP_API int gmp_dump_on(int signo);

/* ------------------------------------------------------------------ Traces */

/*
 * gmp_trace_start - record what the scheduler does, into a file
 *
 * path  the file, which is created or truncated. gmp-trace reads it; its format is described in
 *       docs/trace-format.md.
 *
 * Recorded are spawns, runs, waits with their reason, wakeups and which green thread caused them,
 * steals, hand-offs, preemptions, polls, and the regions and messages of gmp_trace_begin and
 * gmp_trace_log: docs/api/tracing.md. The program never waits for the file: if the disk is slower
 * than the program, the oldest events are dropped, and the file has their number. The end of the
 * run ends the trace. GMP_TRACE=path in the environment records the whole run, and /debug/trace of
 * the debug server some seconds; only one trace is recorded at a time.
 *
 * The file is locked (flock) until the trace ends, where the file system has locks. path may be a
 * FIFO or a device: nothing waits for its reader, as of a file. The reader of a FIFO must have it
 * open before: otherwise the call fails, and with GMP_TRACE gmp_run does.
 *
 * Returns 0.
 * Errors, and a file that exists is unchanged:
 *   -EINVAL   path is NULL or empty
 *   -ESRCH    no runtime
 *   -EBUSY    a trace is being recorded, by this call, GMP_TRACE or the debug server; or another
 *             process records into this file
 *   -ENXIO    a FIFO without a reader
 *   -ENOTSUP  GMP_SCHED_THREAD: the kernel switches between green threads
 *   -ENOMEM, -EAGAIN  no memory; no OS thread
 *   or an error of open: -ENOENT, -EACCES and so on
 *
 * See also: gmp_trace_stop.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *           assert(gmp_trace_start("/dev/null") == 0);
 *           gmp_trace_begin("startup");
 *           gmp_yield();
 *           gmp_trace_log("config", "read");
 *           gmp_trace_end();
 *           assert(gmp_trace_stop() == 0);
 *   }
 */
GMP_API int gmp_trace_start(const char *path);

/*
 * gmp_trace_stop - end the trace, and wait until its file is complete
 *
 * Returns 0.
 * Errors:
 *   -ESRCH   no runtime
 *   -EINVAL  no trace of gmp_trace_start is being recorded, or another call ends it. That of
 *            GMP_TRACE ends with the run, that of the debug server with its request
 *   -EAGAIN  a FIFO or a device: the reader made no room for 100 ms, and the rest is missing
 *   or an error of write: then the file is valid, but incomplete (-ENOSPC, -EIO ...)
 */
GMP_API int gmp_trace_stop(void);

/*
 * gmp_trace_begin - a region of the calling green thread begins; nothing without a trace
 *
 * name  copied; more than 240 bytes are truncated. NULL: empty
 *
 * Regions nest. Each ends by a gmp_trace_end of the same green thread. On an external thread the
 * region belongs to the OS thread. Not in a signal handler.
 */
GMP_API void gmp_trace_begin(const char *name);

/*
 * gmp_trace_end - the innermost region of the calling green thread ends
 */
GMP_API void gmp_trace_end(void);

/*
 * gmp_trace_log - put a message into the trace; nothing without a trace
 *
 * category, message  copied; together more than 239 bytes are truncated. NULL: empty. Not in a
 *                    signal handler.
 */
GMP_API void gmp_trace_log(const char *category, const char *message);

/* ---------------------------------------------------------------- Profiles */

/*
 * gmp_profile_write - collect a profile, and write it to fd in the format of pprof
 *
 * kind     "cpu": functions that use CPU time, 100 samples for each second of it; "wait": where
 *          green threads wait; "mutex": the same for mutexes and rwmutexes, with the holder;
 *          "green": all green threads, by the place that made them
 * seconds  for how long to collect: 1 to 3600 for "cpu"; 0 to 3600 for "wait" and "mutex", where 0
 *          shows one moment; "green" shows one moment in any case
 * fd       where to write the profile, uncompressed
 *
 * The program continues meanwhile. The caller waits; while it is a green thread, others run. What
 * the figures mean, what they cost, and how to open a profile: docs/api/profiles.md.
 *
 * Returns 0.
 * Errors, nothing written:
 *   -EINVAL   kind or seconds is not one of these
 *   -EBUSY    "cpu": another CPU profile is being collected, or the program has a handler of
 *             SIGPROF, or SIGPROF was blocked when the run began
 *   -ENOTSUP  gmp was built without protobuf-c, or libprotobuf-c.so.1 is not found, or the program
 *             is linked statically
 *   -ENOMEM, -EAGAIN  no memory, OS thread or timer
 *   -ESRCH    no runtime, or it has stopped meanwhile
 *   -EBADF    fd cannot be written to
 * Other errors are those of write (a pipe without a reader: -EPIPE, and no SIGPIPE); a part may
 * have been written.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           int fd = open("/tmp/green.pb", O_WRONLY | O_CREAT | O_TRUNC, 0600);
 *           int err = gmp_profile_write("green", 0, fd);
 *
 *           (void)arg;
 *           assert(err == 0 || err == -ENOTSUP);
 *           close(fd);
 *           unlink("/tmp/green.pb");
 *   }
 */
GMP_API int gmp_profile_write(const char *kind, int seconds, int fd);

/* ------------------------------------------------------------------ Server */

/*
 * gmp_debug_listen - serve statistics, dumps and profiles of this process over HTTP
 *
 * addr  "host:port" or "[::1]:port" as gmp_listen; "port" or ":port": of 127.0.0.1 only, unlike
 *       gmp_listen; port 0: any that is free; or "unix:/path", "unix:@name". Everything that is
 *       served is open to each process and user that can connect: an address other than the
 *       loopback exposes it to the network.
 *
 * Green threads named "gmp debug server" and "gmp debug client" do the work. They count in the
 * statistics and appear in dumps, and end with the run. A server that waits for clients does not
 * keep a deadlock from being reported, nor virtual time from advancing. Paths, bounds and security:
 * docs/api/debug-server.md.
 *
 * Returns the port; 0 for a unix socket, whose path is unlinked at the end of the run.
 * Errors, nothing is open:
 *   -EINVAL  addr is NULL or cannot be understood
 *   -EAGAIN  four servers exist, max_green green threads are alive, or no name server answered
 *   -ESRCH   no runtime
 *   -ENOMEM  no memory
 *   -EADDRINUSE, -EACCES, -EMFILE ...  those of gmp_listen
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           (void)arg;
 *
 *           int port = gmp_debug_listen("127.0.0.1:0");
 *
 *           assert(port > 0);      // curl http://127.0.0.1:PORT/debug/
 *   }
 */
GMP_API int gmp_debug_listen(const char *addr);

/* ---------------------------------------------------------------- Canaries */

/*
 * GMP_TLS_CANARY(var): from here to the end of the block the caller uses the address of the
 * thread-local var. With GMP_DEBUG=check a wait before that end is reported, since it may end on
 * another OS thread, unless the caller is pinned or locked to its OS thread. Otherwise it costs a
 * call at either end.
 *
 * Example:
 *   static _Thread_local char scratch[64];
 *
 *   static void app(void *arg)
 *   {
 *           char copy[64];
 *
 *           (void)arg;
 *           {
 *                   GMP_TLS_CANARY(scratch);
 *                   snprintf(scratch, sizeof(scratch), "job %d", 1);
 *                   memcpy(copy, scratch, sizeof(copy));    // a gmp_write_all here is reported
 *           }
 *           gmp_yield();
 *           assert(strcmp(copy, "job 1") == 0);
 *   }
 */
typedef struct gmp_canary {
	struct gmp_canary *next;
	const void *address;
	const char *what;
} gmp_canary;

/*
 * gmp_canary_set - begin of the block of a GMP_TLS_CANARY; not to be called directly
 */
GMP_API void gmp_canary_set(gmp_canary *c, const void *address, const char *what);

/*
 * gmp_canary_clear - end of the block of a GMP_TLS_CANARY; not to be called directly
 */
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
