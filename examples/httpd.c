/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 file server: serves a folder, and limits the cost of slow, greedy and hostile clients.
 *
 *   $ httpd --port 8080 --root /usr/share/doc &
 *   $ curl http://127.0.0.1:8080/bash/
 *   $ httpsd --port 8443 --root /usr/share/doc --cert cert.pem --key key.pem &
 *   $ curl --cacert cert.pem https://localhost:8443/bash/
 *
 * It answers GET and HEAD, over persistent connections with pipelining. httpstream.c has the
 * connections, http.c parses the requests, and this file answers them. httpsd is the same program
 * with HTTPS: httptls.c in place of httpnotls.c, and libgmprt_posix.
 *
 *   1. If a request is not complete --timeout seconds after its first byte, the answer is 408. A
 *      client that starts no request within that time, or acknowledges no byte of an answer, is
 *      disconnected (server.h, struct server_writer).
 *   2. Answers are collected until there is no further request, and then sent together. A large
 *      file is sent from the page cache by sendfile, without a copy to user space; over TLS, it is
 *      read and written.
 *   3. If a part of the path begins with a dot, the answer is 403. A client therefore reaches no
 *      hidden file and no file above the folder. Links in the folder are followed.
 *   4. If http.c refuses a request, the answer is its error and the connection is closed. For
 *      another method, a body of up to 64 KiB is discarded, and the answer is 405. GET and HEAD
 *      with a body are refused.
 *   5. With --cert, a client that speaks HTTP without TLS gets 400, and is disconnected.
 *   6. At shutdown the server completes the answers that it has begun, for up to three seconds.
 */
#include "http.h"
#include "httpstream.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define READ_SIZE 4096
#define SMALL_FILE (16 << 10) /* up to this size, a file is sent with the other answers */
#define SEND_SIZE (2 << 20)   /* bytes per sendfile */
#define COPY_SIZE (32 << 10)  /* bytes of a file that are read and written at a time */
#define HEAD_ROOM 512         /* for the head of an answer without further headers */
#define FLUSH_AT (64 << 10)   /* answers are sent once they reach this many bytes */

struct httpd {
	struct server server;
	int64_t timeout; /* ns */
	const struct stream_kind *kind;
	const char *root;
	const char *cert; /* NULL: no TLS */
	const char *key;
	long port;
	int signals;
	int status; /* the exit status */
};

struct connection {
	struct httpd *httpd;
	struct stream stream;
	bool closing; /* the next answer is the last */
	bool failed;  /* a send has failed */
	struct http_message request;
	struct buf in;
	struct buf out;
	time_t date_at; /* of the text in `date` */
	char date[40];
};

/* ------------------------------------------------------------------- Sending */

/* `more`: a file follows at once. */
static void flush_and(struct connection *c, bool more)
{
	c->failed |= c->out.failed;
	while (!c->failed && buf_len(&c->out) > 0) {
		ssize_t n = c->stream.kind->write(&c->stream, c->out.data + c->out.start,
						  buf_len(&c->out), more);

		c->failed = n <= 0;
		if (n > 0)
			c->out.start += (size_t)n;
	}
	buf_clear(&c->out);
}

static void flush(struct connection *c)
{
	flush_and(c, false);
}

static const char *date(struct connection *c)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != c->date_at) {
		gmtime_r(&now, &tm);
		strftime(c->date, sizeof(c->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		c->date_at = now;
	}
	return c->date;
}

/* `extra` holds further headers, each with its end of line. */
static void add_head(struct connection *c, int status, const char *type, long long length,
		     const char *extra)
{
	const char *connection = "";
	size_t size = HEAD_ROOM + strlen(extra);
	char *at = buf_room(&c->out, size);

	if (!at)
		return;
	if (c->closing)
		connection = "Connection: close\r\n";
	else if (c->request.keep_alive && c->request.minor == 0)
		connection = "Connection: keep-alive\r\n";
	c->out.end += (size_t)snprintf(at, size,
				       "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n"
				       "Content-Length: %lld\r\n%s%s\r\n",
				       status, http_reason(status), date(c), type, length,
				       connection, extra);
}

/* An answer without a file. */
static void add_answer(struct connection *c, int status, const char *extra)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%d %s\n", status, http_reason(status));

	add_head(c, status, "text/plain", n, extra);
	if (c->request.method != HTTP_HEAD)
		buf_add(&c->out, text, (size_t)n);
}

