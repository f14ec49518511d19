/* SPDX-License-Identifier: MIT */
/* Tests vfork and posix_spawn: what the child changes, and threads that run meanwhile. */
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fds.h"

extern char **environ;

static char *const succeed[] = { "true", NULL };

static int status_of(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* --- vfork --- */

POSIX_TEST(vfork_child_executes_a_program)
{
	for (volatile int i = 0; i < 20; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			execvp(succeed[0], succeed);
			_exit(1);
		}
		CHECK_EQ(status_of(pid), 0);
	}
}

POSIX_TEST(vfork_child_shares_memory_with_its_parent)
{
	volatile int local = 0;
	static volatile int global;

	errno = 1234;
	pid_t pid = vfork();

	if (pid == 0) {
		local = 1;
		global = 2;
		_exit(3);
	}
	CHECK_EQ(errno, 1234);
	CHECK_EQ(local, 1);
	CHECK_EQ(global, 2);
	CHECK_EQ(status_of(pid), 3 << 8);
	global = 0;
}

/* A child of many calls overwrites the stack that its parent has used before. */
static __attribute__((noinline)) void use_stack(volatile char *from)
{
	volatile char room[2000];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = from[0];
}

POSIX_TEST(vfork_child_may_use_the_stack_below_its_parent)
{
	for (volatile int i = 0; i < 3; i++) {
		volatile char c = 'x';
		pid_t pid = vfork();

		if (pid == 0) {
			use_stack(&c);
			_exit(0);
		}
		CHECK_EQ(status_of(pid), 0);
	}
}

static atomic_int told;

static void tell(void *arg)
{
	(void)arg;
	usleep(1000);
	atomic_store(&told, 1);
}

/* The child waits for what another thread of its parent does, so that one must run. */
POSIX_TEST(vfork_holds_no_other_thread)
{
	struct peer p;

	atomic_store(&told, 0);
	peer_start(&p, tell, NULL);
	pid_t pid = vfork();

	if (pid == 0) {
		while (!atomic_load(&told))
			usleep(1000);
		_exit(0);
	}
	CHECK_EQ(status_of(pid), 0);
	peer_join(&p);
}

static int waited[2];

static void read_twice(void *arg)
{
	char c;

	(void)arg;
	for (int i = 0; i < 5; i++)
		CHECK_EQ(read(waited[0], &c, 1), 1);
}

static void close_in_child(int how)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (how == 1)
			close_range(3, UINT32_MAX, 0);
		else if (how == 2)
			closefrom(3);
		for (int i = 3; how == 0 && i < 1024; i++)
			close(i);
		_exit(4);
	}
	CHECK_EQ(status_of(pid), 4 << 8);
}

POSIX_TEST(vfork_child_that_closes_all_ends_no_wait_of_its_parent)
{
	for (int how = 0; how < 3; how++) {
		struct peer p;

		unix_pair(waited);
		peer_start(&p, read_twice, NULL);
		for (int i = 0; i < 5; i++) { /* short waits, then long ones */
			usleep(i < 3 ? 500 : 3000);
			close_in_child(how);
			CHECK_EQ(write(waited[1], "x", 1), 1);
		}
		peer_join(&p);
		close_pair(waited);
	}
}

/* The child closes the number before the first wait for it. */
POSIX_TEST(vfork_child_that_closes_before_the_first_wait_ends_none)
{
	for (int how = 0; how < 3; how++) {
		struct peer p;

		unix_pair(waited);
		peer_start(&p, read_twice, NULL);
		sched_yield();
		close_in_child(how);
		CHECK_EQ(write(waited[1], "12345", 5), 5);
		peer_join(&p);
		close_pair(waited);
	}
}

static atomic_int handled;

static void on_signal(int signo)
{
	(void)signo;
	atomic_fetch_add(&handled, 1);
}

static sigset_t set_of_usr1(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return set;
}

POSIX_TEST(vfork_child_changes_no_mask_and_action_of_its_parent)
{
	sigset_t usr1 = set_of_usr1(), now;

	atomic_store(&handled, 0);
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	pid_t pid = vfork();

	if (pid == 0) {
		sigprocmask(SIG_BLOCK, &usr1, NULL);
		signal(SIGUSR1, SIG_DFL);
		kill(getpid(), SIGUSR1);
		sigprocmask(SIG_UNBLOCK, &usr1, NULL);
		_exit(5);
	}
	int status = status_of(pid);

	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK(!sigismember(&now, SIGUSR1));
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(atomic_load(&handled), 1);
	CHECK(signal(SIGUSR1, SIG_DFL) == on_signal);
}

POSIX_TEST(vfork_child_has_the_mask_of_its_parent)
{
	sigset_t usr1 = set_of_usr1(), now;

	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	pid_t pid = vfork();

	if (pid == 0) {
		sigprocmask(SIG_BLOCK, NULL, &now);
		_exit(sigismember(&now, SIGUSR1));
	}
	CHECK_EQ(status_of(pid), 1 << 8);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
}

/* A thread that blocks SIGUSR1, and handles SIGUSR2, which main blocks: its OS thread gets its
 * mask. */
