/* SPDX-License-Identifier: MIT */
/*
 * Tests reads that wait for a number again and again, after short and long waits: no byte, reader
 * or new file of the number is missed, and a read that need not wait returns at once. Its cases
 * compare times: each needs a CPU.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "fds.h"

enum { SHORT_US = 100, LONG_US = 3000 };

struct late_answer {
	int fd;
	int delay; /* us */
};

static void answer_late(void *arg)
{
	struct late_answer *a = arg;

	usleep((useconds_t)a->delay);
	CHECK_EQ(write(a->fd, "x", 1), 1);
}

static void wait_for_byte(int from, int to, int delay)
{
	struct late_answer a = { to, delay };
	struct peer p;
	char buf[8] = "";

	peer_start(&p, answer_late, &a);
	CHECK_EQ(read(from, buf, sizeof(buf)), 1);
	CHECK_EQ(buf[0], 'x');
	peer_join(&p);
}

/* A kind: what a test reads from, after short waits; after long ones from FILES on. */
enum { UNIX, TCP, PIPE, FILES, KINDS = 2 * FILES };

static bool is_long(int kind)
{
	return kind >= FILES;
}

static void pipe_pair(int s[2])
{
	CHECK_EQ(pipe(s), 0);
}

/* A pair whose first fd has waited. */
static void waited_pair(int kind, int s[2])
{
	static void (*const make[FILES])(int s[2]) = { unix_pair, tcp_pair, pipe_pair };

	make[kind % FILES](s);
	for (int i = 0; i < 4; i++)
		wait_for_byte(s[0], s[1], is_long(kind) ? LONG_US : SHORT_US);
}

/* The reader gets what was written, then the end. */
static void end_stream(int kind, int s[2])
{
	if (kind % FILES == PIPE)
		CHECK_EQ(dup2(s[0], s[1]), s[1]);
	else
		CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
}

/* --- several readers --- */

enum { BYTES = 3000 };

struct shared {
	int fd;
	atomic_int got;
};

/* One byte at a time: what a reader leaves is for the others. */
static void read_bytes(void *arg)
{
	struct shared *s = arg;
	char c;

	while (read(s->fd, &c, 1) == 1)
		atomic_fetch_add(&s->got, 1);
}

/* A byte, if there is one.  Before Linux 6.4 it may wait for one in a pipe. */
static ssize_t read_now(int fd, char *c)
{
	struct iovec v = { c, 1 };
	ssize_t n = preadv2(fd, &v, 1, -1, RWF_NOWAIT);

	return n < 0 && errno == EOPNOTSUPP ? read(fd, c, 1) : n;
}

static void poll_and_read(void *arg)
{
	struct shared *s = arg;
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	ssize_t n = 1;
	char c;

	while (n) {
		CHECK_EQ(poll(&p, 1, -1), 1);
		n = read_now(s->fd, &c);
		if (n == 1)
			atomic_fetch_add(&s->got, 1);
		else if (n < 0)
			CHECK_EQ(errno, EAGAIN);
	}
}

static void send_bursts(int fd, int bytes)
{
	unsigned seed = 1;

	while (bytes > 0) {
		seed = seed * 1103515245 + 12345;
		int n = 1 + (int)(seed >> 16) % 4;

		n = n < bytes ? n : bytes;
		CHECK_EQ(write(fd, "abcd", (size_t)n), n);
		bytes -= n;
		if (seed >> 20 & 1)
			sched_yield();
		if ((seed >> 21 & 63) == 0)
			usleep(SHORT_US);
	}
}

static void read_with(void (*other)(void *), int n)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct peer p[3];
		struct shared sh = { 0 };
		int s[2];

		waited_pair(kind, s);
		sh.fd = s[0];
		peer_start(&p[0], read_bytes, &sh);
		for (int i = 1; i < n; i++)
			peer_start(&p[i], other, &sh);
		send_bursts(s[1], BYTES);
		while (atomic_load(&sh.got) < BYTES) /* a reader that was not woken ends the test */
			usleep(SHORT_US);
		end_stream(kind, s);
		for (int i = 0; i < n; i++)
			peer_join(&p[i]);
		CHECK_EQ(atomic_load(&sh.got), BYTES);
		close_pair(s);
	}
}

POSIX_TEST(read_by_several_threads_gets_each_byte)
{
	read_with(read_bytes, 3);
}

POSIX_TEST(read_beside_poll_of_the_connection_gets_each_byte)
{
	read_with(poll_and_read, 2);
}

/* --- fairness --- */

