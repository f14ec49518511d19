/* SPDX-License-Identifier: MIT */
/*
 * GMP_DEBUG=check: finds uses of C that are correct in OS threads and wrong in green threads.
 *
 * The scheduler calls hooks (sched.up) on g0: on_leave and on_exit after the G has left its stack
 * and before another M can take it, so that its backtrace is that of a parked G; on_arrive
 * before it continues, on the OS thread where it does. Without the check the hooks are NULL, and
 * the scheduler skips the steps that call them (variant/leave.h).
 *
 *   mutexes     pthread mutexes that the OS thread holds at a wait: counted by libgmprtcheck
 *               (check/mutexes.c), which is found by the name of its function. Not at waits of Gs
 *               with GMP_OWN_TLS: they own their mutexes
 *   canaries    gmp_canary marks that are set at a wait: a list for each G, in a table by g_index
 *   strays      stale addresses of thread-locals after a migration: tlsleak.h
 *   values      thread-locals that a G wrote and finds changed: tlswatch.c; pthread keys:
 *               keywatch.c
 *   handlers    waits in a signal handler: the kernel's signal frame is between the wait and the
 *               entry function, or the wait is not on the stack of the G
 *   long runs   found by sysmon: observe/longrun.c
 *   stacks      the deepest use of each stack: mincore gives the touched pages, and the first byte
 *               that is not 0 the depth in the last one. So each stack is emptied at the end of its
 *               G, and sysmon does not trim stacks of parked Gs
 *
 * Invariants
 *   -        The table of entries is written by atomic operations, since several Ms end Gs at a
 *            time.
 *   -        A finding is written once per place, at most FINDINGS_MOST times per kind, and the
 *            program continues. A wait in a signal handler ends the process.
 *   CHECK-3  The time of a check does not count as run time of the G (run_pause).
 */
#include "observe/check/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/finding.h"
#include "base/object.h"
#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "g.h"
#include "machine/unwind.h"
#include "observe/check/keywatch.h"
#include "observe/check/tlsleak.h"
#include "observe/check/tlswatch.h"
#include "observe/pause.h"

enum { ENTRIES = 512, CHUNK_PAGES = 512 };

/* check/mutexes.c: returns how many mutexes this OS thread holds, with the last one and the place
 * of its lock. */
typedef int (*held_fn)(const void **mutex, const void **where);

struct entry {
	gmp_fn fn;    /* (a) NULL: free */
	uint64_t n;   /* (a) Gs with this entry function */
	size_t most;  /* (a) bytes of the deepest stack */
	size_t class; /* (a) bytes reserved for that stack */
};

static struct {
	held_fn held;
	gmp_canary **canaries; /* by g_index; only the G accesses its list */
	size_t bytes;
	struct findings mutexes, canaries_held, strays, changes;
	struct entry entries[ENTRIES];
	uint32_t lost; /* (a) Gs whose entry function did not fit into `entries` */
} check;

/* --- reports --- */

/* `gmp: check: green thread 7 "x" (entry f)` */
static void begin_finding(struct line *l, const char *kind, const struct g *gp,
			  const struct trace *t)
{
	l->n = 0;
	l->names = NULL;
	line_str_sig(l, kind);
	line_green_sig(l, gp->id, g_name(gp), finding_entry((uintptr_t)gp->fn, t));
}

static void end_finding(struct line *l, const char *what, const struct trace *t, bool sig)
{
	struct line advice = { .n = 0 };

	line_str_sig(&advice, what);
	finding_write(l, &advice, t, sig);
}

/* --- at a wait --- */

static void check_mutexes(const struct g *gp, const struct trace *t)
{
	const void *mutex, *where;
	struct line l;

	if (!check.held || check.held(&mutex, &where) == 0 ||
	    !finding_wanted(&check.mutexes, finding_wait(t, where)))
		return;
	begin_finding(&l, "gmp: check: ", gp, t);
	line_add_sig(&l, " waits with a pthread mutex held: 0x%lx, locked in ", (uintptr_t)mutex);
	finding_place(&l, (uintptr_t)where - 1); /* a return address */
	end_finding(&l,
		    "the next green thread on this OS thread that locks it waits forever: unlock "
		    "it before the wait, use gmp_mutex, or give all green threads that lock it "
		    "the flag GMP_OWN_TLS (the green thread then owns the mutex; a contender still "
		    "blocks its OS thread)",
		    t, false);
}

