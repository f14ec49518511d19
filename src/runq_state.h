/* SPDX-License-Identifier: MIT */
/* Queue state: sizes of the rings of a P, and the global queue (runq.h). */
#ifndef GMP_RUNQ_STATE_H
#define GMP_RUNQ_STATE_H

#include "gmp.h"

enum {
	RUNQ_SIZE = 2048, /* of the ring of a P: see runq.h */
	GQ_CAP_MIN = 128, /* least entries of a lane of the global queue; a page holds them */
};

/* Lanes of a P and of the global queue: Gs that an event made runnable, new Gs, and Gs that have
 * yielded or used their slice (runq.h, RUNQ-5 and RUNQ-6). */
enum lane { LANE_EVENT, LANE_NEW, LANE_YIELD, LANES };

/*
 * Compact form of a G that has not run: all that its g struct holds by then.  An entry of LANE_NEW
 * is such a record or, with fn NULL, the G that arg points to.
 */
struct unstarted {
	gmp_fn fn;
	void *arg;
	uint64_t id;
	uintptr_t made_at;
};

/* A ring that grows in reserved address space: no allocation, no links.  The entries of LANE_NEW
 * are struct unstarted, of the other lanes struct g *. */
struct gqueue {
	void *slot;         /* (c) */
	uint32_t size;      /* (c) of an entry, in bytes */
	uint32_t head, cap; /* (l) cap is a power of two */
};

#endif
