/* SPDX-License-Identifier: MIT */
/* Where the program's code of an abandoned G returns; variant/abandon.h has the protocol. */

	.text

/* An abandoned G returns here, instead of to the runtime: the stack pointer is aligned as the ABI
   requires at every instruction.  An unwinder finds the table of a frame by the byte before the
   return address, so an instruction that never runs precedes the entry. */
	.globl	gmp__abandoned_return
	.hidden	gmp__abandoned_return
	.type	gmp__abandoned_return, @function
	.p2align 5
	.cfi_startproc
	.cfi_undefined ra
	nop
gmp__abandoned_return:
	call	gmp__abandoned_end
	unimp
	.cfi_endproc
	.size	gmp__abandoned_return, . - gmp__abandoned_return

	.section .note.GNU-stack, "", @progbits
