/* SPDX-License-Identifier: MIT */
/*
 * Message board: serves each connection in a green thread (threads.c after its port to gmp).
 *
 *   $ porting_green 7000 board.log &
 *   $ nc 127.0.0.1 7000
 *   post hello          answers 1, the number of the message, once it is on the disk
 *   get 1               answers hello; waits up to a second for a message that is not there yet
 *
 * A connection that sends nothing for 30 seconds is closed. SIGTERM or SIGINT ends the server.
 * docs/porting.md describes the port.
 */
#include <fcntl.h>
#include <gmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 1000, LONGEST = 512 << 10, IDLE_SECONDS = 30 };

static struct {
	gmp_mutex lock; /* guards the board and its file, also while that is written */
	gmp_cond posted;
	int count;
	char *text[MESSAGES];
	int log;
	off_t end; /* of the file */
} board;

static gmp_key client; /* the connection that this green thread serves */

static void die(const char *what, int err)
{
	fprintf(stderr, "porting_green: %s: %s\n", what, strerror(-err));
	exit(1);
}

static int reply(const char *text)
{
	int fd = (int)(intptr_t)gmp_key_get(client);

	return gmp_write_all(fd, text, strlen(text)) >= 0 && gmp_write_all(fd, "\n", 1) >= 0;
}

/* Writes all n bytes at the end of the file. Returns false on an error. */
static int append(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = gmp_pwrite(board.log, p, n, board.end);

		if (done < 0)
			return 0;
		p += done;
		n -= (size_t)done;
		board.end += done;
	}
	return 1;
}

/* Returns the number of the message, or 0 if it cannot be kept. */
static int post(const char *text)
{
	int number = 0;

	gmp_mutex_lock(&board.lock);
	if (board.count < MESSAGES && append(text, strlen(text)) && append("\n", 1) &&
	    gmp_fsync(board.log) == 0) {
		board.text[board.count] = strdup(text);
		number = ++board.count;
		gmp_cond_broadcast(&board.posted);
	}
	gmp_mutex_unlock(&board.lock);
	return number;
}

/* Returns NULL if there is no such message within a second. */
static const char *get(int number)
{
	int64_t until = gmp_deadline(1 * GMP_S);
	const char *text = NULL;
	int err = 0;

	gmp_mutex_lock(&board.lock);
	while (board.count < number && err == 0)
		err = gmp_cond_wait_until(&board.posted, &board.lock, until);
	if (number > 0 && number <= board.count)
		text = board.text[number - 1];
	gmp_mutex_unlock(&board.lock);
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

static void serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char *line = malloc(LONGEST), *end;
	size_t have = 0;
	ssize_t n = 0;

	if (!line || gmp_key_set(client, arg) != 0)
		goto out;
	for (;;) {
		gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(IDLE_SECONDS * GMP_S));
		n = gmp_read(fd, line + have, LONGEST - have);
		if (n <= 0)
			break;
		have += (size_t)n;
		while ((end = memchr(line, '\n', have)) != NULL) {
			*end++ = '\0';
			if (!answer(line))
				goto out;
			have -= (size_t)(end - line);
			memmove(line, end, have);
		}
	}
	if (n < 0)
		fprintf(stderr, "porting_green: read: %s\n", strerror((int)-n));
out:
	gmp_close(fd);
	free(line);
}

static void accept_clients(void *arg)
{
	int listener = *(int *)arg;

	for (;;) {
		int fd = gmp_accept(listener);

		if (fd < 0) {
			gmp_sleep(1 * GMP_S); /* out of descriptors: others give some back */
			continue;
		}
		if (gmp_go(serve, (void *)(intptr_t)fd) != 0)
			gmp_close(fd);
	}
}

static int listen_at(const char *port)
{
	char addr[64];
	int fd;

	snprintf(addr, sizeof(addr), "127.0.0.1:%s", port);
	fd = gmp_listen("tcp", addr);
	if (fd < 0)
		die("listen", fd);
	gmp_local_addr(fd, addr, sizeof(addr));
	printf("listening on %s\n", addr);
	fflush(stdout);
	return fd;
}

static void app(void *arg)
{
	gmp_chan *signals = gmp_chan_new(sizeof(int), 1);
	char **argv = arg;
	int listener, signo, err;

	board.log = gmp_open(argv[2], O_WRONLY | O_CREAT, 0666);
	if (board.log < 0)
		die(argv[2], board.log);
	board.end = lseek(board.log, 0, SEEK_END);
	if (!signals || gmp_signal_notify(signals, SIGTERM) || gmp_signal_notify(signals, SIGINT))
		die("signals", -ENOMEM);
	err = gmp_key_create(&client, NULL);
	if (err)
		die("gmp_key_create", err);
	listener = listen_at(argv[1]);
	err = gmp_go(accept_clients, &listener);
	if (err)
		die("gmp_go", err);
	gmp_chan_recv(signals, &signo);
}

int main(int argc, char **argv)
{
	int err;

	if (argc != 3) {
		fprintf(stderr, "usage: porting_green PORT LOGFILE\n");
		return 2;
	}
	err = gmp_run(app, argv, NULL);
	if (err)
		die("gmp_run", err);
	return 0;
}
