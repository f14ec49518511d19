/* SPDX-License-Identifier: MIT */
/*
 * Leak test of a server: ten thousand connections a second for a minute, with all kinds of ends.
 *
 *   connects SECONDS RATE SEED
 *
 * The server is alone in its process, so that every leftover is its own.  One client process
 * connects RATE times a second: most connections get an answer, some are reset before or after the
 * answer, and some send single bytes until the server closes them by timeout.  Other client
 * processes, one after another, open many connections and are killed (SIGKILL) with all of them
 * open.
 *
 * A short load first makes all resources that the runtime makes once.  Before and after the minute,
 * with no client connected, the server counts the fds of the process and of gmp, green threads,
 * timers, stacks, OS threads, and the bytes in use of malloc; the counts must be equal.  (The bytes
 * are compared only under GLIBC_TUNABLES=glibc.malloc.tcache_count=0, since malloc caches blocks
 * per thread.)
 */
#define _GNU_SOURCE 1
#include "soak.h"

#include <malloc.h>
#include <spawn.h>

enum { PS = 2, MOST_THREADS = 8 }; /* of the server */
enum { ASK = 4, WORKERS = 200, AT_ONCE = 100, ADDRESSES = 40000 };

#define TOO_SLOW SEC

/* ------------------------------------------------------------------ The server */

static int listener;
static atomic_long accepted, answered, dropped, late; /* by how each connection ended */

static void serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char ask[ASK], end;

	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, gmp_deadline(TOO_SLOW)), 0);
	ssize_t n = gmp_read_full(fd, ask, ASK);

	if (n == ASK && gmp_write_all(fd, ask, ASK) == ASK) {
		atomic_fetch_add(&answered, 1);
		(void)gmp_read(fd, &end, 1); /* the client closes or resets */
	} else {
		atomic_fetch_add(n == -ETIMEDOUT ? &late : &dropped, 1);
	}
	CHECK_EQ(gmp_close(fd), 0);
}

static void accept_all(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = gmp_accept(listener);

		if (fd == -ECANCELED || fd == -EBADF)
			return;
		if (fd == -ECONNABORTED)
			continue;
		CHECK(fd >= 0);
		atomic_fetch_add(&accepted, 1);
		CHECK_EQ(gmp_go(serve, (void *)(intptr_t)fd), 0);
	}
}

/* ----------------------------------------------------------------- The clients */

static const char *port;
static atomic_long begun;
static long rate, connects;
static int64_t began;

/*
 * Spreads the connections over many addresses: the kernel keeps a closed port for a minute, so the
 * ports of one address would run out.
 */
static int connect_to(long number)
{
	char addr[64];
	long a = number % ADDRESSES;

	snprintf(addr, sizeof(addr), "127.%ld.%ld.1:%s", 1 + a / 200, 1 + a % 200, port);
	return gmp_dial_until("tcp", addr, gmp_deadline(PATIENCE));
}

static void send_slowly(int fd)
{
	for (int i = 0; i < ASK - 1 && gmp_write(fd, "x", 1) == 1; i++)
		gmp_sleep(TOO_SLOW / 2);
}

/* Returns true if the server may have closed the connection: this client has been slow. */
static bool may_be_closed(int64_t since)
{
	return gmp_now() > since + TOO_SLOW / 2;
}

/*
 * The n-th client.  Of 100 clients, 5 reset at once, 5 with the answer unread, 5 after the answer;
 * 2 are slow; the others close normally.
 */
static void be_client(int fd, long n, int64_t since)
{
	long kind = n % 100;
	char answer[ASK];

	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ | GMP_WRITE, gmp_deadline(PATIENCE)), 0);
	if (kind < 15)
		reset_on_close(fd);
	if (kind >= 15 && kind < 17) {
		send_slowly(fd);
	} else if (kind >= 5) {
		CHECK(gmp_write_all(fd, "abcd", ASK) == ASK || may_be_closed(since));
		if (kind >= 10)
			CHECK((gmp_read_full(fd, answer, ASK) == ASK &&
			       memcmp(answer, "abcd", ASK) == 0) ||
			      may_be_closed(since));
	}
	CHECK_EQ(gmp_close(fd), 0);
}

struct due {
	int fd;
	long n;
	int64_t since;
};

static void slow_client(void *arg)
{
	struct due *d = arg;

	be_client(d->fd, d->n, d->since);
	free(d);
}

/* Takes the next number, waits until its time and connects. */
static void make_connections(void *unused)
{
	long n;

	(void)unused;
	while ((n = atomic_fetch_add(&begun, 1)) < connects) {
		gmp_sleep_until(began + n * (SEC / rate));
		int64_t since = gmp_now();
		int fd = connect_to(n);

		CHECK(fd >= 0);
		if (n % 100 == 15 || n % 100 == 16) { /* a slow client must not delay the worker */
			struct due *d = malloc(sizeof(*d));

			CHECK(d != NULL);
			*d = (struct due){ fd, n, since };
			CHECK_EQ(gmp_go(slow_client, d), 0);
		} else {
			be_client(fd, n, since);
		}
	}
}

