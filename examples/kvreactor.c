/* SPDX-License-Identifier: MIT */
/*
 * Event loop of kvserver --arch reactor: serves all clients with libuv in one OS thread, for
 * comparison.
 *
 * libuv calls on_ready when a socket is readable or writable. No callback may wait, so struct peer
 * holds the state that a green thread has on its stack: which events are polled, and whether the
 * end has begun. Parser, commands and table are those of the other architectures. There is one
 * thread, so the table's locks have no contention.
 *
 * Invariants:
 *
 *   KVR-1. While answers wait to be sent, or a received command has not run to its end, nothing is
 *          read.
 *   KVR-2. `events` is what the socket is polled for; a peer that is not polled has been ended.
 *   KVR-3. One call of on_ready reads up to READ_MOST bytes, runs up to COMMANDS_MOST commands, or
 *          KV_STEPS steps of a long command, and sends up to SEND_MOST bytes and the bytes of one
 *          more system call. If more is left, the socket is polled for writing, so that events of
 *          other sockets are handled first.
 */
#define _GNU_SOURCE /* accept4 */
#include "kvreactor.h"
#include "kvsession.h"
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define LISTENERS 2
#define SWEEP_PERIOD 250      /* ms */
#define ACCEPT_PAUSE 20       /* ms */
#define READ_MOST (64u << 10) /* bytes; this and the next two are not tuned */
#define SEND_MOST (1u << 20)  /* bytes */
#define COMMANDS_MOST 256

struct peer {
	uv_poll_t poll;
	int fd;
	int events;
	struct kv_session *session;
	uint64_t progress;  /* ms: last byte received, sent or acknowledged, or begin of the end */
	int unacknowledged; /* bytes, at the last sweep */
	bool has_requests;  /* received requests have not run because of KVR-3 */
	ssize_t farewell;   /* bytes to discard before the close; 0: the end has not begun */
	struct peer *next;
	struct peer **link; /* the pointer to this peer */
};

struct reactor_listener {
	uv_poll_t poll;
	int fd;
};

static struct {
	uv_loop_t loop;
	struct kv_table *table;
	uint64_t timeout; /* ms; 0: none */
	uint64_t write_timeout;
	struct peer *first;
	struct reactor_listener listeners[LISTENERS];
	int listening;
	uv_signal_t signals[2];
	uv_timer_t sweeper;
	uv_timer_t pause;
	uint64_t last_complaint;
} reactor;

/* --------------------------------------------------------------- A connection */

static void free_peer(uv_handle_t *h)
{
	struct peer *p = h->data;

	kv_session_free(p->session);
	free(p);
}

static void end_peer(struct peer *p)
{
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	uv_close((uv_handle_t *)&p->poll, free_peer);
	close(p->fd);
}

/* Returns whether the call failed with an error that a retry does not cure. */
static bool has_failed(ssize_t n)
{
	return n < 0 && errno != EAGAIN && errno != EINTR;
}

/* Read once. Returns false at the end of the stream, or if the connection has failed. */
static bool receive(struct peer *p)
{
	size_t room;
	char *at = kv_session_room(p->session, &room);
	ssize_t n = at ? read(p->fd, at, room < READ_MOST ? room : READ_MOST) : 0;

	if (n > 0) {
		kv_session_received(p->session, (size_t)n);
		p->progress = uv_now(&reactor.loop);
	}
	return n != 0 && !has_failed(n);
}

static bool has_output(struct peer *p)
{
	size_t n;

	return kv_session_output(p->session, &n) != NULL;
}

/* Send until the socket is full or *total reaches SEND_MOST. *total counts the bytes that this call
 * of on_ready has sent. Returns false if the connection has failed. */
static bool flush(struct peer *p, size_t *total)
{
	const char *at;
	size_t n;

	while (*total < SEND_MOST && (at = kv_session_output(p->session, &n))) {
		ssize_t sent = send(p->fd, at, n < SEND_MOST ? n : SEND_MOST, MSG_NOSIGNAL);

		if (sent < 0)
			return !has_failed(sent);
		kv_session_sent(p->session, (size_t)sent);
		p->progress = uv_now(&reactor.loop);
		*total += (size_t)sent;
	}
	return true;
}

/* Answer the received requests until the socket is full or a limit of KVR-3 is reached. Returns
 * false if the connection has failed. */
