/* SPDX-License-Identifier: MIT */
/* Program for gmp-run: each argument is a case of fork that prints the same natively and on green
 * threads.  gmp_self, which exists under gmp-run only, shows whether the caller is one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

enum { PARKED = 200, FORKS = 300, FEW = 20, LIBCS_STACK = 4 << 20 };

static void *nothing(void *arg)
{
	return arg;
}

/* Is it on the stack that libc tells for the caller? */
static bool is_on_stack(const void *at)
{
	pthread_attr_t attr;
	void *stack;
	size_t size;

	ENSURE(pthread_getattr_np(pthread_self(), &attr) == 0);
	ENSURE(pthread_attr_getstack(&attr, &stack, &size) == 0);
	pthread_attr_destroy(&attr);
	return (char *)at > (char *)stack && (char *)at < (char *)stack + size;
}

/* --- self: what must not change --- */

static _Thread_local int local = 1;
static pthread_key_t key;
static pthread_t me;
static int *on_stack, *at_local;
static pthread_mutex_t recursive, checked;

/* gmp/key.h, as a program that does not know gmp cannot call it. */
static unsigned gmp_key_of_self;

static void set_gmp_key(void)
{
	int (*create)(unsigned *, void (*)(void *)) = (int (*)(unsigned *, void (*)(void *)))(
		intptr_t)dlsym(RTLD_DEFAULT, "gmp_key_create");
	int (*set)(unsigned, void *) =
		(int (*)(unsigned, void *))(intptr_t)dlsym(RTLD_DEFAULT, "gmp_key_set");

	ENSURE(!create || (create(&gmp_key_of_self, NULL) == 0 && set(gmp_key_of_self, &key) == 0));
}

static bool has_gmp_key(void)
{
	void *(*get)(unsigned) = (void *(*)(unsigned))(intptr_t)dlsym(RTLD_DEFAULT, "gmp_key_get");

	return !get || get(gmp_key_of_self) == &key;
}

static void ensure_same(const int *here)
{
	cpu_set_t set;

	ENSURE(pthread_equal(pthread_self(), me));
	ENSURE(&local == at_local && local == 7);
	ENSURE(pthread_getspecific(key) == &key && has_gmp_key());
	ENSURE(here == on_stack && *here == 11);
	ENSURE(is_on_stack(here));
	ENSURE(pthread_getaffinity_np(me, sizeof(set), &set) == 0);
}

static int same_in_child(void)
{
	struct timespec t = { 0, 1000000 };

	ENSURE(errno == 0);
	ensure_same(on_stack);
	ENSURE(is_green(false) && os_threads() == 1);
	ENSURE(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&checked) == 0);
	errno = 123;
	pthread_t other = make(nothing, NULL);

	ENSURE(errno == 123);
	ENSURE(is_green(true));
	ensure_same(on_stack);
	nanosleep(&t, NULL);
	join(other);
	ensure_same(on_stack);
	ENSURE(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
	ENSURE(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
	ENSURE(pthread_mutex_unlock(&recursive) == EPERM && pthread_mutex_unlock(&checked) == 0);
	return 5;
}

static void *check_self(void *arg)
{
	int here = 11;
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&checked, &a);
	pthread_setspecific(key, &key);
	set_gmp_key();
	me = pthread_self();
	on_stack = &here;
	at_local = &local;
	local = 7;
	errno = 0;
	int status = in_child(same_in_child);

	printf("self %d\n", WEXITSTATUS(status));
	return arg;
}

static void self(void)
{
	pthread_key_create(&key, NULL);
	check_self(NULL);
	join(make(check_self, NULL));
}