/* --------------------------------------------------------------------- Files */

static const char *type_of(const char *path)
{
	static const struct {
		const char *ending;
		const char *type;
	} types[] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".css", "text/css" },
		{ ".js", "text/javascript" },
		{ ".json", "application/json" },
		{ ".txt", "text/plain; charset=utf-8" },
		{ ".svg", "image/svg+xml" },
		{ ".png", "image/png" },
		{ ".jpg", "image/jpeg" },
		{ ".gif", "image/gif" },
		{ ".pdf", "application/pdf" },
	};
	const char *ending = strrchr(path, '.');

	for (size_t i = 0; ending && i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(ending, types[i].ending) == 0)
			return types[i].type;
	return "application/octet-stream";
}

static int status_of(int err)
{
	switch (err) {
	case -EACCES:
	case -EPERM: return 403;
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
	case -ENXIO:
	case -ENAMETOOLONG: return 404;
	case -EMFILE:
	case -ENFILE:
	case -ENOMEM: return 503;
	default: return 500;
	}
}

/*
 * Read a file of `expected` bytes, and a byte more if there is one. Returns how many bytes it has,
 * which are fewer if it has become smaller, or a negative errno value.
 */
static ssize_t read_file(const char *path, char *at, size_t expected)
{
	int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	size_t most = expected + 1, got = 0;
	ssize_t n;

	if (file < 0)
		return -errno;
	do {
		n = pread(file, at + got, most - got, (off_t)got);
		got += n > 0 ? (size_t)n : 0;
	} while (n > 0 && got < expected);
	n = n < 0 ? -errno : (ssize_t)got;
	close(file);
	return n;
}

/*
 * Add a file of up to `size` bytes with its head to the other answers. Returns false, and adds
 * nothing, if it cannot be read or is larger by now, which the one byte more shows. Opening,
 * reading and closing it are one blocking section: each takes about 1 us if the file is in the page
 * cache. gmp_open and gmp_pread can wait for the disk without an OS thread, but need four more
 * system calls, which show in the tail latency of 1,000 connections.
 */
static bool add_small_file(struct connection *c, const char *path, size_t size)
{
	char *at = buf_room(&c->out, HEAD_ROOM + size + 1);
	ssize_t n = -ENOMEM;

	if (at)
		n = gmp_blocking(read_file(path, at + HEAD_ROOM, size));
	if (n < 0 || (size_t)n > size)
		return false;
	add_head(c, 200, type_of(path), n, "");
	memmove(c->out.data + c->out.end, at + HEAD_ROOM, (size_t)n);
	c->out.end += (size_t)n;
	return true;
}

/* The next bytes of the file, behind the head. Returns how many, or <= 0. */
static ssize_t copy_contents(struct connection *c, int file, off_t *at, size_t n)
{
	char *room = buf_room(&c->out, n);
	ssize_t got = room ? gmp_pread(file, room, n, *at) : -ENOMEM;

	if (got > 0) {
		c->out.end += (size_t)got;
		*at += got;
		flush(c);
	}
	return got;
}

/* The head has announced the size: if the file has become shorter, the connection must end. */
static void send_contents(struct connection *c, int file, off_t size)
{
	const struct stream_kind *kind = c->stream.kind;
	off_t step = kind->send_file ? SEND_SIZE : COPY_SIZE, at = 0;

	if (kind->send_file)
		flush_and(c, true);
	while (at < size && !c->failed) {
		size_t most = (size_t)(size - at < step ? size - at : step);
		ssize_t n = kind->send_file ? kind->send_file(&c->stream, file, &at, most)
					    : copy_contents(c, file, &at, most);

		c->failed |= n <= 0;
	}
}

/* Answer with a file that is not read at once. It may have been replaced since stat, so its size is
 * read again. */
static void send_file(struct connection *c, const char *path)
{
	int file = gmp_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;

	if (file < 0) {
		add_answer(c, status_of(file), "");
		return;
	}
	if (fstat(file, &st) != 0) {
		add_answer(c, 500, "");
	} else if (!S_ISREG(st.st_mode)) {
		add_answer(c, 404, "");
	} else {
		add_head(c, 200, type_of(path), st.st_size, "");
		if (c->request.method != HTTP_HEAD && st.st_size > 0)
			send_contents(c, file, st.st_size);
	}
	gmp_close(file);
}

