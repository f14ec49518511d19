/* SPDX-License-Identifier: MIT */
/* Tests accept, connect and shutdown. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/un.h>

#include "fds.h"

typedef int (*acceptor)(int fd, struct sockaddr *addr, socklen_t *len);

static int by_accept4(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

static const acceptor acceptors[] = { accept, by_accept4 };
enum { ACCEPTORS = 2 };

/* --- accept --- */

POSIX_TEST(accept_returns_the_connection_and_its_address)
{
	for (int i = 0; i < ACCEPTORS; i++) {
		struct sockaddr_in a, from = { 0 }, mine = { 0 };
		socklen_t n = sizeof(from);
		int l = tcp_listener(&a, 5), c = tcp_connect(&a), s;
		char byte = 0;

		errno = 1234;
		s = acceptors[i](l, (struct sockaddr *)&from, &n);
		CHECK(s >= 0);
		CHECK_EQ(errno, 1234);
		CHECK_EQ(getsockname(c, (struct sockaddr *)&mine, &n), 0);
		CHECK_EQ(from.sin_port, mine.sin_port);
		CHECK_EQ(write(c, "x", 1), 1);
		CHECK_EQ(read(s, &byte, 1), 1);
		CHECK(!is_nonblocking(s));
		close(s);
		close(c);
		close(l);
	}
}

POSIX_TEST(accept4_sets_the_flags)
{
	struct sockaddr_in a;
	int l = tcp_listener(&a, 5), c = tcp_connect(&a);
	int s = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	CHECK(is_nonblocking(s));
	CHECK_EQ(fcntl(s, F_GETFD), FD_CLOEXEC);
	CHECK_ERRNO(accept4(l, NULL, NULL, ~0), EINVAL);
	close(s);
	close(c);
	close(l);
}

POSIX_TEST(accept_without_a_connection_is_eagain)
{
	for (int i = 0; i < ACCEPTORS; i++) {
		struct sockaddr_in a;
		int l = tcp_listener(&a, 5);

		set_nonblocking(l, true);
		CHECK_ERRNO(acceptors[i](l, NULL, NULL), EAGAIN);
		set_nonblocking(l, false);
		set_timeout(l, SO_RCVTIMEO, 20);
		int64_t began = gmp_now();

		CHECK_ERRNO(acceptors[i](l, NULL, NULL), EAGAIN);
		CHECK(gmp_now() - began >= 10000000);
		close(l);
	}
}

POSIX_TEST(accept_on_the_wrong_fd_is_an_error)
{
	for (int i = 0; i < ACCEPTORS; i++) {
		int s[2], t = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);

		unix_pair(s);
		CHECK_ERRNO(acceptors[i](-1, NULL, NULL), EBADF);
		CHECK_ERRNO(acceptors[i](t, NULL, NULL), EINVAL);
		CHECK_ERRNO(acceptors[i](u, NULL, NULL), EOPNOTSUPP);
		CHECK_ERRNO(acceptors[i](s[0], NULL, NULL), EINVAL);
		close_pair(s);
		CHECK_EQ(pipe(s), 0);
		CHECK_ERRNO(acceptors[i](s[0], NULL, NULL), ENOTSOCK);
		close_pair(s);
		close(t);
		close(u);
	}
}

static void connect_once(void *a)
{
	close(tcp_connect(a));
}

POSIX_TEST(accept_waits_for_a_connection)
{
	for (int i = 0; i < ACCEPTORS; i++) {
		struct sockaddr_in a;
		int l = tcp_listener(&a, 5);
		struct peer p;

		for (int n = 0; n < 5; n++) {
			peer_start(&p, connect_once, &a);
			int s = acceptors[i](l, NULL, NULL);

			CHECK(s >= 0);
			close(s);
			peer_join(&p);
		}
		close(l);
	}
}

static struct sockaddr_in address;
static int listener;

