/* SPDX-License-Identifier: MIT */
/*
 * Answers of the debug server: status, head, and a body in chunks or of known length.
 *
 * The text is collected in a buffer of one page. A chunk of an answer of unknown length lies there
 * between its size, 4 hexadecimal digits and CRLF, and a CRLF. The head is sent with the first
 * chunk. A client of HTTP/1.0 gets no chunks, and the end of the connection ends the answer.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "observe/serve/server.h"

enum { SIZE_FIELD = 6 };

/* --- sending --- */

static void answer_send(struct debug_request *r)
{
	if (!r->err && r->n)
		r->err = r->send(r->to, r->out, r->n);
	if (r->err)
		r->keep = false;
	r->n = 0;
}

/* Begin a chunk behind what is in out. */
static void chunk_begin(struct debug_request *r)
{
	r->chunk = r->n;
	if (r->chunked)
		r->n += SIZE_FIELD;
}

/* End the chunk: fill in its size. A chunk without bytes is dropped, as it would end the answer. */
static void chunk_end(struct debug_request *r)
{
	static const char digits[] = "0123456789abcdef";
	size_t size = r->n - r->chunk - SIZE_FIELD;
	char *at = r->out + r->chunk;

	if (!r->chunked)
		return;
	if (size == 0) {
		r->n = r->chunk;
		return;
	}
	for (int i = 3; i >= 0; i--, size >>= 4)
		at[i] = digits[size & 15];
	memcpy(at + 4, "\r\n", 2);
	memcpy(r->out + r->n, "\r\n", 2);
	r->n += 2;
}

static void answer_flush(struct debug_request *r)
{
	chunk_end(r);
	answer_send(r);
	chunk_begin(r);
}

int debug_write(struct debug_request *r, const void *bytes, size_t n)
{
	const char *from = bytes;

	while (n && !r->err && r->head.method != DEBUG_HEAD) {
		size_t part = min_of(n, DEBUG_ROOM - r->n);

		memcpy(r->out + r->n, from, part);
		r->n += part;
		from += part;
		n -= part;
		if (r->n == DEBUG_ROOM)
			answer_flush(r);
	}
	return r->err;
}

int debug_print(struct debug_request *r, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	va_end(ap);
	return debug_write(r, text, n < 0 ? 0 : min_of((size_t)n, sizeof(text) - 1));
}

/* --- heads --- */

static const char *reason_of(int status)
{
	switch (status) {
	case 200: return "OK";
	case 302: return "Found";
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 409: return "Conflict";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 431: return "Request Header Fields Too Large";
	case 501: return "Not Implemented";
	case 503: return "Service Unavailable";
	case 505: return "HTTP Version Not Supported";
	default: return "Internal Server Error";
	}
}

/* Append to the head, which has no chunks. */
static __attribute__((format(printf, 2, 3))) void head_print(struct debug_request *r,
							     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(r->out + r->n, DEBUG_ROOM - r->n, fmt, ap);

	va_end(ap);
	r->n += n < 0 ? 0 : min_of((size_t)n, DEBUG_ROOM - r->n - 1);
}

static void head_begin(struct debug_request *r, int status, const char *type)
{
	r->status = status;
	r->n = 0;
	head_print(r,
		   "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nX-Content-Type-Options: nosniff\r\n"
		   "Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; "
		   "frame-ancestors 'none'\r\nConnection: %s\r\n",
		   status, reason_of(status), type, r->keep ? "keep-alive" : "close");
}

