/* SPDX-License-Identifier: MIT */
/* The CPU time of a green thread is stopped in its waits: see cputime.c. */
#ifndef GMP_POSIX_CPUTIME_H
#define GMP_POSIX_CPUTIME_H

/* Steps a and b, for the calling green thread; nothing if it does not use the clock. */
void gmp__cputime_stop(void);
void gmp__cputime_start(void);

#endif
