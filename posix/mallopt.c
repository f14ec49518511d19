/* SPDX-License-Identifier: MIT */
/*
 * Replaces mallopt: under gmp-run a threshold of malloc's mappings below libc's default is ignored.
 *
 * Servers with a thread for each connection set M_MMAP_THRESHOLD to some KiB, against holes in the
 * heaps of many OS threads.  Each larger block is then an mmap and a munmap, and each munmap
 * interrupts all CPUs that run the process.  Natively most threads sleep in the kernel; the Ms of a
 * runtime are running when the interrupt comes.
 *
 * Measured with stunnel4 (4096): docs/api/gmp-run.md.  GMP_MALLOPT=1 passes the value on.
 */
#include <malloc.h>

#include "posix/thread.h"

/* libc's default (DEFAULT_MMAP_THRESHOLD_MIN). */
enum { LEAST_THRESHOLD = 128 * 1024 };

HOOK int mallopt(int param, int value)
{
	if (param == M_MMAP_THRESHOLD && value < LEAST_THRESHOLD && program_is_whole() &&
	    !getenv("GMP_MALLOPT"))
		return 1; /* as a value that was taken: malloc is free to use it or not */
	return LIBC(mallopt)(param, value);
}
