/* SPDX-License-Identifier: MIT */
/* Tests the calls that read a stream: on sockets, all do the same. */
#define _GNU_SOURCE
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>

#include "fds.h"

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from,
		       socklen_t *len);

/* --- the calls --- */

typedef ssize_t (*reader)(int fd, void *buf, size_t n);

static ssize_t by_read(int fd, void *buf, size_t n)
{
	return read(fd, buf, n);
}

static ssize_t by_read_chk(int fd, void *buf, size_t n)
{
	return __read_chk(fd, buf, n, n);
}

/* Two buffers, of which the first takes a byte. */
static int halves(struct iovec v[2], void *buf, size_t n)
{
	size_t first = n > 1;

	v[0] = (struct iovec){ buf, first };
	v[1] = (struct iovec){ (char *)buf + first, n - first };
	return 2;
}

static ssize_t by_readv(int fd, void *buf, size_t n)
{
	struct iovec v[2];

	return readv(fd, v, halves(v, buf, n));
}

static ssize_t by_preadv2(int fd, void *buf, size_t n)
{
	struct iovec v[2];

	return preadv2(fd, v, halves(v, buf, n), -1, 0);
}

static ssize_t by_recv(int fd, void *buf, size_t n)
{
	return recv(fd, buf, n, 0);
}

static ssize_t by_recv_chk(int fd, void *buf, size_t n)
{
	return __recv_chk(fd, buf, n, n, 0);
}

static ssize_t by_recvfrom(int fd, void *buf, size_t n)
{
	return recvfrom(fd, buf, n, 0, NULL, NULL);
}

static ssize_t by_recvfrom_chk(int fd, void *buf, size_t n)
{
	return __recvfrom_chk(fd, buf, n, n, 0, NULL, NULL);
}

static ssize_t by_recvmsg(int fd, void *buf, size_t n)
{
	struct iovec v[2];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)halves(v, buf, n) };

	return recvmsg(fd, &m, 0);
}

static ssize_t by_recvmmsg(int fd, void *buf, size_t n)
{
	struct iovec v[2];
	struct mmsghdr m = { .msg_hdr = { .msg_iov = v, .msg_iovlen = (size_t)halves(v, buf, n) } };
	int got = recvmmsg(fd, &m, 1, 0, NULL);

	return got == 1 ? (ssize_t)m.msg_len : got;
}

static const reader readers[] = {
	by_read,     by_read_chk, by_readv,        by_preadv2, by_recv,
	by_recv_chk, by_recvfrom, by_recvfrom_chk, by_recvmsg, by_recvmmsg
};
enum { READERS = sizeof(readers) / sizeof(readers[0]), STREAMS = 4 /* of them work on pipes */ };

/* --- all calls, on sockets --- */

POSIX_TEST(read_returns_the_data_and_keeps_errno)
{
	for (int i = 0; i < READERS; i++) {
		char buf[8] = "";
		int s[2];

		unix_pair(s);
		CHECK_EQ(write(s[1], "hello", 5), 5);
		errno = 1234;
		CHECK_EQ(readers[i](s[0], buf, 3), 3);
		CHECK_EQ(readers[i](s[0], buf + 3, sizeof(buf) - 3), 2);
		CHECK_EQ(errno, 1234);
		CHECK_STR(buf, "hello");
		close_pair(s);
	}
}

POSIX_TEST(read_at_the_end_is_0)
{
	for (int i = 0; i < READERS; i++) {
		char c;
		int s[2];

		unix_pair(s);
		close(s[1]);
		CHECK_EQ(readers[i](s[0], &c, 1), 0);
		close(s[0]);
	}
}

static void write_one(void *fd)
{
	CHECK_EQ(write(*(int *)fd, "x", 1), 1);
}

/* The reader waits for long. */
static void write_late(void *fd)
{
	usleep(5000);
	write_one(fd);
}

