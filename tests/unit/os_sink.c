/* SPDX-License-Identifier: MIT */
/*
 * Tests of sinks (base/os_sink.c). The wrappers refuse RWF_NOWAIT, as older kernels do, and run a
 * function while a sink asks poll.
 *
 * wrap: pwritev2 ppoll
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

ssize_t __real_pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags);
int __real_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask);

static int refused;               /* errno of pwritev2, if not 0 */
static void (*before_poll)(void); /* called once, by the next ppoll */

ssize_t __wrap_pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	if (!refused)
		return __real_pwritev2(fd, v, n, at, flags);
	errno = refused;
	return -1;
}

int __wrap_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	void (*fn)(void) = before_poll;

	before_poll = NULL;
	if (fn)
		fn();
	return __real_ppoll(p, n, t, mask);
}

enum { SINK_CHUNK = 4096 };

/* Writes until the sink is full; returns the number of bytes. */
static long fill(struct os_sink *s)
{
	static char chunk[SINK_CHUNK];
	long sum = 0;
	int n;

	while ((n = os_sink_write(s, chunk, sizeof(chunk))) >= 0)
		sum += n; /* 0: another thread of the test writes */
	CHECK_EQ(n, -EAGAIN);
	return sum;
}

/* Filling the sink does not block, and reading makes room again. */
static void check_sink(int to, int from)
{
	struct os_sink s;
	char buf[65536];

	CHECK_EQ(os_sink(&s, to), 0);
	CHECK(os_sink_ready(&s, 0));
	CHECK(fill(&s) >= SINK_CHUNK);
	CHECK(!os_sink_ready(&s, 1000000));
	while (!os_sink_ready(&s, 0))
		CHECK(read(from, buf, sizeof(buf)) > 0);
	CHECK(os_sink_write(&s, buf, SINK_CHUNK) > 0);
	close(to);
	close(from);
}

TEST(os_sink_write_to_full_pipe_or_socket_returns_eagain)
{
	int fd[2];

	CHECK_EQ(pipe(fd), 0);
	check_sink(fd[1], fd[0]);
	CHECK_EQ(pipe2(fd, O_NONBLOCK), 0);
	check_sink(fd[1], fd[0]);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	check_sink(fd[1], fd[0]);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	check_sink(fd[1], fd[0]);
}

TEST(os_sink_asked_pipe_is_polled_before_write)
{
	struct os_sink s;
	int fd[2];

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(os_sink(&s, fd[1]), 0);
	s.how = SINK_ASKED;
	CHECK(fill(&s) >= SINK_CHUNK);
	close(fd[0]);
	close(fd[1]);
}

TEST(os_sink_without_rwf_nowait_polls_before_write)
{
	struct os_sink s;
	int fd[2];

	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(os_sink(&s, fd[1]), 0);
	refused = EOPNOTSUPP;
	CHECK(fill(&s) >= SINK_CHUNK);
	CHECK(s.how != SINK_PIPE);
	close(fd[0]);
	close(fd[1]);
}

static void *fill_sink(void *arg)
{
	fill(arg);
	return NULL;
}

/* Each finds room by poll; a second write to the last page would sleep for good. */
TEST(os_sinks_of_one_pipe_without_rwf_nowait_do_not_sleep)
{
	refused = EOPNOTSUPP;
	for (long i = check_scaled(300); i > 0; i--) {
		struct os_sink s[3];
		pthread_t t[3];
		int fd[2];

		CHECK_EQ(pipe(fd), 0);
		for (int k = 0; k < 3; k++) {
			CHECK_EQ(os_sink(&s[k], fd[1]), 0);
			if (s[k].how != SINK_PIPE)
				check_skip("no lock of pipes on this system");
			CHECK_EQ(pthread_create(&t[k], NULL, fill_sink, &s[k]), 0);
		}
		for (int k = 0; k < 3; k++)
			CHECK_EQ(pthread_join(t[k], NULL), 0);
		close(fd[0]);
		close(fd[1]);
	}
}

/* Two pipes without RWF_NOWAIT, and a sink for each. */
static struct two_pipes {
	int a[2], b[2];
	struct os_sink to_a, to_b;
	int result;
	pid_t child;
} two;

static void set_up_two_pipes(void)
{
	refused = EOPNOTSUPP;
	CHECK_EQ(pipe(two.a), 0);
	CHECK_EQ(pipe(two.b), 0);
	CHECK_EQ(os_sink(&two.to_a, two.a[1]), 0);
	CHECK_EQ(os_sink(&two.to_b, two.b[1]), 0);
	CHECK_EQ(os_sink_write(&two.to_a, "x", 1), 1);
	CHECK_EQ(os_sink_write(&two.to_b, "x", 1), 1);
}

static void write_to_b(void)
{
	two.result = os_sink_write(&two.to_b, "x", 1);
}

TEST(os_sink_write_during_write_to_other_pipe_returns_0)
{
	set_up_two_pipes();
	two.result = -1;
	before_poll = write_to_b;
	CHECK_EQ(os_sink_write(&two.to_a, "x", 1), 1);
	CHECK_EQ(two.result, 0);
	CHECK_EQ(os_sink_write(&two.to_b, "x", 1), 1);
}

static void fork_and_write_to_b(void)
{
	two.child = fork();
	if (two.child != 0)
		return;
	os_sinks_forget();
	_exit(os_sink_write(&two.to_b, "x", 1) == 1 ? 0 : 1);
}

TEST(os_sink_of_child_writes_although_parent_was_writing)
{
	int status;

	set_up_two_pipes();
	before_poll = fork_and_write_to_b;
	CHECK_EQ(os_sink_write(&two.to_a, "x", 1), 1);
	CHECK_EQ(waitpid(two.child, &status, 0), two.child);
	CHECK_EQ(status, 0);
}

TEST(os_sink_reports_errno_of_system_call)
{
	struct os_sink s;
	int fd[2], file;

	CHECK_EQ(os_sink(&s, -1), -EBADF);
	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(os_sink(&s, fd[0]), -EBADF);
	close(fd[0]);
	signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(os_sink(&s, fd[1]), 0);
	CHECK(os_sink_ready(&s, 0));
	CHECK_EQ(os_sink_write(&s, "x", 1), -EPIPE);
	close(fd[1]);
	CHECK_EQ(os_sink_write(&s, "x", 1), -EBADF);
	signal(SIGPIPE, SIG_DFL);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	close(fd[0]);
	CHECK_EQ(os_sink(&s, fd[1]), 0);
	CHECK_EQ(os_sink_write(&s, "x", 1), -EPIPE); /* without SIGPIPE */
	close(fd[1]);
	file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(os_sink(&s, file), 0);
	CHECK_EQ(os_sink_write(&s, "x", 1), 1);
	close(file);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(os_sink(&s, file), -EBADF);
	close(file);
}
