/* SPDX-License-Identifier: MIT */
/* The system's <sys/mman.h>, and what os_bsd.c uses of FreeBSD's, for tests/kqueue/bsd.c. */
#include_next <sys/mman.h>

#ifndef TESTS_KQUEUE_SYS_MMAN_H
#define TESTS_KQUEUE_SYS_MMAN_H

enum { MAP_GUARD = 1 << 30, MINCORE_INCORE = 1 };

void *bsd_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t at);
int bsd_mincore(const void *addr, size_t bytes, char *vec);

#define mmap bsd_mmap
#define mincore bsd_mincore

#endif
