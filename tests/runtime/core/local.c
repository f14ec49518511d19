/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_key and its values: each thread has its own; destructors run on the ending thread,
 * before a join returns; a reused g struct has no former values.
 */
#include "util.h"

static gmp_key key, other, plain;
static atomic_int destroyed, count;

static void count_destroyed(void *v)
{
	CHECK(v != NULL);
	CHECK(gmp_key_get(key) == NULL);
	atomic_fetch_add(&destroyed, 1);
}

static void make_keys(void)
{
	CHECK_EQ(gmp_key_create(&key, count_destroyed), 0);
	CHECK_EQ(gmp_key_create(&plain, NULL), 0);
}

static int values[1000];

static void keep_own(void *arg)
{
	int *v = arg;

	CHECK_EQ(gmp_key_set(key, v + 3), 0);
	CHECK_EQ(gmp_key_set(key, NULL), 0);

	CHECK(gmp_key_get(key) == NULL);
	CHECK_EQ(gmp_key_set(key, v), 0);
	CHECK_EQ(gmp_key_set(plain, v + 1), 0);
	for (int i = 0; i < 20; i++) {
		CHECK(gmp_key_get(key) == v);
		CHECK(gmp_key_get(plain) == v + 1);
		if (i % 5 == 4)
			gmp_sleep(10 * US);
		else
			gmp_yield();
	}
	CHECK_EQ(gmp_key_set(key, v + 2), 0);
	CHECK(gmp_key_get(key) == v + 2);
}

RT(key_values_are_per_green_thread)
{
	gmp_g *g[900];

	make_keys();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 900; i++)
			g[i] = spawn(keep_own, &values[i]);
		for (int i = 0; i < 900; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&destroyed), 900 * (round + 1));
	}
	CHECK(gmp_key_get(key) == NULL);
}

RT(key_values_are_per_external_thread)
{
	struct ext_thread f[4];

	make_keys();
	CHECK_EQ(gmp_key_set(key, &values[999]), 0);
	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], keep_own, &values[i]);
	for (int i = 0; i < 4; i++)
		ext_thread_join(&f[i]);
	CHECK_EQ(atomic_load(&destroyed), 4);
	CHECK(gmp_key_get(key) == &values[999]);
}

TEST(key_values_work_without_runtime)
{
	struct ext_thread f;

	make_keys();
	keep_own(values);
	ext_thread_start(&f, keep_own, values);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&destroyed), 1);
	CHECK(gmp_key_get(key) == &values[2]);
}

static void set_and_exit(void *arg)
{
	CHECK_EQ(gmp_key_set(key, arg), 0);
	gmp_exit();
}

RT(gmp_exit_runs_destructors)
{
	make_keys();
	for (int i = 0; i < 100; i++) {
		join(spawn(set_and_exit, values));
		CHECK_EQ(atomic_load(&destroyed), i + 1);
	}
}

static void set_only(void *arg)
{
	CHECK_EQ(gmp_key_set(key, arg), 0);
	atomic_fetch_add(&count, 1);
}

RT(detached_and_timer_green_threads_run_destructors)
{
	gmp_timer *t = gmp_timer_new(set_only, values);

	make_keys();
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(set_only, values), 0);
	WAIT_FOR(atomic_load(&destroyed) == 100);
	CHECK_EQ(gmp_timer_set(t, gmp_now(), 0), 0);
	WAIT_FOR(atomic_load(&count) == 101);
	gmp_timer_free(t);
	CHECK_EQ(atomic_load(&destroyed), 101); /* gmp_timer_free has waited for them */
}

static void expect_nothing(UNUSED void *arg)
{
	CHECK(gmp_key_get(key) == NULL);
	CHECK(gmp_key_get(other) == NULL);
	CHECK(gmp_key_get(plain) == NULL);
}

RT(key_values_are_null_in_reused_g_struct)
{
	make_keys();
	CHECK_EQ(gmp_key_create(&other, NULL), 0);
	for (int i = 0; i < 500; i++) {
		CHECK_EQ(gmp_go(set_and_exit, values), 0);
		join(spawn(set_only, values));
		join(spawn(keep_own, values));
		join(spawn(expect_nothing, NULL));
	}
}

