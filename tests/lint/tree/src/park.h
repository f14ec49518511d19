/* SPDX-License-Identifier: MIT */
/* Wait protocol: parks the calling G until one waker claims its waiter. */
#ifndef GMP_PARK_H
#define GMP_PARK_H

int park(void);

#endif
