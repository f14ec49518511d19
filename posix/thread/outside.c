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
#include "posix/thread/outside.h"

#include <limits.h>

#include "posix/thread/upcalls.h"

struct start {
	void *(*fn)(void *);
	void *arg;
	bool c11;
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
	has_key = gmp__thread_up.program_is_started() && pthread_key_create(&key, end_round) == 0;
}

bool outside_counts(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	return has_key;
}

void outside_count_self(void)
{
	if (outside_counts())
		pthread_setspecific(key, (void *)1);
}

static void *run(void *arg)
{
	struct start s = *(struct start *)arg;

	free(arg);
	pthread_setspecific(key, (void *)1);
	return thread_call(s.fn, s.arg, s.c11);
}

int outside_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		   bool c11)
{
	struct start *s = malloc(sizeof(*s));

	if (!s)
		return c11 ? ENOMEM : EAGAIN;
	*s = (struct start){ fn, arg, c11 };
	program_thread_new();
	int err = LIBC(pthread_create)(out, attr, run, s);

	if (err) {
		free(s);
		program_thread_left(NULL);
	}
	return err;
}
