/* SPDX-License-Identifier: MIT */
/*
 * Leftovers: list of resources to free if shutdown kills the G that holds them inside a call.
 *
 * A call that waits while it holds a resource on its stack (a socket that it connects, a list of
 * addresses) enters the resource as a leftover for that time.
 *
 * Invariants
 *   - The entry lies on the caller's stack, which still exists when leftovers_fini frees
 *     what the entry holds.  A G that runs on an OS thread of its own loses its stack
 *     earlier: leftovers_killed frees its entries when it is killed.
 *   - The caller does not wait between removing the entry and giving up the resource, nor
 *     in the opposite order.  So a G is killed with both or with neither.
 */
#ifndef GMP_CLEANUP_H
#define GMP_CLEANUP_H

struct m;

struct leftover {
	/* frees the resource: closes, frees memory; calls no function of gmp */
	void (*end)(void *arg);
	void *arg;
	struct leftover *next, **at;
	const struct m *thread; /* the M of a G with its own OS thread; otherwise NULL */
};

void leftover_add(struct leftover *l, void (*end)(void *arg), void *arg);
void leftover_del(struct leftover *l);

/* An `end`: closes *fd, an int, unless it is negative. */
void leftover_close(void *fd);

/* sched.up.thread_killed: free the leftovers of the G that owns m, before its stack goes. */
void leftovers_killed(const struct m *m);
/* Free all leftovers: their Gs were killed.  No thread is inside the runtime. */
void leftovers_fini(void);
/* In the child of a fork: drop the list. */
void leftovers_forget(void);

#endif
