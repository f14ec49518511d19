/* SPDX-License-Identifier: MIT */
/* How do listening, dialling and accepting give descriptors, and how is an address written? */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "io/cleanup.h"
#include "io/fd.h"
#include "park.h"

enum { BACKLOG = 4096 /* the system caps it at net.core.somaxconn */, NAME_MOST = 253 };

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

struct endpoint {
	union address a;
	socklen_t n;
	int type;      /* SOCK_STREAM, SOCK_DGRAM */
	bool any_host; /* ":port": all addresses; to dial: this machine */
	bool loopback; /* "localhost" of either family: [::1] too, to dial */
	bool ip;       /* not "unix": a host that is no number may be a name */
	int family;    /* of the net: AF_UNSPEC, AF_INET, AF_INET6 */
};

/* --- addresses --- */

static int parse_unix(const char *path, struct endpoint *e)
{
	size_t n = strlen(path);

	if (n == 0)
		return -EINVAL;
	n += path[0] != '@'; /* an abstract name has no end */
	if (n > sizeof(e->a.un.sun_path))
		return -ENAMETOOLONG;
	e->a.un.sun_family = AF_UNIX;
	memcpy(e->a.un.sun_path, path, n);
	e->n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	if (path[0] == '@')
		e->a.un.sun_path[0] = 0;
	return 0;
}

static int parse_port(const char *s, uint16_t *port)
{
	unsigned v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		v = v * 10 + (unsigned)(*s - '0');
		if (v > 65535)
			return -EINVAL;
	}
	*port = htons((uint16_t)v);
	return 0;
}

static int set_in(struct endpoint *e, struct in_addr host, uint16_t port)
{
	e->a.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = host, .sin_port = port };
	e->n = sizeof(e->a.in);
	return 0;
}

static int set_in6(struct endpoint *e, struct in6_addr host, uint32_t zone, uint16_t port)
{
	e->a.in6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_addr = host, .sin6_scope_id = zone, .sin6_port = port
	};
	e->n = sizeof(e->a.in6);
	return 0;
}

static bool has_named_zone(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_MC_LINKLOCAL(a);
}

/* As getaddrinfo has it: a number, or the interface of an address that is good on one link only. */
static bool parse_zone(const char *s, const struct in6_addr *a, uint32_t *zone)
{
	uint64_t v = 0;

	*zone = has_named_zone(a) ? if_nametoindex(s) : 0;
	if (*zone)
		return true;
	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		v = v * 10 + (unsigned)(*s - '0');
		if (v > UINT32_MAX)
			return false;
	}
	*zone = (uint32_t)v;
	return true;
}

/* host: what stands in brackets */
static int parse_ipv6(char *host, struct endpoint *e, uint16_t port)
{
	char *percent = strchr(host, '%');
	struct in6_addr in6;
	uint32_t zone = 0;

	if (percent)
		*percent = '\0';
	if (inet_pton(AF_INET6, host, &in6) != 1 ||
	    (percent && !parse_zone(percent + 1, &in6, &zone)))
		return -EINVAL;
	return set_in6(e, in6, zone, port);
}

/* family: AF_UNSPEC, AF_INET, AF_INET6 */
static int parse_ip(int family, const char *addr, struct endpoint *e)
{
	char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "";
	const char *colon = strrchr(addr, ':');
	struct in_addr in;
	uint16_t port;
	bool brackets = addr[0] == '[';

	if (!colon || parse_port(colon + 1, &port))
		return -EINVAL;
	size_t n = (size_t)(colon - addr);

	if (brackets && (n < 2 || addr[n - 1] != ']'))
		return -EINVAL;
	if (brackets)
		addr++, n -= 2;
	if (n >= sizeof(host))
		return -EINVAL;
	memcpy(host, addr, n);
	e->any_host = n == 0 && !brackets;
	if (e->any_host)
		return family == AF_INET ? set_in(e, (struct in_addr){ INADDR_ANY }, port)
					 : set_in6(e, in6addr_any, 0, port);
	bool localhost = strcmp(host, "localhost") == 0 && !brackets;

	e->loopback = localhost && family == AF_UNSPEC;
	/* this machine, whatever a resolver would say (RFC 6761), so none is asked */
	if (localhost)
		return family == AF_INET6
			       ? set_in6(e, in6addr_loopback, 0, port)
			       : set_in(e, (struct in_addr){ htonl(INADDR_LOOPBACK) }, port);
	if (!brackets && family != AF_INET6 && inet_pton(AF_INET, host, &in) == 1)
		return set_in(e, in, port);
	return brackets && family != AF_INET ? parse_ipv6(host, e, port) : -EINVAL;
}