/* Redirect to the path with a slash at its end. Without the slash, relative links in the folder's
 * index would lead elsewhere. */
static void redirect_to_folder(struct connection *c)
{
	const struct http_message *r = &c->request;
	const char *query = memchr(r->url, '?', r->url_len);
	size_t n = query ? (size_t)(query - r->url) : r->url_len;
	char extra[HTTP_URL_MOST + 32];

	snprintf(extra, sizeof(extra), "Location: %.*s/\r\n", (int)n, r->url);
	add_answer(c, 301, extra);
}

/*
 * Opening a FIFO would wake its writer, and opening a device may have side effects, so the type is
 * checked first. If a local user replaces the file between the two calls (race), O_NONBLOCK keeps
 * the open from waiting. Rejected: O_PATH and /proc/self/fd avoid the race, but need one more open,
 * and /proc.
 */
static void answer_with_file(struct connection *c, const char *path)
{
	struct stat st;
	int err = gmp_blocking(stat(path, &st) == 0 ? 0 : -errno);

	if (err)
		add_answer(c, status_of(err), "");
	else if (S_ISDIR(st.st_mode))
		redirect_to_folder(c);
	else if (!S_ISREG(st.st_mode))
		add_answer(c, 404, "");
	else if (c->request.method == HTTP_HEAD || st.st_size > SMALL_FILE ||
		 !add_small_file(c, path, (size_t)st.st_size))
		send_file(c, path);
}

/* ------------------------------------------------------------------ Requests */

static void answer(struct connection *c)
{
	const struct http_message *r = &c->request;
	char path[HTTP_URL_MOST + 16] = ".";

	/* With Expect, the body was not read: see next_request. */
	c->closing = !r->keep_alive || r->expect || r->method == HTTP_UNKNOWN ||
		     r->method == HTTP_CONNECT || c->httpd->server.ending;
	if (r->method == HTTP_UNKNOWN) {
		add_answer(c, 501, "");
		return;
	}
	if (r->method != HTTP_GET && r->method != HTTP_HEAD) {
		add_answer(c, 405, "Allow: GET, HEAD\r\n");
		return;
	}
	if (!http_path(r, path + 1, HTTP_URL_MOST)) {
		add_answer(c, 400, "");
		return;
	}
	if (strstr(path, "/.") || strstr(path, "//")) {
		add_answer(c, 403, "");
		return;
	}
	if (path[strlen(path) - 1] == '/')
		strcat(path, "index.html");
	answer_with_file(c, path);
}

/* Read once. Returns the number of bytes, 0 at the end of the stream, or a negative errno value. */
static ssize_t receive(struct connection *c)
{
	char *at = buf_room(&c->in, READ_SIZE);
	ssize_t n = at ? c->stream.kind->read(&c->stream, at, READ_SIZE) : -ENOMEM;

	if (n > 0)
		c->in.end += (size_t)n;
	return n;
}

/* Wait for the next request. Returns false if there is none; an error has then been answered. */
static bool next_request(struct connection *c)
{
	struct http_message *r = &c->request;
	bool waited = false;    /* a deadline is set for its first byte */
	bool has_begun = false; /* and for its last */

	http_begin(r, HTTP_REQUEST, HTTP_BODY_MOST);
	for (;;) {
		enum http_event event = http_parse(r, &c->in);
		ssize_t n;

		/* If the client waits for "100 Continue", answer before it sends the body. */
		if (event == HTTP_END || (event == HTTP_HEAD_END && r->expect))
			return true;
		if (event == HTTP_ERROR) {
			c->closing = true;
			add_answer(c, r->status, "");
			return false;
		}
		if (event != HTTP_MORE)
			continue;
		flush(c);
		if (!waited || (r->begun && !has_begun))
			c->stream.kind->set_deadline(&c->stream, gmp_deadline(c->httpd->timeout));
		waited = true;
		has_begun = r->begun;
		n = c->failed ? 0 : receive(c);
		if (n == -ETIMEDOUT && r->begun) {
			c->closing = true;
			add_answer(c, 408, "");
		}
		if (n <= 0)
			return false;
	}
}

