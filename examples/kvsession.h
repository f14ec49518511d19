/* SPDX-License-Identifier: MIT */
/*
 * Session of kvserver: holds input, parsed requests and answers of a connection between two reads.
 *
 * It is the same for all architectures: no function reads or writes an fd, or waits.
 *
 *   at = kv_session_room(s, &n);           read up to n bytes to `at`,
 *   kv_session_received(s, count);         and report how many were read
 *   while (kv_session_parse(s)) {
 *           kv_session_run(s);             the only step that uses the table
 *           kv_session_compute(s);         no table: a COMPUTE, which may take long
 *           if (kv_session_is_full(s))     send all output, as below
 *   }                                      send all output, as below
 *   if (s->client.closing)                 end the connection
 *
 *   while ((at = kv_session_output(s, &n))) {
 *           send up to n bytes from `at`,
 *           kv_session_sent(s, count);     and report how many were sent
 *   }
 *
 * Memory of a session: the input is less than RESP_MAX_REQUEST + 64 KB; the output is less than
 * KV_FULL + KV_COPY bytes and a reference to one value of the table. The answer to ECHO and PING is
 * as long as the request.
 */
#ifndef EXAMPLES_KVSESSION_H
#define EXAMPLES_KVSESSION_H

#include "kvcommand.h"

#define KV_BATCH 16           /* requests that are parsed before they are run */
#define KV_STEPS 16           /* steps of commands that one call of kv_session_run does */
#define KV_FAREWELL (1 << 20) /* bytes that are discarded before closing, at most */
#define KV_FAREWELL_SECONDS 2 /* time for that */

struct kv_session {
	struct kv_client client;
	struct buf in;
	size_t read_size; /* least room for the next read */
	int batch;        /* 1..KV_BATCH */
	int next;         /* requests[next..ready) have been parsed and must run */
	int ready;
	enum resp_result end; /* why the last parse stopped */
	/* `batch` parsers. The parser behind the parsed requests has the incomplete request. */
	struct resp_parser requests[];
};

/* NULL: no memory. */
struct kv_session *kv_session_new(struct kv_table *table, int batch);
void kv_session_free(struct kv_session *s);

/* NULL: no memory. */
char *kv_session_room(struct kv_session *s, size_t *n);
void kv_session_received(struct kv_session *s, size_t n);

/* Parse up to `batch` requests, unless some are left. Returns false if there is none to run. */
bool kv_session_parse(struct kv_session *s);

/* Run the parsed requests until none is left, the session is full or closing, KV_STEPS steps are
 * done, or a COMPUTE must be done. kv_session_parse returns whether requests are left. */
void kv_session_run(struct kv_session *s);

/* If a COMPUTE stopped kv_session_run, compute, and add the answer. */
static inline void kv_session_compute(struct kv_session *s)
{
	if (s->client.rounds > 0)
		kv_client_compute(&s->client);
}

static inline bool kv_session_is_full(const struct kv_session *s)
{
	return kv_client_is_full(&s->client);
}

/* Returns the next bytes to send and sets *n to their number; NULL if there are none. */
const char *kv_session_output(struct kv_session *s, size_t *n);
void kv_session_sent(struct kv_session *s, size_t n);

#endif
