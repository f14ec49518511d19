/* SPDX-License-Identifier: MIT */
/*
 * Every kind of wait as a table: a G waits, and another G releases it. The tests of preemption run
 * either side on a G whose P was taken.
 */
#ifndef TESTS_RUNTIME_PREEMPT_PEERS_H
#define TESTS_RUNTIME_PREEMPT_PEERS_H

#include "preempt_util.h"

#include <poll.h>

struct peer {
	gmp_mutex mutex;
	gmp_rwmutex rw;
	gmp_cond cond;
	gmp_sem sem;
	gmp_wg wg, gate;
	gmp_barrier barrier;
	gmp_once once;
	gmp_chan *c, *other;
	gmp_done *done;
	gmp_group *group;
	gmp_g *g; /* the waiter */
	gmp_g *child;
	int fd[2];
	int set; /* under mutex */
	atomic_int at_wait, over;
};

/*
 * begin   prepares p before the wait
 * wait    waits until released, and checks the result
 * release lets the waiter continue; NULL: the wait ends by itself
 * end     frees what begin made; may wait
 * helpers number of further Gs that wait until the release
 */
struct kind {
	const char *name;
	void (*begin)(struct peer *p);
	void (*wait)(struct peer *p);
	void (*release)(struct peer *p);
	void (*end)(struct peer *p);
	int helpers;
};

/* --- channels --- */

static void peer_chans(struct peer *p)
{
	CHECK((p->c = gmp_chan_new(sizeof(int), 0)) != NULL);
	CHECK((p->other = gmp_chan_new(sizeof(int), 0)) != NULL);
}

static void peer_chans_free(struct peer *p)
{
	gmp_chan_free(p->c);
	gmp_chan_free(p->other);
}

static void peer_recv(struct peer *p)
{
	int v = 0;

	CHECK_EQ(gmp_chan_recv(p->c, &v), 0);
	CHECK_EQ(v, 17);
}

static void peer_recv_until(struct peer *p)
{
	int v = 0;

	CHECK_EQ(gmp_chan_recv_until(p->c, &v, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(v, 17);
}

static void peer_recv_closed(struct peer *p)
{
	CHECK_EQ(gmp_chan_recv(p->c, NULL), -EPIPE);
}

static void peer_recv_timeout(struct peer *p)
{
	CHECK_EQ(gmp_chan_recv_until(p->c, NULL, gmp_deadline(3 * MS)), -ETIMEDOUT);
}

static void peer_select(struct peer *p)
{
	int v = 0, w = 1;
	gmp_case cs[] = { GMP_RECV_CASE(p->c, &v), GMP_SEND_CASE(p->other, &w) };

	CHECK_EQ(gmp_select(cs, 2), 0);
	CHECK_EQ(cs[0].status, 0);
	CHECK_EQ(v, 17);
}

static void peer_select_timeout(struct peer *p)
{
	int v = 0, w = 1;
	gmp_case cs[] = { GMP_RECV_CASE(p->c, &v), GMP_SEND_CASE(p->other, &w) };

	CHECK_EQ(gmp_select_until(cs, 2, gmp_deadline(3 * MS)), -ETIMEDOUT);
}

static void peer_let_recv(struct peer *p)
{
	int v = 17;

	CHECK_EQ(gmp_chan_send(p->c, &v), 0);
}

static void peer_close(struct peer *p)
{
	CHECK_EQ(gmp_chan_close(p->c), 0);
}

static void peer_send(struct peer *p)
{
	int v = 18;

	CHECK_EQ(gmp_chan_send(p->c, &v), 0);
}

static void peer_send_until(struct peer *p)
{
	int v = 18;

	CHECK_EQ(gmp_chan_send_until(p->c, &v, gmp_deadline(PATIENCE)), 0);
}

static void peer_let_send(struct peer *p)
{
	int v = 0;

	CHECK_EQ(gmp_chan_recv(p->c, &v), 0);
	CHECK_EQ(v, 18);
}

/* --- locks --- */

static void peer_lock_first(struct peer *p)
{
	CHECK_EQ(gmp_mutex_lock(&p->mutex), 0);
	CHECK_EQ(gmp_rwmutex_lock(&p->rw), 0);
}

static void peer_lock(struct peer *p)
{
	CHECK_EQ(gmp_mutex_lock(&p->mutex), 0);
	CHECK_EQ(gmp_mutex_unlock(&p->mutex), 0);
}

static void peer_lock_until(struct peer *p)
{
	CHECK_EQ(gmp_mutex_lock_until(&p->mutex, gmp_deadline(PATIENCE)), 0);
	CHECK_EQ(gmp_mutex_unlock(&p->mutex), 0);
}

static void peer_lock_timeout(struct peer *p)
{
	CHECK_EQ(gmp_mutex_lock_until(&p->mutex, gmp_deadline(3 * MS)), -ETIMEDOUT);
}

static void peer_rlock(struct peer *p)
{
	CHECK_EQ(gmp_rwmutex_rlock(&p->rw), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&p->rw), 0);
}

static void peer_wlock(struct peer *p)
{
	CHECK_EQ(gmp_rwmutex_lock(&p->rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&p->rw), 0);
}

static void peer_unlock(struct peer *p)
{
	CHECK_EQ(gmp_mutex_unlock(&p->mutex), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&p->rw), 0);
}

