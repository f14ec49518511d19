/* SPDX-License-Identifier: MIT */
/* Pages of the debug server: the table of all paths, the index, and the dumps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gmp.h"
#include "io/cleanup.h"
#include "observe/dump/dump.h"
#include "observe/profile/profile.h"
#include "observe/serve/server.h"

static int page_index(struct debug_request *r);
static int page_green(struct debug_request *r);
static int page_profile(struct debug_request *r);

static const char text[] = "text/plain; charset=utf-8", html[] = "text/html; charset=utf-8",
		  binary[] = "application/octet-stream";

const struct debug_page debug_pages[] = {
	{ "/debug/", html, page_index, 0, "this list" },
	{ "/metrics", "text/plain; version=0.0.4; charset=utf-8", debug_page_metrics, 0,
	  "statistics for Prometheus" },
	{ "/debug/vars", "application/json", debug_page_vars, 0,
	  "statistics, Ps and the longest waits as JSON, for gmp-top" },
	{ "/debug/green", text, page_green, 0,
	  "what every green thread does; ?all=1: each by itself" },
	{ "/debug/trace", binary, debug_page_trace, 1,
	  "events of the scheduler, for gmp-trace; ?seconds=1 to 60" },
	{ "/debug/pprof/profile", binary, page_profile, 30,
	  "where CPU time goes, for pprof; ?seconds=1 to 60" },
	{ "/debug/pprof/wait", binary, page_profile, 1,
	  "where green threads wait, for pprof; ?seconds=1 to 60" },
	{ "/debug/pprof/mutex", binary, page_profile, 1,
	  "waits for locks, for pprof; ?seconds=1 to 60" },
	{ "/debug/pprof/green", binary, page_profile, 0,
	  "green threads by where they were made, for pprof" },
	{ NULL, NULL, NULL, 0, NULL },
};

/* --- dumps --- */

static int dump_to_client(void *r, const char *bytes, size_t n)
{
	return debug_text(r, bytes, n, DEBUG_PLAIN);
}

static int page_green(struct debug_request *r)
{
	debug_begin(r, text);
	return dump_into(r->head.all, dump_to_client, r);
}

/* --- profiles --- */

enum { CPU_HZ = 100 };

/* result: of the profile. */
static int send_profile(struct debug_request *r, int result, struct pprof_out *out)
{
	struct leftover left; /* shutdown may kill the G while it sends */

	if (result == -ENOTSUP)
		return debug_answer(r, 501, "profiles need libprotobuf-c");
	if (result)
		return result;
	leftover_add(&left, free, out->data);
	debug_begin(r, binary);
	result = debug_write(r, out->data, out->n);
	leftover_del(&left);
	free(out->data);
	return result;
}

static bool client_has_gone(void *arg)
{
	struct debug_request *r = arg;

	return r->has_gone && r->has_gone(r->to);
}

/* The end of the path is the kind; "profile" is that of CPU time, as in Go. */
static int page_profile(struct debug_request *r)
{
	const struct profile_watch watch = { client_has_gone, r };
	const char *kind = strrchr(r->head.path, '/') + 1;
	struct pprof_out out = { 0 };

	if (strcmp(kind, "profile") == 0)
		kind = "cpu";
	int result = profile_take(kind, CPU_HZ, r->head.seconds * GMP_S, &watch, &out);

	return send_profile(r, result, &out);
}

/* --- the index --- */

static int page_index(struct debug_request *r)
{
	const char *name = program_invocation_short_name;

	debug_begin(r, html);
	debug_print(r, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
	debug_text(r, name, strlen(name), DEBUG_HTML);
	debug_print(r, "</title></head>\n<body><h1>");
	debug_text(r, name, strlen(name), DEBUG_HTML);
	debug_print(r, "</h1>\n<p>pid %d, gmp %s</p>\n<table>\n", getpid(), gmp_version_string());
	for (const struct debug_page *p = debug_pages; p->path; p++)
		debug_print(r, "<tr><td><a href=\"%s\">%s</a></td><td>%s</td></tr>\n", p->path,
			    p->path, p->what);
	return debug_print(r, "</table></body></html>\n");
}

/* --- finding a page --- */

/* Returns the result for debug_end. */
static int serve_timed(struct debug_request *r, const struct debug_page *p)
{
	if (!r->head.seconds)
		r->head.seconds = p->seconds;
	if (!debug_claim())
		return debug_answer(r, 409,
				    "another request with seconds is under way: try again later");
	int result = p->handler(r);

	debug_unclaim();
	return result;
}

static int serve_page(struct debug_request *r, const struct debug_page *p)
{
	if (r->head.method == DEBUG_HEAD)
		return debug_begin(r, p->type);
	return p->seconds ? serve_timed(r, p) : p->handler(r);
}

static int serve_path(struct debug_request *r)
{
	const char *path = r->head.path;

	if (r->head.method == DEBUG_OTHER)
		return debug_answer(r, 405, "only GET and HEAD");
	if (strcmp(path, "/") == 0 || strcmp(path, "/debug") == 0)
		return debug_answer(r, 302, "/debug/");
	for (const struct debug_page *p = debug_pages; p->path; p++)
		if (strcmp(path, p->path) == 0)
			return serve_page(r, p);
	return debug_answer(r, 404, "no such page: see /debug/");
}

bool debug_serve(struct debug_request *r)
{
	r->keep &= r->head.keep_alive;
	debug_end(r, serve_path(r));
	return r->keep;
}
