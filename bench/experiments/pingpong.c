/* SPDX-License-Identifier: MIT */
/*
 * Measures a message between two OS threads, and between two green threads.
 *
 * The claim: a switch between OS threads runs through the kernel and costs microseconds (more, if
 * the other OS thread sleeps on another CPU); a switch between green threads is a jump and costs a
 * few dozen nanoseconds.
 *
 * Two threads pass a number back and forth; each adds one, and the final value is checked.
 *   pipe, cond, futex   OS threads, by two pipes, a condition variable, a futex; on PROCS CPUs
 *   sched_yield         OS threads that only yield to each other, on one CPU
 *   chan                green threads, by unbuffered channels
 *   yield               green threads that only yield to each other
 * The figure is half a round trip: one message and one switch.
 */
#include "exp.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char usage[] = "exp-pingpong pipe|cond|futex|sched_yield|chan|yield ROUNDS PROCS";

static int rounds;
static uint64_t value; /* each round adds 2 */

/* --- threads --- */

static int there[2], back[2];

static void pipe_pass(int in, int out, uint64_t *v)
{
	exp_check(read(in, v, sizeof(*v)) == sizeof(*v), "read");
	++*v;
	exp_check(write(out, v, sizeof(*v)) == sizeof(*v), "write");
}

static void *pipe_answer(void *arg)
{
	uint64_t v;

	for (int i = 0; i < rounds; i++)
		pipe_pass(there[0], back[1], &v);
	return arg;
}

static void pipe_ask(void)
{
	uint64_t v = 0;

	exp_check(write(there[1], &v, sizeof(v)) == sizeof(v), "write");
	for (int i = 1; i < rounds; i++)
		pipe_pass(back[0], there[1], &v);
	exp_check(read(back[0], &v, sizeof(v)) == sizeof(v), "read");
	value = v + 1;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static uint32_t turn; /* the thread that runs next */

static void cond_play(uint32_t me)
{
	for (int i = 0; i < rounds; i++) {
		pthread_mutex_lock(&mutex);
		while (turn != me)
			pthread_cond_wait(&turned, &mutex);
		value++;
		turn = !me;
		pthread_cond_signal(&turned);
		pthread_mutex_unlock(&mutex);
	}
}

static void futex_play(uint32_t me)
{
	for (int i = 0; i < rounds; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !me, NULL, NULL, 0);
		value++;
		__atomic_store_n(&turn, !me, __ATOMIC_RELEASE);
		syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

static void yield_play(uint32_t me)
{
	for (int i = 0; i < rounds; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me)
			sched_yield();
		value++;
		__atomic_store_n(&turn, !me, __ATOMIC_RELEASE);
	}
}

static void (*play)(uint32_t me);

static void *second(void *arg)
{
	play(1);
	return arg;
}

static void first(void)
{
	play(0);
}

/* Bind the caller, and the threads that it starts, to the first n CPUs of its affinity mask. */
static void keep_to_cpus(int n)
{
	cpu_set_t all, some;

	exp_check(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
	CPU_ZERO(&some);
	for (int i = 0; i < CPU_SETSIZE && n > 0; i++)
		if (CPU_ISSET(i, &all)) {
			CPU_SET(i, &some);
			n--;
		}
	exp_check(sched_setaffinity(0, sizeof(some), &some) == 0, "sched_setaffinity");
}

static void report(int64_t ns, int64_t cpu)
{
	double n = 2.0 * rounds;

	exp_check(value == 2 * (uint64_t)rounds, "%llu passed on", (unsigned long long)value);
	exp_figure("message", "ns", (double)ns / n);
	exp_figure("cpu", "ns", (double)cpu / n);
	fflush(stdout);
}

static void by_threads(void *(*answer)(void *), void (*ask)(void), int cpus)
{
	pthread_t t;
	int64_t cpu = exp_cpu(), t0 = exp_clock();

	keep_to_cpus(cpus);
	exp_check(pipe(there) == 0 && pipe(back) == 0, "pipe");
	exp_check(pthread_create(&t, NULL, answer, NULL) == 0, "pthread_create");
	ask();
	pthread_join(t, NULL);
	report(exp_clock() - t0, exp_cpu() - cpu);
}

/* --- green threads --- */

static gmp_chan *gthere, *gback;
static gmp_wg done;

static void chan_answer(void *arg)
{
	uint64_t v;

	(void)arg;
	for (int i = 0; i < rounds; i++) {
		gmp_chan_recv(gthere, &v);
		v++;
		gmp_chan_send(gback, &v);
	}
}

static void chan_app(void *arg)
{
	int64_t cpu = exp_cpu(), t0 = exp_clock();
	uint64_t v = 0;

	(void)arg;
	gthere = exp_chan(sizeof(v), 0);
	gback = exp_chan(sizeof(v), 0);
	exp_go(chan_answer, NULL);
	for (int i = 0; i < rounds; i++) {
		gmp_chan_send(gthere, &v);
		gmp_chan_recv(gback, &v);
		v++;
	}
	value = v;
	report(exp_clock() - t0, exp_cpu() - cpu);
}

/* With one P, each yield is a switch to the other green thread. */
static void yield_answer(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++) {
		exp_add(&value, 1);
		gmp_yield();
	}
	gmp_wg_done(&done);
}

static void yield_app(void *arg)
{
	int64_t cpu = exp_cpu(), t0 = exp_clock();

	(void)arg;
	gmp_wg_add(&done, 1);
	exp_go(yield_answer, NULL);
	for (int i = 0; i < rounds; i++) {
		exp_add(&value, 1);
		gmp_yield();
	}
	gmp_wg_wait(&done);
	report(exp_clock() - t0, exp_cpu() - cpu);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	int procs = exp_count(argc, argv, 3, usage);

	rounds = exp_count(argc, argv, 2, usage);
	if (!strcmp(way, "chan") || !strcmp(way, "yield")) {
		exp_run(*way == 'c' ? chan_app : yield_app, procs);
		return 0;
	}
	if (!strcmp(way, "pipe")) {
		by_threads(pipe_answer, pipe_ask, procs);
		return 0;
	}
	play = !strcmp(way, "cond")          ? cond_play
	       : !strcmp(way, "futex")       ? futex_play
	       : !strcmp(way, "sched_yield") ? yield_play
					     : NULL;
	exp_check(play, "usage: %s", usage);
	by_threads(second, first, procs);
	return 0;
}
