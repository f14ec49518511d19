/* SPDX-License-Identifier: MIT */
/*
 * g structs: allocates, frees and finds the control blocks of Gs.
 *
 * A free g struct is in one of two places: in the cache of a P, for its owner alone, or in the
 * shared free list.  They move between the two in batches.
 *
 * Invariants
 *   G-1  All g structs are in one arena, apart from the stacks.  The arena is never unmapped while
 *        the runtime runs, so a stale pointer reads a g struct; `generation` and `id` tell whether
 *        it was reused.
 *   G-2  Every g struct that was ever made has a stack of the default class reserved (STACK-1), so
 *        a first run cannot fail.
 *   G-3  A G that gmp_go made and that leaves a full ring before its first run becomes a struct
 *        unstarted of 32 bytes in the global queue, and its g struct is freed.  made + unstarted <=
 *        limit, and a stack is promised for each record.  So g_expand cannot fail: if no g struct
 *        is free, the record's share of the limit and its promise become a new one.
 *   G-4  A deferred G is the G of a late run of a one-shot timer (USERTIMER-5) that found no g
 *        struct.  As long as fewer g structs are saved than Gs are deferred, each g struct that is
 *        freed is saved for them, and no P keeps free g structs.  So spawns in a loop do not starve
 *        them.
 */
#ifndef GMP_G_H
#define GMP_G_H

#include "types.h"

/* Reserve address space for `limit` Gs.  Returns 0 or -ENOMEM; call allgs_fini in both cases. */
int allgs_init(uint32_t limit);
void allgs_fini(void);
void allgs_forget(void); /* the child of a fork */

/* Allocate a g struct with a stack promised to it.  pp: the caller's P; NULL: an external thread.
 * Returns NULL with *err -EAGAIN (max_green), -ENOMEM, or -ESRCH after g_close. */
struct g *g_alloc(struct p *pp, int *err);
/* The end of a run begins: no more Gs, except from what Ps keep.  Otherwise a G that spawns in a
 * loop makes as many as max_green allows, and the end frees them. */
void g_close(void);
/* G-4: after g_alloc was -EAGAIN, the G is deferred; or it will not be made any more. */
void g_defer(void);
void g_undefer(void);
/* g_alloc of a deferred G.  If it succeeds, the G is not deferred any more. */
struct g *g_alloc_deferred(int *err);
uint32_t g_deferred(void); /* number of deferred Gs */
/* A G has ended since, so a deferred one begins when its timer tries again. */
bool g_deferred_can_begin(void);
/* Free a dead G without a stack; pp as above. */
void g_free(struct p *pp, struct g *gp);

/* Fill a g struct that g_alloc returned, for a first run of fn(arg); its status is still G_FREE. */
static inline void g_init(struct g *gp, gmp_fn fn, void *arg, uint64_t id, unsigned klass)
{
	fence_rel(); /* ORD(g.life): a reader of the fields below sees the new generation */
	st_rlx(&gp->fn, fn);
	gp->arg = arg;
	st_rlx(&gp->id, id);
	gp->stack_class = (uint8_t)klass;
	gp->cleanups = NULL;
	gp->at_end = 0;
	st_rlx(&gp->born, g_born_at(ld_rlx(&sched.coarse_now)));
	gp->resume = 0;
	st_rlx(&gp->cancelled, false); /* the waker of a former G may still read it (PARK-1) */
	gp->masked = 0;
	gp->pins = 0;
	st_rlx(&gp->reason, (uint8_t)WAIT_NONE);
}

/* Return the columns of the reason for which gp waits, or has waited last. */
static inline const struct wait_kind *g_wait_kind(const struct g *gp)
{
	return &wait_kinds[ld_rlx(&gp->reason)];
}

/* --- the compact form of Gs that have not run: G-3 --- */

/* No pointer to gp exists, except that of the caller, which has taken it from a run queue.  A
 * sampled G (RESUME_MEASURED) keeps its g struct, so that its latency is recorded. */
static inline bool g_can_be_compact(const struct g *gp)
{
	return gp->resume == RESUME_UNSHARED;
}

/* Reserve g structs and stacks for at most n records.  Returns for how many. */
uint32_t unstarted_reserve(uint32_t n);
void unstarted_unreserve(uint32_t n);
/* How many records there are, and reservations that are about to be given back. */
uint32_t unstarted_count(void);
/* Make the record of gp; the caller frees gp next. */
static inline struct unstarted g_compact(const struct g *gp)
{
	return (struct unstarted){ gp->fn, gp->arg, gp->id, gp->made_at };
}
/* Make a runnable G of a record; owner of pp.  Uses the record's reservation or, if a g struct is
 * free, adds 1 to *unused: the caller passes the sum to unstarted_unreserve.  Cannot fail. */
struct g *g_expand(struct p *pp, const struct unstarted *u, uint32_t *unused);
/* --- fields --- */

/* Give gp a stack for its first run, and free it after its last. */
void g_bind_stack(struct p *pp, struct g *gp);
void g_unbind_stack(struct p *pp, struct g *gp);
uint64_t g_new_id(struct p *pp);
/* Before gp is runnable; a name longer than G_NAME_MAX - 1 bytes is truncated. */
void g_set_name(struct g *gp, const char *name);
const char *g_name(const struct g *gp); /* "": none */
/* Copy the name of a G that may end meanwhile. A signal handler may call it. */
void g_copy_name(const struct g *gp, char to[G_NAME_MAX]);
uint32_t g_index(const struct g *gp);
struct g *g_at(uint32_t index); /* NULL: not made yet */
uint32_t g_made(void);          /* g structs ever made: g_at(0..made-1) */

/* --- the caches of Ps --- */

/* Move g structs from pp's cache to the shared list, until `keep` are left.  Owner of pp, or while
 * it has none. */
void gfree_spill(struct p *pp, unsigned keep);
/* The same, down to the number that a P may keep. */
void gfree_trim(struct p *pp);
/* Set that number: all Ps together keep at most a sixteenth of the Gs that can exist.  One caller
 * at a time. */
void gfree_set_keep(int procs);

/* Run the clean-up functions of gp, which ends, and those of its locals, on its stack.  May
 * wait. */
void run_exit_hooks(struct g *gp);

#endif
