/* SPDX-License-Identifier: MIT */
/*
 * Between the question whether a descriptor is ready and the wait for it something happens: is it missed?  It
 * happens here, after the question.
 *
 * floors 0..6, wrap: poll
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/os.h"
#include "netpoll.h"
#include "rt.h"

#define PATIENCE INT64_C(40000000000) /* a bound on failure only */

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

static int pair[2];
static int asked;               /* how often gmp_wait_fd has */
static void (*meanwhile)(void); /* after the first question */

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (p->fd != pair[0])
		return __real_poll(p, n, ms);
	if (asked++ == 0) { /* in vain */
		errno = EINTR;
		return -1;
	}
	int result = __real_poll(p, n, ms);

	if (asked == 2)
		meanwhile();
	return result;
}

static void wait_for_it(void *arg)
{
	(void)arg;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CHECK_EQ(gmp_adopt(pair[0]), pair[0]);
	CHECK_EQ(gmp_wait_fd(pair[0], GMP_READ, gmp_now() + PATIENCE), GMP_READ);
	CHECK_EQ(asked, 3);
	CHECK_EQ(gmp_close(pair[0]), 0);
}

/* Until the poller, of whoever looks, has told. */
static void write_and_see(void)
{
	struct pollside *s = &netpoll_find(pair[0])->side[SIDE_READ];
	int64_t limit = gmp_now() + PATIENCE;
	uint32_t before = ld_rlx(&s->events);

	CHECK(__real_poll(&(struct pollfd){ .fd = pair[0], .events = POLLIN }, 1, 0) == 0);
	CHECK_EQ(write(pair[1], "x", 1), 1);
	while (ld_acq(&s->events) == before) {
		CHECK(gmp_now() < limit);
		gmp_sleep(100000); /* then the only P looks, too */
	}
}

TEST_PROCS(an_event_after_the_question_is_not_missed)
{
	meanwhile = write_and_see;
	run_procs(procs, wait_for_it, NULL);
}
