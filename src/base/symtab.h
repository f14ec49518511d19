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
	char object[64]; /* the object's base name */
	uint64_t at;     /* the address in it, as addr2line takes it */
};

bool symtab_find_sig(uintptr_t pc, struct symbol *out);
/* The same for a thread-local: the one at this byte of those of the object that lies at `there`. */
bool symtab_find_local_sig(uintptr_t there, uint64_t at, struct symbol *out);

/*
 * Call fn for each thread-local of the object that lies at `there`: its name, its first byte among those of
 * the object, its size. False if the object or its symbols cannot be read.
 */
typedef void (*symtab_local_fn)(void *arg, const char *name, uint64_t at, uint64_t size);
bool symtab_each_local(uintptr_t there, symtab_local_fn fn, void *arg);

/* What was found before: for who asks for the same few addresses again and again.  Zero bytes are an
 * empty one. */
enum { SYMCACHE_SLOTS = 512 };

struct symcache {
	struct symcache_slot {
		uintptr_t pc;
		bool found;
		struct symbol symbol;
	} slot[SYMCACHE_SLOTS];
};

bool symcache_find_sig(struct symcache *c, uintptr_t pc, const struct symbol **out);

#endif
