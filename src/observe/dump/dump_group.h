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
 *   DUMPGROUP-1  The entries of `member` are ordered by id. Between two neighbours without names
 *                there is at least one id that is not in `member`. (The arena of g structs is in
 *                another order, since g structs are reused.)
 */
#ifndef GMP_DUMP_GROUP_H
#define GMP_DUMP_GROUP_H

#include "observe/dump/snapshot.h"

enum {
	GROUP_MOST = 2048, /* groups; a green thread that fits in no group is shown alone */
	GROUP_SLOTS = 8192,
	MEMBERS_MOST = 8,
};

/* Green threads first..last, all without a name; or one green thread with a name. */
struct members {
	uint64_t first, last;
	char name[G_NAME_MAX];
};

struct dump_group {
	uint64_t hash;
	struct snapshot v; /* of the first member */
	uint64_t n;
	bool same_what;                  /* all have the same text of the wait */
	int64_t since_least, since_most; /* of waiting green threads */
	int64_t cpu_least, cpu_most;     /* if v.has_cpu */
	uint32_t born_least, born_most;
	struct members member[MEMBERS_MOST];
	unsigned members;
	uint64_t more; /* members that are not listed in `member` */
};

struct dump_groups {
	uint32_t n;
	uint16_t slot[GROUP_SLOTS]; /* number of the group + 1; 0: free */
	struct dump_group of[GROUP_MOST];
};

/* Make g a group with one member. */
void dump_group_begin(struct dump_group *g, const struct snapshot *v, uint64_t hash);
/* Add v to its group, or to a new one. Returns false without room. */
bool dump_group_add(struct dump_groups *a, const struct snapshot *v);

/* Append `3 "alpha", 4, 6-302, and 12 more`, from entry `from` of `member` on, as far as the line
 * has room. Returns the number of entries. */
unsigned dump_group_members_sig(const struct dump_group *g, unsigned from, struct line *l);

uint64_t dump_group_hash_trace(const struct trace *t);

#endif
