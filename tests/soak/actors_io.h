/* SPDX-License-Identifier: MIT */
/* Actors for connections, datagrams, other file descriptors and files (actors.h). */
#ifndef TESTS_SOAK_ACTORS_IO_H
#define TESTS_SOAK_ACTORS_IO_H

/* --------------------------------------------------------------- Connections */

/* A listener with its accepting, serving and dialling green threads; all end with the step. */
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
			gmp_fd_set_deadline(g->fd, GMP_READ, gmp_deadline(draw(&r, 20) * MS));
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

/*
 * After the listener is closed, its fd may be reused: by another listener, for which this green
 * thread then accepts, or by an fd that cannot accept.
 */
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

/* Reads an answer, at once or byte by byte.  Returns false if the connection has ended. */
static bool read_answer(int fd, struct rng *r, const struct request *q, unsigned char *buf)
{
	size_t got = 0;
	bool by_bytes = draw(r, 10) == 0 && q->n < 500;

	while (got < q->n) {
		ssize_t n =
			by_bytes ? gmp_read(fd, buf + got, 1) : gmp_read(fd, buf + got, q->n - got);

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
			break; /* leaves the answer unread */
		if (!read_answer(fd, r, &q, buf))
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
		close_meeting(&m); /* while clients still dial */
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
		nap(r, 2000); /* otherwise, with one P, the hog never runs again */
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
		CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(PATIENCE / 2)), 0);
		got = gmp_recvfrom(a, back, sizeof(back), 0, NULL, NULL);
		CHECK_EQ(got, size);
		check_fill(back, size, n, 0);
	}
	CHECK_EQ(gmp_close(a), 0);
	if (b >= 0)
		CHECK_EQ(gmp_close(b), 0);
	if (draw(r, 10)) /* otherwise this actor never waits */
		nap(r, 2000);
}

/* Makes and adopts a socket pair.  Returns false if no file descriptors are free. */
static bool adopted_pair(int *a, int *b)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) != 0) {
		CHECK(is_short(-errno));
		return false;
	}
	*a = p[0];
	*b = p[1];
	CHECK_EQ(gmp_fd_adopt(*a), *a);
	CHECK_EQ(gmp_fd_adopt(*b), *b);
	return true;
}

/* Sends a file descriptor over a pair and uses the received one. */
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
		/* no fd was free: the kernel discarded the sent one */
	} else {
		memcpy(&got, CMSG_DATA(&control.h), sizeof(got));
		if (draw(r, 2)) {
			CHECK_EQ(gmp_fd_adopt(got), got);
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

/*
 * After the fd is closed, its number may be reused by another actor.  A reader that has not started
 * by then must not take data from it, so it only waits (takes == false).
 */
static void read_one(void *arg)
{
	struct reader *w = arg;
	char b;

	w->result =
		w->takes ? gmp_read(w->fd, &b, 1) : gmp_fd_wait(w->fd, GMP_READ, gmp_deadline(SEC));
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
	case 1: /* a deadline expires while readers wait */
	case 2: /* the fd is closed or released while green threads wait for it */
		for (int i = 0; i < n; i++) {
			readers[i] = (struct reader){ a, kind == 1, 0 };
			reading[i] = spawn(read_one, &readers[i]);
		}
		nap(r, 500);
		if (kind == 1) {
			CHECK_EQ(gmp_fd_set_deadline(a, GMP_READ, gmp_deadline(draw(r, 1000) * US)),
				 0);
		} else {
			if (draw(r, 2)) {
				CHECK_EQ(gmp_fd_release(a), 0);
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
	case 3: /* the peer is closed, unless a child that was just forked still holds it */
		CHECK_EQ(gmp_close(b), 0);
		b = -1;
		result = gmp_write(a, "x", 1);
		CHECK(result == -EPIPE || result == 1);
		break;
	default:
		CHECK_EQ(gmp_fd_wait(a, GMP_READ, gmp_deadline(draw(r, 500) * US)), -ETIMEDOUT);
		CHECK_EQ(gmp_fd_wait(a, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
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

		while (at < (off_t)n) { /* in parts that fit into the socket buffer */
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

#endif
