/* SPDX-License-Identifier: MIT */
/*
 * _dl_find_object for programs that are linked with musl and a libgcc that was built for glibc.
 *
 * The unwinder of such a libgcc finds the table of a function by this call of glibc.  A libgcc that
 * was built for musl asks dl_iterate_phdr itself.  This file does the same, so that programs that
 * Debian's musl-gcc links can unwind.
 */
#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct dl_find_object {
	unsigned long long flags;
	void *map_start, *map_end;
	struct link_map *link_map;
	void *eh_frame;
	unsigned long long reserved[7]; /* other machines than x86-64 have a field before it */
};

struct search {
	uintptr_t at;
	struct dl_find_object *found;
};

/* Called for each object: returns 1 if it holds s->at and has an index of its unwind tables. */
static int look_into(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	const ElfW(Phdr) *in = NULL, *index = NULL;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && s->at - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			in = p;
		if (p->p_type == PT_GNU_EH_FRAME)
			index = p;
	}
	if (!in || !index)
		return 0;
	s->found->map_start = (void *)(info->dlpi_addr + in->p_vaddr);
	s->found->map_end = (void *)(info->dlpi_addr + in->p_vaddr + in->p_memsz);
	s->found->eh_frame = (void *)(info->dlpi_addr + index->p_vaddr);
	return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void *at, struct dl_find_object *found);

int _dl_find_object(void *at, struct dl_find_object *found)
{
	struct search s = { (uintptr_t)at, found };

	return dl_iterate_phdr(look_into, &s) == 1 ? 0 : -1;
}
