/* SPDX-License-Identifier: MIT */
/*
 * Tests a select whose steps interleave with those of other threads. Each case stops one thread at
 * a chosen point and lets the others act.
 *
 * floors 0..6, wrap: wait_on ready chan_unlink shutdown_kill_all gmp__unlock_check
 */
#define _GNU_SOURCE 1
#include "util.h"

#include "chan.h"
#include "park.h"
#include "step.h"

/* --- stop points --- */

/* The n-th thread that reaches an armed gate stops there until the gate is opened. */
struct gate {
	atomic_int armed; /* n: the n-th thread stops */
	atomic_int there; /* a thread has stopped at the gate */
	atomic_int open;
};

static struct gate before_commit, before_ready, before_leave;

static void arm(struct gate *g, int nth)
{
	atomic_store(&g->there, 0);
	atomic_store(&g->open, 0);
	atomic_store(&g->armed, nth);
}

static int is_mine(struct gate *g)
{
	return atomic_load(&g->armed) > 0 && atomic_fetch_sub(&g->armed, 1) == 1;
}

/* Also on g0: the OS thread waits, not the G. */
static void stop_at(struct gate *g)
{
	int64_t limit = gmp_deadline(PATIENCE);

	atomic_store(&g->there, 1);
	while (!atomic_load(&g->open)) {
		CHECK(gmp_now() < limit);
		usleep(50);
	}
}

static void pass(struct gate *g)
{
	atomic_store(&g->open, 1);
}

/* --- the steps that can be stopped --- */

int __real_wait_on(struct waiter *w, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
		   int64_t deadline);
int __wrap_wait_on(struct waiter *w, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
		   int64_t deadline);
void __real_ready(struct waiter *w);
void __wrap_ready(struct waiter *w);
void __real_chan_unlink(struct sudog *sg);
void __wrap_chan_unlink(struct sudog *sg);
void __real_gmp__unlock_check(enum lockrank rank);
void __wrap_gmp__unlock_check(enum lockrank rank);
void __real_shutdown_kill_all(void);
void __wrap_shutdown_kill_all(void);

static commit_fn late_commit, stepped_commit;
static int by_steps; /* the next commit is single-stepped on this thread */
static void commit_by_steps(void *arg);

static void commit_late(void *arg)
{
	stop_at(&before_commit);
	late_commit(arg);
}

int __wrap_wait_on(struct waiter *w, unsigned why, unwait_fn unwait, commit_fn commit, void *arg,
		   int64_t deadline)
{
	if (is_mine(&before_commit)) {
		late_commit = commit;
		commit = commit_late;
	}
	if (by_steps) {
		by_steps = 0;
		stepped_commit = commit;
		commit = commit_by_steps;
	}
	return __real_wait_on(w, why, unwait, commit, arg, deadline);
}

void __wrap_ready(struct waiter *w)
{
	if (is_mine(&before_ready))
		stop_at(&before_ready);
	__real_ready(w);
}

void __wrap_chan_unlink(struct sudog *sg)
{
	if (is_mine(&before_leave))
		stop_at(&before_leave);
	__real_chan_unlink(sg);
}

static atomic_int ms_have_ended;

void __wrap_shutdown_kill_all(void)
{
	atomic_store(&ms_have_ended, 1);
	__real_shutdown_kill_all();
}

#ifdef GMP_DEBUG_CHECKS /* other builds have no such function */
static struct gate before_unlock;

void __wrap_gmp__unlock_check(enum lockrank rank)
{
	if (rank == LR_CHAN && is_mine(&before_unlock))
		stop_at(&before_unlock);
	__real_gmp__unlock_check(rank);
}
#endif

/* --- the selecting thread, green or external --- */

enum { UNTOUCHED = 77, MOST = 100 };

struct selector {
	gmp_case cs[MOST];
	int n, result;
	int64_t deadline;
	struct gate *gate; /* armed before the select */
	int nth;
	atomic_int done;
	bool is_external;
	gmp_g *g;
	struct ext_thread f;
};

/* Overwrite the former frames of the select. */
static noinline void scribble(void)
{
	volatile char junk[12000];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (char)0xff;
}

static void select_one(void *arg)
{
	struct selector *o = arg;

	for (int i = 0; i < o->n; i++)
		o->cs[i].status = UNTOUCHED;
	if (o->gate)
		arm(o->gate, o->nth);
	o->result = gmp_select_until(o->cs, o->n, o->deadline);
	scribble();
	atomic_store(&o->done, 1);
}

