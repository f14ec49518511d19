/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for tools/trace: any bytes are read without a fault, in order of time and with the
 * same number of events in both passes; and all outputs are written, to /dev/null.
 */
#include "fuzz.h"

#include "output.h"

/* Begins each input that has no header, so that all inputs reach the blocks. */
static const uint8_t header[48] = "gmptrace\1\0\0\0\60\0\0";

static void read_all(struct trace *t)
{
	struct event e;
	uint64_t events = 0;
	int64_t last = 0;

	while (trace_next(t, &e)) {
		HOLDS(e.type > EVENT_NONE && e.type < EVENT_TYPES);
		HOLDS(e.ns >= last);
		last = e.ns;
		events++;
	}
	HOLDS(events == t->events);
}

static void write_all(struct trace *t, unsigned output)
{
	static FILE *null;

	if (null == NULL)
		null = fopen("/dev/null", "w");
	HOLDS(null != NULL);
	switch (output) {
	case 0: read_all(t); break;
	case 1: write_text(t, null); break;
	case 2: write_json(t, null); break;
	case 3: write_flame(t, null, true); break;
	case 4: write_summary(t, null, false); break;
	default: write_summary(t, null, true);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct trace t;
	bool has_header = size > 8 && memcmp(data, "gmptrace", 8) == 0;
	size_t skipped = has_header ? 0 : sizeof(header);
	uint8_t *bytes = malloc(skipped + size);

	if (!has_header)
		memcpy(bytes, header, sizeof(header));
	if (size > 0)
		memcpy(bytes + skipped, data, size);
	for (unsigned output = 0; output < 6; output++) {
		if (trace_open_memory(&t, bytes, skipped + size) == NULL)
			write_all(&t, output);
		trace_close(&t);
	}
	free(bytes);
	return 0;
}
