/* SPDX-License-Identifier: MIT */
/*
 * What does each green thread do, and how is that written down?
 *
 * The arena of descriptors is walked once while everything runs.  Of each green thread that is alive
 * a look is taken, and its block is written; nothing is stopped, so the blocks are of one moment each.
 *
 * Invariants
 *  P1 A parked one is held (waiter_hold) while it is looked at: it cannot be woken meanwhile, and
 *     what it waits on cannot go away.  Under the hold there is neither a lock nor a system call:
 *     addresses are noted, and looked up afterwards.
 *  P2 The stack of one that is not held is never read: it may run.  The caller's own is the
 *     exception.
 *  P3 What is read of one that is not held is used only if its descriptor has not changed hands
 *     meanwhile (ORD(g.life)).
 *  P4 No lock is held and no P is kept while the output waits: a green caller sleeps when the
 *     descriptor has no room, and yields between two blocks when it is asked to.
 *  P5 What a dump works with lies in memory of its own, in a list: a green thread that is dropped in
 *     the middle leaves it to dump_fini.
 *
 * Many green threads with the same backtrace: after SAME_MOST of them, a reference takes its place.
 */
#include "debug/dump.h"

#include <errno.h>
#include <unistd.h>

#include "base/os.h"
#include "base/symtab.h"
#include "base/throw.h"
#include "netpoll.h"
#include "allgs.h"
#include "proc.h"
#include "select.h"
#include "sync/sync.h"
#include "unwind.h"

enum {
	MS = 1000000,
	SECOND = 1000 * MS,
	SAME_MOST = 100, /* so many times a backtrace is written out */
	SAMES = 1024,    /* different backtraces that are known again */
	PROBES = 16,
	CASES_MOST = 6, /* of a select that are told */
};

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

/* What a look at one has found. */
struct view {
	uint64_t id;
	gmp_fn fn;
	uintptr_t made_at;
	char name[G_NAME_MAX];
	const char *state; /* NULL: it waits */
	int64_t since;     /* when it began to */
	struct line what;  /* what for */
	struct trace trace;
};

struct same {
	uint64_t hash; /* 0: free */
	uint64_t id;   /* of the first that had it */
	uint32_t n;
};

struct dump {
	struct dump *next;
	struct os_sink to;
	int err;          /* of a write: the rest is dropped */
	bool dying;       /* the process ends: nobody is kept from anything */
	struct g *self;   /* who dumps; NULL: a foreign thread, or g0 */
	uintptr_t caller; /* where gmp_dump was called */
	int64_t now;
	size_t n;
	char out[PAGE];
	struct line line;
	struct view view;
	struct same same[SAMES];
	struct symcache names;
};

/* --- writing --- */

/* Until there is room.  0 or -errno. */
static int await_room(struct dump *d)
{
	int err = 0;

	if (d->dying)
		return os_sink_ready(&d->to, SECOND) ? 0 : -EAGAIN;
	while (!err && !os_sink_ready(&d->to, 0)) {
		if (getm())
			err = gmp_sleep(MS);
		else if (ld_seq(&sched.state) != RUN_ON) /* ORD(foreign) */
			err = -ESRCH;
		else if (os_sink_ready(&d->to, 50 * MS))
			break;
	}
	return err;
}

static void flush(struct dump *d)
{
	size_t at = 0;

	while (at < d->n && !d->err) {
		int n = os_sink_write(&d->to, d->out + at, d->n - at);

		if (n == -EAGAIN)
			d->err = await_room(d);
		else if (n < 0)
			d->err = n;
		else
			at += (size_t)n;
	}
	d->n = 0;
}

/* d->line goes out, and is empty. */
static void put_line(struct dump *d)
{
	struct line *l = &d->line;

	if (l->n == sizeof(l->text))
		l->text[l->n - 1] = '\n';
	if (d->n + l->n > sizeof(d->out))
		flush(d);
	__builtin_memcpy(d->out + d->n, l->text, l->n);
	d->n += l->n;
	l->n = 0;
}

/* --- looking --- */

struct g *dump_awaited(const struct g *gp)
{
	/* mutex.c and rwmutex.c queue up at several bytes of the object */
	const void *key = (const void *)((uintptr_t)gp->sudog.key & ~(uintptr_t)3);

	if (!ld_rlx(&gp->sudog.queued))
		return NULL;
	switch (ld_rlx(&gp->reason)) {
	case WAIT_MUTEX: return gmp__token_g(ld_rlx(&((const gmp_mutex *)key)->owner));
	case WAIT_RLOCK: /* its owner is a writer */
	case WAIT_WLOCK: return gmp__token_g(ld_rlx(&((const gmp_rwmutex *)key)->owner));
	case WAIT_ONCE: return gmp__token_g(ld_rlx(&((const gmp_once *)key)->owner));
	case WAIT_JOIN: return container_of((uintptr_t)key, struct g, join);
	default: return NULL;
	}
}