/* First green thread of the client process. */
static void all_clients(void *unused)
{
	gmp_g *g[WORKERS];

	(void)unused;
	began = gmp_now();
	for (int i = 0; i < WORKERS; i++)
		g[i] = spawn(make_connections, NULL);
	for (int i = 0; i < WORKERS; i++)
		join(g[i]);
	printf("%.2f\n", (double)(gmp_now() - began) / (double)SEC);
	fflush(stdout);
	while (stats().greens > 1)
		gmp_sleep(10 * MS);
}

/* First green thread of a client process that is going to be killed. */
static void one_victim(void *unused)
{
	(void)unused;
	for (long i = 0; i < AT_ONCE; i++) {
		int fd = connect_to(i);

		CHECK(fd >= 0 && gmp_write_all(fd, "ab", i % 3) == i % 3);
	}
	printf("ready\n");
	fflush(stdout);
	gmp_sleep(3600 * SEC);
}

/* ---------------------------------------------------------- Starting processes */

static const char *seed_text;
static char port_text[16];

/* Starts a client process.  *out is an adopted fd for its output. */
static pid_t begin_process(const char *role, long n, int *out)
{
	extern char **environ;
	char number[32], per_second[32];
	char *argv[] = { (char *)"connects", (char *)role,      port_text, number,
			 per_second,         (char *)seed_text, NULL };
	posix_spawn_file_actions_t to;
	int p[2];
	pid_t pid;

	snprintf(number, sizeof(number), "%ld", n);
	snprintf(per_second, sizeof(per_second), "%ld", rate);
	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	CHECK_EQ(posix_spawn_file_actions_init(&to), 0);
	CHECK_EQ(posix_spawn_file_actions_adddup2(&to, p[1], 1), 0);
	CHECK_EQ(gmp_blocking(posix_spawn(&pid, "/proc/self/exe", &to, NULL, argv, environ)), 0);
	CHECK_EQ(posix_spawn_file_actions_destroy(&to), 0);
	CHECK_EQ(close(p[1]), 0);
	*out = p[0];
	CHECK_EQ(gmp_fd_adopt(*out), *out);
	return pid;
}

static void first_line(int fd, char *line, size_t size)
{
	ssize_t n = gmp_read(fd, line, size - 1);

	CHECK(n > 0);
	line[n] = '\0';
}

static atomic_bool enough;
static atomic_long killed;

static void kill_clients(void *unused)
{
	char line[32];

	(void)unused;
	while (!atomic_load(&enough)) {
		int out, status;
		pid_t pid = begin_process("victim", 0, &out);

		first_line(out, line, sizeof(line));
		CHECK_EQ(kill(pid, SIGKILL), 0);
		CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		CHECK_EQ(gmp_close(out), 0);
		atomic_fetch_add(&killed, 1);
		gmp_sleep(500 * MS);
	}
}

/* Returns the duration in seconds. */
static double load_for(double seconds)
{
	long n = (long)(seconds * (double)rate);
	char line[32];
	int out, status;

	atomic_store(&enough, false);
	gmp_g *killer = spawn(kill_clients, NULL);
	pid_t pid = begin_process("clients", n, &out);

	first_line(out, line, sizeof(line));
	CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(gmp_close(out), 0);
	atomic_store(&enough, true);
	join(killer);
	return strtod(line, NULL);
}

/* ------------------------------------------------------------------- Counting */

struct left {
	long fds, descriptors, greens, timers, stacks, threads, bytes;
};

/* Waits until all connections have ended, then counts. */
static struct left count_left(void)
{
	enum { MINE = 3 }; /* app and two acceptors */
	int64_t limit = gmp_deadline(PATIENCE / 2);
	gmp_stats s;

	while ((s = stats()).greens != MINE || s.timers != 0) {
		if (gmp_now() > limit)
			FAILED("%llu green threads and %llu timers are left",
			       (unsigned long long)s.greens - MINE, (unsigned long long)s.timers);
		gmp_sleep(20 * MS);
	}
	struct mallinfo2 m = mallinfo2();

	return (struct left){ count_fds("self", false),
			      (long)s.descriptors,
			      (long)s.greens,
			      (long)s.timers,
			      (long)s.stacks_used,
			      (long)s.threads,
			      (long)(m.uordblks + m.hblkhd) };
}

static void print_ends(double took)
{
	printf("connects: %ld connections in %.1f s, %.0f a second: %ld answered, %ld reset or "
	       "closed before, %ld too slow; %ld processes killed, with %ld connections\n",
	       atomic_load(&accepted), took, (double)connects / took, atomic_load(&answered),
	       atomic_load(&dropped), atomic_load(&late), atomic_load(&killed),
	       atomic_load(&killed) * AT_ONCE);
}

