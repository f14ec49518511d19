/* SPDX-License-Identifier: MIT */
/* Tests barriers. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "threads.h"

enum { THREADS = 6, ROUNDS = 50 };

struct party {
	pthread_barrier_t *b;
	int serial, arrived[ROUNDS];
	bool own_errno;
};

static void meet(void *arg)
{
	struct party *p = arg;

	for (int i = 0; i < ROUNDS; i++) {
		thread_count(&p->arrived[i]);
		errno = 77;
		int result = pthread_barrier_wait(p->b);

		if (p->own_errno)
			CHECK_EQ(errno, 77);
		CHECK_EQ(__atomic_load_n(&p->arrived[i], __ATOMIC_ACQUIRE), THREADS);
		if (result == PTHREAD_BARRIER_SERIAL_THREAD)
			thread_count(&p->serial);
		else
			CHECK_EQ(result, 0);
	}
}

static void run_party(int shared, int outside)
{
	pthread_barrierattr_t a;
	pthread_barrier_t b;
	struct party p = { .b = &b, .own_errno = true };
	struct thread t[THREADS];

	CHECK_EQ(pthread_barrierattr_init(&a), 0);
	CHECK_EQ(pthread_barrierattr_setpshared(&a, shared), 0);
	CHECK_EQ(pthread_barrier_init(&b, &a, THREADS), 0);
	CHECK_EQ(pthread_barrierattr_destroy(&a), 0);
	for (int i = 0; i < THREADS; i++)
		(i < outside ? thread_outside : thread_start)(&t[i], meet, &p);
	for (int i = 0; i < THREADS; i++)
		thread_end(&t[i]);
	CHECK_EQ(p.serial, ROUNDS);
	CHECK_EQ(pthread_barrier_destroy(&b), 0);
}

POSIX_TEST(barrier_wait_returns_when_all_have_arrived)
{
	run_party(PTHREAD_PROCESS_PRIVATE, 0);
}

POSIX_TEST(barrier_of_green_and_os_threads)
{
	run_party(PTHREAD_PROCESS_PRIVATE, THREADS / 2);
}

POSIX_TEST(barrier_process_shared)
{
	run_party(PTHREAD_PROCESS_SHARED, 0);
}

POSIX_TEST(barrier_of_another_process_works)
{
	pthread_barrier_t *b =
		mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t a;
	int status;

	CHECK(b != MAP_FAILED);
	CHECK_EQ(pthread_barrierattr_init(&a), 0);
	CHECK_EQ(pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_barrier_init(b, &a, 2), 0);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(20); /* if the parent fails */
		for (int i = 0; i < ROUNDS; i++)
			pthread_barrier_wait(b);
		_exit(0);
	}
	for (int i = 0; i < ROUNDS; i++)
		pthread_barrier_wait(b);
	while (waitpid(pid, &status, 0) != pid)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
	CHECK_EQ(munmap(b, sizeof(*b)), 0);
}

POSIX_TEST(barrier_init_count_0_is_einval)
{
	pthread_barrier_t b;

	CHECK_EQ(pthread_barrier_init(&b, NULL, 0), EINVAL);
}

POSIX_TEST(barrier_of_one_is_serial)
{
	pthread_barrier_t b;

	CHECK_EQ(pthread_barrier_init(&b, NULL, 1), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_barrier_wait(&b), PTHREAD_BARRIER_SERIAL_THREAD);
	CHECK_EQ(pthread_barrier_destroy(&b), 0);
	CHECK_EQ(pthread_barrier_init(&b, NULL, 1), 0);
	CHECK_EQ(pthread_barrier_wait(&b), PTHREAD_BARRIER_SERIAL_THREAD);
	CHECK_EQ(pthread_barrier_destroy(&b), 0);
}

struct pair {
	pthread_barrier_t b;
};

static void leave(void *arg)
{
	struct pair *p = arg;

	pthread_barrier_wait(&p->b);
}

/* The first thread that leaves may destroy it. */
POSIX_TEST(barrier_may_be_destroyed_after_the_wait)
{
	for (int i = 0; i < 100; i++) {
		struct pair *p = malloc(sizeof(*p));
		struct thread t;

		CHECK_EQ(pthread_barrier_init(&p->b, NULL, 2), 0);
		(i % 2 ? thread_outside : thread_start)(&t, leave, p);
		pthread_barrier_wait(&p->b);
		CHECK_EQ(pthread_barrier_destroy(&p->b), 0);
		memset(p, 0xff, sizeof(*p));
		free(p);
		thread_end(&t);
	}
}

static void park_many(void)
{
	struct thread t[99];
	struct pair p;

	CHECK_EQ(pthread_barrier_init(&p.b, NULL, 100), 0);
	for (int i = 0; i < 99; i++)
		thread_start(&t[i], leave, &p);
	leave(&p);
	for (int i = 0; i < 99; i++)
		thread_end(&t[i]);
}

/* If a waiter blocked the only P, the last one would never arrive. */
TEST(barrier_wait_parks_the_green_thread)
{
	thread_run(1, park_many);
}

static void mix_kinds(void *arg)
{
	gmp_attr own = GMP_ATTR_INIT;
	gmp_g *g[THREADS];

	own.flags = GMP_OWN_TLS;
	for (int i = 0; i < THREADS; i++) {
		int err = gmp_spawn(&g[i], meet, arg, i % 2 ? &own : NULL);

		if (err == -ENOTSUP)
			check_skip("no own thread-locals on this machine");
		CHECK_EQ(err, 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST_PROCS(barrier_of_both_kinds_of_green_threads)
{
	pthread_barrier_t b;
	struct party p = { .b = &b };

	CHECK_EQ(pthread_barrier_init(&b, NULL, THREADS), 0);
	run_procs(procs, mix_kinds, &p);
	CHECK_EQ(p.serial, ROUNDS);
}