static void check_canaries(const struct g *gp, const struct trace *t)
{
	const gmp_canary *c = check.canaries[g_index(gp)];
	struct line l;

	if (!c || gp->pins || gp->resume & RESUME_BOUND ||
	    !finding_wanted(&check.canaries_held, finding_wait(t, c->what)))
		return;
	begin_finding(&l, "gmp: check: ", gp, t);
	line_add_sig(&l, " waits with the address of a thread-local held: %s", c->what);
	end_finding(&l,
		    "the wait may end on another OS thread: end the use before it, or pin the "
		    "green thread "
		    "(gmp_pin, gmp_lock_thread)",
		    t, false);
}

/* End the process if gp waits in a signal handler, or outside its stack. A stack pointer below the
 * stack, without a handler, is an overflow by a frame larger than the guard: the frame has
 * overwritten memory below the guard. */
static void check_bounds(const struct g *gp, const struct trace *t)
{
	const char *sp = gp->ctx.sp, *lo = gp->stack;
	struct line l;

	if (!t->in_handler && sp >= lo && sp < lo + ((size_t)1 << gp->stack_class))
		return;
	begin_finding(&l, "gmp: fatal: ", gp, t);
	if (!t->in_handler && sp < lo && lo - sp <= (ptrdiff_t)1 << STACK_CLASS_MAX) {
		line_add_sig(
			&l,
			" waits with its stack pointer %lu bytes below its stack of %lu bytes: "
			"stack overflow by a frame larger than the guard?",
			(uint64_t)(lo - sp), (uint64_t)1 << gp->stack_class);
		end_finding(&l,
			    "raise gmp_attr.stack_size or GMP_STACK_SIZE, or move large arrays to "
			    "the heap",
			    t, true);
		abort();
	}
	line_str_sig(&l, " waits in a signal handler");
	end_finding(&l,
		    "a handler may only make async-signal-safe calls: set a flag, or use "
		    "gmp_signal_notify in place of a handler",
		    t, true); /* the handler may have interrupted malloc */
	abort();
}

static void on_leave(struct g *gp)
{
	struct p *paused = run_pause(); /* CHECK-3 */
	struct trace t;

	trace_parked(&t, &gp->ctx, NULL, NULL);
	check_bounds(gp, &t);
	check_canaries(gp, &t);
	if (!(gp->resume & RESUME_OWN_TLS)) {
		check_mutexes(gp, &t);
		tlsleak_leave(gp);
		bool locals = tlswatch_leave(getm(), gp), keys = keywatch_leave(getm(), gp);

		if (locals || keys)
			gp->resume |= RESUME_OBSERVED;
	}
	run_resume(paused);
}

/* --- after it --- */

/* Hash a text, as the subject of a finding (finding_wait). */
static const void *text_subject(const struct line *l)
{
	uintptr_t h = 0;

	for (size_t i = 0; i < l->n; i++)
		h = h * 31 + (unsigned char)l->text[i];
	return (const void *)h;
}

static void check_strays(struct g *gp)
{
	struct line l, what = { .n = 0 };
	struct trace t;

	if (!tlsleak_find(gp, &what))
		return;
	trace_parked(&t, &gp->ctx, NULL, NULL);
	if (!finding_wanted(&check.strays, finding_wait(&t, text_subject(&what))))
		return;
	begin_finding(&l, "gmp: check: ", gp, &t);
	what.text[min_of(what.n, sizeof(what.text) - 1)] = '\0';
	line_add_sig(&l,
		     " is on another OS thread now, and holds the address of a thread-local of the "
		     "former: %s",
		     what.text);
	end_finding(&l,
		    "compilers keep the address across calls: use the variable in a function of "
		    "its own that "
		    "is not inlined, pin the green thread (gmp_pin), or give it the flag "
		    "GMP_OWN_TLS; of errno, read gmp_errno_here()",
		    &t, false);
}

/* what: from tlswatch.c or keywatch.c, which report each variable and key once. */
static void report_change(const struct g *gp, const char *did, struct line *what,
			  const char *advice)
{
	struct line l;
	struct trace t;

	if (finding_wanted(&check.changes, (uintptr_t)text_subject(what))) {
		what->text[min_of(what->n, sizeof(what->text) - 1)] = '\0';
		trace_parked(&t, &gp->ctx, NULL, NULL);
		begin_finding(&l, "gmp: check: ", gp, &t);
		line_add_sig(&l, "%s%s", did, what->text);
		end_finding(&l, advice, &t, false);
	}
	what->n = 0;
}

