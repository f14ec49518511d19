/* SPDX-License-Identifier: MIT */
/*
 * Fetches URLs at the same time with one libcurl multi handle, driven by one green thread and
 * gmp_poll.
 *
 *   $ fetch http://127.0.0.1:8080/a http://127.0.0.1:8080/b
 *   200      1270 http://127.0.0.1:8080/a
 *   404       153 http://127.0.0.1:8080/b
 *
 * libcurl reports by two callbacks which fds to poll (on_socket), and when it must be called at the
 * latest (on_timer). drive() passes the fds to gmp_poll without adopting them, because libcurl may
 * close and reuse them between two calls.
 */
#include <gmp.h>

#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct transfer {
	const char *url;
	CURL *easy;
	curl_off_t bytes;
	CURLcode result;
};

struct driver {
	CURLM *multi;
	struct pollfd *fds;
	size_t n, room;
	int64_t deadline; /* of libcurl's timer, in ns */
	struct transfer *transfers;
	int count, status;
};

/* --- libcurl's callbacks --- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct driver *d = arg;
	size_t i = 0;

	(void)easy, (void)unused;
	while (i < d->n && d->fds[i].fd != fd)
		i++;
	if (what == CURL_POLL_REMOVE) {
		if (i < d->n)
			d->fds[i] = d->fds[--d->n];
		return 0;
	}
	if (i == d->room) {
		size_t room = d->room ? 2 * d->room : 16;
		struct pollfd *fds = realloc(d->fds, room * sizeof(*fds));

		if (!fds)
			return -1;
		d->fds = fds;
		d->room = room;
	}
	d->n += i == d->n;
	d->fds[i] = (struct pollfd){ .fd = fd,
				     .events = (short)((what & CURL_POLL_IN ? POLLIN : 0) |
						       (what & CURL_POLL_OUT ? POLLOUT : 0)) };
	return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct driver *d = arg;

	(void)multi;
	d->deadline = ms < 0 ? GMP_FOREVER : gmp_deadline(ms * GMP_MS);
	return 0;
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;

	(void)data;
	t->bytes += (curl_off_t)(size * n);
	return size * n;
}

/* --- the driver --- */

/* Report the ready fds to libcurl. Each call of libcurl may add and remove fds. */
static CURLMcode act(struct driver *d, int *running)
{
	struct pollfd ready[64];
	size_t n = 0;
	CURLMcode err = CURLM_OK;

	for (size_t i = 0; i < d->n && n < sizeof(ready) / sizeof(ready[0]); i++)
		if (d->fds[i].revents)
			ready[n++] = d->fds[i];
	for (size_t i = 0; i < n && !err; i++)
		err = curl_multi_socket_action(
			d->multi, ready[i].fd,
			(ready[i].revents & POLLIN ? CURL_CSELECT_IN : 0) |
				(ready[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
				(ready[i].revents & (POLLERR | POLLNVAL | POLLHUP)
					 ? CURL_CSELECT_ERR
					 : 0),
			running);
	return err;
}

static void drive(struct driver *d)
{
	int running = 0;
	CURLMcode err = curl_multi_socket_action(d->multi, CURL_SOCKET_TIMEOUT, 0, &running);

	while (!err && running > 0) {
		int n = gmp_poll(d->fds, d->n, d->deadline);

		if (n > 0) {
			err = act(d, &running);
		} else if (n == -ETIMEDOUT) {
			d->deadline = GMP_FOREVER; /* libcurl sets it again */
			err = curl_multi_socket_action(d->multi, CURL_SOCKET_TIMEOUT, 0, &running);
		} else {
			fprintf(stderr, "fetch: gmp_poll: %s\n", strerror(-n));
			d->status = 1;
			return;
		}
	}
	if (err) {
		fprintf(stderr, "fetch: %s\n", curl_multi_strerror(err));
		d->status = 1;
	}
}

static void add_all(struct driver *d)
{
	for (int i = 0; i < d->count; i++) {
		struct transfer *t = &d->transfers[i];

		t->result = CURLE_FAILED_INIT;
		t->easy = curl_easy_init();
		if (!t->easy)
			continue;
		curl_easy_setopt(t->easy, CURLOPT_URL, t->url);
		curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_data);
		curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
		curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
		curl_easy_setopt(t->easy, CURLOPT_TIMEOUT, 30L);
		curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
		curl_multi_add_handle(d->multi, t->easy);
	}
}

static void report(struct driver *d)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(d->multi, &left)))
		if (m->msg == CURLMSG_DONE) {
			struct transfer *t;

			curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
			t->result = m->data.result;
		}
	for (int i = 0; i < d->count; i++) {
		struct transfer *t = &d->transfers[i];
		long code = 0;

		if (t->result == CURLE_OK) {
			curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
			printf("%ld %9lld %s\n", code, (long long)t->bytes, t->url);
		} else {
			fprintf(stderr, "fetch: %s: %s\n", t->url, curl_easy_strerror(t->result));
			d->status = 1;
		}
		if (t->easy) {
			curl_multi_remove_handle(d->multi, t->easy);
			curl_easy_cleanup(t->easy);
		}
	}
}

static void app(void *arg)
{
	struct driver *d = arg;

	d->multi = curl_multi_init();
	if (!d->multi) {
		d->status = 1;
		return;
	}
	d->deadline = GMP_FOREVER;
	curl_multi_setopt(d->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(d->multi, CURLMOPT_SOCKETDATA, d);
	curl_multi_setopt(d->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(d->multi, CURLMOPT_TIMERDATA, d);
	add_all(d);
	drive(d);
	report(d);
	curl_multi_cleanup(d->multi);
	free(d->fds);
}

int main(int argc, char **argv)
{
	struct driver d = { .count = argc - 1 };

	if (argc < 2) {
		fputs("usage: fetch URL...\n", stderr);
		return 2;
	}
	d.transfers = calloc((size_t)d.count, sizeof(*d.transfers));
	for (int i = 0; d.transfers && i < d.count; i++)
		d.transfers[i].url = argv[i + 1];
	if (!d.transfers || curl_global_init(CURL_GLOBAL_DEFAULT) != 0 ||
	    gmp_run(app, &d, NULL) != 0) {
		fputs("fetch: cannot start\n", stderr);
		return 1;
	}
	curl_global_cleanup();
	free(d.transfers);
	return d.status;
}
