/* SPDX-License-Identifier: MIT */
/* What the runtime's begin and end need to know of waits for children.  See process.c. */
#ifndef GMP_PROCESS_H
#define GMP_PROCESS_H

/* Nobody is inside any more: what the dropped ones have left open is closed. */
void process_fini(void);
void process_forget(void); /* the child of a fork */

#endif
