/* SPDX-License-Identifier: MIT */
/*
 * Decoder of single events: varints, zigzag-coded times and texts, with all lengths checked.
 */
#include "decode.h"

/* true if the argument has a name */
#define HAS(name) (sizeof(name) > 1)

struct event_kind event_kinds[EVENT_TYPES] = {
#define EVENT(id, name, small, a, b, c, text, help)                                                \
	[EVENT_##id] = { name, small, a, b, c, help, text, HAS(small) + HAS(a) + HAS(b) + HAS(c) },
#include "base/event.def"
#undef EVENT
};

/* Reads a varint of at most 64 bits; returns false if it is longer or not complete. */
static inline bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	const uint8_t *p = *at;
	uint64_t v = 0;

	for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
		uint8_t byte = *p++;

		if (shift == 63 && byte > 1)
			return false;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*at = p;
			*value = v;
			return true;
		}
	}
	return false;
}

static bool read_text(const uint8_t **at, const uint8_t *end, struct event *e)
{
	uint64_t length;

	if (!read_varint(at, end, &length) || length > (uint64_t)(end - *at))
		return false;
	e->text = (const char *)*at;
	e->text_length = (uint32_t)length;
	*at += length;
	return true;
}

enum decoded decode_event(const uint8_t **at, const uint8_t *end, int64_t *tick, struct event *e)
{
	const struct event_kind *kind;
	const uint8_t *p = *at;
	uint64_t delta, arguments[4] = { 0 };
	unsigned count, n = 0;

	if (p >= end)
		return DECODED_END;
	e->type = *p++;
	if (e->type == EVENT_NONE || e->type >= EVENT_TYPES)
		return DECODED_UNKNOWN_TYPE;
	kind = &event_kinds[e->type];
	count = kind->varints;
	if (!read_varint(&p, end, &delta))
		return DECODED_DAMAGED;
	for (unsigned i = 0; i < count; i++)
		if (!read_varint(&p, end, &arguments[i]))
			return DECODED_DAMAGED;
	e->small = 0;
	if (kind->small[0] != '\0') {
		if (arguments[--count] > UINT8_MAX)
			return DECODED_DAMAGED;
		e->small = (uint8_t)arguments[count];
		arguments[count] = 0;
	}
	e->a = arguments[n++];
	e->b = arguments[n++];
	e->c = arguments[n];
	e->text = "";
	e->text_length = 0;
	if (kind->has_text && !read_text(&p, end, e))
		return DECODED_DAMAGED;
	e->tick = (int64_t)((uint64_t)*tick + (delta >> 1 ^ -(delta & 1)));
	*tick = e->tick;
	*at = p;
	return DECODED_EVENT;
}
