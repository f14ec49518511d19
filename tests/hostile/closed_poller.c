/* SPDX-License-Identifier: MIT */
/*
 * The program closes descriptors that it did not open, as daemonising libraries do.
 *
 *	closed_poller HOW FILE
 *
 * HOW: low     all below 900, which are not gmp's: the run continues; exits with 0
 *      all     all from 3 on, while a green thread waits for a socket
 *      reuse   the same, and FILE is opened as each closed fd; wakeups must not write to it
 *      signals the same while a channel requests a signal, and a signal arrives
 *      pipe    only the pipes, which are then FILE, while a channel requests a signal
 *      asleep  all from 3 on by an external thread while all green threads wait
 *      epoll   each epoll instance is replaced by another one while a green thread waits
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmp.h>

enum { MOST = 1100 };

static const char *how, *file;
static bool was_open[MOST];
static int pair[2];

static bool is(const char *name)
{
	return strcmp(how, name) == 0;
}

static void reader(void *arg)
{
	char c;

	(void)arg;
	gmp_read(pair[0], &c, 1);
}

/* The pipe of the signals that channels ask for: the program has no other. */
static void reuse_pipes(void)
{
	int fd = open(file, O_RDWR);
	struct stat st;

	for (int i = 3; i < MOST; i++)
		if (fstat(i, &st) == 0 && S_ISFIFO(st.st_mode))
			dup2(fd, i);
}

/* Replaces each epoll instance by another one. */
static void replace_epoll(void)
{
	char path[64], target[64];
	int fd = epoll_create1(0);

	for (int i = 3; i < MOST; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		if (n > 0 && i != fd && memmem(target, (size_t)n, "eventpoll", 9))
			dup2(fd, i);
	}
}

static void close_all(void)
{
	int most = is("low") ? 900 : MOST, fd = -1;

	for (int i = 3; i < MOST; i++)
		was_open[i] = fcntl(i, F_GETFD) >= 0;
	for (int i = 3; i < most; i++)
		if (is("low") ? i != pair[0] && i != pair[1] : true)
			close(i);
	if (!is("reuse") && !is("signals"))
		return;
	for (int i = 3; i < MOST; i++)
		if (was_open[i] && i != fd && (fd < 0 ? (fd = open(file, O_RDWR)) >= 0 : true))
			dup2(fd, i);
}

static void *closer(void *arg)
{
	(void)arg;
	usleep(20000);
	close_all();
	return NULL;
}

static void app(void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);
	gmp_g *g;
	pthread_t t;
	int v;

	(void)arg;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || gmp_fd_adopt(pair[0]) < 0 ||
	    gmp_spawn(&g, reader, NULL, NULL) != 0)
		exit(2);
	if ((is("signals") || is("pipe")) && gmp_signal_notify(c, SIGUSR1) != 0)
		exit(2);
	gmp_sleep(10 * GMP_MS);
	if (is("asleep")) {
		pthread_create(&t, NULL, closer, NULL);
		gmp_join_until(g, gmp_deadline(20 * GMP_S));
		return;
	}
	if (is("pipe"))
		reuse_pipes();
	else if (is("epoll"))
		replace_epoll();
	else
		close_all();
	if (is("low")) {
		if (write(pair[1], "x", 1) != 1)
			exit(2);
		gmp_join(g);
		return;
	}
	if (is("signals") || is("pipe"))
		kill(getpid(), SIGUSR1);
	for (int i = 0; i < 200; i++)
		gmp_sleep(10 * GMP_MS);
	gmp_chan_recv(c, &v);
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	if (argc != 3)
		return 2;
	how = argv[1];
	file = argv[2];
	c.procs = 2;
	return gmp_run(app, NULL, &c) != 0;
}
