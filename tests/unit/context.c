/* SPDX-License-Identifier: MIT */
/*
 * Tests that switching stacks preserves the registers and control words that the ABI promises, and
 * that functions are entered on a new stack as the ABI requires.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "context.h"

#include <fenv.h>
#include <xmmintrin.h>

#include "base/san.h"

/* AddressSanitizer does not see these switches, so functions that switch are not instrumented. */
#define PLAIN __attribute__((no_sanitize("address"))) noinline

enum { BYTES = 64 * 1024 };
enum { X87_PLAIN = 0x37f, X87_DOUBLE = 0x27f, MXCSR_PLAIN = 0x1f80, MXCSR_DOWN = 0x3f80 };
enum { STICKY = 0x3f };

static char g0_stack[BYTES] aligned_to(16), new_stack[BYTES] aligned_to(16);
static char *const g0 = g0_stack + BYTES, *const top = new_stack + BYTES;
static struct context home, other;

__attribute__((constructor)) static void register_stacks(void)
{
	san_stack_made(g0_stack, sizeof(g0_stack));
	san_stack_made(new_stack, sizeof(new_stack));
}

static uint32_t head_x87(void)
{
	uint32_t w;

	memcpy(&w, g0 - 8, 4);
	return w & 0xffff;
}

static uint32_t head_mxcsr(void)
{
	uint32_t w;

	memcpy(&w, g0 - 4, 4);
	return w;
}

static uint16_t x87(void)
{
	return (uint16_t)gmp__fpwords();
}

static uint32_t mxcsr(void)
{
	return (uint32_t)(gmp__fpwords() >> 32);
}

static void set_words(uint16_t cw, uint32_t csr)
{
	__asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(cw), "m"(csr));
}

/* Valgrind models neither the x87 precision nor the sticky flags. */
static void need_all_control_words(void)
{
	check_skip_on_valgrind("Valgrind does not keep all control words");
}

