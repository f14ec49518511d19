/* SPDX-License-Identifier: MIT */
/* Calls that wait until a signal handler ends them: each returns -1 with EINTR.  A case sets `pair`
 * and `sem` up, and leaves both empty.  Plain C library: a program without gmp uses them, too. */
#ifndef TESTS_POSIX_WAITS_ENDED_H
#define TESTS_POSIX_WAITS_ENDED_H

#include <errno.h>
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
