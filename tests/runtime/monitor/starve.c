/* SPDX-License-Identifier: MIT */
/*
 * Tests that Gs that compute starve nothing, however many they are: sleepers, fds, channels,
 * timers, new Gs, a change of the number of Ps and the end of the run are served beside them, and
 * each of them gets its share of the CPUs. Its cases compare times: each needs a CPU.
 */
#define _GNU_SOURCE 1
#include "starve_util.h"

#include <sched.h>
#include <sys/wait.h>

#include "observe/stderr_util.h"

enum {
	HOGS = 16,
	LONGEST_MS = 500, /* of a gap; with a bound on preempted Gs it would be 1 s or more */
	MEDIAN_MS = 100,
	WINDOW_MS = 600
};

/* --- a sleeper --- */

static void check_sleeper(int n)
{
	busy_start(compute_until_stopped, n);
	sleep_beside_busy(WINDOW_MS * MS, bound_ms(LONGEST_MS), bound_ms(MEDIAN_MS));
	busy_stop();
}

RT(sleep_beside_1_that_computes_is_short)
{
	check_sleeper(1);
}

RT(sleep_beside_4_that_compute_is_short)
{
	check_sleeper(4);
}

RT(sleep_beside_16_that_compute_is_short)
{
	check_sleeper(16);
}

RT(sleep_beside_64_that_compute_is_short)
{
	check_sleeper(64);
}

/* --- Gs that spin until all have arrived --- */

static atomic_int arrived;
static int expected;
static struct moment spin_began;

static void spin_until_all_arrived(UNUSED void *arg)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < expected) {
		crunch(1, 1000);
		if (moment_since(&spin_began) > bound_ms(5000))
			check_failed("after 5 s %d of %d Gs have arrived", atomic_load(&arrived),
				     expected);
	}
}

static void check_spin_barrier(int n)
{
	gmp_g *g[BUSY_MOST];

	need_preemption();
	CHECK(n <= BUSY_MOST);
	expected = n;
	spin_began = moment_now();
	for (int i = 0; i < n; i++)
		g[i] = spawn(spin_until_all_arrived, NULL);
	for (int i = 0; i < n; i++)
		join(g[i]);
	fprintf(stderr, "%lld ms\n", (long long)(moment_since(&spin_began) / MS));
}

RT(spin_barrier_of_16_ends)
{
	check_spin_barrier(16);
}

RT(spin_barrier_of_64_ends)
{
	check_spin_barrier(64);
}

/* --- everything else that is served --- */

static struct {
	struct ext_thread thread;
	gmp_chan *there, *back;
	gmp_timer *timer;
	gmp_sem expired;
	gmp_g *peer;
	int fd[2];
} served;

/* serve() again and again beside Gs that compute: each call is short. */
static void check_served(void (*serve)(int i))
{
	struct moment all = moment_now();
	int64_t most = 0;
	int n = 0;

	busy_start(compute_until_stopped, HOGS);
	for (; n < 10 || moment_since(&all) < 300 * MS || atomic_load(&busy.began) < HOGS; n++) {
		struct moment m = moment_now();
		int64_t took;

		serve(n);
		took = moment_since(&m);
		most = took > most ? took : most;
		if (took > bound_ms(LONGEST_MS))
			check_failed("call %d took %lld ms", n, (long long)(took / MS));
		if (moment_since(&all) > bound_ms(10000))
			check_failed("after 10 s %d of %d Gs have run", atomic_load(&busy.began),
				     HOGS);
	}
	busy_stop();
	fprintf(stderr, "%d calls, at most %lld us\n", n, (long long)(most / US));
}

/* Sends an int to the other end of the socket pair and receives it again. */
static void ping_fd(int i)
{
	int v = -1;

	CHECK_EQ(gmp_write(served.fd[0], &i, sizeof(i)), sizeof(i));
	CHECK_EQ(gmp_read(served.fd[0], &v, sizeof(v)), sizeof(v));
	CHECK_EQ(v, i);
}

