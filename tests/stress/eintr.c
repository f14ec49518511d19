/* SPDX-License-Identifier: MIT */
/*
 * EINTR test: a thread sends a signal without SA_RESTART to all OS threads, one every 100 us.
 *
 * Meanwhile all kinds of calls run: reads and writes, accepts and dials, messages with fds,
 * sendfile, readiness, files, FIFOs, names, children, sleeps, channels, locks, blocking code.
 * Checks that no call returns EINTR and that no data is lost.
 *
 * The Ms block all signals except the ones requested by gmp_signal_notify.  Therefore the test
 * requests its signal and then replaces the handler.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <netdb.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "stress.h"

static atomic_int over;
/* The time is over, and each work has completed at least once. */
static atomic_int enough;
static atomic_long interrupts, sent;

static void on_signal(UNUSED int signo)
{
	atomic_fetch_add(&interrupts, 1);
}

/* --- the storm --- */

static void storm_over_all(void)
{
	struct timespec t = { .tv_nsec = 100 * 1000 };
	int self = (int)syscall(SYS_gettid);
	DIR *d = opendir("/proc/self/task");

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL && !atomic_load(&over);) {
		int tid = atoi(e->d_name);

		if (tid > 0 && tid != self) {
			if (syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0)
				atomic_fetch_add(&sent, 1);
			nanosleep(&t, NULL);
		}
	}
	closedir(d);
}

static void storm(UNUSED void *arg)
{
	while (!atomic_load(&over))
		storm_over_all();
}

/* --- the works; did[] counts the completions of each --- */

enum { WORKS = 32 };

static atomic_long did[WORKS];

static void note(int what)
{
	atomic_fetch_add(&did[what], 1);
}

static void fill_with(char *buf, size_t n, long i)
{
	for (size_t k = 0; k < n; k++)
		buf[k] = (char)(i + (long)k * 7);
}

static void check_filled(const char *buf, size_t n, long i)
{
	for (size_t k = 0; k < n; k++)
		if (buf[k] != (char)(i + (long)k * 7))
			CHECK_EQ(k, n);
}

struct pipe_end {
	int fd, what;
};

/* More than a socket's buffer holds, so that both wait. */
enum { LARGE = 300 << 10 };

static void send_large(void *arg)
{
	struct pipe_end *e = arg;
	char *buf = malloc(LARGE);

	CHECK(buf != NULL);
	for (long i = 0; !atomic_load(&enough); i++) {
		fill_with(buf, LARGE, i);
		if (i % 2) {
			CHECK_EQ(gmp_write_all(e->fd, buf, LARGE), LARGE);
			continue;
		}
		for (size_t at = 0; at < LARGE;) {
			size_t half = (LARGE - at) / 2;
			struct iovec v[2] = { { buf + at, half },
					      { buf + at + half, LARGE - at - half } };
			ssize_t n = gmp_writev(e->fd, v, 2);

			CHECK(n > 0);
			at += (size_t)n;
		}
	}
	CHECK_EQ(gmp_close(e->fd), 0);
	free(buf);
}

static void take_large(void *arg)
{
	struct pipe_end *e = arg;
	char *buf = malloc(LARGE);

	CHECK(buf != NULL);
	for (long i = 0;; i++) {
		ssize_t n = gmp_read_full(e->fd, buf, LARGE);

		if (n == 0)
			break;
		CHECK_EQ(n, LARGE);
		check_filled(buf, LARGE, i);
		note(e->what);
	}
	CHECK_EQ(gmp_close(e->fd), 0);
	free(buf);
}

