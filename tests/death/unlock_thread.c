/* SPDX-License-Identifier: MIT */
/* gmp_unlock_thread called once more than gmp_lock_thread: fatal error. */
#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	if (gmp_lock_thread() || gmp_lock_thread() || gmp_unlock_thread() || gmp_unlock_thread())
		return;
	gmp_unlock_thread();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
