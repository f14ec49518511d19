/* SPDX-License-Identifier: MIT */
/* Tests gmp_uv_await: results, errors, cancellation, and loops that end or are stopped. */
#include "uv_util.h"

static int start_nothing(UNUSED uv_loop_t *loop, gmp_uv_wait *w, UNUSED void *arg)
{
	gmp_uv_done(w, 0);
	return 0;
}

static int start_never(UNUSED uv_loop_t *loop, UNUSED gmp_uv_wait *w, UNUSED void *arg)
{
	CHECK(!"start has been called");
	return 0;
}

/* A timer whose callback ends the wait. */
struct nap {
	uv_timer_t timer;
	int ms;
	ssize_t result;
	gmp_uv_wait *w;
};

static void end_nap(uv_handle_t *h)
{
	struct nap *n = h->data;

	gmp_uv_done(n->w, n->result); /* n may be gone */
}

static void on_nap(uv_timer_t *t)
{
	uv_close(HANDLE(t), end_nap);
}

static int start_nap(uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	struct nap *n = arg;

	n->w = w;
	n->timer.data = n;
	CHECK_EQ(uv_timer_init(loop, &n->timer), 0);
	n->timer.data = n;
	return uv_timer_start(&n->timer, on_nap, (uint64_t)n->ms, 0);
}

/* --- errors --- */

RT(await_null_returns_einval)
{
	uv_loop_t loop;

	CHECK_EQ(gmp_uv_await(NULL, start_never, NULL), -EINVAL);
	CHECK_EQ(gmp_uv_await(&loop, NULL, NULL), -EINVAL);
}

RT(await_loop_that_does_not_run_returns_esrch)
{
	uv_loop_t loop;

	loop_init(&loop);
	CHECK_EQ(gmp_uv_await(&loop, start_never, NULL), -ESRCH);
	loop_close(&loop);
}

static void await_own_loop(uv_timer_t *t)
{
	CHECK_EQ(gmp_uv_await(t->loop, start_never, NULL), -EDEADLK);
	uv_close(HANDLE(t), NULL);
}

RT(await_in_callback_of_the_loop_returns_edeadlk)
{
	uv_loop_t loop;
	uv_timer_t t;

	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, await_own_loop, 0, 0);
	run_out(&loop);
	loop_close(&loop);
}

static void await_outside(void *arg)
{
	struct served *s = arg;

	CHECK_EQ(gmp_uv_await(&s->loop, start_never, NULL), -EPERM);
}

RT(await_on_external_thread_returns_eperm)
{
	struct served s;
	struct ext_thread t;

	begin_loop(&s);
	ext_thread_start(&t, await_outside, &s);
	ext_thread_join(&t);
	gmp_block_enter();
	CHECK_EQ(gmp_uv_await(&s.loop, start_never, NULL), -EPERM);
	gmp_block_leave();
	end_loop(&s);
}

static atomic_int outside_runs;

static void note_outside(UNUSED uv_timer_t *t)
{
	atomic_store(&outside_runs, 1);
	uv_close(HANDLE(t), NULL);
}

static void run_outside(void *loop)
{
	run_out(loop);
}

/* An external thread calls uv_run itself. */
RT(await_loop_of_external_thread_returns_esrch)
{
	struct ext_thread t;
	uv_loop_t loop;
	uv_timer_t timer;
	uv_async_t end;

	atomic_store(&outside_runs, 0);
	loop_init(&loop);
	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, note_outside, 0, 0);
	uv_async_init(&loop, &end, close_async);
	ext_thread_start(&t, run_outside, &loop);
	WAIT_FOR(atomic_load(&outside_runs));
	CHECK_EQ(gmp_uv_await(&loop, start_never, NULL), -ESRCH);
	uv_async_send(&end);
	ext_thread_join(&t);
	loop_close(&loop);
}

static int start_fails(UNUSED uv_loop_t *loop, UNUSED gmp_uv_wait *w, void *arg)
{
	return *(int *)arg;
}

RT(await_returns_what_start_returns_on_error)
{
	struct served s;
	int err = -ENOTCONN;

	begin_loop(&s);
	CHECK_EQ(gmp_uv_await(&s.loop, start_fails, &err), -ENOTCONN);
	CHECK_EQ(gmp_uv_await(&s.loop, start_nothing, NULL), 0);
	end_loop(&s);
}

/* --- requests --- */

struct status {
	uv_fs_t req;
	const char *path;
};

static void on_stat(uv_fs_t *req)
{
	gmp_uv_done(req->data, req->result);
}