static void block_and_yield(void *arg)
{
	sigset_t usr1 = set_of_usr1(), usr2;

	(void)arg;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &usr2, NULL), 0);
	while (!atomic_load(&told)) {
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
		sched_yield();
	}
}

/* Does a child that vfork makes block signo? */
static bool child_blocks(int signo)
{
	sigset_t now;
	pid_t pid = vfork();

	if (pid == 0) {
		sigprocmask(SIG_BLOCK, NULL, &now);
		_exit(sigismember(&now, signo));
	}
	return status_of(pid) != 0;
}

static void vfork_beside_another_mask(void *arg)
{
	(void)arg;
	for (int i = 0; i < 50; i++) {
		sched_yield();
		CHECK(!child_blocks(SIGUSR1));
	}
}

POSIX_TEST(vfork_child_has_no_mask_of_another_thread)
{
	sigset_t usr2;
	struct peer p[2];

	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	atomic_store(&told, 0);
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
	peer_start(&p[0], block_and_yield, NULL);
	peer_start(&p[1], vfork_beside_another_mask, NULL);
	peer_join(&p[1]);
	atomic_store(&told, 1);
	peer_join(&p[0]);
}

/* The kernel's mask of the OS thread. */
static uint64_t kernel_mask(void)
{
	uint64_t now = 0;

	CHECK_EQ(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof(now)), 0);
	return now;
}

static void vfork_with_mask(void *arg)
{
	sigset_t usr1 = set_of_usr1();

	(void)arg;
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	for (int i = 0; i < 10; i++)
		CHECK(child_blocks(SIGUSR1));
}

static void check_kernel_mask(void *arg)
{
	(void)arg;
	CHECK(!(kernel_mask() & (UINT64_C(1) << (SIGUSR1 - 1))));
}

POSIX_TEST(vfork_leaves_the_mask_of_the_os_thread)
{
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	for (int i = 0; i < 10; i++) {
		struct peer p;

		peer_start(&p, vfork_with_mask, NULL);
		peer_join(&p);
		peer_start(&p, check_kernel_mask, NULL);
		peer_join(&p);
	}
}

static pid_t vfork_to_exit(int status)
{
	pid_t pid = vfork();

	if (pid == 0)
		_exit(status);
	return pid;
}

static void vfork_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++)
		CHECK_EQ(status_of(vfork_to_exit(i)), i << 8);
}

POSIX_TEST(vfork_in_several_threads_returns_to_each)
{
	struct peer p[4];

	for (int i = 0; i < 4; i++)
		peer_start(&p[i], vfork_often, NULL);
	for (int i = 0; i < 4; i++)
		peer_join(&p[i]);
}

/* --- posix_spawn --- */

POSIX_TEST(posix_spawn_starts_a_program)
{
	static char *const args[] = { "sh", "-c", "exit $CODE", NULL };
	static char *const env[] = { "CODE=6", NULL };
	pid_t pid;

	CHECK_EQ(posix_spawn(&pid, "/bin/sh", NULL, NULL, args, env), 0);
	CHECK_EQ(status_of(pid), 6 << 8);
	CHECK_EQ(posix_spawnp(&pid, "sh", NULL, NULL, args, env), 0);
	CHECK_EQ(status_of(pid), 6 << 8);
}

POSIX_TEST(posix_spawn_of_no_program_returns_the_error)
{
	pid_t pid;

	CHECK_EQ(posix_spawn(&pid, "/nowhere", NULL, NULL, succeed, environ), ENOENT);
	CHECK_EQ(posix_spawnp(&pid, "no-such-program", NULL, NULL, succeed, environ), ENOENT);
	CHECK_EQ(posix_spawn(&pid, "/etc/passwd", NULL, NULL, succeed, environ), EACCES);
}

static char fifo[64];

static void open_fifo(void *arg)
{
	(void)arg;
	usleep(1000);
	int fd = open(fifo, O_WRONLY | O_NONBLOCK);

	while (fd < 0 && errno == ENXIO) { /* the child has not opened it yet */
		usleep(1000);
		fd = open(fifo, O_WRONLY | O_NONBLOCK);
	}
	CHECK(fd >= 0);
	close(fd);
}

/* The call lasts until another thread has opened the FIFO. */
static void spawn_with_fifo(bool search)
{
	posix_spawn_file_actions_t actions;
	struct peer p;
	pid_t pid;

	snprintf(fifo, sizeof(fifo), "/tmp/gmp-spawn-%d", getpid());
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
	CHECK_EQ(posix_spawn_file_actions_addopen(&actions, 0, fifo, O_RDONLY, 0), 0);
	peer_start(&p, open_fifo, NULL);
	CHECK_EQ((search ? posix_spawnp : posix_spawn)(&pid, search ? "true" : "/bin/true",
						       &actions, NULL, succeed, environ),
		 0);
	CHECK_EQ(status_of(pid), 0);
	peer_join(&p);
	CHECK_EQ(posix_spawn_file_actions_destroy(&actions), 0);
	CHECK_EQ(unlink(fifo), 0);
}

POSIX_TEST(posix_spawn_holds_no_other_thread)
{
	spawn_with_fifo(false);
	spawn_with_fifo(true);
}
