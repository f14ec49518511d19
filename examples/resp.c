/* SPDX-License-Identifier: MIT */
/*
 * RESP2, the protocol of Redis: parses requests incrementally and writes replies.
 *
 * A request is an array of strings with their lengths ("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"), or a line
 * of words that is typed at a terminal. It may arrive in any number of pieces.
 *
 * Invariants:
 *
 *   RESP-1  Parsed bytes are not parsed again: `used` only grows, so the cost of a request of a
 *           million pieces is linear, not quadratic. The exception is an incomplete line, and a
 *           line is short.
 *   RESP-2  No memory is allocated for bytes that a client only announces: `args` and the caller's
 *           buffer grow with the received bytes. A request that would be longer than
 *           RESP_MAX_REQUEST is an error as soon as one of its lengths shows it.
 *   RESP-3  Errors are detected at the same byte as in Redis, and have the same text.
 */
#include "resp.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define ARGS_FIRST 8
#define ARGS_KEEP 1024 /* a parser between requests keeps room for up to this many */

static enum resp_result broken(struct resp_parser *p, const char *error)
{
	p->error = error;
	return RESP_BROKEN;
}

static bool add_arg(struct resp_parser *p, size_t offset, size_t len)
{
	if (p->argc == p->args_size) {
		uint32_t size = p->args_size ? 2 * p->args_size : ARGS_FIRST;
		struct resp_arg *args = realloc(p->args, size * sizeof(*args));

		if (!args)
			return false;
		p->args = args;
		p->args_size = size;
	}
	p->args[p->argc++] = (struct resp_arg){ (uint32_t)offset, (uint32_t)len };
	return true;
}

static void begin_request(struct resp_parser *p)
{
	if (p->args_size > ARGS_KEEP)
		resp_parser_free(p);
	p->argc = 0;
	p->used = 0;
}

/* ------------------------------------------------------- A request as an array */

/* Parse the line "?NUMBER\r\n" that begins at `used`. Returns 1 with `used` behind the line; 0 if
 * the line is incomplete; -1 if it has no number; -2 if it is longer than RESP_MAX_LINE. */
static int number_line(struct resp_parser *p, const char *bytes, size_t n, int64_t *number)
{
	const char *line = bytes + p->used;
	size_t left = n - p->used;
	const char *end = memchr(line, '\r', left);

	if (!end)
		return left > RESP_MAX_LINE ? -2 : 0;
	if ((size_t)(end - line) + 2 > left)
		return 0;
	if (!resp_parse_integer((struct slice){ line + 1, (size_t)(end - line) - 1 }, number))
		return -1;
	p->used += (size_t)(end - line) + 2;
	return 1;
}

static enum resp_result parse_array_length(struct resp_parser *p, const char *bytes, size_t n)
{
	int64_t number;

	switch (number_line(p, bytes, n, &number)) {
	case 0: return RESP_INCOMPLETE;
	case -2: return broken(p, "too big mbulk count string");
	case 1:
		if (number <= RESP_MAX_ARGS)
			break;
		/* fall through */
	default: return broken(p, "invalid multibulk length");
	}
	p->missing = number > 0 ? (uint32_t)number : 0;
	return RESP_REQUEST;
}

/* Like Redis, search for the end of the line first, and check its first character afterwards. */
static enum resp_result parse_bulk_length(struct resp_parser *p, const char *bytes, size_t n)
{
	const char *line = bytes + p->used;
	int64_t number = 0;
	int found = number_line(p, bytes, n, &number);

	if (found == 0)
		return RESP_INCOMPLETE;
	if (found == -2)
		return broken(p, "too big bulk count string");
	if (*line != '$') {
		snprintf(p->error_text, sizeof(p->error_text), "expected '$', got '%c'",
			 *line == '\r' || *line == '\n' ? ' ' : *line);
		return broken(p, p->error_text);
	}
	if (found < 0 || number < 0 || number > RESP_MAX_BULK)
		return broken(p, "invalid bulk length");
	if (p->used + (size_t)number + 2 > RESP_MAX_REQUEST)
		return broken(p, "too big request");
	p->bulk_len = (uint32_t)number;
	p->in_bulk = true;
	return RESP_REQUEST;
}

/* Parse the received arguments. Returns RESP_REQUEST if all arguments are complete. */
static enum resp_result parse_args(struct resp_parser *p, const char *bytes, size_t n)
{
	while (p->missing > 0) {
		if (!p->in_bulk) {
			enum resp_result r = parse_bulk_length(p, bytes, n);

			if (r != RESP_REQUEST)
				return r;
		}
		if (n - p->used < (size_t)p->bulk_len + 2)
			return RESP_INCOMPLETE;
		if (!add_arg(p, p->used, p->bulk_len))
			return RESP_NO_MEMORY;
		p->used += (size_t)p->bulk_len + 2;
		p->in_bulk = false;
		p->missing--;
	}
	p->request = bytes;
	return RESP_REQUEST;
}

/* -------------------------------------------------------- A request as a line */

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static char unescaped(char c)
{
	switch (c) {
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'b': return '\b';
	case 'a': return '\a';
	default: return c;
	}
}

