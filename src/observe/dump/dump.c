/* SPDX-License-Identifier: MIT */
/*
 * gmp_dump: writes state, wait and backtrace of each green thread.
 *
 * First the dump asks the OS threads that compute where they are (running.h). Then it walks the
 * arena of g structs once and takes a snapshot (snapshot.h) of each green thread that is alive.
 * Nothing is stopped, so the snapshots are of different times. Green threads that are alike form
 * groups (dump_group.h), which are written at the end. gmp_dump_all writes each green thread at
 * once, and so does gmp_dump with a green thread that fits in no group. In that form, a backtrace
 * that was written SAME_MOST times is replaced by a reference.
 *
 * Invariants (SNAPSHOT-1 to SNAPSHOT-3: snapshot.h)
 *   DUMP-1  No lock is held and no P is kept while the output waits. If the file descriptor has no
 *           room, a green caller sleeps. Between two snapshots it yields if sysmon asks for it.
 *   DUMP-2  Each dump has its own memory, which is in a list. If shutdown kills the caller during a
 *           dump, dump_fini frees it.
 */
#include "observe/dump/dump.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/dlist.h"
#include "base/os.h"
#include "base/symtab.h"
#include "enter.h"
#include "g.h"
#include "machine/calltarget.h"
#include "observe/dump/dump_group.h"
#include "proc.h"

enum {
	SAME_MOST = 100,     /* times that a backtrace is written out */
	KNOWN_TRACES = 1024, /* different backtraces that are recognized */
	PROBES = 16,
};

struct known_trace {
	uint64_t hash; /* 0: free */
	uint64_t id;   /* of the first green thread with this backtrace */
	uint32_t n;    /* green threads with it so far */
};

struct dump {
	struct dump *next, **at;
	struct os_sink to;
	dump_fn fn; /* where to write instead; NULL: to `to` */
	void *fn_arg;
	int err;                     /* of a write; the remaining output is dropped */
	bool impatient;              /* waits for room at most one second */
	struct g *self;              /* the caller; NULL: an external thread, or g0 */
	uintptr_t caller;            /* where gmp_dump was called */
	struct dump_groups *groups;  /* NULL: a dump of all, or no memory */
	struct locations *locations; /* of running Gs; NULL: not known */
	size_t n;
	char out[PAGE];
	struct line line;
	struct snapshot view;
	struct dump_group one;
	struct known_trace known[KNOWN_TRACES];
	struct symcache names;
};

/* --- writing --- */

/* Wait a moment. Returns 0, or a negative errno if the dump must end. */
static int wait_a_moment(void)
{
	if (getm())
		return gmp_sleep(MS);
	if (ld_seq(&sched.state) != RUN_ON) /* ORD(external) */
		return -ESRCH;
	os_nap(MS);
	return 0;
}

/* Wait until the output has room. Returns 0 or -errno. */
static int await_room(struct dump *d)
{
	int err = 0;

	if (d->impatient)
		return os_sink_ready(&d->to, S) ? 0 : -EAGAIN;
	while (!err && !os_sink_ready(&d->to, getm() ? 0 : 50 * MS))
		err = wait_a_moment();
	return err;
}

static void flush(struct dump *d)
{
	size_t at = 0;

	if (d->fn && !d->err && d->n) {
		d->err = d->fn(d->fn_arg, d->out, d->n);
		at = d->n;
	}
	while (at < d->n && !d->err) {
		int n = os_sink_write(&d->to, d->out + at, d->n - at);

		if (n > 0)
			at += (size_t)n;
		else if (n == 0)
			d->err = wait_a_moment();
		else
			d->err = n == -EAGAIN ? await_room(d) : n;
	}
	d->n = 0;
}

/* Write d->line, through the buffer. d->line is empty afterwards. */
static void put_line(struct dump *d)
{
	struct line *l = &d->line;

	if (d->n + l->n > sizeof(d->out))
		flush(d);
	__builtin_memcpy(d->out + d->n, l->text, l->n);
	d->n += l->n;
	l->n = 0;
}

