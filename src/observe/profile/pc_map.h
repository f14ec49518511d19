/* SPDX-License-Identifier: MIT */
/*
 * Code map: function, file and line of code addresses, and the mappings that they lie in.
 *
 * For the thread of a profile (profile.h): it allocates, and reads files.
 */
#ifndef GMP_PC_MAP_H
#define GMP_PC_MAP_H

#include "base/base.h"

struct code_mapping {
	uint64_t start, limit, offset; /* addresses; byte of the file at start */
	char path[256];
	char build_id[41]; /* hexadecimal; "": none */
	bool lines;        /* the file and line of some address in it are known */
};

struct code_location {
	uintptr_t pc;
	int mapping;        /* index; -1: none */
	char function[256]; /* otherwise object+offset, otherwise "?" */
	char file[256];     /* "": not known */
	int line;           /* 0: not known */
};

struct pc_map {
	struct code_location *location; /* in order of pc, each pc once */
	size_t n;
	struct code_mapping *mapping; /* executable ones; that of the program is the first */
	size_t mappings, mapping_cap;
};

/* Fill c with the locations of pc[0..n-1]. Returns 0 or -ENOMEM; call pc_map_free in both cases. */
int pc_map_fill(struct pc_map *c, const uintptr_t *pc, size_t n);
void pc_map_free(struct pc_map *c);
/* Return the index of the location of pc, which pc_map_fill was given. */
size_t pc_map_find(const struct pc_map *c, uintptr_t pc);

#endif
