/* SPDX-License-Identifier: MIT */
/* What does the program do that C allows and green threads do not get on with?  See check.c. */
#ifndef GMP_CHECK_H
#define GMP_CHECK_H

/* With GMP_DEBUG=check, at the start and the end of a run; nothing otherwise.  0 or -ENOMEM. */
int check_begin(void);
void check_end(void);

#endif
