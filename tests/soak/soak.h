/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the soak programs: rounds, seeded random numbers, leak checks and a watchdog.
 *
 * A program runs rounds of some seconds.  At the end of each round all its work has ended.  Then
 * exactly one green thread is alive, no timer is armed, gmp has no fd, and the process has as many
 * fds as after the first round.  (scripts/soak checks the memory from outside.) The watchdog runs
 * on an external thread.  It dumps all green threads and ends the process if a round does not end,
 * and prints a line of gmp_stats once a second.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>

#include <gmp.h>

#include "../harness/rng.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SEC INT64_C(1000000000)
#define PATIENCE (60 * SEC) /* a round that ends later than this counts as a hang */

#ifndef STANDSTILL
#define STANDSTILL 10 /* seconds without a switch that count as a hang */
#endif

static const char *soak_name; /* of the program */
static uint64_t soak_seed;
static int64_t soak_round_ns, soak_end;
static bool soak_prints;
static atomic_long soak_rest; /* resident KiB of the process at the end of the last round */
static _Atomic int64_t round_end, soak_limit = GMP_FOREVER;
static atomic_int soak_failing;

/* ------------------------------------------------------------------- Failing */

__attribute__((noinline, cold, noreturn, format(printf, 3, 4))) static void
soak_failed(const char *file, int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (atomic_exchange(&soak_failing, 1))
		for (;;)
			pause(); /* another thread already reports a failure */
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dprintf(2, "%s: %s:%d: %s (seed %llu)\n", soak_name, file, line, text,
		(unsigned long long)soak_seed);
	if (getenv("SOAK_STOP"))
		raise(SIGSTOP); /* for a debugger */
	gmp_dump(2);
	_exit(1);
}

#define FAILED(...) soak_failed(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAILED("CHECK(%s) failed", #cond);                                         \
	} while (0)
#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);                    \
		if (check_a_ != check_b_)                                                          \
			FAILED("CHECK_EQ(%s, %s) failed: %lld, %lld", #a, #b, check_a_, check_b_); \
	} while (0)

/* ------------------------------------------------------------ Random numbers */

/* id is the number of a runner, or any other number. */
static inline struct rng rng_for(uint64_t id)
{
	return rng_of(soak_seed, id);
}

/* Fills buf with a pattern that depends on the position. */
static inline void fill(unsigned char *buf, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (unsigned char)(salt + i * 7 + i / 251);
}

static inline void check_fill(const unsigned char *buf, size_t n, unsigned salt, size_t first)
{
	for (size_t i = 0; i < n; i++)
		if (buf[i] != (unsigned char)(salt + (first + i) * 7 + (first + i) / 251))
			FAILED("byte %zu of %zu is wrong", first + i, first + n);
}

/* --------------------------------------------------------------------- Small */

/* Returns true for errors of an exhausted system resource. */
static inline bool is_short(long err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM ||
	       err == -EAGAIN || err == -EADDRNOTAVAIL;
}

/* Returns true for errors that the peer of a connection may cause. */
static inline bool is_broken(long err)
{
	return err == -EPIPE || err == -ECONNRESET || err == -ECONNREFUSED || err == -ETIMEDOUT ||
	       err == -ECONNABORTED || err == -ENOTCONN;
}

static inline bool round_over(void)
{
	return gmp_now() >= atomic_load_explicit(&round_end, memory_order_relaxed);
}

static inline gmp_g *spawn(gmp_fn fn, void *arg)
{
	gmp_g *g = NULL;

	CHECK_EQ(gmp_spawn(&g, fn, arg, NULL), 0);
	return g;
}

static inline void join(gmp_g *g)
{
	CHECK_EQ(gmp_join(g), 0);
}

static inline gmp_stats stats(void)
{
	gmp_stats s = GMP_STATS_INIT;

	(void)gmp_stats_get(&s);
	return s;
}

/* Makes close reset the connection, so that its port does not stay in TIME_WAIT. */
static inline void reset_on_close(int fd)
{
	struct linger l = { 1, 0 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
}

/*
 * Returns the number of open file descriptors of a process, or -1; with `list`, prints each to
 * stderr. Does not count an io_uring, which the runtime makes on demand and keeps, and files of
 * /proc, which this function and sysmon open.
 */
static inline int count_fds(const char *pid, bool list)
{
	char path[64], target[256];
	DIR *d;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	d = opendir(path);
	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

		if (n < 0)
			continue; /* . and .., or it has just been closed */
		target[n] = '\0';
		count += strcmp(target, "anon_inode:[io_uring]") != 0 &&
			 strncmp(target, "/proc/", 6) != 0;
		if (list)
			dprintf(2, "  %s: %s\n", e->d_name, target);
	}
	closedir(d);
	return count;
}

/* -------------------------------------------------------------------- Rounds */

/* One kind of work.  A step starts work and waits for its end. */
struct actor {
	const char *name;
	void (*step)(struct rng *r);
	int n; /* number of green threads that run it */
	atomic_long steps;
};

