/* SPDX-License-Identifier: MIT */
/*
 * The frame with a false unwind table of machine/unwind.c, for riscv64 and the ABI lp64d.
 *
 * While fn runs, s1 holds the saved sp.  The offsets below are those of the frame of mcall
 * (context_riscv64.S), counted from its upper end, 208 bytes above.  An unwinder finds the table of
 * a frame by the byte before the return address, so the rules change just before and just after the
 * call.
 */
	.text

/* void gmp__call_above(void (*fn)(void *), void *arg, const void *sp) */
	.globl	gmp__call_above
	.hidden	gmp__call_above
	.type	gmp__call_above, @function
	.p2align 4
gmp__call_above:
	.cfi_startproc
	addi	sp, sp, -16
	.cfi_def_cfa_offset 16
	sd	ra, 8(sp)
	.cfi_offset ra, -8
	sd	s1, 0(sp)
	.cfi_offset s1, -16
	mv	t1, a0
	mv	a0, a1
	mv	s1, a2
	.cfi_def_cfa s1, 208
	.cfi_offset ra, -208
	.cfi_offset s0, -200
	.cfi_offset s1, -192
	.cfi_offset s2, -184
	.cfi_offset s3, -176
	.cfi_offset s4, -168
	.cfi_offset s5, -160
	.cfi_offset s6, -152
	.cfi_offset s7, -144
	.cfi_offset s8, -136
	.cfi_offset s9, -128
	.cfi_offset s10, -120
	.cfi_offset s11, -112
	.cfi_offset fs0, -104
	.cfi_offset fs1, -96
	.cfi_offset fs2, -88
	.cfi_offset fs3, -80
	.cfi_offset fs4, -72
	.cfi_offset fs5, -64
	.cfi_offset fs6, -56
	.cfi_offset fs7, -48
	.cfi_offset fs8, -40
	.cfi_offset fs9, -32
	.cfi_offset fs10, -24
	.cfi_offset fs11, -16
	jalr	t1
	.cfi_def_cfa sp, 16
	.cfi_offset ra, -8
	.cfi_offset s1, -16
	.cfi_restore s0
	.cfi_restore s2
	.cfi_restore s3
	.cfi_restore s4
	.cfi_restore s5
	.cfi_restore s6
	.cfi_restore s7
	.cfi_restore s8
	.cfi_restore s9
	.cfi_restore s10
	.cfi_restore s11
	.cfi_restore fs0
	.cfi_restore fs1
	.cfi_restore fs2
	.cfi_restore fs3
	.cfi_restore fs4
	.cfi_restore fs5
	.cfi_restore fs6
	.cfi_restore fs7
	.cfi_restore fs8
	.cfi_restore fs9
	.cfi_restore fs10
	.cfi_restore fs11
	ld	ra, 8(sp)
	.cfi_restore ra
	ld	s1, 0(sp)
	.cfi_restore s1
	addi	sp, sp, 16
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size	gmp__call_above, . - gmp__call_above

	.section .note.GNU-stack, "", @progbits