enum { TAKERS = 6, MESSAGES = 120 };
enum { STREAM, PACKETS, LISTENER, PIPES, TAKEN_FROM };

static atomic_int taken[TAKERS];
static int taker_fd, taker_kind;

static void take_messages(void *arg)
{
	int i = (int)(intptr_t)arg, fd;
	char c = 0;

	while (c != 'e') {
		if (taker_kind == LISTENER) {
			fd = accept(taker_fd, NULL, NULL);
			CHECK_EQ(read(fd, &c, 1), 1);
			CHECK_EQ(close(fd), 0);
		} else {
			CHECK_EQ(read(taker_fd, &c, 1), 1);
		}
		if (c != 'e')
			atomic_fetch_add(&taken[i], 1);
	}
}

static void send_to_taker(int to, const struct sockaddr_in *a, char c)
{
	int fd = taker_kind == LISTENER ? tcp_connect(a) : to;

	CHECK_EQ(write(fd, &c, 1), 1);
	if (fd != to)
		CHECK_EQ(close(fd), 0);
}

static int sum_taken(void)
{
	int sum = 0;

	for (int i = 0; i < TAKERS; i++)
		sum += atomic_load(&taken[i]);
	return sum;
}

/* Each message is taken once, and no green thread starves: the kernel promises no fairness. */
static void share_messages(int kind)
{
	struct peer p[TAKERS];
	struct sockaddr_in a;
	int s[2] = { -1, -1 };

	taker_kind = kind;
	if (kind == LISTENER)
		s[0] = tcp_listener(&a, TAKERS);
	else if (kind == PIPES)
		pipe_pair(s);
	else
		CHECK_EQ(socketpair(AF_UNIX, kind == PACKETS ? SOCK_SEQPACKET : SOCK_STREAM, 0, s),
			 0);
	taker_fd = s[0];
	for (int i = 0; i < TAKERS; i++) {
		atomic_store(&taken[i], 0);
		peer_start(&p[i], take_messages, (void *)(intptr_t)i);
	}
	usleep(LONG_US);
	for (int n = 1; n <= MESSAGES; n++) {
		send_to_taker(s[1], &a, 'x');
		while (sum_taken() < n)
			usleep(SHORT_US);
	}
	for (int i = 0; i < TAKERS; i++)
		send_to_taker(s[1], &a, 'e');
	for (int i = 0; i < TAKERS; i++)
		peer_join(&p[i]);
	CHECK_EQ(sum_taken(), MESSAGES);
	for (int i = 0; on_green() && i < TAKERS; i++)
		CHECK(atomic_load(&taken[i]) > 0);
	close(s[0]);
	close(s[1]);
}

POSIX_TEST(read_of_one_file_by_several_threads_starves_none)
{
	for (int kind = 0; kind < TAKEN_FROM; kind++)
		share_messages(kind);
}

/* --- waits that end without data --- */

static int64_t process_time(void)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (int64_t)t.tv_sec * GMP_S + t.tv_nsec;
}

POSIX_TEST(read_that_is_woken_without_data_sleeps)
{
	for (int kind = 0; kind < 2; kind++) {
		struct shared sh = { 0 };
		struct peer p[2];
		int s[2];

		(kind ? tcp_pair : unix_pair)(s);
		sh.fd = s[0];
		for (int i = 0; i < 2; i++)
			peer_start(&p[i], read_bytes, &sh);
		for (int i = 1; i <= 6; i++) { /* both wait, and one gets the byte */
			usleep(LONG_US);
			CHECK_EQ(write(s[1], "x", 1), 1);
			while (atomic_load(&sh.got) < i)
				usleep(SHORT_US);
		}
		CHECK_EQ(shutdown(s[0], SHUT_WR), 0); /* wakes both */
		usleep(LONG_US);

		int64_t begin = process_time();

		usleep(300000);
		CHECK(process_time() - begin < 150 * GMP_MS);
		CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
		for (int i = 0; i < 2; i++)
			peer_join(&p[i]);
		close_pair(s);
	}
}

/* --- reads that do not wait --- */

enum { TRIES = 20 };

/* The time of a read that has something to return, after prepare and a short read of one byte; the
 * shortest, since a loaded machine may delay some. */
static int64_t shortest_read(int kind, void (*prepare)(int kind, int s[2]), ssize_t expected)
{
	int64_t shortest = INT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		char buf[8];
		int s[2];

		waited_pair(kind, s);
		prepare(kind, s);
		usleep(SHORT_US); /* the poller has reported it */
		CHECK_EQ(read(s[0], buf, sizeof(buf)), 1);

		int64_t begin = gmp_now();

		CHECK_EQ(read(s[0], buf, sizeof(buf)), expected);
		shortest = gmp_now() - begin < shortest ? gmp_now() - begin : shortest;
		close_pair(s);
	}
	return shortest;
}

