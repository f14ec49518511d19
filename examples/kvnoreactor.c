/* SPDX-License-Identifier: MIT */
/* Replaces kvreactor.c in a build without libuv: prints an error. */
#include "kvreactor.h"

#include <stdio.h>

int kv_reactor_run(const char *unix_path, const char *bind, long port, long timeout,
		   long write_timeout)
{
	(void)unix_path;
	(void)bind;
	(void)port;
	(void)timeout;
	(void)write_timeout;
	fputs("kvserver: built without libuv, so there is no reactor: apt-get install libuv1-dev, "
	      "and "
	      "run cmake again\n",
	      stderr);
	return 2;
}