static void echo_external(UNUSED void *arg)
{
	int v;

	while (read(served.fd[1], &v, sizeof(v)) == sizeof(v))
		CHECK_EQ(write(served.fd[1], &v, sizeof(v)), sizeof(v));
}

RT(fd_ready_by_external_thread_is_served_beside_16_that_compute)
{
	socket_pair(served.fd, 0);
	ext_thread_start(&served.thread, echo_external, NULL);
	check_served(ping_fd);
	CHECK_EQ(gmp_close(served.fd[0]), 0);
	ext_thread_join(&served.thread);
	close(served.fd[1]);
}

static void echo_green(UNUSED void *arg)
{
	int v;

	while (gmp_read(served.fd[1], &v, sizeof(v)) == sizeof(v))
		CHECK_EQ(gmp_write(served.fd[1], &v, sizeof(v)), sizeof(v));
}

RT(fd_ready_by_g_is_served_beside_16_that_compute)
{
	socket_pair(served.fd, 1);
	served.peer = spawn(echo_green, NULL);
	check_served(ping_fd);
	CHECK_EQ(gmp_close(served.fd[0]), 0);
	join(served.peer);
	CHECK_EQ(gmp_close(served.fd[1]), 0);
}

static void return_numbers(UNUSED void *arg)
{
	int v;

	while (gmp_chan_recv(served.there, &v) == 0)
		CHECK_EQ(gmp_chan_send(served.back, &v), 0);
}

static void ping_external_thread(int i)
{
	int v = -1;

	CHECK_EQ(gmp_chan_send(served.there, &i), 0);
	CHECK_EQ(gmp_chan_recv(served.back, &v), 0);
	CHECK_EQ(v, i);
}

RT(chan_with_external_thread_is_served_beside_16_that_compute)
{
	CHECK((served.there = gmp_chan_new(sizeof(int), 0)) != NULL);
	CHECK((served.back = gmp_chan_new(sizeof(int), 0)) != NULL);
	ext_thread_start(&served.thread, return_numbers, NULL);
	check_served(ping_external_thread);
	CHECK_EQ(gmp_chan_close(served.there), 0);
	ext_thread_join(&served.thread);
	gmp_chan_free(served.there);
	gmp_chan_free(served.back);
}

static void count_expiry(UNUSED void *arg)
{
	CHECK_EQ(gmp_sem_release(&served.expired, 1), 0);
}

static void await_timer(UNUSED int i)
{
	CHECK_EQ(gmp_timer_set(served.timer, gmp_deadline(MS), 0), 0);
	CHECK_EQ(gmp_sem_acquire(&served.expired), 0);
}

RT(timer_is_served_beside_16_that_compute)
{
	CHECK((served.timer = gmp_timer_new(count_expiry, NULL)) != NULL);
	check_served(await_timer);
	gmp_timer_free(served.timer);
}

static void add_one(void *arg)
{
	++*(int *)arg;
}

static void run_new_g(int i)
{
	int v = i;

	join(spawn(add_one, &v));
	CHECK_EQ(v, i + 1);
}

RT(new_g_is_served_beside_16_that_compute)
{
	check_served(run_new_g);
}

RT(set_procs_is_served_beside_16_that_compute)
{
	const int to[] = { 4, 1, procs };
	int old = procs;

	busy_start(compute_until_stopped, HOGS);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(gmp_set_procs(to[i]), old);
		old = to[i];
		sleep_beside_busy(200 * MS, bound_ms(LONGEST_MS), bound_ms(MEDIAN_MS));
		CHECK_EQ(gmp_procs(), to[i]);
	}
	busy_stop();
}

/* --- Gs that compute, of other kinds --- */

static void compute_pinned(void *arg)
{
	CHECK_EQ(gmp_pin(), 0);
	compute_until_stopped(arg);
	CHECK_EQ(gmp_unpin(), 0);
}

RT(sleep_beside_16_pinned_that_compute_is_short)
{
	busy_start(compute_pinned, HOGS);
	sleep_beside_busy(WINDOW_MS * MS, bound_ms(LONGEST_MS), bound_ms(MEDIAN_MS));
	busy_stop();
}

static __thread int own_value = 7;

