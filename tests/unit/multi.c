/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_poll loses no event between its query to the kernel and its wait, before and after
 * it is linked with the record (MULTI-1, MULTI-2), that a replaced close ends a registration for
 * polls (MULTI-5), for which events entries arm a polled fd (MULTI-6), and when the registration of
 * a read lasts (MULTI-7).
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
	netpoll_close_polled(pd, &out);
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

	c->e[i].events = events;
	CHECK_EQ(multi_link_unknown(&c->e[i], c->s[0], &out), MULTI_LINKED);
	c->pd = netpoll_find(c->s[0]);
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

/* --- MULTI-7 --- */

static int link_read(struct calls *c, int i, uint64_t seen, uint64_t socket, bool begin)
{
	struct multi_read r = { seen, socket, begin };
	struct glist out = { 0 };

	c->e[i].events = POLLIN;
	c->multi[i].fired = false;
	int result = multi_link_read(&c->e[i], c->s[0], &r, &out);

	c->pd = netpoll_find(c->s[0]);
	return result;
}

/* An event that the poller reports. */
static void send_byte(struct calls *c)
{
	uint32_t before = c->pd->side[SIDE_READ].events;

	CHECK_EQ(write(c->s[1], "x", 1), 1);
	while (c->pd->side[SIDE_READ].events == before)
		sched_poll_now();
}

static void begin_read_calls(struct calls *c)
{
	begin_calls(c);
	CHECK_EQ(link_read(c, 0, 0, os_socket_id(c->s[0]), true), MULTI_LINKED);
	CHECK_EQ(c->pd->polled, POLLED_PERSISTENT);
	multi_unlink(&c->e[0]);
}

/* Only Linux has ids, so persistent registrations are used only there. */
static void need_ids(int socket)
{
	if (!os_socket_id(socket))
		check_skip("the system has no ids of sockets");
}

static void link_reads(void *arg)
{
	struct calls c;
	uint64_t id, seen;

	(void)arg;
	begin_calls(&c);
	need_ids(c.s[0]);
	id = os_socket_id(c.s[0]);
	CHECK(id != os_socket_id(c.s[1]));
	CHECK_EQ(link_read(&c, 0, 0, id, false), MULTI_ABSENT);
	CHECK_EQ(link_read(&c, 0, 0, id, true), MULTI_LINKED);
	seen = multi_seen(c.s[0]);
	CHECK_EQ(link_read(&c, 1, seen, 0, false), MULTI_LINKED); /* not compared */
	CHECK_EQ(link_read(&c, 2, seen, id, false), MULTI_LINKED);
	CHECK_EQ(link_read(&c, 3, seen, id + 1, false), MULTI_ABSENT);
	CHECK_EQ(link_read(&c, 3, 0, id, false), MULTI_CHANGED);
	send_byte(&c);
	CHECK(c.multi[0].fired && c.multi[1].fired && c.multi[2].fired);
	CHECK_EQ(link_read(&c, 3, seen, id, false), MULTI_CHANGED);
	CHECK_EQ(link_read(&c, 3, multi_seen(c.s[0]), id, false), MULTI_LINKED);
	send_byte(&c);
	CHECK(c.multi[3].fired);
	CHECK_EQ(c.pd->polled, POLLED_PERSISTENT);
	end_calls(&c);
}

TEST(multi_link_read_compares_events_and_socket)
{
	run_procs(1, link_reads, NULL);
}

/* A registration that may be of another socket: the next read makes its own. */
static void forget_socket(void *arg)
{
	struct calls c;
	uint64_t id;

	(void)arg;
	begin_read_calls(&c);
	need_ids(c.s[0]);
	id = os_socket_id(c.s[0]);
	multi_forget_socket(c.s[0]);
	CHECK_EQ(link_read(&c, 0, multi_seen(c.s[0]), id, false), MULTI_ABSENT);
	CHECK_EQ(link_read(&c, 0, 0, id, true), MULTI_LINKED);
	send_byte(&c);
	CHECK(c.multi[0].fired);
	end_calls(&c);
}

