/* SPDX-License-Identifier: MIT */
/*
 * Tests selects at the end of a run: a killed select is dequeued and frees its memory; external
 * threads continue to wait.
 */
#include "select_util.h"

enum { MOST = 130, SELECTORS = 10 };

static gmp_chan *kept[MOST];
static int yields, width;

static void keep(int n)
{
	for (int i = 0; i < n; i++)
		kept[i] = chan(0);
}

static void let_go(int n)
{
	for (int i = 0; i < n; i++) {
		check_idle(kept[i]);
		gmp_chan_free(kept[i]);
	}
}

static void select_none_forever(UNUSED void *arg)
{
	gmp_case none[70] = { GMP_RECV_CASE(NULL, NULL) };

	gmp_select(none, width);
	CHECK(0 && "a killed green thread ran on");
}

static void leave_selects_without_channels(UNUSED void *arg)
{
	for (int i = 0; i < SELECTORS; i++)
		CHECK_EQ(gmp_go(select_none_forever, NULL), 0);
	wait_parked(SELECTORS);
}

TEST_PROCS(select_of_null_channels_is_killed_at_shutdown)
{
	for (width = 0; width <= 70; width += 35)
		run_procs(procs, leave_selects_without_channels, NULL);
}

/* Receivers alone never match each other. */
static void receive_forever(UNUSED void *arg)
{
	gmp_case cs[MOST];

	for (int i = 0; i < width; i++)
		cs[i] = GMP_RECV_CASE(kept[i / 2], NULL);
	gmp_select(cs, width);
	CHECK(0 && "a killed green thread ran on");
}

/* Only one select can wait on both sides of a channel. */
static void both_sides_forever(UNUSED void *arg)
{
	gmp_case cs[MOST];
	int v = 1;

	for (int i = 0; i < width; i++)
		cs[i] = i % 2 ? GMP_RECV_CASE(kept[0], NULL) : GMP_SEND_CASE(kept[0], &v);
	gmp_select(cs, width);
	CHECK(0 && "a killed green thread ran on");
}

static void leave_one_on_both_sides(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(both_sides_forever, NULL), 0);
	wait_parked(1);
}

static void leave_receivers(UNUSED void *arg)
{
	for (int i = 0; i < SELECTORS; i++)
		CHECK_EQ(gmp_go(receive_forever, NULL), 0);
	if (yields)
		wait_parked(SELECTORS);
	else
		gmp_yield(); /* some wait, some are about to */
}

TEST_PROCS(select_killed_at_shutdown_is_dequeued)
{
	static const int widths[] = { 2, 5, 64, 65, MOST };

	for (int k = 0; k < 5; k++) {
		width = widths[k];
		keep(MOST);
		for (yields = 0; yields < 2; yields++)
			run_procs(procs, leave_receivers, NULL);
		let_go(MOST);
	}
	keep(1);
	for (width = 2; width <= MOST; width += 64)
		run_procs(procs, leave_one_on_both_sides, NULL);
	let_go(1);
}

/* The run ends before the matched select resumes. */
static void match_and_end(UNUSED void *arg)
{
	int v = 1;

	CHECK_EQ(gmp_go(receive_forever, NULL), 0);
	wait_parked(1);
	CHECK_EQ(gmp_chan_send(kept[0], &v), 0);
}

static void close_and_end(UNUSED void *arg)
{
	for (int i = 0; i < SELECTORS; i++)
		CHECK_EQ(gmp_go(receive_forever, NULL), 0);
	wait_parked(SELECTORS);
	CHECK_EQ(gmp_chan_close(kept[1]), 0);
	gmp_chan_free(kept[1]);
	kept[1] = chan(0);
}

TEST(select_killed_after_match_is_dequeued)
{
	for (width = 4; width <= MOST; width += MOST - 4) {
		keep(MOST);
		run_procs(1, match_and_end, NULL);
		run_procs(1, close_and_end, NULL);
		let_go(MOST);
	}
}

/* Each select allocates about 15 KB for its cases. */
TEST(select_killed_at_shutdown_leaks_no_memory)
{
	size_t before = 0;

	width = yields = MOST;
	keep(MOST);
	for (int i = 0; i < 20; i++) {
		run_procs(1, leave_receivers, NULL);
		if (i == 1)
			before = allocated();
	}
	CHECK(allocated() <= before + 256 * 1024);
	let_go(MOST);
}

TEST(select_killed_in_thread_mode_leaks_no_memory)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	size_t before = 0;

	cfg.sched = GMP_SCHED_THREAD;
	width = MOST;
	yields = 0; /* a G that has not begun still begins, and is killed in its wait */
	keep(MOST);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_run(leave_receivers, NULL, &cfg), 0);
		if (i == 1)
			before = allocated();
	}
	CHECK(allocated() <= before + 256 * 1024);
	let_go(MOST);
}

