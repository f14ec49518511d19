/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_poll loses no event between its query to the kernel and its wait, before and after
 * it is linked with the record (MULTI-1, MULTI-2), that a replaced close ends a registration for
 * polls (MULTI-5), for which events entries arm a polled fd (MULTI-6), and that a call whose number
 * was closed before its link ends (MULTI-7).
 *
 * floors 0..6, wrap: poll ready_list
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netpoll/netpoll.h"
#include "netpoll/multi.h"
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

static bool is_polled(struct polldesc *pd)
{
	lock(&pd->lock, LR_POLLDESC);
	bool polled = pd->polled;

	unlock(&pd->lock, LR_POLLDESC);
	return polled;
}

static void close_polled(void *arg)
{
	struct pollfd p = { .events = POLLIN };
	struct glist out = { 0 };
	int ends[2];

	(void)arg;
	CHECK_EQ(pipe(ends), 0);
	p.fd = ends[0];
	struct polldesc *pd;

	do { /* a call that finds its deadline expired registers nothing */
		CHECK_EQ(gmp_poll(&p, 1, gmp_deadline(1000000)), -ETIMEDOUT);
		pd = netpoll_find(ends[0]);
	} while (!pd || !is_polled(pd));
	netpoll_close_number(pd, &out);
	CHECK(!is_polled(pd));
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

/* --- MULTI-6 --- */

enum { ENTRIES = 4 };

/* Calls that never park, whose entries a test links with one polled fd: a full socket, of which
 * nothing can be read. */
struct calls {
	struct multi multi[ENTRIES];
	struct multi_entry e[ENTRIES];
	struct polldesc *pd;
	int s[2];
};

static void fill(int fd)
{
	static const char zeros[4096];

	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0)
		;
}

static void drain(int fd)
{
	static char bytes[4096];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void begin_calls(struct calls *c)
{
	*c = (struct calls){ .s = { -1, -1 } };
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, c->s), 0);
	fill(c->s[0]);
	for (int i = 0; i < ENTRIES; i++) {
		c->multi[i].sg = &getm()->curg->sudog;
		c->e[i].of = &c->multi[i];
	}
}

static void link_call(struct calls *c, int i, short events)
{
	struct glist out = { 0 };

	c->pd = netpoll_record(c->s[0]);
	c->e[i].events = events;
	c->e[i].seen = multi_look(c->pd);
	CHECK_EQ(multi_link(&c->e[i], c->s[0], &out), MULTI_LINKED);
	CHECK(c->pd->polled);
	CHECK(c->pd->entries == &c->e[i]);
}

static void end_calls(struct calls *c)
{
	for (int i = 0; i < ENTRIES; i++)
		multi_unlink(&c->e[i]);
	CHECK(!c->pd->entries);
	CHECK_EQ(close(c->s[0]), 0);
	CHECK_EQ(close(c->s[1]), 0);
}

/* Polls until an event has fired the entry. */
static void await_fired(const struct calls *c, int i)
{
	while (!c->multi[i].fired)
		sched_poll_now();
}

/* Entries for POLLIN and then for POLLOUT, in each order: an event of either fires both. */
static void arm_for_all(void *arg)
{
	static const short kinds[2] = { POLLIN, POLLOUT };
	struct calls c;

	(void)arg;
	for (int k = 0; k < 4; k++) {
		begin_calls(&c);
		link_call(&c, 0, kinds[k & 1]);
		link_call(&c, 1, kinds[!(k & 1)]);
		CHECK(!c.multi[0].fired && !c.multi[1].fired);
		if (k & 2)
			CHECK_EQ(write(c.s[1], "x", 1), 1); /* something to read */
		else
			drain(c.s[1]); /* room */
		await_fired(&c, 0);
		CHECK(c.multi[1].fired);
		end_calls(&c);
	}
}

TEST(multi_link_arms_for_the_entries_before)
{
	run_procs(1, arm_for_all, NULL);
}

/* The front entry stands for all behind it: the others may be any number. */
static void read_the_front(void *arg)
{
	struct calls c;

	(void)arg;
	begin_calls(&c);
	link_call(&c, 0, POLLPRI);
	link_call(&c, 1, POLLIN);
	CHECK_EQ(c.e[1].all, POLLPRI | POLLIN);
	c.e[0].all = c.e[0].events = 0; /* not read any more */
	link_call(&c, 2, POLLRDHUP);
	CHECK_EQ(c.e[2].all, POLLPRI | POLLIN | POLLRDHUP);
	end_calls(&c);
}

