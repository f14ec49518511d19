/* SPDX-License-Identifier: MIT */
/* The wait of replaced calls for one fd, by the means of gmp_poll (netpoll/multi.c). */
#ifndef GMP_IO_POLL_H
#define GMP_IO_POLL_H

#include "netpoll/multi.h"

/*
 * Park a caller whose attempt has found nothing until fd may have one of poll(2)'s events, or until
 * the deadline.
 *
 * seen   multi_look before the attempt, of the record by netpoll_record
 * since  when the call began to wait first (MULTI-9)
 *
 * Returns 0: attempt again; -EBADF: the number was closed meanwhile by a replaced call, and may
 * have another file; -ETIMEDOUT; -ECANCELED; -EINTR; otherwise the poller cannot watch fd, or has
 * no room.
 */
int poll_park(int fd, short events, const struct multi_seen *seen, int64_t since, int64_t deadline);

#endif
