/* SPDX-License-Identifier: MIT */
/* RESP2, the protocol of Redis: parses requests incrementally and writes replies. */
#ifndef EXAMPLES_RESP_H
#define EXAMPLES_RESP_H

#include "buf.h"

#include <stdint.h>

/* Memory limit of an incomplete request: RESP_MAX_REQUEST bytes, and eight bytes per argument.
 * Redis allows 512 MB per argument, and 2^31 - 1 arguments. */
#define RESP_MAX_REQUEST (64LL << 20) /* bytes, with the lengths */
#define RESP_MAX_BULK RESP_MAX_REQUEST
#define RESP_MAX_ARGS (1LL << 20)
#define RESP_MAX_LINE (64u << 10)

struct slice {
	const char *at;
	size_t len;
};

/* ------------------------------------------------------------------ Requests */

/* An argument, as an offset from the first byte of its request, because the buffer may move while
 * the request is incomplete. */
struct resp_arg {
	uint32_t offset;
	uint32_t len;
};

/* Valid when all zero. */
struct resp_parser {
	const char *request;   /* first byte of the complete request */
	struct resp_arg *args; /* its arguments, the command's name first */
	uint32_t argc;
	uint32_t args_size; /* capacity of `args` */
	uint32_t missing;   /* arguments that are missing; 0 between requests */
	bool in_bulk;       /* the length of the next argument is known: */
	uint32_t bulk_len;
	size_t used;       /* bytes of the request that are parsed */
	const char *error; /* text that Redis has for the error */
	char error_text[32];
};

enum resp_result {
	RESP_INCOMPLETE, /* call again with more bytes */
	RESP_REQUEST,    /* `used` bytes are a request of argc arguments, possibly none */
	RESP_BROKEN,     /* `error` says why; the bytes behind it cannot be parsed */
	RESP_NO_MEMORY,
};

/*
 * Parse one request in the n bytes at `bytes`, which begin with the first byte of a request. After
 * RESP_INCOMPLETE the next call must get the same bytes, possibly at another address, and more; it
 * continues where this call stopped. After RESP_REQUEST the next call must get the bytes behind the
 * request. The bytes of an inline request change: quotes are resolved in place.
 */
enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t n);

void resp_parser_free(struct resp_parser *p);

static inline struct slice resp_arg(const struct resp_parser *p, uint32_t i)
{
	return (struct slice){ p->request + p->args[i].offset, p->args[i].len };
}

/* Parse a number. Returns false unless `s` is its canonical form ("1", not "+1" or "01"). */
bool resp_parse_integer(struct slice s, int64_t *number);

/* ------------------------------------------------------------------- Replies */

/* Characters of the longest number, with its sign. */
#define RESP_DIGITS 20

/* Writes the decimal digits of a number and returns how many. */
size_t resp_format_integer(char *at, int64_t number);

#define resp_add_text(out, text) buf_add(out, text, sizeof(text) - 1)
#define resp_add_status(out, text) resp_add_text(out, "+" text "\r\n")
#define resp_add_error(out, text) resp_add_text(out, "-" text "\r\n")
#define resp_add_null(out) resp_add_text(out, "$-1\r\n")
void resp_add_integer(struct buf *out, int64_t number);
void resp_add_array(struct buf *out, int64_t elements); /* the elements follow */
void resp_add_bulk(struct buf *out, struct slice s);
void resp_add_bulk_length(struct buf *out, size_t len); /* the bytes and CR LF follow */

#endif
