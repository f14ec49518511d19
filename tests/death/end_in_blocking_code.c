/* SPDX-License-Identifier: MIT */
/* A green thread returns between gmp_block_enter and gmp_block_leave: fatal error. */
#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	gmp_block_enter();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
