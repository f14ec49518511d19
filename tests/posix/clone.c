/* SPDX-License-Identifier: MIT */
/* Tests children that are made without libc's fork: clone, _Fork, syscall(SYS_clone) and so on. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fds.h"

enum { STACK = 256 * 1024, NAP_US = 3000, CODE = 7 };

static _Alignas(16) char stack[STACK];

/* --- threads of the parent, which must not run in the child --- */

static atomic_int stop, strayed, rounds;

static void run_in_parent(void *parent)
{
	while (!atomic_load(&stop)) {
		if (getpid() != *(pid_t *)parent)
			atomic_fetch_add(&strayed, 1);
		atomic_fetch_add(&rounds, 1);
		usleep(100);
	}
}

struct crowd {
	pid_t parent;
	struct peer p[4];
};

static void crowd_begin(struct crowd *c)
{
	atomic_store(&stop, 0);
	atomic_store(&strayed, 0);
	c->parent = getpid();
	for (int i = 0; i < 4; i++)
		peer_start(&c->p[i], run_in_parent, &c->parent);
}

static void crowd_end(struct crowd *c)
{
	int before = atomic_load(&rounds);

	while (atomic_load(&rounds) < before + 20) /* they run on */
		usleep(100);
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		peer_join(&c->p[i]);
	CHECK_EQ(atomic_load(&strayed), 0);
	CHECK_EQ(getpid(), c->parent);
}

static void check_status(pid_t pid, int code)
{
	int status = 0;

	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, __WALL), pid);
	CHECK_EQ(status, code << 8);
}

/* --- clone --- */

static int global;

/* Sleeps, so that the caller's M would look for another green thread. */
static int nap_and_set(void *to)
{
	usleep(NAP_US);
	*(int *)to = CODE;
	return CODE;
}

static int nap_and_exit(void *arg)
{
	usleep(NAP_US);
	_exit(arg ? CODE : 0);
}

POSIX_TEST(clone_child_with_shared_memory_runs_beside_no_green_thread)
{
	struct crowd c;

	crowd_begin(&c);
	for (int i = 0; i < 5; i++) {
		global = 0;
		check_status(clone(nap_and_set, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD,
				   &global),
			     CODE);
		CHECK_EQ(global, CODE);
		check_status(clone(nap_and_exit, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD,
				   &global),
			     CODE);
	}
	crowd_end(&c);
}

POSIX_TEST(clone_child_beside_its_creator_is_no_green_thread)
{
	struct crowd c;

	crowd_begin(&c);
	for (int i = 0; i < 5; i++) {
		global = 0;
		check_status(clone(nap_and_set, stack + STACK, CLONE_VM | SIGCHLD, &global), CODE);
		CHECK_EQ(global, CODE);
		check_status(clone(nap_and_exit, stack + STACK, CLONE_VM | SIGCHLD, &global), CODE);
	}
	crowd_end(&c);
}

static int set_at_end(void *to)
{
	usleep(NAP_US);
	*(int *)to = gettid();
	return 0;
}

POSIX_TEST(clone_thread_without_a_block_is_no_green_thread)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
	struct crowd c;

	crowd_begin(&c);
	for (int i = 0; i < 5; i++) {
		global = 0;
		int tid = clone(set_at_end, stack + STACK, flags, &global);

		CHECK(tid > 0);
		while (syscall(SYS_tgkill, c.parent, tid, 0) == 0)
			usleep(1000);
		CHECK_EQ(global, tid);
	}
	crowd_end(&c);
}

POSIX_TEST(clone_child_with_its_own_memory_runs_beside_no_green_thread)
{
	struct crowd c;

	crowd_begin(&c);
	for (int i = 0; i < 5; i++) {
		global = 0;
		check_status(clone(nap_and_set, stack + STACK, SIGCHLD, &global), CODE);
		check_status(clone(nap_and_exit, stack + STACK, CLONE_VFORK | SIGCHLD, &global),
			     CODE);
		CHECK_EQ(global, 0);
	}
	crowd_end(&c);
}

static pid_t stored;

POSIX_TEST(clone_child_stores_its_tid)
{
	static const int flags[] = { SIGCHLD, CLONE_VM | SIGCHLD,
				     CLONE_VM | CLONE_VFORK | SIGCHLD };

	for (int i = 0; i < 3; i++) {
		stored = 0;
		pid_t pid = clone(nap_and_exit, stack + STACK, CLONE_CHILD_SETTID | flags[i],
				  &global, NULL, NULL, &stored);

		check_status(pid, CODE);
		CHECK_EQ(stored, flags[i] & CLONE_VM ? pid : 0);
	}
}

POSIX_TEST(clone_without_a_stack_is_einval)
{
	CHECK_ERRNO(clone(nap_and_set, NULL, CLONE_VM | SIGCHLD, &global), EINVAL);
	CHECK_ERRNO(clone(nap_and_set, stack + STACK, CLONE_THREAD | SIGCHLD, &global), EINVAL);
}

static int holds[2];

