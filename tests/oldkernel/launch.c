/* SPDX-License-Identifier: MIT */
/*
 * Runs a program on a kernel that lacks some features: refuses system calls as an old one does.
 *
 *   launch RULE[,RULE...] COMMAND...     runs COMMAND with these rules
 *   launch --rules                       lists them
 *
 * A seccomp filter sends each system call that a rule refuses to the launcher, which counts it and
 * answers with the errno of an old kernel. At the end it prints a line "refused: NAME COUNT ..." to
 * stderr, so that a test can check that the program has asked for the feature at all. The status is
 * that of COMMAND; 77 if this system has no such filters; 125 for an error of the launcher.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, BROKEN = 125, MAX_CODE = 256 };

/* Numbers from 424 on are those of all architectures. */
enum {
	NR_pidfd_send_signal = 424,
	NR_io_uring_setup = 425,
	NR_pidfd_open = 434,
	NR_clone3 = 435,
	NR_close_range = 436,
	NR_openat2 = 437,
	NR_faccessat2 = 439,
	NR_epoll_pwait2 = 441,
	NR_LAST = 100000,
};
#ifdef SYS_rseq
enum { NR_rseq = SYS_rseq };
#elif defined(__x86_64__)
enum { NR_rseq = 334 };
#else
enum { NR_rseq = 293 };
#endif

/* A rule refuses the numbers lo_nr..hi_nr; if arg >= 0, only with an argument in lo..hi. Rules of
 * one name are one feature. Linux 4.18 is the first with rseq, the last number of its table. */
static struct rule {
	const char *name;
	int lo_nr, hi_nr, arg;
	uint32_t lo, hi;
	int error;
	const char *what; /* in the line at the end */
	bool on;
	unsigned long hits;
} rules[] = {
#define CALL(name, nr)                                                                             \
	{                                                                                          \
		name, NR_##nr, NR_##nr, -1, 0, 0, ENOSYS, #nr, false, 0                            \
	}
#define OLD_CALL(name, nr)                                                                         \
	{                                                                                          \
		name, SYS_##nr, SYS_##nr, -1, 0, 0, ENOSYS, #nr, false, 0                          \
	}
#define FLAG(name, nr, arg, lo, hi, error, what)                                                   \
	{                                                                                          \
		name, SYS_##nr, SYS_##nr, arg, lo, hi, error, what, false, 0                       \
	}
#define PIDFD(name)                                                                                \
	{                                                                                          \
		name, NR_pidfd_open, NR_pidfd_open, 1, 0, 0, ENOSYS, "gmp:pidfd_open", false, 0    \
	}
	FLAG("guard", madvise, 2, 102, 103, EINVAL, "MADV_GUARD_INSTALL"),           /* 6.13 */
	FLAG("dontneed-locked", madvise, 2, 24, 24, EINVAL, "MADV_DONTNEED_LOCKED"), /* 5.18 */
	CALL("io_uring", io_uring_setup),                                            /* 5.1 */
	PIDFD("pidfd"),                                                              /* 5.3 */
	CALL("pidfd", pidfd_open),                                                   /* by tests */
	CALL("pidfd", pidfd_send_signal),                                            /* 5.1 */
	FLAG("pidfd", waitid, 0, 3, 3, EINVAL, "P_PIDFD"),                           /* 5.4 */
	CALL("clone3", clone3),                                                      /* 5.3 */
	CALL("close_range", close_range),                                            /* 5.9 */
	CALL("openat2", openat2),                                                    /* 5.6 */
	CALL("faccessat2", faccessat2),                                              /* 5.8 */
	CALL("epoll_pwait2", epoll_pwait2),                                          /* 5.11 */
	CALL("rseq", rseq),                                                          /* 4.18 */
	FLAG("nowait", preadv2, 5, 8, 8, EOPNOTSUPP, "preadv2:RWF_NOWAIT"),          /* 4.14 */
	FLAG("nowait", pwritev2, 5, 8, 8, EOPNOTSUPP, "pwritev2:RWF_NOWAIT"),        /* 4.14 */
	OLD_CALL("membarrier", membarrier),                                          /* 4.3 */
	OLD_CALL("getrandom", getrandom),                                            /* 3.17 */
	/* pipes and the page cache take RWF_NOWAIT writes since 6.x */
	FLAG("linux-4.18", pwritev2, 5, 8, 8, EOPNOTSUPP, "pwritev2:RWF_NOWAIT"),
	FLAG("linux-4.18", waitid, 0, 3, 3, EINVAL, "P_PIDFD"),
	FLAG("linux-4.18", madvise, 2, 102, 103, EINVAL, "MADV_GUARD_INSTALL"),
	FLAG("linux-4.18", madvise, 2, 20, 99, EINVAL, "MADV_COLD..."),
	CALL("linux-4.18", io_uring_setup),
	PIDFD("linux-4.18"),
	CALL("linux-4.18", clone3),
	CALL("linux-4.18", close_range),
	CALL("linux-4.18", epoll_pwait2),
	{ "linux-4.18", NR_rseq + 1, NR_LAST, -1, 0, 0, ENOSYS, "others", false, 0 },
};
enum { NRULES = sizeof(rules) / sizeof(*rules) };

