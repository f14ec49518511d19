/* SPDX-License-Identifier: MIT */
/*
 * Threads of the program that are alive: the last one ends the process.
 *
 * Invariants
 *   PROGRAM-1  `alive` counts the threads of main and of pthread_create that have not left: the
 *              thread that makes it 0 calls exit.  A thread leaves after its destructors; an OS
 *              thread in the last of them (below).
 *
 * OS threads that count are threads with a stack of the program or a real-time policy, threads that
 * were made before main, and with GMP_SCHED=thread all threads.  Threads that libc makes for
 * itself, as for timers with SIGEV_THREAD, do not call pthread_create, and do not count.
 *
 * The value of a key is the number of an OS thread's next round of destructors.  It leaves in the
 * last round, after which libc calls no destructor.
 */
#include "posix/thread/alive.h"

#include <limits.h>

#include "posix/thread/later.h"

gmp_sem main_ended;

static bool whole;            /* (c) main is a green thread */
static uint32_t alive = 1;    /* (a) PROGRAM-1 */
static struct thread *forked; /* (a) forked_thread */

bool program_is_whole(void)
{
	return whole;
}

void program_begin_whole(void)
{
	whole = true;
}

void program_thread_new(void)
{
	add_rlx(&alive, 1);
}

/* The calling thread is the last one.  t: its record; NULL: an OS thread in its last destructor. */
static void end_program(const struct thread *t)
{
	if (t && whole)
		green_end_locals();
	exit(0);
}

static bool leave(void)
{
	return sub_seq(&alive, 1) == 1; /* ORD(lock): exit sees what the others have written */
}

void program_main_left(struct thread *t)
{
	thread_end_blocking();
	thread_begin_exit(t);
	if (getm()) {
		green_end_locals();
		threads_lock();
		if (t->state == THREAD_JOINABLE)
			t->state = THREAD_ENDED;
		else
			thread_remove(t);
		threads_unlock();
		gmp_sem_release(&main_ended, 1);
	}
	if (leave())
		end_program(t);
	for (;;)
		gmp_sleep_until(GMP_FOREVER);
}

void program_thread_left(struct thread *t)
{
	if (t && t->is_main)
		program_main_left(t); /* step 9 of run_main.c */
	if (leave())
		end_program(t);
}

/* --- the child of a fork --- */

void program_forked(struct thread *t)
{
	st_rlx(&forked, t);
	st_rlx(&alive, 1u);
	main_ended = (gmp_sem)GMP_SEM_INIT(0);
}

void program_adopted(void)
{
	st_rlx(&forked, (struct thread *)NULL);
}

struct thread *forked_thread(void)
{
	return ld_rlx(&forked);
}

struct thread *forked_self(void)
{
	struct thread *t = forked_thread();

	return t && t->self == pthread_self() ? t : NULL;
}

/* --- OS threads --- */

struct start {
	void *(*fn)(void *);
	void *arg;
	bool c11;
};

static pthread_key_t key;
static bool has_key; /* (c) after make_key */

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

bool alive_counts(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	return has_key;
}

void alive_count_self(void)
{
	if (alive_counts())
		pthread_setspecific(key, (void *)1);
}

static void *run(void *arg)
{
	struct start s = *(struct start *)arg;

	free(arg);
	pthread_setspecific(key, (void *)1);
	return thread_call(s.fn, s.arg, s.c11);
}

int alive_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
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
