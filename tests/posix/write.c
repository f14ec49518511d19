/* SPDX-License-Identifier: MIT */
/* Tests the calls that write a stream: on sockets, all do the same. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "fds.h"

/* --- the calls --- */

typedef ssize_t (*writer)(int fd, const void *buf, size_t n);

static ssize_t by_write(int fd, const void *buf, size_t n)
{
	return write(fd, buf, n);
}

/* Three buffers; the middle one is empty. */
static int thirds(struct iovec v[3], const void *buf, size_t n)
{
	size_t first = n / 3;

	v[0] = (struct iovec){ (void *)(uintptr_t)buf, first };
	v[1] = (struct iovec){ NULL, 0 };
	v[2] = (struct iovec){ (char *)(uintptr_t)buf + first, n - first };
	return 3;
}

static ssize_t by_writev(int fd, const void *buf, size_t n)
{
	struct iovec v[3];

	return writev(fd, v, thirds(v, buf, n));
}

static ssize_t by_pwritev2(int fd, const void *buf, size_t n)
{
	struct iovec v[3];

	return pwritev2(fd, v, thirds(v, buf, n), -1, 0);
}

static ssize_t by_send(int fd, const void *buf, size_t n)
{
	return send(fd, buf, n, 0);
}

static ssize_t by_sendto(int fd, const void *buf, size_t n)
{
	return sendto(fd, buf, n, 0, NULL, 0);
}

static ssize_t by_sendmsg(int fd, const void *buf, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)thirds(v, buf, n) };

	return sendmsg(fd, &m, 0);
}

static ssize_t by_sendmmsg(int fd, const void *buf, size_t n)
{
	struct iovec v[3];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)thirds(v, buf, n) } };
	int sent = sendmmsg(fd, &m, 1, 0);

	return sent == 1 ? (ssize_t)m.msg_len : sent;
}

static const writer writers[] = { by_write,  by_writev,  by_pwritev2, by_send,
				  by_sendto, by_sendmsg, by_sendmmsg };
enum { WRITERS = sizeof(writers) / sizeof(writers[0]), STREAMS = 3 /* of them work on pipes */ };

/* --- all calls, on sockets --- */

POSIX_TEST(write_arrives_and_keeps_errno)
{
	for (int i = 0; i < WRITERS; i++) {
		char buf[8] = "";
		int s[2];

		unix_pair(s);
		errno = 1234;
		CHECK_EQ(writers[i](s[1], "hello", 5), 5);
		CHECK_EQ(errno, 1234);
		CHECK_EQ(read(s[0], buf, sizeof(buf)), 5);
		CHECK_STR(buf, "hello");
		close_pair(s);
	}
}

enum { LARGE = 1 << 20 };
static char large[LARGE];

static void make_large(void)
{
	for (size_t i = 0; i < LARGE; i++)
		large[i] = (char)(i * 31 >> 8 ^ i);
}

/* Reads LARGE bytes, and compares them. */
static void read_large(void *fd)
{
	char buf[5000];

	for (size_t at = 0; at < LARGE;) {
		ssize_t n = read(*(int *)fd, buf, sizeof(buf));

		CHECK(n > 0);
		CHECK_EQ(memcmp(buf, large + at, (size_t)n), 0);
		at += (size_t)n;
	}
}

POSIX_TEST(write_of_much_returns_when_all_is_written)
{
	make_large();
	for (int i = 0; i < WRITERS; i++) {
		for (int kind = 0; kind < 2; kind++) {
			struct peer p;
			int s[2];

			(kind ? tcp_pair : unix_pair)(s);
			peer_start(&p, read_large, &s[0]);
			errno = 1234;
			CHECK_EQ(writers[i](s[1], large, LARGE), LARGE);
			CHECK_EQ(errno, 1234);
			peer_join(&p);
			close_pair(s);
		}
	}
}

