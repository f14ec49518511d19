/* SPDX-License-Identifier: MIT */
/*
 * Which green threads are there: their descriptors, made, given out and taken back.
 */
#ifndef GMP_ALLGS_H
#define GMP_ALLGS_H

#include "runtime.h"

/* Address space for that many.  0 or -ENOMEM; allgs_fini gives back what there is of it either way. */
int allgs_init(uint32_t limit);
void allgs_fini(void);
void allgs_forget(void); /* the child of a fork */

/* A descriptor from pp's cache (pp NULL: a foreign thread's call), with a stack promised to it.
 * NULL: *err is -EAGAIN (max_green) or -ENOMEM. */
struct g *g_alloc(struct p *pp, int *err);
void g_free(struct p *pp, struct g *gp);
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

#endif
