/* SPDX-License-Identifier: MIT */
/*
 * Tests that switching stacks preserves the registers and control words that the ABI promises, and
 * that functions are entered on a new stack as the ABI requires.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "context.h"

#include <fenv.h>

#include "base/san.h"

/*
 * The machine's part, in context_<arch>.h.  Control words have two forms: the complete one of the
 * CPU, with the sticky flags, and the packed one of gmp__fpwords.
 *
 *   cpu_words(), set_cpu_words()  the complete words of this thread
 *   packed()                      a complete word in packed form
 *   WORDS_PLAIN                   complete words without flags, as a process begins with them
 *   WORDS_STICKY                  mask of the sticky flags
 *   WORDS_DIVIDED                 the flags after an inexact division
 *   words_other[]                 other values: each part that a switch compares, alone and with
 *                                 others; the first differs in all
 *   RELOAD_SETS_FLAGS             a switch that loads the words loads the sticky flags, too
 *   SAVED, frame_register()       the callee-saved registers except sp, and register i of a frame
 *   frame_words()                 the control words of a frame, packed
 *   ENTRY_SP                      sp modulo 16 when a function begins
 */
#if defined(__x86_64__)
#include "context_x86_64.h"
#elif defined(__aarch64__)
#include "context_aarch64.h"
#elif defined(__riscv)
#include "context_riscv64.h"
#endif

/* AddressSanitizer does not see these switches, so functions that switch are not instrumented. */
#define PLAIN __attribute__((no_sanitize("address"))) noinline

enum { BYTES = 64 * 1024 };

static char g0_stack[BYTES] aligned_to(16), new_stack[BYTES] aligned_to(16);
static char *const g0 = g0_stack + BYTES, *const top = new_stack + BYTES;
static struct context home, other;

__attribute__((constructor)) static void register_stacks(void)
{
	san_stack_made(g0_stack, sizeof(g0_stack));
	san_stack_made(new_stack, sizeof(new_stack));
}

/* Valgrind models neither the x87 precision nor the sticky flags. */
static void need_all_control_words(void)
{
	check_skip_on_valgrind("Valgrind does not keep all control words");
}

/* --- there and back --- */

static int calls;
static void *got_arg;

PLAIN static int resume_home(void *arg)
{
	calls++;
	got_arg = arg;
	return gmp__gogo(&home, 42, g0);
}

TEST(mcall_returns_value_given_to_gogo)
{
	int here = 7;

	CHECK_EQ(gmp__mcall(&home, resume_home, &here, g0), 42);
	CHECK_EQ(calls, 1);
	CHECK(got_arg == &here);
	CHECK_EQ(here, 7);
}

PLAIN static int resume_home_negative(void *arg)
{
	(void)arg;
	return gmp__gogo(&home, -110, g0);
}

TEST(mcall_returns_negative_value)
{
	CHECK_EQ(gmp__mcall(&home, resume_home_negative, NULL, g0), -110);
}

TEST(mcall_1000_switches_return)
{
	for (int i = 1; i <= 1000; i++) {
		CHECK_EQ(gmp__mcall(&home, resume_home, NULL, g0), 42);
		CHECK_EQ(calls, i);
	}
}

/* context_<arch>.h has these three. */

/* gmp__mcall with the value 0x1111 * (i + 1) in callee-saved register i; out receives their values
 * after it. */
int across(struct context *save, int (*fn)(void *), void *arg, void *stack, uint64_t *out);
/* fn for mcall and gstart: stores the stack pointer, the return address and the frame pointer, then
 * jumps to entered(arg). */
int enter(void *arg);
uint64_t enter_sp, enter_return, enter_fp;
/* overwrites the callee-saved registers, then jumps to destroyed(arg) */
int destroy(void *arg);
int entered(void *arg);
int destroyed(void *arg);

PLAIN __attribute__((used)) int destroyed(void *arg)
{
	(void)arg;
	return gmp__gogo(&home, 1, g0);
}

TEST(mcall_preserves_callee_saved_registers)
{
	uint64_t out[SAVED] = { 0 };

	CHECK_EQ(across(&home, destroy, NULL, g0, out), 1);
	for (unsigned i = 0; i < SAVED; i++)
		CHECK_EQ(out[i], 0x1111 * (i + 1));
}

