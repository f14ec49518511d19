/* SPDX-License-Identifier: MIT */
/* The part of unit/context.c for riscv64. */
#ifndef TESTS_UNIT_CONTEXT_RISCV64_H
#define TESTS_UNIT_CONTEXT_RISCV64_H

#include "context.h"

/* s0 to s11, fs0 to fs11 */
enum { SAVED = 24, ENTRY_SP = 0, RELOAD_SETS_FLAGS = 0 };

/* fcsr: the rounding mode (frm), and five sticky flags below. */
#define FRM(mode) (UINT64_C(mode) << 5)
#define WORDS_PLAIN FRM(0)
#define WORDS_STICKY UINT64_C(0x1f)
#define WORDS_DIVIDED UINT64_C(1)

static const uint64_t words_other[] = { FRM(3), FRM(1), FRM(2), FRM(4) };

static inline uint64_t cpu_words(void)
{
	uint64_t fcsr;

	__asm__ volatile("frcsr %0" : "=r"(fcsr));
	return fcsr;
}

static inline void set_cpu_words(uint64_t words)
{
	__asm__ volatile("fscsr %0" : : "r"(words));
}

static inline uint64_t packed(uint64_t words)
{
	return words >> 5;
}

static inline uint64_t frame_register(const struct context_frame *f, unsigned i)
{
	uint64_t value = 0;

	if (i < 12)
		return f->s[i];
	__builtin_memcpy(&value, &f->fs[i - 12], sizeof(value));
	return value;
}

static inline uint64_t frame_words(const struct context_frame *f)
{
	return f->frm;
}

__asm__(".text\n"
	"across:\n"
	"	addi sp, sp, -224\n"
	"	sd s0, 0(sp)\n	sd s1, 8(sp)\n	sd s2, 16(sp)\n"
	"	sd s3, 24(sp)\n	sd s4, 32(sp)\n	sd s5, 40(sp)\n"
	"	sd s6, 48(sp)\n	sd s7, 56(sp)\n	sd s8, 64(sp)\n"
	"	sd s9, 72(sp)\n	sd s10, 80(sp)\n	sd s11, 88(sp)\n"
	"	fsd fs0, 96(sp)\n	fsd fs1, 104(sp)\n	fsd fs2, 112(sp)\n"
	"	fsd fs3, 120(sp)\n	fsd fs4, 128(sp)\n	fsd fs5, 136(sp)\n"
	"	fsd fs6, 144(sp)\n	fsd fs7, 152(sp)\n	fsd fs8, 160(sp)\n"
	"	fsd fs9, 168(sp)\n	fsd fs10, 176(sp)\n	fsd fs11, 184(sp)\n"
	"	sd ra, 192(sp)\n	sd a4, 200(sp)\n"
	"	li s0, 0x1111 * 1\n	li s1, 0x1111 * 2\n	li s2, 0x1111 * 3\n"
	"	li s3, 0x1111 * 4\n	li s4, 0x1111 * 5\n	li s5, 0x1111 * 6\n"
	"	li s6, 0x1111 * 7\n	li s7, 0x1111 * 8\n	li s8, 0x1111 * 9\n"
	"	li s9, 0x1111 * 10\n	li s10, 0x1111 * 11\n	li s11, 0x1111 * 12\n"
	"	li t0, 0x1111 * 13\n	fmv.d.x fs0, t0\n"
	"	li t0, 0x1111 * 14\n	fmv.d.x fs1, t0\n"
	"	li t0, 0x1111 * 15\n	fmv.d.x fs2, t0\n"
	"	li t0, 0x1111 * 16\n	fmv.d.x fs3, t0\n"
	"	li t0, 0x1111 * 17\n	fmv.d.x fs4, t0\n"
	"	li t0, 0x1111 * 18\n	fmv.d.x fs5, t0\n"
	"	li t0, 0x1111 * 19\n	fmv.d.x fs6, t0\n"
	"	li t0, 0x1111 * 20\n	fmv.d.x fs7, t0\n"
	"	li t0, 0x1111 * 21\n	fmv.d.x fs8, t0\n"
	"	li t0, 0x1111 * 22\n	fmv.d.x fs9, t0\n"
	"	li t0, 0x1111 * 23\n	fmv.d.x fs10, t0\n"
	"	li t0, 0x1111 * 24\n	fmv.d.x fs11, t0\n"
	"	call gmp__mcall\n"
	"	ld ra, 192(sp)\n	ld a4, 200(sp)\n"
	"	sd s0, 0(a4)\n	sd s1, 8(a4)\n	sd s2, 16(a4)\n"
	"	sd s3, 24(a4)\n	sd s4, 32(a4)\n	sd s5, 40(a4)\n"
	"	sd s6, 48(a4)\n	sd s7, 56(a4)\n	sd s8, 64(a4)\n"
	"	sd s9, 72(a4)\n	sd s10, 80(a4)\n	sd s11, 88(a4)\n"
	"	fsd fs0, 96(a4)\n	fsd fs1, 104(a4)\n	fsd fs2, 112(a4)\n"
	"	fsd fs3, 120(a4)\n	fsd fs4, 128(a4)\n	fsd fs5, 136(a4)\n"
	"	fsd fs6, 144(a4)\n	fsd fs7, 152(a4)\n	fsd fs8, 160(a4)\n"
	"	fsd fs9, 168(a4)\n	fsd fs10, 176(a4)\n	fsd fs11, 184(a4)\n"
	"	ld s0, 0(sp)\n	ld s1, 8(sp)\n	ld s2, 16(sp)\n"
	"	ld s3, 24(sp)\n	ld s4, 32(sp)\n	ld s5, 40(sp)\n"
	"	ld s6, 48(sp)\n	ld s7, 56(sp)\n	ld s8, 64(sp)\n"
	"	ld s9, 72(sp)\n	ld s10, 80(sp)\n	ld s11, 88(sp)\n"
	"	fld fs0, 96(sp)\n	fld fs1, 104(sp)\n	fld fs2, 112(sp)\n"
	"	fld fs3, 120(sp)\n	fld fs4, 128(sp)\n	fld fs5, 136(sp)\n"
	"	fld fs6, 144(sp)\n	fld fs7, 152(sp)\n	fld fs8, 160(sp)\n"
	"	fld fs9, 168(sp)\n	fld fs10, 176(sp)\n	fld fs11, 184(sp)\n"
	"	addi sp, sp, 224\n	ret\n"
	"destroy:\n"
	"	li s0, -1\n	li s1, -1\n	li s2, -1\n"
	"	li s3, -1\n	li s4, -1\n	li s5, -1\n"
	"	li s6, -1\n	li s7, -1\n	li s8, -1\n"
	"	li s9, -1\n	li s10, -1\n	li s11, -1\n"
	"	li t0, -1\n"
	"	fmv.d.x fs0, t0\n	fmv.d.x fs1, t0\n	fmv.d.x fs2, t0\n"
	"	fmv.d.x fs3, t0\n	fmv.d.x fs4, t0\n	fmv.d.x fs5, t0\n"
	"	fmv.d.x fs6, t0\n	fmv.d.x fs7, t0\n	fmv.d.x fs8, t0\n"
	"	fmv.d.x fs9, t0\n	fmv.d.x fs10, t0\n	fmv.d.x fs11, t0\n"
	"	tail destroyed\n"
	"enter:\n"
	"	lla t0, enter_sp\n	sd sp, (t0)\n"
	"	lla t0, enter_return\n	sd ra, (t0)\n"
	"	lla t0, enter_fp\n	sd s0, (t0)\n"
	"	tail entered\n");

#endif
