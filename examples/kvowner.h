/* SPDX-License-Identifier: MIT */
/*
 * Table owner of kvserver: one green thread runs the requests of all connections.
 *
 * A connection sends its session over a channel and waits until the owner has run its requests. The
 * message lends the session to the owner, and the session returns with the answers. Only the owner
 * uses the table, so there is no contention for its locks. Fairness: for one message the owner runs
 * at most KV_STEPS steps of commands, so a long command goes to the end of the inbox repeatedly.
 */
#ifndef EXAMPLES_KVOWNER_H
#define EXAMPLES_KVOWNER_H

#include "kvsession.h"

#include <gmp.h>

struct kv_owner {
	struct kv_table *table;
	gmp_chan *inbox;
	gmp_g *g;
};

/* Returns 0 or a negative errno value. */
int kv_owner_start(struct kv_owner *o, struct kv_table *table);

/* End the owner and wait for it. No connection may send to it any more. */
void kv_owner_stop(struct kv_owner *o);

/* Let the owner run the requests that the session has parsed. `done` is a channel that only the
 * caller uses, with room for one element of size 0. Returns false if the caller must end. */
bool kv_owner_run(struct kv_owner *o, struct kv_session *s, gmp_chan *done);

/* Ask the owner to sweep the table. Does not wait; without effect if the inbox is full. */
void kv_owner_sweep(struct kv_owner *o);

#endif
