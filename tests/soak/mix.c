/* SPDX-License-Identifier: MIT */
/*
 * Does a runtime stay as it is that for an hour does everything at once?
 *
 *   mix SECONDS SEED ROUND_SECONDS [restart]
 *
 * Each kind of work is an actor (soak.h): connections, datagrams, files, names, children, signals,
 * timers, channels, locks, blocking code, cancellation, foreign threads, deep stacks, Ps that come and
 * go; and two that are a nuisance: one takes all descriptors there are, one sends a signal every
 * 100 us.  With `restart` each round is a run of its own.
 */
#define _GNU_SOURCE 1
#include "soak.h"

#include <netdb.h>
#include <spawn.h>
#include <sys/time.h>

enum { DESCRIPTORS = 500, MOST_THREADS = 60, LARGE = 20000 };

static char folder[] = "/tmp/gmp-soak-XXXXXX";
static atomic_uint serial;

static void nap(struct rng *r, unsigned us)
{
	gmp_sleep((int64_t)draw(r, us) * US);
}

static void kernel_sleep(unsigned us)
{
	struct timespec t = { 0, (long)us * 1000 };

	nanosleep(&t, NULL);
}

/* --------------------------------------------------------------- Connections */

/* One listener with those who accept, serve, and dial; all end with the step. */
struct meeting {
	int listener;
	const char *net;
	char addr[128];
	gmp_wg serving;
	atomic_uint ids;
	atomic_bool closing;
};

struct guest {
	struct meeting *m;
	int fd;
	uint64_t id;
};

struct request {
	uint32_t n, salt;
};

static void serve(void *arg)
{
	struct guest *g = arg;
	struct rng r = rng_for(g->id);
	unsigned char *buf = malloc(LARGE);
	struct request q;
	ssize_t n;

	CHECK(buf != NULL);
	for (;;) {
		if (draw(&r, 8) == 0)
			gmp_set_deadline(g->fd, GMP_READ, gmp_deadline(draw(&r, 20) * MS));
		n = gmp_read_full(g->fd, &q, sizeof(q));
		if (n != (ssize_t)sizeof(q)) {
			CHECK(n >= 0 || is_broken(n));
			break;
		}
		CHECK(q.n <= LARGE);
		fill(buf, q.n, q.salt);
		n = gmp_write_all(g->fd, buf, q.n);
		CHECK(n == (ssize_t)q.n || is_broken(n));
		if (n < 0 || draw(&r, 100) == 0)
			break;
	}
	if (draw(&r, 3) == 0)
		reset_on_close(g->fd);
	CHECK_EQ(gmp_close(g->fd), 0);
	gmp_wg_done(&g->m->serving);
	free(buf);
	free(g);
}

/* Who comes back only after the listener has been closed may find another under its number, and helps
 * out there; or something that is none. */
static void accept_all(void *arg)
{
	struct meeting *m = arg;
	int c;

	while (!atomic_load(&m->closing)) {
		struct guest *g;

		c = gmp_accept(m->listener);
		if (c == -ECANCELED || c == -EBADF || c == -EINVAL || c == -ENOTSOCK ||
		    c == -EOPNOTSUPP)
			break;
		if (c < 0) {
			CHECK(is_short(c) || is_broken(c));
			gmp_sleep(MS);
			continue;
		}
		g = malloc(sizeof(*g));
		CHECK(g != NULL);
		*g = (struct guest){ m, c, 77 + atomic_fetch_add(&m->ids, 1) };
		gmp_wg_add(&m->serving, 1);
		CHECK_EQ(gmp_go(serve, g), 0);
	}
}

