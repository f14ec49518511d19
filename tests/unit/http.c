/* SPDX-License-Identifier: MIT */
/* Tests that the debug server parses requests strictly, and escapes and frames its answers.
 * floors 0..6 */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "observe/serve/server.h"

#define END "\r\n\r\n"
#define HOST "\r\nHost: localhost"

static struct debug_head h;

/* Returns the status of a head that is given in full, 0 if it is good, -1 if it has no end. The
 * result must not depend on how the bytes are cut. */
static int parse(const char *text, size_t n, const char *name)
{
	size_t seen = 0, seen_cut = 0;
	int end = debug_head_end(text, n, &seen), cut = 0;

	for (size_t i = 1; i <= n && cut == 0; i++)
		cut = debug_head_end(text, i, &seen_cut);
	CHECK_EQ(cut, end);
	if (end <= 0)
		return end ? -end : -1;
	return debug_head_parse(&h, text, (size_t)end, name);
}

#define STATUS(text) parse(text, sizeof(text) - 1, "")
#define CHECK_STATUS(text, status) CHECK_EQ(STATUS(text), status)

TEST(head_good_requests_are_parsed)
{
	CHECK_STATUS("GET /metrics HTTP/1.1" HOST END, 0);
	CHECK_STR(h.path, "/metrics");
	CHECK(h.method == DEBUG_GET && h.keep_alive && !h.http10 && !h.seconds && !h.all);
	CHECK_STATUS("HEAD /debug/green?all=1 HTTP/1.1\r\nhOsT:\t127.0.0.1:6060 \t" END, 0);
	CHECK(h.method == DEBUG_HEAD && h.all);
	CHECK_STR(h.path, "/debug/green");
	CHECK_STATUS("GET / HTTP/1.0" HOST END, 0);
	CHECK(h.http10 && !h.keep_alive);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nConnection: x, CLOSE ,y" END, 0);
	CHECK(!h.keep_alive);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: 0\r\nX: \xc3\xa9\r\nY:" END, 0);
	CHECK_STATUS("GET /?seconds=60&cputime=1&x=%00&&a HTTP/1.1" HOST END, 0);
	CHECK_EQ(h.seconds, 60);
	CHECK_EQ(h.cputime, 1);
	CHECK_STATUS("POST * HTTP/1.1" HOST "\r\nContent-Length: 5" END "GET /", 0);
	CHECK(h.method == DEBUG_OTHER);
}

TEST(head_path_that_no_page_has_is_empty)
{
	char text[200];

	snprintf(text, sizeof(text), "GET /%064d HTTP/1.1" HOST END, 0);
	CHECK_EQ(parse(text, strlen(text), ""), 0);
	CHECK_STR(h.path, "");
}

TEST(head_incomplete_needs_more)
{
	CHECK_STATUS("", -1);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\n\r", -1);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\n", -1);
}

TEST(head_bad_request_line_is_400)
{
	CHECK_STATUS("\r\nGET / HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET  / HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET / HTTP/1.1 " HOST END, 400);
	CHECK_STATUS(" GET / HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET /" HOST END, 400);
	CHECK_STATUS("GET" HOST END, 400);
	CHECK_STATUS("G\"T / HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET metrics HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET http://localhost/ HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET /#a HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET /\t HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET /\xc3\xa9 HTTP/1.1" HOST END, 400);
	CHECK_STATUS("GET / http/1.1" HOST END, 400);
	CHECK_STATUS("GET / HTTP/1.1x" HOST END, 400);
	CHECK_STATUS("GET / HTTP/2.0" HOST END, 505);
	CHECK_STATUS("GET / HTTP/1.2" HOST END, 505);
}

TEST(head_long_target_is_414)
{
	char text[2000];

	snprintf(text, sizeof(text), "GET /%01024d HTTP/1.1" HOST END, 0);
	CHECK_EQ(parse(text, strlen(text), ""), 414);
}

TEST(head_bad_bytes_are_400)
{
	CHECK_STATUS("GET / HTTP/1.1\nHost: localhost\n\n", 400);
	CHECK_STATUS("GET / HTTP/1.1\rX" HOST END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nX: a\0b" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nX: \x7f" END, 400);
	CHECK_STATUS("\x16\x03\x01\x02", 400);
	CHECK_STATUS("\n", 400);
}

TEST(head_bad_fields_are_400)
{
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nX : a" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\n folded: a" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nnone" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\n: a" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST HOST END, 400);
	CHECK_STATUS("GET / HTTP/1.1\r\nX: y" END, 400);
}

TEST(head_bodies_are_refused)
{
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: 5" END, 413);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: 00005" END, 413);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: +0" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length:" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: 0x0" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: 0000000000000000000" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nContent-Length: 0\r\nContent-Length: 0" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\nTransfer-Encoding: chunked" END, 400);
	CHECK_STATUS("GET / HTTP/1.1" HOST "\r\ntransfer-encoding: identity" END, 400);
	CHECK_STATUS("POST / HTTP/1.1" HOST "\r\nTransfer-Encoding:\tchunked" END, 400);
}

