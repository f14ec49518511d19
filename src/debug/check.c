/* SPDX-License-Identifier: MIT */
/*
 * What does the program do that C allows and green threads do not get on with?  GMP_DEBUG=check looks;
 * gmp.h says for what.
 *
 * sched.on_leave and sched.on_exit are called on g0, when the green thread is off its stack and nobody
 * else can have it yet: so that its calls can be followed as those of a parked one; sched.on_arrive when
 * it is about to go on, on the thread where it will.  Where nobody checks, these are NULL, and the steps
 * that would ask them are not taken (park_init).
 *
 *   mutexes     libgmprtcheck (check/mutexes.c) counts those that the thread holds; it is found by name
 *   canaries    a list for each green thread, in a table beside the descriptors
 *   strays      addresses of thread-locals that have moved to another thread: astray.h
 *   handlers    the kernel's frame of a signal stands between the wait and the entry, or the wait is
 *               not on the green thread's stack at all
 *   long runs   are the watcher's find (sysmon.c), and told by the thread itself (signal.c)
 *   stacks      what was touched is known page by page (mincore), and within the last page by the first
 *               byte that is not 0; so each stack is emptied when its user ends, and the watcher does
 *               not give the memory of parked ones back
 *
 * Invariants
 *  K1 The table of entries is written by atomic steps: many Ms see green threads end.
 *  K2 A kind of finding is told MOST_TOLD times, and the program goes on; but for a wait in a handler.
 */
#include "debug/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "debug/astray.h"
#include "allgs.h"
#include "unwind.h"

enum { MOST_TOLD = 10, ENTRIES = 512, CHUNK_PAGES = 512 };

/* check/mutexes.c: how many this thread holds, the last one, and where that was locked. */
typedef int (*held_fn)(const void **mutex, const void **where);

struct entry {
	gmp_fn fn;    /* (a) NULL: free */
	uint64_t n;   /* (a) */
	size_t most;  /* (a) bytes */
	size_t class; /* (a) reserved for that one */
};

static struct {
	held_fn held;
	gmp_canary **canaries; /* by g_index; each owned by its green thread */
	size_t bytes;
	uint32_t told_mutex, told_canary, told_stray; /* (a) */
	struct entry entries[ENTRIES];
	uint32_t lost; /* (a) green threads whose entry function found no place */
} check;

/* --- telling --- */

static void tell(const struct g *gp, const char *kind, const char *what, const struct trace *t)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, kind);
	line_green_sig(&l, gp->id, g_name(gp), (uintptr_t)gp->fn);
	line_str_sig(&l, what);
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
	for (int i = 0; i < t->n; i++) {
		line_frame_sig(&l, i, t->pc[i]);
		line_write_sig(&l, STDERR_FILENO);
	}
}

static bool may_tell(uint32_t *told)
{
	return add_rlx(told, 1) < MOST_TOLD;
}

/* --- at a wait --- */

static void look_for_mutex(const struct g *gp, const struct trace *t)
{
	const void *mutex, *where;
	struct line l = { .n = 0 };

	if (!check.held || check.held(&mutex, &where) == 0 || !may_tell(&check.told_mutex))
		return;
	line_str_sig(&l, " waits with a pthread mutex held: ");
	line_hex_sig(&l, (uintptr_t)mutex);
	line_str_sig(&l, ", locked in ");
	line_sym_sig(&l, (uintptr_t)where);
	l.text[l.n] = '\0';
	tell(gp, "gmp: check: ", l.text, t);
}

static void look_for_canary(const struct g *gp, const struct trace *t)
{
	const gmp_canary *c = check.canaries[g_index(gp)];
	struct line l = { .n = 0 };

	if (!c || gp->pins || gp->turn & TURN_BOUND || !may_tell(&check.told_canary))
		return;
	line_str_sig(&l, " waits with the address of a thread-local held: ");
	line_str_sig(&l, c->what);
	l.text[min_of(l.n, sizeof(l.text) - 1)] = '\0';
	tell(gp, "gmp: check: ", l.text, t);
}

static void on_leave(struct g *gp)
{
	char *sp = gp->ctx.sp, *hi = gp->stack + ((size_t)1 << gp->stack_class);
	struct trace t;

	trace_parked(&t, &gp->ctx, NULL, NULL);
	if (t.in_handler || sp < gp->stack || sp >= hi) {
		tell(gp, "gmp: fatal: ", " waits in a signal handler", &t);
		abort();
	}
	look_for_mutex(gp, &t);
	look_for_canary(gp, &t);
	astray_leave(gp);
}

/* --- after it --- */

static void on_arrive(struct g *gp)
{
	struct line l = { .n = 0 };
	struct trace t;

	line_str_sig(&l,
		     " is on another thread now, and holds the address of a thread-local of the "
		     "former: ");
	if (!astray_find(gp, &l) || !may_tell(&check.told_stray))
		return;
	l.text[min_of(l.n, sizeof(l.text) - 1)] = '\0';
	trace_parked(&t, &gp->ctx, NULL, NULL);
	tell(gp, "gmp: check: ", l.text, &t);
}

