/* SPDX-License-Identifier: MIT */
/*
 * Tests late releases and closes: a thread of a connection that has lost its descriptor number ends no wait of the
 * connection that has the number now, and a connection that was handed to it is its own.
 */
#include "reopen_util.h"

#include <poll.h>

typedef int (*action)(int fd);

struct job {
	action fn;
	int fd;
};

/* A green thread that does what it is asked, one call after the other. */
struct actor {
	gmp_chan *jobs, *results;
	gmp_g *g;
};

static void act(void *arg)
{
	struct actor *a = arg;
	struct job j;

	while (gmp_chan_recv(a->jobs, &j) == 0) {
		int result = j.fn(j.fd);

		CHECK_EQ(gmp_chan_send(a->results, &result), 0);
	}
}

static void actor_begin(struct actor *a)
{
	a->jobs = gmp_chan_new(sizeof(struct job), 1);
	a->results = gmp_chan_new(sizeof(int), 1);
	CHECK(a->jobs && a->results);
	a->g = spawn(act, a);
}

static void actor_end(struct actor *a)
{
	CHECK_EQ(gmp_chan_close(a->jobs), 0);
	join(a->g);
	gmp_chan_free(a->jobs);
	gmp_chan_free(a->results);
}

static void tell(struct actor *a, action fn, int fd)
{
	struct job j = { fn, fd };

	CHECK_EQ(gmp_chan_send(a->jobs, &j), 0);
}

static int answer(struct actor *a)
{
	int result;

	CHECK_EQ(gmp_chan_recv(a->results, &result), 0);
	return result;
}

static int ask(struct actor *a, action fn, int fd)
{
	tell(a, fn, fd);
	return answer(a);
}

static int wait_long(int fd)
{
	return gmp_fd_wait(fd, GMP_READ, gmp_deadline(PATIENCE));
}

/* Parks if there is nothing. */
static int wait_short(int fd)
{
	return gmp_fd_wait(fd, GMP_READ, gmp_deadline(MS / 5));
}

static int read_byte(int fd)
{
	char byte;

	return (int)gmp_read(fd, &byte, 1);
}

/* One of them by a case's number. */
static action late(int i)
{
	return i & 1 ? gmp_close : gmp_fd_release;
}

/* The fd of a child's pipe, as gmp_process_spawn hands it out. */
static int close_process(int fd)
{
	gmp_process p = { .pidfd = -1, .in = fd, .out = -1, .err = -1 };

	gmp_process_close(&p);
	return p.in;
}

/* The library closes the number and opens it for another connection. */
static void reopen(int fd, int *peer)
{
	plain_close(fd);
	plain_close(*peer);
	open_at(fd, peer);
}

/* b waits on fd, and nothing has ended that. */
static void check_waits(struct actor *b, int fd, int peer)
{
	plain_write(peer);
	CHECK_EQ(answer(b), GMP_READ);
	CHECK_EQ(read(fd, &(char){ 0 }, 1), 1);
}

/* b parks; n actors there are, and the others wait for a job. */
static void wait_until_parked(struct actor *b, int fd, int n)
{
	tell(b, wait_long, fd);
	wait_parked((uint64_t)n);
}

static void end(int fd, int peer)
{
	plain_close(fd);
	plain_close(peer);
}

/* --- releases that are refused --- */

/* The adopter of both connections is a third green thread; the worker of the first had waited before. */
RT(late_release_by_worker_that_never_adopted_keeps_the_next_connections_wait)
{
	for (int i = 0; i < 2; i++) {
		struct actor first, second;
		int peer, fd = adopt_pair(&peer);

		actor_begin(&first);
		actor_begin(&second);
		CHECK_EQ(ask(&first, wait_short, fd), -ETIMEDOUT);
		reopen(fd, &peer);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		wait_until_parked(&second, fd, 2);
		CHECK_EQ(ask(&first, late(i), fd), -EBADF);
		CHECK_EQ(ask(&first, late(i), fd), -EBADF);
		check_waits(&second, fd, peer);
		CHECK_EQ(ask(&second, gmp_fd_release, fd), 0);
		actor_end(&first);
		actor_end(&second);
		end(fd, peer);
	}
}

