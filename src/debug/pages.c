/* SPDX-License-Identifier: MIT */
/* Pages of the debug server: the table of all paths, the index, and the dumps. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "debug/dump.h"
#include "debug/server.h"
#include "gmp.h"

static int page_index(struct debug_request *r);
static int page_green(struct debug_request *r);

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
	{ "/debug/trace", binary, debug_page_later, 1,
	  "events of the scheduler; ?seconds=1 to 60" },
	{ "/debug/pprof/profile", binary, debug_page_later, 30,
	  "where CPU time goes, for pprof; ?seconds=1 to 60" },
	{ "/debug/pprof/wait", binary, debug_page_later, 1,
	  "where green threads wait, for pprof; ?seconds=1 to 60" },
	{ "/debug/pprof/mutex", binary, debug_page_later, 1,
	  "waits for locks, for pprof; ?seconds=1 to 60" },
	{ "/debug/pprof/green", binary, debug_page_later, 1,
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

/* Return whether the page must be asked, although the client wants its head only: asking costs
 * nothing, and the answer is no 200. */
static bool is_later(const struct debug_page *p)
{
	return p->handler == debug_page_later;
}

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
	if (r->head.method == DEBUG_HEAD && !is_later(p))
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
