/* SPDX-License-Identifier: MIT */
/*
 * Tests that profiles show functions with the CPU time that they use, waits with their time, locks
 * with their holder, and green threads by the place that made them. Its cases compare times: each
 * needs a CPU.
 */
#include "profile_util.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

#ifdef __SANITIZE_THREAD__
#define NEED_SAMPLES()                                                                             \
	check_skip("ThreadSanitizer delays the handler of a thread that calls no function")
#else
#define NEED_SAMPLES()                                                                             \
	do {                                                                                       \
		if (check_on_valgrind())                                                           \
			check_skip("valgrind does not count a thread's CPU time");                 \
	} while (0)
#endif

static void no_more(void)
{
	__asm__ volatile("" ::: "memory"); /* prevents a tail call before it */
}

CALL static gmp_g *spawn_named(const char *name, gmp_fn fn)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.name = name;
	CHECK_EQ(gmp_spawn(&g, fn, NULL, &a), 0);
	return g;
}

/* --- CPU --- */

static atomic_int profiled;
static int64_t burned;

static int64_t thread_time(void)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

static bool is_profiling(void)
{
	struct sigaction sa;

	CHECK_EQ(sigaction(SIGPROF, NULL, &sa), 0);
	return sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN;
}

/* Uses 300 ms of CPU time of its OS thread, or less if the profile ends before. */
CALL static void compute_known(void)
{
	int64_t begin = thread_time();

	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		burned = thread_time() - begin;
	} while (burned < 300 * MS && is_profiling());
	no_more();
}

static void compute_entry(UNUSED void *arg)
{
	gmp_lock_thread();
	WAIT_FOR(is_profiling());
	compute_known();
	gmp_unlock_thread();
}

/* A sample stands for 10 ms, and the kernel may send it a tick of up to 10 ms late. */
static void check_computed(const struct read_profile *p)
{
	int64_t seen = sum_of(p, 1, "compute_known", "green thread", "burner");

	CHECK(burned > 0);
	if (seen < burned * 8 / 10 - 20 * MS || seen > burned * 12 / 10 + 20 * MS)
		check_failed("%lld ns seen of %lld", (long long)seen, (long long)burned);
	CHECK_EQ(seen, sum_of(p, 1, "compute_known", "entry", "compute_entry"));
	CHECK_EQ(seen, sum_of(p, 1, "compute_entry", NULL, NULL));
	CHECK_EQ(seen, 10 * MS * sum_of(p, 0, "compute_known", NULL, NULL));
	CHECK_EQ(sum_of(p, 0, "on_sigprof", NULL, NULL), 0);
	CHECK_EQ(sum_of(p, 0, "compute_known", "green thread", "scheduler"), 0);
}

static void profile_computing(UNUSED void *arg)
{
	gmp_g *g = spawn_named("burner", compute_entry);
	struct read_profile *p = profile("cpu", 2);

	check_computed(p);
	profile_free(p);
	join(g);
	CHECK(!is_profiling());
}

TEST_PROCS(profile_cpu_of_computing_g_is_its_cpu_time)
{
	NEED_SAMPLES();
	run_procs(procs, profile_computing, NULL);
}

static void profile_outside(void *arg)
{
	*(struct read_profile **)arg = profile("cpu", 2);
}

static void profile_by_external(UNUSED void *arg)
{
	struct read_profile *p;
	struct ext_thread f;
	gmp_g *g;

	ext_thread_start(&f, profile_outside, &p);
	g = spawn_named("burner", compute_entry);
	join(g);
	ext_thread_join(&f);
	check_computed(p);
	profile_free(p);
}

TEST(profile_cpu_by_external_thread_shows_computing_g)
{
	NEED_SAMPLES();
	run_procs(2, profile_by_external, NULL);
}

/*
 * Switches, allocations and OS threads that begin and end: the handler interrupts all of them.
 *
 * The kernel compares the CPU time of a thread with its timer at ticks only, so threads that run
 * for less than a tick may get no sample. The green thread that computes gets one if it uses enough
 * CPU time, which a loaded machine may not give it.
 */
enum { SAMPLED_TIME = 100 * MS };

static void churn_end(UNUSED void *arg)
{
	free(malloc(100));
}

static void churn_entry(UNUSED void *arg)
{
	while (!atomic_load(&profiled)) {
		gmp_g *g = spawn(churn_end, NULL);

		for (volatile int i = 0; i < 20000; i++)
			;
		gmp_block_enter();
		free(malloc(100000));
		gmp_block_leave();
		gmp_yield();
		join(g);
	}
}

static void profile_churn(UNUSED void *arg)
{
	struct read_profile *p;
	gmp_g *g[8], *burner = spawn_named("burner", compute_entry);

	atomic_store(&profiled, 0);
	for (int i = 0; i < 8; i++)
		g[i] = spawn(churn_entry, NULL);
	p = profile("cpu", 1);
	atomic_store(&profiled, 1);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	join(burner);
	if (burned > SAMPLED_TIME)
		CHECK(sum_of(p, 0, NULL, NULL, NULL) > 0);
	profile_free(p);
}