/*
 * Resolve the quoted text behind the quote at *from, and write it to *to. Returns false if the
 * closing quote is missing, or is not followed by a space or the end.
 */
static bool unquote(char **from, const char *end, char **to)
{
	char quote = **from;
	char *in = *from + 1;
	char *out = *to;

	for (;; in++) {
		if (in == end)
			return false;
		if (*in == quote)
			break;
		if (*in != '\\' || end - in < 2) {
			*out++ = *in;
		} else if (quote == '\'') {
			/* between single quotes, a backslash escapes only a single quote */
			if (in[1] == '\'')
				in++;
			*out++ = *in;
		} else if (end - in >= 4 && in[1] == 'x' && isxdigit((unsigned char)in[2]) &&
			   isxdigit((unsigned char)in[3])) {
			*out++ = (char)(hex_digit(in[2]) * 16 + hex_digit(in[3]));
			in += 3;
		} else {
			*out++ = unescaped(*++in);
		}
	}
	in++;
	if (in < end && !isspace((unsigned char)*in))
		return false;
	*from = in;
	*to = out;
	return true;
}

static bool ends_word(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0';
}

/* Resolve one word in place: resolving quotes never makes it longer. */
static bool split_word(char **from, const char *end, size_t *len)
{
	char *word = *from;
	char *in = word;
	char *out = word;

	while (in < end && !ends_word(*in)) {
		if (*in == '"' || *in == '\'') {
			if (!unquote(&in, end, &out))
				return false;
			break;
		}
		*out++ = *in++;
	}
	*from = in;
	*len = (size_t)(out - word);
	return true;
}

static enum resp_result parse_line(struct resp_parser *p, char *bytes, size_t n)
{
	char *newline = memchr(bytes, '\n', n);
	const char *end = newline;
	char *in = bytes;

	if (!newline)
		return n > RESP_MAX_LINE ? broken(p, "too big inline request") : RESP_INCOMPLETE;
	if (end > bytes && end[-1] == '\r')
		end--;
	for (;;) {
		char *word;
		size_t len;

		while (in < end && isspace((unsigned char)*in))
			in++;
		if (in == end || *in == '\0')
			break;
		word = in;
		if (!split_word(&in, end, &len))
			return broken(p, "unbalanced quotes in request");
		if (!add_arg(p, (size_t)(word - bytes), len))
			return RESP_NO_MEMORY;
	}
	p->used = (size_t)(newline - bytes) + 1;
	p->request = bytes;
	return RESP_REQUEST;
}

enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t n)
{
	if (p->missing == 0) {
		enum resp_result r;

		if (n == 0)
			return RESP_INCOMPLETE;
		begin_request(p);
		if (bytes[0] != '*')
			return parse_line(p, bytes, n);
		r = parse_array_length(p, bytes, n);
		if (r != RESP_REQUEST)
			return r;
	}
	return parse_args(p, bytes, n);
}

void resp_parser_free(struct resp_parser *p)
{
	free(p->args);
	*p = (struct resp_parser){ 0 };
}

/* ------------------------------------------------------------ Numbers, replies */

bool resp_parse_integer(struct slice s, int64_t *number)
{
	bool negative = s.len > 0 && s.at[0] == '-';
	size_t i = negative;
	uint64_t limit = (uint64_t)INT64_MAX + negative;
	uint64_t value = 0;

	if (s.len == i || s.len > i + 19)
		return false;
	if (s.at[i] == '0') { /* only "0" begins with '0' */
		*number = 0;
		return s.len == 1;
	}
	for (; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(s.at[i] - '0');
	}
	if (value > limit)
		return false;
	*number = negative ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}

size_t resp_format_integer(char *at, int64_t number)
{
	uint64_t value = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	char digits[RESP_DIGITS];
	char *first = digits + sizeof(digits);
	size_t len;

	do {
		*--first = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	if (number < 0)
		*--first = '-';
	len = (size_t)(digits + sizeof(digits) - first);
	memcpy(at, first, len);
	return len;
}

/* Write TYPE NUMBER CR LF to `at`, which has room for it. Returns the end. */
static char *put_header(char *at, char type, int64_t number)
{
	*at++ = type;
	at += resp_format_integer(at, number);
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

#define HEADER_SIZE (1 + RESP_DIGITS + 2)

static void add_header(struct buf *out, char type, int64_t number)
{
	char *at = buf_room(out, HEADER_SIZE);

	if (at)
		out->end += (size_t)(put_header(at, type, number) - at);
}

void resp_add_integer(struct buf *out, int64_t number)
{
	add_header(out, ':', number);
}

void resp_add_bulk_length(struct buf *out, size_t len)
{
	add_header(out, '$', (int64_t)len);
}

void resp_add_array(struct buf *out, int64_t elements)
{
	add_header(out, '*', elements);
}

void resp_add_bulk(struct buf *out, struct slice s)
{
	char *at = buf_room(out, HEADER_SIZE + s.len + 2);
	char *end;

	if (!at)
		return;
	end = put_header(at, '$', (int64_t)s.len);
	memcpy(end, s.at, s.len);
	end += s.len;
	*end++ = '\r';
	*end++ = '\n';
	out->end += (size_t)(end - at);
}
