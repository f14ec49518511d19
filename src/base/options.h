/* SPDX-License-Identifier: MIT */
/* Settings of the runtime, from gmp_config and the environment. Table: options.def; invariants:
 * options.c. */
#ifndef GMP_OPTIONS_H
#define GMP_OPTIONS_H

#include <gmp.h>

#include "base/base.h"

enum debug_bit {
#define DEBUG_WORD(word, help) DEBUG_BIT_##word,
#include "base/options.def"
#undef DEBUG_WORD
};

enum {
#define DEBUG_WORD(word, help) DEBUG_##word = 1u << DEBUG_BIT_##word,
#include "base/options.def"
#undef DEBUG_WORD
};

enum { STACK_SIZE_MIN = 16 << 10, STACK_SIZE_CHAOS = 64 << 10 };

struct options {
	gmp_config c;   /* complete: no field of the table is 0 */
	unsigned debug; /* DEBUG_<word> */
			/* the values of words; 0: not given */
#define DEBUG_WORD(word, help)
#define DEBUG_VALUE(word, min, max, help) uint64_t word;
#include "base/options.def"
#undef DEBUG_VALUE
#undef DEBUG_WORD
};

/*
 * Fill *out. A field that is 0 in *user (user NULL: all fields) comes from the environment,
 * otherwise from the table and the machine. Returns 0, -EINVAL, or -E2BIG if *user is of a newer
 * version and sets a field that this one does not have. On failure *why (unless why is NULL) has
 * the name of the setting, its value, and what it takes; the text is valid until the next call.
 */
int options_load(const gmp_config *user, struct options *out, const char **why);

/* Write all words of GMP_DEBUG to fd, one line each. */
void options_help(int fd);

#endif
