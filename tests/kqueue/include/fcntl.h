/* SPDX-License-Identifier: MIT */
/* The system's <fcntl.h>.  fcntl passes through tests/kqueue/bsd.c, which stores O_ASYNC for files
 * as FreeBSD does, and tells the emulation of kqueue about numbers that are duplicated. */
#include_next <fcntl.h>

#ifndef TESTS_KQUEUE_FCNTL_H
#define TESTS_KQUEUE_FCNTL_H

int bsd_fcntl(int fd, int cmd, ...);

#define fcntl bsd_fcntl

#endif