static void start(struct selector *o)
{
	atomic_store(&o->done, 0);
	if (o->gate)
		atomic_store(&o->gate->there, 0);
	if (o->is_external)
		ext_thread_start(&o->f, select_one, o);
	else
		o->g = spawn(select_one, o);
}

static void finish(struct selector *o)
{
	if (o->is_external)
		ext_thread_join(&o->f);
	else
		join(o->g);
	CHECK(atomic_load(&o->done));
	for (int i = 0; i < o->n; i++)
		CHECK(i == o->result || o->cs[i].status == UNTOUCHED);
}

/* Wait until a waiter is queued on c. */
static void wait_queued(gmp_chan *c)
{
	WAIT_FOR(ld_rlx(&c->recvq.first) || ld_rlx(&c->sendq.first));
}

static gmp_chan *chan(size_t capacity)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), capacity);

	CHECK(c != NULL);
	return c;
}

static void check_no_waiters(gmp_chan *c)
{
	CHECK(c->recvq.first == NULL && c->recvq.last == NULL);
	CHECK(c->sendq.first == NULL && c->sendq.last == NULL);
	CHECK_EQ(c->lock.word, 0);
}

/*
 * Runs the body with a green and an external selector, directed from a thread that no P can delay.
 */
#define STOPPED(name)                                                                              \
	static void name##_body(struct selector *o);                                               \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		static struct selector o;                                                          \
		gmp_config cfg = GMP_CONFIG_INIT;                                                  \
                                                                                                   \
		cfg.procs = procs;                                                                 \
		CHECK_EQ(gmp_start(&cfg), 0);                                                      \
		for (int i = 0; i < 2; i++) {                                                      \
			memset((void *)&o, 0, sizeof(o));                                          \
			o.deadline = GMP_FOREVER;                                                  \
			o.is_external = i == 1;                                                    \
			name##_body(&o);                                                           \
		}                                                                                  \
		CHECK_EQ(gmp_stop(), 0);                                                           \
	}                                                                                          \
	static void name##_body(struct selector *o)

/* --- parking --- */

static void time_out_in_commit(UNUSED void *arg)
{
	struct selector o = { .n = 0, .gate = &before_commit, .nth = 1 };

	do { /* again, if the deadline passed before the call */
		o.deadline = gmp_deadline(5 * MS);
		select_one(&o);
		CHECK_EQ(o.result, -ETIMEDOUT);
	} while (!atomic_load(&before_commit.there));
	/* its former M must take the last step of the commit before it runs other Gs */
	pass(&before_commit);
}

static void time_out_app(UNUSED void *arg)
{
	join(spawn(time_out_in_commit, NULL));
}

TEST(select_without_channels_is_not_read_after_commit)
{
	run_procs(2, time_out_app, NULL); /* another P must wake the G */
	run_procs(4, time_out_app, NULL);
}

#ifdef GMP_DEBUG_CHECKS
/* Three channels, the first at the highest address: it is unlocked first. */
static void make_three(gmp_chan **c)
{
	for (int i = 0; i < 3; i++)
		c[i] = chan(0);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			if (c[k] < c[k + 1]) {
				gmp_chan *swap = c[k];

				c[k] = c[k + 1];
				c[k + 1] = swap;
			}
}

STOPPED(select_returns_only_after_last_channel_is_unlocked)
{
	gmp_chan *c[3];
	int x[3] = { UNTOUCHED, UNTOUCHED, UNTOUCHED }, v = 5;

	for (int nth = 2; nth <= 3; nth++) {
		make_three(c);
		x[0] = UNTOUCHED;
		for (int i = 0; i < 3; i++)
			o->cs[i] = GMP_RECV_CASE(c[i], &x[i]);
		o->n = 3;
		o->gate = &before_unlock;
		o->nth = nth; /* the first channel is unlocked, the second or third is not */
		start(o);
		WAIT_FOR(atomic_load(&before_unlock.there));
		CHECK_EQ(gmp_chan_try_send(c[0], &v), 0);
		for (int i = 0; i < 50; i++) {
			usleep(100);
			CHECK(!atomic_load(&o->done));
		}
		pass(&before_unlock);
		finish(o);
		CHECK_EQ(o->result, 0);
		CHECK_EQ(x[0], 5);
		for (int i = 0; i < 3; i++) {
			CHECK(i == 0 || x[i] == UNTOUCHED);
			check_no_waiters(c[i]);
			gmp_chan_free(c[i]);
		}
	}
}

#endif

/* --- the lock list is on the stack of a thread that may return after the last unlock --- */

static gmp_chan *stepped[MOST];
static int nstepped, poisoned;
static unsigned char *list; /* three pointers and two numbers */
static unsigned char list_was[32];

