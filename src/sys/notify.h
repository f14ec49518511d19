/* SPDX-License-Identifier: MIT */
/* Signals as channel elements: what the end of a run and a fork do for them.  See notify.c. */
#ifndef GMP_NOTIFY_H
#define GMP_NOTIFY_H

/* End of a run, no thread is inside the runtime: restore the dispositions from before. */
void notify_fini(void);
/* The same in the child of a fork. */
void notify_forget(void);

#endif
