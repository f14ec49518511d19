/* SPDX-License-Identifier: MIT */
/*
 * Is one told who waits for readiness, when it comes between its question to the kernel and its wait?
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

static int asked, answer; /* a descriptor to write to, after the first question */

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	int ready = __real_poll(fds, n, ms);

	if (asked++ == 0) {
		CHECK_EQ(ready, 0);
		CHECK_EQ(write(answer, "x", 1), 1);
		sched_poll_now(); /* the event comes, and finds nobody */
	}
	return ready;
}

static void wait_for_what_comes_now(void *arg)
{
	int p[2];

	(void)arg;
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	answer = p[1];
	CHECK_EQ(gmp_fd_wait(p[0], GMP_READ, gmp_deadline(10 * INT64_C(1000000000))), GMP_READ);
	CHECK_EQ(asked, 2);
	CHECK_EQ(gmp_close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

TEST(fd_wait_event_between_query_and_park_is_seen)
{
	run_procs(1, wait_for_what_comes_now, NULL);
}
