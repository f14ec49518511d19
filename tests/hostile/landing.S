/* SPDX-License-Identifier: MIT
 *
 * A library that scripts/check-landing must accept, and must refuse with -DPLANT_x (landing.sh). */

	.macro function name
	.globl \name
	.type \name, @function
\name:
	endbr64
	.endm

	.text
	function gmp__gogo
	mov 56(%rsi), %rcx
#ifdef PLANT_TRACKED
	jmp *%rcx
#elif defined(PLANT_RETURN)
	ret
#elif defined(PLANT_TWO)
	notrack jmp *%rdx
	notrack jmp *%rcx
#else
	notrack jmp *%rcx
#endif
	.size gmp__gogo, . - gmp__gogo

/* Two jumps by a table. */
	function by_table
	lea table(%rip), %rdx
	movslq (%rdx,%rax,4), %rax
	add %rdx, %rax
	notrack jmp *%rax
#ifdef PLANT_SECOND
	notrack jmp *%rcx
#endif
1:	movslq (%rdx,%rcx,4), %rcx
#ifdef PLANT_CHANGED
	mov %rsi, %rcx
#endif
#ifdef PLANT_NO_BASE
	add %rsi, %rcx
#else
	add %rdx, %rcx
#endif
#ifdef PLANT_REGISTER
	notrack jmp *%rsi
#else
	notrack jmp *%rcx
#endif
	.size by_table, . - by_table

	.type inner, @function
inner:
#ifndef PLANT_POINTER
	endbr64
#endif
	ret
	.size inner, . - inner

	.section .rodata
	.align 4
table:	.long 1b - table

	.section .data.rel.ro, "aw"
	.align 8
	.quad inner, 0, 0, inner

	.section .note.gnu.property, "a"
	.align 8
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000002, 4, 1, 0

	.section .note.GNU-stack, "", @progbits
