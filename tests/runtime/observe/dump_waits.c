/* SPDX-License-Identifier: MIT */
/* Tests that gmp_dump shows what each green thread waits for, and for how long. */
#include "dump_util.h"

#include <sys/socket.h>

/* --- duration --- */

static void sleep_long(UNUSED void *arg)
{
	gmp_sleep(3600 * SEC);
}

/*
 * The start of a wait is read from a cached clock: the duration may be a little too long, up to a
 * second on a busy machine.
 */
RT(dump_wait_shows_its_duration)
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

/* The cached clock of the waits is not updated while the runtime is idle. */
TEST(dump_wait_duration_after_idle_runtime_is_right)
{
	double s = -1;
	int64_t before;
	int v = 1;
	gmp_g *g;

	CHECK_EQ(gmp_start(NULL), 0);
	begin_chan();
	g = spawn_named("wakes", wait_twice, NULL);
	wait_parked(1);
	gmp_sleep(4000 * MS);
	CHECK_EQ(sscanf(strstr(block_of("wakes"), ", waiting for "), ", waiting for %lf s", &s), 1);
	CHECK(s > 3);
	before = gmp_now();
	CHECK_EQ(gmp_chan_send(ch, &v), 0);
	WAIT_FOR(strstr(block_of("wakes"), " inner_call+0x") != NULL);
	CHECK_EQ(sscanf(strstr(block_of("wakes"), ", waiting for "), ", waiting for %lf s", &s), 1);
	/* less than the idle time, and up to a second too long on a busy machine, as above */
	CHECK(s < (double)(gmp_now() - before) / 1e9 + 1);
	end_chan(g);
	CHECK_EQ(gmp_stop(), 0);
}

/* --- object and holder --- */

static gmp_mutex mu;
static gmp_rwmutex rw, read_locked;
static gmp_wg wg;
static gmp_chan *full, *empty;
static gmp_g *target;
static gmp_timer *timer;
static int ends[2], filled[2], pair[2];

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

static void wait_either(UNUSED void *arg)
{
	gmp_fd_wait(pair[0], GMP_READ | GMP_WRITE, GMP_FOREVER);
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

/* All these green threads wait until they are killed at shutdown. */
RT(dump_wait_names_object_and_holder)
{
	char text[160] = { 0 };

	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_rlock(&read_locked), 0);
	CHECK_EQ(gmp_wg_add(&wg, 1), 0);
	empty = gmp_chan_new(sizeof(int), 1);
	full = gmp_chan_new(sizeof(int), 0);
	CHECK_EQ(pipe(ends), 0);
	CHECK(gmp_fd_adopt(ends[0]) >= 0);
	CHECK_EQ(pipe(filled), 0);
	CHECK(gmp_fd_adopt(filled[1]) >= 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CHECK(gmp_fd_adopt(pair[0]) >= 0);
	while (send(pair[0], text, sizeof(text), MSG_DONTWAIT) > 0)
		;
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
	spawn_named("either", wait_either, NULL);
	wait_parked(18);

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
	snprintf(text, sizeof(text), "read or write on descriptor %d", pair[0]);
	check_waits("either", text);
	check_waits("timer", address("timer free", timer));
	/* the spawn site of a timer's green thread is the call of gmp_timer_new */
	check_has(block_of(""), "dump_wait_names_object_and_holder_");
	for (const char *const *w =
		     (const char *const[]){ "mutex", "rlock", "wg", "send", "select", "join",
					    "read", "write", "either", NULL };
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

static void lock_and_unlock(UNUSED void *arg)
{
	CHECK_EQ(gmp_mutex_lock(&mu), 0);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
}

RT(dump_wait_names_holder_that_has_ended)
{
	gmp_g *holder = spawn(lock_and_end, NULL), *g;
	char text[64];

	WAIT_FOR(stats().exits == 1);
	g = spawn_named("waiter", lock_and_unlock, NULL);
	wait_parked(1);
	snprintf(text, sizeof(text), ", held by green thread %llu, which has ended; ",
		 (unsigned long long)gmp_id(holder));
	check_has(block_of("waiter"), text);
	CHECK_EQ(gmp_mutex_unlock(&mu), 0);
	join(g);
	join(holder);
}
