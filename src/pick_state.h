/* SPDX-License-Identifier: MIT */
/* Pick state: what a P remembers between two checks of its queues and its timers (pick.h). */
#ifndef GMP_PICK_STATE_H
#define GMP_PICK_STATE_H

#include "base/base.h"

/* What a spinning M has read of a P: PICK-2. */
struct victim {
	uint64_t switches; /* when the search began */
	uint32_t head;     /* at the last probe */
};

/* Deficit round robin of the two lanes: pick.c.  "Then" is a P's last check.  Times are
 * variant_ticks, counts are lower halves. */
struct drr {
	uint32_t every; /* so many switches after it the next check is due */
	uint32_t from;  /* the count of switches then */
	uint32_t took;  /* PICK-3: that count when a check last took a G of the global queue */
	uint32_t head;  /* head[LANE_YIELD] then; less by the Gs of that lane that passed it by */
	uint64_t since; /* the time then */
	uint64_t began; /* PICK-4: the start of the quantum */
	uint64_t end;   /* PICK-4: no G of the quantum begins to run after it */
	int64_t credit; /* PICK-4: how long the yield lane must run before the others */
	const struct g *next; /* PICK-4: runnext when a quantum became due, while it is there */
	uint32_t mark; /* PICK-4: tail[LANE_NEW] when a quantum became due, or when next was gone */
	uint32_t left; /* PICK-4: so many Gs may still run in the quantum */
	uint32_t check_at; /* PICK-3: count.switches, the lower half, when the next check is due */
	bool due;          /* PICK-4: a quantum begins once head[LANE_NEW] has reached mark */
};

/* SOURCE-1: Gs that timers made ready, in front of the ring. */
struct due {
	uint32_t n;     /* how many were put there; 0 once none is left */
	uint32_t end;   /* the place in the ring behind the last of them */
	uint32_t from;  /* count.switches then, the lower half */
	int64_t budget; /* cpu_ticks that timers may use before the ring runs */
	uint64_t since; /* when timers, or the ring, began to use time */
};

#endif
