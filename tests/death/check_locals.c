/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a thread-local that a green thread wrote and that has another value after a
 * wait is reported once, with the green thread that wrote it meanwhile. Not reported: a variable
 * that is reset before each wait or before this wait, and a variable that the waiting green thread
 * never wrote.
 */
#include <gmp.h>

#include "pair.h"

static _Thread_local long request_id, reset, reset_later, unwritten;
static _Thread_local char buffer[1000];

__attribute__((noinline)) static long *at(long *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) static void write_all(long value)
{
	*at(&request_id) = value;
	*at(&reset) = value;
	*at((long *)(void *)buffer) = value;
}

__attribute__((noinline)) static void reset_one(void)
{
	*at(&reset) = 0;
}

__attribute__((noinline)) void wait_between(void)
{
	gmp_yield();
	__asm__ volatile("");
}

/* Pairs begun. Variables are reported in the first pair only, because a report takes long. */
static int pairs;

static void first(void *arg)
{
	(void)arg;
	pairs++;
	write_all(1);
	reset_one();
	wait_between();
	if (pairs < 2)
		return;
	*at(&reset_later) = 1;
	wait_between();
	*at(&reset_later) = 0;
	wait_between();
}

static void second(void *arg)
{
	(void)arg;
	*at(&unwritten) = 2;
	write_all(2);
	reset_one();
	if (pairs < 2)
		return;
	wait_between();
	wait_between();
	*at(&reset_later) = 2;
}

int main(void)
{
	return run_pairs();
}
