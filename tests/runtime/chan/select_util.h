/* SPDX-License-Identifier: MIT */
/*
 * Helpers for the select tests: cases for each kind of thread, partners, and untouched elements.
 *
 * EVERYWHERE(name) { ... } is six cases: on a green thread at 1, 2 and 4 Ps, with green partners;
 * /external: on an external thread, with green partners; /external_partners: on a green thread,
 * with external partners; /without_runtime: on an external thread, with external partners.
 */
#ifndef TESTS_RUNTIME_SELECT_UTIL_H
#define TESTS_RUNTIME_SELECT_UTIL_H

#include <sys/syscall.h>

#include "util.h"

static int partners_are_green;

struct place {
	void (*body)(void);
};

UNUSED static void body_here(void *arg)
{
	((struct place *)arg)->body();
}

/* The caller stays an external thread. */
UNUSED static void beside_runtime(int procs, void (*body)(void))
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	CHECK_EQ(gmp_start(&cfg), 0);
	body();
	CHECK_EQ(gmp_stop(), 0);
}

#define EVERYWHERE(name)                                                                           \
	static void name##_body(void);                                                             \
	static struct place name##_place = { name##_body };                                        \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		partners_are_green = 1;                                                            \
		run_procs(procs, body_here, &name##_place);                                        \
	}                                                                                          \
	static void name##_external(int procs)                                                     \
	{                                                                                          \
		partners_are_green = 1;                                                            \
		beside_runtime(procs, name##_body);                                                \
	}                                                                                          \
	static void name##_external_partners(int procs)                                            \
	{                                                                                          \
		run_procs(procs, body_here, &name##_place);                                        \
	}                                                                                          \
	static void name##_without_runtime(UNUSED int procs)                                       \
	{                                                                                          \
		name##_body();                                                                     \
	}                                                                                          \
	CHECK_CASE_(case_##name##_external_, #name "/external", name##_external, 2)                \
	CHECK_CASE_(case_##name##_external_partners_, #name "/external_partners",                  \
		    name##_external_partners, 2)                                                   \
	CHECK_CASE_(case_##name##_without_runtime_, #name "/without_runtime",                      \
		    name##_without_runtime, 0)                                                     \
	static void name##_body(void)

/* --- partners --- */

struct partner {
	gmp_fn fn;
	void *arg;
	gmp_g *g;
	struct ext_thread f;
	atomic_int tid; /* of an external partner that has begun */
};

UNUSED static void external_partner(void *arg)
{
	struct partner *p = arg;

	atomic_store(&p->tid, (int)syscall(SYS_gettid));
	p->fn(p->arg);
}

UNUSED static void partner_start(struct partner *p, gmp_fn fn, void *arg)
{
	p->fn = fn;
	p->arg = arg;
	atomic_store(&p->tid, 0);
	if (partners_are_green)
		p->g = spawn(fn, arg);
	else
		ext_thread_start(&p->f, external_partner, p);
}

UNUSED static void partner_join(struct partner *p)
{
	if (partners_are_green)
		join(p->g);
	else
		ext_thread_join(&p->f);
}

UNUSED static int sleeps(struct partner *p)
{
	char path[64], line[512] = { 0 };
	int tid = atomic_load(&p->tid);

	if (!tid)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	FILE *f = fopen(path, "re");
	char *name_end = NULL;

	if (f) {
		if (fgets(line, sizeof(line), f))
			name_end = strrchr(line, ')');
		fclose(f);
	}
	return name_end && name_end[1] && name_end[2] == 'S';
}

/* Wait until all n partners wait. Green partners are the only waiting Gs. */
UNUSED static void partners_wait(struct partner *p, int n)
{
	if (partners_are_green) {
		wait_parked((uint64_t)n);
		return;
	}
	for (int i = 0; i < n; i++)
		WAIT_FOR(sleeps(&p[i]));
}

/* --- selectors --- */

enum { UNTOUCHED = 0x55aa };

struct selector {
	gmp_case *cs;
	int n, result;
	int64_t deadline;
	atomic_int done;
};

UNUSED static void do_select(void *arg)
{
	struct selector *s = arg;

	s->result = gmp_select_until(s->cs, s->n, s->deadline);
	atomic_store(&s->done, 1);
}

UNUSED static void selector_start(struct partner *p, struct selector *s)
{
	atomic_store(&s->done, 0);
	for (int i = 0; i < s->n; i++)
		s->cs[i].status = UNTOUCHED;
	partner_start(p, do_select, s);
}

/* Only case `ran` (-1: none) has its status set. */
UNUSED static void check_statuses(const gmp_case *cs, int n, int ran, int status)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(cs[i].status, i == ran ? status : UNTOUCHED);
}

/* --- channels of int --- */

UNUSED static gmp_chan *chan(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), capacity);

	CHECK(c != NULL);
	return c;
}

UNUSED static void send_int(gmp_chan *c, int v)
{
	CHECK_EQ(gmp_chan_send(c, &v), 0);
}

UNUSED static int recv_int(gmp_chan *c)
{
	int v = UNTOUCHED;

	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	return v;
}

/* No waiter is queued on c, which is open and unbuffered. */
UNUSED static void check_idle(gmp_chan *c)
{
	int v = UNTOUCHED;

	CHECK_EQ(gmp_chan_cap(c), 0);
	CHECK_EQ(gmp_chan_try_send(c, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
	CHECK_EQ(v, UNTOUCHED);
}

/* `hits` of `trials` draws fit probability 1/k; chance fails this once in 10^10. */
UNUSED static void check_one_in(int k, int hits, int trials)
{
	double mean = (double)trials / k, off = hits - mean;

	if (off * off > 42.0 * mean * (1 - 1.0 / k) + 1)
		check_failed("%d of %d is not one in %d", hits, trials, k);
}

#endif
