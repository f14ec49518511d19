/* SPDX-License-Identifier: MIT */
/*
 * libgmprt_posix without memory, fds or OS threads: each replaced function succeeds, in another way
 * if need be, or returns the error that POSIX has for it; a later call succeeds.
 *
 * The program is linked with the objects of libgmprt_posix, whose calls of libc are wrapped.
 */
#define _GNU_SOURCE 1
#include "faults.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* --- libc's functions behind replacements (posix/call/real.h) --- */

#define HIDDEN __attribute__((visibility("hidden")))

extern HIDDEN int (*gmp__real_clock_gettime)(clockid_t clock, struct timespec *t);
extern HIDDEN int (*gmp__real_getrusage)(int who, struct rusage *usage);
extern HIDDEN int (*gmp__real_clone)(int (*fn)(void *), void *stack, int flags, void *arg, ...);

static __typeof__(gmp__real_clock_gettime) libc_clock_gettime;
static __typeof__(gmp__real_getrusage) libc_getrusage;
static __typeof__(gmp__real_clone) libc_clone;

static int faulty_clock_gettime(clockid_t clock, struct timespec *t)
{
	return clock == CLOCK_THREAD_CPUTIME_ID && plan_due(F_cpu_clock)
		       ? -1
		       : libc_clock_gettime(clock, t);
}

static int faulty_getrusage(int who, struct rusage *usage)
{
	return who == RUSAGE_THREAD && plan_due(F_cpu_usage) ? -1 : libc_getrusage(who, usage);
}

static int faulty_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	return plan_due(F_clone) ? -1 : libc_clone(fn, stack, flags, arg, NULL, NULL, NULL);
}

__attribute__((constructor)) static void replace_libc(void)
{
	libc_clock_gettime = gmp__real_clock_gettime;
	libc_getrusage = gmp__real_getrusage;
	libc_clone = gmp__real_clone;
	gmp__real_clock_gettime = faulty_clock_gettime;
	gmp__real_getrusage = faulty_getrusage;
	gmp__real_clone = faulty_clone;
}

static bool has_own_tls;

static int run_once(int procs, gmp_fn fn)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.flags = GMP_OWN_TLS;
	return gmp_run(fn, NULL, &cfg);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Before the sweeps, the runtime finds out where glibc has the thread-locals, once per process. */
__attribute__((constructor)) static void find_own_tls(void)
{
	has_own_tls = run_once(1, nothing) == 0;
}

static void run(int procs, gmp_fn fn)
{
	if (!has_own_tls)
		check_skip("no own thread-locals on this machine");
	ASK_OR(run_once(procs, fn), -EAGAIN);
}

/* The result of a call that sets errno, as a negative errno value. */
#define NEGATIVE(call) ((call) < 0 ? -errno : 0)

/* pthread_create: false without memory, which is EAGAIN. */
static bool create(pthread_t *t, void *(*fn)(void *), void *arg)
{
	return ASK_OR(-pthread_create(t, NULL, fn, arg), -EAGAIN) == 0;
}

static void join(pthread_t t)
{
	void *value = NULL;

	CHECK_EQ(pthread_join(t, &value), 0);
	CHECK(value != NULL);
}

/* --- threads --- */

static int destroyed;

static void destroy(void *arg)
{
	(void)arg;
	destroyed++;
}

static void *set_key(void *key)
{
	bool set = ASK(-pthread_setspecific(*(pthread_key_t *)key, key)) == 0;

	return set ? key : PTHREAD_CANCELED;
}

static void *end_at_once(void *arg)
{
	pthread_exit(arg);
}

static int c11_main(void *arg)
{
	return arg != NULL;
}

static void use_threads(void *arg)
{
	pthread_attr_t a;
	pthread_key_t key;
	pthread_t t;
	thrd_t c11;
	int result = 0;

	(void)arg;
	if (create(&t, end_at_once, &t))
		join(t);
	if (ASK(-pthread_key_create(&key, destroy)) == 0) {
		destroyed = 0;
		if (create(&t, set_key, &key)) {
			void *value = NULL;

			CHECK_EQ(pthread_join(t, &value), 0);
			CHECK_EQ(destroyed, value == &key);
		}
		CHECK_EQ(pthread_key_delete(key), 0);
	}
	if (ASK(-pthread_attr_init(&a)) == 0) {
		CHECK(pthread_attr_setstacksize(&a, 1 << 20) == 0 || plan_fired());
		if (ASK_OR(-pthread_create(&t, &a, end_at_once, &key), -EAGAIN) == 0)
			join(t);
		pthread_attr_destroy(&a);
	}
	int made = thrd_create(&c11, c11_main, &t);

	CHECK(made == thrd_success || ((made == thrd_nomem || made == thrd_error) && plan_fired()));
	if (made == thrd_success) {
		CHECK_EQ(thrd_join(c11, &result), thrd_success);
		CHECK_EQ(result, 1);
	}
}

