/* SPDX-License-Identifier: MIT */
/* Request parser of the debug server: see http.h. */
#include "observe/serve/http.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* A part of the head; not terminated. */
struct part {
	const char *at;
	size_t n;
};

static bool part_is(struct part p, const char *text)
{
	return p.n == strlen(text) && memcmp(p.at, text, p.n) == 0;
}

/* The same in upper or lower case. */
static bool part_is_word(struct part p, const char *text)
{
	return p.n == strlen(text) && strncasecmp(p.at, text, p.n) == 0;
}

/* Take what is before the first c, or everything, off the start of *rest; the c is dropped. */
static struct part part_until(struct part *rest, char c)
{
	const char *end = memchr(rest->at, c, rest->n);
	struct part p = { rest->at, end ? (size_t)(end - rest->at) : rest->n };
	size_t gone = end ? p.n + 1 : p.n;

	rest->at += gone;
	rest->n -= gone;
	return p;
}

static struct part part_trim(struct part p)
{
	while (p.n && (p.at[0] == ' ' || p.at[0] == '\t')) {
		p.at++;
		p.n--;
	}
	while (p.n && (p.at[p.n - 1] == ' ' || p.at[p.n - 1] == '\t'))
		p.n--;
	return p;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_token_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct part p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!is_token_char(p.at[i]))
			return false;
	return p.n > 0;
}

/* --- the end of a head --- */

