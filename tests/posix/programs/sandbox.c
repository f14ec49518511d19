/* SPDX-License-Identifier: MIT */
/* Program for gmp-run: each argument is a way to install a seccomp filter, and prints the same
 * natively and on green threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENSURE(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("%s:%d: " #cond " failed, errno %d\n", __FILE__, __LINE__, errno);  \
			_exit(3);                                                                  \
		}                                                                                  \
	} while (0)

enum { WAITS = 20, THREADS = 8, NOBODY = 65534 };

/* mkdir and mkdirat are EPERM. */
static struct sock_filter no_mkdir[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_mkdir
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 1, 0),
#endif
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog filter = { sizeof(no_mkdir) / sizeof(no_mkdir[0]), no_mkdir };

/* A folder that exists: EEXIST without the filter. */
static int try_mkdir(void)
{
	ENSURE(mkdir("/", 0700) < 0);
	return errno;
}

static void *try_in_thread(void *errors)
{
	for (int i = 0; i < WAITS; i++) {
		*(int *)errors += try_mkdir() != EPERM;
		usleep(100);
	}
	*(int *)errors += prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL) != 1;
	return NULL;
}

/* Main after waits, threads, and a child. */
static void show(void)
{
	pthread_t t[THREADS];
	int errors[THREADS] = { 0 }, status, sum = 0;

	for (int i = 0; i < WAITS; i++) {
		sum += try_mkdir() != EPERM;
		usleep(100);
	}
	printf("main: %d calls passed\n", sum);
	for (int i = 0; i < THREADS; i++)
		ENSURE(!pthread_create(&t[i], NULL, try_in_thread, &errors[i]));
	for (int i = sum = 0; i < THREADS; i++) {
		ENSURE(!pthread_join(t[i], NULL));
		sum += errors[i];
	}
	printf("threads: %d calls passed\n", sum);
	fflush(stdout);
	pid_t child = fork();

	if (child == 0)
		_exit(try_mkdir() == EPERM ? 0 : 1);
	ENSURE(waitpid(child, &status, 0) == child);
	printf("child: status %d\n", status);
}

static void no_new_privileges(void)
{
	ENSURE(!prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL));
}

/* Of the set-up: the next call may run on another OS thread. */
static void wait_a_little(void)
{
	for (int i = 0; i < 50; i++)
		usleep(100);
}

static void by_prctl(void)
{
	no_new_privileges();
	wait_a_little();
	ENSURE(!prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, &filter, 0UL, 0UL));
	show();
	printf("mode %d\n", prctl(PR_GET_SECCOMP, 0UL, 0UL, 0UL, 0UL));
}

static void by_syscall(void)
{
	no_new_privileges();
	ENSURE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
	show();
	ENSURE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter));
	show();
}

static void by_number(void)
{
	ENSURE(!syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL));
	wait_a_little();
	ENSURE(!syscall(SYS_prctl, PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, &filter, 0UL,
			0UL));
	show();
}

static void by_tsync(void)
{
	no_new_privileges();
	wait_a_little();
	ENSURE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter));
	show();
}

/* seccomp with a flag above 8 is EINVAL, as before Linux 5.7. */
static void on_an_old_kernel(void)
{
	static struct sock_filter no_flags[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 16, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog old = { sizeof(no_flags) / sizeof(no_flags[0]), no_flags };

	no_new_privileges();
	ENSURE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &old));
	ENSURE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0);
	printf("no filter: %s\n", strerror(errno));
	errno = ENOTTY;
	ENSURE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
	printf("errno of a success: %s\n", strerror(errno));
	show();
}

/* By a signal handler. */
static void install(int sig)
{
	ENSURE(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) && sig);
}

static void in_a_handler(void)
{
	no_new_privileges();
	ENSURE(signal(SIGUSR1, install) != SIG_ERR);
	ENSURE(!raise(SIGUSR1));
	show();
}

