/* SPDX-License-Identifier: MIT */
/*
 * Tests that a loop of calls that never wait is preempted like any other: for each kind of call, a
 * G on each P repeats it and does nothing else, and a G that sleeps for 1 ms at a time is not
 * starved.
 *
 * Sysmon finds such a G inside the runtime at nearly every attempt. Once preempted, the G keeps its
 * OS thread and needs no P for most calls. It yields when the sleeper has run some times, and has a
 * P again. Its cases compare times: each needs a CPU.
 */
#define _GNU_SOURCE 1
#include "starve_util.h"

enum {
	LONGEST_MS = 300,
	MEDIAN_MS = 100,
	WINDOW_MS = 500,
	SLEEPS = 10 /* between two yields: the P has been taken */
};

/* A G that repeats a step, with objects of its own. */
struct caller {
	gmp_mutex mutex;
	gmp_rwmutex rw;
	gmp_cond cond;
	gmp_sem sem;
	gmp_wg wg;
	gmp_once once;
	gmp_chan *a, *b;
	gmp_timer *timer;
	gmp_done *done;
	gmp_key key;
	int fd[2];
	uint64_t value;
	uint64_t steps;
};

static struct caller callers[PROCS_MOST];
static void (*step)(struct caller *c);

static void never_expires(UNUSED void *arg)
{
	CHECK(!"a timer expired");
}

static void nothing(UNUSED void *arg)
{
}

static void repeat_until_stopped(void *arg)
{
	struct caller *c = &callers[(intptr_t)arg];

	CHECK((c->a = gmp_chan_new(sizeof(uint64_t), 8)) != NULL);
	CHECK((c->b = gmp_chan_new(sizeof(uint64_t), 8)) != NULL);
	CHECK((c->timer = gmp_timer_new(never_expires, NULL)) != NULL);
	CHECK((c->done = gmp_done_new()) != NULL);
	CHECK_EQ(gmp_key_create(&c->key, NULL), 0);
	socket_pair(c->fd, 1);
	CHECK_EQ(gmp_chan_send(c->a, &c->value), 0);
	atomic_fetch_add(&busy.began, 1);
	while (!atomic_load(&busy.stop)) {
		int seen = atomic_load(&busy.sleeps);

		for (; !atomic_load(&busy.stop) && atomic_load(&busy.sleeps) - seen < SLEEPS;
		     c->steps++)
			step(c);
		gmp_yield();
	}
	CHECK_EQ(gmp_close(c->fd[0]), 0);
	CHECK_EQ(gmp_close(c->fd[1]), 0);
	CHECK_EQ(gmp_key_delete(c->key), 0);
	gmp_done_free(c->done);
	gmp_timer_free(c->timer);
	gmp_chan_free(c->a);
	gmp_chan_free(c->b);
}

static void check_loop(int procs, void (*fn)(struct caller *c))
{
	uint64_t sum = 0;

	step = fn;
	busy_start(repeat_until_stopped, procs);
	sleep_beside_busy(WINDOW_MS * MS, bound_ms(LONGEST_MS), bound_ms(MEDIAN_MS));
	busy_stop();
	for (int i = 0; i < procs; i++)
		sum += callers[i].steps;
	fprintf(stderr, "%llu steps, %llu preemptions\n", (unsigned long long)sum,
		(unsigned long long)stats().preemptions);
	CHECK(sum > 100);
}

