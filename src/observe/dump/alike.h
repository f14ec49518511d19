/* SPDX-License-Identifier: MIT */
/*
 * Groups of green threads that are alike, for a dump.
 *
 * Two green threads are alike if entry function, place of creation, state, wait reason and
 * backtrace are the same. If one known green thread can end the wait (the holder of a mutex, a
 * joined one), the text of the wait must be the same too. Names and other objects of waits do not
 * count.
 *
 * Invariant
 *   ALIKE-1  The entries of `member` are ordered by id. Between two neighbours without names there
 *            is at least one id that is not in `member`. (The arena of g structs is in another
 *            order, since g structs are reused.)
 */
#ifndef GMP_ALIKE_H
#define GMP_ALIKE_H

#include "observe/dump/view.h"

enum {
	ALIKE_MOST = 2048, /* groups; a green thread that fits in no group is shown alone */
	ALIKE_SLOTS = 8192,
	MEMBERS_MOST = 8,
};

/* Green threads first..last, all without a name; or one green thread with a name. */
struct members {
	uint64_t first, last;
	char name[G_NAME_MAX];
};

struct alike {
	uint64_t hash;
	struct view v; /* of the first member */
	uint64_t n;
	bool same_what;                  /* all have the same text of the wait */
	int64_t since_least, since_most; /* of waiting green threads */
	int64_t cpu_least, cpu_most;     /* if v.has_cpu */
	uint32_t born_least, born_most;
	struct members member[MEMBERS_MOST];
	unsigned members;
	uint64_t more; /* members that are not listed in `member` */
};

struct alikes {
	uint32_t n;
	uint16_t slot[ALIKE_SLOTS]; /* number of the group + 1; 0: free */
	struct alike of[ALIKE_MOST];
};

/* Make g a group with one member. */
void alike_begin(struct alike *g, const struct view *v, uint64_t hash);
/* Add v to its group, or to a new one. Returns false without room. */
bool alike_add(struct alikes *a, const struct view *v);

/* Append `3 "alpha", 4, 6-302, and 12 more`, from entry `from` of `member` on, as far as the line
 * has room. Returns the number of entries. */
unsigned alike_members_sig(const struct alike *g, unsigned from, struct line *l);

uint64_t alike_hash_trace(const struct trace *t);

#endif
