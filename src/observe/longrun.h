/* SPDX-License-Identifier: MIT */
/* Long runs, with GMP_DEBUG=check or sched: reports green threads that do not switch.  For dumps:
 * asks where green threads are that compute.  longrun.c has the invariants. */
#ifndef GMP_LONGRUN_H
#define GMP_LONGRUN_H

#include <signal.h>

#include "base/trace.h"
#include "types.h"

/* The signal by which threads are asked; ignored by default.  GMP_DEBUG=chaos uses it too. */
enum { LONGRUN_SIGNAL = SIGURG };

enum longrun_kind {
	LONGRUN_COMPUTES, /* its OS thread was on a CPU for most of the time */
	LONGRUN_SLEEPS,   /* it slept in the kernel */
	LONGRUN_STARVED,  /* it was runnable, and other threads had the CPU */
	LONGRUN_KINDS,
	LONGRUN_UNKNOWN = LONGRUN_KINDS, /* poll again later */
};

/* Called by sysmon: P number i has switched since the last poll; its M is OS thread tid. */
void longrun_moved(int i, int tid, int64_t now);
/* Called by sysmon: P number i has run the same green thread since `since`.  Returns true if the
 * run is being measured or asked about, so that the P must not be taken yet. */
bool longrun_poll(int i, int tid, int64_t since, int64_t now);
/* Called by sysmon: OS thread tid sleeps, and P number i, which it had, has been taken. */
void longrun_stuck(int i, int tid, int64_t since, int64_t now);
/* Writes what was found about sleeping threads, and the answers of the asked threads. */
void longrun_write(void);

/* In a signal handler on M m, which was interrupted at pc, with stack pointer sp: answer the
 * questions to m. */
void longrun_answer_sig(struct m *m, uintptr_t pc, uintptr_t sp);

/* In a signal handler on M m, whose curg is set, interrupted with stack pointer sp: was the G
 * interrupted, and not the scheduler?  LONGRUN-7. */
bool longrun_on_green_side(const struct m *m, uintptr_t sp);

/* Questions of dumps, between signal_ask_begin and signal_ask_end (faultsig.h). */
/* Ask OS thread tid which green thread it runs, and where.  Returns the number of the question;
 * -EBUSY if all are in use; -errno if the kernel does not send the signal.  The caller ends the
 * question by longrun_answered or longrun_drop. */
int longrun_ask(int tid);
/* Take the answer: *id is 0 if no green thread ran; *t has no frames if the signal arrived on g0.
 * Returns false: not answered yet. */
bool longrun_answered(int question, uint64_t *id, struct trace *t);
/* End the question without an answer. */
void longrun_drop(int question);

void longrun_begin(void);

/*
 * What a thread did during `elapsed` ns, of which it had a CPU for `cpu` and waited for one for
 * `delay` (-1: not known); state as os_thread_state has it. LONGRUN_UNKNOWN: none of them for half
 * of the time yet.
 */
enum longrun_kind longrun_classify(int64_t elapsed, int64_t cpu, int64_t delay, char state);

#endif
