/* SPDX-License-Identifier: MIT */
/* What the runtime's begin and end need to know of lookups.  See names.c. */
#ifndef GMP_RESOLVE_H
#define GMP_RESOLVE_H

/* So many at a time in this run. */
void names_init(int most);
/* No green or external thread is inside any more: what the dropped ones have left is freed. */
void names_fini(void);
void names_forget(void); /* the child of a fork */

#endif
