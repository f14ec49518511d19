/* SPDX-License-Identifier: MIT */
/* An unknown word in GMP_DEBUG is reported with the known words, and no run starts. */
#include <errno.h>
#include <stdlib.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	exit(3);
}

int main(void)
{
	setenv("GMP_DEBUG", "stack,chek", 1);
	return gmp_run(app, NULL, NULL) == -EINVAL ? 7 : 1;
}
