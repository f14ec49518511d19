/* SPDX-License-Identifier: MIT */
/*
 * Reader of trace files: maps a file, indexes its blocks, and yields all events in order of time.
 */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "decode.h"

enum { HEADER_LENGTH = 48, BLOCK_HEADER = 16, VERSION = 1 };

static struct source *source_of(struct trace *t, uint32_t thread)
{
	struct source *s;
	uintptr_t index = (uintptr_t)map_get(&t->source_of, thread);

	if (index != 0)
		return &t->sources[index - 1];
	ROOM_FOR_ONE(t->sources, t->source_count, t->source_capacity);
	s = &t->sources[t->source_count++];
	s->thread = thread;
	map_put(&t->source_of, thread, (void *)t->source_count);
	return s;
}

static void keep_text(char **place, const struct event *e)
{
	free(*place);
	*place = copy_text(e->text, e->text_length);
}

static void keep_symbol(struct trace *t, const struct event *e)
{
	if (map_get(&t->symbols, e->a) == NULL)
		map_put(&t->symbols, e->a, copy_text(e->text, e->text_length));
}

static void keep_thread(struct trace *t, const struct event *e)
{
	struct thread_name *name = map_get(&t->threads, e->thread);

	if (name == NULL) {
		name = new_memory(1, sizeof(*name));
		map_put(&t->threads, e->thread, name);
	}
	*name = (struct thread_name){ .tid = e->a, .m = e->b, .kind = e->small };
}

static void keep_green(struct trace *t, const struct event *e)
{
	struct green_name *name;

	if (e->a == 0 || map_get(&t->greens, e->a) != NULL)
		return;
	name = new_memory(1, sizeof(*name));
	name->entry = e->b;
	if (e->text_length > 0)
		name->name = copy_text(e->text, e->text_length);
	map_put(&t->greens, e->a, name);
}

static void keep_stop(struct trace *t, const struct event *e)
{
	if (t->has_stop) {
		t->warnings.count[WARN_STOPS]++;
		return;
	}
	t->has_stop = true;
	t->file_lost = e->b;
	t->stop_count = e->a;
	t->stop_tick = e->tick;
}

/* Keeps what the first pass collects. */
static void collect(struct trace *t, const struct event *e)
{
	t->events++;
	switch (e->type) {
	case EVENT_LABEL:
		if (e->small < LABEL_TABLES && e->a < LABEL_CODES)
			keep_text(&t->labels[e->small][e->a], e);
		break;
	case EVENT_SYMBOL: keep_symbol(t, e); break;
	case EVENT_THREAD: keep_thread(t, e); break;
	case EVENT_GREEN: keep_green(t, e); break;
	case EVENT_CLOCK: clock_add(t, e->tick, (int64_t)(e->a - t->start_clock)); break;
	case EVENT_LOST: t->lost += e->a; break;
	case EVENT_STOP: keep_stop(t, e); break;
	default: break;
	}
}

/*
 * Reads a block once, and enters what can be read of it into the index. Of a block that the end of
 * the file cuts, the last event may be cut, which is no damage.
 */
static void index_block(struct trace *t, uint32_t thread, int64_t tick, const uint8_t *at,
			const uint8_t *end, bool is_cut)
{
	struct block block = { .at = at, .tick = tick };
	struct event e = { .thread = thread };
	enum decoded result;
	struct source *s;

	while ((result = decode_event(&at, end, &tick, &e)) == DECODED_EVENT)
		collect(t, &e);
	t->warnings.count[WARN_UNKNOWN_TYPE] += result == DECODED_UNKNOWN_TYPE;
	t->warnings.count[WARN_DAMAGED] += result == DECODED_DAMAGED && !is_cut;
	block.end = at;
	if (block.end == block.at)
		return;
	s = source_of(t, thread);
	ROOM_FOR_ONE(s->blocks, s->count, s->capacity);
	s->blocks[s->count++] = block;
}

