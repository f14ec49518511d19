/* SPDX-License-Identifier: MIT */
/* Tests the calls that close many numbers: close_range, closefrom, and close in a loop. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/wait.h>

#include "fds.h"

enum { HIGH = 700, MOST = 1024 };

/* The number n gets a file. */
static void occupy(int n)
{
	int fd = open("/dev/null", O_RDONLY);

	CHECK(fd >= 0);
	if (fd == n)
		return;
	CHECK_EQ(dup2(fd, n), n);
	CHECK_EQ(close(fd), 0);
}

static bool is_open(int n)
{
	return fcntl(n, F_GETFD) >= 0;
}

/* Timers, waits for descriptors and threads work. */
static void answer(void *fd)
{
	usleep(1000);
	CHECK_EQ(write((int)(intptr_t)fd, "x", 1), 1);
}

static void check_waits(void)
{
	char c;
	int s[2];

	unix_pair(s);
	for (int i = 0; i < 4; i++) {
		struct peer p;

		peer_start(&p, answer, (void *)(intptr_t)s[1]);
		CHECK_EQ(read(s[0], &c, 1), 1);
		peer_join(&p);
	}
	close_pair(s);
}

/* --- close_range --- */

POSIX_TEST(close_range_closes_the_numbers)
{
	for (int i = 0; i < 4; i++)
		occupy(HIGH + i);
	errno = 1234;
	CHECK_EQ(close_range(HIGH + 1, HIGH + 2, 0), 0);
	CHECK_EQ(errno, 1234);
	CHECK(is_open(HIGH) && !is_open(HIGH + 1) && !is_open(HIGH + 2) && is_open(HIGH + 3));
	CHECK_EQ(close_range(HIGH, HIGH + 3, 0), 0);
	CHECK(!is_open(HIGH) && !is_open(HIGH + 3));
}

POSIX_TEST(close_range_refuses_a_wrong_range_and_flag)
{
	occupy(HIGH);
	CHECK_ERRNO(close_range(HIGH, HIGH - 1, 0), EINVAL);
	CHECK_ERRNO(close_range(HIGH, HIGH, 0x80), EINVAL);
	CHECK(is_open(HIGH));
}

POSIX_TEST(close_range_with_cloexec_closes_nothing)
{
	occupy(HIGH);
	CHECK_EQ(close_range(HIGH, UINT32_MAX, CLOSE_RANGE_CLOEXEC), 0);
	CHECK_EQ(fcntl(HIGH, F_GETFD), FD_CLOEXEC);
	check_waits();
}

/* --- waits on the numbers --- */

static int waited[2];

static void read_closed(void *arg)
{
	char c;

	(void)arg;
	CHECK_ERRNO(read(waited[0], &c, 1), EBADF);
}

