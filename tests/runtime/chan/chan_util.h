/* SPDX-License-Identifier: MIT */
/*
 * Helpers for the tests of channels: peers on green and external threads, a check that a peer
 * waits, and cases that run in every combination of them.
 */
#ifndef TESTS_RUNTIME_CHAN_UTIL_H
#define TESTS_RUNTIME_CHAN_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np: before any other header */
#endif
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "util.h"

/* --- peers --- */

static enum { GREEN, EXTERNAL, MIXED } peer_kind;

/* A green or external thread that makes one call, which usually has to wait. */
struct peer {
	bool external;
	gmp_g *g;
	struct ext_thread f;
	gmp_fn fn;
	void *arg;
	atomic_int tid; /* of an external thread, once its stack is known */
	uintptr_t stack, stack_size;
	gmp_chan *c;
	void *elem;
	int64_t deadline;
	int result;
};

static inline void peer_main(void *arg)
{
	struct peer *p = arg;

	if (p->external) {
		pthread_attr_t a;
		void *low;
		size_t size;

		CHECK_EQ(pthread_getattr_np(pthread_self(), &a), 0);
		CHECK_EQ(pthread_attr_getstack(&a, &low, &size), 0);
		CHECK_EQ(pthread_attr_destroy(&a), 0);
		p->stack = (uintptr_t)low;
		p->stack_size = size;
		atomic_store(&p->tid, (int)syscall(SYS_gettid));
	}
	p->fn(p->arg);
}

static inline void start(struct peer *p, gmp_fn fn, void *arg)
{
	static unsigned started;

	p->fn = fn;
	p->arg = arg;
	p->external = peer_kind == EXTERNAL || (peer_kind == MIXED && started++ % 2);
	atomic_store(&p->tid, 0);
	if (p->external)
		ext_thread_start(&p->f, peer_main, p);
	else
		p->g = spawn(peer_main, p);
}

static inline int finish(struct peer *p)
{
	if (p->external)
		ext_thread_join(&p->f);
	else
		join(p->g);
	return p->result;
}

/* The number of futex(2) in files of /proc.  Below qemu-user these have the numbers of the machine
 * that qemu runs on: a thread that reads its own file finds that of read(2) there. */
static inline unsigned long futex_number(void)
{
	enum { X86_64_READ = 0, X86_64_FUTEX = 202 };
	static atomic_ulong known;
	unsigned long number = atomic_load(&known);
	FILE *f;

	if (number)
		return number;
	f = fopen("/proc/thread-self/syscall", "re");
	number = f && fscanf(f, "%lu", &number) == 1 && number == X86_64_READ && SYS_read != 0
			 ? X86_64_FUTEX
			 : SYS_futex;
	if (f)
		fclose(f);
	atomic_store(&known, number);
	return number;
}

/* True if the external thread sleeps on a futex in its own stack, so it is enqueued as a waiter. */
static inline bool external_waits(const struct peer *p)
{
	char path[64], line[256];
	unsigned long number, address;
	int tid = atomic_load(&p->tid), fd;
	ssize_t n;

	if (tid == 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n <= 0)
		return false;
	line[n] = '\0';
	return sscanf(line, "%lu %lx", &number, &address) == 2 && number == futex_number() &&
	       address - p->stack < p->stack_size;
}

/*
 * True if n green threads exist beside the first and all except the caller wait: no G is runnable,
 * none runs without a P, and the caller holds the only busy P. (stats().greens_waiting is a
 * difference of counters that are read at different times, so it is not exact.)
 */
static inline bool all_wait(uint64_t n)
{
	gmp_stats s = stats();

	return s.greens == n + 1 && s.greens_runnable == 0 && s.greens_blocked == 0 &&
	       s.procs_idle + (gmp_self() != NULL) == s.procs;
}

/* True if the n peers wait and no other green threads exist. */
static inline bool waiting(const struct peer *p, int n)
{
	uint64_t green = 0;

	for (int i = 0; i < n; i++) {
		if (!p[i].external)
			green++;
		else if (!external_waits(&p[i]))
			return false;
	}
	return green == 0 || all_wait(green);
}

