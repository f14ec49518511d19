/* SPDX-License-Identifier: MIT */
/*
 * Tests that the debug server runs one request with seconds at a time, with a handler of the test.
 * floors 0..6, wrap: debug_page_trace
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "observe/serve/server.h"
#include "rt.h"

static gmp_wg begun = GMP_WG_INIT, may_end = GMP_WG_INIT;
static int seconds, port;

int __wrap_debug_page_trace(struct debug_request *r);
int __wrap_debug_page_trace(struct debug_request *r)
{
	seconds = r->head.seconds;
	gmp_wg_done(&begun);
	gmp_wg_wait(&may_end);
	return debug_answer(r, 501, "end of the test's handler");
}

/* Returns the status of the answer to GET target. */
static int get(const char *target)
{
	char text[256];

	snprintf(text, sizeof(text), "127.0.0.1:%d", port);
	int fd = gmp_dial("tcp", text);

	CHECK(fd >= 0);
	snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", target);
	CHECK(gmp_write_all(fd, text, strlen(text)) > 0);
	CHECK_EQ(gmp_read_full(fd, text, 12), 12);
	gmp_close(fd);
	text[12] = '\0';
	return atoi(text + 9);
}

static void first(void *arg)
{
	(void)arg;
	CHECK_EQ(get("/debug/trace?seconds=60"), 501);
}

static void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	port = gmp_debug_listen("0");
	CHECK(port > 0);
	gmp_wg_add(&begun, 1);
	gmp_wg_add(&may_end, 1);
	CHECK_EQ(gmp_spawn(&g, first, NULL, NULL), 0);
	gmp_wg_wait(&begun);
	CHECK_EQ(seconds, 60);
	CHECK_EQ(get("/debug/pprof/profile"), 409);
	CHECK_EQ(get("/debug/trace?seconds=1"), 409);
	CHECK_EQ(get("/debug/vars"), 200);
	gmp_wg_done(&may_end);
	CHECK_EQ(gmp_join(g), 0);
	gmp_wg_add(&begun, 1);
	CHECK_EQ(get("/debug/trace"), 501);
	CHECK_EQ(seconds, 1); /* the default */
}

TEST(server_second_request_with_seconds_gets_409)
{
	run_procs(2, app, NULL);
}

static void drop(void *arg)
{
	(void)arg;
	get("/debug/trace");
}

static void app_that_ends(void *arg)
{
	(void)arg;
	port = gmp_debug_listen("0");
	gmp_wg_add(&begun, 1);
	CHECK_EQ(gmp_go(drop, NULL), 0);
	gmp_wg_wait(&begun);
}

TEST(server_killed_request_with_seconds_frees_the_place)
{
	gmp_wg_add(&may_end, 1);
	run_procs(2, app_that_ends, NULL);
	CHECK(debug_claim());
	debug_unclaim();
}
