/* SPDX-License-Identifier: MIT */
/*
 * Snapshot of a green thread: identity, state, wait, backtrace.
 *
 * Invariants
 *   SNAPSHOT-1  A parked G is held (waiter_hold) while it is read: it cannot be woken, and the
 *           object that it waits on cannot be freed. Under the hold no lock is taken and no system
 *           call is made: addresses are noted, and their names are looked up afterwards.
 *   SNAPSHOT-2  The stack of a G that is not held is read by its own OS thread only, since it may
 *           run: by the caller of the dump, and by the handler that answers a dump (running.h).
 *   SNAPSHOT-3  Data of a G that is not held is used only if its g struct was not reused meanwhile
 *           (ORD(g.life)).
 */
#ifndef GMP_SNAPSHOT_H
#define GMP_SNAPSHOT_H

#include "base/throw.h"
#include "base/trace.h"
#include "observe/dump/running.h"
#include "types.h"

struct snapshot {
	uint64_t id;
	gmp_fn fn; /* entry function; of a service with frames, the program's (finding_entry) */
	uintptr_t made_at;
	char name[G_NAME_MAX];
	const char *state; /* NULL: waiting */
	uint32_t born;     /* as in struct g */
	/* of a waiting G */
	uint8_t reason; /* enum waitreason */
	bool awaits;    /* one known G can end the wait (snapshot_awaited) */
	/* of a waiting or a preempted G */
	int64_t since;  /* approximate start of the wait; when it lost its P.  0: neither */
	bool has_cpu;   /* cpu_ns is known */
	int64_t cpu_ns; /* its CPU time, the present run included: observe/tracing.h */
	/* text of the wait; where it runs: the system call that it sleeps in, or the function; or
	 * empty.  what.names is set by the caller. */
	struct line what;

	struct trace trace; /* no frames if the G is runnable, or its location is not known */
};

/* Fill *v. self: the calling green thread or NULL; caller: where it called gmp_dump; locations:
 * running Gs, or NULL. Returns false if gp is not alive. */
bool snapshot_green(struct snapshot *v, struct g *gp, const struct g *self, uintptr_t caller,
		    const struct locations *locations);

/* Which wait: another one differs in one of these, except a wait at the same location that begins
 * within a reading of the coarse clock. */
struct wait_id {
	uint64_t g; /* the id of the G */
	int64_t since;
	const void *key, *sp;
	uint8_t reason; /* enum waitreason */
};
bool wait_is_same(const struct wait_id *a, const struct wait_id *b);

/* The wait of a parked G. */
struct snapshot_wait {
	struct wait_id id;
	/* about it */
	gmp_fn fn; /* as made; see finding_entry */
	char name[G_NAME_MAX];
	uint64_t holder; /* id of the G that snapshot_awaited returns; 0: not known */
	char holder_name[G_NAME_MAX];
	struct trace trace;
};

/* Fill *v with the wait of gp, if it is parked for one of the reasons: bits 1 << reason. *same: it
 * is the wait that *v has described before; then the trace stays as it is. Returns false if gp is
 * not parked so. */
bool snapshot_parked(struct snapshot_wait *v, struct g *gp, uint32_t reasons, bool *same);

/* Fill id, fn, made_at, name, state and reason of *v, without a backtrace; state NULL: waiting.
 * Returns false if gp is not alive. */
bool snapshot_brief(struct snapshot *v, const struct g *gp);

/* Return the only G that can end the wait of gp: the holder of the mutex or the write lock, the G
 * that runs the once, or the G that gp joins; NULL if not known. gp is held or stays parked. */
struct g *snapshot_awaited(const struct g *gp);

/* Return what gp waits for: an address, the number of a file descriptor, or 0.  As above. */
uintptr_t snapshot_object(const struct g *gp);

/* The texts of the states of a G, and of a P. */
enum { P_STATUSES = P_STATUS_MASK + 1 };
extern const char *const snapshot_states[G_DEAD + 1], *const snapshot_p_states[P_STATUSES];

#endif
