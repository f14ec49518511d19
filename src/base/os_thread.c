/* SPDX-License-Identifier: MIT */
/*
 * Starts the OS threads of the runtime, and counts them: Ms, sysmon, and all helper threads.
 *
 * A deadlock is reported only if no thread of the program can end it, so the threads of the
 * runtime must be distinguished from others.  The thread that handles signals for libgmprt_posix is
 * not counted, since handlers are code of the program.
 *
 * Invariants
 *   -           A thread is counted by itself, from its first step to its last one.  So it is
 *               never counted unless it exists, and it may exist without being counted: then it is
 *               taken for a thread of the program, and the caller asks again: soon, if a thread
 *               was started or ended shortly before (os_thread_recount_ns).
 *   OSTHREAD-2  A count of the process's threads is compared only if no thread has counted itself
 *               meanwhile.
 *   -           A thread that leaves the runtime (variant/abandon.h) does not count until it is
 *               back.
 */
#include <limits.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/os.h"

#ifdef SAN_THREAD
enum { OF_SANITIZER = 1 };
#else
enum { OF_SANITIZER = 0 };
#endif

enum { RECOUNT_FIRST = MS, RECOUNT_LAST = S };

/* The low half is the number of threads; the high half counts the changes. */
static uint64_t counted; /* (a) */
static int64_t changed;  /* (a) when a thread of the runtime was last started or ended */
#define COUNT_ONE ((UINT64_C(1) << 32) + 1)
#define UNCOUNT_ONE UINT64_C(0xffffffff) /* 1 less in the low half; its carry adds 1 to the high */

/* What a new thread runs.  Not allocated: the first free of a thread would give it a cache and an
 * arena of malloc, which most threads of the runtime never need. */
struct start {
	void *(*fn)(void *); /* NULL: not in use */
	void *arg;
	int *tid;
};

static struct {
	struct lock lock;
	struct start slot[256]; /* of the threads that have not begun */
} starts;

static struct start *start_put(struct start new)
{
	struct start *s = NULL;

	lock(&starts.lock, LR_OSTHREAD);
	for (size_t i = 0; i < countof(starts.slot) && !s; i++)
		if (!starts.slot[i].fn)
			s = &starts.slot[i];
	if (s)
		*s = new;
	unlock(&starts.lock, LR_OSTHREAD);
	return s;
}

/* tid: of the thread, or 0 if it was not made. */
static struct start start_take(struct start *at, int tid)
{
	lock(&starts.lock, LR_OSTHREAD);
	struct start s = *at;

	if (s.tid)
		st_rlx(s.tid, tid);
	*at = (struct start){ 0 };
	unlock(&starts.lock, LR_OSTHREAD);
	return s;
}

void os_thread_count_self(bool on)
{
	st_rlx(&changed, os_now());
	add_rlx(&counted, on ? COUNT_ONE : UNCOUNT_ONE);
}

int64_t os_thread_recount_ns(void)
{
	int64_t since = os_now() - ld_rlx(&changed);

	return min_of(max_of(since, (int64_t)RECOUNT_FIRST), (int64_t)RECOUNT_LAST);
}

void os_thread_forget_counted(void)
{
	st_rlx(&counted, UINT64_C(0));
	__builtin_memset(&starts, 0, sizeof(starts));
}

static void *os_thread_main(void *arg)
{
	struct start s = start_take(arg, os_thread_id());

	os_thread_count_self(true);
	void *result = s.fn(s.arg);

	os_thread_count_self(false);
	return result;
}

int os_thread_start(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack, int *tid)
{
	struct start *s;

	while (!(s = start_put(
			 (struct start){ fn, arg, tid }))) /* until one of many threads has begun */
		os_yield();
	st_rlx(&changed, os_now());
	int err = os_thread_create(t, os_thread_main, s, stack);

	if (err)
		start_take(s, 0);
	return err;
}

bool os_threads_begin(void)
{
	bool begin = false;

	lock(&starts.lock, LR_OSTHREAD);
	for (size_t i = 0; i < countof(starts.slot) && !begin; i++)
		begin = starts.slot[i].fn;
	unlock(&starts.lock, LR_OSTHREAD);
	return begin;
}

int os_thread_count_others(bool exact)
{
	uint64_t before = ld_rlx(&counted);
	int all = exact ? os_thread_count() : os_thread_count_max();

	if (ld_rlx(&counted) != before) /* OSTHREAD-2 */
		return INT_MAX;
	return all - (int)(uint32_t)before - OF_SANITIZER;
}