static void unset(void *arg)
{
	CHECK_EQ(gmp_key_set(key, NULL), 0);
	CHECK_EQ(gmp_key_set(key, arg), 0);
	CHECK_EQ(gmp_key_set(plain, arg), 0);
	CHECK_EQ(gmp_key_set(key, NULL), 0);
}

RT(key_value_null_or_without_destructor_is_not_destroyed)
{
	make_keys();
	join(spawn(unset, values));
	CHECK_EQ(atomic_load(&destroyed), 0);
}

static void bad_keys(UNUSED void *arg)
{
	gmp_key gone;

	CHECK_EQ(gmp_key_create(NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_key_set(0, values), -EINVAL);
	CHECK(gmp_key_get(0) == NULL);
	CHECK_EQ(gmp_key_set(0, NULL), -EINVAL);
	CHECK_EQ(gmp_key_delete(0), -EINVAL);
	CHECK_EQ(gmp_key_set(~0u, values), -EINVAL);
	CHECK(gmp_key_get(~0u) == NULL);
	CHECK_EQ(gmp_key_delete(~0u), -EINVAL);
	CHECK_EQ(gmp_key_delete(1), -EINVAL);
	CHECK_EQ(gmp_key_create(&gone, count_destroyed), 0);
	CHECK_EQ(gmp_key_set(gone, values), 0);
	CHECK_EQ(gmp_key_delete(gone), 0);
	CHECK_EQ(gmp_key_delete(gone), -EINVAL);
}

RT(key_bad_or_deleted_returns_einval)
{
	struct ext_thread f;

	make_keys();
	bad_keys(NULL);
	join(spawn(bad_keys, NULL));
	ext_thread_start(&f, bad_keys, NULL);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&destroyed), 0); /* not for values of a deleted key */
}

enum { KEYS = 1024 };

static gmp_key all[KEYS];
static atomic_int sum;

static void add_up(void *v)
{
	atomic_fetch_add(&sum, (int)(intptr_t)v);
}

static void set_all(void *arg)
{
	int step = (int)(intptr_t)arg;

	for (int i = 0; i < KEYS; i++) {
		int k = i * step % KEYS;

		CHECK_EQ(gmp_key_set(all[k], (void *)(intptr_t)(k + 1)), 0);
	}
	for (int k = 0; k < KEYS; k++)
		CHECK_EQ((intptr_t)gmp_key_get(all[k]), k + 1);
}

RT(keys_up_to_1024_each_hold_a_value)
{
	gmp_key more = 12345;

	for (int i = 0; i < KEYS; i++)
		CHECK_EQ(gmp_key_create(&all[i], add_up), 0);
	CHECK_EQ(gmp_key_create(&more, NULL), -EAGAIN);
	CHECK_EQ(more, 12345);
	for (int step = 1; step < 100; step += 14) { /* odd: a permutation */
		atomic_store(&sum, 0);
		join(spawn(set_all, (void *)(intptr_t)step));
		CHECK_EQ(atomic_load(&sum), KEYS * (KEYS + 1) / 2);
	}
	CHECK_EQ(gmp_key_delete(all[500]), 0);
	CHECK_EQ(gmp_key_create(&more, NULL), 0);
	CHECK(more != all[500]);
}

static void set_sparsely(UNUSED void *arg)
{
	for (int apart = 1; apart < KEYS; apart *= 2) {
		for (int k = 0; k < 3 * apart && k < KEYS; k += apart)
			CHECK_EQ(gmp_key_set(all[k], &all[k]), 0);
		for (int k = 0; k < 3 * apart && k < KEYS; k += apart)
			CHECK(gmp_key_get(all[k]) == &all[k]);
	}
	for (int k = 0; k < KEYS; k++) {
		int low = k & -k;
		int set = k == 0 || k == low || k == 2 * low;

		CHECK(gmp_key_get(all[k]) == (set ? &all[k] : NULL));
	}
}