static void ping(void *arg)
{
	struct pipe_end *e = arg;
	char out[60], in[60];

	for (long i = 0; !atomic_load(&enough); i++) {
		fill_with(out, sizeof(out), i);
		CHECK_EQ(gmp_write_all(e->fd, out, sizeof(out)), sizeof(out));
		struct iovec v[2] = { { in, 20 }, { in + 20, 40 } };

		for (size_t at = 0; at < sizeof(in);) {
			CHECK_EQ(gmp_fd_wait(e->fd, GMP_READ, GMP_FOREVER), GMP_READ);
			ssize_t n = at ? gmp_read(e->fd, in + at, sizeof(in) - at)
				       : gmp_readv(e->fd, v, 2);

			CHECK(n > 0);
			at += (size_t)n;
		}
		check_filled(in, sizeof(in), i);
		note(e->what);
	}
	CHECK_EQ(gmp_shutdown(e->fd, SHUT_WR), 0);
	CHECK_EQ(gmp_read(e->fd, in, 1), 0);
	CHECK_EQ(gmp_close(e->fd), 0);
}

static void pong(void *arg)
{
	struct pipe_end *e = arg;
	char buf[60];
	ssize_t n;

	while ((n = gmp_read(e->fd, buf, sizeof(buf))) > 0)
		CHECK_EQ(gmp_write_all(e->fd, buf, (size_t)n), n);
	CHECK_EQ(n, 0);
	CHECK_EQ(gmp_close(e->fd), 0);
}

static char addrs[2][128];

static void accept_each(void *arg)
{
	int l = (int)(intptr_t)arg, c;

	while ((c = gmp_accept(l)) >= 0) {
		say(c, "hello");
		CHECK_EQ(gmp_close(c), 0);
	}
	CHECK_EQ(c, -ECANCELED);
}

static void dial_each(void *arg)
{
	int which = (int)(intptr_t)arg & 1, what = (int)(intptr_t)arg >> 1;

	while (!atomic_load(&enough)) {
		int c = what % 2
				? gmp_dial(nets[which], addrs[which])
				: gmp_dial_until(nets[which], addrs[which], gmp_deadline(PATIENCE));

		CHECK(c >= 0);
		hear(c, "hello");
		reset_on_close(c);
		CHECK_EQ(gmp_close(c), 0);
		note(what);
	}
}

union control {
	struct cmsghdr h;
	char space[CMSG_SPACE(sizeof(int))];
};

static void pass_fds(void *arg)
{
	struct pipe_end *e = arg;

	while (!atomic_load(&enough)) {
		struct iovec v = { (void *)(uintptr_t) "f", 1 };
		union control c;
		struct msghdr m = { .msg_iov = &v,
				    .msg_iovlen = 1,
				    .msg_control = &c,
				    .msg_controllen = sizeof(c.space) };
		int p[2];

		CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
		memset(&c, 0, sizeof(c));
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&c.h), &p[0], sizeof(int));
		CHECK_EQ(gmp_sendmsg(e->fd, &m, 0), 1);
		CHECK_EQ(close(p[0]), 0);
		CHECK_EQ(gmp_fd_adopt(p[1]), p[1]);
		say(p[1], "through a descriptor that was passed");
		CHECK_EQ(gmp_close(p[1]), 0);
		gmp_yield();
	}
	CHECK_EQ(gmp_close(e->fd), 0);
}

static void take_fds(void *arg)
{
	struct pipe_end *e = arg;

	for (;;) {
		char byte;
		struct iovec v = { &byte, 1 };
		union control c;
		struct msghdr m = { .msg_iov = &v,
				    .msg_iovlen = 1,
				    .msg_control = &c,
				    .msg_controllen = sizeof(c.space) };
		ssize_t n = gmp_recvmsg(e->fd, &m, MSG_CMSG_CLOEXEC);
		int fd;

		if (n == 0)
			break;
		CHECK_EQ(n, 1);
		CHECK_EQ(m.msg_controllen, CMSG_SPACE(sizeof(int)));
		memcpy(&fd, CMSG_DATA(&c.h), sizeof(int));
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		hear(fd, "through a descriptor that was passed");
		CHECK_EQ(gmp_read(fd, &byte, 1), 0);
		CHECK_EQ(gmp_close(fd), 0);
		note(e->what);
	}
	CHECK_EQ(gmp_close(e->fd), 0);
}

