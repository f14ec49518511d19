/* SPDX-License-Identifier: MIT */
/* Functions, source positions and mappings of code addresses: see observe/profile/pc_map.h. */
#include "observe/profile/pc_map.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/srcline.h"
#include "base/symtab.h"

/* --- mappings --- */

static void copy_build_id(struct code_mapping *m, const unsigned char *id, size_t n)
{
	for (size_t i = 0; i < min_of(n, (sizeof(m->build_id) - 1) / 2); i++)
		snprintf(m->build_id + 2 * i, 3, "%02x", id[i]);
}

/* The notes of an object that the loader has mapped: the build ID is one of them. */
static void read_notes(struct code_mapping *m, const char *at, size_t n)
{
	ElfW(Nhdr) h;

	while (n >= sizeof(h)) {
		memcpy(&h, at, sizeof(h));
		size_t name = round_up(h.n_namesz, 4), desc = round_up(h.n_descsz, 4);

		if (name + desc > n - sizeof(h))
			return;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 &&
		    memcmp(at + sizeof(h), "GNU", 4) == 0)
			copy_build_id(m, (const unsigned char *)at + sizeof(h) + name, h.n_descsz);
		at += sizeof(h) + name + desc;
		n -= sizeof(h) + name + desc;
	}
}

static bool object_covers(const struct dl_phdr_info *o, uint64_t at)
{
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &o->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && at >= o->dlpi_addr + ph->p_vaddr &&
		    at - (o->dlpi_addr + ph->p_vaddr) < ph->p_memsz)
			return true;
	}
	return false;
}

static int note_object(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct pc_map *c = arg;

	(void)size;
	for (size_t k = 0; k < c->mappings; k++) {
		if (!object_covers(o, c->mapping[k].start))
			continue;
		for (int i = 0; i < o->dlpi_phnum; i++) {
			const ElfW(Phdr) *ph = &o->dlpi_phdr[i];

			if (ph->p_type == PT_NOTE)
				read_notes(&c->mapping[k],
					   (const char *)(uintptr_t)(o->dlpi_addr + ph->p_vaddr),
					   ph->p_memsz);
		}
	}
	return 0;
}

/* "start-end r-xp offset dev inode    path" */
static bool parse_mapping(const char *text, struct code_mapping *m)
{
	char perms[5] = "";
	int at = 0;
	size_t n;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &m->start, &m->limit,
		   perms, &m->offset, &at) != 4 ||
	    perms[2] != 'x' || at == 0)
		return false;
	n = min_of(strcspn(text + at, "\n"), sizeof(m->path) - 1);
	memcpy(m->path, text + at, n);
	m->path[n] = '\0';
	m->build_id[0] = '\0';
	m->lines = false;
	return true;
}

static int add_mapping(struct pc_map *c, const struct code_mapping *m)
{
	struct code_mapping *of =
		array_grow(c->mapping, &c->mapping_cap, c->mappings + 1, sizeof(*of));

	if (!of)
		return -ENOMEM;
	c->mapping = of;
	c->mapping[c->mappings++] = *m;
	return 0;
}

static void put_program_first(struct pc_map *c)
{
	char exe[256];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[max_of(n, (ssize_t)0)] = '\0';
	for (size_t i = 1; i < c->mappings; i++) {
		if (strcmp(c->mapping[i].path, exe) != 0)
			continue;
		struct code_mapping first = c->mapping[0];

		c->mapping[0] = c->mapping[i];
		c->mapping[i] = first;
		return;
	}
}

/* Without /proc there are no mappings. */
static int read_mappings(struct pc_map *c)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct code_mapping m;
	char *text = NULL;
	size_t room = 0;
	int err = 0;

	while (f && !err && getline(&text, &room, f) > 0)
		if (parse_mapping(text, &m))
			err = add_mapping(c, &m);
	free(text);
	if (f)
		fclose(f);
	if (!err) {
		put_program_first(c);
		dl_iterate_phdr(note_object, c);
	}
	return err;
}

/* --- locations --- */

static int by_pc(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

static int by_location(const void *pc, const void *location)
{
	return by_pc(pc, &((const struct code_location *)location)->pc);
}

static int mapping_of(const struct pc_map *c, uintptr_t pc)
{
	for (size_t i = 0; i < c->mappings; i++)
		if (pc >= c->mapping[i].start && pc < c->mapping[i].limit)
			return (int)i;
	return -1;
}

static void fill_location(struct pc_map *c, struct code_location *p, const struct srcline *s)
{
	struct symbol symbol;
	bool found = symtab_find_sig(s->pc, &symbol);

	p->pc = s->pc;
	p->mapping = mapping_of(c, s->pc);
	p->line = s->line;
	memcpy(p->file, s->file, sizeof(p->file));
	if (found && symbol.exact)
		memcpy(p->function, symbol.name, sizeof(p->function));
	else if (s->function[0])
		snprintf(p->function, sizeof(p->function), "%s", s->function);
	else if (found)
		snprintf(p->function, sizeof(p->function), "%.200s+0x%" PRIx64, symbol.name,
			 symbol.offset);
	else
		snprintf(p->function, sizeof(p->function), "?");
	if (p->line && p->mapping >= 0)
		c->mapping[p->mapping].lines = true;
}

/* Sort the array, and drop what is there twice. Return how many are left. */
static size_t sort_once(uintptr_t *pc, size_t n)
{
	size_t m = 0;

	qsort(pc, n, sizeof(*pc), by_pc);
	for (size_t i = 0; i < n; i++)
		if (m == 0 || pc[i] != pc[m - 1])
			pc[m++] = pc[i];
	return m;
}

int pc_map_fill(struct pc_map *c, const uintptr_t *pc, size_t n)
{
	uintptr_t *sorted = calloc(n + 1, sizeof(*sorted));
	struct srcline *s = NULL;
	int err = -ENOMEM;

	memset(c, 0, sizeof(*c));
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, pc, n * sizeof(*pc));
	c->n = sort_once(sorted, n);
	s = calloc(c->n + 1, sizeof(*s));
	c->location = calloc(c->n + 1, sizeof(*c->location));
	if (s && c->location)
		err = read_mappings(c);
	if (!err) {
		for (size_t i = 0; i < c->n; i++)
			s[i].pc = sorted[i];
		srcline_find_all(s, c->n);
		for (size_t i = 0; i < c->n; i++)
			fill_location(c, &c->location[i], &s[i]);
	}
	free(sorted);
	free(s);
	return err;
}

void pc_map_free(struct pc_map *c)
{
	free(c->location);
	free(c->mapping);
	memset(c, 0, sizeof(*c));
}

size_t pc_map_find(const struct pc_map *c, uintptr_t pc)
{
	const struct code_location *p = bsearch(&pc, c->location, c->n, sizeof(*p), by_location);

	return (size_t)(p - c->location);
}
