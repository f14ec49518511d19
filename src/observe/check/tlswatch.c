/* SPDX-License-Identifier: MIT */
/*
 * Thread-local values: finds variables that a green thread wrote and that have another value after
 * a wait.
 *
 * A thread-local belongs to an OS thread. During a wait other green threads run there, and the wait
 * may end on another OS thread.
 *
 *   1. When a G leaves its stack, the values are compared with those of the last switch on this OS
 *      thread. A difference was written by this G.
 *   2. The values of the OS thread are copied to the record of the G.
 *   3. When the G continues, the copies of the variables that it wrote are compared with the values
 *   of
 *      the OS thread that it continues on.
 *
 * A variable does not count as written if its value at the wait is that of a new OS thread: a
 * variable that is reset before the wait, as `current = NULL`, is not reported.
 *
 * Compared: variables of the program and of libraries that are not the system's
 * (object_is_systems), by their symbols; words of 8 bytes in an object without symbols. At most
 * VAR_MOST bytes of a variable, VALUES_MOST bytes and VARS_MOST variables in all.
 * Not compared: libraries loaded later, a static program, OS threads after the first MS_MOST of a
 * run, values that differ only between two calls without a wait.
 *
 * Invariants
 *   - Only its own OS thread reads a thread-local.
 *   - Only the M that runs a G accesses the record of the G, on g0. Only the M itself
 *     accesses the record of an M.
 */
#include "observe/check/tlswatch.h"

#include <string.h>

#include "base/os.h"
#include "base/symtab.h"
#include "g.h"
#include "observe/check/tlsleak.h"

enum {
	VARS_MOST = 256,
	VAR_MOST = 256,
	VALUES_MOST = 4096,
	MS_MOST = 4096,
	WORD = 8,
	HELPER_STACK = 256 * 1024,
};

struct var {
	ptrdiff_t at; /* from pthread_self() */
	uint32_t size, slot;
	uint32_t reports; /* (a) changes found; only the first one is reported at once */
	const struct tls_module *module;
	char name[40];
};

struct g_record {
	uint32_t m;              /* id + 1 of the M that the G left */
	bool written[VARS_MOST]; /* by the G */
	unsigned char values[];  /* at the last wait */
};

struct m_record {
	bool known;                 /* the record is filled */
	uint64_t writer[VARS_MOST]; /* id of the G that wrote the variable last; 0: none */
	unsigned char values[];     /* at the last switch */
};

static struct {
	struct var vars[VARS_MOST];
	int n;
	size_t bytes; /* of all values */
	char *gs, *ms;
	size_t g_size, m_size, gs_bytes, ms_bytes;
	unsigned char fresh[VALUES_MOST];   /* on a new OS thread */
	unsigned char starter[VALUES_MOST]; /* on the OS thread that starts the run */
} watch;

#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread")))

static struct g_record *record_of_g(const struct g *gp)
{
	return (struct g_record *)(watch.gs + g_index(gp) * watch.g_size);
}

static struct m_record *record_of_m(const struct m *m)
{
	if (!watch.gs || m->id >= MS_MOST)
		return NULL;
	struct m_record *r = (struct m_record *)(watch.ms + (size_t)m->id * watch.m_size);

	if (!r->known) {
		memcpy(r->values, m->ours ? watch.fresh : watch.starter, watch.bytes);
		r->known = true;
	}
	return r;
}

/* --- the variables --- */

static const unsigned char *here(const struct var *v)
{
	return (const unsigned char *)((uintptr_t)pthread_self() + (uintptr_t)v->at);
}

NOT_SANITIZED static bool values_equal(const volatile unsigned char *a, const unsigned char *b,
				       size_t n)
{
	while (n--)
		if (a[n] != b[n])
			return false;
	return true;
}

NOT_SANITIZED static void values_copy(unsigned char *to, const volatile unsigned char *from,
				      size_t n)
{
	while (n--)
		to[n] = from[n];
}

/* Copy the values of all variables on this OS thread. */
static void values_copy_all(unsigned char *to)
{
	for (int i = 0; i < watch.n; i++)
		values_copy(to + watch.vars[i].slot, here(&watch.vars[i]), watch.vars[i].size);
}

static void add_var(const struct tls_module *module, const char *name, uint64_t at, uint64_t size)
{
	size = min_of(size, (uint64_t)VAR_MOST);
	if (watch.n == VARS_MOST || watch.bytes + size > VALUES_MOST || at + size > module->size ||
	    tlsleak_is_own(module->at + (ptrdiff_t)at))
		return;
	struct var *v = &watch.vars[watch.n++];

	*v = (struct var){ .at = module->at + (ptrdiff_t)at, .size = (uint32_t)size };
	v->slot = (uint32_t)watch.bytes;
	v->module = module;
	watch.bytes += size;
	for (size_t i = 0; i < sizeof(v->name) - 1 && name[i]; i++)
		v->name[i] = name[i];
}

/* Return whether the name belongs to the compiler or a sanitizer. */
static bool is_reserved(const char *name)
{
	return (name[0] == '_' && name[1] == '_') || strstr(name, "_sanitizer") ||
	       strstr(name, "__asan") || strstr(name, "__tsan") || strstr(name, "__lsan");
}

