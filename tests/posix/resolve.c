/* SPDX-License-Identifier: MIT */
/* Tests the functions that look up names, with names that need no name server. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "posix.h"

static const struct sockaddr_in local = {
	.sin_family = AF_INET,
	.sin_port = 0x5000, /* 80, on a machine with the lowest byte first */
	.sin_addr = { .s_addr = 0x0100007f },
};

static bool is_local(const struct hostent *h)
{
	return h && h->h_addrtype == AF_INET && h->h_length == 4 &&
	       memcmp(h->h_addr_list[0], "\x7f\0\0\x01", 4) == 0;
}

POSIX_TEST(getaddrinfo_finds_an_address)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *res = NULL;

	CHECK_EQ(getaddrinfo("127.0.0.1", "80", &hints, &res), 0);
	CHECK(res && res->ai_family == AF_INET);
	struct sockaddr_in *in = (struct sockaddr_in *)res->ai_addr;

	CHECK_EQ(ntohs(in->sin_port), 80);
	CHECK_EQ(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	freeaddrinfo(res);
}

POSIX_TEST(getaddrinfo_bad_name_is_noname)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *res;

	CHECK_EQ(getaddrinfo("not a number", NULL, &hints, &res), EAI_NONAME);
	CHECK_EQ(getaddrinfo(NULL, NULL, NULL, &res), EAI_NONAME);
}

POSIX_TEST(getaddrinfo_bad_hints_are_refused)
{
	struct addrinfo hints = { .ai_family = 12345 }, *res;

	CHECK_EQ(getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_FAMILY);
	hints = (struct addrinfo){ .ai_socktype = 12345 };
	CHECK_EQ(getaddrinfo("127.0.0.1", "80", &hints, &res), EAI_SOCKTYPE);
}

POSIX_TEST(getnameinfo_names_an_address)
{
	char host[64], service[64];

	CHECK_EQ(getnameinfo((const struct sockaddr *)&local, sizeof(local), host, sizeof(host),
			     service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV),
		 0);
	CHECK_EQ(strcmp(host, "127.0.0.1"), 0);
	CHECK_EQ(atoi(service), ntohs(local.sin_port));
}

POSIX_TEST(getnameinfo_small_buffer_is_overflow)
{
	char host[4];

	CHECK_EQ(getnameinfo((const struct sockaddr *)&local, sizeof(local), host, sizeof(host),
			     NULL, 0, NI_NUMERICHOST),
		 EAI_OVERFLOW);
}

POSIX_TEST(getnameinfo_bad_address_is_refused)
{
	char host[64];

	CHECK_EQ(getnameinfo((const struct sockaddr *)&local, 3, host, sizeof(host), NULL, 0, 0),
		 EAI_FAMILY);
}

POSIX_TEST(gethostbyname_finds_localhost)
{
	CHECK(is_local(gethostbyname("localhost")));
	CHECK(is_local(gethostbyname2("localhost", AF_INET)));
	CHECK(is_local(gethostbyname("127.0.0.1")));
}

POSIX_TEST(gethostbyname_bad_name_sets_h_errno)
{
	h_errno = 0;
	CHECK(gethostbyname("a..b") == NULL);
	CHECK(h_errno == HOST_NOT_FOUND || h_errno == NO_RECOVERY || h_errno == TRY_AGAIN);
	h_errno = 0;
	CHECK(gethostbyname2("a..b", AF_INET) == NULL);
	CHECK(h_errno == HOST_NOT_FOUND || h_errno == NO_RECOVERY || h_errno == TRY_AGAIN);
}

POSIX_TEST(gethostbyname_r_fills_the_buffer)
{
	struct hostent h, *res = NULL;
	char buf[1024];
	int err = -2;

	CHECK_EQ(gethostbyname_r("localhost", &h, buf, sizeof(buf), &res, &err), 0);
	CHECK(res == &h && is_local(&h));
	CHECK(h.h_name >= buf && h.h_name < buf + sizeof(buf));
	res = NULL;
	CHECK_EQ(gethostbyname2_r("localhost", AF_INET, &h, buf, sizeof(buf), &res, &err), 0);
	CHECK(res == &h && is_local(&h));
}

POSIX_TEST(gethostbyname_r_small_buffer_is_erange)
{
	struct hostent h, *res = &h;
	char buf[8];
	int err;

	CHECK_EQ(gethostbyname_r("localhost", &h, buf, sizeof(buf), &res, &err), ERANGE);
	CHECK(res == NULL);
	CHECK_EQ(gethostbyname2_r("localhost", AF_INET, &h, buf, sizeof(buf), &res, &err), ERANGE);
}

POSIX_TEST(gethostbyname_r_bad_name_has_no_result)
{
	struct hostent h, *res = &h;
	char buf[1024];
	int err = 0;

	gethostbyname_r("a..b", &h, buf, sizeof(buf), &res, &err);
	CHECK(res == NULL);
	CHECK(err != 0);
	res = &h;
	gethostbyname2_r("a..b", AF_INET, &h, buf, sizeof(buf), &res, &err);
	CHECK(res == NULL);
}

