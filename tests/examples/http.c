/* SPDX-License-Identifier: MIT */
/* Unit test of examples/http.c: the events of each stream, for reads of every size. */
#include "check.h"

#include "http.h"
#include "httpcases.h"

#include <stdio.h>
#include <stdlib.h>

/* What the parser makes of a stream that comes in reads of `piece` bytes, as text. */
static char *events_of(const char *bytes, size_t n, size_t piece, enum http_kind kind,
		       enum http_method method)
{
	static struct http_message m;
	struct buf in = { 0 }, said = { 0 };
	char text[64];
	bool goes_on = true;

	http_begin(&m, kind, HTTP_BODY_MOST);
	m.method = method;
	for (size_t at = 0; at < n && goes_on; at += piece) {
		bool more = false;

		buf_add(&in, bytes + at, n - at < piece ? n - at : piece);
		while (goes_on && !more) {
			switch (http_parse(&m, &in)) {
			case HTTP_MORE: more = true; break;
			case HTTP_HEAD_END: break;
			case HTTP_DATA: buf_add(&said, m.data, m.data_len); break;
			case HTTP_END:
				buf_add(&said, text,
					(size_t)snprintf(text, sizeof(text), "[%d]",
							 kind == HTTP_REQUEST ? (int)m.method
									      : m.code));
				http_begin(&m, kind, HTTP_BODY_MOST);
				m.method = method;
				break;
			case HTTP_ERROR:
				buf_add(&said, text,
					(size_t)snprintf(text, sizeof(text), "!%d", m.status));
				assert_int_equal(http_parse(&m, &in), HTTP_ERROR);
				goes_on = false;
			}
		}
	}
	if (goes_on && http_parse_end(&m))
		buf_add(&said, "[close]", 7);
	buf_add(&said, "", 1);
	buf_free(&in);
	return said.data;
}

static void expect_events(const char *name, const char *bytes, size_t n, enum http_kind kind,
			  enum http_method method, const char *wanted)
{
	for (size_t piece = 1; piece <= n; piece++) {
		char *got = events_of(bytes, n, piece, kind, method);

		if (strcmp(got, wanted) != 0)
			print_error("%s in reads of %zu bytes\n", name, piece);
		assert_string_equal(got, wanted);
		free(got);
	}
}
#define REQUEST(text, wanted)                                                                      \
	expect_events(text, text, sizeof(text) - 1, HTTP_REQUEST, HTTP_UNKNOWN, wanted)
#define RESPONSE(method, text, wanted)                                                             \
	expect_events(text, text, sizeof(text) - 1, HTTP_RESPONSE, method, wanted)

TEST(http_smuggling_case_is_refused_for_every_cut)
{
	for (size_t i = 0; i < HTTP_CASES; i++) {
		const struct http_case *c = &http_cases[i];
		char *got, *error;

		/* Data of the body may come before the error, but no complete message. */
		got = events_of(c->bytes, c->n, c->n, HTTP_REQUEST, HTTP_UNKNOWN);
		error = strchr(got, '!');
		if (!error || atoi(error + 1) != c->status || strchr(got, '[')) {
			print_error("%s: wanted !%d, got %s\n", c->name, c->status, got);
			assert_true(false);
		}
		expect_events(c->name, c->bytes, c->n, HTTP_REQUEST, HTTP_UNKNOWN, got);
		free(got);
	}
}

TEST(http_valid_requests_are_parsed_for_every_cut)
{
	REQUEST("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "[1]");
	REQUEST("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "[1]");
	REQUEST("GET / HTTP/1.0\r\n\r\nHEAD /a?b HTTP/1.1\r\nhOST:\r\nX:\t y \r\n\r\n", "[1][2]");
	REQUEST("GET http://X:1/ HTTP/1.1\r\nHost: x:1\r\n\r\n", "[1]");
	REQUEST("OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "[7]");
	REQUEST("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "[1]");
	REQUEST("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n",
		"abc[3][1]");
	REQUEST("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
		"3\r\nabc\r\n00a\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"abc0123456789[4][1]");
}

TEST(http_limit_is_position_in_stream)
{
	static char head[HTTP_HEAD_MOST + 100];
	int n;

	n = snprintf(head, sizeof(head), "GET /%0*d HTTP/1.1\r\n", HTTP_URL_MOST, 0);
	expect_events("long target", head, (size_t)n, HTTP_REQUEST, HTTP_UNKNOWN, "!414");
	n = snprintf(head, sizeof(head), "GET /%0*d", HTTP_LINE_MOST, 0);
	expect_events("long line", head, (size_t)n, HTTP_REQUEST, HTTP_UNKNOWN, "!414");
	n = snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nX: %0*d", HTTP_HEAD_MOST, 0);
	expect_events("long head", head, (size_t)n, HTTP_REQUEST, HTTP_UNKNOWN, "!431");
	n = snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: x\r\n");
	for (int i = 0; i < HTTP_FIELDS_MOST; i++)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "X: y\r\n");
	expect_events("many fields", head, (size_t)n, HTTP_REQUEST, HTTP_UNKNOWN, "!431");
	REQUEST("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", "!413");
	REQUEST("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n",
		"!413");
}

TEST(http_response_is_framed_by_method_and_status)
{
	RESPONSE(HTTP_GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc[200]");
	RESPONSE(HTTP_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "[200]");
	RESPONSE(HTTP_GET, "HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n", "[304]");
	RESPONSE(HTTP_GET, "HTTP/1.1 100 \r\n\r\nHTTP/1.1 204 \r\n\r\n", "[100][204]");
	RESPONSE(HTTP_GET,
		 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		 "a[200]");
	RESPONSE(HTTP_GET, "HTTP/1.0 200 OK\r\n\r\nabc", "abc[close]");
	RESPONSE(HTTP_GET, "HTTP/1.1 204 \r\nContent-Length: 3\r\n\r\n", "!502");
	RESPONSE(HTTP_GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
		 "!502");
	RESPONSE(HTTP_GET,
		 "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "!502");
	RESPONSE(HTTP_GET, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "!502");
	RESPONSE(HTTP_GET, "HTTP/1.1 200 OK\nContent-Length: 3\r\n\r\n", "!502");
	RESPONSE(HTTP_GET, "HTTP/1.1 2000 OK\r\n\r\n", "!502");
}
