/* SPDX-License-Identifier: MIT */
/*
 * Does the reader of httpd's requests say the same about a stream, however it is cut, and look at nothing
 * beyond its end?  And is the path of a request what a second reading of its first line makes of it?  Each piece
 * lies in memory of its own size, so that AddressSanitizer sees the end.
 *
 * Inputs are too short to come to the limit of a head: http-parser counts that at the end of each piece, so where
 * it is met may depend on the cuts.
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

/* The path of a request for /...: what stands before ? and #, with its escapes resolved; or false. */
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

static void check_path(const struct http_request *r, size_t size)
{
	char *path = malloc(size), *other = malloc(size);
	bool is = http_path(r, path, size);

	HOLDS(!is || (path[0] != '\0' && strlen(path) < size));
	if (r->url_len > 0 && r->url[0] == '/') {
		HOLDS(is == read_path(r->url, r->url_len, other, size));
		HOLDS(!is || strcmp(path, other) == 0);
	}
	free(other);
	free(path);
}

/* Says what a request is.  True: the connection is kept, as httpd keeps it. */
static bool note(struct text *said, struct http_request *r, size_t room)
{
	const http_parser *p = &r->parser;
	bool kept = http_should_keep_alive(p) && !p->upgrade;
	char line[96];

	HOLDS(r->url_len <= sizeof(r->url) && p->http_major == 1);
	add(said, line,
	    (size_t)snprintf(line, sizeof(line), "%d 1.%d %d hosts, body %zu, kept %d, ", p->method,
			     p->http_minor, r->hosts, r->body, kept));
	add(said, r->url, r->url_len);
	add(said, "\n", 1);
	check_path(r, room);
	return kept;
}

/* What http_parse makes of the stream, if `step` bytes come at a time. */
static void parse(struct text *said, const uint8_t *data, size_t size, size_t step)
{
	static struct http_request r;
	bool goes_on = true;

	said->n = 0;
	http_begin(&r);
	for (size_t at = 0; at < size && goes_on; at += step) {
		size_t n = size - at < step ? size - at : step;
		struct buf in = { .data = malloc(n), .end = n, .size = n };
		char *bytes = in.data;

		memcpy(bytes, data + at, n);
		while (goes_on && buf_len(&in) > 0) {
			switch (http_parse(&r, &in)) {
			case HTTP_INCOMPLETE: HOLDS(buf_len(&in) == 0); break;
			case HTTP_COMPLETE:
				goes_on = note(said, &r, 1 + data[0] % 64);
				http_begin(&r);
				break;
			case HTTP_BROKEN:
				HOLDS(r.status >= 400);
				add(said, &r.status, sizeof(r.status));
				goes_on = false;
			}
		}
		free(bytes);
	}
	if (goes_on)
		add(said, r.begun ? "begun" : "", r.begun ? 5 : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct text whole, cut;

	if (size < 2 || size > 4096)
		return 0;
	parse(&whole, data + 1, size - 1, size - 1);
	parse(&cut, data + 1, size - 1, 1 + data[0] % 16);
	HOLDS(whole.n == cut.n && memcmp(whole.at, cut.at, whole.n) == 0);
	return 0;
}