RT(process_close_of_lost_fd_keeps_the_next_connections_wait)
{
	struct actor first, second;
	int peer, fd = adopt_pair(&peer);

	actor_begin(&first);
	actor_begin(&second);
	CHECK_EQ(ask(&first, wait_short, fd), -ETIMEDOUT);
	reopen(fd, &peer);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	wait_until_parked(&second, fd, 2);
	CHECK_EQ(ask(&first, close_process, fd), -1);
	check_waits(&second, fd, peer);
	CHECK_EQ(ask(&second, gmp_fd_release, fd), 0);
	actor_end(&first);
	actor_end(&second);
	end(fd, peer);
}

/* Its wait ends with -ECANCELED as the number is adopted anew, and then it cleans up. */
RT(late_release_after_ecanceled_keeps_the_next_connections_wait)
{
	for (int i = 0; i < 4; i++) {
		struct actor first, second;
		int peer, fd = adopt_pair(&peer);

		actor_begin(&first);
		actor_begin(&second);
		if (i & 2)
			tell(&first, read_byte, fd);
		else
			tell(&first, wait_long, fd);
		wait_parked(2); /* second waits for a job */
		reopen(fd, &peer);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		CHECK_EQ(answer(&first), -ECANCELED);
		wait_until_parked(&second, fd, 2);
		CHECK_EQ(ask(&first, late(i), fd), -EBADF);
		check_waits(&second, fd, peer);
		CHECK_EQ(gmp_fd_release(fd), 0);
		actor_end(&first);
		actor_end(&second);
		end(fd, peer);
	}
}

/* Three of one side: sysmon ends their waits while the number is closed, and it is adopted after that. */
RT(late_release_after_sysmons_ecanceled_keeps_the_next_connections_wait)
{
	struct actor first[3], second;
	int peer, fd = adopt_pair(&peer);

	if (procs > 1) /* it takes a second */
		return;
	actor_begin(&second);
	for (int i = 0; i < 3; i++) {
		actor_begin(&first[i]);
		tell(&first[i], wait_long, fd);
	}
	wait_parked(4);
	plain_close(fd);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(answer(&first[i]), -ECANCELED);
	plain_close(peer);
	open_at(fd, &peer);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	wait_until_parked(&second, fd, 4);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ask(&first[i], late(i), fd), -EBADF);
		actor_end(&first[i]);
	}
	check_waits(&second, fd, peer);
	CHECK_EQ(gmp_fd_release(fd), 0);
	actor_end(&second);
	end(fd, peer);
}

RT(late_releases_of_two_lost_connections_are_both_refused)
{
	struct actor a, b;
	int peer, fd;

	actor_begin(&a);
	actor_begin(&b);
	fd = adopt_pair(&peer);
	for (int i = 0; i < 2; i++) {
		reopen(fd, &peer);
		CHECK_EQ(ask(&a, gmp_fd_adopt, fd), fd);
		reopen(fd, &peer);
		CHECK_EQ(ask(&b, gmp_fd_adopt, fd), fd);
	}
	wait_until_parked(&b, fd, 2);
	CHECK_EQ(ask(&a, gmp_fd_release, fd), -EBADF);
	CHECK_EQ(ask(&a, gmp_fd_adopt, fd), -EEXIST);
	CHECK_EQ(ask(&a, gmp_fd_release, fd), -EBADF);
	CHECK_EQ(gmp_fd_release(fd), -EBADF); /* this thread was the first */
	check_waits(&b, fd, peer);
	CHECK_EQ(ask(&b, gmp_fd_release, fd), 0);
	actor_end(&a);
	actor_end(&b);
	end(fd, peer);
}

/* b has adopted the number before, and its library opens it again: gmp_fd_wait treats it as adopted by b. */
RT(late_release_keeps_the_wait_of_a_file_that_fd_wait_has_found)
{
	for (int i = 0; i < 2; i++) {
		struct actor a, b;
		int peer, fd = adopt_pair(&peer);

		actor_begin(&a);
		actor_begin(&b);
		CHECK_EQ(gmp_fd_release(fd), 0);
		CHECK_EQ(ask(&b, gmp_fd_adopt, fd), fd);
		reopen(fd, &peer);
		CHECK_EQ(ask(&a, gmp_fd_adopt, fd), fd);
		reopen(fd, &peer);
		wait_until_parked(&b, fd, 2);
		CHECK_EQ(ask(&a, late(i), fd), -EBADF);
		check_waits(&b, fd, peer);
		CHECK_EQ(ask(&b, gmp_fd_release, fd), 0);
		actor_end(&a);
		actor_end(&b);
		end(fd, peer);
	}
}