/* --- backtraces --- */

/* Return the id of the first green thread with this backtrace, if it was written SAME_MOST times;
 * otherwise 0. */
static uint64_t seen_before(struct dump *d, const struct trace *t, uint64_t id)
{
	uint64_t hash = dump_group_hash_trace(t);

	for (unsigned i = 0; i < PROBES; i++) {
		struct known_trace *s = &d->known[(hash + i) % KNOWN_TRACES];

		if (s->hash == 0)
			*s = (struct known_trace){ .hash = hash, .id = id };
		if (s->hash == hash)
			return s->n++ < SAME_MOST ? 0 : s->id;
	}
	return 0;
}

/* Return whether pc is in the function fn that begins at `start`, or in a part of it that the
 * compiler moved elsewhere (name.cold). */
static bool is_frame_of(struct dump *d, uintptr_t pc, const struct symbol *fn, uintptr_t start)
{
	size_t n = strlen(fn->name);
	const struct symbol *s;

	if (!symcache_find_sig(&d->names, pc, &s) || !s->exact)
		return true; /* not known: do not report a jump */
	return pc - s->offset == start || (strncmp(s->name, fn->name, n) == 0 && s->name[n] == '.');
}

/* Return the function that frame i called, if frame i - 1 is of another function: the called
 * function left by a jump and has no frame. Otherwise 0. The innermost frame of a parked G called
 * gmp__mcall, or a function that jumped to it. */
static uintptr_t jumped_from(struct dump *d, const struct snapshot *v, int i)
{
	const struct symbol *s;
	struct symbol fn;

	if ((i == 0 && v->state) || v->trace.in_handler)
		return 0;
	uintptr_t target = call_target(v->trace.pc[i] + 1);

	if (!target || target == (uintptr_t)gmp__mcall ||
	    !symcache_find_sig(&d->names, target, &s) || !s->exact || s->offset != 0)
		return 0;
	fn = *s; /* the next lookup may overwrite *s */
	return i > 0 && is_frame_of(d, v->trace.pc[i - 1], &fn, target) ? 0 : target;
}

static void write_calls(struct dump *d, const struct snapshot *v)
{
	struct line *l = &d->line;
	int n = 0, i = 0;

	for (; i < v->trace.n && n < TRACE_MOST; i++) {
		uintptr_t jumped = jumped_from(d, v, i);

		if (jumped) {
			line_frame_sig(l, n++, jumped);
			l->n -= l->text[l->n - 1] == '\n';
			line_str_sig(l, ", left by a jump\n");
			put_line(d);
		}
		if (n < TRACE_MOST) {
			line_frame_sig(l, n++, v->trace.pc[i]);
			put_line(d);
		}
	}
	if (v->trace.more || i < v->trace.n) {
		line_str_sig(l, "    ...\n");
		put_line(d);
	}
}

/* --- one green thread, one group --- */

static void add_hundredths(struct line *l, uint64_t hundredths)
{
	line_add_sig(l, "%lu.%lu%lu", hundredths / 100, hundredths / 10 % 10, hundredths % 10);
}

/* "1.20 s", "1.20 to 3.50 s" */
static void add_durations(struct line *l, int64_t least, int64_t most)
{
	uint64_t a = (uint64_t)max_of(least, 0) / (S / 100);
	uint64_t b = (uint64_t)max_of(most, 0) / (S / 100);

	add_hundredths(l, a);
	if (a != b) {
		line_str_sig(l, " to ");
		add_hundredths(l, b);
	}
	line_str_sig(l, " s");
}

static int64_t age(uint32_t born, int64_t now)
{
	return (int64_t)(uint32_t)(g_born_at(now) - born) << BORN_SHIFT;
}

