/* SPDX-License-Identifier: MIT */
/*
 * Tests that a call through io_uring keeps its fd and buffer in use until the kernel is done, and
 * that it falls back to a blocking call if the ring fails. The wrapped liburing functions hold
 * completions, refuse entries and change results.
 *
 * floors 0..6, wrap: dlsym pread pwrite fsync
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/atomic.h"
#include "base/os.h"
#include "io/uring.h"
#include "netpoll/netpoll.h"
#include "rt.h"
#include "source.h"

/* --- wrappers of liburing and libc --- */

static int hold_completions;  /* (a) completions are hidden */
static int refuse;            /* (a) number of entries to refuse */
static int change, change_to; /* (a) number of results to change */
static int submitted, plain;  /* (a) accepted entries; calls without the ring */

static int (*real_submit)(struct io_uring *r);
static unsigned (*real_peek)(struct io_uring *r, struct io_uring_cqe **cqes, unsigned n);

static int test_submit(struct io_uring *r)
{
	if (ld_seq(&refuse) > 0 && add_seq(&refuse, -1) > 0)
		return -EAGAIN;
	add_seq(&submitted, 1);
	return real_submit(r);
}

static unsigned test_peek(struct io_uring *r, struct io_uring_cqe **cqes, unsigned n)
{
	if (ld_seq(&hold_completions))
		return 0;
	unsigned got = real_peek(r, cqes, n);

	for (unsigned i = 0; i < got; i++)
		if (ld_seq(&change) > 0 && add_seq(&change, -1) > 0)
			cqes[i]->res = ld_seq(&change_to);
	return got;
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
	void *real = __real_dlsym(handle, name);
	int (*submit)(struct io_uring * r) = test_submit;
	unsigned (*peek)(struct io_uring * r, struct io_uring_cqe * *cqes, unsigned n) = test_peek;

	if (!real)
		return NULL;
	if (strcmp(name, "io_uring_submit") == 0) {
		memcpy(&real_submit, &real, sizeof(real));
		memcpy(&real, &submit, sizeof(real));
	} else if (strcmp(name, "io_uring_peek_batch_cqe") == 0) {
		memcpy(&real_peek, &real, sizeof(real));
		memcpy(&real, &peek, sizeof(real));
	}
	return real;
}

ssize_t __real_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at);
ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

ssize_t __wrap_pread(int fd, void *buf, size_t n, off_t at)
{
	add_seq(&plain, 1);
	return __real_pread(fd, buf, n, at);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	add_seq(&plain, 1);
	return __real_pwrite(fd, buf, n, at);
}

int __wrap_fsync(int fd)
{
	add_seq(&plain, 1);
	return __real_fsync(fd);
}

/* --- a file whose writes reach the disk --- */

static int open_file(void)
{
	char name[] = "/tmp/gmp-unit-XXXXXX";
	int fd = mkostemp(name, O_SYNC);

	CHECK(fd >= 0);
	CHECK_EQ(unlink(name), 0);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	st_seq(&plain, 0);
	st_seq(&submitted, 0);
	return fd;
}

/* Skips the case on a kernel without io_uring, or if the kernel forbids it. */
static void need_ring(void)
{
	struct io_uring_params p = { 0 };
	long fd = syscall(SYS_io_uring_setup, 1, &p);

	if (fd < 0)
		check_skip("no io_uring");
	CHECK_EQ(close((int)fd), 0);
}

static uint64_t waiting(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s.greens_waiting;
}

/* Wait for a submitted entry: while a G makes the ring, it is off its P. */
static void wait_until_submitted(void)
{
	while (ld_seq(&submitted) < 1 || waiting() < 1)
		gmp_yield();
}

static ssize_t result;
static int closed; /* (a) */

static void write_file(void *arg)
{
	result = gmp_pwrite(*(int *)arg, "abc", 3, 0);
}

static void close_file(void *arg)
{
	CHECK_EQ(gmp_close(*(int *)arg), 0);
	st_seq(&closed, 1);
}

/* Wait until calls are refused; an earlier call would be held, too. */
static void wait_until_closing(int fd)
{
	while (!(ld_seq(&netpoll_find(fd)->use) & PD_CLOSING) && !ld_seq(&closed))
		gmp_yield();
}

/* The next submitter finds the held completions. */
static void release_completions(void)
{
	int fd = open_file();

	st_seq(&hold_completions, 0);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

static void run_others(void)
{
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_sleep(1000000), 0);
}

/* Not every file system supports this: the tmpfs of Linux 6.1 does not. */
static bool reads_from_memory(int fd)
{
	char c;
	struct iovec io = { &c, 1 };

	return preadv2(fd, &io, 1, 0, RWF_NOWAIT) == 1;
}

/* --- cases --- */