TEST(multi_read_after_forget_socket_makes_a_registration)
{
	run_procs(1, forget_socket, NULL);
}

/* A poll of the fd arms the registration for both: its event ends both waits. */
static void poll_beside_read(void *arg)
{
	struct calls c;
	uint64_t id;

	(void)arg;
	begin_read_calls(&c);
	id = os_socket_id(c.s[0]);
	CHECK_EQ(link_read(&c, 0, multi_seen(c.s[0]), id, false), MULTI_LINKED);
	link_call(&c, 1, POLLOUT);
	CHECK_EQ(c.pd->polled, POLLED_ONCE);
	CHECK_EQ(link_read(&c, 2, multi_seen(c.s[0]), id, false), MULTI_ABSENT);
	CHECK_EQ(link_read(&c, 2, multi_seen(c.s[0]), id, true), MULTI_LINKED);
	CHECK_EQ(c.pd->polled, POLLED_ONCE); /* POLLOUT needs it */
	drain(c.s[1]);
	await_fired(&c, 1);
	CHECK(c.multi[0].fired && c.multi[2].fired);
	end_calls(&c);
}

TEST(multi_poll_beside_read_makes_the_registration_one_shot)
{
	run_procs(1, poll_beside_read, NULL);
}

/* Events without an entry: after some the poller reports no more, and the link of the next read
 * reports at once what is there. */
static void events_without_read(void *arg)
{
	struct calls c;
	int events = 0;

	(void)arg;
	begin_read_calls(&c);
	while (c.pd->polled == POLLED_PERSISTENT) {
		send_byte(&c);
		CHECK(++events < 100);
	}
	CHECK(events > 1);
	CHECK_EQ(c.pd->polled, POLLED_ONCE);
	uint32_t before = c.pd->side[SIDE_READ].events;

	CHECK_EQ(write(c.s[1], "x", 1), 1);
	sched_poll_now();
	CHECK_EQ(c.pd->side[SIDE_READ].events, before);
	CHECK_EQ(link_read(&c, 0, multi_seen(c.s[0]), os_socket_id(c.s[0]), true), MULTI_LINKED);
	await_fired(&c, 0);
	CHECK_EQ(c.pd->polled, POLLED_PERSISTENT);
	end_calls(&c);
}

TEST(multi_events_without_read_end_the_persistent_registration)
{
	run_procs(1, events_without_read, NULL);
}

/* A read in between: the events are wanted. */
static void events_with_reads(void *arg)
{
	struct calls c;

	(void)arg;
	begin_read_calls(&c);
	for (int i = 0; i < 100; i++) {
		send_byte(&c);
		CHECK_EQ(link_read(&c, 0, multi_seen(c.s[0]), 0, false), MULTI_LINKED);
		multi_unlink(&c.e[0]);
	}
	CHECK_EQ(c.pd->polled, POLLED_PERSISTENT);
	end_calls(&c);
}

TEST(multi_events_between_reads_keep_the_persistent_registration)
{
	run_procs(1, events_with_reads, NULL);
}

/* sysmon's check finds the number's file by its id. */
static void other_socket(void *arg)
{
	struct glist out = { 0 };
	struct calls c;
	int other[2];

	(void)arg;
	begin_read_calls(&c);
	need_ids(c.s[0]);
	CHECK_EQ(link_read(&c, 0, multi_seen(c.s[0]), 0, false), MULTI_LINKED);
	netpoll_check(0, UINT32_MAX, 0, &out);
	CHECK(!c.multi[0].fired);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	CHECK_EQ(dup2(other[0], c.s[0]), c.s[0]);
	netpoll_check(0, UINT32_MAX, 0, &out);
	CHECK(c.multi[0].fired);
	CHECK_EQ(c.pd->polled, POLLED_NOT);
	CHECK(!out.head);
	end_calls(&c);
	CHECK_EQ(close(other[0]), 0);
	CHECK_EQ(close(other[1]), 0);
}

