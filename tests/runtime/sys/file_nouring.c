/* SPDX-License-Identifier: MIT */
/*
 * Tests the file calls without io_uring: every case of file.c must give the same results and
 * errors.
 */
#include "file.c"

__attribute__((constructor)) static void without_uring(void)
{
	setenv("GMP_DEBUG", "nouring", 1);
}
