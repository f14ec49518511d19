/* SPDX-License-Identifier: MIT */
/* End of a run: kills the green threads that still exist.  shutdown.c has the protocol. */
#ifndef GMP_SHUTDOWN_H
#define GMP_SHUTDOWN_H

/* Kills all green threads, releases external threads that wait for them, and waits until none is
 * inside a call.  Called after the Ms have been joined. */
void shutdown_kill_all(void);

#endif