/* Earlier reads, which have waited and emptied the socket, change no result. */
static void read_until_nonblocking(size_t room, void (*writer)(void *))
{
	int s[2];
	char buf[2];

	unix_pair(s);
	for (int i = 0; i < 5; i++) {
		struct peer p;

		peer_start(&p, writer, &s[1]);
		CHECK_EQ(read(s[0], buf, room), 1);
		peer_join(&p);
	}
	set_nonblocking(s[0], true);
	write_one(&s[1]);
	CHECK_EQ(read(s[0], buf, room), 1);
	for (int i = 0; i < 3; i++)
		CHECK_ERRNO(read(s[0], buf, room), EAGAIN);
	close_pair(s);
}

POSIX_TEST(read_that_becomes_nonblocking_is_eagain)
{
	read_until_nonblocking(1, write_one);
	read_until_nonblocking(2, write_one);
	read_until_nonblocking(2, write_late);
}

static void ignore_alarm(int signo)
{
	(void)signo;
}

/* Data is there when each read begins, so no signal ends it: also after short waits. */
POSIX_TEST(read_of_data_is_not_interrupted)
{
	struct sigaction sa = { .sa_handler = ignore_alarm };
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	struct peer p;
	char buf[2];
	int s[2];

	unix_pair(s);
	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	for (int i = 0; i < 10000; i++) {
		if (i % 1000 == 0) {
			CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
			peer_start(&p, write_one, &s[1]);
			while (read(s[0], buf, 2) < 0)
				CHECK_EQ(errno, EINTR);
			peer_join(&p);
			CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
		}
		write_one(&s[1]);
		CHECK_EQ(read(s[0], buf, 2), 1);
	}
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
	close_pair(s);
}

POSIX_TEST(read_nonblocking_is_eagain)
{
	for (int i = 0; i < READERS; i++) {
		char c;
		int s[2];

		unix_pair(s);
		set_nonblocking(s[0], true);
		CHECK_ERRNO(readers[i](s[0], &c, 1), EAGAIN);
		CHECK(is_nonblocking(s[0]));
		close_pair(s);
	}
}

POSIX_TEST(read_timeout_is_eagain)
{
	for (int i = 0; i < READERS; i++) {
		char c;
		int s[2];

		unix_pair(s);
		set_timeout(s[0], SO_RCVTIMEO, 20);
		int64_t began = gmp_now();

		CHECK_ERRNO(readers[i](s[0], &c, 1), EAGAIN);
		CHECK(gmp_now() - began >= 10000000);
		close_pair(s);
	}
}

POSIX_TEST(read_bad_fd_is_ebadf)
{
	for (int i = 0; i < READERS; i++) {
		char c;

		CHECK_ERRNO(readers[i](-1, &c, 1), EBADF);
		CHECK_ERRNO(readers[i](100000, &c, 1), EBADF);
	}
}

POSIX_TEST(read_bad_buffer_is_efault)
{
	for (int i = 0; i < READERS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_EQ(write(s[1], "hello", 5), 5);
		CHECK_ERRNO(readers[i](s[0], (void *)8, 5), EFAULT);
		close_pair(s);
	}
}

/* The reader's fd is blocking in the eyes of others while it waits. */
static void answer(void *arg)
{
	int *s = arg;

	CHECK(!is_nonblocking(s[0]));
	CHECK_EQ(write(s[1], "x", 1), 1);
}

POSIX_TEST(read_waits_for_the_writer)
{
	for (int i = 0; i < READERS; i++) {
		for (int kind = 0; kind < 3; kind++) {
			struct peer p;
			char c = 0;
			int s[2];

			(kind == 0 ? unix_pair : kind == 1 ? tcp_pair : udp_pair)(s);
			for (int n = 0; n < 4; n++) {
				peer_start(&p, answer, s);
				CHECK_EQ(readers[i](s[0], &c, 1 + (size_t)n % 2), 1);
				CHECK_EQ(c, 'x');
				peer_join(&p);
			}
			close_pair(s);
		}
	}
}

static int pairs[PARKED][2];

