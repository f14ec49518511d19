/* SPDX-License-Identifier: MIT */
/*
 * Commands of kvserver: each reads its arguments, uses the table, and adds one answer.
 *
 * A command of many keys, and FLUSHALL, run in steps. After each step except the last,
 * kv_command_run returns false, so that the caller can yield, or send the answers so far. A step
 * locks the shards of up to KV_HOLD_KEYS keys once, and adds up to KV_FULL bytes and one value of
 * up to KV_COPY bytes to `out`. A longer value is not copied: `value` is its entry, and its bytes
 * must be sent behind `out`.
 *
 * A command is therefore atomic if it has up to KV_HOLD_KEYS keys, and its keys and values, or its
 * answer, have up to KV_HOLD_BYTES bytes. Between the steps of a longer command, commands of other
 * clients take effect.
 */
#ifndef EXAMPLES_KVCOMMAND_H
#define EXAMPLES_KVCOMMAND_H

#include "kvtable.h"
#include "resp.h"

#define KV_FULL (64u << 10)       /* answers are sent once they reach this many bytes */
#define KV_ROUNDS_MOST 1000000000 /* of a COMPUTE */

struct kv_client {
	struct kv_table *table;
	const struct resp_parser *request; /* the command and its arguments */
	struct buf out;         /* receives the answer; begins at 0 while a command runs */
	struct kv_entry *value; /* its value and CR LF follow `out`; NULL: none */
	size_t value_sent;
	bool closing;   /* the client has asked to quit, or must be disconnected */
	int64_t rounds; /* > 0: kv_client_compute must add the answer of a COMPUTE */

	/* State of a command that has further steps; otherwise 0. */
	uint32_t at;     /* index of the next argument */
	int64_t count;   /* keys found so far */
	uint64_t cursor; /* of kv_clear_some */
	bool more;
};

/* Returns whether output must be sent before a command may run. */
static inline bool kv_client_is_full(const struct kv_client *c)
{
	return c->value || buf_len(&c->out) >= KV_FULL;
}

/* Run the command in c->request, or its next step, and add the answer to c->out. The request has at
 * least one argument. Returns false if the caller must call again for the same request, once the
 * client is not full. */
bool kv_command_run(struct kv_client *c);

/* Compute for a COMPUTE that kv_command_run has accepted, and add its answer.  Uses no table, so
 * that every green thread may run it; until it has, the client may run no command. */
void kv_client_compute(struct kv_client *c);

#endif
