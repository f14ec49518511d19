/* SPDX-License-Identifier: MIT */
/*
 * Hostile web server for the test of crawler. Every path is a page of its own kind: it stalls,
 * has no end, is no HTTP, leads in circles, or has links that are none. A thread for each
 * connection.
 *
 *   crawlpeer &        prints "listening on 127.0.0.1:PORT", ends when it is killed
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HTML "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n"

static const struct {
	const char *path, *answer;
} pages[] = {
	{ "/",
	  HTML "<a href=\"/stall\"><A HREF='garbage'><a href=\"./close\"><a href=\"../../empty\">"
	       "<a href=\"/endless\"><a href=\"/circle\"><a href=\"links\"><a href=\"short\">"
	       "<a href=\"/lying\"><a href=\"/plain\"><a href=\"/half\">" },
	{ "/garbage", "GARBAGE /1.1 what\r\n\r\n<a href=\"/never\">" },
	{ "/close", "" },
	{ "/empty", "HTTP/1.0 204 No Content\r\n\r\n" },
	{ "/circle", "HTTP/1.0 302 Found\r\nLocation: /circle\r\n\r\n" },
	{ "/links",
	  HTML "<a href=\"/bad\r\nX-Evil: 1\"><a href=\"/white space\"><a href=\"mailto:x@y\">"
	       "<a href=\"http://127.0.0.2:1/other\"><a href=\"//127.0.0.2/other\">"
	       "<a href=\"javascript:alert(1)\"><a href=\"\"><a href=\"#here\"><a href=\"/#there\">"
	       "<a href=\"/links?a=b#c\"><a href=\"?d=../e\"><a href=\"/x/./y/../../plain\"><a "
	       "href=\"" },
	{ "/links?a=b", "HTTP/1.0 404 Not Found\r\n\r\n<a href=\"/never\">" },
	{ "/links?d=../e", HTML },
	{ "/short", "HTTP/1.0 200" },
	{ "/lying", "HTTP/1.0 200 OK\r\ncontent-length: -5\r\nCONTENT-TYPE:text/html\r\n\r\n<a "
		    "href='/plain'>" },
	{ "/plain", "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n<a href=\"/never\">" },
	{ "/half", HTML "<a href=\"/nev" },
};

static void say(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) < 0)
		return;
}

#define LINKS 10000
#define LINK_SIZE 256
static char links[LINKS][LINK_SIZE];

/* Paths of 200 bytes and more that a table of 4096 lists by the unkeyed hash FNV-1a has in one
 * list.  Without ThreadSanitizer, with which the search took longer than the test waits. */
__attribute__((no_sanitize("thread"))) static void make_links(void)
{
	char prefix[LINK_SIZE - 16];
	unsigned begin = 2166136261u;
	size_t n = (size_t)sprintf(prefix, "/deep%0200d", 0);

	for (size_t i = 0; i < n; i++)
		begin = (begin ^ (unsigned char)prefix[i]) * 16777619u;
	for (unsigned i = 0, found = 0; found < LINKS; i++) {
		unsigned h = begin, unit = 1;

		while (i / unit >= 10)
			unit *= 10;
		for (; unit > 0; unit /= 10)
			h = (h ^ ('0' + i / unit % 10)) * 16777619u;
		if (h % 4096 == 7)
			snprintf(links[found++], LINK_SIZE, "%s%u", prefix, i);
	}
}

/* About a megabyte of those links. */
static void answer_with_links(int fd)
{
	static _Atomic unsigned at;
	unsigned first = at++ * 4600;

	say(fd, HTML);
	for (unsigned i = 0; i < 4600; i++) {
		char link[LINK_SIZE + 16];

		snprintf(link, sizeof(link), "<a href=\"%s\">", links[(first + i) % LINKS]);
		say(fd, link);
	}
}

static void answer(int fd, const char *path)
{
	if (strncmp(path, "/deep", 5) == 0)
		answer_with_links(fd);
	if (strcmp(path, "/stall") == 0) {
		say(fd, HTML "<a href=\"/never\">");
		sleep(1000); /* no answer: longer than any deadline of the crawler */
	}
	if (strcmp(path, "/endless") == 0) {
		say(fd, HTML);
		while (write(fd, "<p>and so on and so on and so on", 32) == 32)
			;
	}
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (strcmp(path, pages[i].path) == 0)
			say(fd, pages[i].answer);
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char request[4096], path[1024];
	size_t n = 0;
	ssize_t got = 1;

	while (n < sizeof(request) - 1 && got > 0) {
		got = read(fd, request + n, sizeof(request) - 1 - n);
		n += got > 0 ? (size_t)got : 0;
		request[n] = '\0';
		if (strstr(request, "\r\n\r\n"))
			break;
	}
	if (strstr(request, "Evil"))
		fputs("a link has become a header\n", stderr);
	if (sscanf(request, "GET %1023s HTTP/1.", path) == 1)
		answer(fd, path);
	shutdown(fd, SHUT_WR);
	while (read(fd, request, sizeof(request)) > 0)
		;
	close(fd);
	return NULL;
}

int main(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	signal(SIGPIPE, SIG_IGN);
	make_links();
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    listen(listener, 100) != 0 ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) != 0)
		return 1;
	printf("listening on 127.0.0.1:%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t thread;

		if (fd >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
			pthread_detach(thread);
	}
}
