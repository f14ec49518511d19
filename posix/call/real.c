/* SPDX-License-Identifier: MIT */
/* Looks up libc's own functions, and has the names by which the core calls them: see real.h. */
#include "posix/call/real.h"

#include <dlfcn.h>
#include <gmp.h>

#include "base/throw.h"

#define CALL(name) __typeof__(name) *gmp__real_##name;
#include "posix/call/calls.def"

/* gmp__libc_NAME jumps to libc's NAME with all registers as they are. */
#if defined(__x86_64__)
#define JUMP_TO(to) "endbr64\n\tjmp *" to "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP_TO(to) "bti c\n\tadrp x16, " to "\n\tldr x16, [x16, :lo12:" to "]\n\tbr x16\n"
#elif defined(__riscv)
#define JUMP_TO(to) "ld t1, " to "\n\tjr t1\n"
#endif

#define CALL(name)                                                                                 \
	__asm__(".text\n\t.globl gmp__libc_" #name "\n\t.hidden gmp__libc_" #name                  \
		"\n\t.type gmp__libc_" #name ", %function\ngmp__libc_" #name                       \
		":\n\t" JUMP_TO("gmp__real_" #name));
#include "posix/call/calls.def"

static const struct {
	const char *name, *version;
	void **at;
} calls[] = {
#define CALL(name) { #name, NULL, (void **)&gmp__real_##name },
#define CALL_V(name, version) { #name, version, (void **)&gmp__real_##name },
#include "posix/call/calls.def"
};

static void *look_up(void *libc, const char *name, const char *version)
{
#if defined(__x86_64__)
	if (version)
		return dlvsym(libc, name, version);
#endif
	(void)version;
	return dlsym(libc, name);
}

/* Returns NULL, or the first name that is not found. */
static const char *resolve_in(void *libc)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *to = libc ? look_up(libc, calls[i].name, calls[i].version) : NULL;

		if (!to)
			return calls[i].name;
		__atomic_store_n(calls[i].at, to, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* libc by its name: the library may come before or after libc in the search order. */
static void resolve_by_name(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const char *missing = resolve_in(libc);

	if (missing)
		gmp__fatal("libgmprt_posix: libc has no %s", missing);
	dlclose(libc);
}

/*
 * Before resolve_first: the caller may be the malloc of the program or of jemalloc, which locks a
 * mutex.  dlopen would call that malloc again; dlsym does not, if it finds the name.  A caller that
 * has entered a replacement finds this library before libc, so RTLD_NEXT is libc, or another
 * library that replaces the function: until resolve_first.
 */
noinline void gmp__real_resolve(void)
{
	if (resolve_in(RTLD_NEXT))
		resolve_by_name();
}

/* If libgmprt comes first, its runtime serves the program, and the replacements know of none of its
 * green threads. */
static void warn_of_order(void)
{
	struct line l = { .n = 0 };

	if (dlsym(RTLD_DEFAULT, "gmp_run") == (void *)gmp_run)
		return;
	line_str_sig(&l, "gmp: libgmprt comes before libgmprt_posix, which is without effect: "
			 "link with libgmprt_posix only, or first\n");
	line_write_sig(&l, STDERR_FILENO);
}

__attribute__((constructor(101))) static void resolve_first(void)
{
	resolve_by_name();
	warn_of_order();
}
