/* SPDX-License-Identifier: MIT */
/*
 * Parses HTTP/1.1 requests and responses (RFC 9110, RFC 9112) incrementally and strictly.
 *
 * Request smuggling: if two servers in a row disagree about the end of a message, a client can hide
 * a second request in the body of the first. Where RFC 9112 allows a recipient to repair a message,
 * this parser therefore reports an error:
 *
 *   HTTP-1  Only CRLF ends a line. A bare CR, a bare LF, NUL and every other control character
 *           except the tab are errors in a start line, a field and a trailer.
 *   HTTP-2  No whitespace before a field name or its colon; no folded lines.
 *   HTTP-3  At most one Content-Length, 1 to 18 digits; at most one Transfer-Encoding, which is
 *           "chunked", in HTTP/1.1 only; never both.
 *   HTTP-4  A chunk is 1 to 15 hexadecimal digits, CRLF, the data, CRLF. No chunk extensions.
 *   HTTP-5  A request has one valid Host (HTTP/1.0: at most one); an absolute target has the same.
 *   HTTP-6  GET, HEAD, TRACE and CONNECT have no body.
 *   HTTP-7  An error is final: no byte behind it is read as a message.
 *   HTTP-8  The events do not depend on how the stream is cut into reads: every limit is a position
 *           in the stream, and every decision is made at the first byte that allows it.
 *
 * The head is parsed in place, line by line. It stays in the buffer until it is complete, so fields
 * need no copy. `scanned` is the position up to which the bytes were checked: no byte is checked
 * twice, whatever the size of the reads.
 */
#include "http.h"

#include <strings.h>

enum state {
	START_LINE,
	FIELDS,
	HEAD_DONE, /* the head was reported, and is consumed by the next call */
	BODY,      /* `left` bytes, or all up to the end of the stream */
	CHUNK_SIZE,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_CR,
	CHUNK_LF,
	TRAILERS,
	DONE,
	FAILED,
};

/* Classes of bytes. */
#define T 1 /* text: allowed in a line */
#define K 2 /* token: a method or a field name */
#define U 4 /* request target */
#define H 8 /* Host */
static const uint8_t classes[256] = {
	['\t'] = T,
	[' '] = T,
	['!'] = T | K | U | H,
	['"'] = T,
	['#'] = T | K,
	['$' ... '\''] = T | K | U | H,
	['(' ... ')'] = T | U | H,
	['*' ... '+'] = T | K | U | H,
	[','] = T | U,
	['-' ... '.'] = T | K | U | H,
	['/'] = T | U,
	['0' ... '9'] = T | K | U | H,
	[':' ... ';'] = T | U | H,
	['<'] = T,
	['='] = T | U | H,
	['>'] = T,
	['?' ... '@'] = T | U,
	['A' ... 'Z'] = T | K | U | H,
	['['] = T | U | H,
	['\\'] = T,
	[']'] = T | U | H,
	['^'] = T | K,
	['_'] = T | K | U | H,
	['`'] = T | K,
	['a' ... 'z'] = T | K | U | H,
	['{'] = T,
	['|'] = T | K,
	['}'] = T,
	['~'] = T | K | U | H,
	[0x80 ... 0xff] = T,
};

/* Bits of `connection`. */
#define OPTION_CLOSE 1
#define OPTION_KEEP_ALIVE 2

#define IS(c, class) (classes[(unsigned char)(c)] & (class))

/* End the message with an error: `status` for a request, 502 (Bad Gateway) for a response. */
static bool fault(struct http_message *m, int status)
{
	m->status = m->kind == HTTP_RESPONSE ? 502 : status;
	m->state = FAILED;
	return false;
}

static bool all(const char *at, size_t n, int class)
{
	for (size_t i = 0; i < n; i++)
		if (!IS(at[i], class))
			return false;
	return true;
}

static bool same(const char *at, size_t n, const char *name, size_t name_len)
{
	return n == name_len && strncasecmp(at, name, n) == 0;
}
#define SAME(at, n, literal) same(at, n, literal, sizeof(literal) - 1)

/* --------------------------------------------------------------------- Start line */

