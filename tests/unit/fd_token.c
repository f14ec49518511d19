/* SPDX-License-Identifier: MIT */
/*
 * Does one go to sleep for whom there is something already: left by another who had the turn, or come after
 * the try?  The tests step in between the look at the turn, or the try, and the section under the lock.
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
#include "netpoll.h"
#include "rt.h"

void __real_gmp__lock_slow(struct lock *l, unsigned most_pauses);
void __wrap_gmp__lock_slow(struct lock *l, unsigned most_pauses);

static struct polldesc *pd; /* (a) the watcher's locks are looked at, too */
static int looked;
static void (*between)(struct pollside *side);

/* The caller is about to queue up. */
void __wrap_gmp__lock_slow(struct lock *l, unsigned most_pauses)
{
	struct polldesc *here = ld_acq(&pd);

	if (here && l == &here->lock) {
		looked++;
		st_rel(&l->word, 0);
		st_rel(&pd, (struct polldesc *)NULL);
		between(&here->side[SIDE_READ]);
	}
	__real_gmp__lock_slow(l, most_pauses);
}

static void step_in(int fd, void (*fn)(struct pollside *side))
{
	looked = 0;
	between = fn;
	struct polldesc *here = netpoll_find(fd);

	CHECK(here != NULL);
	st_seq(&here->lock.word, 1); /* somebody has the lock */
	st_rel(&pd, here);
}

/* The caller has seen the turn out: the one who had it is done, and finds nobody to pass it to. */
static void end_turn(struct pollside *side)
{
	side->turn = false;
}

static void read_a(void *arg)
{
	char c;

	CHECK_EQ(gmp_read(*(int *)arg, &c, 1), 1);
	CHECK_EQ(c, 'a');
}

static void read_beside_another(void *arg)
{
	gmp_g *g;
	int p[2];
	char c;

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	CHECK_EQ(gmp_spawn(&g, read_a, &p[0], NULL), 0);
	gmp_yield(); /* it waits */
	CHECK_EQ(write(p[1], "ab", 2), 2);
	CHECK_EQ(gmp_join(g), 0); /* the event has come, and comes no more */
	step_in(p[0], end_turn);
	netpoll_find(p[0])->side[SIDE_READ].turn = true; /* somebody has it */
	CHECK_EQ(gmp_read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'b');
	CHECK_EQ(looked, 1);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(token_released_before_enqueue_is_taken)
{
	run_procs(1, read_beside_another, NULL);
}

/* The caller has tried in vain: something comes, and whoever polls then finds nobody who waits for it. */
static int written;

static void *poll_for_it(void *arg)
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

/* As the caller counts as one who holds the lock. */
static void on_another_thread(void *(*fn)(void *), void *arg)
{
	pthread_t other;

	CHECK_EQ(pthread_create(&other, NULL, fn, arg), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
}

static void come(struct pollside *side)
{
	on_another_thread(poll_for_it, side);
}

static void read_before_it_comes(void *arg)
{
	int p[2];
	char c;

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	written = p[1];
	step_in(p[0], come);
	CHECK_EQ(gmp_read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'c');
	CHECK_EQ(looked, 1);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(event_between_try_and_enqueue_is_seen)
{
	run_procs(1, read_before_it_comes, NULL);
}

/* The caller has tried in vain: something comes, and its socket is shut down. */
static int reading;

static void *write_and_shut_down(void *arg)
{
	CHECK_EQ(write(written, "d", 1), 1);
	CHECK_EQ(gmp_shutdown(reading, SHUT_RD), 0);
	return arg;
}

static void come_and_end(struct pollside *side)
{
	on_another_thread(write_and_shut_down, side);
}

static void read_before_the_end(void *arg)
{
	int s[2];
	char c;

	(void)arg;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, s), 0);
	CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
	reading = s[0];
	written = s[1];
	step_in(s[0], come_and_end);
	CHECK_EQ(gmp_read(s[0], &c, 1), 1);
	CHECK_EQ(c, 'd');
	CHECK_EQ(looked, 1);
	CHECK_EQ(gmp_read(s[0], &c, 1), 0);
	CHECK_EQ(gmp_close(s[0]), 0);
	CHECK_EQ(close(s[1]), 0);
}

TEST(data_between_try_and_shutdown_is_read)
{
	run_procs(1, read_before_the_end, NULL);
}