TEST(multi_link_reads_only_the_front_entry)
{
	run_procs(1, read_the_front, NULL);
}

/* An unlinked entry leaves the others with at least the events that they ask for. */
static void unlink_some(void *arg)
{
	struct calls c;

	(void)arg;
	for (int gone = 0; gone < 3; gone++) {
		begin_calls(&c);
		link_call(&c, 0, POLLIN);
		link_call(&c, 1, POLLPRI);
		link_call(&c, 2, POLLRDHUP);
		multi_unlink(&c.e[gone]);
		short asked = 0;

		for (const struct multi_entry *e = c.pd->entries; e; e = e->next)
			asked |= e->events;
		CHECK_EQ(c.pd->entries->all & asked, asked);
		link_call(&c, 3, POLLOUT);
		CHECK_EQ(c.e[3].all & (asked | POLLOUT), asked | POLLOUT);
		drain(c.s[1]);
		await_fired(&c, 3);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(c.multi[i].fired, i != gone);
		end_calls(&c);
	}
}

TEST(multi_unlink_leaves_the_events_of_the_others)
{
	run_procs(1, unlink_some, NULL);
}

/* Fired entries, which their calls have not unlinked yet, ask for nothing more. */
static void fire_and_link(void *arg)
{
	struct calls c;

	(void)arg;
	begin_calls(&c);
	link_call(&c, 0, POLLIN);
	link_call(&c, 1, POLLIN);
	CHECK_EQ(write(c.s[1], "x", 1), 1);
	await_fired(&c, 0);
	CHECK(c.multi[1].fired);
	CHECK(!c.e[0].all && !c.e[1].all);
	link_call(&c, 2, POLLOUT);
	CHECK_EQ(c.e[2].all, POLLOUT);
	sched_poll_now();
	CHECK(!c.multi[2].fired); /* it can be read, which is not asked for */
	end_calls(&c);
}

TEST(multi_event_clears_the_events_of_fired_entries)
{
	run_procs(1, fire_and_link, NULL);
}

/* --- MULTI-1, MULTI-7 --- */

/* Link an entry of a call that has seen the record by then. */
static int link_seen(struct calls *c, int i, struct multi_seen seen)
{
	struct glist out = { 0 };

	c->multi[i].fired = false;
	c->e[i] = (struct multi_entry){ .of = &c->multi[i], .seen = seen, .events = POLLIN };
	return multi_link(&c->e[i], c->s[0], &out);
}

/* An event, or a shutdown, between the attempt and the link. */
static void change_before_link(void *arg)
{
	struct glist out = { 0 };
	struct multi_seen seen;
	struct calls c;

	(void)arg;
	begin_calls(&c);
	link_call(&c, 0, POLLIN);
	seen = multi_look(c.pd);
	CHECK_EQ(write(c.s[1], "x", 1), 1);
	await_fired(&c, 0);
	CHECK_EQ(link_seen(&c, 1, seen), MULTI_AGAIN);
	CHECK(!c.e[1].closed && !c.e[1].pd);
	multi_look_again(&seen, c.pd);
	netpoll_shut_down(c.pd, PD_GOES_ON, &out);
	CHECK_EQ(link_seen(&c, 1, seen), MULTI_AGAIN);
	multi_look_again(&seen, c.pd);
	CHECK_EQ(link_seen(&c, 1, seen), MULTI_LINKED);
	await_fired(&c, 1); /* the byte is there: arming reports it */
	CHECK(!out.head);
	end_calls(&c);
}

TEST(multi_link_after_an_event_attempts_again)
{
	run_procs(1, change_before_link, NULL);
}

