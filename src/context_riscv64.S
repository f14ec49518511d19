/* SPDX-License-Identifier: MIT */
/*
 * Context switch for riscv64 and the ABI lp64d.  context.h has the contract of each entry point.
 *
 *   frame that mcall saves and gogo restores (struct context_frame; offsets from the saved sp):
 *     0 return pc   8 s0   16 s1 .. 96 s11   104 fs0 .. 192 fs11   200 rounding mode
 *
 *   head of g0's stack (the 8 bytes below its top): the rounding mode of the CPU (frm), as mcall
 *   read it.  No code on g0 changes it, so gogo and gstart do not read the CSR again.
 *
 * The sticky flags (fflags) share the register fcsr with frm.  frrm and fsrm access frm alone, so
 * the flags need no mask, and a write of frm does not change them.
 *
 * gogo jumps by t2.  A CPU predicts a jump through ra or t0 from its stack of return addresses,
 * which a switch makes wrong (CONTEXT-2).  A jump through t2 needs no landing pad (Zicfilp).
 *
 * The ABI has no red zone: a signal handler may overwrite all memory below sp.  So mcall lowers sp
 * before it stores, and the unwind table of gogo names no memory of the frame once sp is above it.
 */
#include "machine/asm_riscv64.h"

#ifndef __riscv_float_abi_double
#error "the switch saves the registers of the ABI lp64d"
#endif

	.text

	.set	FRAME_SIZE, 208
	.set	FRAME_FRM, 200

/* int gmp__mcall(struct context *save, int (*fn)(void *), void *arg, void *g0) */
	.globl	gmp__mcall
	.hidden	gmp__mcall
	.type	gmp__mcall, @function
	.p2align 5
gmp__mcall:
	.cfi_startproc
	addi	sp, sp, -FRAME_SIZE
	.cfi_def_cfa_offset FRAME_SIZE
	frrm	t3
	sd	ra, 0(sp)
	sd	s0, 8(sp)
	sd	s1, 16(sp)
	sd	s2, 24(sp)
	sd	s3, 32(sp)
	sd	s4, 40(sp)
	sd	s5, 48(sp)
	sd	s6, 56(sp)
	sd	s7, 64(sp)
	sd	s8, 72(sp)
	sd	s9, 80(sp)
	sd	s10, 88(sp)
	sd	s11, 96(sp)
	fsd	fs0, 104(sp)
	fsd	fs1, 112(sp)
	fsd	fs2, 120(sp)
	fsd	fs3, 128(sp)
	fsd	fs4, 136(sp)
	fsd	fs5, 144(sp)
	fsd	fs6, 152(sp)
	fsd	fs7, 160(sp)
	fsd	fs8, 168(sp)
	fsd	fs9, 176(sp)
	fsd	fs10, 184(sp)
	fsd	fs11, 192(sp)
	sd	t3, FRAME_FRM(sp)
	sd	t3, -8(a3)
	sd	sp, 0(a0)
	/* The caller is saved.  On the other stack fn has no caller: its return address is 0. */
	addi	sp, a3, -16
	.cfi_def_cfa sp, 0
	.cfi_undefined ra
	.cfi_undefined s0
	li	ra, 0
	li	s0, 0
	mv	a0, a2
	jr	a1
	.cfi_endproc
	.size	gmp__mcall, . - gmp__mcall

/* int gmp__gogo(struct context *ctx, int result, void *g0) */
	.globl	gmp__gogo
	.hidden	gmp__gogo
	.type	gmp__gogo, @function
	.p2align 5
gmp__gogo:
	.cfi_startproc
	ld	t1, 0(a0)
	CFI_FRAME t1
	ld	t4, FRAME_FRM(t1)
	mv	a0, a1
	ld	t2, 0(t1)
	ld	s0, 8(t1)
	ld	s1, 16(t1)
	ld	s2, 24(t1)
	ld	s3, 32(t1)
	ld	s4, 40(t1)
	ld	s5, 48(t1)
	ld	s6, 56(t1)
	ld	s7, 64(t1)
	ld	s8, 72(t1)
	ld	s9, 80(t1)
	ld	s10, 88(t1)
	ld	s11, 96(t1)
	fld	fs0, 104(t1)
	fld	fs1, 112(t1)
	fld	fs2, 120(t1)
	fld	fs3, 128(t1)
	fld	fs4, 136(t1)
	fld	fs5, 144(t1)
	fld	fs6, 152(t1)
	fld	fs7, 160(t1)
	fld	fs8, 168(t1)
	fld	fs9, 176(t1)
	fld	fs10, 184(t1)
	fld	fs11, 192(t1)
	ld	t3, -8(a2)
	bne	t3, t4, .Lreload_gogo
.Lsame_gogo:
	.cfi_remember_state
	addi	sp, t1, FRAME_SIZE
	.cfi_def_cfa sp, 0
	.cfi_register ra, t2
	CFI_REGISTERS
	jr	t2
	.cfi_restore_state
.Lreload_gogo:
	fsrm	t4
	j	.Lsame_gogo
	.cfi_endproc
	.size	gmp__gogo, . - gmp__gogo

/* int gmp__gstart(void *arg, int (*fn)(void *), void *stack, uint64_t fpwords, void *g0) */
	.globl	gmp__gstart
	.hidden	gmp__gstart
	.type	gmp__gstart, @function
	.p2align 5
gmp__gstart:
	.cfi_startproc
	/* reached by an exception that no frame above catches: machine/cxx.c */
	.cfi_personality 0x1b, gmp__leaves_entry
	.cfi_undefined ra
	.cfi_undefined s0
	mv	sp, a2
	ld	t3, -8(a4)
	bne	t3, a3, .Lreload_gstart
.Lsame_gstart:
	li	s0, 0
	jalr	a1
	unimp
.Lreload_gstart:
	fsrm	a3
	j	.Lsame_gstart
	.cfi_endproc
	.size	gmp__gstart, . - gmp__gstart

	.section .note.GNU-stack, "", @progbits
