/* SPDX-License-Identifier: MIT */
/* Program for gmp-run: each argument is a case of the end of threads, or of the process, and prints
 * the same natively and on green threads. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>

#include "child.h"

enum { STACK = 1 << 20 };

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* On a stack of the program: an OS thread. */
static pthread_t make_outside(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t t;
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ENSURE(stack != MAP_FAILED);
	pthread_attr_init(&attr);
	ENSURE(pthread_attr_setstack(&attr, stack, STACK) == 0);
	ENSURE(pthread_create(&t, &attr, fn, arg) == 0);
	return t;
}

/* If the process ended too early, it would end here. */
static void pass_time(void)
{
	struct timespec t = { 0, 50000000 };

	while (nanosleep(&t, &t))
		;
}

/* --- jump: a thread leaves blocking code by siglongjmp, and ends --- */

static sigjmp_buf jump_to;
static pid_t sleeper;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(jump_to, 1);
}

/* Is a thread of the process in wait? */
static bool one_waits(void)
{
	char path[300];
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	bool found = false;

	ENSURE(d);
	while (!found && (e = readdir(d))) {
		long number = -1;

		snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", e->d_name);
		FILE *f = fopen(path, "r");

		if (!f)
			continue;
		found = fscanf(f, "%ld", &number) == 1 && number == SYS_wait4;
		fclose(f);
	}
	closedir(d);
	return found;
}

/* Sends the signal when the kernel has the thread. */
static void *interrupt(void *thread)
{
	struct timespec t = { 0, 1000000 };

	while (!one_waits())
		nanosleep(&t, NULL);
	ENSURE(pthread_kill(*(pthread_t *)thread, SIGUSR1) == 0);
	return NULL;
}

/* Waits for any child, of which the only one sleeps. */
static void wait_and_jump(void)
{
	if (sigsetjmp(jump_to, 1) == 0) {
		for (;;)
			wait(NULL);
	}
}

static void *jump_and_return(void *arg)
{
	wait_and_jump();
	return arg;
}

static void *jump_and_exit(void *arg)
{
	wait_and_jump();
	pthread_exit(arg);
}

static void jump_in(void *(*fn)(void *))
{
	static pthread_t t;
	void *got;

	t = make(fn, (void *)5);
	pthread_t other = make(interrupt, &t);

	join(other);
	ENSURE(pthread_join(t, &got) == 0);
	printf("jump %d\n", (int)(intptr_t)got);
}

static void begin_jumps(void)
{
	int until[2];
	char byte;

	signal(SIGUSR1, jump);
	fflush(stdout);
	ENSURE(pipe(until) == 0);
	sleeper = fork();
	if (sleeper == 0) { /* ends with the parent, too */
		close(until[1]);
		ENSURE(read(until[0], &byte, 1) == 0);
		_exit(0);
	}
}

static void end_jumps(void)
{
	kill(sleeper, SIGKILL);
	waitpid(sleeper, NULL, 0);
}

static void jump_out(void)
{
	begin_jumps();
	jump_in(jump_and_return);
	jump_in(jump_and_exit);
	end_jumps();
}

/* --- jump_main: the same in main --- */

static pthread_t first;

static void *join_first(void *arg)
{
	void *got;

	ENSURE(pthread_join(first, &got) == 0);
	printf("first returned %d\n", (int)(intptr_t)got);
	end_jumps();
	return arg;
}

static void jump_main(void)
{
	begin_jumps();
	first = pthread_self();
	pthread_t other = make(interrupt, &first);

	wait_and_jump();
	join(other);
	make(join_first, NULL);
	pthread_exit((void *)6);
}

/* --- stop: gmp_stop does not end the runtime of gmp-run --- */

