/* SPDX-License-Identifier: MIT */
/* A debug server that waits for clients does not prevent the report of a deadlock. */
#include <gmp.h>

static void app(void *arg)
{
	gmp_wg never = GMP_WG_INIT;

	(void)arg;
	if (gmp_debug_listen("127.0.0.1:0") <= 0)
		return;
	gmp_wg_add(&never, 1);
	gmp_wg_wait(&never);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
