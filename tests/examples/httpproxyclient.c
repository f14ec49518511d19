/* SPDX-License-Identifier: MIT */
/*
 * Tests proxy --http: what reaches the target, what reaches the client, and how both connections
 * end.
 *
 *   httpproxyclient [TEST...] -- PROXY --http [OPTION...]
 *
 * The test is both the client and the target.
 */
#include "httpcases.h"
#include "peer.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* -1: the proxy did not dial. Its dial ends before the client gets an answer. */
static int accept_if_dialled(void)
{
	struct pollfd p = { .fd = target_listener, .events = POLLIN };

	return poll(&p, 1, 0) > 0 ? accept_as_target() : -1;
}

static void send_text(int fd, const char *text)
{
	send_bytes(fd, text, strlen(text));
}

static void expect_text(int fd, const char *text)
{
	expect_bytes(fd, text, strlen(text));
}

/* A request and its response, as each side sends it and as the other gets it. */
struct exchange {
	const char *sent;
	const char *at_target;
	const char *answer;
	const char *at_client;
	bool ends; /* the connection to the client */
};

static void run_exchange(int client, const struct exchange *e)
{
	int target;

	print_bytes("  ", e->sent, strlen(e->sent));
	send_text(client, e->sent);
	target = accept_as_target();
	expect_text(target, e->at_target);
	send_text(target, e->answer);
	shutdown(target, SHUT_WR);
	expect_text(client, e->at_client);
	if (e->ends)
		expect_end(client);
	expect_end(target);
}

#define GET "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define HEAD "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
#define VIA "Via: 1.1 gmp\r\n"
#define TO_TARGET "Host: x\r\n" VIA "Connection: close\r\n\r\n"
#define GET_TO_TARGET "GET / HTTP/1.1\r\n" TO_TARGET
#define OK "HTTP/1.1 200 OK\r\n"
#define EMPTY OK "Content-Length: 0\r\n\r\n"
#define EMPTY_TO_CLIENT OK VIA "Content-Length: 0\r\n\r\n"
#define BAD_GATEWAY                                                                                \
	"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n"           \
	"Connection: close\r\n\r\n502 Bad Gateway\n"

static void request_is_reframed(void)
{
	static const struct exchange exchanges[] = {
		{ GET, GET_TO_TARGET, EMPTY, EMPTY_TO_CLIENT, false },
		{ "GET http://x/a?b HTTP/1.1\r\nHost: X\r\n\r\n",
		  "GET /a?b HTTP/1.1\r\nHost: X\r\n" VIA "Connection: close\r\n\r\n", EMPTY,
		  EMPTY_TO_CLIENT, false },
		{ "GET / HTTP/1.1\r\nHost: x\r\nA:  b \r\nTE: trailers\r\nUpgrade: h2c\r\n"
		  "Keep-Alive: x\r\nConnection: upgrade, C\r\nC: d\r\nContent_Length: 9\r\n"
		  "Proxy-Connection: x\r\n\r\n",
		  "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n" VIA "Connection: close\r\n\r\n", EMPTY,
		  EMPTY_TO_CLIENT, false },
		{ "POST / HTTP/1.1\r\nContent-Length: 003\r\nHost: x\r\n\r\nabc",
		  "POST / HTTP/1.1\r\nHost: x\r\n" VIA
		  "Content-Length: 3\r\nConnection: close\r\n\r\nabc",
		  EMPTY, EMPTY_TO_CLIENT, false },
		{ "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
		  "00A\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
		  "POST / HTTP/1.1\r\nHost: x\r\n" VIA "Transfer-Encoding: chunked\r\n"
		  "Connection: close\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
		  EMPTY, EMPTY_TO_CLIENT, false },
		{ "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", GET_TO_TARGET, EMPTY,
		  OK VIA "Content-Length: 0\r\nConnection: close\r\n\r\n", true },
	};
	int client = connect_to_server();

	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		run_exchange(client, &exchanges[i]);
}