PLAIN static int copy_frame(void *arg)
{
	memcpy(arg, home.sp, sizeof(struct context_frame));
	return gmp__gogo(&home, 1, g0);
}

TEST(mcall_frame_matches_struct_context_frame)
{
	struct context_frame f;
	uint64_t out[SAVED];

	CHECK_EQ(across(&home, copy_frame, &f, g0, out), 1);
	for (unsigned i = 0; i < SAVED; i++)
		CHECK_EQ(frame_register(&f, i), 0x1111 * (i + 1));
	CHECK_EQ(frame_words(&f) & ~packed(WORDS_STICKY), packed(cpu_words() & ~WORDS_STICKY));
	CHECK(f.pc != 0);
}

/* --- how functions begin --- */

PLAIN __attribute__((used)) int entered(void *arg)
{
	got_arg = arg;
	return gmp__gogo(&home, 5, g0);
}

PLAIN static int start_enter(void *arg)
{
	return gmp__gstart(arg, enter, top, gmp__fpwords(), g0);
}

TEST(mcall_entry_on_g0_follows_abi)
{
	int here;

	CHECK_EQ(gmp__mcall(&home, enter, &here, g0), 5);
	CHECK(got_arg == &here);
	CHECK_EQ(enter_sp % 16, ENTRY_SP);
	CHECK(enter_sp < (uintptr_t)g0 - 8); /* the head of g0 is kept */
	CHECK(enter_sp > (uintptr_t)g0 - 64);
	CHECK_EQ(enter_return, 0); /* end of the stack for unwinders */
	CHECK_EQ(enter_fp, 0);
}

TEST(gstart_entry_on_new_stack_follows_abi)
{
	int here;

	CHECK_EQ(gmp__mcall(&home, start_enter, &here, g0), 5);
	CHECK(got_arg == &here);
	CHECK_EQ(enter_sp % 16, ENTRY_SP);
	CHECK(enter_sp <= (uintptr_t)top);
	CHECK(enter_sp > (uintptr_t)top - 64);
	CHECK_EQ(enter_fp, 0);
}

/* Two stacks alternate: green runs on the new one, and is left and resumed. */
static int switches;

PLAIN static int to_home(void *arg)
{
	(void)arg;
	return gmp__gogo(&home, switches, g0);
}

PLAIN static int to_other(void *arg)
{
	(void)arg;
	return gmp__gogo(&other, switches, g0);
}

PLAIN static int green(void *arg)
{
	volatile int mine = 0;

	(void)arg;
	do {
		mine++;
		switches++;
	} while (gmp__mcall(&other, to_home, NULL, g0) == mine);
	check_failed("resumed with another result");
}

PLAIN static int start_green(void *arg)
{
	return gmp__gstart(arg, green, top, gmp__fpwords(), g0);
}

TEST(mcall_two_stacks_alternate)
{
	CHECK_EQ(gmp__mcall(&home, start_green, NULL, g0), 1);
	for (int i = 2; i <= 1000; i++)
		CHECK_EQ(gmp__mcall(&home, to_other, NULL, g0), i);
}

/* --- control words --- */

static uint64_t noted[3];
static uint64_t begin_with, then_set; /* complete words */
static bool set_before_leaving;       /* set then_set before leaving */

PLAIN static int note_and_leave(void *arg)
{
	(void)arg;
	noted[0] = cpu_words();
	if (set_before_leaving)
		set_cpu_words(then_set);
	gmp__mcall(&other, to_home, NULL, g0);
	noted[1] = cpu_words();
	gmp__mcall(&other, to_home, NULL, g0);
	return 0;
}

PLAIN static int start_noting(void *arg)
{
	return gmp__gstart(arg, note_and_leave, top, packed(begin_with), g0);
}

PLAIN static int note_head(void *arg)
{
	(void)arg;
	memcpy(&noted[2], g0 - G0_HEAD, sizeof(noted[2]));
	return gmp__gogo(&home, 0, g0);
}

