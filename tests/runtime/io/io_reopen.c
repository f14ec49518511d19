/* SPDX-License-Identifier: MIT */
/*
 * Tests fds that a library closes and reopens: gmp_fd_wait finds the new file, waiters of the
 * former file get -ECANCELED, and no connection ends the waits of another. Its cases compare times:
 * each needs a CPU.
 */
#include "reopen_util.h"

/* --- close and reopen --- */

/* A TCP port of 127.0.0.1; with a backlog it listens. */
static int bound(struct sockaddr_in *a, int backlog)
{
	socklen_t n = sizeof(*a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET };
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(l >= 0);
	CHECK_EQ(bind(l, (struct sockaddr *)a, sizeof(*a)), 0);
	CHECK_EQ(getsockname(l, (struct sockaddr *)a, &n), 0);
	if (backlog)
		CHECK_EQ(listen(l, backlog), 0);
	return l;
}

/* Like a library: a non-blocking socket with a connect in progress. */
static int begin_connect(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) != 0)
		CHECK(errno == EINPROGRESS || errno == ECONNREFUSED);
	return fd;
}

static int error_of(int fd)
{
	socklen_t n = sizeof(int);
	int err = -1;

	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n), 0);
	return err;
}

struct server {
	int l, answers;
};

/* Answers each byte after 2 ms, so that the client waits for it. */
static void serve_slowly(void *arg)
{
	struct server *s = arg;
	int c = gmp_accept(s->l);
	char byte;

	CHECK(c >= 0);
	for (int i = 0; i < s->answers; i++) {
		CHECK_EQ(gmp_read(c, &byte, 1), 1);
		CHECK_EQ(gmp_sleep(2 * MS), 0);
		CHECK_EQ(gmp_write(c, &byte, 1), 1);
	}
	CHECK_EQ(gmp_close(c), 0);
}

/* The pattern of libpq with two hosts, of which the first refuses. */
RT(fd_wait_after_reopen_for_second_host_wakes_on_data)
{
	struct server s = { .answers = 3 };
	struct sockaddr_in refusing, listening;
	int none = bound(&refusing, 0);
	gmp_g *g;

	s.l = bound(&listening, 8);
	CHECK_EQ(gmp_fd_adopt(s.l), s.l);
	g = spawn(serve_slowly, &s);
	wait_parked(1);
	int fd = begin_connect(&refusing);

	CHECK_EQ(gmp_fd_adopt(fd), fd);
	CHECK_EQ(gmp_fd_wait(fd, GMP_WRITE, gmp_deadline(PATIENCE)), GMP_WRITE);
	(void)error_of(fd);
	plain_close(fd);
	CHECK_EQ(begin_connect(&listening), fd); /* the lowest free fd */
	CHECK_EQ(gmp_fd_wait(fd, GMP_WRITE, gmp_deadline(PATIENCE)), GMP_WRITE);
	CHECK_EQ(error_of(fd), 0);
	for (int i = 0; i < s.answers; i++) {
		char byte;

		plain_write(fd);
		CHECK_EQ(gmp_fd_wait(fd, GMP_READ, gmp_deadline(PATIENCE)), GMP_READ);
		CHECK_EQ(read(fd, &byte, 1), 1);
	}
	join(g);
	CHECK_EQ(gmp_fd_release(fd), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(none), 0);
	CHECK_EQ(gmp_close(s.l), 0);
	CHECK_EQ(stats().descriptors, 0);
}

