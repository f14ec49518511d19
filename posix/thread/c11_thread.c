/* SPDX-License-Identifier: MIT */
/* Replaces the threads of C11: as those of POSIX, with other results; see registry.h. */
#include "posix/call/c11.h"
#include "posix/thread/alive.h"
#include "posix/thread/registry.h"

HOOK int thrd_create(thrd_t *out, thrd_start_t fn, void *arg)
{
	void *(*start)(void *) = (void *(*)(void *))(uintptr_t)fn;

	if (makes_green(NULL))
		return to_thrd(thread_create(out, NULL, start, arg, true));
	return alive_counts() ? to_thrd(alive_create(out, NULL, start, arg, true))
			      : LIBC(thrd_create)(out, fn, arg);
}

HOOK int thrd_join(thrd_t self, int *result)
{
	void *value = NULL;
	int err = thread_join(self, &value, CLOCK_MONOTONIC, NULL, false);

	if (err < 0)
		return HOOK_BLOCKING(LIBC(thrd_join)(self, result));
	if (!err && result)
		*result = (int)(intptr_t)value;
	return to_thrd(err);
}

HOOK int thrd_detach(thrd_t self)
{
	int err = thread_detach(self);

	return err < 0 ? LIBC(thrd_detach)(self) : to_thrd(err);
}

HOOK void thrd_exit(int result)
{
	thread_leave((void *)(intptr_t)result);
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
