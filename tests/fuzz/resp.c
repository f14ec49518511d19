/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for resp.c of kvserver: the requests must not depend on how the stream is cut into
 * reads.
 *
 * Each read has a block of exactly its size, so that AddressSanitizer finds an access behind its
 * end.
 */
#include "fuzz.h"

#include "resp.h"

struct text {
	char *at;
	size_t n;
};

static void add(struct text *t, const void *bytes, size_t n)
{
	t->at = realloc(t->at, t->n + n + 1);
	memcpy(t->at + t->n, bytes, n);
	t->n += n;
}

/* Returns the requests and the final error of the stream, read in pieces of `step` bytes. */
static struct text parse(const uint8_t *data, size_t size, size_t step)
{
	struct resp_parser p = { 0 };
	struct text said = { 0 }, held = { 0 };
	enum resp_result r = RESP_INCOMPLETE;

	for (size_t at = 0; at < size && r != RESP_BROKEN; at += step) {
		size_t n = size - at < step ? size - at : step;
		char *bytes = malloc(held.n + n);

		memcpy(bytes, held.at ? held.at : "", held.n);
		memcpy(bytes + held.n, data + at, n);
		n += held.n;
		size_t used = 0;

		while (used < n && (r = resp_parse(&p, bytes + used, n - used)) == RESP_REQUEST) {
			HOLDS(p.used > 0 && p.used <= n - used);
			add(&said, "[", 1);
			for (uint32_t i = 0; i < p.argc; i++) {
				struct slice s = resp_arg(&p, i);

				HOLDS(s.at >= bytes + used && s.at + s.len <= bytes + n);
				add(&said, s.at, s.len);
				add(&said, "|", 1);
			}
			used += p.used;
		}
		held.n = 0;
		add(&held, bytes + used, n - used);
		free(bytes);
	}
	if (r == RESP_BROKEN)
		add(&said, p.error, strlen(p.error));
	free(held.at);
	resp_parser_free(&p);
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > 4096)
		return 0;
	struct text whole = parse(data + 1, size - 1, size - 1);
	struct text cut = parse(data + 1, size - 1, 1 + data[0] % 16);

	HOLDS(whole.n == cut.n && (whole.n == 0 || memcmp(whole.at, cut.at, whole.n) == 0));
	free(whole.at);
	free(cut.at);
	struct slice s = { (const char *)data, size };
	int64_t number;
	char digits[RESP_DIGITS];

	if (resp_parse_integer(s, &number)) {
		HOLDS(resp_format_integer(digits, number) == size);
		HOLDS(memcmp(digits, data, size) == 0);
	}
	return 0;
}
