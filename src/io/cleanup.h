/* SPDX-License-Identifier: MIT */
/*
 * What does a call leave behind whose green thread is dropped in it, at the end of a run?
 *
 * A call that waits with something of its own in its hands (a socket that it connects, a list of
 * addresses) enters it here for the time.
 *
 * Invariants
 *  I1 The entry lies on the caller's stack, which is still there when leftovers_fini ends it.  That of a
 *     green thread that is a thread of its own is not: it ends its entries when it is dropped
 *     (leftovers_dropped).
 *  I2 Nobody waits between taking the entry out and giving up what it stands for, or the other way
 *     round: so a green thread is dropped with both or with neither.
 */
#ifndef GMP_CLEANUP_H
#define GMP_CLEANUP_H

struct m;

struct leftover {
	void (*end)(struct leftover
			    *l); /* give back what it holds: closes, frees; calls nothing of ours */
	struct leftover *link, **from;
	const struct m
		*thread; /* whose stack it is on, if that is one green thread's alone; else NULL */
};

void leftover_add(struct leftover *l, void (*end)(struct leftover *l));
void leftover_del(struct leftover *l);

/* sched.thread_killed: that thread leaves its calls, and its stack. */
void leftovers_dropped(const struct m *m);
/* Nobody is inside any more: what is still there was dropped. */
void leftovers_fini(void);
void leftovers_forget(void); /* the child of a fork */

#endif
