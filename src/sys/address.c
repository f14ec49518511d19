/* SPDX-License-Identifier: MIT */
/* Parsing and formatting of socket addresses: see address.h. */
#include "sys/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static int parse_unix(const char *path, struct endpoint *e)
{
	size_t n = strlen(path);

	if (n == 0)
		return -EINVAL;
	if (path[0] != '@')
		n++; /* the final NUL; an abstract name has none */
	if (n > sizeof(e->a.un.sun_path))
		return -ENAMETOOLONG;
	e->a.un.sun_family = AF_UNIX;
	memcpy(e->a.un.sun_path, path, n);
	e->n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	if (path[0] == '@')
		e->a.un.sun_path[0] = 0;
	return 0;
}

static bool parse_port(const char *s, uint16_t *port)
{
	uint64_t v;

	if (!parse_decimal(s, strlen(s), UINT16_MAX, &v))
		return false;
	*port = htons((uint16_t)v);
	return true;
}

void endpoint_set_in(struct endpoint *e, struct in_addr host, uint16_t port)
{
	e->a.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = host, .sin_port = port };
	e->n = sizeof(e->a.in);
}

void endpoint_set_in6(struct endpoint *e, struct in6_addr host, uint32_t zone, uint16_t port)
{
	e->a.in6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_addr = host, .sin6_scope_id = zone, .sin6_port = port
	};
	e->n = sizeof(e->a.in6);
}

/* True if the zone of the address is an interface. */
static bool has_named_zone(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_MC_LINKLOCAL(a);
}

/* A zone as getaddrinfo reads it: a number, or an interface name for an address of one link. */
static bool parse_zone(const char *s, const struct in6_addr *a, uint32_t *zone)
{
	uint64_t v;

	*zone = has_named_zone(a) ? if_nametoindex(s) : 0;
	if (*zone)
		return true;
	if (!parse_decimal(s, strlen(s), UINT32_MAX, &v))
		return false;
	*zone = (uint32_t)v;
	return true;
}

/* host: the text between the brackets; overwritten. */
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
	endpoint_set_in6(e, in6, zone, port);
	return 0;
}

/* ":port" */
static void set_any_host(int family, uint16_t port, struct endpoint *e)
{
	if (family == AF_INET)
		endpoint_set_in(e, (struct in_addr){ INADDR_ANY }, port);
	else
		endpoint_set_in6(e, in6addr_any, 0, port);
}

/* "localhost": this machine, whatever a resolver would say (RFC 6761), so none is asked. */
static void set_localhost(int family, uint16_t port, struct endpoint *e)
{
	e->loopback = family == AF_UNSPEC;
	if (family == AF_INET6)
		endpoint_set_in6(e, in6addr_loopback, 0, port);
	else
		endpoint_set_in(e, (struct in_addr){ htonl(INADDR_LOOPBACK) }, port);
}

/* family: AF_UNSPEC, AF_INET, AF_INET6 */
static int parse_ip(int family, const char *addr, struct endpoint *e)
{
	char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "";
	const char *colon = strrchr(addr, ':');
	struct in_addr in;
	uint16_t port;
	bool brackets = addr[0] == '[';

	if (!colon || !parse_port(colon + 1, &port))
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
	if (e->any_host) {
		set_any_host(family, port, e);
		return 0;
	}
	if (strcmp(host, "localhost") == 0 && !brackets) {
		set_localhost(family, port, e);
		return 0;
	}
	if (!brackets && family != AF_INET6 && inet_pton(AF_INET, host, &in) == 1) {
		endpoint_set_in(e, in, port);
		return 0;
	}
	return brackets && family != AF_INET ? parse_ipv6(host, e, port) : -EINVAL;
}

int endpoint_parse(const char *net, const char *addr, struct endpoint *e)
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

	if (path <= 0) /* unnamed: the socket that dialled */
		return snprintf(buf, n, "%s", "");
	if (un->sun_path[0] == 0)
		return snprintf(buf, n, "@%.*s", path - 1, un->sun_path + 1);
	return snprintf(buf, n, "%.*s", path, un->sun_path);
}

/* "%zone" as parse_zone reads it; "" if there is none. */
static void format_zone(const struct sockaddr_in6 *a, char zone[IF_NAMESIZE + 1])
{
	*zone = '%';
	if (a->sin6_scope_id == 0)
		*zone = '\0';
	else if (!has_named_zone(&a->sin6_addr) || !if_indextoname(a->sin6_scope_id, zone + 1))
		snprintf(zone + 1, IF_NAMESIZE, "%u", a->sin6_scope_id);
}

int address_format(const union address *a, socklen_t len, char *buf, size_t n)
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
		if (IN6_IS_ADDR_V4MAPPED(in6)) { /* IPv4 address on a socket for both families */
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

static bool is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

bool endpoint_split_name(const char *addr, char host[NAME_MOST + 1], const char **port)
{
	const char *colon = strrchr(addr, ':');
	size_t n = colon ? (size_t)(colon - addr) : 0;
	uint16_t any;
	bool letters = false;

	if (n == 0 || n > NAME_MOST || !parse_port(colon + 1, &any))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = host[i] = addr[i];

		if (is_letter(c))
			letters = true;
		else if (!(c >= '0' && c <= '9') && !strchr("-._", c))
			return false;
	}
	host[n] = '\0';
	*port = colon + 1;
	return letters;
}
