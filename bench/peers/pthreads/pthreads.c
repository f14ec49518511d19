/* SPDX-License-Identifier: MIT */
/*
 * Measures the rows of the benchmarks that OS threads can do.
 *
 * With PROCS 1 the process is bound to one CPU, with 2 to two.  A channel is a ring under a mutex
 * with two conditions.  "ping/chan" hands over by a mutex and a condition for each direction,
 * "ping/wg" by a futex, "ping/pipe" by pipes, "ping/unix" by a unix socket.  Rows with 100,000
 * threads are missing, because the machine does not allow so many OS threads.  Rows in which an
 * operation takes microseconds do fewer operations.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "peer.h"

#define STACK (64 << 10)

static void bind_to(int procs)
{
	cpu_set_t all, mine;

	check(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
	CPU_ZERO(&mine);
	for (int cpu = 0; cpu < CPU_SETSIZE && procs > 0; cpu++) {
		if (CPU_ISSET(cpu, &all)) {
			CPU_SET(cpu, &mine);
			procs--;
		}
	}
	check(sched_setaffinity(0, sizeof(mine), &mine) == 0, "sched_setaffinity");
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	check(pthread_create(&t, &attr, fn, arg) == 0, "pthread_create");
	pthread_attr_destroy(&attr);
	return t;
}

/* --- yield --- */

static int64_t stop, go, arrived;

static void *yielder(void *arg)
{
	int64_t *out = arg, n = 0;

	__atomic_add_fetch(&arrived, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&go, __ATOMIC_RELAXED))
		sched_yield();
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		sched_yield();
		n++;
	}
	*out = n;
	return NULL;
}

static void yield(struct row *row)
{
	int64_t others = row->n - 1, rounds = row->count / row->n, total = rounds, t0, ns;
	int64_t *counts = calloc((size_t)others, sizeof(*counts));
	pthread_t *t = calloc((size_t)others, sizeof(*t));

	bind_to(row->procs);
	for (int64_t i = 0; i < others; i++)
		t[i] = start(yielder, &counts[i]);
	while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < others)
		sched_yield();
	t0 = now();
	__atomic_store_n(&go, 1, __ATOMIC_RELAXED);
	for (int64_t i = 0; i < rounds; i++)
		sched_yield();
	ns = now() - t0;
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int64_t i = 0; i < others; i++) {
		pthread_join(t[i], NULL);
		total += counts[i];
	}
	check(total > rounds, "no other thread yielded");
	took(row, ns, total);
}

/* --- spawn --- */

static int64_t ran;

static void *work(void *arg)
{
	__atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
	return arg;
}

static void spawn(struct row *row)
{
	pthread_t *t = calloc((size_t)row->n, sizeof(*t));
	int64_t rounds, t0;

	at_most(row, row->n > 20000 ? row->n : 20000);
	rounds = row->count / row->n;
	bind_to(row->procs);
	t0 = now();
	for (int64_t i = 0; i < rounds; i++) {
		for (int64_t k = 0; k < row->n; k++)
			t[k] = start(work, NULL);
		for (int64_t k = 0; k < row->n; k++)
			pthread_join(t[k], NULL);
	}
	took(row, now() - t0, rounds * row->n);
	check(ran == rounds * row->n, "%lld ran", (long long)ran);
}

/* --- channels: a ring behind a mutex --- */

struct chan {
	pthread_mutex_t m;
	pthread_cond_t room, element;
	int closed, waiting; /* receivers that wait, for a channel without room */
	int64_t taken, put;  /* elements so far */
	int64_t capacity;
	int64_t ring[];
};

static struct chan *chan_new(int64_t capacity)
{
	int64_t room = capacity ? capacity : 1;
	struct chan *c = calloc(1, sizeof(*c) + (size_t)room * sizeof(int64_t));

	check(c, "no memory");
	pthread_mutex_init(&c->m, NULL);
	pthread_cond_init(&c->room, NULL);
	pthread_cond_init(&c->element, NULL);
	c->capacity = capacity;
	return c;
}

/* Unbuffered: put the element into the slot once it is free, and wait until it is taken. */
static void chan_send(struct chan *c, int64_t v)
{
	int64_t room = c->capacity ? c->capacity : 1, mine;

	pthread_mutex_lock(&c->m);
	while (c->put - c->taken == room)
		pthread_cond_wait(&c->room, &c->m);
	c->ring[c->put % room] = v;
	mine = ++c->put;
	pthread_cond_signal(&c->element);
	if (!c->capacity) {
		while (c->taken < mine)
			pthread_cond_wait(&c->room, &c->m);
	}
	pthread_mutex_unlock(&c->m);
}

