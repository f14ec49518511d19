/* SPDX-License-Identifier: MIT */
/*
 * Moves money between accounts of an SQLite database from many green threads.
 *
 *   $ sqlite /tmp/bank.db 50 20
 *
 * 50 green threads, each with a connection of its own, make 20 transfers. Prints the sum of all
 * accounts, which transfers do not change. SQLite takes locks of the file by fcntl, and sleeps in
 * usleep or nanosleep while another connection has them: libgmprt_posix parks the green thread
 * meanwhile. Reads and writes of the file run as blocking code.
 *
 * SQLITE-1  SQLite takes pthread mutexes (recursive ones too). Their owner is the green thread,
 *           since it has own thread-locals.
 */
#include <gmp.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 10, EACH = 1000, BUSY_MS = 60000 };

static const char *path;
static int clients, rounds;
static atomic_int failed;

static void complain(sqlite3 *db, const char *what)
{
	atomic_fetch_add(&failed, 1);
	fprintf(stderr, "sqlite: %s: %s\n", what, sqlite3_errmsg(db));
}

static int run(sqlite3 *db, const char *sql)
{
	int err = sqlite3_exec(db, sql, NULL, NULL, NULL);

	if (err)
		complain(db, sql);
	return err;
}

static sqlite3 *open_db(void)
{
	sqlite3 *db;

	if (sqlite3_open(path, &db) != SQLITE_OK) {
		complain(db, path);
		sqlite3_close(db);
		return NULL;
	}
	sqlite3_busy_timeout(db, BUSY_MS);
	return db;
}

static void transfer(sqlite3 *db, unsigned *seed)
{
	int from = rand_r(seed) % ACCOUNTS, to = rand_r(seed) % ACCOUNTS;
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "BEGIN IMMEDIATE;"
		 "UPDATE account SET money = money - 1 WHERE id = %d;"
		 "UPDATE account SET money = money + 1 WHERE id = %d;"
		 "COMMIT",
		 from, to);
	if (run(db, sql))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}

static void client(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	sqlite3 *db = open_db();

	for (int i = 0; db && i < rounds; i++)
		transfer(db, &seed);
	sqlite3_close(db);
}

static int create(sqlite3 *db)
{
	char sql[128];
	int err = run(db, "DROP TABLE IF EXISTS account;"
			  "CREATE TABLE account (id INTEGER PRIMARY KEY, money INTEGER)");

	for (int i = 0; !err && i < ACCOUNTS; i++) {
		snprintf(sql, sizeof(sql), "INSERT INTO account VALUES (%d, %d)", i, EACH);
		err = run(db, sql);
	}
	return err;
}

static int print_sum(void *arg, int n, char **value, char **name)
{
	(void)arg;
	(void)n;
	(void)name;
	printf("%s\n", value[0]);
	return 0;
}

static void app(void *arg)
{
	gmp_g **g = calloc((size_t)clients, sizeof(gmp_g *));
	sqlite3 *db = open_db();
	int n = 0;

	(void)arg;
	if (g && db && create(db) == 0)
		while (n < clients &&
		       gmp_spawn(&g[n], client, (void *)(uintptr_t)(n + 1), NULL) == 0)
			n++;
	for (int i = 0; i < n; i++)
		gmp_join(g[i]);
	if (n < clients ||
	    sqlite3_exec(db, "SELECT sum(money) FROM account", print_sum, NULL, NULL) != SQLITE_OK)
		atomic_fetch_add(&failed, 1);
	sqlite3_close(db);
	free(g);
}

int main(int argc, char **argv)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	if (argc != 4) {
		fputs("usage: sqlite FILE CLIENTS ROUNDS\n", stderr);
		return 2;
	}
	path = argv[1];
	clients = atoi(argv[2]);
	rounds = atoi(argv[3]);
	cfg.flags = GMP_OWN_TLS; /* SQLITE-1 */

	int err = gmp_run(app, NULL, &cfg);

	if (err)
		fprintf(stderr, "sqlite: %s\n", strerror(-err));
	return err || atomic_load(&failed) ? 1 : 0;
}
