/* SPDX-License-Identifier: MIT */
/* A name lookup before a deadlock does not prevent its report. */
#include <netdb.h>

#include "deadlock_util.h"

static void app(void *arg)
{
	struct addrinfo *res = NULL;

	(void)arg;
	if (gmp_getaddrinfo("localhost", "http", NULL, &res) == 0)
		freeaddrinfo(res);
	wait_forever();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