static void time_out_repeatedly(UNUSED void *arg)
{
	gmp_case cs[MOST];

	for (int i = 0; i < width; i++)
		cs[i] = GMP_RECV_CASE(kept[i / 2], NULL);
	for (int k = 0;; k++)
		CHECK_EQ(gmp_select_until(cs, width, gmp_deadline(k % 20 * 5 * US)), -ETIMEDOUT);
}

static void end_among_timeouts(UNUSED void *arg)
{
	for (int i = 0; i < SELECTORS; i++)
		CHECK_EQ(gmp_go(time_out_repeatedly, NULL), 0);
	for (int i = 0; i < yields; i++)
		gmp_yield();
}

TEST_PROCS(select_timeout_racing_shutdown_is_dequeued)
{
	for (yields = 0; yields < (SLOW ? 10 : 60); yields++) {
		width = yields % 10 == 9 ? 70 : 1 + yields % 4;
		keep(MOST);
		run_procs(procs, end_among_timeouts, NULL);
		let_go(MOST);
	}
}

/* --- external threads --- */

static void wait_until_matched(void *arg)
{
	int x = UNTOUCHED;
	gmp_case cs[] = { GMP_RECV_CASE(kept[0], &x), GMP_RECV_CASE(kept[1], &x) };

	CHECK_EQ(gmp_select(cs, 2), 1);
	CHECK_EQ(cs[1].status, 0);
	CHECK_EQ(x, *(int *)arg);
}

static void do_nothing(UNUSED void *arg)
{
}

TEST_PROCS(select_by_external_thread_outlives_runs)
{
	struct partner p = { 0 };
	int v = 0;

	keep(2);
	for (int k = 0; k < 10; k++) {
		v = k;
		partner_start(&p, wait_until_matched, &v);
		partners_wait(&p, 1);
		run_procs(procs, k % 2 ? do_nothing : leave_receivers, NULL);
		CHECK_EQ(gmp_chan_send(kept[1], &v), 0);
		partner_join(&p);
	}
	let_go(2);
}

static atomic_int enough;

static void send_everywhere(UNUSED void *arg)
{
	for (int k = 0; !atomic_load(&enough); k++)
		gmp_chan_try_send(kept[k % 8], &k);
}

static void time_out_or_receive(UNUSED void *arg)
{
	gmp_case cs[MOST];
	int x;

	for (int i = 0; i < width; i++)
		cs[i] = GMP_RECV_CASE(kept[i % 9], &x);
	for (int k = 0;; k++) {
		int ran = gmp_select_until(cs, width, gmp_deadline(k % 20 * 5 * US));

		CHECK(ran == -ETIMEDOUT || (ran >= 0 && cs[ran].status == 0));
	}
}

static void select_and_end(UNUSED void *arg)
{
	for (int i = 0; i < SELECTORS; i++)
		CHECK_EQ(gmp_go(time_out_or_receive, NULL), 0);
	for (int i = 0; i < yields; i++)
		gmp_yield();
}

TEST_PROCS(select_shutdown_racing_external_senders_is_dequeued)
{
	struct ext_thread f[2];

	keep(MOST);
	atomic_store(&enough, 0);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], send_everywhere, NULL);
	for (yields = 0; yields < (SLOW ? 30 : 200); yields++) {
		width = yields % 10 == 9 ? 70 : 2 + yields % 6;
		run_procs(procs, select_and_end, NULL);
	}
	atomic_store(&enough, 1);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	let_go(MOST);
}

/* --- forked children --- */

static void use_channels(void)
{
	gmp_chan *empty = chan(0);
	int x = UNTOUCHED;

	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_chan_len(kept[0]), 1);
	gmp_case cs[] = { GMP_RECV_CASE(empty, &x), GMP_RECV_CASE(kept[0], &x) };

	CHECK_EQ(gmp_select(cs, 2), 1);
	CHECK_EQ(x, 7);
	CHECK_EQ(gmp_select_until(cs, 2, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_select_until(cs, 0, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_chan_close(kept[0]), 0);
	CHECK_EQ(gmp_select(cs, 2), 1);
	CHECK_EQ(cs[1].status, -EPIPE);
	gmp_chan_free(empty);
	gmp_chan_free(kept[0]);
}

RT(select_in_fork_child_finds_channels_unchanged)
{
	kept[0] = chan(1);
	send_int(kept[0], 7);
	CHECK_EQ(in_child(use_channels), 0);
	CHECK_EQ(recv_int(kept[0]), 7);
	gmp_chan_free(kept[0]);
}
