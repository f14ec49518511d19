/* SPDX-License-Identifier: MIT */
/*
 * Output "text": one event per line, in order of time; and the table of events.
 */
#include <inttypes.h>
#include <stdlib.h>
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

/* --- names of Gs, also of the Gs that start later --- */

static void forget(struct map *greens, uint64_t id)
{
	struct green_name *name = map_get(greens, id);

	if (name == NULL)
		return;
	free(name->name);
	free(name);
	map_remove(greens, id);
}

static struct green_name *remember(struct trace *t, uint64_t id)
{
	struct green_name *name = map_get(&t->greens, id);

	if (name != NULL)
		return name;
	name = new_memory(1, sizeof(*name));
	map_put(&t->greens, id, name);
	return name;
}

/* Keeps what an event says about the name of a G; before its line is written. */
static void follow_name(struct trace *t, const struct event *e)
{
	struct green_name *name;

	if (e->a == 0)
		return;
	if (e->type == EVENT_SPAWN) {
		remember(t, e->a)->entry = e->c;
	} else if (e->type == EVENT_NAME) {
		name = remember(t, e->a);
		free(name->name);
		name->name = copy_text(e->text, e->text_length);
	}
}

static bool is_green(const char *argument)
{
	return strcmp(argument, "G") == 0;
}

/* Adds the name of the G that an event is about, or its entry function, if the file has it. */
static void put_green(FILE *out, const struct trace *t, const struct event *e)
{
	const struct event_kind *kind = &event_kinds[e->type];
	uint64_t id = is_green(kind->a) ? e->a : is_green(kind->b) ? e->b : 0;
	const struct green_name *name = id != 0 ? map_get(&t->greens, id) : NULL;
	const char *text = NULL;

	if (name == NULL || e->type == EVENT_SPAWN || e->type == EVENT_GREEN ||
	    e->type == EVENT_NAME)
		return; /* the line has it anyway */
	if (name->name != NULL && name->name[0] != '\0')
		text = name->name;
	else if (name->entry != 0)
		text = map_get(&t->symbols, name->entry);
	if (text == NULL)
		return;
	fputs(" [", out);
	put_plain_text(out, text, strlen(text));
	putc_unlocked(']', out);
}

/* --- lines --- */

static void put_quoted(FILE *out, const char *text, size_t length)
{
	fputs(" \"", out);
	put_plain_text(out, text, length);
	putc_unlocked('"', out);
}

/* Adds the text of an event; that of a message is a category, a zero byte and the message. */
static void put_event_text(FILE *out, const struct event *e)
{
	const char *zero = e->type == EVENT_LOG ? memchr(e->text, '\0', e->text_length) : NULL;
	size_t category = zero != NULL ? (size_t)(zero - e->text) : 0;

	if (zero != NULL) {
		put_quoted(out, e->text, category);
		put_quoted(out, zero + 1, e->text_length - category - 1);
	} else {
		put_quoted(out, e->text, e->text_length);
	}
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

		follow_name(t, &e);
		fprintf(out, "%" PRId64 ".%03d us thread %u: %s", e.ns / 1000, (int)(e.ns % 1000),
			e.thread, kind->name);
		put_argument(out, kind->a, e.a);
		put_argument(out, kind->b, e.b);
		put_argument(out, kind->c, e.c);
		put_argument(out, kind->small, e.small);
		put_names(out, t, &e);
		put_green(out, t, &e);
		if (kind->has_text)
			put_event_text(out, &e);
		putc_unlocked('\n', out);
		if (e.type == EVENT_EXIT)
			forget(&t->greens, e.a);
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
