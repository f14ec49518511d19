/* SPDX-License-Identifier: MIT */
/* Long runs, with GMP_DEBUG=check or sched: reports green threads that do not switch.  longrun.c
 * has the invariants. */
#ifndef GMP_LONGRUN_H
#define GMP_LONGRUN_H

#include <signal.h>

#include "types.h"

/* The signal by which sysmon asks; ignored by default.  GMP_DEBUG=chaos uses it too. */
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
/* Called by sysmon: P number i has run the same green thread since `since`. */
void longrun_poll(int i, int tid, int64_t since, int64_t now);
/* Called by sysmon, with GMP_DEBUG=sched: other Gs cannot run, and the OS thread of P number i
 * sleeps. */
void longrun_stuck(int i, int tid, int64_t since, int64_t now);
/* Writes the answers of the asked threads. */
void longrun_write(void);

/* In a signal handler on M m, which runs a green thread at pc: answer the questions to m. */
void longrun_answer_sig(struct m *m, uintptr_t pc);

void longrun_begin(void);

/*
 * What a thread did during `elapsed` ns, of which it had a CPU for `cpu` and waited for one for
 * `delay` (-1: not known); state as os_thread_state has it. LONGRUN_UNKNOWN: none of them for half
 * of the time yet.
 */
enum longrun_kind longrun_classify(int64_t elapsed, int64_t cpu, int64_t delay, char state);

#endif