static void refuse_plain_http(struct connection *c)
{
	static const char text[] = "400 Bad Request\nThis port speaks HTTPS only.\n";

	c->closing = true;
	add_head(c, 400, "text/plain", sizeof(text) - 1, "");
	buf_add(&c->out, text, sizeof(text) - 1);
}

static void answer_requests(struct connection *c)
{
	while (!c->closing && !c->failed && next_request(c)) {
		answer(c);
		if (buf_len(&c->out) >= FLUSH_AT)
			flush(c);
		gmp_checkpoint();
	}
}

static void serve(int fd, void *arg)
{
	struct httpd *h = arg;
	struct connection *c = calloc(1, sizeof(*c));
	int opened;

	if (!c)
		return;
	c->httpd = h;
	c->stream = (struct stream){ .kind = h->kind, .fd = fd, .timeout = h->timeout };
	opened = c->stream.kind->open(&c->stream);
	c->failed = opened < 0;
	if (opened == STREAM_PLAIN)
		refuse_plain_http(c);
	answer_requests(c);
	flush(c);
	if (c->closing && !c->failed)
		c->stream.kind->finish(&c->stream);
	c->stream.kind->close(&c->stream);
	buf_free(&c->out);
	buf_free(&c->in);
	free(c);
}

/* ------------------------------------------------------------------ The server */

static void app(void *arg)
{
	struct httpd *h = arg;
	char addr[64];
	int fd;

	h->server = (struct server){
		.serve = serve,
		.arg = h,
		.name = "httpd",
		.grace = 3 * SECOND,
		.blocking = h->cert,
	};
	snprintf(addr, sizeof(addr), "127.0.0.1:%ld", h->port);
	fd = server_listen(&h->server, "tcp", addr);
	if (fd < 0) {
		fprintf(stderr, "httpd: cannot listen on %s: %s\n", addr, strerror(-fd));
		h->status = 1;
		return;
	}
	gmp_local_addr(fd, addr, sizeof(addr));
	printf("httpd: listening on %s\n", addr);
	fflush(stdout);

	server_wait_for_signal(h->signals);
	if (server_end(&h->server) < 0)
		_exit(1); /* a green thread still uses `h` */
}

static int usage(FILE *to, int status)
{
	fputs("usage: httpd [options]\n"
	      "  --port PORT        listen on this port (default 8080; 0 takes any free one)\n"
	      "  --root FOLDER      give out the files in this folder (default: where it is "
	      "started)\n"
	      "  --timeout SECONDS  leave clients that are slower than this (default 10)\n"
	      "  --cert FILE        speak HTTPS, with this certificate chain (PEM)\n"
	      "  --key FILE         its private key (PEM)\n",
	      to);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "root", required_argument, NULL, 'r' },
		{ "timeout", required_argument, NULL, 't' },
		{ "cert", required_argument, NULL, 'c' },
		{ "key", required_argument, NULL, 'k' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct httpd h = { .root = ".", .port = 8080, .kind = &plain_stream };
	gmp_config cfg = GMP_CONFIG_INIT;
	long timeout = 10;
	int c, err;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': h.port = server_parse_number(optarg, 0, 65535); break;
		case 'r': h.root = optarg; break;
		case 't': timeout = server_parse_number(optarg, 1, 86400); break;
		case 'c': h.cert = optarg; break;
		case 'k': h.key = optarg; break;
		case 'h': return usage(stdout, 0);
		default: return usage(stderr, 2);
		}
	}
	if (optind < argc || h.port < 0 || timeout < 0 || !h.cert != !h.key)
		return usage(stderr, 2);
	if (h.cert) {
		if (!tls_stream_init(h.cert, h.key))
			return 1;
		h.kind = &tls_stream;
		cfg.flags = GMP_OWN_TLS;
	}
	if (chdir(h.root) != 0) {
		fprintf(stderr, "httpd: %s: %s\n", h.root, strerror(errno));
		return 1;
	}
	h.timeout = timeout * SECOND;

	h.signals = server_block_signals();
	err = h.signals < 0 ? h.signals : gmp_run(app, &h, &cfg);
	if (err) {
		fprintf(stderr, "httpd: cannot start: %s\n", strerror(-err));
		return 1;
	}
	return h.status;
}
