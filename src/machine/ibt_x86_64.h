/* SPDX-License-Identifier: MIT */
/*
 * Indirect branch tracking (IBT) in assembler files for x86-64: with -fcf-protection=branch an
 * indirect jump or call must end at an endbr64, unless it has the prefix notrack.
 *
 *  - No entry point of an assembler file is the target of an indirect branch, so none has an
 *    endbr64.  scripts/check-landing proves it for the library.
 *  - gogo jumps to a return address, which has no endbr64, so it uses notrack.
 */
#ifndef GMP_IBT_X86_64_H
#define GMP_IBT_X86_64_H

/* clang-format off */
#if defined(__CET__) && __CET__ & 1

#define IBT_NOTRACK notrack

/* The note by which the linker knows that the file obeys.  It does not claim SHSTK. */
	.macro	IBT_NOTE
	.section .note.gnu.property, "a", @note
	.p2align 3
	.long	4, 16, 5 /* bytes of the name, bytes of the property, NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.long	0xc0000002, 4, 1, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND, 4 bytes: IBT; padding */
	.endm

#else

#define IBT_NOTRACK
	.macro	IBT_NOTE
	.endm

#endif
/* clang-format on */

#endif
