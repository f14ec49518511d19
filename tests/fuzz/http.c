/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for examples/http.c: the events of a stream must not depend on how it is cut into
 * reads, and the path of a request must be what a second decoder makes of its target. Each read
 * lies in memory of its own size, so that AddressSanitizer finds an access behind its end.
 */
#include "fuzz.h"

#include "http.h"

struct text {
	char at[1 << 16];
	size_t n;
};

static void add(struct text *t, const void *bytes, size_t n)
{
	HOLDS(n <= sizeof(t->at) - t->n);
	memcpy(t->at + t->n, bytes, n);
	t->n += n;
}

static int digit(char c)
{
	const char *digits = "00112233445566778899aAbBcCdDeEfF", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) / 2 : -1;
}

/* Decodes the path of a target /...: the part before ? and #, without escapes; or returns false. */
static bool read_path(const char *url, size_t n, char *path, size_t size)
{
	size_t out = 0, end = 0;

	while (end < n && url[end] != '?' && url[end] != '#')
		end++;
	if (end >= size)
		return false;
	for (size_t i = 0; i < end; i++, out++) {
		path[out] = url[i];
		if (url[i] == '%') {
			if (i + 2 >= end || digit(url[i + 1]) < 0 || digit(url[i + 2]) < 0)
				return false;
			path[out] = (char)(digit(url[i + 1]) << 4 | digit(url[i + 2]));
			i += 2;
		}
		if (path[out] == '\0')
			return false;
	}
	path[out] = '\0';
	return true;
}

static void check_path(const struct http_message *r, size_t size)
{
	char *path = malloc(size), *other = malloc(size);
	bool is = http_path(r, path, size);

	HOLDS(!is || (path[0] != '\0' && strlen(path) < size));
	if (r->method != HTTP_CONNECT && r->url_len > 0 && r->url[0] == '/') {
		HOLDS(is == read_path(r->url, r->url_len, other, size));
		HOLDS(!is || strcmp(path, other) == 0);
	}
	free(other);
	free(path);
}

/* Records a complete message. Returns true if httpd keeps the connection. */
static bool note(struct text *said, struct http_message *m, size_t room)
{
	char line[160];

	HOLDS(m->url_len <= sizeof(m->url) && m->minor <= 1);
	add(said, line,
	    (size_t)snprintf(line, sizeof(line),
			     "%d 1.%d code %d, %d hosts, %u fields, body %lld, kept %d, ",
			     m->method, m->minor, m->code, m->hosts, m->fields_len,
			     (long long)m->body, m->keep_alive));
	add(said, m->url, m->url_len);
	add(said, "\n", 1);
	if (m->kind == HTTP_REQUEST)
		check_path(m, room);
	return m->keep_alive;
}

/* Adds `n` bytes to what the parser left, in a block of exactly the size of both. */
static void append(struct buf *in, const uint8_t *data, size_t n)
{
	size_t left = buf_len(in);
	char *bytes = malloc(left + n);

	if (left > 0)
		memcpy(bytes, in->data + in->start, left);
	memcpy(bytes + left, data, n);
	free(in->data);
	*in = (struct buf){ .data = bytes, .end = left + n, .size = left + n };
}

/* Records the events of the stream, read in pieces of `step` bytes. */
static void parse(struct text *said, const uint8_t *data, size_t size, size_t step,
		  enum http_kind kind, size_t room)
{
	static struct http_message m;
	struct buf in = { 0 };
	bool more_messages = true;

	said->n = 0;
	http_begin(&m, kind, 3000);
	for (size_t at = 0; at < size && more_messages; at += step) {
		bool more = false;

		append(&in, data + at, size - at < step ? size - at : step);
		while (more_messages && !more) {
			switch (http_parse(&m, &in)) {
			case HTTP_MORE: more = true; break;
			case HTTP_HEAD_END: add(said, "head\n", 5); break;
			case HTTP_DATA: add(said, m.data, m.data_len); break;
			case HTTP_END:
				more_messages = note(said, &m, room);
				http_begin(&m, kind, 3000);
				break;
			case HTTP_ERROR:
				HOLDS(m.status >= 400);
				add(said, &m.status, sizeof(m.status));
				HOLDS(http_parse(&m, &in) == HTTP_ERROR);
				more_messages = false;
			}
		}
	}
	if (more_messages)
		add(said, m.begun ? "begun" : "", m.begun ? 5 : 0);
	buf_free(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct text whole, cut;

	if (size < 2 || size > 4096)
		return 0;
	enum http_kind kind = data[0] & 0x80 ? HTTP_RESPONSE : HTTP_REQUEST;
	size_t room = 1 + data[0] % 64;

	parse(&whole, data + 1, size - 1, size - 1, kind, room);
	parse(&cut, data + 1, size - 1, 1 + data[0] % 16, kind, room);
	HOLDS(whole.n == cut.n && memcmp(whole.at, cut.at, whole.n) == 0);
	return 0;
}
