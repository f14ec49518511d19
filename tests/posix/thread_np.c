/* SPDX-License-Identifier: MIT */
/* Tests the functions that signal, name, schedule and describe a thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "start.h"

static gmp_sem permit;

static void *wait_for_permit(void *arg)
{
	CHECK_EQ(gmp_sem_acquire(&permit), 0);
	return arg;
}

/* A thread that waits until end_waiting. */
static pthread_t start_waiting(void)
{
	permit = (gmp_sem)GMP_SEM_INIT(0);
	return start(wait_for_permit, NULL);
}

static void end_waiting(pthread_t t)
{
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

/* --- signals --- */

static volatile sig_atomic_t signals, last_value;

static void count(int sig)
{
	(void)sig;
	signals++;
}

static void count_value(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	last_value = info->si_value.sival_int;
	signals++;
}

static void handle(int sig)
{
	struct sigaction a = { .sa_handler = count, .sa_flags = SA_RESTART };

	signals = 0;
	CHECK_EQ(sigaction(sig, &a, NULL), 0);
}

static void wait_for_signals(int n)
{
	while (signals < n)
		gmp_yield();
}

POSIX_TEST(kill_0_tells_that_a_thread_exists)
{
	pthread_t t = start_waiting();

	CHECK_EQ(pthread_kill(t, 0), 0);
	end_waiting(t);
	CHECK_EQ(pthread_kill(pthread_self(), 0), 0);
}

POSIX_TEST(kill_of_bad_signal_is_einval)
{
	pthread_t t = start_waiting();

	CHECK_EQ(pthread_kill(t, -1), EINVAL);
	CHECK_EQ(pthread_kill(t, 65), EINVAL);
	CHECK_EQ(pthread_kill(t, 1000), EINVAL);
	end_waiting(t);
}

static void *kill_self(void *arg)
{
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	CHECK_EQ(signals, 1);
	return arg;
}

POSIX_TEST(kill_of_self_runs_the_handler_before_it_returns)
{
	handle(SIGUSR1);
	CHECK_EQ(pthread_join(start(kill_self, NULL), NULL), 0);
}

POSIX_TEST(kill_of_other_thread_runs_the_handler)
{
	handle(SIGUSR2);
	pthread_t t = start_waiting();

	CHECK_EQ(pthread_kill(t, SIGUSR2), 0);
	wait_for_signals(1);
	end_waiting(t);
}

static volatile int stop;

static void *spin(void *arg)
{
	while (!stop)
		;
	return arg;
}

POSIX_TEST(kill_of_running_thread_runs_the_handler)
{
	handle(SIGUSR2);
	stop = 0;
	pthread_t t = start(spin, NULL);

	CHECK_EQ(pthread_kill(t, SIGUSR2), 0);
	wait_for_signals(1);
	stop = 1;
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void *give_back(void *arg)
{
	return arg;
}

POSIX_TEST(kill_of_ended_thread_returns_0)
{
	handle(SIGUSR2);
	for (int i = 0; i < 20; i++) {
		pthread_t t = start(give_back, NULL);

		gmp_yield();
		CHECK_EQ(pthread_kill(t, SIGUSR2), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
	}
}

static void handle_value(void)
{
	struct sigaction a = { .sa_sigaction = count_value, .sa_flags = SA_SIGINFO | SA_RESTART };

	signals = 0;
	CHECK_EQ(sigaction(SIGRTMIN, &a, NULL), 0);
}

POSIX_TEST(sigqueue_passes_the_value)
{
	union sigval v = { .sival_int = 4711 };

	handle_value();
	pthread_t t = start_waiting();

	CHECK_EQ(pthread_sigqueue(t, SIGRTMIN, v), 0);
	wait_for_signals(1);
	CHECK_EQ(last_value, 4711);
	end_waiting(t);
}

static void *sigqueue_self(void *arg)
{
	union sigval v = { .sival_int = 4712 };

	CHECK_EQ(pthread_sigqueue(pthread_self(), SIGRTMIN, v), 0);
	CHECK_EQ(signals, 1);
	CHECK_EQ(last_value, 4712);
	return arg;
}

POSIX_TEST(sigqueue_of_self_runs_the_handler_before_it_returns)
{
	handle_value();
	CHECK_EQ(pthread_join(start(sigqueue_self, NULL), NULL), 0);
	signals = 0;
	sigqueue_self(NULL); /* the caller was not made by pthread_create */
	CHECK_EQ(pthread_sigqueue(pthread_self(), 0, (union sigval){ 0 }), 0);
	CHECK_EQ(pthread_sigqueue(pthread_self(), 1000, (union sigval){ 0 }), EINVAL);
}

POSIX_TEST(sigqueue_of_bad_signal_is_einval)
{
	pthread_t t = start_waiting();
	union sigval v = { 0 };

	CHECK_EQ(pthread_sigqueue(t, -1, v), EINVAL);
	CHECK_EQ(pthread_sigqueue(t, 65, v), EINVAL);
	end_waiting(t);
}

/* --- names --- */

POSIX_TEST(getname_returns_what_setname_has_set)
{
	pthread_t t = start_waiting();
	char name[16];

	CHECK_EQ(pthread_setname_np(t, "fifteen letters"), 0);
	CHECK_EQ(pthread_getname_np(t, name, sizeof(name)), 0);
	CHECK_STR(name, "fifteen letters");
	CHECK_EQ(pthread_setname_np(t, ""), 0);
	end_waiting(t);
}

POSIX_TEST(setname_of_long_name_is_erange)
{
	pthread_t t = start_waiting();
	char before[16], after[16];

	CHECK_EQ(pthread_getname_np(t, before, sizeof(before)), 0);
	CHECK_EQ(pthread_setname_np(t, "sixteen letters!"), ERANGE);
	CHECK_EQ(pthread_getname_np(t, after, sizeof(after)), 0);
	CHECK_STR(before, after);
	end_waiting(t);
}

POSIX_TEST(getname_into_small_place_is_erange)
{
	pthread_t t = start_waiting();
	char name[16];

	CHECK_EQ(pthread_getname_np(t, name, 15), ERANGE);
	end_waiting(t);
}

static void *name_self(void *arg)
{
	char name[16];

	CHECK_EQ(pthread_setname_np(pthread_self(), "self"), 0);
	gmp_yield();
	CHECK_EQ(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	CHECK_STR(name, "self");
	return arg;
}

static void *name_child(void *arg)
{
	char name[16];

	CHECK_EQ(pthread_setname_np(pthread_self(), "parent"), 0);
	pthread_t t = start_waiting();

	CHECK_EQ(pthread_getname_np(t, name, sizeof(name)), 0);
	CHECK_STR(name, "parent");
	end_waiting(t);
	return arg;
}

POSIX_TEST(setname_of_self_works)
{
	CHECK_EQ(pthread_join(start(name_self, NULL), NULL), 0);
}

POSIX_TEST(getname_of_new_thread_is_that_of_its_creator)
{
	CHECK_EQ(pthread_join(start(name_child, NULL), NULL), 0);
}

/* --- clocks and scheduling --- */

POSIX_TEST(getcpuclockid_gives_a_clock_or_enoent)
{
	pthread_t t = start_waiting();
	clockid_t clock;
	struct timespec now;
	int err = pthread_getcpuclockid(t, &clock);

	CHECK_EQ(err, on_green() ? ENOENT : 0);
	CHECK(err || clock_gettime(clock, &now) == 0);
	end_waiting(t);
}

static void *clock_of_self(void *arg)
{
	clockid_t clock;
	struct timespec now;
	int err = pthread_getcpuclockid(pthread_self(), &clock);

	CHECK_EQ(err, on_green() ? ENOENT : 0);
	CHECK(err || clock_gettime(clock, &now) == 0);
	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return arg;
}

POSIX_TEST(getcpuclockid_of_self_gives_a_clock_or_enoent)
{
	CHECK_EQ(pthread_join(start(clock_of_self, NULL), NULL), 0);
}

POSIX_TEST(getcpuclockid_keeps_errno)
{
	pthread_t t = start_waiting();
	clockid_t clock;

	errno = 5;
	pthread_getcpuclockid(t, &clock);
	CHECK_EQ(errno, 5);
	end_waiting(t);
}

POSIX_TEST(setaffinity_of_present_cpus_returns_0)
{
	pthread_t t = start_waiting();
	cpu_set_t set;

	CHECK_EQ(pthread_getaffinity_np(t, sizeof(set), &set), 0);
	CHECK(CPU_COUNT(&set) > 0);
	CHECK_EQ(pthread_setaffinity_np(t, sizeof(set), &set), 0);
	end_waiting(t);
}

POSIX_TEST(setaffinity_of_no_cpu_is_einval)
{
	pthread_t t = start_waiting();
	cpu_set_t set;

	CPU_ZERO(&set);
	CHECK_EQ(pthread_setaffinity_np(t, sizeof(set), &set), EINVAL);
	end_waiting(t);
}

POSIX_TEST(getaffinity_into_small_place_is_einval)
{
	pthread_t t = start_waiting();
	cpu_set_t set;

	CHECK_EQ(pthread_getaffinity_np(t, 0, &set), EINVAL);
	end_waiting(t);
}

POSIX_TEST(getaffinity_gives_the_cpus_of_the_process)
{
	pthread_t t = start_waiting();
	cpu_set_t set, all;

	CHECK_EQ(sched_getaffinity(getpid(), sizeof(all), &all), 0);
	CHECK_EQ(pthread_getaffinity_np(t, sizeof(set), &set), 0);
	CHECK(CPU_EQUAL(&set, &all));
	end_waiting(t);
}

static void *affinity_of_self(void *arg)
{
	cpu_set_t set;

	CHECK_EQ(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
	return arg;
}

POSIX_TEST(setaffinity_of_self_works)
{
	CHECK_EQ(pthread_join(start(affinity_of_self, NULL), NULL), 0);
}

POSIX_TEST(getschedparam_gives_sched_other)
{
	pthread_t t = start_waiting();
	struct sched_param param = { .sched_priority = 5 };
	int policy = -1;

	CHECK_EQ(pthread_getschedparam(t, &policy, &param), 0);
	CHECK_EQ(policy, SCHED_OTHER);
	CHECK_EQ(param.sched_priority, 0);
	CHECK_EQ(pthread_setschedparam(t, policy, &param), 0);
	end_waiting(t);
}

POSIX_TEST(setschedparam_of_bad_values_is_einval)
{
	pthread_t t = start_waiting();
	struct sched_param zero = { .sched_priority = 0 }, five = { .sched_priority = 5 };

	CHECK_EQ(pthread_setschedparam(t, 77, &zero), EINVAL);
	CHECK_EQ(pthread_setschedparam(t, SCHED_OTHER, &five), EINVAL);
	CHECK_EQ(pthread_setschedparam(t, SCHED_FIFO, &zero), EINVAL);
	end_waiting(t);
}

static int policy_of(pthread_t t)
{
	struct sched_param param = { .sched_priority = 5 };
	int policy = -1;

	CHECK_EQ(pthread_getschedparam(t, &policy, &param), 0);
	CHECK_EQ(param.sched_priority, 0);
	return policy;
}

static void *policy_of_self(void *policy)
{
	*(int *)policy = policy_of(pthread_self());
	return NULL;
}

static void *change_policy(void *arg)
{
	static const int policies[] = { SCHED_BATCH, SCHED_IDLE, SCHED_OTHER };
	struct sched_param zero = { .sched_priority = 0 };

	for (int i = 0; i < 3; i++) {
		int of_child = -1;

		CHECK_EQ(pthread_setschedparam(pthread_self(), policies[i], &zero), 0);
		CHECK_EQ(policy_of(pthread_self()), policies[i]);
		CHECK_EQ(pthread_join(start(policy_of_self, &of_child), NULL), 0);
		CHECK_EQ(of_child, policies[i]);
	}
	return arg;
}

POSIX_TEST(setschedparam_of_batch_and_idle_is_kept_and_inherited)
{
	CHECK_EQ(pthread_join(start(change_policy, NULL), NULL), 0);
}

POSIX_TEST(setschedparam_of_another_thread_is_kept)
{
	pthread_t t = start_waiting();
	struct sched_param zero = { .sched_priority = 0 };

	CHECK_EQ(pthread_setschedparam(t, SCHED_BATCH, &zero), 0);
	CHECK_EQ(policy_of(t), SCHED_BATCH);
	end_waiting(t);
}

static void *schedule_self(void *arg)
{
	struct sched_param param;
	int policy;

	CHECK_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	CHECK_EQ(pthread_setschedparam(pthread_self(), policy, &param), 0);
	return arg;
}

POSIX_TEST(setschedparam_of_self_works)
{
	CHECK_EQ(pthread_join(start(schedule_self, NULL), NULL), 0);
}

POSIX_TEST(setschedparam_keeps_what_getschedparam_gives)
{
	pthread_t t = start_waiting();
	struct sched_param one = { .sched_priority = 1 }, param;
	int policy, err = pthread_setschedparam(t, SCHED_FIFO, &one);

	CHECK(err == 0 || err == EPERM);
	CHECK_EQ(pthread_getschedparam(t, &policy, &param), 0);
	CHECK_EQ(policy, err ? SCHED_OTHER : SCHED_FIFO);
	end_waiting(t);
}

/* --- attributes --- */

static void *stack_of_self(void *arg)
{
	pthread_attr_t attr;
	void *stack;
	size_t size;
	int state;

	CHECK_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	CHECK_EQ(pthread_attr_getstack(&attr, &stack, &size), 0);
	CHECK((char *)&attr > (char *)stack && (char *)&attr < (char *)stack + size);
	CHECK_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	CHECK_EQ(state, PTHREAD_CREATE_JOINABLE);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	return arg;
}

POSIX_TEST(getattr_of_self_gives_its_stack)
{
	CHECK_EQ(pthread_join(start(stack_of_self, NULL), NULL), 0);
}

POSIX_TEST(getattr_of_first_thread_gives_its_stack)
{
	pthread_attr_t attr;
	void *stack;
	size_t size;

	CHECK_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	CHECK_EQ(pthread_attr_getstack(&attr, &stack, &size), 0);
	CHECK((char *)&attr > (char *)stack && (char *)&attr < (char *)stack + size);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

POSIX_TEST(getattr_of_detached_thread_says_so)
{
	pthread_attr_t attr;
	int state;
	pthread_t t = start_waiting();

	CHECK_EQ(pthread_detach(t), 0);
	CHECK_EQ(pthread_getattr_np(t, &attr), 0);
	CHECK_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	CHECK_EQ(state, PTHREAD_CREATE_DETACHED);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
}
