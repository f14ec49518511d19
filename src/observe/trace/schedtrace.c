/* SPDX-License-Identifier: MIT */
/*
 * GMP_DEBUG=schedtrace: sysmon writes the state of the scheduler to stderr every N ms, in the form
 * of Go's GODEBUG=schedtrace.
 *
 * Nothing is stopped, so the numbers of a report are read one after the other. docs/debugging.md
 * has the meaning of each field. The time is real, also under virtual time.
 *
 * Invariants
 *   SCHEDTRACE-1  sysmon does not wait for stderr. If stderr has no room for a line, or another
 *                 sink writes (SINK-2), the line and the rest of the report are dropped, and the
 *                 next SCHED line has their number.
 *   SCHEDTRACE-2  A line is one write of at most PAGE bytes, so a pipe does not mix it with other
 *                 output.
 *   -             A report takes bounded time: at most MS_MOST Ms are copied under sched.lock, and
 *                 at most SCAN_MOST g structs are read.
 */
#include "observe/trace/schedtrace.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/os.h"
#include "g.h"
#include "observe/dump/snapshot.h"
#include "runq.h"
#include "variant/variant.h"

enum {
	GS_MOST = 1000,    /* lines for Gs */
	MS_MOST = 1000,    /* lines for Ms; a copy of one takes about 0.1 us under sched.lock */
	SCAN_MOST = 65536, /* g structs: a few ms */
	TAIL = 64,         /* bytes that the end of a cut list needs */
};

/* Copy of an M. It may end while it is written, so its fields are copied under sched.lock. */
struct m_copy {
	int id, tid;
	const struct p *pp;            /* that it has; NULL: none */
	const struct g *curg, *locked; /* NULL: none */
	bool spinning, preempted, in_poller;
};

/* Used by sysmon alone, and between two runs. */
static struct {
	int64_t next;     /* when the report is due; 0: none was written in this run */
	uint64_t dropped; /* lines of this run */
	bool full;        /* a line of this report was dropped */
	bool torn;        /* the last write ended inside a line */
	struct os_sink to;
	size_t n;
	char text[PAGE];
	int ms, more_ms; /* entries of `m`; Ms that are not in it */
	struct m_copy m[MS_MOST];
} st;

/* --- writing --- */

/* Append to the line. What does not fit is cut off. */
static __attribute__((format(printf, 1, 2))) void add(const char *fmt, ...)
{
	size_t room = sizeof(st.text) - 1 - st.n; /* 1: the newline */
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(st.text + st.n, room, fmt, ap);

	va_end(ap);
	if (n > 0 && room > 0)
		st.n += min_of((size_t)n, room - 1);
}

/* " name=7"; " name=nil" for -1 */
static void add_number(const char *name, int64_t v)
{
	if (v < 0)
		add(" %s=nil", name);
	else
		add(" %s=%lld", name, (long long)v);
}

static void add_bool(const char *name, bool b)
{
	add(" %s=%s", name, b ? "true" : "false");
}

static void begin_line(void)
{
	st.n = 0;
	if (st.torn)
		add("\n");
}

/* SCHEDTRACE-1, SCHEDTRACE-2 */
static void end_line(void)
{
	st.text[st.n++] = '\n';
	int n = st.full ? -EAGAIN : os_sink_write(&st.to, st.text, st.n);

	if (n <= 0) {
		st.full = true;
		st.dropped++;
		return;
	}
	st.torn = (size_t)n < st.n;
	if (st.torn) {
		st.full = true;
		st.dropped++;
	}
}

/* --- Ms --- */

static void copy_m_locked(struct m_copy *c, struct m *m)
{
	struct p *pp = ld_rlx(&m->p);

	c->id = m->id;
	c->tid = ld_rlx(&m->tid);
	c->pp = pp && ld_rlx(&pp->m) == m ? pp : NULL;
	c->curg = ld_rlx(&m->curg);
	c->locked = m->bound ? ld_rlx(&m->lockedg) : NULL;
	c->spinning = ld_rlx(&m->spinning);
	c->preempted = ld_rlx(&m->taken) == P_TAKEN;
	c->in_poller = m->in_poller;
}

