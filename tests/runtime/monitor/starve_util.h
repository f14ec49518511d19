/* SPDX-License-Identifier: MIT */
/*
 * Helpers of the tests of starvation: Gs that compute, or call gmp and never wait, until they are
 * stopped; and a sleeper beside them that bounds each of its gaps.
 *
 * The figures are the lesser of real time and of the CPU time of the process. If other programs
 * take the CPUs, the CPU time advances slowly; if the process has many CPUs, it advances fast. The
 * CPU time of a thread that runs is up to date at each tick of the kernel only.
 */
#ifndef TESTS_RUNTIME_STARVE_UTIL_H
#define TESTS_RUNTIME_STARVE_UTIL_H

#include "preempt_util.h"

#include <sys/socket.h>

/* --- time --- */

#define KERNEL_TICK (10 * MS) /* at most: CONFIG_HZ is at least 100 */

struct moment {
	int64_t real, cpu;
};

static inline struct moment moment_now(void)
{
	return (struct moment){ clock_ns(), cpu_ns() };
}

static inline int64_t moment_since(const struct moment *m)
{
	int64_t real = clock_ns() - m->real, cpu = cpu_ns() - m->cpu + KERNEL_TICK;

	return real < cpu ? real : cpu;
}

/* A bound of a test, in ms, or ten times that if the program is slow. */
static inline int64_t bound_ms(int n)
{
	return (SLOW ? 10 : 1) * n * MS;
}

/* --- Gs that run until they are stopped --- */

enum { BUSY_MOST = 64 };

static struct {
	gmp_g *g[BUSY_MOST];
	int n;
	atomic_int began, stop;
	atomic_int sleeps; /* of sleep_beside_busy */
} busy;

UNUSED static void compute_until_stopped(UNUSED void *arg)
{
	atomic_fetch_add(&busy.began, 1);
	while (!atomic_load(&busy.stop))
		crunch(1, 1000);
}

/* fn counts itself in busy.began, and returns once busy.stop is set. */
static inline void busy_start_with(gmp_fn fn, int n, const gmp_attr *attr)
{
	need_preemption();
	CHECK(n <= BUSY_MOST);
	busy.n = n;
	atomic_store(&busy.began, 0);
	atomic_store(&busy.stop, 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_spawn(&busy.g[i], fn, (void *)(intptr_t)i, attr), 0);
}

static inline void busy_start(gmp_fn fn, int n)
{
	busy_start_with(fn, n, NULL);
}

static inline void busy_stop(void)
{
	atomic_store(&busy.stop, 1);
	for (int i = 0; i < busy.n; i++)
		join(busy.g[i]);
	WAIT_FOR(stats().preempted == 0);
}

/* --- fds --- */

/* A connected pair of sockets: fd[0] for gmp's calls, and with `both` fd[1] too. */
UNUSED static void socket_pair(int fd[2], int both)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), fd[0]);
	if (both)
		CHECK_EQ(gmp_fd_adopt(fd[1]), fd[1]);
}

/* --- the sleeper --- */

/*
 * Sleep for 1 ms repeatedly for `window` ns, and until all busy Gs have run. Each gap is at most
 * `longest`; half of the time passes in gaps of at most `median`.
 */
static inline void sleep_beside_busy(int64_t window, int64_t longest, int64_t median)
{
	static struct ticker t;
	int64_t sum = 0;

	for (t.n = 0; sum < window || atomic_load(&busy.began) < busy.n;) {
		struct moment m = moment_now();

		CHECK(t.n < GAPS_MOST && "the busy Gs run");
		CHECK_EQ(gmp_sleep(MS), 0);
		sum += t.gap[t.n] = moment_since(&m);
		if (t.gap[t.n] > longest)
			check_failed("a sleep of 1 ms took %lld ms; %d of %d Gs ran before",
				     (long long)(t.gap[t.n] / MS), atomic_load(&busy.began),
				     busy.n);
		t.n++;
		atomic_fetch_add(&busy.sleeps, 1);
	}
	qsort(t.gap, (size_t)t.n, sizeof(t.gap[0]), cmp_i64);
	fprintf(stderr,
		"%d sleeps; p50 %lld us, p99 %lld us, max %lld us; over time: p50 %lld us\n", t.n,
		(long long)(t.gap[t.n / 2] / US), (long long)(t.gap[t.n * 99 / 100] / US),
		(long long)(t.gap[t.n - 1] / US), (long long)(ticker_gap(&t, 50) / US));
	CHECK(ticker_gap(&t, 50) <= median);
}

#endif