/* Another thread closes a's descriptor, which a did not know, waiting or not. */
RT(late_release_after_another_threads_close_keeps_the_next_connections_wait)
{
	for (int i = 0; i < 4; i++) {
		struct actor a, b;
		int peer, fd;

		actor_begin(&a);
		actor_begin(&b);
		fd = adopt_pair(&peer);
		CHECK_EQ(gmp_fd_release(fd), 0);
		CHECK_EQ(ask(&a, gmp_fd_adopt, fd), fd);
		if (i & 2) {
			tell(&a, wait_long, fd);
			wait_parked(2);
		}
		CHECK_EQ(gmp_close(fd), 0);
		if (i & 2)
			CHECK_EQ(answer(&a), -ECANCELED);
		plain_close(peer);
		open_at(fd, &peer);
		CHECK_EQ(ask(&b, gmp_fd_adopt, fd), fd);
		wait_until_parked(&b, fd, 2);
		CHECK_EQ(ask(&a, late(i), fd), -EBADF);
		check_waits(&b, fd, peer);
		CHECK_EQ(ask(&b, gmp_close, fd), 0);
		actor_end(&a);
		actor_end(&b);
		plain_close(peer);
	}
}

struct external {
	int fd, result;
	atomic_int adopted, go;
};

static void adopt_and_release_late(void *arg)
{
	struct external *e = arg;

	CHECK_EQ(gmp_fd_adopt(e->fd), e->fd);
	atomic_store(&e->adopted, 1);
	while (!atomic_load(&e->go))
		usleep(100);
	e->result = gmp_fd_release(e->fd);
}

RT(late_release_by_external_thread_keeps_the_next_connections_wait)
{
	struct external e = { 0 };
	struct ext_thread t;
	struct actor b;
	int s[2], peer;

	plain_pair(s);
	e.fd = s[0];
	peer = s[1];
	ext_thread_start(&t, adopt_and_release_late, &e);
	WAIT_FOR(atomic_load(&e.adopted));
	reopen(e.fd, &peer);
	actor_begin(&b);
	CHECK_EQ(ask(&b, gmp_fd_adopt, e.fd), e.fd);
	wait_until_parked(&b, e.fd, 1);
	atomic_store(&e.go, 1);
	ext_thread_join(&t);
	CHECK_EQ(e.result, -EBADF);
	check_waits(&b, e.fd, peer);
	CHECK_EQ(ask(&b, gmp_fd_release, e.fd), 0);
	actor_end(&b);
	end(e.fd, peer);
}

/* --- files that gmp does not know --- */

/* The connection is the same, and gmp_fd_wait has found it ready at once, so that it did not compare files. */
RT(close_after_a_wait_for_a_reopened_file_that_was_ready_works)
{
	int peer, fd = adopt_pair(&peer);

	reopen(fd, &peer);
	CHECK_EQ(gmp_fd_wait(fd, GMP_WRITE, GMP_FOREVER), GMP_WRITE);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	plain_close(peer);
}

static int poll_it(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int ready = gmp_poll(&p, 1, gmp_deadline(PATIENCE));

	return ready == 1 ? p.revents : ready;
}

RT(late_close_keeps_the_poll_of_a_file_that_gmp_does_not_know)
{
	for (int i = 0; i < 2; i++) {
		struct actor b;
		int peer, fd = adopt_pair(&peer);

		reopen(fd, &peer);
		actor_begin(&b);
		tell(&b, poll_it, fd);
		wait_parked(1);
		CHECK_EQ(late(i)(fd), i ? -EBADF : 0);
		CHECK_EQ(gmp_sleep(MS), 0);
		plain_write(peer);
		CHECK_EQ(answer(&b), POLLIN);
		actor_end(&b);
		end(fd, peer);
	}
}

/* A dup keeps the registration of the former file; the release of the number does not know it. */
RT(adoption_of_file_that_dup2_brings_back_after_a_release_works)
{
	int peer, fd = adopt_pair(&peer), kept = dup(fd),
		  null = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK(kept >= 0 && null >= 0);
	plain_dup2(null, fd);
	CHECK_EQ(gmp_fd_release(fd), 0);
	plain_dup2(kept, fd);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	check_wait_ends(fd, peer);
	CHECK_EQ(gmp_close(fd), 0);
	end(kept, peer);
	plain_close(null);
}

