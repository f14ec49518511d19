/* SPDX-License-Identifier: MIT */
/* Libraries that are loaded when they are first used, so that gmp runs without them. */
#ifndef GMP_DL_H
#define GMP_DL_H

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/base.h"

/* Returns a handle, or NULL; NULL in a static program, whose dlopen would load a second libc. */
static inline void *dl_load(const char *library)
{
	return getauxval(AT_BASE) ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Sets *to, a pointer to a function.  C has no cast from an object to a function. */
static inline bool dl_find(void *handle, const char *name, void *to)
{
	void *fn = dlsym(handle, name);

	memcpy(to, &fn, sizeof(fn));
	return fn != NULL;
}

#endif