static bool is_alive(const struct g *gp)
{
	uint8_t status = ld_acq(&gp->status); /* ORD(g.status) */

	return status != G_FREE && status != G_DEAD;
}

/* ": receive 0x55d2, send 0x55d8, and 3 more" */
static void which_cases(const struct g *gp, struct line *l)
{
	struct select_place at[CASES_MOST];
	unsigned n = select_places(gp, at, CASES_MOST);

	for (unsigned i = 0; i < min_of(n, (unsigned)CASES_MOST); i++) {
		line_str_sig(l, i ? ", " : ": ");
		line_str_sig(l, at[i].sends ? "send " : "receive ");
		line_hex_sig(l, (uintptr_t)at[i].c);
	}
	if (n > CASES_MOST) {
		line_str_sig(l, ", and ");
		line_dec_sig(l, n - CASES_MOST);
		line_str_sig(l, " more");
	}
}

/* "channel receive 0x55d2", "mutex lock 0x55d8, held by green thread 4".  gp is held (P1). */
static void what_it_waits_for(const struct g *gp, struct line *l)
{
	enum waitreason why = (enum waitreason)ld_rlx(&gp->reason);
	const struct g *awaited = dump_awaited(gp);
	uintptr_t key = (uintptr_t)gp->sudog.key;

	line_str_sig(l, reasons[why]);
	if (why == WAIT_SELECT)
		which_cases(gp, l);
	if (!ld_rlx(&gp->sudog.queued))
		return;
	if (why == WAIT_JOIN) {
		line_str_sig(l, " of green thread ");
		line_dec_sig(l, ld_rlx(&awaited->id));
		return;
	}
	line_str_sig(l, " ");
	if (why == WAIT_READ || why == WAIT_WRITE || why == WAIT_FILE)
		line_dec_sig(l, (uint64_t)((const struct polldesc *)key)->fd);
	else
		line_hex_sig(l, why == WAIT_RLOCK || why == WAIT_MUTEX ? key & ~(uintptr_t)3 : key);
	if (!awaited)
		return;
	line_str_sig(l, ", held by green thread ");
	line_dec_sig(l, ld_rlx(&awaited->id));
	if (!is_alive(awaited))
		line_str_sig(l, ", which has ended");
}

static void copy_identity(struct view *v, const struct g *gp)
{
	const char *name = g_name(gp);
	unsigned n = 0;
	char c;

	v->id = ld_rlx(&gp->id);
	v->fn = ld_rlx(&gp->fn);
	v->made_at = ld_rlx(&gp->made_at);
	for (; n < G_NAME_MAX - 1 && (c = ld_rlx(&name[n])); n++)
		v->name[n] = c;
	v->name[n] = '\0';
}

static void look_at_held(struct view *v, const struct g *gp)
{
	copy_identity(v, gp);
	v->state = NULL;
	v->since = ld_rlx(&gp->since);
	what_it_waits_for(gp, &v->what);
	trace_parked(&v->trace, &gp->ctx, gp->stack, gp->stack + ((size_t)1 << gp->stack_class));
}

static const char *state_of(const struct g *gp, uint8_t status, uint32_t wait)
{
	if (status == G_WAITING) /* about to leave its stack, or woken */
		return states[wait == W_IDLE ? G_RUNNING : G_RUNNABLE];
	if (status == G_RUNNABLE && !ld_rlx(&gp->stack))
		return "runnable, not begun";
	return states[status];
}

static bool look_from_afar(struct view *v, const struct g *gp, uint32_t wait)
{
	uint32_t life = ld_acq(&gp->generation); /* ORD(g.life) */
	uint8_t status = ld_acq(&gp->status);    /* ORD(g.status) */

	if (!is_alive(gp))
		return false;
	copy_identity(v, gp);
	v->state = state_of(gp, status, wait);
	fence_acq(); /* ORD(g.life): P3 */
	return ld_rlx(&gp->generation) == life;
}

/* False: it is not alive. */
static bool look(struct dump *d, struct g *gp)
{
	struct view *v = &d->view;
	uint32_t wait;

	v->what.n = 0;
	v->trace.n = 0;
	v->trace.more = false;
	if (!is_alive(gp))
		return false;
	if (gp == d->self) {
		copy_identity(v, gp);
		v->state = "running, the caller of gmp_dump";
		trace_own(&v->trace, d->caller);
		return true;
	}
	while ((wait = waiter_hold(&gp->w)) == W_BUSY)
		cpu_relax(); /* another keeper looks at its stack */
	if (wait != W_ARMED)
		return look_from_afar(v, gp, wait);
	look_at_held(v, gp);
	waiter_release(&gp->w);
	return true;
}

/* --- one block --- */

