/* SPDX-License-Identifier: MIT */
/*
 * Spinlocks: a green thread spins for a moment and then yields, so that an owner on the same P can
 * unlock.
 *
 * libc keeps the state.  pthread_spin_trylock and pthread_spin_unlock are libc's own.
 */
#include "posix/call/hook.h"

/* Between two yields.  An owner on another CPU unlocks within a microsecond.  Not measured. */
enum { SPINS = 100 };

static int spin_yielding(pthread_spinlock_t *l)
{
	int err;

	for (;;) {
		for (int i = 0; i < SPINS; i++) {
			err = pthread_spin_trylock(l);
			if (err != EBUSY)
				return err;
			cpu_relax();
		}
		hook_yield();
	}
}

HOOK int pthread_spin_lock(pthread_spinlock_t *l)
{
	int err = pthread_spin_trylock(l);

	if (err != EBUSY)
		return err;
	return hook_parks() ? spin_yielding(l) : HOOK_BLOCKING(LIBC(pthread_spin_lock)(l));
}