/* ", waiting for 1.20 s: channel receive 0x55d2; made at app+0x41, 1.30 s ago"
 * ", running without a P for 1.20 s, in read() of fd 5 (pipe:[12]); made at ..."
 * ", running, in compute+0x40; made at ..." */
static void add_doing(struct line *l, const struct dump_group *g)
{
	const struct snapshot *v = &g->v;
	int64_t now = os_now();

	line_add_sig(l, ", %s", v->state ? v->state : "waiting");
	if (v->since) {
		line_str_sig(l, " for ");
		add_durations(l, now - g->since_most, now - g->since_least);
	}
	if (v->what.n)
		line_add_sig(l, "%s%s%s", v->state ? ", " : ": ", v->what.text,
			     g->same_what ? "" : " and others");
	if (v->has_cpu) {
		line_str_sig(l, "; CPU time ");
		add_durations(l, g->cpu_least, g->cpu_most);
	}
	line_str_sig(l, v->made_at ? "; made at " : "; made ");
	if (v->made_at) {
		line_sym_sig(l, v->made_at - 1);
		line_str_sig(l, ", ");
	}
	add_durations(l, age(g->born_most, now), age(g->born_least, now));
	line_str_sig(l, " ago");
}

static void dump_one(struct dump *d, const struct dump_group *g)
{
	const struct snapshot *v = &g->v;
	struct line *l = &d->line;
	uint64_t like = v->trace.n ? seen_before(d, &v->trace, v->id) : 0;

	line_green_sig(l, v->id, v->name, (uintptr_t)v->fn);
	add_doing(l, g);
	if (like)
		line_add_sig(l, "; backtrace as green thread %lu", like);
	line_str_sig(l, "\n");
	put_line(d);
	if (!like)
		write_calls(d, v);
}

static void dump_group(struct dump *d, const struct dump_group *g)
{
	struct line *l = &d->line;

	line_add_sig(l, "%lu \u00d7 green thread (entry ", g->n);
	line_sym_sig(l, (uintptr_t)g->v.fn);
	line_str_sig(l, ")");
	add_doing(l, g);
	line_str_sig(l, "\n");
	put_line(d);
	for (unsigned from = 0; from < g->members;) {
		line_str_sig(l, "    ");
		from += dump_group_members_sig(g, from, l);
		line_str_sig(l, "\n");
		put_line(d);
	}
	write_calls(d, &g->v);
}

/* --- all green threads --- */

static void write_head(struct dump *d)
{
	struct line *l = &d->line;
	uint32_t in[G_DEAD + 1] = { 0 }, made = g_made(), unlisted = unstarted_count();
	const char *before = " green threads: ";

	for (uint32_t i = 0; i < made; i++)
		in[ld_rlx(&g_at(i)->status)]++;
	line_add_sig(l, "%u", made - in[G_FREE] - in[G_DEAD]);
	for (unsigned s = 0; s < countof(in); s++) {
		if (s == G_FREE || s == G_DEAD)
			continue;
		line_add_sig(l, "%s%u %s", before, in[s], snapshot_states[s]);
		before = ", ";
	}
	line_add_sig(l, "; %u ended and not joined", in[G_DEAD]);
	if (unlisted)
		line_add_sig(l, "; about %u more, not begun, are not listed", unlisted);
	line_str_sig(l, "\n");
	put_line(d);
}

/* Snapshot each green thread: add it to a group, or write it. */
static void dump_each(struct dump *d)
{
	for (uint32_t i = 0, made = g_made(); i < made && !d->err; i++) {
		if (snapshot_green(&d->view, g_at(i), d->self, d->caller, d->locations) &&
		    !(d->groups && dump_group_add(d->groups, &d->view))) {
			dump_group_begin(&d->one, &d->view, 0);
			dump_one(d, &d->one);
		}
		if (d->self)
			gmp_checkpoint(); /* DUMP-1 */
	}
}

