/* SPDX-License-Identifier: MIT */
/* How does the same server look around an event loop? */
#ifndef EXAMPLES_KVREACTOR_H
#define EXAMPLES_KVREACTOR_H

/* Serve until SIGINT or SIGTERM.  unix_path may be NULL, port -1: do not listen there.  The exit
 * status. */
int kv_reactor_run(const char *unix_path, const char *bind, long port);

#endif
