/* SPDX-License-Identifier: MIT */
/*
 * Load for a Redis server with hiredis: CONNECTIONS threads each send COMMANDS commands on their
 * own connection.
 *
 *	hiredis_client MODE PORT CONNECTIONS COMMANDS
 *
 * MODE is pthread (OS threads), blocking (green threads, redisCommand in gmp_blocking), plain (the
 * same without gmp_blocking) or wait (green threads, hiredis' non-blocking interface with
 * gmp_fd_wait). Makes the connections first, and checks each reply. Prints the time from before the
 * threads are made until they have ended, and the CPU time of the process meanwhile.
 */
#include <gmp.h>

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum mode { PTHREAD, BLOCKING, PLAIN, WAIT, MODES } mode;
static const char *const names[MODES] = { "pthread", "blocking", "plain", "wait" };
static int connections, commands;
static redisContext **contexts;
static gmp_wg done;

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "hiredis_client: %s\n", what);
	exit(1);
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * GMP_S + t.tv_nsec;
}

/* redisCommand, made of the calls that do not block. */
static void *command_wait(redisContext *c, int k, int i)
{
	int written = 0;
	void *reply = NULL;

	if (redisAppendCommand(c, "SET key:%d %d", k, i) != REDIS_OK)
		fail("redisAppendCommand");
	for (;;) {
		if (redisBufferWrite(c, &written) != REDIS_OK)
			fail("redisBufferWrite");
		if (written)
			break;
		if (gmp_fd_wait(c->fd, GMP_WRITE, GMP_FOREVER) < 0)
			fail("gmp_fd_wait");
	}
	for (;;) {
		if (redisGetReplyFromReader(c, &reply) != REDIS_OK)
			fail("redisGetReplyFromReader");
		if (reply)
			return reply;
		if (gmp_fd_wait(c->fd, GMP_READ, GMP_FOREVER) < 0)
			fail("gmp_fd_wait");
		if (redisBufferRead(c) != REDIS_OK)
			fail("redisBufferRead");
	}
}

static void work(int k)
{
	redisContext *c = contexts[k];

	if (mode == WAIT && gmp_fd_adopt(c->fd) < 0)
		fail("gmp_fd_adopt");
	for (int i = 0; i < commands; i++) {
		redisReply *reply;

		if (mode == WAIT)
			reply = command_wait(c, k, i);
		else if (mode == BLOCKING)
			reply = gmp_blocking(redisCommand(c, "SET key:%d %d", k, i));
		else
			reply = redisCommand(c, "SET key:%d %d", k, i);
		if (!reply || reply->type != REDIS_REPLY_STATUS || strcmp(reply->str, "OK"))
			fail("the reply is not OK");
		freeReplyObject(reply);
	}
	if (mode == WAIT)
		gmp_fd_release(c->fd);
}

static void green(void *arg)
{
	work((int)(intptr_t)arg);
	gmp_wg_done(&done);
}

static void app(void *arg)
{
	(void)arg;
	gmp_wg_add(&done, connections);
	for (int k = 0; k < connections; k++)
		if (gmp_go(green, (void *)(intptr_t)k) != 0)
			fail("gmp_go");
	gmp_wg_wait(&done);
}

static void *thread(void *arg)
{
	work((int)(intptr_t)arg);
	return NULL;
}

static void run_threads(void)
{
	pthread_t *threads = calloc((size_t)connections, sizeof(*threads));

	if (!threads)
		fail("out of memory");
	for (int k = 0; k < connections; k++)
		if (pthread_create(&threads[k], NULL, thread, (void *)(intptr_t)k) != 0)
			fail("pthread_create");
	for (int k = 0; k < connections; k++)
		pthread_join(threads[k], NULL);
	free(threads);
}

static bool parse(int argc, char **argv, int *port)
{
	if (argc != 5)
		return false;
	for (mode = PTHREAD; mode < MODES && strcmp(argv[1], names[mode]); mode++)
		;
	*port = atoi(argv[2]);
	connections = atoi(argv[3]);
	commands = atoi(argv[4]);
	return mode<MODES && * port> 0 && connections > 0 && commands > 0;
}

int main(int argc, char **argv)
{
	int64_t began, cpu;
	int port;

	if (!parse(argc, argv, &port)) {
		fprintf(stderr, "usage: hiredis_client pthread|blocking|plain|wait PORT "
				"CONNECTIONS COMMANDS\n");
		return 2;
	}
	contexts = calloc((size_t)connections, sizeof(redisContext *));
	if (!contexts)
		fail("out of memory");
	for (int k = 0; k < connections; k++) {
		contexts[k] = mode == WAIT ? redisConnectNonBlock("127.0.0.1", port)
					   : redisConnect("127.0.0.1", port);
		if (!contexts[k] || contexts[k]->err)
			fail("cannot connect");
	}
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	began = clock_ns(CLOCK_MONOTONIC);
	if (mode == PTHREAD)
		run_threads();
	else if (gmp_run(app, NULL, NULL) != 0)
		fail("gmp_run");
	printf("wall ns %lld\n", (long long)(clock_ns(CLOCK_MONOTONIC) - began));
	printf("cpu ns %lld\n", (long long)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu));
	for (int k = 0; k < connections; k++)
		redisFree(contexts[k]);
	free(contexts);
	return 0;
}