static enum http_method method_of(const char *at, size_t n)
{
	static const char *const names[] = {
		[HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
		[HTTP_PUT] = "PUT",         [HTTP_DELETE] = "DELETE", [HTTP_CONNECT] = "CONNECT",
		[HTTP_OPTIONS] = "OPTIONS", [HTTP_TRACE] = "TRACE",   [HTTP_PATCH] = "PATCH",
	};

	for (int i = HTTP_GET; i <= HTTP_PATCH; i++)
		if (strlen(names[i]) == n && memcmp(at, names[i], n) == 0)
			return (enum http_method)i;
	return HTTP_UNKNOWN;
}

/* HTTP/1.0 or HTTP/1.1. */
static bool parse_version(struct http_message *m, const char *at, size_t n)
{
	if (n != 8 || memcmp(at, "HTTP/", 5) != 0 || at[5] < '0' || at[5] > '9' || at[6] != '.' ||
	    at[7] < '0' || at[7] > '9')
		return fault(m, 400);
	if (at[5] != '1' || at[7] > '1')
		return fault(m, 505);
	m->minor = at[7] - '0';
	m->keep_alive = m->minor == 1;
	return true;
}

/* The form of the target must fit the method. Sets `path`. */
static bool parse_target(struct http_message *m, const char *at, size_t n)
{
	size_t path = 0;

	if (n > HTTP_URL_MOST)
		return fault(m, 414);
	if (n == 0 || !all(at, n, U))
		return fault(m, 400);
	if (m->method == HTTP_CONNECT) {
		if (!all(at, n, H))
			return fault(m, 400);
		path = n;
	} else if (n == 1 && at[0] == '*') {
		if (m->method != HTTP_OPTIONS)
			return fault(m, 400);
	} else if (at[0] != '/') {
		if (n < 7 || strncasecmp(at, "http://", 7) != 0)
			return fault(m, 400);
		for (path = 7; path < n && at[path] != '/' && at[path] != '?'; path++)
			if (!IS(at[path], H))
				return fault(m, 400);
		if (path == 7)
			return fault(m, 400);
	}
	memcpy(m->url, at, n);
	m->url_len = n;
	m->path = path;
	return true;
}

static bool parse_request_line(struct http_message *m, const char *at, size_t n)
{
	const char *end = at + n;
	const char *target, *version;
	size_t method = 0;

	while (method < n && IS(at[method], K))
		method++;
	if (method == 0 || method == n || at[method] != ' ')
		return fault(m, 400);
	target = at + method + 1;
	version = memchr(target, ' ', (size_t)(end - target));
	if (!version)
		return fault(m, 400);
	m->method = method_of(at, method);
	return parse_version(m, version + 1, (size_t)(end - version - 1)) &&
	       parse_target(m, target, (size_t)(version - target));
}

static bool parse_status_line(struct http_message *m, const char *at, size_t n)
{
	if (n < 13 || at[8] != ' ' || at[12] != ' ' || !parse_version(m, at, 8))
		return fault(m, 502);
	for (int i = 9; i < 12; i++)
		if (at[i] < '0' || at[i] > '9')
			return fault(m, 502);
	m->code = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
	return (m->code >= 100 && m->code <= 599) || fault(m, 502);
}

/* ------------------------------------------------------------------------- Fields */

bool http_list_has(const char *value, size_t len, const char *name, size_t name_len)
{
	const char *end = value + len;

	while (value < end) {
		const char *comma = memchr(value, ',', (size_t)(end - value));
		const char *stop = comma ? comma : end;
		const char *next = comma ? comma + 1 : end;

		while (value < stop && (*value == ' ' || *value == '\t'))
			value++;
		while (stop > value && (stop[-1] == ' ' || stop[-1] == '\t'))
			stop--;
		if (same(value, (size_t)(stop - value), name, name_len))
			return true;
		value = next;
	}
	return false;
}

static bool parse_length(struct http_message *m, const char *at, size_t n)
{
	if (m->length >= 0 || n < 1 || n > 18)
		return fault(m, 400);
	m->length = 0;
	for (size_t i = 0; i < n; i++) {
		if (at[i] < '0' || at[i] > '9')
			return fault(m, 400);
		m->length = m->length * 10 + (at[i] - '0');
	}
	return true;
}

/* Accept "chunked", once. Another token is error 501, anything else error 400. */
static bool parse_coding(struct http_message *m, const char *at, size_t n)
{
	if (m->chunked || n == 0)
		return fault(m, 400);
	if (!SAME(at, n, "chunked"))
		return fault(m, all(at, n, K) ? 501 : 400);
	m->chunked = true;
	return true;
}

static bool parse_host(struct http_message *m, const char *at, size_t n)
{
	if (m->hosts++ > 0 || !all(at, n, H))
		return fault(m, 400);
	m->host = m->fields_len - 1;
	return true;
}

/* Use a field if it concerns the framing or the connection. */
static bool use_field(struct http_message *m, const char *name, size_t n, const char *at,
		      size_t len)
{
	switch (n) {
	case 4:
		if (m->kind == HTTP_REQUEST && SAME(name, n, "host"))
			return parse_host(m, at, len);
		return true;
	case 6:
		if (m->kind == HTTP_REQUEST && SAME(name, n, "expect")) {
			m->expect = true;
			return SAME(at, len, "100-continue") || fault(m, 417);
		}
		return true;
	case 10:
		if (SAME(name, n, "connection")) {
			if (http_list_has(at, len, "close", 5))
				m->connection |= OPTION_CLOSE;
			if (http_list_has(at, len, "keep-alive", 10))
				m->connection |= OPTION_KEEP_ALIVE;
		}
		return true;
	case 14: return !SAME(name, n, "content-length") || parse_length(m, at, len);
	case 17: return !SAME(name, n, "transfer-encoding") || parse_coding(m, at, len);
	default: return true;
	}
}

/* Trailers are discarded, but a trailer with the name of a framing field is an error. */
static bool check_trailer(struct http_message *m, const char *name, size_t n)
{
	if (SAME(name, n, "host") || SAME(name, n, "content-length") ||
	    SAME(name, n, "transfer-encoding"))
		return fault(m, 400);
	return ++m->fields_len <= HTTP_FIELDS_MOST || fault(m, 431);
}

/* `line` has no CRLF; `base` is the first byte of the head. */
static bool parse_field(struct http_message *m, const char *base, const char *line, size_t len)
{
	const char *end = line + len;
	const char *value;
	size_t n = 0;

	while (n < len && IS(line[n], K))
		n++;
	if (n == 0 || n == len || line[n] != ':')
		return fault(m, 400);
	if (m->state == TRAILERS)
		return check_trailer(m, line, n);
	if (m->fields_len == HTTP_FIELDS_MOST)
		return fault(m, 431);
	value = line + n + 1;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	m->fields[m->fields_len++] = (struct http_field){
		.name = (uint16_t)(line - base),
		.name_len = (uint16_t)n,
		.value = (uint16_t)(value - base),
		.value_len = (uint16_t)(end - value),
	};
	return use_field(m, line, n, value, (size_t)(end - value));
}

/* ------------------------------------------------------------------------ Framing */

/* RFC 9112, 6.3: responses that end with their head, whatever the fields say. */
static bool ends_with_head(const struct http_message *m)
{
	return m->kind == HTTP_RESPONSE &&
	       (m->code < 200 || m->code == 204 || m->code == 304 || m->method == HTTP_HEAD);
}

bool http_has_body(const struct http_message *m)
{
	return !ends_with_head(m) && (m->chunked || m->until_close || m->length > 0);
}

static bool method_has_no_body(enum http_method method)
{
	return method == HTTP_GET || method == HTTP_HEAD || method == HTTP_TRACE ||
	       method == HTTP_CONNECT;
}

/* HTTP-5: the authority of an absolute target is that of the Host field. */
static bool check_host(struct http_message *m)
{
	const struct http_field *host = &m->fields[m->host];

	if (m->hosts == 0 && m->minor > 0)
		return fault(m, 400);
	if (m->hosts > 0 && m->path > 7 && m->method != HTTP_CONNECT &&
	    !same(m->url + 7, m->path - 7, m->head + host->value, host->value_len))
		return fault(m, 400);
	return true;
}

static bool check_request(struct http_message *m)
{
	if (!check_host(m))
		return false;
	if (method_has_no_body(m->method) && http_has_body(m))
		return fault(m, 400);
	return true;
}

/* The response to HEAD and a 304 may say how long a body would be; 1xx and 204 must not. */
static bool check_response(struct http_message *m)
{
	if ((m->code < 200 || m->code == 204) && (m->chunked || m->length > 0))
		return fault(m, 502);
	m->until_close = !ends_with_head(m) && !m->chunked && m->length < 0;
	m->keep_alive = m->keep_alive && !m->until_close;
	return true;
}

static bool end_head(struct http_message *m)
{
	if (m->chunked && (m->length >= 0 || m->minor == 0))
		return fault(m, 400);
	if (m->connection & OPTION_CLOSE)
		m->keep_alive = false;
	else if (m->connection & OPTION_KEEP_ALIVE)
		m->keep_alive = true;
	if (m->kind == HTTP_REQUEST ? !check_request(m) : !check_response(m))
		return false;
	if (http_has_body(m) && m->length > 0)
		m->left = (uint64_t)m->length;
	return m->left <= (uint64_t)m->body_most || fault(m, 413);
}

/* --------------------------------------------------------------------------- Lines */

/* Check the `have` received bytes of the current line. Returns true if the line is complete; it
 * ends before the CR at `scanned`. Returns false if HTTP_MORE is due or the message has failed,
 * with status `too_long` if the line reaches `limit` bytes. */
static bool scan_line(struct http_message *m, const char *at, size_t have, size_t limit,
		      int too_long)
{
	size_t i = m->scanned;
	size_t n = have < limit ? have : limit;

	while (i < n && IS(at[i], T))
		i++;
	m->scanned = i;
	if (i == limit)
		return fault(m, too_long);
	if (i == n)
		return false;
	if (at[i] != '\r')
		return fault(m, 400);
	if (i + 1 == limit)
		return fault(m, too_long);
	if (i + 1 == have)
		return false;
	return at[i + 1] == '\n' || fault(m, 400);
}

/* One empty line before a request is skipped: some clients send it after a body. */
static bool skip_empty_line(struct http_message *m, struct buf *in)
{
	if (m->kind != HTTP_REQUEST || m->skipped_line || m->scanned > 0)
		return false;
	in->start += 2;
	m->skipped_line = true;
	m->begun = false;
	return true;
}

static bool parse_start_line(struct http_message *m, const char *at, size_t n)
{
	return m->kind == HTTP_REQUEST ? parse_request_line(m, at, n) : parse_status_line(m, at, n);
}

static enum http_event stop(const struct http_message *m)
{
	return m->state == FAILED ? HTTP_ERROR : HTTP_MORE;
}

static enum http_event parse_head(struct http_message *m, struct buf *in)
{
	for (;;) {
		const char *at = in->data + in->start;
		size_t have = buf_len(in);
		size_t len;

		m->begun = m->begun || have > 2 || (have > 0 && at[0] != '\r');
		if (m->state == START_LINE) {
			if (!scan_line(m, at, have, HTTP_LINE_MOST, 414))
				return stop(m);
			if (skip_empty_line(m, in))
				continue;
			if (!parse_start_line(m, at, m->scanned))
				return HTTP_ERROR;
			m->state = FIELDS;
		} else {
			if (!scan_line(m, at, have, HTTP_HEAD_MOST, 431))
				return stop(m);
			len = m->scanned - m->line;
			if (len == 0) {
				m->head_len = m->scanned + 2;
				m->head = at;
				if (!end_head(m))
					return HTTP_ERROR;
				m->state = HEAD_DONE;
				return HTTP_HEAD_END;
			}
			if (!parse_field(m, at, at + m->line, len))
				return HTTP_ERROR;
		}
		m->scanned += 2;
		m->line = m->scanned;
	}
}

/* ---------------------------------------------------------------------------- Body */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum http_event end_message(struct http_message *m)
{
	m->state = DONE;
	return HTTP_END;
}

/* Up to `left` bytes of the body. */
static enum http_event take_data(struct http_message *m, struct buf *in)
{
	size_t n = buf_len(in);

