/* SPDX-License-Identifier: MIT */
/* How does the same server look around an event loop?  Not at all, without libuv. */
#include "kvreactor.h"

#include <stdio.h>

int kv_reactor_run(const char *unix_path, const char *bind, long port)
{
	(void)unix_path;
	(void)bind;
	(void)port;
	fputs("kvserver: built without libuv, so there is no reactor: apt-get install libuv1-dev, "
	      "and "
	      "run cmake again\n",
	      stderr);
	return 2;
}
