/* SPDX-License-Identifier: MIT */
/*
 * Output "flame": an SVG of the time of all Gs, as frames on one another.
 *
 * root -> entry function [-> name of the G] -> state -> reason or cause -> entry function of the
 * waker. The width of a frame is its time. The whole text of a frame is its title, which viewers
 * show as a tooltip. Frames narrower than MIN_WIDTH are not drawn.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

enum { WIDTH = 1200, ROW = 18, MARGIN = 10, TOP = 46, LETTER = 7, DEEPEST = 7 };

#define MIN_WIDTH 0.1

struct frame {
	struct frame *first, *next;
	const struct text *name;
	int64_t ns;
	size_t children;
	enum state state; /* decides the colour */
};

struct flame {
	struct model model;
	struct texts names;
	struct map frames; /* hash of parent and name -> frame */
	struct frame root;
	bool per_green;
	unsigned depth;
};

/* Returns the frame of a name on a parent. */
static struct frame *child(struct flame *f, struct frame *parent, const char *name,
			   enum state state)
{
	const struct text *text = intern(&f->names, name, strlen(name));
	uint64_t key = ((uint64_t)(uintptr_t)parent >> 4 << 24) ^ text->index ^
		       (uint64_t)text->index << 44;
	struct frame *c = map_get(&f->frames, key);

	if (c != NULL && c->name == text && c->state == state)
		return c;
	if (c != NULL) /* the key is another frame's, too */
		for (c = parent->first; c != NULL; c = c->next)
			if (c->name == text && c->state == state)
				return c;
	c = new_memory(1, sizeof(*c));
	c->name = text;
	c->state = state;
	c->next = parent->first;
	parent->first = c;
	parent->children++;
	if (map_get(&f->frames, key) == NULL)
		map_put(&f->frames, key, c);
	return c;
}

static struct frame *green_frame(struct flame *f, struct frame *parent, const struct green *g)
{
	char name[300];

	if (g->name != NULL && g->name[0] != '\0')
		snprintf(name, sizeof(name), "%.250s", g->name);
	else
		snprintf(name, sizeof(name), "G %" PRIu64, g->id);
	return child(f, parent, name, STATE_UNKNOWN);
}

static void on_span(void *user, const struct span *s)
{
	struct flame *f = user;
	const struct green *g = s->g;
	const struct wake *w = &g->wake;
	struct frame *path[DEEPEST];
	unsigned n = 0;

	path[n++] = &f->root;
	path[n] = child(f, path[n - 1], g->entry->name, STATE_UNKNOWN), n++;
	if (f->per_green)
		path[n] = green_frame(f, path[n - 1], g), n++;
	path[n] = child(f, path[n - 1], state_names[s->state], s->state), n++;
	if (s->state == STATE_WAITING) {
		const char *waker = s->is_open    ? "not yet woken"
				    : w->by_entry ? w->by_entry->name
						  : f->model.causes[w->cause];

		path[n] = child(f, path[n - 1], f->model.reasons[g->reason], s->state), n++;
		path[n] = child(f, path[n - 1], waker, s->state), n++;
	} else if (s->state == STATE_RUNNABLE) {
		path[n] = child(f, path[n - 1], f->model.causes[w->cause], s->state), n++;
		if (w->by_entry != NULL)
			path[n] = child(f, path[n - 1], w->by_entry->name, s->state), n++;
	}
	for (unsigned i = 0; i < n; i++)
		add_ns(&path[i]->ns, s->end - s->begin);
	if (n > f->depth)
		f->depth = n;
}

static const char *colour_of(enum state state)
{
	switch (state) {
	case STATE_RUNNING: return "#7cc47c";
	case STATE_RUNNABLE: return "#f2c14e";
	case STATE_WAITING: return "#8fb3e0";
	case STATE_BLOCKING: return "#d98f8f";
	default: return "#cccccc";
	}
}

static int compare_frames(const void *a, const void *b)
{
	const struct frame *x = *(struct frame *const *)a, *y = *(struct frame *const *)b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return strcmp(x->name->at, y->name->at);
}

static void put_frame(const struct flame *f, FILE *out, const struct frame *frame, double x,
		      double width, unsigned level)
{
	const char *name = frame->name->at;
	unsigned y = TOP + (f->depth - 1 - level) * ROW;
	size_t room = (size_t)(width / LETTER), length = frame->name->length;

	fputs("<g><title>", out);
	put_xml_text(out, name, length);
	fprintf(out, ": %.3f ms, %.2f %%</title>", (double)frame->ns / 1e6,
		100.0 * (double)frame->ns / (double)f->root.ns);
	fprintf(out,
		"<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"%s\" rx=\"1\"/>", x,
		y, width, ROW - 1, colour_of(frame->state));
	if (room >= 3) {
		fprintf(out, "<text x=\"%.2f\" y=\"%u\">", x + 3, y + ROW - 5);
		put_xml_text(out, name, length <= room ? length : room - 2);
		fputs(length <= room ? "</text>" : "..</text>", out);
	}
	fputs("</g>\n", out);
}

static void put_frames(const struct flame *f, FILE *out, const struct frame *frame, double x,
		       unsigned level)
{
	double scale = (double)(WIDTH - 2 * MARGIN) / (double)f->root.ns;
	struct frame **sorted;
	size_t n = 0;

	if ((double)frame->ns * scale < MIN_WIDTH)
		return;
	put_frame(f, out, frame, x, (double)frame->ns * scale, level);
	if (frame->children == 0)
		return;
	sorted = new_memory(frame->children, sizeof(struct frame *));
	for (struct frame *c = frame->first; c != NULL; c = c->next)
		sorted[n++] = c;
	qsort(sorted, n, sizeof(*sorted), compare_frames);
	for (size_t i = 0; i < n; i++) {
		put_frames(f, out, sorted[i], x, level + 1);
		x += (double)sorted[i]->ns * scale;
	}
	free(sorted);
}

static void put_svg(const struct flame *f, FILE *out)
{
	unsigned height = TOP + f->depth * ROW + MARGIN;

	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"viewBox=\"0 0 %d %u\" font-family=\"monospace\" font-size=\"12\">\n",
		WIDTH, height, WIDTH, height);
	fputs("<style>text { pointer-events: none; } rect:hover { stroke: #000; }</style>\n", out);
	fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", out);
	fprintf(out,
		"<text x=\"%d\" y=\"24\" font-size=\"15\">time of all green threads of process "
		"%" PRIu64 ": green running, yellow runnable, blue waiting, red blocking</text>\n",
		MARGIN, f->model.trace->pid);
	if (f->root.ns > 0)
		put_frames(f, out, &f->root, MARGIN, 0);
	fputs("</svg>\n", out);
}

static void free_children(struct frame *frame)
{
	struct frame *c = frame->first;

	while (c != NULL) {
		struct frame *next = c->next;

		free_children(c);
		free(c);
		c = next;
	}
}

void write_flame(struct trace *t, FILE *out, bool per_green)
{
	struct flame *f = new_memory(1, sizeof(*f));
	const struct sink sink = { .user = f, .span = on_span };

	f->per_green = per_green;
	f->root.name = intern(&f->names, "all", 3);
	model_run(&f->model, t, &sink);
	put_svg(f, out);
	free_children(&f->root);
	map_free(&f->frames);
	texts_free(&f->names);
	model_free(&f->model);
	free(f);
}