static void index_blocks(struct trace *t, const uint8_t *at)
{
	const uint8_t *end = t->data + t->size;

	while (end - at >= BLOCK_HEADER) {
		uint32_t length = little32(at), thread = little32(at + 4);
		int64_t tick = (int64_t)(little64(at + 8) - t->start_ticks);

		bool is_cut = length > end - at - BLOCK_HEADER;

		at += BLOCK_HEADER;
		if (is_cut) {
			t->warnings.count[WARN_TRUNCATED] = 1;
			length = (uint32_t)(end - at);
		}
		t->warnings.count[WARN_DAMAGED] += length == 0 && !is_cut;
		index_block(t, thread, tick, at, at + length, is_cut);
		at += length;
	}
	if (at != end)
		t->warnings.count[WARN_TRUNCATED] = 1;
}

/* Returns true if the next event of a precedes that of b. */
static bool is_before(const struct source *a, const struct source *b)
{
	if (a->event.tick != b->event.tick)
		return a->event.tick < b->event.tick;
	return a->thread < b->thread;
}

static void sift_down(struct trace *t, size_t i)
{
	struct source *moved = t->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= t->heap_count)
			break;
		if (child + 1 < t->heap_count && is_before(t->heap[child + 1], t->heap[child]))
			child++;
		if (!is_before(t->heap[child], moved))
			break;
		t->heap[i] = t->heap[child];
		i = child;
	}
	t->heap[i] = moved;
}

/* Moves the time of an event into the trace. */
static void check_bounds(struct trace *t, struct event *e)
{
	int64_t most = INT64_MAX / 2, end = most;

	if (t->has_stop && t->stop_tick >= 0 && t->stop_tick < most)
		end = t->stop_tick;
	if (e->tick < -t->slack || e->tick > end + t->slack) {
		t->warnings.count[WARN_OUTSIDE]++;
		e->tick = e->tick < 0 ? 0 : end;
	}
}

/* Decodes the next event of a thread; returns false if there is none. */
static bool advance(struct trace *t, struct source *s)
{
	while (s->at == s->end) {
		if (s->next == s->count)
			return false;
		s->at = s->blocks[s->next].at;
		s->end = s->blocks[s->next].end;
		s->tick = s->blocks[s->next].tick;
		s->next++;
	}
	if (decode_event(&s->at, s->end, &s->tick, &s->event) != DECODED_EVENT)
		return false; /* the first pass has read it; so the file has changed since */
	check_bounds(t, &s->event);
	if (s->event.tick < s->latest) { /* the order within a thread is that of the file */
		t->warnings
			.count[s->latest - s->event.tick > t->slack ? WARN_JUMP : WARN_BACKWARD]++;
		s->event.tick = s->latest;
	}
	s->latest = s->event.tick;
	return true;
}

static void begin_merge(struct trace *t)
{
	t->heap = new_memory(t->source_count, sizeof(struct source *));
	for (size_t i = 0; i < t->source_count; i++) {
		struct source *s = &t->sources[i];

		s->event.thread = s->thread;
		s->latest = INT64_MIN;
		if (advance(t, s))
			t->heap[t->heap_count++] = s;
	}
	for (size_t i = t->heap_count / 2; i-- > 0;)
		sift_down(t, i);
}

bool trace_next(struct trace *t, struct event *e)
{
	struct source *s;

	if (t->heap_count == 0)
		return false;
	s = t->heap[0];
	*e = s->event;
	e->ns = clock_ns(t, e->tick);
	if (!advance(t, s))
		t->heap[0] = t->heap[--t->heap_count];
	if (t->heap_count > 0)
		sift_down(t, 0);
	return true;
}

const char *trace_open_memory(struct trace *t, const void *data, size_t size)
{
	uint32_t header;

	*t = (struct trace){ .data = data, .size = size };
	if (size < HEADER_LENGTH || memcmp(data, "gmptrace", 8) != 0)
		return "this is no trace file of gmp: the header is missing";
	if (little32(t->data + 8) != VERSION)
		return "the version of the format is not 1; use the gmp-trace of the same gmp";
	header = little32(t->data + 12);
	if (header < HEADER_LENGTH || header > size)
		return "the length of the header is wrong: the file is damaged";
	t->start_ticks = little64(t->data + 16);
	t->start_clock = little64(t->data + 24);
	t->start_real = little64(t->data + 32);
	t->pid = little64(t->data + 40);
	index_blocks(t, t->data + header);
	if (t->events == 0)
		return "the file has no events that can be read";
	t->warnings.count[WARN_NO_STOP] = !t->has_stop;
	t->warnings.count[WARN_MISCOUNT] =
		t->has_stop && !t->warnings.count[WARN_TRUNCATED] && t->stop_count != t->events - 1;
	t->warnings.count[WARN_LOST] = t->lost > t->file_lost ? t->lost : t->file_lost;
	clock_finish(t);
	t->slack = clock_ticks_per_ms(t);
	begin_merge(t);
	return NULL;
}

