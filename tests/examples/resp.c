/* SPDX-License-Identifier: MIT */
/* Unit test of examples/resp.c: requests cut at every byte, and replies. */
#include "check.h"

#include "resp.h"

#include <stdlib.h>

/* The requests in `bytes`, written as "[one][two three]", when they come in pieces of `piece`; each
 * call gets a copy of its own, as if the buffer had moved. */
static char *requests_in(const char *bytes, size_t n, size_t piece)
{
	struct resp_parser p = { 0 };
	struct buf found = { 0 };
	size_t start = 0;
	size_t have = 0;
	enum resp_result r;

	do {
		char *copy;

		have = have + piece < n ? have + piece : n;
		copy = malloc(have - start + 1);
		memcpy(copy, bytes + start, have - start);
		r = resp_parse(&p, copy, have - start);
		if (r == RESP_REQUEST) {
			buf_add(&found, "[", 1);
			for (uint32_t i = 0; i < p.argc; i++) {
				buf_add(&found, " ", i > 0);
				buf_add(&found, resp_arg(&p, i).at, resp_arg(&p, i).len);
			}
			buf_add(&found, "]", 1);
			start += p.used;
			have -= piece < have - start ? piece : have - start; /* again, from here */
		} else if (r == RESP_BROKEN) {
			buf_add(&found, "!", 1);
			buf_add(&found, p.error, strlen(p.error));
		}
		free(copy);
	} while (r != RESP_BROKEN && start < n && (have < n || r == RESP_REQUEST));
	if (r == RESP_INCOMPLETE)
		buf_add(&found, "...", 3);
	buf_add(&found, "", 1);
	resp_parser_free(&p);
	return found.data;
}

static void check_requests(const char *bytes, const char *wanted)
{
	size_t n = strlen(bytes);

	for (size_t piece = 1; piece <= n; piece++) {
		char *found = requests_in(bytes, n, piece);

		CHECK_STR(found, wanted);
		free(found);
	}
}

