/* SPDX-License-Identifier: MIT */
/* The end of a run races with fd events and with calls of external threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rt.h"

static int pair[2];

static void read_one(void *arg)
{
	char c;

	(void)arg;
	gmp_read(pair[0], &c, 1);
}

static void spin_for(int64_t ns)
{
	int64_t until = gmp_now() + ns;

	while (gmp_now() < until)
		;
}

/* The event arrives up to 30 us before the runtime stops. */
static void write_and_end(void *arg)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	CHECK_EQ(gmp_fd_adopt(pair[0]), pair[0]);
	CHECK_EQ(gmp_go(read_one, NULL), 0);
	gmp_sleep(1000000); /* now the reader waits, and another M sleeps in the poller */
	spin_for(300000);
	CHECK_EQ(write(pair[1], "x", 1), 1);
	spin_for((int64_t)(intptr_t)arg);
}

TEST(run_end_racing_with_fd_event_returns)
{
	for (long i = 0; i < 600; i++) {
		run_procs(2, write_and_end, (void *)(intptr_t)(i * 997 % 30000));
		close(pair[0]);
		close(pair[1]);
	}
}

static atomic_int done;

static void nothing(void *arg)
{
	(void)arg;
}

static void *call_all_the_time(void *arg)
{
	while (!atomic_load(&done))
		gmp_go(nothing, NULL);
	return arg;
}

TEST(external_calls_racing_with_run_end_keep_wait_count)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, call_all_the_time, NULL), 0);
	for (int i = 0; i < 600; i++)
		run_procs(1, nothing, NULL);
	atomic_store(&done, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
}
