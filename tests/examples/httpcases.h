/* SPDX-License-Identifier: MIT */
/*
 * Table of request smuggling cases: streams that recipients are known to frame differently.
 *
 * The cases are the published families (RFC 9112 section 11.2; CL.TE, TE.CL, TE.TE, CL.0, chunk and
 * line terminator variants). Each contains HTTP_SMUGGLED, a request that no recipient may answer or
 * forward.
 */
#ifndef TESTS_EXAMPLES_HTTPCASES_H
#define TESTS_EXAMPLES_HTTPCASES_H

#include <stddef.h>

#define HTTP_SMUGGLED "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

struct http_case {
	const char *name;
	const char *bytes;
	size_t n;
	int status; /* of the only answer */
};

#define P "POST / HTTP/1.1\r\nHost: x\r\n"
#define G "GET / HTTP/1.1\r\nHost: x\r\n"
#define C P "Transfer-Encoding: chunked\r\n\r\n"
#define E "\r\n" HTTP_SMUGGLED
#define CASE(name, text, status)                                                                   \
	{                                                                                          \
		name, text, sizeof(text) - 1, status                                               \
	}

static const struct http_case http_cases[] = {
	/* Content-Length and Transfer-Encoding. */
	CASE("cl_te", P "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" E, 400),
	CASE("te_cl", P "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n" E, 400),
	CASE("te_te_second_unknown", P "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n" E,
	     400),
	CASE("te_te_first_unknown", P "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n" E,
	     501),
	CASE("te_twice", P "Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n" E, 400),
	CASE("te_identity", P "Transfer-Encoding: identity\r\n" E, 501),
	CASE("te_xchunked", P "Transfer-Encoding: xchunked\r\n" E, 501),
	CASE("te_list", P "Transfer-Encoding: gzip, chunked\r\n" E, 400),
	CASE("te_not_final", P "Transfer-Encoding: chunked, identity\r\n" E, 400),
	CASE("te_quoted", P "Transfer-Encoding: \"chunked\"\r\n" E, 400),
	CASE("te_parameter", P "Transfer-Encoding: chunked;a=b\r\n" E, 400),
	CASE("te_comma", P "Transfer-Encoding: chunked,\r\n" E, 400),
	CASE("te_empty", P "Transfer-Encoding:\r\n" E, 400),
	CASE("te_vertical_tab", P "Transfer-Encoding: \vchunked\r\n" E, 400),
	CASE("te_form_feed", P "Transfer-Encoding: chunked\f\r\n" E, 400),
	CASE("te_obs_text",
	     P "Transfer-Encoding: \xa0"
	       "chunked\r\n" E,
	     400),
	CASE("te_folded", P "Transfer-Encoding:\r\n chunked\r\n" E, 400),
	CASE("te_space_before_colon", P "Transfer-Encoding : chunked\r\n" E, 400),
	CASE("te_tab_before_colon", P "Transfer-Encoding\t: chunked\r\n" E, 400),
	CASE("te_behind_space", P " Transfer-Encoding: chunked\r\n" E, 400),
	CASE("te_behind_bare_cr", P "X: y\rTransfer-Encoding: chunked\r\n" E, 400),
	CASE("te_behind_bare_lf", P "X: y\nTransfer-Encoding: chunked\r\n" E, 400),
	CASE("te_http_1_0",
	     "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" E, 400),
	/* Content-Length. */
	CASE("cl_0_get", G "Content-Length: 37\r\n\r\n" HTTP_SMUGGLED, 400),
	CASE("cl_0_head", "HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 37\r\n" E, 400),
	CASE("te_0_get", G "Transfer-Encoding: chunked\r\n\r\n0\r\n" E, 400),
	CASE("cl_twice", P "Content-Length: 0\r\nContent-Length: 37\r\n" E, 400),
	CASE("cl_twice_same", P "Content-Length: 0\r\nContent-Length: 0\r\n" E, 400),
	CASE("cl_list", P "Content-Length: 0, 37\r\n" E, 400),
	CASE("cl_list_same", P "Content-Length: 0, 0\r\n" E, 400),
	CASE("cl_plus", P "Content-Length: +0\r\n" E, 400),
	CASE("cl_minus", P "Content-Length: -0\r\n" E, 400),
	CASE("cl_space", P "Content-Length: 0 0\r\n" E, 400),
	CASE("cl_hexadecimal", P "Content-Length: 0x0\r\n" E, 400),
	CASE("cl_underscore", P "Content-Length: 0_0\r\n" E, 400),
	CASE("cl_fraction", P "Content-Length: 0.0\r\n" E, 400),
	CASE("cl_exponent", P "Content-Length: 0e1\r\n" E, 400),
	CASE("cl_empty", P "Content-Length:\r\n" E, 400),
	CASE("cl_overflow", P "Content-Length: 18446744073709551616\r\n" E, 400),
	CASE("cl_space_before_colon", P "Content-Length : 0\r\n" E, 400),
	CASE("cl_nul", P "Content-Length: 0\0\r\n" E, 400),
	/* Chunks. */
	CASE("chunk_0x", C "0x0\r\n" E, 400),
	CASE("chunk_underscore", C "0_0\r\n" E, 400),
	CASE("chunk_plus", C "+0\r\n" E, 400),
	CASE("chunk_minus", C "-0\r\n" E, 400),
	CASE("chunk_space_before", C " 0\r\n" E, 400),
	CASE("chunk_space_behind", C "0 \r\n" E, 400),
	CASE("chunk_empty_size", C E, 400),
	CASE("chunk_overflow", C "10000000000000000\r\n" E, 400),
	CASE("chunk_overflow_32", C "0000000100000000\r\n" E, 400),
	CASE("chunk_extension", C "0;a=b\r\n" E, 400),
	CASE("chunk_extension_lf", C "0;\n" E, 400),
	CASE("chunk_extension_cr", C "0;a\rb\r\n" E, 400),
	CASE("chunk_size_bare_lf", C "1\nZ\r\n0\r\n" E, 400),
	CASE("chunk_size_bare_cr", C "1\rZ\r\n0\r\n" E, 400),
	CASE("chunk_data_without_crlf", C "1\r\nZ0\r\n" E, 400),
	CASE("chunk_data_two_bytes", C "1\r\nZab0\r\n" E, 400),
	CASE("chunk_data_bare_lf", C "1\r\nZ\n0\r\n" E, 400),
	CASE("chunk_data_bare_cr", C "1\r\nZ\r0\r\n" E, 400),
	CASE("chunk_data_too_long", C "1\r\nZZ\r\n0\r\n" E, 400),
	CASE("last_chunk_bare_lf", C "0\n\n" HTTP_SMUGGLED, 400),
	/* Trailers. */
	CASE("trailer_content_length", C "0\r\nContent-Length: 37\r\n" E, 400),
	CASE("trailer_transfer_encoding", C "0\r\nTransfer-Encoding: chunked\r\n" E, 400),
	CASE("trailer_host", C "0\r\nHost: y\r\n" E, 400),
	CASE("trailer_bare_lf", C "0\r\nX: y\n\r\n" HTTP_SMUGGLED, 400),
	CASE("trailer_without_colon", C "0\r\nX" E, 400),
	CASE("trailer_folded", C "0\r\nX: y\r\n z\r\n" E, 400),
	/* Lines and fields. */
	CASE("bare_lf", "GET / HTTP/1.1\nHost: x\n\n" HTTP_SMUGGLED, 400),
	CASE("bare_cr", "GET / HTTP/1.1\rHost: x\r\n" E, 400),
	CASE("bare_lf_ends_head", G "X: y\r\n\n" HTTP_SMUGGLED, 400),
	CASE("cr_cr_lf", G "X: y\r\r\n" E, 400),
	CASE("nul_in_value", G "X: a\0b\r\n" E, 400),
	CASE("nul_in_name", G "X\0Y: a\r\n" E, 400),
	CASE("delete_in_value",
	     G "X: a\x7f"
	       "b\r\n" E,
	     400),
	CASE("folded", G "X: a\r\n b\r\n" E, 400),
	CASE("folded_first", "GET / HTTP/1.1\r\n X: a\r\nHost: x\r\n" E, 400),
	CASE("name_space", G "X Y: a\r\n" E, 400),
	CASE("name_empty", G ": a\r\n" E, 400),
	CASE("name_no_colon", G "X\r\n" E, 400),
	CASE("name_parenthesis", G "X(: a\r\n" E, 400),
	CASE("name_slash", G "X/Y: a\r\n" E, 400),
	CASE("name_obs_text", G "X\xc3\xa9: a\r\n" E, 400),
	CASE("two_empty_lines", "\r\n\r\n" HTTP_SMUGGLED, 400),
	/* Start line, Host and Expect. */
	CASE("http_0_9", "GET /\r\n" HTTP_SMUGGLED, 400),
	CASE("http_0_9_named", "GET / HTTP/0.9\r\n" E, 505),
	CASE("http_1_2", "GET / HTTP/1.2\r\nHost: x\r\n" E, 505),
	CASE("http_1_1_digits", "GET / HTTP/1.10\r\nHost: x\r\n" E, 400),
	CASE("http_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n" E, 505),
	CASE("version_lower_case", "GET / http/1.1\r\nHost: x\r\n" E, 400),
	CASE("two_spaces", "GET  / HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("tab_for_space", "GET\t/ HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("space_in_target", "GET /a b HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("fragment", "GET /#a HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("backslash", "GET /\\a HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("method_not_token", "GE(T / HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("absolute_other_host", "GET http://y/ HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("absolute_user", "GET http://y@x/ HTTP/1.1\r\nHost: x\r\n" E, 400),
	CASE("no_host", "GET / HTTP/1.1\r\n" E, 400),
	CASE("host_twice", G "Host: x\r\n" E, 400),
	CASE("host_list", "GET / HTTP/1.1\r\nHost: x, y\r\n" E, 400),
	CASE("host_path", "GET / HTTP/1.1\r\nHost: x/y\r\n" E, 400),
	CASE("host_user", "GET / HTTP/1.1\r\nHost: y@x\r\n" E, 400),
	CASE("expect_obfuscated", P "Expect: y 100-continue\r\nContent-Length: 37\r\n" E, 417),
};
#undef P
#undef G
#undef C
#undef E
#undef CASE
#define HTTP_CASES (sizeof(http_cases) / sizeof(http_cases[0]))

#endif
