/* SPDX-License-Identifier: MIT */
/*
 * Tests fork under load, by green and external threads: fds, timers, channels, locks, blocking code
 * and name lookups. The child has no runtime; the parent loses nothing.
 */
#define _GNU_SOURCE 1
#include <netdb.h>

#include "io_util.h"

enum { ECHOES = 4, KINDS = 8 };

static atomic_long done[KINDS];
static atomic_int finished;
static int ends[ECHOES][2];
static gmp_chan *requests, *replies, *ticks;
static gmp_mutex mu;

static void count_one(int what)
{
	atomic_fetch_add(&done[what], 1);
}

static void talk_to_echo(void *arg)
{
	int fd = *(int *)arg;

	for (long i = 0, got; !atomic_load(&finished); i++) {
		CHECK_EQ(gmp_write_all(fd, &i, sizeof(i)), sizeof(i));
		CHECK_EQ(gmp_read_full(fd, &got, sizeof(got)), sizeof(got));
		CHECK_EQ(got, i);
		count_one(gmp_self() ? 0 : 1);
	}
	CHECK_EQ(gmp_shutdown(fd, SHUT_WR), 0);
}

static void sleep_until_finished(UNUSED void *arg)
{
	while (!atomic_load(&finished)) {
		CHECK_EQ(gmp_sleep(300 * US), 0);
		count_one(2);
	}
}

static void answer(UNUSED void *arg)
{
	for (long v; gmp_chan_recv(requests, &v) == 0;)
		CHECK_EQ(gmp_chan_send(replies, &v), 0);
}

static void ask(UNUSED void *arg)
{
	for (long i = 0, v; !atomic_load(&finished); i++) {
		gmp_case c[2] = { GMP_RECV_CASE(replies, &v), GMP_RECV_CASE(ticks, NULL) };

		CHECK_EQ(gmp_chan_send(requests, &i), 0);
		while (gmp_select(c, 2) != 0)
			count_one(3);
		CHECK_EQ(v, i);
		count_one(4);
		gmp_yield();
	}
	CHECK_EQ(gmp_chan_close(requests), 0);
}

static void run_blocking_code(UNUSED void *arg)
{
	while (!atomic_load(&finished)) {
		CHECK_EQ(gmp_blocking(usleep(400)), 0);
		count_one(5);
	}
}

static void lock_it(UNUSED void *arg)
{
	while (!atomic_load(&finished)) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		gmp_yield();
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		count_one(6);
		gmp_yield();
	}
}

static void look_up(UNUSED void *arg)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *list;

	while (!atomic_load(&finished)) {
		CHECK_EQ(gmp_getaddrinfo("localhost", "80", &hints, &list), 0);
		freeaddrinfo(list);
		count_one(7);
		gmp_sleep(MS);
	}
}

/* Runs in the child: there is no runtime, and system calls on its fds work. */
static void check_child(void)
{
	char c = 'c';
	int p[2];

	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(gmp_read(ends[0][0], &c, 1), -ESRCH);
	CHECK_EQ(gmp_close(ends[0][0]), -ESRCH);
	CHECK_EQ(gmp_fd_adopt(0), -ESRCH);
	CHECK_EQ(gmp_dial("tcp", "127.0.0.1:1"), -ESRCH);
	CHECK_EQ(gmp_waitpid(-1, NULL, 0), -ESRCH);
	CHECK_EQ(gmp_fd_set_deadline(ends[0][0], GMP_READ, 0), -ESRCH);
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(write(p[1], &c, 1), 1);
	CHECK_EQ(read(p[0], &c, 1), 1);
	for (int i = 0; i < ECHOES; i++) { /* the child's copies only */
		CHECK_EQ(close(ends[i][0]), 0);
		CHECK_EQ(close(ends[i][1]), 0);
	}
	_exit(45);
}

static int forks;

static void fork_some(UNUSED void *arg)
{
	for (int i = 0; i < forks; i++) {
		long seen[KINDS];
		int status;
		pid_t pid;

		for (int k = 0; k < KINDS; k++)
			seen[k] = atomic_load(&done[k]);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			check_child();
		CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 45);
		for (int k = 0; k < KINDS; k++)
			WAIT_FOR(atomic_load(&done[k]) > seen[k]);
	}
}

RT(fork_under_load_leaves_parent_undisturbed)
{
	struct ext_thread f[3];
	gmp_g *g[2 * ECHOES + 8];
	int n = 0;

	forks = (int)check_scaled(20);
	requests = gmp_chan_new(sizeof(long), 0);
	replies = gmp_chan_new(sizeof(long), 0);
	ticks = gmp_tick_new(gmp_deadline(MS), 500 * US);
	CHECK(ticks != NULL);
	for (int i = 0; i < ECHOES; i++)
		make_pair(nets[i & 1], &ends[i][0], &ends[i][1]);
	for (int i = 0; i < ECHOES - 1; i++) {
		g[n++] = spawn(echo_whole, &ends[i][0]);
		g[n++] = spawn(talk_to_echo, &ends[i][1]);
	}
	ext_thread_start(&f[0], echo_whole, &ends[ECHOES - 1][0]);
	ext_thread_start(&f[1], talk_to_echo, &ends[ECHOES - 1][1]);
	g[n++] = spawn(sleep_until_finished, NULL);
	g[n++] = spawn(ask, NULL);
	g[n++] = spawn(answer, NULL);
	g[n++] = spawn(run_blocking_code, NULL);
	g[n++] = spawn(lock_it, NULL);
	g[n++] = spawn(lock_it, NULL);
	g[n++] = spawn(look_up, NULL);
	fork_some(NULL);
	ext_thread_start(&f[2], fork_some, NULL);
	ext_thread_join(&f[2]);
	atomic_store(&finished, 1);
	for (int i = 0; i < n; i++)
		join(g[i]);
	ext_thread_join(&f[0]);
	ext_thread_join(&f[1]);
	for (int i = 0; i < ECHOES; i++)
		close_pair(ends[i][0], ends[i][1]);
	gmp_tick_free(ticks);
	gmp_chan_free(requests);
	gmp_chan_free(replies);
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().descriptors, 0);
}
