/* SPDX-License-Identifier: MIT */
/*
 * Runs a libuv loop inside a green thread: callbacks of libuv beside green threads of gmp.
 *
 *   $ uvloop --port 7000 &
 *   $ nc 127.0.0.1 7000
 *
 * Callbacks of libuv accept connections and read lines. Each line is sent over a channel to a green
 * thread, which may wait; uv_async_send wakes the loop for the answer.
 *
 * Only run_loop connects libuv and gmp: a loop of libuv has an fd that is readable when one of the
 * loop's fds is ready (uv_backend_fd), and a time at which its next timer is due
 * (uv_backend_timeout).
 *
 * UV-1  Only the green thread in run_loop calls functions of the loop, except uv_async_send.
 * UV-2  That green thread stays on one OS thread (gmp_lock_thread): libuv keeps nothing in
 *       thread-locals, but callbacks of other libraries may.
 * UV-3  A callback of libuv must not wait, because that would stop the loop. It uses try forms.
 * UV-4  Workers call uv_async_send after the loop has ended, so the loop does not count `answered`
 *       (uv_unref), and `answered` is closed after the workers have ended.
 */
#include <gmp.h>
#include <uv.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define LINE 4096
#define REPLIES 64
#define WORKERS 8

struct connection {
	uv_tcp_t tcp;
	char line[LINE];
	size_t n;
	int used; /* references: the loop's, and one per request under way */
};

struct request {
	struct connection *from;
	char text[LINE];
};

struct service {
	uv_loop_t loop;
	uv_tcp_t listener;
	uv_async_t answered;
	uv_signal_t ended;
	gmp_chan *requests, *replies; /* of struct request * */
	gmp_g *workers[WORKERS];
	int port, status;
};

/* --- the loop, inside the calling green thread --- */

/* Run the loop until it has nothing left to do. Returns 0, or a negative errno value. */
static int run_loop(uv_loop_t *loop)
{
	int fd = gmp_fd_adopt(uv_backend_fd(loop)), err = 0;

	if (fd < 0)
		return fd;
	while (!err && uv_run(loop, UV_RUN_NOWAIT)) {
		int ms = uv_backend_timeout(loop); /* -1: no timer */
		int ready =
			gmp_fd_wait(fd, GMP_READ, ms < 0 ? GMP_FOREVER : gmp_deadline(ms * GMP_MS));

		if (ready < 0 && ready != -ETIMEDOUT)
			err = ready;
	}
	gmp_fd_release(fd);
	return err;
}

/* --- callbacks --- */

static void unuse(struct connection *c)
{
	if (--c->used == 0)
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
	struct request *r = w->data;

	if (status < 0)
		close_connection(r->from);
	unuse(r->from);
	free(r);
	free(w);
}

static void on_answered(uv_async_t *a)
{
	struct service *s = a->data;
	struct request *r;

	while (gmp_chan_try_recv(s->replies, &r) == 0) {
		uv_write_t *w = malloc(sizeof(*w));
		uv_buf_t buf = uv_buf_init(r->text, (unsigned)strlen(r->text));

		if (w)
			w->data = r;
		if (!w || uv_is_closing((uv_handle_t *)&r->from->tcp) ||
		    uv_write(w, (uv_stream_t *)&r->from->tcp, &buf, 1, on_written) != 0) {
			unuse(r->from);
			free(r);
			free(w);
		}
	}
}

/* UV-3: a client that sends more than the workers can take is closed. */
static void submit(struct connection *c, const char *line, size_t n)
{
	struct service *s = c->tcp.loop->data;
	struct request *r = malloc(sizeof(*r));

	if (r) {
		r->from = c;
		memcpy(r->text, line, n);
		r->text[n] = '\0';
		c->used++;
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

	if (uv_is_closing(h) || h == (uv_handle_t *)&s->answered) /* UV-4 */
		return;
	if (h == (uv_handle_t *)&s->listener || h == (uv_handle_t *)&s->ended)
		uv_close(h, NULL);
	else
		uv_close(h, on_closed);
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
		gmp_chan_send(s->replies, &r);
		uv_async_send(&s->answered);
	}
}

static int start_workers(struct service *s)
{
	s->requests = gmp_chan_new(sizeof(struct request *), REPLIES);
	s->replies = gmp_chan_new(sizeof(struct request *), REPLIES);
	if (!s->requests || !s->replies)
		return -ENOMEM;
	for (int i = 0; i < WORKERS; i++) {
		int err = gmp_spawn(&s->workers[i], worker, s, NULL);

		if (err)
			return err;
	}
	return 0;
}

static void join_workers(void *arg)
{
	struct service *s = arg;

	for (int i = 0; i < WORKERS; i++)
		gmp_join(s->workers[i]);
	gmp_chan_close(s->replies);
}

/* End the workers: they answer the queued requests, and the answers are discarded. */
static int end_workers(struct service *s)
{
	struct request *r;
	int err;

	gmp_chan_close(s->requests);
	err = gmp_go(join_workers, s);
	while (!err && gmp_chan_recv(s->replies, &r) == 0) {
		unuse(r->from);
		free(r);
	}
	gmp_chan_free(s->requests);
	gmp_chan_free(s->replies);
	return err;
}

static int listen_on(struct service *s)
{
	struct sockaddr_in a;
	int length = sizeof(a), err;

	s->loop.data = s;
	if ((err = uv_async_init(&s->loop, &s->answered, on_answered)) != 0 ||
	    (err = uv_signal_init(&s->loop, &s->ended)) != 0 ||
	    (err = uv_signal_start(&s->ended, on_signal, SIGTERM)) != 0 ||
	    (err = uv_tcp_init(&s->loop, &s->listener)) != 0 ||
	    (err = uv_ip4_addr("127.0.0.1", s->port, &a)) != 0 ||
	    (err = uv_tcp_bind(&s->listener, (struct sockaddr *)&a, 0)) != 0 ||
	    (err = uv_listen((uv_stream_t *)&s->listener, 128, on_connection)) != 0 ||
	    (err = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&a, &length)) != 0)
		return err;
	s->answered.data = s->ended.data = s;
	uv_unref((uv_handle_t *)&s->answered); /* UV-4 */
	printf("uvloop: listening on 127.0.0.1:%d\n", ntohs(a.sin_port));
	fflush(stdout);
	return 0;
}

static void app(void *arg)
{
	struct service *s = arg;
	int err = start_workers(s);

	gmp_lock_thread(); /* UV-2 */
	if (!err)
		err = uv_loop_init(&s->loop);
	if (!err)
		err = listen_on(s);
	if (err) {
		fprintf(stderr, "uvloop: cannot listen on port %d: %s\n", s->port,
			uv_strerror(err));
		s->status = 1;
		gmp_unlock_thread();
		return;
	}
	err = run_loop(&s->loop);
	if (!err)
		err = end_workers(s);
	if (!err) {
		uv_close((uv_handle_t *)&s->answered, NULL);
		uv_run(&s->loop, UV_RUN_DEFAULT);
		err = uv_loop_close(&s->loop);
	}
	s->status = err != 0;
	gmp_unlock_thread();
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
