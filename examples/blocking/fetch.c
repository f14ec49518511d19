/* SPDX-License-Identifier: MIT */
/*
 * Fetches URLs with libcurl's blocking interface, one green thread for each.
 *
 *   $ fetch http://localhost:8080/ https://example.org/
 *
 * curl_easy_perform waits in poll() and connect(), which libgmprt_posix replaces. The transfers run
 * at the same time. Prints status, bytes and URL of each, in the order of the command line.
 *
 * FETCH-1  A handle of libcurl is used by one green thread, and so are its connections.
 * FETCH-2  CURLOPT_NOSIGNAL: the timeout of a name lookup would otherwise be a SIGALRM whose
 *          handler leaves by siglongjmp.
 */
#include <curl/curl.h>
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 30 };

struct transfer {
	const char *url;
	size_t bytes;
	long code;
	CURLcode result;
	gmp_g *g;
};

static size_t count(char *data, size_t size, size_t n, void *arg)
{
	(void)data;
	((struct transfer *)arg)->bytes += size * n;
	return size * n;
}

static void fetch(void *arg)
{
	struct transfer *t = arg;
	CURL *c = curl_easy_init();

	if (!c)
		return;
	curl_easy_setopt(c, CURLOPT_URL, t->url);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, count);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L); /* FETCH-2 */
	t->result = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &t->code);
	curl_easy_cleanup(c);
}

static void app(void *arg)
{
	for (struct transfer *t = arg; t->url; t++)
		if (gmp_spawn(&t->g, fetch, t, NULL) != 0)
			t->g = NULL;
	for (struct transfer *t = arg; t->url; t++)
		if (t->g)
			gmp_join(t->g);
}

static int report(const struct transfer *t)
{
	if (t->result == CURLE_OK) {
		printf("%ld\t%zu\t%s\n", t->code, t->bytes, t->url);
		return 0;
	}
	fprintf(stderr, "fetch: %s: %s\n", t->url, curl_easy_strerror(t->result));
	return 1;
}

int main(int argc, char **argv)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	struct transfer *all = calloc((size_t)argc, sizeof(*all));
	int status = 0;

	if (argc < 2) {
		fputs("usage: fetch URL...\n", stderr);
		free(all);
		return 2;
	}
	for (int i = 1; all && i < argc; i++)
		all[i - 1] = (struct transfer){ .url = argv[i], .result = CURLE_OUT_OF_MEMORY };
	curl_global_init(CURL_GLOBAL_DEFAULT);
	cfg.flags = GMP_OWN_TLS;

	int err = all ? gmp_run(app, all, &cfg) : -ENOMEM;

	if (err)
		fprintf(stderr, "fetch: %s\n", strerror(-err));
	for (int i = 0; !err && i < argc - 1; i++)
		status |= report(&all[i]);
	curl_global_cleanup();
	free(all);
	return err ? 1 : status;
}
