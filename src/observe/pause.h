/* SPDX-License-Identifier: MIT */
/* Pauses: work of the runtime on the M of a G that does not count as the G's run. */
#ifndef GMP_PAUSE_H
#define GMP_PAUSE_H

#include "enter.h"

/*
 * Begin a pause: work of the runtime on the calling M, which observe/longrun.c must not count as
 * the G's run.  A lookup of source positions takes libdw many milliseconds and a thread, and the
 * probe of own thread-locals waits for threads. Returns the argument of run_resume: NULL without a
 * P, or inside another pause.
 */
static inline struct p *run_pause(void)
{
	struct p *pp = hold_p(); /* also: sysmon does not take the P meanwhile */

	if (!pp || pp->pauses & 1) {
		drop_p();
		return NULL;
	}
	bump(&pp->pauses, 1);
	fence_light(); /* a signal of observe/longrun.c may come from here on */
	return pp;
}

static inline void run_resume(struct p *pp)
{
	if (!pp)
		return;
	fence_light();
	bump(&pp->pauses, 1);
	drop_p();
}

#endif
