/* SPDX-License-Identifier: MIT */
/*
 * Echo server on bare epoll: shows the least cost of an echo.
 *
 * It answers like echo_gmp.c, in one thread, with edge-triggered events, and without a state of its
 * own for a connection.  After a read that does not fill the buffer nothing is left, so the server
 * does not read again.
 */
#include "tcp.h"

#include <sys/epoll.h>

static int ep;

static void watch(int fd)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0)
		die("epoll_ctl", errno);
}

static void take_all(int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		no_delay(fd);
		watch(fd);
	}
	if (errno != EAGAIN)
		die("accept4", errno);
}

static void echo(int fd)
{
	static char buf[BUFFER];
	ssize_t n;

	do {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n > 0 && send(fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
			n = 0; /* netload reads each answer, so the send buffer never fills */
	} while (n == sizeof(buf));
	if (n == 0 || (n < 0 && errno != EAGAIN))
		close(fd);
}

int main(void)
{
	static struct epoll_event events[128];
	int listener = listen_anywhere();

	ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0)
		die("epoll_create1", errno);
	watch(listener);
	for (;;) {
		int n = epoll_wait(ep, events, 128, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				take_all(listener);
			else
				echo(events[i].data.fd);
		}
	}
}