static void check_list(void)
{
	for (int i = 0; i < nstepped && !poisoned; i++)
		if (ld_rlx(&stepped[i]->lock.word))
			return;
	if (!poisoned) {
		memcpy(list_was, list, sizeof(list_was));
		memset(list, 0xff, sizeof(list_was));
	}
	poisoned = 1;
	for (size_t i = 0; i < sizeof(list_was); i++)
		CHECK_EQ(list[i], 0xff);
}

static void commit_by_steps(void *arg)
{
	list = arg;
	poisoned = 0;
	STEP(check_list, stepped_commit(arg));
	CHECK(poisoned);
	memcpy(list, list_was, sizeof(list_was));
}

TEST(select_lock_list_is_not_accessed_after_last_unlock)
{
	struct selector o = { .n = 0 };

	for (int n = 1; n <= MOST; n = 3 * n + 1) {
		nstepped = n;
		o.n = n + 1;
		o.cs[n] = GMP_RECV_CASE(NULL, NULL);
		for (int i = 0; i < n; i++) {
			stepped[i] = chan(0);
			o.cs[i] = GMP_RECV_CASE(stepped[i], NULL);
		}
		by_steps = 1;
		CHECK_EQ(gmp_select_until(o.cs, o.n, gmp_deadline(MS)), -ETIMEDOUT);
		for (int i = 0; i < n; i++) {
			check_no_waiters(stepped[i]);
			gmp_chan_free(stepped[i]);
		}
	}
}

/* --- matched, but not yet readied --- */

struct sender {
	gmp_chan *c;
	int v;
	atomic_int missed; /* the try found no receiver */
};

static void send_it(void *arg)
{
	struct sender *s = arg;

	arm(&before_ready, 1);
	CHECK_EQ(gmp_chan_send(s->c, &s->v), 0);
}

static void try_to_send_it(void *arg)
{
	struct sender *s = arg;

	arm(&before_ready, 1);
	if (gmp_chan_try_send(s->c, &s->v)) {
		atomic_store(&before_ready.armed, 0);
		atomic_store(&s->missed, 1);
	}
}