RT(key_values_of_sparse_keys_are_kept)
{
	for (int i = 0; i < KEYS; i++)
		CHECK_EQ(gmp_key_create(&all[i], NULL), 0);
	join(spawn(set_sparsely, NULL));
}

static void set_old(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(other, values), 0);
	CHECK_EQ(gmp_key_delete(other), 0);
	CHECK_EQ(gmp_key_create(&key, count_destroyed), 0); /* reuses the table entry */
	CHECK(gmp_key_get(key) == NULL);
	CHECK_EQ(gmp_key_set(key, NULL), 0);
	CHECK(gmp_key_get(key) == NULL);
	CHECK_EQ(gmp_key_set(key, values + 1), 0);
	CHECK(gmp_key_get(key) == values + 1);
	CHECK_EQ(gmp_key_set(other, values), -EINVAL);
}

RT(key_new_has_no_value_of_deleted_key)
{
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_key_create(&other, count_destroyed), 0);
		join(spawn(set_old, NULL));
		CHECK_EQ(atomic_load(&destroyed), i + 1);
		CHECK_EQ(gmp_key_delete(key), 0);
	}
}

/* --- what destructors may do --- */

static void set_again(UNUSED void *v)
{
	atomic_fetch_add(&destroyed, 1);
	CHECK_EQ(gmp_key_set(key, values), 0);
}

static void set_and_return(void *arg)
{
	CHECK_EQ(gmp_key_set(key, arg), 0);
}

RT(destructor_setting_its_value_again_runs_four_times)
{
	struct ext_thread f;

	CHECK_EQ(gmp_key_create(&key, set_again), 0);
	join(spawn(set_and_return, values));
	CHECK_EQ(atomic_load(&destroyed), 4);
	ext_thread_start(&f, set_and_return, values);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&destroyed), 8);
	join(spawn(expect_nothing, NULL));
}

static void set_all_others(void *v)
{
	atomic_fetch_add(&destroyed, 1);
	if (v == values)
		for (int i = 0; i < 200; i++) /* the table of values grows */
			CHECK_EQ(gmp_key_set(all[i], values + 1), 0);
}

static void set_some(UNUSED void *arg)
{
	for (int i = 0; i < 200; i += 3)
		CHECK_EQ(gmp_key_set(all[i], values + 1), 0);
	CHECK_EQ(gmp_key_set(key, values), 0);
}

RT(destructor_setting_other_values_has_them_destroyed)
{
	CHECK_EQ(gmp_key_create(&key, set_all_others), 0);
	for (int i = 0; i < 200; i++)
		CHECK_EQ(gmp_key_create(&all[i], set_all_others), 0);
	join(spawn(set_and_return, values));
	CHECK_EQ(atomic_load(&destroyed), 1 + 200);
	atomic_store(&destroyed, 0);
	join(spawn(set_some, NULL));
	CHECK_EQ(atomic_load(&destroyed), 1 + 200); /* key, set last, is destroyed first */
}

static void set_each_other(void *v)
{
	int i = (int)((int *)v - values);

	atomic_fetch_add(&destroyed, 1);
	CHECK_EQ(gmp_key_set(all[(i + 64) % 128], &values[(i + 64) % 128]), 0);
}

static void set_first_half(UNUSED void *arg)
{
	for (int i = 0; i < 64; i++)
		CHECK_EQ(gmp_key_set(all[i], &values[i]), 0);
}

RT(destructors_setting_each_others_values_terminate)
{
	for (int i = 0; i < 128; i++) /* two keys share a slot of a small table */
		CHECK_EQ(gmp_key_create(&all[i], set_each_other), 0);
	join(spawn(set_first_half, NULL));
	CHECK_EQ(atomic_load(&destroyed), 128 * 4);
}

static int order[64];

static void note_order(void *v)
{
	CHECK((int *)v - values < 64);
	order[(int *)v - values] = atomic_fetch_add(&destroyed, 1);
}