static void add_symbol(void *module, const char *name, uint64_t at, uint64_t size)
{
	if (!is_reserved(name))
		add_var(module, name, at, size);
}

static void find_vars(void)
{
	const struct tls_module *m;
	int n = tlsleak_modules(&m);

	for (; n > 0; n--, m++) {
		if (!m->programs || symtab_each_local(m->there, add_symbol, (void *)(uintptr_t)m))
			continue;
		for (uint64_t at = 0; at + WORD <= m->size; at += WORD)
			add_var(m, "", at, WORD);
	}
}

/* Runs on a new OS thread. */
static void *read_fresh(void *unused)
{
	values_copy_all(watch.fresh);
	return unused;
}

/* --- at a switch --- */

/* Step 1: updates the record of m, and g->written. */
NOT_SANITIZED static void compare(struct m *m, const struct g *gp, struct g_record *g)
{
	struct m_record *r = record_of_m(m);

	for (int i = 0; r && i < watch.n; i++) {
		const struct var *v = &watch.vars[i];
		const unsigned char *now = here(v);

		if (!values_equal(now, r->values + v->slot, v->size)) {
			values_copy(r->values + v->slot, now, v->size);
			r->writer[i] = gp->id;
			g->written[i] = true;
		}
		if (values_equal(now, watch.fresh + v->slot, v->size))
			g->written[i] = false;
	}
}

bool tlswatch_leave(struct m *m, const struct g *gp)
{
	if (!watch.gs)
		return false;
	struct g_record *g = record_of_g(gp);

	compare(m, gp, g);
	values_copy_all(g->values);
	g->m = (uint32_t)m->id + 1;
	return memchr(g->written, true, sizeof(g->written));
}

void tlswatch_exit(struct m *m, const struct g *gp)
{
	if (!watch.gs)
		return;
	struct g_record *g = record_of_g(gp);

	compare(m, gp, g);
	memset(g->written, 0, sizeof(g->written));
}

/* `counter of libx.so` */
static void name_var(struct line *l, const struct var *v)
{
	if (v->name[0])
		line_str_sig(l, v->name);
	else
		line_add_sig(l, "at byte %lu", (uint64_t)(v->at - v->module->at));
	if (v->module->name[0])
		line_add_sig(l, " of %s", v->module->name);
}

void tlswatch_name_writer(struct line *l, const char *did, uint64_t writer, bool moved)
{
	line_str_sig(l, " and finds another value after a wait: ");
	if (writer)
		line_add_sig(l, "green thread %lu %s it on %s", writer, did,
			     moved ? "the OS thread that the wait ended on" : "this OS thread");
	else
		line_add_sig(l, "the wait ended on another OS thread, where no green thread %s it",
			     did);
}

NOT_SANITIZED bool tlswatch_arrive(struct m *m, const struct g *gp, struct line *l)
{
	struct m_record *r = record_of_m(m);

	if (!watch.gs || !r)
		return false;
	struct g_record *g = record_of_g(gp);

	for (int i = 0; i < watch.n; i++) {
		struct var *v = &watch.vars[i];

		if (!g->written[i] || values_equal(here(v), g->values + v->slot, v->size))
			continue;
		g->written[i] = false;
		if (add_rlx(&v->reports, 1) == 0) {
			name_var(l, v);
			tlswatch_name_writer(l, "wrote", r->writer[i], g->m != (uint32_t)m->id + 1);
			return true;
		}
	}
	return false;
}

uint32_t tlswatch_changes(int *i, struct line *l)
{
	for (; watch.gs && *i < watch.n; ++*i) {
		const struct var *v = &watch.vars[*i];
		uint32_t n = ld_rlx(&v->reports);

		if (!n)
			continue;
		name_var(l, v);
		++*i;
		return n;
	}
	return 0;
}

/* --- begin and end --- */

static void *tlswatch_reserve(size_t n, size_t size, size_t *bytes)
{
	*bytes = round_up(n * size, PAGE);
	return os_reserve(*bytes);
}

void tlswatch_begin(void)
{
	pthread_t helper;

	memset(&watch, 0, sizeof(watch));
	find_vars();
	if (watch.n == 0 || os_thread_start(&helper, read_fresh, NULL, HELPER_STACK, NULL))
		return;
	pthread_join(helper, NULL);
	values_copy_all(watch.starter);
	watch.g_size = round_up(sizeof(struct g_record) + watch.bytes, (size_t)WORD);
	watch.m_size = round_up(sizeof(struct m_record) + watch.bytes, (size_t)WORD);
	watch.ms = tlswatch_reserve(MS_MOST, watch.m_size, &watch.ms_bytes);
	watch.gs = tlswatch_reserve(sched.options.c.max_green, watch.g_size, &watch.gs_bytes);
	if (!watch.ms || !watch.gs)
		tlswatch_end();
}

void tlswatch_end(void)
{
	os_release(watch.gs, watch.gs_bytes);
	os_release(watch.ms, watch.ms_bytes);
	watch.gs = watch.ms = NULL;
}