/* ------------------------------------------- Resources that the server makes once */

/*
 * The runtime makes OS threads for Ms that are stuck in system calls on demand and keeps them.  A
 * short stall of the machine may trigger that during the minute.  Therefore all of them are made
 * before: more green threads block at the same time than there may be OS threads.
 */

static atomic_bool all_made;

static void be_stuck(void *unused)
{
	void *volatile p = malloc(1); /* makes libc allocate its data for this OS thread, 3 KB */

	(void)unused;
	free(p);
	usleep(300 * 1000); /* outside of blocking code */
}

/* Runs on an external thread: all Ms of the server may be stuck. */
static void *watch_threads_and_ps(void *done)
{
	while (!atomic_load((atomic_bool *)done)) {
		gmp_stats s = stats();

		if (s.threads == MOST_THREADS)
			atomic_store(&all_made, true);
		usleep(1000);
	}
	return NULL;
}

static void make_threads_and_ps(void)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g[2 * MOST_THREADS];
	atomic_bool done = false;
	pthread_t watcher;

	CHECK_EQ(pthread_create(&watcher, NULL, watch_threads_and_ps, &done), 0);
	do {
		if (gmp_now() > limit)
			FAILED("%llu OS threads of %d, or too few Ps",
			       (unsigned long long)stats().threads, MOST_THREADS);
		for (int i = 0; i < 2 * MOST_THREADS; i++)
			g[i] = spawn(be_stuck, NULL);
		for (int i = 0; i < 2 * MOST_THREADS; i++)
			join(g[i]);
	} while (!atomic_load(&all_made));
	atomic_store(&done, true);
	CHECK_EQ(gmp_blocking(pthread_join(watcher, NULL)), 0);
}

/* ----------------------------------------------------------------------------- */

static double seconds;

static void app(void *unused)
{
	char addr[64];
	gmp_g *acceptors[2];

	(void)unused;
	listener = gmp_listen("tcp4", ":0");
	CHECK(listener >= 0 && gmp_local_addr(listener, addr, sizeof(addr)) > 0);
	snprintf(port_text, sizeof(port_text), "%s", strrchr(addr, ':') + 1);
	for (int i = 0; i < 2; i++)
		acceptors[i] = spawn(accept_all, NULL);
	make_threads_and_ps();
	load_for(seconds < 10 ? 1 : 3);

	struct left a = count_left();

	atomic_store(&accepted, 0);
	atomic_store(&answered, 0);
	atomic_store(&dropped, 0);
	atomic_store(&late, 0);
	atomic_store(&killed, 0);
	connects = (long)(seconds * (double)rate);
	double took = load_for(seconds);
	struct left b = count_left();

	print_ends(took);
	printf("connects: left over: %ld descriptors, %ld in gmp, %ld green threads, %ld timers, "
	       "%ld stacks, %ld threads, %ld bytes\n",
	       b.fds - a.fds, b.descriptors - a.descriptors, b.greens - a.greens,
	       b.timers - a.timers, b.stacks - a.stacks, b.threads - a.threads, b.bytes - a.bytes);
	fflush(stdout);
	CHECK(memcmp(&a, &b, offsetof(struct left, bytes)) == 0);
	if (getenv("GLIBC_TUNABLES"))
		CHECK_EQ(b.bytes, a.bytes);
	CHECK_EQ(gmp_close(listener), 0);
	for (int i = 0; i < 2; i++)
		join(acceptors[i]);
	if (seconds >= 30 && took > seconds * 1.05 + 1) { /* a short run checks only for leaks */
		fprintf(stderr,
			"connects: less than %ld connections a second: the machine is too slow or "
			"busy\n",
			rate);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	gmp_config few = GMP_CONFIG_INIT;
	gmp_fn fn = app;

	soak_name = "connects";
	signal(SIGPIPE, SIG_IGN);
	if (argc == 6) { /* connects clients|victim PORT NUMBER RATE SEED */
		fn = strcmp(argv[1], "victim") == 0 ? one_victim : all_clients;
		port = argv[2];
		connects = atol(argv[3]);
		rate = atol(argv[4]);
		soak_seed = strtoull(argv[5], NULL, 10);
		return gmp_run(fn, NULL, NULL) != 0;
	}
	if (argc != 4 || (seconds = atof(argv[1])) <= 0 || (rate = atol(argv[2])) <= 0) {
		fprintf(stderr, "usage: connects SECONDS RATE SEED\n");
		return 2;
	}
	seed_text = argv[3];
	soak_seed = strtoull(seed_text, NULL, 10);
	few.procs = PS;
	few.max_threads = MOST_THREADS;
	return gmp_run(app, NULL, &few) != 0;
}
