/* SPDX-License-Identifier: MIT */
/*
 * Increments counters of a Redis server with hiredis' blocking interface.
 *
 *   $ redis 127.0.0.1 6379 100 50
 *
 * 100 green threads, each with a connection of its own, increment the counter "gmp:count" 50 times
 * and read it. redisCommand blocks in read() and write(), which libgmprt_posix replaces. Prints the
 * value of the counter at the end, which must be 5000 more than before.
 */
#include <gmp.h>
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTER "gmp:count"

static const char *host;
static int port, clients, rounds;
static atomic_int failed;

static redisContext *dial(void)
{
	redisContext *c = redisConnect(host, port);

	if (c && !c->err)
		return c;
	fprintf(stderr, "redis: %s:%d: %s\n", host, port, c ? c->errstr : "no memory");
	if (c)
		redisFree(c);
	return NULL;
}

/* Returns the integer that the server answers, or -1. */
static long long ask(redisContext *c, const char *command)
{
	redisReply *r = redisCommand(c, command);
	long long value = -1;

	if (r && r->type == REDIS_REPLY_INTEGER)
		value = r->integer;
	else if (r && r->type == REDIS_REPLY_STRING)
		value = atoll(r->str);
	else
		fprintf(stderr, "redis: %s: %s\n", command, r ? r->str : c->errstr);
	if (r)
		freeReplyObject(r);
	return value;
}

static void client(void *arg)
{
	redisContext *c = dial();
	long long last = 0;

	(void)arg;
	for (int i = 0; c && i < rounds; i++) {
		long long now = ask(c, "INCR " COUNTER);

		if (now <= last) /* each answer is larger than all before it */
			atomic_fetch_add(&failed, 1);
		last = now;
	}
	if (c)
		redisFree(c);
	else
		atomic_fetch_add(&failed, 1);
}

static void app(void *arg)
{
	gmp_g **g = calloc((size_t)clients, sizeof(gmp_g *));
	redisContext *c = dial();
	int n = 0;

	(void)arg;
	if (!g || !c || ask(c, "INCRBY " COUNTER " 0") < 0)
		atomic_fetch_add(&failed, 1);
	else
		while (n < clients && gmp_spawn(&g[n], client, NULL, NULL) == 0)
			n++;
	for (int i = 0; i < n; i++)
		gmp_join(g[i]);
	if (n == clients)
		printf("%lld\n", ask(c, "GET " COUNTER));
	if (c)
		redisFree(c);
	free(g);
	if (n < clients)
		atomic_fetch_add(&failed, 1);
}

int main(int argc, char **argv)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	if (argc != 5) {
		fputs("usage: redis HOST PORT CLIENTS ROUNDS\n", stderr);
		return 2;
	}
	host = argv[1];
	port = atoi(argv[2]);
	clients = atoi(argv[3]);
	rounds = atoi(argv[4]);
	cfg.flags = GMP_OWN_TLS;

	int err = gmp_run(app, NULL, &cfg);

	if (err)
		fprintf(stderr, "redis: %s\n", strerror(-err));
	return err || atomic_load(&failed) ? 1 : 0;
}
