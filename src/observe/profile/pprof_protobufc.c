/* SPDX-License-Identifier: MIT */
/*
 * Profiles encoded by libprotobuf-c: see observe/profile/pprof.h.
 *
 * The build compiles pprof_message.proto to C. That code calls functions of libprotobuf-c. The
 * functions of these names are here, hidden, and pass the calls on to the library that dlopen has
 * loaded.
 */
#include "observe/profile/pprof.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dl.h"
#include "base/finding.h"
#include "observe/profile/pc_map.h"
#include <pprof_message.pb-c.h>

/* --- the library --- */

static struct {
	__typeof__(&protobuf_c_message_get_packed_size) get_packed_size;
	__typeof__(&protobuf_c_message_pack) pack;
} lib;

static uint32_t lib_ready; /* (a) 1: `lib` is filled in; the library stays loaded */

const char protobuf_c_empty_string[] = "";

size_t protobuf_c_message_get_packed_size(const ProtobufCMessage *message)
{
	return lib.get_packed_size(message);
}

size_t protobuf_c_message_pack(const ProtobufCMessage *message, uint8_t *out)
{
	return lib.pack(message, out);
}

/* The generated code refers to the following; nothing calls that. */
size_t protobuf_c_message_pack_to_buffer(const ProtobufCMessage *message, ProtobufCBuffer *buffer)
{
	(void)message;
	(void)buffer;
	return 0;
}

ProtobufCMessage *protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
					    ProtobufCAllocator *allocator, size_t len,
					    const uint8_t *data)
{
	(void)descriptor;
	(void)allocator;
	(void)len;
	(void)data;
	return NULL;
}

void protobuf_c_message_free_unpacked(ProtobufCMessage *message, ProtobufCAllocator *allocator)
{
	(void)message;
	(void)allocator;
}

static void load_protobufc(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	void *handle;

	pthread_mutex_lock(&mutex);
	if (!ld_rlx(&lib_ready)) {
		handle = dl_load("libprotobuf-c.so.1");
		if (handle &&
		    dl_find(handle, "protobuf_c_message_get_packed_size", &lib.get_packed_size) &&
		    dl_find(handle, "protobuf_c_message_pack", &lib.pack))
			st_rel(&lib_ready, 1u); /* ORD(pprof.lib) */
		else if (handle)
			dlclose(handle);
	}
	pthread_mutex_unlock(&mutex);
}

int pprof_available(void)
{
	if (!ld_acq(&lib_ready)) /* ORD(pprof.lib) */
		load_protobufc();
	return ld_acq(&lib_ready) ? 0 : -ENOTSUP; /* ORD(pprof.lib) */
}

/* --- memory of one encoding --- */

struct arena_block {
	struct arena_block *next;
	_Alignas(16) char bytes[];
};

/* Texts with their numbers, from 0 on. */
struct text {
	struct text *before; /* the one of the number before; NULL: none */
	int64_t number;
	char at[];
};

struct string_table {
	void *tree; /* of tsearch(3); its keys are the texts */
	struct text *last;
	size_t n;
};

struct encoder {
	const struct pprof_profile *p;
	struct pc_map code;
	struct string_table strings;
	struct string_table functions; /* numbers of functions: "name\nfile" */
	struct arena_block *blocks;
	bool failed; /* no memory; then nothing is encoded */
	Gmp__Pprof__Profile message;
};

