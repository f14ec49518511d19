/* SPDX-License-Identifier: MIT */
/*
 * Symbol lookup: finds the function at a code address in the ELF file that is mapped there.
 *
 *   1. /proc/self/maps gives the file, and the byte of the file, at the address.
 *   2. The program headers of the file convert that byte to an address as the symbols of the file
 *      count it. So the load address does not matter.
 *   3. .symtab, otherwise .dynsym, gives the function that contains this address.
 *
 * Invariants
 *   - Only system calls: no allocation, no lock, no stdio. errno may be overwritten.
 *   - At most 8 KiB of stack, since it runs on signal stacks. So functions with buffers are
 *     noinline.
 *   - The contents of the file are not trusted: image_get and section_get check each
 *     offset.
 *
 * Rejected
 *   dladdr: takes the loader's lock, and does not know static functions.
 *   Tables read at start: cost time and memory in each run, and one run in a thousand needs them.
 */
#include "base/symtab.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the file at an address --- */

enum { PATH_ROOM = 2048, LINE_ROOM = PATH_ROOM + 128 };

struct location {
	uint64_t at;          /* which byte of the file */
	char path[PATH_ROOM]; /* "" for memory without a file */
};

struct reader {
	int fd;
	ssize_t n, next;
	char buf[1024];
};

static int read_char(struct reader *r)
{
	while (r->next >= r->n) {
		r->n = read(r->fd, r->buf, sizeof(r->buf));
		r->next = 0;
		if (r->n == 0 || (r->n < 0 && errno != EINTR))
			return -1;
	}
	return (unsigned char)r->buf[r->next++];
}

/* Read a line of /proc/self/maps; the part that does not fit is cut off. Returns false at the end.
 */
static bool maps_read_line(struct reader *r, char *line, size_t room)
{
	size_t n = 0;
	int c;

	while ((c = read_char(r)) >= 0 && c != '\n') {
		if (n < room - 1)
			line[n++] = (char)c;
	}
	line[n] = '\0';
	return c >= 0 || n > 0;
}

static uint64_t parse_hex(const char **p)
{
	uint64_t v = 0;

	for (;; (*p)++) {
		char c = **p;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return v;
	}
}

static const char *skip_word(const char *p)
{
	while (*p != '\0' && *p != ' ')
		p++;
	while (*p == ' ')
		p++;
	return p;
}

static void copy_text(char *out, size_t room, const char *text)
{
	size_t n = strnlen(text, room - 1);

	memcpy(out, text, n);
	out[n] = '\0';
}

/* "start-end perms offset dev inode    path" */
static bool parse_map(const char *line, uintptr_t pc, struct location *out)
{
	const char *p = line;
	uint64_t start = parse_hex(&p), end;

	if (*p++ != '-')
		return false;
	end = parse_hex(&p);
	if (pc < start || pc >= end)
		return false;
	p = skip_word(skip_word(p)); /* " perms " */
	out->at = parse_hex(&p) + (pc - start);
	p = skip_word(skip_word(skip_word(p)));
	copy_text(out->path, sizeof(out->path), p);
	return true;
}

static noinline bool find_location(uintptr_t pc, struct location *out)
{
	struct reader r = { .fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC) };
	char line[LINE_ROOM];
	bool found = false;

	if (r.fd < 0)
		return false;
	while (!found && maps_read_line(&r, line, sizeof(line)))
		found = parse_map(line, pc, out);
	close(r.fd);
	return found;
}

static noinline bool is_main_executable(const char *path)
{
	char exe[PATH_ROOM];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return false;
	exe[n] = '\0';
	return strcmp(exe, path) == 0;
}

/* --- a mapped ELF file --- */

struct image {
	const char *bytes;
	size_t size;
	Elf64_Ehdr head;
};

static bool image_get(const struct image *im, uint64_t at, void *out, size_t n)
{
	if (at > im->size || n > im->size - at)
		return false;
	memcpy(out, im->bytes + at, n);
	return true;
}

static bool section_get(const struct image *im, unsigned i, Elf64_Shdr *out)
{
	return i < im->head.e_shnum && im->head.e_shoff <= im->size &&
	       image_get(im, im->head.e_shoff + (uint64_t)i * sizeof(*out), out, sizeof(*out));
}

