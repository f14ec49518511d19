/* SPDX-License-Identifier: MIT */
/*
 * Finds cycles of green threads that wait for each other.
 *
 * What can be known. A wait for a mutex, a write-locked rwmutex, a once or a join names the one green thread
 * that can end it (view_awaited). A wait at a channel, a wait group, a semaphore, a condition, a barrier, a
 * select or a read-locked rwmutex can be ended by any other green thread. So
 *   - a cycle of waits of the first kind is known at any time;
 *   - a cycle through a wait of the second kind is known only at a deadlock, and only if all other green
 *     threads wait, directly or through others, for the waiter there: then each that could end the
 *     wait is behind it. With two such waits either could end the other.
 * Nothing is concluded from which green thread has used an object before.
 *
 * While others run (cycles_watch, by sysmon)
 *   1 note for each G, held for a moment, which it waits for. A wait with a deadline counts as none: it
 *     ends by itself
 *   2 follow the notes: a way that meets itself is a candidate, since the notes are of different moments
 *   3 hold all Gs of the candidate at a time, and look again: now it is a fact
 *   4 release them, print, remember the cycle
 *
 * Invariants
 *  CYCLE-1  sysmon is the only thread that holds more than one waiter, and it never waits for one: if a G
 *           of a candidate cannot be held, it releases all and tries again in a second.
 *  CYCLE-2  Under the holds there is neither a lock nor a system call (VIEW-1).
 */
#include "debug/cycle.h"

#include <unistd.h>

#include "base/os.h"
#include "debug/dump.h"
#include "debug/view.h"
#include "g.h"

enum {
	LENGTH_MOST = 1024, /* longer ones are reported at a deadlock only */
	SHOWN_MOST = 16,    /* members whose calls are shown while others run */
	EDGES_MOST = 8,
	REPORTED_MOST = 64, /* cycles in a run while others run */
};

static struct {
	uint64_t hash[REPORTED_MOST];
	unsigned n;
} reported;

static const char *kind_of(const struct g *start)
{
	const struct g *gp = start;

	do {
		if (ld_rlx(&gp->reason) != WAIT_MUTEX)
			return "waits";
	} while ((gp = view_awaited(gp)) != start);
	return "mutexes";
}

static void print_number(struct line *l, uint64_t id, const char *after)
{
	line_dec_sig(l, id);
	line_str_sig(l, after);
	if (l->n > sizeof(l->text) / 2)
		line_write_sig(l, STDERR_FILENO);
}

/* --- at a deadlock --- */