/* --- counters and events --- */

static void peer_nothing(UNUSED struct peer *p)
{
}

static void peer_cond_wait(struct peer *p)
{
	CHECK_EQ(gmp_mutex_lock(&p->mutex), 0);
	while (!p->set)
		CHECK_EQ(gmp_cond_wait(&p->cond, &p->mutex), 0);
	CHECK_EQ(gmp_mutex_unlock(&p->mutex), 0);
}

static void peer_signal(struct peer *p)
{
	CHECK_EQ(gmp_mutex_lock(&p->mutex), 0);
	p->set = 1;
	CHECK_EQ(gmp_mutex_unlock(&p->mutex), 0);
	CHECK_EQ(gmp_cond_signal(&p->cond), 0);
}

static void peer_acquire(struct peer *p)
{
	CHECK_EQ(gmp_sem_acquire(&p->sem), 0);
}

static void peer_release(struct peer *p)
{
	CHECK_EQ(gmp_sem_release(&p->sem, 1), 0);
}

static void peer_wg_begin(struct peer *p)
{
	CHECK_EQ(gmp_wg_add(&p->wg, 1), 0);
}

static void peer_wg_wait(struct peer *p)
{
	CHECK_EQ(gmp_wg_wait(&p->wg), 0);
}

static void peer_wg_done(struct peer *p)
{
	CHECK_EQ(gmp_wg_done(&p->wg), 0);
}

static void peer_barrier_begin(struct peer *p)
{
	p->barrier = (gmp_barrier)GMP_BARRIER_INIT(2);
}

static void peer_barrier_wait(struct peer *p)
{
	int last = gmp_barrier_wait(&p->barrier);

	CHECK(last == 0 || last == 1);
}

static void peer_done_begin(struct peer *p)
{
	CHECK((p->done = gmp_done_new()) != NULL);
}

static void peer_done_wait(struct peer *p)
{
	CHECK_EQ(gmp_done_wait(p->done), 0);
}

static void peer_done_set(struct peer *p)
{
	CHECK_EQ(gmp_done_set(p->done), 0);
}

static void peer_done_free(struct peer *p)
{
	gmp_done_free(p->done);
}

static void peer_sleep(UNUSED struct peer *p)
{
	int64_t due = gmp_deadline(5 * MS);

	CHECK_EQ(gmp_sleep_until(due), 0);
	CHECK(gmp_now() >= due);
}

/* --- other Gs: a helper waits at the gate --- */