static inline void until_waiting(const struct peer *p, int n)
{
	WAIT_FOR(waiting(p, n));
}

static inline void do_send(void *arg)
{
	struct peer *p = arg;

	p->result = p->deadline == GMP_FOREVER ? gmp_chan_send(p->c, p->elem)
					       : gmp_chan_send_until(p->c, p->elem, p->deadline);
}

static inline void do_recv(void *arg)
{
	struct peer *p = arg;

	p->result = p->deadline == GMP_FOREVER ? gmp_chan_recv(p->c, p->elem)
					       : gmp_chan_recv_until(p->c, p->elem, p->deadline);
}

static inline void start_send(struct peer *p, gmp_chan *c, const void *elem, int64_t deadline)
{
	p->c = c;
	p->elem = (void *)(uintptr_t)elem;
	p->deadline = deadline;
	p->result = 1;
	start(p, do_send, p);
}

static inline void start_recv(struct peer *p, gmp_chan *c, void *elem, int64_t deadline)
{
	p->c = c;
	p->elem = elem;
	p->deadline = deadline;
	p->result = 1;
	start(p, do_recv, p);
}

/* --- channels of int --- */

static inline gmp_chan *chan(size_t size, size_t capacity)
{
	gmp_chan *c = gmp_chan_new(size, capacity);

	CHECK(c != NULL);
	CHECK_EQ(gmp_chan_cap(c), capacity);
	CHECK_EQ(gmp_chan_len(c), 0);
	return c;
}

static inline gmp_chan *int_chan(size_t capacity)
{
	return chan(sizeof(int), capacity);
}

static inline void send_int(gmp_chan *c, int v)
{
	CHECK_EQ(gmp_chan_send(c, &v), 0);
}

static inline int recv_int(gmp_chan *c)
{
	int v = -1;

	CHECK_EQ(gmp_chan_recv(c, &v), 0);
	return v;
}

static inline int try_send_int(gmp_chan *c, int v)
{
	return gmp_chan_try_send(c, &v);
}

/* c must be open, empty and without waiters: it behaves like a new channel. */
static inline void check_idle(gmp_chan *c)
{
	int v = 77;

	CHECK_EQ(gmp_chan_len(c), 0);
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
	CHECK_EQ(v, 77);
	for (int i = 0; i < (int)gmp_chan_cap(c); i++)
		CHECK_EQ(try_send_int(c, i), 0);
	CHECK_EQ(gmp_chan_len(c), gmp_chan_cap(c));
	CHECK_EQ(try_send_int(c, 78), -EAGAIN);
	for (int i = 0; i < (int)gmp_chan_cap(c); i++)
		CHECK_EQ(recv_int(c), i);
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
}

/*
 * EVERYWHERE(name) { ... }: a case at 1, 2 and 4 Ps whose body runs on a green thread with green,
 * external and mixed peers, then on an external thread with green peers. A further case,
 * name_without_runtime, runs it on OS threads without a runtime.
 */
#define EVERYWHERE(name)                                                                           \
	static void name##_here(void);                                                             \
	static void name##_there(void *arg)                                                        \
	{                                                                                          \
		name##_here();                                                                     \
		CHECK_EQ(gmp_wg_done(arg), 0);                                                     \
	}                                                                                          \
	RT(name)                                                                                   \
	{                                                                                          \
		gmp_wg there = GMP_WG_INIT;                                                        \
		struct ext_thread f;                                                               \
                                                                                                   \
		for (peer_kind = GREEN; peer_kind <= MIXED; peer_kind++)                           \
			name##_here();                                                             \
		peer_kind = GREEN;                                                                 \
		CHECK_EQ(gmp_wg_add(&there, 1), 0);                                                \
		ext_thread_start(&f, name##_there, &there);                                        \
		CHECK_EQ(gmp_wg_wait(&there), 0); /* the caller waits, too: see all_wait() */      \
		ext_thread_join(&f);                                                               \
	}                                                                                          \
	TEST(name##_without_runtime)                                                               \
	{                                                                                          \
		peer_kind = EXTERNAL;                                                              \
		name##_here();                                                                     \
	}                                                                                          \
	static void name##_here(void)

#endif
