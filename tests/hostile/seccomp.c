/* SPDX-License-Identifier: MIT */
/*
 * Runs everything.c while the kernel rejects one system call.
 *
 *   seccomp early|late NUMBER ERRNO
 *
 * early: from before gmp_run; late: for all threads, from the first green thread on.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
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
	return gmp_run(late, NULL, NULL) ? 1 : 0;
}
