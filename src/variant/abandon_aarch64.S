/* SPDX-License-Identifier: MIT */
/* Where the program's code of an abandoned G returns; variant/abandon.h has the protocol. */
#include "machine/asm_aarch64.h"

	.text

/* An abandoned G returns here, instead of to the runtime: the stack pointer is aligned.  It returns
   by `ret`, so this needs no landing pad.  Compiled code checks the signature of the address before
   (base/trace.c).  An unwinder finds the table of a frame by the byte before the return address, so
   an instruction that never runs precedes the entry. */
	.globl	gmp__abandoned_return
	.hidden	gmp__abandoned_return
	.type	gmp__abandoned_return, %function
	.p2align 5
	.cfi_startproc
	.cfi_undefined x30
	nop
gmp__abandoned_return:
	mov	x29, xzr
	bl	gmp__abandoned_end
	brk	#1
	.cfi_endproc
	.size	gmp__abandoned_return, . - gmp__abandoned_return

	BTI_NOTE
	.section .note.GNU-stack, "", %progbits
