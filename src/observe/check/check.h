/* SPDX-License-Identifier: MIT */
/* GMP_DEBUG=check: finds uses of C that are wrong in green threads. See check.c. */
#ifndef GMP_CHECK_H
#define GMP_CHECK_H

/* At the start and the end of a run, with GMP_DEBUG=check; no effect otherwise. Returns 0 or
 * -ENOMEM. */
int check_begin(void);
void check_end(void);

#endif
