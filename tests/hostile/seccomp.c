/* SPDX-License-Identifier: MIT */
/*
 * Runs everything.c while the kernel rejects one system call.
 *
 *   seccomp early|late|signals|idle NUMBER ERRNO
 *   seccomp each WHEN NUMBER ERRNO...
 *
 * early: from before gmp_run; late: for all threads, from the first green thread on. signals: late,
 * and the run receives signals by a channel instead; idle: late, and the run only waits.
 * each: all of these one after the other, each in a child; prints a line "WHEN NUMBER ERRNO STATUS
 * MESSAGE" for each that fails, with the status that a shell would have, 124 after ten seconds, and
 * the first line of stderr.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define main everything
#include "everything.c"
#undef main

static void refuse(int number, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof code / sizeof *code, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
		_exit(77); /* no filters here */
}

static int number, error;

static void late(void *arg)
{
	refuse(number, error);
	app(arg);
}

static void receive_signals(void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 8);
	int signo;

	(void)arg;
	refuse(number, error);
	if (!c || gmp_signal_notify(c, SIGUSR1) != 0)
		exit(3);
	for (int i = 0; i < 20; i++) {
		kill(getpid(), SIGUSR1);
		if (gmp_chan_recv_until(c, &signo, gmp_deadline(2 * GMP_S)) != 0)
			exit(4);
	}
	gmp_signal_stop(c, SIGUSR1);
	gmp_chan_free(c);
}

static void only_wait(void *arg)
{
	int p[2];

	(void)arg;
	if (pipe(p) < 0 || gmp_fd_adopt(p[0]) != p[0])
		exit(3);
	refuse(number, error);
	for (int i = 0; i < 20; i++)
		gmp_fd_wait(p[0], GMP_READ, gmp_deadline(10 * GMP_MS));
}

static int run_one(char **argv)
{
	number = atoi(argv[1]);
	error = atoi(argv[2]);
	alarm(8); /* a run that hangs ends by SIGALRM */
	if (strcmp(argv[0], "early") == 0) {
		refuse(number, error);
		return everything();
	}
	if (strcmp(argv[0], "signals") == 0)
		return gmp_run(receive_signals, NULL, NULL) ? 1 : 0;
	if (strcmp(argv[0], "idle") == 0)
		return gmp_run(only_wait, NULL, NULL) ? 1 : 0;
	return gmp_run(late, NULL, NULL) ? 1 : 0;
}

/* Waits for the child, which ends after ten seconds at the latest, and returns its status. */
static int status_of(pid_t child, const sigset_t *sigchld)
{
	const struct timespec most = { 10, 0 };
	int status = 0, ended = 0;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (sigtimedwait(sigchld, NULL, &most) >= 0 || errno != EAGAIN)
			continue;
		kill(child, SIGKILL);
		ended = 1;
	}
	if (ended)
		return 124;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/*
 * Without malloc: where brk is refused, libc takes memory elsewhere, unless the process has a heap
 * already.
 */
static int run_each(char **argv)
{
	int null = open("/dev/null", O_WRONLY), err = memfd_create("stderr", 0);
	sigset_t sigchld, before;

	if (null < 0 || err < 0)
		return 2;
	sigemptyset(&sigchld);
	sigaddset(&sigchld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &sigchld, &before);
	for (; argv[0] && argv[1] && argv[2]; argv += 3) {
		char message[256] = "", line[320];
		pid_t child;
		int status, n;

		if (ftruncate(err, 0) < 0 || lseek(err, 0, SEEK_SET) < 0)
			return 2;
		child = fork();
		if (child < 0)
			return 2;
		if (child == 0) {
			sigprocmask(SIG_SETMASK, &before, NULL);
			dup2(null, STDOUT_FILENO);
			dup2(err, STDERR_FILENO);
			close(null);
			close(err);
			exit(run_one(argv));
		}
		status = status_of(child, &sigchld);
		if (pread(err, message, sizeof message - 1, 0) < 0)
			return 2;
		message[strcspn(message, "\n")] = '\0';
		n = snprintf(line, sizeof line, "%s %s %s %d %s\n", argv[0], argv[1], argv[2],
			     status, message);
		if (status != 0 && write(STDOUT_FILENO, line, (size_t)n) != n)
			return 2;
	}
	return argv[0] ? 2 : 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "each") == 0)
		return run_each(argv + 2);
	return argc == 4 ? run_one(argv + 1) : 2;
}
