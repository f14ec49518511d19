/* SPDX-License-Identifier: MIT */
/* Backtrace of a thread that sleeps in the kernel: see machine/asleep.h. */
#include "machine/asleep.h"

#include <string.h>

#include "base/os.h"
#include "context.h"
#include "machine/calltarget.h"
#include "machine/unwind.h"

/* DEPTH_MOST: bytes of stack in use; a deeper stack is not copied.  GUESS_WORDS: the words above
 * the stack pointer that may be the guessed frame; a frame is seldom larger than 32 KiB.  TAIL:
 * zeroed address space behind the copy, for a frame that is too large after a wrong guess. */
enum { DEPTH_MOST = 256 << 10, DEAD_END = 2 * PAGE, GUESS_WORDS = 4096, TAIL = 1 << 20 };

struct asleep_state {
	uintptr_t sp, pc;
	uint64_t slices;
};

struct copy {
	uintptr_t dead_end; /* its middle */
	struct context_frame *frame;
	uintptr_t *words;
	size_t n;
};

/* ASLEEP-1: a thread that runs between the two reads has a new time slice afterwards. */
static bool state_read(struct asleep_state *at, int tid)
{
	at->slices = os_thread_slices(tid);
	return os_thread_entered_at(tid, &at->sp, &at->pc);
}

static bool state_is_same(const struct asleep_state *at, int tid)
{
	uintptr_t sp, pc;

	return os_thread_entered_at(tid, &sp, &pc) && sp == at->sp && pc == at->pc &&
	       os_thread_slices(tid) == at->slices;
}

static bool is_return_address(uintptr_t word)
{
	/* first the table of functions: most words are no code */
	return word >= PAGE && trace_function(word - 1) != word - 1 && call_ends_at(word);
}

/* ASLEEP-2 */
static void copy_relocate(const struct copy *c, uintptr_t sp)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->words[i] - sp < c->n * sizeof(uintptr_t))
			c->words[i] += (uintptr_t)c->words - sp;
		else if (!is_return_address(c->words[i]))
			c->words[i] = c->dead_end;
	}
}

static bool points_to_copy(const struct copy *c, uintptr_t word)
{
	return word - (uintptr_t)c->words < c->n * sizeof(uintptr_t);
}

static void copy_walk(const struct copy *c, struct trace *t, uintptr_t fp)
{
	struct context ctx = { .sp = c->frame };

	context_frame_set_fp(c->frame, fp);
	trace_parked(t, &ctx, (char *)c->frame, (char *)(c->words + c->n));
}

/* A guess: the frame pointer of the function `callee` points to words[i], so that is the caller's
 * frame pointer, and the word above is the return address, behind a call.  GUESS_GOOD: behind a
 * direct call of callee, or of a function that jumps to it; or behind an indirect call, and the
 * caller has a frame pointer, too.  GUESS_POOR: behind an indirect call. */
enum guess { GUESS_NONE, GUESS_POOR, GUESS_GOOD };

static enum guess guess_frame(const struct copy *c, size_t i, uintptr_t callee)
{
	uintptr_t saved = c->words[i], to = c->words[i + 1];
	bool framed = points_to_copy(c, saved) && saved > (uintptr_t)&c->words[i];

	if ((!framed && saved != c->dead_end) || to == c->dead_end || points_to_copy(c, to))
		return GUESS_NONE;
	uintptr_t target = call_target(to);

	if (target)
		return target == callee || jumps_to(target, callee) ? GUESS_GOOD : GUESS_NONE;
	return framed ? GUESS_GOOD : GUESS_POOR;
}

static bool has_frame_of(const struct trace *t, uintptr_t fn)
{
	for (int i = t->n - 1; i >= 0; i--)
		if (trace_function(t->pc[i]) == fn)
			return true;
	return false;
}

/* Walk on with a guess, if the first walk has ended before the entry function.  A poor guess must
 * lead to the entry function. */
static void copy_guess(const struct copy *c, struct trace *t, uintptr_t entry)
{
	size_t bytes = (size_t)t->n * sizeof(t->pc[0]);
	struct trace longer;

	if (t->n == 0 || t->more || has_frame_of(t, entry))
		return;
	uintptr_t last = trace_function(t->pc[t->n - 1]);

	for (size_t i = 0; i + 1 < c->n && i < GUESS_WORDS; i++) {
		enum guess guess = guess_frame(c, i, last);

		if (guess == GUESS_NONE)
			continue;
		copy_walk(c, &longer, (uintptr_t)&c->words[i]);
		if (longer.n > t->n && memcmp(longer.pc, t->pc, bytes) == 0 &&
		    longer.pc[t->n] == c->words[i + 1] - 1 &&
		    (guess == GUESS_GOOD || has_frame_of(&longer, entry))) {
			*t = longer;
			return;
		}
	}
}

/* Fill the memory at `at`: the dead end, the context_frame, the copied words. */
static void copy_begin(struct copy *c, char *at, const struct asleep_state *m, size_t n)
{
	uintptr_t *word = (uintptr_t *)at, end = (uintptr_t)at + DEAD_END / 2;

	c->dead_end = end;
	c->frame = (struct context_frame *)(at + DEAD_END);
	c->words = (uintptr_t *)(c->frame + 1);
	c->n = n;
	for (; (char *)word < (char *)c->words; word++)
		*word = end;
	c->frame->pc = m->pc;
}

int trace_asleep(struct trace *t, int tid, const char *lo, const char *hi, uintptr_t entry)
{
	struct asleep_state at;
	struct copy c;

	t->n = 0;
	t->more = t->in_handler = false;
	if (!state_read(&at, tid))
		return -1;
	size_t n = ((uintptr_t)hi - at.sp) / sizeof(uintptr_t);
	size_t bytes = DEAD_END + sizeof(struct context_frame) + n * sizeof(uintptr_t) + TAIL;

	if (at.sp % sizeof(uintptr_t) || at.sp < (uintptr_t)lo || at.sp >= (uintptr_t)hi ||
	    n > DEPTH_MOST / sizeof(uintptr_t))
		return 0;
	char *memory = os_reserve(bytes);

	if (!memory)
		return 0;
	copy_begin(&c, memory, &at, n);
	bool whole = os_peek(at.sp, c.words, n * sizeof(uintptr_t)) && state_is_same(&at, tid);
	int certain = -1;

	if (whole) {
		copy_relocate(&c, at.sp);
		copy_walk(&c, t, c.dead_end);
		certain = t->n;
		copy_guess(&c, t, entry);
		t->more = t->more || !has_frame_of(t, entry);
	}
	os_release(memory, bytes);
	return certain;
}
