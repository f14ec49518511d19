/* SPDX-License-Identifier: MIT */
/* A program with green threads of hostile names, and a debug server, for ten minutes. */
#include <stdio.h>
#include <stdlib.h>

#include <gmp.h>

static gmp_mutex mutex = GMP_MUTEX_INIT;
static gmp_chan *never;

static void receiver(void *arg)
{
	int v;

	(void)arg;
	gmp_chan_recv(never, &v);
}

static void locker(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
}

static void make(gmp_fn fn, const char *name)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = name;
	if (gmp_spawn(&g, fn, NULL, &a))
		abort();
}

static void app(void *arg)
{
	static const char *const names[] = {
		"",
		"plain",
		"\"quoted\"",
		"back\\slash",
		"line\nfeed",
		"\x01\x1b[31m",
		"\x7f",
		"\xff\xfe",
		"\xc0\x80",
		"\xed\xa0\x80",
		"\xe2\x82",
		"caf\xc3\xa9 \xf0\x9f\xa7\xb5",
		"</script>&'",
		"{\"a\":1}",
		"\xe2\x80\xa8",
		"\xf4\x90\x80\x80",
	};
	int port = gmp_debug_listen("127.0.0.1:0");

	(void)arg;
	if (port <= 0)
		abort();
	never = gmp_chan_new(sizeof(int), 0);
	gmp_mutex_lock(&mutex);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		make(receiver, names[i]);
	make(locker, "locker");
	gmp_sleep(50 * GMP_MS);
	printf("listening on 127.0.0.1:%d\n", port);
	fflush(stdout);
	gmp_sleep(600 * GMP_S);
}

int main(void)
{
	return gmp_run(app, NULL, NULL) != 0;
}