static void end_wait(void *arg)
{
	(void)arg;
	usleep(NAP_US);
	CHECK_EQ(write(holds[1], "x", 1), 1);
}

static int read_one(void *arg)
{
	char c;

	(void)arg;
	return read(holds[0], &c, 1) == 1 ? CODE : 0;
}

/* The child waits for what another thread of its parent does. */
POSIX_TEST(clone_holds_no_other_thread)
{
	struct peer p;

	unix_pair(holds);
	peer_start(&p, end_wait, NULL);
	check_status(clone(read_one, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), CODE);
	peer_join(&p);
	close_pair(holds);
}

static int mask_of_child(void *arg)
{
	sigset_t now;

	(void)arg;
	sigprocmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, SIGUSR1);
}

POSIX_TEST(clone_child_has_the_mask_of_its_creator)
{
	static const int flags[] = { SIGCHLD, CLONE_VM | SIGCHLD,
				     CLONE_VM | CLONE_VFORK | SIGCHLD };
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
		check_status(clone(mask_of_child, stack + STACK, flags[i], NULL), 1);
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
		check_status(clone(mask_of_child, stack + STACK, flags[i], NULL), 0);
	}
}

/* --- copies by other calls --- */

static void *add_one(void *n)
{
	++*(int *)n;
	return n;
}

/* In the child: it blocks, makes a thread and ends. */
static void live_as_copy(void)
{
	int n = 0;
	pthread_t t;

	usleep(NAP_US);
	if (pthread_create(&t, NULL, add_one, &n) || pthread_join(t, NULL))
		n = 0;
	_exit(n ? CODE : 1);
}

enum how { BY_FORK, BY_CLONE, BY_CLONE3, BY_WAITING_CLONE };

static pid_t copy(enum how how)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	switch (how) {
	case BY_FORK: return _Fork();
	case BY_CLONE: return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case BY_CLONE3: return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	default: return (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	}
}

static void copy_often(enum how how)
{
	struct crowd c;

	crowd_begin(&c);
	for (int i = 0; i < 5; i++) {
		pid_t pid = copy(how);

		if (pid == 0)
			live_as_copy();
		if (pid < 0 && errno == ENOSYS)
			check_skip("no clone3");
		check_status(pid, CODE);
	}
	crowd_end(&c);
}

POSIX_TEST(copy_by_fork_alone_runs_beside_no_green_thread)
{
	copy_often(BY_FORK);
}

POSIX_TEST(copy_by_clone_runs_beside_no_green_thread)
{
	copy_often(BY_CLONE);
}

POSIX_TEST(copy_by_clone3_runs_beside_no_green_thread)
{
	copy_often(BY_CLONE3);
}

POSIX_TEST(copy_by_waiting_clone_runs_beside_no_green_thread)
{
	copy_often(BY_WAITING_CLONE);
}

/* The arguments end at a page that is not mapped, or there are more than the kernel knows. */
POSIX_TEST(clone3_reads_its_size_alone)
{
	enum { PAGES = 2 * 65536, KNOWN = 64, TAIL = 200 };
	static _Alignas(8) char large[2 * 65536];
	struct clone_args *args = (void *)large;
	char *p = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK_EQ(munmap(p + PAGES / 2, PAGES / 2), 0);
	struct clone_args *last = (void *)(p + PAGES / 2 - KNOWN);

	last->exit_signal = args->exit_signal = SIGCHLD;
	if (syscall(SYS_clone3, NULL, (size_t)8) == -1 && errno == ENOSYS)
		check_skip("no clone3");
	CHECK_ERRNO(syscall(SYS_clone3, last, sizeof(*last)), EFAULT);
	CHECK_ERRNO(syscall(SYS_clone3, args, sizeof(large)), E2BIG);
	pid_t pid = (pid_t)syscall(SYS_clone3, last, (size_t)KNOWN);

	if (pid == 0)
		_exit(CODE);
	check_status(pid, CODE);
	pid = (pid_t)syscall(SYS_clone3, args, (size_t)TAIL);
	if (pid == 0)
		_exit(CODE);
	check_status(pid, CODE);
	large[TAIL - 1] = 1;
	CHECK_ERRNO(syscall(SYS_clone3, args, (size_t)TAIL), E2BIG);
	args->flags = CLONE_VM | CLONE_VFORK;
	CHECK_ERRNO(syscall(SYS_clone3, args, (size_t)TAIL), E2BIG);
	CHECK_ERRNO(syscall(SYS_clone3, args, sizeof(large)), E2BIG);
	args->exit_signal = args->flags = 0;
	large[TAIL - 1] = 0;
	CHECK_EQ(munmap(p, PAGES / 2), 0);
}

POSIX_TEST(clone3_with_a_bad_address_is_efault)
{
	CHECK_ERRNO(syscall(SYS_clone3, (void *)16, sizeof(struct clone_args)), EFAULT);
	CHECK_ERRNO(syscall(SYS_clone3, NULL, (size_t)8), EINVAL);
}
