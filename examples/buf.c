/* SPDX-License-Identifier: MIT */
/* Byte buffer of a connection: holds unparsed input or unsent output. */
#include "buf.h"

#include <stdlib.h>

char *buf_make_room(struct buf *b, size_t n)
{
	size_t len = buf_len(b);
	size_t size = b->size ? b->size : BUF_FIRST;
	char *data;

	if (n > BUF_MOST - len) {
		b->failed = true;
		return NULL;
	}
	/* Moving pays only if it uncovers at least as much as it copies. */
	if (b->start >= len && b->size - len >= n && b->data) {
		memcpy(b->data, b->data + b->start, len);
		b->start = 0;
		b->end = len;
		return b->data + len;
	}
	while (size - b->end < n)
		size *= 2;
	data = realloc(b->data, size);
	if (!data) {
		b->failed = true;
		return NULL;
	}
	b->data = data;
	b->size = size;
	return data + b->end;
}

void buf_clear(struct buf *b)
{
	if (b->size > BUF_KEEP)
		buf_free(b);
	b->start = 0;
	b->end = 0;
	b->failed = false;
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}