int debug_head_end(const char *buf, size_t n, size_t *seen)
{
	for (size_t i = *seen; i < n; i++) {
		unsigned char c = (unsigned char)buf[i];
		bool after_cr = i > 0 && buf[i - 1] == '\r';

		if (after_cr != (c == '\n')) /* HEAD-1 */
			return -400;
		if ((c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
			return -400;
		if (i == 0 && c == '\r')
			return -400;
		if (c == '\n' && i >= 3 && buf[i - 2] == '\n') {
			*seen = i + 1;
			return (int)(i + 1);
		}
	}
	*seen = n;
	return 0;
}

/* --- the host --- */

/* Return whether p is ":" and a port, or empty. */
static bool is_port(struct part p)
{
	uint64_t any;

	return p.n == 0 ||
	       (p.at[0] == ':' && p.n <= 6 && parse_decimal(p.at + 1, p.n - 1, UINT64_MAX, &any));
}

/* Return whether p is an address of the family in digits. */
static bool is_address(struct part p, int family)
{
	char text[INET6_ADDRSTRLEN];
	unsigned char bytes[sizeof(struct in6_addr)];

	if (p.n == 0 || p.n >= sizeof(text))
		return false;
	memcpy(text, p.at, p.n);
	text[p.n] = '\0';
	return inet_pton(family, text, bytes) == 1;
}

bool debug_host_allowed(const char *host, size_t n, const char *name)
{
	struct part rest = { host, n }, in;

	if (n && host[0] == '[') {
		rest = (struct part){ host + 1, n - 1 };
		in = part_until(&rest, ']');
		return in.n < n - 1 && is_address(in, AF_INET6) && is_port(rest);
	}
	in = part_until(&rest, ':');
	rest = (struct part){ host + in.n, n - in.n }; /* with the colon */
	return is_port(rest) && (is_address(in, AF_INET) || part_is_word(in, "localhost") ||
				 (name[0] && part_is_word(in, name)));
}

/* --- the request line --- */

/* Set *to to the number in p, 1 to DEBUG_SECONDS_MOST. Returns false if it is none, or *to was set
 * before. */
static bool read_seconds(struct part p, int *to)
{
	uint64_t v;

	if (*to || p.n > 3 || !parse_decimal(p.at, p.n, DEBUG_SECONDS_MOST, &v))
		return false;
	*to = (int)v;
	return v > 0;
}

/* Other parameters are ignored. Returns 0 or 400. */
static int parse_query(struct debug_head *h, struct part query)
{
	bool all_given = false, good = true;

	while (query.n && good) {
		struct part value = part_until(&query, '&');
		struct part key = part_until(&value, '=');

		if (part_is(key, "seconds")) {
			good = read_seconds(value, &h->seconds);
		} else if (part_is(key, "cputime")) {
			good = read_seconds(value, &h->cputime);
		} else if (part_is(key, "all")) {
			h->all = part_is(value, "1");
			good = !all_given && (h->all || part_is(value, "0"));
			all_given = true;
		}
	}
	return good ? 0 : 400;
}

static int parse_target(struct debug_head *h, struct part target)
{
	if (target.n > DEBUG_TARGET_MOST)
		return 414;
	for (size_t i = 0; i < target.n; i++)
		if (target.at[i] <= ' ' || target.at[i] > '~' || target.at[i] == '#')
			return 400;
	if (target.n == 0 || target.at[0] != '/')
		return 400;
	struct part path = part_until(&target, '?');

	if (path.n < sizeof(h->path)) {
		memcpy(h->path, path.at, path.n);
		h->path[path.n] = '\0';
	}
	return parse_query(h, target);
}

/* HTTP/1.0 and 1.1 are known. */
static int parse_version(struct debug_head *h, struct part v)
{
	if (v.n != 8 || memcmp(v.at, "HTTP/", 5) != 0 || !is_digit(v.at[5]) || v.at[6] != '.' ||
	    !is_digit(v.at[7]))
		return 400;
	if (v.at[5] != '1' || v.at[7] > '1')
		return 505;
	h->http10 = v.at[7] == '0';
	h->keep_alive = !h->http10;
	return 0;
}

static int parse_request_line(struct debug_head *h, struct part line)
{
	struct part method = part_until(&line, ' '), target = part_until(&line, ' ');

	if (!is_token(method))
		return 400;
	if (part_is(method, "GET"))
		h->method = DEBUG_GET;
	else if (part_is(method, "HEAD"))
		h->method = DEBUG_HEAD;
	else
		h->method = DEBUG_OTHER;
	int status = parse_version(h, line);

	/* of another method the target need not be a path: "OPTIONS *" */
	return status || h->method == DEBUG_OTHER ? status : parse_target(h, target);
}

/* --- fields --- */

struct fields {
	const char *name; /* as in debug_head_parse */
	int hosts, lengths;
	bool host_allowed, has_body;
};

/* Note the options of a Connection field. */
static void note_connection(struct debug_head *h, struct part value)
{
	while (value.n)
		if (part_is_word(part_trim(part_until(&value, ',')), "close"))
			h->keep_alive = false;
}

/* Returns 0 or 400. */
static int note_length(struct fields *f, struct part value)
{
	uint64_t n;

	if (f->lengths++ || value.n > 18 || !parse_decimal(value.at, value.n, UINT64_MAX, &n))
		return 400;
	f->has_body = n > 0;
	return 0;
}

static int parse_field(struct debug_head *h, struct fields *f, struct part line)
{
	size_t n = line.n;
	struct part name = part_until(&line, ':');

	if (!is_token(name) || name.n == n)
		return 400;
	line = part_trim(line);
	if (part_is_word(name, "Transfer-Encoding"))
		return 400;
	if (part_is_word(name, "Content-Length"))
		return note_length(f, line);
	if (part_is_word(name, "Connection"))
		note_connection(h, line);
	if (part_is_word(name, "Host")) {
		if (f->hosts++)
			return 400;
		f->host_allowed = debug_host_allowed(line.at, line.n, f->name);
	}
	return 0;
}

/* Take a line off the start of *rest; HEAD-1 holds. */
static struct part take_line(struct part *rest)
{
	struct part line = part_until(rest, '\r');

	rest->at++;
	rest->n--;
	return line;
}

int debug_head_parse(struct debug_head *h, const char *head, size_t n, const char *name)
{
	struct part rest = { head, n - 2 }; /* without the empty line */
	struct fields f = { .name = name };
	int status;

	memset(h, 0, sizeof(*h));
	status = parse_request_line(h, take_line(&rest));
	while (!status && rest.n)
		status = parse_field(h, &f, take_line(&rest));
	if (!status && f.hosts == 0 && !h->http10)
		status = 400;
	if (!status && !f.host_allowed)
		status = 403;
	if (!status && f.has_body && h->method != DEBUG_OTHER)
		status = 413;
	return status;
}
