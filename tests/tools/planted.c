/* SPDX-License-Identifier: MIT */
/*
 * A program of known behaviour, for tests/tools/recorded.py: prints what it has measured itself.
 *
 *   compute   computes for 300 ms, in a region
 *   holder    holds a mutex for 50 ms
 *   waiter    waits for that mutex
 *   blocker   is in blocking code for 30 ms, while others are runnable
 *   echo      answers 1,000 messages over a channel
 */
#include <gmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Also in a release build. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

static gmp_mutex mutex;
static gmp_chan *locked, *messages;
static int64_t computed, held, waited, blocked;

static void compute(void *arg)
{
	int64_t from = gmp_now();

	(void)arg;
	gmp_trace_begin("crunch");
	while (gmp_now() < from + 300 * GMP_MS)
		;
	gmp_trace_end();
	computed = gmp_now() - from;
}

static void holder(void *arg)
{
	(void)arg;
	gmp_mutex_lock(&mutex);
	int64_t from = gmp_now();

	gmp_chan_close(locked);
	gmp_sleep(50 * GMP_MS);
	held = gmp_now() - from;
	gmp_mutex_unlock(&mutex);
}

static void waiter(void *arg)
{
	char none;

	(void)arg;
	gmp_chan_recv(locked, &none);
	int64_t from = gmp_now();

	gmp_mutex_lock(&mutex);
	waited = gmp_now() - from;
	gmp_mutex_unlock(&mutex);
}

static void blocker(void *arg)
{
	int64_t from = gmp_now();

	(void)arg;
	gmp_block_enter();
	usleep(30000);
	blocked = gmp_now() - from;
	gmp_block_leave();
}

static void echo(void *arg)
{
	int n;

	(void)arg;
	while (gmp_chan_recv(messages, &n) == 0)
		;
}

static void app(void *arg)
{
	static const gmp_fn of[] = { compute, holder, waiter, blocker, echo };
	static const char *const names[] = { "number cruncher", "a \"holder\"", NULL, NULL, NULL };
	gmp_stats s = GMP_STATS_INIT;
	gmp_g *g[5];

	(void)arg;
	locked = gmp_chan_new(1, 0);
	messages = gmp_chan_new(sizeof(int), 0);
	must(locked && messages);
	for (int i = 0; i < 5; i++) {
		gmp_attr attr = GMP_ATTR_INIT;

		attr.name = names[i];
		must(gmp_spawn(&g[i], of[i], NULL, &attr) == 0);
	}
	for (int i = 0; i < 1000; i++)
		must(gmp_chan_send(messages, &i) == 0);
	gmp_chan_close(messages);
	for (int i = 0; i < 5; i++)
		must(gmp_join(g[i]) == 0);
	gmp_trace_log("planted", "all have ended");
	must(gmp_stats_get(&s) == 0);
	printf("{\"computed\":%lld,\"held\":%lld,\"waited\":%lld,\"blocked\":%lld,",
	       (long long)computed, (long long)held, (long long)waited, (long long)blocked);
	printf("\"steals\":%llu,\"handoffs\":%llu,\"preemptions\":%llu,\"cpu_ns\":%llu}\n",
	       (unsigned long long)s.steals, (unsigned long long)s.handoffs,
	       (unsigned long long)s.preemptions, (unsigned long long)s.cpu_ns);
	gmp_chan_free(locked);
	gmp_chan_free(messages);
}

int main(void)
{
	return gmp_run(app, NULL, NULL) != 0;
}