/* Each G finds the value that it has written, however often its P was taken. */
static void compute_with_own_value(void *arg)
{
	CHECK_EQ(own_value, 7);
	own_value = 100 + (int)(intptr_t)arg;
	compute_until_stopped(arg);
	CHECK_EQ(own_value, 100 + (int)(intptr_t)arg);
}

RT(sleep_beside_16_with_own_thread_locals_that_compute_is_short)
{
	gmp_attr own = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	own.flags = GMP_OWN_TLS;
	int err = gmp_spawn(&g, add_one, &(int){ 0 }, &own);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals here");
	CHECK_EQ(err, 0);
	join(g);
	busy_start_with(compute_with_own_value, HOGS, &own);
	sleep_beside_busy(WINDOW_MS * MS, bound_ms(LONGEST_MS), bound_ms(MEDIAN_MS));
	busy_stop();
}

/* The child has one OS thread; the Gs that compute are the parent's. */
static void fork_and_wait(UNUSED int i)
{
	int status = -1;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(gmp_self() ? 1 : 42);
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

RT(fork_is_served_beside_16_that_compute)
{
	check_served(fork_and_wait);
}

/* --- the end of a run --- */

static struct moment end_began;

static void end_beside_busy(UNUSED void *arg)
{
	busy_start(compute_until_stopped, HOGS);
	sleep_beside_busy(0, bound_ms(LONGEST_MS), bound_ms(MEDIAN_MS));
	end_began = moment_now();
}

/* The Gs are abandoned one second after the end of the run has begun. */
TEST_PROCS(run_ends_beside_16_that_compute)
{
	int64_t took;

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer delays signals to a thread that makes no call of libc");
#endif
	run_procs(procs, end_beside_busy, NULL);
	took = moment_since(&end_began);
	fprintf(stderr, "the end took %lld ms\n", (long long)(took / MS));
	CHECK(took <= bound_ms(2500));
	atomic_store(&busy.stop, 1);
}

/* --- finite work --- */

enum { TASKS = 100, TASK_MS = 20 };

static atomic_int tasks_done;

/* Until preempted and afterwards the G is on one OS thread, so the clock of that thread counts. */
static void compute_task(UNUSED void *arg)
{
	int64_t end = clock_of(CLOCK_THREAD_CPUTIME_ID) + TASK_MS * MS;

	while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end)
		crunch(1, 10000);
	atomic_fetch_add(&tasks_done, 1);
}

static int cpus(void)
{
	cpu_set_t set;

	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	return CPU_COUNT(&set);
}

/* CPU time of all processes of the machine, in ns; 0 if the kernel does not tell. */
static int64_t machine_ns(void)
{
	long long user = 0, nice = 0, system = 0, idle, wait, irq = 0, softirq = 0, steal = 0;
	FILE *f = fopen("/proc/stat", "r");

	if (!f)
		return 0;
	if (fscanf(f, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system, &idle,
		   &wait, &irq, &softirq, &steal) != 8)
		user = nice = system = irq = softirq = steal = 0;
	fclose(f);
	return (user + nice + system + irq + softirq + steal) * 1000 / sysconf(_SC_CLK_TCK) * MS;
}

/* The bound is twice the CPU time by the CPUs that the Ps can use, and what others have used. */
RT(tasks_that_compute_all_end_in_time_of_their_cpu_time)
{
	int share = procs < cpus() ? procs : cpus();
	int64_t cpu = cpu_ns(), real = clock_ns(), others = machine_ns();
	gmp_g *g[TASKS];

	need_preemption();
	for (int i = 0; i < TASKS; i++)
		g[i] = spawn(compute_task, NULL);
	for (int i = 0; i < TASKS; i++)
		join(g[i]);
	cpu = cpu_ns() - cpu;
	real = clock_ns() - real;
	others = machine_ns() - others - cpu;
	fprintf(stderr, "%lld ms, CPU time %lld ms, of others %lld ms\n", (long long)(real / MS),
		(long long)(cpu / MS), (long long)(others / MS));
	CHECK_EQ(atomic_load(&tasks_done), TASKS);
	CHECK(cpu <= 2 * TASKS * TASK_MS * MS);
	CHECK(real <= 2 * cpu / share + (others > 0 ? others : 0) + 500 * MS);
}

