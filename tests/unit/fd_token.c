/* SPDX-License-Identifier: MIT */
/*
 * Tests that a caller does not park if data is available already: left by the previous holder of
 * the token, or arrived after its try. The hooks run between the check of the token, or the try,
 * and the section under the lock.
 *
 * floors 0..6, wrap: gmp__lock_slow
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "netpoll/netpoll.h"
#include "rt.h"

void __real_gmp__lock_slow(struct lock *l, unsigned most_pauses);
void __wrap_gmp__lock_slow(struct lock *l, unsigned most_pauses);

/* (a) the record whose next lock calls `between`; sysmon's locks are checked, too */
static struct polldesc *pd;
static int hook_calls;
static void (*between)(struct pollside *side);

/* The caller is about to enqueue. */
void __wrap_gmp__lock_slow(struct lock *l, unsigned most_pauses)
{
	struct polldesc *here = ld_acq(&pd);

	if (here && l == &here->lock) {
		hook_calls++;
		st_rel(&l->word, 0);
		st_rel(&pd, (struct polldesc *)NULL);
		between(&here->side[SIDE_READ]);
	}
	__real_gmp__lock_slow(l, most_pauses);
}

static void run_before_lock(int fd, void (*fn)(struct pollside *side))
{
	hook_calls = 0;
	between = fn;
	struct polldesc *here = netpoll_find(fd);

	CHECK(here != NULL);
	st_seq(&here->lock.word, 1); /* held by another thread */
	st_rel(&pd, here);
}

/* The caller has seen the token taken. Its holder releases it and finds no waiter to pass it to. */
static void release_token(struct pollside *side)
{
	side->token_out = false;
}

static void read_a(void *arg)
{
	char c;

	CHECK_EQ(gmp_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(c, 'a');
}

static void read_after_other_reader(void *arg)
{
	gmp_g *g;
	int p[2];
	char c;

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_spawn(&g, read_a, &p[0], NULL), 0);
	gmp_yield(); /* until the reader waits */
	CHECK_EQ(write(p[1], "ab", 2), 2);
	CHECK_EQ(gmp_join(g), 0); /* the event has been reported and is not repeated */
	run_before_lock(p[0], release_token);
	netpoll_find(p[0])->side[SIDE_READ].token_out = true; /* held by another caller */
	CHECK_EQ(gmp_read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'b');
	CHECK_EQ(hook_calls, 1);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(token_released_before_enqueue_is_taken)
{
	run_procs(1, read_after_other_reader, NULL);
}

/* The caller's try has failed. Data arrives, and the thread that polls then finds no waiter. */
static int written;

static void *write_and_poll(void *arg)
{
	struct pollside *side = arg;
	uint32_t seen = ld_acq(&side->events);
	struct glist out = { 0 };

	CHECK_EQ(write(written, "c", 1), 1);
	while (ld_acq(&side->events) == seen)
		netpoll_poll(0, &out);
	CHECK(out.head == NULL);
	return NULL;
}

/* On another thread, since the caller counts as holding the lock. */
static void on_another_thread(void *(*fn)(void *), void *arg)
{
	pthread_t other;

	CHECK_EQ(pthread_create(&other, NULL, fn, arg), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
}

static void event_arrives(struct pollside *side)
{
	on_another_thread(write_and_poll, side);
}

static void read_before_event(void *arg)
{
	int p[2];
	char c;

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	written = p[1];
	run_before_lock(p[0], event_arrives);
	CHECK_EQ(gmp_read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'c');
	CHECK_EQ(hook_calls, 1);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(event_between_try_and_enqueue_is_seen)
{
	run_procs(1, read_before_event, NULL);
}

/* The caller's try has failed. Data arrives, and the socket is shut down. */
static int reading;

static void *write_and_shut_down(void *arg)
{
	CHECK_EQ(write(written, "d", 1), 1);
	CHECK_EQ(gmp_shutdown(reading, SHUT_RD), 0);
	return arg;
}

static void event_and_shutdown(struct pollside *side)
{
	on_another_thread(write_and_shut_down, side);
}

static void read_before_shutdown(void *arg)
{
	int s[2];
	char c;

	(void)arg;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, s), 0);
	CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
	reading = s[0];
	written = s[1];
	run_before_lock(s[0], event_and_shutdown);
	CHECK_EQ(gmp_read(s[0], &c, 1), 1);
	CHECK_EQ(c, 'd');
	CHECK_EQ(hook_calls, 1);
	CHECK_EQ(gmp_read(s[0], &c, 1), 0);
	CHECK_EQ(gmp_close(s[0]), 0);
	CHECK_EQ(close(s[1]), 0);
}

TEST(data_between_try_and_shutdown_is_read)
{
	run_procs(1, read_before_shutdown, NULL);
}