static bool image_open(const char *path, struct image *im)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p = MAP_FAILED;

	if (fd < 0 && is_main_executable(path)) /* deleted or replaced since the start */
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return false;
	im->bytes = p;
	im->size = (size_t)st.st_size;
	return true;
}

static bool image_is_elf(struct image *im)
{
	return image_get(im, 0, &im->head, sizeof(im->head)) &&
	       memcmp(im->head.e_ident, ELFMAG, SELFMAG) == 0 &&
	       im->head.e_ident[EI_CLASS] == ELFCLASS64 &&
	       im->head.e_phentsize == sizeof(Elf64_Phdr) &&
	       im->head.e_shentsize == sizeof(Elf64_Shdr) && im->head.e_phoff <= im->size;
}

/* Convert byte `at` of the file to an address as its symbols count it. */
static bool image_address(const struct image *im, uint64_t at, uint64_t *addr)
{
	for (unsigned i = 0; i < im->head.e_phnum; i++) {
		Elf64_Phdr ph;

		if (!image_get(im, im->head.e_phoff + (uint64_t)i * sizeof(ph), &ph, sizeof(ph)))
			return false;
		if (ph.p_type == PT_LOAD && at >= ph.p_offset && at - ph.p_offset < ph.p_filesz) {
			*addr = ph.p_vaddr + (at - ph.p_offset);
			return true;
		}
	}
	return false;
}

/* --- symbols --- */

/* Return whether the symbol is a function (local: a thread-local) that contains addr. */
static bool covers(const struct image *im, const Elf64_Sym *s, uint64_t addr, bool local)
{
	Elf64_Shdr sh;
	unsigned type = ELF64_ST_TYPE(s->st_info);

	if (local)
		return type == STT_TLS && s->st_shndx != SHN_UNDEF && s->st_value <= addr &&
		       addr - s->st_value < s->st_size;
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF ||
	    s->st_value > addr)
		return false;
	if (s->st_size != 0)
		return addr - s->st_value < s->st_size;
	/* assembly without a size: it extends to the next function in the same section */
	return section_get(im, s->st_shndx, &sh) && addr >= sh.sh_addr &&
	       addr - sh.sh_addr < sh.sh_size && s->st_value >= sh.sh_addr;
}

static bool symbol_copy_name(const struct image *im, const Elf64_Shdr *tab, uint32_t at, char *out,
			     size_t room)
{
	Elf64_Shdr str;
	size_t n;

	if (!section_get(im, tab->sh_link, &str) || str.sh_type != SHT_STRTAB ||
	    str.sh_offset > im->size || str.sh_size > im->size - str.sh_offset || at >= str.sh_size)
		return false;
	n = strnlen(im->bytes + str.sh_offset + at, min_of(str.sh_size - at, room - 1));
	memcpy(out, im->bytes + str.sh_offset + at, n);
	out[n] = '\0';
	return n > 0;
}

/* Find the function (local: the thread-local) that contains addr and begins last; of several with
 * the same address, the first in the table. */
static bool search_table(const struct image *im, const Elf64_Shdr *tab, uint64_t addr, bool local,
			 struct symbol *out)
{
	Elf64_Sym s, best = { .st_name = 0 };
	bool found = false;

	if (tab->sh_offset > im->size)
		return false;
	for (uint64_t i = 0; i < tab->sh_size / sizeof(s); i++) {
		if (!image_get(im, tab->sh_offset + i * sizeof(s), &s, sizeof(s)))
			break;
		if (!covers(im, &s, addr, local) || (found && s.st_value <= best.st_value))
			continue;
		best = s;
		found = true;
	}
	if (!found || !symbol_copy_name(im, tab, best.st_name, out->name, sizeof(out->name)))
		return false;
	out->exact = true;
	out->offset = addr - best.st_value;
	return true;
}

static bool search_tables_of(const struct image *im, uint32_t type, uint64_t addr, bool local,
			     struct symbol *out)
{
	Elf64_Shdr sh;

