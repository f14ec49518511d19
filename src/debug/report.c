/* SPDX-License-Identifier: MIT */
/* What does the runtime say when it dies: which green thread was it, and, at a deadlock, who waits
 * for whom? */
#include "debug/report.h"

#include <stdio.h>
#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "proc.h"
#include "sched.h"
#include "sync/sync.h"

enum { SECOND = 1000000000, LISTED_MOST = 1000 };

static const char *const reasons[] = {
#define WAITREASON(name, text, external) [name] = text,
#include "waitreason.def"
#undef WAITREASON
};

static const char *const states[] = {
#define GSTATUS(name, text, edges, owner) [name] = text,
#include "gstatus.def"
#undef GSTATUS
};

static void add_green(struct line *l, const struct g *gp)
{
	line_green_sig(l, gp->id, g_name(gp), (uintptr_t)gp->fn);
}

size_t report_self(char *buf, size_t n)
{
	struct m *m = getm();
	struct line l = { .n = 0 };

	if (!m || !m->curg)
		return 0;
	line_str_sig(&l, " in ");
	add_green(&l, m->curg);
	n = min_of(n, l.n);
	__builtin_memcpy(buf, l.text, n);
	return n;
}

/* --- deadlock --- */

/* Who holds the mutex that gp waits for; NULL if it waits for something else. */
static struct g *waits_for(const struct g *gp)
{
	if (ld_rlx(&gp->status) != G_WAITING || gp->reason != WAIT_MUTEX)
		return NULL;
	return gmp__token_g(ld_rlx(&((const gmp_mutex *)gp->sudog.key)->owner));
}

static void print_green(const struct g *gp)
{
	struct line l = { .n = 0 };
	const struct g *owner = waits_for(gp);
	uint8_t status = ld_rlx(&gp->status);

	line_str_sig(&l, "  ");
	add_green(&l, gp);
	line_str_sig(&l, ": ");
	line_str_sig(&l, status == G_WAITING ? reasons[gp->reason] : states[status]);
	if (status == G_WAITING && gp->sudog.queued) {
		line_str_sig(&l, " ");
		line_hex_sig(&l, (uintptr_t)gp->sudog.key);
	}
	if (owner) {
		line_str_sig(&l, ", held by green thread ");
		line_dec_sig(&l, owner->id);
	}
	if (gp->made_at) {
		line_str_sig(&l, ", made at ");
		line_sym_sig(&l, gp->made_at - 1);
	}
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* Follow the holders from gp; a cycle if they lead back to it, and it has the least id of them. */
static bool print_cycle(const struct g *start)
{
	struct line l = { .n = 0 };
	const struct g *gp = start;
	uint32_t steps = 0;

	do {
		gp = waits_for(gp);
		if (!gp || gp->id < start->id || ++steps > g_made())
			return false;
	} while (gp != start);
	line_str_sig(&l, "gmp: cycle of mutexes: ");
	do {
		line_dec_sig(&l, gp->id);
		line_str_sig(&l, " -> ");
		gp = waits_for(gp);
	} while (gp != start && l.n < sizeof(l.text) - 64);
	line_dec_sig(&l, start->id);
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
	return true;
}

static void print_deadlock(void)
{
	struct line l = { .n = 0 };
	uint32_t listed = 0, alive = 0;

	line_str_sig(&l, "gmp: fatal: all green threads are asleep - deadlock!\n");
	line_write_sig(&l, STDERR_FILENO);
	for (uint32_t i = 0; i < g_made(); i++) {
		struct g *gp = g_at(i);

		if (ld_rlx(&gp->status) == G_FREE || ld_rlx(&gp->status) == G_DEAD)
			continue;
		if (alive++ < LISTED_MOST) {
			print_green(gp);
			listed++;
		}
	}
	if (alive > listed) {
		line_str_sig(&l, "  ... and ");
		line_dec_sig(&l, alive - listed);
		line_str_sig(&l, " more\n");
		line_write_sig(&l, STDERR_FILENO);
	}
	for (uint32_t i = 0; i < g_made(); i++)
		print_cycle(g_at(i));
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