SWEEP(threads_are_made_or_eagain)
{
	run(procs, use_threads);
}

static void *sleep_long(void *arg)
{
	while (sleep(1000) == 0)
		;
	return arg;
}

static void use_cancel(void *arg)
{
	void *value = NULL;
	pthread_t t;

	(void)arg;
	if (!create(&t, sleep_long, NULL))
		return;
	CHECK_EQ(pthread_cancel(t), 0);
	CHECK_EQ(pthread_join(t, &value), 0);
	CHECK(value == PTHREAD_CANCELED);
}

SWEEP(thread_is_cancelled_without_memory)
{
	run(procs, use_cancel);
}

/* --- waits --- */

static struct {
	pthread_mutex_t m;
	pthread_cond_t c;
	pthread_rwlock_t rw;
	sem_t s, back;
	int n;
} shared;

static void *use_objects(void *arg)
{
	struct timespec soon;

	CHECK_EQ(sem_wait(&shared.s), 0);
	CHECK_EQ(pthread_mutex_lock(&shared.m), 0);
	shared.n++;
	CHECK_EQ(pthread_cond_broadcast(&shared.c), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared.m), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&shared.rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&shared.rw), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	CHECK_EQ(sem_timedwait(&shared.back, &soon), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	return arg;
}

static void wait_for_objects(void *arg)
{
	pthread_t t[3];
	bool made[3];
	int n = 0;

	(void)arg;
	memset(&shared, 0, sizeof(shared));
	CHECK_EQ(pthread_mutex_init(&shared.m, NULL), 0);
	CHECK_EQ(pthread_cond_init(&shared.c, NULL), 0);
	CHECK_EQ(pthread_rwlock_init(&shared.rw, NULL), 0);
	CHECK_EQ(sem_init(&shared.s, 0, 0), 0);
	CHECK_EQ(sem_init(&shared.back, 0, 0), 0);
	CHECK_EQ(pthread_rwlock_wrlock(&shared.rw), 0);
	for (int i = 0; i < 3; i++)
		n += made[i] = create(&t[i], use_objects, &t[i]);
	for (int i = 0; i < n; i++)
		CHECK_EQ(sem_post(&shared.s), 0);
	CHECK_EQ(pthread_mutex_lock(&shared.m), 0);
	while (shared.n < n)
		CHECK_EQ(pthread_cond_wait(&shared.c, &shared.m), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared.m), 0);
	CHECK_EQ(pthread_rwlock_unlock(&shared.rw), 0);
	for (int i = 0; i < 3; i++)
		if (made[i])
			join(t[i]);
}

SWEEP(objects_never_lack_memory)
{
	run(procs, wait_for_objects);
}

/* --- fds --- */

static int ends[2];

static void *write_byte(void *arg)
{
	struct timespec t = { 0, 1000000 };

	CHECK_EQ(nanosleep(&t, NULL), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	return arg;
}

static long do_read(void)
{
	char c;

	return NEGATIVE(read(ends[0], &c, 1));
}

static long do_poll(void)
{
	struct pollfd p[2] = { { .fd = ends[0], .events = POLLIN },
			       { .fd = ends[1], .events = POLLRDHUP } };

	return NEGATIVE(poll(p, 2, 10000));
}

static long do_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(ends[0], &in);
	int result = (int)NEGATIVE(select(ends[0] + 1, &in, NULL, NULL, NULL));

	CHECK(FD_ISSET(ends[0], &in)); /* an error leaves the sets */
	return result;
}

static long do_epoll(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		return -errno;
	long result = NEGATIVE(epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &e));

	if (!result)
		result = NEGATIVE(epoll_wait(ep, &e, 1, 10000));
	CHECK_EQ(close(ep), 0);
	return result;
}

/* The wait ends after a byte was written by another thread, if there is memory for it. */
static void wait_for_byte(long (*wait)(void), bool takes)
{
	pthread_t t;
	char c;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	bool made = create(&t, write_byte, &t);

	if (!made)
		CHECK_EQ(write(ends[1], "x", 1), 1);
	if (plan_now() == PLAN_ALL)
		plan_end(); /* without the poller the wait is blocking code, which needs a thread */
	bool got = ASK(wait()) == 0;

	if (made)
		join(t);
	if (!got || !takes)
		CHECK_EQ(read(ends[0], &c, 1), 1);
	CHECK_EQ(close(ends[0]), 0);
	CHECK_EQ(close(ends[1]), 0);
}