/* Returns 0, or -1 if the channel is closed and empty. */
static int chan_recv(struct chan *c, int64_t *v)
{
	int64_t room = c->capacity ? c->capacity : 1;

	pthread_mutex_lock(&c->m);
	while (c->put == c->taken && !c->closed)
		pthread_cond_wait(&c->element, &c->m);
	if (c->put == c->taken) {
		pthread_mutex_unlock(&c->m);
		return -1;
	}
	*v = c->ring[c->taken++ % room];
	if (c->capacity)
		pthread_cond_signal(&c->room);
	else
		pthread_cond_broadcast(&c->room); /* its sender, and a waiter for the slot */
	pthread_mutex_unlock(&c->m);
	return 0;
}

static void chan_close(struct chan *c)
{
	pthread_mutex_lock(&c->m);
	c->closed = 1;
	pthread_cond_broadcast(&c->element);
	pthread_mutex_unlock(&c->m);
}

enum { SIDES = 8 };

static struct chan *shared;
static int64_t each, received;
static uint64_t sum;
static pthread_barrier_t gate;

static void *produce(void *arg)
{
	uint64_t me = (uintptr_t)arg;

	pthread_barrier_wait(&gate);
	for (int64_t i = 0; i < each; i++)
		chan_send(shared, i * SIDES + (int64_t)me);
	return NULL;
}

static void *consume(void *arg)
{
	int64_t v, n = 0, next[SIDES] = { 0 };
	uint64_t s = 0;

	pthread_barrier_wait(&gate);
	while (chan_recv(shared, &v) == 0) {
		check(v >= next[v % SIDES], "%lld came too late", (long long)v / SIDES);
		next[v % SIDES] = v + SIDES;
		s += (uint64_t)v;
		n++;
	}
	__atomic_add_fetch(&received, n, __ATOMIC_RELAXED);
	__atomic_add_fetch(&sum, s, __ATOMIC_RELAXED);
	return arg;
}

static void pass_on(struct row *row)
{
	pthread_t p[SIDES], c[SIDES];
	uint64_t want = 0;
	int64_t t0;

	bind_to(row->procs);
	each = row->count / row->n;
	shared = chan_new(strstr(row->name, "unbuffered") ? 0 : 128);
	pthread_barrier_init(&gate, NULL, (unsigned)(2 * row->n + 1));
	for (int64_t i = 0; i < row->n; i++) {
		p[i] = start(produce, (void *)(intptr_t)i);
		c[i] = start(consume, NULL);
		want += (uint64_t)(each * i + SIDES * (each * (each - 1) / 2));
	}
	pthread_barrier_wait(&gate);
	t0 = now();
	for (int64_t i = 0; i < row->n; i++)
		pthread_join(p[i], NULL);
	chan_close(shared);
	for (int64_t i = 0; i < row->n; i++)
		pthread_join(c[i], NULL);
	took(row, now() - t0, row->count);
	check(received == each * row->n && sum == want, "%lld received", (long long)received);
}

/* --- round trips --- */

static int64_t slots[2];
static int pipes[2][2];
static uint32_t words[2];
static pthread_mutex_t turn_lock[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static pthread_cond_t turn_cond[2] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };

static void by_cond_send(int i, int64_t v)
{
	pthread_mutex_lock(&turn_lock[i]);
	slots[i] = v;
	words[i] = 1;
	pthread_cond_signal(&turn_cond[i]);
	pthread_mutex_unlock(&turn_lock[i]);
}

static int64_t by_cond_recv(int i)
{
	int64_t v;

	pthread_mutex_lock(&turn_lock[i]);
	while (!words[i])
		pthread_cond_wait(&turn_cond[i], &turn_lock[i]);
	words[i] = 0;
	v = slots[i];
	pthread_mutex_unlock(&turn_lock[i]);
	return v;
}