TEST(head_bad_parameters_are_400)
{
#define QUERY(q) STATUS("GET /?" q " HTTP/1.1" HOST END)
	CHECK_EQ(QUERY("seconds=1"), 0);
	CHECK_EQ(QUERY("seconds=060"), 0);
	CHECK_EQ(QUERY("seconds=0"), 400);
	CHECK_EQ(QUERY("seconds=61"), 400);
	CHECK_EQ(QUERY("seconds="), 400);
	CHECK_EQ(QUERY("seconds"), 400);
	CHECK_EQ(QUERY("seconds=-1"), 400);
	CHECK_EQ(QUERY("seconds=1.5"), 400);
	CHECK_EQ(QUERY("seconds=0001"), 400);
	CHECK_EQ(QUERY("seconds=1&seconds=1"), 400);
	CHECK_EQ(QUERY("cputime=61"), 400);
	CHECK_EQ(QUERY("all=2"), 400);
	CHECK_EQ(QUERY("all=0&all=0"), 400);
}

static bool allowed(const char *host, const char *name)
{
	return debug_host_allowed(host, strlen(host), name);
}

TEST(host_of_another_name_is_refused)
{
	static const char *const good[] = { "127.0.0.1",  "10.0.0.1:6060", "[::1]",
					    "[::1]:6060", "localhost",     "LocalHost:1" };
	static const char *const bad[] = { "",
					   ":80",
					   "evil.example",
					   "evil.example:6060",
					   "localhost.evil.example",
					   "localhost.",
					   "127.0.0.1.evil",
					   "1270.0.0.1",
					   "127.1",
					   "0x7f.0.0.1",
					   "::1",
					   "[::1",
					   "[]",
					   "[localhost]",
					   "[::1]x",
					   "[::1]:",
					   "localhost:",
					   "localhost:80x",
					   "localhost:123456",
					   "localhost:80:80",
					   "localhost,x",
					   "a@localhost",
					   "127.0.0.1:80@evil" };

	for (size_t i = 0; i < countof(good); i++)
		if (!allowed(good[i], ""))
			check_failed("%s is refused", good[i]);
	for (size_t i = 0; i < countof(bad); i++)
		if (allowed(bad[i], ""))
			check_failed("%s is allowed", bad[i]);
	CHECK(allowed("Box.example:80", "box.example"));
	CHECK(!allowed("abox.example", "box.example"));
	CHECK(!allowed("box.example", "box.example2"));
}

TEST(head_host_of_another_name_is_403)
{
	CHECK_STATUS("GET / HTTP/1.1\r\nHost: evil.example" END, 403);
	CHECK_STATUS("GET / HTTP/1.1\r\nHost:" END, 403);
	CHECK_STATUS("GET / HTTP/1.0" END, 403);
	CHECK_STATUS("POST / HTTP/1.1\r\nHost: evil.example" END, 403);
}

/* --- answers --- */

static char sent[1 << 16];
static size_t sent_n;
static int send_result;

static int collect(void *to, const void *bytes, size_t n)
{
	CHECK(to == sent);
	CHECK(n > 0 && sent_n + n < sizeof(sent));
	memcpy(sent + sent_n, bytes, n);
	sent_n += n;
	sent[sent_n] = '\0';
	return send_result;
}

static struct debug_request *request(void)
{
	static struct debug_request r;

	memset(&r, 0, sizeof(r));
	r.keep = true;
	r.send = collect;
	r.to = sent;
	sent_n = 0;
	send_result = 0;
	return &r;
}

/* Decodes the chunks behind the head of `sent` in place. Returns the length of the body. */
static size_t decode_chunks(char **body)
{
	char *at = strstr(sent, END) + 4, *to = at;

	CHECK(strstr(sent, "\r\nTransfer-Encoding: chunked\r\n") != NULL);
	*body = to;
	for (unsigned long n = 1; n;) {
		char *end;

		n = strtoul(at, &end, 16);
		CHECK(end > at && memcmp(end, "\r\n", 2) == 0);
		memmove(to, end + 2, n);
		to += n;
		at = end + 2 + n;
		CHECK(memcmp(at, "\r\n", 2) == 0);
		at += 2;
	}
	CHECK(at == sent + sent_n);
	return (size_t)(to - *body);
}

TEST(answer_of_any_length_is_chunked)
{
	static const size_t lengths[] = { 0, 1, 3000, 3800, 4090, 4096, 5000, 30000 };
	static char text[30000];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	for (size_t i = 0; i < countof(lengths); i++) {
		for (size_t step = 1; step < 9000; step = step * 5 + 1) {
			struct debug_request *r = request();
			char *body;

			CHECK_EQ(debug_begin(r, "x/y"), 0);
			for (size_t n = 0; n < lengths[i]; n += step)
				debug_write(r, text + n, min_of(step, lengths[i] - n));
			debug_end(r, 0);
			CHECK(r->keep);
			CHECK_EQ(decode_chunks(&body), lengths[i]);
			CHECK(memcmp(body, text, lengths[i]) == 0);
		}
	}
}