/* --- park: a daemon whose first thread accepts, beside threads that wait --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waiting, listener, threads_of_os;
static bool ended;

static void *wait_for_end(void *arg)
{
	pthread_mutex_lock(&lock);
	waiting++;
	pthread_cond_broadcast(&changed);
	while (!ended)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return arg;
}

static void *connect_to(void *arg)
{
	struct sockaddr_storage to;
	socklen_t len = sizeof(to);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char byte;

	pthread_mutex_lock(&lock);
	while (waiting < PARKED)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	threads_of_os = os_threads();
	ENSURE(getsockname(listener, (struct sockaddr *)&to, &len) == 0);
	ENSURE(connect(fd, (struct sockaddr *)&to, len) == 0);
	ENSURE(read(fd, &byte, 1) == 1 && byte == 'x');
	close(fd);
	return arg;
}

static int serve(void)
{
	static pthread_t t[PARKED];

	ENSURE(setsid() == getpid());
	for (int i = 0; i < PARKED; i++)
		t[i] = make(wait_for_end, NULL);
	pthread_t client = make(connect_to, NULL);
	int fd = accept(listener, NULL, NULL);

	ENSURE(fd >= 0 && write(fd, "x", 1) == 1);
	join(client);
	ENSURE(is_green(true));
	ENSURE(!under_gmp() || threads_of_os < FEW);
	pthread_mutex_lock(&lock);
	ended = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < PARKED; i++)
		join(t[i]);
	close(fd);
	return 6;
}

/* The parent of the daemon exits; the reader of the pipe learns its result. */
static void park(void)
{
	struct sockaddr at = { .sa_family = AF_UNIX };
	int result[2];
	char code;

	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	ENSURE(bind(listener, &at, sizeof(at.sa_family)) == 0 && listen(listener, 8) == 0);
	ENSURE(pipe(result) == 0);
	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		if (fork())
			_exit(0);
		code = (char)serve();
		ENSURE(write(result[1], &code, 1) == 1);
		_exit(0);
	}
	ENSURE(waitpid(pid, NULL, 0) == pid);
	close(result[1]);
	ENSURE(read(result[0], &code, 1) == 1);
	printf("park %d\n", code);
}

/* --- nested: the first thread forks, then a thread of the child, and so on --- */

static sem_t notified;

static void notify(union sigval value)
{
	ENSURE(is_on_stack(&value));
	sem_post(&notified);
}

/* libc runs notify on a thread that it makes.  If it took the block of a green thread for the end
 * of an unused stack of the default size, it would use that. */
static void await_thread_of_libc(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify };
	struct itimerspec soon = { .it_value = { 0, 1 } };
	pthread_attr_t attr;
	timer_t timer;

	pthread_attr_init(&attr);
	ENSURE(pthread_attr_setstacksize(&attr, LIBCS_STACK) == 0);
	event.sigev_notify_attributes = &attr;
	ENSURE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	ENSURE(timer_settime(timer, 0, &soon, NULL) == 0);
	while (sem_wait(&notified))
		ENSURE(errno == EINTR);
	ENSURE(timer_delete(timer) == 0);
}

static int depth;

static int nested_child(void);

static void *nest(void *status)
{
	if (depth < 6)
		*(int *)status = in_child(nested_child);
	return NULL;
}

static int nested_child(void)
{
	int status = 0;

	depth++;
	ENSURE(is_green(false) && os_threads() == 1);
	if (depth % 3 == 0) { /* before the runtime */
		nest(&status);
		await_thread_of_libc();
		return WEXITSTATUS(status) + 1;
	}
	await_thread_of_libc();
	join(make(nothing, NULL));
	ENSURE(is_green(true));
	if (depth % 3 == 1)
		join(make(nest, &status));
	else
		nest(&status);
	join(make(nothing, NULL));
	await_thread_of_libc();
	return WEXITSTATUS(status) + 1;
}

static void nested(void)
{
	printf("nested %d\n", WEXITSTATUS(in_child(nested_child)));
}

/* --- loop: many children --- */

static int child_of_loop(void)
{
	if (depth % 2)
		join(make(nothing, NULL));
	return depth % 7;
}

