/* SPDX-License-Identifier: MIT */
/* Tests gmp_uv_run: its results, uv_stop, cancellation, and what it leaves in the loop. */
#include "uv_util.h"

static atomic_int calls;

static void count_timer(UNUSED uv_timer_t *t)
{
	atomic_fetch_add(&calls, 1);
}

RT(run_null_returns_einval)
{
	CHECK_EQ(gmp_uv_run(NULL), -EINVAL);
}

RT(run_empty_loop_returns_0)
{
	uv_loop_t loop;

	loop_init(&loop);
	run_out(&loop);
	run_out(&loop);
	loop_close(&loop);
}

/* A handle without a reference does not keep the loop, and its callback is not called. */
RT(run_unreferenced_handles_return_0)
{
	uv_loop_t loop;
	uv_timer_t t;

	atomic_store(&calls, 0);
	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, count_timer, 3600 * 1000, 0);
	uv_unref(HANDLE(&t));
	run_out(&loop);
	CHECK_EQ(atomic_load(&calls), 0);
	close_timer(&t);
	run_out(&loop);
	loop_close(&loop);
}

/* --- handles --- */

static void count_handles(UNUSED uv_handle_t *h, void *arg)
{
	++*(int *)arg;
}

static void check_handles(uv_timer_t *t)
{
	int n = 0;

	uv_walk(t->loop, count_handles, &n);
	CHECK_EQ(n, 1);
	close_timer(t);
}

/* UV-5 */
RT(run_adds_no_handles_that_uv_walk_shows)
{
	uv_loop_t loop;
	uv_timer_t t;
	int n = 0;

	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, check_handles, 1, 0);
	run_out(&loop);
	uv_walk(&loop, count_handles, &n);
	CHECK_EQ(n, 0);
	CHECK(!uv_loop_alive(&loop));
	loop_close(&loop);
}

RT(run_many_loops_leave_no_descriptors)
{
	uv_loop_t loop;
	int before = 0;

	for (int i = 0; i < 20; i++) {
		uv_timer_t t;

		loop_init(&loop);
		uv_timer_init(&loop, &t);
		uv_timer_start(&t, close_timer, 1, 0);
		run_out(&loop);
		loop_close(&loop);
		if (i == 0)
			before = count_fds();
	}
	CHECK_EQ(count_fds(), before);
}

/* --- uv_stop --- */

static void stop_timer(uv_timer_t *t)
{
	uv_stop(t->loop);
}

static void stop_prepare(uv_prepare_t *h)
{
	uv_stop(h->loop);
}

static void stop_check(uv_check_t *h)
{
	uv_stop(h->loop);
}

static void stop_idle(uv_idle_t *h)
{
	uv_stop(h->loop);
}

static void stop_async(uv_async_t *h)
{
	uv_stop(h->loop);
}

static void stop_closed(uv_handle_t *h)
{
	uv_stop(h->loop);
}

/* An active handle beside it keeps the loop. */
static void check_stopped(uv_loop_t *loop, uv_timer_t *keeps)
{
	CHECK_EQ(gmp_uv_run(loop), 1);
	CHECK(uv_loop_alive(loop));
	CHECK(!uv_is_closing(HANDLE(keeps)));
}

struct stops {
	uv_loop_t loop;
	uv_timer_t keeps, timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	uv_async_t async;
};

static void init_stops(struct stops *s)
{
	loop_init(&s->loop);
	uv_timer_init(&s->loop, &s->keeps);
	uv_timer_start(&s->keeps, close_timer, 3600 * 1000, 0);
	uv_timer_init(&s->loop, &s->timer);
	uv_prepare_init(&s->loop, &s->prepare);
	uv_check_init(&s->loop, &s->check);
	uv_idle_init(&s->loop, &s->idle);
	uv_async_init(&s->loop, &s->async, stop_async);
}

static void close_handle(uv_handle_t *h, UNUSED void *arg)
{
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static void close_all(uv_loop_t *loop)
{
	uv_walk(loop, close_handle, NULL);
	run_out(loop);
	loop_close(loop);
}

RT(stop_in_each_kind_of_callback_returns_1)
{
	struct stops s;

	init_stops(&s);
	uv_timer_start(&s.timer, stop_timer, 1, 0);
	check_stopped(&s.loop, &s.keeps);
	uv_prepare_start(&s.prepare, stop_prepare);
	check_stopped(&s.loop, &s.keeps);
	uv_prepare_stop(&s.prepare);
	uv_timer_start(&s.timer, count_timer, 1, 1); /* the loop wakes, and calls check */
	uv_check_start(&s.check, stop_check);
	check_stopped(&s.loop, &s.keeps);
	uv_check_stop(&s.check);
	uv_timer_stop(&s.timer);
	uv_idle_start(&s.idle, stop_idle);
	check_stopped(&s.loop, &s.keeps);
	uv_idle_stop(&s.idle);
	uv_async_send(&s.async);
	check_stopped(&s.loop, &s.keeps);
	uv_close(HANDLE(&s.idle), stop_closed);
	check_stopped(&s.loop, &s.keeps);
	close_all(&s.loop);
}

RT(stop_before_run_returns_at_once)
{
	struct stops s;

	atomic_store(&calls, 0);
	init_stops(&s);
	uv_timer_start(&s.timer, count_timer, 3600 * 1000, 0);
	uv_stop(&s.loop);
	check_stopped(&s.loop, &s.keeps);
	CHECK_EQ(atomic_load(&calls), 0);
	close_all(&s.loop);
}

/* --- a loop is run once at a time --- */

static void run_nested(uv_timer_t *t)
{
	uv_loop_t inner;
	uv_timer_t u;

	CHECK_EQ(gmp_uv_run(t->loop), -EBUSY);
	loop_init(&inner);
	uv_timer_init(&inner, &u);
	uv_timer_start(&u, close_timer, 1, 0);
	run_out(&inner);
	loop_close(&inner);
	close_timer(t);
}

RT(run_in_callback_same_loop_returns_ebusy)
{
	uv_loop_t loop;
	uv_timer_t t;

	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, run_nested, 1, 0);
	run_out(&loop);
	loop_close(&loop);
}

