/* SPDX-License-Identifier: MIT */
/*
 * Runs a libuv loop inside a green thread: callbacks of libuv beside green threads of gmp.
 *
 *   $ uvloop --port 7000 &
 *   $ nc 127.0.0.1 7000
 *
 * Callbacks of libuv accept connections and read lines. Each line is sent over a channel to a green
 * thread, which may wait. It answers by gmp_uv_await: the loop starts the write, and the green
 * thread waits until the line has been written.
 *
 * UV-1  Only the green thread in gmp_uv_run calls functions of the loop: in callbacks, and in
 *       start_write.
 * UV-2  A callback does not wait, because that would delay all connections. It uses try forms.
 * UV-3  A connection is freed by its last user: its handle, or a request under way.
 */
#include <gmp.h>
#include <gmp_uv.h>

#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define LINE 4096
#define REQUESTS 64
#define WORKERS 8

struct connection {
	uv_tcp_t tcp;
	char line[LINE];
	size_t n;
	atomic_int used; /* UV-3 */
};

struct request {
	uv_write_t write;
	struct connection *from;
	char text[LINE];
};

struct service {
	uv_loop_t loop;
	uv_tcp_t listener;
	uv_signal_t ended;
	gmp_chan *requests; /* of struct request * */
	gmp_g *workers[WORKERS];
	int port, status;
};

/* --- on the loop --- */

static void unuse(struct connection *c)
{
	if (atomic_fetch_sub(&c->used, 1) == 1)
		free(c);
}

static void on_closed(uv_handle_t *h)
{
	unuse(h->data);
}

static void close_connection(struct connection *c)
{
	if (!uv_is_closing((uv_handle_t *)&c->tcp))
		uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void on_written(uv_write_t *w, int status)
{
	if (status < 0)
		close_connection(w->handle->data);
	gmp_uv_done(w->data, status);
}

/* For gmp_uv_await. */
static int start_write(uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	struct request *r = arg;
	uv_stream_t *to = (uv_stream_t *)&r->from->tcp;
	uv_buf_t buf = uv_buf_init(r->text, (unsigned)strlen(r->text));

	(void)loop;
	r->write.data = w;
	return uv_is_closing((uv_handle_t *)to) ? UV_EPIPE
						: uv_write(&r->write, to, &buf, 1, on_written);
}

/* UV-2: a client that sends more than the workers can take is closed. */
static void submit(struct connection *c, const char *line, size_t n)
{
	struct service *s = c->tcp.loop->data;
	struct request *r = malloc(sizeof(*r));

	if (r) {
		r->from = c;
		memcpy(r->text, line, n);
		r->text[n] = '\0';
		atomic_fetch_add(&c->used, 1);
	}
	if (r && gmp_chan_try_send(s->requests, &r) == 0)
		return;
	if (r)
		unuse(c);
	free(r);
	close_connection(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct connection *c = stream->data;
	char *end;

	(void)buf;
	if (n < 0) {
		close_connection(c);
		return;
	}
	c->n += (size_t)n;
	while ((end = memchr(c->line, '\n', c->n))) {
		size_t length = (size_t)(end - c->line) + 1;

		submit(c, c->line, length);
		memmove(c->line, c->line + length, c->n - length);
		c->n -= length;
	}
	if (c->n == LINE - 1)
		close_connection(c); /* the line is too long */
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	struct connection *c = h->data;

	(void)size;
	*buf = uv_buf_init(c->line + c->n, (unsigned)(LINE - 1 - c->n));
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct connection *c = status < 0 ? NULL : calloc(1, sizeof(*c));

	if (!c || uv_tcp_init(listener->loop, &c->tcp) != 0) {
		free(c);
		return;
	}
	c->tcp.data = c;
	c->used = 1;
	if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 ||
	    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
		close_connection(c);
}

static void close_if_open(uv_handle_t *h, void *arg)
{
	struct service *s = arg;
	int is_connection = h != (uv_handle_t *)&s->listener && h != (uv_handle_t *)&s->ended;

	if (!uv_is_closing(h))
		uv_close(h, is_connection ? on_closed : NULL);
}

static void on_signal(uv_signal_t *signal, int number)
{
	(void)number;
	uv_walk(signal->loop, close_if_open, signal->data);
}

/* --- green threads --- */

/* Answers each line after a wait, which a callback must not do. */
static void worker(void *arg)
{
	struct service *s = arg;
	struct request *r;

	while (gmp_chan_recv(s->requests, &r) == 0) {
		gmp_sleep(GMP_MS);
		for (char *p = r->text; *p; p++)
			if (*p >= 'a' && *p <= 'z')
				*p -= 'a' - 'A';
		gmp_uv_await(&s->loop, start_write, r); /* -ESRCH: the loop has ended */
		unuse(r->from);
		free(r);
	}
}

static int start_workers(struct service *s)
{
	s->requests = gmp_chan_new(sizeof(struct request *), REQUESTS);
	if (!s->requests)
		return -ENOMEM;
	for (int i = 0; i < WORKERS; i++) {
		int err = gmp_spawn(&s->workers[i], worker, s, NULL);

		if (err)
			return err;
	}
	return 0;
}

/* End the workers after the loop: they drop the queued requests. */
static void end_workers(struct service *s)
{
	gmp_chan_close(s->requests);
	for (int i = 0; i < WORKERS; i++)
		gmp_join(s->workers[i]);
	gmp_chan_free(s->requests);
}

static int listen_on(struct service *s)
{
	struct sockaddr_in a;
	int length = sizeof(a), err;

	s->loop.data = s;
	if ((err = uv_signal_init(&s->loop, &s->ended)) != 0 ||
	    (err = uv_signal_start(&s->ended, on_signal, SIGTERM)) != 0 ||
	    (err = uv_tcp_init(&s->loop, &s->listener)) != 0 ||
	    (err = uv_ip4_addr("127.0.0.1", s->port, &a)) != 0 ||
	    (err = uv_tcp_bind(&s->listener, (struct sockaddr *)&a, 0)) != 0 ||
	    (err = uv_listen((uv_stream_t *)&s->listener, 128, on_connection)) != 0 ||
	    (err = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&a, &length)) != 0)
		return err;
	s->ended.data = s;
	printf("uvloop: listening on 127.0.0.1:%d\n", ntohs(a.sin_port));
	fflush(stdout);
	return 0;
}

static void app(void *arg)
{
	struct service *s = arg;
	int err = start_workers(s);

	if (!err)
		err = uv_loop_init(&s->loop);
	if (!err)
		err = listen_on(s);
	if (err) {
		fprintf(stderr, "uvloop: cannot listen on port %d: %s\n", s->port,
			uv_strerror(err));
		s->status = 1;
		return;
	}
	err = gmp_uv_run(&s->loop);
	end_workers(s);
	if (!err)
		err = uv_loop_close(&s->loop);
	s->status = err != 0;
}

int main(int argc, char **argv)
{
	static const struct option known[] = { { "port", required_argument, NULL, 'p' }, { 0 } };
	struct service s = { .port = 7000 };
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		s.port = c == 'p' ? (int)server_parse_number(optarg, 0, 65535) : -1;
	if (s.port < 0 || optind != argc) {
		fputs("usage: uvloop [--port PORT]\n", stderr);
		return 2;
	}
	if (gmp_run(app, &s, NULL) != 0) {
		fputs("uvloop: cannot start\n", stderr);
		return 1;
	}
	return s.status;
}