/* Return zeroed memory until the end of the encoding; NULL: failed. */
static void *take(struct encoder *e, size_t n, size_t size)
{
	struct arena_block *p = calloc(1, sizeof(*p) + n * size);

	if (!p) {
		e->failed = true;
		return NULL;
	}
	p->next = e->blocks;
	e->blocks = p;
	return p->bytes;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Return the number of the text, which is copied if it is new; 0 without memory. */
static int64_t number_of(struct encoder *e, struct string_table *t, const char *text)
{
	char **found = tfind(text, &t->tree, by_text);

	if (found)
		return container_of(*found, struct text, at)->number;
	struct text *new = take(e, 1, sizeof(*new) + strlen(text) + 1);

	if (!new)
		return 0;
	if (!tsearch(strcpy(new->at, text), &t->tree, by_text)) {
		e->failed = true;
		return 0;
	}
	new->number = (int64_t)t->n++;
	new->before = t->last;
	t->last = new;
	return new->number;
}

static void texts_free(struct string_table *t)
{
	for (; t->last; t->last = t->last->before)
		tdelete(t->last->at, &t->tree, by_text);
}

static int64_t string_of(struct encoder *e, const char *text)
{
	return number_of(e, &e->strings, text);
}

/* --- mappings, functions, locations --- */

/*
 * DEFINE_TAKE(TYPE, NAME): NAME(e, n, &of) takes n messages of the type, and an array of pointers
 * to them.
 */
#define DEFINE_TAKE(TYPE, INIT, NAME)                                                              \
	static TYPE **NAME(struct encoder *e, size_t n)                                            \
	{                                                                                          \
		TYPE *of = take(e, n, sizeof(*of)), **at = take(e, n, sizeof(TYPE *));             \
                                                                                                   \
		for (size_t i = 0; of && at && i < n; i++) {                                       \
			of[i] = (TYPE)INIT;                                                        \
			at[i] = &of[i];                                                            \
		}                                                                                  \
		return of ? at : NULL;                                                             \
	}

DEFINE_TAKE(Gmp__Pprof__ValueType, GMP__PPROF__VALUE_TYPE__INIT, take_types)
DEFINE_TAKE(Gmp__Pprof__Mapping, GMP__PPROF__MAPPING__INIT, take_mappings)
DEFINE_TAKE(Gmp__Pprof__Function, GMP__PPROF__FUNCTION__INIT, take_functions)
DEFINE_TAKE(Gmp__Pprof__Location, GMP__PPROF__LOCATION__INIT, take_locations)
DEFINE_TAKE(Gmp__Pprof__Line, GMP__PPROF__LINE__INIT, take_lines)
DEFINE_TAKE(Gmp__Pprof__Sample, GMP__PPROF__SAMPLE__INIT, take_samples)
DEFINE_TAKE(Gmp__Pprof__Label, GMP__PPROF__LABEL__INIT, take_labels)

static void encode_mappings(struct encoder *e)
{
	const struct pc_map *c = &e->code;
	Gmp__Pprof__Mapping **to = take_mappings(e, c->mappings);

	for (size_t i = 0; to && i < c->mappings; i++) {
		const struct code_mapping *m = &c->mapping[i];

		to[i]->id = i + 1;
		to[i]->memory_start = m->start;
		to[i]->memory_limit = m->limit;
		to[i]->file_offset = m->offset;
		to[i]->filename = string_of(e, m->path);
		to[i]->build_id = string_of(e, m->build_id);
		to[i]->has_functions = true; /* pprof need not look for symbols */
		to[i]->has_filenames = to[i]->has_line_numbers = m->lines;
	}
	e->message.mapping = to;
	e->message.n_mapping = c->mappings;
}

/* Return the id of the function of p, which is filled in if it is new. */
static uint64_t function_of(struct encoder *e, const struct code_location *p)
{
	char text[sizeof(p->function) + sizeof(p->file) + 1];
	size_t known = e->functions.n;
	uint64_t id;

	snprintf(text, sizeof(text), "%s\n%s", p->function, p->file);
	id = (uint64_t)number_of(e, &e->functions, text) + 1;
	if (id > known && !e->failed) {
		Gmp__Pprof__Function *f = e->message.function[id - 1];

		f->id = id;
		f->name = f->system_name = string_of(e, p->function);
		f->filename = string_of(e, p->file);
	}
	return id;
}

static void encode_locations(struct encoder *e)
{
	size_t n = e->code.n;
	Gmp__Pprof__Location **to = take_locations(e, n);
	Gmp__Pprof__Line **line = take_lines(e, n);

	e->message.function = take_functions(e, n);
	for (size_t i = 0; !e->failed && i < n; i++) {
		const struct code_location *p = &e->code.location[i];

		to[i]->id = i + 1;
		to[i]->mapping_id = (uint64_t)(p->mapping + 1);
		to[i]->address = p->pc;
		to[i]->n_line = 1;
		to[i]->line = &line[i];
		line[i]->function_id = function_of(e, p);
		line[i]->line = p->line;
	}
	e->message.location = to;
	e->message.n_location = n;
	e->message.n_function = e->functions.n;
}

/* --- samples --- */

enum { LABELS = TRACE_COUNTS_LABELS + 2 };

static void add_label(struct encoder *e, Gmp__Pprof__Sample *s, Gmp__Pprof__Label **at,
		      const char *key, const char *text)
{
	Gmp__Pprof__Label *l = at[s->n_label];

	if (!key || !*text)
		return;
	l->key = string_of(e, key);
	l->str = string_of(e, text);
	s->label = at;
	s->n_label++;
}

/* The stack of an entry as finding_entry takes it. */
static uintptr_t entry_function(const struct trace_count *s)
{
	struct trace trace = { .n = min_of(s->n, (int)TRACE_MOST), .more = s->n >= TRACE_MOST };

	memcpy(trace.pc, s->pc, (size_t)trace.n * sizeof(trace.pc[0]));
	return finding_entry((uintptr_t)s->fn, &trace);
}

static void encode_sample(struct encoder *e, Gmp__Pprof__Sample *to, const struct trace_count *s,
			  uintptr_t entry)
{
	const struct pprof_kind *kind = e->p->kind;
	uint64_t *id = take(e, (size_t)s->n, sizeof(*id));
	Gmp__Pprof__Label **label = take_labels(e, LABELS);

	if (e->failed)
		return;
	for (int i = 0; i < s->n; i++)
		id[i] = pc_map_find(&e->code, s->pc[i]) + 1;
	to->location_id = id;
	to->n_location_id = (size_t)s->n;
	to->value = (int64_t *)(uintptr_t)s->value;
	to->n_value = e->message.n_sample_type;
	add_label(e, to, label, "green thread", s->green);
	if (entry)
		add_label(e, to, label, "entry",
			  e->code.location[pc_map_find(&e->code, entry)].function);
	for (int i = 0; i < TRACE_COUNTS_LABELS; i++)
		add_label(e, to, label, kind->label[i], s->label[i]);
}

static void encode_samples(struct encoder *e, const uintptr_t *entry)
{
	size_t n = e->p->counts.n;
	Gmp__Pprof__Sample **to = take_samples(e, n);
	const struct trace_count *s = e->p->counts.first;

	for (size_t i = 0; !e->failed && s; i++, s = s->next)
		encode_sample(e, to[i], s, entry[i]);
	e->message.sample = to;
	e->message.n_sample = n;
}

/* --- the whole --- */

static void encode_type(struct encoder *e, Gmp__Pprof__ValueType *to, const struct pprof_type *type)
{
	to->type = string_of(e, type->type);
	to->unit = string_of(e, type->unit);
}

static void encode_head(struct encoder *e)
{
	const struct pprof_kind *kind = e->p->kind;
	Gmp__Pprof__ValueType **types = take_types(e, TRACE_COUNTS_VALUES + 1);
	int64_t *comment = take(e, 1, sizeof(*comment));
	size_t n = 0;

	string_of(e, ""); /* number 0 */
	if (e->failed)
		return;
	for (; n < TRACE_COUNTS_VALUES && kind->value[n].type; n++)
		encode_type(e, types[n], &kind->value[n]);
	e->message.sample_type = types;
	e->message.n_sample_type = n;
	e->message.time_nanos = e->p->began;
	e->message.duration_nanos = e->p->duration;
	if (kind->period_type.type) {
		encode_type(e, types[TRACE_COUNTS_VALUES], &kind->period_type);
		e->message.period_type = types[TRACE_COUNTS_VALUES];
		e->message.period = e->p->period;
	}
	if (e->p->comment) {
		*comment = string_of(e, e->p->comment);
		e->message.comment = comment;
		e->message.n_comment = 1;
	}
}

/* Fill e->code with all addresses: those of the stacks, and the entry functions in entry[]. */
static int encode_code(struct encoder *e, uintptr_t *entry)
{
	const struct trace_counts *t = &e->p->counts;
	uintptr_t *pc = take(e, t->pcs + t->n, sizeof(*pc));
	size_t n = 0;

	if (!pc)
		return -ENOMEM;
	for (const struct trace_count *s = t->first; s; s = s->next, entry++) {
		memcpy(pc + n, s->pc, (size_t)s->n * sizeof(*pc));
		n += (size_t)s->n;
		if ((*entry = s->fn ? entry_function(s) : 0))
			pc[n++] = *entry;
	}
	return pc_map_fill(&e->code, pc, n);
}

/* The last step: all others may add strings. */
static void encode_strings(struct encoder *e)
{
	char **to = take(e, e->strings.n, sizeof(*to));

	for (struct text *s = e->strings.last; to && s; s = s->before)
		to[s->number] = s->at;
	e->message.string_table = to;
	e->message.n_string_table = e->strings.n;
}

static void encode_all(struct encoder *e)
{
	uintptr_t *entry = take(e, e->p->counts.n, sizeof(*entry));

	if (!entry || encode_code(e, entry) < 0) {
		e->failed = true;
		return;
	}
	encode_head(e);
	encode_mappings(e);
	encode_locations(e);
	encode_samples(e, entry);
	encode_strings(e);
}

static void encoder_free(struct encoder *e)
{
	texts_free(&e->strings);
	texts_free(&e->functions);
	for (struct arena_block *p; (p = e->blocks); free(p))
		e->blocks = p->next;
	pc_map_free(&e->code);
}

int pprof_encode(const struct pprof_profile *p, struct pprof_out *out)
{
	struct encoder e = { .p = p, .message = GMP__PPROF__PROFILE__INIT };
	int err = pprof_available();

	*out = (struct pprof_out){ 0 };
	if (err)
		return err;
	encode_all(&e);
	if (!e.failed) {
		out->n = gmp__pprof__profile__get_packed_size(&e.message);
		out->data = malloc(out->n);
	}
	if (out->data)
		gmp__pprof__profile__pack(&e.message, out->data);
	encoder_free(&e);
	return out->data ? 0 : -ENOMEM;
}