/* The number is closed, and has another file, between the attempt and the link. */
static void close_before_link(void *arg)
{
	struct glist out = { 0 };
	struct multi_seen seen, later;
	struct calls c;
	int other[2];

	(void)arg;
	begin_calls(&c);
	seen = multi_look(netpoll_record(c.s[0]));
	link_call(&c, 0, POLLIN);
	netpoll_close_number(c.pd, &out);
	CHECK(c.multi[0].fired && c.e[0].closed);
	later = multi_look(c.pd);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	CHECK_EQ(dup2(other[0], c.s[0]), c.s[0]);
	multi_look_again(&seen, c.pd);
	CHECK_EQ(link_seen(&c, 1, seen), MULTI_AGAIN);
	CHECK(c.e[1].closed && !c.e[1].pd);
	CHECK_EQ(link_seen(&c, 2, later), MULTI_LINKED); /* a call of the present file */
	CHECK(!c.e[2].closed);
	CHECK_EQ(write(other[1], "x", 1), 1);
	await_fired(&c, 2);
	CHECK(!out.head);
	end_calls(&c);
	CHECK_EQ(close(other[0]), 0);
	CHECK_EQ(close(other[1]), 0);
}

TEST(multi_link_after_a_close_is_closed)
{
	run_procs(1, close_before_link, NULL);
}

/* sysmon's check finds another file under the number. */
static void other_file(void *arg)
{
	struct glist out = { 0 };
	struct calls c;
	int other[2];

	(void)arg;
	begin_calls(&c);
	link_call(&c, 0, POLLIN);
	netpoll_check(0, UINT32_MAX, 0, &out);
	CHECK(!c.multi[0].fired);
	CHECK_EQ(pipe(other), 0);
	CHECK_EQ(dup2(other[0], c.s[0]), c.s[0]);
	netpoll_check(0, UINT32_MAX, 0, &out);
	CHECK(c.multi[0].fired && !c.e[0].closed);
	CHECK(!c.pd->polled);
	CHECK(!out.head);
	end_calls(&c);
	CHECK_EQ(close(other[0]), 0);
	CHECK_EQ(close(other[1]), 0);
}

TEST(multi_check_finds_another_file_under_the_number)
{
	run_procs(1, other_file, NULL);
}

/* A registration that fails links nothing. */
static void fail_to_register(void *arg)
{
	char name[] = "/tmp/gmp-unit-XXXXXX";
	int file = mkstemp(name);
	struct calls c;

	(void)arg;
	CHECK(file >= 0);
	CHECK_EQ(unlink(name), 0);
	begin_calls(&c);
	link_call(&c, 0, POLLIN);
	multi_unlink(&c.e[0]);
	CHECK_EQ(dup2(file, c.s[0]), c.s[0]);
	CHECK_EQ(link_seen(&c, 1, multi_look(c.pd)), MULTI_AGAIN); /* EPERM: poll again */
	CHECK(!c.pd->entries);
	CHECK_EQ(close(file), 0);
	end_calls(&c);
}

TEST(multi_failed_registration_links_nothing)
{
	run_procs(1, fail_to_register, NULL);
}

/* --- MULTI-9 --- */

static void check_order(const struct calls *c, const int *order, int n)
{
	const struct multi_entry *e = c->pd->entries;

	for (int i = 0; i < n; i++, e = e->next)
		CHECK(e == &c->e[order[i]]);
	CHECK(!e);
}

/* The newest is at the front, which stands for the events of all. */
static void link_by_time(void *arg)
{
	static const int order[3][4] = { { 1, 0 }, { 1, 2, 0 }, { 3, 1, 2, 0 } };
	static const int64_t since[4] = { 10, 30, 20, 30 };
	static const short events[4] = { POLLIN, POLLPRI, POLLRDHUP, POLLIN };
	struct glist out = { 0 };
	struct calls c;

	(void)arg;
	begin_calls(&c);
	for (int i = 0; i < 4; i++) {
		c.e[i].since = since[i];
		c.e[i].events = events[i];
		c.pd = netpoll_record(c.s[0]);
		c.e[i].seen = multi_look(c.pd);
		CHECK_EQ(multi_link(&c.e[i], c.s[0], &out), MULTI_LINKED);
		if (i > 0)
			check_order(&c, order[i - 1], i + 1);
	}
	CHECK_EQ(c.e[1].all, POLLIN | POLLPRI | POLLRDHUP);
	CHECK_EQ(c.e[3].all, POLLIN | POLLPRI | POLLRDHUP);
	CHECK_EQ(c.e[2].all, POLLIN | POLLRDHUP);
	multi_unlink(&c.e[1]);
	check_order(&c, (const int[]){ 3, 2, 0 }, 3);
	end_calls(&c);
}

TEST(multi_entries_are_linked_by_time)
{
	run_procs(1, link_by_time, NULL);
}
