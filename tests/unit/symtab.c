/* SPDX-License-Identifier: MIT */
/*
 * Tests that functions, also static ones, are found by their address, and that a damaged file does
 * not crash the search.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/symtab.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/rand.h"
#include "base/throw.h"

static noinline uintptr_t static_function(void)
{
	__asm__ volatile("");
	return (uintptr_t)__builtin_return_address(0);
}

noinline uintptr_t global_function(uintptr_t n);
noinline uintptr_t global_function(uintptr_t n)
{
	return n + static_function();
}

static int some_data = 1;

TEST(symtab_static_function_is_found)
{
	struct symbol s;

	CHECK(symtab_find_sig((uintptr_t)static_function, &s));
	CHECK_STR(s.name, "static_function");
	CHECK(s.exact);
	CHECK_EQ(s.offset, 0);
}

TEST(symtab_address_inside_function_has_offset)
{
	struct symbol s;

	CHECK(symtab_find_sig((uintptr_t)global_function + 3, &s));
	CHECK_STR(s.name, "global_function");
	CHECK_EQ(s.offset, 3);
	CHECK(symtab_find_sig(global_function(0) - 1, &s));
	CHECK_STR(s.name, "global_function");
	CHECK(s.offset > 3 && s.offset < 4096);
}

TEST(symtab_function_of_other_object_is_found)
{
	struct symbol s;

	CHECK(symtab_find_sig((uintptr_t)getppid, &s));
	CHECK(s.exact);
	CHECK(strstr(s.name, "getppid") != NULL);
}

static _Thread_local char local_before, local_of_the_test[16];

static int first_object(struct dl_phdr_info *info, size_t size, void *out)
{
	(void)size;
	*(struct dl_phdr_info *)out = *info;
	return 1;
}

TEST(symtab_thread_local_is_found_by_tls_offset)
{
	struct dl_phdr_info own;
	struct symbol s;

	local_before = local_of_the_test[3] = 1;
	CHECK_EQ(dl_iterate_phdr(first_object, &own), 1);
	uint64_t at = (uint64_t)(&local_of_the_test[3] - (char *)own.dlpi_tls_data);

	CHECK(symtab_find_local_sig((uintptr_t)own.dlpi_phdr, at, &s));
	CHECK(s.exact);
	CHECK_STR(s.name, "local_of_the_test");
	CHECK_EQ(s.offset, 3);
	CHECK(strstr(s.object, "unit_symtab") != NULL);
	CHECK(symtab_find_local_sig((uintptr_t)own.dlpi_phdr, 1 << 30, &s));
	CHECK(!s.exact);
}

struct seen {
	int n, of_the_test;
	uint64_t at, size;
};

static void see_local(void *arg, const char *name, uint64_t at, uint64_t size)
{
	struct seen *seen = arg;

	seen->n++;
	if (strcmp(name, "local_of_the_test") == 0) {
		seen->of_the_test++;
		seen->at = at;
		seen->size = size;
	}
}

TEST(symtab_each_local_lists_thread_locals_once)
{
	struct seen seen = { .n = 0 };
	struct dl_phdr_info own;

	dl_iterate_phdr(first_object, &own);
	local_before = local_of_the_test[3] = 1;
	CHECK(symtab_each_local((uintptr_t)own.dlpi_phdr, see_local, &seen));
	CHECK(seen.n >= 2);
	CHECK_EQ(seen.of_the_test, 1);
	CHECK_EQ(seen.at, (uint64_t)(local_of_the_test - (char *)own.dlpi_tls_data));
	CHECK_EQ(seen.size, sizeof(local_of_the_test));
	CHECK(!symtab_each_local(8, see_local, &seen));
}

TEST(symtab_data_address_is_named_by_object)
{
	struct symbol s;

	CHECK(symtab_find_sig((uintptr_t)&some_data, &s));
	CHECK(!s.exact);
	CHECK_STR(s.name, program_invocation_short_name);
}

TEST(symtab_anonymous_memory_has_no_name)
{
	struct symbol s;
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(!symtab_find_sig((uintptr_t)p, &s));
	CHECK_STR(s.name, "");
	CHECK(!symtab_find_sig(1, &s));
	CHECK(!symtab_find_sig(UINTPTR_MAX, &s));
}

/* A line names an address by function and offset, or by its number. */
TEST(line_sym_prints_name_or_number)
{
	struct line l = { .n = 0 };

	line_sym_sig(&l, (uintptr_t)static_function);
	line_str_sig(&l, " ");
	line_sym_sig(&l, 16);
	line_str_sig(&l, " ");
	line_dec_sig(&l, 0);
	line_str_sig(&l, " ");
	line_dec_sig(&l, UINT64_MAX);
	line_str_sig(&l, "");
	l.text[l.n] = '\0';
	CHECK_STR(l.text, "static_function 0x10 0 18446744073709551615");
}

