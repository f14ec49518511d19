/* SPDX-License-Identifier: MIT */
/*
 * Tests that gmp_dump groups green threads that are alike into one block with its members, ages and
 * backtrace.
 */
#include "dump_util.h"

static char *grouped(void)
{
	return dump_by(gmp_dump);
}

static void end_all(gmp_g **g, unsigned n)
{
	CHECK_EQ(gmp_chan_close(ch), 0);
	for (unsigned i = 0; i < n; i++)
		join(g[i]);
	gmp_chan_free(ch);
}

CALL static gmp_g *spawn_here(gmp_fn fn, void *arg)
{
	gmp_g *g = spawn(fn, arg);

	no_more();
	return g;
}

/*
 * The backtrace depends on whether the channel lock was contended, so all but a few are in one
 * group.
 */
RT(dump_alike_green_threads_share_a_block)
{
	enum { N = 300 };
	gmp_g *g[N];
	char *text, want[64];
	unsigned groups, members = 0;

	begin_chan();
	for (int i = 0; i < N; i++)
		g[i] = spawn_here(entry_of_all, NULL);
	wait_parked(N);
	text = grouped();
	groups = count(text, " \u00d7 green thread (entry entry_of_all), waiting for ");
	CHECK(groups >= 1 && groups <= 3);
	for (const char *at = text; (at = strstr(at, " \u00d7 green thread (")); at++) {
		const char *line = at;

		while (line > text && line[-1] != '\n')
			line--;
		members += (unsigned)strtoul(line, NULL, 10);
	}
	CHECK(members >= N - 2 && members <= N);
	check_has(text, address(": channel receive", ch));
	check_has(text, "; made at spawn_here+0x");
	check_has(text, " s ago\n    ");
	check_has_not(text, " and others");
	CHECK(count(text, " inner_call+0x") <= 5);
	snprintf(want, sizeof(want), "%d green threads: ", N + 1);
	CHECK_EQ(strncmp(text, want, strlen(want)), 0);
	free(text);
	end_all(g, N);
}

RT(dump_all_shows_each_by_itself)
{
	gmp_g *g[20];
	char *text;

	begin_chan();
	for (int i = 0; i < 20; i++)
		g[i] = spawn_here(entry_of_all, NULL);
	wait_parked(20);
	text = dump_by(gmp_dump_all);
	CHECK_EQ(count(text, "\ngreen thread "), 21);
	check_has_not(text, "\u00d7");
	free(text);
	end_all(g, 20);
}

/* Parked one after the other, so that the backtraces are equal. */
static gmp_g *spawn_parked(const char *name, uint64_t n)
{
	gmp_g *g = spawn_named(name, entry_of_all, NULL);

	wait_parked(n);
	return g;
}

RT(dump_group_lists_names_and_ranges)
{
	gmp_g *g[16];
	char *text, want[256];

	begin_chan();
	for (int i = 0; i < 4; i++)
		g[i] = spawn_parked("", (uint64_t)i + 1);
	g[4] = spawn_parked("alpha", 5);
	for (int i = 5; i < 7; i++)
		g[i] = spawn_parked("", (uint64_t)i + 1);
	text = grouped();
	snprintf(want, sizeof(want), "\n    %llu-%llu, %llu \"alpha\", %llu, %llu\n",
		 (unsigned long long)gmp_id(g[0]), (unsigned long long)gmp_id(g[3]),
		 (unsigned long long)gmp_id(g[4]), (unsigned long long)gmp_id(g[5]),
		 (unsigned long long)gmp_id(g[6]));
	if (procs == 1)
		check_has(text, want);
	check_has(text, "\"alpha\"");
	free(text);
	for (int i = 7; i < 16; i++)
		g[i] = spawn_parked("beta", (uint64_t)i + 1);
	text = grouped();
	check_has(text, " more\n    #0 0x");
	free(text);
	end_all(g, 16);
}

static void wait_own(void *arg)
{
	gmp_chan_recv(arg, NULL);
	no_more();
}

RT(dump_group_at_different_objects_says_so)
{
	gmp_chan *c[10];
	gmp_g *g[10];
	char *text;

	for (int i = 0; i < 10; i++) {
		c[i] = gmp_chan_new(0, 0);
		g[i] = spawn_here(wait_own, c[i]);
	}
	wait_parked(10);
	text = grouped();
	check_has(text, "10 \u00d7 green thread (entry wait_own), ");
	check_has(text, " and others; made at ");
	free(text);
	for (int i = 0; i < 10; i++) {
		gmp_chan_close(c[i]);
		join(g[i]);
		gmp_chan_free(c[i]);
	}
}

static gmp_mutex held[2];

static void lock_it(void *arg)
{
	gmp_mutex_lock(arg);
	gmp_mutex_unlock(arg);
	no_more();
}

static gmp_chan *go_on;

