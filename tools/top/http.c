/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 client for one GET per connection: connects, sends, and reads the answer.
 *
 * A body is as long as Content-Length says, or chunked, or ends with the connection. An answer that
 * has two lengths, both forms, or a line without end is refused.
 */
#include "http.h"
#include "text.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define CONNECT_MOST (2 * SECOND)
#define ANSWER_MOST (5 * SECOND)
#define LINE_MOST 8192 /* bytes of a line of the head, or of a chunk's */
#define LINES_MOST 100 /* lines of a head, or of a trailer */

struct reader {
	int fd;
	const struct http_wait *wait;
	int64_t deadline;
	char in[16384];
	size_t begin, end; /* what of `in` is not used yet */
	struct http_answer *answer;
	size_t room; /* bytes allocated for the body */
};

struct head {
	int status;
	bool chunked;
	int64_t length; /* of Content-Length, or -1 */
};

int64_t http_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

bool http_parse_address(struct http_address *a, const char *text)
{
	const char *colon = strrchr(text, ':');
	const char *port = colon ? colon + 1 : text;
	size_t host = colon ? (size_t)(colon - text) : 0;
	bool brackets = host >= 2 && text[0] == '[' && colon[-1] == ']';
	size_t digits = strspn(port, "0123456789");

	if (digits == 0 || digits > 5 || port[digits] || atoi(port) < 1 || atoi(port) > 65535)
		return false;
	snprintf(a->port, sizeof(a->port), "%s", port);
	if (host == 0) {
		text = "127.0.0.1";
		host = strlen(text);
	} else if (brackets) {
		text++;
		host -= 2;
	} else if (memchr(text, ':', host)) {
		return false;
	}
	if (host == 0 || host > HTTP_HOST_MOST)
		return false;
	for (size_t i = 0; i < host; i++) {
		if (text[i] <= ' ' || text[i] > '~' || strchr("/@?#[]", text[i]))
			return false;
	}
	memcpy(a->host, text, host);
	a->host[host] = '\0';
	snprintf(a->text, sizeof(a->text), brackets ? "[%s]:%s" : "%s:%s", a->host, a->port);
	return true;
}

static int fails(struct http_answer *answer, int error, const char *text)
{
	if (error != -EINTR)
		snprintf(answer->error, sizeof(answer->error), "%s", text);
	return error;
}

/* -------------------------------------------------------------- The connection */

static int connect_one(const struct addrinfo *ai, const struct http_wait *wait, int64_t deadline)
{
	int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(int);
	int error;

	if (fd < 0)
		return -errno;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0)
		return fd;
	error = -errno;
	if (error == -EINPROGRESS) {
		error = wait->wait(wait->arg, fd, POLLOUT, deadline);
		if (error == 0) {
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
			error = -error;
		}
	}
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

static int connect_any(const struct http_address *a, const struct http_wait *wait,
		       struct http_answer *answer)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int64_t deadline = http_now() + CONNECT_MOST;
	int error = getaddrinfo(a->host, a->port, &hints, &list);
	int fd = -EHOSTUNREACH;

	if (error)
		return fails(answer, -EHOSTUNREACH, gai_strerror(error));
	for (const struct addrinfo *ai = list; ai && fd < 0 && fd != -EINTR; ai = ai->ai_next)
		fd = connect_one(ai, wait, deadline);
	freeaddrinfo(list);
	if (fd == -ETIMEDOUT)
		return fails(answer, fd, "no connection within 2 s");
	return fd < 0 ? fails(answer, fd, strerror(-fd)) : fd;
}

static int send_all(struct reader *r, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(r->fd, data, n, MSG_NOSIGNAL);
		int error = 0;

		if (sent >= 0) {
			data += sent;
			n -= (size_t)sent;
		} else if (errno == EAGAIN) {
			error = r->wait->wait(r->wait->arg, r->fd, POLLOUT, r->deadline);
		} else if (errno != EINTR) {
			error = -errno;
		}
		if (error)
			return fails(r->answer, error, "cannot send the request");
	}
	return 0;
}

/* Read more into r->in, which is empty. Returns 1, 0 at the end, or a negative errno value. */
static int fill(struct reader *r)
{
	for (;;) {
		ssize_t n = recv(r->fd, r->in, sizeof(r->in), 0);
		int error = 0;

		if (n >= 0) {
			r->begin = 0;
			r->end = (size_t)n;
			return n > 0;
		}
		if (errno == EAGAIN)
			error = r->wait->wait(r->wait->arg, r->fd, POLLIN, r->deadline);
		else if (errno != EINTR)
			error = -errno;
		if (error == -ETIMEDOUT)
			return fails(r->answer, error, "no complete answer within 5 s");
		if (error)
			return fails(r->answer, error, strerror(-error));
	}
}

static int cut_short(struct reader *r)
{
	return fails(r->answer, -EPROTO, "the answer ends too early");
}

/* ------------------------------------------------------------------ The answer */

/* Read a line without its end to `line`, of LINE_MOST bytes. */
static int read_line(struct reader *r, char *line)
{
	for (size_t n = 0; n < LINE_MOST;) {
		char c;

		if (r->begin == r->end) {
			int got = fill(r);

			if (got <= 0)
				return got ? got : cut_short(r);
		}
		c = r->in[r->begin++];
		if (c == '\n') {
			line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
			return 0;
		}
		line[n++] = c;
	}
	return fails(r->answer, -EPROTO, "the answer is not HTTP: a line is too long");
}

