/* SPDX-License-Identifier: MIT */
/*
 * Debug server: listens, accepts, and serves clients within bounds; see server.h.
 *
 * The connection of a client that was answered by an error may hold bytes that were not read. To
 * close it at once would send a reset, which may discard the answer on its way. So the G shuts the
 * sending side down first, and reads for at most LINGER_NS what still comes.
 */
#include "observe/serve/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/os.h"
#include "base/symtab.h"
#include "enter.h"
#include "gmp.h"
#include "spawn.h"

enum {
	SERVERS_MOST = 4,
	CLIENTS_MOST = 16,
	REQUESTS_MOST = 1000,
	HOST_MOST = 256,
	CLIENT_STACK = 64 * 1024,
};
#define REQUEST_NS (5 * GMP_S)
#define ANSWER_NS (30 * GMP_S)
#define LINGER_NS (1 * GMP_S)
/* Pause after an accept that has failed for want of descriptors or memory. Not measured. */
#define RETRY_NS (100 * GMP_MS)

struct client {
	struct server *server;
	bool busy;  /* under the lock of `servers` */
	int fd;     /* SERVER-3; -1: none */
	bool sends; /* an answer has begun: its deadline is set */
	bool asked; /* client_has_gone has sent the interim answer */
	size_t n;   /* bytes in `in` */
	char in[DEBUG_HEAD_MOST];
	struct debug_request r;
	struct symcache names;
};

struct server {
	unsigned users;       /* under the lock of `servers`: the accepting G and busy clients */
	int fd;               /* SERVER-3; -1: none */
	int refused;          /* likewise */
	int port;             /* 0: a unix socket */
	char host[HOST_MOST]; /* as the program named it; "": by its address */
	char path[HOST_MOST]; /* of a unix socket, to be unlinked; otherwise "" */
	struct client client[CLIENTS_MOST];
};

static struct {
	struct lock lock;
	struct server *of[SERVERS_MOST];
	bool claimed; /* (a) SERVER-5 */
} servers;

/* --- the servers --- */

/* Make a server with one user. Returns 0, -EAGAIN or -ENOMEM. */
static int server_new(struct server **out)
{
	struct server *s = os_reserve(sizeof(*s));
	int err = -EAGAIN;

	if (!s)
		return -ENOMEM;
	s->fd = s->refused = -1;
	s->users = 1;
	for (int i = 0; i < CLIENTS_MOST; i++)
		s->client[i].fd = -1;
	lock(&servers.lock, LR_SERVER);
	for (int i = 0; i < SERVERS_MOST && err; i++) {
		if (!servers.of[i]) {
			servers.of[i] = s;
			err = 0;
		}
	}
	unlock(&servers.lock, LR_SERVER);
	if (err)
		os_release(s, sizeof(*s));
	*out = s;
	return err;
}

/* End a use of s; the last one frees it. */
static void server_put(struct server *s)
{
	bool last;

	lock(&servers.lock, LR_SERVER);
	last = --s->users == 0;
	for (int i = 0; i < SERVERS_MOST && last; i++)
		if (servers.of[i] == s)
			servers.of[i] = NULL;
	unlock(&servers.lock, LR_SERVER);
	if (last)
		os_release(s, sizeof(*s));
}

/* Return a free client of s, which is busy from here on and uses s; NULL: SERVER-1. */
static struct client *client_get(struct server *s)
{
	struct client *c = NULL;

	lock(&servers.lock, LR_SERVER);
	for (int i = 0; i < CLIENTS_MOST && !c; i++)
		if (!s->client[i].busy)
			c = &s->client[i];
	if (c) {
		c->busy = true;
		s->users++;
	}
	unlock(&servers.lock, LR_SERVER);
	return c;
}

static void client_put(struct client *c)
{
	struct server *s = c->server;

	lock(&servers.lock, LR_SERVER);
	c->busy = false;
	unlock(&servers.lock, LR_SERVER);
	server_put(s);
}

bool debug_claim(void)
{
	bool free = false;

	return cas_rlx(&servers.claimed, &free, true);
}

void debug_unclaim(void)
{
	st_rlx(&servers.claimed, false);
}

/* Close *fd, if there is one. */
static void close_fd(int *fd)
{
	int n = *fd;

	*fd = -1;
	if (n >= 0 && gmp_close(n) == -ESRCH) /* the runtime stops */
		close(n);
}

static void close_copies(struct server *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->refused >= 0)
		close(s->refused);
	for (int i = 0; i < CLIENTS_MOST; i++)
		if (s->client[i].fd >= 0)
			close(s->client[i].fd);
}

void debug_servers_fini(void)
{
	for (int i = 0; i < SERVERS_MOST; i++) {
		struct server *s = servers.of[i];

		servers.of[i] = NULL;
		if (!s)
			continue;
		close_copies(s);
		if (s->path[0])
			unlink(s->path);
		os_release(s, sizeof(*s));
	}
	servers.claimed = false;
}

