/* SPDX-License-Identifier: MIT */
/* Program for gmp-run: each argument is a case of the first thread of a child of fork, and prints
 * the same natively and on green threads. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "child.h"

static pthread_mutex_t recursive, checked;

static void init_mutex(pthread_mutex_t *m, int type, int shared)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	pthread_mutexattr_setpshared(&a, shared);
	ENSURE(pthread_mutex_init(m, &a) == 0);
	pthread_mutexattr_destroy(&a);
}

static void lock_mutexes(void)
{
	init_mutex(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PROCESS_PRIVATE);
	init_mutex(&checked, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PROCESS_PRIVATE);
	ENSURE(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&checked) == 0);
}

static void unlock_mutexes(void)
{
	ENSURE(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
	ENSURE(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
	ENSURE(pthread_mutex_unlock(&checked) == 0);
}

static void *nothing(void *arg)
{
	return arg;
}

static void *become_other(void *arg)
{
	return geteuid() ? arg : change_user(arg);
}

/* Calls fn in a run of its own.  Natively there is none. */
static void call_in_run(void *(*fn)(void *))
{
	int (*run)(void *(*)(void *), void *, void *) =
		(int (*)(void *(*)(void *), void *, void *))(intptr_t)dlsym(RTLD_DEFAULT,
									    "gmp_run");

	if (run)
		ENSURE(run(fn, NULL, NULL) == 0);
	else
		fn(NULL);
}

/* Natively there is nothing to call. */
static int call_gmp(const char *name)
{
	int (*fn)(void *) = (int (*)(void *))(intptr_t)dlsym(RTLD_DEFAULT, name);

	return fn ? fn(NULL) : 0;
}

/* --- start: the program starts a runtime of its own in the child --- */

static int start_child(void)
{
	lock_mutexes();
	ENSURE(call_gmp("gmp_start") == 0);
	join(make(nothing, NULL));
	ENSURE(is_green(false));
	unlock_mutexes();
	join(make(become_other, NULL));
	return 3;
}

static int restart_child(void)
{
	lock_mutexes();
	ENSURE(call_gmp("gmp_start") == 0 && call_gmp("gmp_stop") == 0);
	ENSURE(call_gmp("gmp_start") == 0 && call_gmp("gmp_stop") == 0);
	join(make(nothing, NULL));
	ENSURE(is_green(true));
	unlock_mutexes();
	join(make(become_other, NULL));
	return 4;
}

static void *make_in_run(void *arg)
{
	ENSURE(is_green(true));
	join(make(nothing, NULL));
	join(make(become_other, NULL));
	return arg;
}

static int run_child(void)
{
	lock_mutexes();
	call_in_run(nothing);
	call_in_run(make_in_run);
	unlock_mutexes();
	return 5;
}

static int change_in_run_child(void)
{
	call_in_run(become_other);
	return 6;
}

static void start(void)
{
	printf("run %d\n", WEXITSTATUS(in_child(run_child)));
	printf("change_in_run %d\n", WEXITSTATUS(in_child(change_in_run_child)));
	printf("start %d\n", WEXITSTATUS(in_child(start_child)));
	printf("restart %d\n", WEXITSTATUS(in_child(restart_child)));
}

/* --- handler: a handler makes the first thread beside it --- */

static pthread_t made;

static void make_one(int sig)
{
	(void)sig;
	made = make(nothing, NULL);
}

static int handler_child(void)
{
	ENSURE(signal(SIGUSR1, make_one) != SIG_ERR);
	lock_mutexes();
	raise(SIGUSR1);
	unlock_mutexes();
	join(made);
	join(make(become_other, NULL));
	return 5;
}

static void handler(void)
{
	printf("handler %d\n", WEXITSTATUS(in_child(handler_child)));
}

/* --- helper: a thread that libc makes is there before --- */

static sem_t notified;

/* libc runs fn on a thread that it makes. */
static void run_beside(void (*fn)(union sigval))
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = fn };
	struct itimerspec soon = { .it_value = { 0, 1 } };
	timer_t timer;

	ENSURE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	ENSURE(timer_settime(timer, 0, &soon, NULL) == 0);
	while (sem_wait(&notified))
		ENSURE(errno == EINTR);
}

static void make_beside(union sigval value)
{
	(void)value;
	join(make(nothing, NULL));
	sem_post(&notified);
}

static void change_beside(union sigval value)
{
	(void)value;
	become_other(NULL);
	sem_post(&notified);
}

static void exit_beside(union sigval value)
{
	(void)value;
	sem_post(&notified);
	pthread_exit(NULL);
}

static int maker_child(void)
{
	lock_mutexes();
	run_beside(make_beside);
	unlock_mutexes();
	join(make(become_other, NULL));
	return 6;
}

static int changer_child(void)
{
	lock_mutexes();
	run_beside(change_beside);
	unlock_mutexes();
	join(make(nothing, NULL));
	return 7;
}

static void quit(void *code)
{
	_exit((int)(intptr_t)code);
}

/* The thread that exits is not the first one, which can be cancelled. */
static int exiter_child(void)
{
	run_beside(exit_beside);
	join(make(nothing, NULL));
	ENSURE(pthread_cancel(pthread_self()) == 0);
	pthread_cleanup_push(quit, (void *)8);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return 98;
}

static void helper(void)
{
	printf("maker %d\n", WEXITSTATUS(in_child(maker_child)));
	printf("changer %d\n", WEXITSTATUS(in_child(changer_child)));
	printf("exiter %d\n", WEXITSTATUS(in_child(exiter_child)));
}

/* --- ids: mutexes of the parent, and mutexes that both share --- */

enum { SHARED = 8 };

