/* SPDX-License-Identifier: MIT */
/*
 * Runs everything.c while the kernel rejects one system call.
 *
 *   seccomp early|late|signals|idle NUMBER ERRNO
 *
 * early: from before gmp_run; late: for all threads, from the first green thread on. signals: late,
 * and the run receives signals by a channel instead; idle: late, and the run only waits.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	number = atoi(argv[2]);
	error = atoi(argv[3]);
	alarm(8); /* a run that hangs ends by SIGALRM */
	if (strcmp(argv[1], "early") == 0) {
		refuse(number, error);
		return everything();
	}
	if (strcmp(argv[1], "signals") == 0)
		return gmp_run(receive_signals, NULL, NULL) ? 1 : 0;
	if (strcmp(argv[1], "idle") == 0)
		return gmp_run(only_wait, NULL, NULL) ? 1 : 0;
	return gmp_run(late, NULL, NULL) ? 1 : 0;
}
