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

static struct {
	__typeof__(&dwfl_begin) begin;
	__typeof__(&dwfl_end) end;
	__typeof__(&dwfl_report_begin) report_begin;
	__typeof__(&dwfl_report_end) report_end;
	__typeof__(&dwfl_linux_proc_report) proc_report;
	__typeof__(&dwfl_linux_proc_find_elf) find_elf;
	__typeof__(&dwfl_build_id_find_debuginfo) find_debuginfo;
	__typeof__(&dwfl_addrmodule) addrmodule;
	__typeof__(&dwfl_module_addrname) addrname;
	__typeof__(&dwfl_module_addrdie) addrdie;
	__typeof__(&dwfl_module_nextcu) nextcu;
	__typeof__(&dwarf_haspc) haspc;
	__typeof__(&dwarf_getsrc_die) getsrc_die;
	__typeof__(&dwarf_linesrc) linesrc;
	__typeof__(&dwarf_lineno) lineno;
} lib;

static bool srcline_symbols(void)
{
	return dl_find(line.handle, "dwfl_begin", &lib.begin) &&
	       dl_find(line.handle, "dwfl_end", &lib.end) &&
	       dl_find(line.handle, "dwfl_report_begin", &lib.report_begin) &&
	       dl_find(line.handle, "dwfl_report_end", &lib.report_end) &&
	       dl_find(line.handle, "dwfl_linux_proc_report", &lib.proc_report) &&
	       dl_find(line.handle, "dwfl_linux_proc_find_elf", &lib.find_elf) &&
	       dl_find(line.handle, "dwfl_build_id_find_debuginfo", &lib.find_debuginfo) &&
	       dl_find(line.handle, "dwfl_addrmodule", &lib.addrmodule) &&
	       dl_find(line.handle, "dwfl_module_addrname", &lib.addrname) &&
	       dl_find(line.handle, "dwfl_module_addrdie", &lib.addrdie) &&
	       dl_find(line.handle, "dwfl_module_nextcu", &lib.nextcu) &&
	       dl_find(line.handle, "dwarf_haspc", &lib.haspc) &&
	       dl_find(line.handle, "dwarf_getsrc_die", &lib.getsrc_die) &&
	       dl_find(line.handle, "dwarf_linesrc", &lib.linesrc) &&
	       dl_find(line.handle, "dwarf_lineno", &lib.lineno);
}

/* Report the present mappings of the process to libdw. */
static bool report_modules(void)
{
	lib.report_begin(line.dwfl);
	return lib.proc_report(line.dwfl, getpid()) == 0 &&
	       lib.report_end(line.dwfl, NULL, NULL) == 0;
}

static void srcline_load(void)
{
	static Dwfl_Callbacks callbacks;

	line.tried = true;
	line.handle = dl_load("libdw.so.1");
	if (!line.handle || !srcline_symbols())
		return;
	callbacks.find_elf = lib.find_elf;
	callbacks.find_debuginfo = lib.find_debuginfo; /* SRCLINE-2 */
	line.dwfl = lib.begin(&callbacks);
	if (line.dwfl && !report_modules()) {
		lib.end(line.dwfl);
		line.dwfl = NULL;
	}
}

/* Returns NULL for code without debugging information. */
static Dwarf_Line *dwarf_line_at(Dwfl_Module *module, uintptr_t pc)
{
	Dwarf_Die *unit;
	Dwarf_Addr bias; /* pc - bias is the address in the file */
	Dwarf_Line *l;

	unit = lib.addrdie(module, pc, &bias);
	if (unit)
		return lib.getsrc_die(unit, pc - bias);
	/* clang writes no .debug_aranges, so query each unit for its address ranges. libdw 0.188
	 * cannot read all of clang's ranges, so search the line table of each unit last, which is
	 * slower. */
	while ((unit = lib.nextcu(module, unit, &bias)))
		if (lib.haspc(unit, pc - bias) == 1 && (l = lib.getsrc_die(unit, pc - bias)))
			return l;
	while ((unit = lib.nextcu(module, unit, &bias)))
		if ((l = lib.getsrc_die(unit, pc - bias)))
			return l;
	return NULL;
}

struct query {
	struct srcline *of;
	size_t n;
};

static void srcline_fill(struct srcline *s)
{
	Dwfl_Module *module = line.dwfl ? lib.addrmodule(line.dwfl, s->pc) : NULL;
	Dwarf_Line *l = module ? dwarf_line_at(module, s->pc) : NULL;
	const char *name = module ? lib.addrname(module, s->pc) : NULL, *path;

	if (name)
		snprintf(s->function, sizeof(s->function), "%s", name);
	if (!l || lib.lineno(l, &s->line) || s->line <= 0 || !(path = lib.linesrc(l, NULL, NULL)))
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

	for (size_t i = 0; i < n; i++) {
		of[i].line = 0;
		of[i].file[0] = of[i].function[0] = '\0';
	}
	pthread_mutex_lock(&line.mutex);
	if (os_thread_start(&helper, srcline_main, &q, HELPER_STACK, NULL) == 0) /* SRCLINE-3 */
		pthread_join(helper, NULL);
	pthread_mutex_unlock(&line.mutex);
}

bool srcline_find(uintptr_t pc, char *text, size_t room)
{
	struct srcline s = { .pc = pc };
	const char *slash;

	srcline_find_all(&s, 1);
	if (s.line == 0)
		return false;
	slash = strrchr(s.file, '/');
	snprintf(text, room, "%s:%d", slash ? slash + 1 : s.file, s.line);
	return true;
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
		lib.end(line.dwfl);
	if (line.handle)
		dlclose(line.handle);
	line.dwfl = NULL;
	line.handle = NULL;
	line.tried = false;
}