static void send_end(int kind, int s[2])
{
	CHECK_EQ(write(s[1], "x", 1), 1);
	end_stream(kind, s);
}

POSIX_TEST(read_of_the_end_after_a_short_read_is_0_at_once)
{
	for (int kind = 0; kind < FILES; kind++)
		CHECK(shortest_read(kind, send_end, 0) < 900 * GMP_US);
}

static void send_urgent(int kind, int s[2])
{
	(void)kind;
	CHECK_EQ(write(s[1], "x", 1), 1);
	CHECK_EQ(send(s[1], "!", 1, MSG_OOB), 1);
	CHECK_EQ(write(s[1], "y", 1), 1);
}

POSIX_TEST(read_of_data_after_urgent_data_returns_at_once)
{
	CHECK(shortest_read(TCP, send_urgent, 1) < 900 * GMP_US);
}

/* A read ends at a message with descriptors.  Only the first of a connection waits for long. */
static void send_descriptors(int fd)
{
	struct iovec v = { "x", 1 };
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};

	memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(fd, &m, 0), 1);
}

POSIX_TEST(read_after_a_message_with_descriptors_returns_at_once)
{
	int64_t shortest = INT64_MAX;
	char buf[8];
	int s[2];

	waited_pair(UNIX, s);
	for (int i = 0; i < TRIES; i++) {
		wait_for_byte(s[0], s[1], SHORT_US);
		send_descriptors(s[1]);
		send_descriptors(s[1]);
		usleep(SHORT_US);
		CHECK_EQ(read(s[0], buf, sizeof(buf)), 1);

		int64_t begin = gmp_now();

		CHECK_EQ(read(s[0], buf, sizeof(buf)), 1);
		shortest = gmp_now() - begin < shortest ? gmp_now() - begin : shortest;
	}
	CHECK(shortest < 900 * GMP_US);
	close_pair(s);
}

/* The same of a pipe with packets: the later ones do not wait. */
POSIX_TEST(read_after_a_packet_of_a_pipe_returns_at_once)
{
	int64_t shortest = INT64_MAX;
	char buf[8];
	int s[2];

	CHECK_EQ(pipe2(s, O_DIRECT), 0);
	for (int i = 0; i < TRIES; i++) {
		wait_for_byte(s[0], s[1], SHORT_US);
		CHECK_EQ(write(s[1], "x", 1), 1);
		CHECK_EQ(write(s[1], "y", 1), 1);
		usleep(SHORT_US);
		CHECK_EQ(read(s[0], buf, sizeof(buf)), 1);

		int64_t begin = gmp_now();

		CHECK_EQ(read(s[0], buf, sizeof(buf)), 1);
		CHECK_EQ(buf[0], 'y');
		shortest = gmp_now() - begin < shortest ? gmp_now() - begin : shortest;
	}
	CHECK(shortest < 900 * GMP_US);
	close_pair(s);
}

static void read_packets(void *arg)
{
	struct shared *s = arg;
	char buf[8];

	while (read(s->fd, buf, sizeof(buf)) == 1)
		atomic_fetch_add(&s->got, 1);
}

/* A packet that a read has left is not left until the next one comes, again and again. */
POSIX_TEST(read_of_packets_does_not_stay_behind)
{
	enum { PACKETS_SENT = 400 };
	struct shared sh = { 0 };
	struct peer p;
	int s[2], caught_up = 0;

	CHECK_EQ(pipe2(s, O_DIRECT), 0);
	for (int k = 0; k < 4; k++)
		wait_for_byte(s[0], s[1], SHORT_US);
	sh.fd = s[0];
	CHECK_EQ(write(s[1], "x", 1), 1);
	peer_start(&p, read_packets, &sh);
	for (int sent = 1; sent < PACKETS_SENT; sent++) {
		CHECK_EQ(write(s[1], "x", 1), 1);
		usleep(3 * SHORT_US);
		caught_up += sent > PACKETS_SENT / 2 && atomic_load(&sh.got) == sent + 1;
	}
	CHECK(caught_up > 0);
	CHECK_EQ(dup2(s[0], s[1]), s[1]);
	peer_join(&p);
	CHECK_EQ(atomic_load(&sh.got), PACKETS_SENT);
	close_pair(s);
}

