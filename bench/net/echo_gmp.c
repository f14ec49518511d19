/* SPDX-License-Identifier: MIT */
/* Echo server: serves each connection in a green thread. */
#include "tcp.h"

#include <gmp.h>
#include <stdint.h>

static void serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[BUFFER];
	ssize_t n;

	while ((n = gmp_read(fd, buf, sizeof(buf))) > 0)
		if (gmp_write(fd, buf, (size_t)n) != n)
			break;
	gmp_close(fd);
}

static void app(void *arg)
{
	int listener = gmp_listen("tcp", "127.0.0.1:0"), fd;
	char addr[64];

	(void)arg;
	if (listener < 0)
		die("gmp_listen", -listener);
	gmp_local_addr(listener, addr, sizeof(addr));
	printf("listening on %s\n", addr);
	fflush(stdout);
	while ((fd = gmp_accept(listener)) >= 0)
		if (gmp_go(serve, (void *)(intptr_t)fd) != 0)
			die("gmp_go", ENOMEM);
	die("gmp_accept", -fd);
}

int main(void)
{
	raise_limit();
	int err = gmp_run(app, NULL, NULL);

	if (err)
		die("gmp_run", -err);
	return 0;
}
