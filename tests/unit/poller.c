/* SPDX-License-Identifier: MIT */
/*
 * Tests that the poller reports each change once, refuses fds that cannot be polled, and ends a
 * wait on wake.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "poller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/os.h"

#define PATIENCE (10 * S) /* a bound on failure only */

static struct poll_event ev[16];
static const struct poller *const po = &gmp__poller;

static void begin(void)
{
	CHECK_EQ(po->open(), 0);
}

static void write_one(int fd)
{
	CHECK_EQ(write(fd, "x", 1), 1);
}

static void read_one(int fd)
{
	char c;

	CHECK_EQ(read(fd, &c, 1), 1);
}

static int poll_once(void)
{
	return po->wait(ev, (int)countof(ev), 0);
}

/* --- registering --- */

TEST(poller_add_registered_fd_returns_eexist)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 1), 0);
	CHECK_EQ(po->add(fds[0], 2), -EEXIST);
	CHECK_EQ(po->del(fds[0]), 0);
	CHECK_EQ(po->del(fds[0]), -ENOENT);
	CHECK_EQ(po->add(fds[0], 3), 0);
	po->close();
}

TEST(poller_add_file_returns_eperm)
{
	char name[] = "/tmp/poller-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	unlink(name);
	begin();
	CHECK_EQ(po->add(fd, 1), -EPERM);
	CHECK_EQ(po->add(-1, 1), -EBADF);
	CHECK_EQ(po->add(1 << 20, 1), -EBADF);
	close(fd);
	po->close();
}

TEST(poller_close_leaks_no_fd)
{
	int before = dup(0), after;

	for (int i = 0; i < 3; i++) {
		begin();
		po->close();
	}
	after = dup(0);
	CHECK(before >= 0);
	CHECK_EQ(after, before + 1);
	po->close(); /* can be repeated */
}

TEST(poller_fds_are_high_and_close_on_exec)
{
	enum { MOST = 1024 };
	bool was_open[MOST];
	int opened = 0;

	for (int fd = 0; fd < MOST; fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;
	begin();
	for (int fd = 0; fd < MOST; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (was_open[fd] || flags < 0)
			continue;
		CHECK(flags & FD_CLOEXEC);
		CHECK(fd >= os_fd_raised());
		opened++;
	}
	CHECK(opened > 0);
	po->close();
}

/* --- events --- */

TEST(poller_event_is_reported_once_per_change)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 77), 0);
	CHECK_EQ(poll_once(), 0);
	for (int i = 0; i < 3; i++) {
		write_one(fds[1]); /* although data is buffered already */
		CHECK_EQ(poll_once(), 1);
		CHECK_EQ(ev[0].key, 77);
		CHECK_EQ(ev[0].events, POLL_READ);
		CHECK_EQ(poll_once(), 0);
	}
	po->close();
}

TEST(poller_add_ready_fd_is_reported)
{
	uint64_t key = UINT64_C(0xfedcba9876543210);
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	write_one(fds[1]);
	CHECK_EQ(po->add(fds[0], key), 0);
	CHECK_EQ(po->wait(ev, (int)countof(ev), NEVER), 1);
	CHECK(ev[0].key == key);
	CHECK_EQ(ev[0].events, POLL_READ | POLL_WRITE);
	po->close();
}

TEST(poller_writable_pipe_is_reported)
{
	static char much[1 << 16];
	int fds[2];

	begin();
	CHECK_EQ(pipe2(fds, O_NONBLOCK), 0);
	while (write(fds[1], much, sizeof(much)) > 0)
		;
	CHECK_EQ(po->add(fds[1], 5), 0);
	CHECK_EQ(poll_once(), 0);
	while (read(fds[0], much, sizeof(much)) > 0)
		;
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 5);
	CHECK_EQ(ev[0].events, POLL_WRITE);
	po->close();
}

