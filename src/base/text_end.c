/* SPDX-License-Identifier: MIT */
/* The last file that is linked: gmp's code ends here (base/finding.c). */
__asm__(".text\n"
	".globl gmp__text_end\n"
	".hidden gmp__text_end\n"
	"gmp__text_end:\n"
	"\t.byte 0\n");
