/* SPDX-License-Identifier: MIT */
/* Tests that gmp_dump tells of every green thread what it does, and of the parked ones by which calls
 * they came there. */
#define _GNU_SOURCE 1
#include "util.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

/* A function that is called, by its own name. */
#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

/* --- reading a dump --- */

/* A whole dump as text; the caller frees it. */
CALL static char *dump(void)
{
	int fd = memfd_create("dump", MFD_CLOEXEC);
	off_t size;
	char *text;

	CHECK(fd >= 0);
	CHECK_EQ(gmp_dump(fd), 0);
	size = lseek(fd, 0, SEEK_END);
	CHECK(size > 0);
	text = malloc((size_t)size + 1);
	CHECK(text != NULL);
	CHECK_EQ(pread(fd, text, (size_t)size, 0), size);
	text[size] = '\0';
	close(fd);
	return text;
}

/* The block of the first green thread with that name, cut out of a fresh dump. */
static const char *block_of(const char *name)
{
	static _Thread_local char block[16384];
	char *text = dump(), key[96], *at, *end;

	snprintf(key, sizeof(key), " \"%s\" (entry ", name);
	at = strstr(text, key);
	if (!at)
		check_failed("no green thread \"%s\" in:\n%s", name, text);
	while (at > text && at[-1] != '\n')
		at--;
	for (end = at; (end = strchr(end, '\n')) && end[1] == ' ';)
		end++;
	CHECK(end != NULL);
	CHECK((size_t)(end + 1 - at) < sizeof(block));
	memcpy(block, at, (size_t)(end + 1 - at));
	block[end + 1 - at] = '\0';
	free(text);
	return block;
}

static void check_has(const char *text, const char *what)
{
	if (!strstr(text, what))
		check_failed("\"%s\" is not in:\n%s", what, text);
}

static void check_has_not(const char *text, const char *what)
{
	if (strstr(text, what))
		check_failed("\"%s\" is in:\n%s", what, text);
}

static const char *address(const char *before, const void *p)
{
	static _Thread_local char text[128];

	snprintf(text, sizeof(text), "%s 0x%lx", before, (unsigned long)(uintptr_t)p);
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

CALL static gmp_g *spawn_named(const char *name, gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = name;
	CHECK_EQ(gmp_spawn(&g, fn, arg, &a), 0);
	return g;
}

static void no_more(void)
{
	__asm__ volatile("" ::: "memory"); /* so that calls before it are no jumps */
}

/* --- calls --- */

static gmp_chan *ch;

CALL static void inner_call(void)
{
	int v;

	CHECK_EQ(gmp_chan_recv(ch, &v), -EPIPE);
	no_more();
}

CALL static void outer_call(void)
{
	inner_call();
	no_more();
}

static void entry_of_all(UNUSED void *arg)
{
	outer_call();
	no_more();
}

static void begin_chan(void)
{
	ch = gmp_chan_new(sizeof(int), 0);
	CHECK(ch != NULL);
}

static void end_chan(gmp_g *g)
{
	CHECK_EQ(gmp_chan_close(ch), 0);
	join(g);
	gmp_chan_free(ch);
}

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
	check_has(b, " dump+0x");
	check_has(strstr(b, " dump+0x"), " dump_in_a_call+0x");
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
	struct foreign f;

	WAIT_FOR(atomic_load(&flag) == 1);
	b = spawn_named("new", yield_until_told, NULL);
	foreign_start(&f, look_at_ready_ones, NULL);
	while (!atomic_load(&f.done))
		;
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	atomic_store(&go_on, 1);
	join(a);
	join(b);
}