static void copy_ms(void)
{
	st.ms = st.more_ms = 0;
	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m && st.ms < MS_MOST; m = m->alllink)
		if (!m->dead)
			copy_m_locked(&st.m[st.ms++], m);
	st.more_ms = max_of(sched.nm - st.ms, 0);
	unlock(&sched.lock, LR_SCHED);
}

/* The id of the M that has a P, or runs a G, or is locked to one: two of the three are NULL. */
static int64_t find_m(const struct p *pp, const struct g *curg, const struct g *locked)
{
	for (int i = 0; i < st.ms; i++) {
		const struct m_copy *c = &st.m[i];

		if ((pp && c->pp == pp) || (curg && c->curg == curg) ||
		    (locked && c->locked == locked))
			return c->id;
	}
	return -1;
}

static int64_t id_of(const struct g *gp)
{
	return gp ? (int64_t)ld_rlx(&gp->id) : -1;
}

static void write_ms(void)
{
	for (int i = 0; i < st.ms; i++) {
		const struct m_copy *c = &st.m[i];

		begin_line();
		add("  M%d: tid=%d", c->id, c->tid);
		add_number("p", c->pp ? c->pp->id : -1);
		add_number("curg", id_of(c->curg));
		add_bool("spinning", c->spinning);
		add_bool("blocked", !c->pp && !c->curg);
		add_bool("inpoller", c->in_poller);
		add_bool("preempted", c->preempted);
		add_number("lockedg", id_of(c->locked));
		end_line();
	}
	if (st.more_ms) {
		begin_line();
		add("  ... and %d more Ms", st.more_ms);
		end_line();
	}
}

/* --- Ps --- */

static uint32_t status_of(const struct p *pp)
{
	return ld_rlx(&pp->status) & P_STATUS_MASK;
}

/* pp->gcache.n, which its owner changes by plain accesses: a G's start and end would be slower
 * otherwise. The word may be outdated. */
unsanitized static uint32_t free_gs(const struct p *pp)
{
	return ld_rlx(&pp->gcache.n);
}

static void write_ps(void)
{
	for (int i = 0, n = ld_acq(&sched.nallp); i < n; i++) { /* ORD(allp) */
		struct p *pp = sched.allp[i];
		uint32_t status = status_of(pp);

		if (status == P_RETIRED)
			continue;
		begin_line();
		add("  P%d: status=%s schedtick=%u", pp->id, snapshot_p_states[status],
		    ld_rlx(&pp->schedtick));
		add_number("m", find_m(pp, NULL, NULL));
		add(" runqsize=%u yielded=%u", runq_ready_len(pp), ring_len(pp, LANE_YIELD));
		add_number("runnext", id_of(ld_rlx(&pp->runnext)));
		add(" timerslen=%u gfreecnt=%u", ld_rlx(&pp->timers.n), free_gs(pp));
		end_line();
	}
}

/* "[0 3]": the Gs in the queues of each P, runnext included */
static void add_queues(void)
{
	const char *before = " [";

	for (int i = 0, n = ld_acq(&sched.nallp); i < n; i++) { /* ORD(allp) */
		struct p *pp = sched.allp[i];

		if (status_of(pp) == P_RETIRED)
			continue;
		if (st.n > sizeof(st.text) - TAIL) {
			add(" ...");
			break;
		}
		add("%s%u", before, runq_len(pp) + (ld_rlx(&pp->runnext) != NULL));
		before = " ";
	}
	add("]");
}

/* --- Gs --- */

/* "waiting(channel receive)" */
static void add_status(const struct g *gp, uint8_t status)
{
	uint32_t wait = ld_rlx(&gp->w.state) & WAITER_STATE_MASK;

	if (status == G_WAITING && wait == WAITER_IDLE)
		status = G_RUNNING; /* not parked yet */
	else if (status == G_WAITING && wait == WAITER_CLAIMED)
		status = G_RUNNABLE; /* woken */
	else if (status == G_BLOCKED && !variant_gs_switch())
		status = ld_rlx(&gp->awaits) ? G_WAITING : G_RUNNING;
	add(" status=%s", status == G_BLOCKED ? "blocked" : snapshot_states[status]);
	if (status == G_WAITING)
		add("(%s)", wait_kinds[ld_rlx(&gp->reason)].text);
}