TEST(poller_event_is_kept_until_wait)
{
	int a[2], b[2];
	uint64_t keys;

	begin();
	CHECK_EQ(pipe(a), 0);
	CHECK_EQ(pipe(b), 0);
	CHECK_EQ(po->add(a[0], 1), 0);
	CHECK_EQ(po->add(b[0], 2), 0);
	write_one(a[1]);
	write_one(b[1]);
	CHECK_EQ(po->wait(ev, 1, S), 1); /* at most as many as asked for */
	keys = ev[0].key;
	CHECK_EQ(po->wait(ev, 1, S), 1);
	CHECK_EQ(keys + ev[0].key, 3);
	CHECK_EQ(poll_once(), 0);
	po->close();
}

TEST(poller_deleted_fd_is_not_reported)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 1), 0);
	write_one(fds[1]);
	CHECK_EQ(po->del(fds[0]), 0);
	CHECK_EQ(poll_once(), 0);
	read_one(fds[0]);
	po->close();
}

TEST(poller_closed_peer_is_reported_as_hangup)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 1), 0);
	close(fds[1]);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].events & (POLL_READ | POLL_HUNG), POLL_READ | POLL_HUNG);
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[1], 2), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].events, POLL_WRITE);
	close(fds[0]); /* reported to a writer as an error */
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 2);
	CHECK_EQ(ev[0].events & (POLL_WRITE | POLL_HUNG), POLL_WRITE | POLL_HUNG);
	po->close();
}

TEST(poller_shutdown_write_is_hangup_for_reader)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_EQ(po->add(fds[0], 1), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].events, POLL_WRITE);
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].events & (POLL_READ | POLL_HUNG), POLL_READ | POLL_HUNG);
	po->close();
}

TEST(poller_add_of_registered_fd_keeps_its_key)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 1), 0);
	CHECK_EQ(po->add(fds[0], 2), -EEXIST);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 1);
	po->close();
}

static void fill(int fd)
{
	static char much[1 << 16];

	while (write(fd, much, sizeof(much)) > 0)
		;
}

/* A wait for room in the send buffer would never sleep otherwise. */
TEST(poller_add_of_half_closed_fd_reports_nothing_again)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	fill(fds[0]);
	CHECK_EQ(po->add(fds[0], 1), 0);
	CHECK_EQ(poll_once(), 0);
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].events, POLL_READ | POLL_HUNG);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(po->add(fds[0], 2), -EEXIST);
		CHECK_EQ(poll_once(), 0);
	}
	po->close();
}

TEST(poller_add_after_plain_close_registers_next_file)
{
	int fds[2], next[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 1), 0);
	CHECK_EQ(close(fds[0]), 0);
	CHECK_EQ(po->add(fds[0], 2), -EBADF);
	CHECK_EQ(pipe(next), 0);
	CHECK_EQ(next[0], fds[0]);
	CHECK_EQ(po->rekey(next[0], 3), -ENOENT);
	CHECK_EQ(po->add(next[0], 4), 0);
	write_one(next[1]);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 4);
	po->close();
}

TEST(poller_rekey_ready_fd_is_reported_with_new_key)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->rekey(fds[0], 1), -ENOENT);
	CHECK_EQ(po->add(fds[0], 1), 0);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(po->rekey(fds[0], 2), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 2);
	CHECK_EQ(ev[0].events, POLL_READ);
	CHECK_EQ(poll_once(), 0);
	po->verify(); /* harmless */
	po->close();
}

TEST(poller_full_batch_is_filled)
{
	enum { MANY = 100 };
	static struct poll_event many[MANY];
	int fds[MANY][2];
	uint64_t sum = 0;

	begin();
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(pipe(fds[i]), 0);
		CHECK_EQ(po->add(fds[i][0], (uint64_t)i + 1), 0);
		write_one(fds[i][1]);
	}
	po->wake();
	CHECK_EQ(po->wait(many, MANY - 10, S) + po->wait(many + MANY - 10, 20, 0), MANY);
	for (int i = 0; i < MANY; i++)
		sum += many[i].key;
	CHECK_EQ(sum, MANY * (MANY + 1) / 2);
	po->close();
}

/* --- one report --- */