POSIX_TEST(write_nonblocking_full_is_eagain)
{
	make_large();
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		set_nonblocking(s[1], true);
		ssize_t n = writers[i](s[1], large, LARGE);

		CHECK(n > 0 && n < LARGE); /* a part */
		fill(s[1]);
		set_nonblocking(s[1], true);
		CHECK_ERRNO(writers[i](s[1], large, LARGE), EAGAIN);
		close_pair(s);
	}
}

POSIX_TEST(write_timeout_returns_a_part_or_eagain)
{
	make_large();
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		set_timeout(s[1], SO_SNDTIMEO, 20);
		ssize_t n = writers[i](s[1], large, LARGE);

		CHECK(n > 0 && n < LARGE);
		fill(s[1]);
		int64_t began = gmp_now();

		CHECK_ERRNO(writers[i](s[1], large, LARGE), EAGAIN);
		CHECK(gmp_now() - began >= 10000000);
		close_pair(s);
	}
}

POSIX_TEST(write_bad_fd_is_ebadf)
{
	for (int i = 0; i < WRITERS; i++) {
		CHECK_ERRNO(writers[i](-1, "x", 1), EBADF);
		CHECK_ERRNO(writers[i](100000, "x", 1), EBADF);
	}
}

POSIX_TEST(write_bad_buffer_is_efault)
{
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_ERRNO(writers[i](s[1], (void *)8, 5), EFAULT);
		close_pair(s);
	}
}

static volatile sig_atomic_t sigpipes;

static void count_sigpipe(int signo)
{
	(void)signo;
	sigpipes++;
}

POSIX_TEST(write_to_a_closed_peer_is_epipe_and_sigpipe)
{
	signal(SIGPIPE, count_sigpipe);
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		close(s[0]);
		sigpipes = 0;
		CHECK_ERRNO(writers[i](s[1], "x", 1), EPIPE);
		CHECK_EQ(sigpipes, 1);
		close(s[1]);
	}
	for (int i = 0; i < STREAMS; i++) {
		int s[2];

		CHECK_EQ(pipe(s), 0);
		close(s[0]);
		sigpipes = 0;
		CHECK_ERRNO(writers[i](s[1], "x", 1), EPIPE);
		CHECK_EQ(sigpipes, 1);
		close(s[1]);
	}
}

/* Reads something, and then closes. */
static void read_some(void *fd)
{
	char buf[5000];

	CHECK_EQ(read(*(int *)fd, buf, sizeof(buf)), (ssize_t)sizeof(buf));
	close(*(int *)fd);
}

/* The peer, fd s[1 - own], closes after a part. */
static void check_part(int writer, int s[2], int own)
{
	struct peer p;

	sigpipes = 0;
	peer_start(&p, read_some, &s[1 - own]);
	ssize_t n = writers[writer](s[own], large, LARGE);

	CHECK(n > 0 && n < LARGE);
	CHECK_EQ(sigpipes, 0);
	peer_join(&p);
	close(s[own]);
}

POSIX_TEST(write_to_a_peer_that_closes_returns_a_part)
{
	make_large();
	signal(SIGPIPE, count_sigpipe);
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		check_part(i, s, 1);
	}
}

static writer interrupted_writer;

static ssize_t write_large(int fd)
{
	return interrupted_writer(fd, large, LARGE);
}

/* Two ends of a file in the file system. */
static void fifo_pair(int s[2])
{
	char dir[] = "/tmp/gmp-posix-XXXXXX", path[sizeof(dir) + 2];

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/f", dir);
	CHECK_EQ(mkfifo(path, 0600), 0);
	s[0] = open(path, O_RDONLY | O_NONBLOCK);
	s[1] = open(path, O_WRONLY);
	CHECK(s[0] >= 0 && s[1] >= 0);
	unlink(path);
	rmdir(dir);
}