/* --- canaries --- */

static gmp_canary **own_canaries(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();

	return m && check.canaries ? &check.canaries[g_index(m->curg)] : NULL;
}

void gmp_canary_set(gmp_canary *c, const void *address, const char *what)
{
	gmp_canary **list = own_canaries();

	c->address = address;
	c->what = what;
	c->next = NULL;
	if (list) {
		c->next = *list;
		*list = c;
	}
}

void gmp_canary_clear(gmp_canary *c)
{
	gmp_canary **at = own_canaries();

	for (; at && *at; at = &(*at)->next) {
		if (*at == c) {
			*at = c->next;
			return;
		}
	}
}

/* --- depths of stacks --- */

/* Bytes between the top and the lowest that was ever written to.  Whatever lies there is looked at. */
__attribute__((no_sanitize("address", "thread"))) static size_t depth(const struct g *gp)
{
	char *top = stack_top(gp->stack, gp->stack_class), *at = gp->stack + PAGE;
	unsigned char there[CHUNK_PAGES];

	while (at < top) { /* the guard's page is left out */
		size_t pages = min_of((size_t)(top - at) / PAGE + 1, (size_t)CHUNK_PAGES);

		if (mincore(at, pages * PAGE, there) < 0)
			return 0;
		for (size_t i = 0; i < pages; i++, at += PAGE) {
			for (uint64_t *w = (void *)at; there[i] & 1 && (char *)w < at + PAGE; w++)
				if (*w)
					return (size_t)(top - (char *)w);
		}
	}
	return 0;
}

static struct entry *entry_of(gmp_fn fn)
{
	size_t first = ((uintptr_t)fn >> 4) * 0x9e3779b97f4a7c15u >> 32;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct entry *e = &check.entries[(first + i) % ENTRIES];
		gmp_fn none = NULL;

		if (ld_rlx(&e->fn) == fn || cas_rlx(&e->fn, &none, fn) || none == fn)
			return e;
	}
	return NULL;
}

static void note_depth(const struct g *gp)
{
	struct entry *e = entry_of(gp->fn);

	if (!e) {
		add_rlx(&check.lost, 1);
		return;
	}
	size_t bytes = depth(gp), most = ld_rlx(&e->most);

	add_rlx(&e->n, 1);
	while (bytes > most && !cas_rlx(&e->most, &most, bytes))
		;
	if (bytes >= most)
		st_rlx(&e->class, (size_t)1 << gp->stack_class);
}

static void on_exit_of(struct g *gp)
{
	note_depth(gp);
	check.canaries[g_index(gp)] = NULL;
	madvise(gp->stack + PAGE, ((size_t)1 << gp->stack_class) - PAGE, MADV_DONTNEED);
}

static int by_depth(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->most < y->most) - (x->most > y->most);
}

static void print_depths(void)
{
	struct line name;

	qsort(check.entries, ENTRIES, sizeof(check.entries[0]), by_depth);
	if (!check.entries[0].fn)
		return;
	fprintf(stderr, "gmp: check: deepest stacks, by entry function\n");
	fprintf(stderr, "gmp: check: %10s %10s %13s  entry\n", "bytes", "reserved",
		"green threads");
	for (size_t i = 0; i < ENTRIES && check.entries[i].fn; i++) {
		const struct entry *e = &check.entries[i];

		name.n = 0, name.names = NULL;
		line_sym_sig(&name, (uintptr_t)e->fn);
		fprintf(stderr, "gmp: check: %10zu %10zu %13llu  %.*s\n", e->most, e->class,
			(unsigned long long)e->n, (int)name.n, name.text);
	}
	if (check.lost)
		fprintf(stderr, "gmp: check: and %u green threads with other entry functions\n",
			check.lost);
}

/* --- begin and end --- */

int check_begin(void)
{
	if (!(sched.options.debug & DEBUG_check))
		return 0;
	memset(&check, 0, sizeof(check));
	check.bytes = round_up((size_t)sched.options.c.max_green * sizeof(gmp_canary *), PAGE);
	check.canaries = os_reserve(check.bytes);
	if (!check.canaries)
		return -ENOMEM;
	int err = astray_begin();

	if (err) {
		os_release(check.canaries, check.bytes);
		check.canaries = NULL;
		return err;
	}
	check.held = (held_fn)dlsym(RTLD_DEFAULT, "gmp_check_mutexes");
	sched.on_leave = on_leave;
	sched.on_exit = on_exit_of;
	sched.on_arrive = on_arrive;
	return 0;
}

/* No green thread runs any more; their stacks are there yet. */
void check_end(void)
{
	if (!check.canaries)
		return;
	for (uint32_t i = 0; i < g_made(); i++)
		if (ld_rlx(&g_at(i)->status) != G_FREE && g_at(i)->stack)
			note_depth(g_at(i));
	print_depths();
	os_release(check.canaries, check.bytes);
	check.canaries = NULL;
	astray_end();
}
