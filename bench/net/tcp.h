/* SPDX-License-Identifier: MIT */
/* Socket functions: set up sockets of all servers and clients of this folder in the same way. */
#ifndef NET_TCP_H
#define NET_TCP_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 4096, BACKLOG = 4096 };

__attribute__((noreturn)) static inline void die(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(err));
	exit(1);
}

/* Raise the limit of fds to the maximum that the system allows. */
static inline void raise_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static inline void no_delay(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

static inline struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

/* Returns a listening socket on any free port. Prints the port for the script that starts the
 * clients. */
static inline int listen_anywhere(void)
{
	struct sockaddr_in a = loopback(0);
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	raise_limit();
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, BACKLOG) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) != 0)
		die("listen", errno);
	printf("listening on 127.0.0.1:%d\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

#endif
