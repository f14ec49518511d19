/* SPDX-License-Identifier: MIT */
/* Deadlock while stderr is a full pipe without a reader: the program still ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	gmp_sleep_until(GMP_FOREVER);
}

int main(void)
{
	char bytes[4096];
	int fd[2];

	(void)!write(2, "about to wait forever\n", 22);
	memset(bytes, 'x', sizeof(bytes));
	if (pipe2(fd, O_NONBLOCK) != 0)
		return 1;
	while (write(fd[1], bytes, sizeof(bytes)) > 0)
		;
	dup2(fd[1], 2);
	gmp_run(app, NULL, NULL);
	return 0;
}
