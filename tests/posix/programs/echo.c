/* SPDX-License-Identifier: MIT */
/*
 * Echo server with a thread for each connection, and its client.
 *
 *   echo server                prints its port; ends when its stdin ends
 *   echo client PORT N PID     N connections at once; prints the answers that were right, and how
 *                              many OS threads the process PID has meanwhile
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE = 64, ROUNDS = 20, BACKLOG = 1024 };

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct sockaddr_in local(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

/* --- server --- */

static void *serve(void *arg)
{
	int fd = (int)(long)arg;
	char buf[MESSAGE];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			break;
	close(fd);
	return NULL;
}

static void *accept_all(void *arg)
{
	int listener = (int)(long)arg, fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		pthread_t t;

		check(pthread_create(&t, NULL, serve, (void *)(long)fd) == 0, "pthread_create");
		pthread_detach(t);
	}
	perror("accept");
	exit(1);
}

static int server(void)
{
	struct sockaddr_in a = local(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t t;
	char c;

	check(bind(fd, (struct sockaddr *)&a, len) == 0, "bind");
	check(listen(fd, BACKLOG) == 0, "listen");
	check(getsockname(fd, (struct sockaddr *)&a, &len) == 0, "getsockname");
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	check(pthread_create(&t, NULL, accept_all, (void *)(long)fd) == 0, "pthread_create");
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}

/* --- client --- */

static int open_to(int port)
{
	struct sockaddr_in a = local(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	check(fd >= 0, "socket");
	check(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	return fd;
}

static int is_answered(int fd, int i)
{
	char out[MESSAGE] = { 0 }, in[MESSAGE];

	snprintf(out, sizeof(out), "message %d", i);
	check(write(fd, out, sizeof(out)) == sizeof(out), "write");
	for (size_t got = 0; got < sizeof(in);) {
		ssize_t n = read(fd, in + got, sizeof(in) - got);

		check(n > 0, "read");
		got += (size_t)n;
	}
	return memcmp(in, out, sizeof(in)) == 0;
}

static int os_threads(const char *pid)
{
	char path[64];
	int n = -2;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	DIR *d = opendir(path);

	check(d != NULL, path);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int client(int port, int n, const char *pid)
{
	int *fd = calloc((size_t)n, sizeof(*fd)), right = 0;

	for (int i = 0; i < n; i++)
		fd[i] = open_to(port);
	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < n; i++)
			right += is_answered(fd[i], r * n + i);
	printf("right %d\nthreads %d\n", right, os_threads(pid));
	free(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "server") == 0)
		return server();
	if (argc == 5 && strcmp(argv[1], "client") == 0)
		return client(atoi(argv[2]), atoi(argv[3]), argv[4]);
	return 2;
}
