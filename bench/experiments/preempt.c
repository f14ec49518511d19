/* SPDX-License-Identifier: MIT */
/*
 * Measures what green threads that compute, or sleep in the kernel, leave to others.
 *
 * The claim: green threads that neither yield nor announce that they block delay the others by no
 * more than a time slice, and lose no speed.
 *
 *   ticker MS HOGS PROCS
 *           A tick each millisecond beside HOGS green threads that compute for MS milliseconds. The
 *           figures are the gaps between two receipts of a tick, without the first 20 ms, and the
 *           CPU time of each computing green thread, as a share of a CPU.
 *   sleeper|threads MS HOGS PROCS
 *           The time of a sleep of 1 ms, again and again for MS milliseconds, beside HOGS green
 *           threads that compute; or beside as many OS threads, on an OS thread and without a
 *           runtime (PROCS has no effect).
 *   serve MS HOGS CONNECTIONS REQUESTS PROCS
 *           A server in the same process answers redis-benchmark; HOGS green threads compute from
 *           the request number 2 * CONNECTIONS on, until all requests are answered, or for MS
 *           milliseconds at most.
 *   speed PAIRS MS PROCS
 *           The same loop, about MS milliseconds long, on a green thread that runs alone, and on an
 *           OS thread without a runtime; PAIRS times, in alternating order.
 *   tasks N MS PROCS
 *           N green threads compute for MS milliseconds of CPU time each. The figures are the time
 *           as a multiple of the CPU time over the number of Ps, the longest gap of a task between
 *           two parts of its work, the largest number of OS threads in state R at a time, and how
 *           often there were fewer of them than Ps. A child process
 *           reads the states every 2 ms, one thread after the other: two threads that run in turn
 *           may both count, or neither.
 *   sleep|blocking|crowd N MS PROCS
 *           N green threads, beside a tick each millisecond, call usleep for MS milliseconds each,
 *           unannounced or in gmp_blocking; or compute for MS milliseconds of CPU time each.
 *
 * The work is a chain of multiplications, whose time is calibrated at the start. GMP_PREEMPT=off
 * shows the state without preemption.
 */
#include "exp.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] = "exp-preempt ticker|sleeper|threads MS HOGS PROCS | "
			    "serve MS HOGS CONNECTIONS REQUESTS PROCS | speed PAIRS MS PROCS | "
			    "tasks N MS PROCS | sleep|blocking|crowd N MS PROCS";

#define MS INT64_C(1000000)

enum { CHUNK = 20000 /* iterations between two reads of the clock, about 30 us */ };

static int ms, n, hogs, connections, requests, procs;
static double step_ns; /* the time of one iteration */
static gmp_wg done;

/* Multiplications that wait for each other: the time does not depend on the compiler. */
static __attribute__((noinline)) uint64_t churn(uint64_t x, int64_t steps)
{
	while (steps-- > 0)
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return x;
}

/* Returns churn(x, steps) in the time of its logarithm: two steps are one with other constants. */
static uint64_t churned(uint64_t x, int64_t steps)
{
	uint64_t a = UINT64_C(6364136223846793005), b = UINT64_C(1442695040888963407);

	for (; steps; steps /= 2) {
		if (steps % 2)
			x = x * a + b;
		b += a * b;
		a *= a;
	}
	return x;
}

/* The least of many: other processes run too. */
static void calibrate(void)
{
	volatile uint64_t x = 1;

	for (int i = 0; i < 40; i++) {
		int64_t t0 = exp_clock();

		x = churn(x, 25 * CHUNK);
		double took = (double)(exp_clock() - t0) / (25 * CHUNK);

		if (!i || took < step_ns)
			step_ns = took;
	}
}