static void response_is_reframed(void)
{
	static const struct exchange exchanges[] = {
		{ GET, GET_TO_TARGET,
		  OK "A: b\r\nConnection: close, C\r\nC: d\r\nContent-Length: 3\r\n\r\nabc",
		  OK "A: b\r\n" VIA "Content-Length: 3\r\n\r\nabc", false },
		{ GET, GET_TO_TARGET, OK "Content-Length: 3\r\n\r\nabc" OK "\r\npoison",
		  OK VIA "Content-Length: 3\r\n\r\nabc", false },
		{ GET, GET_TO_TARGET,
		  OK "Transfer-Encoding: chunked\r\n\r\n03\r\nabc\r\n0\r\nX: y\r\n\r\n",
		  OK VIA "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false },
		{ GET, GET_TO_TARGET, "HTTP/1.0 200 OK\r\n\r\nabc",
		  OK VIA "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false },
		{ HEAD, "HEAD / HTTP/1.1\r\n" TO_TARGET, OK "Content-Length: 3\r\n\r\n",
		  OK VIA "Content-Length: 3\r\n\r\n", false },
		{ GET, GET_TO_TARGET, "HTTP/1.1 204 No\r\n\r\n", "HTTP/1.1 204 No\r\n" VIA "\r\n",
		  false },
		{ GET, GET_TO_TARGET, "HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n",
		  "HTTP/1.1 304 No\r\n" VIA "Content-Length: 3\r\n\r\n", false },
		{ GET, GET_TO_TARGET, "HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" EMPTY,
		  "HTTP/1.1 103 Hints\r\nA: b\r\n" VIA "\r\n" EMPTY_TO_CLIENT, false },
		{ "GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", GET_TO_TARGET,
		  OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		  OK VIA "Connection: close\r\n\r\nabc", true },
	};
	int client = connect_to_server();

	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		run_exchange(client, &exchanges[i]);
}

static void ambiguous_response_gets_502(void)
{
	static const char *const answers[] = {
		OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		OK "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		OK "Content-Length: 3, 3\r\n\r\nabc",
		OK "Content-Length: +3\r\n\r\nabc",
		OK "Content-Length : 3\r\n\r\nabc",
		OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		OK "X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
		OK "X: a\rb\r\nContent-Length: 0\r\n\r\n",
		OK "Content-Length: 3\r\n",
		"abc",
		"",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct exchange e = { GET, GET_TO_TARGET, answers[i], BAD_GATEWAY, true };

		run_exchange(connect_to_server(), &e);
	}
}

/* The head was sent before the error: the client must not take the body for complete. */
static void truncated_response_resets_client(void)
{
	static const char *const answers[] = {
		OK "Content-Length: 4\r\n\r\nabc",
		OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		int client = connect_to_server();
		int target;

		SEND(client, GET);
		target = accept_as_target();
		EXPECT(target, GET_TO_TARGET);
		send_text(target, answers[i]);
		close(target);
		expect_reset_after_bytes(client);
	}
}

#define OLD_GET "GET / HTTP/1.0\r\nHost: x\r\n\r\n"
#define UNTIL_CLOSE OK "\r\nabc"

static void expect_head(int client, int minor)
{
	if (minor == 1)
		EXPECT(client, OK VIA "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	else
		EXPECT(client, OK VIA "Connection: close\r\n\r\nabc");
}

/* An HTTP/1.1 client must get no last chunk, an HTTP/1.0 client no FIN. */
static void response_until_close_cut_by_reset_resets_client(void)
{
	for (int i = 0; i < 20; i++) {
		int client = connect_to_server();
		int target;
		char c;

		send_text(client, i % 2 ? GET : OLD_GET);
		target = accept_as_target();
		EXPECT(target, GET_TO_TARGET);
		SEND(target, UNTIL_CLOSE);
		if (i < 10)
			expect_head(client, i % 2);
		reset_connection(target);
		if (i >= 10)
			expect_reset_after_bytes(client);
		else if (recv(client, &c, 1, 0) >= 0)
			fail("bytes or an end of stream instead of a reset");
		else
			close(client);
	}
}

/* The reset is reported to the write of the request's body; the read of the response then returns
 * an end of stream. */
static void response_until_close_after_failed_request_body_resets_client(void)
{
	enum { SIZE = 32 << 20 };
	char *body = calloc(1, SIZE);

	for (int i = 0; i < 2; i++) {
		int client = connect_to_server();
		char head[128];
		int target;

		snprintf(head, sizeof(head),
			 "POST / HTTP/1.%d\r\nHost: x\r\nContent-Length: %d\r\n\r\n", i, SIZE);
		send_text(client, head);
		target = accept_as_target();
		EXPECT(target, "POST"); /* the dial of the proxy has ended */
		while (send(client, body, SIZE, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
			;
		SEND(target, UNTIL_CLOSE);
		reset_connection(target);
		expect_reset_after_bytes(client);
	}
	free(body);
}

static void response_until_close_cut_by_sigterm_resets_client(void)
{
	for (int minor = 0; minor <= 1; minor++) {
		int client = connect_to_server();
		int target;

		send_text(client, minor == 1 ? GET : OLD_GET);
		target = accept_as_target();
		EXPECT(target, GET_TO_TARGET);
		SEND(target, UNTIL_CLOSE);
		expect_head(client, minor);
		end_server();
		expect_reset(client);
		close(target);
		start_server(0);
	}
}

/* The client gets one error; the target gets no smuggled request, and no complete body. */
static void smuggling_case_is_not_forwarded(void)
{
	for (size_t i = 0; i < HTTP_CASES; i++) {
		const struct http_case *c = &http_cases[i];
		int client = connect_to_server();
		char bytes[4096];
		ssize_t n;
		int target;

		send_bytes(client, c->bytes, c->n);
		expect_one_error(client, c->status, c->name);
		while ((target = accept_if_dialled()) >= 0) {
			n = recv(target, bytes, sizeof(bytes) - 1, MSG_WAITALL);
			bytes[n > 0 ? n : 0] = '\0';
			if (strstr(bytes, "smuggled") || strstr(bytes, "0\r\n\r\n")) {
				print_bytes("forwarded", bytes, (size_t)n);
				fail(c->name);
			}
			close(target);
		}
	}
}

static void expectation_is_answered_by_proxy(void)
{
	int client = connect_to_server();
	int target;

	SEND(client,
	     "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	target = accept_as_target();
	EXPECT(client, "HTTP/1.1 100 Continue\r\n\r\n");
	SEND(client, "abc");
	EXPECT(target, "PUT / HTTP/1.1\r\nHost: x\r\n" VIA
		       "Content-Length: 3\r\nConnection: close\r\n\r\nabc");
	SEND(target, EMPTY);
	EXPECT(client, EMPTY_TO_CLIENT);
	close(target);
	close(client);
}

/* Of an option that is given twice, the last one counts. */
static void restart_with_timeout(char *seconds)
{
	static char option[] = "--timeout";

	end_server();
	add_server_option(option);
	add_server_option(seconds);
	start_server(0);
}

static char two_seconds[] = "2";
#define MUCH_HEAD "Content-Length: 25165824\r\n\r\n"

/* Send a response of 24 MiB, as far as the sockets take it, to what the proxy dialled. */
static void send_much(int target, const char *bytes, size_t n)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		for (ssize_t sent; n > 0; bytes += sent, n -= (size_t)sent) {
			struct pollfd p = { .fd = target, .events = POLLOUT };

			poll(&p, 1, -1);
			sent = send(target, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (sent < 0)
				_exit(1);
		}
		_exit(0);
	}
	close(target);
}

/* It reads less in the timeout than makes a socket writable again. */
static void steady_slow_reader_gets_whole_response(void)
{
	enum { SIZE = 24 << 20 };
	char *body = malloc(SIZE);
	int client, target;

	restart_with_timeout(two_seconds);
	make_garbage(body, SIZE);
	client = connect_to_server();
	SEND(client, GET);
	target = accept_as_target();
	EXPECT(target, GET_TO_TARGET);
	SEND(target, OK MUCH_HEAD);
	send_much(target, body, SIZE);
	EXPECT(client, OK VIA MUCH_HEAD);
	expect_bytes_slowly(client, body, SIZE, 2);
	close(client);
	free(body);
}

/* The descriptors of the client and of the target are closed. */
static void client_that_reads_nothing_is_closed(void)
{
	enum { SIZE = 24 << 20 };
	char *body = calloc(1, SIZE);
	int client, target, before;

	restart_with_timeout(two_seconds);
	before = count_descriptors();
	client = connect_to_server();
	SEND(client, GET);
	target = accept_as_target();
	EXPECT(target, GET_TO_TARGET);
	SEND(target, OK MUCH_HEAD);
	send_much(target, body, SIZE);
	EXPECT(client, OK VIA MUCH_HEAD);
	wait_for_descriptors(before);
	close(client);
	free(body);
}

static void connection_field_over_limit_is_refused(void)
{
	static const char *const heads[] = { "GET / HTTP/1.1\r\nHost: x\r\n",
					     OK "Content-Length: 0\r\n" };

	for (int i = 0; i < 4; i++) {
		int client = connect_to_server();
		int target = -1;
		char head[512];
		size_t n = (size_t)sprintf(head, "%sC: d\r\nConnection: C", heads[i % 2]);

		for (int k = 1; k < (i < 2 ? 32 : 33); k++)
			n += (size_t)sprintf(head + n, " ,,t%d", k);
		strcpy(head + n, "\r\n\r\n");
		send_text(client, i % 2 ? GET : head);
		if (i == 2) {
			expect_one_error(client, 431, head);
			continue;
		}
		target = accept_as_target();
		EXPECT(target, GET_TO_TARGET);
		send_text(target, i % 2 ? head : EMPTY);
		if (i == 3)
			expect_one_error(client, 502, head);
		else
			EXPECT(client, EMPTY_TO_CLIENT);
		close(target);
		if (i != 3)
			close(client);
	}
}

static void interim_responses_over_limit_get_502(void)
{
	for (int count = 10; count <= 11; count++) {
		int client = connect_to_server();
		int target;

		SEND(client, GET);
		target = accept_as_target();
		EXPECT(target, GET_TO_TARGET);
		for (int i = 0; i < count; i++)
			SEND(target, "HTTP/1.1 103 Hints\r\n\r\n");
		SEND(target, EMPTY);
		for (int i = 0; i < 10; i++)
			EXPECT(client, "HTTP/1.1 103 Hints\r\n" VIA "\r\n");
		if (count == 10)
			EXPECT(client, EMPTY_TO_CLIENT);
		else
			EXPECT(client, BAD_GATEWAY);
		close(target);
		close(client);
	}
}

/* Send a byte in each 200 ms until there is an answer at `reader`, for four timeouts at most. */
static void send_slowly(int writer, int reader)
{
	struct pollfd p = { .fd = reader, .events = POLLIN };

	for (int i = 0; i < 40; i++) {
		send(writer, "a", 1, MSG_NOSIGNAL);
		if (poll(&p, 1, 200) > 0)
			return;
	}
	fail("a slow head has no time limit");
}

static void slow_head_ends_after_timeout(void)
{
	int client, target;

	restart_with_timeout(two_seconds);
	client = connect_to_server();
	SEND(client, "GET / HTTP/1.1\r\nHost: ");
	send_slowly(client, client);
	expect_one_error(client, 408, "slow request");

	client = connect_to_server();
	SEND(client, GET);
	target = accept_as_target();
	EXPECT(target, GET_TO_TARGET);
	SEND(target, OK "A: ");
	send_slowly(target, client);
	expect_one_error(client, 504, "slow response");
	close(target);
}

static const struct test tests[] = {
	TEST_OF(request_is_reframed),
	TEST_OF(response_is_reframed),
	TEST_OF(ambiguous_response_gets_502),
	TEST_OF(truncated_response_resets_client),
	TEST_OF(smuggling_case_is_not_forwarded),
	TEST_OF(expectation_is_answered_by_proxy),
	TEST_OF(response_until_close_cut_by_reset_resets_client),
	TEST_OF(response_until_close_after_failed_request_body_resets_client),
	TEST_OF(response_until_close_cut_by_sigterm_resets_client),
	TEST_OF(connection_field_over_limit_is_refused),
	TEST_OF(interim_responses_over_limit_get_502),
	TEST_OF(slow_head_ends_after_timeout),
	TEST_OF(steady_slow_reader_gets_whole_response),
	TEST_OF(client_that_reads_nothing_is_closed),
};

int main(int argc, char **argv)
{
	listen_as_target();
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
