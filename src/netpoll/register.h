/* SPDX-License-Identifier: MIT */
/* Registration of fds, for netpoll.c; the other functions are in netpoll.h. */
#ifndef GMP_REGISTER_H
#define GMP_REGISTER_H

/* No record is open: a run begins. */
void registrations_reset(void);

#endif