static void wait_read(int i)
{
	char c;

	CHECK_EQ(readers[i % READERS](pairs[i][0], &c, 1), 1);
}

static void wake_read(int i)
{
	CHECK_EQ(write(pairs[i][1], "x", 1), 1);
}

TEST(read_parks_the_green_thread)
{
	for (int i = 0; i < PARKED; i++)
		(i / READERS % 2 ? unix_pair : udp_pair)(pairs[i]);
	check_parks(wait_read, wake_read);
}

/* --- a number whose file was changed by calls that are not replaced --- */

static int reused[PARKED][2];

static void reuse(int i)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char c;

	CHECK_EQ(read(fd, &c, 1), 1);
	CHECK_EQ(syscall(SYS_close, fd), 0);
	CHECK_EQ(syscall(SYS_pipe2, reused[i], 0), 0);
	CHECK_EQ(reused[i][0], fd);
}

static void read_reused(int i)
{
	char c;

	CHECK_EQ(read(reused[i][0], &c, 1), 1);
}

static void write_reused(int i)
{
	CHECK_EQ(write(reused[i][1], "x", 1), 1);
}

static void park_in_reused(void)
{
	struct parking t = { read_reused, write_reused, 0 };

	for (int i = 0; i < PARKED; i++)
		reuse(i);
	parking_app(&t);
}

TEST(read_of_reused_number_of_a_file_parks)
{
	skip_under_chaos(); /* sysmon opens files, which may get the number */
	posix_run(park_in_reused, 1);
}

static void cancelled_reads(void *arg)
{
	(void)arg;
	for (int i = 0; i < READERS; i++) {
		char c;
		int s[2];

		unix_pair(s);
		CHECK_ERRNO(readers[i](s[0], &c, 1), ECANCELED);
		close_pair(s);
	}
}

TEST(read_cancelled_is_ecanceled)
{
	check_cancelled(cancelled_reads);
}

/* --- numbers with another file --- */

/* After waits of one kind the number gets another file by calls that are not replaced. */
POSIX_TEST(read_of_a_reused_number_is_right)
{
	skip_under_chaos(); /* sysmon opens files, which may get the number */
	for (int i = 0; i < READERS; i++) {
		struct peer p;
		char buf[8] = "";
		int s[2], t[2];

		unix_pair(s);
		for (int n = 0; n < 3; n++) {
			peer_start(&p, answer, s);
			CHECK_EQ(readers[i](s[0], buf, sizeof(buf)), 1);
			peer_join(&p);
		}
		unix_pair(t);
		FILE *f = fdopen(s[0], "r+");

		fclose(f); /* the number is free */
		CHECK_EQ(dup(t[0]), s[0]);
		set_nonblocking(s[0], true);
		CHECK_ERRNO(readers[i](s[0], buf, sizeof(buf)), EAGAIN);
		set_nonblocking(s[0], false);
		set_timeout(s[0], SO_RCVTIMEO, 20);
		CHECK_ERRNO(readers[i](s[0], buf, sizeof(buf)), EAGAIN);
		CHECK_EQ(write(t[1], "y", 1), 1);
		CHECK_EQ(readers[i](s[0], buf, sizeof(buf)), 1);
		close_pair(s);
		close_pair(t);
	}
}

/* The number of a file that a read has waited for or found out: a pipe, an eventfd, a socket. */
enum { FORMER = 3 };

static int former(int kind)
{
	uint64_t one = 1;
	int s[2];

	if (kind == 1)
		s[0] = eventfd(1, 0);
	else if (kind == 2)
		unix_pair(s);
	else
		CHECK_EQ(pipe(s), 0);
	if (kind != 1)
		CHECK_EQ(write(s[1], &one, sizeof(one)), (ssize_t)sizeof(one));
	CHECK_EQ(by_readv(s[0], &one, sizeof(one)), (ssize_t)sizeof(one));
	CHECK_EQ(one, 1);
	if (kind != 1)
		close(s[1]);
	return s[0];
}

/* Calls that close a number without the replaced close. */
enum { CLOSERS = 3 };

