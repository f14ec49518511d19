/* SPDX-License-Identifier: MIT */
/*
 * Source positions by libdw.
 *
 * Invariants
 *  SRCLINE-1  `line` guards everything below it. It is a pthread mutex: the holder opens files and
 *             allocates, which takes too long for a struct lock. A fork may copy it locked; so
 *             srcline_begin makes it anew.
 *  SRCLINE-2  No question leaves the machine: debugging information is looked for in the file itself and
 *             by build ID below /usr/lib/debug. (dwfl_standard_find_debuginfo would ask the servers of
 *             DEBUGINFOD_URLS.)
 *  SRCLINE-3  libdw runs on a thread of its own, with HELPER_STACK bytes: dwarf_getsrclines alone has an
 *             array of 256 KiB on its stack, which is the whole stack of an M.
 */
#include "base/srcline.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/os.h"

enum { HELPER_STACK = 4 << 20 };

static struct {
	pthread_mutex_t mutex;
	bool tried;
	void *handle;
	Dwfl *dwfl; /* NULL: not tried, or it cannot be had */
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
	__typeof__(&dwfl_module_addrdie) addrdie;
	__typeof__(&dwfl_module_nextcu) nextcu;
	__typeof__(&dwarf_haspc) haspc;
	__typeof__(&dwarf_getsrc_die) getsrc_die;
	__typeof__(&dwarf_linesrc) linesrc;
	__typeof__(&dwarf_lineno) lineno;
} lib;

static bool find(const char *name, void *to)
{
	void *fn = dlsym(line.handle, name);

	memcpy(to, &fn, sizeof(fn)); /* C has no cast from an object to a function */
	return fn != NULL;
}

static bool find_all(void)
{
	return find("dwfl_begin", &lib.begin) && find("dwfl_end", &lib.end) &&
	       find("dwfl_report_begin", &lib.report_begin) &&
	       find("dwfl_report_end", &lib.report_end) &&
	       find("dwfl_linux_proc_report", &lib.proc_report) &&
	       find("dwfl_linux_proc_find_elf", &lib.find_elf) &&
	       find("dwfl_build_id_find_debuginfo", &lib.find_debuginfo) &&
	       find("dwfl_addrmodule", &lib.addrmodule) &&
	       find("dwfl_module_addrdie", &lib.addrdie) &&
	       find("dwfl_module_nextcu", &lib.nextcu) && find("dwarf_haspc", &lib.haspc) &&
	       find("dwarf_getsrc_die", &lib.getsrc_die) && find("dwarf_linesrc", &lib.linesrc) &&
	       find("dwarf_lineno", &lib.lineno);
}

/* Tell libdw what is mapped now. */
static bool report_modules(void)
{
	lib.report_begin(line.dwfl);
	return lib.proc_report(line.dwfl, getpid()) == 0 &&
	       lib.report_end(line.dwfl, NULL, NULL) == 0;
}

static void load(void)
{
	static Dwfl_Callbacks callbacks;

	line.tried = true;
	if (!getauxval(AT_BASE)) /* a static program: another libc would come with the library */
		return;
	line.handle = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!line.handle || !find_all())
		return;
	callbacks.find_elf = lib.find_elf;
	callbacks.find_debuginfo = lib.find_debuginfo; /* SRCLINE-2 */
	line.dwfl = lib.begin(&callbacks);
	if (line.dwfl && !report_modules()) {
		lib.end(line.dwfl);
		line.dwfl = NULL;
	}
}

/* NULL for code without debugging information. */
static Dwarf_Line *find_line(uintptr_t pc)
{
	Dwfl_Module *module = lib.addrmodule(line.dwfl, pc);
	Dwarf_Die *unit;
	Dwarf_Addr bias; /* what to take from pc for the file's own address */
	Dwarf_Line *l;

	if (!module)
		return NULL;
	unit = lib.addrdie(module, pc, &bias);
	if (unit)
		return lib.getsrc_die(unit, pc - bias);
	/* clang writes no .debug_aranges: ask each unit; and its line table, which is slower, since libdw
	 * 0.188 does not understand all that clang says of a unit's addresses */
	while ((unit = lib.nextcu(module, unit, &bias)))
		if (lib.haspc(unit, pc - bias) == 1 && (l = lib.getsrc_die(unit, pc - bias)))
			return l;
	while ((unit = lib.nextcu(module, unit, &bias)))
		if ((l = lib.getsrc_die(unit, pc - bias)))
			return l;
	return NULL;
}

struct query {
	uintptr_t pc;
	char *text;
	size_t room;
	bool found;
};

static void *answer(void *arg)
{
	struct query *q = arg;
	const char *path, *slash;
	int number;

	if (!line.tried)
		load();
	Dwarf_Line *l = line.dwfl ? find_line(q->pc) : NULL;

	if (!l || lib.lineno(l, &number) || number <= 0 || !(path = lib.linesrc(l, NULL, NULL)))
		return NULL;
	slash = strrchr(path, '/');
	snprintf(q->text, q->room, "%s:%d", slash ? slash + 1 : path, number);
	q->found = true;
	return NULL;
}

bool srcline_find(uintptr_t pc, char *text, size_t room)
{
	struct query q = { .pc = pc, .text = text, .room = room };
	pthread_t helper;

	pthread_mutex_lock(&line.mutex);
	if (os_thread_start(&helper, answer, &q, HELPER_STACK) == 0) /* SRCLINE-3 */
		pthread_join(helper, NULL);
	pthread_mutex_unlock(&line.mutex);
	return q.found;
}

/* In the child of a fork: forgets what the parent had, which may be half done. */
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
