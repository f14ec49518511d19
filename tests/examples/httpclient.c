/* SPDX-License-Identifier: MIT */
/*
 * Tests httpd: valid requests are answered, and the other clients are disconnected.
 *
 *   httpclient FOLDER [TEST...] -- HTTPD [OPTION...]
 *
 * FOLDER is an empty folder, for the files that are served.
 */
#include "httpcases.h"
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 24 << 20 };
static char *large;

/* ------------------------------------------------------------------ The folder */

static void write_file(const char *name, const char *bytes, size_t n)
{
	int fd = open(name, O_WRONLY | O_CREAT, 0644);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		fail(name);
	close(fd);
}

/* And make it the working folder. */
static void make_folder(const char *folder)
{
	if (chdir(folder) != 0 || mkdir("root", 0755) != 0 || mkdir("root/sub", 0755) != 0)
		fail("no folder");
	large = malloc(LARGE);
	for (size_t i = 0; i < LARGE; i++)
		large[i] = (char)(i * 7 + i / 256);
	write_file("secret", "secret", 6);
	write_file("root/index.html", "home", 4);
	write_file("root/.hidden", "hidden", 6);
	write_file("root/a.txt", "0123456789", 10);
	write_file("root/a b.css", "css", 3);
	write_file("root/empty", "", 0);
	write_file("root/large", large, LARGE);
	write_file("root/sub/index.html", "sub", 3);
	if (mkfifo("root/fifo", 0644) != 0)
		fail("no fifo");
	add_server_option("--root");
	add_server_option("root");
}

/* A test on a slow machine must not count as a slow client. Even if the timeout
 * is short, other processes may have the CPU for some seconds between a connection and its first
 * byte. */
#define MUCH_TIME "60"
#define LITTLE_TIME "5"
static char timeout[3] = MUCH_TIME;

static void restart_with_timeout(const char *seconds)
{
	end_server();
	strcpy(timeout, seconds);
	start_server(0);
}

/* ------------------------------------------------------------------- Answers */

struct answer {
	int status;
	char head[4096];
	size_t length; /* as promised */
};

static struct answer read_head(int fd)
{
	struct answer a = { 0 };
	const char *length;
	size_t n = 0;

	while (n < 4 || memcmp(a.head + n - 4, "\r\n\r\n", 4) != 0) {
		if (n == sizeof(a.head) - 1 || recv(fd, a.head + n, 1, 0) != 1) {
			print_bytes("got", a.head, n);
			fail("no head of an answer");
		}
		n++;
	}
	if (sscanf(a.head, "HTTP/1.1 %d ", &a.status) != 1)
		fail(a.head);
	length = strstr(a.head, "\r\nContent-Length: ");
	if (!length || !strstr(a.head, "\r\nDate: ") || !strstr(a.head, " GMT\r\n") ||
	    !strstr(a.head, "\r\nContent-Type: "))
		fail(a.head);
	a.length = (size_t)atol(length + 18);
	return a;
}

static void expect_status(struct answer a, int wanted)
{
	if (a.status == wanted)
		return;
	fprintf(stderr, "wanted %d, got %s", wanted, a.head);
	fail("another status");
}

static void expect_file(int fd, const char *bytes, size_t n)
{
	struct answer a = read_head(fd);

	expect_status(a, 200);
	if (a.length != n)
		fail(a.head);
	expect_bytes(fd, bytes, n);
}

