/* SPDX-License-Identifier: MIT */
/*
 * Sockets: listen, dial and accept, by address or by host name.
 *
 *   gmp_listen  parse the address; socket, bind, listen; register the fd with the poller
 *   gmp_dial    parse; socket, connect without blocking; register; wait until the fd is writable
 *   gmp_accept  accept4 as an fd_call; register the new fd
 *
 * A host that is not an address in digits is looked up (gmp_getaddrinfo_until).  Its addresses are
 * tried in turn; each gets an equal share of the time that is left until the deadline.
 *
 * Invariant
 *   - A socket and a list of addresses are leftovers (io/cleanup.h) while the caller waits
 *     with them, so shutdown leaks neither.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "enter.h"
#include "io/cleanup.h"
#include "io/fd.h"
#include "park.h"
#include "sys/address.h"

/* The kernel caps it at net.core.somaxconn. */
enum { BACKLOG = 4096 };

/* --- addresses of a socket --- */

/* The text form of the address of fd, or of its peer. */
static int format_name_of(int fd, bool peer, char *buf, size_t n)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);
	int result = -EBADF;

	if (!buf)
		return -EINVAL;
	if (off_stack(buf, n))
		return -EFAULT;
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = netpoll_find(fd);

	if (pd && netpoll_use(pd)) {
		result = peer ? getpeername(fd, &a.any, &len) : getsockname(fd, &a.any, &len);
		result = result == 0 ? 0 : -errno;
		netpoll_unuse(pd);
	}
	rt_leave();
	return result ? result : address_format(&a, len, buf, n);
}

int gmp_local_addr(int fd, char *buf, size_t n)
{
	return format_name_of(fd, false, buf, n);
}

int gmp_peer_addr(int fd, char *buf, size_t n)
{
	return format_name_of(fd, true, buf, n);
}

/* --- sockets --- */

static int open_socket(const struct endpoint *e)
{
	int one = 1;
	int fd = socket(e->a.any.sa_family, e->type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* as in Go: small replies are sent at once; an accepted socket inherits this */
	if (endpoint_is_tcp(e))
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* --- names --- */

/* -errno for an EAI_ code. */
static int lookup_error(int eai, int64_t deadline)
{
	int late = too_late(deadline);

	switch (eai) {
#ifdef EAI_CANCELED
	case EAI_CANCELED: return -ECANCELED;
#endif
	case EAI_AGAIN:
		if (late)
			return late;
		return self_cancelled() ? -ECANCELED : -EAGAIN;
	case EAI_MEMORY: return -ENOMEM;
	case EAI_SYSTEM: return -EIO;
	default: return -ENOENT;
	}
}

typedef int (*endpoint_fn)(const struct endpoint *e, const void *opts, int64_t deadline);

/* Deadline of the next attempt if `left` addresses share the time until `deadline`. */
static int64_t share_of(int64_t deadline, int left)
{
	int64_t now = gmp_now();

	return left > 1 && deadline != NEVER && deadline > now ? now + (deadline - now) / left
							       : deadline;
}

/* True if the result of one address is an error that the next address may not have. */
static bool may_try_next(int fd)
{
	return fd < 0 && fd != -ECANCELED && fd != -ESRCH;
}

/* Call fn for each address until it returns an fd.  The addresses share the time until deadline. */
static int try_each(const struct addrinfo *list, struct endpoint *e, endpoint_fn fn,
		    const void *opts, int64_t deadline)
{
	int left = 0, fd = -ENOENT;

	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next)
		left++;
	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next, left--) {
		if (ai->ai_addrlen > sizeof(e->a))
			continue;
		memcpy(&e->a, ai->ai_addr, ai->ai_addrlen);
		e->n = ai->ai_addrlen;
		fd = fn(e, opts, share_of(deadline, left));
		if (!may_try_next(fd))
			break;
	}
	return fd;
}

static void free_list(void *list)
{
	freeaddrinfo(list);
}

/* try_each, with the list as a leftover; frees the list. */
static int try_list(struct addrinfo *list, struct endpoint *e, endpoint_fn fn, const void *opts,
		    int64_t deadline)
{
	struct leftover left;

	leftover_add(&left, free_list, list);
	int fd = try_each(list, e, fn, opts, deadline);

	leftover_del(&left);
	freeaddrinfo(list);
	return fd;
}

/* Look the host of addr up, and call fn for its addresses until it returns an fd. */
static int call_by_name(const char *addr, struct endpoint *e, endpoint_fn fn, const void *opts,
			int64_t deadline)
{
	struct addrinfo hints = { .ai_family = e->family, .ai_socktype = e->type }, *list;
	char host[NAME_MOST + 1];
	const char *port;

	if (!endpoint_split_name(addr, host, &port))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int fd = gmp_getaddrinfo_until(host, port, &hints, &list, deadline);

	fd = fd ? lookup_error(fd, deadline) : try_list(list, e, fn, opts, deadline);
	rt_leave();
	return fd;
}

