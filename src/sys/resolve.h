/* SPDX-License-Identifier: MIT */
/* Lookups of host names: what the start and the end of a run do for them.  See resolve.c. */
#ifndef GMP_RESOLVE_H
#define GMP_RESOLVE_H

/* Start of a run: at most `most` lookups at a time. */
void resolve_init(int most);
/* End of a run, no thread is inside the runtime: free the lookups of killed Gs. */
void resolve_fini(void);
/* In the child of a fork. */
void resolve_forget(void);

#endif