/* Parse digits of a base that fill the text up to its end or to `stop`; -1 if they do not. */
static int64_t parse_length(const char *text, int base, char stop)
{
	char *end;
	long long n;

	if (!strchr("0123456789abcdefABCDEF", text[0]) || !text[0])
		return -1;
	errno = 0;
	n = strtoll(text, &end, base);
	end += strspn(end, " \t");
	return errno || n < 0 || (*end && *end != stop) ? -1 : n;
}

static bool parse_header(struct head *h, char *line)
{
	char *value = strchr(line, ':');

	if (!value)
		return false;
	*value++ = '\0';
	value += strspn(value, " \t");
	if (strcasecmp(line, "Content-Length") == 0) {
		if (h->length >= 0)
			return false;
		h->length = parse_length(value, 10, '\0');
		return h->length >= 0;
	}
	if (strcasecmp(line, "Transfer-Encoding") == 0) {
		if (h->chunked || strcasecmp(value, "chunked") != 0)
			return false;
		h->chunked = true;
	}
	return true;
}

static int read_head(struct reader *r, struct head *h)
{
	char line[LINE_MOST];
	int error = read_line(r, line);

	if (error)
		return error;
	if (strncmp(line, "HTTP/1.", 7) != 0 || !strchr("01", line[7]) || line[8] != ' ' ||
	    strspn(line + 9, "0123456789") != 3)
		return fails(r->answer, -EPROTO, "the answer is not HTTP");
	h->status = atoi(line + 9);
	for (int i = 0; i < LINES_MOST; i++) {
		error = read_line(r, line);
		if (error || !line[0])
			break;
		if (!parse_header(h, line) || i == LINES_MOST - 1)
			return fails(r->answer, -EPROTO, "the answer has an invalid head");
	}
	if (error == 0 && h->chunked && h->length >= 0)
		return fails(r->answer, -EPROTO, "the answer has an invalid head");
	return error;
}

static int append(struct reader *r, const char *data, size_t n)
{
	struct http_answer *a = r->answer;

	if (n > HTTP_BODY_MOST - a->length)
		return fails(a, -EFBIG, "the answer is larger than 4 MiB");
	if (a->length + n + 1 > r->room) {
		size_t room = 2 * (a->length + n + 1);
		char *body = realloc(a->body, room);

		if (!body)
			return fails(a, -ENOMEM, "no memory for the answer");
		a->body = body;
		r->room = room;
	}
	memcpy(a->body + a->length, data, n);
	a->length += n;
	a->body[a->length] = '\0';
	return 0;
}

/* Read n bytes of the body; -1 means up to the end of the connection. */
static int read_bytes(struct reader *r, int64_t n)
{
	int error = append(r, "", 0);

	if (n > HTTP_BODY_MOST)
		return fails(r->answer, -EFBIG, "the answer is larger than 4 MiB");
	while (n != 0 && error == 0) {
		size_t some = r->end - r->begin;

		if (some == 0) {
			int got = fill(r);

			if (got <= 0)
				return got || n < 0 ? got : cut_short(r);
			continue;
		}
		if (n >= 0 && some > (size_t)n)
			some = (size_t)n;
		error = append(r, r->in + r->begin, some);
		r->begin += some;
		n -= n >= 0 ? (int64_t)some : 0;
	}
	return error;
}

static int read_chunks(struct reader *r)
{
	char line[LINE_MOST];
	int error;

	for (;;) {
		int64_t n;

		error = read_line(r, line);
		if (error)
			return error;
		n = parse_length(line, 16, ';');
		if (n < 0)
			return fails(r->answer, -EPROTO, "the answer has an invalid chunk");
		error = read_bytes(r, n);
		if (error || n == 0)
			break;
		error = read_line(r, line);
		if (error || line[0])
			return error ? error
				     : fails(r->answer, -EPROTO, "the answer has an invalid chunk");
	}
	for (int i = 0; error == 0 && i < LINES_MOST; i++) {
		error = read_line(r, line);
		if (!line[0])
			break;
	}
	return error;
}

/* The error of an answer with another status than 200: its first line. */
static int refuse(struct http_answer *a, int status)
{
	char line[160];

	text_clean(line, sizeof(line), a->body, strcspn(a->body, "\r\n"));
	snprintf(a->error, sizeof(a->error), "the server answers %d%s%s", status,
		 line[0] ? ": " : "", line);
	return -EPROTO;
}

static int exchange(struct reader *r, const struct http_address *a, const char *path)
{
	struct head h = { .length = -1 };
	char request[1024];
	int n = snprintf(request, sizeof(request),
			 "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n"
			 "Connection: close\r\n\r\n",
			 path, a->text);
	int error = send_all(r, request, (size_t)n);

	if (error == 0)
		error = read_head(r, &h);
	if (error == 0)
		error = h.chunked ? read_chunks(r) : read_bytes(r, h.length);
	if (error == 0 && h.status != 200)
		error = refuse(r->answer, h.status);
	return error;
}

int http_get(const struct http_address *a, const char *path, const struct http_wait *wait,
	     struct http_answer *answer)
{
	struct reader r = { .wait = wait, .answer = answer };
	int error;

	memset(answer, 0, sizeof(*answer));
	r.fd = connect_any(a, wait, answer);
	if (r.fd < 0)
		return r.fd;
	r.deadline = http_now() + ANSWER_MOST;
	error = exchange(&r, a, path);
	close(r.fd);
	if (error) {
		free(answer->body);
		answer->body = NULL;
	}
	return error;
}
