/* SPDX-License-Identifier: MIT */
/*
 * Fatal errors, and the builder of message lines.
 *
 * A fatal error writes `gmp: fatal: ...` and a backtrace to stderr, then raises SIGABRT. The
 * functions whose names end in _sig are async-signal-safe.
 */
#ifndef GMP_THROW_H
#define GMP_THROW_H

#include "base/base.h"

/*
 * Print the message and the backtrace of the caller, and abort. The first line of the message names
 * the object and the value; a second line, after '\n', says what to do. The green thread that runs,
 * if one does, is appended to the first line:
 *
 *   gmp: fatal: gmp_chan_free: 0x55d2 has been freed already (a channel) in green thread 1 "" (...)
 *        free an object once, ...
 */
void gmp__fatal(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The same without the abort: the caller ends the process. */
void gmp__dying(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Set by a higher floor: writes ` in green thread 17 "worker" (entry f)`, or nothing, to buf.
 * Returns the number of bytes. */
typedef size_t (*describe_fn)(char *buf, size_t n);
void gmp__fatal_describe(describe_fn fn);

struct symcache;

/* A message line. What does not fit in text is cut off; the text then ends with a newline. */
struct line {
	char text[512];
	size_t n;
	struct symcache *names; /* NULL: each symbol is looked up again */
};

/* Append to the line. */
void line_str_sig(struct line *l, const char *s);
void line_dec_sig(struct line *l, uint64_t v);
void line_hex_sig(struct line *l, uint64_t v);
/* As printf would: of the conversions %s, %u, %lu and %lx only. */
void line_add_sig(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The function at pc from the symbol table, otherwise object+offset, otherwise the address. */
void line_sym_sig(struct line *l, uintptr_t pc);
/* `green thread 17 "worker" (entry f)`: every diagnostic names a green thread like this. */
void line_green_sig(struct line *l, uint64_t id, const char *name, uintptr_t entry);
/* `    #3 0x5581 f+0x2a (prog+0x1581)`: a line of a backtrace. */
void line_frame_sig(struct line *l, int number, uintptr_t pc);

/* Write the line, which is empty afterwards. */
void line_write_sig(struct line *l, int fd);
/* Write all n bytes, or as many as fd accepts. */
void text_write_sig(int fd, const char *text, size_t n);

#define gmp_assert(cond)                                                                           \
	do {                                                                                       \
		if (unlikely(!(cond)))                                                             \
			gmp__fatal("%s:%d: assertion failed: %s\n"                                 \
				   "a fault of gmp, please report it",                             \
				   __FILE__, __LINE__, #cond);                                     \
	} while (0)

/* gmp_assert in debug builds; nothing otherwise. */
#ifdef GMP_DEBUG_CHECKS
#define gmp_debug_assert(cond) gmp_assert(cond)
#else
#define gmp_debug_assert(cond) ((void)sizeof(!(cond)))
#endif

#endif
