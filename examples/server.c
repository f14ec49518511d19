/* SPDX-License-Identifier: MIT */
/*
 * Server loop: serves each connection in a green thread, limits the time of writes, and shuts down
 * gracefully.
 *
 * A further green thread per listener accepts connections. Shutdown (server_end) has four steps:
 *
 *   1. It sets `ending`: a connection that is accepted from now on is closed at once.
 *   2. It shuts the listeners down, which wakes their green threads, waits for these, and closes
 *      the listeners. A close before the wait would let a green thread that is between two calls of
 *      gmp_accept call it with a reused number (gmp/io.h, gmp_close).
 *   3. It shuts down the open connections, so that their green threads read an end of stream. With
 *      `grace`, it first shuts down only the reading half, so that writers can complete an answer.
 *   4. It waits for the green threads of the connections.
 *
 * Invariants:
 *
 *   SERVER-1  An fd in the list is open: it is unlinked before it is closed, so step 3 never shuts
 *             down a reused fd.
 *   SERVER-2  A connection is counted in `connections` before its green thread starts.
 *
 * Signals: SIGINT and SIGTERM are blocked before gmp_run, and a green thread reads them from a
 * signalfd. So a signal that arrives before the listeners exist stays pending and is not lost. Most
 * programs need less: gmp_signal_notify sends a signal to a channel, without a mask and without a
 * signalfd (gmp/signal.h; docs/porting.md uses it).
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MILLISECOND 1000000LL
#define SECOND (1000 * MILLISECOND)
#define FINISH_MOST (1 << 20) /* bytes that server_finish discards */
#define WRITE_CHECKS 4        /* checks of a writer without progress per `patience`; not tuned */

struct connection {
	struct server *server;
	struct server_fd client;
};

int server_block_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd >= 0 ? fd : -errno;
}

void server_wait_for_signal(int signals)
{
	struct signalfd_siginfo info;
	ssize_t n;

	n = gmp_fd_adopt(signals);
	if (n >= 0)
		n = gmp_read(signals, &info, sizeof(info));
	if (n < 0)
		fprintf(stderr, "cannot wait for signals: %s\n", strerror((int)-n));
}

/* Prints at most one line a second, so that a lack of fds does not fill the disk. */
void server_complain(struct server *s, const char *what, int err)
{
	int64_t last = s->last_complaint;
	int64_t now = gmp_now();

	if (last != 0 && now - last < SECOND)
		return;
	if (atomic_compare_exchange_strong(&s->last_complaint, &last, now))
		fprintf(stderr, "%s: %s: %s\n", s->name, what, strerror(-err));
}

bool server_add_fd(struct server *s, struct server_fd *d, int fd)
{
	bool welcome;

	gmp_mutex_lock(&s->lock);
	welcome = !s->ending;
	if (welcome) {
		d->fd = fd;
		d->next = s->first;
		d->link = &s->first;
		if (d->next)
			d->next->link = &d->next;
		s->first = d;
	}
	gmp_mutex_unlock(&s->lock);
	return welcome;
}

void server_remove_fd(struct server *s, struct server_fd *d)
{
	gmp_mutex_lock(&s->lock);
	*d->link = d->next;
	if (d->next)
		d->next->link = d->link;
	gmp_mutex_unlock(&s->lock);
}

/* gmp forgets the fd. */
static int make_blocking(int fd)
{
	int err = gmp_fd_release(fd);

	if (err)
		return err;
	return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0 ? 0 : -errno;
}

/* The close of libgmprt_posix also closes an fd that gmp knows. */
static void close_connection(struct server *s, int fd)
{
	if (s->blocking)
		close(fd);
	else
		gmp_close(fd);
}

static void drop(struct connection *c)
{
	struct server *s = c->server;

	server_remove_fd(s, &c->client);
	close_connection(s, c->client.fd);
	free(c);
	gmp_wg_done(&s->connections);
}

static void serve_connection(void *arg)
{
	struct connection *c = arg;

	c->server->serve(c->client.fd, c->server->arg);
	drop(c);
}

/* Takes ownership of fd, also if it fails. */
static int start_connection(struct server *s, int fd)
{
	struct connection *c = malloc(sizeof(*c));
	int err = c ? 0 : -ENOMEM;

	if (!err && s->blocking)
		err = make_blocking(fd);
	if (err) {
		close_connection(s, fd);
		free(c);
		return err;
	}
	c->server = s;
	gmp_wg_add(&s->connections, 1);
	if (!server_add_fd(s, &c->client, fd)) {
		close_connection(s, fd);
		free(c);
		gmp_wg_done(&s->connections);
		return 0;
	}
	err = gmp_go(serve_connection, c);
	if (err)
		drop(c);
	return err;
}