/* Reads an answer, at once or in bits.  False when the connection has ended. */
static bool hear(int fd, struct rng *r, const struct request *q, unsigned char *buf)
{
	size_t got = 0;
	bool in_bits = draw(r, 10) == 0 && q->n < 500;

	while (got < q->n) {
		ssize_t n =
			in_bits ? gmp_read(fd, buf + got, 1) : gmp_read(fd, buf + got, q->n - got);

		CHECK(n >= 0 || is_broken(n));
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	check_fill(buf, q->n, q->salt, 0);
	return true;
}

static void ask(int fd, struct rng *r)
{
	unsigned char *buf = malloc(LARGE);
	unsigned n = draw(r, 20);

	CHECK(buf != NULL);
	while (n-- > 0) {
		struct request q = { draw(r, 8) ? draw(r, 300) : draw(r, LARGE), draw(r, 256) };
		size_t most = draw(r, 20) ? sizeof(q) : draw(r, sizeof(q));
		ssize_t sent = 0;

		if (draw(r, 10) == 0) /* a byte at a time */
			for (size_t i = 0; i < most && sent >= 0; i++) {
				sent = gmp_write(fd, (char *)&q + i, 1);
				gmp_yield();
			}
		else
			sent = gmp_write_all(fd, &q, most);
		CHECK(sent >= 0 || is_broken(sent));
		if (sent < 0 || most < sizeof(q))
			break;
		if (draw(r, 30) == 0)
			break; /* does not want the answer */
		if (!hear(fd, r, &q, buf))
			break;
		if (draw(r, 20) == 0)
			nap(r, 3000);
	}
	free(buf);
}

static void dial(void *arg)
{
	struct guest *g = arg;
	struct rng r = rng_for(g->id);

	for (unsigned n = 1 + draw(&r, 10); n > 0; n--) {
		int fd = gmp_dial_until(g->m->net, g->m->addr, gmp_deadline(5 * SEC));

		if (fd < 0) {
			CHECK(is_short(fd) || is_broken(fd) || fd == -ENOENT);
			nap(&r, 2000);
			continue;
		}
		if (draw(&r, 2))
			reset_on_close(fd);
		if (draw(&r, 4))
			ask(fd, &r);
		if (draw(&r, 4) == 0)
			(void)gmp_shutdown(fd, SHUT_WR);
		CHECK_EQ(gmp_close(fd), 0);
	}
}

static void close_meeting(struct meeting *m)
{
	if (!atomic_exchange(&m->closing, true))
		CHECK_EQ(gmp_close(m->listener), 0);
}

static void connections(struct rng *r)
{
	enum { MOST_DIAL = 8, MOST_ACCEPT = 40 };
	struct meeting m = { .net = draw(r, 3) ? "tcp" : "unix" };
	int ndial = 1 + (int)draw(r, MOST_DIAL);
	int naccept = 1 + (int)(draw(r, 10) ? draw(r, 3) : draw(r, MOST_ACCEPT));
	gmp_g *accepting[MOST_ACCEPT], *dialling[MOST_DIAL];
	struct guest guests[MOST_DIAL];

	atomic_store(&m.ids, draw(r, 1 << 30));
	if (m.net[0] == 'u')
		snprintf(m.addr, sizeof(m.addr), "@gmp-soak-%d-%u", (int)getpid(),
			 atomic_fetch_add(&serial, 1));
	else
		snprintf(m.addr, sizeof(m.addr), "127.0.0.1:0");
	m.listener = gmp_listen(m.net, m.addr);
	if (m.listener < 0) {
		CHECK(is_short(m.listener));
		nap(r, 2000);
		return;
	}
	CHECK(gmp_local_addr(m.listener, m.addr, sizeof(m.addr)) > 0);
	for (int i = 0; i < naccept; i++)
		accepting[i] = spawn(accept_all, &m);
	for (int i = 0; i < ndial; i++) {
		guests[i] = (struct guest){ &m, -1, draw(r, 1 << 30) };
		dialling[i] = spawn(dial, &guests[i]);
	}
	if (draw(r, 4) == 0) {
		nap(r, 3000);
		close_meeting(&m); /* with them in front of the door */
	}
	for (int i = 0; i < ndial; i++)
		join(dialling[i]);
	close_meeting(&m);
	for (int i = 0; i < naccept; i++)
		join(accepting[i]);
	CHECK_EQ(gmp_wg_wait(&m.serving), 0);
}

/* --------------------------------------------------------- Other descriptors */

static void datagrams(struct rng *r)
{
	unsigned char buf[512], back[512];
	char addr[128];
	int a = gmp_listen("udp", "127.0.0.1:0"), b;

	if (a < 0) {
		CHECK(is_short(a));
		nap(r, 2000); /* or else, on one P, the hog never runs again */
		return;
	}
	CHECK(gmp_local_addr(a, addr, sizeof(addr)) > 0);
	b = gmp_dial("udp", addr);
	CHECK(b >= 0 || is_short(b));
	for (unsigned n = b >= 0 ? draw(r, 20) : 0; n > 0; n--) {
		size_t size = draw(r, sizeof(buf));
		ssize_t got;

		fill(buf, size, n);
		CHECK_EQ(gmp_write(b, buf, size), size);
		CHECK_EQ(gmp_set_deadline(a, GMP_READ, gmp_deadline(PATIENCE / 2)), 0);
		got = gmp_recvfrom(a, back, sizeof(back), 0, NULL, NULL);
		CHECK_EQ(got, size);
		check_fill(back, size, n, 0);
	}
	CHECK_EQ(gmp_close(a), 0);
	if (b >= 0)
		CHECK_EQ(gmp_close(b), 0);
	if (draw(r, 10)) /* else it goes on and on without ever having to wait */
		nap(r, 2000);
}

/* A pair of connected ends, made by the system and adopted.  False when there are no descriptors. */
static bool adopted_pair(int *a, int *b)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0) {
		CHECK(is_short(-errno));
		return false;
	}
	*a = p[0];
	*b = p[1];
	CHECK_EQ(gmp_adopt(*a), *a);
	CHECK_EQ(gmp_adopt(*b), *b);
	return true;
}