RT(fd_wait_after_each_of_many_reopens_wakes)
{
	struct wait w;
	int peer, fd = adopt_pair(&peer);

	for (int i = 0; i < 20; i++) {
		plain_close(fd);
		CHECK_EQ(close(peer), 0);
		open_at(fd, &peer);
		gmp_g *g = start(wait_it, &w, fd, i & 1 ? GMP_READ | GMP_WRITE : GMP_READ);

		if (i & 1) {
			join(g);
			CHECK_EQ(w.result, GMP_WRITE);
			continue;
		}
		wait_parked(1);
		plain_write(peer);
		join(g);
		CHECK_EQ(w.result, GMP_READ);
	}
	CHECK_EQ(stats().descriptors, 1);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

/* Two green threads wait for both directions as soon as the connection is reopened. */
RT(fd_wait_of_both_directions_after_reopen_wakes_both)
{
	static char room[4096];
	struct wait r, w;
	int peer, fd = adopt_pair(&peer);

	for (int i = 0; i < 20; i++) {
		plain_close(fd);
		CHECK_EQ(close(peer), 0);
		open_at(fd, &peer);
		while (write(fd, room, sizeof(room)) > 0)
			;
		gmp_g *gr = start(wait_it, &r, fd, GMP_READ);
		gmp_g *gw = start(wait_it, &w, fd, GMP_WRITE);

		if (i & 1)
			wait_parked(2);
		plain_write(peer);
		join(gr);
		CHECK_EQ(r.result, GMP_READ);
		while (recv(peer, room, sizeof(room), MSG_DONTWAIT) > 0)
			;
		join(gw);
		CHECK_EQ(w.result, GMP_WRITE);
	}
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

/* A dup, here or in the child of a fork, keeps the former registration alive. */
RT(fd_wait_with_dup_of_old_file_wakes_for_new_file_only)
{
	struct wait w;
	int before, peer, fd = adopt_pair(&before), kept = dup(fd);

	CHECK(kept >= 0);
	plain_close(fd);
	open_at(fd, &peer);
	gmp_g *g = start(wait_it, &w, fd, GMP_READ);

	wait_parked(1);
	plain_write(before); /* an event of the former file */
	gmp_sleep(2 * MS);
	CHECK_EQ(atomic_load(&w.done), 0);
	plain_write(peer);
	join(g);
	CHECK_EQ(w.result, GMP_READ);

	/* back to the former file, which has stayed registered */
	plain_dup2(kept, fd);
	CHECK_EQ(recv(fd, &(char){ 0 }, 1, 0), 1);
	for (int i = 0; i < 3; i++) {
		g = start(wait_it, &w, fd, GMP_READ);
		wait_parked(1);
		plain_write(before);
		join(g);
		CHECK_EQ(w.result, GMP_READ);
		CHECK_EQ(recv(fd, &(char){ 0 }, 1, 0), 1);
	}
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(kept), 0);
	CHECK_EQ(close(before), 0);
	CHECK_EQ(close(peer), 0);
}

RT(fd_wait_of_closed_fd_returns_ebadf_until_reopened)
{
	int peer, fd = adopt_pair(&peer);

	plain_close(fd);
	CHECK_EQ(gmp_fd_wait(fd, GMP_READ, GMP_FOREVER), -EBADF);
	CHECK_EQ(close(peer), 0);
	open_at(fd, &peer);
	check_wait_ends(fd, peer);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

/* A regular file is always ready; the socket after it is waited for. */
RT(fd_wait_of_fd_reopened_as_file_then_socket_works)
{
	int peer, fd = adopt_pair(&peer), null = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK(null >= 0);
	plain_dup2(null, fd);
	CHECK_EQ(close(peer), 0);
	CHECK_EQ(gmp_fd_wait(fd, GMP_READ, GMP_FOREVER), GMP_READ);
	CHECK_EQ(close(null), 0);
	plain_close(fd);
	open_at(fd, &peer);
	check_wait_ends(fd, peer);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

RT(fd_wait_after_reopen_keeps_fd_deadline)
{
	int peer, fd = adopt_pair(&peer);

	CHECK_EQ(gmp_fd_set_deadline(fd, GMP_READ, gmp_deadline(20 * MS)), 0);
	plain_close(fd);
	CHECK_EQ(close(peer), 0);
	open_at(fd, &peer);
	CHECK_EQ(gmp_fd_wait(fd, GMP_READ, gmp_deadline(PATIENCE)), -ETIMEDOUT);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
	CHECK_EQ(stats().timers, 0);
}

/* --- O_NONBLOCK --- */

static bool blocks(int fd)
{
	return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void reopen_pipe(int p[2])
{
	int number = p[0];

	plain_close(p[0]);
	CHECK_EQ(close(p[1]), 0);
	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	CHECK_EQ(p[0], number);
}

RT(release_after_reopen_leaves_o_nonblock_as_it_was)
{
	int p[2];

	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	reopen_pipe(p);
	CHECK_EQ(gmp_fd_wait(p[0], GMP_READ, gmp_deadline(SLOW ? 100 * MS : 20 * MS)), -ETIMEDOUT);
	CHECK(!blocks(p[0])); /* gmp_fd_wait sets it, as adoption does, unless it comes too late */
	CHECK_EQ(gmp_fd_release(p[0]), 0);
	CHECK(blocks(p[0]));

	/* the flag of a file that gmp does not know is not changed */
	CHECK_EQ(gmp_fd_adopt(p[0]), p[0]);
	reopen_pipe(p);
	CHECK_EQ(fcntl(p[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_EQ(gmp_fd_release(p[0]), 0);
	CHECK(!blocks(p[0]));
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

/* --- the waiters of a closed fd --- */

#define SECOND (1000 * MS)
#define GRACE (SANITIZED ? 3000 * MS : 400 * MS) /* for a busy machine */

RT(waiters_of_reopened_fd_get_ecanceled_at_next_fd_wait)
{
	struct wait old[3], w;
	gmp_g *g[3];
	int peer, fd = adopt_pair(&peer);

	for (int i = 0; i < 3; i++)
		g[i] = start(i ? wait_it : read_it, &old[i], fd, GMP_READ);
	wait_parked(3);
	plain_close(fd);
	CHECK_EQ(close(peer), 0);
	open_at(fd, &peer);
	int64_t began = gmp_now();
	gmp_g *now = start(wait_it, &w, fd, GMP_READ);

	for (int i = 0; i < 3; i++) {
		join(g[i]);
		CHECK_EQ(old[i].result, -ECANCELED);
	}
	CHECK(gmp_now() - began < SECOND / 2 + GRACE);
	plain_write(peer);
	join(now);
	CHECK_EQ(w.result, GMP_READ);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

static void close_later(void *arg)
{
	usleep(150000); /* the wait is old by then, and all Ps are idle */
	plain_close((int)(intptr_t)arg);
}

/* Four waiters. A green or an external thread closes the fd, which is not reused. */
RT(waiters_of_closed_fd_get_ecanceled_within_a_second)
{
	for (int external = 0; external < 2; external++) {
		struct wait w[4];
		struct ext_thread t, closer;
		gmp_g *g[3];
		int peer, fd = adopt_pair(&peer);

		g[0] = start(wait_it, &w[0], fd, GMP_READ);
		g[1] = start(read_it, &w[1], fd, 0);
		g[2] = start(wait_it, &w[2], fd, GMP_READ);
		w[3] = (struct wait){ .fd = fd };
		ext_thread_start(&t, read_it, &w[3]);
		WAIT_FOR(atomic_load(&w[3].begun));
		wait_parked(3);
		CHECK_EQ(gmp_sleep(20 * MS), 0);
		int64_t began = gmp_now();

		if (external)
			ext_thread_start(&closer, close_later, (void *)(intptr_t)fd);
		else
			plain_close(fd);
		for (int i = 0; i < 3; i++) {
			join(g[i]);
			CHECK_EQ(w[i].result, -ECANCELED);
			CHECK(w[i].ended - began <= SECOND + external * 150 * MS + GRACE);
		}
		ext_thread_join(&t);
		CHECK(w[3].result == -ECANCELED || w[3].result == -EBADF);
		if (external)
			ext_thread_join(&closer);
		CHECK_EQ(gmp_close(fd), -EBADF);
		CHECK_EQ(close(peer), 0);
	}
}

/* Long after the last green thread ran: sysmon sleeps, and an external thread closes the fd. */
RT(waiters_of_fd_closed_in_idle_process_get_ecanceled)
{
	struct ext_thread closer;
	struct wait w;
	int peer, fd = adopt_pair(&peer);

	if (procs > 1) /* it takes seconds */
		return;
	gmp_g *g = start(wait_it, &w, fd, GMP_READ);

	wait_parked(1);
	CHECK_EQ(gmp_sleep(1900 * MS), 0);
	int64_t began = gmp_now();

	ext_thread_start(&closer, close_later, (void *)(intptr_t)fd);
	join(g);
	CHECK_EQ(w.result, -ECANCELED);
	CHECK(w.ended - began <= SECOND + 150 * MS + GRACE);
	ext_thread_join(&closer);
	CHECK_EQ(close(peer), 0);
}

/* A library opens the fd without gmp's knowledge; its file is left unchanged. */
RT(waiters_of_fd_reused_by_library_get_ecanceled)
{
	struct wait w[2];
	gmp_g *g[2];
	char buf[4];
	int peer, fd = adopt_pair(&peer), p[2];

	for (int i = 0; i < 2; i++)
		g[i] = start(i ? wait_it : read_it, &w[i], fd, GMP_READ);
	wait_parked(2);
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	int64_t began = gmp_now();

	plain_close(fd);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(p[0], fd);
	plain_write(p[1]);
	for (int i = 0; i < 2; i++) {
		join(g[i]);
		CHECK_EQ(w[i].result, -ECANCELED);
		CHECK(w[i].ended - began <= SECOND + GRACE);
	}
	CHECK(blocks(fd));
	CHECK_EQ(read(fd, buf, 4), 1);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(p[1]), 0);
	CHECK_EQ(close(peer), 0);
}

RT(old_waits_on_open_fd_are_not_cancelled)
{
	struct wait w[2];
	gmp_g *g[2];
	int peer, fd = adopt_pair(&peer);

	if (procs > 1) /* it takes seconds */
		return;
	for (int i = 0; i < 2; i++)
		g[i] = start(i ? wait_it : read_it, &w[i], fd, GMP_READ);
	wait_parked(2);
	CHECK_EQ(gmp_sleep(1600 * MS), 0);
	CHECK_EQ(atomic_load(&w[0].done) + atomic_load(&w[1].done), 0);
	plain_write(peer);
	join(g[0]);
	CHECK_EQ(w[0].result, 1);
	plain_write(peer);
	join(g[1]);
	CHECK_EQ(w[1].result, GMP_READ);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

/* --- one connection does not end the waits of another --- */

struct other {
	int fd, peer;
	struct wait w;
	atomic_int parked;
};

/* Another connection, which reuses the fd of a closed one. */
static void adopt_reused_fd_and_wait(void *arg)
{
	struct other *o = arg;

	open_at(o->fd, &o->peer);
	CHECK_EQ(gmp_fd_adopt(o->fd), o->fd);
	o->w = (struct wait){ .fd = o->fd, .events = GMP_READ };
	o->w.deadline = gmp_deadline(PATIENCE);
	atomic_store(&o->parked, 1);
	wait_it(&o->w);
}

RT(release_of_lost_fd_keeps_wait_on_reused_fd)
{
	for (int by_close = 0; by_close < 2; by_close++) {
		struct other o = { 0 };
		int peer, fd = adopt_pair(&peer);

		plain_close(fd);
		o.fd = fd;
		gmp_g *g = spawn(adopt_reused_fd_and_wait, &o);

		WAIT_FOR(atomic_load(&o.parked));
		wait_parked(1);
		CHECK_EQ(by_close ? gmp_close(fd) : gmp_fd_release(fd), -EBADF);
		CHECK_EQ(gmp_fd_adopt(fd), -EEXIST);
		CHECK_EQ(atomic_load(&o.w.done), 0);
		plain_write(o.peer);
		join(g);
		CHECK_EQ(o.w.result, GMP_READ);
		/* the late release was refused once; the next release is valid */
		CHECK_EQ(gmp_fd_release(fd), 0);
		CHECK_EQ(close(fd), 0);
		CHECK_EQ(close(peer), 0);
		CHECK_EQ(close(o.peer), 0);
	}
}

RT(release_of_fd_adopted_again_by_same_thread_works)
{
	int peer, fd = adopt_pair(&peer);

	for (int i = 0; i < 5; i++) {
		plain_close(fd);
		CHECK_EQ(close(peer), 0);
		open_at(fd, &peer);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
	}
	CHECK_EQ(gmp_fd_release(fd), 0);
	CHECK_EQ(gmp_fd_release(fd), -EBADF);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(peer), 0);
}

enum { CONNECTIONS = 8, ROUNDS = 150 };

static void write_to(void *arg)
{
	gmp_yield();
	plain_write(*(int *)arg);
}

/* System calls open and close the sockets, so fds pass from one connection to another. */
static void use_connections(void *arg)
{
	int rounds = check_scaled(ROUNDS);
	unsigned seed = (unsigned)(intptr_t)arg;

	for (int i = 0; i < rounds; i++) {
		int peer, fd = adopt_pair(&peer);
		gmp_g *g;

		if (rand_r(&seed) & 1) { /* the library goes to the next host */
			plain_close(fd);
			if (rand_r(&seed) & 1)
				gmp_yield();
			plain_close(peer);
			int late = fd;

			fd = adopt_pair(&peer);
			if (late != fd && rand_r(&seed) & 1)
				(void)gmp_fd_release(late); /* another connection may have it now */
		}
		g = spawn(write_to, &peer);
		CHECK_EQ(gmp_fd_wait(fd, GMP_READ, gmp_deadline(PATIENCE)), GMP_READ);
		join(g);
		CHECK_EQ(gmp_fd_wait(fd, GMP_READ, gmp_deadline(PATIENCE)), GMP_READ);
		if (rand_r(&seed) & 1)
			CHECK_EQ(gmp_fd_release(fd), 0);
		plain_close(fd);
		plain_close(peer);
	}
}

RT(connections_that_swap_fds_never_end_each_others_waits)
{
	gmp_g *g[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++)
		g[i] = spawn(use_connections, (void *)(intptr_t)(i + 1));
	for (int i = 0; i < CONNECTIONS; i++)
		join(g[i]);
}
