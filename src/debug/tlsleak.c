/* SPDX-License-Identifier: MIT */
#include "debug/tlsleak.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/finding.h"
#include "base/os.h"
#include "base/symtab.h"
#include "g.h"

enum { MODULES = 64, HELPER_STACK = 256 * 1024 };

static struct {
	uintptr_t *
		left; /* by g_index: the thread that it has left; 0: it has not begun, or is pinned */
	size_t bytes;
	struct tls_module modules[MODULES];
	int n;
	ptrdiff_t errno_at;           /* from pthread_self(): its symbol is not in every libc */
	ptrdiff_t lo, hi;             /* all modules lie between, from pthread_self() */
	ptrdiff_t own_at[OWN_LOCALS]; /* the runtime's own, which are never kept */
	size_t own_size[OWN_LOCALS];
	int own;
} astray;

/* --- where they are --- */

static ptrdiff_t from_self(const void *p)
{
	return (ptrdiff_t)((uintptr_t)p - (uintptr_t)pthread_self());
}

/* False for those of the system, and for a static program: libc's are among its own. */
static bool name_module(struct tls_module *m, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t n = 0;

	for (; base[n] && n < sizeof(m->name) - 1; n++)
		m->name[n] = base[n];
	m->name[n] = '\0';
	return getauxval(AT_BASE) && !object_is_systems(base);
}

static int note_module(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct tls_module *m = &astray.modules[astray.n];

	(void)size;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum && info->dlpi_tls_data; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			m->size = info->dlpi_phdr[i].p_memsz;
	if (m->size == 0)
		return 0;
	m->at = from_self(info->dlpi_tls_data);
	m->there = (uintptr_t)info->dlpi_phdr;
	m->programs = name_module(m, info->dlpi_name);
	astray.lo = min_of(astray.lo, m->at);
	astray.hi = max_of(astray.hi, m->at + (ptrdiff_t)m->size);
	return ++astray.n == MODULES;
}

/* A thread that has just begun has no thread-locals but those of A1. */
static void *look_at_self(void *unused)
{
	struct own_local own[OWN_LOCALS];

	astray.own = gmp__own_locals(own);
	for (int i = 0; i < astray.own; i++) {
		astray.own_at[i] = from_self(own[i].at);
		astray.own_size[i] = own[i].size;
	}
	astray.errno_at = from_self(gmp_errno_here());
	astray.lo = PTRDIFF_MAX;
	astray.hi = PTRDIFF_MIN;
	dl_iterate_phdr(note_module, NULL);
	return unused;
}

/* --- who holds one --- */

void astray_leave(struct g *gp)
{
	bool stays = gp->pins || gp->resume & RESUME_BOUND;

	astray.left[g_index(gp)] = stays ? 0 : (uintptr_t)pthread_self();
	if (!stays)
		gp->resume |= RESUME_OBSERVED;
}

static bool is_of(const struct tls_module *m, ptrdiff_t at)
{
	return at >= m->at && at < m->at + (ptrdiff_t)m->size;
}

bool astray_is_own(ptrdiff_t at)
{
	for (int i = 0; i < astray.own; i++)
		if (at >= astray.own_at[i] && at < astray.own_at[i] + (ptrdiff_t)astray.own_size[i])
			return true;
	return false;
}

int astray_modules(const struct tls_module **modules)
{
	*modules = astray.modules;
	return astray.n;
}

static void name_it(struct line *l, const struct tls_module *m, uint64_t at)
{
	struct symbol s;

	symtab_find_local_sig(m->there, at, &s);
	if (s.exact) {
		line_str_sig(l, s.name);
		line_str_sig(l, s.offset ? "+" : "");
		if (s.offset)
			line_dec_sig(l, s.offset);
	} else {
		line_str_sig(l, "byte ");
		line_dec_sig(l, at);
	}
	line_str_sig(l, " of ");
	line_str_sig(l, s.object[0] ? s.object : "the program");
}

/* at: what may be a thread-local, from the pthread_self() of its thread. */
static bool name_if_one(struct line *l, ptrdiff_t at)
{
	if (at < astray.lo || at >= astray.hi || astray_is_own(at))
		return false;
	if (at >= astray.errno_at && at < astray.errno_at + (ptrdiff_t)sizeof(int)) {
		line_str_sig(l, "errno");
		return true;
	}
	for (int i = 0; i < astray.n; i++) {
		if (is_of(&astray.modules[i], at)) {
			name_it(l, &astray.modules[i], (uint64_t)(at - astray.modules[i].at));
			return true;
		}
	}
	return false;
}

__attribute__((no_sanitize("address", "thread"))) bool astray_find(struct g *gp, struct line *l)
{
	uintptr_t former = astray.left[g_index(gp)];
	const char *top = gp->stack + ((size_t)1 << gp->stack_class);

	if (former == 0 || former == (uintptr_t)pthread_self())
		return false;
	for (const uintptr_t *word = gp->ctx.sp; (const char *)word < top; word++) {
		if (name_if_one(l, (ptrdiff_t)(*word - former)))
			return true;
	}
	return false;
}

/* --- begin and end --- */

int astray_begin(void)
{
	pthread_t helper;
	int err;

	memset(&astray, 0, sizeof(astray));
	err = os_thread_start(&helper, look_at_self, NULL, HELPER_STACK);
	if (err)
		return err;
	pthread_join(helper, NULL);
	astray.bytes = round_up((size_t)sched.options.c.max_green * sizeof(uintptr_t), PAGE);
	astray.left = os_reserve(astray.bytes);
	return astray.left ? 0 : -ENOMEM;
}

void astray_end(void)
{
	if (astray.left)
		os_release(astray.left, astray.bytes);
	astray.left = NULL;
}