TEST(poller_once_reports_once_until_armed_again)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->once(fds[0], 1, POLLIN, false), -ENOENT);
	CHECK_EQ(po->once(fds[0], 1, POLLIN, true), 0);
	CHECK_EQ(po->once(fds[0], 2, POLLIN, true), -EEXIST);
	CHECK_EQ(po->add(fds[0], 3), -EEXIST);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 1);
	CHECK_EQ(ev[0].events, POLL_READ);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 0);
	CHECK_EQ(po->once(fds[0], 4, POLLIN, false), 0); /* it is ready */
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 4);
	CHECK_EQ(po->del(fds[0]), 0);
	po->close();
}

TEST(poller_once_reports_the_direction_asked_for)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_EQ(po->once(fds[0], 1, POLLIN, true), 0);
	CHECK_EQ(poll_once(), 0); /* although it is writable */
	CHECK_EQ(po->once(fds[0], 2, POLLOUT, false), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 2);
	CHECK_EQ(ev[0].events, POLL_WRITE);
	CHECK_EQ(po->once(fds[0], 3, POLLRDHUP, false), 0);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 0);
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 3);
	CHECK(ev[0].events & POLL_HUNG);
	po->close();
}

TEST(poller_once_without_events_reports_hangup)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_EQ(po->once(fds[0], 1, 0, true), 0);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 0);
	close(fds[1]);
	CHECK_EQ(poll_once(), 1);
	CHECK(ev[0].events & POLL_HUNG);
	po->close();
}

TEST(poller_once_for_writing_reports_end_of_peer)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	fill(fds[0]);
	CHECK_EQ(po->once(fds[0], 1, POLLOUT | POLLRDHUP, true), 0);
	write_one(fds[1]);
	CHECK_EQ(poll_once(), 0);
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(poll_once(), 1);
	CHECK_EQ(ev[0].key, 1);
	CHECK(ev[0].events & POLL_HUNG);
	po->close();
}

TEST(poller_once_of_pipe_without_events_reports_hangup)
{
	int fds[2];

	begin();
	for (int end = 0; end < 2; end++) {
		CHECK_EQ(pipe(fds), 0);
		CHECK_EQ(po->once(fds[end], 1, end ? POLLPRI : 0, true), 0);
		CHECK_EQ(poll_once(), 0); /* although it is writable */
		close(fds[!end]);
		CHECK_EQ(poll_once(), 1);
		CHECK(ev[0].events & POLL_HUNG);
		close(fds[end]);
	}
	po->close();
}

TEST(poller_once_becomes_edges_by_rekey)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->once(fds[0], 1, POLLOUT, true), 0);
	CHECK_EQ(po->rekey(fds[0], 2), 0);
	for (int i = 0; i < 3; i++) {
		write_one(fds[1]);
		CHECK_EQ(poll_once(), 1);
		CHECK_EQ(ev[0].key, 2);
		CHECK_EQ(ev[0].events, POLL_READ);
	}
	po->close();
}

TEST(poller_add_of_pipe_without_reader_is_reported)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	close(fds[0]);
	CHECK_EQ(po->add(fds[1], 6), 0);
	CHECK(poll_once() > 0);
	CHECK_EQ(ev[0].key, 6);
	CHECK_EQ(ev[0].events & (POLL_WRITE | POLL_HUNG), POLL_WRITE | POLL_HUNG);
	po->close();
}

/* --- time --- */

TEST(poller_wait_zero_returns_at_once)
{
	int64_t t = os_now();

	begin();
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(poll_once(), 0);
	CHECK(os_now() - t < PATIENCE);
	po->close();
}

TEST(poller_wait_lasts_its_timeout)
{
	static const int64_t ns[] = { 1, 999, 50000, MS - 1, MS, MS + 1, 5 * MS + 3 };

	begin();
	for (unsigned i = 0; i < countof(ns); i++) {
		int64_t t = os_now();

		CHECK_EQ(po->wait(ev, (int)countof(ev), ns[i]), 0);
		t = os_now() - t;
		CHECK(t >= ns[i]);
		CHECK(t < ns[i] + PATIENCE);
	}
	po->close();
}

/* --- waking --- */

