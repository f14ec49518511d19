/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for operations: compares gmp with a simple model, for any sequence of operations.
 *
 * The operations are those of channels, select, mutexes, semaphores, deadlines, cancellation and
 * timers. The input is a list of operations.  Each operation that may wait runs in its own green
 * thread.  When all green threads wait or have ended, the model executes the operation, and the
 * finished calls and their results must agree.  One P in virtual time makes this deterministic.
 * The model has FIFO queues of waiters.
 */
#include "fuzz.h"

#include <errno.h>

#include <gmp.h>

enum { CALLS = 48, CHANS = 3, TIMERS = 2, MS = 1000000 };

enum kind { SEND, RECV, SELECT, LOCK, ACQUIRE, KINDS };

struct call {
	enum kind kind;
	int object[2], value[2]; /* a select has two cases: sends where the value is not 0 */
	int64_t deadline;
	/* result of gmp */
	gmp_g *g;
	int done, result, got;
	/* result of the model */
	int m_done, m_result, m_got;
};

static struct call calls[CALLS];
static int ncalls;

static gmp_chan *chan[CHANS];
static gmp_mutex mutex;
static gmp_sem sem;

/* --- the model --- */

static struct {
	int buf[CHANS]; /* number of buffered elements */
	int element[CHANS][2], closed[CHANS];
	int locked, permits;
} model;

static void finish(struct call *c, int result, int got)
{
	c->m_done = 1;
	c->m_result = result;
	c->m_got = got;
}

/* Returns the first waiter that sends to (or receives from) channel k, and its case in *at. */
static struct call *first_waiting(int k, int sends, int *at)
{
	for (int i = 0; i < ncalls; i++) {
		struct call *c = &calls[i];

		if (c->m_done || c->kind > SELECT)
			continue;
		for (int j = 0; j < (c->kind == SELECT ? 2 : 1); j++) {
			if (c->object[j] == k && !c->value[j] == !sends) {
				*at = j;
				return c;
			}
		}
	}
	return NULL;
}

/* Executes case j of c if it is ready.  Precondition: c is not a waiter (m_done is set). */
static int try_case(struct call *c, int j)
{
	int k = c->object[j], at;
	struct call *peer;

	if (c->value[j]) {
		if (model.closed[k]) {
			finish(c, -EPIPE, 0);
		} else if ((peer = first_waiting(k, 0, &at))) {
			finish(peer, peer->kind == SELECT ? at : 0, c->value[j]);
			finish(c, 0, 0);
		} else if (model.buf[k] < k) { /* the capacity of channel k is k */
			model.element[k][model.buf[k]++] = c->value[j];
			finish(c, 0, 0);
		} else {
			return 0;
		}
		return 1;
	}
	peer = first_waiting(k, 1, &at);
	int v = peer ? peer->value[at] : 0;

	if (model.buf[k]) {
		finish(c, 0, model.element[k][0]);
		model.element[k][0] = model.element[k][1];
		model.buf[k]--;
		if (peer)
			model.element[k][model.buf[k]++] = v;
	} else if (peer) {
		finish(c, 0, v);
	} else if (model.closed[k]) {
		finish(c, -EPIPE, 0);
	} else {
		return 0;
	}
	if (peer)
		finish(peer, peer->kind == SELECT ? at : 0, 0);
	return 1;
}

static void model_begin(struct call *c)
{
	c->m_done = 1; /* a select does not match itself */
	if (c->kind <= RECV && try_case(c, 0))
		return;
	if (c->kind == SELECT) {
		/* gmp picks a ready case at random: the picked case must be ready in the model */
		if (c->done && c->result >= 0) {
			HOLDS(c->result < 2 && try_case(c, c->result));
			c->m_result = c->result; /* the result of the case is in its status */
			return;
		}
		struct call copy = *c;

		HOLDS(!try_case(&copy, 0) && !try_case(&copy, 1));
	}
	if (c->kind == LOCK && !model.locked) {
		model.locked = 1;
		finish(c, 0, 0);
		return;
	}
	if (c->kind == ACQUIRE && model.permits) {
		model.permits--;
		finish(c, 0, 0);
		return;
	}
	c->m_done = 0;
}

