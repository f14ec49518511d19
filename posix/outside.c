/* SPDX-License-Identifier: MIT */
/*
 * Counts the OS threads of a program under gmp-run: the last thread ends the process (PROGRAM-1).
 *
 * OS threads are threads with a stack of the program or a real-time policy, threads that were made
 * before main, and with GMP_SCHED=thread all threads.  Threads that libc makes for itself, as for
 * timers with SIGEV_THREAD, do not call pthread_create, and do not count.
 *
 * The value of a key is the number of the next round of destructors.  The thread leaves in the last
 * round, after which libc calls no destructor.
 */
#include <limits.h>

#include "posix/outside.h"

struct start {
	union {
		void *(*fn)(void *);
		int (*fn_c11)(void *);
	};
	void *arg;
};

static pthread_key_t key;
static bool has_key; /* (c) after has_key_once */

static void end_round(void *round)
{
	intptr_t next = (intptr_t)round + 1;

	if (next > PTHREAD_DESTRUCTOR_ITERATIONS || pthread_setspecific(key, (void *)next))
		program_thread_left(NULL);
}

static void make_key(void)
{
	has_key = program_is_started() && pthread_key_create(&key, end_round) == 0;
}

static bool counts(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	return has_key;
}

void outside_count_self(void)
{
	if (counts())
		pthread_setspecific(key, (void *)1);
}

static struct start begin(struct start *s)
{
	struct start now = *s;

	free(s);
	pthread_setspecific(key, (void *)1);
	return now;
}

static void *run(void *arg)
{
	struct start s = begin(arg);

	return s.fn(s.arg);
}

static int run_c11(void *arg)
{
	struct start s = begin(arg);

	return s.fn_c11(s.arg);
}

/* Counts the thread that is about to start.  NULL without memory. */
static struct start *count(struct start s)
{
	struct start *kept = malloc(sizeof(*kept));

	if (!kept)
		return NULL;
	*kept = s;
	program_thread_new();
	return kept;
}

static void uncount(struct start *s)
{
	free(s);
	program_thread_left(NULL);
}

int outside_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	if (!counts())
		return LIBC(pthread_create)(out, attr, fn, arg);
	struct start *s = count((struct start){ .fn = fn, .arg = arg });
	int err = s ? LIBC(pthread_create)(out, attr, run, s) : EAGAIN;

	if (s && err)
		uncount(s);
	return err;
}

int outside_create_c11(thrd_t *out, thrd_start_t fn, void *arg)
{
	if (!counts())
		return LIBC(thrd_create)(out, fn, arg);
	struct start *s = count((struct start){ .fn_c11 = fn, .arg = arg });
	int err = s ? LIBC(thrd_create)(out, run_c11, s) : thrd_nomem;

	if (s && err != thrd_success)
		uncount(s);
	return err;
}
