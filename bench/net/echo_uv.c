/* SPDX-License-Identifier: MIT */
/* Echo server on libuv: uses one buffer for all reads, and answers with uv_try_write. */
#include "tcp.h"

#include <uv.h>

static char buffer[BUFFER];

static void lend(uv_handle_t *h, size_t n, uv_buf_t *buf)
{
	(void)h;
	(void)n;
	*buf = uv_buf_init(buffer, sizeof(buffer));
}

static void gone(uv_handle_t *h)
{
	free(h);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	uv_buf_t answer = uv_buf_init(buf->base, (unsigned)(n > 0 ? n : 0));

	if (n < 0 || (n > 0 && uv_try_write(s, &answer, 1) != n))
		uv_close((uv_handle_t *)s, gone);
}

static void on_connection(uv_stream_t *listener, int status)
{
	uv_tcp_t *tcp = malloc(sizeof(*tcp));

	if (status < 0 || !tcp)
		die("uv_listen", status < 0 ? -status : ENOMEM);
	uv_tcp_init(listener->loop, tcp);
	if (uv_accept(listener, (uv_stream_t *)tcp) != 0) {
		uv_close((uv_handle_t *)tcp, gone);
		return;
	}
	uv_tcp_nodelay(tcp, 1);
	uv_read_start((uv_stream_t *)tcp, lend, on_read);
}

int main(void)
{
	uv_loop_t loop;
	uv_tcp_t listener;

	uv_loop_init(&loop);
	uv_tcp_init(&loop, &listener);
	uv_tcp_open(&listener, listen_anywhere());
	if (uv_listen((uv_stream_t *)&listener, BACKLOG, on_connection) != 0)
		die("uv_listen", EINVAL);
	return uv_run(&loop, UV_RUN_DEFAULT);
}