static bool matches(const struct rule *r, const struct seccomp_data *d)
{
	return r->on && d->nr >= r->lo_nr && d->nr <= r->hi_nr &&
	       (r->arg < 0 ||
		((uint32_t)d->args[r->arg] >= r->lo && (uint32_t)d->args[r->arg] <= r->hi));
}

/* --- the filter --- */

static struct sock_filter code[MAX_CODE];
static unsigned ncode;

static void add(struct sock_filter f)
{
	if (ncode == MAX_CODE)
		exit(BROKEN);
	code[ncode++] = f;
}

/* Skip `over` instructions unless lo <= the word at `offset` <= hi. */
static void add_range(unsigned offset, uint32_t lo, uint32_t hi, unsigned char over)
{
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, lo, 0,
					 (unsigned char)(over + 1)));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, hi, over, 0));
}

static void build_filter(void)
{
	for (const struct rule *r = rules; r < rules + NRULES; r++) {
		if (!r->on)
			continue;
		add_range(offsetof(struct seccomp_data, nr), (uint32_t)r->lo_nr, (uint32_t)r->hi_nr,
			  r->arg < 0 ? 1 : 4);
		if (r->arg >= 0) /* the low word: all machines here are little-endian */
			add_range((unsigned)(offsetof(struct seccomp_data, args) +
					     8 * (unsigned)r->arg),
				  r->lo, r->hi, 1);
		add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
	}
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

/* Returns the fd on which the calls are reported, or -1. */
static int install_filter(void)
{
	struct sock_fprog prog = { (unsigned short)ncode, code };
	unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	long fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	/* 1 << 5: a signal does not interrupt a call that the launcher has received (5.19) */
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | 1U << 5, &prog);
	if (fd < 0)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	return (int)fd;
}

/* --- the answers --- */

static void answer(int listener)
{
	static union {
		struct seccomp_notif n;
		char room[1024]; /* of a later kernel */
	} in;
	struct seccomp_notif_resp out = { 0 };

	memset(&in, 0, sizeof(in));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in) < 0)
		return; /* the thread has ended meanwhile */
	out.id = in.n.id;
	out.error = -ENOSYS;
	for (struct rule *r = rules; r < rules + NRULES; r++) {
		if (matches(r, &in.n.data)) {
			r->hits++;
			out.error = -r->error;
			break;
		}
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &out);
}

/* Returns the status of the command. */
static int supervise(int listener, pid_t pid)
{
	struct pollfd p = { listener, POLLIN, 0 };
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (poll(&p, 1, 20) > 0 && p.revents & POLLIN)
			answer(listener);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void report(void)
{
	fprintf(stderr, "refused:");
	for (const struct rule *r = rules; r < rules + NRULES; r++)
		if (r->on)
			fprintf(stderr, " %s %lu", r->what, r->hits);
	fprintf(stderr, "\n");
}

static int choose(char *names)
{
	for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
		bool known = false;

		for (struct rule *r = rules; r < rules + NRULES; r++) {
			if (strcmp(r->name, name) == 0)
				r->on = known = true;
		}
		if (!known) {
			fprintf(stderr, "launch: no rule %s\n", name);
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	int pipe_fds[2], listener;
	pid_t pid;

	if (argc == 2 && strcmp(argv[1], "--rules") == 0) {
		for (const struct rule *r = rules; r < rules + NRULES; r++)
			printf("%s %s\n", r->name, r->what);
		return 0;
	}
	if (argc < 3 || choose(argv[1]) || pipe2(pipe_fds, 02000000 /* O_CLOEXEC */))
		return BROKEN;
	build_filter();
	/* the child shares the table of fds until it execs, so the launcher has the listener */
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		return BROKEN;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		listener = install_filter();
		if (write(pipe_fds[1], &listener, sizeof(listener)) == sizeof(listener) &&
		    listener >= 0)
			execvp(argv[2], argv + 2);
		_exit(BROKEN);
	}
	if (read(pipe_fds[0], &listener, sizeof(listener)) != sizeof(listener))
		return BROKEN;
	if (listener < 0) {
		fprintf(stderr, "launch: no seccomp filters with a listener here\n");
		return SKIPPED;
	}
	int status = supervise(listener, pid);

	report();
	return status;
}