static void set_in_order(UNUSED void *arg)
{
	for (int i = 0; i < 64; i++) {
		int k = i * 37 % 64;

		CHECK_EQ(gmp_key_set(all[k], &values[i]), 0);
	}
	CHECK_EQ(gmp_key_set(all[0], &values[0]), 0); /* it had a value */
}

RT(destructors_run_in_reverse_order_of_set)
{
	for (int i = 0; i < 64; i++)
		CHECK_EQ(gmp_key_create(&all[i], note_order), 0);
	join(spawn(set_in_order, NULL));
	for (int i = 0; i < 64; i++)
		CHECK_EQ(order[i], 63 - i);
}

static gmp_chan *chan;

static void destroy_waiting(void *v)
{
	int got = 0;

	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_chan_recv(chan, &got), 0);
	CHECK_EQ(got, 42);
	CHECK(gmp_key_get(plain) == v); /* values without a destructor stay */
	atomic_fetch_add(&destroyed, 1);
}

static void set_both(void *arg)
{
	CHECK_EQ(gmp_key_set(plain, arg), 0);
	CHECK_EQ(gmp_key_set(key, arg), 0);
}

static void send_42(UNUSED void *arg)
{
	int v = 42;

	CHECK_EQ(gmp_chan_send(chan, &v), 0);
}

RT(destructor_may_wait_and_join_waits_for_it)
{
	gmp_g *g[20];
	struct ext_thread f;

	chan = gmp_chan_new(sizeof(int), 0);
	CHECK_EQ(gmp_key_create(&plain, NULL), 0);
	CHECK_EQ(gmp_key_create(&key, destroy_waiting), 0);
	for (int i = 0; i < 20; i++)
		g[i] = spawn(set_both, values);
	CHECK_EQ(gmp_join_until(g[0], gmp_deadline(5 * MS)), -ETIMEDOUT);
	CHECK_EQ(atomic_load(&destroyed), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_go(send_42, NULL), 0);
	for (int i = 0; i < 20; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&destroyed), 20);
	ext_thread_start(&f, set_both, values);
	send_42(NULL);
	ext_thread_join(&f);
	CHECK_EQ(atomic_load(&destroyed), 21);
	gmp_chan_free(chan);
}

static void destroy_spawning(void *v)
{
	gmp_g *g = spawn(set_and_exit, v);

	join(g);
	CHECK_EQ(gmp_go(set_only, v), 0);
	atomic_fetch_add(&count, 1);
}

static void set_other(void *arg)
{
	CHECK_EQ(gmp_key_set(other, arg), 0);
}

RT(destructor_may_spawn_and_join)
{
	make_keys();
	CHECK_EQ(gmp_key_create(&other, destroy_spawning), 0);
	for (int i = 0; i < 50; i++)
		join(spawn(set_other, values));
	WAIT_FOR(atomic_load(&destroyed) == 100);
	CHECK_EQ(atomic_load(&count), 100);
}

static void destroy_exiting(UNUSED void *v)
{
	atomic_fetch_add(&destroyed, 1);
	gmp_exit();
}

static void set_fifty(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_key_set(all[i], values), 0);
}

RT(gmp_exit_in_destructor_leaves_the_others_to_run)
{
	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_key_create(&all[i], destroy_exiting), 0);
	join(spawn(set_fifty, NULL));
	CHECK_EQ(atomic_load(&destroyed), 50);
}

static void destroy_cancelled(UNUSED void *v)
{
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_sleep(MS), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
	atomic_fetch_add(&destroyed, 1);
}

static void wait_for_the_cancel(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(key, values), 0);
	CHECK_EQ(gmp_sleep(100 * SEC), -ECANCELED);
}

RT(destructor_of_cancelled_g_may_mask_cancellation)
{
	gmp_g *g;

	CHECK_EQ(gmp_key_create(&key, destroy_cancelled), 0);
	g = spawn(wait_for_the_cancel, NULL);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(atomic_load(&destroyed), 1);
}

/* --- numbers of keys --- */

