/* SPDX-License-Identifier: MIT */
/* Program for gmp-run: prints what its first argument asks for, natively and on green threads. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void fail(const char *what)
{
	printf("failed: %s\n", what);
	exit(99);
}

static void *add(void *n)
{
	pthread_mutex_lock(&lock);
	sum += (int)(long)n;
	pthread_mutex_unlock(&lock);
	return n;
}

static void *wait_for_end(void *arg)
{
	struct timespec t = { 0, 1000000 };

	while (*(volatile int *)arg == 0)
		nanosleep(&t, NULL);
	return arg;
}

static void threads(void)
{
	pthread_t t[20];
	void *got;

	sum = 0;
	for (long i = 0; i < 20; i++)
		if (pthread_create(&t[i], NULL, add, (void *)i))
			fail("pthread_create");
	for (long i = 0; i < 20; i++)
		if (pthread_join(t[i], &got) || got != (void *)i)
			fail("pthread_join");
	printf("sum %d\n", sum);
}

static void *do_nothing(void *unused)
{
	return unused;
}

/* The child makes a thread first: under gmp-run it then has a runtime. */
static void show_pending_of_child(void)
{
	sigset_t pending;
	pthread_t t;
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (pthread_create(&t, NULL, do_nothing, NULL) || pthread_join(t, NULL))
			_exit(2);
		sigpending(&pending);
		_exit(sigismember(&pending, SIGPIPE));
	}
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	printf("pending in the child: %d\n", status);
}

/* As libraries do it that must not end the program. */
static void *write_without_sigpipe(void *unused)
{
	static const struct timespec at_once;
	sigset_t set, old;
	int p[2];

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	if (pipe(p) || close(p[0]) || write(p[1], "x", 1) != -1)
		fail("write");
	show_pending_of_child();
	int signo = sigtimedwait(&set, NULL, &at_once);

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	printf("took %d\n", signo);
	return unused;
}

static void block_sigpipe(void)
{
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		if (pthread_create(&t, NULL, write_without_sigpipe, NULL) || pthread_join(t, NULL))
			fail("thread");
		signal(SIGPIPE, SIG_DFL);
	}
}

static void show_args(char **argv, char **envp)
{
	struct sigaction on_sigpipe;

	sigaction(SIGPIPE, NULL, &on_sigpipe);
	printf("SIGPIPE %s\n", on_sigpipe.sa_handler == SIG_DFL ? "ends it" : "is handled");
	printf("args");
	for (int i = 2; argv[i]; i++)
		printf(" [%s]", argv[i]);
	for (; *envp; envp++)
		if (strncmp(*envp, "WHOLE=", 6) == 0)
			printf(" %s", *envp);
	printf("\n");
}

static int os_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2;

	if (!d)
		fail("/proc/self/task");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* 50 threads that wait: "many" natively. */
static void count_threads(void)
{
	static int end;
	pthread_t t[50];

	for (int i = 0; i < 50; i++)
		if (pthread_create(&t[i], NULL, wait_for_end, &end))
			fail("pthread_create");
	printf("%s\n", os_threads() > 40 ? "many" : "few");
	*(volatile int *)&end = 1;
	for (int i = 0; i < 50; i++)
		pthread_join(t[i], NULL);
}

static void at_exit(void)
{
	printf("atexit\n");
}

static void *exit_3(void *arg)
{
	exit(3);
	return arg;
}

static int may_print;

static void *print_last(void *arg)
{
	wait_for_end(&may_print);
	printf("last\n");
	return arg;
}

static void *join_main(void *main_thread)
{
	void *got;

	if (pthread_join(*(pthread_t *)main_thread, &got))
		fail("pthread_join of main");
	printf("main returned %ld\n", (long)got);
	*(volatile int *)&may_print = 1;
	return NULL;
}

static void forked(void)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		threads();
		count_threads();
		fflush(stdout);
		if (fork() == 0) {
			threads();
			exit(5);
		}
		wait(&status);
		exit(WEXITSTATUS(status) + 1);
	}
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			fail("waitpid");
	printf("child %d\n", WEXITSTATUS(status));
}

static void forked_exit(void)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;

		may_print = 1;
		pthread_create(&t, NULL, print_last, NULL);
		pthread_exit(NULL);
	}
	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			fail("waitpid");
	printf("child %d\n", WEXITSTATUS(status));
}

static void run_child(void)
{
	char command[300];

	snprintf(command, sizeof(command), "%s count", program_invocation_name);
	fflush(stdout);
	if (system(command))
		fail("system");
}

/* The program has no handler. */
static void *raise_and_wait(void *unused)
{
	sigset_t set;
	int signo = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	usleep(1000); /* a green thread may continue on another OS thread */
	sigwait(&set, &signo);
	printf("sigwait %d\n", signo);
	return unused;
}

static void raise_blocked(void)
{
	pthread_t t;

	pthread_create(&t, NULL, raise_and_wait, NULL);
	pthread_join(t, NULL);
	raise_and_wait(NULL);
}

int main(int argc, char **argv, char **envp)
{
	static pthread_t t, me;
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "args") == 0)
		show_args(argv, envp);
	else if (strcmp(what, "sigpipe") == 0)
		block_sigpipe();
	else if (strcmp(what, "raise") == 0)
		raise_blocked();
	else if (strcmp(what, "threads") == 0)
		threads();
	else if (strcmp(what, "count") == 0)
		count_threads();
	else if (strcmp(what, "fork") == 0)
		forked();
	else if (strcmp(what, "fork_exit") == 0)
		forked_exit();
	else if (strcmp(what, "child") == 0)
		run_child();
	else if (strcmp(what, "abort") == 0)
		abort();
	atexit(at_exit);
	if (strcmp(what, "exit_thread") == 0) {
		pthread_create(&t, NULL, exit_3, NULL);
		pthread_join(t, NULL);
	}
	if (strcmp(what, "main_exits") == 0) {
		me = pthread_self();
		pthread_create(&t, NULL, print_last, NULL);
		pthread_create(&t, NULL, join_main, &me);
		pthread_exit((void *)7);
	}
	return 4;
}
