/* SPDX-License-Identifier: MIT */
/* Tests sendfile. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <sys/sendfile.h>

#include "fds.h"

typedef ssize_t (*sender)(int to, int from, off_t *at, size_t n);
static const sender senders[] = { sendfile, sendfile64 };
enum { SENDERS = 2, LARGE = 3 << 20 };

POSIX_TEST(sendfile_sends_from_the_offset)
{
	for (int i = 0; i < SENDERS; i++) {
		char buf[16] = "";
		int s[2], p[2], fd = text_file("hello, world");
		off_t at = 7;

		unix_pair(s);
		CHECK_EQ(pipe(p), 0);
		errno = 1234;
		CHECK_EQ(senders[i](s[1], fd, &at, 100), 5);
		CHECK_EQ(errno, 1234);
		CHECK_EQ(at, 12);
		CHECK_EQ(lseek(fd, 0, SEEK_CUR), 0);
		CHECK_EQ(read(s[0], buf, sizeof(buf)), 5);
		CHECK_STR(buf, "world");
		CHECK_EQ(senders[i](p[1], fd, NULL, 5), 5); /* to a pipe */
		CHECK_EQ(lseek(fd, 0, SEEK_CUR), 5);
		CHECK_EQ(senders[i](s[1], fd, &at, 100), 0);
		close_pair(s);
		close_pair(p);
		close(fd);
	}
}

static void read_large(void *fd)
{
	static char buf[65536];
	size_t n = 0;

	while (n < LARGE) {
		ssize_t some = read(*(int *)fd, buf, sizeof(buf));

		CHECK(some > 0);
		n += (size_t)some;
	}
}

POSIX_TEST(sendfile_of_much_is_whole)
{
	int fd = text_file("x");

	skip_under_chaos();
	CHECK_EQ(ftruncate(fd, LARGE), 0);
	for (int i = 0; i < SENDERS; i++) {
		struct peer p;
		off_t at = 0;
		int s[2];

		(i ? tcp_pair : unix_pair)(s);
		peer_start(&p, read_large, &s[0]);
		CHECK_EQ(senders[i](s[1], fd, &at, LARGE), LARGE);
		peer_join(&p);
		close_pair(s);
	}
	close(fd);
}

POSIX_TEST(sendfile_full_socket_is_eagain)
{
	int fd = text_file("x");

	skip_under_chaos();
	for (int i = 0; i < SENDERS; i++) {
		off_t at = 0;
		int s[2];

		unix_pair(s);
		fill(s[1]);
		set_nonblocking(s[1], true);
		CHECK_ERRNO(senders[i](s[1], fd, &at, 1), EAGAIN);
		set_nonblocking(s[1], false);
		set_timeout(s[1], SO_SNDTIMEO, 20);
		CHECK_ERRNO(senders[i](s[1], fd, &at, 1), EAGAIN);
		CHECK_EQ(at, 0);
		close_pair(s);
	}
	close(fd);
}

POSIX_TEST(sendfile_bad_fd_is_an_error)
{
	int fd = text_file("x");

	for (int i = 0; i < SENDERS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_ERRNO(senders[i](-1, fd, NULL, 1), EBADF);
		CHECK_ERRNO(senders[i](s[1], -1, NULL, 1), EBADF);
		CHECK_ERRNO(senders[i](s[1], s[1], NULL, 1), EINVAL);
		close_pair(s);
	}
	close(fd);
}

static int large_file;

static ssize_t send_large(int to)
{
	off_t at = 0;

	return sendfile(to, large_file, &at, LARGE);
}

POSIX_TEST(sendfile_that_a_handler_interrupts_returns_a_part)
{
	int s[2];

	unix_pair(s);
	large_file = text_file("x");
	CHECK_EQ(ftruncate(large_file, LARGE), 0);
	ssize_t n = result_of_interrupted(send_large, s[1]);

	CHECK(n > 0 && n < LARGE);
	close(large_file);
	close_pair(s);
}

static sigjmp_buf out_of_sendfile;
static volatile bool has_jumped;

static void jump_out(int signo)
{
	(void)signo;
	siglongjmp(out_of_sendfile, 1);
}

static void *jump_and_read(void *fd)
{
	off_t at = 0;
	char c;

	if (!sigsetjmp(out_of_sendfile, 1))
		sendfile(*(int *)fd, large_file, &at, LARGE);
	has_jumped = true;
	return (void *)read(*(int *)fd, &c, 1);
}

POSIX_TEST(sendfile_left_by_siglongjmp_masks_no_cancellation)
{
	pthread_t t;
	void *result;
	int s[2];

	unix_pair(s);
	fill(s[1]);
	signal(SIGUSR1, jump_out);
	has_jumped = false;
	large_file = text_file("x");
	CHECK_EQ(pthread_create(&t, NULL, jump_and_read, &s[1]), 0);
	usleep(30000); /* it waits in sendfile */
	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	while (!has_jumped)
		usleep(1000);
	CHECK_EQ(pthread_cancel(t), 0);
	CHECK_EQ(pthread_join(t, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	close(large_file);
	close_pair(s);
}

static int pairs[PARKED][2], file;

static void wait_sendfile(int i)
{
	off_t at = 0;

	CHECK_EQ(senders[i % SENDERS](pairs[i][1], file, &at, 1), 1);
}

static void wake_sendfile(int i)
{
	static char buf[65536];

	set_nonblocking(pairs[i][0], true);
	while (read(pairs[i][0], buf, sizeof(buf)) > 0)
		;
}

TEST(sendfile_parks_the_green_thread)
{
	skip_under_chaos();
	file = text_file("x");
	for (int i = 0; i < PARKED; i++) {
		unix_pair(pairs[i]);
		fill(pairs[i][1]);
	}
	check_parks(wait_sendfile, wake_sendfile);
}
