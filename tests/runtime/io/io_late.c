/* SPDX-License-Identifier: MIT */
/*
 * Tests late releases and closes of an fd that close(2) has freed and another connection reuses.
 *
 * A thread that has lost its fd ends no wait of the connection that has the fd now. If that
 * connection was handed to the thread, its release and its close work.
 */
#include "reopen_util.h"

#include <poll.h>

typedef int (*action)(int fd);

struct job {
	action fn;
	int fd;
};

/* A green thread that makes the requested calls, one after the other. */
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

/* Parks if there is no data, unless the caller is slow. */
static int wait_short(int fd)
{
	return gmp_fd_wait(fd, GMP_READ, gmp_deadline(MS / 5));
}

/* Parks: the deadline must not expire before. */
static int wait_in_vain(int fd)
{
	return gmp_fd_wait(fd, GMP_READ, gmp_deadline(SLOW ? 100 * MS : 20 * MS));
}

static int read_byte(int fd)
{
	char byte;

	return (int)gmp_read(fd, &byte, 1);
}

/* The late call, by the index of the variant. */
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

/* The library closes the fd and opens it again for another connection. */
static void reopen(int fd, int *peer)
{
	plain_close(fd);
	plain_close(*peer);
	open_at(fd, peer);
}

/* Checks that b still waits on fd. */
static void check_waits(struct actor *b, int fd, int peer)
{
	plain_write(peer);
	CHECK_EQ(answer(b), GMP_READ);
	CHECK_EQ(read(fd, &(char){ 0 }, 1), 1);
}

/* Makes b wait on fd, until all n actors are parked; the others wait for a job. */
static void wait_until_parked(struct actor *b, int fd, int n)
{
	tell(b, wait_long, fd);
	wait_parked((uint64_t)n);
}

static void close_both(int fd, int peer)
{
	plain_close(fd);
	plain_close(peer);
}

/* --- releases that are refused --- */

/* A third green thread adopts both connections. The worker of the first has waited before. */
RT(late_release_by_non_adopter_keeps_wait_on_reused_fd)
{
	for (int i = 0; i < 2; i++) {
		struct actor first, second;
		int peer, fd = adopt_pair(&peer);

		actor_begin(&first);
		actor_begin(&second);
		CHECK_EQ(ask(&first, wait_in_vain, fd), -ETIMEDOUT);
		reopen(fd, &peer);
		CHECK_EQ(gmp_fd_adopt(fd), fd);
		wait_until_parked(&second, fd, 2);
		CHECK_EQ(ask(&first, late(i), fd), -EBADF);
		CHECK_EQ(ask(&first, late(i), fd), -EBADF);
		check_waits(&second, fd, peer);
		CHECK_EQ(ask(&second, gmp_fd_release, fd), 0);
		actor_end(&first);
		actor_end(&second);
		close_both(fd, peer);
	}
}

RT(process_close_of_lost_fd_keeps_wait_on_reused_fd)
{
	struct actor first, second;
	int peer, fd = adopt_pair(&peer);

	actor_begin(&first);
	actor_begin(&second);
	CHECK_EQ(ask(&first, wait_in_vain, fd), -ETIMEDOUT);
	reopen(fd, &peer);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	wait_until_parked(&second, fd, 2);
	CHECK_EQ(ask(&first, close_process, fd), -1);
	check_waits(&second, fd, peer);
	CHECK_EQ(ask(&second, gmp_fd_release, fd), 0);
	actor_end(&first);
	actor_end(&second);
	close_both(fd, peer);
}

/* The new adoption ends the wait of `first` with -ECANCELED, and then `first` cleans up. */
RT(late_release_after_ecanceled_keeps_wait_on_reused_fd)
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
		close_both(fd, peer);
	}
}

/* sysmon ends three waits while the fd is closed. The fd is adopted again after that. */
RT(late_release_after_sysmon_cancel_keeps_wait_on_reused_fd)
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
	close_both(fd, peer);
}

RT(late_release_of_two_lost_connections_returns_ebadf)
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
	CHECK_EQ(gmp_fd_release(fd), -EBADF); /* this thread adopted it first */
	check_waits(&b, fd, peer);
	CHECK_EQ(ask(&b, gmp_fd_release, fd), 0);
	actor_end(&a);
	actor_end(&b);
	close_both(fd, peer);
}

/* b adopted the fd before, and its library reopens it: gmp_fd_wait takes b for the adopter. */
RT(late_release_keeps_fd_wait_on_reopened_file)
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
		close_both(fd, peer);
	}
}

/* Another thread closes the fd of a without a's knowledge, while a waits or not. */
RT(late_release_after_other_close_keeps_wait_on_reused_fd)
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

RT(late_release_by_external_thread_keeps_wait_on_reused_fd)
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
	close_both(e.fd, peer);
}

/* --- files that gmp does not know --- */

/* gmp_fd_wait finds the reopened fd ready at once, so it does not compare files. */
RT(close_after_fd_wait_on_ready_reopened_fd_works)
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

RT(late_close_keeps_poll_of_unknown_file)
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
		close_both(fd, peer);
	}
}

/* A dup keeps the former file registered with the poller; the release does not find it. */
RT(adopt_of_file_restored_by_dup2_after_release_works)
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
	close_both(kept, peer);
	plain_close(null);
}

/* --- releases that are valid --- */

RT(close_of_lost_fd_that_gmp_opened_again_works)
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

/* a has lost the fd. Another green thread adopts the reused fd and hands it to a. */
RT(close_of_handed_over_fd_by_thread_that_lost_it_works)
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

/* The adopter hands its fd to a worker, whose library reopens it. Later the adopter releases it. */
RT(release_by_adopter_after_worker_exit_works)
{
	struct actor w;
	int peer, fd = adopt_pair(&peer);

	actor_begin(&w);
	reopen(fd, &peer);
	CHECK_EQ(ask(&w, wait_in_vain, fd), -ETIMEDOUT);
	actor_end(&w);
	CHECK_EQ(gmp_fd_release(fd), 0);
	CHECK_EQ(stats().descriptors, 0);
	close_both(fd, peer);
}

/* --- at random --- */

enum { WORKERS = 6, ROUNDS = 120 };

struct worker {
	unsigned seed;
	struct actor *adopter;
	gmp_mutex *adopter_lock; /* one request to the adopter at a time */
};

static int adopt_by(struct worker *w, int fd)
{
	CHECK_EQ(gmp_mutex_lock(w->adopter_lock), 0);
	int result = rand_r(&w->seed) & 1 ? ask(w->adopter, gmp_fd_adopt, fd) : gmp_fd_adopt(fd);

	gmp_mutex_unlock(w->adopter_lock);
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
		close_both(s[0], s[1]);
	}
}

RT(workers_with_other_adopter_never_end_each_others_waits)
{
	gmp_mutex adopter_lock = { 0 };
	struct actor adopter;
	struct worker w[WORKERS];
	gmp_g *g[WORKERS];

	actor_begin(&adopter);
	for (int i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ (unsigned)i + 1, &adopter, &adopter_lock };
		g[i] = spawn(work, &w[i]);
	}
	for (int i = 0; i < WORKERS; i++)
		join(g[i]);
	actor_end(&adopter);
}
