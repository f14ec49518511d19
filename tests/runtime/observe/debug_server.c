/* SPDX-License-Identifier: MIT */
/*
 * Tests that the debug server serves each page, withstands hostile clients, and leaves nothing. The
 * clients are green threads of the same run, and external threads.
 */
#include "io/io_util.h"
#include "util.h"

#include <sys/stat.h>

#define HOST "Host: localhost\r\n"
#define END "\r\n\r\n"

enum { ROOM = 1 << 16, CLIENTS = 16 };

static int start_server(void)
{
	int port = gmp_debug_listen("127.0.0.1:0");

	CHECK(port > 0);
	return port;
}

static int dial(int port)
{
	char addr[32];

	snprintf(addr, sizeof(addr), "127.0.0.1:%d", port);
	int fd = gmp_dial("tcp", addr);

	CHECK(fd >= 0);
	return fd;
}

/* Reads to the end of the stream, or to a reset. Returns how many bytes came; buf has ROOM. */
static size_t read_all(int fd, char *buf)
{
	size_t n = 0;

	for (ssize_t got; (got = gmp_read(fd, buf + n, ROOM - 1 - n)) > 0;)
		n += (size_t)got;
	buf[n] = '\0';
	CHECK(n < ROOM - 1);
	return n;
}

/* Sends the bytes; returns what came until the server has closed, to be freed. */
static char *ask_bytes(int port, const void *bytes, size_t n)
{
	int fd = dial(port);
	char *answer = malloc(ROOM);

	CHECK(answer != NULL);
	gmp_write_all(fd, bytes, n); /* may fail: the server may refuse before the end */
	read_all(fd, answer);
	gmp_close(fd);
	return answer;
}

