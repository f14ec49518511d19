/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_poll loses no event between its query to the kernel and its wait, before and after
 * it is linked with the record (MULTI-1, MULTI-2), and that a replaced close ends a registration
 * for polls (MULTI-5).
 *
 * floors 0..6, wrap: poll ready_list
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "netpoll.h"
#include "poller.h"
#include "rt.h"
#include "source.h"

int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

void __real_ready_list(struct glist *list);
void __wrap_ready_list(struct glist *list);

static int queries;     /* number of queries */
static int at;          /* the query after which the event comes; 0: none */
static int write_end;   /* fd to write to */
static bool after_link; /* the event comes at the next ready_list after a query */

static void send_event(void)
{
	CHECK_EQ(write(write_end, "x", 1), 1);
	sched_poll_now(); /* the event comes, and finds no waiter */
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	int ready = __real_poll(fds, n, ms);

	if (++queries == at) {
		CHECK_EQ(ready, 0);
		send_event();
	}
	return ready;
}

/* gmp_poll calls it after it has linked its entries. */
void __wrap_ready_list(struct glist *list)
{
	if (after_link && queries == 2) {
		after_link = false;
		send_event();
	}
	__real_ready_list(list);
}

/* gmp_poll queries once, notes the events seen so far, and queries again. */
static void poll_for_event(void *arg)
{
	struct pollfd p = { .events = POLLIN };
	int ends[2];

	(void)arg;
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(gmp_fd_adopt(ends[0]), ends[0]);
	write_end = ends[1];
	p.fd = ends[0];
	CHECK_EQ(gmp_poll(&p, 1, gmp_deadline(10 * INT64_C(1000000000))), 1);
	CHECK_EQ(p.revents, POLLIN);
	CHECK_EQ(queries, 3);
	CHECK_EQ(gmp_close(ends[0]), 0);
	CHECK_EQ(close(ends[1]), 0);
}

TEST(poll_event_before_link_is_seen)
{
	at = 2;
	run_procs(1, poll_for_event, NULL);
}

TEST(poll_event_between_link_and_park_is_seen)
{
	at = 0;
	after_link = true;
	run_procs(1, poll_for_event, NULL);
	CHECK(!after_link);
}

static void close_polled(void *arg)
{
	struct pollfd p = { .events = POLLIN };
	struct glist out = { 0 };
	int ends[2];

	(void)arg;
	CHECK_EQ(pipe(ends), 0);
	p.fd = ends[0];
	CHECK_EQ(gmp_poll(&p, 1, gmp_deadline(1000000)), -ETIMEDOUT);
	struct polldesc *pd = netpoll_find(ends[0]);

	CHECK(pd->polled);
	netpoll_close_polled(pd, &out);
	CHECK(!pd->polled);
	CHECK(!out.head);
	CHECK_EQ(gmp__poller.add(ends[0], 1), 0); /* -EEXIST: it was still registered */
	CHECK_EQ(gmp__poller.del(ends[0]), 0);
	CHECK_EQ(close(ends[0]), 0);
	CHECK_EQ(close(ends[1]), 0);
}

TEST(poll_closed_number_is_not_registered)
{
	queries = at = 0;
	run_procs(1, close_polled, NULL);
}