static void datagrams(void *arg)
{
	int what = (int)(intptr_t)arg, a = gmp_listen("udp", "127.0.0.1:0");
	struct sockaddr_in to, from;
	socklen_t n = sizeof(to);

	CHECK(a >= 0);
	CHECK_EQ(getsockname(a, (struct sockaddr *)&to, &n), 0);
	for (long i = 0; !atomic_load(&enough); i++) {
		long got = -1;

		n = sizeof(from);
		CHECK_EQ(gmp_sendto(a, &i, sizeof(i), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(i));
		CHECK_EQ(gmp_recvfrom(a, &got, sizeof(got), 0, (struct sockaddr *)&from, &n),
			 sizeof(got));
		CHECK_EQ(got, i);
		CHECK_EQ(from.sin_port, to.sin_port);
		note(what);
		CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(MS)), 0);
		CHECK_EQ(gmp_recvfrom(a, &got, sizeof(got), 0, NULL, NULL), -ETIMEDOUT);
		CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, GMP_FOREVER), 0);
	}
	CHECK_EQ(gmp_close(a), 0);
}

static int open_scratch(void)
{
	char path[] = "/tmp/gmp-eintr-XXXXXX";
	int made = mkstemp(path), fd;

	CHECK(made >= 0);
	fd = gmp_open(path, O_RDWR | O_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(close(made), 0);
	return fd;
}

static void files(void *arg)
{
	char out[5000], in[5000];

	while (!atomic_load(&enough)) {
		int fd = open_scratch();

		for (long i = 0; i < 20; i++) {
			fill_with(out, sizeof(out), i);
			CHECK_EQ(gmp_pwrite(fd, out, sizeof(out), i * (long)sizeof(out)),
				 sizeof(out));
			CHECK_EQ(gmp_pread(fd, in, sizeof(in), i * (long)sizeof(in)), sizeof(in));
			check_filled(in, sizeof(in), i);
			CHECK_EQ(gmp_read(fd, in, 100), 100);
		}
		CHECK_EQ(gmp_fsync(fd), 0);
		CHECK_EQ(gmp_close(fd), 0);
		note((int)(intptr_t)arg);
	}
}

static void send_file(void *arg)
{
	struct pipe_end *e = arg;
	int fd = open_scratch();
	char *buf = malloc(LARGE);

	CHECK(buf != NULL);
	fill_with(buf, LARGE, 3);
	CHECK_EQ(gmp_write_all(fd, buf, LARGE), LARGE);
	while (!atomic_load(&enough)) {
		off_t at = 0;

		while (at < LARGE)
			CHECK(gmp_sendfile(e->fd, fd, &at, (size_t)(LARGE - at)) > 0);
		CHECK_EQ(gmp_read_full(e->fd, buf, 2), 2); /* the receiver has the whole file */
		note(e->what);
	}
	CHECK_EQ(gmp_close(e->fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
	free(buf);
}

static void take_file(void *arg)
{
	struct pipe_end *e = arg;
	char *buf = malloc(LARGE);
	ssize_t n;

	CHECK(buf != NULL);
	while ((n = gmp_read_full(e->fd, buf, LARGE)) == LARGE) {
		check_filled(buf, LARGE, 3);
		say(e->fd, "ok");
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(gmp_close(e->fd), 0);
	free(buf);
}

static char fifo_path[64];
static atomic_int fifo_users;

static int open_fifo(int flags)
{
	int fd = gmp_open(fifo_path, flags | O_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

/*
 * If a signal interrupts the open of one FIFO end, the kernel may still complete the open of the
 * other end.  Then the write returns EPIPE, or the read returns 0; both sides retry.
 */
static void write_fifo(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		int fd = open_fifo(O_WRONLY);
		ssize_t n = gmp_write(fd, "fifo", 4);

		CHECK(n == 4 || n == -EPIPE);
		CHECK_EQ(gmp_close(fd), 0);
		gmp_sleep(200 * US);
	}
	atomic_fetch_sub(&fifo_users, 1);
}

static void read_fifo(void *arg)
{
	char text[5] = "";

	while (!atomic_load(&enough)) {
		int fd = open_fifo(O_RDONLY);
		ssize_t n;

		while ((n = gmp_read_full(fd, text, 4)) == 4) {
			CHECK_STR(text, "fifo");
			note((int)(intptr_t)arg);
		}
		CHECK_EQ(n, 0);
		CHECK_EQ(gmp_close(fd), 0);
	}
	atomic_fetch_sub(&fifo_users, 1);
}

/* At the end, unblocks the opens of the last reader and writer. */
static void unblock_fifo(UNUSED void *arg)
{
	while (atomic_load(&fifo_users)) {
		if (atomic_load(&enough))
			CHECK_EQ(gmp_close(open_fifo(O_RDWR | O_NONBLOCK)), 0);
		gmp_sleep(MS);
	}
}

static void names(void *arg)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *list;

	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_getaddrinfo("localhost", "80", &hints, &list), 0);
		freeaddrinfo(list);
		note((int)(intptr_t)arg);
		gmp_sleep(2 * MS);
	}
}

static void children(void *arg)
{
	int what = (int)(intptr_t)arg;

	while (!atomic_load(&enough)) {
		int status = 0;
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			usleep(2000);
			_exit(9);
		}
		/* with flags, gmp_waitpid waits in blocking code */
		CHECK_EQ(gmp_waitpid(pid, &status, what % 2 ? WUNTRACED : 0), pid);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 9);
		note(what);
		gmp_sleep(10 * MS);
	}
}

