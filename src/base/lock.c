/* SPDX-License-Identifier: MIT */
/* Slow path of the spinlock (base/lock.h), and the checks of LOCK-1 and LOCK-2 in debug builds. */
#include "base/lock.h"

#include "base/object.h"
#include "base/os.h"
#include "base/throw.h"

/*
 * The backoff begins with PAUSES calls of cpu_relax. After PAUSES_IN_ALL of them (a few
 * microseconds) the waiter yields its CPU YIELD_ROUNDS times, then sleeps for NAP_NS at a time.
 * The values are not measured.
 */
enum { PAUSES = 8, PAUSES_IN_ALL = 400, YIELD_ROUNDS = 20, NAP_NS = 20 * US };

noinline void gmp__lock_slow(struct lock *l, unsigned most_pauses, uint32_t was)
{
	if (unlikely(was == POISON))
		gmp__object_lock_freed(l);
	for (unsigned paused = 0, pauses = PAUSES, yielded = 0;;) {
		if (!ld_rlx(&l->word) && !xchg_acq(&l->word, LOCK_TAKEN)) /* ORD(lock) */
			return;
		/* A holder that runs unlocks soon. If the kernel has preempted it, it needs a CPU:
		 * a yield gives it ours; a sleep does so even if the holder has a lower priority.
		 */
		if (paused < PAUSES_IN_ALL && os_cpus_online() > 1) {
			for (unsigned i = 0; i < pauses; i++)
				cpu_relax();
			paused += pauses;
			pauses = min_of(pauses * 2, most_pauses);
		} else if (yielded++ < YIELD_ROUNDS) {
			os_yield();
		} else {
			os_nap(NAP_NS);
		}
	}
}

#ifdef GMP_DEBUG_CHECKS

static const struct {
	const char *name;
	bool several;
} ranks[] = {
#define LOCKRANK(name, several) { #name, several },
#include "base/lockrank.def"
#undef LOCKRANK
};

void gmp__lock_note(struct lock *l, enum lockrank rank)
{
	struct held_locks *held = gmp__held_locks();

	if (held->n < (int)sizeof(held->rank))
		held->rank[held->n] = (unsigned char)rank;
	held->n++;
	held->last = l;
}

void gmp__lock_check(struct lock *l, enum lockrank rank)
{
	struct held_locks *held = gmp__held_locks();

	for (int i = 0; i < min_of(held->n, (int)sizeof(held->rank)); i++) {
		if (held->rank[i] > rank || (held->rank[i] == rank && !ranks[rank].several))
			gmp__fatal(
				"lock order: %s taken while %s is held\n"
				"a fault of gmp, please report it: src/base/lockrank.def has the "
				"order",
				ranks[rank].name, ranks[held->rank[i]].name);
		if (held->rank[i] == rank && held->last && (uintptr_t)l <= (uintptr_t)held->last)
			gmp__fatal("lock order: two of %s, not in the order of their addresses: "
				   "%p after %p\n"
				   "a fault of gmp, please report it",
				   ranks[rank].name, (void *)l, held->last);
	}
	gmp__lock_note(l, rank);
}

void gmp__unlock_check(enum lockrank rank)
{
	struct held_locks *held = gmp__held_locks();

	held->last = NULL;
	for (int i = min_of(held->n, (int)sizeof(held->rank)); i-- > 0;) {
		if (held->rank[i] != rank)
			continue;
		for (held->n--; i < held->n && i + 1 < (int)sizeof(held->rank); i++)
			held->rank[i] = held->rank[i + 1];
		return;
	}
	if (held->n >
	    (int)sizeof(held->rank)) { /* a select with more locks than held has room for */
		held->n--;
		return;
	}
	gmp__fatal("unlock of %s, which this thread does not hold\n"
		   "a fault of gmp, please report it",
		   ranks[rank].name);
}

void gmp__switch_check(void)
{
	struct held_locks *held = gmp__held_locks();

	if (held->n)
		gmp__fatal("%s is held across a switch\n"
			   "a fault of gmp, please report it",
			   ranks[held->rank[0]].name);
}

#endif