static void dump_groups(struct dump *d)
{
	for (uint32_t i = 0; d->groups && i < d->groups->n && !d->err; i++) {
		const struct dump_group *g = &d->groups->of[i];

		if (g->n == 1)
			dump_one(d, g);
		else
			dump_group(d, g);
		if (d->self)
			gmp_checkpoint(); /* DUMP-1 */
	}
}

static void dump_all(struct dump *d)
{
	d->line.names = d->view.what.names = &d->names;
	dump_each(d);
	dump_groups(d);
	flush(d);
}

/* Use groups, except with GMP_DEBUG=dumpall or without memory. */
static void want_groups(struct dump *d)
{
	if (!(sched.options.debug & DEBUG_dumpall))
		d->groups = os_reserve(sizeof(*d->groups));
}

void dump_dying(void)
{
	static struct dump d;

	d.to = (struct os_sink){ STDERR_FILENO, SINK_PLAIN };
	d.impatient = true;
	want_groups(&d);
	dump_all(&d);
}

/* --- running dumps --- */

static struct {
	struct lock lock;
	struct dump *first;
} under_way;

static struct dump *begin_dump(void)
{
	struct dump *d = os_reserve(sizeof(*d));

	if (!d)
		return NULL;
	lock(&under_way.lock, LR_DUMP);
	dlist_add(&under_way.first, d);
	unlock(&under_way.lock, LR_DUMP);
	return d;
}

static void end_dump(struct dump *d)
{
	lock(&under_way.lock, LR_DUMP);
	dlist_del(d);
	unlock(&under_way.lock, LR_DUMP);
	os_release(d->groups, sizeof(*d->groups));
	os_release(d->locations, sizeof(*d->locations));
	os_release(d, sizeof(*d));
}

void dump_fini(void)
{
	while (under_way.first)
		end_dump(under_way.first);
}

void dump_forget(void)
{
	__builtin_memset(&under_way, 0, sizeof(under_way));
}

void dump_some(struct g *const *gs, unsigned n)
{
	struct dump *d = begin_dump();

	if (!d)
		return;
	d->to = (struct os_sink){ STDERR_FILENO, SINK_PLAIN };
	d->impatient = true;
	d->line.names = &d->names;
	for (unsigned i = 0; i < n; i++) {
		if (snapshot_green(&d->view, gs[i], NULL, 0, NULL)) {
			dump_group_begin(&d->one, &d->view, 0);
			dump_one(d, &d->one);
		}
	}
	flush(d);
	end_dump(d);
}

/* Dump by d, and free it. */
static noinline int dump_by(struct dump *d, bool all, const char *title, uintptr_t caller)
{
	int err;

	d->self = self_green();
	d->caller = caller;
	if (!all)
		want_groups(d);
	d->locations = os_reserve(sizeof(*d->locations));
	if (d->locations)
		locations_ask(d->locations, d->self);
	line_str_sig(&d->line, title);
	write_head(d);
	dump_all(d);
	err = d->err;
	end_dump(d);
	return err;
}

static int dump_fd(int fd, bool all, const char *title, uintptr_t caller)
{
	struct os_sink to;
	int err = os_sink(&to, fd);

	if (!rt_enter())
		return -ESRCH;
	if (!err) {
		struct dump *d = begin_dump();

		if (d)
			d->to = to;
		err = d ? dump_by(d, all, title, caller) : -ENOMEM;
	}
	rt_leave();
	return err;
}

int dump_into(bool all, dump_fn fn, void *arg)
{
	struct dump *d = begin_dump();

	if (!d)
		return -ENOMEM;
	d->fn = fn;
	d->fn_arg = arg;
	return dump_by(d, all, "", trace_caller());
}

int gmp_dump(int fd)
{
	return dump_fd(fd, false, "", trace_caller());
}

int gmp_dump_all(int fd)
{
	return dump_fd(fd, true, "", trace_caller());
}

void dump_at_signal(void)
{
	dump_fd(STDERR_FILENO, false, "gmp: dump at a signal: ", 0);
}
