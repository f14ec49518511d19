/* SPDX-License-Identifier: MIT */
/* RESP2, the protocol of Redis: an incremental parser of requests, and functions that write
 * replies. */
#ifndef EXAMPLES_RESP_H
#define EXAMPLES_RESP_H

#include "buf.h"

#include <stdint.h>

/* What a client can make the server keep before its request is complete: RESP_MAX_REQUEST bytes,
 * and eight for each argument. Redis allows 512 MB an argument, and 2^31 - 1 of them. */
#define RESP_MAX_REQUEST (64LL << 20) /* bytes, with the lengths */
#define RESP_MAX_BULK RESP_MAX_REQUEST
#define RESP_MAX_ARGS (1LL << 20)
#define RESP_MAX_LINE (64u << 10)

struct slice {
	const char *at;
	size_t len;
};

/* ------------------------------------------------------------------ Requests */

/* An argument, as a distance from the first byte of its request: the buffer may move while the
 * request is incomplete. */
struct resp_arg {
	uint32_t offset;
	uint32_t len;
};

/* Valid when all zero. */
struct resp_parser {
	const char *request;   /* first byte of the request that is complete */
	struct resp_arg *args; /* its arguments, the command's name first */
	uint32_t argc;
	uint32_t args_size; /* how many `args` has room for */
	uint32_t missing;   /* arguments that are still to come; 0 between requests */
	bool in_bulk;       /* the length of the next argument is known: */
	uint32_t bulk_len;
	size_t used;       /* bytes of the request that are understood */
	const char *error; /* what Redis calls the fault */
	char error_text[32];
};

enum resp_result {
	RESP_INCOMPLETE, /* ask again when there is more */
	RESP_REQUEST,    /* `used` bytes make a request of argc arguments, maybe of none */
	RESP_BROKEN,     /* `error` says why; what follows cannot be understood */
	RESP_NO_MEMORY,
};

/*
 * Look for one request in the n bytes at `bytes`, which begin with the first byte of a request.
 * After RESP_INCOMPLETE the next call gets the same bytes, maybe elsewhere, and more; it continues
 * where this one stopped. After RESP_REQUEST the next call gets the bytes that follow. The bytes of
 * an inline request are changed: quotes are resolved in place.
 */
enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t n);

void resp_parser_free(struct resp_parser *p);

static inline struct slice resp_arg(const struct resp_parser *p, uint32_t i)
{
	return (struct slice){ p->request + p->args[i].offset, p->args[i].len };
}

/* The number that `s` is the one and only way to write; false when it is none. */
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
