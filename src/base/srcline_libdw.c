/* SPDX-License-Identifier: MIT */
/*
 * Source positions by libdw.
 *
 * Invariants
 *   -          line.mutex guards `line` and `lib`. It is a pthread mutex: the holder opens files
 *              and allocates, which takes too long for a struct lock. A fork may copy it locked, so
 *              srcline_begin initializes it again.
 *   SRCLINE-2  No query leaves the machine. Debugging information comes from the file itself, or by
 *              build ID from /usr/lib/debug. (dwfl_standard_find_debuginfo would query the servers
 *              of DEBUGINFOD_URLS.)
 *   SRCLINE-3  libdw runs on an OS thread with a stack of HELPER_STACK bytes: dwarf_getsrclines
 *              alone has an array of 256 KiB on its stack, as large as the whole stack of an M.
 */
#include "base/srcline.h"

#include <elfutils/libdwfl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dl.h"
#include "base/os.h"

enum { HELPER_STACK = 4 << 20 };

static struct {
	pthread_mutex_t mutex;
	bool tried;
	void *handle;
	Dwfl *dwfl; /* NULL: not tried, or not available */
} line = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* The functions of libdw that are used. */
/* clang-format off */
#define FUNCTIONS(each)                                                                            \
	each(dwfl_begin)                                                                           \
	each(dwfl_end)                                                                             \
	each(dwfl_report_begin)                                                                    \
	each(dwfl_report_end)                                                                      \
	each(dwfl_linux_proc_report)                                                               \
	each(dwfl_linux_proc_find_elf)                                                             \
	each(dwfl_build_id_find_debuginfo)                                                         \
	each(dwfl_addrmodule)                                                                      \
	each(dwfl_module_addrname)                                                                 \
	each(dwfl_module_addrdie)                                                                  \
	each(dwfl_module_nextcu)                                                                   \
	each(dwarf_haspc)                                                                          \
	each(dwarf_getsrc_die)                                                                     \
	each(dwarf_linesrc)                                                                        \
	each(dwarf_lineno)
/* clang-format on */

static struct {
#define MEMBER(fn) __typeof__(&fn) fn;
	FUNCTIONS(MEMBER)
#undef MEMBER
} lib;

static bool srcline_symbols(void)
{
#define FIND(fn) &&dl_find(line.handle, #fn, &lib.fn)
	return true FUNCTIONS(FIND);
#undef FIND
}

/* Report the present mappings of the process to libdw. */
static bool report_modules(void)
{
	lib.dwfl_report_begin(line.dwfl);
	return lib.dwfl_linux_proc_report(line.dwfl, getpid()) == 0 &&
	       lib.dwfl_report_end(line.dwfl, NULL, NULL) == 0;
}

static void srcline_load(void)
{
	static Dwfl_Callbacks callbacks;

	line.tried = true;
	line.handle = dl_load("libdw.so.1");
	if (!line.handle || !srcline_symbols())
		return;
	callbacks.find_elf = lib.dwfl_linux_proc_find_elf;
	callbacks.find_debuginfo = lib.dwfl_build_id_find_debuginfo; /* SRCLINE-2 */
	line.dwfl = lib.dwfl_begin(&callbacks);
	if (line.dwfl && !report_modules()) {
		lib.dwfl_end(line.dwfl);
		line.dwfl = NULL;
	}
}

/* Returns NULL for code without debugging information. */
static Dwarf_Line *dwarf_line_at(Dwfl_Module *module, uintptr_t pc)
{
	Dwarf_Die *unit;
	Dwarf_Addr bias; /* pc - bias is the address in the file */
	Dwarf_Line *l;

	unit = lib.dwfl_module_addrdie(module, pc, &bias);
	if (unit)
		return lib.dwarf_getsrc_die(unit, pc - bias);
	/* clang writes no .debug_aranges, so query each unit for its address ranges. libdw 0.188
	 * cannot read all of clang's ranges, so search the line table of each unit last, which is
	 * slower. */
	while ((unit = lib.dwfl_module_nextcu(module, unit, &bias)))
		if (lib.dwarf_haspc(unit, pc - bias) == 1 &&
		    (l = lib.dwarf_getsrc_die(unit, pc - bias)))
			return l;
	while ((unit = lib.dwfl_module_nextcu(module, unit, &bias)))
		if ((l = lib.dwarf_getsrc_die(unit, pc - bias)))
			return l;
	return NULL;
}

struct query {
	struct srcline *of;
	size_t n;
};

static void srcline_fill(struct srcline *s)
{
	Dwfl_Module *module = line.dwfl ? lib.dwfl_addrmodule(line.dwfl, s->pc) : NULL;
	Dwarf_Line *l = module ? dwarf_line_at(module, s->pc) : NULL;
	const char *name = module ? lib.dwfl_module_addrname(module, s->pc) : NULL, *path;

	if (name)
		snprintf(s->function, sizeof(s->function), "%s", name);
	if (!l || lib.dwarf_lineno(l, &s->line) || s->line <= 0 ||
	    !(path = lib.dwarf_linesrc(l, NULL, NULL)))
		s->line = 0;
	else
		snprintf(s->file, sizeof(s->file), "%s", path);
}

/* SRCLINE-3: runs on the helper thread. */
static void *srcline_main(void *arg)
{
	struct query *q = arg;

	if (!line.tried)
		srcline_load();
	for (size_t i = 0; i < q->n; i++)
		srcline_fill(&q->of[i]);
	return NULL;
}

void srcline_find_all(struct srcline *of, size_t n)
{
	struct query q = { .of = of, .n = n };
	pthread_t helper;

	pthread_mutex_lock(&line.mutex);
	if (os_thread_start(&helper, srcline_main, &q, HELPER_STACK, NULL) == 0) /* SRCLINE-3 */
		pthread_join(helper, NULL);
	pthread_mutex_unlock(&line.mutex);
}

/* Also in the child of a fork, where the parent's data may be inconsistent and is dropped. */
void srcline_begin(void)
{
	memset(&line, 0, sizeof(line));
	pthread_mutex_init(&line.mutex, NULL);
}

void srcline_end(void)
{
	if (line.dwfl)
		lib.dwfl_end(line.dwfl);
	if (line.handle)
		dlclose(line.handle);
	line.dwfl = NULL;
	line.handle = NULL;
	line.tried = false;
}
