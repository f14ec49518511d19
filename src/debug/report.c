/* SPDX-License-Identifier: MIT */
/* What does the runtime say when it dies: which green thread was it, and, at a deadlock, who waits
 * for whom? */
#include "debug/report.h"

#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "debug/dump.h"
#include "allgs.h"
#include "wake.h"

enum { SECOND = 1000000000 };

size_t report_self(char *buf, size_t n)
{
	struct m *m = getm() ? getm() : gmp__blockedm();
	struct line l = { .n = 0 };

	if (!m || !m->curg)
		return 0;
	line_str_sig(&l, " in ");
	line_green_sig(&l, m->curg->id, g_name(m->curg), (uintptr_t)m->curg->fn);
	n = min_of(n, l.n);
	__builtin_memcpy(buf, l.text, n);
	return n;
}

/* --- deadlock --- */

/* What a cycle consists of. */
static const char *kind_of(const struct g *start)
{
	const struct g *gp = start;

	do {
		if (gp->reason != WAIT_MUTEX)
			return "waits";
	} while ((gp = dump_awaited(gp)) != start);
	return "mutexes";
}

static void print_cycle(const struct g *start)
{
	struct line l = { .n = 0 };
	const struct g *gp = start;

	line_str_sig(&l, "gmp: cycle of ");
	line_str_sig(&l, kind_of(start));
	line_str_sig(&l, ": ");
	do {
		line_dec_sig(&l, gp->id);
		line_str_sig(&l, " -> ");
		if (l.n > sizeof(l.text) / 2)
			line_write_sig(&l, STDERR_FILENO);
		gp = dump_awaited(gp);
	} while (gp != start);
	line_dec_sig(&l, start->id);
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* Each waits for one other at most, so from each a single way leads on.  Every step is marked with
 * the way that took it first; a way that meets itself has found a cycle. */
static void print_cycles(void)
{
	uint32_t made = g_made();
	uint32_t *way = os_reserve(made * sizeof(*way)); /* number of the way + 1 */

	for (uint32_t i = 0; way && i < made; i++) {
		struct g *gp = g_at(i);

		while (gp && ld_rlx(&gp->status) == G_WAITING && !way[g_index(gp)]) {
			way[g_index(gp)] = i + 1;
			gp = dump_awaited(gp);
		}
		if (gp && way[g_index(gp)] == i + 1)
			print_cycle(gp);
	}
}

static void print_deadlock(void)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, "gmp: fatal: all green threads are asleep - deadlock!\n");
	line_write_sig(&l, STDERR_FILENO);
	dump_dying();
	print_cycles();
}

/* Threads of the process that may still make something happen: all but the Ms (the caller of
 * gmp_run among them), the watcher, and a sanitizer's own. */
static bool others_may_wake(void)
{
	int ours = ld_rlx(&sched.nm) + 1;

#ifdef SAN_THREAD
	ours++;
#endif
	return os_thread_count() > ours;
}

int64_t report_stall(void)
{
	/* Count first, look again second: a thread that made something ready and ended before it
	 * was counted has left it where the second look finds it. */
	if (others_may_wake())
		return SECOND;
	if (!sched_stalled_locked())
		return 0;
	print_deadlock();
	_exit(2);
}
