/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for addresses: gmp_listen must accept exactly the valid ones and read them as libc
 * does.
 *
 * No socket is made: the wrappers of socket and bind record the address.
 */
#define _GNU_SOURCE 1
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <gmp.h>

static struct sockaddr_storage bound;
static socklen_t bound_bytes;
static int family;

int __wrap_socket(int f, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t n);
int __real_getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,
		       struct addrinfo **r);
int __wrap_getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,
		       struct addrinfo **r);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A lookup of a host name takes time and does not test the parser. */
int __wrap_getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,
		       struct addrinfo **r)
{
	(void)h, (void)s, (void)hints, (void)r;
	return EAI_NONAME;
}

int __wrap_socket(int f, int type, int protocol)
{
	(void)type, (void)protocol;
	family = f;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_bind(int fd, const struct sockaddr *a, socklen_t n)
{
	(void)fd;
	HOLDS(n <= sizeof(bound));
	memcpy(&bound, a, n);
	bound_bytes = n;
	errno = EADDRINUSE;
	return -1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	(void)argc, (void)argv;
	c.procs = 1;
	c.max_green = 64;
	HOLDS(gmp_start(&c) == 0);
	return 0;
}

/* Parses a numeric host and port by libc. */
static int read_by_libc(const char *host, const char *port, struct sockaddr_storage *a)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;

	if (__real_getaddrinfo(host, port, &hints, &found))
		return 0;
	memcpy(a, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 1;
}

static int same_port(const struct sockaddr_storage *a, const char *port)
{
	/* the port is at the same offset in both families */
	return ntohs(((const struct sockaddr_in *)a)->sin_port) == strtoul(port, NULL, 10);
}

static void check_ip(char *addr)
{
	struct sockaddr_storage want = { 0 };
	char *colon = strrchr(addr, ':'), *host = addr;

	HOLDS(colon && colon[1]);
	*colon = '\0';
	HOLDS(strspn(colon + 1, "0123456789") == strlen(colon + 1));
	HOLDS(same_port(&bound, colon + 1));
	if (!*host || strcmp(host, "localhost") == 0)
		return;
	if (*host == '[') {
		host++;
		colon[-1] = '\0';
	}
	HOLDS(read_by_libc(host, colon + 1, &want));
	HOLDS(want.ss_family == bound.ss_family);
	if (want.ss_family == AF_INET)
		HOLDS(memcmp(&((struct sockaddr_in *)&want)->sin_addr,
			     &((struct sockaddr_in *)&bound)->sin_addr, 4) == 0);
	else
		HOLDS(memcmp(&((struct sockaddr_in6 *)&want)->sin6_addr,
			     &((struct sockaddr_in6 *)&bound)->sin6_addr, 16) == 0 &&
		      ((struct sockaddr_in6 *)&want)->sin6_scope_id ==
			      ((struct sockaddr_in6 *)&bound)->sin6_scope_id);
}

static void check_unix(const char *addr)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&bound;

	HOLDS(un->sun_family == AF_UNIX);
	HOLDS(un->sun_path[0] == (addr[0] == '@' ? '\0' : addr[0]));
	HOLDS(strncmp(un->sun_path + 1, addr + 1, strlen(addr) - 1) == 0);
	HOLDS(bound_bytes == 2 + strlen(addr) + (addr[0] != '@'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const nets[] = { "tcp", "tcp4", "tcp6", "udp", "unix", "nonsense" };
	char addr[256];
	struct input in = { data, data + size };
	const char *net = nets[choose(&in, 6)];
	size_t n = (size_t)(in.end - in.at) < sizeof(addr) - 1 ? (size_t)(in.end - in.at)
							       : sizeof(addr) - 1;

	memcpy(addr, in.at, n);
	addr[n] = '\0';
	bound_bytes = 0;
	int err = gmp_listen(net, addr);

	if (!bound_bytes) {
		HOLDS(err < 0 && err != -EADDRINUSE);
		return 0;
	}
	HOLDS(err == -EADDRINUSE);
	HOLDS(family == bound.ss_family);
	if (strcmp(net, "unix") == 0)
		check_unix(addr);
	else
		check_ip(addr);
	HOLDS(strcmp(net, "tcp4") != 0 || family == AF_INET);
	HOLDS(strcmp(net, "tcp6") != 0 || family == AF_INET6);
	return 0;
}
