/* SPDX-License-Identifier: MIT */
/*
 * Tests that the zone of an IPv6 address, which is the interface of a link-local address, is passed
 * to the system and back. The wrapped bind, connect and getsockname make a real link-local address
 * unnecessary.
 *
 * floors 0..6, wrap: socket bind connect getsockname
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "rt.h"

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_getsockname(int fd, struct sockaddr *a, socklen_t *n);

static struct sockaddr_in6 given, own;

/* An IPv4 socket, so that the test needs no IPv6. */
int __wrap_socket(int family, int type, int protocol)
{
	(void)family;
	return __real_socket(AF_INET, type, protocol);
}

static int store_given(const struct sockaddr *a, socklen_t n)
{
	CHECK_EQ(n, sizeof(given));
	memcpy(&given, a, n);
	errno = ENETUNREACH;
	return -1;
}

int __wrap_bind(int fd, const struct sockaddr *a, socklen_t n)
{
	(void)fd;
	return store_given(a, n);
}

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n)
{
	(void)fd;
	return store_given(a, n);
}

int __wrap_getsockname(int fd, struct sockaddr *a, socklen_t *n)
{
	(void)fd;
	memcpy(a, &own, sizeof(own));
	*n = sizeof(own);
	return 0;
}

static void check_taken(const char *host, const char *addr, uint32_t zone)
{
	struct in6_addr in6;

	CHECK_EQ(inet_pton(AF_INET6, host, &in6), 1);
	for (int dial = 0; dial < 2; dial++) {
		for (int six = 0; six < 2; six++) {
			const char *net = six ? "tcp6" : "udp";

			memset(&given, 0, sizeof(given));
			CHECK_EQ(dial ? gmp_dial(net, addr) : gmp_listen(net, addr), -ENETUNREACH);
			CHECK_EQ(memcmp(&given.sin6_addr, &in6, sizeof(in6)), 0);
			CHECK_EQ(given.sin6_scope_id, zone);
			CHECK_EQ(ntohs(given.sin6_port), 80);
		}
	}
}

static void read_zones(void *arg)
{
	static const char *const bad[] = {
		"[fe80::1%]:80",
		"[fe80::1%no-such-if]:80",
		"[fe80::1%4294967296]:80",
		"[fe80::1%1x]:80",
		"[fe80::1%-1]:80",
		"[::1%lo]:80",
		"[fe80::1%99999999999999999999999999]:80",
		"[%1]:80",
		"fe80::1%1:80",
		"127.0.0.1%1:80",
		"[127.0.0.1%1]:80",
		"[fe80::1%lo:80",
	};

	(void)arg;
	check_taken("fe80::1", "[fe80::1]:80", 0);
	check_taken("fe80::1", "[fe80::1%lo]:80", if_nametoindex("lo"));
	check_taken("ff02::1", "[ff02::1%lo]:80", if_nametoindex("lo"));
	check_taken("fe80::1", "[fe80::1%7]:80", 7);
	check_taken("fe80::1", "[fe80::1%4294967295]:80", UINT32_MAX);
	check_taken("2001:db8::1", "[2001:db8::1%3]:80", 3);
	check_taken("fe80:1111:2222:3333:4444:5555:255.255.255.255",
		    "[fe80:1111:2222:3333:4444:5555:255.255.255.255%lo]:80", if_nametoindex("lo"));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK_EQ(gmp_dial("tcp", bad[i]), -EINVAL);
		CHECK_EQ(gmp_listen("tcp6", bad[i]), -EINVAL);
	}
	CHECK_EQ(gmp_dial("tcp4", "[fe80::1%1]:80"), -EINVAL);
}

TEST(zone_is_parsed_as_number_or_interface)
{
	CHECK(if_nametoindex("lo") > 0);
	run_procs(1, read_zones, NULL);
}

static void check_written(int fd, const char *host, uint32_t zone, const char *addr)
{
	char buf[128];
	int n = (int)strlen(addr);

	own = (struct sockaddr_in6){ .sin6_family = AF_INET6,
				     .sin6_port = htons(80),
				     .sin6_scope_id = zone };
	CHECK_EQ(inet_pton(AF_INET6, host, &own.sin6_addr), 1);
	CHECK_EQ(gmp_local_addr(fd, buf, sizeof(buf)), n);
	CHECK_STR(buf, addr);
	CHECK_EQ(gmp_local_addr(fd, buf, (size_t)n), -ENOSPC);
	check_taken(host, addr, zone);
}

static void write_zones(void *arg)
{
	int fd = __real_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)arg;
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	check_written(fd, "fe80::1", 0, "[fe80::1]:80");
	check_written(fd, "fe80::1", if_nametoindex("lo"), "[fe80::1%lo]:80");
	check_written(fd, "fe80::1", UINT32_MAX, "[fe80::1%4294967295]:80");
	check_written(fd, "2001:db8::1", if_nametoindex("lo"),
		      "[2001:db8::1%1]:80"); /* Linux's loopback is always 1 */
	CHECK_EQ(gmp_close(fd), 0);
}

TEST(zone_in_local_addr_can_be_dialled)
{
	run_procs(1, write_zones, NULL);
}
