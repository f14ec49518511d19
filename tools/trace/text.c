/* SPDX-License-Identifier: MIT */
/*
 * Output "text": one event per line, in order of time; and the table of events.
 */
#include <inttypes.h>
#include <string.h>

#include "output.h"

static void put_argument(FILE *out, const char *name, uint64_t value)
{
	if (name[0] == '\0')
		return;
	putc_unlocked(' ', out);
	for (; *name != '\0'; name++)
		putc_unlocked(*name == ' ' ? '_' : *name, out);
	if (value > UINT32_MAX)
		fprintf(out, "=0x%" PRIx64, value);
	else
		fprintf(out, "=%" PRIu64, value);
}

/* Adds what the labels and symbols of the file say about the arguments. */
static void put_names(FILE *out, const struct trace *t, const struct event *e)
{
	char buf[32], more[32];
	const char *symbol = NULL;

	switch (e->type) {
	case EVENT_SPAWN:
		fprintf(out, " (%s)", trace_label(t, LABEL_QUEUE, e->small, buf));
		symbol = map_get(&t->symbols, e->c);
		break;
	case EVENT_GREEN:
		fprintf(out, " (%s)", trace_label(t, LABEL_STATE, e->small, buf));
		symbol = map_get(&t->symbols, e->b);
		break;
	case EVENT_PARK: fprintf(out, " (%s)", trace_label(t, LABEL_REASON, e->small, buf)); break;
	case EVENT_READY:
		fprintf(out, " (%s, %s)", trace_label(t, LABEL_QUEUE, e->small & 15, buf),
			trace_label(t, LABEL_CAUSE, e->small >> 4, more));
		break;
	case EVENT_P_STATE:
		fprintf(out, " (%s)", trace_label(t, LABEL_STATUS, e->small, buf));
		break;
	case EVENT_THREAD: fprintf(out, " (%s)", trace_label(t, LABEL_KIND, e->small, buf)); break;
	default: break;
	}
	if (symbol != NULL) {
		putc_unlocked(' ', out);
		put_plain_text(out, symbol, strlen(symbol));
	}
}

void write_text(struct trace *t, FILE *out)
{
	struct event e;

	while (trace_next(t, &e)) {
		const struct event_kind *kind = &event_kinds[e.type];

		fprintf(out, "%" PRId64 ".%03d us thread %u: %s", e.ns / 1000, (int)(e.ns % 1000),
			e.thread, kind->name);
		put_argument(out, kind->a, e.a);
		put_argument(out, kind->b, e.b);
		put_argument(out, kind->c, e.c);
		put_argument(out, kind->small, e.small);
		put_names(out, t, &e);
		if (kind->has_text) {
			fputs(" \"", out);
			put_plain_text(out, e.text, e.text_length);
			putc_unlocked('"', out);
		}
		putc_unlocked('\n', out);
	}
}

void write_event_table(FILE *out)
{
	fprintf(out, "%3s  %-9s %-45s %s\n", "no.", "event", "arguments", "meaning");
	for (unsigned i = 1; i < EVENT_TYPES; i++) {
		const struct event_kind *kind = &event_kinds[i];
		const char *names[] = { kind->a, kind->b, kind->c, kind->small,
					kind->has_text ? "text" : "" };
		char list[128] = "";
		size_t n = 0;

		for (unsigned k = 0; k < 5; k++)
			if (names[k][0] != '\0' && n < sizeof(list))
				n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s",
						      n ? ", " : "", names[k]);
		fprintf(out, "%3u  %-9s %-45s %s\n", i, kind->name, list, kind->help);
	}
}