TEST(those_that_are_ready_show_no_calls)
{
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

static void sleep_long(UNUSED void *arg)
{
	gmp_sleep(3600 * SEC);
}

/* Timed by a clock that somebody has read a while before: it may be said to have waited for a little
 * longer than it has, and for a second where the machine is busy. */
RT(the_time_of_a_wait_is_told)
{
	double s = -1;
	int64_t before;

	spawn_named("sleeper", sleep_long, NULL);
	before = gmp_now();
	wait_parked(1);
	gmp_sleep(300 * MS);
	CHECK_EQ(sscanf(strstr(block_of("sleeper"), ", waiting for "),
			", waiting for %lf s: sleep;", &s),
		 1);
	CHECK(s >= 0.3);
	CHECK(s < (double)(gmp_now() - before) / 1e9 + 1);
}

static void wait_twice(UNUSED void *arg)
{
	int v;

	CHECK_EQ(gmp_chan_recv(ch, &v), 0);
	inner_call();
}

/* The clock that waits are timed by stands still while nothing happens. */
TEST(after_a_long_rest_the_time_of_a_wait_is_right)
{
	double s = -1;
	int v = 1;
	gmp_g *g;

	CHECK_EQ(gmp_start(NULL), 0);
	begin_chan();
	g = spawn_named("wakes", wait_twice, NULL);
	wait_parked(1);
	gmp_sleep(4000 * MS);
	CHECK_EQ(sscanf(strstr(block_of("wakes"), ", waiting for "), ", waiting for %lf s", &s), 1);
	CHECK(s > 3);
	CHECK_EQ(gmp_chan_send(ch, &v), 0);
	WAIT_FOR(strstr(block_of("wakes"), " inner_call+0x") != NULL);
	CHECK_EQ(sscanf(strstr(block_of("wakes"), ", waiting for "), ", waiting for %lf s", &s), 1);
	CHECK(s < 2);
	end_chan(g);
	CHECK_EQ(gmp_stop(), 0);
}

/* --- what is waited for --- */

static gmp_mutex mu;
static gmp_rwmutex rw, read_locked;
static gmp_wg wg;
static gmp_chan *full, *empty;
static gmp_g *target;
static gmp_timer *timer;
static int ends[2], filled[2];

static void wait_mutex(UNUSED void *arg)
{
	gmp_mutex_lock(&mu);
	no_more();
}

static void wait_mutex_until(UNUSED void *arg)
{
	gmp_mutex_lock_until(&mu, gmp_deadline(3600 * SEC));
	no_more();
}

static void wait_rlock(UNUSED void *arg)
{
	gmp_rwmutex_rlock(&rw);
	no_more();
}

static void wait_wlock(UNUSED void *arg)
{
	gmp_rwmutex_lock(&rw);
	no_more();
}

static void wait_readers(UNUSED void *arg)
{
	gmp_rwmutex_lock(&read_locked);
	no_more();
}

static void wait_wg(UNUSED void *arg)
{
	gmp_wg_wait(&wg);
	no_more();
}

static void wait_send(UNUSED void *arg)
{
	int v = 0;

	gmp_chan_send(full, &v);
	no_more();
}

static void wait_recv(UNUSED void *arg)
{
	gmp_chan_recv(empty, NULL);
	no_more();
}

static void wait_select(UNUSED void *arg)
{
	int v;
	gmp_case cases[] = { GMP_RECV_CASE(empty, &v), GMP_SEND_CASE(full, &v) };

	gmp_select(cases, 2);
	no_more();
}

static void wait_many(UNUSED void *arg)
{
	gmp_case cases[10];

	for (int i = 0; i < 10; i++)
		cases[i] = (gmp_case)GMP_RECV_CASE(i == 2 ? NULL : empty, NULL);
	gmp_select(cases, 10);
	no_more();
}

static void wait_nothing(UNUSED void *arg)
{
	gmp_select(NULL, 0);
	no_more();
}

static void wait_join(UNUSED void *arg)
{
	gmp_join(target);
	no_more();
}

static void wait_read(UNUSED void *arg)
{
	char c;

	gmp_read(ends[0], &c, 1);
	no_more();
}

static void wait_write(UNUSED void *arg)
{
	static char much[1 << 20];

	gmp_write_all(filled[1], much, sizeof(much));
	no_more();
}

static void on_timer(UNUSED void *arg)
{
	gmp_chan_recv(empty, NULL);
	no_more();
}

static void wait_timer(UNUSED void *arg)
{
	gmp_timer_free(timer);
	no_more();
}

static void check_waits(const char *name, const char *what)
{
	char text[160];

	snprintf(text, sizeof(text), " s: %s; made at spawn_named+0x", what);
	check_has(block_of(name), text);
}

/* Everything waits; the end of the run drops it. */
RT(what_each_waits_for_is_told)
{
	char text[160];

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_rlock(&read_locked), 0);
	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	empty = gmp_chan_new(sizeof(int), 1);
	full = gmp_chan_new(sizeof(int), 0);
	CHECK_EQ(pipe(ends), 0);
	CHECK(gmp_adopt(ends[0]) >= 0);
	CHECK_EQ(pipe(filled), 0);
	CHECK(gmp_adopt(filled[1]) >= 0);
	timer = gmp_timer_new(on_timer, NULL);
	CHECK_EQ(gmp_timer_set(timer, 0, 0), 0);
	WAIT_FOR(stats().greens_waiting == 1);
	target = spawn_named("sleep", sleep_long, NULL);
	spawn_named("mutex", wait_mutex, NULL);
	spawn_named("mutex until", wait_mutex_until, NULL);
	spawn_named("rlock", wait_rlock, NULL);
	spawn_named("wlock", wait_wlock, NULL);
	spawn_named("readers", wait_readers, NULL);
	spawn_named("wg", wait_wg, NULL);
	spawn_named("send", wait_send, NULL);
	spawn_named("recv", wait_recv, NULL);
	spawn_named("select", wait_select, NULL);
	spawn_named("many", wait_many, NULL);
	spawn_named("no case", wait_nothing, NULL);
	spawn_named("join", wait_join, NULL);
	spawn_named("read", wait_read, NULL);
	spawn_named("write", wait_write, NULL);
	spawn_named("timer", wait_timer, NULL);
	wait_parked(17);

	check_waits("sleep", "sleep");
	snprintf(text, sizeof(text), "%s, held by green thread 1", address("mutex lock", &mu));
	check_waits("mutex", text);
	check_waits("mutex until", text);
	snprintf(text, sizeof(text), "%s, held by green thread 1",
		 address("rwmutex read lock", &rw));
	check_waits("rlock", text);
	snprintf(text, sizeof(text), "%s, held by green thread 1", address("rwmutex lock", &rw));
	check_waits("wlock", text);
	check_waits("readers", address("rwmutex lock", &read_locked));
	check_waits("wg", address("wait group", &wg));
	check_waits("send", address("channel send", full));
	check_waits("recv", address("channel receive", empty));
	snprintf(text, sizeof(text), "select: receive %p, send %p", (void *)empty, (void *)full);
	check_waits("select", text);
	check_has(block_of("many"), address("select: receive", empty));
	check_has(block_of("many"), ", and 3 more; made");
	check_has(block_of("no case"), " s: select without cases");
	snprintf(text, sizeof(text), "join of green thread %llu",
		 (unsigned long long)gmp_id(target));
	check_waits("join", text);
	snprintf(text, sizeof(text), "read from descriptor %d", ends[0]);
	check_waits("read", text);
	snprintf(text, sizeof(text), "write to descriptor %d", filled[1]);
	check_waits("write", text);
	check_waits("timer", address("timer free", timer));
	/* a timer's green thread was made where the timer was */
	check_has(block_of(""), "what_each_waits_for_is_told_");
	for (const char *const *w = (const char *const[]){ "mutex", "rlock", "wg", "send", "select",
							   "join", "read", "write", NULL };
	     *w; w++) {
		char call[32];

		snprintf(call, sizeof(call), " wait_%s+0x", *w);
		check_has(block_of(*w), call);
	}
}