/* The file of this name with the number fd, whose file is closed.  Returns a stream that has the
 * number, too. */
static FILE *reopened(int closer, int fd, const char *name, int flags)
{
	FILE *f = fdopen(fd, "r");

	if (closer == 0)
		fclose(f);
	else if (closer == 1)
		CHECK_EQ(syscall(SYS_close, fd), 0);
	else
		f = freopen(name, "r", f);
	if (closer < 2)
		CHECK_EQ(open(name, O_RDONLY | flags), fd);
	else
		set_nonblocking(fd, flags & O_NONBLOCK);
	return closer ? f : fdopen(fd, "r");
}

enum { PAGES = 16, PAGE = 4096, WHOLE = PAGES * PAGE };

/* A file in the working directory, of which the first n bytes are in memory if it is on a disk. */
static void uncached(int fd, int n)
{
	static char some[WHOLE];

	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
	CHECK_EQ(pread(fd, some, (size_t)n, 0), n);
}

POSIX_TEST(read_of_a_file_with_a_reused_number_is_whole)
{
	skip_under_chaos(); /* sysmon opens files, which may get the number */
	static char data[WHOLE];
	char name[] = "read-XXXXXX";
	int w = mkstemp(name);

	CHECK(w >= 0);
	CHECK_EQ(write(w, data, WHOLE), WHOLE);
	CHECK_EQ(fsync(w), 0);
	close(w);
	for (int i = 0; i < STREAMS * FORMER * CLOSERS * 2; i++) {
		bool nonblocking = i % 2;
		int fd = former(i / 2 % FORMER);
		FILE *f =
			reopened(i / 2 / FORMER % CLOSERS, fd, name, nonblocking ? O_NONBLOCK : 0);

		CHECK_EQ(fileno(f), fd);
		uncached(fd, nonblocking ? 0 : PAGE);
		CHECK_EQ(readers[i / 2 / FORMER / CLOSERS](fd, data, WHOLE), WHOLE);
		fclose(f);
	}
	unlink(name);
}

/* --- other files --- */

POSIX_TEST(read_pipe_is_a_stream)
{
	for (int i = 0; i < STREAMS; i++) {
		struct peer p;
		char buf[8] = "";
		int s[2];

		CHECK_EQ(pipe(s), 0);
		CHECK_EQ(write(s[1], "hello", 5), 5);
		CHECK_EQ(readers[i](s[0], buf, 3), 3);
		CHECK_EQ(readers[i](s[0], buf + 3, 5), 2);
		CHECK_STR(buf, "hello");
		for (int n = 0; n < 4; n++) {
			peer_start(&p, answer, s);
			CHECK_EQ(readers[i](s[0], buf, 1 + (size_t)n % 2), 1);
			peer_join(&p);
		}
		set_nonblocking(s[0], true);
		CHECK_ERRNO(readers[i](s[0], buf, 1), EAGAIN);
		close(s[1]);
		CHECK_EQ(readers[i](s[0], buf, 1), 0);
		close(s[0]);
	}
}

POSIX_TEST(read_regular_file_is_whole)
{
	for (int i = 0; i < STREAMS; i++) {
		char buf[16] = "";
		int fd = text_file("hello, world");

		CHECK_EQ(readers[i](fd, buf, 5), 5);
		CHECK_EQ(readers[i](fd, buf + 5, 11), 7);
		CHECK_STR(buf, "hello, world");
		CHECK_EQ(readers[i](fd, buf, 1), 0);
		close(fd);
	}
}

POSIX_TEST(read_of_0_bytes_is_0)
{
	for (int i = 0; i < STREAMS; i++) {
		char c;
		int s[2], fd = text_file("x");

		unix_pair(s);
		CHECK_EQ(readers[i](s[0], &c, 0), 0);
		CHECK_EQ(readers[i](fd, &c, 0), 0);
		close_pair(s);
		close(fd);
	}
}

