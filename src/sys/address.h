/* SPDX-License-Identifier: MIT */
/*
 * Text addresses of sockets: parse "net" and "address" arguments, format socket addresses.
 *
 * Forms (gmp.h): "host:port" with a host in digits, "[ipv6%zone]:port", "localhost:port", ":port"
 * for any host; for "unix" a path, or "@name" for the abstract namespace.  Other host names are
 * split off here and looked up by net.c.
 */
#ifndef GMP_ADDRESS_H
#define GMP_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"

/* Longest host name (RFC 1035). */
enum { NAME_MOST = 253 };

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
	bool loopback; /* "localhost" of either family: dial [::1] too */
	bool ip;       /* not "unix": a host that is not in digits may be a name */
	int family;    /* of the net: AF_UNSPEC, AF_INET, AF_INET6 */
};

/*
 * Parse addr for the net "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6" or "unix".  Returns 0,
 * -EINVAL or -ENAMETOOLONG.  -EINVAL with e->ip set: the host may be a name (endpoint_split_name).
 */
int endpoint_parse(const char *net, const char *addr, struct endpoint *e);

/*
 * Split "name:port": host gets the name, *port points into addr.  Returns false if it has no valid
 * port, or the host cannot be a name (it has no letter, or a character that no name has).
 */
bool endpoint_split_name(const char *addr, char host[NAME_MOST + 1], const char **port);

/* Set the address of e.  port is in network byte order. */
void endpoint_set_in(struct endpoint *e, struct in_addr host, uint16_t port);
void endpoint_set_in6(struct endpoint *e, struct in6_addr host, uint32_t zone, uint16_t port);

static inline bool endpoint_is_tcp(const struct endpoint *e)
{
	return e->type == SOCK_STREAM && e->a.any.sa_family != AF_UNIX;
}

/*
 * Write the address as text into buf, n bytes.  Returns its length, -ENOSPC, or -EAFNOSUPPORT for
 * another family.
 */
int address_format(const union address *a, socklen_t len, char *buf, size_t n);

#endif
