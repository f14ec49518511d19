/* SPDX-License-Identifier: MIT */
/*
 * Text for a terminal: names made harmless, columns counted, numbers and durations made short.
 *
 * TEXT-1  Text of the server reaches the terminal through text_clean only. Its result has no
 *         control characters, no characters that change the direction or have no width, and if
 *         the locale is not UTF-8, only ASCII.
 */
#ifndef TOP_TEXT_H
#define TOP_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define UNKNOWN                                                                                    \
	INT64_MIN      /* a figure that the server does not give, or a rate without two samples */
#define NUMBER_SIZE 24 /* for each text_* function below that makes a number */

/* Set the locale of the environment; text is ASCII if its character set is not UTF-8. */
void text_init(void);

/*
 * Copy text of n bytes to out, of size bytes. What a terminal would not show as one or two columns
 * becomes "\xNN" (a byte that is not UTF-8) or "\uNNNN". A text that is too long is cut between
 * characters.
 */
void text_clean(char *out, size_t size, const char *text, size_t n);

/* The bytes of the longest beginning of clean text that takes at most *columns; sets *columns. */
size_t text_fit(const char *text, int *columns);

/* A count in at most 6 columns: 99999, 123k, 4.56M; "-" if it is UNKNOWN. */
void text_count(char out[NUMBER_SIZE], int64_t n);

/* A duration in at most 7 columns: 850 ns, 12.3 us, 4.56 s, 3.2 min, 12.0 h. */
void text_duration(char out[NUMBER_SIZE], int64_t ns);

/* A size: 850 B, 12.3 KiB, 4.56 MiB. */
void text_bytes(char out[NUMBER_SIZE], int64_t n);

#endif