static int parse(const char *net, const char *addr, struct endpoint *e)
{
	static const struct {
		const char *name;
		int type, family;
	} nets[] = {
		{ "tcp", SOCK_STREAM, AF_UNSPEC }, { "tcp4", SOCK_STREAM, AF_INET },
		{ "tcp6", SOCK_STREAM, AF_INET6 }, { "udp", SOCK_DGRAM, AF_UNSPEC },
		{ "udp4", SOCK_DGRAM, AF_INET },   { "udp6", SOCK_DGRAM, AF_INET6 },
	};

	*e = (struct endpoint){ .type = SOCK_STREAM };
	if (!net || !addr)
		return -EINVAL;
	if (strcmp(net, "unix") == 0)
		return parse_unix(addr, e);
	for (unsigned i = 0; i < countof(nets); i++) {
		e->type = nets[i].type;
		if (strcmp(net, nets[i].name) == 0) {
			e->ip = true;
			e->family = nets[i].family;
			return parse_ip(e->family, addr, e);
		}
	}
	return -EINVAL;
}

static int format_unix(const struct sockaddr_un *un, socklen_t len, char *buf, size_t n)
{
	int path = (int)len - (int)offsetof(struct sockaddr_un, sun_path);

	if (path <= 0) /* unnamed: the other end of a dial */
		return snprintf(buf, n, "%s", "");
	if (un->sun_path[0] == 0)
		return snprintf(buf, n, "@%.*s", path - 1, un->sun_path + 1);
	return snprintf(buf, n, "%.*s", path, un->sun_path);
}

/* "%zone", as parse_zone reads it; nothing where there is none. */
static void format_zone(const struct sockaddr_in6 *a, char zone[IF_NAMESIZE + 1])
{
	*zone = '%';
	if (a->sin6_scope_id == 0)
		*zone = '\0';
	else if (!has_named_zone(&a->sin6_addr) || !if_indextoname(a->sin6_scope_id, zone + 1))
		snprintf(zone + 1, IF_NAMESIZE, "%u", a->sin6_scope_id);
}

static int format(const union address *a, socklen_t len, char *buf, size_t n)
{
	const struct in6_addr *in6 = &a->in6.sin6_addr;
	char host[INET6_ADDRSTRLEN], zone[IF_NAMESIZE + 1];
	int w;

	switch (a->any.sa_family) {
	case AF_INET:
		inet_ntop(AF_INET, &a->in.sin_addr, host, sizeof(host));
		w = snprintf(buf, n, "%s:%u", host, ntohs(a->in.sin_port));
		break;
	case AF_INET6:
		if (IN6_IS_ADDR_V4MAPPED(in6)) { /* a socket for both has an IPv4 address so */
			inet_ntop(AF_INET, &in6->s6_addr[12], host, sizeof(host));
			w = snprintf(buf, n, "%s:%u", host, ntohs(a->in6.sin6_port));
			break;
		}
		inet_ntop(AF_INET6, in6, host, sizeof(host));
		format_zone(&a->in6, zone);
		w = snprintf(buf, n, "[%s%s]:%u", host, zone, ntohs(a->in6.sin6_port));
		break;
	case AF_UNIX: w = format_unix(&a->un, len, buf, n); break;
	default: return -EAFNOSUPPORT;
	}
	return w < 0 || (size_t)w >= n ? -ENOSPC : w;
}

typedef int (*name_call)(int fd, struct sockaddr *a, socklen_t *n);

static int name_of(int fd, name_call call, char *buf, size_t n)
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
		result = call(fd, &a.any, &len) == 0 ? 0 : -errno;
		netpoll_unuse(pd);
	}
	rt_leave();
	return result ? result : format(&a, len, buf, n);
}

static int local_name(int fd, struct sockaddr *a, socklen_t *n)
{
	return getsockname(fd, a, n);
}

static int peer_name(int fd, struct sockaddr *a, socklen_t *n)
{
	return getpeername(fd, a, n);
}

int gmp_local_addr(int fd, char *buf, size_t n)
{
	return name_of(fd, local_name, buf, n);
}

int gmp_peer_addr(int fd, char *buf, size_t n)
{
	return name_of(fd, peer_name, buf, n);
}

/* --- sockets --- */

static bool is_tcp(const struct endpoint *e)
{
	return e->type == SOCK_STREAM && e->a.any.sa_family != AF_UNIX;
}