/* Sends a descriptor over a pair, and uses what arrives. */
static void pass_descriptor(int a, int b, struct rng *r)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char text = 'x';
	struct iovec v = { &text, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int c, d, got;

	if (!adopted_pair(&c, &d))
		return;
	control.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
				      .cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.h), &c, sizeof(c));
	CHECK_EQ(gmp_sendmsg(a, &m, 0), 1);
	memset(&control, 0, sizeof(control));
	m.msg_controllen = sizeof(control);
	CHECK_EQ(gmp_recvmsg(b, &m, MSG_CMSG_CLOEXEC), 1);
	if (m.msg_flags & MSG_CTRUNC) {
		/* no descriptor was free, so it has been dropped */
	} else {
		memcpy(&got, CMSG_DATA(&control.h), sizeof(got));
		if (draw(r, 2)) {
			CHECK_EQ(gmp_adopt(got), got);
			CHECK_EQ(gmp_write_all(d, "y", 1), 1);
			CHECK_EQ(gmp_read(got, &text, 1), 1);
			CHECK_EQ(text, 'y');
			CHECK_EQ(gmp_close(got), 0);
		} else {
			CHECK_EQ(close(got), 0);
		}
	}
	CHECK_EQ(gmp_close(c), 0);
	CHECK_EQ(gmp_close(d), 0);
}

struct reader {
	int fd;
	bool takes;
	ssize_t result;
};

/* Who comes only after the descriptor has been closed finds another's under its number, and must take
 * nothing from that. */
static void read_one(void *arg)
{
	struct reader *w = arg;
	char b;

	w->result =
		w->takes ? gmp_read(w->fd, &b, 1) : gmp_wait_fd(w->fd, GMP_READ, gmp_deadline(SEC));
}

