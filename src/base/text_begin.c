/* SPDX-License-Identifier: MIT */
/* First file in link order: marks the start of gmp's code (base/finding.c). */
__asm__(".text\n"
	".globl gmp__text_begin\n"
	".hidden gmp__text_begin\n"
	"gmp__text_begin:\n"
	"\t.byte 0\n");
