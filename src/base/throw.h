/* SPDX-License-Identifier: MIT */
/* How does the runtime die, and what does it say?  One line "gmp: fatal: ...", a backtrace, and
 * SIGABRT.  The functions ending in _sig may be called in a signal handler. */
#ifndef GMP_THROW_H
#define GMP_THROW_H

#include "base/base.h"

/* Print the line (with the green thread that runs, where one does), the backtrace; abort. */
void gmp__fatal(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The same for one whose caller sees to the end: it returns. */
void gmp__dying(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Set by a higher floor: writes ` in green thread 17 "worker" (entry f)` or nothing into buf. */
typedef size_t (*describe_fn)(char *buf, size_t n);
void gmp__fatal_describe(describe_fn fn);

/* The backtrace of the caller to fd, one frame a line. */
void gmp__backtrace(int fd);

/* A line builder that calls nothing: for signal handlers. */
struct symcache;

struct line {
	char text[512];
	size_t n;
	struct symcache *names; /* NULL: each name is looked up anew */
};
void line_str_sig(struct line *l, const char *s);
void line_dec_sig(struct line *l, uint64_t v);
void line_hex_sig(struct line *l, uint64_t v);
/* the name of the function at pc, from the symbol table, else object+offset, else the address */
void line_sym_sig(struct line *l, uintptr_t pc);
/* `green thread 17 "worker" (entry f)`: how every diagnostic names one */
void line_green_sig(struct line *l, uint64_t id, const char *name, uintptr_t entry);
/* `    #3 0x5581 f+0x2a (prog+0x1581)`: a line of a backtrace */
void line_frame_sig(struct line *l, int number, uintptr_t pc);
void line_write_sig(struct line *l, int fd);
/* All n bytes, or as many as can be written. */
void text_write_sig(int fd, const char *text, size_t n);

#define gmp_assert(cond)                                                                           \
	do {                                                                                       \
		if (unlikely(!(cond)))                                                             \
			gmp__fatal("%s:%d: assertion failed: %s", __FILE__, __LINE__, #cond);      \
	} while (0)

/* Checked in debug builds only. */
#ifdef GMP_DEBUG_CHECKS
#define gmp_debug_assert(cond) gmp_assert(cond)
#else
#define gmp_debug_assert(cond) ((void)sizeof(!(cond)))
#endif

#endif
