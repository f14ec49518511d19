/* SPDX-License-Identifier: MIT */
/* Tests the signals and threads of timer_create. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <time.h>

#include "signal_util.h"
#include "threads.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static pthread_t target;
static volatile sig_atomic_t in_target;

static void note(int signo, siginfo_t *info, void *context)
{
	in_target = pthread_equal(pthread_self(), target);
	count_info(signo, info, context);
}

static void begin(int signo)
{
	struct sigaction sa = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };

	handle(signo, count, 0);
	in_target = 0;
	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
}

/* One expiration after 5 ms. */
static timer_t start_timer(struct sigevent *event)
{
	struct itimerspec in = { .it_value = { 0, 5 * MS } };
	timer_t timer;

	CHECK_EQ(timer_create(CLOCK_MONOTONIC, event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &in, NULL), 0);
	return timer;
}

static struct sigevent signal_event(int signo, int n)
{
	return (struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = signo,
				  .sigev_value.sival_int = n };
}

static void check_siginfo(int n)
{
	CHECK_EQ(ran, 1);
	CHECK_EQ(code, SI_TIMER);
	CHECK_EQ(value, n);
}

/* --- SIGEV_SIGNAL --- */

static void expect_signal_on_main(int signo)
{
	struct sigevent event = signal_event(signo, 42);

	begin(signo);
	timer_t timer = start_timer(&event);

	wait_ran(1);
	check_siginfo(42);
	CHECK(in_main);
	CHECK_EQ(timer_delete(timer), 0);
}

POSIX_TEST(timer_signal_runs_the_handler_on_main)
{
	expect_signal_on_main(SIGUSR1);
	expect_signal_on_main(SIGRTMIN + 2);
}

/* The timer may expire before the sleep, which then ends with the second expiration. */
POSIX_TEST(timer_signal_ends_a_sleep)
{
	struct itimerspec often = { .it_value = { 0, 5 * MS }, .it_interval = { 0, 50 * MS } };
	struct sigevent event = signal_event(SIGUSR1, 42);
	struct timespec t = { 20, 0 };
	timer_t timer;

	begin(SIGUSR1);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
	CHECK_EQ(nanosleep(&t, NULL), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(ran >= 1 && in_main);
	CHECK_EQ(timer_delete(timer), 0);
}

POSIX_TEST(timer_signal_that_is_blocked_stays_pending)
{
	struct sigevent event = signal_event(SIGUSR1, 43);

	begin(SIGUSR1);
	mask(SIG_BLOCK, SIGUSR1);
	timer_t timer = start_timer(&event);

	wait_pending(SIGUSR1);
	CHECK_EQ(ran, 0);
	mask(SIG_UNBLOCK, SIGUSR1);
	wait_ran(1);
	check_siginfo(43);
	CHECK_EQ(timer_delete(timer), 0);
}

static void *wait_for_timer(void *arg)
{
	struct sigevent event = signal_event(SIGUSR1, 44);
	timer_t timer = start_timer(&event);
	siginfo_t info;
	sigset_t set;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigwaitinfo(&set, &info), SIGUSR1);
	CHECK_EQ(info.si_code, SI_TIMER);
	CHECK_EQ(info.si_value.sival_int, 44);
	CHECK_EQ(timer_delete(timer), 0);
	return arg;
}

POSIX_TEST(timer_signal_that_all_block_is_taken_by_sigwaitinfo)
{
	pthread_t t;

	skip_under_chaos();
	begin(SIGUSR1);
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(pthread_create(&t, NULL, wait_for_timer, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(ran, 0);
	mask(SIG_UNBLOCK, SIGUSR1);
}

/* In a wait that no handler ends. */
static void wait_in_gmp(int64_t ns)
{
	int64_t until = gmp_now() + ns;

	do
		on_green() ? gmp_sleep(ns) : usleep(1000);
	while (gmp_now() < until);
}

/* While main waits, many expirations are on their way to it; one may be in its handler, which runs
 * on another thread then, when the timer is deleted. */
POSIX_TEST(timer_delete_drops_expirations_that_no_handler_has_taken)
{
	struct itimerspec often = { .it_value = { 0, MS / 10 }, .it_interval = { 0, MS / 10 } };
	struct sigevent event = signal_event(SIGRTMIN + 2, 48);
	timer_t timer;

	begin(SIGRTMIN + 2);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
	wait_in_gmp(20 * MS);
	CHECK_EQ(timer_delete(timer), 0);
	int before = ran;

	wait_in_gmp(20 * MS);
	usleep(1000);
	CHECK(ran <= before + 1);
}

/* --- SIGEV_THREAD_ID --- */

static struct sigevent thread_id_event(int n)
{
	struct sigevent event = signal_event(SIGUSR1, n);

	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_notify_thread_id = gettid();
	return event;
}

static void *compute_with_timer(void *arg)
{
	struct sigevent event = thread_id_event(45);

	target = pthread_self();
	timer_t timer = start_timer(&event);

	wait_ran(1);
	check_siginfo(45);
	CHECK_EQ(timer_delete(timer), 0);
	return arg;
}

/* Natively it is the thread, which the timer names. */
POSIX_TEST(timer_of_thread_id_runs_the_handler_on_the_thread_or_on_main)
{
	pthread_t t;

	begin(SIGUSR1);
	CHECK_EQ(pthread_create(&t, NULL, compute_with_timer, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(in_target || (on_green() && in_main));
}

/* Main computes with a timer for its own OS thread. */
POSIX_TEST(timer_of_thread_id_of_main_runs_the_handler_on_main)
{
	begin(SIGUSR1);
	compute_with_timer(NULL);
	CHECK(in_target && in_main);
}

POSIX_TEST(timer_of_thread_id_that_is_blocked_stays_pending)
{
	begin(SIGUSR1);
	mask(SIG_BLOCK, SIGUSR1);
	struct sigevent event = thread_id_event(46);
	timer_t timer = start_timer(&event);

	wait_pending(SIGUSR1);
	CHECK_EQ(ran, 0);
	mask(SIG_UNBLOCK, SIGUSR1);
	wait_ran(1);
	check_siginfo(46);
	CHECK_EQ(timer_delete(timer), 0);
}

/* --- SIGEV_THREAD --- */

static sem_t notified;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int notes;

/* On an OS thread that libc makes. */
static void notify(union sigval n)
{
	CHECK_EQ(n.sival_int, 47);
	CHECK(!pthread_equal(pthread_self(), main_self));
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	notes++;
	CHECK_EQ(pthread_cond_broadcast(&changed), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(sem_post(&notified), 0);
}

static void *wait_for_note(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	while (!notes)
		CHECK_EQ(pthread_cond_wait(&changed, &mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

/* Blocked signals are no obstacle. */
POSIX_TEST(timer_thread_wakes_threads_that_wait)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = notify,
				  .sigev_value.sival_int = 47 };
	sigset_t all, before;
	pthread_t t;

	main_self = pthread_self();
	notes = 0;
	sigfillset(&all);
	CHECK_EQ(sem_init(&notified, 0, 0), 0);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
	CHECK_EQ(pthread_create(&t, NULL, wait_for_note, NULL), 0);
	timer_t timer = start_timer(&event);

	CHECK_EQ(sem_wait(&notified), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(notes, 1);
	CHECK_EQ(timer_delete(timer), 0);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}
