/* SPDX-License-Identifier: MIT */
/*
 * Queries PostgreSQL with libpq's non-blocking interface, one connection and one green thread for
 * each query.
 *
 *   $ pg 'host=localhost dbname=shop user=me' 'SELECT now()' 'SELECT pg_sleep(1), 42'
 *
 * libpq reports after each step which event it needs; pg_connect and pg_query wait for the event
 * with gmp_fd_wait. The queries run at the same time. Their results are printed in the order of the
 * command line, one row per line with tabs between the columns.
 *
 * PG-1  libpq opens and closes the socket itself, and may use another socket for the next host of
 *       the list. Each wait of the connect therefore gets the socket from libpq and adopts it.
 * PG-2  PQconnectStart and PQconnectPoll look names up, which may block: they run in gmp_blocking.
 * PG-3  PQfinish closes the socket: gmp_fd_release forgets it first.
 */
#include <gmp.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT (10 * GMP_S) /* for the connect, and for each query */

struct job {
	const char *where, *query;
	FILE *out;
	char *text;
	size_t length;
	int status; /* the exit status */
	gmp_g *g;
};

/* Returns the ready events of `events`, or a negative errno value. With a deadline in the past,
 * gmp_fd_wait makes one attempt, which succeeds while the server sends; so check the time first. */
static int wait_for(PGconn *c, int events, int64_t deadline)
{
	int fd = PQsocket(c), err = fd < 0 ? -EBADF : gmp_fd_adopt(fd);

	if (gmp_now() >= deadline)
		return -ETIMEDOUT;
	if (err < 0 && err != -EEXIST)
		return err;
	return gmp_fd_wait(fd, events, deadline);
}

static int pg_connect(PGconn *c, int64_t deadline)
{
	PostgresPollingStatusType step = PGRES_POLLING_WRITING;

	if (PQstatus(c) == CONNECTION_BAD)
		return -ECONNREFUSED;
	while (step != PGRES_POLLING_OK) {
		int ready =
			wait_for(c, step == PGRES_POLLING_READING ? GMP_READ : GMP_WRITE, deadline);

		if (ready < 0)
			return ready;
		step = gmp_blocking(PQconnectPoll(c)); /* PG-2 */
		if (step == PGRES_POLLING_FAILED)
			return -ECONNREFUSED;
	}
	return 0;
}

/* Send the output that libpq has buffered. The server may send too, so also read its input. */
static int flush(PGconn *c, int64_t deadline)
{
	int more;

	while ((more = PQflush(c)) == 1) {
		int ready = wait_for(c, GMP_READ | GMP_WRITE, deadline);

		if (ready < 0)
			return ready;
		if (ready & GMP_READ && !PQconsumeInput(c))
			return -EIO;
	}
	return more < 0 ? -EIO : 0;
}

/* Get the next result of the query; *result is NULL after the last. */
static int next_result(PGconn *c, PGresult **result, int64_t deadline)
{
	while (PQisBusy(c)) {
		int ready = wait_for(c, GMP_READ, deadline);

		if (ready < 0)
			return ready;
		if (!PQconsumeInput(c))
			return -EIO;
	}
	*result = PQgetResult(c);
	return 0;
}

static void print(FILE *out, const PGresult *r)
{
	for (int row = 0; row < PQntuples(r); row++)
		for (int column = 0, n = PQnfields(r); column < n; column++)
			fprintf(out, "%s%c", PQgetvalue(r, row, column),
				column + 1 < n ? '\t' : '\n');
}

static int pg_query(PGconn *c, const char *query, FILE *out, int64_t deadline)
{
	PGresult *r;
	int err;

	if (PQsetnonblocking(c, 1) != 0 || !PQsendQuery(c, query))
		return -EIO;
	err = flush(c, deadline);
	while (!err && (err = next_result(c, &r, deadline)) == 0 && r) {
		if (PQresultStatus(r) == PGRES_TUPLES_OK)
			print(out, r);
		else if (PQresultStatus(r) != PGRES_COMMAND_OK)
			err = -EIO;
		PQclear(r);
	}
	return err;
}

static void run(void *arg)
{
	struct job *job = arg;
	PGconn *c = gmp_blocking(PQconnectStart(job->where)); /* PG-2 */
	int err = c ? pg_connect(c, gmp_deadline(TIMEOUT)) : -ENOMEM;

	if (!err)
		err = pg_query(c, job->query, job->out, gmp_deadline(TIMEOUT));
	if (err) {
		const char *why = c ? PQerrorMessage(c) : "";

		fprintf(stderr, "pg: %s: %s\n", job->query,
			*why && err != -ETIMEDOUT ? why : strerror(-err));
		job->status = 1;
	}
	if (c && PQsocket(c) >= 0)
		gmp_fd_release(PQsocket(c)); /* PG-3 */
	PQfinish(c);
}

static void app(void *arg)
{
	for (struct job *job = arg; job->query; job++) {
		job->out = open_memstream(&job->text, &job->length);
		if (!job->out || gmp_spawn(&job->g, run, job, NULL) != 0)
			job->status = 1;
	}
	for (struct job *job = arg; job->query; job++) {
		if (job->g)
			gmp_join(job->g);
		if (job->out && fclose(job->out) == 0)
			fwrite(job->text, 1, job->length, stdout);
		free(job->text);
	}
}

int main(int argc, char **argv)
{
	int n = argc - 2, status = 0;

	if (n < 1) {
		fputs("usage: pg CONNINFO QUERY...\n", stderr);
		return 2;
	}
	struct job *jobs = calloc((size_t)n + 1, sizeof(*jobs));

	for (int i = 0; jobs && i < n; i++)
		jobs[i] = (struct job){ .where = argv[1], .query = argv[i + 2] };
	if (!jobs || gmp_run(app, jobs, NULL) != 0) {
		fputs("pg: cannot start\n", stderr);
		return 1;
	}
	for (int i = 0; i < n; i++)
		status |= jobs[i].status;
	free(jobs);
	return status;
}