TEST_PROCS(profile_cpu_of_switching_gs_ends)
{
	run_procs(procs, profile_churn, NULL);
}

TEST(profile_cpu_of_gs_on_os_threads_ends)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 2;
	cfg.sched = GMP_SCHED_THREAD;
	CHECK_EQ(gmp_run(profile_churn, NULL, &cfg), 0);
}

/* --- errors --- */

static void own_handler(UNUSED int signo)
{
}

static void profile_wrongly(UNUSED void *arg)
{
	int fd = memfd_create("profile", MFD_CLOEXEC), pipes[2];

	CHECK_EQ(gmp_profile_write("heap", 1, fd), -EINVAL);
	CHECK_EQ(gmp_profile_write(NULL, 1, fd), -EINVAL);
	CHECK_EQ(gmp_profile_write("cpu", 0, fd), -EINVAL);
	CHECK_EQ(gmp_profile_write("cpu", 3601, fd), -EINVAL);
	CHECK_EQ(gmp_profile_write("wait", -1, fd), -EINVAL);
	CHECK_EQ(gmp_profile_write("green", 0, -1), -EBADF);
	CHECK_EQ(lseek(fd, 0, SEEK_END), 0);
	close(fd);
	profile_free(profile("green", 0)); /* skips without protobuf-c */
	CHECK_EQ(pipe(pipes), 0);
	close(pipes[0]);
	CHECK_EQ(gmp_profile_write("green", 0, pipes[1]), -EPIPE);
	close(pipes[1]);
}

TEST(profile_write_wrong_argument_returns_error)
{
	int fd = memfd_create("profile", MFD_CLOEXEC);

	CHECK_EQ(gmp_profile_write("green", 0, fd), -ESRCH);
	close(fd);
	run_procs(1, profile_wrongly, NULL);
}

static void profile_busy(UNUSED void *arg)
{
	struct read_profile *p;
	int err = try_profile(&p, "cpu", 1);

	if (err == -ENOTSUP)
		check_skip("no protobuf-c");
	CHECK_EQ(err, -EBUSY);
}

TEST(profile_cpu_beside_handler_of_program_returns_ebusy)
{
	struct sigaction sa;

	CHECK(signal(SIGPROF, own_handler) != SIG_ERR);
	run_procs(1, profile_busy, NULL);
	CHECK_EQ(sigaction(SIGPROF, NULL, &sa), 0);
	CHECK(sa.sa_handler == own_handler);
}

TEST(profile_cpu_with_blocked_sigprof_returns_ebusy)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPROF);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	run_procs(1, profile_busy, NULL);
}

static void try_second(UNUSED void *arg)
{
	WAIT_FOR(is_profiling());
	profile_busy(NULL);
}

static void profile_twice(UNUSED void *arg)
{
	gmp_g *g = spawn(try_second, NULL);

	profile_free(profile("cpu", 1));
	join(g);
}

TEST(profile_cpu_beside_another_returns_ebusy)
{
	run_procs(2, profile_twice, NULL);
}

static void profile_until_stop(void *arg)
{
	struct read_profile *p;

	*(int *)arg = try_profile(&p, "cpu", 60);
}

TEST(profile_cpu_ends_with_the_run)
{
	struct ext_thread f;
	int err = 0;

	CHECK_EQ(gmp_start(NULL), 0);
	profile_free(profile("green", 0));
	ext_thread_start(&f, profile_until_stop, &err);
	WAIT_FOR(is_profiling());
	CHECK_EQ(gmp_stop(), 0);
	ext_thread_join(&f);
	CHECK_EQ(err, -ESRCH);
	CHECK(!is_profiling());
}