TEST(request_cut_anywhere_is_parsed)
{
	check_requests("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "[GET k]");
	check_requests("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n",
		       "[GET k][PING][QUIT]");
	check_requests("*2\r\n$4\r\n\r\n*1\r\n$2\r\n$1\r\n", "[\r\n*1 $1]");
	check_requests("*1\r\n$0\r\n\r\n", "[]");
	check_requests("*0\r\n*-1\r\nx\n", "[][][x]");
	check_requests("a  b\t\"c d\" 'e' \n", "[a b c d e]");
	check_requests("\r\n\n  \r\n", "[][][]");
	check_requests("\"\\x41\\n\\\\\" '\\'\\n'\r\n", "[A\n\\ '\\n]");
}

TEST(incomplete_request_is_reported)
{
	check_requests("*2\r\n$3\r\nGET\r\n$1\r\nk\r", "...");
	check_requests("*2\r\n$3\r\nGET\r\n", "...");
	check_requests("*2\r", "...");
	check_requests("PING", "...");
	check_requests("PING\n*", "[PING]...");
}

TEST(fault_cut_anywhere_is_named)
{
	check_requests("PING\n*x\r\n", "[PING]!invalid multibulk length");
	check_requests("*1048577\r\n", "!invalid multibulk length");
	check_requests("*1\r\nPING\r\n", "!expected '$', got 'P'");
	check_requests("*1\r\n$-1\r\n", "!invalid bulk length");
	check_requests("*1\r\n$536870913\r\n", "!invalid bulk length");
	check_requests("*1\r\n$67108865\r\n", "!invalid bulk length");
	check_requests("*1\r\n$67108864\r\n", "!too big request");
	check_requests("*2\r\n$1\r\nx\r\n$67108850\r\n", "!too big request");
	check_requests("*1\r\n$1x\r\n", "!invalid bulk length");
	check_requests("a \"b\r\n", "!unbalanced quotes in request");
	check_requests("a 'b'c\r\n", "!unbalanced quotes in request");
}

TEST(line_without_end_is_fault)
{
	size_t n = RESP_MAX_LINE + 1;
	char *bytes = malloc(n + 2);
	struct resp_parser p = { 0 };

	memset(bytes, '1', n + 2);
	CHECK_EQ(resp_parse(&p, bytes, n - 1), RESP_INCOMPLETE);
	CHECK_EQ(resp_parse(&p, bytes, n), RESP_BROKEN);
	CHECK_STR(p.error, "too big inline request");
	bytes[0] = '*';
	CHECK_EQ(resp_parse(&p, bytes, n - 1), RESP_INCOMPLETE);
	CHECK_EQ(resp_parse(&p, bytes, n), RESP_BROKEN);
	CHECK_STR(p.error, "too big mbulk count string");
	resp_parser_free(&p);
	free(bytes);
}

TEST(announced_length_is_not_allocated)
{
	struct resp_parser p = { 0 };
	char bytes[] = "*1048576\r\n$67100000\r\nx";

	CHECK_EQ(resp_parse(&p, bytes, strlen(bytes)), RESP_INCOMPLETE);
	CHECK(p.args_size < 100);
	resp_parser_free(&p);
}

TEST(garbage_is_parsed_within_buffer)
{
	static const char letters[] = "*$\r\n\r\n0123-9xaGET \"'\\\0";
	struct resp_parser p = { 0 };

	srandom(1);
	for (int i = 0; i < 200000; i++) {
		size_t n = (size_t)random() % 40;
		char *bytes = malloc(n ? n : 1); /* exact, for AddressSanitizer */
		size_t start = 0;

		for (size_t j = 0; j < n; j++)
			bytes[j] = letters[(size_t)random() % (sizeof(letters) - 1)];
		while (resp_parse(&p, bytes + start, n - start) == RESP_REQUEST) {
			start += p.used;
			CHECK(start <= n);
			for (uint32_t k = 0; k < p.argc; k++)
				CHECK(resp_arg(&p, k).at + resp_arg(&p, k).len <= bytes + n);
		}
		resp_parser_free(&p);
		free(bytes);
	}
}

TEST(integer_has_one_valid_form)
{
	static const char good[][24] = {
		"0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808"
	};
	/* clang-format off */
	static const char bad[][24] = {
		"", "-", "+1", "01", "-0", " 1", "1 ", "1x", "--1", "9223372036854775808",
		"-9223372036854775809", "18446744073709551617", "99999999999999999999",
	};
	/* clang-format on */
	char text[RESP_DIGITS + 1];
	int64_t number;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK(resp_parse_integer((struct slice){ good[i], strlen(good[i]) }, &number));
		text[resp_format_integer(text, number)] = '\0';
		CHECK_STR(text, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!resp_parse_integer((struct slice){ bad[i], strlen(bad[i]) }, &number));
}

TEST(reply_has_resp_form)
{
	static const char wanted[] =
		"+OK\r\n-ERR x\r\n:-5\r\n*2\r\n$3\r\na\0b\r\n$-1\r\n$0\r\n\r\n";
	struct buf out = { 0 };

	resp_add_status(&out, "OK");
	resp_add_error(&out, "ERR x");
	resp_add_integer(&out, -5);
	resp_add_array(&out, 2);
	resp_add_bulk(&out, (struct slice){ "a\0b", 3 });
	resp_add_null(&out);
	resp_add_bulk(&out, (struct slice){ "", 0 });
	CHECK_EQ(buf_len(&out), sizeof(wanted) - 1);
	CHECK(memcmp(out.data, wanted, sizeof(wanted) - 1) == 0);
	buf_free(&out);
}

TEST(buffer_that_moves_or_grows_keeps_bytes)
{
	struct buf b = { 0 };
	unsigned char in = 0;
	unsigned char out = 0;

	srandom(2);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)random() % 3000;
		char *at = buf_room(&b, n + 1);

		for (size_t j = 0; j < n; j++)
			at[j] = (char)in++;
		b.end += n;
		for (n = (size_t)random() % 3200; n > 0 && buf_len(&b) > 0; n--)
			CHECK((unsigned char)b.data[b.start++] == out++);
		CHECK(b.size <= 1 << 20);
		if (buf_len(&b) == 0)
			buf_clear(&b);
		CHECK(buf_len(&b) > 0 || b.size <= BUF_KEEP);
	}
	buf_free(&b);
}

TEST(buffer_over_limit_fails_and_keeps_bytes)
{
	struct buf b = { 0 };

	buf_add(&b, "abc", 3);
	CHECK(!buf_room(&b, BUF_MOST));
	CHECK(b.failed);
	CHECK_EQ(buf_len(&b), 3);
	buf_clear(&b);
	CHECK(!b.failed);
	buf_free(&b);
}
