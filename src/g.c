/* SPDX-License-Identifier: MIT */
/* The arena of g structs; see g.h. */
#include "g.h"

#include <errno.h>
#include <string.h>

#include "base/os.h"
#include "base/throw.h"
#include "variant/variant.h"

enum { G_BATCH = 32, ID_BATCH = 64 };

const struct wait_kind wait_kinds[WAIT_REASONS] = {
#define WAITREASON(name, text, key, end, handler)                                                  \
	[name] = { text, WAITKEY_##key, WAITEND_##end, WAITHANDLER_##handler },
#include "waitreason.def"
#undef WAITREASON
};

static struct {
	struct lock lock;
	struct g *arena;    /* (c) */
	char *names;        /* (c) G_NAME_MAX bytes per g struct, touched only if named */
	size_t bytes;       /* (c) */
	uint32_t made;      /* (a) written under the lock */
	uint32_t limit;     /* (c) */
	uint32_t keep;      /* (a) free g structs that a P keeps now: 0, or most_kept */
	uint32_t most_kept; /* under the lock: gfree_set_keep */
	uint32_t unstarted; /* (a) G-3; written under the lock */
	struct g *free;     /* under the lock, by schedlink */
	struct g *saved;    /* under the lock, by schedlink: G-4 */
	uint32_t nsaved;    /* (a) under the lock */
	uint32_t deferred;  /* (a) written under the lock: G-4 */
	bool closed;        /* under the lock: g_close */
	uint64_t next_id;   /* (a) */
} gs;

static void gs_push(struct g **list, struct g *gp)
{
	gp->schedlink = *list;
	*list = gp;
}

static struct g *gs_pop(struct g **list)
{
	struct g *gp = *list;

	*list = gp->schedlink;
	return gp;
}

/* A g struct that is not used any more: G-4. */
static void gs_give(struct g *gp)
{
	bool save = gs.nsaved < gs.deferred;

	st_rlx(&gs.nsaved, gs.nsaved + save);
	gs_push(save ? &gs.saved : &gs.free, gp);
}

/* Make n g structs, whose stacks are promised. */
static void gs_add_locked(uint32_t n)
{
	for (uint32_t i = n; i-- > 0;) { /* LIFO: the lowest address on top */
		struct g *gp = &gs.arena[gs.made + i];

		gp->w.gp = gp;
		gp->token = gs.made + i + 1;
		gp->sudog.w = &gp->w;
		gs_push(&gs.free, gp);
	}
	st_rel(&gs.made, gs.made + n); /* ORD(g.made): the g structs before their number */
}

/* How many more Gs can exist.  The deferred Gs without a g struct count, unless the caller makes
 * one of them. */
static uint32_t gs_room_locked(bool deferred)
{
	uint32_t room = gs.limit - (gs.made + gs.unstarted);
	uint32_t kept = deferred ? 0 : gs.deferred - gs.nsaved;

	return room > kept ? room - kept : 0;
}

/* Make a batch of g structs, with stacks promised.  Returns how many; 0: *err is set. */
static uint32_t gs_make_locked(bool deferred, int *err)
{
	/* promise a small part of max_stack_memory at a time: stacks of other sizes need some */
	uint64_t part = sched.options.c.max_stack_memory / 16 >> sched.stack_class;
	uint32_t n = (uint32_t)min_of((uint64_t)G_BATCH, max_of(part, (uint64_t)1));

	if (stack_tight()) /* the rest is for stacks of OS threads, which mlockall locks too */
		n = 1;
	n = min_of(n, gs_room_locked(deferred));

	*err = n == 0 ? -EAGAIN : stack_promise(sched.stack_class, n);
	/* down to the last stack that max_stack_memory or RLIMIT_MEMLOCK allows */
	while ((*err == -EAGAIN || (*err == -ENOMEM && stack_lock_refused())) && n > 1) {
		n /= 2;
		*err = stack_promise(sched.stack_class, n);
	}
	if (*err)
		return 0;
	gs_add_locked(n);
	return n;
}

static struct g *gs_take_locked(bool deferred, int *err)
{
	if (unlikely(gs.closed)) {
		*err = -ESRCH;
		return NULL;
	}
	if (!gs.free && !gs_make_locked(deferred, err))
		return NULL;
	return gs_pop(&gs.free);
}

/* Fill pp's cache, which is empty, from the shared list. */
static void gfree_refill_locked(struct p *pp)
{
	unsigned most = min_of(G_BATCH - 1u, ld_rlx(&gs.keep) / 2);
	struct g *more;

	for (unsigned i = 0; i < most && gs.free; i++)
		pp->gcache.free[pp->gcache.n++] = gs_pop(&gs.free);
	/* LIFO: the lowest address on top */
	for (unsigned i = 0; i < pp->gcache.n / 2; i++) {
		more = pp->gcache.free[i];
		pp->gcache.free[i] = pp->gcache.free[pp->gcache.n - 1 - i];
		pp->gcache.free[pp->gcache.n - 1 - i] = more;
	}
}

struct g *g_alloc(struct p *pp, int *err)
{
	if (likely(pp && pp->gcache.n > 0))
		return pp->gcache.free[--pp->gcache.n];
	lock(&gs.lock, LR_GFREE);
	struct g *gp = gs_take_locked(false, err);

	if (gp && pp)
		gfree_refill_locked(pp);
	unlock(&gs.lock, LR_GFREE);
	return gp;
}

/* --- deferred Gs: G-4 --- */

/* While Gs are deferred, no P keeps a free g struct. */
static void set_deferred_locked(uint32_t n)
{
	st_rlx(&gs.deferred, n);
	st_rlx(&gs.keep, n || gs.closed ? 0 : gs.most_kept);
	while (gs.nsaved > n) {
		st_rlx(&gs.nsaved, gs.nsaved - 1);
		gs_push(&gs.free, gs_pop(&gs.saved));
	}
}

static void change_deferred(uint32_t by, bool closes)
{
	lock(&gs.lock, LR_GFREE);
	gs.closed |= closes;
	set_deferred_locked(gs.deferred + by);
	unlock(&gs.lock, LR_GFREE);
}

void g_close(void)
{
	change_deferred(0, true);
}

void g_defer(void)
{
	change_deferred(1, false);
}

void g_undefer(void)
{
	change_deferred(-1u, false);
}

uint32_t g_deferred(void)
{
	return ld_rlx(&gs.deferred);
}

bool g_deferred_can_begin(void)
{
	return ld_rlx(&gs.nsaved) > 0;
}

struct g *g_alloc_deferred(int *err)
{
	struct g *gp;

	lock(&gs.lock, LR_GFREE);
	if (gs.nsaved) {
		st_rlx(&gs.nsaved, gs.nsaved - 1);
		gp = gs_pop(&gs.saved);
	} else {
		gp = gs_take_locked(true, err);
	}
	if (gp)
		set_deferred_locked(gs.deferred - 1);
	unlock(&gs.lock, LR_GFREE);
	return gp;
}

/* --- the compact form: G-3 --- */

uint32_t unstarted_reserve(uint32_t n)
{
	lock(&gs.lock, LR_GFREE);
	n = min_of(n, gs_room_locked(false));
	if (n > 0 && stack_promise(sched.stack_class, n))
		n = 0;
	st_rlx(&gs.unstarted, gs.unstarted + n);
	unlock(&gs.lock, LR_GFREE);
	return n;
}

void unstarted_unreserve(uint32_t n)
{
	if (n == 0)
		return;
	lock(&gs.lock, LR_GFREE);
	st_rlx(&gs.unstarted, gs.unstarted - n);
	unlock(&gs.lock, LR_GFREE);
	stack_unpromise(sched.stack_class, n);
}

uint32_t unstarted_count(void)
{
	return ld_rlx(&gs.unstarted);
}

/* Take a free g struct from the shared list.  *fresh: there was none, and a reservation became
 * one. */
static noinline struct g *expand_slow(struct p *pp, bool *fresh)
{
	lock(&gs.lock, LR_GFREE);
	*fresh = !gs.free;
	if (*fresh) {
		st_rlx(&gs.unstarted, gs.unstarted - 1);
		gs_add_locked(1);
	}
	struct g *gp = gs_pop(&gs.free);

	gfree_refill_locked(pp);
	unlock(&gs.lock, LR_GFREE);
	return gp;
}

struct g *g_expand(struct p *pp, const struct unstarted *u, uint32_t *unused)
{
	bool fresh = false;
	struct g *gp = likely(pp->gcache.n > 0) ? pp->gcache.free[--pp->gcache.n]
						: expand_slow(pp, &fresh);

	if (!fresh)
		++*unused;
	g_init(gp, u->fn, u->arg, u->id, sched.stack_class);
	st_rlx(&gp->join, (uintptr_t)0); /* DETACHED: spawn.h */
	st_rlx(&gp->made_at, u->made_at);
	g_set_status(gp, G_RUNNABLE);
	return gp;
}

void gfree_spill(struct p *pp, unsigned keep)
{
	lock(&gs.lock, LR_GFREE);
	while (pp->gcache.n > keep)
		gs_give(pp->gcache.free[--pp->gcache.n]);
	unlock(&gs.lock, LR_GFREE);
}

static void gfree_shared(struct g *gp)
{
	lock(&gs.lock, LR_GFREE);
	gs_give(gp);
	unlock(&gs.lock, LR_GFREE);
}

void g_free(struct p *pp, struct g *gp)
{
	st_rlx(&gp->named, false);
	g_set_status(gp, G_FREE);
	/* ORD(g.life): a reader of the new generation sees FREE, or a later state */
	st_rel(&gp->generation, gp->generation + 1);
	uint32_t keep = ld_rlx(&gs.keep);

	if (unlikely(!pp)) {
		gfree_shared(gp);
		return;
	}
	if (unlikely(pp->gcache.n >= keep)) {
		if (pp->gcache.n > keep / 2) /* above keep if there were fewer Ps before */
			gfree_spill(pp, keep / 2);
		if (keep == 0) {
			gfree_shared(gp);
			return;
		}
	}
	pp->gcache.free[pp->gcache.n++] = gp;
}

void gfree_set_keep(int procs)
{
	uint64_t stacks = sched.options.c.max_stack_memory >> sched.stack_class;
	uint64_t most = min_of(stacks, (uint64_t)gs.limit);

	lock(&gs.lock, LR_GFREE);
	gs.most_kept = (uint32_t)min_of((uint64_t)GFREE_CACHE, most / (16 * (uint64_t)procs));
	set_deferred_locked(gs.deferred);
	unlock(&gs.lock, LR_GFREE);
}

void gfree_trim(struct p *pp)
{
	gfree_spill(pp, ld_rlx(&gs.keep));
}

void g_bind_stack(struct p *pp, struct g *gp)
{
	struct stackcache *c = &pp->stacks;

	if (likely(gp->stack_class == sched.stack_class)) {
		char *lo = stackcache_take(c);

		if (unlikely(!lo))
			gmp__fatal("no stack, although one was reserved"); /* G-2 */
		st_rlx(&gp->stack, lo);
	} else {
		st_rlx(&gp->stack, stack_get(gp->stack_class));
	}
	bump(&pp->count.binds, 1);
	san_begin(&gp->san, gp->stack, (size_t)1 << gp->stack_class);
#ifdef SAN_THREAD
	san_name(&gp->san, gp->id, g_name(gp));
#endif
}

void g_unbind_stack(struct p *pp, struct g *gp)
{
	struct stackcache *c = &pp->stacks;

	san_end(&gp->san);
	bump(&pp->count.unbinds, 1);
	if (likely(gp->stack_class == sched.stack_class)) {
		if (unlikely(c->n == c->most))
			stackcache_spill(c);
		c->lo[c->n++] = gp->stack;
	} else {
		stack_put(gp->stack, gp->stack_class);
		stack_unpromise(gp->stack_class, 1);
	}
	st_rlx(&gp->stack, (char *)NULL);
}

uint64_t g_new_id(struct p *pp)
{
	if (unlikely(!pp))
		return add_rlx(&gs.next_id, 1);
	if (unlikely(pp->gcache.id_next == pp->gcache.id_end)) {
		pp->gcache.id_next = add_rlx(&gs.next_id, ID_BATCH);
		pp->gcache.id_end = pp->gcache.id_next + ID_BATCH;
	}
	return pp->gcache.id_next++;
}

/* By bytes: other threads may read it at any time, and check afterwards whether the G was reused
 * (ORD(g.life)). */
void g_set_name(struct g *gp, const char *name)
{
	char *to = gs.names + (size_t)g_index(gp) * G_NAME_MAX;
	unsigned n = 0;

	for (; name[n] && n < G_NAME_MAX - 1; n++)
		st_rlx(&to[n], name[n]);
	st_rlx(&to[n], '\0');
	st_rlx(&gp->named, true);
}

const char *g_name(const struct g *gp)
{
	/* gs.names is NULL in the child of a fork, which has handles of its parent's Gs */
	return ld_rlx(&gp->named) && gs.names ? gs.names + (size_t)g_index(gp) * G_NAME_MAX : "";
}

void g_copy_name(const struct g *gp, char to[G_NAME_MAX])
{
	const char *name = g_name(gp);
	unsigned n = 0;

	while (n < G_NAME_MAX - 1 && (to[n] = ld_rlx(&name[n])))
		n++;
	to[n] = '\0';
}

uint32_t g_index(const struct g *gp)
{
	return (uint32_t)(gp - gs.arena);
}

uint32_t g_made(void)
{
	return ld_acq(&gs.made); /* ORD(g.made) */
}

struct g *g_at(uint32_t index)
{
	return index < g_made() ? &gs.arena[index] : NULL;
}

#ifdef GMP_DEBUG_CHECKS
void gmp__check_edge(struct g *gp, enum gstatus to)
{
	static const struct {
		const char *name;
		unsigned edges;
	} table[] = {
#define GSTATUS(name, text, edges) [name] = { text, edges },
#include "gstatus.def"
#undef GSTATUS
	};
	enum gstatus from = (enum gstatus)ld_rlx(&gp->status);

	if (!(table[from].edges & 1u << to))
		gmp__fatal("green thread %llu cannot change from state \"%s\" to \"%s\"",
			   (unsigned long long)gp->id, table[from].name, table[to].name);
}
#endif

/* --- begin and end --- */

int allgs_init(uint32_t limit)
{
	gs.limit = limit;
	gs.made = 0;
	gs.unstarted = 0;
	gs.free = gs.saved = NULL;
	gs.nsaved = gs.deferred = 0;
	gs.closed = false;
	gs.next_id = 1;
	gs.bytes = round_up((size_t)limit * sizeof(struct g), PAGE);
	gs.arena = os_reserve(gs.bytes);
	gs.names = os_reserve((size_t)limit * G_NAME_MAX);
	return gs.arena && gs.names ? 0 : -ENOMEM;
}

void allgs_fini(void)
{
	os_release(gs.arena, gs.bytes);
	os_release(gs.names, (size_t)gs.limit * G_NAME_MAX);
	gs.arena = NULL;
	gs.names = NULL;
	gs.made = 0;
}

void allgs_forget(void)
{
	memset(&gs, 0, sizeof(gs));
}

static noinline void run_at_end(struct g *gp)
{
	if (gp->at_end & AT_END_LOCALS)
		sched.up.locals_end(gp);
	if (gp->at_end & AT_END_OWN_TLS) {
		owntls_end();
		if (gp->at_end & AT_END_LOCALS) /* of its destructors */
			sched.up.locals_end(gp);
	}
	if (gp->at_end & AT_END_TIMER_RUN) {
		gp->at_end &= (uint8_t)~AT_END_TIMER_RUN; /* shutdown may kill gp from here on */
		sched.up.timer_run_end(gp);
	}
}

void run_exit_hooks(struct g *gp)
{
	for (struct cleanup *c; unlikely((c = gp->cleanups) != NULL);) {
		gp->cleanups = c->next;
		c->fn(c->arg);
	}
	if (unlikely(gp->at_end))
		run_at_end(gp);
}