/* --- releases that are meant --- */

RT(close_of_descriptor_that_gmp_opened_under_a_lost_number_works)
{
	int peer, fd = adopt_pair(&peer);
	char addr[128];

	plain_close(fd);
	int l = listen_any("unix", addr);

	CHECK_EQ(l, fd);
	CHECK_EQ(gmp_close(l), 0);
	CHECK_EQ(gmp_close(l), -EBADF);
	plain_close(peer);
}

/* a has lost the number; another green thread gets it, and hands it to a. */
RT(close_of_connection_that_was_handed_on_works_for_a_thread_that_lost_the_number)
{
	struct actor a;
	char addr[128];
	int peer, fd = adopt_pair(&peer);

	actor_begin(&a);
	CHECK_EQ(gmp_fd_release(fd), 0);
	CHECK_EQ(ask(&a, gmp_fd_adopt, fd), fd);
	reopen(fd, &peer);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	plain_write(peer);
	CHECK_EQ(ask(&a, read_byte, fd), 1); /* without a wait */
	CHECK_EQ(ask(&a, gmp_close, fd), 0);
	plain_close(peer);

	fd = adopt_pair(&peer);
	CHECK_EQ(gmp_fd_release(fd), 0);
	CHECK_EQ(ask(&a, gmp_fd_adopt, fd), fd);
	plain_close(fd);
	int l = listen_any("unix", addr);

	CHECK_EQ(l, fd);
	CHECK_EQ(ask(&a, gmp_close, fd), 0); /* without a call before */
	plain_close(peer);
	actor_end(&a);
	CHECK_EQ(stats().descriptors, 0);
}

/* The adopter hands its connection to a worker whose library reopens the number, and releases it in the end. */
RT(release_by_adopter_after_its_worker_has_ended_works)
{
	struct actor w;
	int peer, fd = adopt_pair(&peer);

	actor_begin(&w);
	reopen(fd, &peer);
	CHECK_EQ(ask(&w, wait_short, fd), -ETIMEDOUT);
	actor_end(&w);
	CHECK_EQ(gmp_fd_release(fd), 0);
	CHECK_EQ(stats().descriptors, 0);
	end(fd, peer);
}

/* --- at random --- */

enum { WORKERS = 6, ROUNDS = 120 };

struct worker {
	unsigned seed;
	struct actor *adopter;
	gmp_mutex *one; /* asks the adopter at a time */
};

static int adopt_by(struct worker *w, int fd)
{
	CHECK_EQ(gmp_mutex_lock(w->one), 0);
	int result = rand_r(&w->seed) & 1 ? ask(w->adopter, gmp_fd_adopt, fd) : gmp_fd_adopt(fd);

	gmp_mutex_unlock(w->one);
	return result;
}

static void write_soon(void *arg)
{
	gmp_yield();
	plain_write(*(int *)arg);
}

static void work(void *arg)
{
	struct worker *w = arg;
	int rounds = check_scaled(ROUNDS), late_fd = -1;

	for (int i = 0; i < rounds; i++) {
		int s[2];

		plain_pair(s);
		CHECK_EQ(adopt_by(w, s[0]), s[0]);
		CHECK_EQ(wait_short(s[0]), -ETIMEDOUT);
		if (late_fd != s[0] && late_fd >= 0 && rand_r(&w->seed) & 1)
			(void)gmp_fd_release(late_fd); /* of the round before */
		gmp_g *g = spawn(write_soon, &s[1]);

		CHECK_EQ(wait_long(s[0]), GMP_READ);
		join(g);
		late_fd = s[0];
		if (rand_r(&w->seed) & 1) {
			CHECK_EQ(gmp_fd_release(s[0]), 0);
			late_fd = -1;
		}
		end(s[0], s[1]);
	}
}

RT(workers_whose_connections_another_thread_adopts_never_end_each_others_waits)
{
	gmp_mutex one = { 0 };
	struct actor adopter;
	struct worker w[WORKERS];
	gmp_g *g[WORKERS];

	actor_begin(&adopter);
	for (int i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ (unsigned)i + 1, &adopter, &one };
		g[i] = spawn(work, &w[i]);
	}
	for (int i = 0; i < WORKERS; i++)
		join(g[i]);
	actor_end(&adopter);
}
