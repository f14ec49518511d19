/* SPDX-License-Identifier: MIT */
/* The end of CPU time's accounting for a client that has gone does not delay the report of a
 * deadlock: the test times out before. */
#include <gmp.h>
#include <stdio.h>
#include <string.h>

static const char request[] = "GET /debug/vars?cputime=60 HTTP/1.1\r\nHost: localhost\r\n"
			      "Connection: close\r\n\r\n";

static void app(void *arg)
{
	gmp_wg never = GMP_WG_INIT;
	char addr[32], bytes[4096];
	int port = gmp_debug_listen("127.0.0.1:0");

	(void)arg;
	if (port <= 0)
		return;
	snprintf(addr, sizeof(addr), "127.0.0.1:%d", port);
	int fd = gmp_dial("tcp", addr);

	if (fd < 0 || gmp_write_all(fd, request, strlen(request)) < 0)
		return;
	while (gmp_read(fd, bytes, sizeof(bytes)) > 0)
		;
	gmp_close(fd);
	gmp_wg_add(&never, 1);
	gmp_wg_wait(&never);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
