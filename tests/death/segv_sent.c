/* SPDX-License-Identifier: MIT */
/* A SIGSEGV sent by raise, which no fault would repeat, ends the program. */
#include <signal.h>
#include <unistd.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	(void)!write(2, "about to raise\n", 15);
	raise(SIGSEGV);
	(void)!write(2, "it continues\n", 13);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
