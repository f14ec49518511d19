/* SPDX-License-Identifier: MIT */
/* Parses HTTP/1.1 requests and responses (RFC 9110, RFC 9112) incrementally and strictly. */
#ifndef EXAMPLES_HTTP_H
#define EXAMPLES_HTTP_H

#include "buf.h"

#include <stdint.h>

#define HTTP_HEAD_MOST (8 << 10)  /* bytes of a start line and its fields; of a trailer section */
#define HTTP_FIELDS_MOST 100      /* fields in a head, and in a trailer section */
#define HTTP_URL_MOST 2048        /* bytes of a request target */
#define HTTP_LINE_MOST 2112       /* bytes of a start line with its CRLF */
#define HTTP_BODY_MOST (64 << 10) /* bytes of a body that httpd reads and discards */

enum http_kind { HTTP_REQUEST, HTTP_RESPONSE };

enum http_method {
	HTTP_UNKNOWN, /* a valid token that names no method below */
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_DELETE,
	HTTP_CONNECT,
	HTTP_OPTIONS,
	HTTP_TRACE,
	HTTP_PATCH,
};

enum http_event {
	HTTP_MORE,     /* call again after bytes were added to the buffer */
	HTTP_HEAD_END, /* the head is complete: `fields` are valid until the next call */
	HTTP_DATA,     /* `data` and `data_len` are bytes of the body, valid until the next call */
	HTTP_END,      /* the message is complete; the buffer starts with what follows it */
	HTTP_ERROR,    /* `status` says why; the connection must be closed */
};

/* Offsets from the first byte of the head. */
struct http_field {
	uint16_t name, name_len;
	uint16_t value, value_len;
};

struct http_message {
	enum http_kind kind;
	enum http_method method; /* of the request; for a response, of the request it answers */
	int state;
	int minor;         /* of the version: 0 or 1 */
	int code;          /* status code of a response */
	int status;        /* after HTTP_ERROR: the status code to answer with */
	bool begun;        /* a byte of the message was received */
	bool keep_alive;   /* the sender allows a further message on this connection */
	bool chunked;      /* Transfer-Encoding: chunked */
	bool until_close;  /* a response body that ends with the connection: see http_parse_end */
	bool expect;       /* Expect: 100-continue */
	bool skipped_line; /* the one empty line before a request was skipped */
	int hosts;         /* number of Host fields */
	unsigned host;     /* index of the Host field in `fields` */
	int connection;    /* options that the Connection fields name */
	int64_t length;    /* Content-Length; -1: no such field */
	int64_t body_most; /* limit of the body in bytes */
	int64_t body;      /* bytes of the body so far */
	uint64_t left;     /* of the body or the chunk */
	int digits;        /* of the chunk size */
	size_t scanned;    /* bytes of the head that were checked */
	size_t line;       /* offset of the current line in the head */
	size_t trailer;    /* bytes of the trailer section so far */
	size_t head_len;   /* bytes of the head, to be consumed by the next call */
	const char *head;  /* the head in the caller's buffer: see HTTP_HEAD_END */
	const char *data;
	size_t data_len;
	size_t path; /* offset of the path in `url`, behind http://AUTHORITY */
	size_t url_len;
	unsigned fields_len;
	struct http_field fields[HTTP_FIELDS_MOST];
	char url[HTTP_URL_MOST]; /* request target as it was sent */
};

/* Prepare for the next message. `body_most` limits the body: a longer one is answered with 413.
 * A response also needs `method`, to be set after this call. */
void http_begin(struct http_message *m, enum http_kind kind, int64_t body_most);

/* Parse what `in` holds up to the next event. After HTTP_MORE the bytes of an incomplete head stay
 * in `in`; the caller only appends to it. HTTP_ERROR is final: later calls return it again. */
enum http_event http_parse(struct http_message *m, struct buf *in);

/* Returns whether the end of the stream ends the message correctly. Call it if the stream ended
 * after http_parse returned HTTP_MORE. */
bool http_parse_end(const struct http_message *m);

/* Returns whether the message has a body, possibly of no bytes. Valid from HTTP_HEAD_END on. */
bool http_has_body(const struct http_message *m);

/* Returns whether the comma-separated list `value` has this element, in upper or lower case. */
bool http_list_has(const char *value, size_t len, const char *name, size_t name_len);

/* Write the decoded path of a request to `path`, zero-terminated. Returns false if the target has
 * no path, if an escape is invalid or encodes NUL, or if the path does not fit. */
bool http_path(const struct http_message *m, char *path, size_t size);

const char *http_reason(int status);

#endif