/* Returns the number of iterations that take so many milliseconds. */
static int64_t steps_of(int milliseconds)
{
	return (int64_t)((double)milliseconds * 1e6 / step_ns);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* ------------------------------------------------------------------- hogs */

struct hog {
	int64_t chunks;
	uint64_t x;
};
static struct hog *hog;
static int64_t hogs_begin, hogs_end, stop;

static void *compute(void *arg)
{
	struct hog *h = arg;
	int64_t chunks = 0;
	uint64_t x = 1;

	for (; exp_clock() < exp_load(&hogs_end) && !exp_load(&stop); chunks++)
		x = churn(x, CHUNK);
	h->chunks = chunks;
	h->x = x;
	return NULL;
}

static void hog_run(void *arg)
{
	compute(arg);
	gmp_wg_done(&done);
}

/* The caller has added the number of hogs to `done`. */
static void start_hogs(void)
{
	hogs_begin = exp_clock();
	hogs_end = hogs_begin + ms * MS;
	for (int i = 0; i < hogs; i++)
		exp_go(hog_run, &hog[i]);
}

/* Precondition: the hogs have ended, at `end`. */
static void report_shares(int64_t end)
{
	double least = 1e9, most = 0, all = 0;

	for (int i = 0; i < hogs; i++) {
		double cpu = (double)hog[i].chunks * CHUNK * step_ns;
		double share = 100 * cpu / (double)(end - hogs_begin);

		exp_check(hog[i].x == churned(1, hog[i].chunks * CHUNK), "a wrong result");
		least = share < least ? share : least;
		most = share > most ? share : most;
		all += share;
	}
	exp_figure("least", "percent", least);
	exp_figure("most", "percent", most);
	exp_figure("all", "percent", all);
}

/* ----------------------------------------------------------------- ticker */

static double *gaps;
static int64_t gaps_n, gaps_room;

/* Receive ticks of 1 ms until one is received after `*end` is set and past. Gaps count from `from`
 * on. */
static void tick(int64_t from, const int64_t *end)
{
	gmp_chan *c = gmp_tick_new(gmp_deadline(MS), MS);
	int64_t last = from, now, due, until;

	exp_check(c, "gmp_tick_new");
	do {
		exp_check(gmp_chan_recv(c, &due) == 0, "it did not tick");
		now = exp_clock();
		until = exp_load(end);
		if (now <= from)
			continue;
		exp_check(gaps_n < gaps_room, "too many ticks");
		gaps[gaps_n++] = (double)(now - last) / 1e6;
		last = now;
	} while (!until || now < until);
	gmp_tick_free(c);
}

static void report_preemptions(void)
{
	gmp_stats s = GMP_STATS_INIT;

	gmp_stats_get(&s);
	exp_figure("preemptions", "", (double)s.preemptions);
}

static void report_gaps(void)
{
	qsort(gaps, (size_t)gaps_n, sizeof(*gaps), ascending);
	exp_figure("p50", "ms", gaps[gaps_n / 2]);
	exp_figure("p99", "ms", gaps[gaps_n * 99 / 100]);
	exp_figure("max", "ms", gaps[gaps_n - 1]);
}

static void ticker(void *arg)
{
	(void)arg;
	gmp_wg_add(&done, hogs);
	start_hogs();
	tick(hogs_begin + 20 * MS, &hogs_end);
	gmp_wg_wait(&done);
	report_gaps();
	report_shares(hogs_end);
	report_preemptions();
	fflush(stdout);
}

/* ---------------------------------------------------------------- sleeper */

static int sleep_green(void)
{
	return gmp_sleep(MS);
}

static int sleep_os_thread(void)
{
	struct timespec t = { 0, MS };

	return nanosleep(&t, NULL);
}

static void sleep_beside_hogs(int (*sleep_1_ms)(void))
{
	int64_t t0, t1 = exp_clock();

	do {
		t0 = t1;
		exp_check(sleep_1_ms() == 0, "the sleep failed");
		exp_check(gaps_n < gaps_room, "too many sleeps");
		t1 = exp_clock();
		gaps[gaps_n++] = (double)(t1 - t0) / 1e6;
	} while (t1 < hogs_end);
}

static void sleeper(void *arg)
{
	(void)arg;
	gmp_wg_add(&done, hogs);
	start_hogs();
	sleep_beside_hogs(sleep_green);
	gmp_wg_wait(&done);
	report_gaps();
	report_shares(hogs_end);
	report_preemptions();
	fflush(stdout);
}

static void sleep_beside_threads(void)
{
	pthread_t *t = calloc((size_t)hogs, sizeof(*t));

	exp_check(t, "no memory");
	hogs_begin = exp_clock();
	hogs_end = INT64_MAX; /* a thousand take longer to start than a short run lasts */
	for (int i = 0; i < hogs; i++)
		exp_check(!pthread_create(&t[i], NULL, compute, &hog[i]), "pthread_create");
	__atomic_store_n(&hogs_end, exp_clock() + ms * MS, __ATOMIC_RELAXED);
	sleep_beside_hogs(sleep_os_thread);
	for (int i = 0; i < hogs; i++)
		pthread_join(t[i], NULL);
	report_gaps();
	report_shares(hogs_end);
	free(t);
}

/* ------------------------------------------------------------------ serve */

static int64_t gets;

/* Answers the commands of redis-benchmark. It has one request under way on each connection, so a
 * read returns whole commands. */
static void session(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char in[4096], out[4096];
	ssize_t got;

	while ((got = gmp_read(fd, in, sizeof(in))) > 0) {
		const char *reply = "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"; /* CONFIG GET */
		size_t len, used = 0;

		exp_check(in[0] == '*' && in[got - 1] == '\n', "a part of a command");
		if (memmem(in, (size_t)got, "\r\nGET\r\n", 7)) {
			reply = "$3\r\nxxx\r\n";
			if (exp_add(&gets, 1) + 1 == 2 * connections)
				start_hogs();
		} else if (memmem(in, (size_t)got, "\r\nPING\r\n", 8)) {
			reply = "+PONG\r\n";
		}
		len = strlen(reply);
		for (ssize_t i = 0; i < got; i++) {
			if (in[i] != '*' || (i && in[i - 1] != '\n'))
				continue;
			exp_check(used + len <= sizeof(out), "too many commands at once");
			memcpy(out + used, reply, len);
			used += len;
		}
		if (gmp_write(fd, out, used) != (ssize_t)used)
			break;
	}
	gmp_close(fd);
}

static void accept_all(void *arg)
{
	int listener = (int)(intptr_t)arg, fd;

	while ((fd = gmp_accept(listener)) >= 0)
		exp_go(session, (void *)(intptr_t)fd);
}

static void serve(void *arg)
{
	int listener = gmp_listen("tcp", "127.0.0.1:0");
	/* rate, mean, least, p50, p95, p99, most */
	const char *format = "\"GET\",\"%lf\",\"%*f\",\"%*f\",\"%lf\",\"%*f\",\"%lf\",\"%lf\"";
	char addr[64], command[512], line[512];
	double rate, p50, p99, max;
	int found = 0;

	(void)arg;
	exp_check(listener >= 0, "gmp_listen: %s", strerror(-listener));
	gmp_local_addr(listener, addr, sizeof(addr));
	gmp_wg_add(&done, hogs);
	exp_go(accept_all, (void *)(intptr_t)listener);
	snprintf(command, sizeof(command),
		 "ulimit -n $(ulimit -Hn); exec redis-benchmark -p %s -t get -c %d -n %d --csv "
		 "2>/dev/null",
		 strrchr(addr, ':') + 1, connections, requests);

	gmp_block_enter();
	FILE *load = popen(command, "r");

	exp_check(load, "popen");
	while (fgets(line, sizeof(line), load))
		found += sscanf(line, format, &rate, &p50, &p99, &max) == 4;
	exp_check(pclose(load) == 0 && found == 1, "redis-benchmark failed");
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	int64_t end = exp_clock();

	gmp_block_leave();
	gmp_wg_wait(&done);
	exp_check(gets >= requests, "%lld requests", (long long)gets);
	exp_figure("p50", "ms", p50);
	exp_figure("p99", "ms", p99);
	exp_figure("max", "ms", max);
	exp_figure("rate", "per_second", rate);
	report_shares(end < hogs_end ? end : hogs_end);
	report_preemptions();
	fflush(stdout);
}

/* ------------------------------------------------------------------ speed */

static int64_t steps;
static uint64_t expected;

struct cost {
	double wall, cpu; /* ns of an iteration; cpu: of the whole process */
};

/* arg: a struct cost */
static void *loop(void *arg)
{
	struct cost *c = arg;
	int64_t cpu = exp_cpu(), t0 = exp_clock();
	uint64_t x = churn(1, steps);

	c->wall = (double)(exp_clock() - t0) / (double)steps;
	c->cpu = (double)(exp_cpu() - cpu) / (double)steps;
	exp_check(x == expected, "a wrong result");
	return NULL;
}

static struct cost alone;

static void loop_alone(void *arg)
{
	(void)arg;
	loop(&alone);
}

static struct cost on_green_thread(void)
{
	exp_run(loop_alone, procs);
	return alone;
}

static struct cost on_os_thread(void)
{
	pthread_t t;
	struct cost c;

	exp_check(!pthread_create(&t, NULL, loop, &c) && !pthread_join(t, NULL), "pthread_create");
	return c;
}

static double middle(double *values)
{
	qsort(values, (size_t)n, sizeof(*values), ascending);
	return values[n / 2];
}

static void speed(void)
{
	double *wall = calloc((size_t)n, sizeof(*wall)), *cpu = calloc((size_t)n, sizeof(*cpu));
	double *loops = calloc((size_t)n, sizeof(*loops));

	exp_check(wall && cpu && loops, "no memory");
	steps = steps_of(ms);
	expected = churned(1, steps);
	for (int i = 0; i < n; i++) {
		struct cost os, green;

		if (i % 2)
			os = on_os_thread();
		green = on_green_thread();
		if (i % 2 == 0)
			os = on_os_thread();
		wall[i] = os.wall / green.wall;
		cpu[i] = os.cpu / green.cpu;
		loops[i] = green.cpu;
	}
	exp_figure("speed", "percent", 100 * middle(wall));
	exp_figure("speed cpu", "percent", 100 * middle(cpu));
	exp_figure("loop", "ns", middle(loops));
}

/* ------------------------------------------------------------------ tasks */

static int is_running(const char *path)
{
	char text[512], *end;
	FILE *f = fopen(path, "r");
	size_t got = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[got] = 0;
	end = strrchr(text, ')'); /* the state follows the name */
	return end && end[1] && end[2] == 'R';
}

struct found {
	int samples, most; /* the largest number of threads in state R */
	int below;         /* samples with fewer of them than Ps */
};

/* In a child process: sample the threads of the parent until `in` is closed, and write what was
 * found to `out`. */
static void sample(pid_t pid, int in, int out)
{
	struct pollfd closed = { .fd = in };
	struct found found = { 0 };
	char path[300];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	while (poll(&closed, 1, 2) == 0) {
		DIR *d = opendir(path);
		struct dirent *e;
		int running = 0;

		while (d && (e = readdir(d)))
			if (isdigit((unsigned char)e->d_name[0])) {
				char stat[600];

				snprintf(stat, sizeof(stat), "%s/%s/stat", path, e->d_name);
				running += is_running(stat);
			}
		if (d)
			closedir(d);
		found.samples++;
		found.most = running > found.most ? running : found.most;
		found.below += running < procs;
	}
	exp_check(write(out, &found, sizeof(found)) == sizeof(found), "write");
}

static int64_t ran;
static int64_t longest_gap; /* between two parts of the work of a task, in ns */
static double total, cpu_time;

/* Returns churn(1, steps), and notes the longest gap. */
static uint64_t churn_in_parts(void)
{
	int64_t last = exp_clock(), most = 0, now;
	uint64_t x = 1;

	for (int64_t left_over = steps; left_over > 0; left_over -= CHUNK, last = now) {
		x = churn(x, left_over < CHUNK ? left_over : CHUNK);
		now = exp_clock();
		most = now - last > most ? now - last : most;
	}
	for (int64_t seen = exp_load(&longest_gap);
	     seen < most && !__atomic_compare_exchange_n(&longest_gap, &seen, most, 1,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED);)
		;
	return x;
}

static void task(void *arg)
{
	(void)arg;
	exp_check(churn_in_parts() == expected, "a wrong result");
	exp_add(&ran, 1);
	gmp_wg_done(&done);
}

static void run_tasks(void *arg)
{
	int64_t cpu = exp_cpu(), t0 = exp_clock();

	(void)arg;
	gmp_wg_add(&done, n);
	for (int i = 0; i < n; i++)
		exp_go(task, NULL);
	gmp_wg_wait(&done);
	total = (double)(exp_clock() - t0);
	cpu_time = (double)(exp_cpu() - cpu);
	report_preemptions();
}

static void tasks(void)
{
	int in[2], out[2], status;
	struct found found;
	pid_t parent = getpid(), child;

	exp_check(!pipe(in) && !pipe(out) && (child = fork()) >= 0, "fork");
	if (!child) {
		close(in[1]);
		sample(parent, in[0], out[1]);
		_exit(0);
	}
	close(in[0]);
	steps = steps_of(ms);
	expected = churned(1, steps);
	exp_run(run_tasks, procs);
	close(in[1]);
	exp_check(read(out[0], &found, sizeof(found)) == sizeof(found) && found.samples,
		  "the sampler failed");
	waitpid(child, &status, 0);
	exp_check(ran == n, "%lld ran", (long long)ran);
	exp_figure("total", "ms", total / 1e6);
	exp_figure("of cpu", "", total / (cpu_time / procs));
	exp_figure("of work", "", total / ((double)n * ms * 1e6 / procs));
	exp_figure("gap", "ms", (double)longest_gap / 1e6);
	exp_figure("threads", "", found.most);
	exp_figure("below", "percent", 100.0 * found.below / found.samples);
}

/* ------------------------------------------------ sleep, blocking, crowd */

static void (*busy)(void);
static int64_t left, ended;

static void sleep_unannounced(void)
{
	usleep((useconds_t)ms * 1000);
}

static void sleep_announced(void)
{
	gmp_blocking(usleep((useconds_t)ms * 1000));
}

static void compute_steps(void)
{
	exp_check(churn(1, steps) == expected, "a wrong result");
}

static void keep_busy(void *arg)
{
	(void)arg;
	busy();
	if (exp_add(&left, -1) == 1)
		__atomic_store_n(&ended, exp_clock(), __ATOMIC_RELAXED);
	gmp_wg_done(&done);
}

static void crowd(void *arg)
{
	int64_t t0 = exp_clock();

	(void)arg;
	gmp_wg_add(&done, n);
	left = n;
	for (int i = 0; i < n; i++)
		exp_go(keep_busy, NULL);
	tick(t0, &ended);
	gmp_wg_wait(&done);
	report_gaps();
	exp_figure("total", "ms", (double)(ended - t0) / 1e6);
	report_preemptions();
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	int serves = !strcmp(way, "serve"), sleeps = !strcmp(way, "sleeper");
	int threads = !strcmp(way, "threads");
	int first = !strcmp(way, "ticker") || sleeps || threads || serves;
	int *to[] = { first ? &ms : &n, first ? &hogs : &ms, &connections, &requests };
	int counts = serves ? 4 : 2;

	for (int i = 0; i < counts; i++)
		*to[i] = exp_count(argc, argv, 2 + i, usage);
	procs = exp_count(argc, argv, 2 + counts, usage);
	hog = calloc((size_t)hogs + 1, sizeof(*hog));
	/* A tick each millisecond, for a quarter of an hour at most. */
	gaps_room = 1000000;
	gaps = malloc((size_t)gaps_room * sizeof(*gaps));
	exp_check(hog && gaps, "no memory");
	calibrate();
	if (!strcmp(way, "ticker")) {
		exp_run(ticker, procs);
	} else if (sleeps) {
		exp_run(sleeper, procs);
	} else if (threads) {
		sleep_beside_threads();
	} else if (serves) {
		struct rlimit r;

		getrlimit(RLIMIT_NOFILE, &r);
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
		exp_run(serve, procs);
	} else if (!strcmp(way, "speed")) {
		speed();
	} else if (!strcmp(way, "tasks")) {
		tasks();
	} else {
		busy = !strcmp(way, "sleep")      ? sleep_unannounced
		       : !strcmp(way, "blocking") ? sleep_announced
		       : !strcmp(way, "crowd")    ? compute_steps
						  : NULL;
		exp_check(busy, "usage: %s", usage);
		steps = steps_of(ms);
		expected = churned(1, steps);
		exp_run(crowd, procs);
	}
	return 0;
}