static void use_up_key_numbers(UNUSED void *arg)
{
	gmp_key k, first;

	CHECK_EQ(gmp_key_create(&first, NULL), 0);
	CHECK_EQ(gmp_key_set(first, values), 0);
	CHECK_EQ(gmp_key_delete(first), 0);
	for (int i = 0; i < 1 << 22; i++) { /* more numbers than one table entry has */
		CHECK_EQ(gmp_key_create(&k, NULL), 0);
		CHECK(gmp_key_get(k) == NULL);
		CHECK(k != first);
		CHECK_EQ(gmp_key_delete(k), 0);
	}
	/* Reading a deleted key is misuse. The value shows that no other key has its number. */
	CHECK(gmp_key_get(first) == values);
}

TEST(key_number_is_never_reused)
{
	int n = 0;

	run_procs(1, use_up_key_numbers, NULL);
	while (gmp_key_create(&all[n], NULL) == 0)
		n++;
	CHECK_EQ(n, KEYS - 1); /* the numbers of one table entry are used up */
	CHECK_EQ(gmp_key_delete(all[7]), 0);
	CHECK_EQ(gmp_key_create(&all[7], NULL), 0);
	CHECK_EQ(gmp_key_create(&key, NULL), -EAGAIN);
}

/* --- blocking code, runs, fork --- */

RT(blocking_code_sees_values_of_green_thread)
{
	make_keys();
	CHECK_EQ(gmp_key_set(key, values), 0);
	gmp_block_enter();
	CHECK(gmp_self() == NULL);
	CHECK(gmp_key_get(key) == values);
	CHECK(gmp_key_get(plain) == NULL);
	CHECK_EQ(gmp_key_set(plain, values + 1), 0);
	CHECK_EQ(gmp_key_set(key, values + 2), 0);
	gmp_block_leave();
	CHECK(gmp_key_get(plain) == values + 1);
	CHECK(gmp_key_get(key) == values + 2);
}

static void set_and_sleep(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(key, values), 0);
	CHECK_EQ(gmp_key_set(plain, values), 0);
	atomic_fetch_add(&count, 1);
	gmp_sleep(100 * SEC);
}

static void leave_sleepers(UNUSED void *arg)
{
	CHECK(gmp_key_get(key) == NULL);
	atomic_store(&count, 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_go(set_and_sleep, NULL), 0);
	WAIT_FOR(atomic_load(&count) == 100);
	CHECK_EQ(gmp_key_set(key, values), 0);
}

TEST_PROCS(green_thread_killed_at_shutdown_runs_no_destructors)
{
	make_keys();
	for (int i = 0; i < 5; i++) {
		run_procs(procs, leave_sleepers, NULL);
		CHECK_EQ(atomic_load(&destroyed), i + 1); /* of the entry, which returned */
	}
}

static void expect_null_then_set(UNUSED void *arg)
{
	CHECK(gmp_key_get(plain) == NULL);
	CHECK_EQ(gmp_key_set(plain, values + 5), 0);
}

TEST_PROCS(keys_and_external_threads_values_outlive_run)
{
	make_keys();
	CHECK_EQ(gmp_key_set(plain, values), 0);
	for (int i = 0; i < 5; i++) {
		run_procs(procs, expect_null_then_set, NULL);
		CHECK(gmp_key_get(plain) == values);
	}
}

static void expect_values(void)
{
	CHECK(gmp_self() == NULL);
	CHECK(gmp_key_get(plain) == values + 1);
	CHECK(gmp_key_get(key) == values + 2);
	CHECK_EQ(gmp_key_set(plain, values + 3), 0);
	CHECK(gmp_key_get(plain) == values + 3);
	if (!SANITIZED) /* sanitizers refuse threads in a forked child */
		CHECK_EQ(gmp_run(expect_null_then_set, NULL, NULL), 0);
	CHECK(gmp_key_get(plain) == values + 3);
}

static void fork_child(UNUSED void *arg)
{
	gmp_yield();
	CHECK_EQ(gmp_key_set(plain, values + 1), 0);
	CHECK_EQ(gmp_key_set(key, values + 2), 0);
	CHECK_EQ(in_child(expect_values), 0);
	CHECK(gmp_key_get(plain) == values + 1);
}

