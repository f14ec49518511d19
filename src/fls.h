/* SPDX-License-Identifier: MIT */
/* What do those who begin and end green threads have to know of their locals?  See fls.c. */
#ifndef GMP_FLS_H
#define GMP_FLS_H

#include "types.h"

/* sched.locals_end */
void fls_end(struct g *gp);
/* The end of a run: a descriptor gives its table back; values are forgotten. */
void fls_forget(struct g *gp);
/* In the child of a fork: what was green thread gp goes on as a plain thread. */
void fls_adopt(struct g *gp);

#endif
