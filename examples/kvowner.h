/* SPDX-License-Identifier: MIT */
/*
 * The owner of kvserver's table: a green thread that runs the requests of all connections.
 *
 * A connection sends its session over a channel, and waits until the owner is done with it. There
 * is no contention for the table's locks: a session belongs to its connection, is lent to the owner
 * with the message, and comes back with the answers. The owner does KV_STEPS steps of commands at
 * most for one message, so a long command goes to the end of the inbox again and again.
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

/* 0 or a negative errno value. */
int kv_owner_start(struct kv_owner *o, struct kv_table *table);

/* Wait until it has ended.  No connection may send to it any more. */
void kv_owner_stop(struct kv_owner *o);

/* Let the owner run the requests that the session has parsed. `done` is a channel of the caller's
 * alone, with room for one element without a size. Returns false if the caller must end. */
bool kv_owner_run(struct kv_owner *o, struct kv_session *s, gmp_chan *done);

/* Have it sweep the table some time.  Does not wait. */
void kv_owner_sweep(struct kv_owner *o);

#endif