static void wait_accept(int i)
{
	int s = acceptors[i % ACCEPTORS](listener, NULL, NULL);

	CHECK(s >= 0);
	close(s);
}

static void wake_accept(int i)
{
	(void)i;
	connect_once(&address);
}

TEST(accept_parks_the_green_thread)
{
	listener = tcp_listener(&address, PARKED);
	check_parks(wait_accept, wake_accept);
}

static void cancelled_accepts(void *arg)
{
	struct sockaddr_in a;
	int l = tcp_listener(&a, 5);

	(void)arg;
	for (int i = 0; i < ACCEPTORS; i++)
		CHECK_ERRNO(acceptors[i](l, NULL, NULL), ECANCELED);
	close(l);
}

TEST(accept_cancelled_is_ecanceled)
{
	check_cancelled(cancelled_accepts);
}

enum { ROUNDS = 50, SHARERS = 4 };

static void accept_many(void *fd)
{
	for (int i = 0; i < ROUNDS; i++) {
		int s = accept(*(int *)fd, NULL, NULL);

		CHECK(s >= 0);
		close(s);
	}
}

static void connect_many(void *a)
{
	for (int i = 0; i < (SHARERS + 1) * ROUNDS; i++)
		close(tcp_connect(a));
}

POSIX_TEST(accept_shares_a_listener)
{
	struct sockaddr_in a;
	struct peer p[SHARERS + 1];
	int l = tcp_listener(&a, 128);

	skip_under_chaos();
	for (int i = 0; i < SHARERS; i++)
		peer_start(&p[i], accept_many, &l);
	peer_start(&p[SHARERS], connect_many, &a);
	accept_many(&l);
	for (int i = 0; i < SHARERS + 1; i++)
		peer_join(&p[i]);
	close(l);
}

/* --- connect --- */

POSIX_TEST(connect_refused_is_econnrefused)
{
	struct sockaddr_in a;
	int l = tcp_listener(&a, 1), c = socket(AF_INET, SOCK_STREAM, 0);

	skip_under_chaos();
	close(l);
	CHECK_ERRNO(connect(c, (struct sockaddr *)&a, sizeof(a)), ECONNREFUSED);
	close(c);
}

POSIX_TEST(connect_bad_argument_is_an_error)
{
	struct sockaddr_in a;
	int l = tcp_listener(&a, 1), c = tcp_connect(&a), s[2];

	skip_under_chaos(); /* after an EINTR of connect the next call returns 0 */
	CHECK_ERRNO(connect(-1, (struct sockaddr *)&a, sizeof(a)), EBADF);
	CHECK_ERRNO(connect(c, (struct sockaddr *)&a, sizeof(a)), EISCONN);
	CHECK_ERRNO(connect(c, (struct sockaddr *)&a, 1), EINVAL);
	CHECK_EQ(pipe(s), 0);
	CHECK_ERRNO(connect(s[0], (struct sockaddr *)&a, sizeof(a)), ENOTSOCK);
	close_pair(s);
	close(c);
	close(l);
}

/* A unix listener with a full queue. */
static int full_listener(struct sockaddr_un *a, socklen_t *n, int *queued)
{
	int l = socket(AF_UNIX, SOCK_STREAM, 0);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*n = sizeof(sa_family_t);
	CHECK_EQ(bind(l, (struct sockaddr *)a, *n), 0);
	*n = sizeof(*a);
	CHECK_EQ(getsockname(l, (struct sockaddr *)a, n), 0);
	CHECK_EQ(listen(l, 0), 0);
	*queued = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_EQ(connect(*queued, (struct sockaddr *)a, *n), 0);
	return l;
}

static void accept_two(void *l)
{
	for (int i = 0; i < 2; i++)
		close(accept(*(int *)l, NULL, NULL));
}

