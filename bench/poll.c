/* SPDX-License-Identifier: MIT */
/*
 * Measures gmp_poll and poll(2), by number of fds.
 *
 * "poll ready/n": one call on n eventfds, of which the last is ready.  "poll wait/n": a waiter
 * polls n eventfds until a peer writes to the last of them, and the peer polls one eventfd until
 * the waiter answers.  The figure is a round trip, with two waits.  gmp_poll runs on two green
 * threads, poll(2) on two OS threads.  "fd_wait": the round trip with gmp_fd_wait on two adopted
 * eventfds.
 */
#include "shim.h"

#include <gmp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GMP, SYSTEM, FD_WAIT };

struct trip {
	struct pollfd *fds; /* the peer writes to the last */
	int64_t n, count;
	int answer, mode;
};

static int event_fd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	bench_check(fd >= 0, "eventfd: raise the limit of open files");
	return fd;
}

static struct pollfd *event_fds(int64_t n)
{
	struct rlimit r;

	bench_check(getrlimit(RLIMIT_NOFILE, &r) == 0, "getrlimit");
	if (r.rlim_cur < (rlim_t)n + 100) {
		r.rlim_cur = r.rlim_max;
		bench_check(setrlimit(RLIMIT_NOFILE, &r) == 0, "setrlimit");
	}
	struct pollfd *fds = calloc((size_t)n, sizeof(*fds));

	bench_check(fds != NULL, "no memory");
	for (int64_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = event_fd(), .events = POLLIN };
	return fds;
}

static void close_fds(struct pollfd *fds, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		close(fds[i].fd);
	free(fds);
}

static void post(int fd)
{
	uint64_t one = 1;

	bench_check(write(fd, &one, sizeof(one)) == sizeof(one), "write");
}

static void take(int fd)
{
	uint64_t count;

	bench_check(read(fd, &count, sizeof(count)) == sizeof(count) && count == 1, "read");
}

static int wait_any(const struct trip *t, struct pollfd *fds, int64_t n)
{
	if (t->mode == SYSTEM)
		return poll(fds, (nfds_t)n, -1);
	if (t->mode == FD_WAIT)
		return gmp_fd_wait(fds[n - 1].fd, GMP_READ, GMP_FOREVER);
	return gmp_poll(fds, (nfds_t)n, GMP_FOREVER);
}

/* --- ready at once --- */

static void ready(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	struct trip t = { .mode = c->mode };
	struct pollfd *fds = event_fds(c->n);

	post(fds[c->n - 1].fd);
	int64_t t0 = bench_clock();

	for (int64_t i = 0; i < c->count; i++)
		bench_check(wait_any(&t, fds, c->n) == 1, "one is ready");
	bench_time(st, bench_clock() - t0, c->count);
	close_fds(fds, c->n);
}

/* --- waiting --- */

static void wait_and_answer(void *arg)
{
	struct trip *t = arg;

	for (int64_t i = 0; i < t->count; i++) {
		bench_check(wait_any(t, t->fds, t->n) == 1, "one is ready");
		take(t->fds[t->n - 1].fd);
		post(t->answer);
	}
}

static void *wait_in_thread(void *arg)
{
	wait_and_answer(arg);
	return NULL;
}

static void ask(struct trip *t)
{
	struct pollfd answer = { .fd = t->answer, .events = POLLIN };

	for (int64_t i = 0; i < t->count; i++) {
		post(t->fds[t->n - 1].fd);
		bench_check(wait_any(t, &answer, 1) == 1, "the answer");
		take(t->answer);
	}
}

static void adopt_both(struct trip *t)
{
	bench_check(gmp_fd_adopt(t->answer) == t->answer, "gmp_fd_adopt");
	bench_check(gmp_fd_adopt(t->fds[0].fd) == t->fds[0].fd, "gmp_fd_adopt");
}

static void trips(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	struct trip t = { event_fds(c->n), c->n, c->count, event_fd(), c->mode };
	pthread_t thread;
	gmp_g *g = NULL;

	if (c->mode == FD_WAIT)
		adopt_both(&t);
	if (c->mode == SYSTEM)
		bench_check(pthread_create(&thread, NULL, wait_in_thread, &t) == 0,
			    "pthread_create");
	else
		bench_check(gmp_spawn(&g, wait_and_answer, &t, NULL) == 0, "gmp_spawn");
	int64_t t0 = bench_clock();

	ask(&t);
	bench_time(st, bench_clock() - t0, c->count);
	if (c->mode == SYSTEM)
		pthread_join(thread, NULL);
	else
		gmp_join(g);
	if (c->mode == FD_WAIT) {
		gmp_fd_release(t.answer);
		gmp_fd_release(t.fds[0].fd);
	}
	close(t.answer);
	close_fds(t.fds, t.n);
}

BENCH(ready, "poll ready/1", .procs = 1, .n = 1, .count = 400000);
BENCH(ready, "poll ready/10", .procs = 1, .n = 10, .count = 200000);
BENCH(ready, "poll ready/100", .procs = 1, .n = 100, .count = 40000);
BENCH(ready, "poll ready/1000", .procs = 1, .n = 1000, .count = 4000);
BENCH(ready, "poll ready/1 poll(2)", .n = 1, .count = 400000, .mode = SYSTEM);
BENCH(ready, "poll ready/10 poll(2)", .n = 10, .count = 200000, .mode = SYSTEM);
BENCH(ready, "poll ready/100 poll(2)", .n = 100, .count = 40000, .mode = SYSTEM);
BENCH(ready, "poll ready/1000 poll(2)", .n = 1000, .count = 4000, .mode = SYSTEM);
BENCH(trips, "poll wait/1", .procs = 1, .n = 1, .count = 60000);
BENCH(trips, "poll wait/10", .procs = 1, .n = 10, .count = 40000);
BENCH(trips, "poll wait/100", .procs = 1, .n = 100, .count = 8000);
BENCH(trips, "poll wait/1000", .procs = 1, .n = 1000, .count = 1000);
BENCH(trips, "poll wait/1 poll(2)", .n = 1, .count = 60000, .mode = SYSTEM);
BENCH(trips, "poll wait/10 poll(2)", .n = 10, .count = 40000, .mode = SYSTEM);
BENCH(trips, "poll wait/100 poll(2)", .n = 100, .count = 8000, .mode = SYSTEM);
BENCH(trips, "poll wait/1000 poll(2)", .n = 1000, .count = 1000, .mode = SYSTEM);
BENCH(trips, "poll wait fd_wait", .procs = 1, .n = 1, .count = 60000, .mode = FD_WAIT);
