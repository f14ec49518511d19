/* SPDX-License-Identifier: MIT */
/*
 * The frame with a false unwind table of machine/unwind.c, for aarch64 and the AAPCS64.
 *
 * While fn runs, x19 holds the saved sp.  The offsets below are those of the frame of mcall
 * (context_aarch64.S), counted from its upper end, 176 bytes above.  An unwinder finds the table of
 * a frame by the byte before the return address, so the rules change just before and just after the
 * call.
 */
#ifdef __ARM_FEATURE_BTI_DEFAULT
#define LANDING_PAD hint #34 /* bti c */
#else
#define LANDING_PAD
#endif

	.text

/* void gmp__call_above(void (*fn)(void *), void *arg, const void *sp) */
	.globl	gmp__call_above
	.hidden	gmp__call_above
	.type	gmp__call_above, %function
	.p2align 4
gmp__call_above:
	.cfi_startproc
	LANDING_PAD
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	str	x19, [sp, #16]
	.cfi_offset x19, -16
	mov	x29, sp
	mov	x9, x0
	mov	x0, x1
	mov	x19, x2
	.cfi_remember_state
	.cfi_def_cfa x19, 176
	.cfi_offset d8, -176
	.cfi_offset d9, -168
	.cfi_offset d10, -160
	.cfi_offset d11, -152
	.cfi_offset d12, -144
	.cfi_offset d13, -136
	.cfi_offset d14, -128
	.cfi_offset d15, -120
	.cfi_offset x19, -112
	.cfi_offset x20, -104
	.cfi_offset x21, -96
	.cfi_offset x22, -88
	.cfi_offset x23, -80
	.cfi_offset x24, -72
	.cfi_offset x25, -64
	.cfi_offset x26, -56
	.cfi_offset x27, -48
	.cfi_offset x28, -40
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	blr	x9
	.cfi_restore_state
	ldr	x19, [sp, #16]
	.cfi_restore x19
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	gmp__call_above, . - gmp__call_above

#ifdef __ARM_FEATURE_BTI_DEFAULT
	/* GNU property: BTI, all indirect branches arrive at a landing pad.  Not PAC: x30 is
	 * stored unsigned. */
	.section .note.gnu.property, "a", %note
	.p2align 3
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
#endif

	.section .note.GNU-stack, "", %progbits
