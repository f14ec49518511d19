/* SPDX-License-Identifier: MIT */
/* What the tests of calls on fds share: pairs of fds, peers, and green threads that park. */
#ifndef TESTS_FDS_H
#define TESTS_FDS_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "posix.h"

#define UNUSED __attribute__((unused))

/* Expects -1 and errno. */
#define CHECK_ERRNO(call, err)                                                                     \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ((call), -1);                                                              \
		CHECK_EQ(errno, err);                                                              \
	} while (0)

UNUSED static void unix_pair(int s[2])
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
}

UNUSED static void close_pair(int s[2])
{
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(close(s[1]), 0);
}

/* A listening TCP socket on the loopback, and its address. */
UNUSED static int tcp_listener(struct sockaddr_in *a, int backlog)
{
	int l = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t n = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK(l >= 0);
	CHECK_EQ(bind(l, (struct sockaddr *)a, n), 0);
	CHECK_EQ(listen(l, backlog), 0);
	CHECK_EQ(getsockname(l, (struct sockaddr *)a, &n), 0);
	return l;
}

/* A connection; after EINTR it is being established. */
UNUSED static int tcp_connect(const struct sockaddr_in *a)
{
	int c = socket(AF_INET, SOCK_STREAM, 0);
	int err = connect(c, (const struct sockaddr *)a, sizeof(*a)) ? errno : 0;
	struct pollfd p = { .fd = c, .events = POLLOUT };

	if (err)
		CHECK_EQ(err, EINTR);
	while (err && poll(&p, 1, -1) != 1)
		CHECK_EQ(errno, EINTR);
	return c;
}

UNUSED static void tcp_pair(int s[2])
{
	struct sockaddr_in a;
	int l = tcp_listener(&a, 1);

	s[0] = tcp_connect(&a);
	s[1] = accept(l, NULL, NULL);
	CHECK(s[1] >= 0);
	close(l);
}

/* Two UDP sockets that are connected to each other. */
UNUSED static void udp_pair(int s[2])
{
	struct sockaddr_in a[2];
	socklen_t n = sizeof(a[0]);

	for (int i = 0; i < 2; i++) {
		a[i] = (struct sockaddr_in){ .sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		s[i] = socket(AF_INET, SOCK_DGRAM, 0);
		CHECK_EQ(bind(s[i], (struct sockaddr *)&a[i], n), 0);
		CHECK_EQ(getsockname(s[i], (struct sockaddr *)&a[i], &n), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(connect(s[i], (struct sockaddr *)&a[!i], n), 0);
}

UNUSED static void set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	CHECK_EQ(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

UNUSED static bool is_nonblocking(int fd)
{
	return fcntl(fd, F_GETFL) & O_NONBLOCK;
}

UNUSED static void set_timeout(int fd, int option, int ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, option, &t, sizeof(t)), 0);
}

/* Fill what fd takes without waiting; O_NONBLOCK stays off. */
UNUSED static void fill(int fd)
{
	static char zeros[4096];

	set_nonblocking(fd, true);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	while (write(fd, zeros, 1) > 0)
		;
	CHECK_EQ(errno, EAGAIN);
	set_nonblocking(fd, false);
}

/* An unlinked file with this text. */
UNUSED static int text_file(const char *text)
{
	char path[] = "/tmp/gmp-posix-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	unlink(path);
	CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* A thread beside the test. */
struct peer {
	pthread_t thread;
	void (*fn)(void *);
	void *arg;
};

UNUSED static void *peer_main(void *p)
{
	((struct peer *)p)->fn(((struct peer *)p)->arg);
	return NULL;
}

UNUSED static void peer_start(struct peer *p, void (*fn)(void *), void *arg)
{
	p->fn = fn;
	p->arg = arg;
	CHECK_EQ(pthread_create(&p->thread, NULL, peer_main, p), 0);
}

UNUSED static void peer_join(struct peer *p)
{
	CHECK_EQ(pthread_join(p->thread, NULL), 0);
}

/* A call that a handler must end. */
struct interrupted {
	ssize_t (*call)(int fd);
	int fd;
	ssize_t result;
	volatile bool over;
};

UNUSED static void ignore_signal(int signo)
{
	(void)signo;
}

UNUSED static void call_interrupted(void *arg)
{
	struct interrupted *i = arg;

	i->result = i->call(i->fd);
	i->over = true;
}

/* The result of call(fd), which does a part and then waits forever: a handler with SA_RESTART ends
 * it, and restarts it before the part is done. */
UNUSED static ssize_t result_of_interrupted(ssize_t (*call)(int fd), int fd)
{
	struct interrupted i = { call, fd, 0, false };
	struct sigaction sa = { .sa_handler = ignore_signal, .sa_flags = SA_RESTART };
	struct peer p;

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	peer_start(&p, call_interrupted, &i);
	while (!i.over) {
		usleep(2000);
		if (!i.over)
			CHECK_EQ(pthread_kill(p.thread, SIGUSR1), 0);
	}
	peer_join(&p);
	return i.result;
}

/* --- parking --- */

enum { PARKED = 100 };

/*
 * Run wait(i) in PARKED green threads on one P without preemption: a call that blocked the OS
 * thread would end the test by its time limit.  When all are parked, none in blocking code, run
 * wake(i) for each.
 */
struct parking {
	void (*wait)(int i);
	void (*wake)(int i);
	int next;
};

UNUSED static void parking_wait(void *p)
{
	struct parking *t = p;

	t->wait(t->next++);
}

UNUSED static void parking_app(void *p)
{
	struct parking *t = p;
	gmp_g *g[PARKED];
	gmp_stats s = GMP_STATS_INIT;

	for (int i = 0; i < PARKED; i++)
		CHECK_EQ(gmp_spawn(&g[i], parking_wait, t, NULL), 0);
	do {
		gmp_yield();
		CHECK_EQ(gmp_stats_get(&s), 0);
		CHECK_EQ(s.greens_blocked, 0);
	} while (s.greens_waiting < PARKED);
	CHECK_EQ(t->next, PARKED);
	for (int i = 0; i < PARKED; i++)
		t->wake(i);
	for (int i = 0; i < PARKED; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

UNUSED static void check_parks(void (*wait)(int), void (*wake)(int))
{
	struct parking t = { wait, wake, 0 };

	run_own(1, GMP_COOPERATIVE, parking_app, &t);
}

/* Run fn in a green thread that is cancelled once it is parked. */
UNUSED static void cancel_app(void *p)
{
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, *(gmp_fn *)p, NULL, NULL), 0);
	until_waiting(1);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
}

UNUSED static void check_cancelled(gmp_fn fn)
{
	run_own(1, 0, cancel_app, &fn);
}

#endif
