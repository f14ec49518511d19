/* SPDX-License-Identifier: MIT */
/*
 * Tests channels that outlive a run or a fork: the waiters that were killed are dequeued, all other
 * waiters stay queued.
 */
#include "chan_util.h"

enum { LEFT = 8 };

static gmp_chan *c;
static int side;   /* 0: the waiters receive, 1: they send */
static int yields; /* by the first green thread before the run ends */

static int call(int i, int64_t deadline)
{
	int v = 1000 + i;

	return side ? gmp_chan_send_until(c, &v, deadline) : gmp_chan_recv_until(c, &v, deadline);
}

/* Wait without a deadline, with a far one, or repeatedly with short ones. */
static void wait_for_peer(void *arg)
{
	int i = (int)(intptr_t)arg, err;

	do
		err = call(i, i % 4 == 1   ? gmp_deadline(3600 * SEC)
			      : i % 4 == 2 ? gmp_deadline(i * 20 * US)
					   : GMP_FOREVER);
	while (i % 4 == 2 && err == -ETIMEDOUT);
	CHECK_EQ(err, 0);
}

static void leave_waiters(UNUSED void *arg)
{
	for (int i = 0; i < LEFT; i++)
		CHECK_EQ(gmp_go(wait_for_peer, (void *)(intptr_t)i), 0);
	for (int i = 0; i < yields; i++)
		gmp_yield();
}

/* At shutdown some green threads wait, some begin to, and some timeouts expire. */
TEST_PROCS(chan_shutdown_dequeues_killed_waiters)
{
	for (int round = 0; round < (SLOW ? 60 : 300); round++) {
		size_t cap = (size_t)round % 3;

		side = round / 3 % 2;
		yields = round / 6 % 5 * 4;
		c = int_chan(cap);
		for (size_t i = 0; side && i < cap; i++)
			send_int(c, (int)i);
		run_procs(procs, leave_waiters, NULL);
		CHECK_EQ(gmp_chan_len(c), side ? cap : 0);
		CHECK_EQ(side ? try_send_int(c, 1) : gmp_chan_try_recv(c, NULL), -EAGAIN);
		for (size_t i = 0; side && i < cap; i++)
			CHECK_EQ(recv_int(c), i);
		check_idle(c);
		gmp_chan_free(c);
	}
}

static void pass_ints(void *arg)
{
	for (int i = 0; i < 100; i++) {
		if (arg == NULL)
			send_int(c, i);
		else
			CHECK_EQ(recv_int(c), i);
	}
}

static void pass_ints_between_gs(UNUSED void *arg)
{
	gmp_g *g = spawn(pass_ints, NULL);

	pass_ints(c);
	join(g);
	check_idle(c);
}

static void wait_untimed(void *arg)
{
	CHECK_EQ(call((int)(intptr_t)arg, GMP_FOREVER), 0);
}

static void leave_all_waiting(UNUSED void *arg)
{
	for (int i = 0; i < LEFT; i++)
		CHECK_EQ(gmp_go(wait_untimed, (void *)(intptr_t)i), 0);
	WAIT_FOR(all_wait(LEFT));
}

TEST_PROCS(chan_outlives_run_and_serves_next_run)
{
	c = int_chan(0);
	for (int round = 0; round < 20; round++) {
		side = round % 2;
		run_procs(procs, leave_all_waiting, NULL);
		check_idle(c);
		run_procs(procs, pass_ints_between_gs, NULL);
	}
	gmp_chan_free(c);
}

/*
 * Elements that were sent to a killed receiver are lost; elements that a killed sender sent are
 * not.
 */
static void serve_half_and_end(UNUSED void *arg)
{
	leave_all_waiting(NULL);
	for (int i = 0; i < LEFT / 2; i++) {
		if (side)
			CHECK(recv_int(c) >= 1000);
		else
			send_int(c, i);
	}
}

static void wait_for_close(void *arg)
{
	CHECK_EQ(call((int)(intptr_t)arg, GMP_FOREVER), -EPIPE);
}

static void close_free_and_end(UNUSED void *arg)
{
	for (int i = 0; i < LEFT; i++)
		CHECK_EQ(gmp_go(wait_for_close, (void *)(intptr_t)i), 0);
	WAIT_FOR(all_wait(LEFT));
	CHECK_EQ(gmp_chan_close(c), 0);
	gmp_chan_free(c);
}

TEST_PROCS(chan_shutdown_kills_matched_waiters_before_they_run)
{
	for (int round = 0; round < 50; round++) {
		side = round % 2;
		c = int_chan(0);
		run_procs(procs, serve_half_and_end, NULL);
		check_idle(c);
		run_procs(procs, close_free_and_end, NULL);
	}
}

/* --- external threads --- */

static struct peer external_peer;
static int value;

static void enqueue_external_first(void)
{
	peer_kind = EXTERNAL;
	value = 7;
	if (side)
		start_send(&external_peer, c, &value, GMP_FOREVER);
	else
		start_recv(&external_peer, c, &value, GMP_FOREVER);
	until_waiting(&external_peer, 1);
	for (int i = 0; i < LEFT; i++)
		CHECK_EQ(gmp_go(wait_untimed, (void *)(intptr_t)i), 0);
}

static void leave_waiters_around_external(UNUSED void *arg)
{
	leave_all_waiting(NULL);
	enqueue_external_first();
	WAIT_FOR(all_wait(2 * LEFT));
}