static void peer_at_gate(void *arg)
{
	struct peer *p = arg;

	atomic_fetch_add(&p->at_wait, 1);
	CHECK_EQ(gmp_wg_wait(&p->gate), 0);
	atomic_store(&p->over, 1);
}

static void peer_open_gate(struct peer *p)
{
	CHECK_EQ(gmp_wg_done(&p->gate), 0);
}

static void peer_child_begin(struct peer *p)
{
	CHECK_EQ(gmp_wg_add(&p->gate, 1), 0);
	p->child = spawn(peer_at_gate, p);
}

static void peer_join(struct peer *p)
{
	join(p->child);
	CHECK(atomic_load(&p->over));
}

static int peer_group_child(void *arg)
{
	peer_at_gate(arg);
	return 0;
}

static void peer_group_begin(struct peer *p)
{
	CHECK_EQ(gmp_wg_add(&p->gate, 1), 0);
	CHECK((p->group = gmp_group_new(0, GMP_FOREVER)) != NULL);
	CHECK_EQ(gmp_group_go(p->group, peer_group_child, p), 0);
}

static void peer_group_wait(struct peer *p)
{
	CHECK_EQ(gmp_group_wait(p->group), 0);
	CHECK(atomic_load(&p->over));
}

static void peer_group_free(struct peer *p)
{
	gmp_group_free(p->group);
}

static void peer_first_once(void *arg)
{
	struct peer *p = arg;

	CHECK_EQ(gmp_once_do(&p->once, peer_at_gate, p), 0);
}

static void peer_once_begin(struct peer *p)
{
	CHECK_EQ(gmp_wg_add(&p->gate, 1), 0);
	p->child = spawn(peer_first_once, p);
	WAIT_FOR(atomic_load(&p->at_wait) == 1);
}

static void peer_once(struct peer *p)
{
	CHECK_EQ(gmp_once_do(&p->once, peer_at_gate, p), 0);
	CHECK(atomic_load(&p->over));
	CHECK_EQ(atomic_load(&p->at_wait), 1);
}

static void peer_join_child(struct peer *p)
{
	join(p->child);
}

/* --- file descriptors --- */

static void peer_pipe(struct peer *p)
{
	CHECK_EQ(pipe(p->fd), 0);
	CHECK_EQ(gmp_fd_adopt(p->fd[0]), p->fd[0]);
}

static void peer_pipe_close(struct peer *p)
{
	CHECK_EQ(gmp_close(p->fd[0]), 0);
	close(p->fd[1]);
}

static void peer_read(struct peer *p)
{
	char c = 0;

	CHECK_EQ(gmp_read(p->fd[0], &c, 1), 1);
	CHECK_EQ(c, 'y');
}

static void peer_fd_wait(struct peer *p)
{
	CHECK_EQ(gmp_fd_wait(p->fd[0], GMP_READ, GMP_FOREVER), GMP_READ);
}

static void peer_fd_wait_timeout(struct peer *p)
{
	CHECK_EQ(gmp_fd_wait(p->fd[0], GMP_READ, gmp_deadline(3 * MS)), -ETIMEDOUT);
}

static void peer_poll(struct peer *p)
{
	struct pollfd fd = { p->fd[0], POLLIN, 0 };

	CHECK_EQ(gmp_poll(&fd, 1, gmp_deadline(PATIENCE)), 1);
	CHECK_EQ(fd.revents & POLLIN, POLLIN);
}

static void peer_write(struct peer *p)
{
	CHECK_EQ(write(p->fd[1], "y", 1), 1);
}

/* --- cancellation of the waiter --- */

static void peer_cancel(struct peer *p)
{
	CHECK_EQ(gmp_cancel(p->g), 0);
}

static void peer_recv_cancelled(struct peer *p)
{
	CHECK_EQ(gmp_chan_recv(p->c, NULL), -ECANCELED);
	CHECK_EQ(gmp_cancelled(), 1);
	CHECK_EQ(gmp_sleep(PATIENCE), -ECANCELED);
}

