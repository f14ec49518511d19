/* SPDX-License-Identifier: MIT */
/* Long runs, with GMP_DEBUG=check or sched: what does a green thread that does not switch do? See
 * mode/longrun.c. */
#ifndef GMP_LONGRUN_H
#define GMP_LONGRUN_H

#include <signal.h>

#include "types.h"

/* By which sysmon asks; ignored by default. Also that of GMP_DEBUG=chaos. */
enum { LONGRUN_SIGNAL = SIGURG };

enum longrun_kind {
	LONGRUN_COMPUTES, /* its OS thread was on a CPU for most of the time */
	LONGRUN_SLEEPS,   /* it slept in the kernel */
	LONGRUN_STARVED,  /* it was runnable, and other threads had the CPU */
	LONGRUN_KINDS,
	LONGRUN_UNKNOWN = LONGRUN_KINDS, /* poll again later */
};

/* For sysmon. P number i was seen to have switched, on OS thread tid, at `now`. */
void longrun_moved(int i, int tid, int64_t now);
/* It has run the same green thread since `since`. */
void longrun_poll(int i, int tid, int64_t since, int64_t now);
/* It keeps others from running, and its OS thread sleeps (GMP_DEBUG=sched). */
void longrun_stuck(int i, int tid, int64_t since, int64_t now);
/* Write what the asked threads have answered. */
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