/* A descriptor for the calls that the filter leaves to a listener: there are none. */
static void with_a_listener(void)
{
	no_new_privileges();
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &filter);

	ENSURE(fd > 2);
	ENSURE(!close((int)fd));
	show();
}

/* The threads exist already. */
static void after_threads(void)
{
	pthread_t t;
	int errors = 0;

	ENSURE(!pthread_create(&t, NULL, try_in_thread, &errors));
	ENSURE(!pthread_join(t, NULL));
	printf("without a filter: %s\n", strerror(try_mkdir()));
	by_syscall();
}

static void bad_calls(void)
{
	static const unsigned kill = SECCOMP_RET_KILL_PROCESS;

	ENSURE(prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, NULL, 0UL, 0UL) < 0);
	printf("no filter: %s\n", strerror(errno));
	ENSURE(prctl(PR_SET_SECCOMP, 7UL, NULL, 0UL, 0UL) < 0);
	printf("unknown mode: %s\n", strerror(errno));
	ENSURE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 30, &filter) < 0);
	printf("unknown flag: %s\n", strerror(errno));
	ENSURE(syscall(SYS_seccomp, 77, 0, NULL) < 0);
	printf("unknown operation: %s\n", strerror(errno));
	printf("available: %ld\n", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill));
	printf("other options: %d\n", prctl(PR_GET_DUMPABLE, 0UL, 0UL, 0UL, 0UL));
	printf("mkdir: %s\n", strerror(try_mkdir()));
}

/* Kills for mkdir, which is not called, or for calls of another architecture only. */
static void install_twice(uint32_t mkdir_action)
{
	struct sock_filter kills[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, mkdir_action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(kills) / sizeof(kills[0]), kills };

	no_new_privileges();
	for (int i = 0; i < 2; i++)
		ENSURE(!prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, &program, 0UL,
			      0UL));
	wait_a_little();
	printf("installed\n");
}

static void kills_thread(void)
{
	install_twice(SECCOMP_RET_KILL_THREAD);
}

/* As after a change of ids: /proc/self/mem is then not readable, unless for root. */
static void kills_not_dumpable(void)
{
	if (getuid() == 0)
		ENSURE(!setresuid(NOBODY, NOBODY, NOBODY));
	ENSURE(!prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL));
	install_twice(SECCOMP_RET_KILL_THREAD);
}

static void kills_process(void)
{
	install_twice(SECCOMP_RET_KILL_PROCESS);
}

static void kills_others(void)
{
	install_twice(SECCOMP_RET_ERRNO | EPERM);
}

static void strict(void)
{
	pid_t child = fork(); /* an OS thread: as natively */
	int status;

	if (child == 0) {
		long result =
			prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_STRICT, NULL, 0UL, 0UL);

		syscall(SYS_getpid); /* SIGKILL */
		syscall(SYS_exit, result ? 1 : 2);
	}
	ENSURE(waitpid(child, &status, 0) == child);
	printf("child: status %d\n", status);
}

/* Not the same: natively the next call but read and write ends the process. */
static void strict_main(void)
{
	int result = prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_STRICT, NULL, 0UL, 0UL);

	printf("%d: %s\n", result, strerror(errno));
}

/* Ends with 77 where a program can install no filter. */
static void available(void)
{
	static const unsigned fails = SECCOMP_RET_ERRNO;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &fails))
		_exit(77);
	printf("yes\n");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "available", available },
		{ "by_prctl", by_prctl },
		{ "by_syscall", by_syscall },
		{ "by_number", by_number },
		{ "by_tsync", by_tsync },
		{ "on_an_old_kernel", on_an_old_kernel },
		{ "in_a_handler", in_a_handler },
		{ "with_a_listener", with_a_listener },
		{ "after_threads", after_threads },
		{ "bad_calls", bad_calls },
		{ "kills_thread", kills_thread },
		{ "kills_process", kills_process },
		{ "kills_others", kills_others },
		{ "kills_not_dumpable", kills_not_dumpable },
		{ "strict", strict },
		{ "strict_main", strict_main },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	return 2;
}
