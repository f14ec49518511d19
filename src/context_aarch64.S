/* SPDX-License-Identifier: MIT */
/*
 * Context switch for aarch64 and the AAPCS64.  context.h has the contract of each entry point.
 *
 *   frame that mcall saves and gogo restores (struct context_frame; offsets from the saved sp):
 *     0 d8..d15  64 x19..x28  144 fpcr  160 x29  168 return pc (x30)
 *
 *   head of g0's stack (the 8 bytes below its top): fpcr, as mcall read it. No code on g0 changes
 *   it, so gogo and gstart do not read it from the CPU again.  A write to fpcr is expensive.
 *
 * Branch target identification: gogo leaves by `ret`, which needs no landing pad.  fn is reached by
 * `br x16` and by `blr`, which may land on the `bti c` that begins a function.  The entry points
 * begin with one, too, if the library is compiled so.
 *
 * Pointer authentication: the pc of the frame is not signed.  Compiled code signs x30 in its own
 * frame with the stack pointer, and a G is resumed on the same stack, so these signatures stay
 * valid; the keys belong to the process.  A signature of the pc alone would protect nothing: the
 * frame holds the other callee-saved registers, too, and unwinders and debuggers read it.
 *
 * There is no red zone: a signal handler may overwrite what is below sp.  So mcall lowers sp before
 * it stores, and once gogo has raised sp, its unwind table names registers only.
 */
#include "machine/asm_aarch64.h"

	.text

/* int gmp__mcall(struct context *save, int (*fn)(void *), void *arg, void *g0) */
	.globl	gmp__mcall
	.hidden	gmp__mcall
	.type	gmp__mcall, %function
	.p2align 5
gmp__mcall:
	.cfi_startproc
	LANDING_PAD
	stp	d8, d9, [sp, #-176]!
	.cfi_def_cfa_offset 176
	stp	d10, d11, [sp, #16]
	stp	d12, d13, [sp, #32]
	stp	d14, d15, [sp, #48]
	stp	x19, x20, [sp, #64]
	stp	x21, x22, [sp, #80]
	stp	x23, x24, [sp, #96]
	stp	x25, x26, [sp, #112]
	stp	x27, x28, [sp, #128]
	stp	x29, x30, [sp, #160]
	mrs	x9, fpcr
	mov	x10, sp
	str	x9, [sp, #144]
	str	x10, [x0]
	str	x9, [x3, #-8]
	/* The caller is saved.  On the other stack fn has no caller. */
	sub	sp, x3, #16
	.cfi_def_cfa sp, 16
	.cfi_undefined x30
	.cfi_undefined x29
	mov	x16, x1
	mov	x0, x2
	mov	x29, xzr
	mov	x30, xzr
	br	x16
	.cfi_endproc
	.size	gmp__mcall, . - gmp__mcall

/* int gmp__gogo(struct context *ctx, int result, void *g0) */
	.globl	gmp__gogo
	.hidden	gmp__gogo
	.type	gmp__gogo, %function
	.p2align 5
gmp__gogo:
	.cfi_startproc
	LANDING_PAD
	ldr	x9, [x0]
	CFI_FRAME x9
	ldr	x11, [x2, #-8]
	ldr	x10, [x9, #144]
	mov	w0, w1
	cmp	x10, x11
	b.ne	.Lgogo_reload
.Lgogo_same:
	ldp	d8, d9, [x9]
	ldp	d10, d11, [x9, #16]
	ldp	d12, d13, [x9, #32]
	ldp	d14, d15, [x9, #48]
	ldp	x19, x20, [x9, #64]
	ldp	x21, x22, [x9, #80]
	ldp	x23, x24, [x9, #96]
	ldp	x25, x26, [x9, #112]
	ldp	x27, x28, [x9, #128]
	ldp	x29, x30, [x9, #160]
	add	sp, x9, #176
	.cfi_def_cfa sp, 0
	CFI_REGISTERS
	ret
.Lgogo_reload:
	CFI_FRAME x9
	msr	fpcr, x10
	b	.Lgogo_same
	.cfi_endproc
	.size	gmp__gogo, . - gmp__gogo

/* int gmp__gstart(void *arg, int (*fn)(void *), void *stack, uint64_t fpwords, void *g0) */
	.globl	gmp__gstart
	.hidden	gmp__gstart
	.type	gmp__gstart, %function
	.p2align 5
gmp__gstart:
	.cfi_startproc
	/* reached by an exception that no frame above catches: machine/cxx.c */
	.cfi_personality 0x1b, gmp__leaves_entry
	.cfi_undefined x30
	.cfi_undefined x29
	LANDING_PAD
	mov	sp, x2
	ldr	x11, [x4, #-8]
	cmp	x3, x11
	b.ne	.Lgstart_reload
.Lgstart_same:
	mov	x29, xzr
	mov	x30, xzr
	blr	x1
	brk	#1
.Lgstart_reload:
	msr	fpcr, x3
	b	.Lgstart_same
	.cfi_endproc
	.size	gmp__gstart, . - gmp__gstart

	BTI_NOTE
	.section .note.GNU-stack, "", %progbits