static struct call *first_of(enum kind kind)
{
	for (int i = 0; i < ncalls; i++)
		if (!calls[i].m_done && calls[i].kind == kind)
			return &calls[i];
	return NULL;
}

static void model_close(int k)
{
	struct call *c;
	int at;

	model.closed[k] = 1;
	for (int sends = 0; sends < 2; sends++)
		while ((c = first_waiting(k, sends, &at)))
			finish(c, c->kind == SELECT ? at : -EPIPE, 0);
}

/* --- gmp --- */

static void run_call(void *arg)
{
	struct call *c = arg;
	int k = c->object[0], v = c->value[0], got[2] = { 0, 0 };
	gmp_case cases[2];

	switch (c->kind) {
	case SEND: c->result = gmp_chan_send_until(chan[k], &v, c->deadline); break;
	case RECV: c->result = gmp_chan_recv_until(chan[k], &got[0], c->deadline); break;
	case SELECT:
		for (int j = 0; j < 2; j++)
			cases[j] = (gmp_case){ .c = chan[c->object[j]],
					       .dir = c->value[j] ? GMP_SEND : GMP_RECV,
					       .elem = c->value[j] ? &c->value[j] : &got[j] };
		c->result = gmp_select_until(cases, 2, c->deadline);
		break;
	case LOCK: c->result = gmp_mutex_lock_until(&mutex, c->deadline); break;
	default: c->result = gmp_sem_acquire_until(&sem, c->deadline); break;
	}
	c->got = c->kind == SELECT && c->result >= 0 ? got[c->result] : got[0];
	c->done = 1;
}

/*
 * Waits until all green threads wait or have ended.  Virtual time advances only by sleeping.  It is
 * even whenever this test reads it, and all deadlines and timers are odd, so that no two events
 * coincide.
 */
static void settle(void)
{
	gmp_sleep(2);
}

static void agree(void)
{
	for (int i = 0; i < ncalls; i++)
		if (!calls[i].m_done && calls[i].deadline < gmp_now())
			finish(&calls[i], -ETIMEDOUT, 0);
	for (int i = 0; i < ncalls; i++) {
		const struct call *c = &calls[i];

		HOLDS(c->done == c->m_done);
		if (!c->done)
			continue;
		HOLDS(c->result == c->m_result);
		HOLDS(c->got == c->m_got);
	}
	for (int k = 0; k < CHANS; k++)
		HOLDS(gmp_chan_len(chan[k]) == (size_t)model.buf[k]);
}

static void begin(struct input *in)
{
	struct call *c = &calls[ncalls];
	unsigned late = choose(in, 4);

	*c = (struct call){ .kind = (enum kind)choose(in, KINDS), .deadline = GMP_FOREVER };
	if (late)
		c->deadline = gmp_deadline(late * MS + 1);
	c->object[0] = (int)choose(in, CHANS);
	c->object[1] = (c->object[0] + 1 + (int)choose(in, 2)) % CHANS;
	for (int j = 0; j < 2; j++)
		c->value[j] = c->kind == SEND || (c->kind == SELECT && choose(in, 2))
				      ? 2 * ncalls + j + 1
				      : 0;
	HOLDS(gmp_spawn(&c->g, run_call, c, NULL) == 0);
	settle();
	ncalls++;
	model_begin(c);
}

static void cancel(struct call *c)
{
	if (c->g)
		gmp_cancel(c->g);
	settle();
	if (!c->m_done)
		finish(c, -ECANCELED, 0);
}

static void release(void)
{
	struct call *c = first_of(ACQUIRE);

	HOLDS(gmp_sem_release(&sem, 1) == 0);
	settle();
	if (c)
		finish(c, 0, 0);
	else
		model.permits++;
}