POSIX_TEST(read_directory_is_eisdir)
{
	for (int i = 0; i < STREAMS; i++) {
		char c;
		int fd = open("/", O_RDONLY);

		CHECK_ERRNO(readers[i](fd, &c, 1), EISDIR);
		close(fd);
	}
}

POSIX_TEST(read_eventfd_waits)
{
	for (int i = 0; i < STREAMS; i++) {
		uint64_t v = 5;
		int fd = eventfd(0, 0);

		CHECK_EQ(write(fd, &v, sizeof(v)), (ssize_t)sizeof(v));
		v = 0;
		CHECK_EQ(read(fd, &v, sizeof(v)), (ssize_t)sizeof(v));
		CHECK_EQ(v, 5);
		set_nonblocking(fd, true);
		CHECK_ERRNO(readers[i](fd, &v, sizeof(v)), EAGAIN);
		CHECK_ERRNO(readers[i](fd, &v, 1), EINVAL);
		close(fd);
	}
}

POSIX_TEST(read_timerfd_waits)
{
	struct itimerspec t = { .it_value = { 0, 20000000 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	int64_t began = gmp_now();
	uint64_t n = 0;

	CHECK_EQ(timerfd_settime(fd, 0, &t, NULL), 0);
	CHECK_EQ(read(fd, &n, sizeof(n)), (ssize_t)sizeof(n));
	CHECK_EQ(n, 1);
	CHECK(gmp_now() - began >= 20000000);
	close(fd);
}

static void write_fifo(void *path)
{
	int fd = open(path, O_WRONLY);

	CHECK_EQ(write(fd, "x", 1), 1);
	close(fd);
}

POSIX_TEST(read_fifo_waits)
{
	char path[64];
	struct peer p;
	char c = 0;

	snprintf(path, sizeof(path), "/tmp/gmp-posix-fifo-%d-%d", (int)getpid(), on_green());
	CHECK_EQ(mkfifo(path, 0600), 0);
	int keep = open(path, O_RDWR), fd = open(path, O_RDONLY);

	peer_start(&p, write_fifo, path);
	CHECK_EQ(read(fd, &c, 1), 1);
	CHECK_EQ(c, 'x');
	peer_join(&p);
	close(keep);
	CHECK_EQ(read(fd, &c, 1), 0);
	close(fd);
	unlink(path);
}

static void type_line(void *master)
{
	CHECK_EQ(write(*(int *)master, "line\n", 5), 5);
}

POSIX_TEST(read_terminal_returns_a_line)
{
	struct termios t;
	int master, slave;
	char buf[16] = "";
	struct peer p;

	CHECK_EQ(openpty(&master, &slave, NULL, NULL, NULL), 0);
	peer_start(&p, type_line, &master);
	CHECK_EQ(read(slave, buf, sizeof(buf)), 5);
	CHECK_STR(buf, "line\n");
	peer_join(&p);
	CHECK_EQ(tcgetattr(slave, &t), 0); /* with VMIN 0 a read does not wait */
	t.c_lflag &= ~(tcflag_t)ICANON;
	t.c_cc[VMIN] = t.c_cc[VTIME] = 0;
	CHECK_EQ(tcsetattr(slave, TCSANOW, &t), 0);
	CHECK_EQ(read(slave, buf, sizeof(buf)), 0);
	close(slave);
	close(master);
}

/* One green thread and one external thread read the same pipe. */
static void read_byte(void *fd)
{
	char c;

	CHECK_EQ(read(*(int *)fd, &c, 1), 1);
}

POSIX_TEST(read_shares_a_pipe_with_other_threads)
{
	struct peer p[4];
	int s[2];
	char c;

	CHECK_EQ(pipe(s), 0);
	for (int i = 0; i < 4; i++)
		peer_start(&p[i], read_byte, &s[0]);
	CHECK_EQ(write(s[1], "12345", 5), 5);
	CHECK_EQ(read(s[0], &c, 1), 1);
	for (int i = 0; i < 4; i++)
		peer_join(&p[i]);
	close_pair(s);
}
