/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_dump: it shows every green thread with its state, the parked ones with their backtrace,
 * and does not disturb them.
 */
#include "dump_util.h"

/* --- calls --- */

RT(dump_parked_g_shows_calls_down_to_entry)
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
	/* no frame of the runtime below the entry function */
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

RT(dump_caller_shows_its_own_calls)
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

RT(dump_deep_backtrace_is_cut_at_64_frames)
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

/* --- contents of a block --- */

RT(dump_shows_id_name_and_spawn_site)
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
	check_has(text, "; made at test_dump_first_line_counts_");
	free(text);
}

TEST_PROCS(dump_first_line_counts_gs_by_state)
{
	run_procs(procs, first_green_thread, NULL);
}

RT(dump_ended_g_is_counted_until_joined)
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

static void check_runnable_gs(UNUSED void *arg)
{
	const char *text = block_of("yields");

	check_has(text, "(entry yield_until_told), runnable; made at");
	check_has_not(text, "#0");
	text = block_of("new");
	check_has(text, "(entry yield_until_told), runnable, not begun; made at");
	check_has_not(text, "#0");
}

/* Keeps the only P while an external thread makes the dump. */
static void dump_runnable_gs(UNUSED void *arg)
{
	gmp_g *a = spawn_named("yields", yield_until_told, NULL), *b;
	struct ext_thread f;

	WAIT_FOR(atomic_load(&flag) == 1);
	b = spawn_named("new", yield_until_told, NULL);
	ext_thread_start(&f, check_runnable_gs, NULL);
	while (!atomic_load(&f.done))
		;
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	atomic_store(&go_on, 1);
	join(a);
	join(b);
}

TEST(dump_runnable_g_shows_no_calls)
{
	run_cooperative(1, dump_runnable_gs, NULL);
}

/* --- many --- */

static int stuck_ends[2];

static void read_without_declaration(UNUSED void *arg)
{
	char c;

	CHECK_EQ(read(stuck_ends[0], &c, 1), 1);
}

/* On the only P the G that reads keeps the others waiting until its P is taken. */
static void dump_preempted_g(UNUSED void *arg)
{
	char call[64];
	const char *b;
	gmp_g *g;

	CHECK_EQ(pipe(stuck_ends), 0);
	g = spawn_named("stuck", read_without_declaration, NULL);
	while (stats().preempted < 1)
		gmp_sleep(MS);
	snprintf(call, sizeof(call), " s, in read() of fd %d (pipe:[", stuck_ends[0]);
	b = block_of("stuck");
	check_has(b, "(entry read_without_declaration), running without a P for ");
	check_has(b, call);
	CHECK_EQ(write(stuck_ends[1], "x", 1), 1);
	join(g);
	close(stuck_ends[0]);
	close(stuck_ends[1]);
}

TEST(dump_preempted_g_shows_system_call)
{
	run_procs(1, dump_preempted_g, NULL);
}

RT(dump_of_10000_gs_shows_each_one)
{
	enum { MANY = 10000 };
	unsigned n = (unsigned)check_scaled(MANY), written;
	unsigned ids = n + 1 + 64 * 16; /* Ps take blocks of ids */
	unsigned char *seen = calloc(ids, 1);
	gmp_g **g = calloc(n, sizeof(*g));
	char *text;

	CHECK(seen && g);
	begin_chan();
	for (unsigned i = 0; i < n; i++)
		g[i] = spawn(entry_of_all, NULL);
	wait_parked(n);
	text = dump();
	CHECK_EQ(count(text, "\ngreen thread "), n + 1);
	for (const char *at = text; (at = strstr(at, "\ngreen thread ")); at++) {
		uint64_t id = strtoull(at + strlen("\ngreen thread "), NULL, 10);

		CHECK(id < ids);
		seen[id] = 1;
	}
	for (unsigned i = 0; i < n; i++)
		CHECK(seen[gmp_id(g[i])]);
	/*
	 * 100 of each distinct backtrace: there are one or two, by whether the channel lock was
	 * contended
	 */
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

/* --- a dump does not disturb --- */

static void pass_counter(void *arg)
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

RT(dump_does_not_lose_wakeups_of_dumped_gs)
{
	gmp_chan *c[3] = { gmp_chan_new(sizeof(long), 0), gmp_chan_new(sizeof(long), 0) };
	gmp_chan *there[2] = { c[0], c[1] }, *back[2] = { c[1], c[0] };
	gmp_g *a = spawn(pass_counter, there), *b = spawn(pass_counter, back);
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

/* The entry functions child_main and pool_worker of gmp would tell the reader nothing. */
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