POSIX_TEST(write_that_a_handler_interrupts_returns_a_part)
{
	for (int i = 0; i < WRITERS; i++) {
		for (int kind = i < STREAMS ? 0 : 2; kind < 3; kind++) {
			int s[2];

			if (kind == 2)
				unix_pair(s);
			else if (kind == 1)
				fifo_pair(s);
			else
				CHECK_EQ(pipe(s), 0);
			interrupted_writer = writers[i];
			ssize_t n = result_of_interrupted(write_large, s[1]);

			CHECK(n > 0 && n < LARGE);
			close_pair(s);
		}
	}
}

/* The number of a full socket gets a pipe during a wait, by calls that are not replaced: sysmon
 * finds it.  An OS thread waits on for the socket. */
static void write_waits(void *fd)
{
	CHECK_EQ(write(*(int *)fd, "x", 1), 1);
}

static void replace_socket(void *arg)
{
	int s[2], p[2];
	gmp_g *g;
	char c;

	(void)arg;
	unix_pair(s);
	CHECK_EQ(pipe(p), 0);
	fill(s[1]);
	CHECK_EQ(gmp_spawn(&g, write_waits, &s[1], NULL), 0);
	until_waiting(1);
	CHECK_EQ(syscall(SYS_dup3, p[1], s[1], 0), s[1]);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(read(p[0], &c, 1), 1);
	CHECK_EQ(c, 'x');
	close_pair(s);
	close_pair(p);
}

TEST(write_to_a_number_that_gets_a_pipe_writes_to_it)
{
	skip_under_chaos(); /* sysmon opens files, which may get the number */
	run_own(1, 0, replace_socket, NULL);
}

/* A number that was a pipe's, closed by a call that is not replaced. */
POSIX_TEST(write_to_a_peer_with_a_reused_number_returns_a_part)
{
	skip_under_chaos(); /* sysmon opens files, which may get the number */
	make_large();
	signal(SIGPIPE, count_sigpipe);
	for (int i = 0; i < STREAMS; i++) {
		int s[2], was[2];

		CHECK_EQ(pipe(was), 0);
		CHECK_EQ(write(was[1], "x", 1), 1);
		fclose(fdopen(was[1], "w"));
		unix_pair(s);
		CHECK_EQ(s[0], was[1]);
		check_part(i, s, 0);
		close(was[0]);
	}
}

/* Of the file of that number all is written, also if it is non-blocking. */
POSIX_TEST(write_to_a_file_with_a_reused_number_is_whole)
{
	skip_under_chaos(); /* sysmon opens files, which may get the number */
	make_large();
	for (int i = 0; i < STREAMS; i++) {
		int was[2], to = text_file("");
		struct stat st;

		CHECK_EQ(pipe(was), 0);
		CHECK_EQ(write(was[1], "x", 1), 1);
		fclose(fdopen(was[1], "w"));
		CHECK_EQ(dup(to), was[1]);
		set_nonblocking(to, true);
		CHECK_EQ(writers[i](was[1], large, LARGE), LARGE);
		CHECK_EQ(fstat(to, &st), 0);
		CHECK_EQ(st.st_size, LARGE);
		close_pair(was);
		close(to);
	}
}

static int pairs[PARKED][2];

static void wait_write(int i)
{
	CHECK_EQ(writers[i % WRITERS](pairs[i][1], "0123456789", 10), 10);
}

/* Read all that fill has written. */
static void wake_write(int i)
{
	static char buf[65536];

	set_nonblocking(pairs[i][0], true);
	while (read(pairs[i][0], buf, sizeof(buf)) > 0)
		;
}

TEST(write_parks_the_green_thread)
{
	for (int i = 0; i < PARKED; i++) {
		unix_pair(pairs[i]);
		fill(pairs[i][1]);
	}
	check_parks(wait_write, wake_write);
}

static void cancelled_writes(void *arg)
{
	(void)arg;
	make_large();
	for (int i = 0; i < WRITERS; i++) {
		int s[2];

		unix_pair(s);
		fill(s[1]);
		CHECK_ERRNO(writers[i](s[1], large, LARGE), ECANCELED);
		close_pair(s);
	}
}

