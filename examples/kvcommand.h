/* SPDX-License-Identifier: MIT */
/* What does each command do, and what does it answer? */
#ifndef EXAMPLES_KVCOMMAND_H
#define EXAMPLES_KVCOMMAND_H

#include "kvtable.h"
#include "resp.h"

struct kv_client {
	struct kv_table *table;
	const struct resp_parser *request; /* the command and its arguments */
	struct buf out;                    /* where the answer goes */
	bool closing; /* the client has asked for the end, or must be sent away */
};

/* Run the command in c->request, of one argument at least, and add its answer to c->out. */
void kv_command_run(struct kv_client *c);

#endif