static void lock_and_end(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
}

static void lock_and_note(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(a_holder_that_has_ended_is_told)
{
	gmp_g *holder = spawn(lock_and_end, NULL), *g;
	char text[64];

	WAIT_FOR(stats().exits == 1);
	g = spawn_named("waiter", lock_and_note, NULL);
	wait_parked(1);
	snprintf(text, sizeof(text), ", held by green thread %llu, which has ended; ",
		 (unsigned long long)gmp_id(holder));
	check_has(block_of("waiter"), text);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	join(g);
	join(holder);
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

/* --- from where, and to where --- */

static void dump_from_here(UNUSED void *arg)
{
	const char *b = block_of("parked");

	check_has(b, address(": channel receive", ch));
	check_has(strstr(b, " inner_call+0x"), " entry_of_all+0x");
	check_has_not(b, "the caller");
}

RT(a_foreign_thread_can_dump)
{
	struct foreign f;
	gmp_g *g;

	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	foreign_start(&f, dump_from_here, NULL);
	foreign_join(&f);
	end_chan(g);
}

TEST(a_started_runtime_can_be_dumped_until_it_stops)
{
	gmp_g *g;

	CHECK_EQ(gmp_dump(2), -ESRCH);
	CHECK_EQ(gmp_start(NULL), 0);
	begin_chan();
	g = spawn_named("parked", entry_of_all, NULL);
	wait_parked(1);
	dump_from_here(NULL);
	end_chan(g);
	CHECK_EQ(gmp_stop(), 0);
	CHECK_EQ(gmp_dump(2), -ESRCH);
}

static void dump_on_a_small_stack(UNUSED void *arg)
{
	dump_from_here(NULL);
	check_has(block_of("small"), " dump+0x");
}

RT(the_smallest_stack_is_enough)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g, *small;

	begin_chan();
	a.stack_size = 16384;
	a.name = "parked";
	CHECK_EQ(gmp_spawn(&g, entry_of_all, NULL, &a), 0);
	wait_parked(1);
	a.name = "small";
	if (SANITIZED)
		a.stack_size = 65536;
	CHECK_EQ(gmp_spawn(&small, dump_on_a_small_stack, NULL, &a), 0);
	join(small);
	end_chan(g);
}

static void check_bad_descriptors(UNUSED void *arg)
{
	int fds[2], full_fd;

	CHECK_EQ(gmp_dump(-1), -EBADF);
	CHECK_EQ(gmp_dump(1 << 20), -EBADF);
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(gmp_dump(fds[0]), -EBADF);
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(gmp_dump(fds[1]), -EPIPE);
	close(fds[1]);
	CHECK_EQ(gmp_dump(fds[1]), -EBADF);
	full_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (full_fd >= 0)
		CHECK_EQ(gmp_dump(full_fd), -ENOSPC);
	close(full_fd);
}

RT(what_write_says_is_returned)
{
	struct foreign f;

	check_bad_descriptors(NULL);
	foreign_start(&f, check_bad_descriptors, NULL);
	foreign_join(&f);
}

/* The text of a dump of these is more than a pipe holds. */
enum { PIPEFUL = 400 };

static gmp_g *crowd[PIPEFUL];

static void begin_crowd(void)
{
	begin_chan();
	for (int i = 0; i < PIPEFUL; i++)
		crowd[i] = spawn(entry_of_all, NULL);
	wait_parked(PIPEFUL);
}

static void end_crowd(void)
{
	CHECK_EQ(gmp_chan_close(ch), 0);
	for (int i = 0; i < PIPEFUL; i++)
		join(crowd[i]);
	gmp_chan_free(ch);
}

static int pipe_fds[2];
static atomic_long bytes_read;

static void read_slowly(UNUSED void *arg)
{
	char buf[1000];
	ssize_t n;

	while ((n = gmp_read(pipe_fds[0], buf, sizeof(buf))) > 0) {
		atomic_fetch_add(&bytes_read, n);
		gmp_yield();
	}
	CHECK_EQ(n, 0);
}

static void dump_to_pipe(UNUSED void *arg)
{
	CHECK_EQ(gmp_dump(pipe_fds[1]), 0);
}

static void check_pipe(int flags, int by_foreign)
{
	struct foreign f;
	gmp_g *reader;

	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	CHECK_EQ(fcntl(pipe_fds[1], F_SETFL, flags), 0);
	CHECK(gmp_adopt(pipe_fds[0]) >= 0);
	atomic_store(&bytes_read, 0);
	reader = spawn(read_slowly, NULL);
	if (by_foreign) {
		foreign_start(&f, dump_to_pipe, NULL);
		foreign_join(&f);
	} else {
		dump_to_pipe(NULL);
	}
	close(pipe_fds[1]);
	join(reader);
	CHECK_EQ(gmp_close(pipe_fds[0]), 0);
	CHECK(atomic_load(&bytes_read) > 65536);
}

RT(a_pipe_that_is_full_is_waited_for_while_others_run)
{
	begin_crowd();
	for (int by_foreign = 0; by_foreign < 2; by_foreign++) {
		check_pipe(0, by_foreign);
		check_pipe(O_NONBLOCK, by_foreign);
	}
	end_crowd();
}

/* --- the end of a run --- */

static atomic_int dumping;

static void dump_for_ever(UNUSED void *arg)
{
	atomic_fetch_add(&dumping, 1);
	gmp_dump(pipe_fds[1]);
	check_failed("a dump into a full pipe has ended");
}

enum { DUMPERS = 20 };

static void end_while_dumping(UNUSED void *arg)
{
	begin_chan();
	for (int i = 0; i < PIPEFUL; i++)
		spawn(entry_of_all, NULL);
	wait_parked(PIPEFUL);
	for (int i = 0; i < DUMPERS; i++)
		spawn(dump_for_ever, NULL);
	WAIT_FOR(atomic_load(&dumping) == DUMPERS);
	WAIT_FOR(poll(&(struct pollfd){ .fd = pipe_fds[1], .events = POLLOUT }, 1, 0) == 0);
	gmp_sleep(5 * MS);
}

/* What each works with is 100 KiB and more. */
TEST_PROCS(a_dump_that_is_dropped_leaves_nothing_behind)
{
	long kb = 0;

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
		atomic_store(&dumping, 0);
		run_procs(procs, end_while_dumping, NULL);
		gmp_chan_free(ch);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		if (i == 1)
			kb = proc_kb("/proc/self/status", "VmSize");
	}
	/* with more threads the C library's own space for them varies by more than that */
	if (!SANITIZED && procs == 1)
		CHECK(proc_kb("/proc/self/status", "VmSize") < kb + 8L * DUMPERS * 100 / 2);
}

static void dump_till_the_end(UNUSED void *arg)
{
	atomic_fetch_add(&dumping, 1);
	CHECK_EQ(gmp_dump(pipe_fds[1]), -ESRCH);
}

static struct foreign late;

static void end_under_a_foreign_dump(UNUSED void *arg)
{
	begin_chan();
	for (int i = 0; i < PIPEFUL; i++)
		spawn(entry_of_all, NULL);
	wait_parked(PIPEFUL);
	foreign_start(&late, dump_till_the_end, NULL);
	WAIT_FOR(poll(&(struct pollfd){ .fd = pipe_fds[1], .events = POLLOUT }, 1, 0) == 0);
}

TEST_PROCS(a_foreign_dump_ends_with_the_run)
{
	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	run_procs(procs, end_under_a_foreign_dump, NULL);
	foreign_join(&late);
	CHECK_EQ(gmp_dump(2), -ESRCH);
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
