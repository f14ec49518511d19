/* SPDX-License-Identifier: MIT */
/*
 * Queries PostgreSQL with libpq's blocking interface from many green threads.
 *
 *   $ pg 'host=localhost dbname=shop user=me' 1000 100 'SELECT pg_sleep(0.1)'
 *
 * 1000 green threads share 100 connections, and each calls PQexec once. libpq blocks in poll() and
 * recv(), which libgmprt_posix replaces, so a green thread that waits for the server parks. Prints
 * the time, the number of OS threads, and how many queries have failed.
 *
 * PG-1  A connection is used by one green thread at a time: it is an element of the channel `idle`
 *       while it is free.
 * PG-2  Own thread-locals: libpq and OpenSSL keep errno and error queues across a wait.
 * PG-3  connect() runs as blocking code, on an OS thread of its own, and idle OS threads stay. So a
 *       few green threads open all connections.
 */
#include <gmp.h>
#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTING = 2 };

static const char *where, *query;
static int tasks, connections, status;
static gmp_chan *idle;
static gmp_wg running;
static atomic_int wanted, failed;

static int os_threads(void)
{
	char line[128];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static void complain(const char *what, PGconn *c)
{
	if (atomic_fetch_add(&failed, 1) == 0) /* one line is enough */
		fprintf(stderr, "pg: %s: %s\n", what, c ? PQerrorMessage(c) : "no memory");
}

static PGconn *connect_one(void)
{
	PGconn *c = PQconnectdb(where);

	if (PQstatus(c) == CONNECTION_OK)
		return c;
	complain(where, c);
	PQfinish(c);
	return NULL;
}

/* PG-3 */
static void connect_some(void *arg)
{
	(void)arg;
	while (atomic_fetch_sub(&wanted, 1) > 0) {
		PGconn *c = connect_one();

		gmp_chan_send(idle, &c);
	}
	gmp_wg_done(&running);
}

static void run_one(void *arg)
{
	PGconn *c;

	(void)arg;
	gmp_chan_recv(idle, &c);

	PGresult *r = c ? PQexec(c, query) : NULL;

	if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
		complain(query, c);
	PQclear(r);
	gmp_chan_send(idle, &c);
	gmp_wg_done(&running);
}

/* n green threads run fn; returns when all have ended. */
static void crowd(gmp_fn fn, int n)
{
	for (int i = 0; i < n; i++) {
		gmp_wg_add(&running, 1);
		if (gmp_go(fn, NULL) != 0) {
			gmp_wg_done(&running);
			atomic_fetch_add(&failed, 1);
		}
	}
	gmp_wg_wait(&running);
}

static void app(void *arg)
{
	(void)arg;
	atomic_init(&wanted, connections);
	crowd(connect_some, CONNECTING);
	if (atomic_load(&failed) == 0) {
		int64_t began = gmp_now();

		crowd(run_one, tasks);
		printf("%d queries on %d connections: %.3f s, %d OS threads, %d failed\n", tasks,
		       connections, (double)(gmp_now() - began) / 1e9, os_threads(),
		       atomic_load(&failed));
	}
	for (size_t n = gmp_chan_len(idle); n > 0; n--) {
		PGconn *c;

		gmp_chan_recv(idle, &c);
		PQfinish(c);
	}
	status = atomic_load(&failed) != 0;
}

int main(int argc, char **argv)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	if (argc != 5 || (tasks = atoi(argv[2])) < 1 || (connections = atoi(argv[3])) < 1) {
		fputs("usage: pg CONNINFO TASKS CONNECTIONS QUERY\n", stderr);
		return 2;
	}
	where = argv[1];
	query = argv[4];
	idle = gmp_chan_new(sizeof(PGconn *), (size_t)connections);
	cfg.flags = GMP_OWN_TLS; /* PG-2 */

	int err = idle ? gmp_run(app, NULL, &cfg) : -ENOMEM;

	gmp_chan_free(idle);
	if (err) {
		fprintf(stderr, "pg: %s\n", strerror(-err));
		return 1;
	}
	return status;
}
