/* SPDX-License-Identifier: MIT */
/* Thread-local values of green threads, for spawn, end and fork.  fls.c has the invariants. */
#ifndef GMP_FLS_H
#define GMP_FLS_H

#include "types.h"

/* sched.up.locals_end: runs the destructors of gp, with AT_END_LOCALS.  On gp's stack; may wait.
 * */
void fls_end(struct g *gp);
/* Shutdown: frees the table of a g struct, and runs no destructor. */
void fls_forget(struct g *gp);
/* Fork: in the child, the calling thread, which was green thread gp, keeps gp's table as an
 * external thread. */
void fls_adopt(struct g *gp);
/* The reverse: the calling external thread becomes gp, which has no table yet. */
void fls_return(struct g *gp);

#endif
