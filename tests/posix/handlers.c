/* SPDX-License-Identifier: MIT */
/*
 * Tests where handlers run: signals of tgkill, handlers that sleep on two threads at once or use
 * much stack, and signals for a green thread in a wait of gmp.h, which no handler ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

#include "start.h"
#include "threads.h"

static int ran, elsewhere;
static pthread_t target;

static void note(int signo)
{
	(void)signo;
	if (!pthread_equal(pthread_self(), target))
		thread_count(&elsewhere);
	thread_count(&ran);
}

static void handle(void (*fn)(int))
{
	struct sigaction sa = { .sa_handler = fn };

	ran = elsewhere = 0;
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
}

/* --- tgkill --- */

static void *tgkill_self(void *arg)
{
	target = pthread_self();
	for (int i = 1; i <= 100; i++) {
		CHECK_EQ(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1), 0);
		CHECK_EQ(ran, i);
	}
	return arg;
}

POSIX_TEST(tgkill_of_own_os_thread_runs_the_handler_on_the_caller)
{
	handle(note);
	CHECK_EQ(pthread_join(start(tgkill_self, NULL), NULL), 0);
	CHECK_EQ(elsewhere, 0);
}

/* --- handlers of sigset, which is libc's --- */

static void *yield_until_handled(void *arg)
{
	thread_await(&ran, 1);
	for (int i = 0; i < 50; i++) {
		usleep(100);
		sched_yield();
	}
	return arg;
}

POSIX_TEST(kill_of_thread_with_a_handler_of_sigset_runs_it_once)
{
	sighandler_t (*set)(int, sighandler_t) = dlsym(RTLD_DEFAULT, "sigset"); /* deprecated */

	ran = 0;
	CHECK(set != NULL);
	CHECK(set(SIGUSR1, note) != SIG_ERR);
	pthread_t t = start(yield_until_handled, NULL);

	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 1);
}

/* --- handlers that sleep --- */

enum { SLEEPERS = 4, WORDS = 64 };

static sem_t begun;

/* Sleeps with data on its stack, which no other handler may change. */
static void sleep_in_handler(int signo)
{
	volatile unsigned long word[WORDS];

	(void)signo;
	for (int i = 0; i < WORDS; i++)
		word[i] = (unsigned long)pthread_self() + (unsigned long)i;
	usleep(2000);
	for (int i = 0; i < WORDS; i++)
		if (word[i] != (unsigned long)pthread_self() + (unsigned long)i)
			thread_count(&elsewhere);
	thread_count(&ran);
}

static void *wait_for_handlers(void *arg)
{
	CHECK_EQ(sem_post(&begun), 0);
	while (__atomic_load_n(&ran, __ATOMIC_ACQUIRE) < SLEEPERS)
		usleep(100);
	return arg;
}

POSIX_TEST(handlers_that_sleep_at_once_keep_their_stacks)
{
	pthread_t t[SLEEPERS];

	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	handle(sleep_in_handler);
	for (int i = 0; i < SLEEPERS; i++)
		t[i] = start(wait_for_handlers, NULL);
	for (int i = 0; i < SLEEPERS; i++)
		CHECK_EQ(sem_wait(&begun), 0);
	for (int i = 0; i < SLEEPERS; i++)
		CHECK_EQ(pthread_kill(t[i], SIGUSR1), 0);
	for (int i = 0; i < SLEEPERS; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(ran, SLEEPERS);
	CHECK_EQ(elsewhere, 0);
}

/* --- waits of gmp.h --- */

static gmp_sem inner;

static void *acquire(void *arg)
{
	target = pthread_self();
	CHECK_EQ(sem_post(&begun), 0);
	gmp_sem_acquire(&inner);
	return arg;
}

static void *send_to_process(void *arg)
{
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	thread_await(&ran, 1);
	gmp_sem_release(&inner, 1);
	return arg;
}

static void begin_gmp_wait(void)
{
	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	inner = (gmp_sem)GMP_SEM_INIT(0);
	handle(note);
}

POSIX_TEST(kill_of_process_runs_the_handler_while_main_waits_in_gmp)
{
	begin_gmp_wait();
	pthread_t t = start(send_to_process, NULL);

	gmp_sem_acquire(&inner);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 1);
}

POSIX_TEST(kill_of_thread_runs_the_handler_while_it_waits_in_gmp)
{
	begin_gmp_wait();
	pthread_t t = start(acquire, NULL);

	CHECK_EQ(sem_wait(&begun), 0);
	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	thread_await(&ran, 1);
	gmp_sem_release(&inner, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 1);
}

/* --- room --- */

enum { MUCH = 200 << 10 };

static void use_much_stack(int signo)
{
	volatile char much[MUCH];

	for (int i = 0; i < MUCH; i += 1024)
		much[i] = (char)signo;
	if (much[MUCH - 1024] == (char)signo)
		thread_count(&ran);
}

static void *sleep_until_handled(void *arg)
{
	int n = (int)(intptr_t)arg;

	CHECK_EQ(sem_post(&begun), 0);
	thread_await(&ran, n);
	return NULL;
}

POSIX_TEST(handler_has_room_for_200_kib)
{
	begin_gmp_wait();
	handle(use_much_stack);
	CHECK_EQ(raise(SIGUSR1), 0);
	pthread_t t = start(sleep_until_handled, (void *)2);

	CHECK_EQ(sem_wait(&begun), 0);
	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	t = start(sleep_until_handled, (void *)3);
	CHECK_EQ(sem_wait(&begun), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 3);
}

POSIX_TEST(handler_during_a_wait_in_gmp_has_room_for_200_kib)
{
	begin_gmp_wait();
	handle(use_much_stack);
	pthread_t t = start(send_to_process, NULL);

	gmp_sem_acquire(&inner);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 1);
}
