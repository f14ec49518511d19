/* SPDX-License-Identifier: MIT */
/* The first file that is linked: gmp's code begins here (base/finding.c). */
__asm__(".text\n"
	".globl gmp__text_begin\n"
	".hidden gmp__text_begin\n"
	"gmp__text_begin:\n"
	"\t.byte 0\n");