void debug_servers_forget(void)
{
	for (int i = 0; i < SERVERS_MOST; i++)
		if (servers.of[i])
			close_copies(servers.of[i]);
	memset(&servers, 0, sizeof(servers));
}

/* --- a client --- */

/* SERVER-4: the client's G waits for it inside. */
static void wait_begin(void)
{
	add_rlx(&sched.ndebug, 1);
}

static void wait_end(void)
{
	add_rlx(&sched.ndebug, -1u);
}

static ssize_t client_read(struct client *c, void *buf, size_t n)
{
	wait_begin();
	ssize_t got = gmp_read(c->fd, buf, n);

	wait_end();
	return got;
}

static int client_send(void *to, const void *bytes, size_t n)
{
	struct client *c = to;
	int64_t longest = ANSWER_NS + c->r.head.seconds * GMP_S;

	if (!c->sends)
		gmp_fd_set_deadline(c->fd, GMP_WRITE, gmp_deadline(longest));
	c->sends = true;
	wait_begin();
	ssize_t sent = gmp_write_all(c->fd, bytes, n);

	wait_end();
	return sent < 0 ? (int)sent : 0;
}

/*
 * Return whether the client has closed its socket. A TCP client that has only shut down its sending
 * side looks the same. It gets an interim answer, which clients of HTTP/1.1 skip; a closed socket
 * answers that by a reset.  Without room it is sent at the next check; after a part of it no answer
 * can follow.
 */
static bool client_has_gone(void *to)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct client *c = to;
	enum os_peer peer = os_peer(c->fd);

	if (peer == OS_PEER_SILENT && !c->asked && !c->r.head.http10) {
		ssize_t all = sizeof(interim) - 1;
		ssize_t n = send(c->fd, interim, (size_t)all, MSG_DONTWAIT | MSG_NOSIGNAL);

		c->asked = n == all;
		if (n > 0 && n < all)
			c->r.err = -EPIPE;
	}
	return peer == OS_PEER_GONE || c->r.err;
}

/* Read what the client still sends, and drop it. */
static void client_linger(struct client *c)
{
	size_t left = 64 * 1024;

	gmp_shutdown(c->fd, SHUT_WR);
	gmp_fd_set_deadline(c->fd, GMP_READ, gmp_deadline(LINGER_NS));
	for (ssize_t n; left && (n = client_read(c, c->in, sizeof(c->in))) > 0;)
		left -= min_of(left, (size_t)n);
}

/* Read until a head is complete. Returns its length; a negated status; 0: the client has gone. */
static int read_head(struct client *c)
{
	size_t seen = 0;
	int end;

	gmp_fd_set_deadline(c->fd, GMP_READ, gmp_deadline(REQUEST_NS));
	while ((end = debug_head_end(c->in, c->n, &seen)) == 0) {
		if (c->n == sizeof(c->in))
			return -431;
		ssize_t n = client_read(c, c->in + c->n, sizeof(c->in) - c->n);

		if (n == -ETIMEDOUT && c->n > 0)
			return -408;
		if (n <= 0)
			return 0;
		c->n += (size_t)n;
	}
	return end;
}

static const char *what_is_wrong(int status)
{
	switch (status) {
	case 403: return "the Host field must be an address in digits, or localhost";
	case 408: return "the request did not come within 5 seconds";
	case 413: return "requests have no body here";
	case 414: return "the target is too long";
	case 431: return "the head of the request exceeds 8 KiB";
	case 505: return "only HTTP/1.0 and HTTP/1.1";
	default: return "bad request";
	}
}

static void request_reset(struct client *c)
{
	struct debug_request *r = &c->r;

	memset(r, 0, offsetof(struct debug_request, out));
	memset(&c->names, 0, sizeof(c->names));
	c->sends = c->asked = false;
	r->names = &c->names;
	r->send = client_send;
	r->has_gone = client_has_gone;
	r->to = c;
}

/* Read a request, and answer it. Returns whether the connection may be used again. */
static bool client_serve(struct client *c, bool last)
{
	struct debug_request *r = &c->r;
	int n = read_head(c), status = n < 0 ? -n : 0;

	if (n == 0)
		return false;
	request_reset(c);
	if (!status)
		status = debug_head_parse(&r->head, c->in, (size_t)n, c->server->host);
	r->keep = !last && !status;
	if (status)
		debug_end(r, debug_answer(r, status, what_is_wrong(status)));
	else
		debug_serve(r);
	if (!r->keep || r->err) {
		if (!r->err)
			client_linger(c);
		return false;
	}
	c->n -= (size_t)n;
	memmove(c->in, c->in + n, c->n);
	return true;
}