static void *stop_runtime(void *arg)
{
	int (*stop)(void) = (int (*)(void))(intptr_t)dlsym(RTLD_DEFAULT, "gmp_stop");

	ENSURE(!stop || stop() == -EINVAL);
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

static int stop_in_child(void)
{
	join(make(nothing, NULL));
	join(make_outside(stop_runtime, NULL));
	join(make(nothing, NULL));
	return 2;
}

static void stop(void)
{
	join(make_outside(stop_runtime, NULL));
	join(make(nothing, NULL));
	printf("stop %d\n", WEXITSTATUS(in_child(stop_in_child)));
}

/* --- outside, real_time, c11: the last thread is an OS thread --- */

static void *end_last(void *arg)
{
	ENSURE(pthread_join(first, NULL) == 0);
	pass_time();
	say("last");
	return arg;
}

static void at_exit(void)
{
	say("atexit");
}

static void leave_first(void)
{
	first = pthread_self();
	atexit(at_exit);
}

static void outside(void)
{
	leave_first();
	make_outside(end_last, NULL);
	pthread_exit(NULL);
}

static void *exit_last(void *arg)
{
	end_last(arg);
	pthread_exit(arg);
}

static void outside_exits(void)
{
	leave_first();
	pthread_detach(make_outside(exit_last, NULL));
	pthread_exit(NULL);
}

/* It makes a thread after main has ended, which is the last one then. */
static void *make_last(void *arg)
{
	ENSURE(pthread_join(first, NULL) == 0);
	first = pthread_self();
	make(end_last, NULL);
	return arg;
}

static void outside_makes(void)
{
	leave_first();
	make_outside(make_last, NULL);
	pthread_exit(NULL);
}

/* --- fork_outside: an OS thread forks, and ends in the child before the others --- */

static void *fork_and_leave(void *arg)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();

	ENSURE(pid >= 0);
	if (pid == 0) {
		first = pthread_self();
		make(end_last, NULL);
		pthread_exit(arg);
	}
	ENSURE(waitpid(pid, &status, 0) == pid);
	printf("child %d\n", WEXITSTATUS(status));
	return arg;
}

static void fork_outside(void)
{
	atexit(at_exit);
	join(make_outside(fork_and_leave, NULL));
}

/* --- early: threads that a constructor has made --- */

static bool early_ends, early_wanted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void await_end(void)
{
	pthread_mutex_lock(&lock);
	while (!early_ends)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void *early_thread(void *arg)
{
	await_end();
	return end_last(arg);
}

static int early_c11(void *arg)
{
	await_end();
	ENSURE(pthread_join(*(pthread_t *)arg, NULL) == 0);
	pass_time();
	say("c11");
	return 0;
}

__attribute__((constructor)) static void make_early(void)
{
	static pthread_t t;
	thrd_t c11;

	early_wanted = getenv("EARLY") != NULL;
	if (!early_wanted)
		return;
	t = make(early_thread, NULL);
	ENSURE(thrd_create(&c11, early_c11, &t) == thrd_success);
}

static void early(void)
{
	ENSURE(early_wanted);
	leave_first();
	pthread_mutex_lock(&lock);
	early_ends = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	pthread_exit(NULL);
}

/* --- blocked: a signal that all threads of the program block does not end the process --- */

static void blocked(void)
{
	sigset_t set;
	int signo = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	ENSURE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	pass_time(); /* all threads of the runtime have begun */
	ENSURE(kill(getpid(), SIGUSR2) == 0);
	pass_time();
	ENSURE(sigwait(&set, &signo) == 0 && signo == SIGUSR2);
	say("blocked: pending");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} cases[] = { { "jump", jump_out },
		      { "jump_main", jump_main },
		      { "stop", stop },
		      { "outside", outside },
		      { "outside_exits", outside_exits },
		      { "outside_makes", outside_makes },
		      { "fork_outside", fork_outside },
		      { "early", early },
		      { "blocked", blocked } };

	for (size_t k = 0; argc > 1 && k < sizeof(cases) / sizeof(cases[0]); k++)
		if (strcmp(argv[1], cases[k].name) == 0)
			cases[k].fn();
	return 0;
}