POSIX_TEST(connect_waits_for_a_full_listener)
{
	struct sockaddr_un a;
	socklen_t n;
	struct peer p;
	int queued, l = full_listener(&a, &n, &queued), c = socket(AF_UNIX, SOCK_STREAM, 0);

	skip_under_chaos();
	set_timeout(c, SO_SNDTIMEO, 20);
	CHECK_ERRNO(connect(c, (struct sockaddr *)&a, n), EAGAIN);
	set_timeout(c, SO_SNDTIMEO, 0);
	set_nonblocking(c, true);
	CHECK_ERRNO(connect(c, (struct sockaddr *)&a, n), EAGAIN);
	set_nonblocking(c, false);
	peer_start(&p, accept_two, &l);
	CHECK_EQ(connect(c, (struct sockaddr *)&a, n), 0);
	CHECK(!is_nonblocking(c));
	peer_join(&p);
	close(queued);
	close(c);
	close(l);
}

/* A TCP listener whose queue is full: the kernel drops each SYN, which the client repeats after a
 * second. */
static int full_tcp_listener(struct sockaddr_in *a, int *queued)
{
	int l = tcp_listener(a, 0);

	*queued = tcp_connect(a);
	return l;
}

static int connect_to(int c, const struct sockaddr_in *a)
{
	return connect(c, (const struct sockaddr *)a, sizeof(*a));
}

static int socket_error(int fd)
{
	int err = -1;
	socklen_t n = sizeof(err);

	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n), 0);
	return err;
}

static int send_timeout_ms(int fd)
{
	struct timeval t;
	socklen_t n = sizeof(t);

	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, &n), 0);
	return (int)(t.tv_sec * 1000 + t.tv_usec / 1000);
}

POSIX_TEST(connect_waits_for_a_full_tcp_listener)
{
	struct sockaddr_in a;
	struct peer p;
	int queued, l = full_tcp_listener(&a, &queued), c = socket(AF_INET, SOCK_STREAM, 0);

	skip_under_chaos();
	set_timeout(c, SO_SNDTIMEO, 20);
	CHECK_ERRNO(connect_to(c, &a), EINPROGRESS);
	CHECK_ERRNO(connect_to(c, &a), EALREADY);
	CHECK_EQ(send_timeout_ms(c), 20);
	set_timeout(c, SO_SNDTIMEO, 0);
	peer_start(&p, accept_two, &l);
	errno = 1234;
	CHECK_EQ(connect_to(c, &a), 0);
	CHECK_EQ(errno, 1234);
	CHECK_EQ(send_timeout_ms(c), 0);
	CHECK(!is_nonblocking(c));
	CHECK_EQ(socket_error(c), 0);
	CHECK_ERRNO(connect_to(c, &a), EISCONN);
	peer_join(&p);
	close(queued);
	close(c);
	close(l);
}

struct late_timeout {
	int listener, client;
};

static void set_timeout_late(void *arg)
{
	struct late_timeout *t = arg;

	usleep(50000);
	set_timeout(t->client, SO_SNDTIMEO, 7000);
	accept_two(&t->listener);
}

POSIX_TEST(connect_keeps_a_timeout_that_is_set_meanwhile)
{
	struct sockaddr_in a;
	struct peer p;
	int queued, l = full_tcp_listener(&a, &queued), c = socket(AF_INET, SOCK_STREAM, 0);
	struct late_timeout late = { l, c };

	skip_under_chaos();
	peer_start(&p, set_timeout_late, &late);
	CHECK_EQ(connect_to(c, &a), 0);
	CHECK_EQ(send_timeout_ms(c), 7000);
	peer_join(&p);
	close(queued);
	close(c);
	close(l);
}

static void close_late(void *l)
{
	usleep(50000);
	close(*(int *)l);
}