static int status_of(const char *answer)
{
	return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

/* The status of the answer to the bytes, and how many answers came. */
static int status_and_count(int port, const void *bytes, size_t n, int *count)
{
	char *answer = ask_bytes(port, bytes, n);
	int status = status_of(answer);

	*count = 0;
	for (const char *at = answer; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
		++*count;
	free(answer);
	return status;
}

#define CHECK_ANSWER(port, bytes, status)                                                          \
	do {                                                                                       \
		int count_, status_ = status_and_count(port, bytes, sizeof(bytes) - 1, &count_);   \
		CHECK_EQ(status_, status);                                                         \
		CHECK_EQ(count_, 1);                                                               \
	} while (0)

/* The answer to GET path on a connection of its own, to be freed. */
static char *get(int port, const char *path)
{
	char text[256];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "Connection: close" END, path);
	return ask_bytes(port, text, strlen(text));
}

static void check_page(int port, const char *path, int status, const char *part)
{
	char *answer = get(port, path);

	if (status_of(answer) != status || !strstr(answer, part) ||
	    !strstr(answer, "\r\nX-Content-Type-Options: nosniff\r\n") ||
	    !strstr(answer, "\r\nCache-Control: no-store\r\n") ||
	    !strstr(answer, "\r\nConnection: close\r\n"))
		check_failed("%s: %.400s", path, answer);
	free(answer);
}

/* Returns 1 if the caller is the only client. */
static int is_alone(int port)
{
	char *answer = get(port, "/debug/green?all=1");
	const char *first = strstr(answer, "\"gmp debug client\"");
	int alone = first && !strstr(first + 1, "\"gmp debug client\"");

	free(answer);
	return alone;
}

RT(server_pages_are_served)
{
	int port = start_server();

	check_page(port, "/debug/", 200, "<a href=\"/metrics\">");
	check_page(port, "/metrics", 200, "\n# TYPE gmp_spawns_total counter\ngmp_spawns_total ");
	check_page(port, "/metrics", 200,
		   "\ngmp_latency_seconds{cause=\"spawn\",quantile=\"0.99\"} ");
	check_page(port, "/metrics", 200, "\ngmp_p_queue{p=\"0\"} ");
	check_page(port, "/debug/vars", 200, "\"by_wait\":[");
	check_page(port, "/debug/vars?cputime=5", 200, "\"cputime\":");
	check_page(port, "/debug/green", 200, "green thread 2 \"gmp debug server\"");
	check_page(port, "/debug/green?all=1", 200, "(entry client_main), running, the caller");
	check_page(port, "/", 302, "\r\nLocation: /debug/\r\n");
	check_page(port, "/debug", 302, "\r\nLocation: /debug/\r\n");
	check_page(port, "/debug/none", 404, "no such page");
	check_page(port, "/debug/pprof/profile?seconds=0", 400, "bad request");
	check_page(port, "/debug/trace?seconds=61", 400, "bad request");
}

RT(server_pipelined_requests_are_answered_in_order)
{
	static const char text[] = "GET /debug/none HTTP/1.1\r\n" HOST "\r\n"
				   "HEAD /metrics HTTP/1.1\r\n" HOST "\r\n"
				   "GET / HTTP/1.1\r\n" HOST "Connection: close" END;
	char *answer = ask_bytes(start_server(), text, sizeof(text) - 1);
	char *second = strstr(answer + 1, "HTTP/1.1 "), *third = strstr(second + 1, "HTTP/1.1 ");

	CHECK(strstr(answer, "\r\nConnection: keep-alive\r\n") < second);
	CHECK_EQ(status_of(answer), 404);
	CHECK_EQ(status_of(second), 200);
	CHECK_EQ(status_of(third), 302);
	CHECK(strstr(third + 1, "HTTP/1.1 ") == NULL);
	free(answer);
}

RT(server_half_closed_client_gets_answer)
{
	static char answer[ROOM];
	int fd = dial(start_server());

	say(fd, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
	size_t n = read_all(fd, answer);

	CHECK_EQ(status_of(answer), 200);
	CHECK(n > 7 && strcmp(answer + n - 7, "\r\n0" END) == 0);
	gmp_close(fd);
}

RT(server_old_client_gets_plain_body)
{
	static const char text[] = "GET /debug/vars HTTP/1.0\r\n" HOST "\r\n";
	char *answer = ask_bytes(start_server(), text, sizeof(text) - 1);

	CHECK_EQ(status_of(answer), 200);
	CHECK(strstr(answer, "chunked") == NULL);
	CHECK_STR(answer + strlen(answer) - 3, "\n}\n");
	free(answer);
}

RT(server_hostile_requests_are_refused)
{
	int port = start_server();
	char huge[20000];

	CHECK_ANSWER(port, "GET / HTTP/1.1" END, 400);
	CHECK_ANSWER(port, "GET / HTTP/1.1\r\nHost: evil.example" END, 403);
	CHECK_ANSWER(port, "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:6060" END, 403);
	CHECK_ANSWER(port, "PUT / HTTP/1.1\r\n" HOST "Content-Length: 3" END "abc", 405);
	CHECK_ANSWER(port, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400);
	CHECK_ANSWER(port, "GET / HTTP/3.0\r\n" HOST "\r\n", 505);
	memset(huge, 'a', sizeof(huge));
	memcpy(huge, "GET / HTTP/1.1\r\nX: ", 19);
	int count, status = status_and_count(port, huge, sizeof(huge), &count);

	CHECK_EQ(status, 431);
	CHECK_EQ(count, 1);
	check_page(port, "/debug/", 200, "/debug/vars");
}

/* What is hidden in a body must not be answered. */
RT(server_smuggled_request_is_not_served)
{
	int port = start_server();

#define HIDDEN "GET /debug/ HTTP/1.1\r\n" HOST "\r\n"
	CHECK_ANSWER(port, "GET / HTTP/1.1\r\n" HOST "Content-Length: 45" END HIDDEN, 413);
	CHECK_ANSWER(port, "POST / HTTP/1.1\r\n" HOST "Content-Length: 45" END HIDDEN, 405);
	CHECK_ANSWER(port,
		     "GET / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n"
		     "Transfer-Encoding: chunked" END "0" END HIDDEN,
		     400);
	CHECK_ANSWER(port, "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked" END HIDDEN, 400);
	CHECK_ANSWER(port,
		     "GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 45" END HIDDEN,
		     400);
	CHECK_ANSWER(port, "GET / HTTP/1.1\r\n" HOST "X: a\nContent-Length: 45" END HIDDEN, 400);
}

/* The deadline of 5 s, of two clients at once. */
RT(server_slow_client_is_cut)
{
	static char answer[ROOM];
	int port = start_server(), idle = dial(port), part = dial(port);
	int64_t begin = gmp_now();

	say(part, "GET / HTTP/1.1\r\nHo");
	CHECK_EQ(read_all(idle, answer), 0);
	CHECK(gmp_now() - begin > 4 * SEC);
	read_all(part, answer);
	CHECK_EQ(status_of(answer), 408);
	gmp_close(idle);
	gmp_close(part);
}

RT(server_too_many_clients_get_503)
{
	static char answer[ROOM];
	int port = start_server(), fd[100], full = 0;

	for (int i = 0; i < 100; i++)
		fd[i] = dial(port);
	for (int i = CLIENTS; i < 100; i++) {
		read_all(fd[i], answer);
		full += status_of(answer) == 503;
	}
	CHECK_EQ(full, 100 - CLIENTS);
	say(fd[0], "GET / HTTP/1.1\r\n" HOST "Connection: close" END);
	read_all(fd[0], answer);
	CHECK_EQ(status_of(answer), 302);
	for (int i = 0; i < 100; i++)
		gmp_close(fd[i]);
	WAIT_FOR(is_alone(port));
}

static atomic_long started;

static void wait_forever(UNUSED void *arg)
{
	atomic_fetch_add(&started, 1);
	gmp_sleep(PATIENCE);
}

/* Clients that do not read, and that reset the connection in the middle of a dump. */
RT(server_vanished_client_does_no_harm)
{
	static const char text[] = "GET /debug/green?all=1 HTTP/1.1\r\n" HOST "\r\n";
	int port = start_server(), fd[8];
	long many = check_scaled(40000);

	atomic_store(&started, 0);
	for (long i = 0; i < many; i++)
		CHECK_EQ(gmp_go(wait_forever, NULL), 0);
	WAIT_FOR(atomic_load(&started) == many); /* a slow start is no reason for a timeout */
	for (int i = 0; i < 8; i++) {
		fd[i] = dial(port);
		say(fd[i], text);
	}
	for (int i = 0; i < 8; i++) {
		char c;

		CHECK_EQ(gmp_read(fd[i], &c, 1), 1);
		if (i % 2)
			reset_on_close(fd[i]);
	}
	for (int i = 0; i < 4; i++)
		gmp_close(fd[i]);
	check_page(port, "/debug/vars", 200, "\"by_wait\":[");
	/* the run ends while the other four wait for room */
}

static int status_of_get(int port, const char *path)
{
	char *answer = get(port, path);
	int status = status_of(answer);

	free(answer);
	return status;
}

static void skip_without_profiles(int port)
{
	if (status_of_get(port, "/debug/pprof/green") == 501)
		check_skip("no libprotobuf-c");
}

/* Returns 1 if a client's G is in blocking code, as during a profile. */
static int is_profiling(int port)
{
	char *answer = get(port, "/debug/green?all=1");
	int yes = strstr(answer, "\"gmp debug client\" (entry client_main), in blocking code") !=
		  NULL;

	free(answer);
	return yes;
}

/* A client of each profile closes its socket, or resets the connection; the next one gets in. */
RT(server_vanished_client_ends_its_profile)
{
	static const char *const kinds[] = { "wait", "mutex", "profile" };
	int port = start_server();
	char request[128];

	skip_without_profiles(port);
	for (int i = 0; i < 6; i++) {
		int fd = dial(port);
		int64_t begin = gmp_now();

		snprintf(request, sizeof(request),
			 "GET /debug/pprof/%s?seconds=60 HTTP/1.1\r\n" HOST "\r\n", kinds[i / 2]);
		say(fd, request);
		WAIT_FOR(is_profiling(port));
		if (i % 2)
			reset_on_close(fd);
		gmp_close(fd);
		WAIT_FOR(status_of_get(port, "/debug/pprof/wait?seconds=1") == 200);
		CHECK(gmp_now() - begin < 30 * SEC);
	}
}

/* It gets an interim answer, too: the server cannot know that the client still reads. */
RT(server_half_closed_client_gets_profile)
{
	static char answer[ROOM];
	int port = start_server();

	skip_without_profiles(port);
	int fd = dial(port);

	say(fd, "GET /debug/pprof/wait?seconds=1 HTTP/1.1\r\n" HOST "\r\n");
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
	size_t n = read_all(fd, answer);

	CHECK(n > 25 && strncmp(answer, "HTTP/1.1 100 Continue\r\n\r\n", 25) == 0);
	CHECK_EQ(status_of(answer + 25), 200);
	gmp_close(fd);
}

/* --- start and end --- */

RT(server_bad_addresses_return_errors)
{
	CHECK_EQ(gmp_debug_listen(NULL), -EINVAL);
	CHECK_EQ(gmp_debug_listen(""), -EINVAL);
	CHECK_EQ(gmp_debug_listen("65536"), -EINVAL);
	CHECK_EQ(gmp_debug_listen(":123456789"), -EINVAL);
	CHECK_EQ(gmp_debug_listen("127.0.0.1"), -EINVAL);
	CHECK_EQ(gmp_debug_listen("unix:"), -EINVAL);
	for (int i = 0; i < 4; i++)
		start_server();
	CHECK_EQ(gmp_debug_listen("0"), -EAGAIN);
}

TEST(server_without_runtime_returns_esrch)
{
	CHECK_EQ(gmp_debug_listen("127.0.0.1:0"), -ESRCH);
}

/* The server of addr listens at 127.0.0.1, and not at other addresses of this machine. */
static void check_loopback(const char *addr)
{
	char wanted[64];
	int port = gmp_debug_listen(addr), fd;

	CHECK(port > 0);
	snprintf(wanted, sizeof(wanted), "127.0.0.1:%d", port);
	fd = gmp_dial("tcp", wanted);
	CHECK(fd >= 0);
	gmp_close(fd);
	snprintf(wanted, sizeof(wanted), "127.0.0.2:%d", port);
	CHECK_EQ(gmp_dial("tcp", wanted), -ECONNREFUSED);
}

RT(server_port_alone_is_of_loopback)
{
	check_loopback("0");
	check_loopback(":0");
	check_loopback("localhost:0");
}

static char path[64];

static void serve_and_end(UNUSED void *arg)
{
	char text[96];
	int port = start_server();

	/* clients in each state; the run ends with all of them */
	dial(port);
	say(dial(port), "GET / HTTP/1.1\r\nHo");
	say(dial(port), "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
	snprintf(path, sizeof(path), "/tmp/gmp-debug-%d", getpid());
	snprintf(text, sizeof(text), "unix:%s", path);
	CHECK_EQ(gmp_debug_listen(text), 0);
	int fd = gmp_dial("unix", path);
	char answer[13];

	say(fd, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
	CHECK_EQ(gmp_read_full(fd, answer, 12), 12);
	CHECK(memcmp(answer, "HTTP/1.1 200", 12) == 0);
	gmp_shutdown(fd, SHUT_RDWR);
	gmp_close(fd);
}

/* Closes the connections that serve_and_end has left. */
static void close_sockets(void)
{
	for (int fd = 3; fd < 64; fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
			int listens = 1;
			socklen_t n = sizeof(listens);

			CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n), 0);
			CHECK_EQ(listens, 0);
			close(fd);
		}
	}
}

/* A server takes more than 2 MiB of address space; malloc takes 64 for a new thread. */
TEST_PROCS(server_end_of_run_leaves_nothing)
{
	enum { RUNS = 40, LEAKED_KB = RUNS * 4096 };

	run_procs(procs, serve_and_end, NULL); /* libc has opened what it keeps */
	close_sockets();
	int fds = count_fds();
	long size = proc_kb("/proc/self/status", "VmSize");

	for (int i = 0; i < RUNS; i++) {
		run_procs(procs, serve_and_end, NULL);
		CHECK_EQ(access(path, F_OK), -1);
		CHECK_EQ(count_fds(), fds + 3); /* the ends of the clients */
		close_sockets();
	}
	CHECK(SANITIZED || proc_kb("/proc/self/status", "VmSize") < size + LEAKED_KB);
}

static void listen_outside(void *port)
{
	*(int *)port = gmp_debug_listen("127.0.0.1:0");
}

RT(server_started_by_external_thread_serves)
{
	struct ext_thread t;
	int port = 0;

	ext_thread_start(&t, listen_outside, &port);
	ext_thread_join(&t);
	CHECK(port > 0);
	check_page(port, "/debug/", 200, "/metrics");
}

/* The child has no copy of a socket, so the port is free once the parent has closed it. */
RT(server_forked_child_has_no_sockets)
{
	int fd = dial(start_server()), status;

	say(fd, "GET /debug/none HTTP/1.1\r\n" HOST "\r\n");
	hear(fd, "HTTP/1.1 404"); /* the server has both of its sockets */
	pid_t pid = fork();

	if (pid == 0) {
		int sockets = 0;

		for (int i = 3; i < 64; i++) {
			struct stat st;

			sockets += fstat(i, &st) == 0 && S_ISSOCK(st.st_mode);
		}
		_exit(sockets); /* the test's own */
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 1);
	gmp_close(fd);
}

/* --- virtual time --- */

static void sleep_for_an_hour(UNUSED void *arg)
{
	int64_t begin = gmp_now();

	start_server();
	CHECK_EQ(gmp_sleep(3600 * SEC), 0);
	CHECK(gmp_now() - begin >= 3600 * SEC);
}

TEST_PROCS(server_does_not_stop_virtual_time)
{
	run_configured(procs, 0, GMP_VIRTUAL_TIME, sleep_for_an_hour, NULL);
}
