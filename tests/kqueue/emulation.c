/* SPDX-License-Identifier: MIT */
/*
 * Tests that the emulation of kqueue (tests/kqueue/kqueue.c) behaves as FreeBSD's manual says,
 * where the poller relies on it.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/event.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int kq;
static struct kevent out[8];

static void begin(void)
{
	kq = kqueue();
	CHECK(kq >= 0);
}

/* Make one change; returns its errno. */
static int change(int fd, int filter, int flags, unsigned fflags, long udata)
{
	static const struct timespec at_once;
	struct kevent c;

	EV_SET(&c, (uintptr_t)fd, (short)filter, (unsigned short)(flags | EV_RECEIPT), fflags,
	       fflags & NOTE_LOWAT ? INT32_MAX : 0, (void *)udata);
	CHECK_EQ(kevent(kq, &c, 1, &c, 1, &at_once), 1);
	CHECK(c.flags & EV_ERROR);
	return (int)c.data;
}

/* Returns how many events come at once. */
static int take(void)
{
	static const struct timespec at_once;

	return kevent(kq, NULL, 0, out, 8, &at_once);
}

TEST(kqueue_clear_reports_each_arrival_once)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(change(fds[0], EVFILT_READ, 0, 0, 0), ENOENT);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 7), 0);
	CHECK_EQ(take(), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(write(fds[1], "x", 1), 1);
		CHECK_EQ(take(), 1);
		CHECK_EQ((long)out[0].udata, 7);
		CHECK_EQ(out[0].filter, EVFILT_READ);
		CHECK_EQ(take(), 0);
	}
}

TEST(kqueue_arrival_activates_no_write_knote)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 1), 0);
	CHECK_EQ(change(fds[0], EVFILT_WRITE, EV_ADD | EV_CLEAR, 0, 1), 0);
	CHECK_EQ(take(), 1);
	CHECK_EQ(out[0].filter, EVFILT_WRITE);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(take(), 1);
	CHECK_EQ(out[0].filter, EVFILT_READ);
}

TEST(kqueue_change_replaces_udata_and_keeps_kind)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_DISPATCH, 0, 1), 0);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 2), 0);
	CHECK_EQ(take(), 1);
	CHECK_EQ((long)out[0].udata, 2);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(take(), 0); /* it is disabled: still EV_DISPATCH */
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ENABLE, 0, 3), 0);
	CHECK_EQ(take(), 1);
	CHECK_EQ((long)out[0].udata, 3);
}

TEST(kqueue_oneshot_removes_knote)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_ONESHOT, 0, 1), 0);
	CHECK_EQ(take(), 1);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_DELETE, 0, 0), ENOENT);
}

TEST(kqueue_knote_ends_with_its_number)
{
	int fds[2], kept;

	begin();
	CHECK_EQ(pipe(fds), 0);
	kept = dup(fds[0]);
	CHECK(kept >= 0);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 1), 0);
	CHECK_EQ(change(kept, EVFILT_READ, 0, 0, 1), ENOENT);
	CHECK_EQ(dup2(kept, fds[0]), fds[0]);
	CHECK_EQ(change(fds[0], EVFILT_READ, 0, 0, 1), ENOENT);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(take(), 0);
	CHECK_EQ(close(fds[0]), 0);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_DELETE, 0, 0), EBADF);
}

TEST(kqueue_end_of_stream_sets_eof)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_EQ(change(fds[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 1), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	CHECK_EQ(take(), 1);
	CHECK(!(out[0].flags & EV_EOF));
	CHECK_EQ(shutdown(fds[1], SHUT_WR), 0);
	CHECK_EQ(take(), 1); /* a byte is left */
	CHECK(out[0].flags & EV_EOF);
}

TEST(kqueue_write_knote_of_broken_pipe_is_refused)
{
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(close(fds[0]), 0);
	CHECK_EQ(change(fds[1], EVFILT_WRITE, EV_ADD | EV_CLEAR, 0, 1), EPIPE);
}

TEST(kqueue_low_water_mark_has_no_effect_on_pipe)
{
	int fds[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_EQ(change(fds[0], EVFILT_WRITE, EV_ADD | EV_DISPATCH, NOTE_LOWAT, 1), 0);
	CHECK_EQ(take(), 0);
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(change(fds[1], EVFILT_WRITE, EV_ADD | EV_DISPATCH, NOTE_LOWAT, 1), 0);
	CHECK_EQ(take(), 1);
}

TEST(kqueue_user_event_is_reported_once_per_trigger)
{
	begin();
	CHECK_EQ(change(5, EVFILT_USER, 0, NOTE_TRIGGER, 0), ENOENT);
	CHECK_EQ(change(5, EVFILT_USER, EV_ADD | EV_CLEAR, NOTE_TRIGGER, 1), 0);
	CHECK_EQ(take(), 0); /* EV_ADD does not trigger */
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(change(5, EVFILT_USER, 0, NOTE_TRIGGER, 2), 0);
		CHECK_EQ(change(5, EVFILT_USER, 0, NOTE_TRIGGER, 2), 0);
		CHECK_EQ(take(), 1);
		CHECK_EQ(out[0].ident, 5);
		CHECK_EQ((long)out[0].udata, 2);
		CHECK_EQ(take(), 0);
	}
}

TEST(kqueue_receipts_take_no_event)
{
	static const struct timespec at_once;
	struct kevent c[3];
	int fds[2];

	begin();
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(write(fds[1], "x", 1), 1);
	for (int i = 0; i < 3; i++)
		EV_SET(&c[i], (uintptr_t)(i == 1 ? 999 : fds[0]), EVFILT_READ,
		       EV_ADD | EV_CLEAR | EV_RECEIPT, 0, 0, NULL);
	CHECK_EQ(kevent(kq, c, 3, c, 3, &at_once), 3);
	CHECK_EQ(c[0].data, 0);
	CHECK_EQ(c[1].data, EBADF);
	CHECK_EQ(c[2].data, 0);
	CHECK_EQ(take(), 1);
}

TEST(kqueue_is_not_inherited_by_fork)
{
	int status;

	begin();
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(take() == -1 && errno == EBADF && fcntl(kq, F_GETFD) < 0 ? 0 : 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

TEST(kqueue_wait_ends_at_timeout)
{
	struct timespec t = { 0, 2000000 };

	begin();
	CHECK_EQ(kevent(kq, NULL, 0, out, 8, &t), 0);
	CHECK_EQ(close(kq), 0);
	CHECK_EQ(kevent(kq, NULL, 0, out, 8, &t), -1);
	CHECK_EQ(errno, EBADF);
}

TEST(kqueue_mmap_refuses_guard_beside_other_flags)
{
	enum { PAGE = 4096 };
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(mmap(p, PAGE, PROT_NONE, MAP_GUARD | MAP_FIXED | MAP_PRIVATE, -1, 0) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	CHECK(mmap(p, PAGE, PROT_NONE, MAP_GUARD | MAP_FIXED | MAP_ANON, -1, 0) == MAP_FAILED);
	CHECK_EQ(errno, EINVAL);
	CHECK(mmap(p, PAGE, PROT_NONE, MAP_GUARD | MAP_FIXED, -1, 0) == p);
}
