/* SPDX-License-Identifier: MIT */
/* The tests of file.c, each once more in a run that makes its calls without io_uring: same results and
 * errors both ways. */
#include "file.c"

__attribute__((constructor)) static void without_uring(void)
{
	setenv("GMP_DEBUG", "nouring", 1);
}
