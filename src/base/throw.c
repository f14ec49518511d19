/* SPDX-License-Identifier: MIT */
/*
 * Fatal errors: prints a message and a backtrace, and aborts.
 *
 * Invariants
 *   -        The message is one write, so that output of other threads does not split it.
 *   THROW-2  If several OS threads fail at once, the first prints and aborts; the others wait for
 *            the end of the process. A thread that fails again while it prints aborts at once.
 *   THROW-3  All steps fit on the rest of a small green stack: no output by stdio streams, no
 *            dlopen.
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

static int dying;            /* (a) id of the OS thread that prints its message; 0: none */
static describe_fn describe; /* (a) */

/* --- lines --- */

static void line_char(struct line *l, char c)
{
	if (l->n < sizeof(l->text))
		l->text[l->n++] = c;
	if (l->n == sizeof(l->text))
		l->text[l->n - 1] = '\n';
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

void line_add_sig(struct line *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	for (; *fmt != '\0'; fmt++) {
		if (*fmt != '%')
			line_char(l, *fmt);
		else if (*++fmt == 's')
			line_str_sig(l, va_arg(ap, const char *));
		else if (*fmt == 'u')
			line_number(l, va_arg(ap, unsigned), 10);
		else
			line_number(l, va_arg(ap, unsigned long), *++fmt == 'x' ? 16 : 10);
	}
	va_end(ap);
}

/* Append `f+0x2a`; `f` for the address of the function itself. */
static void line_name(struct line *l, const struct symbol *s)
{
	line_str_sig(l, s->name);
	if (s->exact && s->offset == 0)
		return;
	line_char(l, '+');
	line_hex_sig(l, s->offset);
}

/* Return the symbol at pc, or NULL if nothing is known. Uses room if the line has no cache. */
static const struct symbol *line_symbol(const struct line *l, uintptr_t pc, struct symbol *room)
{
	const struct symbol *s = room;

	if (l->names)
		return symcache_find_sig(l->names, pc, &s) ? s : NULL;
	return symtab_find_sig(pc, room) ? room : NULL;
}

void line_sym_sig(struct line *l, uintptr_t pc)
{
	struct symbol room;
	const struct symbol *s = line_symbol(l, pc, &room);

	if (s)
		line_name(l, s);
	else
		line_hex_sig(l, pc);
}

void line_green_sig(struct line *l, uint64_t id, const char *name, uintptr_t entry)
{
	line_add_sig(l, "green thread %lu \"%s\" (entry ", id, name);
	line_sym_sig(l, entry);
	line_char(l, ')');
}

void line_frame_sig(struct line *l, int number, uintptr_t pc)
{
	struct symbol room;
	const struct symbol *s = line_symbol(l, pc, &room);

	line_add_sig(l, "    #%u 0x%lx", (unsigned)number, pc);
	if (s) {
		line_char(l, ' ');
		line_name(l, s);
	}
	if (s && s->exact)
		line_add_sig(l, " (%s+0x%lx)", s->object, s->at);
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

void line_write_sig(struct line *l, int fd)
{
	text_write_sig(fd, l->text, l->n);
	l->n = 0;
}

/* --- backtraces --- */

/* THROW-3: the stack may have little space left. */
static noinline void print_trace(uintptr_t first)
{
	struct line l = { .n = 0 };
	struct trace t;

	trace_own(&t, first);
	for (int i = 0; i < t.n; i++) {
		line_frame_sig(&l, i, t.pc[i]);
		line_write_sig(&l, STDERR_FILENO);
	}
}

/* --- death --- */

void gmp__fatal_describe(describe_fn fn)
{
	st_rlx(&describe, fn);
}

/* THROW-2: returns only in the OS thread that prints. */
static void claim_death(void)
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

/* Return the bytes that snprintf wrote to a buffer of n bytes. */
static size_t written(int result, size_t n)
{
	return result < 0 ? 0 : min_of((size_t)result, n - 1);
}

/* Append what describe says of the green thread. Returns the new length of text. */
static size_t add_description(char *text, size_t n, size_t room)
{
	describe_fn fn = ld_rlx(&describe);

	if (fn == NULL || n >= room - 1)
		return n;
	size_t more = fn(text + n, room - n);

	return n + min_of(more, room - n);
}

/* Print the message and the backtrace from the frame that returns to `first`. */
static noinline void print_death(uintptr_t first, const char *fmt, va_list ap)
{
	static char text[1024], message[1024]; /* of the thread that prints (THROW-2) */
	size_t room = sizeof(text) - 1, n;

	claim_death();
	vsnprintf(message, sizeof(message), fmt, ap);
	char *remedy = strchr(message, '\n');

	if (remedy)
		*remedy++ = '\0';
	n = written(snprintf(text, room, "gmp: fatal: %s", message), room);
	n = add_description(text, n, room);
	if (remedy && n < room - 1)
		n += written(snprintf(text + n, room - n, "\n     %s", remedy), room - n);
	text[n++] = '\n';
	text_write_sig(STDERR_FILENO, text, n);
	print_trace(first);
}

noinline void gmp__dying(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_death(trace_caller(), fmt, ap);
	va_end(ap);
}

noinline void gmp__fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_death(trace_caller(), fmt, ap);
	va_end(ap);
	abort();
}