TEST(line_too_long_is_truncated_with_newline)
{
	struct line l = { .n = 0 };
	char buf[2048];
	int fds[2];

	CHECK_EQ(pipe(fds), 0);
	for (int i = 0; i < 100; i++)
		line_str_sig(&l, "0123456789");
	line_write_sig(&l, fds[1]);
	CHECK_EQ(l.n, 0);
	CHECK_EQ(read(fds[0], buf, sizeof(buf)), (long long)sizeof(l.text));
	CHECK_EQ(buf[sizeof(l.text) - 1], '\n');
}

static void check_line(struct line *l, const char *text)
{
	l->text[l->n] = '\0';
	CHECK_STR(l->text, text);
	l->n = 0;
}

TEST(line_green_prints_id_name_and_entry)
{
	struct line l = { .n = 0 };

	line_green_sig(&l, 17, "worker", (uintptr_t)static_function);
	check_line(&l, "green thread 17 \"worker\" (entry static_function)");
	line_green_sig(&l, 1, "", 16);
	check_line(&l, "green thread 1 \"\" (entry 0x10)");
}

TEST(line_frame_prints_object_and_offset_for_addr2line)
{
	struct line l = { .n = 0 };
	uintptr_t pc = (uintptr_t)static_function + 2;
	char text[512];
	struct symbol s;

	CHECK(symtab_find_sig(pc, &s));
	CHECK_STR(s.object, program_invocation_short_name);
	snprintf(text, sizeof(text), "    #3 0x%lx static_function+0x2 (%s+0x%lx)\n",
		 (unsigned long)pc, s.object, (unsigned long)s.at);
	line_frame_sig(&l, 3, pc);
	check_line(&l, text);
	pc = (uintptr_t)&some_data;
	CHECK(symtab_find_sig(pc, &s));
	snprintf(text, sizeof(text), "    #0 0x%lx %s+0x%lx\n", (unsigned long)pc, s.object,
		 (unsigned long)s.at);
	line_frame_sig(&l, 0, pc);
	check_line(&l, text);
	line_frame_sig(&l, 0, 16);
	check_line(&l, "    #0 0x10\n");
}

/* --- the symbol cache --- */

static struct symcache cache;

TEST(symcache_hit_returns_stored_symbol)
{
	const struct symbol *first, *again;

	CHECK(symcache_find_sig(&cache, (uintptr_t)static_function + 1, &first));
	CHECK_STR(first->name, "static_function");
	CHECK_EQ(first->offset, 1);
	CHECK(symcache_find_sig(&cache, (uintptr_t)static_function + 1, &again));
	CHECK(first == again);
	CHECK(!symcache_find_sig(&cache, 1, &first));
	CHECK(!symcache_find_sig(&cache, 1, &again));
	CHECK(first == again);
	CHECK(!symcache_find_sig(&cache, 0, &first));
}

