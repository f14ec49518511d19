/* SPDX-License-Identifier: MIT */
/*
 * How does the runtime die, and what does it say?
 *
 * Invariants
 *  T1 The fatal line is one write, so that it stays whole among what others print.
 *  T2 Of several threads that die at once, the first prints and the others wait for the end; one
 *     that dies while it prints is gone at once.
 *  T3 Everything fits on the rest of a small green stack: no printf to a stream, no dlopen.
 */
#include "base/throw.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/os.h"
#include "base/symtab.h"
#include "base/trace.h"

static int dying;            /* (a) id of the thread that prints its last; 0: none */
static describe_fn describe; /* (a) */

/* --- lines --- */

static void line_char(struct line *l, char c)
{
	if (l->n < sizeof(l->text))
		l->text[l->n++] = c;
}

void line_str_sig(struct line *l, const char *s)
{
	while (*s != '\0')
		line_char(l, *s++);
}

static void line_number(struct line *l, uint64_t v, unsigned base)
{
	char digits[20];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v != 0);
	while (n > 0)
		line_char(l, digits[--n]);
}

void line_dec_sig(struct line *l, uint64_t v)
{
	line_number(l, v, 10);
}

void line_hex_sig(struct line *l, uint64_t v)
{
	line_str_sig(l, "0x");
	line_number(l, v, 16);
}

/* A function's own address has no offset. */
static void line_name(struct line *l, const struct symbol *s)
{
	line_str_sig(l, s->name);
	if (s->exact && s->offset == 0)
		return;
	line_char(l, '+');
	line_hex_sig(l, s->offset);
}

/* NULL where nothing is known; room serves where names are not kept. */
static const struct symbol *look_up(const struct line *l, uintptr_t pc, struct symbol *room)
{
	const struct symbol *s = room;

	if (l->names)
		return symcache_find_sig(l->names, pc, &s) ? s : NULL;
	return symtab_find_sig(pc, room) ? room : NULL;
}

void line_sym_sig(struct line *l, uintptr_t pc)
{
	struct symbol room;
	const struct symbol *s = look_up(l, pc, &room);

	if (s)
		line_name(l, s);
	else
		line_hex_sig(l, pc);
}

void line_green_sig(struct line *l, uint64_t id, const char *name, uintptr_t entry)
{
	line_str_sig(l, "green thread ");
	line_dec_sig(l, id);
	line_str_sig(l, " \"");
	line_str_sig(l, name);
	line_str_sig(l, "\" (entry ");
	line_sym_sig(l, entry);
	line_char(l, ')');
}

void line_frame_sig(struct line *l, int number, uintptr_t pc)
{
	struct symbol room;
	const struct symbol *s = look_up(l, pc, &room);

	line_str_sig(l, "    #");
	line_dec_sig(l, (uint64_t)number);
	line_char(l, ' ');
	line_hex_sig(l, pc);
	if (s) {
		line_char(l, ' ');
		line_name(l, s);
	}
	if (s && s->exact) {
		line_str_sig(l, " (");
		line_str_sig(l, s->object);
		line_char(l, '+');
		line_hex_sig(l, s->at);
		line_char(l, ')');
	}
	line_char(l, '\n');
}

void text_write_sig(int fd, const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, text, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		text += done;
		n -= (size_t)done;
	}
}

/* The line is empty afterwards.  One that was too long still ends its line. */
void line_write_sig(struct line *l, int fd)
{
	if (l->n == sizeof(l->text))
		l->text[l->n - 1] = '\n';
	text_write_sig(fd, l->text, l->n);
	l->n = 0;
}

/* --- backtraces --- */

/* On the stack of one who dies: there may be little left of it. */
static noinline void print_trace(int fd, uintptr_t first)
{
	struct line l = { .n = 0 };
	struct trace t;

	trace_own(&t, first);
	for (int i = 0; i < t.n; i++) {
		line_frame_sig(&l, i, t.pc[i]);
		line_write_sig(&l, fd);
	}
}

noinline void gmp__backtrace(int fd)
{
	print_trace(fd, trace_caller());
}

/* --- death --- */

void gmp__fatal_describe(describe_fn fn)
{
	st_rlx(&describe, fn);
}

/* Returns in the one thread that may print. */
static void become_the_dying(void)
{
	int me = os_thread_id();
	int first = 0;

	if (cas_rlx(&dying, &first, me))
		return;
	if (first == me)
		abort();
	for (;;)
		pause();
}

/* Bytes that snprintf has put into n, whatever it returned. */
static size_t written(int result, size_t n)
{
	return result < 0 ? 0 : min_of((size_t)result, n - 1);
}

/* The line and the backtrace. */
static noinline void say_last(uintptr_t first, const char *fmt, va_list ap)
{
	static char text[1024]; /* the dying thread's */
	size_t room = sizeof(text) - 1, n;
	describe_fn fn = ld_rlx(&describe);

	become_the_dying();
	n = written(snprintf(text, room, "gmp: fatal: "), room);
	n += written(vsnprintf(text + n, room - n, fmt, ap), room - n);
	if (fn != NULL && n < room - 1) {
		size_t more = fn(text + n, room - n);

		n += min_of(more, room - n);
	}
	text[n++] = '\n';
	text_write_sig(STDERR_FILENO, text, n);
	print_trace(STDERR_FILENO, first);
}

noinline void gmp__dying(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_last(trace_caller(), fmt, ap);
	va_end(ap);
}

noinline void gmp__fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_last(trace_caller(), fmt, ap);
	va_end(ap);
	abort();
}
