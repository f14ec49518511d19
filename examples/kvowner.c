/* SPDX-License-Identifier: MIT */
/*
 * Table owner of kvserver: one green thread runs the requests of all connections.
 *
 * One message carries all requests that a connection has parsed at a time. A client that pipelines
 * requests therefore costs one exchange for all of them, not one for each.
 */
#include "kvowner.h"

#include <errno.h>

#define INBOX 128

struct message {
	struct kv_session *session; /* NULL: sweep */
	gmp_chan *done;
};

static void own(void *arg)
{
	struct kv_owner *o = arg;
	struct message m;

	while (gmp_chan_recv(o->inbox, &m) == 0) {
		if (m.session) {
			kv_session_run(m.session);
			gmp_chan_send(m.done, NULL); /* has room, so the owner does not wait */
		} else {
			kv_sweep(o->table);
		}
	}
}

int kv_owner_start(struct kv_owner *o, struct kv_table *table)
{
	int err;

	o->table = table;
	o->inbox = gmp_chan_new(sizeof(struct message), INBOX);
	if (!o->inbox)
		return -ENOMEM;
	err = gmp_spawn(&o->g, own, o, NULL);
	if (err)
		gmp_chan_free(o->inbox);
	return err;
}

void kv_owner_stop(struct kv_owner *o)
{
	gmp_chan_close(o->inbox);
	gmp_join(o->g);
	gmp_chan_free(o->inbox);
}

bool kv_owner_run(struct kv_owner *o, struct kv_session *s, gmp_chan *done)
{
	struct message m = { s, done };

	return gmp_chan_send(o->inbox, &m) == 0 && gmp_chan_recv(done, NULL) == 0;
}

void kv_owner_sweep(struct kv_owner *o)
{
	const struct message m = { 0 };

	gmp_chan_try_send(o->inbox, &m); /* if the inbox is full, a later sweep suffices */
}