static bool answer(struct peer *p)
{
	struct kv_session *s = p->session;
	size_t total = 0;
	int commands = 0;

	p->has_requests = false;
	for (;;) {
		if (!flush(p, &total))
			return false;
		if (has_output(p))
			return true;
		while (!kv_session_is_full(s) && kv_session_parse(s)) {
			if (commands++ == COMMANDS_MOST) {
				p->has_requests = true;
				return flush(p, &total);
			}
			kv_session_run(s);
			kv_session_compute(s);
			if (s->client.more)
				return true;
		}
		if (!has_output(p))
			return true;
	}
}

/* Discard input before the close; see say_farewell in kvserver.c. */
static bool throw_away(struct peer *p)
{
	char bytes[4096];
	ssize_t n = read(p->fd, bytes, sizeof(bytes));

	if (n > 0)
		p->farewell -= n;
	return n != 0 && !has_failed(n) && p->farewell > 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct peer *p = poll->data;
	const struct kv_client *c = &p->session->client;
	int wanted;
	bool output;

	if (status < 0 || (p->farewell > 0 && !throw_away(p)) ||
	    (p->farewell == 0 && (events & UV_READABLE) && !receive(p)) ||
	    (p->farewell == 0 && !answer(p))) {
		end_peer(p);
		return;
	}
	output = has_output(p);
	if (c->closing && !output && p->farewell == 0) {
		shutdown(p->fd, SHUT_WR);
		p->farewell = KV_FAREWELL;
		p->progress = uv_now(&reactor.loop);
	}
	wanted = UV_READABLE;
	if (output || ((c->more || p->has_requests) && !c->closing))
		wanted = UV_WRITABLE;
	if (wanted != p->events)
		uv_poll_start(&p->poll, wanted, on_ready);
	p->events = wanted;
}

