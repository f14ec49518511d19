/* SPDX-License-Identifier: MIT */
/*
 * Which green threads are there: their descriptors, made, given out and taken back.
 */
#ifndef GMP_G_H
#define GMP_G_H

#include "types.h"

/* Address space for that many.  0 or -ENOMEM; allgs_fini gives back what there is of it either way. */
int allgs_init(uint32_t limit);
void allgs_fini(void);
void allgs_forget(void); /* the child of a fork */

/* A descriptor from pp's cache (pp NULL: a external thread's call), with a stack promised to it.
 * NULL: *err is -EAGAIN (max_green) or -ENOMEM. */
struct g *g_alloc(struct p *pp, int *err);
void g_free(struct p *pp, struct g *gp);

/* Fill a g struct that g_alloc returned, for a first run of fn(arg); its status is still G_FREE. */
static inline void g_init(struct g *gp, gmp_fn fn, void *arg, uint64_t id, unsigned klass)
{
	fence_rel(); /* ORD(g.life): it was free before; a reader of what follows notices that */
	st_rlx(&gp->fn, fn);
	gp->arg = arg;
	st_rlx(&gp->id, id);
	gp->stack_class = (uint8_t)klass;
	gp->cleanups = NULL;
	gp->owes = 0;
	st_rlx(&gp->born, g_born_at(ld_rlx(&sched.coarse_now)));
	gp->resume = 0;
	st_rlx(&gp->cancelled, false); /* the waker of its last user may read it still (W1) */
	gp->masked = 0;
	gp->pins = 0;
	st_rlx(&gp->reason, (uint8_t)WAIT_NONE);
}

/* --- the compact form of Gs that have not run: B3 --- */

/* Only the caller, which owns gp's place in a run queue, has a pointer to it. A sampled G (RESUME_MEASURED)
 * keeps its struct, so that its scheduling latency is recorded. */
static inline bool g_can_be_compact(const struct g *gp)
{
	return gp->resume == RESUME_UNSHARED;
}

/* Reserve what at most n compact records need later: g structs and stacks. Returns for how many. */
uint32_t unstarted_reserve(uint32_t n);
void unstarted_unreserve(uint32_t n);
/* How many there are, and reservations that are about to be given back. */
uint32_t unstarted_count(void);
/* The record of gp; the caller passes gp to g_free next. */
static inline struct unstarted g_compact(const struct g *gp)
{
	return (struct unstarted){ gp->fn, gp->arg, gp->id, gp->made_at };
}
/* A runnable G of a record; pp's owner. Uses the record's reservation, or, if it had a free g struct at
 * hand, adds 1 to *unused: the caller passes the sum to unstarted_unreserve. Cannot fail. */
struct g *g_expand(struct p *pp, const struct unstarted *u, uint32_t *unused);
/* A stack for its first run; and back. */
void g_bind_stack(struct p *pp, struct g *gp);
void g_unbind_stack(struct p *pp, struct g *gp);
uint64_t g_new_id(struct p *pp);
/* Before it is made runnable; what is longer than G_NAME_MAX - 1 bytes is cut off. */
void g_set_name(struct g *gp, const char *name);
const char *g_name(const struct g *gp); /* "" without one */
uint32_t g_index(const struct g *gp);
struct g *g_at(uint32_t index); /* NULL beyond those ever made */
uint32_t g_made(void);          /* descriptors ever made: g_at(0..made-1) */

/* Free ones from pp's cache to those that all share, until `keep` are left; pp's owner, or while it has
 * none. */
void gfree_spill(struct p *pp, unsigned keep);
/* The same, down to what a P may keep. */
void gfree_trim(struct p *pp);
/* That goes by how many Ps there are: all together keep a sixteenth, at most, of the green threads that
 * there can be.  One caller at a time. */
void gfree_set_keep(int procs);

/* On the stack of gp, which ends: its clean-up functions and those of its locals.  May wait. */
void run_exit_hooks(struct g *gp);

#endif
