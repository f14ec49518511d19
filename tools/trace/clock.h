/* SPDX-License-Identifier: MIT */
/*
 * Conversion of ticks to nanoseconds: linear between the clock events of the file.
 */
#ifndef TOOLS_TRACE_CLOCK_H
#define TOOLS_TRACE_CLOCK_H

#include "reader.h"

/* Adds a clock event; both times are relative to the start. */
void clock_add(struct trace *t, int64_t tick, int64_t ns);

/* Sorts the points, and drops points that contradict earlier ones. */
void clock_finish(struct trace *t);

/*
 * Returns the time of a tick in ns since the start, never negative, and never before the time that
 * the last call returned.
 */
int64_t clock_ns(struct trace *t, int64_t tick);

/* Returns the mean number of ticks in a millisecond, at least 1. */
int64_t clock_ticks_per_ms(const struct trace *t);

#endif