static void descriptors(struct rng *r)
{
	struct reader readers[6];
	gmp_g *reading[6];
	ssize_t result;
	int a, b, n = 1 + (int)draw(r, 6), kind = (int)draw(r, 5);

	if (!adopted_pair(&a, &b)) {
		nap(r, 2000);
		return;
	}
	switch (kind) {
	case 0: pass_descriptor(a, b, r); break;
	case 1: /* too late for those who read */
	case 2: /* closed or released under those who wait */
		for (int i = 0; i < n; i++) {
			readers[i] = (struct reader){ a, kind == 1, 0 };
			reading[i] = spawn(read_one, &readers[i]);
		}
		nap(r, 500);
		if (kind == 1) {
			CHECK_EQ(gmp_set_deadline(a, GMP_READ, gmp_deadline(draw(r, 1000) * US)),
				 0);
		} else {
			if (draw(r, 2)) {
				CHECK_EQ(gmp_release(a), 0);
				CHECK_EQ(close(a), 0);
			} else {
				CHECK_EQ(gmp_close(a), 0);
			}
			a = -1;
		}
		for (int i = 0; i < n; i++) {
			join(reading[i]);
			if (kind == 1)
				CHECK_EQ(readers[i].result, -ETIMEDOUT);
		}
		break;
	case 3: /* the peer is gone, unless a child that has just been forked has it too */
		CHECK_EQ(gmp_close(b), 0);
		b = -1;
		result = gmp_write(a, "x", 1);
		CHECK(result == -EPIPE || result == 1);
		break;
	default:
		CHECK_EQ(gmp_wait_fd(a, GMP_READ, gmp_deadline(draw(r, 500) * US)), -ETIMEDOUT);
		CHECK_EQ(gmp_wait_fd(a, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
		break;
	}
	if (a >= 0)
		CHECK_EQ(gmp_close(a), 0);
	if (b >= 0)
		CHECK_EQ(gmp_close(b), 0);
}

static void files(struct rng *r)
{
	unsigned char *buf = malloc(LARGE);
	size_t n = 1 + draw(r, LARGE);
	unsigned salt = draw(r, 256);
	char path[64];
	int fd, a, b;

	CHECK(buf != NULL);
	snprintf(path, sizeof(path), "%s/%u", folder, atomic_fetch_add(&serial, 1));
	fd = gmp_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0) {
		CHECK(is_short(fd));
		free(buf);
		nap(r, 2000);
		return;
	}
	fill(buf, n, salt);
	CHECK_EQ(gmp_pwrite(fd, buf, n, 0), n);
	if (draw(r, 20) == 0)
		CHECK_EQ(gmp_fsync(fd), 0);
	for (unsigned i = draw(r, 5); i > 0; i--) {
		size_t at = draw(r, (unsigned)n);
		ssize_t got = gmp_pread(fd, buf, n, (off_t)at);

		CHECK_EQ(got, n - at);
		check_fill(buf, (size_t)got, salt, at);
	}
	if (draw(r, 2) && adopted_pair(&a, &b)) {
		off_t at = 0;

		while (at < (off_t)n) { /* in portions that fit into the socket */
			size_t part = n - (size_t)at < 4000 ? n - (size_t)at : 4000;
			ssize_t got = gmp_sendfile(a, fd, &at, part);

			CHECK(got > 0);
			CHECK_EQ(gmp_read_full(b, buf, (size_t)got), got);
			check_fill(buf, (size_t)got, salt, (size_t)(at - got));
		}
		CHECK_EQ(gmp_close(a), 0);
		CHECK_EQ(gmp_close(b), 0);
	}
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(unlink(path), 0);
	free(buf);
}

/* ------------------------------------------------- Names, children, signals */

static void names(struct rng *r)
{
	const char *host = draw(r, 4) ? "localhost" : "127.0.0.1";
	struct addrinfo *found = NULL, hints = { .ai_socktype = SOCK_STREAM };
	int err;

	if (draw(r, 2))
		err = gmp_getaddrinfo(host, "80", &hints, &found);
	else
		err = gmp_getaddrinfo_until(host, "80", &hints, &found,
					    gmp_deadline(draw(r, 2000) * US));
	if (err == 0)
		freeaddrinfo(found);
	else /* without a descriptor libc cannot read its files, and believes what it likes */
		CHECK(err == EAI_AGAIN || err == EAI_SYSTEM || err == EAI_NONAME ||
		      err == EAI_MEMORY || err == EAI_FAIL);
	nap(r, 5000);
}

static int pipes(int *from, int *to)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return -errno;
	*from = p[0];
	*to = p[1];
	return 0;
}

struct cat_child {
	int to;
	size_t n;
};

static void feed(void *arg)
{
	struct cat_child *c = arg;
	unsigned char buf[1000];
	size_t done = 0;

	while (done < c->n) {
		size_t part = c->n - done < sizeof(buf) ? c->n - done : sizeof(buf);

		for (size_t i = 0; i < part; i++)
			buf[i] = (unsigned char)(5 + (done + i) * 7 + (done + i) / 251);
		CHECK_EQ(gmp_write_all(c->to, buf, part), part);
		done += part;
	}
	CHECK_EQ(gmp_close(c->to), 0);
}

