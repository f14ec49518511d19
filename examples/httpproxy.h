/* SPDX-License-Identifier: MIT */
/* Reverse proxy for HTTP/1.1: re-frames every message (mode --http of examples/proxy.c). */
#ifndef EXAMPLES_HTTPPROXY_H
#define EXAMPLES_HTTPPROXY_H

#include "server.h"

/* Serve the requests of a client by the server at the address `to`, until one side ends, or is
 * without progress for `timeout` ns. The caller closes `client`. */
void httpproxy_serve(struct server *s, const char *to, int64_t timeout, int client);

#endif
