/* SPDX-License-Identifier: MIT */
/* Program for gmp-run, as root: each argument is a change of the rights of the program, and prints
 * the same natively and on green threads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "child.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

enum { THREADS = 8, FORBIDDEN = 1 << CAP_SETGID, MAKE_DIR = 1 << 7, NO_CALL = 77 };

int capset(cap_user_header_t header, const cap_user_data_t data);

/* --- what the OS threads of the process have --- */

static int proc; /* also after a chroot */

/* A line of the status of an OS thread; NULL: the thread has ended, or is one of the kernel. */
static const char *line_of(const char *task, const char *field, char *line, size_t size)
{
	char path[300];
	bool kernels = false, found = false;

	snprintf(path, sizeof(path), "self/task/%s/status", task);
	int fd = openat(proc, path, O_RDONLY);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

	while (f && !found && fgets(line, (int)size, f)) {
		kernels |= !strncmp(line, "Name:\tiou-", 10);
		found = !strncmp(line, field, strlen(field));
	}
	if (f)
		fclose(f);
	return found && !kernels ? line + strlen(field) : NULL;
}

/* The number of OS threads whose field, a number of this base, has other bits than wanted. */
static int others(const char *field, int base, unsigned long bits, unsigned long wanted)
{
	DIR *d = fdopendir(openat(proc, "self/task", O_RDONLY | O_DIRECTORY));
	struct dirent *e;
	char line[256];
	int n = 0;

	ENSURE(d);
	while ((e = readdir(d))) {
		const char *value =
			e->d_name[0] == '.' ? NULL : line_of(e->d_name, field, line, 256);

		n += value && (strtoul(value, NULL, base) & bits) != wanted;
	}
	closedir(d);
	return n;
}

/* --- a crowd of threads: some sleep, some compute --- */

static int ends;

static void *be_there(void *computes)
{
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED))
		if (!computes)
			usleep(100);
	return NULL;
}

static pthread_t crowd[THREADS];

static void crowd_begin_without_wait(void)
{
	for (int i = 0; i < THREADS; i++)
		crowd[i] = make(be_there, i == 0 ? &ends : NULL);
}

static void crowd_begin(void)
{
	crowd_begin_without_wait();
	usleep(20000);
}

static void crowd_end(void)
{
	__atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		join(crowd[i]);
}

/* --- cases --- */

static struct __user_cap_data_struct caps[2];

static void without_setgid(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };

	ENSURE(syscall(SYS_capget, &h, caps) == 0);
	caps[0].effective &= ~(unsigned)FORBIDDEN;
	caps[0].permitted &= ~(unsigned)FORBIDDEN;
}

static void set_caps(int by_libc)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, by_libc ? getpid() : 0 };

	without_setgid();
	if (by_libc)
		ENSURE(capset(&h, caps) == 0);
	else
		ENSURE(syscall(SYS_capset, &h, caps) == 0);
}

static void show_groups(void)
{
	gid_t none = 0;
	int result = setgroups(1, &none);

	printf("setgroups %d %s\n", result, result ? strerror(errno) : "");
}

static int run_alone(void)
{
	set_caps(0);
	show_groups();
	return 0;
}

static int run_in_crowd(void)
{
	crowd_begin();
	set_caps(1);
	printf("others %d\n", others("CapEff:\t", 16, FORBIDDEN, 0));
	show_groups();
	crowd_end();
	return 0;
}

static void on_signal(int signo)
{
	(void)signo;
	set_caps(0);
}

static int run_in_a_handler(void)
{
	ENSURE(signal(SIGUSR1, on_signal) != SIG_ERR);
	ENSURE(raise(SIGUSR1) == 0);
	show_groups();
	return 0;
}

static int run_bounding_set(void)
{
	ENSURE(prctl(PR_CAPBSET_DROP, CAP_SETGID, 0, 0, 0) == 0);
	usleep(1000);
	ENSURE(prctl(PR_CAPBSET_READ, CAP_SETGID, 0, 0, 0) == 0);
	crowd_begin();
	printf("others %d\n", others("CapBnd:\t", 16, FORBIDDEN, 0));
	crowd_end();
	return 0;
}

static void *drop_rights(void *arg)
{
	ENSURE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	return arg;
}

static int run_no_new_privs(void)
{
	ENSURE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	crowd_begin();
	printf("others %d\n", others("NoNewPrivs:\t", 10, 1, 1));
	crowd_end();
	return 0;
}

/* Several threads at once, and threads that begin meanwhile. */
static int run_at_once(void)
{
	crowd_begin();
	for (int round = 0; round < 20; round++) {
		pthread_t t[4];

		for (int i = 0; i < 4; i++)
			t[i] = make(drop_rights, NULL);
		for (int i = 0; i < 4; i++)
			join(t[i]);
	}
	drop_rights(NULL);
	printf("others %d\n", others("NoNewPrivs:\t", 10, 1, 1));
	crowd_end();
	return 0;
}

