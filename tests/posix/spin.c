/* SPDX-License-Identifier: MIT */
/* Tests spinlocks. */
#define _GNU_SOURCE
#include "threads.h"

struct spun {
	pthread_spinlock_t l;
	long n;
	bool inside;
	int arrived;
};

static void add(void *arg)
{
	struct spun *s = arg;

	thread_count(&s->arrived);
	for (int i = 0; i < 200; i++) {
		errno = 77;
		CHECK_EQ(pthread_spin_lock(&s->l), 0);
		CHECK_EQ(errno, 77);
		CHECK(!s->inside);
		s->inside = true;
		s->n++;
		if (i % 50 == 0)
			thread_pass();
		s->inside = false;
		CHECK_EQ(pthread_spin_unlock(&s->l), 0);
	}
}

static void run_spinners(bool outside)
{
	struct spun s = { .n = 0 };
	struct thread t[4];

	CHECK_EQ(pthread_spin_init(&s.l, PTHREAD_PROCESS_PRIVATE), 0);
	for (int i = 0; i < 4; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], add, &s);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 4 * 200);
	CHECK_EQ(pthread_spin_destroy(&s.l), 0);
}

POSIX_TEST(spin_lock_excludes)
{
	run_spinners(false);
}

POSIX_TEST(spin_lock_of_green_and_os_threads_excludes)
{
	run_spinners(true);
}

static void hold_across_yields(void)
{
	struct spun s = { .n = 0 };
	struct thread t[10];

	CHECK_EQ(pthread_spin_init(&s.l, PTHREAD_PROCESS_PRIVATE), 0);
	CHECK_EQ(pthread_spin_lock(&s.l), 0);
	CHECK_EQ(pthread_spin_trylock(&s.l), EBUSY);
	for (int i = 0; i < 10; i++)
		thread_start(&t[i], add, &s);
	thread_await(&s.arrived, 10);
	for (int i = 0; i < 10; i++)
		thread_pass();
	CHECK_EQ(s.n, 0);
	CHECK_EQ(pthread_spin_unlock(&s.l), 0);
	for (int i = 0; i < 10; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 10 * 200);
}

/* The owner and the spinning green threads share one P, without preemption. */
TEST(spin_lock_yields_to_the_owner_on_the_same_p)
{
	thread_run(1, hold_across_yields);
}