static uint64_t hash_trace(const struct trace *t)
{
	uint64_t h = (uint64_t)t->n;

	for (int i = 0; i < t->n; i++) {
		h = (h ^ t->pc[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

/* The id of the first that had this backtrace, if that has been written often enough; else 0. */
static uint64_t seen_before(struct dump *d, const struct trace *t, uint64_t id)
{
	uint64_t hash = hash_trace(t);

	for (unsigned i = 0; i < PROBES; i++) {
		struct same *s = &d->same[(hash + i) % SAMES];

		if (s->hash == 0)
			*s = (struct same){ .hash = hash, .id = id };
		if (s->hash == hash)
			return s->n++ < SAME_MOST ? 0 : s->id;
	}
	return 0;
}

static void add_duration(struct line *l, int64_t ns)
{
	uint64_t hundredths = (uint64_t)max_of(ns, 0) / (SECOND / 100);

	line_dec_sig(l, hundredths / 100);
	line_str_sig(l, hundredths % 100 < 10 ? ".0" : ".");
	line_dec_sig(l, hundredths % 100);
	line_str_sig(l, " s");
}

static void write_block(struct dump *d)
{
	struct view *v = &d->view;
	struct line *l = &d->line;
	uint64_t like = v->trace.n ? seen_before(d, &v->trace, v->id) : 0;

	line_green_sig(l, v->id, v->name, (uintptr_t)v->fn);
	line_str_sig(l, ", ");
	if (v->state) {
		line_str_sig(l, v->state);
	} else {
		line_str_sig(l, "waiting for ");
		add_duration(l, d->now - v->since);
		line_str_sig(l, ": ");
		v->what.text[min_of(v->what.n, sizeof(v->what.text) - 1)] = '\0';
		line_str_sig(l, v->what.text);
	}
	if (v->made_at) {
		line_str_sig(l, "; made at ");
		line_sym_sig(l, v->made_at - 1);
	}
	if (like) {
		line_str_sig(l, "; backtrace as green thread ");
		line_dec_sig(l, like);
	}
	line_str_sig(l, "\n");
	put_line(d);
	for (int i = 0; i < v->trace.n && !like; i++) {
		line_frame_sig(l, i, v->trace.pc[i]);
		put_line(d);
	}
	if (v->trace.more && !like) {
		line_str_sig(l, "    ...\n");
		put_line(d);
	}
}

/* --- all of them --- */

static void write_head(struct dump *d)
{
	struct line *l = &d->line;
	uint32_t in[countof(states)] = { 0 }, made = g_made();
	const char *before = " green threads: ";

	for (uint32_t i = 0; i < made; i++)
		in[ld_rlx(&g_at(i)->status)]++;
	line_dec_sig(l, made - in[G_FREE] - in[G_DEAD]);
	for (unsigned s = 0; s < countof(states); s++) {
		if (s == G_FREE || s == G_DEAD)
			continue;
		line_str_sig(l, before);
		line_dec_sig(l, in[s]);
		line_str_sig(l, " ");
		line_str_sig(l, states[s]);
		before = ", ";
	}
	line_str_sig(l, "; ");
	line_dec_sig(l, in[G_DEAD]);
	line_str_sig(l, " ended and not joined\n");
	put_line(d);
}

static void write_all(struct dump *d)
{
	d->line.names = &d->names;
	for (uint32_t i = 0, made = g_made(); i < made && !d->err; i++) {
		d->now = os_now();
		if (look(d, g_at(i)))
			write_block(d);
		if (d->self)
			gmp_checkpoint(); /* P4 */
	}
	flush(d);
}

void dump_dying(void)
{
	static struct dump d;

	d.to = (struct os_sink){ STDERR_FILENO, SINK_PLAIN };
	d.dying = true;
	write_all(&d);
}

/* --- dumps under way --- */

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
	d->next = under_way.first;
	under_way.first = d;
	unlock(&under_way.lock, LR_DUMP);
	return d;
}

static void end_dump(struct dump *d)
{
	lock(&under_way.lock, LR_DUMP);
	for (struct dump **at = &under_way.first; *at; at = &(*at)->next) {
		if (*at == d) {
			*at = d->next;
			break;
		}
	}
	unlock(&under_way.lock, LR_DUMP);
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

static noinline int dump_to(const struct os_sink *to, uintptr_t caller)
{
	struct dump *d = begin_dump();
	int err;

	if (!d)
		return -ENOMEM;
	d->to = *to;
	d->self = self_green();
	d->caller = caller;
	write_head(d);
	write_all(d);
	err = d->err;
	end_dump(d);
	return err;
}

int gmp_dump(int fd)
{
	struct os_sink to;
	int err = os_sink(&to, fd);

	if (!rt_enter())
		return -ESRCH;
	if (!err)
		err = dump_to(&to, trace_caller());
	rt_leave();
	return err;
}
