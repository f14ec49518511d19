/* SPDX-License-Identifier: MIT */
/*
 * Debug server: shows a running program over HTTP (gmp_debug_listen).
 *
 * Each server has a G that accepts, and a G for each client. Their memory lies in the server, which
 * is mapped when it starts to listen: a client costs no allocation.
 *
 * Invariants
 *   SERVER-1  A server has at most CLIENTS_MOST clients. Further connections get 503 and are closed
 *             at once.
 *   SERVER-2  Every wait for a client has a deadline: REQUEST_NS for a request head, ANSWER_NS and
 *             the seconds of the request for an answer, from its first byte on. A connection has
 *             at most REQUESTS_MOST requests.
 *   SERVER-3  A descriptor is in the server (fd of the server, refused, fd of a client) whenever
 *             its G may wait, so debug_servers_fini closes what killed Gs had open.
 *   SERVER-4  The waits of these Gs for clients are counted in sched.ndebug, so they do not prevent
 *             the report of a deadlock (stall.c): a client wakes no G of the program. The wait of
 *             an accepting G is counted in sched.naccepts, too, so it does not stop virtual time. A
 *             connected client does, until its deadline at the latest.
 *   SERVER-5  At most one request with `seconds` runs in the process; a second one gets 409.
 *   -         A request with `seconds` ends soon after its client has gone: a trace by a failed
 *             send, a profile by client_has_gone.
 */
#ifndef GMP_SERVER_H
#define GMP_SERVER_H

#include "base/throw.h"
#include "observe/serve/http.h"

struct symcache;

/* Room for the text of an answer that was not sent yet. */
enum { DEBUG_ROOM = 4096, DEBUG_FRAMING = 16 };

/* A request, and its answer. */
struct debug_request {
	struct debug_head head; /* seconds: of a timed page never 0 */
	struct symcache *names; /* empty at the start of a request */

	/* of the functions below */
	int (*send)(void *to, const void *bytes, size_t n); /* waits; returns 0 or -errno */
	/* Does not wait; on any thread while the G of the request waits for it.  May be NULL. */
	bool (*has_gone)(void *to);
	void *to;
	int err;      /* of send: what follows is dropped, and the connection ends */
	int status;   /* of the answer; 0: none was begun */
	bool keep;    /* the connection may be used again */
	bool chunked; /* an answer of unknown length has begun */
	size_t chunk; /* where the chunk begins in out */
	size_t n;     /* bytes in out */
	char out[DEBUG_ROOM + DEBUG_FRAMING];
};

/*
 * Answer a request: debug_begin, then debug_write and debug_print, or debug_answer. Runs on a G;
 * may wait. Returns 0, or -errno: before debug_begin it is answered by 500 (-EBUSY: 409, -ENOMEM
 * and -EAGAIN: 503, -ENOTSUP: 501), after it the connection is cut, so that the client does not
 * take a part for the whole. A call that has failed need not be checked: the later ones do nothing,
 * and return the same.
 */
typedef int (*debug_handler)(struct debug_request *r);

struct debug_page {
	const char *path;
	const char *type; /* Content-Type of status 200 */
	debug_handler handler;
	int seconds;      /* of a timed page: the default; otherwise 0 */
	const char *what; /* a line for the index */
};

/* The pages; the last has no path. */
extern const struct debug_page debug_pages[];

/* Begin an answer of status 200 with this Content-Type. Returns 0 or -errno. */
int debug_begin(struct debug_request *r, const char *type);
/* Append to the answer. May wait for the client. Returns 0 or -errno. */
int debug_write(struct debug_request *r, const void *bytes, size_t n);
/* The same with a format, for at most 511 bytes of text. */
int debug_print(struct debug_request *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Append a string of the program, as valid UTF-8: what is none becomes U+FFFD. */
enum debug_escape {
	DEBUG_JSON,  /* inside a JSON string */
	DEBUG_LABEL, /* inside the value of a Prometheus label */
	DEBUG_HTML,  /* text of HTML */
	DEBUG_PLAIN, /* text, without control characters except the line feed */
};
int debug_text(struct debug_request *r, const char *text, size_t n, enum debug_escape how);
/* Answer with a status and a line of plain text, which debug_end sends. Returns 0 or -errno. */
int debug_answer(struct debug_request *r, int status, const char *text);
/* End the answer of a handler that returned `result`: send what is left. */
void debug_end(struct debug_request *r, int result);

/* Find the page of r, and answer. Returns whether the connection may be used again. */
bool debug_serve(struct debug_request *r);
/* SERVER-5. Returns false if another request is under way. debug_unclaim must be called before the
 * end of the answer is sent: then the next request of a client that has it cannot be refused. */
bool debug_claim(void);
void debug_unclaim(void);

/* Handlers. */
int debug_page_metrics(struct debug_request *r);
int debug_page_vars(struct debug_request *r);
int debug_page_trace(struct debug_request *r);

/* End of a run: close what the servers have open. Their Gs were killed. */
void debug_servers_fini(void);
/* In the child of a fork: close the child's copies. */
void debug_servers_forget(void);

#endif