static int run_securebits(void)
{
	ENSURE(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0) == 0);
	ENSURE(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
	for (int i = 0; i < 50; i++) {
		usleep(100);
		ENSURE(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) & SECBIT_NOROOT);
		ENSURE(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0) == 1);
	}
	printf("kept\n");
	return 0;
}

/* An OS thread that did not make the call can make a folder. */
static void *try_mkdir(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		ENSURE(mkdir("/tmp/gmp-rights", 0700) < 0);
		ENSURE(errno == EACCES);
		usleep(100);
	}
	return NULL;
}

static int run_landlock(void)
{
	struct {
		uint64_t handled;
	} rules = { MAKE_DIR };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);

	if (fd < 0)
		return NO_CALL;
	crowd_begin();
	ENSURE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	ENSURE(syscall(SYS_landlock_create_ruleset + 2, fd, 0) == 0);
	try_mkdir(NULL);
	for (int i = 0; i < 4; i++)
		join(make(try_mkdir, NULL));
	crowd_end();
	printf("restricted\n");
	return 0;
}

static int run_errors(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 1 };

	without_setgid();
	printf("%ld", syscall(SYS_capset, &h, caps));
	printf(" %s", strerror(errno));
	h.pid = 0;
	caps[0].effective = caps[0].permitted | 1u << CAP_SETGID; /* not permitted */
	printf(" %ld", syscall(SYS_capset, &h, caps));
	printf(" %s", strerror(errno));
	printf(" %ld", syscall(SYS_capset, (void *)16, caps));
	printf(" %s", strerror(errno));
	printf(" %d", prctl(PR_CAPBSET_DROP, 1000, 0, 0, 0));
	printf(" %s\n", strerror(errno));
	show_groups();
	return 0;
}

/* prctl(PR_SET_NO_NEW_PRIVS) with a limit of n. */
static void limited(const char *what, int limit, rlim_t n)
{
	struct rlimit before, l;

	ENSURE(getrlimit(limit, &before) == 0);
	l = (struct rlimit){ n, before.rlim_max };
	ENSURE(setrlimit(limit, &l) == 0);
	int result = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), err = errno;

	ENSURE(setrlimit(limit, &before) == 0);
	printf("%s: %d%s%s\n", what, result, result ? " " : "", result ? strerror(err) : "");
}

/* Without the fd of a folder nothing changes.  If an OS thread cannot be asked, the call reports it
 * and can be repeated. */
static int run_limits(void)
{
	int unused = dup(0);

	ENSURE(unused > 0 && close(unused) == 0);
	crowd_begin();
	limited("no fd", RLIMIT_NOFILE, 0);
	printf("others %d\n", others("NoNewPrivs:\t", 10, 1, 0));
	limited("one fd", RLIMIT_NOFILE, (rlim_t)unused + 1);
	limited("no signal", RLIMIT_SIGPENDING, 0);
	limited("all", RLIMIT_NOFILE, 256);
	printf("others %d\n", others("NoNewPrivs:\t", 10, 1, 1));
	crowd_end();
	return 0;
}

/* In a folder without /proc. */
static int change_without_proc(void (*begin)(void))
{
	char path[] = "/tmp/gmp-rights-XXXXXX";

	begin();
	ENSURE(mkdtemp(path) && chroot(path) == 0);
	ENSURE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	printf("others %d\n", others("NoNewPrivs:\t", 10, 1, 1));
	crowd_end();
	ENSURE(fchdir(proc) == 0 && chroot("..") == 0 && rmdir(path) == 0);
	return 0;
}

static int run_chrooted(void)
{
	return change_without_proc(crowd_begin);
}

static int run_chrooted_while_threads_begin(void)
{
	return change_without_proc(crowd_begin_without_wait);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} cases[] = {
		{ "alone", run_alone },
		{ "in_crowd", run_in_crowd },
		{ "in_a_handler", run_in_a_handler },
		{ "bounding_set", run_bounding_set },
		{ "no_new_privs", run_no_new_privs },
		{ "at_once", run_at_once },
		{ "securebits", run_securebits },
		{ "landlock", run_landlock },
		{ "errors", run_errors },
		{ "limits", run_limits },
		{ "chrooted", run_chrooted },
		{ "chrooted_while_threads_begin", run_chrooted_while_threads_begin },
	};

	if (geteuid() != 0)
		return NO_CALL;
	proc = open("/proc", O_RDONLY | O_DIRECTORY);
	ENSURE(proc >= 0);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	return 2;
}