static void sleeps(void *arg)
{
	while (!atomic_load(&enough)) {
		int64_t t = gmp_now();

		CHECK_EQ(gmp_sleep(300 * US), 0);
		CHECK(gmp_now() >= t + 300 * US);
		CHECK_EQ(gmp_sleep_until(t + MS), 0);
		CHECK(gmp_now() >= t + MS);
		note((int)(intptr_t)arg);
	}
}

static gmp_chan *there, *back;
static gmp_mutex mu;

static void answer(UNUSED void *arg)
{
	long v;

	while (gmp_chan_recv(there, &v) == 0)
		CHECK_EQ(gmp_chan_send(back, &v), 0);
	CHECK_EQ(gmp_chan_close(back), 0);
}

static void channels(void *arg)
{
	for (long i = 0, v; !atomic_load(&enough); i++) {
		gmp_case c[2] = { GMP_RECV_CASE(back, &v), GMP_SEND_CASE(NULL, &v) };

		if (i % 8 == 0) {
			CHECK_EQ(gmp_select_until(c, 2, gmp_deadline(200 * US)), -ETIMEDOUT);
			CHECK_EQ(gmp_chan_recv_until(back, &v, gmp_deadline(200 * US)), -ETIMEDOUT);
		}
		CHECK_EQ(gmp_chan_send(there, &i), 0);
		CHECK_EQ(gmp_select(c, 2), 0);
		CHECK_EQ(c[0].status, 0);
		CHECK_EQ(v, i);
		note((int)(intptr_t)arg);
	}
	CHECK_EQ(gmp_chan_close(there), 0);
	CHECK_EQ(gmp_chan_recv(back, NULL), -EPIPE);
}

static void hold_lock(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_mutex_lock(&mu), 0);
		gmp_sleep(500 * US);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		gmp_sleep(100 * US);
	}
}

static void locks(void *arg)
{
	while (!atomic_load(&enough)) {
		int err = gmp_mutex_lock_until(&mu, gmp_deadline(200 * US));

		CHECK(err == 0 || err == -ETIMEDOUT);
		if (err)
			CHECK_EQ(gmp_mutex_lock(&mu), 0);
		CHECK_EQ(gmp_mutex_unlock(&mu), 0);
		gmp_yield(); /* while the mutex is free, no call here waits */
		note((int)(intptr_t)arg);
	}
}

/* In blocking code the caller itself repeats interrupted calls. */
static void blocking(void *arg)
{
	while (!atomic_load(&enough)) {
		struct timespec t = { .tv_nsec = 700 * 1000 };
		int err;

		while ((err = gmp_blocking_sys(nanosleep(&t, &t))) == -EINTR)
			;
		CHECK_EQ(err, 0);
		note((int)(intptr_t)arg);
	}
}