static void use_fds(void *arg)
{
	(void)arg;
	wait_for_byte(do_read, true);
	wait_for_byte(do_poll, false);
	wait_for_byte(do_select, false);
	wait_for_byte(do_epoll, false);
}

SWEEP(waits_for_fds_end_with_the_event)
{
	run(procs, use_fds);
}

/* --- signals --- */

static atomic_int handled;

static void on_signal(int signo)
{
	(void)signo;
	atomic_fetch_add(&handled, 1);
}

static void *unblock_and_wait(void *arg)
{
	sigset_t usr2;

	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &usr2, NULL), 0);
	return arg;
}

static void use_signals(void *arg)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;
	struct timespec t = { 10, 0 };
	sigset_t usr1;
	pthread_t thread;
	int got;

	(void)arg;
	atomic_store(&handled, 0);
	if (ASK(NEGATIVE(sigaction(SIGUSR1, &sa, &old))) < 0)
		return;
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	while (!atomic_load(&handled))
		sched_yield();
	CHECK_EQ(atomic_load(&handled), 1);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(sigwait(&usr1, &got), 0);
	CHECK_EQ(got, SIGUSR1);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(sigtimedwait(&usr1, NULL, &t) < 0 ? -errno : SIGUSR1, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
	if (create(&thread, unblock_and_wait, &thread))
		join(thread);
	CHECK_EQ(atomic_load(&handled), 1);
	CHECK(sigaction(SIGUSR1, &old, NULL) == 0 || plan_fired());
}

SWEEP(signals_are_handled_and_taken)
{
	run(procs, use_signals);
}

/* --- processes --- */

static void use_processes(void *arg)
{
	int status = -1;
	pid_t pid = fork();

	(void)arg;
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(3);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 3 << 8);
	CHECK_EQ(system("exit 4"), 4 << 8);
	FILE *f = popen("exit 5", "r");

	CHECK(f != NULL);
	CHECK_EQ(pclose(f), 5 << 8);
}

SWEEP(processes_are_waited_for)
{
	run(procs, use_processes);
}

/* --- CPU time --- */

enum { COMPUTED_NS = 3000000, EXCESS_NS = 2000000, READINGS = 4 };

static int64_t ns_of(time_t s, long ns)
{
	return s * INT64_C(1000000000) + ns;
}

static int64_t process_time(void)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return ns_of(t.tv_sec, t.tv_nsec);
}

/* Both return -1 after a fault. */
static int64_t thread_clock(void)
{
	struct timespec t;

	if (ASK(NEGATIVE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))) < 0)
		return -1;
	return ns_of(t.tv_sec, t.tv_nsec);
}

static int64_t thread_usage(void)
{
	struct rusage r;

	if (ASK(NEGATIVE(getrusage(RUSAGE_THREAD, &r))) < 0)
		return -1;
	return ns_of(r.ru_utime.tv_sec + r.ru_stime.tv_sec,
		     (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000L);
}

/* A clock neither goes backwards nor is faster than that of the process. */
static void check_clock(int64_t (*clock)(void))
{
	int64_t all = process_time(), last = clock();

	for (int i = 0; i < READINGS; i++) {
		CHECK_EQ(usleep(100), 0);
		int64_t before = process_time(), now = clock();
		int64_t most = process_time() - all + EXCESS_NS;

		if (last >= 0 && now >= 0)
			CHECK(now >= last && now - last <= most);
		if (now >= 0) {
			last = now;
			all = before;
		}
	}
}

static void use_cpu_clocks(void *arg)
{
	int64_t begin = process_time();

	(void)arg;
	while (process_time() - begin < COMPUTED_NS)
		;
	check_clock(thread_clock);
	check_clock(thread_usage);
}

SWEEP(cpu_clocks_stay_monotonic)
{
	run(procs, use_cpu_clocks);
}

/* --- clone --- */

static _Alignas(16) char child_stack[64 * 1024];

static int child_main(void *arg)
{
	(void)arg;
	return 6;
}

static void check_child(int flags)
{
	int status = 0;
	int pid = clone(child_main, child_stack + sizeof(child_stack), flags | SIGCHLD, NULL);

	if (ASK_ONCE(pid < 0 ? -errno : pid) < 0)
		return;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 6 << 8);
}

static void use_clone(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2; i++) {
		check_child(0);
		check_child(CLONE_VM | CLONE_VFORK);
	}
	siginfo_t info;

	CHECK_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOHANG), -1);
	CHECK_EQ(errno, ECHILD);
}

SWEEP(clone_reports_error_or_makes_a_child)
{
	run(procs, use_clone);
}
