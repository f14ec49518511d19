/* SPDX-License-Identifier: MIT */
/* Tests that gmp_dump tells of every green thread what it is and does, and of the parked ones by which
 * calls they came there; and that nobody is disturbed by that. */
#include "dump_util.h"

/* --- calls --- */

RT(a_parked_one_shows_its_calls_down_to_its_entry)
{
	const char *b, *last;
	gmp_g *g;

	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	b = block_of("parked");
	check_has(b, address(": channel receive", ch));
	check_has(b, "(entry entry_of_all), waiting for ");
	check_has(b, "\n    #0 0x");
	check_has(b, " inner_call+0x");
	check_has(strstr(b, " inner_call+0x"), " outer_call+0x");
	check_has(strstr(b, " outer_call+0x"), " entry_of_all+0x");
	/* nothing of the runtime below the entry */
	last = strstr(b, " entry_of_all+0x");
	CHECK(strchr(last, '\n')[1] == '\0');
	end_chan(g);
}

CALL static const char *dump_in_a_call(const char *name)
{
	const char *b = block_of(name);

	no_more();
	return b;
}

static void dump_itself(UNUSED void *arg)
{
	const char *b = dump_in_a_call("myself");

	check_has(b, "(entry dump_itself), running, the caller of gmp_dump; made at ");
	check_has(b, "\n    #0 0x");
	check_has(b, " dump_by+0x");
	check_has(strstr(b, " dump_by+0x"), " dump_in_a_call+0x");
	check_has(strstr(b, " dump_in_a_call+0x"), " dump_itself+0x");
	check_has_not(b, " gmp_dump+0x");
}

RT(the_caller_shows_its_own_calls)
{
	join(spawn_named("myself", dump_itself, NULL));
}

CALL static void recurse(int n)
{
	if (n > 0)
		recurse(n - 1);
	else
		inner_call();
	no_more();
}

static void deep_entry(UNUSED void *arg)
{
	recurse(200);
}

RT(deep_calls_are_shown_in_part)
{
	const char *b;
	gmp_g *g;

	begin_chan();
	g = spawn_named("deep", deep_entry, NULL);
	wait_parked(1);
	b = block_of("deep");
	check_has(b, " inner_call+0x");
	check_has(b, "    #63 0x");
	check_has_not(b, "    #64 0x");
	check_has(b, "\n    ...\n");
	end_chan(g);
}

/* --- what is said of each --- */

RT(id_name_and_place_are_told)
{
	char text[128];
	const char *b;
	gmp_g *g;

	begin_chan();
	g = spawn_named("with a name of its own", entry_of_all, NULL);
	wait_parked(1);
	b = block_of("with a name of its own");
	snprintf(text, sizeof(text), "green thread %llu \"with a name of its own\" (entry ",
		 (unsigned long long)gmp_id(g));
	CHECK_EQ(strncmp(b, text, strlen(text)), 0);
	check_has(b, "; made at spawn_named+0x");
	end_chan(g);
}

static atomic_int flag, go_on;

static void nothing(UNUSED void *arg)
{
	atomic_fetch_add(&flag, 1);
}

static void first_green_thread(UNUSED void *arg)
{
	char *text = dump();

	check_has(text, "1 green threads: 0 runnable, 1 running, 0 waiting, 0 in blocking code; 0 "
			"ended and not joined\n");
	check_has(text, "\ngreen thread 1 \"\" (entry first_green_thread), running");
	check_has(text, "; made at test_the_first_line_counts_");
	free(text);
}

TEST_PROCS(the_first_line_counts_and_the_first_was_made_by_gmp_run)
{
	run_procs(procs, first_green_thread, NULL);
}

RT(one_that_ended_is_counted_until_it_is_joined_and_has_no_block)
{
	gmp_g *g = spawn_named("ended", nothing, NULL);
	char *text;

	WAIT_FOR(stats().exits == 1);
	text = dump();
	check_has(text, "; 1 ended and not joined\n");
	check_has_not(text, "\"ended\"");
	free(text);
	join(g);
	text = dump();
	check_has(text, "; 0 ended and not joined\n");
	free(text);
}

static void yield_until_told(UNUSED void *arg)
{
	atomic_fetch_add(&flag, 1);
	while (!atomic_load(&go_on))
		gmp_yield();
}

static void look_at_ready_ones(UNUSED void *arg)
{
	const char *text = block_of("yields");

	check_has(text, "(entry yield_until_told), runnable; made at");
	check_has_not(text, "#0");
	text = block_of("new");
	check_has(text, "(entry yield_until_told), runnable, not begun; made at");
	check_has_not(text, "#0");
}

