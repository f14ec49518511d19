/* SPDX-License-Identifier: MIT */
/*
 * Server that answers the first query of each client with bytes that never end.
 *
 *   floodpeer redis|pg &        prints "listening on 127.0.0.1:PORT", ends when it is killed
 *
 * redis: a status line without an end. pg: ParameterStatus messages without a result.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char start_up[] = "R\0\0\0\x08\0\0\0\0" /* AuthenticationOk */
			       "Z\0\0\0\x05I";       /* ReadyForQuery */

/* ParameterStatus of 26 * 26 names. libpq searches its list for each, so it is slower than this
 * server, and always finds bytes to read. */
static size_t make_parameters(char *bytes)
{
	size_t n = 0;

	for (int i = 0; i < 26 * 26; i++) {
		memcpy(bytes + n, "S\0\0\0\x09??\0b", 10);
		bytes[n + 5] = (char)('a' + i / 26);
		bytes[n + 6] = (char)('a' + i % 26);
		n += 10;
	}
	return n;
}
static void flood(int fd, const char *piece, size_t n)
{
	static char bytes[1 << 16];
	size_t len = 0;

	for (; len + n <= sizeof(bytes); len += n)
		memcpy(bytes + len, piece, n);
	for (size_t at = 0;;) {
		ssize_t sent = write(fd, bytes + at, len - at);

		if (sent <= 0)
			return;
		at = (at + (size_t)sent) % len;
	}
}

static void serve(int fd, int is_pg)
{
	char request[4096], piece[26 * 26 * 10];

	if (is_pg && (read(fd, request, sizeof(request)) <= 0 ||
		      write(fd, start_up, sizeof(start_up) - 1) < 0))
		return;
	if (read(fd, request, sizeof(request)) <= 0)
		return;
	if (is_pg)
		flood(fd, piece, make_parameters(piece));
	else
		flood(fd, "+", 1);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	signal(SIGPIPE, SIG_IGN);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (argc != 2 || listener < 0 ||
	    bind(listener, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    listen(listener, 100) != 0 ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) != 0)
		return 1;
	printf("listening on 127.0.0.1:%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		serve(fd, strcmp(argv[1], "pg") == 0);
		close(fd);
	}
}