static void client_main(void *arg)
{
	struct client *c = arg;

	for (int i = 1; client_serve(c, i == REQUESTS_MOST); i++)
		;
	close_fd(&c->fd);
	client_put(c);
}

/* --- accepting --- */

/* Make one attempt to tell the client of s->refused, and close it. */
static void refuse(struct server *s)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
				   "Content-Type: text/plain; charset=utf-8\r\n"
				   "X-Content-Type-Options: nosniff\r\n"
				   "Cache-Control: no-store\r\n"
				   "Connection: close\r\n"
				   "Content-Length: 17\r\n\r\n"
				   "too many clients\n";
	char dropped[2048];

	gmp_recvfrom(s->refused, dropped, sizeof(dropped), MSG_DONTWAIT, NULL, NULL);
	gmp_sendto(s->refused, text, sizeof(text) - 1, MSG_DONTWAIT, NULL, 0);
	gmp_shutdown(s->refused, SHUT_WR);
	gmp_recvfrom(s->refused, dropped, sizeof(dropped), MSG_DONTWAIT, NULL, NULL);
	close_fd(&s->refused);
}

static void admit(struct server *s, int fd)
{
	struct client *c = client_get(s);

	if (c) {
		c->server = s;
		c->fd = fd;
		c->n = 0;
		if (green_start(client_main, c, "gmp debug client", CLIENT_STACK) == 0)
			return;
		c->fd = -1;
		client_put(c);
	}
	s->refused = fd;
	refuse(s);
}

/* gmp_accept, with SERVER-4. */
static int server_accept(struct server *s)
{
	wait_begin();
	add_rlx(&sched.naccepts, 1);
	int fd = gmp_accept(s->fd);

	add_rlx(&sched.naccepts, -1u);
	wait_end();
	return fd;
}

/* Return whether no later accept can succeed. */
static bool is_final(int err)
{
	return err == -EBADF || err == -EINVAL || err == -ECANCELED || err == -ESRCH;
}

static void server_main(void *arg)
{
	struct server *s = arg;
	int fd;

	for (;;) {
		fd = server_accept(s);
		if (fd >= 0)
			admit(s, fd);
		else if (is_final(fd) || gmp_sleep(RETRY_NS))
			break;
	}
	if (fd == -EBADF)
		s->fd = -1; /* the program has closed it */
	close_fd(&s->fd);
	server_put(s);
}

/* --- listening --- */

/* Keep the host of HOST:PORT, if it is a name that fits: HEAD-3. */
static void keep_host(struct server *s, const char *addr)
{
	const char *colon = strrchr(addr, ':');
	size_t n = colon ? (size_t)(colon - addr) : 0;

	if (addr[0] != '[' && n < sizeof(s->host))
		memcpy(s->host, addr, n); /* the rest is 0 */
}

/* Listen at addr: the port alone is that of the loopback. Returns a descriptor or -errno. */
static int listen_for(struct server *s, const char *addr)
{
	bool port_only = addr[0] && strspn(addr, "0123456789") == strlen(addr);
	char text[HOST_MOST];

	if (strncmp(addr, "unix:", 5) == 0) {
		int fd = gmp_listen("unix", addr + 5);

		if (fd >= 0 && addr[5] != '@' && strlen(addr + 5) < sizeof(s->path))
			strcpy(s->path, addr + 5);
		return fd;
	}
	if (!port_only && addr[0] != ':') {
		keep_host(s, addr);
		return gmp_listen("tcp", addr);
	}
	if (strlen(addr) > 6)
		return -EINVAL;
	snprintf(text, sizeof(text), "127.0.0.1%s%s", port_only ? ":" : "", addr);
	return gmp_listen("tcp", text);
}

/* Set s->port. Returns 0 or -errno. */
static int find_port(struct server *s)
{
	char addr[HOST_MOST];
	int n = gmp_local_addr(s->fd, addr, sizeof(addr));
	const char *colon = n > 0 ? strrchr(addr, ':') : NULL;

	if (colon && addr[0] != '/' && addr[0] != '@')
		s->port = atoi(colon + 1);
	return n < 0 ? n : 0;
}

static int server_start(const char *addr)
{
	struct server *s;
	int err = server_new(&s);

	if (err)
		return err;
	int fd = listen_for(s, addr);

	if (fd >= 0) {
		s->fd = fd;
		err = find_port(s);
	} else {
		err = fd;
	}
	int port = s->port; /* once its G runs, s may be gone */

	if (!err)
		err = green_start(server_main, s, "gmp debug server", CLIENT_STACK);
	if (!err)
		return port;
	close_fd(&s->fd);
	if (s->path[0])
		unlink(s->path);
	server_put(s);
	return err;
}

int gmp_debug_listen(const char *addr)
{
	if (!addr)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int result = server_start(addr);

	rt_leave();
	return result;
}