static void post(void *fd)
{
	usleep(SHORT_US);
	CHECK_EQ(eventfd_write((int)(intptr_t)fd, 1), 0);
}

/* A read of 8 bytes into a longer buffer leaves the rest of the count. */
POSIX_TEST(read_of_a_semaphore_with_a_count_returns_at_once)
{
	int64_t shortest = INT64_MAX;
	uint64_t buf[2];

	for (int i = 0; i < TRIES; i++) {
		int fd = eventfd(0, EFD_SEMAPHORE);

		for (int k = 0; k < 4; k++) {
			struct peer p;

			peer_start(&p, post, (void *)(intptr_t)fd);
			CHECK_EQ(read(fd, buf, sizeof(buf)), 8);
			peer_join(&p);
		}
		CHECK_EQ(eventfd_write(fd, 2), 0);
		usleep(SHORT_US);
		CHECK_EQ(read(fd, buf, sizeof(buf)), 8);

		int64_t begin = gmp_now();

		CHECK_EQ(read(fd, buf, sizeof(buf)), 8);
		shortest = gmp_now() - begin < shortest ? gmp_now() - begin : shortest;
		CHECK_EQ(close(fd), 0);
	}
	CHECK(shortest < 900 * GMP_US);
}

/* The number of the former connection was closed by a call that is not replaced. */
POSIX_TEST(read_of_an_accepted_connection_returns_at_once)
{
	int64_t shortest = INT64_MAX;
	struct sockaddr_in a;
	int l = tcp_listener(&a, 4);

	for (int i = 0; i < TRIES; i++) {
		int c = tcp_connect(&a), s = accept(l, NULL, NULL);
		char buf[8];

		CHECK_EQ(write(c, "x", 1), 1);
		usleep(SHORT_US);

		int64_t begin = gmp_now();

		CHECK_EQ(read(s, buf, sizeof(buf)), 1);
		if (i > 0 && gmp_now() - begin < shortest)
			shortest = gmp_now() - begin;
		for (int k = 0; k < 4; k++)
			wait_for_byte(s, c, SHORT_US);
		CHECK_EQ(syscall(SYS_close, s), 0);
		CHECK_EQ(close(c), 0);
	}
	CHECK(shortest < 900 * GMP_US);
	close(l);
}

/* --- events without a read --- */

POSIX_TEST(read_after_events_without_a_read_waits)
{
	for (int kind = 0; kind < KINDS; kind++) {
		char buf[64];
		int s[2];

		waited_pair(kind, s);
		for (int round = 0; round < 3; round++) {
			for (int i = 0; i < 20; i++) {
				CHECK_EQ(write(s[1], "x", 1), 1);
				usleep(SHORT_US); /* the poller reports it */
			}
			for (ssize_t got = 0, n; got < 20; got += n) {
				n = read(s[0], buf, 20 - (size_t)got);
				CHECK(n > 0);
			}
			for (int i = 0; i < 3; i++)
				wait_for_byte(s[0], s[1], i & 1 ? LONG_US : SHORT_US);
		}
		close_pair(s);
	}
}

/* --- the number's file changes, by calls that are not replaced --- */

static void move_raw(int from, int to)
{
	CHECK_EQ(syscall(SYS_close, to), 0);
	CHECK_EQ(syscall(SYS_fcntl, from, F_DUPFD, to), to);
}

/* The time of the first wait of a number whose file of the kind `former` was replaced. */
static int64_t wait_after_move(int former, int kind, int delay)
{
	int64_t took = 0;
	int s[2], t[2];

	waited_pair(former, s);
	waited_pair(kind, t);
	move_raw(t[0], s[0]);
	for (int i = 0; i < 3; i++) {
		int64_t begin = gmp_now();

		wait_for_byte(s[0], t[1], delay);
		took = i ? took : gmp_now() - begin;
	}
	close_pair(s);
	close_pair(t);
	return took;
}

/* A read that waited for the former file would end by sysmon's check, at an age of 100 ms.  A
 * loaded machine may delay some reads as long, not all. */
POSIX_TEST(read_of_a_number_with_another_connection_waits)
{
	int64_t shortest[2] = { INT64_MAX, INT64_MAX };

	for (int former = 0; former < KINDS; former++) {
		for (int kind = 0; kind < KINDS; kind++) {
			bool quick = !is_long(former);
			int64_t took = wait_after_move(former, kind, quick ? SHORT_US : LONG_US);

			shortest[quick] = took < shortest[quick] ? took : shortest[quick];
		}
		CHECK(shortest[!is_long(former)] < 90 * GMP_MS);
	}
}