static void peer_fd_wait_cancelled(struct peer *p)
{
	CHECK_EQ(gmp_fd_wait(p->fd[0], GMP_READ, GMP_FOREVER), -ECANCELED);
}

static const struct kind kinds[] = {
	{ "recv", peer_chans, peer_recv, peer_let_recv, peer_chans_free, 0 },
	{ "recv_until", peer_chans, peer_recv_until, peer_let_recv, peer_chans_free, 0 },
	{ "recv_closed", peer_chans, peer_recv_closed, peer_close, peer_chans_free, 0 },
	{ "recv_timeout", peer_chans, peer_recv_timeout, NULL, peer_chans_free, 0 },
	{ "recv_cancelled", peer_chans, peer_recv_cancelled, peer_cancel, peer_chans_free, 0 },
	{ "send", peer_chans, peer_send, peer_let_send, peer_chans_free, 0 },
	{ "send_until", peer_chans, peer_send_until, peer_let_send, peer_chans_free, 0 },
	{ "select", peer_chans, peer_select, peer_let_recv, peer_chans_free, 0 },
	{ "select_timeout", peer_chans, peer_select_timeout, NULL, peer_chans_free, 0 },
	{ "lock", peer_lock_first, peer_lock, peer_unlock, peer_nothing, 0 },
	{ "lock_until", peer_lock_first, peer_lock_until, peer_unlock, peer_nothing, 0 },
	{ "lock_timeout", peer_lock_first, peer_lock_timeout, NULL, peer_unlock, 0 },
	{ "rlock", peer_lock_first, peer_rlock, peer_unlock, peer_nothing, 0 },
	{ "wlock", peer_lock_first, peer_wlock, peer_unlock, peer_nothing, 0 },
	{ "cond_wait", peer_nothing, peer_cond_wait, peer_signal, peer_nothing, 0 },
	{ "sem_acquire", peer_nothing, peer_acquire, peer_release, peer_nothing, 0 },
	{ "wg_wait", peer_wg_begin, peer_wg_wait, peer_wg_done, peer_nothing, 0 },
	{ "barrier", peer_barrier_begin, peer_barrier_wait, peer_barrier_wait, peer_nothing, 0 },
	{ "done_wait", peer_done_begin, peer_done_wait, peer_done_set, peer_done_free, 0 },
	{ "sleep", peer_nothing, peer_sleep, NULL, peer_nothing, 0 },
	{ "join", peer_child_begin, peer_join, peer_open_gate, peer_nothing, 1 },
	{ "group_wait", peer_group_begin, peer_group_wait, peer_open_gate, peer_group_free, 1 },
	{ "once", peer_once_begin, peer_once, peer_open_gate, peer_join_child, 1 },
	{ "read", peer_pipe, peer_read, peer_write, peer_pipe_close, 0 },
	{ "fd_wait", peer_pipe, peer_fd_wait, peer_write, peer_pipe_close, 0 },
	{ "fd_wait_timeout", peer_pipe, peer_fd_wait_timeout, NULL, peer_pipe_close, 0 },
	{ "fd_wait_cancelled", peer_pipe, peer_fd_wait_cancelled, peer_cancel, peer_pipe_close, 0 },
	{ "poll", peer_pipe, peer_poll, peer_write, peer_pipe_close, 0 },
};

static inline const struct kind *kind_named(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	CHECK(!"a kind of this name");
	return NULL;
}

/* KIND_CASES(prefix, fn): a case prefix_NAME at 1, 2 and 4 Ps for each kind; fn(procs, kind). */
#define KIND_CASE(prefix, name, fn)                                                                \
	RT(prefix##_##name)                                                                        \
	{                                                                                          \
		fn(procs, kind_named(#name));                                                      \
	}

#endif
