/* SPDX-License-Identifier: MIT */
/* A deadline on an fd without waiters does not delay the report of a deadlock. */
#include <unistd.h>

#include <gmp.h>

static void app(void *arg)
{
	gmp_wg never = GMP_WG_INIT;
	int p[2];

	(void)arg;
	if (pipe(p) || gmp_fd_adopt(p[0]) < 0)
		return;
	gmp_fd_set_deadline(p[0], GMP_READ | GMP_WRITE, gmp_deadline(INT64_C(3600000000000)));
	gmp_wg_add(&never, 1);
	gmp_wg_wait(&never);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