bool trace_is_complete(const struct trace *t)
{
	return t->has_stop && t->warnings.count[WARN_TRUNCATED] == 0 && !is_damaged(&t->warnings);
}

/* Returns "what: reason" for the errno of the last call, in memory that the next call uses. */
static const char *failure(const char *what)
{
	static char message[200];

	snprintf(message, sizeof(message), "%s: %s", what, strerror(errno));
	return message;
}

/*
 * Copies what is no file, like a pipe, to a file without a name, so that memory stays bounded.
 * Returns NULL and the descriptor of the copy, or what failed.
 */
static const char *spool(int from, int *copy)
{
	const char *no_copy = "cannot be copied to a temporary file", *error = NULL;
	FILE *file = tmpfile();
	char bytes[65536];
	ssize_t n;

	if (file == NULL)
		return failure(no_copy);
	while ((n = read(from, bytes, sizeof(bytes))) > 0 && error == NULL)
		if (fwrite(bytes, 1, (size_t)n, file) != (size_t)n)
			error = failure(no_copy);
	if (error == NULL && n < 0)
		error = failure("cannot be read");
	if (error == NULL && (fflush(file) != 0 || (*copy = dup(fileno(file))) < 0))
		error = failure(no_copy);
	fclose(file);
	return error;
}

/* Opens a file that can be mapped. Returns NULL and its descriptor, or what failed. */
static const char *open_file(const char *path, int *fd)
{
	bool is_input = strcmp(path, "-") == 0;
	int from = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	const char *error;
	struct stat st;

	if (from < 0)
		return failure("cannot be read");
	*fd = from;
	if (fstat(from, &st) != 0)
		error = failure("cannot be read");
	else if (S_ISREG(st.st_mode))
		return NULL;
	else
		error = spool(from, fd);
	if (!is_input)
		close(from);
	return error;
}

const char *trace_open(struct trace *t, const char *path)
{
	const char *error;
	struct stat st;
	void *data = MAP_FAILED;
	int fd;

	*t = (struct trace){ 0 };
	error = open_file(path, &fd);
	if (error != NULL)
		return error;
	if (fstat(fd, &st) != 0)
		error = failure("cannot be read");
	else if (st.st_size == 0)
		error = "the file is empty";
	else
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (error == NULL && data == MAP_FAILED)
		error = failure("cannot be mapped into memory");
	close(fd);
	if (error != NULL)
		return error;
	error = trace_open_memory(t, data, (size_t)st.st_size);
	t->is_mapped = true;
	return error;
}

static void free_values(struct map *m)
{
	for (size_t i = 0; i < m->size; i++)
		free(m->slots[i].value);
	map_free(m);
}

void trace_close(struct trace *t)
{
	for (size_t i = 0; i < t->source_count; i++)
		free(t->sources[i].blocks);
	for (unsigned i = 0; i < LABEL_TABLES; i++)
		for (unsigned k = 0; k < LABEL_CODES; k++)
			free(t->labels[i][k]);
	for (size_t i = 0; i < t->greens.size; i++)
		if (t->greens.slots[i].value != NULL)
			free(((struct green_name *)t->greens.slots[i].value)->name);
	free(t->sources);
	free(t->heap);
	free(t->clock);
	map_free(&t->source_of);
	free_values(&t->symbols);
	free_values(&t->threads);
	free_values(&t->greens);
	if (t->is_mapped)
		munmap((void *)t->data, t->size);
	*t = (struct trace){ 0 };
}

const char *trace_label(const struct trace *t, enum label_table table, unsigned code, char *buf)
{
	static const char *const tables[] = {
		"reason", "cause", "queue", "state", "kind", "status"
	};

	if (code < LABEL_CODES && t->labels[table][code] != NULL)
		return t->labels[table][code];
	snprintf(buf, 32, "%s %u", tables[table], code);
	return buf;
}