static int open_socket(const struct endpoint *e)
{
	int one = 1;
	int fd = socket(e->a.any.sa_family, e->type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* small replies go out at once, as in Go; an accepted socket inherits it */
	if (is_tcp(e))
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int close_with(int fd, int err)
{
	close(fd);
	return err;
}

/* --- names --- */

/* "host:port" with a host that may be a name: into its parts. */
static bool split_name(const char *addr, char host[NAME_MOST + 1], const char **port)
{
	const char *colon = strrchr(addr, ':');
	size_t n = colon ? (size_t)(colon - addr) : 0;
	uint16_t any;
	bool letters = false;

	if (n == 0 || n > NAME_MOST || parse_port(colon + 1, &any))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = host[i] = addr[i];

		letters |= (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
		if (!((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && !(c >= '0' && c <= '9') &&
		    !strchr("-._", c))
			return false;
	}
	host[n] = '\0';
	*port = colon + 1;
	return letters;
}

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

/* Until when the next of so many addresses may be tried. */
static int64_t share_of(int64_t deadline, int left)
{
	int64_t now = gmp_now();

	return left > 1 && deadline != NEVER && deadline > now ? now + (deadline - now) / left
							       : deadline;
}

/* What came of one address is not the end: there may be another. */
static bool passes_over(int fd)
{
	return fd < 0 && fd != -ECANCELED && fd != -ESRCH;
}

/* fn on each address in turn until it gives a descriptor; what is left of the time is shared. */
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
		if (!passes_over(fd))
			break;
	}
	return fd;
}

struct found {
	struct addrinfo *list;
	struct leftover left;
};

static void free_found(struct leftover *l)
{
	freeaddrinfo(container_of(l, struct found, left)->list);
}

static int try_list(struct addrinfo *list, struct endpoint *e, endpoint_fn fn, const void *opts,
		    int64_t deadline)
{
	struct found f = { .list = list };

	leftover_add(&f.left, free_found);
	int fd = try_each(list, e, fn, opts, deadline);

	leftover_del(&f.left);
	freeaddrinfo(list);
	return fd;
}

static int by_name(const char *addr, struct endpoint *e, endpoint_fn fn, const void *opts,
		   int64_t deadline)
{
	struct addrinfo hints = { .ai_family = e->family, .ai_socktype = e->type }, *list;
	char host[NAME_MOST + 1];
	const char *port;

	if (!split_name(addr, host, &port))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int fd = gmp_getaddrinfo_until(host, port, &hints, &list, deadline);

	fd = fd ? lookup_error(fd, deadline) : try_list(list, e, fn, opts, deadline);
	rt_leave();
	return fd;
}

/* --- listening and dialling --- */

/* What bind has made in the file system would be in the way of the next one who listens there. */
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
	if (is_tcp(e)) /* of datagrams it would let another take the port over */
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (e->a.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
	if (o->reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0)
		return close_with(fd, -errno);
	if (bind(fd, &e->a.any, e->n) < 0)
		return close_with(fd, -errno);
	if (e->type == SOCK_STREAM && listen(fd, o->backlog ? o->backlog : BACKLOG) < 0)
		return unbind(e, close_with(fd, -errno));
	/* what accept gives is of the same kind */
	fd = fd_register(fd, is_tcp(e));
	return fd < 0 ? unbind(e, fd) : fd;
}

static int load_opts(const gmp_listen_opts *user, gmp_listen_opts *o)
{
	*o = (gmp_listen_opts)GMP_LISTEN_OPTS_INIT;
	if (!user)
		return 0;
	if (user->size < sizeof(user->size))
		return -EINVAL;
	for (size_t i = sizeof(*o); i < user->size;
	     i++) /* of a later version, and not known here */
		if (((const char *)user)[i])
			return -E2BIG;
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
	fd = parse(net, addr, &e);
	if (fd == -EINVAL && addr && e.ip)
		return by_name(addr, &e, listen_at, &o, NEVER);
	if (fd)
		return fd;
	if (!rt_enter())
		return -ESRCH;
	/* "tcp", ":port": one socket for both families, or IPv4 alone where there is no IPv6 */
	bool both = e.any_host && (strcmp(net, "tcp") == 0 || strcmp(net, "udp") == 0);

	fd = try_listen(&e, both, &o);
	if (fd == -EAFNOSUPPORT && both) {
		set_in(&e, (struct in_addr){ INADDR_ANY }, e.a.in6.sin6_port);
		fd = try_listen(&e, false, &o);
	}
	rt_leave();
	return fd;
}

int gmp_listen(const char *net, const char *addr)
{
	return gmp_listen_with(net, addr, NULL);
}

/* The connection's fate, once the socket has become writable. */
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

struct dialled {
	int fd;
	struct leftover left;
};

static void close_dialled(struct leftover *l)
{
	close(container_of(l, struct dialled, left)->fd);
}

static int hang_up(int fd, int err)
{
	if (gmp_close(fd) == -ESRCH) /* the runtime stops: its record goes with it */
		close(fd);
	return err;
}

/* A connected descriptor; -errno, and then fd is closed. */
static int connect_to(int fd, const struct endpoint *e, int64_t deadline)
{
	int64_t nap = 0;
	int err;

	do /* a full queue, of which the kernel tells nobody; elsewhere EAGAIN means that no port is left */
		err = connect(fd, &e->a.any, e->n) == 0 ? 0 : -errno;
	while (err == -EINTR || (err == -EAGAIN && e->a.any.sa_family == AF_UNIX &&
				 !(err = fd_nap(&nap, deadline))));
	if (err && err != -EINPROGRESS)
		return close_with(fd, err);
	bool wait = err != 0;

	fd = fd_register(fd, is_tcp(e));
	if (fd < 0 || !wait)
		return fd;
	err = (int)fd_call(fd, SIDE_WRITE, call_connected, &(struct io_args){ 0 }, deadline);
	return err ? hang_up(fd, err) : fd;
}

static int try_dial(const struct endpoint *e, int64_t deadline)
{
	struct dialled d = { .fd = open_socket(e) };

	if (d.fd < 0)
		return d.fd;
	leftover_add(&d.left, close_dialled);
	int fd = connect_to(d.fd, e, deadline);

	leftover_del(&d.left);
	return fd;
}

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	       "is_to_itself compares ports without asking which");

/* Both ends have the same address and port. */
static bool is_to_itself(int fd, const struct endpoint *e)
{
	union address own, peer;
	socklen_t n = sizeof(own), m = sizeof(peer);

	if (!is_tcp(e) || getsockname(fd, &own.any, &n) < 0 ||
	    own.in.sin_port != e->a.in.sin_port || getpeername(fd, &peer.any, &m) < 0)
		return false;
	if (own.any.sa_family == AF_INET)
		return own.in.sin_addr.s_addr == peer.in.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&own.in6.sin6_addr, &peer.in6.sin6_addr);
}

