/* SPDX-License-Identifier: MIT */
/*
 * Escapes texts of a trace, which may be any bytes, for JSON, XML and terminals.
 */
#include <string.h>

#include "output.h"

/* Returns the length of the UTF-8 character at the start of a text, or 0 if there is none. */
static size_t character(const unsigned char *at, size_t length, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

	if (n == 0 || n > length || at[0] >= 0xf8)
		return 0;
	*code = n == 1 ? at[0] : at[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return n;
}

void put_json_text(FILE *out, const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + length;
	uint32_t code;

	putc_unlocked('"', out);
	while (at < end) {
		size_t n = character(at, (size_t)(end - at), &code);

		if (n == 0)
			fputs("\\ufffd", out);
		else if (code == '"' || code == '\\')
			fprintf(out, "\\%c", (char)code);
		else if (code < 0x20 || code == 0x7f)
			fprintf(out, "\\u%04x", (unsigned)code);
		else
			fwrite(at, 1, n, out);
		at += n ? n : 1;
	}
	putc_unlocked('"', out);
}

void put_json_string(FILE *out, const char *text)
{
	put_json_text(out, text, strlen(text));
}

static void put_xml_character(FILE *out, uint32_t code, const unsigned char *at, size_t n)
{
	if (n == 0 || (code < 0x20 && code != '\t' && code != '\n') || code == 0xfffe ||
	    code == 0xffff)
		fputs("&#xfffd;", out);
	else if (code == '<')
		fputs("&lt;", out);
	else if (code == '>')
		fputs("&gt;", out);
	else if (code == '&')
		fputs("&amp;", out);
	else if (code == '"')
		fputs("&quot;", out);
	else
		fwrite(at, 1, n, out);
}

void put_xml_text(FILE *out, const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + length;
	uint32_t code = 0;

	while (at < end) {
		size_t n = character(at, (size_t)(end - at), &code);

		put_xml_character(out, code, at, n);
		at += n ? n : 1;
	}
}

void put_plain_text(FILE *out, const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + length;
	uint32_t code;

	while (at < end) {
		size_t n = character(at, (size_t)(end - at), &code);

		if (n == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0))
			fprintf(out, "\\x%02x", *at), n = 1;
		else
			fwrite(at, 1, n, out);
		at += n;
	}
}