static pid_t start_program(char *const argv[], int in, int out)
{
	extern char **environ;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	int err;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawn_file_actions_init(&actions);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, 0);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, 1);
	err = gmp_blocking(posix_spawnp(&pid, argv[0], &actions, &attr, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return err ? -err : pid;
}

static void children(struct rng *r)
{
	char *cat[] = { "cat", NULL }, *sleeper[] = { "sleep", "100", NULL };
	int in = -1, out = -1, to = -1, from = -1, status = -1, wanted = (int)draw(r, 100);
	unsigned char buf[1000];
	struct cat_child c;
	gmp_g *feeder;
	ssize_t n;
	size_t got = 0;
	pid_t pid;

	switch (draw(r, 3)) {
	case 0: /* a fork in the middle of everything */
		pid = fork();
		CHECK(pid >= 0 || is_short(-errno));
		if (pid == 0)
			_exit(wanted);
		if (pid > 0) {
			CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
		}
		break;
	case 1: /* a child that is killed */
		pid = start_program(sleeper, -1, -1);
		if (pid > 0) {
			nap(r, 2000);
			CHECK_EQ(kill(pid, SIGKILL), 0);
			CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
			CHECK(WIFSIGNALED(status));
		} else {
			CHECK(is_short(pid));
		}
		break;
	default: /* through a child and back */
		if (pipes(&in, &to) == 0 && pipes(&from, &out) == 0) {
			CHECK_EQ(gmp_adopt(to), to);
			CHECK_EQ(gmp_adopt(from), from);
			pid = start_program(cat, in, out);
			CHECK(pid > 0 || is_short(pid));
			close(in);
			close(out);
			in = out = -1;
			if (pid > 0) {
				c = (struct cat_child){ to, draw(r, 200000) };
				feeder = spawn(feed, &c);
				while ((n = gmp_read(from, buf, sizeof(buf))) > 0) {
					check_fill(buf, (size_t)n, 5, got);
					got += (size_t)n;
				}
				CHECK_EQ(n, 0);
				CHECK_EQ(got, c.n);
				join(feeder);
				to = -1;
				CHECK_EQ(gmp_waitpid(pid, &status, 0), pid);
				CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			}
			if (to >= 0)
				CHECK_EQ(gmp_close(to), 0);
			CHECK_EQ(gmp_close(from), 0);
			to = from = -1;
		}
		if (in >= 0)
			close(in);
		if (to >= 0)
			close(to);
		break;
	}
	nap(r, 10000);
}

static void on_signal(int signo)
{
	(void)signo; /* so that one that comes late does not end the process */
}

static void signals(struct rng *r)
{
	int signo = draw(r, 2) ? SIGUSR1 : SIGUSR2, got;
	gmp_chan *c = gmp_chan_new(sizeof(int), 1 + draw(r, 3));

	CHECK(c != NULL);
	got = gmp_signal_notify(c, signo);
	if (got == 0) {
		for (unsigned n = draw(r, 5); n > 0; n--) {
			CHECK_EQ(kill(getpid(), signo), 0);
			CHECK_EQ(gmp_chan_recv_until(c, &got, gmp_deadline(PATIENCE / 2)), 0);
			CHECK_EQ(got, signo);
		}
		CHECK_EQ(gmp_signal_stop(c, signo), 0);
	} else {
		CHECK(is_short(got));
	}
	gmp_chan_free(c);
	nap(r, 2000);
}

/* A signal every 100 us to 10 ms for a while: whatever is interrupted goes on. */
static void interrupts(struct rng *r)
{
	long us = draw(r, 4) ? 10000 : 100;
	struct itimerval v = { { 0, us }, { 0, us } }, none = { { 0, 0 }, { 0, 0 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &v, NULL), 0);
	nap(r, 200000);
	CHECK_EQ(setitimer(ITIMER_REAL, &none, NULL), 0);
	nap(r, 300000);
}

/* ----------------------------------------------- Timers, channels and locks */

static void ring(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void timers(struct rng *r)
{
	enum { MOST = 50 };
	gmp_timer *t[MOST];
	gmp_chan *tick = gmp_tick_new(gmp_deadline(draw(r, 1000) * US), draw(r, 3) * 100 * US);
	int64_t at;
	atomic_int rung = 0;
	int n = (int)draw(r, MOST);

	CHECK(tick != NULL);
	for (int i = 0; i < n; i++) {
		t[i] = gmp_timer_new(ring, &rung);
		CHECK(t[i] != NULL);
		CHECK_EQ(gmp_timer_set(t[i], gmp_deadline(draw(r, 3000) * US),
				       draw(r, 4) ? 0 : 200 * US),
			 0);
	}
	CHECK_EQ(gmp_chan_recv(tick, &at), 0);
	nap(r, 4000);
	for (int i = 0; i < n; i++) {
		if (draw(r, 2))
			gmp_timer_set(t[i], gmp_deadline(SEC), 0);
		if (draw(r, 2))
			gmp_timer_stop(t[i]);
		gmp_timer_free(t[i]);
	}
	gmp_tick_free(tick);
}

struct channels {
	gmp_chan *c[3];
	atomic_long sent, received;
	unsigned salt;
};

static void sender(void *arg)
{
	struct channels *s = arg;
	struct rng r = rng_for(s->salt + atomic_fetch_add(&serial, 1));

	for (unsigned n = draw(&r, 300); n > 0; n--) {
		long v = 1 + draw(&r, 9), u = v;
		gmp_case cases[] = { GMP_SEND_CASE(s->c[0], &v), GMP_SEND_CASE(s->c[1], &u) };
		int k = draw(&r, 8) ? gmp_select(cases, 2)
				    : gmp_select_until(cases, 2, gmp_deadline(draw(&r, 200) * US));

		if (k >= 0)
			atomic_fetch_add(&s->sent, v);
		else
			CHECK_EQ(k, -ETIMEDOUT);
	}
}

static void receiver(void *arg)
{
	struct channels *s = arg;
	bool open[2] = { true, true };

	while (open[0] || open[1]) {
		long v[2] = { 0, 0 };
		gmp_case cases[] = { GMP_RECV_CASE(open[0] ? s->c[0] : NULL, &v[0]),
				     GMP_RECV_CASE(open[1] ? s->c[1] : NULL, &v[1]),
				     GMP_RECV_CASE(s->c[2], NULL) };
		int k = gmp_select(cases, 3);

		CHECK(k == 0 || k == 1);
		if (cases[k].status == 0)
			atomic_fetch_add(&s->received, v[k]);
		else
			open[k] = false;
	}
}

static void channels(struct rng *r)
{
	enum { MOST = 6 };
	struct channels s = { .salt = draw(r, 1 << 30) };
	gmp_g *sending[MOST], *receiving[MOST];
	int ns = 1 + (int)draw(r, MOST), nr = 1 + (int)draw(r, MOST);

	for (int i = 0; i < 3; i++)
		CHECK((s.c[i] = gmp_chan_new(sizeof(long), draw(r, 4) * 8)) != NULL);
	for (int i = 0; i < nr; i++)
		receiving[i] = spawn(receiver, &s);
	for (int i = 0; i < ns; i++)
		sending[i] = spawn(sender, &s);
	for (int i = 0; i < ns; i++)
		join(sending[i]);
	CHECK_EQ(gmp_chan_close(s.c[0]), 0);
	CHECK_EQ(gmp_chan_close(s.c[1]), 0);
	for (int i = 0; i < nr; i++)
		join(receiving[i]);
	CHECK_EQ(atomic_load(&s.sent), atomic_load(&s.received));
	for (int i = 0; i < 3; i++)
		gmp_chan_free(s.c[i]);
}

struct locks {
	gmp_mutex m;
	gmp_rwmutex rw;
	gmp_cond turned;
	gmp_sem slots;
	int turn, n, inside;
	long count;
};

struct locker {
	struct locks *l;
	int me;
};

static void use_locks(void *arg)
{
	struct locker *w = arg;
	struct locks *l = w->l;

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_sem_acquire(&l->slots), 0);
		gmp_mutex_lock(&l->m);
		CHECK(++l->inside <= 2);
		gmp_mutex_unlock(&l->m);
		gmp_yield();
		gmp_mutex_lock(&l->m);
		l->inside--;
		gmp_mutex_unlock(&l->m);
		CHECK_EQ(gmp_sem_release(&l->slots, 1), 0);

		if (gmp_rwmutex_lock_until(&l->rw, gmp_deadline(100 * US)) == 0) {
			l->count++;
			gmp_rwmutex_unlock(&l->rw);
		}
		gmp_rwmutex_rlock(&l->rw);
		CHECK(l->count <= 20L * l->n);
		gmp_rwmutex_runlock(&l->rw);

		gmp_mutex_lock(&l->m);
		while (l->turn != w->me)
			CHECK_EQ(gmp_cond_wait(&l->turned, &l->m), 0);
		l->turn = (l->turn + 1) % l->n;
		gmp_cond_broadcast(&l->turned);
		gmp_mutex_unlock(&l->m);
	}
}