static void check_values(const struct g *gp)
{
	struct line what = { .n = 0 };

	while (tlswatch_arrive(getm(), gp, &what))
		report_change(gp, " wrote thread-local ", &what,
			      "a thread-local belongs to the OS thread, which others use during a "
			      "wait: use gmp_key_create, the flag GMP_OWN_TLS, or gmp_lock_thread "
			      "from the write to the last use");
	while (keywatch_arrive(getm(), gp, &what))
		report_change(
			gp, " set pthread key ", &what,
			"its value belongs to the OS thread, which others use during a wait: use "
			"gmp_key_create, the flag GMP_OWN_TLS, or gmp_lock_thread from "
			"pthread_setspecific to the last use");
}

static void on_arrive(struct g *gp)
{
	struct p *paused = run_pause(); /* CHECK-3 */

	check_strays(gp);
	check_values(gp);
	run_resume(paused);
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

/* Return the bytes from the top of the stack to the lowest byte that is not 0. Reads all of them,
 * also redzones. */
__attribute__((no_sanitize("address", "thread"))) static size_t depth(const struct g *gp)
{
	char *top = stack_top(gp->stack, gp->stack_class), *at = gp->stack;
	unsigned char there[CHUNK_PAGES];

	while (at < top) {
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
	size_t bytes = depth(gp);

	add_rlx(&e->n, 1);
	raise_rlx(&e->most, bytes);
	if (bytes >= ld_rlx(&e->most))
		st_rlx(&e->class, (size_t)1 << gp->stack_class);
}

static void on_exit_of(struct g *gp)
{
	struct p *paused = run_pause(); /* CHECK-3 */

	note_depth(gp);
	check.canaries[g_index(gp)] = NULL;
	tlswatch_exit(getm(), gp);
	keywatch_exit(getm(), gp);
	os_discard(gp->stack, (size_t)1 << gp->stack_class);
	run_resume(paused);
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

/* --- thread-locals that have changed --- */

static void print_changes(void)
{
	struct line name = { .n = 0 };
	uint32_t n;
	bool any = false;

	for (int i = 0; (n = tlswatch_changes(&i, &name)) != 0; name.n = 0) {
		if (!any)
			fprintf(stderr, "gmp: check: thread-locals that changed during waits\n"
					"gmp: check:    changes  variable\n");
		any = true;
		fprintf(stderr, "gmp: check: %10u  %.*s\n", n, (int)name.n, name.text);
	}
	if (any)
		fprintf(stderr, "gmp: check: green threads with the flag GMP_OWN_TLS (all of them "
				"by GMP_TLS=own) have thread-locals of their own\n");
}

/* --- begin and end --- */

int check_begin(void)
{
	if (!(sched.options.debug & DEBUG_check))
		return 0;
	object_keep_all();
	memset(&check, 0, sizeof(check));
	check.bytes = round_up((size_t)sched.options.c.max_green * sizeof(gmp_canary *), PAGE);
	check.canaries = os_reserve(check.bytes);
	if (!check.canaries)
		return -ENOMEM;
	int err = tlsleak_begin();

	if (err) {
		os_release(check.canaries, check.bytes);
		check.canaries = NULL;
		return err;
	}
	tlswatch_begin();
	keywatch_begin();
	check.held = (held_fn)dlsym(RTLD_DEFAULT, "gmp_check_mutexes");
	sched.up.on_leave = on_leave;
	sched.up.on_exit = on_exit_of;
	sched.up.on_arrive = on_arrive;
	return 0;
}

/* No G runs any more; the stacks still exist. */
void check_end(void)
{
	if (!check.canaries)
		return;
	for (uint32_t i = 0; i < g_made(); i++)
		if (ld_rlx(&g_at(i)->status) != G_FREE && g_at(i)->stack)
			note_depth(g_at(i));
	print_depths();
	print_changes();
	os_release(check.canaries, check.bytes);
	check.canaries = NULL;
	keywatch_end();
	tlswatch_end();
	tlsleak_end();
}