RT(run_by_two_green_threads_returns_ebusy)
{
	struct served s;

	begin_loop(&s);
	CHECK_EQ(gmp_uv_run(&s.loop), -EBUSY);
	end_loop(&s);
}

/* --- cancellation --- */

RT(cancel_ends_the_wait_and_the_loop_can_be_run_again)
{
	struct served s;

	begin_loop(&s);
	CHECK_EQ(gmp_cancel(s.g), 0);
	join(s.g);
	CHECK_EQ(s.result, -ECANCELED);
	CHECK(uv_loop_alive(&s.loop));
	s.g = spawn(serve, &s);
	end_loop(&s);
}

static void run_masked(void *arg)
{
	gmp_cancel_mask(1);
	serve(arg);
	gmp_cancel_mask(0);
}

RT(cancel_masked_does_not_end_the_loop)
{
	struct served s;

	memset(&s, 0, sizeof(s));
	loop_init(&s.loop);
	uv_async_init(&s.loop, &s.end, close_async);
	s.g = spawn(run_masked, &s);
	CHECK_EQ(gmp_cancel(s.g), 0);
	end_loop(&s);
}

/* --- other green threads run meanwhile --- */

static atomic_int others;
static gmp_chan *channel;

static void send_when_parked(void *loop)
{
	atomic_fetch_add(&others, 1);
	uv_async_send(loop);
}

/* Without preemption: a loop that slept in the kernel would keep its P from send_when_parked. */
RT_COOPERATIVE(loop_without_work_parks)
{
	uv_loop_t loop;
	uv_async_t a;
	gmp_g *g;

	atomic_store(&others, 0);
	loop_init(&loop);
	uv_async_init(&loop, &a, close_async);
	g = spawn(send_when_parked, &a);
	run_out(&loop);
	CHECK_EQ(atomic_load(&others), 1);
	join(g);
	loop_close(&loop);
}

static void close_when_others_ran(uv_idle_t *h)
{
	if (atomic_load(&others))
		uv_close(HANDLE(h), NULL);
}

static void note_other(UNUSED void *arg)
{
	atomic_fetch_add(&others, 1);
}

static void run_idle_loop(UNUSED void *arg)
{
	uv_loop_t loop;
	uv_idle_t idle;
	gmp_g *g;

	atomic_store(&others, 0);
	loop_init(&loop);
	uv_idle_init(&loop, &idle);
	uv_idle_start(&idle, close_when_others_ran);
	g = spawn(note_other, NULL);
	run_out(&loop);
	join(g);
	loop_close(&loop);
}

/* A loop with an idle handle never waits; its P runs others nevertheless. */
TEST_PROCS(loop_with_idle_handle_runs_beside_others)
{
	run_procs(procs, run_idle_loop, NULL);
}

/* In virtual time no time passes, so that checkpoints do not yield. */
TEST(loop_with_idle_handle_yields)
{
	run_configured(1, 0, GMP_VIRTUAL_TIME | GMP_COOPERATIVE, run_idle_loop, NULL);
}

static void send_value(void *arg)
{
	int v = 42;

	CHECK_EQ(gmp_chan_send(arg, &v), 0);
}

static void wait_in_callback(uv_timer_t *t)
{
	int v = 0;

	CHECK_EQ(gmp_go(send_value, channel), 0);
	CHECK_EQ(gmp_chan_recv(channel, &v), 0);
	CHECK_EQ(v, 42);
	CHECK_EQ(gmp_sleep(MS), 0);
	if (atomic_fetch_add(&calls, 1) == 4)
		close_timer(t);
}

RT(callback_may_wait)
{
	uv_loop_t loop;
	uv_timer_t t;

	atomic_store(&calls, 0);
	channel = gmp_chan_new(sizeof(int), 0);
	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, wait_in_callback, 0, 1);
	run_out(&loop);
	CHECK_EQ(atomic_load(&calls), 5);
	loop_close(&loop);
	gmp_chan_free(channel);
}

/* --- external threads, and the end of a run --- */

TEST(run_on_external_thread_without_runtime_runs)
{
	uv_loop_t loop;
	uv_timer_t t;

	loop_init(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, close_timer, 1, 0);
	run_out(&loop);
	uv_timer_init(&loop, &t);
	uv_timer_start(&t, stop_timer, 1, 0);
	CHECK_EQ(gmp_uv_run(&loop), 0); /* nothing is left */
	uv_timer_start(&t, stop_timer, 1, 1);
	CHECK_EQ(gmp_uv_run(&loop), 1);
	close_timer(&t);
	run_out(&loop);
	loop_close(&loop);
}

static struct served left, *volatile kept;

static void leave_running(UNUSED void *arg)
{
	begin_loop(&left);
}

static void serve_again(UNUSED void *arg)
{
	begin_loop(&left);
	CHECK_EQ(gmp_uv_run(&left.loop), -EBUSY);
	end_loop(&left);
}

/* UV-4 */
TEST_PROCS(run_loop_at_the_address_of_a_killed_one)
{
	run_procs(procs, leave_running, NULL);
	kept = malloc(sizeof(*kept)); /* LeakSanitizer finds the memory of the old loop */
	CHECK(kept != NULL);
	*kept = left;
	run_procs(procs, serve_again, NULL);
}
