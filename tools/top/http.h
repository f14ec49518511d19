/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 client for one GET per connection, with deadlines and a limit of the answer.
 */
#ifndef TOP_HTTP_H
#define TOP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HOST_MOST 255       /* bytes of a host name */
#define HTTP_BODY_MOST (4 << 20) /* bytes of an answer without its head */
#define HTTP_ERROR_SIZE 256

struct http_address {
	char host[HTTP_HOST_MOST + 1]; /* without the brackets of an IPv6 address */
	char port[6];
	char text[HTTP_HOST_MOST + 10]; /* as in a URL */
};

/*
 * How the client waits. Returns 0 when fd is ready for events (of poll), -ETIMEDOUT at the deadline
 * in ns of CLOCK_MONOTONIC, -EINTR if the program must end.
 */
struct http_wait {
	int (*wait)(void *arg, int fd, short events, int64_t deadline);
	void *arg;
};

struct http_answer {
	char *body; /* NUL behind its last byte; the caller frees it */
	size_t length;
	char error[HTTP_ERROR_SIZE]; /* what failed, clean */
};

int64_t http_now(void);

/* Parse host:port, [v6]:port, :port or port (127.0.0.1). Returns false if it is invalid. */
bool http_parse_address(struct http_address *a, const char *text);

/*
 * GET path. Returns 0 with the body of an answer of status 200. Otherwise a negative errno value:
 * -EINTR if `wait` returned it, and others with error set and no body.
 */
int http_get(const struct http_address *a, const char *path, const struct http_wait *wait,
	     struct http_answer *answer);

#endif
