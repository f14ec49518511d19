/* SPDX-License-Identifier: MIT */
/* What the runtime's begin and end need to know of signals for channels.  See signals.c. */
#ifndef GMP_NOTIFY_H
#define GMP_NOTIFY_H

/* Nobody is inside any more: what was there before is put back. */
void signals_fini(void);
void signals_forget(void); /* the child of a fork: the same, for itself */

#endif