static void use_ring(void *arg)
{
	int fd = open_file(), reads;
	char buf[8] = "";

	(void)arg;
	CHECK_EQ(gmp_pwrite(fd, "abcdef", 6, 0), 6);
	CHECK_EQ(ld_seq(&submitted), 1);
	reads = !reads_from_memory(fd); /* otherwise without any call */
	CHECK_EQ(gmp_pread(fd, buf, 8, 2), 4);
	CHECK(memcmp(buf, "cdef", 4) == 0);
	CHECK_EQ(ld_seq(&submitted), 1 + reads);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(ld_seq(&submitted), 2 + reads);
	/* an offset of -1 is not the current position */
	CHECK_EQ(gmp_pwrite(fd, "x", 1, -1), -EINVAL);
	CHECK_EQ(gmp_close(fd), 0);
	CHECK_EQ(ld_seq(&plain), 0);
}

TEST_PROCS(uring_sync_writes_and_fsync_use_ring)
{
	need_ring();
	run_procs(procs, use_ring, NULL);
}

static void close_while_written(void *arg)
{
	gmp_g *writer, *closer;
	int fd = open_file();

	(void)arg;
	st_seq(&hold_completions, 1);
	CHECK_EQ(gmp_spawn(&writer, write_file, &fd, NULL), 0);
	wait_until_submitted();
	CHECK_EQ(gmp_spawn(&closer, close_file, &fd, NULL), 0);
	wait_until_closing(fd);
	run_others();
	CHECK(!ld_seq(&closed));
	CHECK_EQ(gmp_fsync(fd), -EBADF); /* the fd is closing */
	CHECK_EQ(gmp_cancel(writer), 0); /* has no effect */
	run_others();
	CHECK(!ld_seq(&closed));
	release_completions();
	CHECK_EQ(gmp_join(writer), 0);
	CHECK_EQ(gmp_join(closer), 0);
	CHECK_EQ(result, 3);
}

TEST_PROCS(uring_close_waits_for_pending_call_and_other_gs_run)
{
	need_ring();
	run_procs(procs, close_while_written, NULL);
}

static void only_wait(void *arg)
{
	gmp_g *writer;
	int fd = open_file();

	(void)arg;
	st_seq(&hold_completions, 1);
	CHECK_EQ(gmp_spawn(&writer, write_file, &fd, NULL), 0);
	CHECK_EQ(gmp_join(writer), 0); /* no other G exists: not a deadlock */
	CHECK_EQ(result, 3);
}

static void *release_and_spawn(void *arg)
{
	while (!ld_seq(&submitted))
		os_nap(100000);
	os_nap(100000000);
	st_seq(&hold_completions, 0);
	(void)arg;
	gmp_go(use_ring, NULL);
	return NULL;
}

TEST_PROCS(uring_pending_call_is_not_reported_as_deadlock)
{
	pthread_t t;

	need_ring();
	CHECK_EQ(pthread_create(&t, NULL, release_and_spawn, NULL), 0);
	CHECK_EQ(pthread_detach(t), 0);
	run_procs(procs, only_wait, NULL);
}

static int fd_left, left; /* left (a) */

static void leave_write(void *arg)
{
	(void)arg;
	fd_left = open_file();
	st_seq(&hold_completions, 1);
	CHECK_EQ(gmp_go(write_file, &fd_left), 0);
	wait_until_submitted();
	st_seq(&left, 1);
}

static void *release_after_stop(void *arg)
{
	(void)arg;
	while (!ld_seq(&left) || gmp_procs() > 0)
		os_nap(100000);
	os_nap(20000000);
	st_seq(&left, 0);
	st_seq(&hold_completions, 0);
	return NULL;
}

