/* SPDX-License-Identifier: MIT */
/*
 * Decoder of single events: varints, zigzag-coded times and texts, with all lengths checked.
 */
#ifndef TOOLS_TRACE_DECODE_H
#define TOOLS_TRACE_DECODE_H

#include "reader.h"

enum decoded { DECODED_EVENT, DECODED_END, DECODED_UNKNOWN_TYPE, DECODED_DAMAGED };

/*
 * Decodes the event at *at into e, whose tick is the event's delta added to *tick, and moves both.
 * At a result other than DECODED_EVENT neither is moved.
 */
enum decoded decode_event(const uint8_t **at, const uint8_t *end, int64_t *tick, struct event *e);

static inline uint32_t little32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t little64(const uint8_t *at)
{
	return little32(at) | (uint64_t)little32(at + 4) << 32;
}

#endif
