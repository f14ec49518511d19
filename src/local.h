/* SPDX-License-Identifier: MIT */
/* What do those who begin and end green threads have to know of their locals?  See local.c. */
#ifndef GMP_LOCAL_H
#define GMP_LOCAL_H

#include "runtime.h"

/* sched.locals_end */
void local_end(struct g *gp);
/* The end of a run: a descriptor gives its table back; values are forgotten. */
void local_forget(struct g *gp);
/* In the child of a fork: what was green thread gp goes on as a plain thread. */
void local_adopt(struct g *gp);

#endif
