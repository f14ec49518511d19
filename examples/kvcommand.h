/* SPDX-License-Identifier: MIT */
/*
 * The commands of kvserver: each reads its arguments, uses the table, and adds one answer.
 *
 * A command of many keys, and FLUSHALL, run in steps: kv_command_run returns false when there is
 * more to do, so that the caller can let others run, or send what has been answered so far. A step
 * uses up to KV_HOLD_KEYS keys under one hold of their shards' locks, and adds up to KV_FULL bytes
 * and one value of up to KV_COPY bytes to `out`. A longer value is not copied: `value` is its
 * entry, which must be sent behind `out`.
 *
 * So a command is atomic if it has up to KV_HOLD_KEYS keys, and its keys and values, or its answer,
 * up to KV_HOLD_BYTES bytes. Between the steps of a longer one, the commands of other clients take
 * effect.
 */
#ifndef EXAMPLES_KVCOMMAND_H
#define EXAMPLES_KVCOMMAND_H

#include "kvtable.h"
#include "resp.h"

#define KV_FULL (64u << 10) /* answers are sent once they are so many bytes */

struct kv_client {
	struct kv_table *table;
	const struct resp_parser *request; /* the command and its arguments */
	struct buf out;         /* where the answer goes; begins at 0 while a command runs */
	struct kv_entry *value; /* whose value follows `out`, and then CR LF; or NULL */
	size_t value_sent;
	bool closing; /* the client has asked for the end, or must be sent away */

	/* Of a command that has more to do; 0 otherwise. */
	uint32_t at;     /* the argument that is next */
	int64_t count;   /* keys found so far */
	uint64_t cursor; /* of kv_clear_some */
	bool more;
};

/* Whether what is to be sent must be sent before a command may run. */
static inline bool kv_client_is_full(const struct kv_client *c)
{
	return c->value || buf_len(&c->out) >= KV_FULL;
}

/* Run the command in c->request, of one argument at least, or its next step, and add the answer to
 * it to c->out. Returns false if it must be called again for the same request, as soon as the
 * client is not full. */
bool kv_command_run(struct kv_client *c);

#endif