TEST(write_cancelled_is_ecanceled)
{
	check_cancelled(cancelled_writes);
}

/* --- other files --- */

POSIX_TEST(write_pipe_of_much_is_whole)
{
	make_large();
	for (int i = 0; i < STREAMS; i++) {
		struct peer p;
		int s[2];

		CHECK_EQ(pipe(s), 0);
		peer_start(&p, read_large, &s[0]);
		CHECK_EQ(writers[i](s[1], large, LARGE), LARGE);
		peer_join(&p);
		close_pair(s);
	}
}

enum { RECORD = 512, RECORDS = 500, PEERS = 4 };

struct record_writer {
	writer fn;
	int fd;
	char fill;
};

static void write_records(void *arg)
{
	struct record_writer *w = arg;
	char record[RECORD];

	memset(record, w->fill, sizeof(record));
	for (int i = 0; i < RECORDS; i++)
		CHECK_EQ(w->fn(w->fd, record, RECORD), RECORD);
}

/* At most PIPE_BUF bytes are not mixed with those of other writers. */
POSIX_TEST(write_pipe_of_little_is_atomic)
{
	for (int i = 0; i < STREAMS; i++) {
		struct record_writer w[PEERS];
		struct peer p[PEERS];
		char record[RECORD];
		int s[2];

		CHECK_EQ(pipe(s), 0);
		for (int k = 0; k < PEERS; k++) {
			w[k] = (struct record_writer){ writers[i], s[1], (char)('a' + k) };
			peer_start(&p[k], write_records, &w[k]);
		}
		for (int n = 0; n < PEERS * RECORDS; n++) {
			for (ssize_t got = 0; got < RECORD;) {
				ssize_t some = read(s[0], record + got, (size_t)(RECORD - got));

				CHECK(some > 0);
				got += some;
			}
			for (int k = 1; k < RECORD; k++)
				CHECK_EQ(record[k], record[0]);
		}
		for (int k = 0; k < PEERS; k++)
			peer_join(&p[k]);
		close_pair(s);
	}
}

POSIX_TEST(write_regular_file_is_written)
{
	for (int i = 0; i < STREAMS; i++) {
		char buf[16] = "";
		int fd = text_file("");

		CHECK_EQ(writers[i](fd, "hello", 5), 5);
		CHECK_EQ(writers[i](fd, " you", 4), 4);
		CHECK_EQ(pread(fd, buf, sizeof(buf), 0), 9);
		CHECK_STR(buf, "hello you");
		close(fd);
	}
}

POSIX_TEST(write_read_only_file_is_ebadf)
{
	for (int i = 0; i < STREAMS; i++) {
		int s[2], fd = open("/", O_RDONLY);

		CHECK_EQ(pipe(s), 0);
		CHECK_ERRNO(writers[i](s[0], "x", 1), EBADF);
		CHECK_ERRNO(writers[i](fd, "x", 1), EBADF);
		close_pair(s);
		close(fd);
	}
}

POSIX_TEST(write_of_0_bytes_is_0)
{
	for (int i = 0; i < STREAMS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_EQ(writers[i](s[1], "", 0), 0);
		close_pair(s);
		CHECK_EQ(pipe(s), 0);
		CHECK_EQ(writers[i](s[1], "", 0), 0);
		close_pair(s);
	}
}

static void take_count(void *fd)
{
	uint64_t v;

	CHECK_EQ(read(*(int *)fd, &v, sizeof(v)), (ssize_t)sizeof(v));
}

POSIX_TEST(write_eventfd_waits_for_room)
{
	uint64_t most = UINT64_MAX - 1, one = 1;
	int fd = eventfd(0, 0);
	struct peer p;

	skip_under_chaos();
	CHECK_EQ(write(fd, &most, sizeof(most)), (ssize_t)sizeof(most));
	peer_start(&p, take_count, &fd);
	CHECK_EQ(write(fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	peer_join(&p);
	close(fd);
}