/* --- listening and dialling --- */

/* Remove the file that bind has created: it would make the next listen at that path fail. */
static int unbind(const struct endpoint *e, int err)
{
	if (e->a.any.sa_family == AF_UNIX && e->a.un.sun_path[0])
		unlink(e->a.un.sun_path);
	return err;
}

static int try_listen(const struct endpoint *e, bool dual, const gmp_listen_opts *o)
{
	int fd = open_socket(e), one = 1, v6only = !dual;

	if (fd < 0)
		return fd;
	if (endpoint_is_tcp(e)) /* for datagrams it would let another socket take the port over */
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (e->a.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
	if (o->reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0)
		return fd_close_with(fd, -errno);
	if (bind(fd, &e->a.any, e->n) < 0)
		return fd_close_with(fd, -errno);
	if (e->type == SOCK_STREAM && listen(fd, o->backlog ? o->backlog : BACKLOG) < 0)
		return unbind(e, fd_close_with(fd, -errno));
	fd = fd_register(fd, endpoint_is_tcp(e));
	return fd < 0 ? unbind(e, fd) : fd;
}

static int load_opts(const gmp_listen_opts *user, gmp_listen_opts *o)
{
	*o = (gmp_listen_opts)GMP_LISTEN_OPTS_INIT;
	if (!user)
		return 0;
	if (user->size < sizeof(user->size))
		return -EINVAL;
	for (size_t i = sizeof(*o); i < user->size; i++)
		if (((const char *)user)[i])
			return -E2BIG; /* an option of a later version */
	memcpy(o, user, min_of(user->size, sizeof(*o)));
	return o->backlog < 0 ? -EINVAL : 0;
}

static int listen_at(const struct endpoint *e, const void *opts, int64_t deadline)
{
	(void)deadline;
	return try_listen(e, false, opts);
}

int gmp_listen_with(const char *net, const char *addr, const gmp_listen_opts *opts)
{
	gmp_listen_opts o;
	struct endpoint e;
	int fd = load_opts(opts, &o);

	if (fd)
		return fd;
	fd = endpoint_parse(net, addr, &e);
	if (fd == -EINVAL && addr && e.ip)
		return call_by_name(addr, &e, listen_at, &o, NEVER);
	if (fd)
		return fd;
	if (!rt_enter())
		return -ESRCH;
	/* "tcp", ":port": one socket for both families, or IPv4 only if there is no IPv6 */
	bool both = e.any_host && (strcmp(net, "tcp") == 0 || strcmp(net, "udp") == 0);

	fd = try_listen(&e, both, &o);
	if (fd == -EAFNOSUPPORT && both) {
		endpoint_set_in(&e, (struct in_addr){ INADDR_ANY }, e.a.in6.sin6_port);
		fd = try_listen(&e, false, &o);
	}
	rt_leave();
	return fd;
}

int gmp_listen(const char *net, const char *addr)
{
	return gmp_listen_with(net, addr, NULL);
}

/* The result of a connect under way, once the socket is writable. */
static ssize_t call_connected(int fd, const struct io_args *a)
{
	int err = 0;
	socklen_t n = sizeof(err);
	union address peer;

	(void)a;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0)
		return -errno;
	if (err)
		return -err;
	n = sizeof(peer);
	if (getpeername(fd, &peer.any, &n) == 0)
		return 0;
	return errno == ENOTCONN ? -EAGAIN : -errno;
}

/* Close a registered fd and return err. */
static int hang_up(int fd, int err)
{
	fd_close_always(fd);
	return err;
}

/* Connect fd.  Returns fd, or -errno with fd closed. */
static int connect_to(int fd, const struct endpoint *e, int64_t deadline)
{
	int64_t last = 0;
	int err;

	/* EAGAIN, AF_UNIX: the backlog is full, and no event reports room; TCP: no port is left */
	do
		err = connect(fd, &e->a.any, e->n) == 0 ? 0 : -errno;
	while (err == -EINTR || (err == -EAGAIN && e->a.any.sa_family == AF_UNIX &&
				 !(err = fd_backoff(&last, deadline))));
	if (err && err != -EINPROGRESS)
		return fd_close_with(fd, err);
	bool wait = err != 0;

	fd = fd_register(fd, endpoint_is_tcp(e));
	if (fd < 0 || !wait)
		return fd;
	err = (int)fd_call(fd, SIDE_WRITE, call_connected, &(struct io_args){ 0 }, deadline);
	return err ? hang_up(fd, err) : fd;
}

