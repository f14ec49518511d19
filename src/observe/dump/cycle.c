/* SPDX-License-Identifier: MIT */
/*
 * Deadlock cycles: finds green threads that wait for each other, in the graph of waits.
 *
 * Closed waits (mutex, write-locked rwmutex, once, join): exactly one known G can end the wait
 * (snapshot_awaited), so the graph has an edge. Open waits (channel, wait group, semaphore,
 * condition, barrier, select, read-locked rwmutex): any G can end the wait. So
 *   - a cycle of closed waits is certain at any time;
 *   - a cycle through an open wait is certain only at a deadlock, and only if all other Gs wait,
 *   directly
 *     or through others, for the G in the open wait: then each G that could end that wait depends
 *     on it. With two open waits, one could end the other.
 * Former uses of an object by a G prove nothing and are ignored.
 *
 * While other Gs run (cycles_watch, on sysmon)
 *   1. For each G: hold it, note the G that it waits for, release it. A wait with a deadline has no
 *      edge, since it ends by itself.
 *   2. Follow the noted edges. A cycle of them is a candidate only, since they were noted at
 *   different
 *      times.
 *   3. Hold all Gs of the candidate at the same time, and re-check the edges. Now the cycle is
 *   certain. 4. Release them, print and remember the cycle.
 *
 * Invariants
 *   CYCLE-1  Only sysmon holds more than one waiter, and it never waits for a hold: if a G of a
 *            candidate cannot be held, sysmon releases all and retries a second later.
 *   Under the holds no lock is taken and no system call is made (SNAPSHOT-1).
 */
#include "observe/dump/cycle.h"

#include <unistd.h>

#include "base/os.h"
#include "g.h"
#include "observe/dump/dump.h"
#include "observe/dump/snapshot.h"
#include "waiter.h"

enum {
	LENGTH_MOST = 1024, /* longer cycles are reported at a deadlock only */
	SHOWN_MOST = 16,    /* members whose backtraces are shown while others run */
	EDGES_MOST = 8,
	REPORTED_MOST = 64, /* cycles that are reported while others run */
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
	} while ((gp = snapshot_awaited(gp)) != start);
	return "mutexes";
}

static void print_number(struct line *l, uint64_t id, const char *after)
{
	line_add_sig(l, "%lu%s", id, after);
	if (l->n > sizeof(l->text) / 2)
		line_write_sig(l, STDERR_FILENO);
}

/* --- at a deadlock --- */

static void print_cycle(const struct g *start)
{
	struct line l = { .n = 0 };
	const struct g *gp = start;

	line_add_sig(&l, "gmp: cycle of %s: ", kind_of(start));
	do {
		print_number(&l, gp->id, " -> ");
		gp = snapshot_awaited(gp);
	} while (gp != start);
	print_number(&l, start->id, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

static bool is_waiting(const struct g *gp)
{
	return ld_rlx(&gp->status) == G_WAITING;
}

/* last: the only G with an open wait; there is no cycle of closed waits. */
static void print_cycle_through(struct g *last, uint32_t made)
{
	static struct snapshot v;
	struct line l = { .n = 0 };
	unsigned edges = 0;
	uint64_t more = 0;

	if (!snapshot_green(&v, last, NULL, 0, NULL))
		return;
	line_add_sig(&l, "gmp: cycle through %s", v.what.text);
	line_write_sig(&l, STDERR_FILENO);
	line_add_sig(&l, ": %lu -> any other green thread, and all of them wait for ", v.id);
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
		print_number(&l, snapshot_awaited(gp)->id, "");
	}
	if (more)
		line_add_sig(&l, ", and %lu more", more);
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
}

/* Return the G whose wait has no edge, if it is open and all other waits have an edge to a waiting
 * G. *waiting: the number of waiting Gs. */
static struct g *only_open_end(uint32_t made, uint32_t *waiting)
{
	struct g *open = NULL;

	*waiting = 0;
	for (uint32_t i = 0; i < made; i++) {
		struct g *gp = g_at(i), *to;

		if (!is_waiting(gp))
			continue;
		++*waiting;
		to = snapshot_awaited(gp);
		if (to && !is_waiting(to))
			return NULL; /* a holder that has ended */
		if (!to && open)
			return NULL;
		if (!to)
			open = gp;
	}
	return open && g_wait_kind(open)->end & WAITEND_ANY ? open : NULL;
}

/* Follow the edges from G number i, at most one per G, and mark each G with the number of the walk
 * that reached it first. A walk that reaches its own mark has found a cycle. Returns a G of that
 * cycle, or NULL. */
static struct g *cycle_follow(uint32_t i, uint32_t *way, struct g *(*next)(const struct g *gp))
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
	uint32_t *way = os_reserve(made * sizeof(*way)); /* by g_index: number of the walk + 1 */

	for (uint32_t i = 0; way && i < made; i++) {
		struct g *gp = cycle_follow(i, way, snapshot_awaited);

		if (!gp)
			continue;
		cycles++;
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
	return g_wait_kind(gp)->end & WAITEND_KNOWN && is_waiting(gp);
}

/* Return the G that gp, which is held, waits for without a deadline, or NULL. */
static struct g *awaited_for_good(const struct g *gp)
{
	return gp->resume & RESUME_TIMED ? NULL : snapshot_awaited(gp);
}

/* Step 1. Gs that were made after the search began have no notes: the next search finds their
 * cycles. */
static void note_awaited(uint32_t i, uint32_t made)
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

/* Steps 3 and 4, with the holds. Returns false if the candidate is no cycle, or a G cannot be held.
 */
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
		/* a sum, so that the hash does not depend on the start */
		c->hash += (gp->id ^ gp->id >> 32) * 0x9e3779b97f4a7c15u;
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

/* Returns false if the cycle was reported before, or REPORTED_MOST have been. */
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

	line_add_sig(&l, "gmp: cycle of %s: ", c->mutexes ? "mutexes" : "waits");
	for (unsigned i = 0; i < c->n; i++)
		print_number(&l, c->id[i], " -> ");
	print_number(&l, c->id[0], "; these green threads wait for each other while others run\n");
	line_write_sig(&l, STDERR_FILENO);
	dump_some(c->g, min_of(c->n, (unsigned)SHOWN_MOST));
}

/* Steps 1 to 4. Returns true if a candidate could not be held. */
static bool search_cycles(uint32_t made, uint32_t *way)
{
	static struct cycle c;
	bool again = false;

	for (uint32_t i = 0; i < made; i++)
		note_awaited(i, made);
	for (uint32_t i = 0; i < made; i++) {
		struct g *gp = notes[i] ? cycle_follow(i, way, noted) : NULL;

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
		return true; /* sysmon must not wait for room */
	notes = os_reserve(bytes);
	if (!notes)
		return true;
	bool again = search_cycles(made, notes + made);

	os_release(notes, bytes);
	return again;
}

void cycles_reset(void)
{
	reported.n = 0;
}
