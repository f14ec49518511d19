/* SPDX-License-Identifier: MIT */
/*
 * Reverse proxy for HTTP/1.1: re-frames every message (mode --http of examples/proxy.c).
 *
 *   HTTPPROXY-1  No byte is forwarded before http.c has parsed its framing. Start line, Host,
 *                framing and Connection are written from the parsed values; the data of a body
 *                is copied into new chunks, or under the Content-Length that was parsed.
 *   HTTPPROXY-2  Each request has a connection of its own to the target, which is closed after the
 *                response. So bytes behind a response are never taken for the next one.
 *   HTTPPROXY-3  A request with an error in its body never gets a last chunk or its last byte: the
 *                connection to the target is reset, the client gets the error, and is closed.
 *   HTTPPROXY-4  A response that http.c refuses is answered with 502. If its head was already sent,
 *                the connection to the client is reset, so that it is not taken for a complete one.
 *   HTTPPROXY-5  Only a FIN of the target completes a response that ends with the connection. A
 *                reset, a timeout, another error, and the end of the proxy do not complete it.
 *   HTTPPROXY-6  A head must be complete within `timeout` from its first byte. A body has no limit
 *                of its total time: only two reads, and two acknowledged bytes, are at most
 *                `timeout` apart. The proxy notices a disconnected client at its next read or
 *                write.
 *
 * Hop-by-hop fields (RFC 9110, 7.6.1), fields that Connection names, and fields whose name has
 * characters other than letters, digits and '-' are dropped; so are trailers. The proxy sends the
 * body before it reads the response. If a target answers early and closes the connection, the write
 * of the body fails, and the proxy then reads the response. TRACE, CONNECT and upgrades are not
 * implemented.
 */
#include "httpproxy.h"
#include "http.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define SECOND 1000000000LL
#define DIAL_TIME (3 * SECOND) /* less than server_end waits */
#define READ_SIZE (16 << 10)
#define FLUSH_AT (64 << 10) /* bytes */
#define INTERIM_MOST 10     /* 1xx responses to a request */
#define NAMED_MOST 32       /* elements of the Connection fields of a head */

enum outcome {
	FORWARDED,
	REFUSED,     /* the message has an error: see its status */
	ENDED,       /* the sender closed its side with a FIN */
	READ_FAILED, /* the sender reset the connection, or there is no memory, or the proxy ends */
	TIMED_OUT,   /* the sender was too slow */
	WRITE_FAILED, /* the receiver failed */
};

struct proxied {
	struct server *server;
	const char *to;
	int64_t timeout; /* ns, of a read, of a write without progress, and of a head */
	int client;
	int target;
	struct {
		const char *at;
		size_t len;
	} named[NAMED_MOST]; /* by the Connection fields of a head, while it is forwarded */
	unsigned named_len;
	bool closing;    /* the connection to the client ends after this response */
	bool head_sent;  /* a part of the final response may have been sent */
	bool incomplete; /* the client has an incomplete response: reset its connection */
	struct buf in;   /* from the client */
	struct buf back; /* from the target */
	struct buf out;  /* to the client or the target */
	struct http_message request;
	struct http_message response;
};

/* ------------------------------------------------------------------- Reads, writes */

static bool flush(struct proxied *p, int fd)
{
	bool sent = !p->out.failed;

	struct server_writer w = { .fd = fd, .patience = p->timeout };

	while (sent && buf_len(&p->out) > 0) {
		ssize_t n = server_write(&w, p->out.data + p->out.start, buf_len(&p->out));

		sent = n > 0;
		if (sent)
			p->out.start += (size_t)n;
	}
	buf_clear(&p->out);
	return sent;
}

static enum outcome receive(struct proxied *p, int fd, struct buf *in, int64_t deadline)
{
	char *at = buf_room(in, READ_SIZE);
	ssize_t n;