STOPPED(select_matched_is_not_matched_again)
{
	gmp_chan *a = chan(0), *b = chan(0), *full = chan(1), *closing = chan(0), *twin = chan(0);
	int x[6] = { UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED }, v = 9;
	struct sender s = { .c = a, .v = 5 };
	struct ext_thread f;

	CHECK_EQ(gmp_chan_send(full, &v), 0);
	o->cs[0] = GMP_RECV_CASE(b, &x[0]);
	o->cs[1] = GMP_RECV_CASE(twin, &x[1]);
	o->cs[2] = GMP_SEND_CASE(full, &x[2]);
	o->cs[3] = GMP_RECV_CASE(a, &x[3]);
	o->cs[4] = GMP_RECV_CASE(closing, &x[4]);
	o->cs[5] = GMP_SEND_CASE(twin, &x[5]);
	o->n = 6;
	for (;;) { /* again, if the deadline passed before the match */
		atomic_store(&before_ready.there, 0);
		atomic_store(&s.missed, 0);
		o->deadline = gmp_deadline(50 * MS);
		start(o);
		WAIT_FOR(ld_rlx(&a->recvq.first) || atomic_load(&o->done));
		ext_thread_start(&f, try_to_send_it, &s);
		WAIT_FOR(atomic_load(&before_ready.there) || atomic_load(&s.missed));
		if (atomic_load(&before_ready.there))
			break;
		ext_thread_join(&f);
		finish(o);
	}
	WAIT_FOR(gmp_now() > o->deadline + 5 * MS);
	CHECK_EQ(gmp_chan_try_send(b, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_send(twin, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_recv(twin, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_close(closing), 0);
	CHECK_EQ(gmp_chan_recv(full, &v), 0);
	CHECK_EQ(v, 9);
	CHECK_EQ(gmp_chan_len(full), 0);
	CHECK(!atomic_load(&o->done));
	pass(&before_ready);
	finish(o);
	ext_thread_join(&f);
	CHECK_EQ(o->result, 3);
	CHECK_EQ(o->cs[3].status, 0);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(x[i], i == 3 ? 5 : UNTOUCHED);
	gmp_chan *all[] = { a, b, full, closing, twin };

	for (int i = 0; i < 5; i++) {
		check_no_waiters(all[i]);
		gmp_chan_free(all[i]);
	}
}

/* --- leaving --- */

/*
 * A select over n cases leaves after a match (or timeout); its other channels no longer match it.
 */
static void check_leaving(struct selector *o, int n, bool timed)
{
	gmp_chan *matched = chan(0), *other = chan(0), *buffered = chan(1), *closing = chan(0);
	int x[MOST], v = 5;

	o->n = n;
	for (int i = 0; i < n; i++) {
		gmp_chan *c = i % 4 == 0   ? buffered
			      : i % 4 == 1 ? other
			      : i % 4 == 2 ? closing
					   : matched;

		x[i] = UNTOUCHED;
		if (i % 8 == 5)
			o->cs[i] = GMP_SEND_CASE(c, &x[i]);
		else
			o->cs[i] = GMP_RECV_CASE(c, &x[i]);
	}
	do { /* again, if the deadline passed before the call */
		o->deadline = timed ? gmp_deadline(5 * MS) : GMP_FOREVER;
		arm(&before_leave, 1);
		start(o);
		WAIT_FOR(!timed || atomic_load(&before_leave.there) || atomic_load(&o->done));
	} while (atomic_load(&o->done) && (finish(o), 1));
	if (!timed) {
		wait_queued(matched);
		CHECK_EQ(gmp_chan_send(matched, &v), 0);
	}
	WAIT_FOR(atomic_load(&before_leave.there));
	CHECK_EQ(gmp_chan_try_send(other, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_recv(other, &v), -EAGAIN);
	CHECK_EQ(gmp_chan_try_send(buffered, &v), 0);
	CHECK_EQ(gmp_chan_len(buffered), 1);
	CHECK_EQ(gmp_chan_close(closing), 0);
	CHECK(!atomic_load(&o->done));
	if (!timed) {
		/* the exchange is complete: the channel may be freed before the select returns */
		check_no_waiters(matched);
		/* a lock of it now blocks forever */
		memset(&matched->lock, 0xff, sizeof(matched->lock));
	}
	pass(&before_leave);
	finish(o);
	if (!timed)
		memset(&matched->lock, 0, sizeof(matched->lock));
	CHECK(timed ? o->result == -ETIMEDOUT : o->result >= 0 && o->result % 4 == 3);
	for (int i = 0; i < n; i++)
		CHECK_EQ(x[i], i == o->result ? 5 : UNTOUCHED);
	gmp_chan *all[] = { matched, other, buffered, closing };

	for (int i = 0; i < 4; i++) {
		check_no_waiters(all[i]);
		gmp_chan_free(all[i]);
	}
}

STOPPED(select_timed_out_is_not_matched)
{
	check_leaving(o, 4, true);
	check_leaving(o, 9, true);
	check_leaving(o, MOST, true);
}

STOPPED(select_leaving_is_not_matched_and_skips_matched_channel)
{
	check_leaving(o, 4, false);
	check_leaving(o, 9, false);
	check_leaving(o, MOST, false);
}

/* --- the end of a run --- */

static gmp_chan *kept[MOST];
static struct ext_thread last_sender;
static struct sender last = { .v = 5 };

static void wait_in_all(void *arg)
{
	int n = *(int *)arg;
	gmp_case cs[MOST];

	for (int i = 0; i < n; i++)
		cs[i] = i % 3 == 2 ? GMP_RECV_CASE(kept[0], NULL) : GMP_RECV_CASE(kept[i], NULL);
	gmp_select(cs, n);
	CHECK(0 && "killed at shutdown");
}

static void leave_matched(void *arg)
{
	CHECK_EQ(gmp_go(wait_in_all, arg), 0);
	wait_parked(1);
	last.c = kept[0];
	ext_thread_start(&last_sender, send_it, &last);
	WAIT_FOR(atomic_load(&before_ready.there));
}

/* No M runs the matched G any more, and shutdown_kill_all waits until it is runnable. */
static void *open_after_stop(UNUSED void *arg)
{
	WAIT_FOR(atomic_load(&ms_have_ended));
	pass(&before_ready);
	return NULL;
}

TEST(select_killed_after_match_is_dequeued)
{
	for (int n = 3; n <= MOST; n += MOST - 3) {
		pthread_t t;

		arm(&before_ready, 0);
		atomic_store(&ms_have_ended, 0);
		for (int i = 0; i < MOST; i++)
			kept[i] = chan(0);
		CHECK_EQ(pthread_create(&t, NULL, open_after_stop, NULL), 0);
		run_procs(2, leave_matched, &n);
		CHECK_EQ(pthread_join(t, NULL), 0);
		ext_thread_join(&last_sender);
		for (int i = 0; i < MOST; i++) {
			check_no_waiters(kept[i]);
			gmp_chan_free(kept[i]);
		}
	}
}
