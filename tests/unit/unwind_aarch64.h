/* SPDX-License-Identifier: MIT */
/* The part of unit/unwind.c for aarch64, which has no trap flag for single steps. */
#ifndef TESTS_UNIT_UNWIND_AARCH64_H
#define TESTS_UNIT_UNWIND_AARCH64_H

/* x19 to x29, d8 to d15 */
static const int saved[] = { 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
			     29, 72, 73, 74, 75, 76, 77, 78, 79 };

enum { ENTRY_FRAME = 0 };

/* The table of addresses that position-independent code uses has no entry for a local label. */
__asm__(".text\n"
	".globl leave\n"
	".hidden leave\n"
	".type leave, %function\n"
	"leave:\n"
	"	.cfi_startproc\n"
	"	sub sp, sp, #176\n	.cfi_def_cfa_offset 176\n"
	"	stp x19, x20, [sp, #0]\n	.cfi_offset x19, -176\n	.cfi_offset x20, -168\n"
	"	stp x21, x22, [sp, #16]\n	.cfi_offset x21, -160\n	.cfi_offset x22, -152\n"
	"	stp x23, x24, [sp, #32]\n	.cfi_offset x23, -144\n	.cfi_offset x24, -136\n"
	"	stp x25, x26, [sp, #48]\n	.cfi_offset x25, -128\n	.cfi_offset x26, -120\n"
	"	stp x27, x28, [sp, #64]\n	.cfi_offset x27, -112\n	.cfi_offset x28, -104\n"
	"	stp x29, x30, [sp, #80]\n	.cfi_offset x29, -96\n	.cfi_offset x30, -88\n"
	"	stp d8, d9, [sp, #96]\n	.cfi_offset d8, -80\n	.cfi_offset d9, -72\n"
	"	stp d10, d11, [sp, #112]\n	.cfi_offset d10, -64\n	.cfi_offset d11, -56\n"
	"	stp d12, d13, [sp, #128]\n	.cfi_offset d12, -48\n	.cfi_offset d13, -40\n"
	"	stp d14, d15, [sp, #144]\n	.cfi_offset d14, -32\n	.cfi_offset d15, -24\n"
	"	mov x19, #0x1111 * 1\n	mov x20, #0x1111 * 2\n	mov x21, #0x1111 * 3\n"
	"	mov x22, #0x1111 * 4\n	mov x23, #0x1111 * 5\n	mov x24, #0x1111 * 6\n"
	"	mov x25, #0x1111 * 7\n	mov x26, #0x1111 * 8\n	mov x27, #0x1111 * 9\n"
	"	mov x28, #0x1111 * 10\n	mov x29, #0x1111 * 11\n"
	"	mov w9, #0xcccc\n	fmov d8, x9\n	mov w9, #0xdddd\n	fmov d9, x9\n"
	"	mov w9, #0xeeee\n	fmov d10, x9\n	mov w9, #0xffff\n	fmov d11, x9\n"
	"	ldr w9, =0x11110\n	fmov d12, x9\n	ldr w9, =0x12221\n	fmov d13, x9\n"
	"	ldr w9, =0x13332\n	fmov d14, x9\n	ldr w9, =0x14443\n	fmov d15, x9\n"
	"	bl gmp__mcall\n"
	"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #176\n	.cfi_def_cfa_offset 0\n	ret\n"
	"	.cfi_endproc\n"
	".ltorg\n"
	".size leave, . - leave\n");

__asm__(".text\n"
	".globl keep\n"
	".hidden keep\n"
	"keep:\n"
	"	sub sp, sp, #176\n"
	"	stp x19, x20, [sp]\n	stp x21, x22, [sp, #16]\n"
	"	stp x23, x24, [sp, #32]\n	stp x25, x26, [sp, #48]\n"
	"	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n	stp d14, d15, [sp, #144]\n"
	"	str x3, [sp, #160]\n"
	"	mov x19, #0x1111 * 1\n	mov x20, #0x1111 * 2\n	mov x21, #0x1111 * 3\n"
	"	mov x22, #0x1111 * 4\n	mov x23, #0x1111 * 5\n	mov x24, #0x1111 * 6\n"
	"	mov x25, #0x1111 * 7\n	mov x26, #0x1111 * 8\n	mov x27, #0x1111 * 9\n"
	"	mov x28, #0x1111 * 10\n	mov x29, #0x1111 * 11\n"
	"	mov w9, #0xcccc\n	fmov d8, x9\n	mov w9, #0xdddd\n	fmov d9, x9\n"
	"	mov w9, #0xeeee\n	fmov d10, x9\n	mov w9, #0xffff\n	fmov d11, x9\n"
	"	ldr w9, =0x11110\n	fmov d12, x9\n	ldr w9, =0x12221\n	fmov d13, x9\n"
	"	ldr w9, =0x13332\n	fmov d14, x9\n	ldr w9, =0x14443\n	fmov d15, x9\n"
	"	bl gmp__call_above\n"
	"	ldr x9, [sp, #160]\n"
	"	stp x19, x20, [x9]\n	stp x21, x22, [x9, #16]\n"
	"	stp x23, x24, [x9, #32]\n	stp x25, x26, [x9, #48]\n"
	"	stp x27, x28, [x9, #64]\n	str x29, [x9, #80]\n"
	"	stp d8, d9, [x9, #88]\n	stp d10, d11, [x9, #104]\n"
	"	stp d12, d13, [x9, #120]\n	stp d14, d15, [x9, #136]\n"
	"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #176\n	ret\n"
	".ltorg\n");

#endif
