/* SPDX-License-Identifier: MIT */
/* GMP_DEBUG=help lists the words, and the program runs as usual. */
#include <stdlib.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	exit(7);
}

int main(void)
{
	setenv("GMP_DEBUG", "help", 1);
	return gmp_run(app, NULL, NULL) != 0;
}