static void hold_it(void *arg)
{
	gmp_mutex_lock(arg);
	gmp_chan_recv(go_on, NULL);
	gmp_mutex_unlock(arg);
}

/* Waiters for locks with different holders must not share a group. */
RT(dump_waits_for_different_holders_are_different_groups)
{
	char *text, want[64];
	gmp_g *h[2], *g[6];

	go_on = gmp_chan_new(0, 0);
	for (int i = 0; i < 2; i++)
		h[i] = spawn_here(hold_it, &held[i]);
	wait_parked(2);
	for (int i = 0; i < 6; i++) {
		g[i] = spawn_here(lock_it, &held[i % 2]);
		wait_parked((uint64_t)i + 3);
	}
	text = grouped();
	for (int i = 0; i < 2; i++) {
		snprintf(want, sizeof(want), ", held by green thread %llu; made at ",
			 (unsigned long long)gmp_id(h[i]));
		CHECK_EQ(count(text, want), 1);
	}
	CHECK_EQ(count(text, "3 \u00d7 green thread (entry lock_it)"), 2);
	free(text);
	gmp_chan_close(go_on);
	for (int i = 0; i < 6; i++)
		join(g[i]);
	join(h[0]);
	join(h[1]);
	gmp_chan_free(go_on);
}

/* More kinds of backtrace than groups: the rest is shown one by one. */
CALL static void deep(uint32_t bits, int n)
{
	if (n == 0)
		inner_call();
	else if (bits & 1)
		deep(bits >> 1, n - 1);
	else
		deep(bits >> 1, n - 1); /* another return address */
	no_more();
}

static void entry_deep(void *arg)
{
	deep((uint32_t)(uintptr_t)arg, 12);
}

RT(dump_more_kinds_than_groups_shows_the_rest)
{
	unsigned n = (unsigned)check_scaled(4096), shown;
	gmp_g **g = calloc(n, sizeof(*g));
	char *text;

	begin_chan();
	for (unsigned i = 0; i < n; i++)
		g[i] = spawn_here(entry_deep, (void *)(uintptr_t)i);
	wait_parked(n);
	text = grouped();
	shown = count(text, "\ngreen thread ");
	for (const char *at = text; (at = strstr(at, " \u00d7 green thread (")); at++) {
		const char *line = at;

		while (line > text && line[-1] != '\n')
			line--;
		shown += (unsigned)strtoul(line, NULL, 10);
	}
	CHECK_EQ(shown, n + 1);
	free(text);
	end_all(g, n);
	free(g);
}

/* --- age --- */

static double age_of(const char *name)
{
	const char *at = strstr(block_of(name), "; made at ");
	double s = -1;

	CHECK(at != NULL);
	at = strstr(at, ", ");
	CHECK_EQ(sscanf(at, ", %lf s ago", &s), 1);
	return s;
}

RT(dump_age_is_since_the_spawn)
{
	int64_t before = gmp_now();
	double least, most;
	gmp_g *g;

	begin_chan();
	g = spawn_named("old", entry_of_all, NULL);
	gmp_sleep(400 * MS);
	least = 0.35;
	most = (double)(gmp_now() - before) / 1e9 + 1;
	CHECK(age_of("old") >= least);
	CHECK(age_of("old") <= most + 1);
	end_chan(g);
}

/* The cached clock of the ages is not updated while the runtime is idle. */
TEST(dump_age_after_a_long_rest_is_right)
{
	gmp_g *g;

	CHECK_EQ(gmp_start(NULL), 0);
	begin_chan();
	gmp_sleep(3500 * MS);
	g = spawn_named("new", entry_of_all, NULL);
	wait_parked(1);
	CHECK(age_of("new") < 2);
	end_chan(g);
	CHECK_EQ(gmp_stop(), 0);
}

/* --- the function that waits --- */

RT(dump_wait_function_is_shown_in_every_build)
{
	const char *b, *at;
	gmp_g *g;

	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	b = block_of("parked");
	check_has(b, " gmp_chan_recv");
	at = strstr(b, " gmp_chan_recv");
	check_has(at, " inner_call+0x");
	end_chan(g);
}

/* Functions that tail-call the wait, or another function that waits. */
CALL static int jumps_to_wait(int *v)
{
	return gmp_chan_recv(ch, v);
}

CALL static int jumps_on(int *v)
{
	return jumps_to_wait(v);
}

static void entry_jumps(UNUSED void *arg)
{
	int v;

	CHECK_EQ(jumps_on(&v), -EPIPE);
	no_more();
}

RT(dump_function_left_by_a_jump_is_shown)
{
	const char *b;
	gmp_g *g;

	begin_chan();
	g = spawn_named("jumps", entry_jumps, NULL);
	wait_parked(1);
	b = block_of("jumps");
	check_has(b, " jumps_on");
	check_has(b, " entry_jumps+0x");
	end_chan(g);
}
