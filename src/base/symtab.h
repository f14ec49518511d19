/* SPDX-License-Identifier: MIT */
/*
 * Symbol lookup: names the function at a code address. Async-signal-safe: system calls only.
 *
 * /proc/self/maps gives the object at the address. The ELF symbol table of that object (.symtab,
 * otherwise .dynsym) is mapped and searched. Nothing is prepared at start, and nothing is kept.
 */
#ifndef GMP_SYMTAB_H
#define GMP_SYMTAB_H

#include "base/base.h"

struct symbol {
	char name[256];  /* of the function, otherwise base name of the object, otherwise "" */
	bool exact;      /* name is that of a function */
	uint64_t offset; /* from the start of the function, or of the object */
	char object[64]; /* base name of the object */
	uint64_t at;     /* address in the object, as addr2line takes it */
};

/* Look up the function at pc. Returns false if no object is mapped there. */
bool symtab_find_sig(uintptr_t pc, struct symbol *out);
/* The same for a thread-local: at byte `at` of the thread-locals of the object that is mapped at
 * `there`. */
bool symtab_find_local_sig(uintptr_t there, uint64_t at, struct symbol *out);

/*
 * Call fn for each thread-local of the object that is mapped at `there`, with its name, its offset
 * in the thread-locals of the object, and its size. Returns false if the object or its symbols
 * cannot be read.
 */
typedef void (*symtab_local_fn)(void *arg, const char *name, uint64_t at, uint64_t size);
bool symtab_each_local(uintptr_t there, symtab_local_fn fn, void *arg);

/* Cache for callers that look up the same few addresses repeatedly. All-zero bytes are an empty
 * cache. */
enum { SYMCACHE_SLOTS = 512 };

struct symcache {
	struct symcache_slot {
		uintptr_t pc;
		bool found;
		struct symbol symbol;
	} slot[SYMCACHE_SLOTS];
};

/* symtab_find_sig through the cache. *out is valid until the next call. */
bool symcache_find_sig(struct symcache *c, uintptr_t pc, const struct symbol **out);

#endif