static void close_waited(void *how)
{
	gmp_g *g;

	unix_pair(waited);
	occupy(HIGH);
	CHECK_EQ(dup2(waited[0], HIGH), HIGH);
	CHECK_EQ(close(waited[0]), 0);
	waited[0] = HIGH;
	CHECK_EQ(gmp_spawn(&g, read_closed, NULL, NULL), 0);
	until_waiting(1);
	if (how)
		closefrom(HIGH);
	else
		CHECK_EQ(close_range(HIGH, UINT32_MAX, 0), 0);
	CHECK(!is_open(HIGH));
	int other = open("/dev/null", O_RDONLY); /* the waiter does not read from it */

	CHECK_EQ(fcntl(other, F_DUPFD, HIGH), HIGH);
	CHECK_EQ(close(other), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(close(HIGH), 0);
	check_waits();
}

TEST(close_range_ends_waits_with_ebadf)
{
	run_own(1, 0, close_waited, NULL);
}

TEST(closefrom_ends_waits_with_ebadf)
{
	run_own(1, 0, close_waited, waited);
}

static void wait_known(void *fd)
{
	CHECK_EQ(gmp_fd_wait((int)(intptr_t)fd, GMP_READ, GMP_FOREVER), -ECANCELED);
}

static void close_known(void *how)
{
	gmp_g *g;
	int s[2];

	unix_pair(s);
	CHECK(gmp_fd_adopt(s[0]) >= 0);
	CHECK_EQ(gmp_spawn(&g, wait_known, (void *)(intptr_t)s[0], NULL), 0);
	until_waiting(1);
	if (how)
		closefrom(s[0]);
	else
		CHECK_EQ(close_range((unsigned)s[0], (unsigned)s[0], 0), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(!is_open(s[0]));
}

TEST(close_range_of_an_adopted_fd_is_gmp_close)
{
	run_own(1, 0, close_known, NULL);
}

TEST(closefrom_of_an_adopted_fd_is_gmp_close)
{
	run_own(1, 0, close_known, waited);
}

/* --- closefrom --- */

POSIX_TEST(closefrom_closes_all_numbers_from_one_on)
{
	for (int i = 0; i < 4; i++)
		occupy(HIGH + i);
	occupy(HIGH + 200);
	closefrom(HIGH + 2);
	CHECK(is_open(HIGH) && is_open(HIGH + 1));
	CHECK(!is_open(HIGH + 2) && !is_open(HIGH + 3) && !is_open(HIGH + 200));
	closefrom(HIGH);
	CHECK(!is_open(HIGH));
}

/* --- all numbers --- */

static void close_in_a_loop(void)
{
	for (int i = 3; i < MOST; i++)
		close(i);
}

static void close_by_range(void)
{
	CHECK_EQ(close_range(3, UINT32_MAX, 0), 0);
}

static void close_from_3(void)
{
	closefrom(3);
}

/* A thread waits for a child meanwhile. */
static void wait_for_child(void *pid)
{
	int status;

	CHECK_EQ(waitpid((pid_t)(intptr_t)pid, &status, 0), (pid_t)(intptr_t)pid);
	CHECK_EQ(status, 7 << 8);
}

/* p waits for a child until the pipe has no writer. */
static void begin_wait(struct peer *p, int go[2])
{
	char c;

	CHECK_EQ(pipe(go), 0);
	pid_t pid = fork();

	if (pid == 0) {
		close(go[1]);
		_exit(read(go[0], &c, 1) == 0 ? 7 : 1);
	}
	peer_start(p, wait_for_child, (void *)(intptr_t)pid);
	usleep(2000);
}

static void close_all_by(void (*close_all)(void))
{
	struct peer p;
	int go[2];

	check_waits();
	begin_wait(&p, go);
	occupy(HIGH);
	close_all(); /* the child reads the end */
	peer_join(&p);
	CHECK(!is_open(HIGH) && !is_open(go[0]) && !is_open(go[1]));
	check_waits();
	for (int i = 3; i < 20; i++) { /* also that of the wait for the child */
		occupy(i);
		CHECK_EQ(close(i), 0);
	}
}

POSIX_TEST(close_of_all_numbers_leaves_the_runtime)
{
	close_all_by(close_in_a_loop);
}

POSIX_TEST(close_range_of_all_numbers_leaves_the_runtime)
{
	close_all_by(close_by_range);
}

POSIX_TEST(closefrom_of_all_numbers_leaves_the_runtime)
{
	close_all_by(close_from_3);
}

/* --- the runtime's own --- */

/* The lowest number from `from` on that has such a file, or -1. */
static int find_fd(int from, const char *name)
{
	char path[64], target[64];

	for (int i = from; i < MOST; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		if (n > 0 && strncmp(target, name, strlen(name)) == 0)
			return i;
	}
	return -1;
}

/* Another thread waits for a child. */
POSIX_TEST(fork_child_has_no_descriptor_of_the_runtime)
{
	struct peer p;
	int go[2], status;

	check_waits();
	begin_wait(&p, go);
	pid_t pid = fork();

	if (pid == 0)
		_exit(find_fd(3, "anon_inode:") < 0 ? 0 : 1);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(close(go[0]), 0);
	CHECK_EQ(close(go[1]), 0);
	peer_join(&p);
}

static void close_own(void *arg)
{
	int s[2], own = find_fd(900, "anon_inode:[eventpoll]");

	(void)arg;
	CHECK(own >= 0);
	unix_pair(s);
	CHECK_ERRNO(close(own), EBADF);
	CHECK_ERRNO(dup2(s[0], own), EBUSY);
	CHECK_ERRNO(dup3(s[0], own, O_CLOEXEC), EBUSY);
	CHECK_EQ(dup2(own, own), own);
	CHECK_EQ(close_range((unsigned)own, (unsigned)own, 0), 0);
	CHECK(is_open(own));
	close_pair(s);
	check_waits();
}

TEST(close_of_a_number_of_the_runtime_is_ebadf)
{
	run_own(2, 0, close_own, NULL);
}

static void unshare_table(void *arg)
{
	(void)arg;
	occupy(HIGH);
	CHECK_ERRNO(close_range(HIGH, HIGH, CLOSE_RANGE_UNSHARE), EINVAL);
	CHECK(is_open(HIGH));
}

TEST(close_range_that_unshares_the_table_is_einval)
{
	run_own(1, 0, unshare_table, NULL);
}