/* --- the length of a time slice --- */

enum { SLICES = 8 };

static atomic_int slice_runs;
static int64_t slices[SLICES]; /* in ascending order */

static void compute_one_slice(UNUSED void *arg)
{
	atomic_store(&slice_runs, 1);
	compute_until_stopped(NULL);
}

/* The caller runs again when the P of the G that computes has been taken.  It reads the clock
 * before the switch to that G: a busy machine makes what it measures longer, not shorter. */
static void measure_slices(UNUSED void *arg)
{
	need_preemption();
	for (int i = 0; i < SLICES; i++) {
		int64_t before = 0;

		atomic_store(&slice_runs, 0);
		CHECK_EQ(gmp_sleep(MS), 0); /* the new G inherits the time slice of its parent */
		busy_start(compute_one_slice, 1);
		while (!atomic_load(&slice_runs)) {
			before = clock_ns();
			gmp_yield();
		}
		slices[i] = clock_ns() - before;
		busy_stop();
	}
	qsort(slices, SLICES, sizeof(slices[0]), cmp_i64);
	fprintf(stderr, "time slices of %lld to %lld us\n", (long long)(slices[0] / US),
		(long long)(slices[SLICES - 1] / US));
}

static void run_with_slice(int64_t ns)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	cfg.preempt_ns = ns;
	CHECK_EQ(gmp_run(measure_slices, NULL, &cfg), 0);
}

TEST(preempt_ns_50_ms_gives_time_slices_of_50_ms)
{
	run_with_slice(50 * MS);
	CHECK(slices[0] >= 40 * MS);
}

TEST(preempt_ns_5_ms_gives_time_slices_of_5_ms)
{
	run_with_slice(5 * MS);
	CHECK(slices[0] >= (SLOW ? 0 : 2 * MS) && slices[0] <= bound_ms(30));
}

TEST(environment_50_ms_gives_time_slices_of_50_ms)
{
	CHECK_EQ(setenv("GMP_PREEMPT", "50ms", 1), 0);
	run_with_slice(0);
	CHECK(slices[0] >= 40 * MS);
}

TEST(environment_5_ms_gives_time_slices_of_5_ms)
{
	CHECK_EQ(setenv("GMP_PREEMPT", "5ms", 1), 0);
	run_with_slice(0);
	CHECK(slices[0] >= (SLOW ? 0 : 2 * MS) && slices[0] <= bound_ms(30));
}

/* --- too few OS threads --- */

static void compute_100_ms(UNUSED void *arg)
{
	compute_for(100 * MS);
	atomic_fetch_add(&tasks_done, 1);
}

static uint64_t refused;

static void exceed_max_threads(UNUSED void *arg)
{
	gmp_g *g[HOGS];

	need_preemption();
	for (int i = 0; i < HOGS; i++)
		g[i] = spawn(compute_100_ms, NULL);
	for (int i = 0; i < HOGS; i++)
		join(g[i]);
	refused = stats().preempt_refused;
}

static int count_lines(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Each G whose P cannot be passed to another OS thread keeps it. One line reports that. */
static void check_reported_once(int procs, int threads)
{
	const char *text;

	catch_stderr();
	run_bounded(procs, threads, exceed_max_threads, NULL);
	restore_stderr();
	text = caught();
	fprintf(stderr, "%llu refused; stderr: %s\n", (unsigned long long)refused, text);
	CHECK_EQ(atomic_load(&tasks_done), HOGS);
	CHECK(refused > 0);
	CHECK_EQ(count_lines(text), 1);
	CHECK(strstr(text, "max_threads") != NULL);
}

TEST_PROCS(max_threads_reached_g_keeps_p_and_is_reported_once)
{
	check_reported_once(procs, 4);
}

/* The second P is idle, and no OS thread can run it. */
TEST(max_threads_below_procs_is_reported_once)
{
	check_reported_once(2, 1);
}
