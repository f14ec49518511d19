/* SPDX-License-Identifier: MIT */
/* Calls that wait until a signal handler ends them: each returns -1 with EINTR.  A case sets `pair`
 * and `sem` up, and leaves both empty.  Plain C library: a program without gmp uses them, too. */
#ifndef TESTS_POSIX_WAITS_ENDED_H
#define TESTS_POSIX_WAITS_ENDED_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int pair[2];
static sem_t sem;

__attribute__((unused)) static int do_accept(void)
{
	int l = socket(AF_INET, SOCK_STREAM, 0);
	int result = listen(l, 1) ? 0 : accept(l, NULL, NULL), err = errno; /* listen binds it */

	close(l);
	errno = err;
	return result;
}

/* The queue of the listener is full, so that the peer does not answer. */
__attribute__((unused)) static int do_connect(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), c[2];
	int result = listen(l, 0) ? 0 : getsockname(l, (struct sockaddr *)&a, &n), err = errno;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 2; i++) {
		c[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (!result)
			result = connect(c[i], (struct sockaddr *)&a, n), err = errno;
	}
	close(c[0]);
	close(c[1]);
	close(l);
	errno = err;
	return result;
}

__attribute__((unused)) static int do_read(void)
{
	char c;

	return (int)read(pair[0], &c, 1);
}

__attribute__((unused)) static int do_poll(void)
{
	struct pollfd p = { .fd = pair[0], .events = POLLIN };

	return poll(&p, 1, -1);
}

__attribute__((unused)) static int do_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(pair[0], &in);
	int result = select(pair[0] + 1, &in, NULL, NULL, NULL);

	return FD_ISSET(pair[0], &in) ? result : 0; /* an error leaves the sets */
}

__attribute__((unused)) static int do_epoll(void)
{
	struct epoll_event e;
	int ep = epoll_create1(0), result = epoll_wait(ep, &e, 1, -1), err = errno;

	close(ep);
	errno = err;
	return result;
}

__attribute__((unused)) static int do_sem_wait(void)
{
	return sem_wait(&sem);
}

__attribute__((unused)) static int do_sem_timedwait(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 100;
	return sem_timedwait(&sem, &t);
}

#endif
