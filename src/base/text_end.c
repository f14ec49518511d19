/* SPDX-License-Identifier: MIT */
/* Last file in link order: marks the end of gmp's code (base/finding.c). */
__asm__(".text\n"
	".globl gmp__text_end\n"
	".hidden gmp__text_end\n"
	"gmp__text_end:\n"
	"\t.byte 0\n");
