/* SPDX-License-Identifier: MIT */
/*
 * How does the runtime die, and what does it say?
 *
 * Invariants
 *  T1 The fatal line is one write, so that it stays whole among what others print.
 *  T2 Of several threads that die at once, the first prints and the others wait for the end; one
 *     that dies while it prints is gone at once.
 *  T3 Everything fits on the rest of a small green stack: no printf to a stream, no dlopen (which
 *     is why the unwinder is called directly, and not through backtrace()).
 */
#include "base/throw.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "base/atomic.h"
#include "base/os.h"
#include "base/symtab.h"

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

void line_sym_sig(struct line *l, uintptr_t pc)
{
	struct symbol s;

	if (!symtab_find_sig(pc, &s)) {
		line_hex_sig(l, pc);
		return;
	}
	line_str_sig(l, s.name);
	line_char(l, '+');
	line_hex_sig(l, s.offset);
}

static void write_all(int fd, const char *text, size_t n)
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
	write_all(fd, l->text, l->n);
	l->n = 0;
}

/* --- backtraces --- */

struct trace {
	int n;
	struct frame {
		uintptr_t ip; /* where the frame goes on */
		uintptr_t pc; /* an address inside the instruction that it is at */
	} frame[64];
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *ctx, void *arg)
{
	struct trace *t = arg;
	int at_insn = 0;
	uintptr_t ip = _Unwind_GetIPInfo(ctx, &at_insn);

	if (ip == 0 || t->n == (int)countof(t->frame))
		return _URC_END_OF_STACK;
	/* A return address may be the next function's first: a call of a noreturn function can be
	 * the last instruction of its own. */
	t->frame[t->n++] = (struct frame){ .ip = ip, .pc = at_insn ? ip : ip - 1 };
	return _URC_NO_REASON;
}

/* Print the frames from the one that goes on at `first`; all, where it is not found. */
static noinline void print_trace(int fd, uintptr_t first)
{
	struct trace t = { .n = 0 };
	int from = 0;

	_Unwind_Backtrace(add_frame, &t);
	while (from < t.n && t.frame[from].ip != first)
		from++;
	if (from == t.n)
		from = 0;
	for (int i = from; i < t.n; i++) {
		struct line l = { .n = 0 };

		line_str_sig(&l, "    #");
		line_dec_sig(&l, (uint64_t)(i - from));
		line_char(&l, ' ');
		line_hex_sig(&l, t.frame[i].pc);
		line_char(&l, ' ');
		line_sym_sig(&l, t.frame[i].pc);
		line_char(&l, '\n');
		line_write_sig(&l, fd);
	}
}

static uintptr_t code_address(void *return_address)
{
	return (uintptr_t)__builtin_extract_return_addr(return_address);
}

noinline void gmp__backtrace(int fd)
{
	print_trace(fd, code_address(__builtin_return_address(0)));
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

noinline void gmp__fatal(const char *fmt, ...)
{
	static char text[1024]; /* the dying thread's */
	size_t room = sizeof(text) - 1, n;
	describe_fn fn = ld_rlx(&describe);
	va_list ap;

	become_the_dying();
	n = written(snprintf(text, room, "gmp: fatal: "), room);
	va_start(ap, fmt);
	n += written(vsnprintf(text + n, room - n, fmt, ap), room - n);
	va_end(ap);
	if (fn != NULL && n < room - 1) {
		size_t more = fn(text + n, room - n);

		n += min_of(more, room - n);
	}
	text[n++] = '\n';
	write_all(STDERR_FILENO, text, n);
	print_trace(STDERR_FILENO, code_address(__builtin_return_address(0)));
	abort();
}
