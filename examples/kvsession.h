/* SPDX-License-Identifier: MIT */
/*
 * The state of a connection between two reads: its input, its parsed requests, and its answers.
 *
 * It is the same for all architectures: nothing here reads or writes a descriptor, or waits.
 *
 *   at = kv_session_room(s, &n);           read up to n bytes to there,
 *   kv_session_received(s, count);         and say how many came
 *   while (kv_session_parse(s)) {
 *           kv_session_run(s);             the only step that uses the table
 *           if (kv_session_is_full(s))     send all that there is to send, as below
 *   }                                      and the same at the end
 *   if (s->client.closing)                 end the connection
 *
 *   while ((at = kv_session_output(s, &n))) {
 *           send up to n bytes from there,
 *           kv_session_sent(s, count);     and say how many were sent
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
#define KV_FAREWELL (1 << 20) /* bytes that are read and thrown away before closing */
#define KV_FAREWELL_SECONDS 2 /* and for how long */

struct kv_session {
	struct kv_client client;
	struct buf in;
	size_t read_size; /* room to have for the next read */
	int batch;        /* 1..KV_BATCH */
	int next;         /* requests[next..ready) have been parsed and must run */
	int ready;
	enum resp_result end; /* why the last parse went no further */
	/* As many as `batch`.  The one behind the parsed requests has the incomplete one. */
	struct resp_parser requests[];
};

/* NULL: no memory. */
struct kv_session *kv_session_new(struct kv_table *table, int batch);
void kv_session_free(struct kv_session *s);

/* NULL: no memory. */
char *kv_session_room(struct kv_session *s, size_t *n);
void kv_session_received(struct kv_session *s, size_t n);

/* Find up to `batch` requests, unless some are left.  False when there is none to run. */
bool kv_session_parse(struct kv_session *s);

/* Run the requests that have been parsed, until none is left, or the session is full or closing,
 * or KV_STEPS steps have been done. kv_session_parse tells whether some are left. */
void kv_session_run(struct kv_session *s);

static inline bool kv_session_is_full(const struct kv_session *s)
{
	return kv_client_is_full(&s->client);
}

/* What is to be sent next; NULL when there is nothing. */
const char *kv_session_output(struct kv_session *s, size_t *n);
void kv_session_sent(struct kv_session *s, size_t n);

#endif