static void loop(void)
{
	int sum = 0;

	for (depth = 0; depth < FORKS; depth++)
		sum += WEXITSTATUS(in_child(child_of_loop));
	printf("loop %d\n", sum);
}

/* --- held: a fork with a lock for which threads wait (gevent#1895) --- */

static struct {
	pthread_mutex_t mutex;
	sem_t sem;
} held_of = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void *wait_for_held(void *arg)
{
	ENSURE(pthread_mutex_lock(&held_of.mutex) == 0);
	ENSURE(pthread_mutex_unlock(&held_of.mutex) == 0);
	ENSURE(sem_wait(&held_of.sem) == 0);
	return arg;
}

/* With waiters in the parent that the child does not have. */
static void hand_on(void)
{
	ENSURE(pthread_mutex_unlock(&held_of.mutex) == 0);
	for (int i = 0; i < FEW; i++)
		ENSURE(sem_post(&held_of.sem) == 0);
}

static int child_with_held(void)
{
	pthread_t t[FEW];

	hand_on();
	ENSURE(pthread_mutex_lock(&held_of.mutex) == 0);
	for (int i = 0; i < FEW; i++)
		t[i] = make(wait_for_held, NULL);
	ENSURE(pthread_mutex_unlock(&held_of.mutex) == 0);
	for (int i = 0; i < FEW; i++)
		join(t[i]);
	return 8;
}

static void held(void)
{
	pthread_t t[FEW];

	ENSURE(sem_init(&held_of.sem, 0, 0) == 0);
	ENSURE(pthread_mutex_lock(&held_of.mutex) == 0);
	for (int i = 0; i < FEW; i++)
		t[i] = make(wait_for_held, NULL);
	nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	printf("held %d\n", WEXITSTATUS(in_child(child_with_held)));
	hand_on();
	for (int i = 0; i < FEW; i++)
		join(t[i]);
}

/* --- busy: forks of threads that compute, so that they run without a P --- */

static atomic_bool stop;

static void *compute(void *arg)
{
	while (!stop)
		;
	return arg;
}

static int busy_child(void)
{
	struct timespec t = { 0, 1000000 };

	stop = true;
	pthread_t other = make(nothing, NULL);

	nanosleep(&t, NULL);
	join(other);
	return 3;
}