static void accept_connections(void *arg)
{
	struct listener *l = arg;
	struct server *s = l->server;

	while (!s->ending) {
		int err = gmp_accept(l->fd);

		if (err >= 0)
			err = start_connection(s, err);
		if (err >= 0 || err == -ECONNABORTED)
			continue;
		if (s->ending)
			break;
		/* most likely fds or memory are exhausted; connections that end free some */
		server_complain(s, "cannot take a connection", err);
		gmp_sleep(20 * MILLISECOND);
	}
	gmp_wg_done(&s->acceptors);
}

int server_listen(struct server *s, const char *net, const char *addr)
{
	struct listener *l = &s->listeners[s->listening];
	int err;

	if (s->listening == SERVER_LISTENERS)
		return -ENOSPC;
	l->server = s;
	l->fd = gmp_listen(net, addr);
	if (l->fd < 0)
		return l->fd;
	gmp_wg_add(&s->acceptors, 1);
	err = gmp_go(accept_connections, l);
	if (err) {
		gmp_wg_done(&s->acceptors);
		gmp_close(l->fd);
		return err;
	}
	s->listening++;
	return l->fd;
}

static void shut_connections(struct server *s, int how)
{
	gmp_mutex_lock(&s->lock);
	for (struct server_fd *d = s->first; d; d = d->next) {
		if (s->blocking)
			shutdown(d->fd, how);
		else
			gmp_shutdown(d->fd, how);
	}
	gmp_mutex_unlock(&s->lock);
}

int server_end(struct server *s)
{
	gmp_mutex_lock(&s->lock);
	s->ending = true;
	gmp_mutex_unlock(&s->lock);

	for (int i = 0; i < s->listening; i++)
		gmp_shutdown(s->listeners[i].fd, SHUT_RDWR);
	gmp_wg_wait(&s->acceptors);
	for (int i = 0; i < s->listening; i++)
		gmp_close(s->listeners[i].fd);

	if (s->grace > 0) {
		shut_connections(s, SHUT_RD);
		if (gmp_wg_wait_until(&s->connections, gmp_deadline(s->grace)) == 0)
			return 0;
	}
	shut_connections(s, SHUT_RDWR);
	return gmp_wg_wait_until(&s->connections, gmp_deadline(5 * SECOND));
}

void server_finish(int fd)
{
	ssize_t left = FINISH_MOST;
	ssize_t n = 1;
	char bytes[4096];

	gmp_shutdown(fd, SHUT_WR);
	gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(2 * SECOND));
	while (left > 0 && n > 0) {
		n = gmp_read(fd, bytes, sizeof(bytes));
		left -= n;
	}
}

/* The deadline is at least patience / WRITE_CHECKS away. It is an eighth of `patience` later, so
 * that it is moved once per eighth instead of for each write. */
void server_arm(struct server_writer *w)
{
	int64_t now;

	if (w->patience == 0)
		return;
	w->checks = 0;
	now = gmp_now();
	if (now < w->due)
		return;
	gmp_fd_set_deadline(w->fd, GMP_WRITE, now + w->patience / WRITE_CHECKS + w->patience / 8);
	w->due = now + w->patience / 8;
}

bool server_progress(struct server_writer *w)
{
	int unacknowledged = server_unacknowledged(w->fd);

	if (w->checks == 0 || unacknowledged < w->unacknowledged)
		w->checks = 0;
	w->unacknowledged = unacknowledged;
	return w->checks++ < WRITE_CHECKS;
}

bool server_extend(struct server_writer *w)
{
	if (!server_progress(w))
		return false;
	gmp_fd_set_deadline(w->fd, GMP_WRITE, gmp_deadline(w->patience / WRITE_CHECKS));
	w->due = 0;
	return true;
}

ssize_t server_write(struct server_writer *w, const void *bytes, size_t n)
{
	ssize_t written;

	server_arm(w);
	do
		written = gmp_write(w->fd, bytes, n);
	while (written == -ETIMEDOUT && server_extend(w));
	return written;
}

int server_unacknowledged(int fd)
{
	int bytes;

	return ioctl(fd, TIOCOUTQ, &bytes) == 0 ? bytes : 0; /* TIOCOUTQ: SIOCOUTQ of sockets */
}

bool server_was_reset(int fd)
{
	char peer[128];

	return gmp_peer_addr(fd, peer, sizeof(peer)) < 0;
}

void server_reset_on_close(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

long server_parse_number(const char *text, long low, long high)
{
	char *end;
	long n;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	n = strtol(text, &end, 10);
	return *end == '\0' && errno == 0 && n >= low && n <= high ? n : -1;
}