static void print_cycle(const struct g *start)
{
	struct line l = { .n = 0 };
	const struct g *gp = start;

	line_str_sig(&l, "gmp: cycle of ");
	line_str_sig(&l, kind_of(start));
	line_str_sig(&l, ": ");
	do {
		print_number(&l, gp->id, " -> ");
		gp = view_awaited(gp);
	} while (gp != start);
	print_number(&l, start->id, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* Any other green thread may end it. */
static bool any_may_end(unsigned reason)
{
	switch (reason) {
	case WAIT_RLOCK:
	case WAIT_WLOCK:
	case WAIT_WG:
	case WAIT_COND:
	case WAIT_SEM:
	case WAIT_BARRIER:
	case WAIT_SEND:
	case WAIT_RECV:
	case WAIT_SELECT: return true;
	default: return false;
	}
}

static bool is_waiting(const struct g *gp)
{
	return ld_rlx(&gp->status) == G_WAITING;
}

/* All others wait for this one; there are no cycles of the first kind. */
static void print_cycle_through(struct g *last, uint32_t made)
{
	static struct view v;
	struct line l = { .n = 0 };
	unsigned edges = 0;
	uint64_t more = 0;

	if (!view_green(&v, last, NULL, 0))
		return;
	line_str_sig(&l, "gmp: cycle through ");
	line_str_sig(&l, v.what.text);
	line_write_sig(&l, STDERR_FILENO);
	line_str_sig(&l, ": ");
	line_dec_sig(&l, v.id);
	line_str_sig(&l, " -> any other green thread, and all of them wait for ");
	print_number(&l, v.id, ": ");
	for (uint32_t i = 0; i < made; i++) {
		const struct g *gp = g_at(i);

		if (!is_waiting(gp) || gp == last)
			continue;
		if (edges == EDGES_MOST) {
			more++;
			continue;
		}
		line_str_sig(&l, edges++ ? ", " : "");
		print_number(&l, gp->id, " -> ");
		print_number(&l, view_awaited(gp)->id, "");
	}
	if (more) {
		line_str_sig(&l, ", and ");
		print_number(&l, more, " more");
	}
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* The one whose wait has no known end, if all others have one; *waiting: how many wait. */
static struct g *only_open_end(uint32_t made, uint32_t *waiting)
{
	struct g *open = NULL;

	*waiting = 0;
	for (uint32_t i = 0; i < made; i++) {
		struct g *gp = g_at(i), *to;

		if (!is_waiting(gp))
			continue;
		++*waiting;
		to = view_awaited(gp);
		if (to && !is_waiting(to))
			return NULL; /* a holder that has ended */
		if (!to && open)
			return NULL;
		if (!to)
			open = gp;
	}
	return open && any_may_end(ld_rlx(&open->reason)) ? open : NULL;
}

/* Each waits for one other at most, so from each a single way leads on. Every step is marked with the way
 * that took it first; a way that meets itself has found a cycle. Returns a G of the cycle that begins
 * from i, or NULL. */
static struct g *follow(uint32_t i, uint32_t *way, struct g *(*next)(const struct g *gp))
{
	struct g *gp = g_at(i);

	while (gp && is_waiting(gp) && !way[g_index(gp)]) {
		way[g_index(gp)] = i + 1;
		gp = next(gp);
	}
	return gp && is_waiting(gp) && way[g_index(gp)] == i + 1 ? gp : NULL;
}

void cycles_print(void)
{
	uint32_t made = g_made(), waiting, cycles = 0;
	uint32_t *way = os_reserve(made * sizeof(*way)); /* number of the way + 1 */

	for (uint32_t i = 0; way && i < made; i++) {
		struct g *gp = follow(i, way, view_awaited);

		cycles += gp != NULL;
		if (gp)
			print_cycle(gp);
	}
	struct g *last = cycles ? NULL : only_open_end(made, &waiting);

	if (last && waiting > 1)
		print_cycle_through(last, made);
}

/* --- while others run --- */

/* Step 1's notes: index + 1 of the G that each waits for. */
static uint32_t *notes;

static struct g *noted(const struct g *gp)
{
	uint32_t to = notes[g_index(gp)];

	return to ? g_at(to - 1) : NULL;
}

static bool names_one(const struct g *gp)
{
	switch (ld_rlx(&gp->reason)) {
	case WAIT_MUTEX:
	case WAIT_RLOCK:
	case WAIT_WLOCK:
	case WAIT_ONCE:
	case WAIT_JOIN: return is_waiting(gp);
	default: return false;
	}
}

/* gp is held. */
static struct g *awaited_for_good(const struct g *gp)
{
	return gp->resume & RESUME_TIMED ? NULL : view_awaited(gp);
}

/* A G that was made after the search had counted them has no note: the next search sees it. */
static void note_one(uint32_t i, uint32_t made)
{
	struct g *gp = g_at(i), *to;

	if (!names_one(gp) || waiter_hold(&gp->w) != WAITER_ARMED)
		return;
	to = awaited_for_good(gp);
	notes[i] = to && g_index(to) < made ? g_index(to) + 1 : 0;
	waiter_release(&gp->w);
}

struct cycle {
	unsigned n;
	uint64_t hash;
	bool mutexes;
	struct g *g[LENGTH_MOST];
	uint64_t id[LENGTH_MOST];
};

/* Steps 3 and 4. False: it is none, or it cannot be known now. */
static bool hold_cycle(struct cycle *c, struct g *start)
{
	struct g *gp = start;
	bool whole = false;

	c->n = 0;
	c->hash = 0;
	c->mutexes = true;
	while (c->n < LENGTH_MOST && waiter_hold(&gp->w) == WAITER_ARMED) {
		c->g[c->n] = gp;
		c->id[c->n++] = ld_rlx(&gp->id);
		c->hash += (gp->id ^ gp->id >> 32) * 0x9e3779b97f4a7c15u; /* wherever it starts */
		c->mutexes = c->mutexes && ld_rlx(&gp->reason) == WAIT_MUTEX;
		gp = awaited_for_good(gp);
		whole = gp == start;
		if (!gp || whole)
			break;
	}
	for (unsigned i = 0; i < c->n; i++)
		waiter_release(&c->g[i]->w);
	return whole;
}

/* False: it has been. */
static bool report_once(uint64_t hash)
{
	for (unsigned i = 0; i < reported.n; i++)
		if (reported.hash[i] == hash)
			return false;
	if (reported.n == REPORTED_MOST)
		return false;
	reported.hash[reported.n++] = hash;
	return true;
}

static void print_live(const struct cycle *c)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, "gmp: cycle of ");
	line_str_sig(&l, c->mutexes ? "mutexes: " : "waits: ");
	for (unsigned i = 0; i < c->n; i++)
		print_number(&l, c->id[i], " -> ");
	print_number(&l, c->id[0], "; these green threads wait for each other while others run\n");
	line_write_sig(&l, STDERR_FILENO);
	dump_some(c->g, min_of(c->n, (unsigned)SHOWN_MOST));
}

static bool watch(uint32_t made, uint32_t *way)
{
	static struct cycle c;
	bool again = false;

	for (uint32_t i = 0; i < made; i++)
		note_one(i, made);
	for (uint32_t i = 0; i < made; i++) {
		struct g *gp = notes[i] ? follow(i, way, noted) : NULL;

		if (!gp)
			continue;
		if (!hold_cycle(&c, gp))
			again |= c.n < LENGTH_MOST;
		else if (report_once(c.hash))
			print_live(&c);
	}
	return again;
}

bool cycles_watch(void)
{
	uint32_t made = g_made();
	size_t bytes = round_up((size_t)made * 2 * sizeof(*notes), PAGE);
	struct os_sink to;

	if (os_sink(&to, STDERR_FILENO) || !os_sink_ready(&to, 0))
		return true; /* sysmon does not wait for room */
	notes = os_reserve(bytes);
	if (!notes)
		return true;
	bool again = watch(made, notes + made);

	os_release(notes, bytes);
	return again;
}

void cycles_reset(void)
{
	reported.n = 0;
}