static int start_stat(uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	struct status *s = arg;

	s->req.data = w;
	return uv_fs_stat(loop, &s->req, s->path, on_stat);
}

enum { AWAITERS = 8 };

struct many {
	struct served *s;
	long n;
};

static void await_stats(void *arg)
{
	struct many *m = arg;

	for (long i = 0; i < m->n; i++) {
		struct status at = { .path = i % 2 ? "/" : "/nowhere/at/all" };

		CHECK_EQ(gmp_uv_await(&m->s->loop, start_stat, &at), i % 2 ? 0 : -ENOENT);
		uv_fs_req_cleanup(&at.req);
	}
}

RT(await_by_many_green_threads_returns_each_result)
{
	struct served s;
	struct many m = { &s, check_scaled(100) };
	gmp_g *g[AWAITERS];

	begin_loop(&s);
	for (int i = 0; i < AWAITERS; i++)
		g[i] = spawn(await_stats, &m);
	for (int i = 0; i < AWAITERS; i++)
		join(g[i]);
	end_loop(&s);
}

static void await_nothing_often(void *arg)
{
	struct many *m = arg;

	for (long i = 0; i < m->n; i++)
		CHECK_EQ(gmp_uv_await(&m->s->loop, start_nothing, NULL), 0);
}

/* A lost wakeup does not end: the loop has no other event. */
RT(await_wakes_a_loop_that_parks)
{
	struct served s;
	struct many m = { &s, check_scaled(2000) };
	gmp_g *g[2];

	begin_loop(&s);
	for (int i = 0; i < 2; i++)
		g[i] = spawn(await_nothing_often, &m);
	for (int i = 0; i < 2; i++)
		join(g[i]);
	end_loop(&s);
}

/* The wakeup is consumed. */
RT(await_leaves_the_loop_parked)
{
	struct served s;

	begin_loop(&s);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_uv_await(&s.loop, start_nothing, NULL), 0);
		wait_parked(1);
	}
	end_loop(&s);
}

RT(await_timer_returns_after_its_callback)
{
	struct served s;
	struct nap n = { .ms = 5, .result = 17 };

	begin_loop(&s);
	int64_t begun = gmp_now();

	CHECK_EQ(gmp_uv_await(&s.loop, start_nap, &n), 17);
	CHECK(gmp_now() - begun >= 4 * MS);
	end_loop(&s);
}

/* --- a loop with a callback that waits --- */

struct still {
	struct served s;
	uv_async_t halt;
	gmp_sem halted, go;
	int close_end; /* the callback also ends the loop */
	ssize_t result;
	struct nap nap;
};

static void halt(uv_async_t *a)
{
	struct still *t = a->data;

	gmp_sem_release(&t->halted, 1);
	CHECK_EQ(gmp_sem_acquire(&t->go), 0);
	uv_close(HANDLE(a), NULL);
	if (t->close_end)
		uv_close(HANDLE(&t->s.end), NULL);
}

static void begin_still(struct still *t)
{
	memset(t, 0, sizeof(*t));
	begin_loop(&t->s);
}

static int start_halt(uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	struct still *t = arg;

	t->halt.data = t;
	CHECK_EQ(uv_async_init(loop, &t->halt, halt), 0);
	t->halt.data = t;
	gmp_uv_done(w, 0);
	return uv_async_send(&t->halt);
}

static void stand_still(struct still *t)
{
	CHECK_EQ(gmp_uv_await(&t->s.loop, start_halt, t), 0);
	CHECK_EQ(gmp_sem_acquire(&t->halted), 0);
}

static void await_never(void *arg)
{
	struct still *t = arg;

	t->result = gmp_uv_await(&t->s.loop, start_never, NULL);
}

/* The loop and the awaiter wait. */
static gmp_g *queue_await(struct still *t, gmp_fn fn)
{
	gmp_g *g = spawn(fn, t);

	wait_parked(2);
	return g;
}

RT(cancel_queued_await_returns_ecanceled)
{
	struct still t;
	gmp_g *g;

	begin_still(&t);
	stand_still(&t);
	g = queue_await(&t, await_never);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(t.result, -ECANCELED);
	gmp_sem_release(&t.go, 1);
	end_loop(&t.s);
}

RT(loop_that_ends_returns_esrch_to_queued_await)
{
	struct still t;
	gmp_g *g;

	begin_still(&t);
	t.close_end = 1;
	stand_still(&t);
	g = queue_await(&t, await_never);
	gmp_sem_release(&t.go, 1);
	join(g);
	CHECK_EQ(t.result, -ESRCH);
	join(t.s.g);
	CHECK_EQ(t.s.result, 0);
	loop_close(&t.s.loop);
}

