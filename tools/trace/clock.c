/* SPDX-License-Identifier: MIT */
/*
 * Conversion of ticks to nanoseconds: linear between the clock events of the file.
 */
#include "clock.h"

#include <stdlib.h>

enum { LATEST_SHIFT = 61 }; /* times stay below 2^61 ns, so that differences do not overflow */

void clock_add(struct trace *t, int64_t tick, int64_t ns)
{
	ROOM_FOR_ONE(t->clock, t->clock_count, t->clock_capacity);
	t->clock[t->clock_count++] = (struct clock_point){ .tick = tick, .ns = ns };
}

static int compare_points(const void *a, const void *b)
{
	const struct clock_point *x = a, *y = b;

	if (x->tick != y->tick)
		return x->tick < y->tick ? -1 : 1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

void clock_finish(struct trace *t)
{
	size_t kept = 0;

	clock_add(t, 0, 0);
	qsort(t->clock, t->clock_count, sizeof(*t->clock), compare_points);
	for (size_t i = 0; i < t->clock_count; i++) {
		const struct clock_point *p = &t->clock[i],
					 *before = &t->clock[kept > 0 ? kept - 1 : 0];
		bool is_same = kept > 0 && p->tick == before->tick && p->ns == before->ns;
		bool is_bad = p->tick < 0 || p->ns < 0 || p->ns >> LATEST_SHIFT != 0 ||
			      (kept > 0 && (p->tick <= before->tick || p->ns < before->ns));

		if (!is_bad)
			t->clock[kept++] = *p;
		else if (!is_same)
			t->warnings.count[WARN_BAD_CLOCK]++;
	}
	t->clock_count = kept;
	t->warnings.count[WARN_NO_CLOCK] = kept < 2;
}

int64_t clock_ns(struct trace *t, int64_t tick)
{
	const struct clock_point *p = t->clock, *q;
	double slope = 1, ns;

	while (t->segment + 2 < t->clock_count && tick >= p[t->segment + 1].tick)
		t->segment++;
	p += t->segment;
	q = p + 1;
	if (t->clock_count >= 2)
		slope = (double)(q->ns - p->ns) / (double)(q->tick - p->tick);
	ns = (double)p->ns + ((double)tick - (double)p->tick) * slope + 0.5;
	if (ns > (double)(INT64_C(1) << LATEST_SHIFT))
		ns = (double)(INT64_C(1) << LATEST_SHIFT);
	if (ns > (double)t->last_ns)
		t->last_ns = (int64_t)ns;
	return t->last_ns;
}

int64_t clock_ticks_per_ms(const struct trace *t)
{
	const struct clock_point *first = t->clock, *last = t->clock + t->clock_count - 1;
	double most = 1e12, ticks = 1e6;

	if (t->clock_count >= 2 && last->ns > first->ns)
		ticks *= (double)(last->tick - first->tick) / (double)(last->ns - first->ns);
	return (int64_t)(ticks < 1 ? 1 : ticks > most ? most : ticks);
}
