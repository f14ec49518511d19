/* SPDX-License-Identifier: MIT */
/*
 * Replaces mallopt: under gmp-run, malloc does not make a mapping for a block below MAP_LEAST.
 *
 * glibc makes a mapping of its own for each block from M_MMAP_THRESHOLD on.  A program with a
 * thread for each connection sets it low, so that the memory of a connection goes back at its end;
 * stunnel sets 4 KiB.  Each such block costs two system calls, a page fault for each page and up to
 * a page of rounding, and the Ms contend for the lock of the address space.
 *
 * MAP_LEAST: rounding wastes at most an eighth from there on.  Measured with stunnel4, two Ps,
 * blocks of 4, 8, 17, 22 and 37 KiB for a connection:
 *
 *   least    requests/s   2,000 idle   1,000 ended
 *   4 KiB    20,700       185 MB       72 MB
 *   20 KB    39,300       164 MB       77 MB
 *   32 KiB   37,800       156 MB       77 MB
 *   64 KiB   38,800       158 MB       114 MB
 *
 * Natively the program has 29,200 requests/s and 218 MB.  GMP_MALLOPT (gmp-run --keep-mallopt)
 * passes each threshold on.
 *
 * Rejected: M_ARENA_MAX.  4 arenas instead of 16 change the memory by less than 1 %.
 */
#include "posix/thread/alive.h"

enum { MAP_LEAST = 32 << 10 };

HOOK int mallopt(int parameter, int value)
{
	if (parameter == M_MMAP_THRESHOLD && value >= 0 && value < MAP_LEAST &&
	    program_is_whole() && !getenv("GMP_MALLOPT"))
		value = MAP_LEAST;
	return LIBC(mallopt)(parameter, value);
}