TEST(multi_check_finds_another_socket_under_the_number)
{
	run_procs(1, other_socket, NULL);
}

/* A file without an id: a link that compares arms again, and the check asks the poller. */
static void no_id(void *arg)
{
	struct glist out = { 0 };
	struct calls c;
	uint64_t seen;
	int other[2];

	(void)arg;
	begin_calls(&c);
	CHECK_EQ(link_read(&c, 0, 0, NO_SOCKET, true), MULTI_LINKED);
	CHECK_EQ(c.pd->polled, POLLED_PERSISTENT);
	send_byte(&c);
	CHECK(c.multi[0].fired);
	seen = multi_seen(c.s[0]);
	CHECK_EQ(link_read(&c, 1, seen, NO_SOCKET, false), MULTI_ABSENT);
	CHECK_EQ(link_read(&c, 1, seen, NO_SOCKET, true), MULTI_LINKED);
	await_fired(&c, 1); /* the byte is there */
	CHECK_EQ(link_read(&c, 2, multi_seen(c.s[0]), 0, false), MULTI_LINKED);
	netpoll_check(0, UINT32_MAX, 0, &out);
	CHECK(!c.multi[2].fired);
	CHECK_EQ(pipe(other), 0);
	CHECK_EQ(dup2(other[0], c.s[0]), c.s[0]);
	netpoll_check(0, UINT32_MAX, 0, &out);
	CHECK(c.multi[2].fired);
	CHECK(!out.head);
	end_calls(&c);
	CHECK_EQ(close(other[0]), 0);
	CHECK_EQ(close(other[1]), 0);
}

TEST(multi_file_without_id_is_armed_by_each_link_that_compares)
{
	run_procs(1, no_id, NULL);
}

/* A registration that fails leaves the record as it was. */
static void fail_to_register(void *arg)
{
	char name[] = "/tmp/gmp-unit-XXXXXX";
	int file = mkstemp(name);
	struct calls c;
	uint64_t id;

	(void)arg;
	CHECK(file >= 0);
	CHECK_EQ(unlink(name), 0);
	begin_read_calls(&c);
	id = c.pd->socket;
	CHECK_EQ(dup2(file, c.s[0]), c.s[0]);
	CHECK_EQ(link_read(&c, 0, 0, id + 1, true), -EPERM);
	CHECK_EQ(c.pd->socket, id);
	CHECK(!c.pd->entries);
	CHECK_EQ(close(file), 0);
	end_calls(&c);
}

TEST(multi_failed_persistent_registration_keeps_the_id)
{
	run_procs(1, fail_to_register, NULL);
}

/* After the end of the stream a short read does not mean that nothing is left. */
static void hang_up(void *arg)
{
	struct calls c;
	uint64_t seen;

	(void)arg;
	begin_read_calls(&c);
	if (!gmp__poller.reports_urgent)
		check_skip("each read attempts first with this poller");
	send_byte(&c);
	seen = multi_seen(c.s[0]);
	CHECK(!multi_is_drained(c.s[0], seen));
	multi_set_drained(c.s[0], seen);
	CHECK(multi_is_drained(c.s[0], seen));
	CHECK_EQ(shutdown(c.s[1], SHUT_WR), 0);
	while (multi_seen(c.s[0]) == seen)
		sched_poll_now();
	seen = multi_seen(c.s[0]);
	multi_set_drained(c.s[0], seen);
	CHECK(!multi_is_drained(c.s[0], seen));
	end_calls(&c);
}

TEST(multi_end_of_stream_is_never_drained)
{
	run_procs(1, hang_up, NULL);
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
		CHECK_EQ(multi_link_unknown(&c.e[i], c.s[0], &out), MULTI_LINKED);
		c.pd = netpoll_find(c.s[0]);
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