POSIX_TEST(read_of_a_number_that_has_its_connection_again_waits)
{
	for (int kind = 0; kind < KINDS; kind++) {
		int s[2], t[2], keep;

		waited_pair(kind, s);
		waited_pair(kind, t);
		keep = dup(s[0]);
		move_raw(t[0], s[0]);
		if (kind % FILES != UNIX)
			wait_for_byte(s[0], t[1], SHORT_US);
		move_raw(keep, s[0]);
		for (int i = 0; i < 3; i++)
			wait_for_byte(s[0], s[1], i & 1 ? SHORT_US : LONG_US);
		close(keep);
		close_pair(s);
		close_pair(t);
	}
}

static void read_late(void *fd)
{
	char c = 0;

	CHECK_EQ(read((int)(intptr_t)fd, &c, 1), 1);
	CHECK_EQ(c, 'k');
}

/* The number gets its former file back while a green thread waits: sysmon finds it.  An OS thread
 * waits on for the other file. */
static void restore_during_wait(void *arg)
{
	int s[2], t[2], keep;
	gmp_g *g;

	(void)arg;
	waited_pair(PIPE, s);
	waited_pair(PIPE, t);
	keep = dup(s[0]);
	move_raw(t[0], s[0]);
	CHECK_EQ(gmp_spawn(&g, read_late, (void *)(intptr_t)s[0], NULL), 0);
	gmp_sleep(20 * GMP_MS);
	move_raw(keep, s[0]);
	CHECK_EQ(write(s[1], "k", 1), 1);
	CHECK_EQ(gmp_join(g), 0);
	close(keep);
	close_pair(s);
	close_pair(t);
}

TEST(read_of_a_number_whose_file_is_restored_finds_it)
{
	run_own(1, 0, restore_during_wait, NULL);
}

/* The kind that the number had says nothing about the timeout. */
POSIX_TEST(read_of_a_number_with_a_socket_has_its_timeout)
{
	int s[2], t[2];
	char c;

	for (int kind = 0; kind < KINDS; kind++) {
		waited_pair(kind, s);
		unix_pair(t);
		set_timeout(t[0], SO_RCVTIMEO, 20);
		move_raw(t[0], s[0]);
		CHECK_ERRNO(read(s[0], &c, 1), EAGAIN);
		close_pair(s);
		close_pair(t);
	}
}

/* An attempt returns EAGAIN, but a read does not wait. */
POSIX_TEST(read_of_a_number_with_a_datagram_socket_that_is_shut_down_is_0)
{
	for (int kind = 0; kind < KINDS; kind++) {
		int s[2], t[2];
		char c;

		waited_pair(kind, s);
		udp_pair(t);
		CHECK_EQ(shutdown(t[0], SHUT_RD), 0);
		move_raw(t[0], s[0]);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(read(s[0], &c, 1), 0);
		close_pair(s);
		close_pair(t);
	}
}

/* The same without another file: the waits before were short. */
POSIX_TEST(read_of_a_datagram_socket_that_is_shut_down_after_waits_is_0)
{
	for (int kind = 0; kind < 2; kind++) {
		int s[2];
		char c;

		udp_pair(s);
		for (int i = 0; i < 4; i++)
			wait_for_byte(s[0], s[1], kind ? LONG_US : SHORT_US);
		CHECK_EQ(shutdown(s[0], SHUT_RD), 0);
		for (int i = 0; i < 100; i++)
			CHECK_EQ(read(s[0], &c, 1), 0);
		close_pair(s);
	}
}

/* --- the end of a connection --- */

static void end_it(void *arg)
{
	struct late_answer *a = arg;

	usleep((useconds_t)a->delay);
	CHECK_EQ(a->fd < 0 ? shutdown(-a->fd, SHUT_RD) : close(a->fd), 0);
}

POSIX_TEST(read_of_a_connection_that_ends_is_0)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int how = 0; how < (kind % FILES == PIPE ? 2 : 4); how++) {
			struct late_answer a = { 0, how & 1 ? LONG_US : 0 };
			struct peer p;
			char c;
			int s[2];

			waited_pair(kind, s);
			a.fd = how & 2 ? -s[0] : s[1];
			peer_start(&p, end_it, &a);
			for (int i = 0; i < 3; i++)
				CHECK_EQ(read(s[0], &c, 1), 0);
			peer_join(&p);
			close(s[0]);
			if (how & 2)
				close(s[1]);
		}
}