	if (!at)
		return READ_FAILED;
	gmp_fd_set_deadline(fd, GMP_READ, deadline);
	n = gmp_read(fd, at, READ_SIZE);
	if (n == -ETIMEDOUT)
		return TIMED_OUT;
	if (n < 0 || p->server->ending)
		return READ_FAILED;
	if (n == 0)
		return server_was_reset(fd) ? READ_FAILED : ENDED;
	in->end += (size_t)n;
	return FORWARDED;
}

static void add(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

/* Answer with an error, as the last answer on the connection. */
static void refuse(struct proxied *p, int status)
{
	char text[64], head[256];
	int n = snprintf(text, sizeof(text), "%d %s\n", status, http_reason(status));

	p->closing = true;
	buf_clear(&p->out);
	if (p->head_sent) {
		p->incomplete = true;
		return;
	}
	snprintf(head, sizeof(head),
		 "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"
		 "Connection: close\r\n\r\n",
		 status, http_reason(status), n);
	add(&p->out, head);
	if (p->request.method != HTTP_HEAD)
		add(&p->out, text);
	flush(p, p->client);
}

/* --------------------------------------------------------------------------- Heads */

/* Split the Connection fields of a head once. Otherwise the work would grow with the product of
 * their length and the number of fields. Returns false if they have too many elements. */
static bool split_connection(struct proxied *p, const struct http_message *m)
{
	p->named_len = 0;
	for (unsigned i = 0; i < m->fields_len; i++) {
		const char *at = m->head + m->fields[i].value;
		const char *end = at + m->fields[i].value_len;

		if (m->fields[i].name_len != 10 ||
		    strncasecmp(m->head + m->fields[i].name, "connection", 10) != 0)
			continue;
		while (at < end) {
			const char *stop = at;

			while (stop < end && *stop != ',' && *stop != ' ' && *stop != '\t')
				stop++;
			if (stop > at) {
				if (p->named_len == NAMED_MOST)
					return false;
				p->named[p->named_len].at = at;
				p->named[p->named_len++].len = (size_t)(stop - at);
			}
			at = stop + 1;
		}
	}
	return true;
}

/* Returns whether a field of this name concerns one connection only, or is written by the proxy. */
static bool is_dropped(const struct proxied *p, const char *name, size_t n)
{
	static const char *const dropped[] = {
		"connection",
		"keep-alive",
		"proxy-connection",
		"te",
		"trailer",
		"transfer-encoding",
		"upgrade",
		"host",
		"content-length",
		"expect",
		"http2-settings",
		"proxy-authenticate",
		"proxy-authorization",
	};

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-')
			return true;
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		if (strlen(dropped[i]) == n && strncasecmp(name, dropped[i], n) == 0)
			return true;
	for (unsigned i = 0; i < p->named_len; i++)
		if (p->named[i].len == n && strncasecmp(p->named[i].at, name, n) == 0)
			return true;
	return false;
}

static void add_fields(struct proxied *p, const struct http_message *m)
{
	struct buf *out = &p->out;

	for (unsigned i = 0; i < m->fields_len; i++) {
		const struct http_field *f = &m->fields[i];

		if (is_dropped(p, m->head + f->name, f->name_len))
			continue;
		buf_add(out, m->head + f->name, f->name_len);
		add(out, ": ");
		buf_add(out, m->head + f->value, f->value_len);
		add(out, "\r\n");
	}
	add(out, "Via: 1.1 gmp\r\n");
}

static void add_length(struct buf *out, int64_t length)
{
	char text[48];

	snprintf(text, sizeof(text), "Content-Length: %lld\r\n", (long long)length);
	add(out, text);
}

static void add_request_head(struct proxied *p)
{
	const struct http_message *r = &p->request;
	const char *method_end = memchr(r->head, ' ', r->head_len);

	buf_add(&p->out, r->head, (size_t)(method_end - r->head));
	add(&p->out, r->url_len > r->path && r->url[r->path] != '?' ? " " : " /");
	buf_add(&p->out, r->url + r->path, r->url_len - r->path);
	add(&p->out, " HTTP/1.1\r\nHost: ");
	if (r->hosts > 0)
		buf_add(&p->out, r->head + r->fields[r->host].value, r->fields[r->host].value_len);
	else if (r->path > 7)
		buf_add(&p->out, r->url + 7, r->path - 7);
	else
		add(&p->out, p->to);
	add(&p->out, "\r\n");
	add_fields(p, r);
	if (r->chunked)
		add(&p->out, "Transfer-Encoding: chunked\r\n");
	else if (r->length >= 0 && r->method != HTTP_GET && r->method != HTTP_HEAD)
		add_length(&p->out, r->length);
	add(&p->out, "Connection: close\r\n\r\n");
}

/* Returns whether the body must be sent in chunks. */
static bool add_response_head(struct proxied *p)
{
	const struct http_message *r = &p->response;
	const char *line_end = memchr(r->head, '\r', r->head_len);
	bool chunked = false;

	add(&p->out, "HTTP/1.1");
	buf_add(&p->out, r->head + 8, (size_t)(line_end - r->head - 8));
	add(&p->out, "\r\n");
	add_fields(p, r);
	if (r->code >= 200 && r->code != 204 && r->length >= 0) {
		add_length(&p->out, r->length);
	} else if (http_has_body(r)) {
		chunked = p->request.minor == 1;
		if (chunked)
			add(&p->out, "Transfer-Encoding: chunked\r\n");
		else
			p->closing = true; /* the end of the stream is the end of the body */
	}
	if (r->code >= 200 && p->closing)
		add(&p->out, "Connection: close\r\n");
	else if (r->code >= 200 && p->request.minor == 0)
		add(&p->out, "Connection: keep-alive\r\n");
	add(&p->out, "\r\n");
	return chunked;
}

/* -------------------------------------------------------------------------- Bodies */

static void add_data(struct buf *out, const struct http_message *m, bool chunked)
{
	char size[24];

	if (m->data_len == 0)
		return;
	snprintf(size, sizeof(size), "%zx\r\n", m->data_len);
	if (chunked)
		add(out, size);
	buf_add(out, m->data, m->data_len);
	if (chunked)
		add(out, "\r\n");
}

/* Forward the body of `m` to `to`, behind the bytes that `out` holds. */
static enum outcome forward_body(struct proxied *p, struct http_message *m, struct buf *in,
				 int from, int to, bool chunked)
{
	for (;;) {
		enum http_event event = http_parse(m, in);
		enum outcome got = FORWARDED;
		bool ended = event == HTTP_END;

		if (event == HTTP_ERROR)
			return REFUSED;
		if (event == HTTP_DATA)
			add_data(&p->out, m, chunked);
		if (event == HTTP_MORE) {
			if (!flush(p, to))
				return WRITE_FAILED;
			got = receive(p, from, in, gmp_deadline(p->timeout));
			ended = got == ENDED && http_parse_end(m);
		}
		if (ended && chunked)
			add(&p->out, "0\r\n\r\n");
		if ((ended || buf_len(&p->out) >= FLUSH_AT) && !flush(p, to))
			return WRITE_FAILED;
		if (ended || got != FORWARDED)
			return ended ? FORWARDED : got;
	}
}

/* Parse up to the end of a head. It must begin within the timeout, and be complete within the
 * timeout from its first byte on. */
static enum outcome read_head(struct proxied *p, struct http_message *m, struct buf *in, int fd)
{
	int64_t deadline = gmp_deadline(p->timeout);
	bool has_begun = false;

	for (;;) {
		enum http_event event = http_parse(m, in);
		enum outcome got;

		if (event == HTTP_HEAD_END)
			return FORWARDED;
		if (event == HTTP_ERROR)
			return REFUSED;
		if (m->begun && !has_begun)
			deadline = gmp_deadline(p->timeout);
		has_begun = m->begun;
		got = receive(p, fd, in, deadline);
		if (got != FORWARDED)
			return got;
	}
}

/* ----------------------------------------------------------------------- Exchanges */

/* Forward one response: the final one, or if `interim` an interim one. */
static enum outcome forward_response(struct proxied *p, bool interim)
{
	struct http_message *r = &p->response;
	enum outcome got;
	bool chunked;

	http_begin(r, HTTP_RESPONSE, INT64_MAX);
	r->method = p->request.method;
	got = read_head(p, r, &p->back, p->target);
	if (got != FORWARDED)
		return got;
	if (r->code == 101 || (r->code < 200 && !interim) || !split_connection(p, r))
		return REFUSED;
	if (r->code >= 200 || p->request.minor == 1) {
		p->head_sent = r->code >= 200;
		chunked = add_response_head(p);
		return forward_body(p, r, &p->back, p->target, p->client, chunked);
	}
	return http_parse(r, &p->back) == HTTP_END ? FORWARDED : REFUSED;
}

static void forward_responses(struct proxied *p)
{
	enum outcome got;

	int interim = 0;

	do
		got = forward_response(p, interim < INTERIM_MOST);
	while (got == FORWARDED && p->response.code < 200 && interim++ < INTERIM_MOST);
	if (got == TIMED_OUT)
		refuse(p, 504);
	else if (got == WRITE_FAILED)
		p->closing = p->incomplete = true;
	else if (got != FORWARDED)
		refuse(p, 502);
}

static void exchange(struct proxied *p)
{
	enum outcome sent;

	add_request_head(p);
	if (p->request.expect && http_has_body(&p->request) && p->request.minor == 1) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

		gmp_fd_set_deadline(p->client, GMP_WRITE, gmp_deadline(p->timeout));
		gmp_write_all(p->client, go_on, sizeof(go_on) - 1);
	}
	sent = forward_body(p, &p->request, &p->in, p->client, p->target, p->request.chunked);
	if (sent != FORWARDED && sent != WRITE_FAILED) {
		server_reset_on_close(p->target);
		refuse(p, sent == REFUSED ? p->request.status : sent == TIMED_OUT ? 408 : 400);
		return;
	}
	if (sent == WRITE_FAILED)
		p->closing = true; /* the rest of the body is not read */
	forward_responses(p);
}

