/* SPDX-License-Identifier: MIT */
/*
 * Tests sigaltstack: each thread has a setting of its own, which ends with the thread, and handlers
 * run whatever it is.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "fds.h"
#include "signal_util.h"

enum { ROOM = 256 * 1024, THREADS = 4 };

static stack_t room(int flags)
{
	void *at = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return (stack_t){ .ss_sp = at, .ss_size = ROOM, .ss_flags = flags };
}

static void check_setting(const stack_t *expected)
{
	stack_t now;

	CHECK_EQ(sigaltstack(NULL, &now), 0);
	CHECK_EQ(now.ss_flags, expected->ss_flags);
	CHECK(now.ss_sp == expected->ss_sp);
	CHECK_EQ(now.ss_size, expected->ss_size);
}

static const stack_t none = { .ss_flags = SS_DISABLE };

/* As natively for a thread of pthread_create, and on a green thread for each. */
static void set_and_query(void *arg)
{
	stack_t first = room(0), second = room(0), old;

	(void)arg;
	check_setting(&none);
	errno = 5;
	CHECK_EQ(sigaltstack(&first, &old), 0);
	CHECK_EQ(old.ss_flags, SS_DISABLE);
	check_setting(&first);
	CHECK_EQ(sigaltstack(&second, &old), 0);
	CHECK(old.ss_sp == first.ss_sp);
	usleep(1000);
	check_setting(&second);
	CHECK_EQ(sigaltstack(&none, &old), 0);
	CHECK(old.ss_sp == second.ss_sp);
	check_setting(&none);
	CHECK_EQ(errno, 5);
	munmap(first.ss_sp, ROOM);
	munmap(second.ss_sp, ROOM);
}

POSIX_TEST(sigaltstack_returns_what_was_set)
{
	struct peer p;

	peer_start(&p, set_and_query, NULL);
	peer_join(&p);
}

static void set_wrongly(void *arg)
{
	stack_t good = room(0), bad = good;

	(void)arg;
	CHECK_EQ(sigaltstack(&good, NULL), 0);
	bad.ss_flags = 7;
	CHECK_ERRNO(sigaltstack(&bad, NULL), EINVAL);
	bad = (stack_t){ .ss_sp = good.ss_sp, .ss_size = 100 };
	CHECK_ERRNO(sigaltstack(&bad, NULL), ENOMEM);
	check_setting(&good);
	CHECK_EQ(sigaltstack(&none, NULL), 0);
	munmap(good.ss_sp, ROOM);
}

POSIX_TEST(sigaltstack_bad_argument_is_an_error)
{
	struct peer p;

	peer_start(&p, set_wrongly, NULL);
	peer_join(&p);
}

static void keep_own(void *arg)
{
	stack_t mine = room(0);

	(void)arg;
	CHECK_EQ(sigaltstack(&mine, NULL), 0);
	for (int i = 0; i < 20; i++) {
		usleep(500);
		check_setting(&mine);
	}
	CHECK_EQ(sigaltstack(&none, NULL), 0);
	munmap(mine.ss_sp, ROOM);
}

POSIX_TEST(sigaltstack_is_the_threads_own)
{
	struct peer p[THREADS];

	for (int i = 0; i < THREADS; i++)
		peer_start(&p[i], keep_own, NULL);
	for (int i = 0; i < THREADS; i++)
		peer_join(&p[i]);
}

/* The thread leaves it set; its memory is gone when the handler runs. */
static void leave_it(void *s)
{
	CHECK_EQ(sigaltstack(s, NULL), 0);
	CHECK_EQ(raise(SIGUSR1), 0);
}

POSIX_TEST(sigaltstack_ends_with_its_thread)
{
	handle(SIGUSR1, count, SA_ONSTACK);
	for (int i = 0; i < 10; i++) {
		stack_t s = room(0);
		struct peer p;

		peer_start(&p, leave_it, &s);
		peer_join(&p);
		CHECK_EQ(munmap(s.ss_sp, ROOM), 0);
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(ran, 2 * (i + 1));
		peer_start(&p, set_and_query, NULL);
		peer_join(&p);
	}
	signal(SIGUSR1, SIG_DFL);
}