static void locks(struct rng *r)
{
	enum { MOST = 8 };
	struct locks l = { .slots = GMP_SEM_INIT(2), .n = 1 + (int)draw(r, MOST) };
	struct locker lockers[MOST];
	gmp_g *g[MOST];

	for (int i = 0; i < l.n; i++) {
		lockers[i] = (struct locker){ &l, i };
		g[i] = spawn(use_locks, &lockers[i]);
	}
	for (int i = 0; i < l.n; i++)
		join(g[i]);
	nap(r, 2000);
}

/* ------------------------------------------------------ Threads and their Ps */

static void blocking(struct rng *r)
{
	switch (draw(r, 8)) {
	case 0: kernel_sleep(draw(r, 15000)); break; /* without saying so */
	case 1:
		if (gmp_lock_thread() == 0) {
			nap(r, 1000);
			gmp_block_enter();
			kernel_sleep(draw(r, 500));
			gmp_block_leave();
			CHECK_EQ(gmp_unlock_thread(), 0);
		}
		break;
	case 2:
		for (int i = 0; i < 1000; i++) {
			gmp_block_enter();
			gmp_block_leave();
		}
		break;
	default:
		gmp_block_enter();
		kernel_sleep(draw(r, 3000));
		gmp_block_leave();
		nap(r, 1000);
	}
}

