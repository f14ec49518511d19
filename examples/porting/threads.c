/* SPDX-License-Identifier: MIT */
/*
 * Message board: serves each connection in an OS thread (docs/porting.md ports it to gmp).
 *
 *   $ porting_threads 7000 board.log &
 *   $ nc 127.0.0.1 7000
 *   post hello          answers 1, the number of the message, once it is on the disk
 *   get 1               answers hello; waits up to a second for a message that is not there yet
 *
 * A connection that sends nothing for 30 seconds is closed. SIGTERM or SIGINT ends the server.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGES = 1000, LONGEST = 512 << 10, IDLE_SECONDS = 30 };

static struct {
	pthread_mutex_t lock; /* guards the board and its file, also while that is written */
	pthread_cond_t posted;
	int count;
	char *text[MESSAGES];
	int log;
} board = { .lock = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER };

static _Thread_local int client; /* the connection that this thread serves */

static void die(const char *what, int err)
{
	fprintf(stderr, "porting_threads: %s: %s\n", what, strerror(err));
	exit(1);
}

/* Writes all n bytes. Returns false on an error. */
static int write_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return 0;
		p += done;
		n -= (size_t)done;
	}
	return 1;
}

static int reply(const char *text)
{
	return write_all(client, text, strlen(text)) && write_all(client, "\n", 1);
}

/* Returns the number of the message, or 0 if it cannot be kept. */
static int post(const char *text)
{
	int number = 0;

	pthread_mutex_lock(&board.lock);
	if (board.count < MESSAGES && write_all(board.log, text, strlen(text)) &&
	    write_all(board.log, "\n", 1) && fdatasync(board.log) == 0) {
		board.text[board.count] = strdup(text);
		number = ++board.count;
		pthread_cond_broadcast(&board.posted);
	}
	pthread_mutex_unlock(&board.lock);
	return number;
}

/* Returns NULL if there is no such message within a second. */
static const char *get(int number)
{
	const char *text = NULL;
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 1;
	pthread_mutex_lock(&board.lock);
	while (board.count < number && err == 0)
		err = pthread_cond_timedwait(&board.posted, &board.lock, &until);
	if (number > 0 && number <= board.count)
		text = board.text[number - 1];
	pthread_mutex_unlock(&board.lock);
	return text;
}

static int answer(const char *line)
{
	const char *text;
	char number[16];

	if (strncmp(line, "post ", 5) == 0) {
		snprintf(number, sizeof(number), "%d", post(line + 5));
		return reply(number);
	}
	if (strncmp(line, "get ", 4) == 0) {
		text = get(atoi(line + 4));
		return reply(text ? text : "none");
	}
	return reply("what?");
}

static void *serve(void *arg)
{
	struct timeval idle = { .tv_sec = IDLE_SECONDS };
	char line[LONGEST];
	size_t have = 0;
	ssize_t n;
	char *end;

	client = (int)(intptr_t)arg;
	setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
	while ((n = read(client, line + have, sizeof(line) - have)) > 0) {
		have += (size_t)n;
		while ((end = memchr(line, '\n', have)) != NULL) {
			*end++ = '\0';
			if (!answer(line))
				goto out;
			have -= (size_t)(end - line);
			memmove(line, end, have);
		}
	}
	if (n < 0 && errno != EINTR) /* a debugger or a leak checker that stops the threads */
		fprintf(stderr, "porting_threads: read: %s\n", strerror(errno));
out:
	close(client);
	return NULL;
}

static void *accept_clients(void *arg)
{
	int listener = *(int *)arg, fd, err;
	pthread_t thread;

	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0) {
			sleep(1); /* out of descriptors: others give some back */
			continue;
		}
		err = pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd);
		if (err)
			close(fd);
		else
			pthread_detach(thread);
	}
	return NULL;
}

static int listen_at(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(a);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) != 0 ||
	    bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 4096) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) != 0)
		die("listen", errno);
	printf("listening on 127.0.0.1:%d\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

int main(int argc, char **argv)
{
	pthread_t acceptor;
	int listener, signo;
	sigset_t set;

	if (argc != 3) {
		fprintf(stderr, "usage: porting_threads PORT LOGFILE\n");
		return 2;
	}
	board.log = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (board.log < 0)
		die(argv[2], errno);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	listener = listen_at(atoi(argv[1]));
	if (pthread_create(&acceptor, NULL, accept_clients, &listener) != 0)
		die("pthread_create", EAGAIN);
	sigwait(&set, &signo);
	return 0;
}