/* An error's text is its status line. */
static void expect_error(int fd, int status)
{
	struct answer a = read_head(fd);
	char text[64];

	expect_status(a, status);
	if (a.length >= sizeof(text))
		fail(a.head);
	memcpy(text, a.head + 9, a.length);
	text[a.length - 1] = '\n';
	expect_bytes(fd, text, a.length);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void check_alive(int fd)
{
	SEND(fd, GET("/a.txt"));
	expect_file(fd, "0123456789", 10);
}

/* ----------------------------------------------------------------------- Tests */

static void get_existing_file_returns_bytes(void)
{
	int fd = connect_to_server();
	struct answer a;

	check_alive(fd);
	SEND(fd, GET("/"));
	expect_file(fd, "home", 4);
	SEND(fd, GET("/empty"));
	expect_file(fd, "", 0);
	SEND(fd, GET("/sub/"));
	expect_file(fd, "sub", 3);
	SEND(fd, GET("/large"));
	expect_file(fd, large, LARGE);
	SEND(fd, GET("/a.txt?query=/../x"));
	expect_file(fd, "0123456789", 10);
	SEND(fd, "GET http://some.where:80/a.txt HTTP/1.1\r\nHost: Some.where:80\r\n\r\n");
	expect_file(fd, "0123456789", 10);
	SEND(fd, "GET /a%20b.css HTTP/1.1\r\nhost:\r\nX:\r\n\r\n");
	a = read_head(fd);
	expect_status(a, 200);
	if (!strstr(a.head, "\r\nContent-Type: text/css\r\n"))
		fail(a.head);
	EXPECT(fd, "css");
	SEND(fd, "HEAD /large HTTP/1.1\r\nHost: x\r\n\r\nHEAD /none HTTP/1.1\r\nHost: x\r\n\r\n");
	a = read_head(fd);
	if (a.status != 200 || a.length != LARGE)
		fail(a.head);
	expect_status(read_head(fd), 404);
	SEND(fd, GET("/sub?q"));
	a = read_head(fd);
	expect_status(a, 301);
	if (!strstr(a.head, "\r\nLocation: /sub/\r\n"))
		fail(a.head);
	EXPECT(fd, "301 Moved Permanently\n");
	check_alive(fd);
	close(fd);
}

static void get_missing_file_returns_404_and_keeps_connection(void)
{
	int fd = connect_to_server();
	struct answer a;

	SEND(fd, GET("/none") GET("/a.txt/x") GET("/fifo") GET("/%zz") GET("/a%"));
	expect_error(fd, 404);
	expect_error(fd, 404);
	expect_error(fd, 404);
	expect_error(fd, 400);
	expect_error(fd, 400);
	SEND(fd, "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nGET /");
	a = read_head(fd);
	expect_status(a, 405);
	if (!strstr(a.head, "\r\nAllow: GET, HEAD\r\n"))
		fail(a.head);
	EXPECT(fd, "405 Method Not Allowed\n");
	SEND(fd, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		 "3\r\nabc\r\n0\r\n\r\n");
	expect_error(fd, 405);
	SEND(fd, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
	expect_error(fd, 405);
	check_alive(fd);
	close(fd);
}

static void path_outside_of_root_is_refused(void)
{
	static const char *const paths[] = {
		"/../secret",
		"/../../../../etc/passwd",
		"/sub/../../secret",
		"/%2e%2e/secret",
		"/%2E./secret",
		"/..%2fsecret",
		"/sub/..%2f..%2fsecret",
		"//etc/passwd",
		"/sub//../../secret",
		"/./../secret",
		"/.hidden",
		"/sub/../.hidden",
		"/%2ehidden",
		"/a.txt%00.html",
		"/%00",
		"/..",
		"/sub/..",
		"/....//secret",
	};
	int fd = connect_to_server();
	char request[256];

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct answer a;
		char body[64];

		snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", paths[i]);
		send_bytes(fd, request, strlen(request));
		a = read_head(fd);
		if (a.status != 403 && a.status != 400)
			fail(paths[i]);
		if (recv(fd, body, a.length, MSG_WAITALL) != (ssize_t)a.length)
			fail("no body");
	}
	close(fd);
}

static void broken_request_gets_error_and_ends_connection(void)
{
	static const struct {
		const char *request;
		int status;
	} broken[] = {
		{ "what is this\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\n\r\n", 400 }, /* no Host */
		{ "GET / HTTP/1.1\r\nHost: a\r\nhOsT: b\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400 },
		{ "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505 },
		{ "GET / HTTX\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n", 400 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		  400 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
		  "Transfer-Encoding: chunked\r\n\r\n",
		  400 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", 413 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
		  "chunked\r\n\r\nffffffffffffffffff",
		  400 },
		{ "\x16\x03\x01\x02", 400 }, /* TLS */
	};

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		int fd = connect_to_server();

		print_bytes("  ", broken[i].request, strlen(broken[i].request));
		SEND(fd, GET("/a.txt"));
		send_bytes(fd, broken[i].request, strlen(broken[i].request));
		SEND(fd, GET("/a.txt"));
		shutdown(fd, SHUT_WR);
		expect_file(fd, "0123456789", 10);
		expect_error(fd, broken[i].status);
		expect_end(fd);
	}
}

/* One answer, which is the error, and then the end of the connection. */
static void smuggling_case_gets_one_error(void)
{
	for (size_t i = 0; i < HTTP_CASES; i++) {
		const struct http_case *c = &http_cases[i];
		int fd = connect_to_server();

		send_bytes(fd, c->bytes, c->n);
		expect_one_error(fd, c->status, c->name);
	}
}

/* A child opens the FIFO for writing, which must not return. */
static void get_of_fifo_keeps_writer_waiting(void)
{
	int fd = connect_to_server();
	pid_t pid = fork();
	int status;

	if (pid < 0)
		fail("fork");
	if (pid == 0)
		_exit(open("root/fifo", O_WRONLY) < 0);
	sleep_ms(200); /* until it waits */
	for (int i = 0; i < 3; i++) {
		SEND(fd, GET("/fifo"));
		expect_error(fd, 404);
	}
	sleep_ms(100);
	if (waitpid(pid, &status, WNOHANG) != 0)
		fail("the writer of a FIFO was woken");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void unknown_method_gets_501_and_ends_connection(void)
{
	int fd = connect_to_server();

	SEND(fd, "BREW / HTTP/1.1\r\nHost: x\r\n\r\n" GET("/a.txt"));
	expect_error(fd, 501);
	expect_end(fd);
}

static void request_over_limit_is_refused(void)
{
	static char much[100000];
	int fd;

	memset(much, 'a', sizeof(much));
	fd = connect_to_server();
	SEND(fd, "GET /");
	send_bytes(fd, much, 3000);
	expect_error(fd, 414);
	expect_end(fd);

	fd = connect_to_server();
	SEND(fd, "GET / HTTP/1.1\r\nHost: x\r\nX: ");
	send_bytes(fd, much, sizeof(much));
	expect_error(fd, 431);
	expect_end(fd);

	fd = connect_to_server();
	SEND(fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n");
	send_bytes(fd, much, sizeof(much));
	expect_error(fd, 413);
	expect_end(fd);
}

static void connection_persists_as_request_asks(void)
{
	int fd = connect_to_server();
	struct answer a;

	SEND(fd, "GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" GET("/"));
	a = read_head(fd);
	if (!strstr(a.head, "\r\nConnection: close\r\n"))
		fail(a.head);
	EXPECT(fd, "0123456789");
	expect_end(fd);

	fd = connect_to_server();
	SEND(fd, "GET /a.txt HTTP/1.0\r\n\r\n");
	expect_file(fd, "0123456789", 10);
	expect_end(fd);

	fd = connect_to_server();
	SEND(fd, "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	a = read_head(fd);
	if (!strstr(a.head, "\r\nConnection: keep-alive\r\n"))
		fail(a.head);
	EXPECT(fd, "0123456789");
	check_alive(fd);
	shutdown(fd, SHUT_WR);
	expect_end(fd);
}

static void pipeline_cut_anywhere_gets_same_answers(void)
{
	static const char pipeline[] =
		GET("/a.txt") "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
			      "\r\nabc\r\n" GET("/none") GET("/sub/");
	int fd = connect_to_server();

	for (size_t cut = 0; cut < sizeof(pipeline); cut++) {
		send_bytes(fd, pipeline, cut);
		sleep_ms(1);
		send_bytes(fd, pipeline + cut, sizeof(pipeline) - 1 - cut);
		expect_file(fd, "0123456789", 10);
		expect_error(fd, 405);
		expect_error(fd, 404);
		expect_file(fd, "sub", 3);
	}
	for (int i = 0; i < 20; i++)
		SEND(fd, GET("/a.txt") GET("/large") GET("/a.txt"));
	for (int i = 0; i < 20; i++) {
		expect_file(fd, "0123456789", 10);
		expect_file(fd, large, LARGE);
		expect_file(fd, "0123456789", 10);
	}
	close(fd);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void unfinished_request_gets_408(void)
{
	static const char request[] =
		"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaa";
	int fd = connect_to_server();

	check_alive(fd);
	SEND(fd, "GET / HT");
	expect_error(fd, 408);
	expect_end(fd);

	/* Bytes that keep coming do not help. */
	double began = seconds();

	fd = connect_to_server();
	for (size_t i = 0; i < sizeof(request) - 1; i++) {
		char c;

		if (send(fd, request + i, 1, MSG_NOSIGNAL) != 1)
			break;
		if (recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) > 0)
			break;
		sleep_ms(50);
	}
	expect_error(fd, 408);
	if (seconds() - began < atoi(timeout) - 0.1)
		fail("it has no patience");
	close(fd);
}

static void client_without_request_is_disconnected(void)
{
	int silent = connect_to_server();
	int kept = connect_to_server();
	int newlines = connect_to_server();

	check_alive(kept);
	SEND(newlines, "\r\n");
	expect_end(silent);
	expect_end(kept);
	expect_end(newlines);
}

static void client_that_reads_nothing_is_disconnected(void)
{
	int other = connect_to_server();
	int before = count_descriptors();
	int fds[3];

	for (int i = 0; i < 3; i++) {
		fds[i] = connect_to_server();
		SEND(fds[i], GET("/large") GET("/large"));
	}
	for (int i = 0; i < 3; i++)
		read_head(fds[i]);
	wait_for_descriptors(before);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(other);
}

/* It reads less in the timeout than makes a socket writable again. */
static void steady_slow_reader_gets_whole_file(void)
{
	int fd = connect_to_server();
	struct answer a;

	SEND(fd, GET("/large"));
	a = read_head(fd);
	expect_bytes_slowly(fd, large, a.length, atoi(timeout));
	check_alive(fd);
	close(fd);
}

static void garbage_and_resets_leak_no_descriptor(void)
{
	int before = count_descriptors();

	for (int i = 0; i < 300; i++) {
		int fd = connect_to_server();
		char bytes[2000];

		make_garbage(bytes, sizeof(bytes));
		if (i % 3 == 0)
			SEND(fd, "GET /");
		if (i % 3 == 1)
			SEND(fd, GET("/large"));
		else
			send_bytes(fd, bytes, sizeof(bytes));
		if (i % 2)
			reset_connection(fd);
		else
			close(fd);
	}
	int fd = connect_to_server();

	check_alive(fd);
	close(fd);
	wait_for_descriptors(before);
}

static void concurrent_connections_get_their_answers(void)
{
	enum { MANY = 300 };
	int fds[MANY];

	for (int i = 0; i < MANY; i++)
		fds[i] = connect_to_server();
	for (int i = 0; i < MANY; i++)
		SEND(fds[i], GET("/a.txt") GET("/sub/"));
	for (int i = 0; i < MANY; i++) {
		expect_file(fds[i], "0123456789", 10);
		expect_file(fds[i], "sub", 3);
		close(fds[i]);
	}
}

static void sigterm_during_answer_completes_it(void)
{
	int idle = connect_to_server();
	int loading = connect_to_server();
	struct answer a;

	check_alive(idle);
	SEND(loading, GET("/large") GET("/a.txt"));
	a = read_head(loading);
	if (kill(server_pid, SIGTERM) != 0)
		fail("kill");
	expect_end(idle);
	expect_bytes(loading, large, a.length);
	end_server();
	close(loading);
	start_server(0);
}

/* The same for a server that waits for little time only. */
#define IMPATIENT(test)                                                                            \
	static void test##_in_time(void)                                                           \
	{                                                                                          \
		restart_with_timeout(LITTLE_TIME);                                                 \
		test();                                                                            \
		restart_with_timeout(MUCH_TIME);                                                   \
	}
IMPATIENT(unfinished_request_gets_408)
IMPATIENT(client_without_request_is_disconnected)
IMPATIENT(client_that_reads_nothing_is_disconnected)
IMPATIENT(steady_slow_reader_gets_whole_file)

static const struct test tests[] = {
	TEST_OF(get_existing_file_returns_bytes),
	TEST_OF(get_missing_file_returns_404_and_keeps_connection),
	TEST_OF(path_outside_of_root_is_refused),
	TEST_OF(broken_request_gets_error_and_ends_connection),
	TEST_OF(smuggling_case_gets_one_error),
	TEST_OF(get_of_fifo_keeps_writer_waiting),
	TEST_OF(unknown_method_gets_501_and_ends_connection),
	TEST_OF(request_over_limit_is_refused),
	TEST_OF(connection_persists_as_request_asks),
	TEST_OF(pipeline_cut_anywhere_gets_same_answers),
	TEST_THAT_WAITS(unfinished_request_gets_408_in_time),
	TEST_THAT_WAITS(client_without_request_is_disconnected_in_time),
	TEST_THAT_WAITS(client_that_reads_nothing_is_disconnected_in_time),
	TEST_THAT_WAITS(steady_slow_reader_gets_whole_file_in_time),
	TEST_OF(garbage_and_resets_leak_no_descriptor),
	TEST_OF(concurrent_connections_get_their_answers),
	TEST_OF(sigterm_during_answer_completes_it),
};

int main(int argc, char **argv)
{
	if (argc < 2)
		fail("usage: httpclient FOLDER [TEST...] -- HTTPD [OPTION...]");
	make_folder(argv[1]);
	add_server_option("--timeout");
	add_server_option(timeout);
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc - 1, argv + 1);
}