static void computing(struct rng *r)
{
	int64_t until = gmp_deadline(draw(r, 20000) * US);

	while (gmp_now() < until)
		gmp_checkpoint();
	nap(r, 100000);
}

static void procs(struct rng *r)
{
	CHECK(gmp_set_procs(1 + (int)draw(r, 5)) > 0);
	nap(r, 20000);
	CHECK(stats().threads <= MOST_THREADS);
}

static void *foreign_main(void *arg)
{
	gmp_chan *c = arg;
	long v;

	for (long i = 1; i <= 20; i++)
		CHECK_EQ(gmp_chan_send(c, &i), 0);
	gmp_sleep(100 * US);
	CHECK_EQ(gmp_chan_recv(c, &v), 0); /* the answer */
	CHECK_EQ(v, 210);
	return NULL;
}

static void foreign_threads(struct rng *r)
{
	gmp_chan *c = gmp_chan_new(sizeof(long), 0);
	pthread_t t;
	long sum = 0, v;

	CHECK(c != NULL);
	if (pthread_create(&t, NULL, foreign_main, c) == 0) {
		for (int i = 0; i < 20; i++) {
			CHECK_EQ(gmp_chan_recv(c, &v), 0);
			sum += v;
		}
		CHECK_EQ(gmp_chan_send(c, &sum), 0);
		CHECK_EQ(gmp_blocking(pthread_join(t, NULL)), 0);
	}
	gmp_chan_free(c);
	nap(r, 10000);
}

/* ------------------------------------------------------------ Green threads */

static void nothing(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void burst(struct rng *r)
{
	enum { MOST = 3000 };
	int n = (int)draw(r, MOST);
	gmp_g **g = malloc(MOST * sizeof(gmp_g *));
	atomic_int ran = 0;

	CHECK(g != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn(nothing, &ran);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&ran), n);
	free(g);
	nap(r, 50000);
}

static __attribute__((noinline)) int deep(int n)
{
	volatile char room[1024];

	for (size_t i = 0; i < sizeof(room); i += 64)
		room[i] = (char)n;
	return n == 0 ? 0 : room[64] - (char)n + deep(n - 1);
}

static void deep_one(void *arg)
{
	CHECK_EQ(deep((int)(intptr_t)arg), 0);
	gmp_sleep(500 * US);
}

static void stacks(struct rng *r)
{
	enum { MOST = 40 };
	int n = (int)draw(r, MOST);
	gmp_g *g[MOST];

	for (int i = 0; i < n; i++)
		g[i] = spawn(deep_one, (void *)(intptr_t)draw(r, 100));
	for (int i = 0; i < n; i++)
		join(g[i]);
	nap(r, 50000);
}

struct victim {
	unsigned kind;
	int fd;
	gmp_chan *c;
};