struct runner {
	struct actor *actor;
	uint64_t id;
	gmp_g *g;
};

static void run_actor(void *arg)
{
	struct runner *w = arg;
	struct rng r = rng_for(w->id);

	do {
		w->actor->step(&r);
		atomic_fetch_add_explicit(&w->actor->steps, 1, memory_order_relaxed);
	} while (!round_over());
}

/* Runs one round of all actors. */
static inline void run_actors(struct actor *actors, int n, unsigned round)
{
	static struct runner runners[256];
	int all = 0;

	atomic_store(&round_end, gmp_deadline(soak_round_ns));
	atomic_store(&soak_limit, gmp_deadline(soak_round_ns + PATIENCE));
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < actors[i].n; k++) {
			struct runner *w = &runners[all];

			w->actor = &actors[i];
			w->id = (uint64_t)round * 1000 + (uint64_t)all++;
			w->g = spawn(run_actor, w);
		}
	}
	for (int i = 0; i < all; i++)
		join(runners[i].g);
}

static inline long resident(void)
{
	char text[64] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(strchr(text, ' '), NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

static uint64_t soak_own; /* file descriptors of the runtime itself */

/*
 * Must be called first in a run.  The runtime makes an fd for the first requested signal and keeps
 * it: this function requests a signal before the rounds count fds.
 */
static inline void begin_run(void)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);

	CHECK(c != NULL);
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
	soak_own = stats().descriptors;
}

/* Waits until detached work has ended, and fails if it does not. */
static inline void check_nothing_is_left(void)
{
	static int fds_after_first = -1;
	int64_t limit = gmp_deadline(PATIENCE / 2);
	gmp_stats s = stats();
	int fds;

	while (s.greens != 1 || s.timers != 0 || s.descriptors != soak_own ||
	       s.greens_blocked != 0) {
		if (gmp_now() > limit)
			FAILED("left over: %llu green threads, %llu timers, %llu descriptors, %llu "
			       "in blocking code",
			       (unsigned long long)s.greens - 1, (unsigned long long)s.timers,
			       (unsigned long long)(s.descriptors - soak_own),
			       (unsigned long long)s.greens_blocked);
		gmp_sleep(5 * MS);
		s = stats();
		s.timers -= s.timers > 0 && s.greens_running == 0; /* our sleep, if read late */
	}
	fds = count_fds("self", false);
	if (fds_after_first < 0)
		fds_after_first = fds;
	if (fds != fds_after_first) {
		(void)count_fds("self", true);
		FAILED("%d descriptors, %d after the first round", fds, fds_after_first);
	}
	CHECK(waitpid(-1, NULL, WNOHANG) == -1);
	gmp_sleep(soak_round_ns / 10); /* sysmon frees memory that is unused for a while */
	atomic_store(&soak_rest, resident());
}

static inline void print_stats(void)
{
	gmp_stats s = GMP_STATS_INIT;

	if (gmp_stats_get(&s) < 0)
		return; /* between two runs */
	printf("stats greens=%llu descriptors=%llu timers=%llu stacks=%llu rest=%ld threads=%llu "
	       "handoffs=%llu preemptions=%llu switches=%llu\n",
	       (unsigned long long)s.greens, (unsigned long long)(s.descriptors - soak_own),
	       (unsigned long long)s.timers, (unsigned long long)s.stack_bytes >> 10,
	       atomic_load(&soak_rest), (unsigned long long)s.threads,
	       (unsigned long long)s.handoffs, (unsigned long long)s.preemptions,
	       (unsigned long long)s.switches);
	fflush(stdout);
}

static void *watchdog(void *arg)
{
	const struct timespec a_second = { 1, 0 };
	uint64_t last = 0, same = 0;

	for (;;) {
		nanosleep(&a_second, NULL);
		if (soak_prints)
			print_stats();
		if (gmp_now() > atomic_load(&soak_limit))
			FAILED("the round does not end");
		same = stats().switches == last ? same + 1 : 0;
		last = stats().switches;
		if (last > 0 && same >= STANDSTILL)
			FAILED("no green thread has run for %d seconds", STANDSTILL);
	}
	return arg;
}

static inline void soak_begin(const char *name, const char *seconds, const char *seed,
			      const char *round, bool prints)
{
	static pthread_t t;
	sigset_t all, before;

	soak_name = name;
	soak_prints = prints;
	soak_seed = strtoull(seed, NULL, 10);
	soak_round_ns = atol(round) * SEC;
	soak_end = gmp_deadline(atol(seconds) * SEC);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	CHECK_EQ(pthread_create(&t, NULL, watchdog, NULL), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Prints the number of steps of each actor; fails if an actor made none. */
static inline void print_actors(struct actor *actors, int n)
{
	for (int i = 0; i < n; i++) {
		printf("%s %s %ld\n", soak_name, actors[i].name, atomic_load(&actors[i].steps));
		if (atomic_load(&actors[i].steps) == 0 && actors[i].n > 0)
			FAILED("no step of %s has ended", actors[i].name);
	}
}

#endif