static void *fork_busily(void *sum)
{
	struct timespec begin, now;

	for (int i = 0; i < 5; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec <
		       30000000);
		__atomic_fetch_add((int *)sum, WEXITSTATUS(in_child(busy_child)), __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void busy(void)
{
	pthread_t t[3] = { make(compute, NULL), make(compute, NULL) };
	int sum = 0;

	t[2] = make(fork_busily, &sum);
	fork_busily(&sum);
	stop = true;
	for (int i = 0; i < 3; i++)
		join(t[i]);
	printf("busy %d\n", sum);
}

/* --- exec: no runtime starts --- */

static int sync_pipe[2];

static int exec_child(void)
{
	char byte;
	struct sigaction sa = { .sa_handler = SIG_IGN };
	struct timespec t = { 0, 1000000 };
	sigset_t set;

	ENSURE(read(sync_pipe[0], &byte, 1) == 1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	ENSURE(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	ENSURE(sigaction(SIGUSR1, &sa, NULL) == 0);
	ENSURE(nanosleep(&t, NULL) == 0);
	ENSURE(dup2(sync_pipe[0], 100) == 100);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	ENSURE(os_threads() == 1 && is_green(false));
	close_range(3, ~0u, 0);
	execl("/bin/sh", "sh", "-c", "exit 8", NULL);
	return 99;
}

static void *let_exec(void *arg)
{
	ENSURE(write(sync_pipe[1], "x", 1) == 1);
	return arg;
}

static void exec(void)
{
	ENSURE(pipe(sync_pipe) == 0);
	pthread_t t = make(let_exec, NULL);

	printf("exec %d\n", WEXITSTATUS(in_child(exec_child)));
	join(t);
}

/* --- users: all OS threads of the child change their user --- */

static int users_child(void)
{
	if (depth == 2)
		change_user(NULL);
	join(make(nothing, NULL));
	if (depth == 0)
		join(make(change_user, NULL));
	else
		change_user(NULL);
	return 2;
}

static void users(void)
{
	for (depth = 0; depth < 3; depth++)
		printf("users %d\n", geteuid() ? 2 : WEXITSTATUS(in_child(users_child)));
}

/* The child's first OS thread runs no green thread, or another one than main. */
static int users_later_child(void)
{
	pthread_t t = make(nothing, NULL);

	for (int i = 0; i < 500 && gettid() == getpid(); i++)
		usleep(100);
	change_user(NULL);
	join(t);
	return 2;
}

/* The parent has had a child without libc's fork. */
static void users_later(void)
{
	pid_t pid = _Fork();
	int status = -1;

	if (pid == 0)
		_exit(0);
	waitpid(pid, &status, 0);
	printf("copy %d\n", status);
	for (int i = 0; i < 3; i++)
		printf("users %d\n", geteuid() ? 2 : WEXITSTATUS(in_child(users_later_child)));
}

/* --- signals --- */

static volatile sig_atomic_t handled, interrupting;
static pthread_t handled_on;

static void on_signal(int sig)
{
	handled += sig == SIGUSR2;
	handled_on = pthread_self();
}

/* Until a handler has ended the wait of the first thread. */
static void *send_to_process(void *arg)
{
	struct timespec t = { 0, 1000000 };

	while (interrupting) {
		kill(getpid(), SIGUSR1);
		nanosleep(&t, NULL);
	}
	return arg;
}

static void *has_blocked(void *sig)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return (void *)(long)sigismember(&set, (int)(long)sig);
}

static int signals_child(void)
{
	int fds[2];
	char byte;
	sigset_t set;
	void *blocked;
	pthread_t first = pthread_self();

	ENSURE(raise(SIGUSR2) == 0 && handled == 1);
	ENSURE(pipe(fds) == 0);
	ENSURE(has_blocked((void *)SIGHUP));
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	ENSURE(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	ENSURE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	ENSURE(pthread_join(make(has_blocked, (void *)SIGUSR2), &blocked) == 0 && blocked);
	ENSURE(has_blocked((void *)SIGUSR2) && !has_blocked((void *)SIGHUP));
	interrupting = 1;
	pthread_t t = make(send_to_process, NULL);

	ENSURE(read(fds[0], &byte, 1) == -1 && errno == EINTR);
	ENSURE(pthread_equal(handled_on, first));
	interrupting = 0;
	join(t);
	ENSURE(kill(getpid(), SIGUSR2) == 0 && handled == 1);
	ENSURE(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
	while (handled < 2) /* the signal thread may bring it */
		sched_yield();
	ENSURE(raise(SIGUSR2) == 0 && handled == 3);
	ENSURE(pthread_kill(first, SIGUSR2) == 0 && handled == 4);
	return 9;
}

/* A handler that interrupts a wait forks; the child continues with what follows the wait. */
static volatile pid_t pid_of_handler;
static pthread_t made_in_handler;

static void fork_in_handler(int sig)
{
	(void)sig;
	pid_of_handler = fork();
	if (pid_of_handler == 0 && depth == 1)
		made_in_handler = make(nothing, NULL);
}

static int child_of_handler(void)
{
	struct timespec t = { 0, 1000000 };

	if (depth == 1)
		join(made_in_handler);
	pthread_t other = make(nothing, NULL);

	ENSURE(is_green(depth == 0));
	nanosleep(&t, NULL);
	join(other);
	if (geteuid() == 0)
		join(make(change_user, NULL));
	return 12;
}

static void handler_forks(void)
{
	sigset_t alarm_only, before;
	int status;

	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarm_only, &before);
	signal(SIGALRM, fork_in_handler);
	fflush(stdout);
	kill(getpid(), SIGALRM);
	pid_of_handler = -1;
	while (pid_of_handler < 0)
		sigsuspend(&before);
	if (pid_of_handler == 0)
		_exit(child_of_handler());
	ENSURE(waitpid(pid_of_handler, &status, 0) == pid_of_handler);
	sigprocmask(SIG_SETMASK, &before, NULL);
	printf("handler %d\n", WEXITSTATUS(status));
}

static void signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigset_t set;

	ENSURE(sigaction(SIGUSR1, &sa, NULL) == 0 && sigaction(SIGUSR2, &sa, NULL) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	ENSURE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	printf("signals %d\n", WEXITSTATUS(in_child(signals_child)));
	handler_forks();
	depth = 1;
	handler_forks();
}

/* --- exits: the end of the first thread --- */

static void destroyed(void *value)
{
	printf("destructor %d\n", *(int *)value);
	fflush(stdout);
}

static void *join_first(void *arg)
{
	void *got;

	ENSURE(pthread_join(me, &got) == 0);
	printf("first returned %ld\n", (long)got);
	return arg;
}

static void *fork_and_return(void *arg)
{
	static int value = 4;
	int status;

	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		me = pthread_self();
		pthread_setspecific(key, &value);
		make(join_first, NULL);
		return (void *)17;
	}
	ENSURE(waitpid(pid, &status, 0) == pid);
	printf("exits %d\n", WEXITSTATUS(status));
	return arg;
}

static void *fork_and_exit(void *arg)
{
	fork_and_return(arg);
	if (pthread_equal(me, pthread_self()))
		pthread_exit((void *)18);
	return arg;
}

static int cancelled_child(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	me = pthread_self();
	make(join_first, NULL);
	pthread_cancel(me);
	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	ENSURE(state == PTHREAD_CANCEL_DISABLE);
	pause();
	return 99;
}

static void exits(void)
{
	pthread_key_create(&key, destroyed);
	join(make(fork_and_return, NULL));
	me = 0;
	join(make(fork_and_exit, NULL));
	printf("cancelled %d\n", WEXITSTATUS(in_child(cancelled_child)));
}

/* --- outside: a thread on a stack of the program forks --- */

static int outside_child(void)
{
	join(make(nothing, NULL));
	return is_green(false) ? 4 : 98;
}

static void *fork_outside(void *arg)
{
	printf("outside %d\n", WEXITSTATUS(in_child(outside_child)));
	return arg;
}

static void outside(void)
{
	enum { STACK = 1 << 20 };
	pthread_attr_t attr;
	pthread_t t;
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ENSURE(stack != MAP_FAILED);
	pthread_attr_init(&attr);
	ENSURE(pthread_attr_setstack(&attr, stack, STACK) == 0);
	ENSURE(pthread_create(&t, &attr, fork_outside, NULL) == 0);
	join(t);
}

/* --- overflow: the stack of the first thread has its guard --- */

static int overflow(int n)
{
	volatile char frame[1024];

	frame[0] = (char)n;
	return overflow(n + 1) + frame[0];
}

static int overflow_child(void)
{
	join(make(nothing, NULL));
	return overflow(0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} cases[] = { { "self", self },       { "park", park },
		      { "nested", nested },   { "loop", loop },
		      { "busy", busy },       { "exec", exec },
		      { "signals", signals }, { "exits", exits },
		      { "users", users },     { "users_later", users_later },
		      { "outside", outside }, { "held", held } };

	for (int i = 1; i < argc; i++) {
		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
			if (strcmp(argv[i], cases[k].name) == 0)
				cases[k].fn();
		if (strcmp(argv[i], "overflow") == 0)
			printf("signal %d\n", WTERMSIG(in_child(overflow_child)));
	}
	return 0;
}
