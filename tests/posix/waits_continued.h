/* SPDX-License-Identifier: MIT */
/* Waits that continue after a signal handler, until another thread satisfies them; those for a
 * descriptor or a semaphore with SA_RESTART only. */
#ifndef TESTS_POSIX_WAITS_CONTINUED_H
#define TESTS_POSIX_WAITS_CONTINUED_H

#include <pthread.h>

#include "posix.h"
#include "waits_ended.h"

static pthread_mutex_t mutex;
static pthread_cond_t cond;
static pthread_rwlock_t rwlock;
static pthread_barrier_t barrier;
static bool condition;

static void waits_begin(void)
{
	CHECK_EQ(pthread_mutex_init(&mutex, NULL), 0);
	CHECK_EQ(pthread_cond_init(&cond, NULL), 0);
	CHECK_EQ(pthread_rwlock_init(&rwlock, NULL), 0);
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	condition = false;
}

static void wait_mutex(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void wait_cond(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	while (!condition)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void satisfy_cond(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	condition = true;
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_cond_signal(&cond), 0);
}

static void wait_reader(void)
{
	CHECK_EQ(pthread_rwlock_rdlock(&rwlock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
}

static void wait_barrier(void)
{
	pthread_barrier_wait(&barrier);
}

static void wait_read(void)
{
	CHECK_EQ(do_read(), 1);
}

static void wait_sem(void)
{
	CHECK_EQ(sem_wait(&sem), 0);
}

#endif
