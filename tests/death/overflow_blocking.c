/* SPDX-License-Identifier: MIT */
/* Stack overflow by endless recursion in blocking code, where the OS thread has no P. */
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
