/* SPDX-License-Identifier: MIT */
/*
 * Groups of green threads that are alike, for a dump.
 *
 * Two are alike if entry function, place of making, state, kind of wait and backtrace are the same, and, if
 * they wait for one known green thread (a mutex's holder, a joined one), also what they wait for. The name
 * and the object that they wait at do not count.
 *
 * Invariants
 *  ALIKE-1  The entries of `member` are in the order of their ids. Two neighbours without names have ids between
 *           them that are not in `member`. The arena of g structs is in another order: a g struct is reused.
 */
#ifndef GMP_ALIKE_H
#define GMP_ALIKE_H

#include "debug/view.h"

enum {
	ALIKE_MOST = 2048, /* groups; what fits in no group is shown by itself */
	ALIKE_SLOTS = 8192,
	MEMBERS_MOST = 8,
};

/* Green threads first..last, without names; or the one of that name. */
struct members {
	uint64_t first, last;
	char name[G_NAME_MAX];
};

struct alike {
	uint64_t hash;
	struct view v; /* of the first */
	uint64_t n;
	bool same_what;                  /* all wait at the same object */
	int64_t since_least, since_most; /* of waiting ones */
	uint32_t born_least, born_most;
	struct members member[MEMBERS_MOST];
	unsigned members;
	uint64_t more; /* that are in none of `member` */
};

struct alikes {
	uint32_t n;
	uint16_t slot[ALIKE_SLOTS]; /* number of the group + 1; 0: free */
	struct alike of[ALIKE_MOST];
};

/* A group of one. */
void alike_begin(struct alike *g, const struct view *v, uint64_t hash);
/* False: there is no room. */
bool alike_add(struct alikes *a, const struct view *v);

/* `3 "alpha", 4, 6-302, and 12 more`. Returns the number of members it appended, of those from `from` on:
 * as many as the line has room for. */
unsigned alike_members_sig(const struct alike *g, unsigned from, struct line *l);

uint64_t alike_hash_trace(const struct trace *t);

#endif