POSIX_TEST(gethostbyaddr_finds_localhost)
{
	struct hostent h, *res = NULL;
	char buf[1024];
	int err;

	CHECK(is_local(gethostbyaddr("\x7f\0\0\x01", 4, AF_INET)));
	CHECK_EQ(gethostbyaddr_r("\x7f\0\0\x01", 4, AF_INET, &h, buf, sizeof(buf), &res, &err), 0);
	CHECK(res == &h && is_local(&h));
}

POSIX_TEST(gethostbyaddr_bad_family_has_no_result)
{
	struct hostent h, *res = &h;
	char buf[1024];
	int err;

	CHECK(gethostbyaddr("\x7f\0\0\x01", 3, AF_INET) == NULL);
	gethostbyaddr_r("\x7f\0\0\x01", 3, AF_INET, &h, buf, sizeof(buf), &res, &err);
	CHECK(res == NULL);
}

POSIX_TEST(gethostbyaddr_r_small_buffer_is_erange)
{
	struct hostent h, *res = &h;
	char buf[8];
	int err;

	CHECK_EQ(gethostbyaddr_r("\x7f\0\0\x01", 4, AF_INET, &h, buf, sizeof(buf), &res, &err),
		 ERANGE);
	CHECK(res == NULL);
}

/* Not inlined: each call computes the address of h_errno again. */
static __attribute__((noinline)) int h_errno_now(void)
{
	__asm__ volatile("");
	return h_errno;
}

static void look_up(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		CHECK(gethostbyname("a..b") == NULL);
		CHECK(h_errno_now() != 0);
		struct hostent h, *res = NULL;
		char buf[1024];
		int err;

		CHECK_EQ(gethostbyname_r("localhost", &h, buf, sizeof(buf), &res, &err), 0);
		CHECK(is_local(res));
	}
}

static void many_look_up(void *arg)
{
	gmp_g *g[20];

	(void)arg;
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_spawn(&g[i], look_up, NULL, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

/* h_errno is the caller's own, with and without own thread-locals. */
TEST(lookups_in_parallel_keep_h_errno)
{
	run_procs(2, many_look_up, NULL);
	run_own(2, 0, many_look_up, NULL);
}

/* --- lookups that wait for a name server --- */

enum { CALLERS = 200, MOST = 128 };

static struct sockaddr_in silent; /* a name server that does not answer */
static int ended;

static int silent_server(void)
{
	int server = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t n = sizeof(silent);

	silent = (struct sockaddr_in){ .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK_EQ(bind(server, (struct sockaddr *)&silent, n), 0);
	CHECK_EQ(getsockname(server, (struct sockaddr *)&silent, &n), 0);
	return server;
}

static void ask_server(void *arg)
{
	struct addrinfo hints = { .ai_family = AF_INET }, *res;

	(void)arg;
	CHECK_EQ(res_init(), 0);
	_res.nscount = _res.retry = _res.retrans = 1;
	_res.nsaddr_list[0] = silent;
	if (getaddrinfo("name.invalid", NULL, &hints, &res) == 0)
		freeaddrinfo(res);
	__atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
}

/* Returns the most callers that were in blocking code until all others waited.  Then the server
 * ends. */
static unsigned count_blocked(int server)
{
	gmp_stats s = GMP_STATS_INIT;
	unsigned most = 0;

	while (__atomic_load_n(&ended, __ATOMIC_RELAXED) < CALLERS) {
		gmp_sleep(GMP_MS);
		CHECK_EQ(gmp_stats_get(&s), 0);
		if (server >= 0 && s.greens_blocked > most)
			most = s.greens_blocked;
		if (server >= 0 && s.greens_blocked + s.greens_waiting >= CALLERS) {
			close(server);
			server = -1;
		}
	}
	return most;
}

static void many_lookups(void *arg)
{
	int server = silent_server();
	gmp_g *g[CALLERS];

	(void)arg;
	for (int i = 0; i < CALLERS; i++)
		CHECK_EQ(gmp_spawn(&g[i], ask_server, NULL, NULL), 0);
	unsigned most = count_blocked(server);

	for (int i = 0; i < CALLERS; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	if (most < MOST / 2)
		check_skip("names are not looked up by name servers");
	CHECK(most <= MOST);
}

TEST(getaddrinfo_takes_a_bounded_number_of_threads)
{
	skip_under_chaos();
	run_own(2, 0, many_lookups, NULL);
}

static _Thread_local sigjmp_buf before_lookup;

static void leave_lookup(int signo)
{
	(void)signo;
	siglongjmp(before_lookup, 1);
}

static void *look_up_and_leave(void *arg)
{
	if (sigsetjmp(before_lookup, 1) == 0)
		ask_server(NULL);
	return arg;
}

/* Each thread asks the server once. */
static void leave_lookups(void *arg)
{
	struct sigaction sa = { .sa_handler = leave_lookup };
	struct timeval limit = { .tv_sec = 10 };
	int server = silent_server();
	char query[512];
	pthread_t t;

	(void)arg;
	CHECK_EQ(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	for (int i = 0; i < MOST; i++) {
		CHECK_EQ(pthread_create(&t, NULL, look_up_and_leave, NULL), 0);
		if (recv(server, query, sizeof(query), 0) < 0)
			check_skip("names are not looked up by name servers");
		CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
	}
	look_up(NULL);
	close(server);
}

TEST(getaddrinfo_that_is_left_by_siglongjmp_takes_no_slot)
{
	skip_under_chaos();
	run_own(2, 0, leave_lookups, NULL);
}
