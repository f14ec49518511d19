/* SPDX-License-Identifier: MIT */
/* Event loop of kvserver --arch reactor: serves all clients with libuv in one OS thread. */
#ifndef EXAMPLES_KVREACTOR_H
#define EXAMPLES_KVREACTOR_H

/* Serve until SIGINT or SIGTERM. With unix_path NULL or port -1, do not listen there. The timeouts
 * are in seconds, 0: none. Returns the exit status. */
int kv_reactor_run(const char *unix_path, const char *bind, long port, long timeout,
		   long write_timeout);

#endif
