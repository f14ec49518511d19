/* SPDX-License-Identifier: MIT */
/*
 * Request parser of the debug server: one HTTP/1.x request head, strictly (RFC 9110, RFC 9112).
 *
 * It neither reads nor waits: the caller collects bytes until debug_head_end finds the end.
 *
 * Invariants
 *   HEAD-1  Only CRLF ends a line, a head has no other control characters than the tab, no folded
 *           lines, and no whitespace before the colon of a field. So no two readers disagree where
 *           a head ends.
 *   -       A request has no body: Transfer-Encoding and Content-Length above 0 are errors. What
 *           follows the head is the next request.
 *   HEAD-3  Host is an address in digits, localhost, or the name that the program listens at. A web
 *           page whose name an attacker resolves to this machine (DNS rebinding) gets nothing.
 *
 * An error is an HTTP status, and ends the connection.
 */
#ifndef GMP_HTTP_H
#define GMP_HTTP_H

#include "base/base.h"

enum {
	DEBUG_HEAD_MOST = 8192, /* bytes of a request head */
	DEBUG_TARGET_MOST = 1024,
	DEBUG_PATH_MOST = 64, /* with the 0; a longer path is no page */
	DEBUG_SECONDS_MOST = 60,
};

enum debug_method { DEBUG_GET, DEBUG_HEAD, DEBUG_OTHER };

struct debug_head {
	enum debug_method method;
	bool keep_alive;
	bool http10;                /* HTTP/1.0: the client knows no chunks */
	char path[DEBUG_PATH_MOST]; /* "": too long for any page */
	/* parameters of the query; 0: not given */
	int seconds; /* 1 to DEBUG_SECONDS_MOST */
	int cputime; /* likewise */
	bool all;
};

/*
 * Check the bytes from *seen on; *seen becomes n. Returns the length of the head at the start of
 * buf, with its empty line; 0 if more bytes are needed; -400 if no bytes can make it a valid head.
 */
int debug_head_end(const char *buf, size_t n, size_t *seen);

/*
 * Parse a head of n bytes that debug_head_end has found. name: the host that the program listens
 * at, or "". Returns 0 with *h filled, or a status; h->method is then valid unless that is 400.
 */
int debug_head_parse(struct debug_head *h, const char *head, size_t n, const char *name);

/* Return whether a Host field of n bytes has the form HOST or HOST:PORT with a HOST of HEAD-3. */
bool debug_host_allowed(const char *host, size_t n, const char *name);

#endif