static void by_futex_send(int i, int64_t v)
{
	slots[i] = v;
	__atomic_store_n(&words[i], 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &words[i], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int64_t by_futex_recv(int i)
{
	while (!__atomic_load_n(&words[i], __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &words[i], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	__atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
	return slots[i];
}

static void by_pipe_send(int i, int64_t v)
{
	check(write(pipes[i][1], &v, sizeof(v)) == sizeof(v), "write");
}

static int64_t by_pipe_recv(int i)
{
	int64_t v;

	check(read(pipes[i][0], &v, sizeof(v)) == sizeof(v), "read");
	return v;
}

static const struct how {
	const char *name;
	void (*send)(int, int64_t);
	int64_t (*recv)(int);
} hows[] = { { "ping/chan", by_cond_send, by_cond_recv },
	     { "ping/wg", by_futex_send, by_futex_recv },
	     { "ping/pipe", by_pipe_send, by_pipe_recv },
	     { "ping/unix", by_pipe_send, by_pipe_recv } };

static const struct how *how;
static int64_t trips;

static void *answer(void *arg)
{
	for (int64_t i = 0; i < trips; i++)
		how->send(1, how->recv(0) + 1);
	return arg;
}

static void ping(struct row *row)
{
	int64_t warm, t0 = 0, ns;
	int ends[2];
	pthread_t t;

	at_most(row, 20000);
	warm = row->count / 8;
	bind_to(row->procs);
	for (how = hows; strcmp(how->name, row->name); how++)
		;
	if (!strcmp(row->name, "ping/unix")) {
		check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
		pipes[0][1] = pipes[1][0] = ends[0];
		pipes[1][1] = pipes[0][0] = ends[1];
	} else {
		check(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0, "pipe");
	}
	trips = row->count + warm;
	t = start(answer, NULL);
	for (int64_t i = -warm; i < row->count; i++) {
		if (i == 0)
			t0 = now();
		how->send(0, i);
		int64_t v = how->recv(1);
		check(v == i + 1, "got %lld", (long long)v);
	}
	ns = now() - t0;
	pthread_join(t, NULL);
	took(row, ns, row->count);
}

/* --- locks --- */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int64_t counter, seen;

static void *locker(void *arg)
{
	pthread_barrier_wait(&gate);
	for (int64_t i = 0; i < each; i++) {
		pthread_mutex_lock(&m);
		counter++;
		pthread_mutex_unlock(&m);
	}
	return arg;
}

static void *reader(void *arg)
{
	int64_t s = 0;

	pthread_barrier_wait(&gate);
	for (int64_t i = 0; i < each; i++) {
		pthread_rwlock_rdlock(&rw);
		s += __atomic_load_n(&counter, __ATOMIC_RELAXED);
		pthread_rwlock_unlock(&rw);
	}
	__atomic_add_fetch(&seen, s, __ATOMIC_RELAXED);
	return arg;
}

static void contend(struct row *row, void *(*fn)(void *))
{
	pthread_t *t = calloc((size_t)row->n, sizeof(*t));
	int64_t t0;

	bind_to(row->procs);
	each = row->count / row->n;
	pthread_barrier_init(&gate, NULL, (unsigned)row->n + 1);
	for (int64_t i = 0; i < row->n; i++)
		t[i] = start(fn, NULL);
	t0 = now();
	pthread_barrier_wait(&gate);
	for (int64_t i = 0; i < row->n; i++)
		pthread_join(t[i], NULL);
	took(row, now() - t0, row->count);
}

static void mutex(struct row *row)
{
	contend(row, locker);
	check(counter == row->count, "counter is %lld", (long long)counter);
}

static void readers(struct row *row)
{
	counter = 1;
	contend(row, reader);
	check(seen == row->count, "%lld reads", (long long)seen);
}

/* --- memory --- */

static void *parked(void *arg)
{
	__atomic_add_fetch(&arrived, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	return arg;
}

/* Measures 2,000 OS threads, because their number is limited. Each has a small stack; the memory in
 * the kernel is not counted. */
static void memory(struct row *row)
{
	enum { SAMPLE = 2000 };
	static pthread_t t[SAMPLE];
	int64_t before, after;

	pthread_mutex_lock(&m);
	before = memory_now();
	for (int i = 0; i < SAMPLE; i++)
		t[i] = start(parked, NULL);
	while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < SAMPLE)
		sched_yield();
	after = memory_now();
	pthread_mutex_unlock(&m);
	for (int i = 0; i < SAMPLE; i++)
		pthread_join(t[i], NULL);
	value(row, "", "bytes", (double)(after - before) / SAMPLE);
}

/* --- alone: lateness of the kernel's sleep --- */

static void sleep_alone(struct row *row)
{
	int64_t *late = calloc((size_t)row->count, sizeof(*late));

	for (int64_t i = 0; i < row->count; i++) {
		struct timespec ts = { .tv_nsec = row->n };
		int64_t t0 = now();

		nanosleep(&ts, NULL);
		late[i] = now() - t0 - row->n;
	}
	report_lateness(row, late, row->count);
}

#define BOTH(name, fn)                                                                             \
	{ name, 1, fn, 0, 0 },                                                                     \
	{                                                                                          \
		name, 2, fn, 0, 0                                                                  \
	}

static struct row rows[] = {
	BOTH("yield/2", yield),
	BOTH("yield/1000", yield),
	BOTH("spawn/1", spawn),
	BOTH("spawn/1000", spawn),
	BOTH("ping/chan", ping),
	BOTH("ping/wg", ping),
	BOTH("ping/pipe", ping),
	BOTH("ping/unix", ping),
	BOTH("chan/1x1", pass_on),
	BOTH("chan/8x8", pass_on),
	{ "chan/8x8 unbuffered", 2, pass_on, 0, 0 },
	BOTH("mutex/8", mutex),
	BOTH("rwmutex/8 readers", readers),
	BOTH("sleep/100us", sleep_alone),
	{ "memory/wait/100000", 1, memory, 0, 0 },
};

int main(int argc, char **argv)
{
	return peer_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
