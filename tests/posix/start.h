/* SPDX-License-Identifier: MIT */
/* Starts and joins POSIX threads for conformance tests; a failure ends the test. */
#ifndef TESTS_POSIX_START_H
#define TESTS_POSIX_START_H

#include <pthread.h>

#include "posix.h"

__attribute__((unused)) static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, fn, arg), 0);
	return t;
}

/* The result of the thread. */
__attribute__((unused)) static void *join(pthread_t t)
{
	void *value = NULL;

	CHECK_EQ(pthread_join(t, &value), 0);
	return value;
}

#endif