/* Dial e once. */
static int try_dial(const struct endpoint *e, int64_t deadline)
{
	struct leftover left;
	int s = open_socket(e);

	if (s < 0)
		return s;
	leftover_add(&left, leftover_close, &s);
	int fd = connect_to(s, e, deadline);

	leftover_del(&left);
	return fd;
}

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	       "is_to_itself compares ports of either family");

/* True if both ends of the connection have the same address and port. */
static bool is_to_itself(int fd, const struct endpoint *e)
{
	union address own, peer;
	socklen_t n = sizeof(own), m = sizeof(peer);

	if (!endpoint_is_tcp(e) || getsockname(fd, &own.any, &n) < 0 ||
	    own.in.sin_port != e->a.in.sin_port || getpeername(fd, &peer.any, &m) < 0)
		return false;
	if (own.any.sa_family == AF_INET)
		return own.in.sin_addr.s_addr == peer.in.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&own.in6.sin6_addr, &peer.in6.sin6_addr);
}

/*
 * Dial e until the connection is not one to itself, at most three times, as Go does.  TCP connects
 * a socket to itself if no socket listens at the dialled port and the kernel chooses that port as
 * the local one.
 */
static int dial_peer(const struct endpoint *e, int64_t deadline)
{
	for (int i = 0; i < 3; i++) {
		int fd = try_dial(e, deadline);

		if (fd < 0 || !is_to_itself(fd, e))
			return fd;
		hang_up(fd, 0);
	}
	return -ECONNREFUSED;
}

static int dial_at(const struct endpoint *e, const void *opts, int64_t deadline)
{
	(void)opts;
	return dial_peer(e, deadline);
}

/*
 * Dial 127.0.0.1, then [::1]: a server on this machine may listen at one of them only.  If both
 * fail, returns the first error, since the second may only say that there is no IPv6.
 */
static int dial_localhost(struct endpoint *e, int64_t deadline)
{
	int fd = dial_peer(e, share_of(deadline, 2)), other;

	if (!may_try_next(fd))
		return fd;
	endpoint_set_in6(e, in6addr_loopback, 0, e->a.in.sin_port);
	other = dial_peer(e, deadline);
	return may_try_next(other) ? fd : other;
}

int gmp_dial_until(const char *net, const char *addr, int64_t deadline)
{
	struct endpoint e;
	int fd = endpoint_parse(net, addr, &e);

	if (fd == -EINVAL && addr && e.ip)
		return call_by_name(addr, &e, dial_at, NULL, deadline);
	if (fd)
		return fd;
	if (!rt_enter())
		return -ESRCH;
	if (e.any_host) {
		if (e.a.any.sa_family == AF_INET6 && net[3] == '6')
			e.a.in6.sin6_addr = in6addr_loopback;
		else
			endpoint_set_in(&e, (struct in_addr){ htonl(INADDR_LOOPBACK) },
					e.a.any.sa_family == AF_INET ? e.a.in.sin_port
								     : e.a.in6.sin6_port);
	}
	fd = e.loopback ? dial_localhost(&e, deadline) : dial_peer(&e, deadline);
	rt_leave();
	return fd;
}

int gmp_dial(const char *net, const char *addr)
{
	return gmp_dial_until(net, addr, NEVER);
}

struct accept_args {
	struct io_args io;
	bool tcp;              /* out: the listener is a TCP socket of gmp */
	struct sockaddr *addr; /* out; or NULL */
	socklen_t *len;        /* in: room; out: length of the address */
};

static ssize_t call_accept(int fd, const struct io_args *a)
{
	struct accept_args *x =
		container_of((struct io_args *)(uintptr_t)a, struct accept_args, io);

	/* inside the use of the record it belongs to this listener */
	x->tcp = netpoll_is_tcp(netpoll_find(fd));
	return os_retry(accept4(fd, x->addr, x->len, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int gmp_accept_from(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct accept_args a = { .addr = addr, .len = addr ? len : NULL };

	if (addr && !len)
		return -EINVAL;
	/* accept4 would fail only after it has accepted the connection, and close that */
	if (addr && address_off_stack(addr, len))
		return -EFAULT;
	if (!rt_enter())
		return -ESRCH;
	int c = (int)fd_call(fd, SIDE_READ, call_accept, &a.io, NEVER);

	if (c >= 0)
		c = fd_register(c, a.tcp);
	rt_leave();
	return c;
}

int gmp_accept(int fd)
{
	return gmp_accept_from(fd, NULL, NULL);
}