	for (unsigned i = 0; section_get(im, i, &sh); i++) {
		if (sh.sh_type == type && search_table(im, &sh, addr, local, out))
			return true;
	}
	return false;
}

static void search_tables(const struct image *im, uint64_t addr, bool local, struct symbol *out)
{
	if (!search_tables_of(im, SHT_SYMTAB, addr, local, out))
		search_tables_of(im, SHT_DYNSYM, addr, local, out);
}

/* Fill out with the base name of the object, in case no function is found. */
static void name_object(const char *path, uint64_t at, struct symbol *out)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash != NULL ? slash + 1 : path;

	copy_text(out->name, sizeof(out->name), base);
	copy_text(out->object, sizeof(out->object), base);
	out->exact = false;
	out->offset = out->at = at;
}

/* Look up the function at pc or, if local is not NULL, the thread-local at byte *local of those of
 * the object at pc. */
static bool symtab_find(uintptr_t pc, const uint64_t *local, struct symbol *out)
{
	struct location location;
	struct image im;
	uint64_t addr;

	*out = (struct symbol){ .offset = pc };
	if (!find_location(pc, &location) || location.path[0] == '\0')
		return false;
	name_object(location.path, local ? *local : location.at, out);
	if (location.path[0] != '/' || !image_open(location.path, &im))
		return true;
	if (image_is_elf(&im) && local) {
		search_tables(&im, *local, true, out);
	} else if (image_is_elf(&im) && image_address(&im, location.at, &addr)) {
		out->offset = out->at = addr;
		search_tables(&im, addr, false, out);
	}
	munmap((void *)(uintptr_t)im.bytes, im.size);
	return true;
}

bool symtab_find_sig(uintptr_t pc, struct symbol *out)
{
	return symtab_find(pc, NULL, out);
}

bool symtab_find_local_sig(uintptr_t there, uint64_t at, struct symbol *out)
{
	return symtab_find(there, &at, out);
}

static bool each_local_of(const struct image *im, uint32_t type, symtab_local_fn fn, void *arg)
{
	char name[64];
	Elf64_Shdr sh;
	Elf64_Sym s;
	bool any = false;

	for (unsigned i = 0; section_get(im, i, &sh); i++) {
		if (sh.sh_type != type || sh.sh_offset > im->size)
			continue;
		any = true;
		for (uint64_t k = 0; k < sh.sh_size / sizeof(s); k++) {
			if (!image_get(im, sh.sh_offset + k * sizeof(s), &s, sizeof(s)))
				break;
			if (ELF64_ST_TYPE(s.st_info) == STT_TLS && s.st_shndx != SHN_UNDEF &&
			    s.st_size && symbol_copy_name(im, &sh, s.st_name, name, sizeof(name)))
				fn(arg, name, s.st_value, s.st_size);
		}
	}
	return any;
}

bool symtab_each_local(uintptr_t there, symtab_local_fn fn, void *arg)
{
	struct location location;
	struct image im;

	if (!find_location(there, &location) || location.path[0] != '/' ||
	    !image_open(location.path, &im))
		return false;
	bool any = image_is_elf(&im) && (each_local_of(&im, SHT_SYMTAB, fn, arg) ||
					 each_local_of(&im, SHT_DYNSYM, fn, arg));

	munmap((void *)(uintptr_t)im.bytes, im.size);
	return any;
}

/* --- cache --- */

enum { PROBES = 8 };

bool symcache_find_sig(struct symcache *c, uintptr_t pc, const struct symbol **out)
{
	unsigned home = (unsigned)(pc * 0x9e3779b97f4a7c15u >> 55);
	struct symcache_slot *s = &c->slot[home];

	_Static_assert(SYMCACHE_SLOTS == 1 << (64 - 55), "home is a slot");
	for (unsigned i = 0; i < PROBES; i++) {
		struct symcache_slot *probed = &c->slot[(home + i) % SYMCACHE_SLOTS];

		if (probed->pc == pc || probed->pc == 0) {
			s = probed;
			break;
		}
	}
	if (s->pc != pc || pc == 0) {
		s->found = symtab_find_sig(pc, &s->symbol);
		s->pc = pc;
	}
	*out = &s->symbol;
	return s->found;
}