static void fork_during_profile(UNUSED void *arg)
{
	gmp_g *g = spawn_named("burner", compute_entry);
	struct ext_thread f;
	struct read_profile *p;
	int status;

	ext_thread_start(&f, profile_outside, &p);
	WAIT_FOR(is_profiling());
	pid_t child = fork();

	if (child == 0)
		_exit(is_profiling() ? 1 : 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	ext_thread_join(&f);
	profile_free(p);
	join(g);
}

TEST(profile_cpu_child_of_fork_is_not_profiled)
{
	run_procs(2, fork_during_profile, NULL);
}

/* --- waits --- */

static gmp_chan *ch;
static gmp_mutex mutex;
static atomic_int held, let_go;

CALL static void receive_known(void)
{
	int v;

	CHECK_EQ(gmp_chan_recv(ch, &v), -EPIPE);
	no_more();
}

static void receive_entry(UNUSED void *arg)
{
	receive_known();
	no_more();
}

static void begin_receiving(gmp_g **g, int n)
{
	ch = gmp_chan_new(sizeof(int), 0);
	CHECK(ch != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn_named("receiver", receive_entry);
	wait_parked((uint64_t)n);
}

static void end_receiving(gmp_g **g, int n)
{
	gmp_chan_close(ch);
	for (int i = 0; i < n; i++)
		join(g[i]);
	gmp_chan_free(ch);
}

static void profile_receiving(UNUSED void *arg)
{
	struct read_profile *p;
	int64_t delay;
	gmp_g *g[5];

	begin_receiving(g, 5);
	p = profile("wait", 1);
	CHECK_EQ(sum_of(p, 0, "receive_known", "green thread", "receiver"), 5);
	CHECK_EQ(sum_of(p, 0, "receive_entry", "reason", "channel receive"), 5);
	delay = sum_of(p, 1, "receive_known", NULL, NULL);
	CHECK(delay >= 5000 * MS && delay <= 5 * p->duration);
	profile_free(p);
	end_receiving(g, 5);
}

TEST_PROCS(profile_wait_of_receiving_gs_is_the_window)
{
	run_procs(procs, profile_receiving, NULL);
}

static void profile_moment(UNUSED void *arg)
{
	int64_t begin = gmp_now();
	struct read_profile *p;
	int64_t delay;
	gmp_g *g[2];

	begin_receiving(g, 2);
	gmp_sleep(50 * MS);
	p = profile("wait", 0);
	delay = sum_of(p, 1, "receive_known", NULL, NULL);
	/* the start of a wait is known to some 20 ms */
	CHECK(delay >= 2 * 20 * MS && delay <= 2 * (gmp_now() - begin + 20 * MS));
	CHECK_EQ(sum_of(p, 0, "receive_known", NULL, NULL), 2);
	CHECK_EQ(sum_of(p, 0, NULL, "reason", "sleep"), 0);
	profile_free(p);
	end_receiving(g, 2);
}

TEST(profile_wait_of_a_moment_has_time_since_park)
{
	run_procs(2, profile_moment, NULL);
}

CALL static void lock_known(void)
{
	CHECK_EQ(gmp_mutex_lock(&mutex), 0);
	gmp_mutex_unlock(&mutex);
}

static void lock_entry(UNUSED void *arg)
{
	lock_known();
	no_more();
}

static void hold_entry(UNUSED void *arg)
{
	gmp_mutex_lock(&mutex);
	atomic_store(&held, 1);
	while (!atomic_load(&let_go))
		gmp_sleep(MS);
	gmp_mutex_unlock(&mutex);
}

static void profile_locked(UNUSED void *arg)
{
	struct read_profile *p;
	gmp_g *g[5], *receiver;

	begin_receiving(&receiver, 1);
	g[0] = spawn_named("the holder", hold_entry);
	WAIT_FOR(atomic_load(&held));
	for (int i = 1; i < 4; i++)
		g[i] = spawn(lock_entry, NULL);
	WAIT_FOR(stats().greens_waiting >= 4);
	gmp_sleep(50 * MS);
	for (int seconds = 0; seconds <= 1; seconds++) {
		p = profile("mutex", seconds);
		CHECK_EQ(sum_of(p, 0, NULL, NULL, NULL), 3);
		CHECK_EQ(sum_of(p, 0, "lock_known", "holder", "the holder"), 3);
		CHECK_EQ(sum_of(p, 0, "lock_known", "reason", "mutex lock"), 3);
		CHECK(sum_of(p, 1, "lock_known", NULL, NULL) >= 3 * (seconds ? 1000 : 20) * MS);
		profile_free(p);
	}
	atomic_store(&let_go, 1);
	for (int i = 0; i < 4; i++)
		join(g[i]);
	end_receiving(&receiver, 1);
}

TEST_PROCS(profile_mutex_of_waiters_names_the_holder)
{
	run_procs(procs, profile_locked, NULL);
}

/* --- green threads --- */

static void profile_many(UNUSED void *arg)
{
	int n = (int)check_scaled(20000);
	gmp_g **g = calloc((size_t)n, sizeof(gmp_g *));
	struct read_profile *p;

	CHECK(g != NULL);
	begin_receiving(g, n);
	p = profile("green", 0);
	CHECK_EQ(sum_of(p, 0, "receive_entry", "state", "waiting: channel receive"), n);
	CHECK_EQ(sum_of(p, 0, "spawn_named", "entry", "receive_entry"), n);
	CHECK_EQ(sum_of(p, 0, NULL, NULL, NULL), n + 1);
	profile_free(p);
	p = profile("wait", 1);
	CHECK_EQ(sum_of(p, 0, "receive_known", NULL, NULL), n);
	profile_free(p);
	end_receiving(g, n);
	free(g);
}

TEST(profile_of_many_gs_counts_each)
{
	run_procs(2, profile_many, NULL);
}