/* A socket that was refused after a wait may connect again. */
POSIX_TEST(connect_refused_after_a_wait_leaves_the_socket_usable)
{
	struct sockaddr_in a, b;
	struct peer p;
	int queued, l = full_tcp_listener(&a, &queued), other = tcp_listener(&b, 1);
	int c = socket(AF_INET, SOCK_STREAM, 0);

	skip_under_chaos();
	peer_start(&p, close_late, &l);
	CHECK_ERRNO(connect_to(c, &a), ECONNREFUSED);
	CHECK_EQ(socket_error(c), 0);
	CHECK_EQ(connect_to(c, &b), 0);
	CHECK_ERRNO(connect_to(c, &b), EISCONN);
	peer_join(&p);
	close(queued);
	close(c);
	close(other);
}

static void shutdown_late(void *c)
{
	usleep(50000);
	CHECK_EQ(shutdown(*(int *)c, SHUT_RDWR), 0);
}

/* The socket is not connected again. */
POSIX_TEST(connect_ends_with_a_shutdown)
{
	struct sockaddr_in a;
	struct peer p;
	int queued, l = full_tcp_listener(&a, &queued), c = socket(AF_INET, SOCK_STREAM, 0);

	skip_under_chaos();
	peer_start(&p, shutdown_late, &c);
	CHECK_ERRNO(connect_to(c, &a), ECONNRESET);
	CHECK_EQ(socket_error(c), 0);
	peer_join(&p);
	close(queued);
	close(c);
	close(l);
}

struct shared_connect {
	struct sockaddr_in a;
	int fd;
	int err[2];
};

static void connect_shared(void *p)
{
	struct shared_connect *s = p;

	s->err[1] = connect_to(s->fd, &s->a) ? errno : 0;
}

/* A call on the connected socket is EISCONN; a call that waits is not. */
POSIX_TEST(connect_of_a_shared_socket_succeeds)
{
	struct shared_connect s = { .fd = socket(AF_INET, SOCK_STREAM, 0) };
	struct peer p[2];
	int queued, l = full_tcp_listener(&s.a, &queued);

	skip_under_chaos();
	peer_start(&p[0], accept_two, &l);
	peer_start(&p[1], connect_shared, &s);
	s.err[0] = connect_to(s.fd, &s.a) ? errno : 0;
	peer_join(&p[0]);
	peer_join(&p[1]);
	CHECK(s.err[0] == 0 || s.err[1] == 0);
	for (int i = 0; i < 2; i++)
		CHECK(s.err[i] == 0 || s.err[i] == EISCONN);
	close(queued);
	close(s.fd);
	close(l);
}

enum { CONNECTS = 30000 };

static void connect_again(void *arg)
{
	const struct shared_connect *s = arg;

	for (int i = 0; i < CONNECTS; i++)
		CHECK_ERRNO(connect_to(s->fd, &s->a), EISCONN);
}

POSIX_TEST(connect_of_a_shared_socket_keeps_its_timeout)
{
	struct shared_connect s = { .fd = socket(AF_INET, SOCK_STREAM, 0) };
	struct peer p[2];
	int l = tcp_listener(&s.a, 1);

	CHECK_EQ(connect_to(s.fd, &s.a), 0);
	set_timeout(s.fd, SO_SNDTIMEO, 7000);
	for (int i = 0; i < 2; i++)
		peer_start(&p[i], connect_again, &s);
	for (int i = 0; i < 2; i++)
		peer_join(&p[i]);
	CHECK_EQ(send_timeout_ms(s.fd), 7000);
	close(s.fd);
	close(l);
}

/* Ended by the end of the listener. */
static void wait_connect(int i)
{
	int c = socket(AF_INET, SOCK_STREAM, 0);

	(void)i;
	CHECK_ERRNO(connect_to(c, &address), ECONNREFUSED);
	close(c);
}

static void wake_connect(int i)
{
	if (i == 0)
		close(listener);
}

TEST(connect_parks_the_green_thread)
{
	int queued;

	skip_under_chaos();
	listener = full_tcp_listener(&address, &queued);
	check_parks(wait_connect, wake_connect);
	close(queued);
}

