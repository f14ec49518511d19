/* SPDX-License-Identifier: MIT */
/* With which settings does the runtime start?  options.def is the table of them. */
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
	gmp_config c;   /* complete: no field that the table names is 0 */
	unsigned debug; /* DEBUG_<word> */
};

/*
 * What user leaves at 0, or everything for NULL, comes from the environment, then from the table
 * and the machine.  0; -EINVAL, or -E2BIG for a struct of a newer version that uses a field we do
 * not have; then *why (if why is not NULL) says which setting, and what it takes.
 */
int options_load(const gmp_config *user, struct options *out, const char **why);

/* Write every word of GMP_DEBUG to fd, with one line each. */
void options_help(int fd);

#endif