static void wait_for_the_end(void *arg)
{
	struct victim *v = arg;
	char b;
	long n;

	while (!gmp_cancelled()) {
		switch (v->kind) {
		case 0: CHECK_EQ(gmp_chan_recv(v->c, &n), -ECANCELED); break;
		case 1: CHECK_EQ(gmp_read(v->fd, &b, 1), -ECANCELED); break;
		case 2: (void)gmp_sleep(50 * US); break;
		case 3: CHECK_EQ(gmp_sleep(1000 * SEC), -ECANCELED); break;
		default: gmp_yield();
		}
	}
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_sleep(10 * US), 0);
	gmp_cancel_mask(0);
}

static void cancelling(struct rng *r)
{
	enum { MOST = 10 };
	struct victim v[MOST];
	gmp_chan *c = gmp_chan_new(sizeof(long), 0);
	gmp_g *g[MOST];
	int a, b, n = (int)draw(r, MOST);

	CHECK(c != NULL);
	if (adopted_pair(&a, &b)) {
		for (int i = 0; i < n; i++) {
			v[i] = (struct victim){ draw(r, 5), a, c };
			g[i] = spawn(wait_for_the_end, &v[i]);
		}
		nap(r, 1000);
		for (int i = 0; i < n; i++)
			CHECK_EQ(gmp_cancel(g[i]), 0);
		for (int i = 0; i < n; i++)
			join(g[i]);
		CHECK_EQ(gmp_close(a), 0);
		CHECK_EQ(gmp_close(b), 0);
	}
	gmp_chan_free(c);
	nap(r, 1000);
}

static void dumps(struct rng *r)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		CHECK_EQ(gmp_dump(fd), 0);
		CHECK_EQ(close(fd), 0);
	}
	nap(r, 1000000);
}

/* Takes every descriptor there is, for a moment. */
static void hog(struct rng *r)
{
	int taken[DESCRIPTORS], n = 0;

	while (n < DESCRIPTORS && (taken[n] = fcntl(2, F_DUPFD_CLOEXEC, 3)) >= 0)
		n++;
	nap(r, 30000);
	while (n > 0)
		CHECK_EQ(close(taken[--n]), 0);
	nap(r, 500000);
}

/* ----------------------------------------------------------------------- Main */

static struct actor actors[] = {
	{ "connections", connections, 6, 0 },
	{ "datagrams", datagrams, 1, 0 },
	{ "descriptors", descriptors, 3, 0 },
	{ "files", files, 3, 0 },
	{ "names", names, 2, 0 },
	{ "children", children, 2, 0 },
	{ "signals", signals, 2, 0 },
	{ "interrupts", interrupts, 1, 0 },
	{ "timers", timers, 3, 0 },
	{ "channels", channels, 2, 0 },
	{ "locks", locks, 2, 0 },
	{ "blocking", blocking, 6, 0 },
	{ "computing", computing, 1, 0 },
	{ "procs", procs, 1, 0 },
	{ "foreign", foreign_threads, 2, 0 },
	{ "burst", burst, 1, 0 },
	{ "stacks", stacks, 1, 0 },
	{ "cancelling", cancelling, 2, 0 },
	{ "dumps", dumps, 1, 0 },
	{ "hog", hog, 1, 0 },
};
enum { ACTORS = sizeof(actors) / sizeof(actors[0]) };

static unsigned rounds_done;
static bool restart;

static void app(void *arg)
{
	(void)arg;
	do {
		run_actors(actors, ACTORS, rounds_done++);
		CHECK(gmp_set_procs(2) > 0);
		check_nothing_is_left();
	} while (!restart && gmp_now() < soak_end);
}

int main(int argc, char **argv)
{
	const struct rlimit few = { DESCRIPTORS, DESCRIPTORS };
	const struct sigaction sa = { .sa_handler = on_signal };
	gmp_config c = GMP_CONFIG_INIT;

	if (argc < 4) {
		fputs("usage: mix SECONDS SEED ROUND_SECONDS [restart]\n", stderr);
		return 2;
	}
	restart = argc > 4;
	soak_begin(restart ? "mix (restart)" : "mix", argv[1], argv[2], argv[3], true);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR2, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	CHECK(mkdtemp(folder) != NULL);
	c.procs = 2;
	c.max_threads = MOST_THREADS;
	c.seed = soak_seed;
	do {
		CHECK_EQ(gmp_run(app, NULL, &c), 0);
	} while (gmp_now() < soak_end);
	CHECK_EQ(rmdir(folder), 0);
	print_actors(actors, ACTORS);
	printf("%s: %u rounds\n", soak_name, rounds_done);
	return 0;
}
