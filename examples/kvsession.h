/* SPDX-License-Identifier: MIT */
/*
 * What does a connection know between two reads, whoever it is that reads?
 *
 * The bytes that have come, the requests found in them, and the answers that wait to be sent.  Nothing
 * here reads or writes a descriptor, or waits:
 *
 *   at = kv_session_room(s, &n);           read up to n bytes to there,
 *   kv_session_received(s, count);         and say how many came
 *   while (kv_session_parse(s)) {
 *           kv_session_run(s);             the only step that uses the table
 *           if (kv_session_is_full(s))     send s->client.out, and clear it
 *   }                                      send what is left of it
 *   if (s->client.closing)                 end the connection
 */
#ifndef EXAMPLES_KVSESSION_H
#define EXAMPLES_KVSESSION_H

#include "kvcommand.h"

#define KV_BATCH 16           /* requests that are parsed before they are run */
#define KV_FULL (64u << 10)   /* answers are sent once they are so many bytes */
#define KV_FAREWELL (1 << 20) /* bytes that are read and thrown away before closing */

struct kv_session {
	struct kv_client client;
	struct buf in;
	size_t read_size; /* room to have for the next read */
	int batch;        /* 1..KV_BATCH */
	int next;         /* requests[next..ready) have been parsed and are to be run */
	int ready;
	enum resp_result end; /* why the last parse went no further */
	/* As many as `batch`.  The one behind those that are ready has what is incomplete. */
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

/* Run the requests that have been parsed, until none is left, or the answers are many, or the session
 * is to end. */
void kv_session_run(struct kv_session *s);

static inline bool kv_session_is_full(const struct kv_session *s)
{
	return buf_len(&s->client.out) >= KV_FULL;
}

#endif