TEST_PROCS(uring_shutdown_waits_for_pending_call)
{
	pthread_t t;

	need_ring();
	CHECK_EQ(pthread_create(&t, NULL, release_after_stop, NULL), 0);
	run_procs(procs, leave_write, NULL);
	CHECK_EQ(ld_seq(&left), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(close(fd_left), 0);
	run_procs(procs, use_ring, NULL);
}

static void refused(void *arg)
{
	int fd = open_file();

	(void)arg;
	for (int i = 1; i < 30; i++) {
		st_seq(&refuse, i);
		for (int k = 0; k < i; k++)
			CHECK_EQ(gmp_pwrite(fd, "abcdef", 6, k), 6);
		CHECK_EQ(gmp_fsync(fd), 0);
		st_seq(&refuse, 0);
		CHECK_EQ(gmp_fsync(fd), 0);
	}
	CHECK(ld_seq(&plain) > 0);
	CHECK_EQ(gmp_close(fd), 0);
}

TEST_PROCS(uring_refused_submit_falls_back_to_blocking_call)
{
	need_ring();
	run_procs(procs, refused, NULL);
}

static void changed(void *arg)
{
	static const int less[] = { -EAGAIN, -EINTR, -ECANCELED, -EOPNOTSUPP };
	int fd = open_file();

	(void)arg;
	for (int i = 0; i < 4; i++) {
		st_seq(&change_to, less[i]);
		st_seq(&change, 1);
		CHECK_EQ(gmp_pwrite(fd, "abcdef", 6, i), 6);
		CHECK_EQ(ld_seq(&plain), 2 * i + 1);
		st_seq(&change, 1);
		CHECK_EQ(gmp_fsync(fd), 0);
		CHECK_EQ(ld_seq(&plain), 2 * i + 2);
	}
	st_seq(&change_to, -EIO); /* a conclusive result */
	st_seq(&change, 1);
	CHECK_EQ(gmp_fsync(fd), -EIO);
	CHECK_EQ(ld_seq(&plain), 8);
	CHECK_EQ(gmp_close(fd), 0);
}

TEST_PROCS(uring_inconclusive_result_falls_back_to_blocking_call)
{
	need_ring();
	run_procs(procs, changed, NULL);
}

/* The number is closed and reused after the ring has failed, before the G that called runs. */
static void reuse_before_fallback(void *arg)
{
	int fd = open_file();
	char name[] = "/tmp/gmp-unit-XXXXXX";
	int next = mkstemp(name);
	struct polldesc *pd = netpoll_find(fd);
	struct stat st;
	gmp_g *writer;

	(void)arg;
	CHECK(next >= 0);
	CHECK_EQ(unlink(name), 0);
	st_seq(&hold_completions, 1);
	CHECK_EQ(gmp_spawn(&writer, write_file, &fd, NULL), 0);
	wait_until_submitted();
	st_seq(&change_to, -EAGAIN);
	st_seq(&change, 1);
	st_seq(&hold_completions, 0);
	while (netpoll_used(pd)) /* the writer cannot run: nothing preempts this G on the only P */
		sched_poll_now();
	CHECK_EQ(netpoll_shut(pd, &(struct glist){ 0 }), 0); /* as gmp_close, which may switch */
	netpoll_forget(pd);
	CHECK_EQ(dup2(next, fd), fd);
	CHECK_EQ(close(next), 0);
	CHECK_EQ(gmp_fd_adopt(fd), fd);
	CHECK_EQ(gmp_join(writer), 0);
	CHECK_EQ(result, -ECANCELED);
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, 0);
	CHECK_EQ(gmp_close(fd), 0);
}

TEST(uring_fallback_after_reuse_of_number_is_cancelled)
{
	need_ring();
	run_cooperative(1, reuse_before_fallback, NULL);
}

static void use_blocking_calls(void *arg)
{
	int fd = open_file();
	char buf[8] = "";

	(void)arg;
	CHECK_EQ(gmp_pwrite(fd, "abcdef", 6, 0), 6);
	CHECK_EQ(gmp_pread(fd, buf, 8, 2), 4);
	CHECK(memcmp(buf, "cdef", 4) == 0);
	CHECK_EQ(gmp_fsync(fd), 0);
	CHECK_EQ(ld_seq(&plain), 3);
	CHECK_EQ(ld_seq(&submitted), 0);
	CHECK_EQ(gmp_close(fd), 0);
}

/* Refuse io_uring_setup by seccomp, as a container does. */
static void forbid(int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the call's number */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		check_skip("no seccomp here");
}

/* Returns what a run without the ring prints to stderr. */
static void run_and_read_stderr(int procs, char *text, size_t most)
{
	int p[2], err = dup(2);

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(dup2(p[1], 2), 2);
	run_procs(procs, use_blocking_calls, NULL);
	CHECK_EQ(dup2(err, 2), 2);
	CHECK_EQ(close(p[1]), 0);
	ssize_t n = read(p[0], text, most - 1);

	CHECK(n >= 0);
	text[n] = 0;
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(close(err), 0);
}

TEST_PROCS(uring_refused_by_seccomp_falls_back_to_blocking_calls)
{
	char text[256];

	forbid(EPERM);
	CHECK_EQ(setenv("GMP_DEBUG", "uring", 1), 0);
	run_and_read_stderr(procs, text, sizeof(text));
	CHECK_STR(text,
		  "gmp: no io_uring (Operation not permitted): calls on files are blocking code\n");
	CHECK_EQ(unsetenv("GMP_DEBUG"), 0);
	run_and_read_stderr(procs, text, sizeof(text));
	CHECK_STR(text, "");
}

TEST_PROCS(uring_setup_without_fds_falls_back_to_blocking_calls)
{
	need_ring();
	forbid(EMFILE);
	run_procs(procs, use_blocking_calls, NULL);
}

static void setup_without_fds(void *arg)
{
	struct rlimit was, none;
	int lowest = dup(0);

	(void)arg;
	CHECK_EQ(close(lowest), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = (rlim_t)lowest;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK(!uring_on());
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	CHECK(uring_on());
}

TEST(uring_setup_without_fds_is_retried_in_same_run)
{
	need_ring();
	run_procs(1, setup_without_fds, NULL); /* without liburing loaded */
	run_procs(1, setup_without_fds, NULL); /* with liburing loaded */
}

TEST(uring_disabled_by_nouring_uses_blocking_calls)
{
	CHECK_EQ(setenv("GMP_DEBUG", "nouring", 1), 0);
	run_procs(2, use_blocking_calls, NULL);
}