static struct shared {
	pthread_mutex_t recursive[SHARED], checked[SHARED];
	pthread_rwlock_t rw[SHARED];
	pthread_barrier_t all;
} * shared;

static void init_shared(void)
{
	pthread_rwlockattr_t a;
	pthread_barrierattr_t b;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	ENSURE(shared != MAP_FAILED);
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	for (int i = 0; i < SHARED; i++) {
		init_mutex(&shared->recursive[i], PTHREAD_MUTEX_RECURSIVE, PTHREAD_PROCESS_SHARED);
		init_mutex(&shared->checked[i], PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PROCESS_SHARED);
		ENSURE(pthread_rwlock_init(&shared->rw[i], &a) == 0);
	}
	pthread_barrierattr_init(&b);
	pthread_barrierattr_setpshared(&b, PTHREAD_PROCESS_SHARED);
	ENSURE(pthread_barrier_init(&shared->all, &b, SHARED) == 0);
}

static void *lock_shared(void *index)
{
	intptr_t i = (intptr_t)index;

	ENSURE(pthread_mutex_lock(&shared->recursive[i]) == 0);
	ENSURE(pthread_mutex_lock(&shared->checked[i]) == 0);
	ENSURE(pthread_rwlock_wrlock(&shared->rw[i]) == 0);
	return index;
}

/* They were locked by other threads. */
static void *try_shared(void *arg)
{
	static const struct timespec past;

	for (int i = 0; i < SHARED; i++) {
		ENSURE(pthread_mutex_trylock(&shared->recursive[i]) == EBUSY);
		ENSURE(pthread_mutex_unlock(&shared->recursive[i]) == EPERM);
		ENSURE(pthread_mutex_timedlock(&shared->checked[i], &past) == ETIMEDOUT);
		ENSURE(pthread_mutex_unlock(&shared->checked[i]) == EPERM);
		ENSURE(pthread_rwlock_timedwrlock(&shared->rw[i], &past) == ETIMEDOUT);
	}
	return arg;
}

static void *try_with_others(void *arg)
{
	pthread_barrier_wait(&shared->all); /* each of them has an id of its own */
	return try_shared(arg);
}

static int ids_child(void)
{
	pthread_t t[SHARED];

	try_shared(NULL);
	ENSURE(pthread_mutex_trylock(&recursive) == EBUSY);
	ENSURE(pthread_mutex_unlock(&recursive) == EPERM);
	ENSURE(pthread_mutex_unlock(&checked) == EPERM);
	for (int i = 0; i < SHARED; i++)
		t[i] = make(try_with_others, NULL);
	try_shared(NULL);
	for (int i = 0; i < SHARED; i++)
		join(t[i]);
	return 9;
}

static void *ids_of_child(void *arg)
{
	lock_mutexes();
	lock_shared((void *)0);
	printf("ids %d\n", WEXITSTATUS(in_child(ids_child)));
	unlock_mutexes();
	return arg;
}

static void *lock_and_stay(void *index)
{
	lock_shared(index);
	pthread_barrier_wait(&shared->all);
	pause();
	return index;
}

static void ids(void)
{
	init_shared();
	for (intptr_t i = 1; i < SHARED; i++)
		make(lock_and_stay, (void *)i);
	pthread_barrier_wait(&shared->all);
	ids_of_child(NULL);
}

/* --- early: fork handlers that were there before those of libgmprt_posix --- */

static char order[32];
static bool watches;

static void note(char c)
{
	order[strlen(order)] = c;
}

static void on_prepare(void)
{
	if (watches)
		note('a');
}

static void on_parent(void)
{
	if (watches)
		note('b');
}

/* A library that makes its threads again. */
static void on_child(void)
{
	struct timespec t = { 0, 1000000 };

	if (!watches)
		return;
	note('c');
	ENSURE(is_green(false) && os_threads() == 1);
	ENSURE(nanosleep(&t, NULL) == 0);
	made = make(nothing, NULL);
	ENSURE(is_green(true));
}

static void late_prepare(void)
{
	note('1');
}

static void late_parent(void)
{
	note('2');
}

static void late_child(void)
{
	note('3');
	join(made);
}

/* Before the constructors of libraries. */
static void register_early(void)
{
	pthread_atfork(on_prepare, on_parent, on_child);
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const before_all)(void) = register_early;

static int early_child(void)
{
	ENSURE(strcmp(order, "1ac3") == 0);
	join(make(become_other, NULL));
	return 10;
}

static void *early_of_thread(void *arg)
{
	order[0] = '\0';
	memset(order, 0, sizeof(order));
	printf("early %d\n", WEXITSTATUS(in_child(early_child)));
	ENSURE(strcmp(order, "1ab2") == 0);
	return arg;
}

static void early(void)
{
	watches = true;
	pthread_atfork(late_prepare, late_parent, late_child);
	early_of_thread(NULL);
	join(make(early_of_thread, NULL));
}

/* --- clock: the CPU time of a child is its own --- */

enum { BURNT_MS = 300 };

static int64_t thread_ms(void)
{
	struct timespec t;

	ENSURE(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static int clock_child(void)
{
	int64_t before = thread_ms();

	join(make(nothing, NULL));
	ENSURE(thread_ms() >= before && thread_ms() - before < BURNT_MS / 2);
	return 7;
}

static void clock_case(void)
{
	while (thread_ms() < BURNT_MS)
		;
	printf("clock %d\n", WEXITSTATUS(in_child(clock_child)));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} cases[] = { { "start", start }, { "handler", handler }, { "helper", helper },
		      { "ids", ids },     { "early", early },     { "clock", clock_case } };

	sem_init(&notified, 0, 0);
	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
			if (strcmp(argv[i], cases[k].name) == 0)
				cases[k].fn();
	return 0;
}
