/* SPDX-License-Identifier: MIT */
/* What do those who begin and end green threads have to know of their locals?  See local.c. */
#ifndef GMP_LOCAL_H
#define GMP_LOCAL_H

#include "runtime.h"

/* sched.locals_end */
void local_end(struct g *gp);
/* The end of a run drops it: its values are forgotten. */
void local_drop(struct g *gp);
/* In the child of a fork: what was green thread gp goes on as a plain thread. */
void local_adopt(struct g *gp);

#endif
