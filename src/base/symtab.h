/* SPDX-License-Identifier: MIT */
/*
 * What is the function at this address called?  Async-signal-safe: raw system calls only.
 *
 * /proc/self/maps says which object lies at the address; that object's ELF symbol table (.symtab,
 * else .dynsym) is mapped and searched.  Nothing is prepared at start, so nothing is kept.
 */
#ifndef GMP_SYMTAB_H
#define GMP_SYMTAB_H

#include "base/base.h"

struct symbol {
	char name[256];  /* the function's, else the object's base name, else "" */
	bool exact;      /* name is a function's */
	uint64_t offset; /* from the function's start, or the object's */
};

bool symtab_find_sig(uintptr_t pc, struct symbol *out);

#endif
