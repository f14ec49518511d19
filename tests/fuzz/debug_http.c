/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for src/observe/serve/http.c: the end of a head must not depend on how the bytes are
 * cut, and a head that is accepted must have one end, one allowed Host and no body. The head lies
 * in memory of its own size, so that AddressSanitizer finds an access behind its end.
 */
#define _GNU_SOURCE 1
#include "fuzz.h"

#include "observe/serve/http.h"

static void check_accepted(const struct debug_head *h, const char *head, size_t n)
{
	HOLDS(memmem(head, n, "\r\n\r\n", 4) == head + n - 4);
	HOLDS(memchr(head, '\0', n) == NULL);
	HOLDS(strlen(h->path) < DEBUG_PATH_MOST);
	HOLDS(h->seconds >= 0 && h->seconds <= DEBUG_SECONDS_MOST);
	HOLDS(h->cputime >= 0 && h->cputime <= DEBUG_SECONDS_MOST);
	HOLDS(h->path[0] == '\0' || h->path[0] == '/');
	HOLDS(!h->http10 || !h->keep_alive);
	char *text = strndup(head, n);

	for (char *s = text; *s; s++)
		*s = (char)(*s >= 'A' && *s <= 'Z' ? *s + 32 : *s);
	char *host = strstr(text, "\r\nhost:");

	HOLDS(host && !strstr(host + 1, "\r\nhost:"));
	HOLDS(!strstr(text, "\r\ntransfer-encoding:"));
	free(text);
}

/* The length of the head, read in pieces of `step` bytes. */
static int find_end(const char *bytes, size_t size, size_t step)
{
	size_t seen = 0;
	int end = 0;

	for (size_t n = 0; n < size && end == 0;) {
		n = size - n < step ? size : n + step;
		end = debug_head_end(bytes, n, &seen);
		HOLDS(end < 0 || seen <= n);
	}
	return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct debug_head h;

	if (size < 2 || size > DEBUG_HEAD_MOST)
		return 0;
	int end = find_end((const char *)data + 1, size - 1, size);

	HOLDS(find_end((const char *)data + 1, size - 1, 1 + data[0] % 32) == end);
	HOLDS(end == -400 || (end >= 0 && end < (int)size));
	if (end <= 0)
		return 0;
	char *head = malloc((size_t)end);

	memcpy(head, data + 1, (size_t)end);
	int status = debug_head_parse(&h, head, (size_t)end, data[0] & 1 ? "box.example" : "");

	HOLDS(status == 0 || (status >= 400 && status <= 505));
	if (status == 0)
		check_accepted(&h, head, (size_t)end);
	free(head);
	return 0;
}