TEST(poller_wake_ends_next_wait_only)
{
	int64_t t;

	begin();
	po->wake();
	t = os_now();
	CHECK_EQ(po->wait(ev, (int)countof(ev), 2 * PATIENCE), 0);
	CHECK(os_now() - t < PATIENCE);
	t = os_now();
	CHECK_EQ(po->wait(ev, (int)countof(ev), 20 * MS), 0);
	CHECK(os_now() - t >= 20 * MS);
	po->close();
}

TEST(poller_wake_ends_next_rest_only)
{
	int64_t t = os_now();

	begin();
	po->wake();
	po->rest(t + 2 * PATIENCE);
	CHECK(os_now() - t < PATIENCE);
	t = os_now();
	while (os_now() < t + 20 * MS)
		po->rest(t + 20 * MS);
	CHECK(os_now() - t < PATIENCE);
	po->close();
}

TEST(poller_many_wakes_end_one_wait)
{
	int64_t t;

	begin();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 1000; i++)
			po->wake();
		t = os_now();
		CHECK_EQ(po->wait(ev, (int)countof(ev), 2 * PATIENCE), 0);
		CHECK(os_now() - t < PATIENCE);
		t = os_now();
		CHECK_EQ(po->wait(ev, (int)countof(ev), 5 * MS), 0);
		CHECK(os_now() - t >= 5 * MS);
	}
	po->close();
}

TEST(poller_wait_zero_does_not_consume_wake)
{
	int64_t t;

	begin();
	po->wake();
	CHECK_EQ(poll_once(), 0);
	CHECK_EQ(poll_once(), 0);
	t = os_now();
	CHECK_EQ(po->wait(ev, (int)countof(ev), 2 * PATIENCE), 0);
	CHECK(os_now() - t < PATIENCE);
	po->close();
}

TEST(poller_wake_does_not_hide_event)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(po->add(fds[0], 9), 0);
	write_one(fds[1]);
	po->wake();
	if (po->wait(ev, (int)countof(ev), S) == 0)
		CHECK_EQ(po->wait(ev, (int)countof(ev), S), 1);
	CHECK_EQ(ev[0].key, 9);
	po->close();
}

static void *wake_later(void *arg)
{
	os_nap(10 * MS);
	po->wake();
	return arg;
}

TEST(poller_wake_by_other_thread_ends_wait)
{
	int64_t t = os_now();
	pthread_t other;

	begin();
	CHECK_EQ(pthread_create(&other, NULL, wake_later, NULL), 0);
	CHECK_EQ(po->wait(ev, (int)countof(ev), NEVER), 0);
	CHECK(os_now() - t >= 10 * MS);
	CHECK_EQ(pthread_join(other, NULL), 0);
	po->close();
}

TEST(poller_wake_by_other_thread_ends_rest)
{
	int64_t t = os_now();
	pthread_t other;

	begin();
	CHECK_EQ(pthread_create(&other, NULL, wake_later, NULL), 0);
	po->rest(NEVER);
	CHECK_EQ(pthread_join(other, NULL), 0);
	CHECK(os_now() - t >= 10 * MS);
	po->close();
}

static uint32_t announced, observed; /* (a) */

static void *announce_and_wake(void *arg)
{
	uint32_t rounds = *(uint32_t *)arg;

	for (uint32_t i = 1; i <= rounds; i++) {
		st_seq(&announced, i);
		po->wake();
		if (i % 4 == 0) /* otherwise several wakes during the same wait */
			while (ld_seq(&observed) < i)
				os_yield();
	}
	return NULL;
}

/* After each wake a wait ends and sees what the waker has written before it. */
TEST(poller_concurrent_wakes_lose_none)
{
	uint32_t rounds = (uint32_t)check_scaled(20000);
	pthread_t other;

	begin();
	CHECK_EQ(pthread_create(&other, NULL, announce_and_wake, &rounds), 0);
	for (int round = 0; ld_seq(&observed) < rounds; round++) {
		int64_t t = os_now();

		if (round & 4)
			po->rest(t + 10 * S);
		else
			CHECK_EQ(po->wait(ev, (int)countof(ev), 10 * S), 0);
		CHECK(os_now() - t < 9 * S);
		st_seq(&observed, ld_seq(&announced));
	}
	CHECK_EQ(pthread_join(other, NULL), 0);
	po->close();
}
