/* SPDX-License-Identifier: MIT */
/*
 * Text for a terminal: makes names harmless, counts columns, and shortens numbers (text.h).
 */
#include "text.h"

#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static bool utf8;

void text_init(void)
{
	setlocale(LC_CTYPE, "");
	utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Decode the character at s, of n > 0 bytes. Returns its bytes, or 0 if they are not UTF-8. */
static size_t decode(const unsigned char *s, size_t n, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (length == 0 || length > n || s[0] > 0xf4)
		return 0;
	*c = length == 1 ? s[0] : s[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	if (*c < least[length] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
		return 0;
	return length;
}

/* Characters of the range 200b..206f and some others control the direction and have no shape. */
static bool is_format(uint32_t c)
{
	return c == 0xad || c == 0x61c || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff0 && c <= 0xfffb);
}

static bool is_shown(uint32_t c)
{
	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	return utf8 && !is_format(c) && wcwidth((wchar_t)c) > 0;
}

void text_clean(char *out, size_t size, const char *text, size_t n)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t used = 0;

	for (size_t i = 0; i < n;) {
		char escape[12];
		uint32_t c = 0;
		size_t length = decode(s + i, n - i, &c);
		const char *from = escape;
		size_t bytes;

		if (length > 0 && is_shown(c)) {
			from = text + i;
			bytes = length;
		} else if (length > 0) {
			bytes = (size_t)snprintf(escape, sizeof(escape), "\\u%04x", c);
		} else {
			bytes = (size_t)snprintf(escape, sizeof(escape), "\\x%02x", s[i]);
		}
		if (used + bytes >= size)
			break;
		memcpy(out + used, from, bytes);
		used += bytes;
		i += length > 0 ? length : 1;
	}
	out[used] = '\0';
}

size_t text_fit(const char *text, int *columns)
{
	size_t n = strlen(text);
	size_t i = 0;
	int used = 0;

	while (i < n) {
		uint32_t c = 0;
		size_t length = decode((const unsigned char *)text + i, n - i, &c);
		int width = c < 0x80 ? 1 : wcwidth((wchar_t)c);

		if (length == 0 || width < 0 || used + width > *columns)
			break;
		used += width;
		i += length;
	}
	*columns = used;
	return i;
}

/* value in three digits with a unit, e.g. "12.3" and "k". */
static void three_digits(char out[NUMBER_SIZE], double value, const char *unit)
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	snprintf(out, NUMBER_SIZE, "%.*f%s", decimals, value, unit);
}

void text_count(char out[NUMBER_SIZE], int64_t n)
{
	static const char *const units[] = { "k", "M", "G", "T", "P", "E" };
	double value = (double)n / 1e3;
	int k = 0;

	if (n < 0) {
		strcpy(out, "-");
		return;
	}
	if (n < 100000) {
		snprintf(out, NUMBER_SIZE, "%d", (int)n);
		return;
	}
	for (; value >= 999.5; k++)
		value /= 1e3;
	three_digits(out, value, units[k]);
}

void text_duration(char out[NUMBER_SIZE], int64_t ns)
{
	if (ns < 0)
		strcpy(out, "-");
	else if (ns < 1000)
		snprintf(out, NUMBER_SIZE, "%d ns", (int)ns);
	else if ((double)ns < 999.5e3)
		three_digits(out, (double)ns / 1e3, " us");
	else if ((double)ns < 999.5e6)
		three_digits(out, (double)ns / 1e6, " ms");
	else if ((double)ns < 99.95e9)
		three_digits(out, (double)ns / 1e9, " s");
	else if ((double)ns < 5940e9)
		snprintf(out, NUMBER_SIZE, "%.1f min", (double)ns / 60e9);
	else
		snprintf(out, NUMBER_SIZE, "%.1f h", (double)ns / 3600e9);
}

void text_bytes(char out[NUMBER_SIZE], int64_t n)
{
	static const char *const units[] = { " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	double value = (double)n / 1024;
	int k = 0;

	if (n < 1024) {
		snprintf(out, NUMBER_SIZE, n < 0 ? "-" : "%d B", (int)n);
		return;
	}
	for (; value >= 999.5; k++)
		value /= 1024;
	three_digits(out, value, units[k]);
}
