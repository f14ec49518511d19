/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_fd_wait sees an event that comes between its query to the kernel and its wait.
 *
 * floors 0..6, wrap: poll
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <poll.h>
#include <unistd.h>

#include "rt.h"
#include "source.h"

int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

static int queries, write_end; /* queries so far; the fd to write to after the first */

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	int ready = __real_poll(fds, n, ms);

	if (queries++ == 0) {
		CHECK_EQ(ready, 0);
		CHECK_EQ(write(write_end, "x", 1), 1);
		sched_poll_now(); /* the event comes and finds no waiter */
	}
	return ready;
}

static void wait_for_event(void *arg)
{
	int p[2];

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	write_end = p[1];
	CHECK_EQ(gmp_fd_wait(p[0], GMP_READ, gmp_deadline(10 * INT64_C(1000000000))), GMP_READ);
	CHECK_EQ(queries, 2);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(fd_wait_event_between_query_and_park_is_seen)
{
	run_procs(1, wait_for_event, NULL);
}
