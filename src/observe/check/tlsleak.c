/* SPDX-License-Identifier: MIT */
/* Stale addresses of thread-locals: see observe/check/tlsleak.h. */
#include "observe/check/tlsleak.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/finding.h"
#include "base/os.h"
#include "base/symtab.h"
#include "g.h"

enum { MODULES = 64, HELPER_STACK = 256 * 1024 };

static struct {
	/* by g_index: pthread_self() of the OS thread that the G left; 0: the G has not begun, or
	 * is pinned or bound */
	uintptr_t *left;
	size_t bytes;
	struct tls_module modules[MODULES];
	int n;
	/* distances from pthread_self() */
	ptrdiff_t errno_at;           /* not every libc has a symbol for errno */
	ptrdiff_t lo, hi;             /* bounds of all modules */
	ptrdiff_t own_at[OWN_LOCALS]; /* the runtime's thread-locals, never stale */
	size_t own_size[OWN_LOCALS];
	int own;
} tlsleak;

/* --- layout --- */

static ptrdiff_t from_self(const void *p)
{
	return (ptrdiff_t)((uintptr_t)p - (uintptr_t)pthread_self());
}

/* Returns false for modules of the system, and for a static program, which contains those of libc.
 */
static bool name_module(struct tls_module *m, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	snprintf(m->name, sizeof(m->name), "%s", base);
	return getauxval(AT_BASE) && !object_is_systems(base);
}

static int note_module(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct tls_module *m = &tlsleak.modules[tlsleak.n];

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
	tlsleak.lo = min_of(tlsleak.lo, m->at);
	tlsleak.hi = max_of(tlsleak.hi, m->at + (ptrdiff_t)m->size);
	return ++tlsleak.n == MODULES;
}

/* Runs on a new OS thread, which has only the thread-locals of TLSLEAK-1. */
static void *read_layout(void *unused)
{
	struct own_local own[OWN_LOCALS];

	tlsleak.own = gmp__own_locals(own);
	for (int i = 0; i < tlsleak.own; i++) {
		tlsleak.own_at[i] = from_self(own[i].at);
		tlsleak.own_size[i] = own[i].size;
	}
	tlsleak.errno_at = from_self(gmp_errno_here());
	tlsleak.lo = PTRDIFF_MAX;
	tlsleak.hi = PTRDIFF_MIN;
	dl_iterate_phdr(note_module, NULL);
	return unused;
}

/* --- at a switch --- */

void tlsleak_leave(struct g *gp)
{
	bool stays = gp->pins || gp->resume & RESUME_BOUND;

	tlsleak.left[g_index(gp)] = stays ? 0 : (uintptr_t)pthread_self();
	if (!stays)
		gp->resume |= RESUME_OBSERVED;
}

static bool is_of(const struct tls_module *m, ptrdiff_t at)
{
	return at >= m->at && at < m->at + (ptrdiff_t)m->size;
}

bool tlsleak_is_own(ptrdiff_t at)
{
	for (int i = 0; i < tlsleak.own; i++)
		if (at >= tlsleak.own_at[i] &&
		    at < tlsleak.own_at[i] + (ptrdiff_t)tlsleak.own_size[i])
			return true;
	return false;
}

int tlsleak_modules(const struct tls_module **modules)
{
	*modules = tlsleak.modules;
	return tlsleak.n;
}

static void name_local(struct line *l, const struct tls_module *m, uint64_t at)
{
	struct symbol s;

	symtab_find_local_sig(m->there, at, &s);
	if (!s.exact)
		line_add_sig(l, "byte %lu", at);
	else if (s.offset)
		line_add_sig(l, "%s+%lu", s.name, s.offset);
	else
		line_str_sig(l, s.name);
	line_add_sig(l, " of %s", s.object[0] ? s.object : "the program");
}

/* Append the name of the thread-local at this distance from pthread_self(). Returns false if there
 * is none. */
static bool name_if_local(struct line *l, ptrdiff_t at)
{
	if (at < tlsleak.lo || at >= tlsleak.hi || tlsleak_is_own(at))
		return false;
	if (at >= tlsleak.errno_at && at < tlsleak.errno_at + (ptrdiff_t)sizeof(int)) {
		line_str_sig(l, "errno");
		return true;
	}
	for (int i = 0; i < tlsleak.n; i++) {
		if (is_of(&tlsleak.modules[i], at)) {
			name_local(l, &tlsleak.modules[i], (uint64_t)(at - tlsleak.modules[i].at));
			return true;
		}
	}
	return false;
}

__attribute__((no_sanitize("address", "thread"))) bool tlsleak_find(struct g *gp, struct line *l)
{
	uintptr_t former = tlsleak.left[g_index(gp)];
	const char *top = gp->stack + ((size_t)1 << gp->stack_class);

	if (former == 0 || former == (uintptr_t)pthread_self())
		return false;
	for (const uintptr_t *word = gp->ctx.sp; (const char *)word < top; word++) {
		if (name_if_local(l, (ptrdiff_t)(*word - former)))
			return true;
	}
	return false;
}

/* --- begin and end --- */

int tlsleak_begin(void)
{
	pthread_t helper;
	int err;

	memset(&tlsleak, 0, sizeof(tlsleak));
	err = os_thread_start(&helper, read_layout, NULL, HELPER_STACK, NULL);
	if (err)
		return err;
	pthread_join(helper, NULL);
	tlsleak.bytes = round_up((size_t)sched.options.c.max_green * sizeof(uintptr_t), PAGE);
	tlsleak.left = os_reserve(tlsleak.bytes);
	return tlsleak.left ? 0 : -ENOMEM;
}

void tlsleak_end(void)
{
	os_release(tlsleak.left, tlsleak.bytes);
	tlsleak.left = NULL;
}