	if (!m->until_close && n > m->left)
		n = (size_t)m->left;
	m->data = in->data + in->start;
	m->data_len = n;
	m->body += (int64_t)n;
	in->start += n;
	m->left -= m->until_close ? 0 : n;
	return HTTP_DATA;
}

static bool end_chunk_size(struct http_message *m)
{
	if (m->left > (uint64_t)(m->body_most - m->body))
		return fault(m, 413);
	m->scanned = 0;
	m->trailer = 0;
	m->fields_len = 0;
	m->state = m->left > 0 ? CHUNK_DATA : TRAILERS;
	return true;
}

/* The bytes around the data of a chunk. */
static bool parse_chunk_byte(struct http_message *m, char c)
{
	int digit;

	switch (m->state) {
	case CHUNK_SIZE:
		digit = hex_digit(c);
		if (digit >= 0 && m->digits < 15) {
			m->left = m->left * 16 + (uint64_t)digit;
			m->digits++;
			return true;
		}
		if (c != '\r' || m->digits == 0)
			return fault(m, 400);
		m->state = CHUNK_SIZE_LF;
		return true;
	case CHUNK_SIZE_LF: return c == '\n' ? end_chunk_size(m) : fault(m, 400);
	case CHUNK_CR: m->state = CHUNK_LF; return c == '\r' || fault(m, 400);
	default: /* CHUNK_LF */
		m->digits = 0;
		m->state = CHUNK_SIZE;
		return c == '\n' || fault(m, 400);
	}
}

/* Each trailer is consumed when its line is complete. */
static enum http_event parse_trailers(struct http_message *m, struct buf *in)
{
	for (;;) {
		const char *at = in->data + in->start;
		size_t len;

		if (!scan_line(m, at, buf_len(in), HTTP_HEAD_MOST - m->trailer, 431))
			return stop(m);
		len = m->scanned;
		if (len > 0 && !parse_field(m, at, at, len))
			return HTTP_ERROR;
		in->start += len + 2;
		m->trailer += len + 2;
		m->scanned = 0;
		if (len == 0)
			return end_message(m);
	}
}

static enum http_event parse_chunks(struct http_message *m, struct buf *in)
{
	while (buf_len(in) > 0) {
		if (m->state == TRAILERS)
			return parse_trailers(m, in);
		if (m->state == CHUNK_DATA) {
			enum http_event data = take_data(m, in);

			if (m->left == 0)
				m->state = CHUNK_CR;
			return data;
		}
		if (!parse_chunk_byte(m, in->data[in->start]))
			return HTTP_ERROR;
		in->start++;
	}
	return HTTP_MORE;
}

static void begin_body(struct http_message *m, struct buf *in)
{
	in->start += m->head_len;
	m->head = NULL;
	m->state = m->chunked && http_has_body(m) ? CHUNK_SIZE : BODY;
}

/* ----------------------------------------------------------------------- Interface */

void http_begin(struct http_message *m, enum http_kind kind, int64_t body_most)
{
	/* all fields except the two arrays at the end */
	memset(m, 0, offsetof(struct http_message, fields));
	m->kind = kind;
	m->body_most = body_most;
	m->length = -1;
	m->state = START_LINE;
}

enum http_event http_parse(struct http_message *m, struct buf *in)
{
	if (m->state == HEAD_DONE)
		begin_body(m, in);
	if (m->state == BODY && m->left == 0 && !m->until_close)
		return end_message(m);
	if (m->state == FAILED)
		return HTTP_ERROR;
	if (buf_len(in) == 0) {
		buf_clear(in);
		return HTTP_MORE;
	}
	switch (m->state) {
	case START_LINE:
	case FIELDS: return parse_head(m, in);
	case BODY: return take_data(m, in);
	case DONE: return HTTP_END;
	default: return parse_chunks(m, in);
	}
}

bool http_parse_end(const struct http_message *m)
{
	return m->state == BODY && m->until_close;
}

bool http_path(const struct http_message *m, char *path, size_t size)
{
	const char *in = m->url + m->path;
	const char *end = m->url + m->url_len;
	const char *query = memchr(in, '?', (size_t)(end - in));
	char *out = path;

	if (query)
		end = query;
	if (m->method == HTTP_CONNECT || (size_t)(end - in) >= size || size < 2)
		return false;
	if (in == end)
		*out++ = '/';
	else if (*in != '/')
		return false;
	while (in < end) {
		char c = *in++;

		if (c == '%') {
			if (end - in < 2 || hex_digit(in[0]) < 0 || hex_digit(in[1]) < 0)
				return false;
			c = (char)(hex_digit(in[0]) * 16 + hex_digit(in[1]));
			in += 2;
		}
		if (c == '\0')
			return false;
		*out++ = c;
	}
	*out = '\0';
	return true;
}

const char *http_reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 301: return "Moved Permanently";
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 417: return "Expectation Failed";
	case 431: return "Request Header Fields Too Large";
	case 501: return "Not Implemented";
	case 502: return "Bad Gateway";
	case 503: return "Service Unavailable";
	case 504: return "Gateway Timeout";
	case 505: return "HTTP Version Not Supported";
	default: return "Internal Server Error";
	}
}