static void cancelled_connect(void *arg)
{
	int c = socket(AF_INET, SOCK_STREAM, 0);

	(void)arg;
	CHECK_ERRNO(connect_to(c, &address), ECANCELED);
	close(c);
}

TEST(connect_cancelled_is_ecanceled)
{
	int queued;

	skip_under_chaos();
	listener = full_tcp_listener(&address, &queued);
	check_cancelled(cancelled_connect);
	close(queued);
	close(listener);
}

/* --- shutdown --- */

POSIX_TEST(shutdown_ends_the_stream)
{
	int s[2];
	char c;

	unix_pair(s);
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
	CHECK_EQ(read(s[0], &c, 1), 0);
	CHECK_ERRNO(send(s[1], "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(write(s[0], "y", 1), 1);
	CHECK_EQ(read(s[1], &c, 1), 1);
	close_pair(s);
}

POSIX_TEST(shutdown_bad_argument_is_an_error)
{
	int t = socket(AF_INET, SOCK_STREAM, 0), s[2];

	CHECK_ERRNO(shutdown(-1, SHUT_RD), EBADF);
	CHECK_ERRNO(shutdown(t, SHUT_RD), ENOTCONN);
	unix_pair(s);
	CHECK_ERRNO(shutdown(s[0], 17), EINVAL);
	close_pair(s);
	CHECK_EQ(pipe(s), 0);
	CHECK_ERRNO(shutdown(s[0], SHUT_RD), ENOTSOCK);
	close_pair(s);
	close(t);
}

/* A reader that waits, or begins to, gets the end of the stream. */
static void read_end(void *fd)
{
	char c;

	CHECK_EQ(recv(*(int *)fd, &c, 1, 0), 0);
}

POSIX_TEST(shutdown_wakes_readers_of_the_socket)
{
	for (int kind = 0; kind < 4; kind++) {
		struct peer p;
		int s[2];

		if (kind == 3)
			CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, s), 0);
		else
			(kind == 0 ? unix_pair : kind == 1 ? tcp_pair : udp_pair)(s);
		peer_start(&p, read_end, &s[0]);
		CHECK_EQ(shutdown(s[0], SHUT_RD), 0);
		read_end(&s[0]);
		peer_join(&p);
		close_pair(s);
	}
}

static void write_epipe(void *fd)
{
	CHECK_ERRNO(send(*(int *)fd, "x", 1, MSG_NOSIGNAL), EPIPE);
}

/* The writer is about to wait, at different points of its way to the wait. */
static void shut_down_writer(int spins)
{
	struct peer p;
	int s[2];

	unix_pair(s);
	fill(s[0]);
	peer_start(&p, write_epipe, &s[0]);
	sched_yield();
	for (int i = 0; i < spins; i++)
		__asm__ volatile("");
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	peer_join(&p);
	close_pair(s);
}

/* A unix socket: a full TCP socket gets room again when the peer's kernel has taken the data. */
POSIX_TEST(shutdown_wakes_writers_of_the_socket)
{
	for (int i = 0; i < check_scaled(400); i++)
		shut_down_writer(i * 53 % 8000);
}

static void shut_down_parked(void)
{
	gmp_stats stats = GMP_STATS_INIT;
	gmp_g *g;
	int s[2];

	unix_pair(s);
	fill(s[0]);
	CHECK_EQ(gmp_spawn(&g, write_epipe, &s[0], NULL), 0);
	do {
		gmp_yield();
		CHECK_EQ(gmp_stats_get(&stats), 0);
	} while (stats.greens_waiting < 1);
	CHECK_EQ(shutdown(s[0], SHUT_WR), 0);
	CHECK_EQ(gmp_join(g), 0);
	close_pair(s);
}

TEST(shutdown_wakes_a_parked_writer_of_the_socket)
{
	posix_run(shut_down_parked, 1);
}
