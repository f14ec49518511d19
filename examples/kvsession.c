/* SPDX-License-Identifier: MIT */
/*
 * Session of kvserver: holds input, parsed requests and answers of a connection between two reads.
 *
 * Invariants:
 *
 *   KVS-1. The arguments of a request are bytes of `in`. They stay at their address until the
 *          request has run: while parsed requests are left, nothing is read.
 *   KVS-2. A protocol error is answered after all requests that precede it.
 *   KVS-3. A command runs only if the session is not full, so answers that are not read stop the
 *          commands of this client.
 */
#include "kvsession.h"

#include <stdlib.h>

#define READ_LEAST 1024
#define READ_MOST (64u << 10)

struct kv_session *kv_session_new(struct kv_table *table, int batch)
{
	struct kv_session *s = calloc(1, sizeof(*s) + (size_t)batch * sizeof(s->requests[0]));

	if (!s)
		return NULL;
	s->client.table = table;
	s->read_size = READ_LEAST;
	s->batch = batch;
	return s;
}

void kv_session_free(struct kv_session *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->batch; i++)
		resp_parser_free(&s->requests[i]);
	kv_entry_release(s->client.value);
	buf_free(&s->client.out);
	buf_free(&s->in);
	free(s);
}

char *kv_session_room(struct kv_session *s, size_t *n)
{
	char *at = buf_room(&s->in, s->read_size);

	*n = s->in.size - s->in.end;
	return at;
}

void kv_session_received(struct kv_session *s, size_t n)
{
	s->in.end += n;
	if (s->in.end == s->in.size && s->read_size < READ_MOST)
		s->read_size *= 2;
}

static void refuse(struct kv_client *c, const char *error)
{
	resp_add_text(&c->out, "-ERR Protocol error: ");
	buf_add(&c->out, error, strlen(error));
	resp_add_text(&c->out, "\r\n");
	c->closing = true;
}

/* All parsed requests have run: move the parser of the incomplete request to the front. */
static void begin_batch(struct kv_session *s)
{
	if (s->ready > 0 && s->ready < s->batch) {
		struct resp_parser at_work = s->requests[s->ready];

		s->requests[s->ready] = s->requests[0];
		s->requests[0] = at_work;
	}
	s->next = 0;
	s->ready = 0;
}

static void parse_batch(struct kv_session *s)
{
	while (s->ready < s->batch) {
		struct resp_parser *request = &s->requests[s->ready];

		s->end = resp_parse(request, s->in.data + s->in.start, buf_len(&s->in));
		if (s->end != RESP_REQUEST)
			break;
		s->in.start += request->used;
		if (request->argc > 0)
			s->ready++;
	}
}

bool kv_session_parse(struct kv_session *s)
{
	struct kv_client *c = &s->client;

	if (c->closing || s->next < s->ready)
		return !c->closing;
	if (s->end == RESP_REQUEST || s->end == RESP_INCOMPLETE) {
		begin_batch(s);
		parse_batch(s);
		if (s->ready > 0)
			return true;
	}
	if (s->end == RESP_BROKEN)
		refuse(c, s->requests[s->ready].error);
	else if (s->end == RESP_NO_MEMORY)
		c->closing = true;
	if (buf_len(&s->in) == 0)
		buf_clear(&s->in);
	return false;
}

void kv_session_run(struct kv_session *s)
{
	struct kv_client *c = &s->client;

	for (int i = 0; i < KV_STEPS && s->next < s->ready; i++) {
		if (c->closing || kv_client_is_full(c) || c->rounds > 0)
			break;
		c->request = &s->requests[s->next];
		s->next += kv_command_run(c);
	}
}

const char *kv_session_output(struct kv_session *s, size_t *n)
{
	struct kv_client *c = &s->client;

	if (buf_len(&c->out) > 0) {
		*n = buf_len(&c->out);
		return c->out.data + c->out.start;
	}
	if (!c->value) {
		buf_clear(&c->out);
		return NULL;
	}
	*n = c->value->value_len - c->value_sent;
	return kv_value(c->value).at + c->value_sent;
}

void kv_session_sent(struct kv_session *s, size_t n)
{
	struct kv_client *c = &s->client;

	if (buf_len(&c->out) > 0) {
		c->out.start += n;
		return;
	}
	c->value_sent += n;
	if (c->value_sent < c->value->value_len)
		return;
	kv_entry_release(c->value);
	c->value = NULL;
	buf_clear(&c->out);
	resp_add_text(&c->out, "\r\n");
	c->closing |= c->out.failed;
}
