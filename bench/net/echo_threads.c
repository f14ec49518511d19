/* SPDX-License-Identifier: MIT */
/*
 * Echo server: serves each connection in an OS thread, as echo_gmp.c does in a green thread.
 *
 * It uses blocking reads and writes, and stacks of the default size (RLIMIT_STACK, usually 8 MiB).
 */
#include "tcp.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[BUFFER];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (send(fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	close(fd);
	return NULL;
}

int main(void)
{
	int listener = listen_anywhere(), fd, err;
	pthread_attr_t detached;
	pthread_t thread;

	if (fcntl(listener, F_SETFL, 0) != 0) /* blocking */
		die("fcntl", errno);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		no_delay(fd);
		err = pthread_create(&thread, &detached, serve, (void *)(intptr_t)fd);
		if (err)
			die("pthread_create", err);
	}
	die("accept4", errno);
}
