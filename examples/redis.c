/* SPDX-License-Identifier: MIT */
/*
 * Sends commands to a Redis server with hiredis in non-blocking mode, from several connections at
 * once.
 *
 *   $ redis --port 6379 --clients 50 --requests 400
 *   20000 commands on 50 connections: 0.412 s, 0 errors
 *
 * redisBufferWrite, redisBufferRead and redisGetReplyFromReader of hiredis never wait. exchange()
 * waits with gmp_fd_wait between them. Each green thread is therefore sequential code, as with the
 * blocking interface of hiredis, but keeps no P while the server works.
 *
 * Each connection increments its own key and checks the replies: a lost or exchanged reply is an
 * error.
 */
#include <gmp.h>

#include <getopt.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define TIMEOUT (10 * GMP_S)

struct options {
	const char *host;
	long port, clients, requests;
	gmp_wg done;
	_Atomic long errors;
};

struct client {
	struct options *o;
	long number;
};

/* With a deadline in the past, gmp_fd_wait makes one attempt, which succeeds while the server
 * sends; so check the time first. */
static int wait_for(redisContext *c, int events, int64_t deadline)
{
	return gmp_now() < deadline ? gmp_fd_wait(c->fd, events, deadline) : -ETIMEDOUT;
}

/* Send the output buffer and wait for a reply. Returns 0 with *reply, which the caller frees, or a
 * negative errno value. */
static int exchange(redisContext *c, redisReply **reply, int64_t deadline)
{
	int done = 0, ready;

	while (!done) {
		if (redisBufferWrite(c, &done) != REDIS_OK)
			return -EIO;
		if (!done && (ready = wait_for(c, GMP_WRITE, deadline)) < 0)
			return ready;
	}
	for (;;) {
		if (redisGetReplyFromReader(c, (void **)reply) != REDIS_OK)
			return -EPROTO;
		if (*reply)
			return 0;
		ready = wait_for(c, GMP_READ, deadline);
		if (ready < 0)
			return ready;
		if (redisBufferRead(c) != REDIS_OK)
			return -EIO;
	}
}

/* Increment the client's key. Returns -EPROTO if the reply is not `wanted`. */
static int increment(redisContext *c, long number, long wanted)
{
	redisReply *reply = NULL;
	int err;

	if (redisAppendCommand(c, "INCR gmp:example:%ld", number) != REDIS_OK)
		return -ENOMEM;
	err = exchange(c, &reply, gmp_deadline(TIMEOUT));
	if (!err && (reply->type != REDIS_REPLY_INTEGER || reply->integer != wanted))
		err = -EPROTO;
	if (reply)
		freeReplyObject(reply);
	return err;
}

static int forget(redisContext *c, long number)
{
	redisReply *reply = NULL;
	int err;

	if (redisAppendCommand(c, "DEL gmp:example:%ld", number) != REDIS_OK)
		return -ENOMEM;
	err = exchange(c, &reply, gmp_deadline(TIMEOUT));
	if (reply)
		freeReplyObject(reply);
	return err;
}

/* The address of the host must be a number: hiredis would look a name up, which blocks. */
static int connect_to(const struct options *o, redisContext **c)
{
	*c = redisConnectNonBlock(o->host, (int)o->port);
	if (!*c)
		return -ENOMEM;
	if ((*c)->err)
		return -ECONNREFUSED;
	int fd = gmp_fd_adopt((*c)->fd);

	if (fd < 0)
		return fd;
	int ready = gmp_fd_wait(fd, GMP_WRITE, gmp_deadline(TIMEOUT));

	return ready < 0 ? ready : 0;
}

static void run(void *arg)
{
	struct client *client = arg;
	struct options *o = client->o;
	redisContext *c = NULL;
	int err = connect_to(o, &c);

	if (!err)
		err = forget(c, client->number);
	for (long i = 1; !err && i <= o->requests; i++)
		err = increment(c, client->number, i);
	if (!err)
		err = forget(c, client->number);
	if (err) {
		o->errors++;
		fprintf(stderr, "redis: client %ld: %s\n", client->number,
			c && c->err ? c->errstr : strerror(-err));
	}
	if (c) {
		gmp_fd_release(c->fd);
		redisFree(c);
	}
	gmp_wg_done(&o->done);
}

static void app(void *arg)
{
	struct options *o = arg;
	struct client *clients = calloc((size_t)o->clients, sizeof(*clients));
	int64_t began = gmp_now();

	if (!clients) {
		o->errors++;
		return;
	}
	for (long i = 0; i < o->clients; i++) {
		clients[i] = (struct client){ o, i };
		gmp_wg_add(&o->done, 1);
		if (gmp_go(run, &clients[i]) != 0) {
			o->errors++;
			gmp_wg_done(&o->done);
		}
	}
	gmp_wg_wait(&o->done);
	printf("%ld commands on %ld connections: %.3f s, %ld errors\n", o->clients * o->requests,
	       o->clients, (double)(gmp_now() - began) / 1e9, (long)o->errors);
	free(clients);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "host", required_argument, NULL, 'h' },
		{ "port", required_argument, NULL, 'p' },
		{ "clients", required_argument, NULL, 'c' },
		{ "requests", required_argument, NULL, 'n' },
		{ 0 },
	};
	struct options o = { .host = "127.0.0.1", .port = 6379, .clients = 50, .requests = 400 };
	int c, bad = 0;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		long *number = c == 'p' ? &o.port : c == 'c' ? &o.clients : &o.requests;

		if (c == 'h')
			o.host = optarg;
		else if (c == '?' ||
			 (*number = server_parse_number(optarg, 1, c == 'p' ? 65535 : 1000000)) < 0)
			bad = 1;
	}
	if (bad || optind != argc) {
		fputs("usage: redis [--host ADDRESS] [--port PORT] [--clients N] [--requests N]\n",
		      stderr);
		return 2;
	}
	if (gmp_run(app, &o, NULL) != 0) {
		fputs("redis: cannot start\n", stderr);
		return 1;
	}
	return o.errors != 0;
}