/* TCP connects a socket to itself if the port that it dials is the one that it happens to be given: then nobody
 * listens there.  Dial again, as Go does; after so many times in a row there is hardly another port to get. */
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

/* A program of this machine may listen at one of its addresses only.  If it is neither, the first's error is
 * the answer: the second may say no more than that there is no IPv6. */
static int dial_localhost(struct endpoint *e, int64_t deadline)
{
	int fd = dial_peer(e, share_of(deadline, 2)), other;

	if (!passes_over(fd))
		return fd;
	set_in6(e, in6addr_loopback, 0, e->a.in.sin_port);
	other = dial_peer(e, deadline);
	return passes_over(other) ? fd : other;
}

int gmp_dial_until(const char *net, const char *addr, int64_t deadline)
{
	struct endpoint e;
	int fd = parse(net, addr, &e);

	if (fd == -EINVAL && addr && e.ip)
		return by_name(addr, &e, dial_at, NULL, deadline);
	if (fd)
		return fd;
	if (!rt_enter())
		return -ESRCH;
	if (e.any_host) {
		if (e.a.any.sa_family == AF_INET6 && net[3] == '6')
			e.a.in6.sin6_addr = in6addr_loopback;
		else
			set_in(&e, (struct in_addr){ htonl(INADDR_LOOPBACK) },
			       e.a.any.sa_family == AF_INET ? e.a.in.sin_port : e.a.in6.sin6_port);
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
	bool tcp;              /* out: the listener's */
	struct sockaddr *addr; /* out; or NULL */
	socklen_t *len;        /* in: room; out: the address's length */
};

static ssize_t call_accept(int fd, const struct io_args *a)
{
	struct accept_args *x =
		container_of((struct io_args *)(uintptr_t)a, struct accept_args, io);
	int c;

	/* while the call is under way the record is this listener's */
	x->tcp = netpoll_is_tcp(netpoll_find(fd));
	do
		c = accept4(fd, x->addr, x->len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (c < 0 && errno == EINTR);
	return c < 0 ? -errno : c;
}

int gmp_accept_from(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct accept_args a = { .addr = addr, .len = addr ? len : NULL };

	if (addr && !len)
		return -EINVAL;
	/* accept4 finds out only when it has taken the connection, which it then closes */
	if (addr && (off_stack(len, sizeof(*len)) || off_stack(addr, *len)))
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
