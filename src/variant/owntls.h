/* SPDX-License-Identifier: MIT */
/*
 * Own thread-locals (GMP_OWN_TLS): loads a thread-local block of its own for each green thread that
 * has the flag.
 *
 * machine/tlsblock.h has the blocks, this file the pool and the order of the switch.  The OS thread
 * of an M that has such a G's block loaded is its host.
 *
 *   the M                                          another M          a signal handler of the M
 *    1 on g0: the block's M and host are written                       a reads tls_host by the
 *    2 the thread pointer = the block                                    thread pointer
 *    3 jump to the G, which runs                                       b if it is not NULL: the
 *    4 the G leaves its stack; first step on g0:                         thread pointer = host
 *      the thread pointer = the M's own block                          c answers for this OS thread
 *    5 the G is published (the commit step of                          d the thread pointer as it
 *      park.h, a run queue)                                              was
 *                                                   6 the G is taken:
 *                                                     steps 1 to 3
 *
 * Invariants
 *   OWNTLS-1  A block is loaded by one OS thread at most: step 4 is before step 5.  So g0 runs no
 *             libc on the block of a G that another M may resume, and getm() of the other M is not
 *             overwritten.
 *   OWNTLS-2  While a block is loaded, its M and host are those of this OS thread: step 1 is before
 *             step 2, in the order of the program, since a handler may come between any two
 *             instructions.  Otherwise handler c would answer for the former host.
 *   -         The block of an M's own never has a host, and its gmp__tls_m is the M while that
 *             runs Gs.  So step 4 writes the thread pointer only.
 *   -         Without the flag nothing is executed.  A G that has it has RESUME_OWN_TLS, which
 *             sends its switches to the slow path of sched.c, where variant_enter (variant.h) does
 *             steps 1 and 2.  Step 4 is in the own variant of the leave steps (variant/leave.h),
 *             which is in use from the first such G of a run on.
 *   -         A block stays with its G from the spawn (if all Gs of the run have the flag: from the
 *             first run) to the end, and is reset then.  So addresses of thread-locals are stable.
 *             A G that is killed by shutdown may hold mutexes by the id of its block: the block
 *             gets another id then (TLSBLOCK-5).
 *
 * Blocks in use, in the pool and in the caches of Ps are never given back: libc's part could not be
 * freed.  Their number is the most that were in use at once, and those of the caches.
 *
 * Verified by model/owntls.pml.
 *
 * Rejected
 *   The thread pointer in struct context: two more instructions in each switch.
 *   A block for each g struct: a million Gs that have ended would keep 5 GB.
 */
#ifndef GMP_OWNTLS_H
#define GMP_OWNTLS_H

#include "machine/tlsblock.h"
#include "types.h"

enum { OWNTLS_CACHE = 64 }; /* free blocks of a P */

/* By the token of a G (index + 1): its block, or NULL.  NULL before the first use in a run. */
extern struct tlsblock **gmp__own_blocks __attribute__((visibility("hidden")));

static inline struct tlsblock *owntls_block(const struct g *gp)
{
	return gmp__own_blocks[gp->token];
}

/* Has owntls_set_used been called in this run? */
bool owntls_is_used(void);
/* Prepare this run for green threads with own thread-locals.  Not on g0.  Returns 0, -EAGAIN,
 * -ENOMEM, or -ENOTSUP with a text in *why. */
int owntls_prepare(const char **why);
/* After owntls_prepare and after the leave steps have been replaced (variant/leave.c). */
void owntls_set_used(void);

/* A free block, reset; pp: the caller's P, or NULL.  NULL without memory. */
struct tlsblock *owntls_take(struct p *pp);
void owntls_give(struct p *pp, struct tlsblock *b);
/* gp, which has not run, gets the block. */
void owntls_attach(struct g *gp, struct tlsblock *b);
/* gp, which has not run, gets a block.  Returns false without memory. */
bool owntls_supply(struct p *pp, struct g *gp);

/* The same on g0, before the first run of gp.  The first failure writes a line to
 * stderr. */
bool owntls_supply_late(struct p *pp, struct g *gp);

/* On g0 of m, before the first run of gp, which has its stack: steps 1 and 2. */
void owntls_begin(struct m *m, struct g *gp);
/* On the stack of a G that ends: run the destructors in its block.  May wait. */
void owntls_end(void);
/* On g0, which has its own block: gp ends.  pp: the P. */
void owntls_release(struct p *pp, struct g *gp);
/* On g0, no locks held: gp, whose block b is reset, ends.  True: the callee gives b back later.
 * NULL, or posix/thread/registry.c:thread_ended; set before the first run. */
extern bool (*gmp__owntls_keep)(struct g *gp, struct tlsblock *b)
	__attribute__((visibility("hidden")));

/* Steps 1 and 2. */
static inline void owntls_load(struct m *m, struct g *gp)
{
	tlsblock_load(owntls_block(gp), m, m->tp);
}

/* Step 4. */
static inline void owntls_unload(struct m *m)
{
	arch_set_tp(m->tp);
}

/* gp continues without the runtime (variant/abandon.h).  Returns its block, or NULL. */
struct tlsblock *owntls_abandon(struct g *gp);
/* gp is killed at shutdown. */
void owntls_kill(struct g *gp);

/* The blocks in the cache of pp, which its owner calls for or which has none, go to the pool. */
void owntls_flush(struct p *pp);
/* End of a run, while the Ps exist; no G is left. */
void owntls_fini(void);
void owntls_forget(void); /* the child of a fork */

#endif