RT(fork_child_has_values_of_forking_thread)
{
	make_keys();
	join(spawn(fork_child, NULL));
	gmp_block_enter();
	fork_child(NULL);
	gmp_block_leave();
	CHECK_EQ(atomic_load(&destroyed), 1);
}

static void end_thread_of_child(void)
{
	pthread_exit(NULL);
}

static void fork_ending(UNUSED void *arg)
{
	CHECK(WIFEXITED(in_child(end_thread_of_child)));
}

TEST(fork_child_may_call_pthread_exit)
{
#ifdef __SANITIZE_ADDRESS__
	/* sysmon begins meanwhile; gcc 12's does not reset its locks in the child */
	check_skip("the end of a thread takes locks of AddressSanitizer, held at the fork");
#endif
	make_keys();
	CHECK_EQ(gmp_key_set(key, values), 0); /* of the external thread that becomes an M */
	run_procs(1, fork_ending, NULL);
	CHECK(gmp_key_get(key) == values);
}

static pid_t parent;

/* Runs as the first destructor.  v == values: the green thread has set other keys, too. */
static void fork_and_return(void *v)
{
	pid_t pid = fork();
	int status = -1;

	CHECK(pid >= 0);
	if (pid == 0) {
		atexit(abort);
		CHECK(gmp_self() == NULL);
		CHECK(gmp_key_get(key) == NULL);
		CHECK(gmp_key_get(plain) == (v == values ? v : NULL));
		return;
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	atomic_fetch_add(&count, 1);
}

static void destroy_in_parent(UNUSED void *v)
{
	CHECK_EQ(getpid(), parent);
	atomic_fetch_add(&destroyed, 1);
}

static void return_with_one_value(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(key, values + 1), 0);
}

static void exit_with_many_values(UNUSED void *arg)
{
	CHECK_EQ(gmp_key_set(other, values), 0);
	CHECK_EQ(gmp_key_set(plain, values), 0);
	CHECK_EQ(gmp_key_set(key, values), 0);
	gmp_exit();
}

static void fork_in_destructors(UNUSED void *arg)
{
	gmp_key far[8];

	parent = getpid();
	CHECK_EQ(gmp_key_create(&key, fork_and_return), 0);
	CHECK_EQ(gmp_key_create(&plain, NULL), 0);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_key_create(&far[i], destroy_in_parent), 0);
	for (int i = 0; i < 8; i += 3) { /* keys that share a slot enlarge the table */
		other = far[i];
		join(spawn(return_with_one_value, NULL));
		join(spawn(exit_with_many_values, NULL));
		CHECK_EQ(atomic_load(&count), i / 3 * 2 + 2);
		CHECK_EQ(atomic_load(&destroyed), i / 3 + 1);
	}
}

TEST_PROCS(fork_child_returning_from_destructor_exits_0)
{
	run_procs(procs, fork_in_destructors, NULL);
}

TEST(fork_child_returning_from_destructor_exits_0_threaded)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.sched = GMP_SCHED_THREAD;
	CHECK_EQ(gmp_run(fork_in_destructors, NULL, &cfg), 0);
}

static void make_services(UNUSED void *arg)
{
	enum { KEYS = 1024 };
	gmp_key all[KEYS];
	int n = 0;

	while (n < KEYS && gmp_key_create(&all[n], NULL) == 0)
		n++;
	CHECK(gmp_pool_new(1, NULL) == NULL);
	CHECK(gmp_group_new(1, GMP_FOREVER) == NULL);
	CHECK(gmp_singleflight_new(1) == NULL);
	while (n > 0)
		CHECK_EQ(gmp_key_delete(all[--n]), 0);
	gmp_pool *p = gmp_pool_new(1, NULL);
	gmp_group *g = gmp_group_new(1, GMP_FOREVER);
	gmp_singleflight *f = gmp_singleflight_new(1);

	CHECK(p && g && f);
	gmp_pool_free(p);
	gmp_group_free(g);
	gmp_singleflight_free(f);
}

TEST(services_new_without_free_key_fails_then_recovers)
{
	run_procs(1, make_services, NULL);
}
