/* SPDX-License-Identifier: MIT */
/*
 * Recording: starts and stops traces and the accounting of CPU time.
 *
 * Invariants
 *   -         One trace at a time, and only during a run.  The end of the run ends it.
 *   RECORD-2  While something is recorded, the leave steps park, yield and exit (variant/leave.h)
 *             are functions of tracing.c.  They emit an event, and jump to those of sched.untraced.
 *             An M with an earlier pointer misses an event, or emits an event that no session
 *             takes.
 *   RECORD-3  A file has the trace of one process: it is locked before it is truncated, until the
 *             trace ends.  GMP_TRACE does not record a child of fork, unless the path has a %p.
 *   RECORD-4  The sleep of the G that ends a cputime_lease does not prevent the report of a
 *             deadlock.
 */
#ifndef GMP_TRACE_TRACING_H
#define GMP_TRACE_TRACING_H

#include "base/base.h"

/* Start of a run: GMP_TRACE and GMP_DEBUG=cputime.  Returns 0 or a negative errno, with *why set to
 * the text of a message. */
int tracing_begin(const char **why);
/* End of a run; no thread is inside of the runtime. */
void tracing_end(void);
/* The process is about to end: end the trace into a file, so that it has all events. */
void tracing_complete(void);
/* In the child of a fork. */
void tracing_forget(void);

/* What ends a trace. */
enum trace_owner {
	TRACE_OF_RUN,     /* GMP_TRACE: the end of the run */
	TRACE_OF_PROGRAM, /* gmp_trace_start: gmp_trace_stop */
	TRACE_OF_SERVER,  /* a page of the debug server: tracing_stop_pipe */
};

/* Trace into the write end of a pipe (os_pipe), which is closed at the end of the trace, or if the
 * call fails.  Returns as gmp_trace_start.  In a run. */
int tracing_start_pipe(int fd);
/* End the trace, as tracefile_ask_stop does, and wait.  Returns 0 or the error of a write.  If the
 * reader has read to the end of file, it does not wait for long. */
int tracing_stop_pipe(void);

/* Account CPU time for the next `ns`, beside the accounting of a trace and of GMP_DEBUG=cputime.
 * Returns false without memory.  In a run. */
bool cputime_lease(int64_t ns);

#endif
