/* SPDX-License-Identifier: MIT */
/*
 * What one look at a green thread finds: identity, state, what it waits for, its calls.
 *
 * Invariants
 *  VIEW-1  A parked G is held (waiter_hold) while it is looked at: it cannot be woken meanwhile, and what
 *          it waits on cannot be freed. Under the hold there is neither a lock nor a system call:
 *          addresses are noted, and their names looked up afterwards.
 *  VIEW-2  The stack of a G that is not held is never read: it may run. The caller's own is the exception.
 *  VIEW-3  What is read of a G that is not held is used only if its g struct has not been reused
 *          meanwhile (ORD(g.life)).
 */
#ifndef GMP_VIEW_H
#define GMP_VIEW_H

#include "base/throw.h"
#include "base/trace.h"
#include "types.h"

struct view {
	uint64_t id;
	gmp_fn fn; /* of a service's green thread (finding_entry): the program's, if it is parked in that */
	uintptr_t made_at;
	char name[G_NAME_MAX];
	const char *state;  /* NULL: it waits */
	uint8_t reason;     /* of a waiting G: enum waitreason */
	bool awaits;        /* it waits for one known green thread (view_awaited) */
	int64_t since;      /* of a waiting G: when it began to, about */
	uint32_t born;      /* as in struct g */
	struct line what;   /* of a waiting G: what for */
	struct trace trace; /* no frames: it is not parked */
};

/* Fill *v. self: the calling green thread or NULL, caller: where it called gmp_dump. False: gp is not alive. */
bool view_green(struct view *v, struct g *gp, const struct g *self, uintptr_t caller);

/* The green thread that alone can end the wait of gp, which is held or stays parked: the holder of the
 * mutex or the write lock, the runner of the once, the G that it joins. NULL: not known. */
struct g *view_awaited(const struct g *gp);

/* The text of a wait reason, a state. */
const char *view_reason(unsigned reason);
const char *view_state(unsigned status);

#endif
