/* SPDX-License-Identifier: MIT */
/* What tests/kqueue/bsd.c tells the emulation of kqueue. */
#ifndef TESTS_KQUEUE_KQUEUE_H
#define TESTS_KQUEUE_KQUEUE_H

#include <stdbool.h>

/* `to` is a dup of `from`: a kqueue has both numbers. */
void kqueue_dup(int from, int to);

#endif