TEST(symcache_overflow_returns_right_symbols)
{
	const struct symbol *s;

	for (int round = 0; round < 2; round++) {
		for (uintptr_t i = 0; i < 2 * SYMCACHE_SLOTS; i++) {
			uintptr_t pc = (uintptr_t)static_function + (i % 2 ? 0 : i * 64);

			symcache_find_sig(&cache, pc, &s);
			if (pc == (uintptr_t)static_function) {
				CHECK_STR(s->name, "static_function");
				CHECK_EQ(s->offset, 0);
			}
		}
	}
}

TEST(line_with_symcache_prints_same_text)
{
	struct line l = { .names = &cache };

	for (int i = 0; i < 3; i++) {
		line_green_sig(&l, 2, "x", (uintptr_t)static_function);
		check_line(&l, "green thread 2 \"x\" (entry static_function)");
		line_sym_sig(&l, 16);
		check_line(&l, "0x10");
	}
}

/* --- damaged copies of this program --- */

struct copy {
	char path[64];
	int fd;
	size_t size;
	char *map;          /* the file, mapped */
	uintptr_t function; /* the address of static_function in the map */
};

/* Returns the file offset of static_function. */
static int find_offset(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t addr = (uintptr_t)static_function - info->dlpi_addr;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || addr < ph->p_vaddr ||
		    addr - ph->p_vaddr >= ph->p_filesz)
			continue;
		*(uint64_t *)arg = ph->p_offset + (addr - ph->p_vaddr);
		return 1;
	}
	return 0;
}

static void copy_begin(struct copy *c)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint64_t at = 0;
	char *bytes;

	CHECK(from >= 0);
	CHECK_EQ(fstat(from, &st), 0);
	c->size = (size_t)st.st_size;
	bytes = mmap(NULL, c->size, PROT_READ, MAP_PRIVATE, from, 0);
	CHECK(bytes != MAP_FAILED);
	snprintf(c->path, sizeof(c->path), "/tmp/gmp-symtab-XXXXXX");
	c->fd = mkstemp(c->path);
	CHECK(c->fd >= 0);
	for (size_t n = 0; n < c->size;) {
		ssize_t done = write(c->fd, bytes + n, c->size - n);

		CHECK(done > 0);
		n += (size_t)done;
	}
	munmap(bytes, c->size);
	close(from);

	c->map = mmap(NULL, c->size, PROT_READ, MAP_SHARED, c->fd, 0);
	CHECK(c->map != MAP_FAILED);
	CHECK_EQ(dl_iterate_phdr(find_offset, &at), 1);
	c->function = (uintptr_t)c->map + at;
}

static void copy_end(struct copy *c)
{
	munmap(c->map, c->size);
	close(c->fd);
	unlink(c->path);
}

/* An address without a symbol is named by its file. */
static void check_object(const struct copy *c)
{
	struct symbol s;

	CHECK(symtab_find_sig(c->function, &s));
	CHECK(!s.exact);
	CHECK_STR(s.name, c->path + strlen("/tmp/"));
}

TEST(symtab_file_mapped_at_other_address_is_read)
{
	struct copy c;
	struct symbol s;

	copy_begin(&c);
	CHECK(symtab_find_sig(c.function + 1, &s));
	CHECK_STR(s.name, "static_function");
	CHECK_EQ(s.offset, 1);
	copy_end(&c);
}

TEST(symtab_deleted_file_is_named_by_path)
{
	struct copy c;
	struct symbol s;

	copy_begin(&c);
	CHECK_EQ(unlink(c.path), 0);
	CHECK(symtab_find_sig(c.function, &s));
	CHECK(!s.exact);
	CHECK(strncmp(s.name, "gmp-symtab-", strlen("gmp-symtab-")) == 0);
	copy_end(&c);
}

static void check_deleted_self(void)
{
	struct symbol s;

	CHECK(symtab_find_sig((uintptr_t)static_function, &s));
	CHECK_STR(s.name, "static_function");
}