/* LOOP(name) { ... }: the case name_loop_is_preempted, whose body is a step of the caller c. */
#define LOOP(name)                                                                                 \
	static void name##_step(struct caller *c);                                                 \
	RT(name##_loop_is_preempted)                                                               \
	{                                                                                          \
		check_loop(procs, name##_step);                                                    \
	}                                                                                          \
	static void name##_step(UNUSED struct caller *c)

/* --- channels --- */

/* One of the two channels has an element: a select that has a ready case. */
LOOP(select_ready_case)
{
	gmp_case cs[] = { GMP_RECV_CASE(c->a, &c->value), GMP_RECV_CASE(c->b, &c->value) };
	int i = gmp_select(cs, 2);

	CHECK(i == 0 || i == 1);
	CHECK_EQ(gmp_chan_send(i ? c->a : c->b, &c->value), 0);
}

LOOP(select_send_and_recv)
{
	gmp_case send[] = { GMP_SEND_CASE(c->a, &c->value), GMP_SEND_CASE(c->b, &c->value) };
	gmp_case recv[] = { GMP_RECV_CASE(c->a, &c->value), GMP_RECV_CASE(c->b, &c->value) };

	CHECK(gmp_select(send, 2) >= 0);
	CHECK(gmp_select(recv, 2) >= 0);
}

LOOP(select_try)
{
	gmp_case cs[] = { GMP_RECV_CASE(c->b, &c->value), GMP_RECV_CASE(c->b, &c->value) };

	CHECK_EQ(gmp_select_try(cs, 2), -EAGAIN);
}

LOOP(try_send_and_try_recv)
{
	CHECK_EQ(gmp_chan_try_send(c->b, &c->value), 0);
	CHECK_EQ(gmp_chan_try_recv(c->b, &c->value), 0);
}

LOOP(failed_try_recv)
{
	CHECK_EQ(gmp_chan_try_recv(c->b, &c->value), -EAGAIN);
}

LOOP(buffered_send_and_recv)
{
	CHECK_EQ(gmp_chan_send(c->b, &c->value), 0);
	CHECK_EQ(gmp_chan_recv(c->b, &c->value), 0);
}

/* --- locks and counters --- */

LOOP(mutex)
{
	CHECK_EQ(gmp_mutex_lock(&c->mutex), 0);
	CHECK_EQ(gmp_mutex_unlock(&c->mutex), 0);
}

LOOP(rwmutex)
{
	CHECK_EQ(gmp_rwmutex_rlock(&c->rw), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&c->rw), 0);
	CHECK_EQ(gmp_rwmutex_lock(&c->rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&c->rw), 0);
}

LOOP(sem)
{
	CHECK_EQ(gmp_sem_release(&c->sem, 1), 0);
	CHECK_EQ(gmp_sem_acquire(&c->sem), 0);
}

LOOP(wg)
{
	CHECK_EQ(gmp_wg_add(&c->wg, 1), 0);
	CHECK_EQ(gmp_wg_done(&c->wg), 0);
	CHECK_EQ(gmp_wg_wait(&c->wg), 0);
}

LOOP(cond_and_once)
{
	CHECK_EQ(gmp_cond_signal(&c->cond), 0);
	CHECK_EQ(gmp_once_do(&c->once, nothing, NULL), 0);
	CHECK_EQ(gmp_done_get(c->done), 0);
}

/* --- the rest --- */

LOOP(key)
{
	CHECK_EQ(gmp_key_set(c->key, c), 0);
	CHECK(gmp_key_get(c->key) == c);
}

LOOP(stats)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
}

LOOP(timer)
{
	CHECK_EQ(gmp_timer_set(c->timer, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(gmp_timer_stop(c->timer), 1);
}

/* A read of data that has arrived. */
LOOP(fd_ready)
{
	CHECK_EQ(gmp_write(c->fd[0], &c->value, 1), 1);
	CHECK_EQ(gmp_read(c->fd[1], &c->value, 1), 1);
}

enum { BACKLOG = 100 };

static atomic_long spawned, ran;

static void count_run(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
}

/* If the new Gs do not run, it only computes until they do. */
LOOP(spawn)
{
	if (atomic_load(&spawned) - atomic_load(&ran) >= BACKLOG)
		return;
	atomic_fetch_add(&spawned, 1);
	CHECK_EQ(gmp_go(count_run, NULL), 0);
}
