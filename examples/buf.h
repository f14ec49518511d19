/* SPDX-License-Identifier: MIT */
/*
 * Byte buffer of a connection: input that is not parsed yet, or output that is not sent yet.
 *
 * It is one block with a window: bytes are added at `end` and used up from `start`. An empty buffer
 * owns no memory until it is first used, and gives a large block back once it is empty again, so
 * that a connection that was busy once costs no more than a new connection.
 */
#ifndef EXAMPLES_BUF_H
#define EXAMPLES_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define BUF_FIRST 4096       /* size of the first block */
#define BUF_KEEP (64u << 10) /* an empty buffer keeps a block of up to this size */
#define BUF_MOST (1u << 30)  /* no buffer grows over this */

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

/* The way of buf_room when there is not enough behind `end`. */
char *buf_make_room(struct buf *b, size_t n);

/* Room for n more bytes, which the caller writes and then counts by raising `end`; NULL, and
 * `failed` is set, when there is no memory or the buffer would get too large. */
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

/* Forget what is in it, and give a large block back. */
void buf_clear(struct buf *b);

void buf_free(struct buf *b);

#endif
