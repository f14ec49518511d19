/* SPDX-License-Identifier: MIT */
/* Endless recursion in blocking code, when the thread runs no green thread for the scheduler. */
#include <gmp.h>

#include "dig.h"

static void app(void *arg)
{
	(void)arg;
	gmp_block_enter();
	dig(0);
	gmp_block_leave();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