/* Keeps the only P while another thread looks. */
static void ready_ones(UNUSED void *arg)
{
	gmp_g *a = spawn_named("yields", yield_until_told, NULL), *b;
	struct ext_thread f;

	WAIT_FOR(atomic_load(&flag) == 1);
	b = spawn_named("new", yield_until_told, NULL);
	ext_thread_start(&f, look_at_ready_ones, NULL);
	while (!atomic_load(&f.done))
		;
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	atomic_store(&go_on, 1);
	join(a);
	join(b);
}

TEST(those_that_are_ready_show_no_calls)
{
	check_skip_on_valgrind("to look takes so long that the watcher adds a P, and they run");
	run_procs(1, ready_ones, NULL);
}

static void compute(UNUSED void *arg)
{
	atomic_fetch_add(&flag, 1);
	while (!atomic_load(&go_on))
		;
}

static void one_that_runs(UNUSED void *arg)
{
	gmp_g *g = spawn_named("computes", compute, NULL);
	const char *text;

	while (!atomic_load(&flag))
		gmp_yield(); /* the other P has it, or this one gets back by the watcher */
	text = block_of("computes");
	check_has(text, "(entry compute), running; made at");
	check_has_not(text, "#0");
	atomic_store(&go_on, 1);
	join(g);
}

TEST(one_that_runs_elsewhere_shows_no_calls)
{
	run_procs(2, one_that_runs, NULL);
}

/* --- many --- */

RT(of_ten_thousand_everyone_is_there)
{
	enum { MANY = 10000 };
	unsigned n = (unsigned)check_scaled(MANY), written;
	unsigned char *seen = calloc(n + 2, 1);
	gmp_g **g = calloc(n, sizeof(*g));
	char *text;

	CHECK(seen && g);
	begin_chan();
	for (unsigned i = 0; i < n; i++)
		g[i] = spawn(entry_of_all, NULL);
	wait_parked(n);
	text = dump();
	CHECK_EQ(count(text, "\ngreen thread "), n + 1);
	for (const char *at = text; (at = strstr(at, "\ngreen thread ")); at++)
		seen[strtoull(at + strlen("\ngreen thread "), NULL, 10)] = 1;
	for (unsigned i = 0; i < n; i++)
		CHECK(seen[gmp_id(g[i])]);
	/* 100 times each: there are two ways into the wait, by the lock's state when they came */
	written = count(text, " entry_of_all+0x");
	CHECK(written >= 100 && written <= 200);
	CHECK_EQ(count(text, "; backtrace as green thread "), n - written);
	free(text);
	CHECK_EQ(gmp_chan_close(ch), 0);
	for (unsigned i = 0; i < n; i++)
		join(g[i]);
	gmp_chan_free(ch);
	free(seen);
	free(g);
}

/* --- nobody is disturbed --- */

static void take_turns(void *arg)
{
	gmp_chan **c = arg;
	long v;

	while (gmp_chan_recv(c[0], &v) == 0) {
		v++;
		if (gmp_chan_send(c[1], &v))
			break;
	}
	gmp_chan_close(c[1]);
}

RT(who_is_looked_at_is_woken_all_the_same)
{
	gmp_chan *c[3] = { gmp_chan_new(sizeof(long), 0), gmp_chan_new(sizeof(long), 0) };
	gmp_chan *there[2] = { c[0], c[1] }, *back[2] = { c[1], c[0] };
	gmp_g *a = spawn(take_turns, there), *b = spawn(take_turns, back);
	long v = 0, dumps = check_scaled(300);
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(gmp_chan_send(c[0], &v), 0);
	for (long i = 0; i < dumps; i++) {
		CHECK_EQ(gmp_dump(fd), 0);
		gmp_yield();
	}
	close(fd);
	CHECK_EQ(gmp_chan_close(c[0]), 0);
	join(a);
	join(b);
	gmp_chan_free(c[0]);
	gmp_chan_free(c[1]);
}

/* --- green threads of services --- */

static int waits_as_child(UNUSED void *arg)
{
	inner_call();
	no_more();
	return 0;
}

static void waits_as_task(UNUSED void *arg)
{
	inner_call();
	no_more();
}

/* gmp's own functions, with which these begin, say nothing. */
RT(dump_group_child_and_pool_task_show_their_function)
{
	gmp_group *g = gmp_group_new(0, GMP_FOREVER);
	gmp_pool *p = gmp_pool_new(1, NULL);
	char *text;

	begin_chan();
	CHECK_EQ(gmp_group_go(g, waits_as_child, NULL), 0);
	CHECK_EQ(gmp_pool_submit(p, waits_as_task, NULL), 0);
	wait_parked(2);
	text = dump();
	check_has(text, " (entry waits_as_child), waiting");
	check_has(text, " (entry waits_as_task), waiting");
	check_has_not(text, "(entry child_main");
	check_has_not(text, "(entry pool_worker");
	free(text);
	CHECK_EQ(gmp_chan_close(ch), 0);
	CHECK_EQ(gmp_group_wait(g), 0);
	gmp_group_free(g);
	gmp_pool_free(p);
	gmp_chan_free(ch);
}
