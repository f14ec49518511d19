/* SPDX-License-Identifier: MIT */
/*
 * Barriers: an implementation for all threads, in the memory of pthread_barrier_t.
 *
 * The state is guarded by the bucket lock of the parking table.  The last thread that arrives
 * claims all waiters and returns PTHREAD_BARRIER_SERIAL_THREAD.  A woken waiter does not touch the
 * barrier, which may be destroyed by then.
 *
 * Process-shared barriers are libc's alone; green threads wait as blocking code.
 */
#include "mode/chaos.h"
#include "posix/parked.h"

/* libc uses the first five words. */
struct barrier {
	uint32_t of_libc[5];
	uint32_t mark; /* OURS: a private barrier */
	uint32_t needed, arrived;
};

enum { OURS = 0x62617272 };

_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "it fits");

static struct barrier *state_of(pthread_barrier_t *bar)
{
	return (struct barrier *)(void *)bar;
}

static bool is_shared(pthread_barrier_t *bar)
{
	return state_of(bar)->mark != OURS;
}

HOOK int pthread_barrier_init(pthread_barrier_t *bar, const pthread_barrierattr_t *attr,
			      unsigned count)
{
	int err = LIBC(pthread_barrier_init)(bar, attr, count), shared = PTHREAD_PROCESS_PRIVATE;

	if (err)
		return err;
	if (attr)
		pthread_barrierattr_getpshared(attr, &shared);
	state_of(bar)->mark = shared == PTHREAD_PROCESS_PRIVATE ? OURS : 0;
	state_of(bar)->needed = count;
	state_of(bar)->arrived = 0;
	return 0;
}

/* libc would wait for threads that are about to leave; ours touch the barrier no more. */
HOOK int pthread_barrier_destroy(pthread_barrier_t *bar)
{
	if (!is_shared(bar))
		return state_of(bar)->arrived ? EBUSY : 0;
	if (hook_how() == HOOK_LIBC)
		return LIBC(pthread_barrier_destroy)(bar);
	return HOOK_BLOCKING(LIBC(pthread_barrier_destroy)(bar));
}

static int barrier_wait(pthread_barrier_t *bar)
{
	struct external f;
	struct barrier *s = state_of(bar);
	struct glist out = { 0 };
	struct bucket *b = lot_lock(bar);

	if (++s->arrived < s->needed) {
		struct sudog *sg = self_sudog(&f);

		lot_enqueue(b, bar, sg, false);
		lot_wait(b, sg, WAIT_PTHREAD_BARRIER | UNCANCELLABLE, lot_unwait, NEVER);
		return 0;
	}
	s->arrived = 0;
	lot_wake_all(b, bar, &out);
	lot_unlock(b);
	ready_list(&out);
	return PTHREAD_BARRIER_SERIAL_THREAD;
}

HOOK int pthread_barrier_wait(pthread_barrier_t *bar)
{
	enum hook_how how = hook_how();
	bool shared = is_shared(bar);
	int saved = errno, result;

	if (how == HOOK_LIBC) {
		result = shared ? LIBC(pthread_barrier_wait)(bar) : barrier_wait(bar);
	} else if (how == HOOK_BLOCK || shared) {
		result =
			HOOK_BLOCKING(shared ? LIBC(pthread_barrier_wait)(bar) : barrier_wait(bar));
	} else {
		chaos_point();
		result = barrier_wait(bar);
	}
	errno = saved;
	return result;
}