int debug_begin(struct debug_request *r, const char *type)
{
	if (r->head.http10)
		r->keep = false; /* the end of the connection is that of the answer */
	head_begin(r, 200, type);
	head_print(r, r->head.http10 ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n");
	r->chunked = !r->head.http10 && r->head.method != DEBUG_HEAD;
	chunk_begin(r);
	return r->err;
}

/* Errors after which the bytes that follow cannot be trusted to be a request. */
static bool ends_connection(int status)
{
	return status != 302 && status != 404 && status != 409 && status != 501;
}

int debug_answer(struct debug_request *r, int status, const char *text)
{
	size_t n = strlen(text);

	if (r->head.http10 || ends_connection(status))
		r->keep = false;
	r->chunked = false;
	head_begin(r, status, "text/plain; charset=utf-8");
	if (status == 405)
		head_print(r, "Allow: GET, HEAD\r\n");
	if (status == 302)
		head_print(r, "Location: /debug/\r\n");
	head_print(r, "Content-Length: %zu\r\n\r\n", n + 1);
	debug_write(r, text, n);
	return debug_write(r, "\n", 1);
}

/* --- ends --- */

static void answer_error(struct debug_request *r, int err)
{
	switch (err) {
	case -EBUSY: debug_answer(r, 409, "busy"); break;
	case -ENOMEM: debug_answer(r, 503, "no memory"); break;
	case -EAGAIN: debug_answer(r, 503, "no resources now: try again"); break;
	case -ENOTSUP: debug_answer(r, 501, "this build or system cannot do that"); break;
	case 0: debug_answer(r, 500, "no answer"); break;
	default: debug_answer(r, 500, "internal error");
	}
}

void debug_end(struct debug_request *r, int result)
{
	if (!r->status) {
		answer_error(r, result);
	} else if (result) {
		r->keep = false; /* without the last chunk */
	} else if (r->chunked) {
		chunk_end(r);
		memcpy(r->out + r->n, "0\r\n\r\n", 5);
		r->n += 5;
	}
	answer_send(r);
	r->chunked = false;
}

/* --- text of the program --- */

/* Return the bytes of the character at s (RFC 3629), of n bytes at least 1; 0: no valid UTF-8. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
	unsigned lo = 0x80, hi = 0xbf;
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		lo = 0xa0; /* no longer than needed */
	if (s[0] == 0xed)
		hi = 0x9f; /* no surrogates */
	if (s[0] == 0xf0)
		lo = 0x90;
	if (s[0] == 0xf4)
		hi = 0x8f; /* up to U+10FFFF */
	if (n < len || s[1] < lo || s[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return len;
}

/* Return what stands for the control or ASCII character c; NULL: itself. */
static const char *replacement(unsigned char c, enum debug_escape how)
{
	switch (c) {
	case '"': return how == DEBUG_HTML ? "&quot;" : how == DEBUG_PLAIN ? NULL : "\\\"";
	case '\\': return how == DEBUG_JSON || how == DEBUG_LABEL ? "\\\\" : NULL;
	case '\n': return how == DEBUG_JSON || how == DEBUG_LABEL ? "\\n" : NULL;
	case '&': return how == DEBUG_HTML ? "&amp;" : NULL;
	case '<': return how == DEBUG_HTML ? "&lt;" : NULL;
	case '>': return how == DEBUG_HTML ? "&gt;" : NULL;
	case '\'': return how == DEBUG_HTML ? "&#39;" : NULL;
	default: return (c < ' ' || c == 0x7f) && how != DEBUG_JSON ? "?" : NULL;
	}
}

int debug_text(struct debug_request *r, const char *text, size_t n, enum debug_escape how)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t from = 0; /* what is before it was written */

	for (size_t i = 0, len; i < n && !r->err; i += max_of(len, (size_t)1)) {
		const char *other;
		char code[8];

		len = utf8_length(s + i, n - i);
		if (len == 0 || (len == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0)) {
			other = "\xef\xbf\xbd"; /* also of C1 control characters */
		} else if (len == 1 && s[i] < ' ' && s[i] != '\n' && how == DEBUG_JSON) {
			snprintf(code, sizeof(code), "\\u%04x", s[i]);
			other = code;
		} else {
			other = len == 1 ? replacement(s[i], how) : NULL;
		}
		if (!other)
			continue;
		debug_write(r, text + from, i - from);
		debug_write(r, other, strlen(other));
		from = i + max_of(len, (size_t)1);
	}
	return debug_write(r, text + from, n - from);
}
