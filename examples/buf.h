/* SPDX-License-Identifier: MIT */
/*
 * Byte buffer of a connection: holds unparsed input or unsent output.
 *
 * A buffer is one block with a window: bytes are added at `end` and consumed from `start`. It
 * allocates memory when the first byte is added. buf_clear frees a block larger than BUF_KEEP, so
 * that an idle connection does not keep the memory of its busiest moment.
 */
#ifndef EXAMPLES_BUF_H
#define EXAMPLES_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define BUF_FIRST 4096       /* size of the first block */
#define BUF_KEEP (64u << 10) /* an empty buffer keeps a block of up to this size */
#define BUF_MOST (1u << 30)  /* largest size of a buffer */

/* Valid when all zero. */
struct buf {
	char *data;
	size_t start;
	size_t end;
	size_t size;
	bool failed; /* some bytes were not added: no memory */
};

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->start;
}

/* Slow path of buf_room: fewer than n bytes are free behind `end`. */
char *buf_make_room(struct buf *b, size_t n);

/* Returns room for n more bytes. The caller writes them and adds their number to `end`. Returns
 * NULL and sets `failed` if there is no memory or the buffer would exceed BUF_MOST. */
static inline char *buf_room(struct buf *b, size_t n)
{
	if (b->size - b->end >= n && b->data)
		return b->data + b->end;
	return buf_make_room(b, n);
}

static inline void buf_add(struct buf *b, const void *bytes, size_t n)
{
	char *at = buf_room(b, n);

	if (at) {
		memcpy(at, bytes, n);
		b->end += n;
	}
}

/* Discard all bytes, and free a block larger than BUF_KEEP. */
void buf_clear(struct buf *b);

void buf_free(struct buf *b);

#endif