static void serve_external(void)
{
	until_waiting(&external_peer, 1);
	if (side)
		CHECK_EQ(recv_int(c), 7);
	else
		send_int(c, 8);
	CHECK_EQ(finish(&external_peer), 0);
	CHECK_EQ(value, side ? 7 : 8);
	check_idle(c);
}

/* Any OS thread can still serve the external waiter, so it does not get -ESRCH. */
TEST_PROCS(chan_external_waiter_outlives_run_and_is_served)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	c = int_chan(0);
	for (int round = 0; round < 20; round++) {
		side = round % 2;
		run_procs(procs, leave_waiters_around_external, NULL);
		serve_external();
	}
	cfg.procs = procs;
	for (side = 0; side < 2; side++) {
		CHECK_EQ(gmp_start(&cfg), 0);
		enqueue_external_first();
		for (int i = 0; i < 50; i++)
			gmp_yield();
		CHECK_EQ(gmp_stop(), 0);
		serve_external();
	}
	gmp_chan_free(c);
}

static atomic_int stop;

static void serve_until_stop(UNUSED void *arg)
{
	for (int i = 0; !atomic_load(&stop); i++) {
		int v = i, err = side ? gmp_chan_recv_until(c, &v, gmp_deadline(i % 30 * US))
				      : gmp_chan_send_until(c, &v, gmp_deadline(i % 30 * US));

		CHECK(err == 0 || err == -ETIMEDOUT);
	}
}

static void call_repeatedly(UNUSED void *arg)
{
	for (int i = 0;; i++) {
		int err = call(i, i % 2 ? gmp_deadline(20 * US) : GMP_FOREVER);

		CHECK(err == 0 || err == -ETIMEDOUT);
	}
}

static void leave_busy(UNUSED void *arg)
{
	for (int i = 0; i < LEFT; i++)
		CHECK_EQ(gmp_go(call_repeatedly, NULL), 0);
	for (int i = 0; i < yields; i++)
		gmp_yield();
}

TEST_PROCS(chan_shutdown_racing_external_peers_leaves_channel_idle)
{
	for (side = 0; side < 2; side++) {
		struct ext_thread f[2];

		c = int_chan(0);
		atomic_store(&stop, 0);
		for (int i = 0; i < 2; i++)
			ext_thread_start(&f[i], serve_until_stop, NULL);
		for (int round = 0; round < (SLOW ? 30 : 200); round++) {
			yields = round % 20;
			run_procs(procs, leave_busy, NULL);
		}
		atomic_store(&stop, 1);
		for (int i = 0; i < 2; i++)
			ext_thread_join(&f[i]);
		check_idle(c);
		gmp_chan_free(c);
	}
}

/* --- a fork --- */

static gmp_chan *wanted, *full;

static void use_in_child(void)
{
	int v = 7;

	CHECK_EQ(try_send_int(wanted, 1), -EAGAIN);
	CHECK_EQ(gmp_chan_recv_until(wanted, &v, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_chan_send_until(wanted, &v, gmp_deadline(MS)), -ETIMEDOUT);
	check_idle(wanted);
	CHECK_EQ(gmp_chan_close(wanted), 0);
	CHECK_EQ(gmp_chan_send_until(full, &v, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(recv_int(full), 1);
	check_idle(full);
	gmp_chan_free(wanted);
	gmp_chan_free(full);
}

static void free_in_child(void)
{
	gmp_chan_free(wanted);
	gmp_chan_free(full);
}

/* The parent's waiters are ahead in the queue, but the child's threads are served first. */
static void wait_in_child(void)
{
	struct peer p[2];
	int got = -1, v = 5;

	peer_kind = EXTERNAL;
	start_recv(&p[0], wanted, &got, GMP_FOREVER);
	start_send(&p[1], full, &v, GMP_FOREVER);
	until_waiting(p, 2);
	send_int(wanted, 6);
	CHECK_EQ(finish(&p[0]), 0);
	CHECK_EQ(got, 6);
	CHECK_EQ(recv_int(full), 1);
	CHECK_EQ(recv_int(full), 5);
	CHECK_EQ(finish(&p[1]), 0);
	free_in_child();
}

EVERYWHERE(chan_waiters_do_not_exist_in_forked_child)
{
	struct peer p[6];
	int v[6];

	wanted = int_chan(0);
	full = int_chan(1);
	send_int(full, 1);
	for (int i = 0; i < 6; i++) {
		int64_t deadline = i % 3 == 0 ? gmp_deadline(3600 * SEC) : GMP_FOREVER;

		v[i] = i;
		if (i < 3)
			start_recv(&p[i], wanted, &v[i], deadline);
		else
			start_send(&p[i], full, &v[i], deadline);
	}
	until_waiting(p, 6);
	CHECK_EQ(in_child(use_in_child), 0);
	CHECK_EQ(in_child(free_in_child), 0);
	if (!SANITIZED) /* sanitizers refuse new threads in a forked child */
		CHECK_EQ(in_child(wait_in_child), 0);
	/* in the parent they still wait */
	for (int i = 0; i < 3; i++)
		send_int(wanted, 9);
	for (int i = 0; i < 4; i++)
		recv_int(full);
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(finish(&p[i]), 0);
		CHECK_EQ(v[i], i < 3 ? 9 : i);
	}
	check_idle(wanted);
	check_idle(full);
	gmp_chan_free(wanted);
	gmp_chan_free(full);
}
