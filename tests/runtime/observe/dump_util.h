/* SPDX-License-Identifier: MIT */
/*
 * Helpers for the tests of dumps: reading a dump, and a green thread that is parked some calls
 * deep.
 */
#ifndef TESTS_RUNTIME_DUMP_UTIL_H
#define TESTS_RUNTIME_DUMP_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create: before any other header */
#endif
#include <fcntl.h>
#include <sys/mman.h>

#include "util.h"

/* A function that keeps its own frame and symbol: neither inlined nor cloned. */
#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

/* --- reading a dump --- */

/* Returns the text of a dump made by how(); the caller frees it. */
UNUSED CALL static char *dump_by(int (*how)(int fd))
{
	int fd = memfd_create("dump", MFD_CLOEXEC);
	off_t size;
	char *text;

	CHECK(fd >= 0);
	CHECK_EQ(how(fd), 0);
	size = lseek(fd, 0, SEEK_END);
	CHECK(size > 0);
	text = malloc((size_t)size + 1);
	CHECK(text != NULL);
	CHECK_EQ(pread(fd, text, (size_t)size, 0), size);
	text[size] = '\0';
	close(fd);
	return text;
}

/* A dump with one block for each green thread. */
UNUSED CALL static char *dump(void)
{
	char *text = dump_by(gmp_dump_all);

	__asm__ volatile("" ::: "memory");
	return text;
}

/* Returns the block of the first green thread with this name, from a new dump. */
UNUSED static const char *block_of(const char *name)
{
	static _Thread_local char block[16384];
	char *text = dump(), key[96], *at, *end;

	snprintf(key, sizeof(key), " \"%s\" (entry ", name);
	at = strstr(text, key);
	if (!at)
		check_failed("no green thread \"%s\" in:\n%s", name, text);
	while (at > text && at[-1] != '\n')
		at--;
	for (end = at; (end = strchr(end, '\n')) && end[1] == ' ';)
		end++;
	CHECK(end != NULL);
	CHECK((size_t)(end + 1 - at) < sizeof(block));
	memcpy(block, at, (size_t)(end + 1 - at));
	block[end + 1 - at] = '\0';
	free(text);
	return block;
}

UNUSED static void check_has(const char *text, const char *what)
{
	if (!strstr(text, what))
		check_failed("\"%s\" is not in:\n%s", what, text);
}

UNUSED static void check_has_not(const char *text, const char *what)
{
	if (strstr(text, what))
		check_failed("\"%s\" is in:\n%s", what, text);
}

UNUSED static const char *address(const char *before, const void *p)
{
	static _Thread_local char text[128];

	snprintf(text, sizeof(text), "%s 0x%lx", before, (unsigned long)(uintptr_t)p);
	return text;
}

UNUSED static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

UNUSED CALL static gmp_g *spawn_named(const char *name, gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = name;
	CHECK_EQ(gmp_spawn(&g, fn, arg, &a), 0);
	return g;
}

UNUSED static void no_more(void)
{
	__asm__ volatile("" ::: "memory"); /* prevents a tail call before it */
}

/* --- calls --- */

static gmp_chan *ch;

UNUSED CALL static void inner_call(void)
{
	int v;

	CHECK_EQ(gmp_chan_recv(ch, &v), -EPIPE);
	no_more();
}

UNUSED CALL static void outer_call(void)
{
	inner_call();
	no_more();
}

UNUSED static void entry_of_all(UNUSED void *arg)
{
	outer_call();
	no_more();
}

UNUSED static void begin_chan(void)
{
	ch = gmp_chan_new(sizeof(int), 0);
	CHECK(ch != NULL);
}

UNUSED static void end_chan(gmp_g *g)
{
	CHECK_EQ(gmp_chan_close(ch), 0);
	join(g);
	gmp_chan_free(ch);
}

#endif