/* The case runs itself again from a copy that it deletes at once. */
TEST(symtab_deleted_program_finds_own_functions)
{
	struct copy c;
	int status;
	pid_t pid;

	if (getenv("GMP_TEST_DELETED") != NULL) {
		CHECK_EQ(unlink(getenv("GMP_TEST_DELETED")), 0);
		check_deleted_self();
		return;
	}
	copy_begin(&c);
	CHECK_EQ(fchmod(c.fd, 0755), 0);
	close(c.fd); /* a file that is open for writing cannot be executed */
	munmap(c.map, c.size);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		setenv("GMP_TEST_DELETED", c.path, 1);
		execl(c.path, c.path, "symtab_deleted_program_finds_own_functions", NULL);
		_exit(9);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	unlink(c.path);
	CHECK_EQ(status, 0);
}

static void overwrite(const struct copy *c, uint64_t at, const void *with, size_t n)
{
	if (at + n <= c->size)
		CHECK_EQ(pwrite(c->fd, with, n, (off_t)at), (long long)n);
}

TEST(symtab_damaged_elf_header_does_not_crash)
{
	struct copy c;
	struct symbol s;
	Elf64_Ehdr good;

	copy_begin(&c);
	memcpy(&good, c.map, sizeof(good));
	for (size_t i = 0; i < sizeof(good); i++) {
		for (int v = 0; v < 256; v += 51) {
			unsigned char byte = (unsigned char)v;

			overwrite(&c, i, &byte, 1);
			CHECK(symtab_find_sig(c.function, &s));
		}
		overwrite(&c, 0, &good, sizeof(good));
	}
	CHECK(symtab_find_sig(c.function, &s));
	CHECK_STR(s.name, "static_function");
	memset(&good, 0, sizeof(good));
	overwrite(&c, 0, &good, sizeof(good));
	check_object(&c);
	copy_end(&c);
}

/* Write noise to a region of the file, then restore it. */
static void make_noise(struct copy *c, uint64_t at, size_t n, uint64_t *seed, int rounds)
{
	char *good = malloc(n);
	struct symbol s;

	CHECK(good != NULL && at + n <= c->size);
	memcpy(good, c->map + at, n);
	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 8; k++) {
			uint64_t noise = rand_next(seed) >> rand_below(seed, 64);
			uint64_t where = rand_below(seed, (uint32_t)n) & ~(uint64_t)7;

			if (where + 8 <= n)
				overwrite(c, at + where, &noise, 1 + rand_below(seed, 8));
		}
		CHECK(symtab_find_sig(c->function, &s));
		CHECK(memchr(s.name, '\0', sizeof(s.name)) != NULL);
		if (i % 8 == 7)
			overwrite(c, at, good, n);
	}
	overwrite(c, at, good, n);
	free(good);
}

TEST(symtab_damaged_tables_do_not_crash)
{
	struct copy c;
	struct symbol s;
	Elf64_Ehdr head;
	Elf64_Shdr sh;
	uint64_t seed = 1;
	int rounds = (int)check_scaled(400);

	copy_begin(&c);
	memcpy(&head, c.map, sizeof(head));
	make_noise(&c, head.e_phoff, head.e_phnum * sizeof(Elf64_Phdr), &seed, rounds);
	make_noise(&c, head.e_shoff, head.e_shnum * sizeof(sh), &seed, rounds);
	for (unsigned i = 0; i < head.e_shnum; i++) {
		memcpy(&sh, c.map + head.e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM)
			make_noise(&c, sh.sh_offset, sh.sh_size, &seed, rounds);
	}
	CHECK(symtab_find_sig(c.function, &s));
	CHECK_STR(s.name, "static_function");
	copy_end(&c);
}

TEST(symtab_truncated_file_does_not_crash)
{
	struct copy c;
	struct symbol s;

	copy_begin(&c);
	for (size_t size = c.size - 1; size > 0; size -= size / 16 + 1) {
		CHECK_EQ(ftruncate(c.fd, (off_t)size), 0);
		CHECK(symtab_find_sig(c.function, &s));
	}
	CHECK_EQ(ftruncate(c.fd, 0), 0);
	check_object(&c);
	copy_end(&c);
}