TEST(answer_of_failed_handler_has_no_last_chunk)
{
	struct debug_request *r = request();

	debug_begin(r, "x/y");
	debug_write(r, "part", 4);
	debug_end(r, -EIO);
	CHECK(!r->keep);
	CHECK(strstr(sent, "0\r\n\r\n") == NULL);
	r = request();
	debug_end(r, -ENOMEM);
	CHECK(strncmp(sent, "HTTP/1.1 503 ", 13) == 0);
	r = request();
	debug_end(r, 0);
	CHECK(strncmp(sent, "HTTP/1.1 500 ", 13) == 0);
}

TEST(answer_after_failed_send_is_dropped)
{
	struct debug_request *r = request();
	char text[9000] = { 0 };

	send_result = -EPIPE;
	debug_begin(r, "x/y");
	CHECK_EQ(debug_write(r, text, sizeof(text)), -EPIPE);
	CHECK(sent_n <= DEBUG_ROOM + DEBUG_FRAMING);
	debug_end(r, 0);
	CHECK(sent_n <= DEBUG_ROOM + DEBUG_FRAMING);
	CHECK(!r->keep);
}

TEST(answer_to_old_client_ends_with_connection)
{
	struct debug_request *r = request();

	r->head.http10 = true;
	debug_begin(r, "x/y");
	debug_write(r, "text", 4);
	debug_end(r, 0);
	CHECK(!r->keep);
	CHECK(strstr(sent, "chunked") == NULL && strstr(sent, "\r\nConnection: close\r\n"));
	CHECK_STR(strstr(sent, END), END "text");
}

TEST(answer_to_head_has_no_body)
{
	struct debug_request *r = request();

	r->head.method = DEBUG_HEAD;
	debug_end(r, debug_answer(r, 404, "none"));
	CHECK(r->keep);
	CHECK_STR(strstr(sent, END), END);
	CHECK(strstr(sent, "\r\nContent-Length: 5\r\n") != NULL);
	r = request();
	r->head.method = DEBUG_HEAD;
	debug_begin(r, "x/y");
	debug_write(r, "text", 4);
	debug_end(r, 0);
	CHECK_STR(strstr(sent, END), END);
}

static const char *escape(const char *text, enum debug_escape how)
{
	struct debug_request *r = request();

	r->head.http10 = true;
	debug_begin(r, "x/y");
	debug_text(r, text, strlen(text), how);
	debug_end(r, 0);
	return strstr(sent, END) + 4;
}

TEST(text_of_program_is_escaped)
{
	CHECK_STR(escape("a\"b\\c\n\t\x01/", DEBUG_JSON), "a\\\"b\\\\c\\n\\u0009\\u0001/");
	CHECK_STR(escape("a\"b\\c\n\t\x01/", DEBUG_LABEL), "a\\\"b\\\\c\\n?"
							   "?/");
	CHECK_STR(escape("<a href='x'>\"&\n", DEBUG_HTML),
		  "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\n");
	CHECK_STR(escape("a\"\\\n\x1b[0m\x7f", DEBUG_PLAIN), "a\"\\\n?[0m?");
}

#define BAD "\xef\xbf\xbd"

TEST(text_invalid_utf8_is_replaced)
{
	static const char *const good[] = { "\xc2\xa0",        "\xdf\xbf",     "\xe0\xa0\x80",
					    "\xed\x9f\xbf",    "\xef\xbf\xbf", "\xf0\x90\x80\x80",
					    "\xf4\x8f\xbf\xbf" };
	static const char *const one[] = { "\x80", "\xc0", "\xc3", "\xfe", "\xff", "\xf5" };

	for (size_t i = 0; i < countof(good); i++)
		CHECK_STR(escape(good[i], DEBUG_JSON), good[i]);
	for (size_t i = 0; i < countof(one); i++)
		CHECK_STR(escape(one[i], DEBUG_JSON), BAD);
	CHECK_STR(escape("\xc0\x80", DEBUG_JSON), BAD BAD);
	CHECK_STR(escape("\xe0\x9f\xbf", DEBUG_JSON), BAD BAD BAD);
	CHECK_STR(escape("\xed\xa0\x80", DEBUG_JSON), BAD BAD BAD);
	CHECK_STR(escape("\xf4\x90\x80\x80", DEBUG_JSON), BAD BAD BAD BAD);
	CHECK_STR(escape("a\xe2\x82z", DEBUG_JSON), "a" BAD BAD "z");
	CHECK_STR(escape("\xc2\x9b", DEBUG_PLAIN), BAD);
}
