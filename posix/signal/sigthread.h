/* SPDX-License-Identifier: MIT */
/* The thread that brings signals to green threads: sigthread.c. */
#ifndef GMP_POSIX_SIGTHREAD_H
#define GMP_POSIX_SIGTHREAD_H

#include <stdbool.h>

/* Begin to bring signals to receivers: start the thread. */
void sigthread_begin(void);
/* The calling thread, an OS thread until now, is the first green thread of a run. */
void sigthread_adopt(void);

#endif