static uint64_t words(uint16_t cw, uint32_t csr)
{
	return (uint64_t)csr << 32 | cw;
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

/*
 * gmp__mcall with known values in all callee-saved registers; out receives their values after it.
 */
int across(struct context *save, int (*fn)(void *), void *arg, void *stack, uint64_t *out);
/*
 * fn for mcall and gstart: stores the stack pointer and the word at it, then jumps to entered(arg)
 */
int enter(void *arg);
extern uint64_t enter_sp, enter_return, enter_rbp;
uint64_t enter_sp, enter_return, enter_rbp;
/* overwrites the callee-saved registers, then jumps to destroyed(arg) */
int destroy(void *arg);
int entered(void *arg);
int destroyed(void *arg);

__asm__(".text\n"
	"across:\n"
	"	pushq %rbx\n	pushq %rbp\n	pushq %r12\n"
	"	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	pushq %r8\n"
	"	movq $0x1111, %rbx\n	movq $0x2222, %rbp\n	movq $0x3333, %r12\n"
	"	movq $0x4444, %r13\n	movq $0x5555, %r14\n	movq $0x6666, %r15\n"
	"	call gmp__mcall\n"
	"	popq %r8\n"
	"	movq %rbx, (%r8)\n	movq %rbp, 8(%r8)\n	movq %r12, 16(%r8)\n"
	"	movq %r13, 24(%r8)\n	movq %r14, 32(%r8)\n	movq %r15, 40(%r8)\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n"
	"	popq %r12\n	popq %rbp\n	popq %rbx\n"
	"	ret\n"
	"destroy:\n"
	"	movq $-1, %rbx\n	movq $-1, %rbp\n	movq $-1, %r12\n"
	"	movq $-1, %r13\n	movq $-1, %r14\n	movq $-1, %r15\n"
	"	jmp destroyed\n"
	"enter:\n"
	"	movq %rsp, enter_sp(%rip)\n"
	"	movq (%rsp), %rax\n"
	"	movq %rax, enter_return(%rip)\n"
	"	movq %rbp, enter_rbp(%rip)\n"
	"	jmp entered\n");

PLAIN __attribute__((used)) int destroyed(void *arg)
{
	(void)arg;
	return gmp__gogo(&home, 1, g0);
}

TEST(mcall_preserves_callee_saved_registers)
{
	uint64_t out[6] = { 0 };

	CHECK_EQ(across(&home, destroy, NULL, g0, out), 1);
	for (unsigned i = 0; i < 6; i++)
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
	uint64_t out[6];

	CHECK_EQ(across(&home, copy_frame, &f, g0, out), 1);
	CHECK_EQ(f.rbx, 0x1111);
	CHECK_EQ(f.rbp, 0x2222);
	CHECK_EQ(f.r12, 0x3333);
	CHECK_EQ(f.r13, 0x4444);
	CHECK_EQ(f.r14, 0x5555);
	CHECK_EQ(f.r15, 0x6666);
	CHECK_EQ(f.x87cw & 0xffff, x87());
	CHECK_EQ(f.mxcsr & ~STICKY, mxcsr() & ~STICKY);
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
	CHECK_EQ(enter_sp % 16, 8);
	CHECK(enter_sp < (uintptr_t)g0 - 8); /* the head of g0 is kept */
	CHECK(enter_sp > (uintptr_t)g0 - 64);
	CHECK_EQ(enter_return, 0); /* end of the stack for unwinders */
	CHECK_EQ(enter_rbp, 0);
}

TEST(gstart_entry_on_new_stack_follows_abi)
{
	int here;

	CHECK_EQ(gmp__mcall(&home, start_enter, &here, g0), 5);
	CHECK(got_arg == &here);
	CHECK_EQ(enter_sp % 16, 8);
	CHECK(enter_sp < (uintptr_t)top);
	CHECK(enter_sp > (uintptr_t)top - 64);
	CHECK_EQ(enter_rbp, 0);
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

static uint64_t noted[4];
static uint64_t begin_with, then_set;
static bool set_before_leaving; /* set then_set before leaving */

PLAIN static int note_and_leave(void *arg)
{
	(void)arg;
	noted[0] = gmp__fpwords();
	if (set_before_leaving)
		set_words((uint16_t)then_set, (uint32_t)(then_set >> 32));
	gmp__mcall(&other, to_home, NULL, g0);
	noted[1] = gmp__fpwords();
	gmp__mcall(&other, to_home, NULL, g0);
	return 0;
}

PLAIN static int start_noting(void *arg)
{
	return gmp__gstart(arg, note_and_leave, top, begin_with, g0);
}

PLAIN static int note_head(void *arg)
{
	(void)arg;
	noted[2] = words((uint16_t)head_x87(), head_mxcsr());
	return gmp__gogo(&home, 0, g0);
}

TEST(mcall_stores_control_words_at_head_of_g0)
{
	need_all_control_words();
	set_words(X87_DOUBLE, MXCSR_DOWN);
	gmp__mcall(&home, note_head, NULL, g0);
	CHECK_EQ(noted[2], words(X87_DOUBLE, MXCSR_DOWN));
	set_words(X87_PLAIN, MXCSR_PLAIN);
	gmp__mcall(&home, note_head, NULL, g0);
	CHECK_EQ(noted[2], words(X87_PLAIN, MXCSR_PLAIN));
}

TEST(gstart_sets_given_control_words)
{
	need_all_control_words();
	begin_with = words(X87_DOUBLE, MXCSR_DOWN);
	set_words(X87_PLAIN, MXCSR_PLAIN);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint64_t after = gmp__fpwords();

	set_words(X87_PLAIN, MXCSR_PLAIN);
	CHECK_EQ(noted[0], words(X87_DOUBLE, MXCSR_DOWN));
	CHECK_EQ(after & ~((uint64_t)STICKY << 32), words(X87_PLAIN, MXCSR_PLAIN));
}

/* Each stack finds its own control words after a switch; each word alone and both. */
static void check_restored(uint16_t cw, uint32_t csr)
{
	uint64_t mask = ~((uint64_t)STICKY << 32), after;

	begin_with = words(X87_PLAIN, MXCSR_PLAIN);
	then_set = words(cw, csr);
	set_before_leaving = true;
	set_words(X87_PLAIN, MXCSR_PLAIN);
	gmp__mcall(&home, start_noting, NULL, g0);
	after = gmp__fpwords();
	gmp__mcall(&home, to_other, NULL, g0);
	set_words(X87_PLAIN, MXCSR_PLAIN);
	CHECK_EQ(after & mask, words(X87_PLAIN, MXCSR_PLAIN));
	CHECK_EQ(noted[1] & mask, words(cw, csr));
}

TEST(gogo_restores_control_words_of_each_stack)
{
	need_all_control_words();
	check_restored(X87_DOUBLE, MXCSR_PLAIN);
	check_restored(X87_PLAIN, MXCSR_DOWN);
	check_restored(X87_DOUBLE, MXCSR_DOWN);
	check_restored(X87_PLAIN, MXCSR_PLAIN | 0x8000); /* flush to zero: the highest bit */
	check_restored(X87_PLAIN, MXCSR_PLAIN | 0x40);   /* denormals are zero: the lowest */
}

TEST(gogo_does_not_restore_sticky_flags_alone)
{
	need_all_control_words();
	begin_with = words(X87_PLAIN, MXCSR_PLAIN);
	then_set = words(X87_PLAIN, MXCSR_PLAIN | 0x21); /* as after an inexact division */
	set_before_leaving = true;
	set_words(X87_PLAIN, MXCSR_PLAIN);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint32_t after = mxcsr();

	set_words(X87_PLAIN, MXCSR_PLAIN);
	CHECK_EQ(after, MXCSR_PLAIN | 0x21); /* the flags of the other stack stay set */
}

TEST(gstart_does_not_set_sticky_flags_alone)
{
	need_all_control_words();
	begin_with = words(X87_PLAIN, MXCSR_PLAIN);
	set_words(X87_PLAIN, MXCSR_PLAIN | 0x3f);
	gmp__mcall(&home, start_noting, NULL, g0);
	uint32_t after = mxcsr();

	set_words(X87_PLAIN, MXCSR_PLAIN);
	CHECK_EQ(noted[0] >> 32, MXCSR_PLAIN | 0x3f);
	CHECK_EQ(after, MXCSR_PLAIN | 0x3f);
}

/* CONTEXT-3: gogo compares with the head of g0, not with the CPU. */
PLAIN static int set_wrong_head(void *arg)
{
	uint32_t w = MXCSR_DOWN;

	(void)arg;
	memcpy(g0 - 4, &w, 4);
	__builtin_ia32_ldmxcsr(MXCSR_PLAIN | 0x21);
	return gmp__gogo(&home, 0, g0);
}

PLAIN static int change_unseen(void *arg)
{
	(void)arg;
	__builtin_ia32_ldmxcsr(MXCSR_DOWN);
	return gmp__gogo(&home, 0, g0);
}

TEST(gogo_compares_with_head_of_g0_not_with_cpu)
{
	uint32_t after;

	set_words(X87_PLAIN, MXCSR_PLAIN);
	gmp__mcall(&home, set_wrong_head, NULL, g0);
	after = mxcsr();
	CHECK_EQ(after, MXCSR_PLAIN); /* reloaded, with its flags */
	gmp__mcall(&home, change_unseen, NULL, g0);
	after = mxcsr();
	set_words(X87_PLAIN, MXCSR_PLAIN);
	CHECK_EQ(after, MXCSR_DOWN);
}

TEST(fpwords_packs_control_words_of_cpu)
{
	set_words(0xb7f, 0x5f80); /* both round upwards */
	uint64_t up = gmp__fpwords();

	set_words(X87_PLAIN, MXCSR_PLAIN);
	CHECK_EQ(up, words(0xb7f, 0x5f80));
	CHECK_EQ(gmp__fpwords(), words(X87_PLAIN, MXCSR_PLAIN));
}