/* Takes ownership of fd. */
static void start_peer(int fd)
{
	const int on = 1;
	struct peer *p = calloc(1, sizeof(*p));

	if (p)
		p->session = kv_session_new(reactor.table, 1);
	if (!p || !p->session || uv_poll_init(&reactor.loop, &p->poll, fd) != 0) {
		if (p)
			kv_session_free(p->session);
		free(p);
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	p->poll.data = p;
	p->fd = fd;
	p->next = reactor.first;
	p->link = &reactor.first;
	if (p->next)
		p->next->link = &p->next;
	reactor.first = p;
	p->progress = uv_now(&reactor.loop);
	p->events = UV_READABLE;
	uv_poll_start(&p->poll, UV_READABLE, on_ready);
}

/* ------------------------------------------------------------------ The server */

static void on_connection(uv_poll_t *poll, int status, int events);

static void poll_listeners(uv_timer_t *t)
{
	(void)t;
	for (int i = 0; i < reactor.listening; i++)
		uv_poll_start(&reactor.listeners[i].poll, UV_READABLE, on_connection);
}

/* Stop accepting for ACCEPT_PAUSE. Most likely fds or memory are exhausted; connections that end
 * free some. */
static void pause_accepting(int err)
{
	uint64_t now = uv_now(&reactor.loop);

	if (reactor.last_complaint == 0 || now - reactor.last_complaint >= 1000) {
		fprintf(stderr, "kvserver: cannot take a connection: %s\n", strerror(err));
		reactor.last_complaint = now;
	}
	for (int i = 0; i < reactor.listening; i++)
		uv_poll_stop(&reactor.listeners[i].poll);
	uv_timer_start(&reactor.pause, poll_listeners, ACCEPT_PAUSE, 0);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	const struct reactor_listener *l = poll->data;
	int fd;

	(void)status;
	(void)events;
	while ((fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		start_peer(fd);
	if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		pause_accepting(errno);
}

/* Returns how many ms this peer may be without progress; 0: no limit. */
static uint64_t patience_with(struct peer *p)
{
	if (p->farewell > 0)
		return KV_FAREWELL_SECONDS * 1000;
	return p->events == UV_WRITABLE ? reactor.write_timeout : reactor.timeout;
}

/* Record progress if bytes were acknowledged; see struct server_writer in server.h. */
static void note_progress(struct peer *p)
{
	int unacknowledged = server_unacknowledged(p->fd);

	if (unacknowledged < p->unacknowledged)
		p->progress = uv_now(&reactor.loop);
	p->unacknowledged = unacknowledged;
}

/* Check all peers: 10000 take less than a millisecond if no answers wait to be sent. */
static void end_stuck_peers(void)
{
	uint64_t now = uv_now(&reactor.loop);

	for (struct peer *p = reactor.first, *next; p; p = next) {
		uint64_t patience = patience_with(p);

		next = p->next;
		if (p->farewell == 0 && p->events == UV_WRITABLE)
			note_progress(p);
		if (patience > 0 && now - p->progress > patience)
			end_peer(p);
	}
}

static void on_sweep(uv_timer_t *t)
{
	(void)t;
	end_stuck_peers();
	kv_sweep(reactor.table);
}

/* Close all handles, so that the loop ends. */
static void on_signal(uv_signal_t *s, int signo)
{
	(void)s;
	(void)signo;
	for (int i = 0; i < reactor.listening; i++) {
		uv_close((uv_handle_t *)&reactor.listeners[i].poll, NULL);
		close(reactor.listeners[i].fd);
	}
	while (reactor.first)
		end_peer(reactor.first);
	uv_close((uv_handle_t *)&reactor.sweeper, NULL);
	uv_close((uv_handle_t *)&reactor.pause, NULL);
	for (int i = 0; i < 2; i++)
		uv_close((uv_handle_t *)&reactor.signals[i], NULL);
}

/* ---------------------------------------------------------------- The sockets */

/* Returns a listening socket, or a negative errno value. */
static int listen_at(const struct sockaddr *addr, socklen_t len)
{
	const int on = 1;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, addr, len) != 0 || listen(fd, SOMAXCONN) != 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	return listen_at((struct sockaddr *)&addr, sizeof(addr));
}

/* Returns a listening socket, or a negative errno value. Writes its address to `name`. */
static int listen_tcp(const char *host, long port, char *name, size_t size)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	struct addrinfo *found;
	char text[100];
	int fd;

	snprintf(text, sizeof(text), "%ld", port);
	if (getaddrinfo(*host ? host : NULL, text, &hints, &found) != 0)
		return -EINVAL;
	fd = listen_at(found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (fd < 0)
		return fd;
	getsockname(fd, (struct sockaddr *)&local, &len);
	uv_ip_name((struct sockaddr *)&local, text, sizeof(text));
	/* The port has the same offset in both kinds of addresses. */
	snprintf(name, size, "%s:%d", text, ntohs(((struct sockaddr_in *)&local)->sin_port));
	return fd;
}

static int add_listener(int fd, const char *name)
{
	struct reactor_listener *l = &reactor.listeners[reactor.listening];

	if (fd < 0) {
		fprintf(stderr, "kvserver: cannot listen on %s: %s\n", name, strerror(-fd));
		return -1;
	}
	l->fd = fd;
	l->poll.data = l;
	if (uv_poll_init(&reactor.loop, &l->poll, fd) != 0)
		return -1;
	reactor.listening++;
	printf("kvserver: listening on %s\n", name);
	fflush(stdout);
	return 0;
}

static int listen_everywhere(const char *unix_path, const char *bind, long port)
{
	char name[128];
	int fd;

	if (unix_path && add_listener(listen_unix(unix_path), unix_path) < 0)
		return -1;
	if (port < 0)
		return 0;
	snprintf(name, sizeof(name), "%s:%ld", bind, port);
	fd = listen_tcp(bind, port, name, sizeof(name));
	return add_listener(fd, name);
}

int kv_reactor_run(const char *unix_path, const char *bind, long port, long timeout,
		   long write_timeout)
{
	static const int signals[2] = { SIGINT, SIGTERM };

	reactor.timeout = (uint64_t)timeout * 1000;
	reactor.write_timeout = (uint64_t)write_timeout * 1000;
	reactor.table = kv_table_new();
	if (!reactor.table || uv_loop_init(&reactor.loop) != 0) {
		fprintf(stderr, "kvserver: cannot start: %s\n", strerror(ENOMEM));
		return 1;
	}
	uv_timer_init(&reactor.loop, &reactor.sweeper);
	uv_timer_init(&reactor.loop, &reactor.pause);
	uv_timer_start(&reactor.sweeper, on_sweep, SWEEP_PERIOD, SWEEP_PERIOD);
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&reactor.loop, &reactor.signals[i]);
		uv_signal_start(&reactor.signals[i], on_signal, signals[i]);
	}
	if (listen_everywhere(unix_path, bind, port) < 0)
		return 1;
	poll_listeners(NULL);
	uv_run(&reactor.loop, UV_RUN_DEFAULT);
	uv_loop_close(&reactor.loop);
	kv_table_free(reactor.table);
	return 0;
}