/* --- cancellation after start --- */

static void await_nap(void *arg)
{
	struct still *t = arg;

	t->result = gmp_uv_await(&t->s.loop, start_nap, &t->nap);
	CHECK_EQ(gmp_cancelled(), 1);
}

static int start_end_nap(UNUSED uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	struct nap *n = arg;
	int active = uv_is_active(HANDLE(&n->timer));

	if (active)
		on_nap(&n->timer);
	gmp_uv_done(w, active);
	return 0;
}

/* The request continues, and a second call ends it. */
RT(cancel_started_await_returns_the_result)
{
	struct still t;
	gmp_g *g;

	begin_still(&t);
	t.nap = (struct nap){ .ms = 3600 * 1000, .result = 5 };
	g = spawn(await_nap, &t);
	wait_parked(2);
	/* the queue is FIFO: after this the nap has been started */
	CHECK_EQ(gmp_uv_await(&t.s.loop, start_nothing, NULL), 0);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_uv_await(&t.s.loop, start_end_nap, &t.nap), 1);
	join(g);
	CHECK_EQ(t.result, 5);
	end_loop(&t.s);
}

static void await_cancelled(void *arg)
{
	struct still *t = arg;

	gmp_cancel(gmp_self());
	await_never(t);
}

RT(await_by_cancelled_caller_returns_ecanceled)
{
	struct still t;
	gmp_g *g;

	begin_still(&t);
	stand_still(&t);
	g = spawn(await_cancelled, &t);
	join(g);
	CHECK_EQ(t.result, -ECANCELED);
	gmp_sem_release(&t.go, 1);
	end_loop(&t.s);
}

/* --- uv_stop --- */

static int start_stop(uv_loop_t *loop, gmp_uv_wait *w, UNUSED void *arg)
{
	uv_stop(loop);
	gmp_uv_done(w, 0);
	return 0;
}

static void await_nap_uncancelled(void *arg)
{
	struct still *t = arg;

	t->result = gmp_uv_await(&t->s.loop, start_nap, &t->nap);
}

RT(stopped_loop_ends_started_awaits_when_it_is_run_again)
{
	struct still t;
	ssize_t ended;
	gmp_g *g;

	begin_still(&t);
	t.nap = (struct nap){ .ms = 3600 * 1000, .result = 9 };
	g = spawn(await_nap_uncancelled, &t);
	wait_parked(2);
	CHECK_EQ(gmp_uv_await(&t.s.loop, start_stop, NULL), 0); /* after the nap in the queue */
	join(t.s.g);
	CHECK_EQ(t.s.result, 1);
	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -ETIMEDOUT);
	t.s.g = spawn(serve, &t.s);
	WAIT_FOR((ended = gmp_uv_await(&t.s.loop, start_end_nap, &t.nap)) != -ESRCH);
	CHECK_EQ(ended, 1);
	join(g);
	CHECK_EQ(t.result, 9);
	end_loop(&t.s);
}

/* --- loops that begin and end under callers --- */

struct storm {
	struct served s;
	atomic_int over;
	atomic_long started, ended, refused;
};

static int start_counted(UNUSED uv_loop_t *loop, gmp_uv_wait *w, void *arg)
{
	struct storm *st = arg;

	atomic_fetch_add(&st->started, 1);
	gmp_uv_done(w, 1);
	return 0;
}

static void await_in_storm(void *arg)
{
	struct storm *st = arg;

	while (!atomic_load(&st->over)) {
		ssize_t result = gmp_uv_await(&st->s.loop, start_counted, st);

		CHECK(result == 1 || result == -ESRCH);
		atomic_fetch_add(result == 1 ? &st->ended : &st->refused, 1);
		gmp_yield();
	}
}

RT(loops_that_begin_and_end_lose_no_await)
{
	static struct storm st;
	gmp_g *g[AWAITERS];

	memset(&st, 0, sizeof(st));
	for (int i = 0; i < AWAITERS; i++)
		g[i] = spawn(await_in_storm, &st);
	for (long i = check_scaled(100); i > 0; i--) {
		begin_loop(&st.s);
		end_loop(&st.s);
	}
	atomic_store(&st.over, 1);
	for (int i = 0; i < AWAITERS; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&st.started), atomic_load(&st.ended));
	CHECK(atomic_load(&st.refused) > 0);
}