/* --- all together --- */

static struct pipe_end ends[16];
static int n_ends;

static struct pipe_end *end_of(int fd, int what)
{
	struct pipe_end *e = &ends[n_ends++];

	CHECK(n_ends <= 16);
	e->fd = fd;
	e->what = what;
	return e;
}

static void begin_storm(gmp_chan *c)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0); /* no SA_RESTART */
}

RT(calls_under_signal_every_100_us_never_report_eintr)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);
	struct ext_thread f[3], s;
	int fds, ng = 0, nf = 0, what = 0, l[2], fd[2];
	gmp_g *g[WORKS], *accepters[2];

	atomic_store(&fifo_users, 2);
	there = gmp_chan_new(sizeof(long), 0);
	back = gmp_chan_new(sizeof(long), 0);
	snprintf(fifo_path, sizeof(fifo_path), "/tmp/gmp-eintr-%d-%d", (int)getpid(), procs);
	CHECK_EQ(mkfifo(fifo_path, 0600), 0);
	fd[0] = open_scratch();
	CHECK_EQ(gmp_fsync(fd[0]), 0);
	CHECK_EQ(gmp_close(fd[0]), 0);
	begin_storm(c);
	fds = count_fds(); /* with the fds that the runtime keeps until the end of the run */
	stress_begin();
	for (int i = 0; i < 2; i++) {
		l[i] = listen_any(nets[i], addrs[i]);
		accepters[i] = spawn(accept_each, (void *)(intptr_t)l[i]);
	}
	ext_thread_start(&s, storm, NULL);
#define PAIR(net, one, other)                                                                      \
	make_pair(net, &fd[0], &fd[1]);                                                            \
	g[ng++] = spawn(one, end_of(fd[0], what));                                                 \
	g[ng++] = spawn(other, end_of(fd[1], what));                                               \
	what++
#define ALONE(fn) g[ng++] = spawn(fn, (void *)(intptr_t)what++)
	PAIR("tcp", send_large, take_large);
	PAIR("unix", ping, pong);
	PAIR("unix", pass_fds, take_fds);
	PAIR("tcp", send_file, take_file);
	ALONE(datagrams);
	ALONE(files);
	ALONE(names);
	ALONE(children);
	ALONE(children);
	ALONE(sleeps);
	ALONE(channels);
	ALONE(locks);
	ALONE(blocking);
	ALONE(read_fifo);
	g[ng++] = spawn(write_fifo, NULL);
	g[ng++] = spawn(unblock_fifo, NULL);
	g[ng++] = spawn(answer, NULL);
	g[ng++] = spawn(hold_lock, NULL);
	for (int i = 0; i < 2; i++, what++)
		g[ng++] = spawn(dial_each, (void *)(intptr_t)(what << 1 | i));
	/* also on external threads */
	make_pair("tcp", &fd[0], &fd[1]);
	ext_thread_start(&f[nf++], ping, end_of(fd[0], what));
	ext_thread_start(&f[nf++], pong, end_of(fd[1], what++));
	ext_thread_start(&f[nf++], dial_each, (void *)(intptr_t)(what++ << 1));
	for (int i = 0; i < what; i++)
		WAIT_FOR(atomic_load(&did[i]) > 0);
	WAIT_FOR(atomic_load(&interrupts) > 0);
	while (!stress_over())
		gmp_sleep(MS);
	atomic_store(&enough, 1);
	for (int i = 0; i < ng; i++)
		join(g[i]);
	for (int i = 0; i < nf; i++)
		ext_thread_join(&f[i]);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_close(l[i]), 0);
		join(accepters[i]);
	}
	atomic_store(&over, 1);
	ext_thread_join(&s);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	CHECK_EQ(unlink(fifo_path), 0);
	for (int i = 0; i < what; i++)
		fprintf(stderr, "%ld ", atomic_load(&did[i]));
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(count_fds(), fds);
	fprintf(stderr, "%ld signals\n", atomic_load(&sent));
	gmp_chan_free(c);
	gmp_chan_free(there);
	gmp_chan_free(back);
}