static void serve_request(struct proxied *p)
{
	struct server_fd entry;

	if (p->request.method == HTTP_CONNECT || p->request.method == HTTP_TRACE) {
		refuse(p, 501);
		return;
	}
	if (!split_connection(p, &p->request)) {
		refuse(p, 431);
		return;
	}
	p->target = gmp_dial_until("tcp", p->to, gmp_deadline(DIAL_TIME));
	if (p->target < 0) {
		server_complain(p->server, p->to, p->target);
		refuse(p, 502);
		return;
	}
	if (server_add_fd(p->server, &entry, p->target)) {
		exchange(p);
		server_remove_fd(p->server, &entry);
	} else {
		p->closing = true;
	}
	gmp_close(p->target);
}

void httpproxy_serve(struct server *s, const char *to, int64_t timeout, int client)
{
	struct proxied *p = calloc(1, sizeof(*p));

	if (!p)
		return;
	p->server = s;
	p->to = to;
	p->timeout = timeout;
	p->client = client;
	while (!p->closing) {
		enum outcome got;

		http_begin(&p->request, HTTP_REQUEST, INT64_MAX);
		p->head_sent = false;
		got = read_head(p, &p->request, &p->in, client);
		if (got == REFUSED) {
			refuse(p, p->request.status);
		} else if (got == TIMED_OUT && p->request.begun) {
			refuse(p, 408);
		} else if (got != FORWARDED) {
			break;
		} else {
			p->closing = !p->request.keep_alive || s->ending;
			serve_request(p);
			buf_clear(&p->back);
		}
	}
	if (p->incomplete)
		server_reset_on_close(client);
	else if (p->closing)
		server_finish(client);
	buf_free(&p->in);
	buf_free(&p->back);
	buf_free(&p->out);
	free(p);
}