static void unlock(void)
{
	struct call *c = first_of(LOCK);

	if (!model.locked)
		return;
	HOLDS(gmp_mutex_unlock(&mutex) == 0);
	settle();
	if (c)
		finish(c, 0, 0);
	model.locked = c != NULL;
}

static void close_chan(int k)
{
	HOLDS(gmp_chan_close(chan[k]) == (model.closed[k] ? -EPIPE : 0));
	settle();
	if (!model.closed[k])
		model_close(k);
}

/* --- timers: each counts its expirations, and so does the model --- */

static struct {
	gmp_timer *timer;
	int64_t next, period;
	int came, m_came;
} timers[TIMERS];

static void count(void *came)
{
	++*(int *)came;
}

static void check_timers(void)
{
	for (int i = 0; i < TIMERS; i++) {
		while (timers[i].next < gmp_now()) {
			timers[i].m_came++;
			timers[i].next =
				timers[i].period ? timers[i].next + timers[i].period : GMP_FOREVER;
		}
		HOLDS(timers[i].came == timers[i].m_came);
	}
}

static void set_timer(struct input *in)
{
	unsigned i = choose(in, TIMERS), ms = choose(in, 4);
	int armed = timers[i].next != GMP_FOREVER;

	if (!ms) {
		HOLDS(gmp_timer_stop(timers[i].timer) == armed);
		timers[i].next = GMP_FOREVER;
		return;
	}
	timers[i].next = gmp_deadline(ms * MS + MS / 2 + 1);
	timers[i].period = choose(in, 3) * MS;
	HOLDS(gmp_timer_set(timers[i].timer, timers[i].next, timers[i].period) == armed);
}

/* --- one input --- */

static void make_all(void)
{
	ncalls = 0;
	memset(&model, 0, sizeof(model));
	mutex = (gmp_mutex)GMP_MUTEX_INIT;
	sem = (gmp_sem)GMP_SEM_INIT(1);
	model.permits = 1;
	for (int k = 0; k < CHANS; k++)
		HOLDS((chan[k] = gmp_chan_new(sizeof(int), (size_t)k)) != NULL);
	for (int i = 0; i < TIMERS; i++) {
		timers[i].came = timers[i].m_came = 0;
		timers[i].next = GMP_FOREVER;
		HOLDS((timers[i].timer = gmp_timer_new(count, &timers[i].came)) != NULL);
	}
}

static void end_all(void)
{
	for (int i = 0; i < ncalls; i++) {
		cancel(&calls[i]);
		agree();
		HOLDS(gmp_join(calls[i].g) == 0);
	}
	for (int k = 0; k < CHANS; k++)
		gmp_chan_free(chan[k]);
	for (int i = 0; i < TIMERS; i++)
		gmp_timer_free(timers[i].timer);
}

static void play(void *arg)
{
	struct input *in = arg;

	make_all();
	while (in->at < in->end && ncalls < CALLS) {
		switch (choose(in, 10)) {
		case 0: close_chan((int)choose(in, CHANS)); break;
		case 1: release(); break;
		case 2: unlock(); break;
		case 3: gmp_sleep((int64_t)choose(in, 5) * MS + 2); break;
		case 4:
			if (ncalls)
				cancel(&calls[choose(in, (unsigned)ncalls)]);
			break;
		case 5: set_timer(in); break;
		default: begin(in);
		}
		agree();
		check_timers();
	}
	end_all();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* One run for all inputs, since the start of a run takes longer than an input. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	(void)argc, (void)argv;
	c.procs = 1;
	c.seed = 1;
	c.max_green = 128;
	c.flags = GMP_VIRTUAL_TIME;
	HOLDS(gmp_start(&c) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	gmp_g *g;

	HOLDS(gmp_spawn(&g, play, &in, NULL) == 0);
	HOLDS(gmp_join(g) == 0);
	return 0;
}
