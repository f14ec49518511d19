/* SPDX-License-Identifier: MIT */
/* Replaces the threads of C11: as those of POSIX, with other results; see registry.h. */
#include "posix/call/c11.h"
#include "posix/thread/registry.h"

HOOK int thrd_create(thrd_t *out, thrd_start_t fn, void *arg)
{
	void *(*start)(void *) = (void *(*)(void *))(uintptr_t)fn;
	int err = thread_create(out, NULL, start, arg, true);

	return err == NOT_GREEN ? LIBC(thrd_create)(out, fn, arg) : to_thrd(err);
}

/* The others are those of POSIX, as in libc. */

HOOK int thrd_join(thrd_t self, int *result)
{
	void *value;
	int err = pthread_join(self, &value);

	if (!err && result)
		*result = (int)(intptr_t)value;
	return to_thrd(err);
}

HOOK int thrd_detach(thrd_t self)
{
	return to_thrd(pthread_detach(self));
}

HOOK void thrd_exit(int result)
{
	pthread_exit((void *)(intptr_t)result);
}

HOOK int thrd_sleep(const struct timespec *t, struct timespec *rest)
{
	int err = clock_nanosleep(CLOCK_REALTIME, 0, t, rest);

	return !err ? 0 : err == EINTR ? -1 : -2;
}

HOOK void thrd_yield(void)
{
	if (hook_how() == HOOK_LIBC)
		LIBC(thrd_yield)();
	else
		hook_yield();
}