/* Bytes that are not printable ASCII become '?'. */
static void add_name(const struct g *gp)
{
	char text[G_NAME_MAX];

	g_copy_name(gp, text);
	for (char *c = text; *c; c++)
		*c = *c >= ' ' && *c <= '~' && *c != '"' ? *c : '?';
	if (text[0])
		add(" name=\"%s\"", text);
}

/* Returns false if gp is free, or its g struct was reused meanwhile (SNAPSHOT-3): then there is no
 * line. */
static bool write_g(const struct g *gp)
{
	uint32_t life = ld_acq(&gp->generation); /* ORD(g.life) */
	uint8_t status = ld_acq(&gp->status);    /* ORD(g.status) */

	if (status == G_FREE)
		return false;
	begin_line();
	add("  G%llu:", (unsigned long long)ld_rlx(&gp->id));
	add_status(gp, status);
	add_number("m", status == G_RUNNING || status == G_BLOCKED ? find_m(NULL, gp, NULL) : -1);
	add_number("lockedm", find_m(NULL, NULL, gp));
	add_name(gp);
	fence_acq(); /* ORD(g.life) */
	if (ld_rlx(&gp->generation) != life)
		return false;
	end_line();
	return true;
}

/* Gs that have been made and have not ended. */
static uint64_t greens(void)
{
	uint64_t spawns = ld_rlx(&sched.total.external_spawns),
		 exits = ld_rlx(&sched.total.external_exits);

	for (int i = 0, n = ld_acq(&sched.nallp); i < n; i++) { /* ORD(allp) */
		spawns += ld_rlx(&sched.allp[i]->count.spawns);
		exits += ld_rlx(&sched.allp[i]->count.exits);
	}
	return spawns > exits ? spawns - exits : 0;
}

static void write_gs(void)
{
	uint64_t lines = 0, all = greens();
	uint32_t i = 0, made = g_made(), end = min_of(made, (uint32_t)SCAN_MOST);

	for (; i < end && lines < GS_MOST; i++)
		lines += write_g(g_at(i));
	uint64_t more = i == made ? unstarted_count() : all > lines ? all - lines : 0;

	if (!more)
		return;
	begin_line();
	add("  ... and about %llu more green threads", (unsigned long long)more);
	end_line();
}

/* --- a report --- */

static void write_summary(int64_t now)
{
	begin_line();
	add("SCHED %lldms: procs=%d idleprocs=%d", (long long)((now - sched.start_now) / MS),
	    ld_rlx(&sched.procs), ld_rlx(&sched.npidle));
	add(" threads=%d spinningthreads=%d", ld_rlx(&sched.nm) - ld_rlx(&sched.nresting),
	    ld_rlx(&sched.nmspinning));
	add(" idlethreads=%d runqueue=%u", ld_rlx(&sched.nmidle), ld_rlx(&sched.gqn));
	if (st.dropped)
		add(" dropped=%llu", (unsigned long long)st.dropped);
	add_queues();
	end_line();
}

void schedtrace_begin(void)
{
	st.next = 0;
	st.dropped = 0;
	st.torn = false;
}

int64_t schedtrace_report(int64_t now)
{
	int64_t every = (int64_t)sched.options.schedtrace * MS;

	if (now < st.next)
		return st.next;
	st.full = os_sink(&st.to, STDERR_FILENO) != 0; /* the program may replace stderr */
	write_summary(os_now());
	if (sched.options.scheddetail) {
		copy_ms();
		write_ps();
		write_ms();
		write_gs();
	}
	st.next = st.next ? st.next + every : now + every;
	if (st.next <= now) /* sysmon was not given a CPU */
		st.next = now + every;
	return st.next;
}