TEST(mcall_stores_control_words_at_head_of_g0)
{
	need_all_control_words();
	set_cpu_words(words_other[0]);
	gmp__mcall(&home, note_head, NULL, g0);
	CHECK_EQ(noted[2], packed(words_other[0]));
	set_cpu_words(WORDS_PLAIN);
	gmp__mcall(&home, note_head, NULL, g0);
	CHECK_EQ(noted[2], packed(WORDS_PLAIN));
}

TEST(gstart_sets_given_control_words)
{
	need_all_control_words();
	begin_with = words_other[0];
	set_cpu_words(WORDS_PLAIN);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint64_t after = cpu_words();

	set_cpu_words(WORDS_PLAIN);
	CHECK_EQ(noted[0] & ~WORDS_STICKY, words_other[0]);
	CHECK_EQ(after & ~WORDS_STICKY, WORDS_PLAIN);
}

/* Each stack finds its own control words after a switch. */
static void check_restored(uint64_t words)
{
	begin_with = WORDS_PLAIN;
	then_set = words;
	set_before_leaving = true;
	set_cpu_words(WORDS_PLAIN);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint64_t after = cpu_words();

	gmp__mcall(&home, to_other, NULL, g0);
	set_cpu_words(WORDS_PLAIN);
	CHECK_EQ(after & ~WORDS_STICKY, WORDS_PLAIN);
	CHECK_EQ(noted[1] & ~WORDS_STICKY, words);
}

TEST(gogo_restores_control_words_of_each_stack)
{
	need_all_control_words();
	for (unsigned i = 0; i < countof(words_other); i++)
		check_restored(words_other[i]);
}

TEST(gogo_does_not_restore_sticky_flags_alone)
{
	need_all_control_words();
	begin_with = WORDS_PLAIN;
	then_set = WORDS_PLAIN | WORDS_DIVIDED;
	set_before_leaving = true;
	set_cpu_words(WORDS_PLAIN);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint64_t after = cpu_words();

	set_cpu_words(WORDS_PLAIN);
	CHECK_EQ(after, WORDS_PLAIN | WORDS_DIVIDED); /* the flags of the other stack stay set */
}

TEST(gstart_does_not_set_sticky_flags_alone)
{
	need_all_control_words();
	begin_with = WORDS_PLAIN;
	set_cpu_words(WORDS_PLAIN | WORDS_STICKY);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint64_t after = cpu_words();

	set_cpu_words(WORDS_PLAIN);
	CHECK_EQ(noted[0], WORDS_PLAIN | WORDS_STICKY);
	CHECK_EQ(after, WORDS_PLAIN | WORDS_STICKY);
}

/* CONTEXT-3: gogo compares with the head of g0, not with the CPU. */
PLAIN static int set_wrong_head(void *arg)
{
	uint64_t w = packed(words_other[0]);

	(void)arg;
	memcpy(g0 - G0_HEAD, &w, sizeof(w));
	set_cpu_words(WORDS_PLAIN | WORDS_DIVIDED);
	return gmp__gogo(&home, 0, g0);
}

PLAIN static int change_unseen(void *arg)
{
	(void)arg;
	set_cpu_words(words_other[0]);
	return gmp__gogo(&home, 0, g0);
}

TEST(gogo_compares_with_head_of_g0_not_with_cpu)
{
	uint64_t after;

	need_all_control_words();
	set_cpu_words(WORDS_PLAIN);
	gmp__mcall(&home, set_wrong_head, NULL, g0);
	after = cpu_words();
	CHECK_EQ(after, WORDS_PLAIN | (RELOAD_SETS_FLAGS ? 0 : WORDS_DIVIDED));
	set_cpu_words(WORDS_PLAIN);
	gmp__mcall(&home, change_unseen, NULL, g0);
	after = cpu_words();
	set_cpu_words(WORDS_PLAIN);
	CHECK_EQ(after, words_other[0]);
}

TEST(fpwords_packs_control_words_of_cpu)
{
	for (unsigned i = 0; i < countof(words_other); i++) {
		set_cpu_words(words_other[i]);
		uint64_t now = gmp__fpwords();

		set_cpu_words(WORDS_PLAIN);
		CHECK_EQ(now, packed(words_other[i]));
	}
	CHECK_EQ(gmp__fpwords(), packed(WORDS_PLAIN));
}
